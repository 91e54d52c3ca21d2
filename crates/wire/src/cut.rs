//! Cuts: numbered transfers of ownership of a set of positions, of a migration by cuts.

use crate::layout::{ChangedRangeLayout, CutPullLayout, CutReplyLayout, HotHintsLayout, ScopeLayout};
use crate::limits::{CHANGED_RANGES_MAX, HOT_HINTS_MAX, LARGE_HINTS_MAX};
use crate::scope::Scope;
use crate::{ChangedRanges, Kind, Piece, Positions, WireError, begin_frame, end_frame};
use sidle_types::{Position, PositionRange, Version};
use zerocopy::IntoBytes;
use zerocopy::little_endian::U64;

/// The most partitions that a cut may name.
pub(crate) const PARTITIONS_MAX: usize = u64::BITS as usize;

/// Target to source: give these positions. Or, with the number of a cut that was requested before: send what
/// is left of it.
#[derive(Clone, Copy, Debug)]
pub struct CutPull<'b> {
    /// The migration.
    pub scope: Scope,
    /// Counts these pulls, from 1. One more than the last acknowledges that one's reply.
    pub sequence: u64,
    /// Counts cuts, from 1. One more than the last states that the target owns what that one gave.
    pub cut: u32,
    /// Stop at the first position boundary after this many bytes.
    pub max_bytes: u32,
    /// What else is to be given.
    pub gives: Gives,
    /// How long the cut before took at the target, from the request to the ownership, in microseconds; 0 if
    /// there was none.
    pub took_us: u32,
    /// How much memory the target has for what is taken.
    pub room: Room,
    /// By partition: everything before it has been copied, and is to be given.
    pub cursors: Cursors<'b>,
    /// The piece in hand of the records at the only position in the last reply.
    pub piece: Option<Piece>,
    /// Positions to be given out of turn, with their records.
    pub taken: Positions<'b>,
}

/// How much memory a target has for what is given out of turn: what is larger the source keeps, and serves.
/// In a frame: one more than the mebibytes, or 0.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Room(u16);

impl Room {
    /// Whatever is named fits, or it is not known.
    pub const ANY: Room = Room(0);

    /// So many bytes, in whole mebibytes.
    pub fn of(bytes: u64) -> Room {
        Room(u16::try_from((bytes >> 20) + 1).unwrap_or(0))
    }

    /// Whether so many bytes fit.
    pub fn has(self, bytes: u64) -> bool {
        self.0 == 0 || bytes <= u64::from(self.0 - 1) << 20
    }

    /// As in a frame.
    pub(crate) fn number(self) -> u16 {
        self.0
    }

    pub(crate) fn parse(number: u16) -> Room {
        Room(number)
    }
}

/// What a cut gives beside the positions that it names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Gives {
    /// Nothing.
    Named = 0,
    /// All that is left. What was not copied is owed: it is sent later, as what is frozen.
    All = 1,
    /// All that is left, and all of it is owed, with what this cut gave before: the target has no memory for
    /// that (M38). Only what transactions have at its keys is sent (M37).
    AllOwed = 2,
}

impl Gives {
    /// Its number in a frame.
    pub(crate) fn parse(number: u8) -> Option<Gives> {
        let all = [Gives::Named, Gives::All, Gives::AllOwed];
        all.into_iter().find(|gives| *gives as u8 == number)
    }

    /// Whether the source keeps nothing.
    pub fn is_all(self) -> bool {
        self != Gives::Named
    }
}

/// How far each partition goes.
#[derive(Clone, Copy, Debug)]
pub struct Cursors<'b> {
    pub(crate) complete: u64,
    pub(crate) next: &'b [U64],
}

impl<'b> Cursors<'b> {
    /// By partition: the first position behind; `None` if there is none.
    pub fn iter(self) -> impl ExactSizeIterator<Item = Option<Position>> + 'b {
        let complete = self.complete;
        let is_left = move |index| complete >> index & 1 == 0;
        self.next.iter().enumerate().map(move |(index, next)| is_left(index).then(|| Position(next.get())))
    }
}

/// All records in some of the ranges that a cut gives: those that changed since they were copied, and those
/// that were taken. Whatever the target holds in them beyond these is outdated.
#[derive(Clone, Copy, Debug)]
pub struct CutReply<'b> {
    /// The migration.
    pub scope: Scope,
    /// The pull's sequence number.
    pub sequence: u64,
    /// The cut.
    pub cut: u32,
    /// The highest version in the migration's range, so that versions only grow.
    pub highest_version: Version,
    /// How many of the cut's ranges are still to be sent. If none, the target owns all that it gives.
    pub remaining: u64,
    /// How many records the cut gives, and how many of them it owes.
    pub counts: CutCounts,
    /// Whether the next cut is to give everything: the source falls behind.
    pub asks: bool,
    /// Whether all that the cut gives is owed (M38).
    pub owes_all: bool,
    /// The ranges.
    pub ranges: ChangedRanges<'b>,
    /// Which piece it is, if the records at a position are larger than a reply: it is the only range.
    pub piece: Option<Piece>,
    /// All records in them, laid out as in the log, in the order of the ranges.
    pub batch: &'b [u8],
}

