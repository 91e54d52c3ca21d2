//! A large collection on its way to another node: all of it, or what changed since a state that the other
//! node has.
//!
//! A patch walks over both sequences in the order of labels, and names every chunk where something changed:
//! with its elements, or as held by the other node. It travels in parts, and the collection may change
//! between two of them. What the other node has after the last part is whole as of the version that the
//! collection had at the first one: everything that has not changed since then is as it is here. The next
//! patch, since that version, brings the rest. A patch of what does not change any more leaves nothing open.
//!
//! Nothing is kept for a patch. It names the collection by its number, since another one may have taken the
//! key with older chunks (RENAME).
//!
//! | part | bytes |
//! |---|---|
//! | begins | 1: a head follows |
//! | head, of the first part | kind (1), encoding (1), whether it has a deadline (1), deadline (8), length of the key (4), key |
//! | items | as below |
//!
//! | item | bytes behind its number (1) | meaning |
//! |---|---|---|
//! | 0 from | order (1), label (8) | up to this label all is as held |
//! | 1 held | label (8) | no chunk up to this one, which is as held |
//! | 2 chunk | label (8), elements (4), length (4), elements' bytes | no chunk up to this one |
//! | 3 none | label (8) | no chunk up to this label, and none with it |

use crate::address::Address;
use crate::data::Data;
use crate::large::pack::{PackedLarge, Packing};
use crate::scan::packings_at;
use sidle_outline::{Chunk, Chunks, Large, Order, Sequence};
use sidle_types::{Position, ValueKind, Version, WallMs};

/// A collection with a longer chunk travels as one packed record, whose bytes may be parted anywhere.
const LONGEST_CHUNK_BYTES: u32 = 64 << 10;
/// So does one with a longer key.
const LONGEST_KEY_BYTES: usize = 64 << 10;

/// Where a patch goes on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PatchCursor {
    /// Which of the collection's sequences.
    pub order: Order,
    /// The first label that is not sent.
    pub label: u64,
}

impl PatchCursor {
    /// Where every patch begins.
    pub const START: PatchCursor = PatchCursor { order: Order::Main, label: 0 };

    /// At this label of the sequence with this number: 0 or 1.
    pub fn at(order: u8, label: u64) -> PatchCursor {
        let order = if order == Order::Main as u8 { Order::Main } else { Order::ByMember };
        PatchCursor { order, label }
    }

    /// Behind this label; none at the end.
    fn behind(order: Order, label: u64) -> Option<PatchCursor> {
        let next = label.checked_add(1).map(|label| PatchCursor { order, label });
        next.or_else(|| PatchCursor::behind_all_of(order))
    }

    fn behind_all_of(order: Order) -> Option<PatchCursor> {
        (order == Order::Main).then_some(PatchCursor { order: Order::ByMember, label: 0 })
    }
}

/// What another node has of a collection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Holds {
    /// Nothing.
    Nothing,
    /// The collection with this number, whole as of this version.
    Whole(u64, Version),
    /// A part of a patch.
    Part(Patch),
}

/// A patch, and how far it has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Patch {
    /// The collection's number at the node that sends it.
    pub collection: u64,
    /// The other node has it whole as of this version; 0: it has nothing.
    pub since: Version,
    /// As of which version it will be whole after this patch.
    pub version: Version,
    /// Where the patch goes on.
    pub next: PatchCursor,
}

/// A part of a patch that was packed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PackedPatch {
    /// The patch, with where it goes on behind this part.
    pub patch: Patch,
    /// Whether this is its first part.
    pub is_first: bool,
    /// Whether it is over.
    pub is_last: bool,
}

/// See [`Store::pack_patch`](crate::Store::pack_patch).
pub(crate) fn pack_patch(
    data: &Data,
    position: Position,
    holds: Holds,
    most: usize,
    out: &mut Vec<u8>,
) -> Option<PackedPatch> {
    let guard = data.pin();
    match packings_at(&guard, position).as_slice() {
        [Packing::Large(large)] => pack(large, holds, most, out),
        _ => None,
    }
}

fn pack(large: &PackedLarge<'_>, holds: Holds, most: usize, out: &mut Vec<u8>) -> Option<PackedPatch> {
    let longest = Order::ALL.map(|order| large.outline.sequence(order).longest_chunk()).into_iter().max();
    if longest > Some(LONGEST_CHUNK_BYTES) || large.head.key().len() > LONGEST_KEY_BYTES {
        return None;
    }
    let collection = large.outline.id()?.0;
    let begin = |since| Patch { collection, since, version: large.version, next: PatchCursor::START };
    let (mut patch, is_first) = match holds {
        Holds::Part(patch) if patch.collection == collection => (patch, false),
        Holds::Whole(held, since) if held == collection && since <= large.version => (begin(since), true),
        Holds::Nothing | Holds::Whole(..) | Holds::Part(_) => (begin(Version(0)), true),
    };
    let end = out.len() + most;
    out.push(u8::from(is_first));
    if is_first {
        write_head(large, out);
    }
    let mut next = Some(patch.next);
    while let Some(at) = next.filter(|_| out.len() < end || next == Some(patch.next)) {
        next = pack_span(large, patch.since, at, end, out);
    }
    patch.next = next.unwrap_or(PatchCursor::START);
    Some(PackedPatch { patch, is_first, is_last: next.is_none() })
}

