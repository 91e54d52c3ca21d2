//! The handshake machine: one for each end of a connection.
//!
//! # Purpose
//! Both ends prove that they know the cluster secret before any other byte is parsed. Whoever connects (the
//! *dialer*) proves first, so a stranger learns from the *listener* nothing but a random number.
//!
//! # Messages
//! All are of fixed length, so the machine's buffer is fixed too and nothing grows with what a stranger
//! sends.
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
//! method say which messages follow: another proof, such as a certificate, is another method behind the same
//! opening.
//!
//! # Invariants
//! 1. A machine is proven only after a right proof of the other end; once failed it stays failed.
//! 2. A listener sends its nonce and nothing else before the dialer's proof was right, and not even that to
//!    whom the opening shows to be foreign: of another protocol or version, or looking for another listener.
//! 3. A proof is right for one role and one pair of nonces only: reflected, replayed and crossed proofs fail.
//! 4. A machine never takes a byte beyond the message under way: what follows the handshake stays in the
//!    stream.
//!
//! # What it does and does not protect from
//! It keeps out everyone without the secret who connects, listens at an address that a node connects to, or
//! stands between two nodes at an address of his own: the proof names the address that the dialer wanted, so
//! a relayed one is refused. It does not hide or sign what follows: whoever can read the traffic between two
//! nodes sees the data, and whoever can alter it in place can alter what follows a genuine handshake. That
//! takes an encrypted network between the nodes. Nor does it tell members apart: the secret proves
//! membership, not which member.
//!
//! # Ownership
//! One per connection, at its driver. Call [`Handshake::poll_transmit`] until it is empty, then
//! [`Handshake::handle`] with at most [`Handshake::wanted`] received bytes, and so on until
//! [`Handshake::is_proven`] or an error. Deadlines are the driver's.

use crate::ClusterSecret;
use hmac::{Hmac, KeyInit, Mac};
use sha2::{Digest, Sha256};
use std::fmt;

/// How long a nonce is.
const NONCE_BYTES: usize = 32;
/// How long a listener's name is.
const NAME_BYTES: usize = 32;

/// How long the dialer's first message is.
pub const OPENING_BYTES: usize = PREAMBLE.len() + NONCE_BYTES + NAME_BYTES;
/// How long the listener's first message is.
pub const CHALLENGE_BYTES: usize = NONCE_BYTES;
/// How long a proof is.
pub const PROOF_BYTES: usize = 32;
/// How long a message is at most.
pub const MESSAGE_BYTES_MAX: usize = OPENING_BYTES;

const MAGIC_BYTES: usize = 8;
const VERSION: u8 = 1;
/// Proof by HMAC-SHA256 under the cluster secret.
const METHOD_CLUSTER_SECRET: u8 = 1;
const PREAMBLE: [u8; 16] = *b"SIDLEBUS\x01\x01\0\0\0\0\0\0";

/// Where version and method stand in the preamble.
const VERSION_AT: usize = MAGIC_BYTES;
const METHOD_AT: usize = VERSION_AT + 1;

const _: () = assert!(PREAMBLE[VERSION_AT] == VERSION && PREAMBLE[METHOD_AT] == METHOD_CLUSTER_SECRET);

/// What every proof is about, so that it can never be taken for one of another protocol.
const PROTOCOL_LABEL: &[u8] = b"sidle bus handshake, version 1, cluster secret\0";
const NAME_LABEL: &[u8] = b"sidle bus listener, version 1\0";

/// A number that is used once: from the operating system's generator, for one handshake.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Nonce(pub [u8; NONCE_BYTES]);

/// The address of a listener, as one number.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct ListenerName([u8; NAME_BYTES]);

impl ListenerName {
    /// The name of the listener at `address` (`host:port`, as the cluster is told it).
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

/// Why a handshake failed. The connection must be closed, without a word.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum HandshakeError {
    /// What came is no opening of a connection between nodes.
    #[error("it does not speak Sidle's protocol between nodes")]
    Foreign,
    /// The opening is of another version, or offers another kind of proof.
    #[error(
        "it opens with version {version}, method {method} of the handshake: run the same release on all nodes"
    )]
    UnknownVersion {
        /// The version.
        version: u8,
        /// The kind of proof.
        method: u8,
    },
    /// The dialer looks for a listener at another address.
    #[error("it looks for another node than this one")]
    WrongListener,
    /// The proof is not one of this secret for this handshake.
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
    /// Both labels have one length, so that what is proven has one layout.
    const fn label(self) -> &'static [u8; 8] {
        match self {
            Role::Dialer => b"dialer\0\0",
            Role::Listener => b"listener",
        }
    }
}

/// What a machine waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    /// The listener: for the opening.
    Opening,
    /// The dialer: for the challenge.
    Challenge,
    /// Either: for the other end's proof.
    Proof(Role),
    /// For nothing more.
    Proven,
    /// For nothing more.
    Failed(HandshakeError),
}

/// A message to be sent.
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
    /// The names that a listener answers to; a dialer needs none.
    own_names: &'s [ListenerName],
    stage: Stage,
    opening: [u8; OPENING_BYTES],
    challenge: [u8; CHALLENGE_BYTES],
    input: [u8; MESSAGE_BYTES_MAX],
    received: usize,
    outgoing: Option<Outgoing>,
}

impl<'s> Handshake<'s> {
    /// The end that connects, and means to reach `listener`.
    pub fn dial(secret: &'s ClusterSecret, listener: ListenerName, nonce: Nonce) -> Handshake<'s> {
        let mut opening = [0; OPENING_BYTES];
        let (preamble, rest) = opening.split_at_mut(PREAMBLE.len());
        preamble.copy_from_slice(&PREAMBLE);
        rest[..NONCE_BYTES].copy_from_slice(&nonce.0);
        rest[NONCE_BYTES..].copy_from_slice(&listener.0);
        let outgoing = Some(Outgoing::new(&opening));
        Handshake { opening, outgoing, ..Handshake::new(secret, &[], Stage::Challenge) }
    }

    /// The end that was connected to, and may be called by any of `own_names`.
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

    /// How many bytes the message under way still lacks; 0 when nothing more is waited for.
    pub fn wanted(&self) -> usize {
        self.message_bytes() - self.received
    }

    /// Whether the other end has proven that it knows the secret, and this one has done its part.
    pub fn is_proven(&self) -> bool {
        self.stage == Stage::Proven
    }

    /// Whether the other end has already shown something that only a node of this version does: its
    /// challenge, or a whole opening.
    pub fn has_begun(&self) -> bool {
        matches!(self.stage, Stage::Proof(_) | Stage::Proven | Stage::Failed(HandshakeError::WrongProof))
    }

    /// Takes in received bytes, at most as many as are wanted; returns how many that were.
    ///
    /// # Errors
    /// As soon as what came cannot be the beginning of what is waited for; every further call returns it
    /// again.
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

    /// Checks as much of the opening as has come, so that a stranger is not waited for.
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
        // In constant time: how much of a wrong proof is right is nobody's business.
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
