//! Reading a range in the order of positions: packing for a migration, visiting for SCAN and KEYS.
//!
//! A cursor is a position, so no state is kept between two calls, and the table may grow, and the log be
//! cleaned, in between. Each call ends between two positions: keys that share a position stay together.
//! Records too large for one batch are packed in pieces. A visit ends between two [stretches](ScanCursor),
//! since clients hold its cursors.

use crate::data::{Data, Guard};
use crate::large::pack::Packing;
use crate::record::Record;
use crate::walk::{Reading, Walk};
use sidle_types::{HashedKey, KeyHash, Position, PositionRange, ScanCursor, Slot, Version};

/// Buckets that a visit may read for every record that it may return, and beyond.
const BUCKETS_PER_RECORD: usize = 4;
const MORE_BUCKETS: usize = 256;
/// Derives a second draw from the first.
const SCRAMBLE: u64 = 0x9E37_79B9_7F4A_7C15;

/// The end of a scan.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ScanEnd {
    /// Where to continue; none when everything up to the last position has been packed.
    pub next: Option<Position>,
    /// Records packed.
    pub records: u32,
    /// The records at `next` exceed one batch: they go [in pieces](Store::pack_piece).
    pub is_large: bool,
}

/// The records at one position, packed one after the other: identifies a state of it. While the highest
/// version stays, records can only disappear.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Image {
    /// The highest version of its records.
    pub version: Version,
    /// Its length.
    pub bytes: usize,
}

/// The result of packing a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Packed {
    /// It has no value.
    Absent,
    /// Its record is in the batch.
    Whole,
    /// Its record exceeds one batch.
    Large,
}

/// See [`Store::scan_to_large`](crate::Store::scan_to_large).
pub(crate) fn scan_to_large(
    data: &Data,
    from: Position,
    last: Position,
    max_bytes: usize,
    large_bytes: usize,
    batch: &mut Vec<u8>,
) -> ScanEnd {
    let guard = data.pin();
    let start = batch.len();
    let mut end = ScanEnd { next: None, records: 0, is_large: false };
    let Some(range) = PositionRange::new(from, last) else { return end };
    let mut walk = Walk::new(data, guard.pinned(), range, Reading::Records, usize::MAX);
    // The start of the current position's records, to be undone if they do not all fit.
    let mut boundary = (start, 0, from);
    while let Some((position, record)) = walk.next() {
        if position != boundary.2 || end.records == 0 {
            boundary = (batch.len(), end.records, position);
        }
        let Some(packing) = Packing::of(&guard, record) else { continue };
        let bytes = batch.len() + packing.bytes();
        let is_large = bytes - boundary.0 > large_bytes;
        if is_large || bytes - start > max_bytes && boundary.1 != 0 {
            batch.truncate(boundary.0);
            return ScanEnd { next: Some(position), records: boundary.1, is_large };
        }
        packing.pack(batch);
        end.records += 1;
        if bytes - start > max_bytes && walk.peek().is_none_or(|(next, _)| next != position) {
            // The first position alone was too large.
            end.next = position.next().filter(|&next| next <= last);
            return end;
        }
    }
    end
}

/// See [`Store::pack_unless_large`](crate::Store::pack_unless_large).
pub(crate) fn pack_unless_large(
    data: &Data,
    key: HashedKey<'_>,
    large_bytes: usize,
    batch: &mut Vec<u8>,
) -> Packed {
    let guard = data.pin();
    match guard.get(key).value().and_then(|record| Packing::of(&guard, record)) {
        Some(packing) if packing.bytes() > large_bytes => Packed::Large,
        Some(packing) => {
            packing.pack(batch);
            Packed::Whole
        }
        None => Packed::Absent,
    }
}

/// See [`Store::pack_piece`](crate::Store::pack_piece).
pub(crate) fn pack_piece(
    data: &Data,
    position: Position,
    from: impl FnOnce(Image) -> usize,
    most: usize,
    batch: &mut Vec<u8>,
) -> Option<(Image, usize)> {
    let guard = data.pin();
    let records = packings_at(&guard, position);
    let version = records.iter().map(Packing::version).max()?;
    let image = Image { version, bytes: records.iter().map(Packing::bytes).sum() };
    let offset = from(image).min(image.bytes);
    let (mut at, end) = (0, offset + most.min(image.bytes - offset));
    for record in &records {
        let bytes = record.bytes();
        let part = |edge: usize| edge.clamp(at, at + bytes) - at;
        record.pack_part(part(offset)..part(end), batch);
        at += bytes;
    }
    Some((image, offset))
}

