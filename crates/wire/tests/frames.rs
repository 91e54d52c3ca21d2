//! Frames arrive unchanged, or are refused: round trips, truncations, flipped bits, garbage.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use proptest::prelude::*;
use sidle_types::{
    MigrationId, NodeId, Position, PositionRange, ProtocolVersion, Speaks, TabletEpoch, Version,
};
use sidle_wire::{
    AbsentKeys, Activate, CONTROL_VERSION, ChangedPull, CutCounts, CutPull, CutReply, CutState, Forward,
    Frame, FrameFilter, FrameReader, Gives, HEADER_BYTES, Hello, HotHints, Kind, Lane, Message, Piece,
    PriorityPull, PriorityPullReplyStart, Probe, ProbeReply, Pull, PullReplyStart, Refusal, RefusalCode,
    RoundState, SampPull, SampPullReplyStart, Scope, WireError, begin_frame, end_frame, limits,
};

const VERSION: ProtocolVersion = ProtocolVersion::CURRENT;
const SCOPE: Scope = Scope { migration: MigrationId(7), epoch: TabletEpoch(3), version: VERSION };

const ROUND: RoundState = RoundState { number: 1, remaining: 0, is_frozen: false };

/// One message of each kind, owned, so that it can be generated, written and compared.
#[derive(Clone, Debug, PartialEq)]
enum Owned {
    Hello([u8; 20], Lane),
    HelloAck,
    Refuse(RefusalCode, String),
    Activate(u64, u64),
    Activated,
    Pull {
        partition: u8,
        sequence: u64,
        range: PositionRange,
        max_bytes: u32,
        piece: Option<Piece>,
    },
    PullReply {
        partition: u8,
        sequence: u64,
        range: PositionRange,
        more: bool,
        piece: Option<Piece>,
        batch: Vec<u8>,
    },
    SampPull(u64, Vec<u64>),
    SampPullReply(u64, Vec<u8>),
    PriorityPull(u64, Vec<Vec<u8>>, Option<Piece>),
    PriorityPullReply {
        sequence: u64,
        answered: usize,
        absent: Vec<usize>,
        piece: Option<Piece>,
        batch: Vec<u8>,
    },
    ChangedPull {
        sequence: u64,
        max_bytes: u32,
        piece: Option<Piece>,
    },
    ChangedPullReply {
        round: u32,
        remaining: u64,
        is_frozen: bool,
        ranges: Vec<PositionRange>,
        piece: Option<Piece>,
        batch: Vec<u8>,
    },
    Probe(u64, Vec<u64>),
    ProbeReply(u64, u64),
    CutPull {
        sequence: u64,
        cut: u32,
        gives: Gives,
        took_us: u32,
        cursors: Vec<Option<u64>>,
        piece: Option<Piece>,
        taken: Vec<u64>,
    },
    CutReply {
        cut: u32,
        highest_version: u64,
        remaining: u64,
        counts: CutCounts,
        asks: bool,
        ranges: Vec<PositionRange>,
        piece: Option<Piece>,
        batch: Vec<u8>,
    },
    HotHints(Vec<u64>),
    Forward([u8; 20], bool),
    Control(Vec<u8>),
    Ping(u64),
    Pong(u64),
}

