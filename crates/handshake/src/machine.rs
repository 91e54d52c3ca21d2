//! The handshake state machine: one for each end of a connection.
//!
//! # Purpose
//! Both ends prove that they know the cluster secret before any other byte is parsed. The connecting end (the
//! *dialer*) proves first, so a stranger learns only a random number from the *listener*.
//!
//! # Messages
//! All messages have a fixed length, so the machine's buffer is fixed, too: a stranger cannot make it grow.
//!
//! | message | from | bytes |
//! |---|---|---|
//! | opening | dialer | `SIDLEBUS` (8), version (1), method (1), zero (6), nonce (32), listener's name (32) |
//! | challenge | listener | nonce (32) |
//! | dialer's proof | dialer | HMAC-SHA256 (32) |
//! | listener's proof | listener | HMAC-SHA256 (32) |
//!
//! A proof is the HMAC, under the secret, of a protocol label, the prover's role, the whole opening and the
//! challenge. The listener's name is the SHA-256 of the address that the dialer wants to reach. Version and
//! method determine the messages that follow. Another kind of proof, such as a certificate, gets its own
//! method number.
//!
//! # Invariants
//! 1. A machine is proven only after a valid proof from the other end. A failed machine stays failed.
//! 2. Before a valid dialer's proof, a listener sends only its nonce. It sends nothing if the opening has
//!    another protocol or version, or names another listener.
//! 3. A proof is valid for one role and one pair of nonces: reflected, replayed and crossed proofs fail.
//! 4. A machine never takes a byte beyond the current message: what follows the handshake stays in the
//!    stream.
//!
//! # Threat model
//! The handshake keeps out every peer without the secret: one that connects, one that listens where a node
//! dials, and one that relays between two nodes from its own address. The proof names the address that the
//! dialer wanted, so a relayed proof is refused. Later bytes are neither encrypted nor signed. An attacker on
//! the path can read the data, or alter it after a genuine handshake: use an encrypted network. The secret
//! proves membership, not which member.
//!
//! # Ownership
//! One per connection, at its driver. Call [`Handshake::poll_transmit`] until it is empty, then
//! [`Handshake::handle`] with at most [`Handshake::wanted`] received bytes, and so on until
//! [`Handshake::is_proven`] or an error. Deadlines are the driver's.

use crate::ClusterSecret;
use hmac::{Hmac, KeyInit, Mac};
use sha2::{Digest, Sha256};
use std::fmt;

const NONCE_BYTES: usize = 32;
const NAME_BYTES: usize = 32;

/// The dialer's first message.
pub const OPENING_BYTES: usize = PREAMBLE.len() + NONCE_BYTES + NAME_BYTES;
/// The listener's first message.
pub const CHALLENGE_BYTES: usize = NONCE_BYTES;
/// A proof of either end.
pub const PROOF_BYTES: usize = 32;
/// The longest message.
pub const MESSAGE_BYTES_MAX: usize = OPENING_BYTES;

const MAGIC_BYTES: usize = 8;
const VERSION: u8 = 1;
/// Proof by HMAC-SHA256 under the cluster secret.
const METHOD_CLUSTER_SECRET: u8 = 1;
const PREAMBLE: [u8; 16] = *b"SIDLEBUS\x01\x01\0\0\0\0\0\0";

const VERSION_AT: usize = MAGIC_BYTES;
const METHOD_AT: usize = VERSION_AT + 1;

const _: () = assert!(PREAMBLE[VERSION_AT] == VERSION && PREAMBLE[METHOD_AT] == METHOD_CLUSTER_SECRET);

/// Binds every proof to this protocol, so that none is valid in another one.
const PROTOCOL_LABEL: &[u8] = b"sidle bus handshake, version 1, cluster secret\0";
const NAME_LABEL: &[u8] = b"sidle bus listener, version 1\0";

/// A number used once, for one handshake, from the operating system's generator.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Nonce(pub [u8; NONCE_BYTES]);

/// The address of a listener, hashed.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct ListenerName([u8; NAME_BYTES]);

impl ListenerName {
    /// The name of the listener at `address` (`host:port`, as the cluster is configured with it).
    pub fn of(address: &str) -> ListenerName {
        let mut hash = Sha256::new();
        hash.update(NAME_LABEL);
        hash.update(address.as_bytes());
        ListenerName(hash.finalize().into())
    }
}

