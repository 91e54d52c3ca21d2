//! One node: commands, ownership, movers; composition without input or output.