impl Owned {
    fn write(&self, scope: Scope, out: &mut Vec<u8>) {
        match self {
            Owned::Hello(node, lane) => {
                Hello { scope, node: NodeId::from_bytes(*node), lane: *lane }.write(out);
            }
            Owned::HelloAck => scope.write_hello_ack(out),
            Owned::Refuse(code, text) => Refusal::write(scope, *code, text, out),
            Owned::Activate(version, records) => {
                Activate { scope, highest_version: Version(*version), records: *records }.write(out);
            }
            Owned::Activated => scope.write_activated(out),
            Owned::Pull { partition, sequence, range, max_bytes, piece } => {
                let (partition, sequence, range, max_bytes) = (*partition, *sequence, *range, *max_bytes);
                Pull { scope, partition, sequence, range, max_bytes, piece: *piece }.write(out);
            }
            Owned::PullReply { partition, sequence, range, more, piece, batch } => {
                let (partition, sequence, range) = (*partition, *sequence, *range);
                let pull = Pull { scope, partition, sequence, range, max_bytes: 1, piece: None };
                let start = PullReplyStart::begin(&pull, out);
                out.extend_from_slice(batch);
                start.finish(more.then_some(range.last()), *piece, out).unwrap();
            }
            Owned::SampPull(sequence, positions) => {
                let positions: Vec<Position> = positions.iter().copied().map(Position).collect();
                SampPull::write(scope, *sequence, &positions, out);
            }
            Owned::SampPullReply(sequence, batch) => {
                let start = SampPullReplyStart::begin(scope, *sequence, out);
                out.extend_from_slice(batch);
                start.finish(out).unwrap();
            }
            Owned::PriorityPull(sequence, keys, piece) => {
                PriorityPull::write(scope, *sequence, keys.iter().map(Vec::as_slice), *piece, out).unwrap();
            }
            Owned::PriorityPullReply { sequence, answered, absent, piece, batch } => {
                let start = PriorityPullReplyStart::begin(scope, *sequence, out);
                out.extend_from_slice(batch);
                let mut set = AbsentKeys::default();
                absent.iter().for_each(|&index| set.insert(index));
                start.finish(*answered, set, *piece, out).unwrap();
            }
            Owned::ChangedPull { sequence, max_bytes, piece } => {
                let (sequence, max_bytes, piece) = (*sequence, *max_bytes, *piece);
                ChangedPull { scope, sequence, max_bytes, piece }.write(out);
            }
            Owned::ChangedPullReply { round, remaining, is_frozen, ranges, piece, batch } => {
                let pull = ChangedPull { scope, sequence: 1, max_bytes: 1, piece: None };
                let (number, remaining, is_frozen) = (*round, *remaining, *is_frozen);
                let round = RoundState { number, remaining, is_frozen };
                pull.write_reply(round, ranges, *piece, batch, out).unwrap();
            }
            Owned::Probe(sequence, positions) => {
                let positions: Vec<Position> = positions.iter().copied().map(Position).collect();
                Probe::write(scope, *sequence, &positions, out);
            }
            Owned::CutPull { sequence, cut, gives, took_us, cursors, piece, taken } => {
                let cursors: Vec<_> = cursors.iter().map(|next| next.map(Position)).collect();
                let taken: Vec<_> = taken.iter().copied().map(Position).collect();
                let (numbers, gives) = ((*sequence, *cut), (*gives, *took_us));
                CutPull::write(scope, numbers, 77, gives, &cursors, *piece, &taken, out);
            }
            Owned::CutReply { cut, highest_version, remaining, counts, asks, ranges, piece, batch } => {
                let highest_version = Version(*highest_version);
                let (cut, remaining, counts, asks) = (*cut, *remaining, *counts, *asks);
                let state = CutState { sequence: 1, cut, highest_version, remaining, counts, asks };
                CutReply::write(scope, state, ranges, *piece, batch, out).unwrap();
            }
            Owned::HotHints(positions) => {
                let positions: Vec<Position> = positions.iter().copied().map(Position).collect();
                HotHints::write(scope, &positions, out);
            }
            Owned::ProbeReply(sequence, found) => {
                ProbeReply { scope, sequence: *sequence, found: *found }.write(out);
            }
            Owned::Forward(node, is_resp3) => {
                Forward { node: NodeId::from_bytes(*node), is_resp3: *is_resp3 }.write(scope.version, out);
            }
            Owned::Control(json) => Message::write_control(json, out).unwrap(),
            Owned::Ping(nonce) => Message::write_ping(scope.version, *nonce, out),
            Owned::Pong(nonce) => Message::write_pong(scope.version, *nonce, out),
        }
    }

    /// The same in a version without pieces.
    fn without_piece(mut self) -> Owned {
        match &mut self {
            Owned::Pull { piece, .. }
            | Owned::PullReply { piece, .. }
            | Owned::PriorityPull(_, _, piece)
            | Owned::PriorityPullReply { piece, .. }
            | Owned::ChangedPull { piece, .. }
            | Owned::CutPull { piece, .. }
            | Owned::CutReply { piece, .. }
            | Owned::ChangedPullReply { piece, .. } => *piece = None,
            _ => {}
        }
        self
    }

    fn of(message: &Message<'_>) -> Owned {
        match *message {
            Message::Hello(hello) => Owned::Hello(*hello.node.as_bytes(), hello.lane),
            Message::HelloAck(_) => Owned::HelloAck,
            Message::Forward(forward) => Owned::Forward(*forward.node.as_bytes(), forward.is_resp3),
            Message::Refuse(refusal) => Owned::Refuse(refusal.code, refusal.text.to_owned()),
            Message::Activate(activate) => Owned::Activate(activate.highest_version.0, activate.records),
            Message::Activated(_) => Owned::Activated,
            Message::Pull(Pull { partition, sequence, range, max_bytes, piece, .. }) => {
                Owned::Pull { partition, sequence, range, max_bytes, piece }
            }
            Message::PullReply(reply) => Owned::PullReply {
                partition: reply.partition,
                sequence: reply.sequence,
                range: PositionRange::new(reply.from, reply.next.unwrap_or(Position::LAST)).unwrap(),
                more: reply.next.is_some(),
                piece: reply.piece,
                batch: reply.batch.to_vec(),
            },
            Message::SampPull(pull) => {
                Owned::SampPull(pull.sequence, pull.positions.iter().map(|position| position.0).collect())
            }
            Message::Probe(probe) => {
                Owned::Probe(probe.sequence, probe.positions.iter().map(|position| position.0).collect())
            }
            Message::CutPull(pull) => Owned::CutPull {
                sequence: pull.sequence,
                cut: pull.cut,
                gives: pull.gives,
                took_us: pull.took_us,
                cursors: pull.cursors.iter().map(|next| next.map(|next| next.0)).collect(),
                piece: pull.piece,
                taken: pull.taken.iter().map(|position| position.0).collect(),
            },
            Message::CutReply(reply) => Owned::CutReply {
                cut: reply.cut,
                highest_version: reply.highest_version.0,
                remaining: reply.remaining,
                counts: reply.counts,
                asks: reply.asks,
                ranges: reply.ranges.iter().collect(),
                piece: reply.piece,
                batch: reply.batch.to_vec(),
            },
            Message::HotHints(hints) => {
                Owned::HotHints(hints.positions.iter().map(|position| position.0).collect())
            }
            Message::ProbeReply(reply) => Owned::ProbeReply(reply.sequence, reply.found),
            Message::SampPullReply(reply) => Owned::SampPullReply(reply.sequence, reply.batch.to_vec()),
            Message::PriorityPull(pull) => {
                assert_eq!(pull.keys.len(), pull.keys.iter().count());
                Owned::PriorityPull(pull.sequence, pull.keys.iter().map(<[u8]>::to_vec).collect(), pull.piece)
            }
            Message::PriorityPullReply(reply) => Owned::PriorityPullReply {
                sequence: reply.sequence,
                answered: reply.answered,
                absent: (0..64).filter(|&index| reply.absent.contains(index)).collect(),
                piece: reply.piece,
                batch: reply.batch.to_vec(),
            },
            Message::ChangedPull(ChangedPull { sequence, max_bytes, piece, .. }) => {
                Owned::ChangedPull { sequence, max_bytes, piece }
            }
            Message::ChangedPullReply(reply) => Owned::ChangedPullReply {
                round: reply.round,
                remaining: reply.remaining,
                is_frozen: reply.is_frozen,
                ranges: reply.ranges.iter().collect(),
                piece: reply.piece,
                batch: reply.batch.to_vec(),
            },
            Message::Control(json) => Owned::Control(json.to_vec()),
            Message::Ping(nonce) => Owned::Ping(nonce),
            Message::Pong(nonce) => Owned::Pong(nonce),
        }
    }
}

