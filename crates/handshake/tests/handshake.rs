//! The handshake between two machines, and a stranger's attacks: cut, flip, reflect, replay, cross, relay,
//! guess.

mod support;

use sidle_handshake::{
    CHALLENGE_BYTES, ClusterSecret, Handshake, HandshakeError, ListenerName, Nonce, OPENING_BYTES,
    PROOF_BYTES,
};
use support::{ADDRESS, nonce, own_names, secret, sent, transcript};

fn dial<'s>(secret: &'s ClusterSecret, seed: u8) -> Handshake<'s> {
    Handshake::dial(secret, ListenerName::of(ADDRESS), nonce(seed))
}

/// Passes bytes as the driver does; returns whether all of them were wanted.
fn give(machine: &mut Handshake<'_>, mut bytes: &[u8]) -> Result<bool, HandshakeError> {
    while !bytes.is_empty() && machine.wanted() > 0 {
        let taken = machine.handle(bytes)?;
        bytes = &bytes[taken..];
    }
    Ok(bytes.is_empty())
}

#[test]
fn both_ends_prove_themselves() {
    let (secret, names) = (secret(1), own_names());
    let mut dialer = dial(&secret, 1);
    let mut listener = Handshake::listen(&secret, &names, nonce(2));
    let opening = sent(&mut dialer);
    assert_eq!(opening.len(), OPENING_BYTES);
    assert!(sent(&mut listener).is_empty(), "the listener does not send first");
    assert!(give(&mut listener, &opening).unwrap());
    let challenge = sent(&mut listener);
    assert_eq!(challenge, nonce(2).0, "only a nonce before the dialer's proof");
    assert_eq!(challenge.len(), CHALLENGE_BYTES);
    assert!(give(&mut dialer, &challenge).unwrap() && !dialer.is_proven());
    let proof = sent(&mut dialer);
    assert_eq!(proof.len(), PROOF_BYTES);
    assert!(give(&mut listener, &proof).unwrap() && listener.is_proven());
    let proof = sent(&mut listener);
    assert!(give(&mut dialer, &proof).unwrap() && dialer.is_proven());
    assert!(sent(&mut dialer).is_empty() && sent(&mut listener).is_empty());
    assert_eq!((dialer.wanted(), listener.wanted()), (0, 0), "the handshake wants no more bytes");
}

#[test]
fn pieces_of_any_size_complete_the_handshake() {
    let (secret, names) = (secret(1), own_names());
    for piece_bytes in 1..=OPENING_BYTES {
        let mut ends = [dial(&secret, 1), Handshake::listen(&secret, &names, nonce(2))];
        for turn in 0..4 {
            let message = sent(&mut ends[turn % 2]);
            for piece in message.chunks(piece_bytes) {
                assert!(give(&mut ends[(turn + 1) % 2], piece).unwrap());
            }
        }
        assert!(ends.iter().all(Handshake::is_proven), "in pieces of {piece_bytes}");
    }
}

#[test]
fn no_byte_after_the_handshake_is_taken() {
    let (secret, names) = (secret(1), own_names());
    let genuine = transcript(&secret, 1, 2);
    let mut listener = Handshake::listen(&secret, &names, nonce(2));
    let mut stream = [genuine.opening.as_slice(), &genuine.dialer_proof, b"frames"].concat();
    while listener.wanted() > 0 {
        let taken = listener.handle(&stream).unwrap();
        stream.drain(..taken);
    }
    assert!(listener.is_proven());
    assert_eq!(stream, b"frames");
    assert_eq!(listener.handle(&stream), Ok(0));
}

#[test]
fn a_cut_message_proves_nothing() {
    let (secret, names) = (secret(1), own_names());
    let genuine = transcript(&secret, 1, 2);
    let to_listener = [genuine.opening.as_slice(), &genuine.dialer_proof].concat();
    for length in 0..to_listener.len() {
        let mut listener = Handshake::listen(&secret, &names, nonce(2));
        give(&mut listener, &to_listener[..length]).unwrap();
        assert!(!listener.is_proven() && listener.wanted() > 0, "after {length} bytes");
        let answer = sent(&mut listener);
        assert_eq!(answer.len(), if length < OPENING_BYTES { 0 } else { CHALLENGE_BYTES });
    }
    let to_dialer = [genuine.challenge.as_slice(), &genuine.listener_proof].concat();
    for length in 0..to_dialer.len() {
        let mut dialer = dial(&secret, 1);
        give(&mut dialer, &to_dialer[..length]).unwrap();
        assert!(!dialer.is_proven() && dialer.wanted() > 0, "after {length} bytes");
    }
}

