//! Operation histories and the linearizability checker.