fn bytes(most: usize) -> impl Strategy<Value = Vec<u8>> {
    prop::collection::vec(any::<u8>(), 0..=most)
}

fn lane() -> impl Strategy<Value = Lane> {
    prop::sample::select(Lane::ALL.to_vec())
}

fn code() -> impl Strategy<Value = RefusalCode> {
    use RefusalCode::*;
    prop::sample::select(vec![UnknownMigration, StaleScope, WrongNode, NotFrozen, Done, OutOfRange, TooLarge])
}

fn range() -> impl Strategy<Value = PositionRange> {
    any::<[u64; 2]>().prop_map(|mut ends| {
        ends.sort_unstable();
        PositionRange::new(Position(ends[0]), Position(ends[1])).unwrap()
    })
}

/// A piece of the records at a position, with this many bytes in the reply.
fn piece_at(position: Position, bytes: usize) -> impl Strategy<Value = Piece> + use<> {
    let most = (limits::IMAGE_BYTES_MAX - bytes) as u64;
    (0..=Version::FROM_PEER_MAX.0, 0..most, 0..most).prop_map(move |(version, offset, behind)| {
        let offset = offset.min(most - 1 - behind);
        Piece { position, version: Version(version), total: offset + bytes as u64 + behind, offset }
    })
}

/// What is in hand at a position.
fn in_hand(position: Position) -> impl Strategy<Value = Option<Piece>> + use<> {
    let is_some = |piece: &Piece| piece.offset > 0 && piece.offset < piece.total;
    prop::option::of(piece_at(position, 1).prop_filter("some of it", is_some))
}

fn pull() -> impl Strategy<Value = Owned> {
    (any::<u8>(), any::<u64>(), range(), any::<u32>()).prop_flat_map(
        |(partition, sequence, range, max_bytes)| {
            in_hand(range.first()).prop_map(move |piece| Owned::Pull {
                partition,
                sequence,
                range,
                max_bytes,
                piece,
            })
        },
    )
}

fn pull_reply() -> impl Strategy<Value = Owned> {
    (any::<u8>(), any::<u64>(), range(), any::<bool>(), bytes(300)).prop_map(
        |(partition, sequence, range, more, batch)| {
            let more = more && range.first() < range.last();
            let last = if more { range.last() } else { Position::LAST };
            let range = PositionRange::new(range.first(), last).unwrap();
            Owned::PullReply { partition, sequence, range, more, piece: None, batch }
        },
    )
}

/// A reply that holds a piece.
fn piece_reply() -> impl Strategy<Value = Owned> {
    let batch = prop::collection::vec(any::<u8>(), 1..=300);
    let parts = (0..u64::MAX, any::<u8>(), any::<u64>(), 0..4, batch);
    parts.prop_flat_map(|(at, partition, sequence, kind, batch)| {
        let (position, next) = (Position(at), Position(at + 1));
        piece_at(position, batch.len()).prop_map(move |piece| {
            let (piece, batch) = (Some(piece), batch.clone());
            match kind {
                0 => {
                    let range = PositionRange::new(position, next).unwrap();
                    Owned::PullReply { partition, sequence, range, more: true, piece, batch }
                }
                1 => Owned::PriorityPullReply { sequence, answered: 0, absent: vec![], piece, batch },
                2 => {
                    let (ranges, remaining) = (vec![PositionRange::only(position)], sequence);
                    let counts = CutCounts { records: 9, owed: 2 };
                    Owned::CutReply {
                        cut: 1,
                        highest_version: 5,
                        remaining,
                        counts,
                        asks: true,
                        ranges,
                        piece,
                        batch,
                    }
                }
                _ => {
                    let ranges = vec![PositionRange::only(position)];
                    let (round, remaining, is_frozen) = (1, sequence, partition > 9);
                    Owned::ChangedPullReply { round, remaining, is_frozen, ranges, piece, batch }
                }
            }
        })
    })
}

fn priority_pull() -> impl Strategy<Value = Owned> {
    let keys = prop::collection::vec(bytes(40), 0..=limits::PRIORITY_PULL_KEYS_MAX);
    (any::<u64>(), keys, in_hand(Position(7))).prop_map(|(sequence, keys, piece)| {
        let piece = piece.filter(|_| keys.len() == 1);
        Owned::PriorityPull(sequence, keys, piece)
    })
}

