//! Indices of what a client has: small numbers, which stay the same as long as it lives.

/// A node's index among those that the client knows; it stays as long as the client.
pub(crate) type NodeIndex = u16;

/// A connection's index among all that the client ever made; the connection that replaces a lost one has it
/// too.
pub(crate) type ConnectionIndex = u32;
