//! Pieces: how the records at one position travel if they are larger than a reply may be.
//!
//! The records at the position form one byte string, packed one after the other. A reply carries a part of
//! it, and the next pull reports how much of it is in hand.

use crate::WireError;
use crate::layout::PieceLayout;
use crate::limits::IMAGE_BYTES_MAX;
use sidle_types::{Position, ProtocolVersion, Version};

/// A part of the records at a position. In a pull: what is in hand, up to `offset`. In a reply: its records,
/// from `offset` on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Piece {
    /// The records' position.
    pub position: Position,
    /// The highest version of its records: with `total` it distinguishes two states of the position.
    pub version: Version,
    /// The records' total bytes.
    pub total: u64,
    /// How many of these bytes precede the piece.
    pub offset: u64,
}

impl Piece {
    /// Whether both are pieces of the same bytes.
    pub fn is_of_the_same(&self, other: &Piece) -> bool {
        (self.position, self.version, self.total) == (other.position, other.version, other.total)
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
        });
        written_in.has_pieces().then_some(layout)
    }

    /// Refuses what a frame must not announce.
    pub(crate) fn check(piece: Option<Piece>) -> Result<(), WireError> {
        match piece.map(|piece| piece.total as usize) {
            Some(bytes) if bytes > IMAGE_BYTES_MAX => {
                Err(WireError::Oversized { bytes, limit: IMAGE_BYTES_MAX })
            }
            _ => Ok(()),
        }
    }

    /// From a pull: the piece in hand, with more to come.
    pub(crate) fn in_pull(layout: &PieceLayout) -> Result<Option<Piece>, &'static str> {
        match Piece::read(layout)? {
            Some(piece) if piece.offset == 0 => Err("no byte of a piece is in hand"),
            piece => Ok(piece),
        }
    }

    /// From a reply that holds this many bytes of it.
    pub(crate) fn in_reply(layout: &PieceLayout, bytes: usize) -> Result<Option<Piece>, &'static str> {
        let piece = Piece::read(layout)?;
        match piece {
            Some(_) if bytes == 0 => Err("a piece of no bytes"),
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
        };
        match piece.total {
            0 if Piece::is_none(&piece) => Ok(None),
            0 => Err("a piece of nothing"),
            total if total > IMAGE_BYTES_MAX as u64 => Err("a piece of more than can stand at a position"),
            total if piece.offset >= total => Err("a piece that begins at its end"),
            _ if piece.version > Version::FROM_PEER_MAX => Err("the version leaves no room for others"),
            _ => Ok(Some(piece)),
        }
    }

    fn is_none(&self) -> bool {
        (self.position.0, self.version.0, self.offset) == (0, 0, 0)
    }
}