/// Source to target: clients access these positions often, and the source still keeps them. May be lost,
/// doubled or outdated: it only shows what to take first (M26). Before a freeze it names large collections
/// too, which the target copies.
#[derive(Clone, Copy, Debug)]
pub struct HotHints<'b> {
    /// The migration.
    pub scope: Scope,
    /// The positions, those to be taken first at the front.
    pub positions: Positions<'b>,
    /// The positions of large collections.
    pub collections: Positions<'b>,
}

impl HotHints<'_> {
    /// Appends hints of `positions` (at most [`HOT_HINTS_MAX`]), and of `collections` (at most
    /// [`LARGE_HINTS_MAX`]), as a frame.
    pub fn write(scope: Scope, positions: &[Position], collections: &[Position], out: &mut Vec<u8>) {
        assert!(positions.len() <= HOT_HINTS_MAX, "hints of {} positions", positions.len());
        assert!(collections.len() <= LARGE_HINTS_MAX, "hints of {} collections", collections.len());
        let start = begin_frame(out, scope.version, Kind::HotHints);
        let hot = (positions.len() as u32).into();
        let fixed = HotHintsLayout { scope: ScopeLayout::from(scope), hot, zero: [0; 4] };
        out.extend_from_slice(fixed.as_bytes());
        Positions::write(positions, out);
        Positions::write(collections, out);
        end_frame(out, start).expect("a bounded number of positions is far below the limit");
    }
}

impl CutPull<'_> {
    /// Appends a pull as a frame. `cursors`: by partition, at most 64. `taken`: at most
    /// [`SAMP_PULL_POSITIONS_MAX`](crate::limits::SAMP_PULL_POSITIONS_MAX) positions.
    #[expect(clippy::too_many_arguments, reason = "the fields of a message whose lists are borrowed")]
    pub fn write(
        scope: Scope,
        (sequence, cut): (u64, u32),
        max_bytes: u32,
        (gives, took_us): (Gives, u32),
        cursors: &[Option<Position>],
        piece: Option<Piece>,
        (taken, room): (&[Position], Room),
        out: &mut Vec<u8>,
    ) {
        assert!(cursors.len() <= PARTITIONS_MAX, "a cut of {} partitions", cursors.len());
        let all = cursors.iter().enumerate().filter(|(_, cursor)| cursor.is_none());
        let fixed = CutPullLayout {
            scope: scope.into(),
            sequence: sequence.into(),
            complete: all.fold(0, |bits, (index, _)| bits | 1 << index).into(),
            cut: cut.into(),
            max_bytes: max_bytes.into(),
            partitions: cursors.len() as u8,
            gives: gives as u8,
            took_us: took_us.into(),
            room: room.number().into(),
        };
        let start = begin_frame(out, scope.version, Kind::CutPull);
        out.extend_from_slice(fixed.as_bytes());
        out.extend_from_slice(Piece::layout(piece, scope.version).as_slice().as_bytes());
        for cursor in cursors {
            out.extend_from_slice(U64::new(cursor.map_or(0, |next| next.0)).as_bytes());
        }
        Positions::write(taken, out);
        end_frame(out, start).expect("its lists are bounded");
    }
}

/// The state of a cut, in a reply to a pull of it.
#[derive(Clone, Copy, Debug)]
pub struct CutState {
    /// As [`CutReply::sequence`].
    pub sequence: u64,
    /// As [`CutReply::cut`].
    pub cut: u32,
    /// As [`CutReply::highest_version`].
    pub highest_version: Version,
    /// As [`CutReply::remaining`].
    pub remaining: u64,
    /// As [`CutReply::counts`].
    pub counts: CutCounts,
    /// As [`CutReply::asks`].
    pub asks: bool,
    /// As [`CutReply::owes_all`].
    pub owes_all: bool,
}

/// How many records are where a cut gives.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CutCounts {
    /// All of them.
    pub records: u64,
    /// Those that are sent later.
    pub owed: u64,
}

impl CutReply<'_> {
    /// Appends a reply as a frame: `ranges` (at most [`CHANGED_RANGES_MAX`], in order, apart) and their
    /// records, packed beforehand, or a `piece` of the records in the only one.
    pub fn write(
        scope: Scope,
        state: CutState,
        ranges: &[PositionRange],
        piece: Option<Piece>,
        batch: &[u8],
        out: &mut Vec<u8>,
    ) -> Result<(), WireError> {
        assert!(ranges.len() <= CHANGED_RANGES_MAX, "a reply of {} ranges", ranges.len());
        Piece::check(piece)?;
        let start = begin_frame(out, scope.version, Kind::CutReply);
        let fixed = CutReplyLayout {
            scope: scope.into(),
            sequence: state.sequence.into(),
            highest_version: state.highest_version.0.into(),
            remaining: state.remaining.into(),
            cut: state.cut.into(),
            count: (ranges.len() as u32).into(),
            records: state.counts.records.into(),
            owed: state.counts.owed.into(),
            asks: state.asks.into(),
            owes_all: state.owes_all.into(),
            zero: [0; 6],
        };
        out.extend_from_slice(fixed.as_bytes());
        out.extend_from_slice(Piece::layout(piece, scope.version).as_slice().as_bytes());
        ChangedRangeLayout::write(ranges, out);
        out.extend_from_slice(batch);
        end_frame(out, start)
    }
}