#[test]
fn one_flipped_bit_fails_the_handshake() {
    let (secret, names) = (secret(1), own_names());
    let genuine = transcript(&secret, 1, 2);
    let to_listener = [genuine.opening.as_slice(), &genuine.dialer_proof].concat();
    for bit in 0..8 * to_listener.len() {
        let mut flipped = to_listener.clone();
        flipped[bit / 8] ^= 1 << (bit % 8);
        let mut listener = Handshake::listen(&secret, &names, nonce(2));
        let error = give(&mut listener, &flipped).unwrap_err();
        assert!(!listener.is_proven() && sent(&mut listener).is_empty(), "bit {bit}");
        let is_as_expected = match bit / 8 {
            0..8 => error == HandshakeError::Foreign,
            8..16 => matches!(error, HandshakeError::UnknownVersion { .. }),
            48..80 => error == HandshakeError::WrongListener,
            _ => error == HandshakeError::WrongProof,
        };
        assert!(is_as_expected, "bit {bit}: {error}");
        assert_eq!(listener.handle(&to_listener), Err(error), "a failed machine stays failed");
    }
    let to_dialer = [genuine.challenge.as_slice(), &genuine.listener_proof].concat();
    for bit in 0..8 * to_dialer.len() {
        let mut flipped = to_dialer.clone();
        flipped[bit / 8] ^= 1 << (bit % 8);
        let mut dialer = dial(&secret, 1);
        assert_eq!(give(&mut dialer, &flipped), Err(HandshakeError::WrongProof), "bit {bit}");
        assert!(!dialer.is_proven());
    }
}

/// A proof of one end is never valid for the other, even with the same nonces.
#[test]
fn reflected_proofs_are_refused() {
    let (secret, names) = (secret(1), own_names());
    // A dialer that gets its own bytes back.
    let mut dialer = dial(&secret, 1);
    let own_opening = sent(&mut dialer);
    give(&mut dialer, &own_opening[..CHALLENGE_BYTES]).unwrap();
    let own_proof = sent(&mut dialer);
    assert_eq!(give(&mut dialer, &own_proof), Err(HandshakeError::WrongProof));
    // A listener whose own challenge comes back as the dialer's nonce, followed by a genuine proof.
    let genuine = transcript(&secret, 1, 2);
    for proof in [genuine.listener_proof, genuine.challenge, [0; PROOF_BYTES]] {
        let mut listener = Handshake::listen(&secret, &names, nonce(2));
        give(&mut listener, &genuine.opening).unwrap();
        assert_eq!(give(&mut listener, &proof), Err(HandshakeError::WrongProof));
    }
    let mut dialer = dial(&secret, 1);
    give(&mut dialer, &genuine.challenge).unwrap();
    assert_eq!(give(&mut dialer, &genuine.dialer_proof), Err(HandshakeError::WrongProof));
}

#[test]
fn replayed_proofs_are_refused() {
    let (secret, names) = (secret(1), own_names());
    let recorded = transcript(&secret, 1, 2);
    let mut listener = Handshake::listen(&secret, &names, nonce(3));
    give(&mut listener, &recorded.opening).unwrap();
    assert_eq!(sent(&mut listener), nonce(3).0);
    assert_eq!(give(&mut listener, &recorded.dialer_proof), Err(HandshakeError::WrongProof));
    let mut dialer = dial(&secret, 4);
    give(&mut dialer, &recorded.challenge).unwrap();
    assert_eq!(give(&mut dialer, &recorded.listener_proof), Err(HandshakeError::WrongProof));
}

#[test]
fn two_crossed_handshakes_both_fail() {
    let (secret, names) = (secret(1), own_names());
    let mut dialers = [dial(&secret, 1), dial(&secret, 2)];
    let mut listeners = [3, 4].map(|seed| Handshake::listen(&secret, &names, nonce(seed)));
    let openings = dialers.each_mut().map(sent);
    let challenges = [0, 1].map(|at| {
        give(&mut listeners[at], &openings[at]).unwrap();
        sent(&mut listeners[at])
    });
    // Each dialer gets the other one's challenge.
    let proofs = [0, 1].map(|at| {
        give(&mut dialers[at], &challenges[1 - at]).unwrap();
        sent(&mut dialers[at])
    });
    for proof in &proofs {
        for seed in [3, 4] {
            let mut listener = Handshake::listen(&secret, &names, nonce(seed));
            give(&mut listener, &openings[usize::from(seed) - 3]).unwrap();
            assert_eq!(give(&mut listener, proof), Err(HandshakeError::WrongProof));
        }
    }
}

