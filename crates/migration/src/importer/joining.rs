//! Joins pieces to what is in hand.

use super::partial::Partial;
use super::parts::TargetParts;
use super::records::{Records, Untaken};
use crate::tuning::CATCH_UP_PART;
use sidle_store::Store;
use sidle_types::fault;
use sidle_wire::Piece;

/// Takes a piece. The first piece of other records replaces what was in hand. Returns the records once
/// nothing is missing. `catches_up`: of a collection that changes, nothing that takes long to send.
pub(super) fn join<'b>(
    partial: &mut Option<Partial>,
    parts: &mut TargetParts,
    store: &Store,
    piece: Piece,
    bytes: &[u8],
    catches_up: bool,
) -> Result<Option<Records<'b>>, Untaken> {
    take_piece(partial, parts, store, piece, bytes)?;
    let few_bytes = parts.spec.piece_bytes() as u64 / CATCH_UP_PART;
    let is_missing = |joined: &mut Partial| {
        !joined.in_hand().is_whole() || joined.is_outdated() || catches_up && joined.is_behind(few_bytes)
    };
    if partial.as_mut().is_none_or(is_missing) {
        return Ok(None);
    }
    Ok(partial.take().map(Partial::into_records))
}

/// Takes a piece, and keeps it in hand. After an error nothing is.
pub(super) fn take_piece(
    partial: &mut Option<Partial>,
    parts: &mut TargetParts,
    store: &Store,
    piece: Piece,
    bytes: &[u8],
) -> Result<(), Untaken> {
    if piece.offset == 0 {
        *partial = Some(Partial::begin(partial.take(), &parts.held, store, piece, bytes)?);
    }
    let follows = |partial: &&mut Partial| {
        let is_same = partial.in_hand().is_of_the_same(&piece) || fault!(PiecesOfTwoVersions);
        is_same && partial.in_hand().offset == piece.offset
    };
    let Some(joined) = partial.as_mut().filter(follows) else {
        return Err(Untaken::Corrupt("a piece that does not follow what is in hand".to_owned()));
    };
    assert!(joined.in_hand().is_of_the_same(&piece), "M12: pieces of two versions");
    if let Err(error) = joined.append(&mut parts.head, store, piece, bytes) {
        *partial = None;
        return Err(error);
    }
    if piece.patch.is_some_and(|patch| patch.since.0 > 0) {
        parts.counters.patch_bytes += bytes.len() as u64;
    }
    Ok(())
}

/// Takes a piece before the freeze; whether the collection is whole now, and another patch would be about
/// as long.
pub(super) fn take_ahead(
    parts: &mut TargetParts,
    store: &Store,
    piece: Piece,
    bytes: &[u8],
) -> Result<bool, Untaken> {
    let mut copy = parts.copies.take(piece.position);
    let was_whole = copy.as_ref().is_some_and(Partial::was_whole);
    take_piece(&mut copy, parts, store, piece, bytes)?;
    let Some(mut copy) = copy else { return Ok(false) };
    let few_bytes = parts.spec.piece_bytes() as u64 / CATCH_UP_PART;
    let is_copied = copy.in_hand().is_whole() && !copy.is_behind(few_bytes);
    parts.counters.collections_ahead += u64::from(!was_whole && copy.was_whole());
    parts.copies.put(piece.position, copy);
    Ok(is_copied)
}

/// Takes a piece of the patch behind the freeze, of a collection that is copied; returns it once nothing
/// is missing.
pub(super) fn join_patch<'b>(
    parts: &mut TargetParts,
    store: &Store,
    piece: Piece,
    bytes: &[u8],
) -> Result<Option<Records<'b>>, Untaken> {
    let mut copy = parts.copies.take(piece.position);
    let records = join(&mut copy, parts, store, piece, bytes, false)?;
    if let Some(copy) = copy {
        parts.copies.put(piece.position, copy);
    }
    Ok(records)
}

/// The named fault `inert_outline_served`: what is whole as of before the freeze is taken as it is.
pub(super) fn serve_outdated(parts: &mut TargetParts, store: &Store) {
    for copy in parts.copies.take_all().collect::<Vec<_>>() {
        if copy.in_hand().is_whole() {
            let range = parts.spec.range;
            // It is no matter whether there was memory: a fault is put back.
            drop(parts.insert(store, copy.into_records(), range, 0));
        }
    }
}
