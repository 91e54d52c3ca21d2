//! Tablet map, coordinator and node agent state machines, without input or output.
