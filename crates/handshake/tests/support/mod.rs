//! Two ends in one process, and the messages of a genuine handshake between them.

#![allow(dead_code, unreachable_pub)] // each test program uses a part of it

use sidle_handshake::{
    CHALLENGE_BYTES, ClusterSecret, Handshake, ListenerName, Nonce, OPENING_BYTES, PROOF_BYTES,
};

/// The listener's address.
pub const ADDRESS: &str = "10.0.0.1:16379";

pub fn secret(number: u8) -> ClusterSecret {
    ClusterSecret::from_random(std::array::from_fn(|index| (index as u8).wrapping_mul(7) ^ number))
}

pub fn nonce(number: u8) -> Nonce {
    Nonce(std::array::from_fn(|index| (index as u8).wrapping_mul(11) ^ number))
}

/// The listener's names: one from the cluster's configuration, one from the system.
pub fn own_names() -> [ListenerName; 2] {
    [ADDRESS, "192.168.7.1:16379"].map(ListenerName::of)
}

/// All that a machine has to send now.
pub fn sent(machine: &mut Handshake<'_>) -> Vec<u8> {
    std::iter::from_fn(|| machine.poll_transmit()).flat_map(|message| message.as_ref().to_vec()).collect()
}

/// The messages of a genuine handshake.
pub struct Transcript {
    pub opening: [u8; OPENING_BYTES],
    pub challenge: [u8; CHALLENGE_BYTES],
    pub dialer_proof: [u8; PROOF_BYTES],
    pub listener_proof: [u8; PROOF_BYTES],
}

/// Runs a handshake with these nonces to success.
pub fn transcript(secret: &ClusterSecret, dialer_nonce: u8, listener_nonce: u8) -> Transcript {
    let names = own_names();
    let mut dialer = Handshake::dial(secret, ListenerName::of(ADDRESS), nonce(dialer_nonce));
    let mut listener = Handshake::listen(secret, &names, nonce(listener_nonce));
    let opening = sent(&mut dialer);
    listener.handle(&opening).expect("a right opening");
    let challenge = sent(&mut listener);
    dialer.handle(&challenge).expect("any challenge is valid");
    let dialer_proof = sent(&mut dialer);
    listener.handle(&dialer_proof).expect("a right proof");
    let listener_proof = sent(&mut listener);
    dialer.handle(&listener_proof).expect("a right proof");
    assert!(dialer.is_proven() && listener.is_proven());
    let whole = "each message has its full length";
    Transcript {
        opening: opening.try_into().expect(whole),
        challenge: challenge.try_into().expect(whole),
        dialer_proof: dialer_proof.try_into().expect(whole),
        listener_proof: listener_proof.try_into().expect(whole),
    }
}