impl fmt::Debug for ListenerName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ListenerName({:02x}{:02x}..)", self.0[0], self.0[1])
    }
}

/// Why a handshake failed. The connection must be closed without a reply.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum HandshakeError {
    /// The bytes are no opening of a connection between nodes.
    #[error("it does not speak Sidle's protocol between nodes")]
    Foreign,
    /// The opening has another version, or offers another kind of proof.
    #[error(
        "it opens with version {version}, method {method} of the handshake: run the same release on all nodes"
    )]
    UnknownVersion {
        /// The version.
        version: u8,
        /// The kind of proof.
        method: u8,
    },
    /// The dialer wants the listener at another address.
    #[error("it looks for another node than this one")]
    WrongListener,
    /// The proof does not match this secret and this handshake.
    #[error("it has another cluster secret")]
    WrongProof,
}

/// Which end proves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Role {
    Dialer,
    Listener,
}

impl Role {
    /// Both labels have one length, so that proofs have one layout.
    const fn label(self) -> &'static [u8; 8] {
        match self {
            Role::Dialer => b"dialer\0\0",
            Role::Listener => b"listener",
        }
    }
}

/// The message that a machine waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    /// The listener waits for the opening.
    Opening,
    /// The dialer waits for the challenge.
    Challenge,
    /// Either waits for the other end's proof.
    Proof(Role),
    Proven,
    Failed(HandshakeError),
}

/// A message to send.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Outgoing {
    bytes: [u8; MESSAGE_BYTES_MAX],
    length: usize,
}

impl Outgoing {
    fn new(message: &[u8]) -> Outgoing {
        let mut bytes = [0; MESSAGE_BYTES_MAX];
        bytes[..message.len()].copy_from_slice(message);
        Outgoing { bytes, length: message.len() }
    }
}

impl AsRef<[u8]> for Outgoing {
    fn as_ref(&self) -> &[u8] {
        &self.bytes[..self.length]
    }
}

impl fmt::Debug for Outgoing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Outgoing({} bytes)", self.length)
    }
}

/// One end of a handshake.
#[derive(Debug)]
pub struct Handshake<'s> {
    secret: &'s ClusterSecret,
    /// The names of a listener; a dialer needs none.
    own_names: &'s [ListenerName],
    stage: Stage,
    opening: [u8; OPENING_BYTES],
    challenge: [u8; CHALLENGE_BYTES],
    input: [u8; MESSAGE_BYTES_MAX],
    received: usize,
    outgoing: Option<Outgoing>,
}

impl<'s> Handshake<'s> {
    /// The connecting end, which wants to reach `listener`.
    pub fn dial(secret: &'s ClusterSecret, listener: ListenerName, nonce: Nonce) -> Handshake<'s> {
        let mut opening = [0; OPENING_BYTES];
        let (preamble, rest) = opening.split_at_mut(PREAMBLE.len());
        preamble.copy_from_slice(&PREAMBLE);
        rest[..NONCE_BYTES].copy_from_slice(&nonce.0);
        rest[NONCE_BYTES..].copy_from_slice(&listener.0);
        let outgoing = Some(Outgoing::new(&opening));
        Handshake { opening, outgoing, ..Handshake::new(secret, &[], Stage::Challenge) }
    }

    /// The accepting end, which may be dialed under any of `own_names`.
    pub fn listen(secret: &'s ClusterSecret, own_names: &'s [ListenerName], nonce: Nonce) -> Handshake<'s> {
        Handshake { challenge: nonce.0, ..Handshake::new(secret, own_names, Stage::Opening) }
    }