fn priority_reply() -> impl Strategy<Value = Owned> {
    (any::<u64>(), 0..=limits::PRIORITY_PULL_KEYS_MAX, any::<u32>(), bytes(300)).prop_map(
        |(sequence, answered, bits, batch)| {
            let absent = (0..answered).filter(|index| bits >> index & 1 == 1).collect();
            Owned::PriorityPullReply { sequence, answered, absent, piece: None, batch }
        },
    )
}

fn changed_reply() -> impl Strategy<Value = Owned> {
    let ends = prop::collection::btree_set(any::<u64>(), 0..=20);
    (any::<u32>(), any::<u64>(), any::<bool>(), ends, bytes(300)).prop_map(
        |(round, remaining, is_frozen, ends, batch)| {
            let ends: Vec<u64> = ends.into_iter().collect();
            let range =
                |ends: &[u64]| PositionRange::new(Position(ends[0]), Position(ends[ends.len() - 1])).unwrap();
            let ranges = ends.chunks(2).map(range).collect();
            Owned::ChangedPullReply { round, remaining, is_frozen, ranges, piece: None, batch }
        },
    )
}

fn cut_pull() -> impl Strategy<Value = Owned> {
    let cursors = prop::collection::vec(prop::option::of(any::<u64>()), 0..=64);
    let taken = prop::collection::vec(any::<u64>(), 0..=50);
    let gives = prop::sample::select(vec![Gives::Named, Gives::All, Gives::AllDiscarded]);
    (any::<u64>(), any::<u32>(), (gives, any::<u32>()), cursors, in_hand(Position(9)), taken).prop_map(
        |(sequence, cut, (gives, took_us), cursors, piece, taken)| Owned::CutPull {
            sequence,
            cut,
            gives,
            took_us,
            cursors,
            piece,
            taken,
        },
    )
}

fn cut_reply() -> impl Strategy<Value = Owned> {
    (any::<u32>(), 0..=Version::FROM_PEER_MAX.0, changed_reply()).prop_map(|(cut, highest_version, like)| {
        let Owned::ChangedPullReply { remaining, ranges, piece, batch, .. } = like else { unreachable!() };
        let counts = CutCounts { records: highest_version, owed: highest_version / 2 };
        Owned::CutReply { cut, highest_version, remaining, counts, asks: cut > 9, ranges, piece, batch }
    })
}

fn message() -> impl Strategy<Value = Owned> {
    prop_oneof![
        cut_pull(),
        cut_reply(),
        (any::<[u8; 20]>(), lane()).prop_map(|(node, lane)| Owned::Hello(node, lane)),
        Just(Owned::HelloAck),
        (code(), "\\PC{0,40}").prop_map(|(code, text)| Owned::Refuse(code, text)),
        (0..=Version::FROM_PEER_MAX.0, any::<u64>())
            .prop_map(|(version, records)| Owned::Activate(version, records)),
        Just(Owned::Activated),
        pull(),
        pull_reply(),
        piece_reply(),
        (any::<u64>(), prop::collection::vec(any::<u64>(), 0..=50)).prop_map(|(s, p)| Owned::SampPull(s, p)),
        (any::<u64>(), bytes(300)).prop_map(|(sequence, batch)| Owned::SampPullReply(sequence, batch)),
        priority_pull(),
        priority_reply(),
        (any::<u64>(), any::<u32>(), in_hand(Position(9)))
            .prop_map(|(sequence, max_bytes, piece)| Owned::ChangedPull { sequence, max_bytes, piece }),
        changed_reply(),
        (any::<u64>(), prop::collection::vec(any::<u64>(), 0..=50)).prop_map(|(s, p)| Owned::Probe(s, p)),
        prop::collection::vec(any::<u64>(), 0..=50).prop_map(Owned::HotHints),
        (any::<u64>(), any::<u64>()).prop_map(|(sequence, found)| Owned::ProbeReply(sequence, found)),
        (any::<[u8; 20]>(), any::<bool>()).prop_map(|(node, is_resp3)| Owned::Forward(node, is_resp3)),
        bytes(300).prop_map(Owned::Control),
        any::<u64>().prop_map(Owned::Ping),
        any::<u64>().prop_map(Owned::Pong),
    ]
}

fn written(message: &Owned) -> Vec<u8> {
    let mut out = Vec::new();
    message.write(SCOPE, &mut out);
    out
}

/// A reader's result for a stream that arrives in pieces of these sizes, up to the first error.
fn read_in_pieces(stream: &[u8], sizes: &[usize]) -> (Vec<Owned>, Option<WireError>) {
    let mut reader = FrameReader::new();
    let mut messages = Vec::new();
    let mut rest = stream;
    let mut sizes = sizes.iter().copied().cycle();
    let mut in_place = false;
    while !rest.is_empty() {
        let (piece, after) = rest.split_at(sizes.next().unwrap_or(1).clamp(1, rest.len()));
        rest = after;
        in_place = !in_place;
        if in_place {
            reader.receive_buffer().extend_from_slice(piece);
        } else {
            reader.push(piece);
        }
        loop {
            match reader.next_frame().and_then(|frame| frame.map(Frame::message).transpose()) {
                Ok(Some(message)) => messages.push(Owned::of(&message)),
                Ok(None) => break,
                Err(error) => return (messages, Some(error)),
            }
        }
    }
    (messages, None)
}

