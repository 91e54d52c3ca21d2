//! The handshake that opens every connection between nodes, and the cluster secret that it proves.
//!
//! [`Handshake`] is a pure state machine: the caller supplies nonces, time and sockets. No other byte is sent
//! or parsed before it succeeds.

mod machine;
mod secret;

pub use machine::{
    CHALLENGE_BYTES, Handshake, HandshakeError, ListenerName, MESSAGE_BYTES_MAX, Nonce, OPENING_BYTES,
    Outgoing, PROOF_BYTES,
};
pub use secret::{ClusterSecret, ParseSecretError, SECRET_BYTES, TEXT_BYTES_MAX};
