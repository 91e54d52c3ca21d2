//! A client's indices: small numbers, constant while it exists.

/// A node's index among the client's nodes, constant while the client exists.
pub(crate) type NodeIndex = u16;

/// A connection's index among all of the client's; the replacement of a lost one keeps it.
pub(crate) type ConnectionIndex = u32;
