//! Records in pieces: assembled in their final place, then replayed whole.
//!
//! At most one for each partition, for the rounds of changes, and for priority pulls. Its memory is allocated
//! when the first piece arrives: a second one cannot wait for memory that the first one holds.
//!
//! M12: a piece is joined only to its named predecessor. M10: each has its own request, which names the piece
//! in hand; a lost one is requested again, a doubled one counts once.

use super::records::{Records, Untaken};
use sidle_store::{Assembly, Entry, Store};
use sidle_types::fault;
use sidle_wire::Piece;

/// The part that has arrived of the records at a position.
#[derive(Debug)]
pub(super) struct Partial {
    /// The piece in hand.
    piece: Piece,
    assembly: Assembly,
}

/// Takes a piece. The first piece of other records replaces what was in hand. Returns the records once
/// nothing is missing.
pub(super) fn join<'b>(
    partial: &mut Option<Partial>,
    store: &Store,
    piece: Piece,
    bytes: &[u8],
) -> Result<Option<Records<'b>>, Untaken> {
    if piece.offset == 0 {
        *partial = None;
        *partial = Some(Partial { piece, assembly: Assembly::begin(store, piece.total as usize)? });
    }
    let follows = |partial: &&mut Partial| {
        let is_same = partial.piece.is_of_the_same(&piece) || fault!(PiecesOfTwoVersions);
        is_same && partial.piece.offset == piece.offset
    };
    let Some(joined) = partial.as_mut().filter(follows) else {
        return Err(Untaken::Corrupt("a piece that does not follow what is in hand".to_owned()));
    };
    assert!(joined.piece.is_of_the_same(&piece), "M12: pieces of two versions");
    joined.assembly.append(bytes);
    joined.piece = piece.and(bytes.len());
    let whole = partial.take_if(|partial| partial.assembly.is_whole());
    Ok(whole.map(|whole| Records::Assembled(whole.assembly)))
}

impl Partial {
    /// The piece in hand, for the next pull.
    pub(super) fn in_hand(&self) -> Piece {
        self.piece
    }

    /// Whether it is of one key, which has an entry here already: the rest is not needed (M5).
    pub(super) fn is_superseded(&self, store: &Store) -> bool {
        let has_entry = |key| !matches!(store.pin().get(key), Entry::Absent);
        self.assembly.key().is_some_and(has_entry)
    }
}