/// A version that this program speaks.
fn version() -> impl Strategy<Value = ProtocolVersion> {
    let Speaks { lowest, highest } = Speaks::THIS_BUILD;
    (lowest.0..=highest.0).prop_map(ProtocolVersion)
}

proptest! {
    #[test]
    fn messages_round_trip_in_every_version_that_is_spoken(message in message(), version in version()) {
        let scope = Scope { version, ..SCOPE };
        let message = if version.has_pieces() { message } else { message.without_piece() };
        let mut stream = Vec::new();
        message.write(scope, &mut stream);
        let mut reader = FrameReader::new();
        reader.push(&stream);
        let frame = reader.next_frame().unwrap().expect("it is whole");
        let is_control = matches!(message, Owned::Control(_));
        prop_assert_eq!(frame.version, if is_control { CONTROL_VERSION } else { version });
        let parsed = frame.message().unwrap();
        prop_assert!(parsed.scope().is_none_or(|read| read == scope), "the scope says the version");
        prop_assert_eq!(Owned::of(&parsed), message);
    }

    #[test]
    fn messages_round_trip_in_any_pieces(
        messages in prop::collection::vec(message(), 0..8),
        sizes in prop::collection::vec(1usize..200, 1..8),
    ) {
        let mut stream = Vec::new();
        messages.iter().for_each(|message| message.write(SCOPE, &mut stream));
        prop_assert_eq!(read_in_pieces(&stream, &sizes), (messages, None));
    }

    #[test]
    fn a_truncated_frame_is_never_a_message(message in message(), cut in any::<prop::sample::Index>()) {
        let stream = written(&message);
        let kept = &stream[..cut.index(stream.len())];
        prop_assert_eq!(read_in_pieces(kept, &[64]), (vec![], None));
    }

    #[test]
    fn a_truncated_body_in_a_right_frame_never_passes_for_the_whole(
        message in message(), cut in any::<prop::sample::Index>(),
    ) {
        let body = &written(&message)[HEADER_BYTES..];
        prop_assume!(!body.is_empty());
        let kind = Kind::ALL.into_iter().find(|&kind| kind as u8 == written(&message)[5]).unwrap();
        let kept = Frame { version: kind.version(VERSION), kind, body: &body[..cut.index(body.len())] };
        if let Ok(parsed) = kept.message() {
            prop_assert_ne!(Owned::of(&parsed), message);
        }
    }

    #[test]
    fn garbage_never_panics(garbage in bytes(400), kind in prop::sample::select(Kind::ALL.to_vec())) {
        read_in_pieces(&garbage, &[7, 64]);
        if let Ok(message) = (Frame { version: kind.version(VERSION), kind, body: &garbage }).message() {
            Owned::of(&message);
            message.scope();
        }
    }

    #[test]
    fn garbage_behind_a_right_header_never_panics(
        garbage in bytes(200), kind in prop::sample::select(Kind::ALL.to_vec()),
    ) {
        let mut stream = Vec::new();
        let start = begin_frame(&mut stream, kind.version(VERSION), kind);
        stream.extend_from_slice(&garbage);
        end_frame(&mut stream, start).unwrap();
        read_in_pieces(&stream, &[64]);
    }
}

#[test]
fn every_single_flipped_bit_is_noticed() {
    let samples = [
        Owned::Hello([9; 20], Lane::Priority),
        Owned::Pull { partition: 1, sequence: 2, range: PositionRange::ALL, max_bytes: 65536, piece: None },
        Owned::PullReply {
            partition: 1,
            sequence: 2,
            range: PositionRange::ALL,
            more: true,
            piece: None,
            batch: (0..100).collect(),
        },
        Owned::PriorityPull(3, vec![b"key".to_vec(), vec![], vec![0; 30]], None),
        Owned::Control(b"{}".to_vec()),
        Owned::HelloAck,
    ];
    for message in &samples {
        let mut stream = written(message);
        let frame_bytes = stream.len();
        // A flip in the length can make the reader wait for bytes that were never sent. More frames follow,
        // as on a real stream, until the frame is complete and its checksum fails.
        stream.resize(frame_bytes + limits::REQUEST_BODY_BYTES_MAX / 256, 0);
        for bit in 0..frame_bytes * 8 {
            stream[bit / 8] ^= 1 << (bit % 8);
            let (messages, error) = read_in_pieces(&stream, &[stream.len()]);
            assert_eq!(messages, [], "bit {bit} of {message:?}");
            let announced = u32::from_le_bytes(stream[..4].try_into().unwrap()) as usize;
            assert!(error.is_some() || announced + HEADER_BYTES > stream.len(), "bit {bit} of {message:?}");
            stream[bit / 8] ^= 1 << (bit % 8);
        }
    }
}

#[test]
fn next_frame_names_the_reason() {
    let good = written(&Owned::Ping(1));
    let damaged = |at: usize, value: u8| {
        let mut stream = good.clone();
        stream[at] = value;
        read_in_pieces(&stream, &[100]).1
    };
    assert_eq!(
        damaged(4, 9),
        Some(WireError::UnknownVersion { found: ProtocolVersion(9), known: Speaks::THIS_BUILD })
    );
    assert_eq!(damaged(5, 99), Some(WireError::UnknownKind(99)));
    assert!(matches!(damaged(3, 255), Some(WireError::Oversized { .. })));
    assert!(matches!(damaged(6, 1), Some(WireError::Malformed { .. })));
    assert!(matches!(damaged(HEADER_BYTES, 77), Some(WireError::BadChecksum { .. })));
}

