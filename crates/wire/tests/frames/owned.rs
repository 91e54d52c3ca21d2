//! Messages that can be generated, written and compared.

use proptest::prelude::*;
use sidle_types::{
    LogId, MigrationId, NodeId, Position, PositionRange, ProtocolVersion, TabletEpoch, Version,
};
use sidle_wire::{
    AbsentKeys, Activate, ChangedPull, CopyHello, CutCounts, CutPull, CutReply, CutState, Forward, Frame,
    FrameReader, Gives, Hello, HotHints, Lane, Message, PatchPiece, Piece, Place, Positions, PriorityPull,
    PriorityPullReplyStart, Probe, ProbeReply, Pull, PullReplyStart, Refusal, RefusalCode, Room, RoundState,
    SampPull, SampPullReplyStart, Scope, Tail, ToBackup, ToWriter, WireError, limits,
};

pub(crate) const VERSION: ProtocolVersion = ProtocolVersion::CURRENT;
pub(crate) const SCOPE: Scope = Scope { migration: MigrationId(7), epoch: TabletEpoch(3), version: VERSION };

pub(crate) const ROUND: RoundState = RoundState { number: 1, remaining: 0, is_frozen: false };

/// One message of each kind, owned, so that it can be generated, written and compared.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Owned {
    Hello([u8; 20], Lane),
    HelloAck,
    Refuse(RefusalCode, String),
    Activate(u64, u64, Vec<u64>, Vec<u8>),
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
        room: Room,
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
    HotHints(Vec<u64>, Vec<u64>),
    Forward([u8; 20], bool),
    CopyHello(CopyHello),
    Append(Place, Vec<u8>),
    /// One of the others: which, and a place.
    Task(usize, Place),
    Answer(ToWriter<'static>),
    CopyBytes(Vec<u8>, bool),
    Control(Vec<u8>),
    Ping(u64),
    Pong(u64),
}

