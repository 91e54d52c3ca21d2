//! Records in pieces: assembled in their final place, then replayed whole.
//!
//! At most one for each partition, for the rounds of changes, and for priority pulls. The memory of a record
//! is allocated when its first piece arrives: a second one cannot wait for memory that the first one holds.
//! A large collection takes its memory as it comes, and gives it back when there is not enough.
//!
//! M12: a piece is joined only to its named predecessor. M10: each has its own request, which names the piece
//! in hand; a lost one is requested again, a doubled one counts once.
//!
//! M32: a collection that is given by a cut is caught up with first. The patch of what changed while it was
//! copied, and the patch of what changed meanwhile, are requested as long as they are long and get shorter.
//! What is left travels in the cut.

use super::held::{Held, is_of_state};
use super::records::{Records, Untaken};
use crate::tuning::CATCH_UP_ROUNDS;
use sidle_store::{Arrival, Assembly, Entry, LogHead, Store};
use sidle_wire::Piece;

/// The part that has arrived of the records at a position.
#[derive(Debug)]
pub(super) struct Partial {
    /// The piece in hand.
    piece: Piece,
    body: Body,
    /// How many patches have arrived whole, and how long the last one was.
    patches: u32,
    patch_bytes: u64,
    /// Whether its patch began before the freeze, and another one has to follow.
    is_outdated: bool,
}

/// What has arrived.
#[derive(Debug)]
enum Body {
    Records(Assembly),
    Collection(Arrival),
}

impl Partial {
    /// Takes the memory for what begins with this piece.
    pub(super) fn begin(
        before: Option<Partial>,
        held: &Held,
        store: &Store,
        piece: Piece,
        bytes: &[u8],
    ) -> Result<Partial, Untaken> {
        let anew = |body| Partial { piece, body, patches: 0, patch_bytes: 0, is_outdated: false };
        let Some(patch) = piece.patch else {
            drop(before);
            return Ok(anew(Body::Records(Assembly::begin(store, piece.total as usize)?)));
        };
        if patch.since.0 == 0 {
            drop(before);
            return Ok(anew(Body::Collection(Arrival::begin(store, bytes, piece.version)?)));
        }
        match before {
            Some(Partial {
                piece: whole, body: Body::Collection(mut arrival), patches, patch_bytes, ..
            }) if whole.is_whole() && whole.position == piece.position && is_of_state(&whole, patch) => {
                arrival.goes_on_to(piece.version);
                let body = Body::Collection(arrival);
                Ok(Partial { piece, body, patches, patch_bytes, is_outdated: false })
            }
            _ => {
                let arrival = held.to_patch(store, piece, patch).ok_or(Untaken::NotHeld(piece))?;
                Ok(anew(Body::Collection(arrival)))
            }
        }
    }

    /// Takes the bytes of the next piece.
    pub(super) fn append(
        &mut self,
        head: &mut LogHead,
        store: &Store,
        piece: Piece,
        bytes: &[u8],
    ) -> Result<(), Untaken> {
        match &mut self.body {
            Body::Records(assembly) => assembly.append(bytes),
            Body::Collection(arrival) => {
                if arrival.position() != piece.position {
                    return Err(Untaken::Corrupt("a collection of another position".to_owned()));
                }
                arrival.apply(store, head, bytes)?;
            }
        }
        self.piece = piece.and(bytes.len());
        Ok(())
    }

    /// Whether a collection that is whole has probably changed much while it arrived, and a patch of that
    /// would be shorter than the last one. `few_bytes`: so long a patch may travel in a cut.
    pub(super) fn is_behind(&mut self, few_bytes: u64) -> bool {
        let Body::Collection(_) = self.body else { return false };
        let is_shorter = self.patches == 0 || self.piece.offset < self.patch_bytes;
        (self.patches, self.patch_bytes) = (self.patches + 1, self.piece.offset);
        self.patch_bytes > few_bytes && is_shorter && self.patches <= CATCH_UP_ROUNDS
    }

    pub(super) fn into_records<'b>(self) -> Records<'b> {
        match self.body {
            Body::Records(assembly) => Records::Assembled(assembly, self.piece.position),
            Body::Collection(arrival) => Records::Arrived(arrival, self.piece),
        }
    }

    /// The piece in hand, for the next pull.
    pub(super) fn in_hand(&self) -> Piece {
        self.piece
    }

    /// Whether the source is frozen by now, and it began before.
    pub(super) fn is_outdated(&self) -> bool {
        self.is_outdated
    }

    /// The source is frozen: what began before is not all.
    pub(super) fn outdate(&mut self) {
        self.is_outdated = true;
    }

    /// Whether it has been whole, as of some version.
    pub(super) fn was_whole(&self) -> bool {
        self.patches > 0 || self.piece.is_whole()
    }

    /// The key of a collection.
    pub(super) fn key(&self) -> Option<&[u8]> {
        match &self.body {
            Body::Records(_) => None,
            Body::Collection(arrival) => Some(arrival.key().bytes()),
        }
    }

    /// Whether it is of this key's collection.
    pub(super) fn is_of(&self, key: &[u8]) -> bool {
        self.key() == Some(key)
    }

    /// Whether it is of one key, which has an entry here already: the rest is not needed (M5).
    pub(super) fn is_superseded(&self, store: &Store) -> bool {
        let has_entry = |key| !matches!(store.pin().get(key), Entry::Absent);
        match &self.body {
            Body::Records(assembly) => assembly.key().is_some_and(has_entry),
            Body::Collection(arrival) => !arrival.is_entry() && has_entry(arrival.key()),
        }
    }
}