    fn new(secret: &'s ClusterSecret, own_names: &'s [ListenerName], stage: Stage) -> Handshake<'s> {
        Handshake {
            secret,
            own_names,
            stage,
            opening: [0; OPENING_BYTES],
            challenge: [0; CHALLENGE_BYTES],
            input: [0; MESSAGE_BYTES_MAX],
            received: 0,
            outgoing: None,
        }
    }

    /// The next message to send.
    pub fn poll_transmit(&mut self) -> Option<Outgoing> {
        self.outgoing.take()
    }

    /// How many bytes the current message still lacks; 0 when none is expected.
    pub fn wanted(&self) -> usize {
        self.message_bytes() - self.received
    }

    /// Whether the other end has proven that it knows the secret, and this end has sent its part.
    pub fn is_proven(&self) -> bool {
        self.stage == Stage::Proven
    }

    /// Whether the other end has sent something that only a node of this version sends: its challenge, or a
    /// whole opening.
    pub fn has_begun(&self) -> bool {
        matches!(self.stage, Stage::Proof(_) | Stage::Proven | Stage::Failed(HandshakeError::WrongProof))
    }

    /// Takes received bytes, at most as many as are wanted; returns how many it took.
    ///
    /// # Errors
    /// As soon as the bytes cannot begin the expected message. Every further call returns the same error.
    pub fn handle(&mut self, bytes: &[u8]) -> Result<usize, HandshakeError> {
        if let Stage::Failed(error) = self.stage {
            return Err(error);
        }
        let taken = bytes.len().min(self.wanted());
        self.input[self.received..self.received + taken].copy_from_slice(&bytes[..taken]);
        self.received += taken;
        let step = match self.stage {
            Stage::Opening => self.opening_grew(),
            _ if self.wanted() > 0 => Ok(()),
            Stage::Challenge => {
                self.challenged();
                Ok(())
            }
            Stage::Proof(prover) => self.proof_came(prover),
            Stage::Proven | Stage::Failed(_) => Ok(()),
        };
        if let Err(error) = step {
            self.stage = Stage::Failed(error);
            self.outgoing = None;
        }
        step.map(|()| taken)
    }

    fn message_bytes(&self) -> usize {
        match self.stage {
            Stage::Opening => OPENING_BYTES,
            Stage::Challenge => CHALLENGE_BYTES,
            Stage::Proof(_) => PROOF_BYTES,
            Stage::Proven | Stage::Failed(_) => self.received,
        }
    }

    fn wait_for(&mut self, stage: Stage) {
        self.stage = stage;
        self.received = 0;
    }

    /// Checks the opening as it arrives, so that a stranger is refused early.
    fn opening_grew(&mut self) -> Result<(), HandshakeError> {
        let input = &self.input[..self.received];
        let differs = |at: usize| input.get(at).is_some_and(|&byte| byte != PREAMBLE[at]);
        if (0..MAGIC_BYTES).any(differs) {
            return Err(HandshakeError::Foreign);
        }
        if (VERSION_AT..PREAMBLE.len()).any(differs) {
            let version = input[VERSION_AT];
            let method = input.get(METHOD_AT).copied().unwrap_or(METHOD_CLUSTER_SECRET);
            return Err(HandshakeError::UnknownVersion { version, method });
        }
        if input.len() < OPENING_BYTES {
            return Ok(());
        }
        self.opening.copy_from_slice(input);
        let name = &self.opening[PREAMBLE.len() + NONCE_BYTES..];
        if !self.own_names.iter().any(|own| own.0 == name) {
            return Err(HandshakeError::WrongListener);
        }
        self.outgoing = Some(Outgoing::new(&self.challenge));
        self.wait_for(Stage::Proof(Role::Dialer));
        Ok(())
    }

    fn challenged(&mut self) {
        self.challenge.copy_from_slice(&self.input[..CHALLENGE_BYTES]);
        self.outgoing = Some(self.proof_of(Role::Dialer));
        self.wait_for(Stage::Proof(Role::Listener));
    }

    fn proof_came(&mut self, prover: Role) -> Result<(), HandshakeError> {
        // In constant time: it must not leak how much of a wrong proof is right.
        let is_right = self.mac(prover).verify_slice(&self.input[..PROOF_BYTES]);
        is_right.map_err(|_| HandshakeError::WrongProof)?;
        if prover == Role::Dialer {
            self.outgoing = Some(self.proof_of(Role::Listener));
        }
        self.wait_for(Stage::Proven);
        Ok(())
    }

    fn proof_of(&self, prover: Role) -> Outgoing {
        let proof: [u8; PROOF_BYTES] = self.mac(prover).finalize().into_bytes().into();
        Outgoing::new(&proof)
    }

    fn mac(&self, prover: Role) -> Hmac<Sha256> {
        let mut mac =
            Hmac::<Sha256>::new_from_slice(self.secret.key()).expect("HMAC takes keys of any length");
        mac.update(PROTOCOL_LABEL);
        mac.update(prover.label());
        mac.update(&self.opening);
        mac.update(&self.challenge);
        mac
    }
}