impl Owned {
    pub(crate) fn write(&self, scope: Scope, out: &mut Vec<u8>) {
        match self {
            Owned::Hello(node, lane) => {
                Hello { scope, node: NodeId::from_bytes(*node), lane: *lane }.write(out);
            }
            Owned::HelloAck => scope.write_hello_ack(out),
            Owned::Refuse(code, text) => Refusal::write(scope, *code, text, out),
            Owned::Activate(version, records, unchanged, locks) => {
                let unchanged: Vec<_> = unchanged.iter().map(|&position| Position(position)).collect();
                Activate::write(scope, Version(*version), *records, &unchanged, locks, out).unwrap();
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
            Owned::CutPull { sequence, cut, gives, took_us, room, cursors, piece, taken } => {
                let cursors: Vec<_> = cursors.iter().map(|next| next.map(Position)).collect();
                let taken: Vec<_> = taken.iter().copied().map(Position).collect();
                let (numbers, gives) = ((*sequence, *cut), (*gives, *took_us));
                CutPull::write(scope, numbers, 77, gives, &cursors, *piece, (&taken, *room), out);
            }
            Owned::CutReply { cut, highest_version, remaining, counts, asks, ranges, piece, batch } => {
                let highest_version = Version(*highest_version);
                let (cut, remaining, counts, asks) = (*cut, *remaining, *counts, *asks);
                let owes_all = !asks;
                let state = CutState { sequence: 1, cut, highest_version, remaining, counts, asks, owes_all };
                CutReply::write(scope, state, ranges, *piece, batch, out).unwrap();
            }
            Owned::HotHints(positions, collections) => {
                let named = |positions: &[u64]| positions.iter().copied().map(Position).collect::<Vec<_>>();
                HotHints::write(scope, &named(positions), &named(collections), out);
            }
            Owned::ProbeReply(sequence, found) => {
                ProbeReply { scope, sequence: *sequence, found: *found }.write(out);
            }
            Owned::Forward(node, is_resp3) => {
                Forward { node: NodeId::from_bytes(*node), is_resp3: *is_resp3 }.write(scope.version, out);
            }
            Owned::CopyHello(hello) => hello.write(scope.version, out),
            Owned::Append(at, bytes) => {
                ToBackup::Append { at: *at, bytes }.write(scope.version, out).unwrap();
            }
            Owned::Task(which, place) => task(*which, *place).write(scope.version, out).unwrap(),
            Owned::Answer(answer) => answer.write(scope.version, out).unwrap(),
            Owned::CopyBytes(bytes, ends_file) => {
                ToWriter::Bytes { bytes, ends_file: *ends_file }.write(scope.version, out).unwrap();
            }
            Owned::Control(json) => Message::write_control(json, out).unwrap(),
            Owned::Ping(nonce) => Message::write_ping(scope.version, *nonce, out),
            Owned::Pong(nonce) => Message::write_pong(scope.version, *nonce, out),
        }
    }

    /// The same in a version without pieces and copies of hot positions.
    pub(crate) fn of_version_3(mut self) -> Owned {
        match &mut self {
            Owned::Pull { piece, .. }
            | Owned::PullReply { piece, .. }
            | Owned::PriorityPull(_, _, piece)
            | Owned::PriorityPullReply { piece, .. }
            | Owned::ChangedPull { piece, .. }
            | Owned::CutPull { piece, .. }
            | Owned::CutReply { piece, .. }
            | Owned::ChangedPullReply { piece, .. } => *piece = None,
            Owned::Activate(_, _, unchanged, locks) => (unchanged.clear(), locks.clear()).0,
            _ => {}
        }
        self
    }

    pub(crate) fn of(message: &Message<'_>) -> Owned {
        match *message {
            Message::Hello(hello) => Owned::Hello(*hello.node.as_bytes(), hello.lane),
            Message::HelloAck(_) => Owned::HelloAck,
            Message::Forward(forward) => Owned::Forward(*forward.node.as_bytes(), forward.is_resp3),
            Message::CopyHello(hello) => Owned::CopyHello(hello),
            Message::ToBackup(ToBackup::Append { at, bytes }) => Owned::Append(at, bytes.to_vec()),
            Message::ToBackup(ToBackup::Restart) => Owned::Task(0, Place::default()),
            Message::ToBackup(ToBackup::Forget { first }) => Owned::Task(1, Place { file: first, at: 0 }),
            Message::ToBackup(ToBackup::Epoch(epoch)) => Owned::Task(2, Place { file: epoch, at: 0 }),
            Message::ToBackup(ToBackup::Read(place)) => Owned::Task(3, place),
            Message::ToBackup(ToBackup::Beat(number)) => Owned::Task(4, Place { file: number, at: 0 }),
            Message::ToWriter(ToWriter::Bytes { bytes, ends_file }) => {
                Owned::CopyBytes(bytes.to_vec(), ends_file)
            }
            Message::ToWriter(ToWriter::Has { incarnation, tail, synced }) => {
                Owned::Answer(ToWriter::Has { incarnation, tail, synced })
            }
            Message::ToWriter(ToWriter::Holds { written, synced }) => {
                Owned::Answer(ToWriter::Holds { written, synced })
            }
            Message::ToWriter(ToWriter::Fenced { incarnation, first, tail, promised_us }) => {
                Owned::Answer(ToWriter::Fenced { incarnation, first, tail, promised_us })
            }
            Message::ToWriter(ToWriter::Deposed(epoch)) => Owned::Answer(ToWriter::Deposed(epoch)),
            Message::ToWriter(ToWriter::Promises(number)) => Owned::Answer(ToWriter::Promises(number)),
            Message::ToWriter(ToWriter::Size(bytes)) => Owned::Answer(ToWriter::Size(bytes)),
            Message::Refuse(refusal) => Owned::Refuse(refusal.code, refusal.text.to_owned()),
            Message::Activate(activate) => Owned::Activate(
                activate.highest_version.0,
                activate.records,
                activate.unchanged.iter().map(|position| position.0).collect(),
                activate.locks.to_vec(),
            ),
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
                room: pull.room,
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
                let named = |positions: Positions<'_>| positions.iter().map(|position| position.0).collect();
                Owned::HotHints(named(hints.positions), named(hints.collections))
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

pub(crate) fn bytes(most: usize) -> impl Strategy<Value = Vec<u8>> {
    prop::collection::vec(any::<u8>(), 0..=most)
}

pub(crate) fn lane() -> impl Strategy<Value = Lane> {
    prop::sample::select(Lane::ALL.to_vec())
}

pub(crate) fn code() -> impl Strategy<Value = RefusalCode> {
    use RefusalCode::*;
    prop::sample::select(vec![UnknownMigration, StaleScope, WrongNode, NotFrozen, Done, OutOfRange, TooLarge])
}

pub(crate) fn range() -> impl Strategy<Value = PositionRange> {
    any::<[u64; 2]>().prop_map(|mut ends| {
        ends.sort_unstable();
        PositionRange::new(Position(ends[0]), Position(ends[1])).unwrap()
    })
}

fn patch() -> impl Strategy<Value = PatchPiece> {
    let since = 0..=Version::FROM_PEER_MAX.0;
    (any::<u64>(), since, 0..2u8, any::<u64>()).prop_map(|(collection, since, order, label)| PatchPiece {
        collection,
        since: Version(since),
        order,
        label,
    })
}

/// A piece of the records at a position, with this many bytes in the reply.
pub(crate) fn piece_at(position: Position, bytes: usize) -> impl Strategy<Value = Piece> + use<> {
    let most = (limits::IMAGE_BYTES_MAX - bytes) as u64;
    (0..=Version::FROM_PEER_MAX.0, 0..most, 0..most, prop::option::of(patch())).prop_map(
        move |(version, offset, behind, patch)| {
            let offset = offset.min(most - 1 - behind);
            let patch = patch.map(|patch| PatchPiece { since: patch.since.min(Version(version)), ..patch });
            Piece {
                position,
                version: Version(version),
                total: offset + bytes as u64 + behind,
                offset,
                patch,
            }
        },
    )
}

/// What is in hand at a position.
pub(crate) fn in_hand(position: Position) -> impl Strategy<Value = Option<Piece>> + use<> {
    let is_some = |piece: &Piece| piece.offset > 0 && piece.offset < piece.total;
    prop::option::of(piece_at(position, 1).prop_filter("some of it", is_some))
}

pub(crate) fn pull() -> impl Strategy<Value = Owned> {
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

pub(crate) fn pull_reply() -> impl Strategy<Value = Owned> {
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
pub(crate) fn piece_reply() -> impl Strategy<Value = Owned> {
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

pub(crate) fn priority_pull() -> impl Strategy<Value = Owned> {
    let keys = prop::collection::vec(bytes(40), 0..=limits::PRIORITY_PULL_KEYS_MAX);
    (any::<u64>(), keys, in_hand(Position(7))).prop_map(|(sequence, keys, piece)| {
        let piece = piece.filter(|_| keys.len() == 1);
        Owned::PriorityPull(sequence, keys, piece)
    })
}

pub(crate) fn priority_reply() -> impl Strategy<Value = Owned> {
    (any::<u64>(), 0..=limits::PRIORITY_PULL_KEYS_MAX, any::<u32>(), bytes(300)).prop_map(
        |(sequence, answered, bits, batch)| {
            let absent = (0..answered).filter(|index| bits >> index & 1 == 1).collect();
            Owned::PriorityPullReply { sequence, answered, absent, piece: None, batch }
        },
    )
}

pub(crate) fn changed_reply() -> impl Strategy<Value = Owned> {
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

pub(crate) fn cut_pull() -> impl Strategy<Value = Owned> {
    let cursors = prop::collection::vec(prop::option::of(any::<u64>()), 0..=64);
    let taken = prop::collection::vec(any::<u64>(), 0..=50);
    let gives = prop::sample::select(vec![Gives::Named, Gives::All, Gives::AllOwed]);
    let room = any::<u64>().prop_map(|bytes| Room::of(bytes >> 30));
    (any::<u64>(), any::<u32>(), (gives, any::<u32>(), room), cursors, in_hand(Position(9)), taken).prop_map(
        |(sequence, cut, (gives, took_us, room), cursors, piece, taken)| Owned::CutPull {
            sequence,
            cut,
            gives,
            took_us,
            room,
            cursors,
            piece,
            taken,
        },
    )
}

pub(crate) fn cut_reply() -> impl Strategy<Value = Owned> {
    (any::<u32>(), 0..=Version::FROM_PEER_MAX.0, changed_reply()).prop_map(|(cut, highest_version, like)| {
        let Owned::ChangedPullReply { remaining, ranges, piece, batch, .. } = like else { unreachable!() };
        let counts = CutCounts { records: highest_version, owed: highest_version / 2 };
        Owned::CutReply { cut, highest_version, remaining, counts, asks: cut > 9, ranges, piece, batch }
    })
}

/// A task without bytes.
fn task(which: usize, place: Place) -> ToBackup<'static> {
    match which {
        0 => ToBackup::Restart,
        1 => ToBackup::Forget { first: place.file },
        2 => ToBackup::Epoch(place.file),
        3 => ToBackup::Read(place),
        _ => ToBackup::Beat(place.file),
    }
}

fn place() -> impl Strategy<Value = Place> {
    (any::<u64>(), 0..1u64 << 40).prop_map(|(file, at)| Place { file, at })
}

pub(crate) fn copies() -> impl Strategy<Value = Owned> {
    let tail = || (place(), any::<u32>()).prop_map(|(end, check)| Tail { end, check });
    prop_oneof![
        (any::<[u8; 16]>(), any::<u64>(), any::<[u8; 20]>(), any::<u64>(), any::<[bool; 2]>()).prop_map(
            |(log, epoch, node, incarnation, [syncs, reads])| {
                let (log, node) = (LogId(log), NodeId::from_bytes(node));
                Owned::CopyHello(CopyHello { log, epoch, node, incarnation, syncs, reads })
            }
        ),
        (place(), prop::collection::vec(any::<u8>(), 1..300))
            .prop_map(|(at, bytes)| Owned::Append(at, bytes)),
        Just(Owned::Task(0, Place::default())),
        (1..3usize, any::<u64>()).prop_map(|(which, file)| Owned::Task(which, Place { file, at: 0 })),
        place().prop_map(|place| Owned::Task(3, place)),
        any::<u64>().prop_map(|number| Owned::Task(4, Place { file: number, at: 0 })),
        (any::<u64>(), prop::option::of(tail()), place()).prop_map(|(incarnation, tail, synced)| {
            Owned::Answer(ToWriter::Has { incarnation, tail, synced })
        }),
        (any::<u64>(), any::<u64>(), tail(), 0..1u64 << 40).prop_map(
            |(incarnation, first, tail, promised_us)| {
                Owned::Answer(ToWriter::Fenced { incarnation, first, tail, promised_us })
            }
        ),
        (place(), place()).prop_map(|(written, synced)| Owned::Answer(ToWriter::Holds { written, synced })),
        any::<u64>().prop_map(|epoch| Owned::Answer(ToWriter::Deposed(epoch))),
        any::<u64>().prop_map(|number| Owned::Answer(ToWriter::Promises(number))),
        any::<u64>().prop_map(|bytes| Owned::Answer(ToWriter::Size(bytes))),
        (bytes(300), any::<bool>()).prop_map(|(bytes, ends_file)| Owned::CopyBytes(bytes, ends_file)),
    ]
}

pub(crate) fn message() -> impl Strategy<Value = Owned> {
    prop_oneof![
        copies(),
        cut_pull(),
        cut_reply(),
        (any::<[u8; 20]>(), lane()).prop_map(|(node, lane)| Owned::Hello(node, lane)),
        Just(Owned::HelloAck),
        (code(), "\\PC{0,40}").prop_map(|(code, text)| Owned::Refuse(code, text)),
        (
            0..=Version::FROM_PEER_MAX.0,
            any::<u64>().prop_map(|records| records >> 1),
            prop::collection::vec(any::<u64>(), 0..=50),
            prop::collection::vec(any::<u8>(), 0..=50)
        )
            .prop_map(|(version, records, unchanged, locks)| {
                Owned::Activate(version, records, unchanged, locks)
            }),
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
        (prop::collection::vec(any::<u64>(), 0..=50), prop::collection::vec(any::<u64>(), 0..=50))
            .prop_map(|(hot, large)| Owned::HotHints(hot, large)),
        (any::<u64>(), any::<u64>()).prop_map(|(sequence, found)| Owned::ProbeReply(sequence, found)),
        (any::<[u8; 20]>(), any::<bool>()).prop_map(|(node, is_resp3)| Owned::Forward(node, is_resp3)),
        bytes(300).prop_map(Owned::Control),
        any::<u64>().prop_map(Owned::Ping),
        any::<u64>().prop_map(Owned::Pong),
    ]
}

pub(crate) fn written(message: &Owned) -> Vec<u8> {
    let mut out = Vec::new();
    message.write(SCOPE, &mut out);
    out
}

/// A reader's result for a stream that arrives in pieces of these sizes, up to the first error.
pub(crate) fn read_in_pieces(stream: &[u8], sizes: &[usize]) -> (Vec<Owned>, Option<WireError>) {
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
