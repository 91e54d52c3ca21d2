//! The routing, tracking and double-read logic of Sidle's client, without input or output.
