//! Records at one position that are larger than a piece are sent in pieces.
//!
//! M12: a pull names the version of its piece in hand. If the position has changed since, which happens only
//! before the freeze, the first piece of the new state is sent.

use sidle_store::{Image, Store};
use sidle_types::{Position, fault};
use sidle_wire::Piece;

/// Packs the piece after the one in hand, or the first one, at the end of `out`; nothing if the position is
/// empty.
pub(super) fn pack_piece(
    store: &Store,
    piece_bytes: usize,
    position: Position,
    in_hand: Option<Piece>,
    out: &mut Vec<u8>,
) -> Option<Piece> {
    let goes_on = |piece: &Piece, image: Image| {
        let is_same = (piece.version, piece.total) == (image.version, image.bytes as u64);
        is_same || fault!(PiecesOfTwoVersions) && piece.offset < image.bytes as u64
    };
    let from = |image| in_hand.filter(|piece| goes_on(piece, image)).map_or(0, |piece| piece.offset as usize);
    let (image, offset) = store.pack_piece(position, from, piece_bytes, out)?;
    Some(Piece { position, version: image.version, total: image.bytes as u64, offset: offset as u64 })
}

/// Whether the piece in hand is of an outdated state.
pub(super) fn has_changed(in_hand: Option<Piece>, piece: &Piece) -> bool {
    in_hand.is_some_and(|in_hand| in_hand.offset != piece.offset)
}

/// How many records such a reply completed.
pub(super) fn records(piece: Option<Piece>, bytes: usize) -> u64 {
    u64::from(piece.is_some_and(|piece| piece.and(bytes).is_whole()))
}