/// Ranges that a target would discard twice, or out of order, are no reply.
#[test]
fn changed_ranges_are_in_order_and_apart() {
    let range = |first, last| PositionRange::new(Position(first), Position(last)).unwrap();
    let parsed = |ranges: &[PositionRange]| {
        let mut out = Vec::new();
        let pull = ChangedPull { scope: SCOPE, sequence: 1, max_bytes: 1, piece: None };
        pull.write_reply(ROUND, ranges, None, &[], &mut out).unwrap();
        Frame { version: VERSION, kind: Kind::ChangedPullReply, body: &out[HEADER_BYTES..] }.message().is_ok()
    };
    assert!(parsed(&[]) && parsed(&[range(1, 1), range(2, 9), range(11, u64::MAX)]));
    assert!(!parsed(&[range(2, 9), range(9, 10)]));
    assert!(!parsed(&[range(3, 3), range(3, 3)]));
    assert!(!parsed(&[range(5, 5), range(1, 1)]));
}

/// Hints are bounded, and only a source sends them.
#[test]
fn hints_have_a_limit_and_a_direction() {
    let parsed = |positions: usize, more: usize| {
        let mut body = written(&Owned::HotHints(vec![7; limits::HOT_HINTS_MAX])).split_off(HEADER_BYTES);
        body.resize(16 + 8 * positions + more, 0);
        Frame { version: VERSION, kind: Kind::HotHints, body: &body }.message().map(|_| ())
    };
    assert_eq!((parsed(0, 0), parsed(limits::HOT_HINTS_MAX, 0)), (Ok(()), Ok(())));
    for (positions, more) in [(limits::HOT_HINTS_MAX + 1, 0), (3, 7)] {
        let refused = parsed(positions, more);
        assert!(matches!(refused, Err(WireError::Malformed { kind: "HotHints", .. })), "{refused:?}");
    }
    let read = |filter| {
        let mut reader = FrameReader::filtered(filter);
        reader.push(&written(&Owned::HotHints(vec![7])));
        reader.next_frame().map(|frame| frame.is_some())
    };
    assert_eq!(read(FrameFilter::FROM_SOURCE), Ok(true));
    assert_eq!(read(FrameFilter::FROM_TARGET), Err(WireError::Unexpected("HotHints")));
}

/// Pieces that do not fit together are refused before they are joined.
#[test]
fn pieces_that_do_not_fit_are_malformed() {
    let position = Position(5);
    let good = Piece { position, version: Version(3), total: 100, offset: 40 };
    let range = |first| PositionRange::new(first, Position::LAST).unwrap();
    let parsed = |piece: Piece, next: Option<Position>, bytes: usize| {
        let mut out = Vec::new();
        let range = range(position);
        let pull = Pull { scope: SCOPE, partition: 0, sequence: 1, range, max_bytes: 1, piece: None };
        let start = PullReplyStart::begin(&pull, &mut out);
        out.resize(out.len() + bytes, 7);
        start.finish(next, Some(piece), &mut out).unwrap();
        Frame { version: VERSION, kind: Kind::PullReply, body: &out[HEADER_BYTES..] }.message().is_ok()
    };
    let next = position.next();
    assert!(parsed(good, next, 60) && parsed(good, None, 1));
    assert!(!parsed(good, next, 61), "beyond its end");
    assert!(!parsed(good, next, 0), "empty");
    assert!(!parsed(good, Some(Position(9)), 60), "and other positions");
    assert!(!parsed(Piece { offset: 100, ..good }, next, 1));
    assert!(!parsed(Piece { offset: u64::MAX, ..good }, next, 1));
    assert!(!parsed(Piece { total: 0, ..good }, next, 1));
    assert!(!parsed(Piece { position: Position(6), ..good }, next, 1));
    assert!(!parsed(Piece { version: Version(u64::MAX), ..good }, next, 1));
    let asked = |piece: Piece| {
        let mut out = Vec::new();
        let (range, piece) = (range(position), Some(piece));
        Pull { scope: SCOPE, partition: 0, sequence: 1, range, max_bytes: 1, piece }.write(&mut out);
        Frame { version: VERSION, kind: Kind::Pull, body: &out[HEADER_BYTES..] }.message().is_ok()
    };
    assert!(asked(good) && !asked(Piece { offset: 0, ..good }));
    assert!(!asked(Piece { position: Position(6), ..good }));
    let absurd = Piece { total: limits::IMAGE_BYTES_MAX as u64 + 1, ..good };
    assert!(!asked(absurd));
    let pull = ChangedPull { scope: SCOPE, sequence: 1, max_bytes: 1, piece: None };
    let mut out = Vec::new();
    let ranges = [PositionRange::only(position)];
    let written = pull.write_reply(ROUND, &ranges, Some(absurd), &[7; 9], &mut out);
    assert!(matches!(written, Err(WireError::Oversized { .. })));
}

