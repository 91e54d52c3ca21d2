//! A million strangers from one seed. They send recorded handshakes, altered, cut, doubled and shuffled, or
//! random bytes. None is accepted, none gets more than a nonce, and no memory grows with their input, nor
//! does it after the handshake.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod support;

use sidle_handshake::{CHALLENGE_BYTES, ClusterSecret, Handshake, ListenerName, Nonce};
use sidle_testbed::Random;
use sidle_types::{MigrationId, Position, PositionRange, TabletEpoch};
use sidle_types::{NodeId, ProtocolVersion};
use sidle_wire::{
    FrameFilter, FrameReader, HEADER_BYTES, Hello, Kind, Lane, Message, Pull, Scope, begin_frame, end_frame,
    limits,
};
use support::{ADDRESS, Transcript, own_names, secret, transcript};

const STRANGERS: usize = 1_000_000;
const SEED: u64 = 0x5eed_0000_d00d;

/// The strangers' material: recorded handshakes, those of another secret, and frames of every kind.
struct Loot {
    recorded: Vec<Transcript>,
    frames: Vec<Vec<u8>>,
}

impl Loot {
    fn new(right: &ClusterSecret) -> Loot {
        let of_right = (0..4).map(|seed| transcript(right, seed, seed + 100));
        let recorded = of_right.chain([transcript(&secret(9), 1, 2)]).collect();
        Loot { recorded, frames: frames() }
    }

    fn piece(&self, random: &mut Random) -> Vec<u8> {
        let recorded = &self.recorded[random.index(self.recorded.len())];
        match random.index(8) {
            0 | 1 => recorded.opening.to_vec(),
            2 => recorded.dialer_proof.to_vec(),
            3 => recorded.listener_proof.to_vec(),
            4 => recorded.challenge.to_vec(),
            5 => self.frames[random.index(self.frames.len())].clone(),
            6 => random_bytes(random, 160),
            _ => Vec::new(),
        }
    }

    /// The whole input of one stranger.
    fn stream(&self, random: &mut Random) -> Vec<u8> {
        let mut stream = match random.index(4) {
            // Most start with a valid preamble: the others are refused early.
            0 => Vec::new(),
            _ => self.recorded[random.index(self.recorded.len())].opening.to_vec(),
        };
        for _ in 0..random.index(4) {
            stream.extend(self.piece(random));
        }
        for _ in 0..random.index(3) {
            alter(&mut stream, random);
        }
        stream
    }
}

fn random_bytes(random: &mut Random, most: usize) -> Vec<u8> {
    let count = random.index(most);
    random.bytes(count)
}

/// Flips, sets, cuts, doubles or removes.
fn alter(stream: &mut Vec<u8>, random: &mut Random) {
    if stream.is_empty() {
        return;
    }
    let at = random.index(stream.len());
    match random.index(6) {
        0 | 1 => stream[at] ^= 1 << random.index(8),
        2 => stream[at] = random.draw() as u8,
        3 => stream.truncate(at),
        4 => drop(stream.remove(at)),
        _ => stream.extend_from_within(at..),
    }
}

