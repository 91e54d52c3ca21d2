//! The handshake that opens every connection between nodes, and the cluster secret that it proves.
//!
//! [`Handshake`] is a pure machine: nonces are arguments, time and sockets are the driver's. Nothing else is
//! sent or parsed on a connection before it has ended well.

mod machine;
mod secret;

pub use machine::{
    CHALLENGE_BYTES, Handshake, HandshakeError, ListenerName, MESSAGE_BYTES_MAX, Nonce, OPENING_BYTES,
    Outgoing, PROOF_BYTES,
};
pub use secret::{ClusterSecret, ParseSecretError, SECRET_BYTES, TEXT_BYTES_MAX};