/// See [`Store::packed_bytes_at`](crate::Store::packed_bytes_at).
pub(crate) fn packed_bytes_at(data: &Data, position: Position) -> usize {
    packings_at(&data.pin(), position).iter().map(Packing::bytes).sum()
}

/// What stands at a position.
pub(crate) fn packings_at<'g>(guard: &'g Guard<'g>, position: Position) -> Vec<Packing<'g>> {
    let range = PositionRange::only(position);
    let walk = Walk::new(guard.data, guard.pinned(), range, Reading::Keys, usize::MAX);
    walk.filter_map(|(_, record)| Packing::of(guard, record)).collect()
}

/// See [`Store::visit`](crate::Store::visit).
pub(crate) fn visit(
    data: &Data,
    from: Position,
    last: Position,
    budget: usize,
    f: &mut dyn FnMut(Record<'_>),
) -> Option<Position> {
    let guard = data.pin();
    let range = PositionRange::new(from, last)?;
    let most_buckets = budget.saturating_mul(BUCKETS_PER_RECORD).saturating_add(MORE_BUCKETS);
    let mut walk = Walk::new(data, guard.pinned(), range, Reading::Keys, most_buckets);
    let mut visited = 0;
    let mut at = None;
    while let Some((position, record)) = walk.peek() {
        let stretch = ScanCursor::stretch_start(position);
        if visited >= budget.max(1) && at != Some(stretch) {
            return Some(stretch);
        }
        walk.next();
        f(record);
        visited += 1;
        at = Some(stretch);
    }
    // The walk ends between two buckets, and a bucket is never finer than a stretch: that would take 2^39 of
    // them.
    debug_assert!(walk.rest().is_none_or(ScanCursor::is_boundary), "a bucket is finer than a stretch");
    walk.rest()
}

/// See [`Store::visit_tombstones`](crate::Store::visit_tombstones).
pub(crate) fn visit_tombstones(
    data: &Data,
    from: Position,
    last: Position,
    budget: usize,
    f: &mut dyn FnMut(&[u8]),
) -> Option<Position> {
    let guard = data.pin();
    let range = PositionRange::new(from, last)?;
    let inside = |at: &Position| range.contains(*at);
    let (mut at, mut visited) = (Some(from), 0);
    while let Some(from) = at {
        if visited >= budget.max(1) {
            return at;
        }
        let from = data.index.skip_empty(from).filter(inside)?;
        let (slot, mut end) = (from.slot(), Position::last_of(from.slot()));
        if data.index.slot(slot).tombstones() > 0 {
            data.index.slot(slot).lock.await_turn();
            let bucket = data.index.bucket_at(from, guard.pinned());
            let words = bucket.iter().flat_map(|(span, _)| span.entries(guard.pinned()));
            for (_, word) in words.filter(|(_, word)| word.kind().is_tombstone) {
                let record = data.log.record(word.address(), guard.pinned());
                if range.contains(record.position()) {
                    f(record.key());
                    visited += 1;
                }
            }
            end = bucket.map_or(end, |(_, positions)| positions.last());
        }
        at = end.next().filter(inside);
    }
    None
}

impl Guard<'_> {
    /// A random value: slots are weighted by their number of values, the place in the slot is uniform. None
    /// only without values.
    pub fn random_record(&self, random: u64) -> Option<Record<'_>> {
        let total = self.data.index.len();
        if total == 0 {
            return None;
        }
        let mut rank = random % total;
        let mut slot = None;
        for candidate in self.data.index.occupied() {
            let live = self.data.index.slot(candidate).live();
            if rank < live {
                slot = Some(candidate);
                break;
            }
            rank -= live;
        }
        let slot = slot.unwrap_or(Slot::LAST);
        let hash = random.wrapping_mul(SCRAMBLE) ^ random.rotate_left(29);
        let from = Position::new(slot, KeyHash(hash));
        let first_at = |range| Walk::new(self.data, self.pinned(), range, Reading::Keys, usize::MAX).next();
        let after = first_at(PositionRange::new(from, Position::last_of(slot)).expect("inside the slot"));
        let around =
            || first_at(PositionRange::new(Position::first_of(slot), Position::LAST).expect("up to the end"));
        let anywhere = || first_at(PositionRange::ALL);
        after.or_else(around).or_else(anywhere).map(|(_, record)| record)
    }
}
