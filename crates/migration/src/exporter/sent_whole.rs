//! Which large collections the target has whole, as of which version, as far as the source knows.
//!
//! Noted while the range is copied and its changes are marked. Where a round or a cut brings such a position
//! again, a patch since that version is sent. The patch names the version, and a target that does not have
//! it asks for the whole: so nothing but bytes depends on what is noted here.
//!
//! M10: what a reply has brought counts once the next request has acknowledged it.

use sidle_types::{Position, Version};
use sidle_wire::Piece;
use std::collections::BTreeMap;

/// A collection's number, and a version of it.
type State = (u64, Version);

/// What the target has whole.
#[derive(Debug, Default)]
pub(super) struct SentWhole {
    states: BTreeMap<Position, State>,
    unacknowledged: Option<(Position, State)>,
}

impl SentWhole {
    /// What the target has of a position, as it would name it.
    pub(super) fn in_hand(&self, position: Position) -> Option<Piece> {
        let &(collection, version) = self.states.get(&position)?;
        Some(Piece::whole(position, collection, version))
    }

    /// A reply was packed with so many bytes of this. `is_named`: the target's next request says whether it
    /// has arrived, and what is in hand.
    pub(super) fn sent(&mut self, piece: Option<Piece>, bytes: usize, is_named: bool) {
        let Some((piece, patch)) = piece.and_then(|piece| Some((piece, piece.patch?))) else { return };
        if piece.and(bytes).is_whole() {
            let sent = (piece.position, (patch.collection, piece.version));
            match is_named {
                true => drop(self.states.insert(sent.0, sent.1)),
                false => self.unacknowledged = Some(sent),
            }
        }
    }

    /// The last reply is asked for again, or has arrived.
    pub(super) fn asked(&mut self, again: bool) {
        let unacknowledged = self.unacknowledged.take().filter(|_| !again);
        self.states.extend(unacknowledged);
    }
}
