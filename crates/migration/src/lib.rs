//! Migration protocol state machines, without input or output.