/// One frame of each kind with random content.
fn frames() -> Vec<Vec<u8>> {
    let scope = Scope { migration: MigrationId(7), epoch: TabletEpoch(3), version: ProtocolVersion::CURRENT };
    let mut frames: Vec<Vec<u8>> = Kind::ALL
        .into_iter()
        .map(|kind| {
            let mut frame = Vec::new();
            let start = begin_frame(&mut frame, kind.version(scope.version), kind);
            frame.extend_from_slice(&[7; 64]);
            end_frame(&mut frame, start).unwrap();
            frame
        })
        .collect();
    let mut frame = |write: &dyn Fn(&mut Vec<u8>)| {
        let mut out = Vec::new();
        write(&mut out);
        frames.push(out);
    };
    frame(&|out| Hello { scope, node: NodeId::from_bytes([1; 20]), lane: Lane::Bulk }.write(out));
    let range = PositionRange::new(Position(0), Position(u64::MAX)).unwrap();
    frame(&|out| {
        Pull { scope, partition: 0, sequence: 1, range, max_bytes: u32::MAX, piece: None }.write(out)
    });
    frame(&|out| Message::write_control(br#"{"to_coordinator":{}}"#, out).unwrap());
    frame(&|out| Message::write_ping(ProtocolVersion::CURRENT, 1, out));
    frames
}

/// Drives a machine as the server does, in pieces; returns what it sent.
fn drive(machine: &mut Handshake<'_>, mut stream: &[u8], random: &mut Random) -> Vec<u8> {
    let mut answers = support::sent(machine);
    while !stream.is_empty() && machine.wanted() > 0 {
        let length = machine.wanted().min(stream.len());
        let length = if random.index(4) == 0 { 1 + random.index(length) } else { length };
        match machine.handle(&stream[..length]) {
            Ok(taken) => stream = &stream[taken..],
            Err(_) => break,
        }
        answers.extend(support::sent(machine));
    }
    answers
}

#[test]
fn no_stranger_gets_in() {
    let (right, names) = (secret(1), own_names());
    let loot = Loot::new(&right);
    let mut random = Random::new(SEED);
    let mut challenged = 0;
    for stranger in 0..STRANGERS {
        let stream = loot.stream(&mut random);
        let own_nonce = Nonce(random.bytes(32).try_into().unwrap());
        if random.index(4) > 0 {
            let mut listener = Handshake::listen(&right, &names, own_nonce);
            let answers = drive(&mut listener, &stream, &mut random);
            assert!(!listener.is_proven(), "stranger {stranger}");
            assert!(answers.is_empty() || answers == own_nonce.0, "stranger {stranger}: {answers:?}");
            challenged += usize::from(answers.len() == CHALLENGE_BYTES);
        } else {
            // A stranger that listens at an address that a node dials.
            let mut dialer = Handshake::dial(&right, ListenerName::of(ADDRESS), own_nonce);
            drive(&mut dialer, &stream, &mut random);
            assert!(!dialer.is_proven(), "stranger {stranger}");
        }
    }
    assert!(challenged > STRANGERS / 8, "only {challenged} reached the challenge");
}

/// After the handshake a reader holds what has arrived and a little more, and refuses frames that do not
/// belong on its connection.
#[test]
fn no_frame_takes_more_than_it_brought() {
    let frames = frames();
    let filters = [
        FrameFilter::OPENING,
        FrameFilter::FROM_NODE,
        FrameFilter::FROM_COORDINATOR,
        FrameFilter::FROM_TARGET,
        FrameFilter::FROM_SOURCE,
    ];
    let mut random = Random::new(SEED);
    let mut taken = 0;
    for round in 0..STRANGERS / 4 {
        let mut stream = Vec::new();
        for _ in 0..=random.index(3) {
            stream.extend_from_slice(&frames[random.index(frames.len())]);
        }
        match random.index(4) {
            // A length without the bytes that it announces.
            0 => stream[..4].copy_from_slice(&(random.draw() as u32).to_le_bytes()),
            1 => alter(&mut stream, &mut random),
            _ => {}
        }
        let filter = filters[random.index(filters.len())];
        let mut reader = FrameReader::filtered(filter);
        let most = stream.len() + stream.len() / 4 + limits::RECEIVE_AHEAD_BYTES;
        for piece in stream.chunks(1 + random.index(stream.len().max(1))) {
            if random.index(64) == 0 {
                reader.receive_buffer();
            }
            reader.push(piece);
            while let Ok(Some(frame)) = reader.next_frame() {
                taken += 1;
                // It parses or refuses, and allocates no more than that.
                let _ = frame.message();
            }
            assert!(
                reader.held_bytes() <= most,
                "round {round}: {} of {}",
                reader.held_bytes(),
                stream.len()
            );
        }
    }
    assert!(taken > 1_000, "only {taken} frames were taken");
    let mut reader = FrameReader::filtered(FrameFilter::FROM_NODE);
    let mut long = Vec::new();
    Message::write_control(&vec![b' '; limits::FROM_NODE_BODY_BYTES_MAX + 1], &mut long).unwrap();
    reader.push(&long[..HEADER_BYTES]);
    assert!(reader.next_frame().is_err(), "by the header alone");
}