/// A relay can pass everything on to a genuine node, but the proof names the address that the dialer wanted.
#[test]
fn a_relay_from_another_address_is_refused() {
    let (secret, names) = (secret(1), own_names());
    let mut dialer = Handshake::dial(&secret, ListenerName::of("10.6.6.6:16379"), nonce(1));
    let opening = sent(&mut dialer);
    let mut listener = Handshake::listen(&secret, &names, nonce(2));
    assert_eq!(give(&mut listener, &opening), Err(HandshakeError::WrongListener));
    assert!(sent(&mut listener).is_empty(), "no reply");
    // With the right name put in, the proof no longer matches.
    let mut altered = opening.clone();
    altered[48..].copy_from_slice(&transcript(&secret, 1, 2).opening[48..]);
    let mut listener = Handshake::listen(&secret, &names, nonce(2));
    give(&mut listener, &altered).unwrap();
    let challenge = sent(&mut listener);
    give(&mut dialer, &challenge).unwrap();
    let proof = sent(&mut dialer);
    assert_eq!(give(&mut listener, &proof), Err(HandshakeError::WrongProof));
}

#[test]
fn another_secret_is_refused_by_either_end() {
    let (right, wrong, names) = (secret(1), secret(2), own_names());
    let mut stranger = dial(&wrong, 1);
    let mut listener = Handshake::listen(&right, &names, nonce(2));
    give(&mut listener, &sent(&mut stranger)).unwrap();
    give(&mut stranger, &sent(&mut listener)).unwrap();
    assert_eq!(give(&mut listener, &sent(&mut stranger)), Err(HandshakeError::WrongProof));
    assert!(sent(&mut listener).is_empty(), "a stranger gets no proof");
    // An impostor that listens accepts any proof, and sends its own.
    let mut dialer = dial(&right, 1);
    let mut impostor = Handshake::listen(&wrong, &names, nonce(2));
    give(&mut impostor, &sent(&mut dialer)).unwrap();
    give(&mut dialer, &sent(&mut impostor)).unwrap();
    let guessed = transcript(&wrong, 1, 2).listener_proof;
    assert_eq!(give(&mut dialer, &guessed), Err(HandshakeError::WrongProof));
    assert!(dialer.has_begun());
}

/// Two ends that both dial, or both listen, never complete.
#[test]
fn two_ends_of_one_role_never_complete() {
    let (secret, names) = (secret(1), own_names());
    let mut dialers = [dial(&secret, 1), dial(&secret, 2)];
    let openings = dialers.each_mut().map(sent);
    for at in [0, 1] {
        give(&mut dialers[at], &openings[1 - at][..CHALLENGE_BYTES]).unwrap();
    }
    let proofs = dialers.each_mut().map(sent);
    for at in [0, 1] {
        assert_eq!(give(&mut dialers[at], &proofs[1 - at]), Err(HandshakeError::WrongProof));
    }
    let mut listeners = [3, 4].map(|seed| Handshake::listen(&secret, &names, nonce(seed)));
    assert!(listeners.iter_mut().all(|listener| sent(listener).is_empty()), "each waits for the other");
}

#[test]
fn foreign_protocols_are_refused_by_their_first_bytes() {
    let (secret, names) = (secret(1), own_names());
    for start in [&b"GET / HTTP/1.1\r\n"[..], b"*1\r\n$4\r\nPING\r\n", b"\x16\x03\x01", b"\0", b"SIDLEbus"] {
        let mut listener = Handshake::listen(&secret, &names, nonce(2));
        assert_eq!(give(&mut listener, start), Err(HandshakeError::Foreign), "{start:?}");
        assert!(sent(&mut listener).is_empty());
    }
    for (at, byte, version, method) in [(8, 2, 2, 1), (9, 2, 1, 2), (12, 1, 1, 1)] {
        let mut opening = transcript(&secret, 1, 2).opening;
        opening[at] = byte;
        let mut listener = Handshake::listen(&secret, &names, nonce(2));
        let refused = Err(HandshakeError::UnknownVersion { version, method });
        assert_eq!(give(&mut listener, &opening), refused);
        assert!(sent(&mut listener).is_empty());
    }
}

#[test]
fn messages_carry_whole_nonces() {
    let genuine = transcript(&secret(1), 1, 2);
    assert_eq!(genuine.opening[16..48], nonce(1).0);
    assert_eq!(genuine.challenge, nonce(2).0);
    assert_ne!(Nonce([0; 32]), nonce(1));
}