/// A message of each kind that may have a piece, without one.
fn without_pieces() -> [(Owned, usize); 6] {
    let range = PositionRange::new(Position(5), Position(6)).unwrap();
    let (piece, batch) = (None, vec![7; 100]);
    [
        (Owned::Pull { partition: 1, sequence: 2, range, max_bytes: 3, piece }, 48),
        (Owned::PullReply { partition: 1, sequence: 2, range, more: true, piece, batch: batch.clone() }, 148),
        (Owned::PriorityPull(1, vec![b"key".to_vec()], piece), 32 + 7),
        (
            Owned::PriorityPullReply {
                sequence: 1,
                answered: 1,
                absent: vec![],
                piece,
                batch: batch.clone(),
            },
            132,
        ),
        (Owned::ChangedPull { sequence: 1, max_bytes: 2, piece }, 32),
        (
            Owned::ChangedPullReply {
                round: 1,
                remaining: 2,
                is_frozen: true,
                ranges: vec![range],
                piece,
                batch,
            },
            48 + 16 + 100,
        ),
    ]
}

/// As a program without pieces reads and writes them.
#[test]
fn messages_of_version_3_have_no_place_for_a_piece() {
    let body = |version, message: &Owned| {
        let mut out = Vec::new();
        message.write(Scope { version: ProtocolVersion(version), ..SCOPE }, &mut out);
        out.split_off(HEADER_BYTES)
    };
    for (message, bytes) in without_pieces() {
        assert_eq!(body(3, &message).len(), bytes, "{message:?}");
        assert_eq!(body(4, &message).len(), bytes + 32, "{message:?}");
    }
}

#[test]
fn a_pull_of_version_3_with_a_piece_is_malformed() {
    let piece = Some(Piece { position: Position(5), version: Version(3), total: 100, offset: 40 });
    let range = PositionRange::new(Position(5), Position(6)).unwrap();
    for (kind, pull) in [
        (Kind::Pull, Owned::Pull { partition: 1, sequence: 2, range, max_bytes: 3, piece }),
        (Kind::PriorityPull, Owned::PriorityPull(1, vec![b"key".to_vec()], piece)),
        (Kind::ChangedPull, Owned::ChangedPull { sequence: 1, max_bytes: 2, piece }),
    ] {
        for message in [pull.clone(), pull.without_piece()] {
            let written = written(&message);
            let body = &written[HEADER_BYTES..];
            assert!(Frame { version: VERSION, kind, body }.message().is_ok());
            let read = Frame { version: ProtocolVersion(3), kind, body }.message();
            assert!(matches!(read, Err(WireError::Malformed { .. })), "{message:?}");
        }
    }
}

/// Bytes that follow a frame of another protocol are returned unchanged.
#[test]
fn the_rest_is_what_follows_the_last_frame() {
    let forward = Owned::Forward([3; 20], true);
    let mut reader = FrameReader::new();
    reader.push(&written(&forward));
    reader.push(b"PING\r\n");
    assert_eq!(Owned::of(&reader.next_frame().unwrap().unwrap().message().unwrap()), forward);
    assert_eq!(reader.into_rest(), b"PING\r\n");
}

#[test]
fn a_frame_in_a_version_that_is_not_spoken_is_refused_by_its_header() {
    let read = |speaks, bytes: &[u8]| {
        let mut reader = FrameReader::new().speaking(speaks);
        reader.push(bytes);
        reader.next_frame().map(|frame| frame.is_some())
    };
    let (older, whole) = (Speaks::only(ProtocolVersion::PREVIOUS), written(&Owned::Ping(1)));
    let unknown = Err(WireError::UnknownVersion { found: VERSION, known: older });
    assert_eq!(read(older, &whole), unknown);
    assert_eq!(read(older, &whole[..HEADER_BYTES]), unknown, "its body is not waited for");
    assert_eq!(read(Speaks::THIS_BUILD, &whole), Ok(true));
}

/// Nodes report their versions in them.
#[test]
fn control_frames_are_read_by_every_program() {
    for version in [1, 3, 7] {
        let mut reader = FrameReader::new().speaking(Speaks::only(ProtocolVersion(version)));
        reader.push(&written(&Owned::Control(b"{}".to_vec())));
        assert!(matches!(reader.next_frame(), Ok(Some(Frame { kind: Kind::Control, .. }))));
    }
    let mut later = written(&Owned::Control(b"{}".to_vec()));
    later[4] = VERSION.0 as u8;
    let mut reader = FrameReader::new();
    reader.push(&later);
    assert!(matches!(reader.next_frame(), Err(WireError::UnknownVersion { .. })), "in one version only");
}

#[test]
fn next_frame_repeats_its_error() {
    let mut reader = FrameReader::new();
    let mut damaged = written(&Owned::Ping(1));
    damaged[HEADER_BYTES] ^= 1;
    reader.push(&damaged);
    let error = reader.next_frame().unwrap_err();
    reader.push(&written(&Owned::Ping(2)));
    assert_eq!(reader.next_frame().unwrap_err(), error);
}

#[test]
fn receive_buffer_does_not_trust_a_forged_length() {
    let mut reader = FrameReader::new();
    let mut out = Vec::new();
    let start = begin_frame(&mut out, VERSION, Kind::PullReply);
    end_frame(&mut out, start).unwrap();
    out[..4].copy_from_slice(&(limits::BODY_BYTES_MAX as u32).to_le_bytes());
    reader.push(&out);
    assert!(reader.receive_buffer().capacity() <= 2 * limits::RECEIVE_AHEAD_BYTES);
}

