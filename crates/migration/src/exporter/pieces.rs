//! Records at one position that are larger than a piece are sent in pieces.
//!
//! M12: a pull names the version of its piece in hand. If the position has changed since, which happens only
//! before the freeze, the first piece of the new state is sent.
//!
//! A large collection is sent as a patch: all of its chunks, or those that changed since the version that the
//! target has whole. M32: it may change between two pieces. What changes behind the first piece is marked
//! (M28), and later than the version that the target has then.

use crate::MigrationSpec;
use sidle_store::{Holds, Image, Patch, PatchCursor, Store};
use sidle_types::{Position, Version, fault};
use sidle_wire::{PatchPiece, Piece};

/// Packs the piece after the one in hand, or the first one, at the end of `out`; nothing if the position is
/// empty.
pub(super) fn pack_piece(
    spec: &MigrationSpec,
    store: &Store,
    position: Position,
    in_hand: Option<Piece>,
    out: &mut Vec<u8>,
) -> Option<Piece> {
    if let Some(piece) = pack_patch(spec, store, position, in_hand, out) {
        return Some(piece);
    }
    let in_hand = in_hand.filter(|piece| piece.patch.is_none());
    let goes_on = |piece: &Piece, image: Image| {
        let is_same = (piece.version, piece.total) == (image.version, image.bytes as u64);
        is_same || fault!(PiecesOfTwoVersions) && piece.offset < image.bytes as u64
    };
    let from = |image| in_hand.filter(|piece| goes_on(piece, image)).map_or(0, |piece| piece.offset as usize);
    let (image, offset) = store.pack_piece(position, from, spec.piece_bytes(), out)?;
    let (version, total, offset) = (image.version, image.bytes as u64, offset as u64);
    Some(Piece { position, version, total, offset, patch: None })
}

/// Packs the next piece of a large collection's patch, if the position has one that can travel so.
pub(super) fn pack_patch(
    spec: &MigrationSpec,
    store: &Store,
    position: Position,
    in_hand: Option<Piece>,
    out: &mut Vec<u8>,
) -> Option<Piece> {
    let before = out.len();
    let held = in_hand.map_or(Holds::Nothing, |in_hand| holds(spec, in_hand));
    let packed = store.pack_patch(position, held, spec.piece_bytes(), out)?;
    let Patch { collection, since, version, next } = packed.patch;
    let collection = named(spec, collection);
    let offset = in_hand.filter(|_| !packed.is_first).map_or(0, |piece| piece.offset);
    let total = offset + (out.len() - before) as u64 + u64::from(!packed.is_last);
    let patch = Some(PatchPiece { collection, since, order: next.order as u8, label: next.label });
    Some(Piece { position, version, total, offset, patch })
}

/// A collection's number as the target knows it, or back. It differs from one incarnation of the source to
/// the next: so what the target has of an earlier one is no state of the collection.
fn named(spec: &MigrationSpec, collection: u64) -> u64 {
    const SPREAD: u64 = 0x9E37_79B9_7F4A_7C15;
    collection ^ spec.source_life.wrapping_mul(SPREAD)
}

/// What the target has.
fn holds(spec: &MigrationSpec, in_hand: Piece) -> Holds {
    let Piece { version, patch, .. } = in_hand;
    let Some(PatchPiece { collection, since, order, label }) = patch else { return Holds::Nothing };
    let collection = named(spec, collection);
    if in_hand.is_whole() {
        let version = if fault!(PatchSkipsAVersion) { Version(version.0 + 1) } else { version };
        return Holds::Whole(collection, version);
    }
    Holds::Part(Patch { collection, since, version, next: PatchCursor::at(order, label) })
}

/// Whether the piece in hand is of an outdated state, and the rest of it is of no use.
pub(super) fn has_changed(in_hand: Option<Piece>, piece: &Piece) -> bool {
    piece.patch.is_none() && in_hand.is_some_and(|in_hand| in_hand.offset != piece.offset)
}

/// How many records such a reply completed.
pub(super) fn records(piece: Option<Piece>, bytes: usize) -> u64 {
    u64::from(piece.is_some_and(|piece| piece.and(bytes).is_whole()))
}