fn write_head(large: &PackedLarge<'_>, out: &mut Vec<u8>) {
    let key = large.head.key();
    let deadline = large.head.expires_at();
    out.extend([large.head.kind() as u8, large.outline.encoding(), u8::from(deadline.is_some())]);
    out.extend_from_slice(&deadline.map_or(0, |deadline| deadline.0).to_le_bytes());
    out.extend_from_slice(&(key.len() as u32).to_le_bytes());
    out.extend_from_slice(key);
}

/// Packs where something changed next; returns what follows it.
fn pack_span(
    large: &PackedLarge<'_>,
    since: Version,
    at: PatchCursor,
    end: usize,
    out: &mut Vec<u8>,
) -> Option<PatchCursor> {
    let sequence: &Sequence = large.outline.sequence(at.order);
    let Some(span) = sequence.changed_since(since.0, at.label) else {
        return PatchCursor::behind_all_of(at.order);
    };
    out.extend([0, at.order as u8]);
    out.extend_from_slice(&span.first.to_le_bytes());
    for chunk in span.chunks {
        pack_chunk(large, since, chunk, out);
        if out.len() >= end && chunk.label < span.last {
            return PatchCursor::behind(at.order, chunk.label);
        }
    }
    if span.chunks.last().is_none_or(|chunk| chunk.label < span.last) {
        out.push(3);
        out.extend_from_slice(&span.last.to_le_bytes());
    }
    PatchCursor::behind(at.order, span.last)
}

fn pack_chunk(large: &PackedLarge<'_>, since: Version, chunk: &Chunk, out: &mut Vec<u8>) {
    let guard = large.guard;
    let sidle_outline::Place::InLog(address) = chunk.place else { unreachable!("it is published") };
    let record = guard.data.log.record(Address::from_offset(address), guard.pinned());
    if record.version() <= since {
        out.push(1);
        return out.extend_from_slice(&chunk.label.to_le_bytes());
    }
    let bytes = Large::new(&large.outline, guard as &dyn Chunks).bytes_of(chunk);
    out.push(2);
    out.extend_from_slice(&chunk.label.to_le_bytes());
    out.extend_from_slice(&chunk.elements.to_le_bytes());
    out.extend_from_slice(&(bytes.len() as u32).to_le_bytes());
    out.extend_from_slice(bytes);
}

/// What a patch says of the collection itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct PatchHead<'b> {
    pub(crate) kind: ValueKind,
    pub(crate) encoding: u8,
    pub(crate) expires_at: Option<WallMs>,
    pub(crate) key: &'b [u8],
}

/// One item of a patch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Item<'b> {
    From(Order, u64),
    Held(u64),
    Chunk { label: u64, elements: u32, bytes: &'b [u8] },
    NoneUpTo(u64),
}

/// The part that is left to be read.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Parts<'b>(&'b [u8]);

impl<'b> Parts<'b> {
    /// A part's head, if it begins with one, and its items.
    pub(crate) fn parse(bytes: &'b [u8]) -> Option<(Option<PatchHead<'b>>, Parts<'b>)> {
        let mut parts = Parts(bytes);
        let head = match parts.byte()? {
            0 => None,
            1 => Some(parts.head()?),
            _ => return None,
        };
        Some((head, parts))
    }

    fn head(&mut self) -> Option<PatchHead<'b>> {
        let kind = *ValueKind::ALL.get(usize::from(self.byte()?))?;
        let encoding = self.byte()?;
        let has_deadline = self.byte()?;
        let deadline = self.number()?;
        let expires_at = match has_deadline {
            0 => None,
            1 => Some(WallMs(deadline)),
            _ => return None,
        };
        let length = self.half()? as usize;
        let key = self.take(length)?;
        kind.is_collection().then_some(PatchHead { kind, encoding, expires_at, key })
    }

    fn take(&mut self, bytes: usize) -> Option<&'b [u8]> {
        let (taken, rest) = self.0.split_at_checked(bytes)?;
        self.0 = rest;
        Some(taken)
    }

    fn byte(&mut self) -> Option<u8> {
        self.take(1).map(|byte| byte[0])
    }

    fn half(&mut self) -> Option<u32> {
        Some(u32::from_le_bytes(self.take(4)?.try_into().ok()?))
    }

    fn number(&mut self) -> Option<u64> {
        Some(u64::from_le_bytes(self.take(8)?.try_into().ok()?))
    }

    /// Whether nothing is left.
    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The next item; none if it is malformed.
    pub(crate) fn item(&mut self) -> Option<Item<'b>> {
        match self.byte()? {
            0 => {
                let order = *Order::ALL.get(usize::from(self.byte()?))?;
                Some(Item::From(order, self.number()?))
            }
            1 => self.number().map(Item::Held),
            2 => {
                let (label, elements, length) = (self.number()?, self.half()?, self.half()?);
                let bytes = self.take(length as usize)?;
                (elements > 0).then_some(Item::Chunk { label, elements, bytes })
            }
            3 => self.number().map(Item::NoneUpTo),
            _ => None,
        }
    }
}
