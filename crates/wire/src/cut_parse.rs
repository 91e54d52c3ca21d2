//! Parsing the messages of cuts.

use crate::cut::{Cursors, CutCounts, CutPull, CutReply, Gives, HotHints, PARTITIONS_MAX, Room};
use crate::layout::{CutPullLayout, CutReplyLayout, HotHintsLayout};
use crate::limits::{HOT_HINTS_MAX, LARGE_HINTS_MAX};
use crate::message::Body;
use crate::{ChangedRanges, Kind, Piece, Positions, WireError};
use sidle_types::PositionRange;
use zerocopy::FromBytes;
use zerocopy::little_endian::U64;

impl<'b> Body<'b> {
    pub(crate) fn cut_pull(&self) -> Result<CutPull<'b>, WireError> {
        let (fixed, piece, rest) = self.split_piece::<CutPullLayout>()?;
        let partitions = usize::from(fixed.partitions);
        if partitions > PARTITIONS_MAX
            || fixed.complete.get().checked_shr(partitions as u32).is_some_and(|b| b != 0)
        {
            return Err(self.malformed("a cut of partitions that do not exist"));
        }
        let split = <[U64]>::ref_from_prefix_with_elems(rest, partitions);
        let (next, rest) = split.map_err(|_| self.malformed("a cursor is cut short"))?;
        let gives = Gives::parse(fixed.gives).ok_or_else(|| self.malformed("it gives what is unknown"))?;
        Ok(CutPull {
            scope: self.scope(fixed.scope),
            sequence: fixed.sequence.get(),
            cut: fixed.cut.get(),
            max_bytes: fixed.max_bytes.get(),
            gives,
            took_us: fixed.took_us.get(),
            room: Room::parse(fixed.room.get()),
            cursors: Cursors { complete: fixed.complete.get(), next },
            piece: self.checked(Piece::in_pull(&piece))?,
            taken: Positions::parse(Kind::CutPull.name(), rest)?,
        })
    }

    pub(crate) fn hot_hints(&self) -> Result<HotHints<'b>, WireError> {
        let (fixed, rest) = self.split::<HotHintsLayout>()?;
        let split = (fixed.hot.get() as usize).checked_mul(size_of::<U64>());
        let split = split.and_then(|bytes| rest.split_at_checked(bytes));
        let (hot, large) = split.ok_or_else(|| self.malformed("fewer positions than it names"))?;
        let name = Kind::HotHints.name();
        Ok(HotHints {
            scope: self.scope(fixed.scope),
            positions: Positions::parse_few(name, hot, HOT_HINTS_MAX)?,
            collections: Positions::parse_few(name, large, LARGE_HINTS_MAX)?,
        })
    }

    pub(crate) fn cut_reply(&self) -> Result<CutReply<'b>, WireError> {
        let (fixed, piece, rest) = self.split_piece::<CutReplyLayout>()?;
        let (ranges, batch) = ChangedRanges::parse(Kind::CutReply.name(), fixed.count.get(), rest)?;
        let piece = self.checked(Piece::in_reply(&piece, batch.len()))?;
        if piece.is_some_and(|piece| !ranges.iter().eq([PositionRange::only(piece.position)])) {
            return Err(self.malformed("a piece of another position"));
        }
        let flag = |byte: u8| match byte {
            0 => Ok(false),
            1 => Ok(true),
            _ => Err(self.malformed("neither so nor not")),
        };
        let (asks, owes_all) = (flag(fixed.asks)?, flag(fixed.owes_all)?);
        let counts = CutCounts { records: fixed.records.get(), owed: fixed.owed.get() };
        if counts.owed > counts.records {
            return Err(self.malformed("more is owed than given"));
        }
        Ok(CutReply {
            scope: self.scope(fixed.scope),
            sequence: fixed.sequence.get(),
            cut: fixed.cut.get(),
            highest_version: self.version(fixed.highest_version.get())?,
            remaining: fixed.remaining.get(),
            counts,
            asks,
            owes_all,
            ranges,
            piece,
            batch,
        })
    }
}
