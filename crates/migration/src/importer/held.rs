//! Large collections that are copies here, nobody's yet, and as of which version they are whole.
//!
//! M32: a patch is applied only to the state that it starts from. While it arrives, the copy still counts as
//! what it was: the same patch may begin again.

use sidle_store::{Arrival, Arrived, Store};
use sidle_types::Position;
use sidle_wire::{PatchPiece, Piece};
use std::collections::BTreeMap;

/// The copies, by position. Those that are discarded, or owned by now, stay until the end.
#[derive(Debug, Default)]
pub(super) struct Held(BTreeMap<Position, (Piece, Arrived)>);

impl Held {
    /// A collection is here now, as of the version that this piece completes.
    pub(super) fn insert(&mut self, piece: Piece, arrived: Arrived) {
        self.0.insert(piece.position, (piece, arrived));
    }

    /// The copy that a patch is for, to be patched where it is; none if it is not here in that state.
    pub(super) fn to_patch(&self, store: &Store, piece: Piece, patch: PatchPiece) -> Option<Arrival> {
        let (held, arrived) = self.0.get(&piece.position)?;
        is_of_state(held, patch).then(|| Arrival::again(store, arrived, piece.version))?
    }
}

/// Whether a patch starts from the state that this piece has completed.
pub(super) fn is_of_state(held: &Piece, patch: PatchPiece) -> bool {
    let is_of_it = held.patch.is_some_and(|held| held.collection == patch.collection);
    is_of_it && held.version == patch.since
}
