//! Log-structured memory and the per-slot hash index.