#[test]
fn receive_buffer_holds_what_arrived_and_a_quarter_more() {
    let mut frame = written(&Owned::SampPullReply(1, vec![1; 24 << 20]));
    frame.extend(written(&Owned::Ping(1)));
    let mut reader = FrameReader::new();
    let mut arrived = 0;
    while arrived < frame.len() {
        let buffer = reader.receive_buffer();
        let spare = (buffer.capacity() - buffer.len()).min(frame.len() - arrived);
        assert!(spare > 0);
        buffer.extend_from_slice(&frame[arrived..arrived + spare]);
        arrived += spare;
        let most = arrived + (arrived / 4).max(limits::RECEIVE_AHEAD_BYTES);
        assert!(reader.held_bytes() <= most, "{} for {arrived}", reader.held_bytes());
    }
    assert_eq!(reader.next_frame().unwrap().unwrap().kind, Kind::SampPullReply);
    let held = reader.receive_buffer().capacity();
    assert!(held <= limits::RECEIVE_KEEP_BYTES, "{held}, though little is left behind the large frame");
    assert_eq!(reader.next_frame().unwrap().unwrap().kind, Kind::Ping);
}

#[test]
fn a_version_that_leaves_no_room_for_others_is_refused() {
    let read = |version: u64| read_in_pieces(&written(&Owned::Activate(version, 1)), &[64]).1;
    assert_eq!(read(Version::FROM_PEER_MAX.0), None);
    for version in [Version::FROM_PEER_MAX.0 + 1, u64::MAX] {
        assert!(matches!(read(version), Some(WireError::Malformed { .. })));
    }
}

#[test]
fn a_filter_refuses_by_the_header_what_does_not_belong_on_a_connection() {
    let header_of = |frame: &[u8]| frame[..HEADER_BYTES].to_vec();
    let first = |filter: FrameFilter, bytes: &[u8]| {
        let mut reader = FrameReader::filtered(filter);
        reader.push(bytes);
        reader.next_frame().map(|frame| frame.map(|frame| frame.kind))
    };
    let records = written(&Owned::SampPullReply(1, vec![1; 1 << 20]));
    let control = written(&Owned::Control(vec![b' '; limits::FROM_NODE_BODY_BYTES_MAX + 1]));
    let ping = written(&Owned::Ping(1));
    let hello = written(&Owned::Hello([1; 20], Lane::Bulk));
    use FrameFilter as Filter;
    for filter in [Filter::OPENING, Filter::FROM_NODE, Filter::FROM_COORDINATOR, Filter::FROM_TARGET] {
        assert_eq!(first(filter, &header_of(&records)), Err(WireError::Unexpected("SampPullReply")));
    }
    assert_eq!(first(Filter::FROM_SOURCE, &records), Ok(Some(Kind::SampPullReply)));
    assert_eq!(first(Filter::FROM_SOURCE, &control), Err(WireError::Unexpected("Control")));
    for filter in [Filter::OPENING, Filter::FROM_NODE] {
        assert!(matches!(first(filter, &header_of(&control)), Err(WireError::Oversized { .. })));
        assert_eq!(first(filter, &ping), Err(WireError::Unexpected("Ping")));
    }
    assert_eq!(first(Filter::FROM_COORDINATOR, &control), Ok(Some(Kind::Control)));
    assert_eq!(first(Filter::OPENING, &hello), Ok(Some(Kind::Hello)));
    assert_eq!(first(Filter::FROM_NODE, &hello), Err(WireError::Unexpected("Hello")));
    let forward = written(&Owned::Forward([1; 20], true));
    assert_eq!(first(Filter::OPENING, &forward), Ok(Some(Kind::Forward)));
    for filter in [Filter::NONE, Filter::FROM_NODE, Filter::FROM_TARGET, Filter::FROM_SOURCE] {
        assert_eq!(first(filter, &header_of(&forward)), Err(WireError::Unexpected("Forward")));
    }
    let mut reader = FrameReader::filtered(Filter::OPENING);
    reader.push(&[hello, ping].concat());
    assert_eq!(reader.next_frame().unwrap().unwrap().kind, Kind::Hello);
    reader.set_filter(Filter::FROM_TARGET);
    assert_eq!(reader.next_frame().unwrap().unwrap().kind, Kind::Ping);
}

#[test]
fn receive_buffer_is_given_back_after_a_large_frame() {
    let mut reader = FrameReader::new();
    let batch = vec![1; 2 * limits::RECEIVE_KEEP_BYTES];
    reader.push(&written(&Owned::SampPullReply(1, batch)));
    assert!(reader.next_frame().unwrap().is_some());
    assert!(reader.receive_buffer().capacity() <= limits::RECEIVE_KEEP_BYTES);
}

#[test]
fn refusal_text_is_cut_at_a_character() {
    let mut out = Vec::new();
    Refusal::write(SCOPE, RefusalCode::Done, &"\u{e9}".repeat(limits::REFUSAL_TEXT_BYTES_MAX), &mut out);
    let mut reader = FrameReader::new();
    reader.push(&out);
    let frame = reader.next_frame().unwrap().unwrap();
    let Message::Refuse(refusal) = frame.message().unwrap() else { panic!("not a refusal") };
    assert_eq!(refusal.text.len(), limits::REFUSAL_TEXT_BYTES_MAX);
    assert_eq!(frame.message().unwrap().scope(), Some(SCOPE));
}
