//! Pieces: how the records at one position travel if they are larger than a reply may be.
//!
//! The records at the position form one byte string, packed one after the other. A reply carries a part of
//! it, and the next pull reports how much of it is in hand.
//!
//! A large collection travels as a patch instead: its chunks, or those that changed since a version that the
//! target has whole. A patch goes on at a label, and the collection may change between two pieces.

use crate::WireError;
use crate::layout::PieceLayout;
use crate::limits::{IMAGE_BYTES_MAX, PATCH_BYTES_MAX};
use sidle_types::{Position, ProtocolVersion, Version};

/// A part of the records at a position. In a pull: what is in hand, up to `offset`. In a reply: its records,
/// from `offset` on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Piece {
    /// The records' position.
    pub position: Position,
    /// The highest version of its records: with `total` it distinguishes two states of the position. Of a
    /// patch: as of which version the target has all, once it has the patch.
    pub version: Version,
    /// The records' total bytes. Of a patch: one more than are sent, until nothing is left.
    pub total: u64,
    /// How many of these bytes precede the piece.
    pub offset: u64,
    /// If it is of a large collection's patch: which.
    pub patch: Option<PatchPiece>,
}

/// A patch, and how far it has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PatchPiece {
    /// The collection's number at the source.
    pub collection: u64,
    /// The version that the target had whole before; 0: it had nothing.
    pub since: Version,
    /// In which of the collection's orders it goes on, behind this piece: 0 or 1.
    pub order: u8,
    /// From which label on.
    pub label: u64,
}

impl PatchPiece {
    /// No collection has this number.
    const NO_COLLECTION: u64 = u64::MAX;
}

impl Piece {
    /// Whether both are pieces of the same bytes.
    pub fn is_of_the_same(&self, other: &Piece) -> bool {
        if let (Some(patch), Some(of)) = (self.patch, other.patch) {
            let is_same = (patch.collection, patch.since) == (of.collection, of.since);
            return is_same && (self.position, self.version) == (other.position, other.version);
        }
        (self.position, self.version, self.total, self.patch)
            == (other.position, other.version, other.total, other.patch)
    }

    /// In a pull: of this collection all is in hand, as of this version.
    pub fn whole(position: Position, collection: u64, version: Version) -> Piece {
        let patch = Some(PatchPiece { collection, since: version, order: 0, label: 0 });
        Piece { position, version, total: 1, offset: 1, patch }
    }

    /// In a pull: nothing of the position is in hand, whatever the source believes.
    pub fn nothing(position: Position) -> Piece {
        Piece::whole(position, PatchPiece::NO_COLLECTION, Version(0))
    }

    /// What is in hand after `bytes` more.
    pub fn and(self, bytes: usize) -> Piece {
        Piece { offset: self.offset + bytes as u64, ..self }
    }

    /// Whether nothing is missing if this is in hand.
    pub fn is_whole(&self) -> bool {
        self.offset == self.total
    }

    /// Its layout in a version, also for no piece; `None` in a version without pieces.
    pub(crate) fn layout(piece: Option<Piece>, written_in: ProtocolVersion) -> Option<PieceLayout> {
        assert!(piece.is_none() || written_in.has_pieces(), "a piece in {written_in}");
        let layout = piece.map_or(PieceLayout::default(), |piece| PieceLayout {
            position: piece.position.0.into(),
            version: piece.version.0.into(),
            total: piece.total.into(),
            offset: piece.offset.into(),
            collection: piece.patch.map_or(0, |patch| patch.collection).into(),
            since: piece.patch.map_or(0, |patch| patch.since.0).into(),
            label: piece.patch.map_or(0, |patch| patch.label).into(),
            is_patch: piece.patch.is_some().into(),
            order: piece.patch.map_or(0, |patch| patch.order),
            zero: [0; 6],
        });
        written_in.has_pieces().then_some(layout)
    }

    /// Refuses what a frame must not announce.
    pub(crate) fn check(piece: Option<Piece>) -> Result<(), WireError> {
        match piece.map(|piece| (piece.total as usize, piece.most_bytes())) {
            Some((bytes, limit)) if bytes > limit => Err(WireError::Oversized { bytes, limit }),
            _ => Ok(()),
        }
    }

    fn most_bytes(&self) -> usize {
        if self.patch.is_some() { PATCH_BYTES_MAX } else { IMAGE_BYTES_MAX }
    }

    /// From a pull: the piece in hand, with more to come.
    pub(crate) fn in_pull(layout: &PieceLayout) -> Result<Option<Piece>, &'static str> {
        match Piece::read(layout)? {
            Some(piece) if piece.offset == 0 => Err("no byte of a piece is in hand"),
            Some(piece) if piece.is_whole() && piece.patch.is_none() => Err("all of it is in hand"),
            piece => Ok(piece),
        }
    }

    /// From a reply that holds this many bytes of it.
    pub(crate) fn in_reply(layout: &PieceLayout, bytes: usize) -> Result<Option<Piece>, &'static str> {
        let piece = Piece::read(layout)?;
        match piece {
            Some(_) if bytes == 0 => Err("a piece of no bytes"),
            Some(piece) if piece.is_whole() => Err("a piece that begins at its end"),
            Some(piece) if piece.patch.is_some_and(|patch| patch.since > piece.version) => {
                Err("a patch to an earlier version")
            }
            Some(piece) if bytes as u64 > piece.total - piece.offset => Err("a piece beyond its end"),
            piece => Ok(piece),
        }
    }

    fn read(layout: &PieceLayout) -> Result<Option<Piece>, &'static str> {
        let piece = Piece {
            position: Position(layout.position.get()),
            version: Version(layout.version.get()),
            total: layout.total.get(),
            offset: layout.offset.get(),
            patch: PatchPiece::read(layout)?,
        };
        match piece.total {
            0 if Piece::is_none(&piece) => Ok(None),
            0 => Err("a piece of nothing"),
            total if total > piece.most_bytes() as u64 => Err("a piece of more than can stand at a position"),
            total if piece.offset > total => Err("a piece that begins behind its end"),
            _ if piece.version > Version::FROM_PEER_MAX => Err("the version leaves no room for others"),
            _ => Ok(Some(piece)),
        }
    }

    fn is_none(&self) -> bool {
        (self.position.0, self.version.0, self.offset, self.patch) == (0, 0, 0, None)
    }
}

impl PatchPiece {
    fn read(layout: &PieceLayout) -> Result<Option<PatchPiece>, &'static str> {
        let patch = PatchPiece {
            collection: layout.collection.get(),
            since: Version(layout.since.get()),
            order: layout.order,
            label: layout.label.get(),
        };
        let is_none = (patch.collection, patch.since.0, patch.order, patch.label) == (0, 0, 0, 0);
        match layout.is_patch {
            0 if is_none => Ok(None),
            1 if patch.order <= 1 && patch.since <= Version::FROM_PEER_MAX => Ok(Some(patch)),
            _ => Err("neither a patch nor none"),
        }
    }
}
