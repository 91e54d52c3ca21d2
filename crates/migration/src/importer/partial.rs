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

use super::held::is_of_state;
use super::parts::TargetParts;
use super::records::{Records, Untaken};
use crate::tuning::{CATCH_UP_PART, CATCH_UP_ROUNDS};
use sidle_store::{Arrival, Assembly, Entry, Store};
use sidle_types::fault;
use sidle_wire::{PatchPiece, Piece};

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
        !joined.piece.is_whole() || joined.is_outdated || catches_up && joined.is_behind(few_bytes)
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
        *partial = Some(Partial::begin(partial.take(), parts, store, piece, bytes)?);
    }
    let follows = |partial: &&mut Partial| {
        let is_same = partial.piece.is_of_the_same(&piece) || fault!(PiecesOfTwoVersions);
        is_same && partial.piece.offset == piece.offset
    };
    let Some(joined) = partial.as_mut().filter(follows) else {
        return Err(Untaken::Corrupt("a piece that does not follow what is in hand".to_owned()));
    };
    assert!(joined.piece.is_of_the_same(&piece), "M12: pieces of two versions");
    if let Err(error) = joined.append(parts, store, piece, bytes) {
        *partial = None;
        return Err(error);
    }
    Ok(())
}

impl Partial {
    /// Takes the memory for what begins with this piece.
    fn begin(
        before: Option<Partial>,
        parts: &TargetParts,
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
                let arrival = parts.held.to_patch(store, piece, patch).ok_or(Untaken::NotHeld(piece))?;
                Ok(anew(Body::Collection(arrival)))
            }
        }
    }

    fn append(
        &mut self,
        parts: &mut TargetParts,
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
                arrival.apply(store, &mut parts.head, bytes)?;
                let is_of_patch = piece.patch.is_some_and(|PatchPiece { since, .. }| since.0 > 0);
                parts.counters.patch_bytes += if is_of_patch { bytes.len() as u64 } else { 0 };
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
            Body::Records(assembly) => Records::Assembled(assembly),
            Body::Collection(arrival) => Records::Arrived(arrival, self.piece),
        }
    }

    /// The piece in hand, for the next pull.
    pub(super) fn in_hand(&self) -> Piece {
        self.piece
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
