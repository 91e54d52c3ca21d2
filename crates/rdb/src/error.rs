//! What may be wrong with a payload.

use crate::LATEST_VERSION;

/// What is wrong with a payload.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RestoreError {
    /// It is too short for a footer, of a later version, or was damaged.
    #[error("the payload's version is above {LATEST_VERSION}, or its checksum is wrong")]
    Footer,
    /// It ends within the value.
    #[error("the payload ends within its value")]
    Truncated,
    /// Something stands between the value and the footer.
    #[error("the payload goes on after its value")]
    GoesOn,
    /// It holds a value of a type that is not known here.
    #[error("the payload holds a {0}, which is not known here")]
    OtherType(&'static str),
    /// A collection's elements do not fit each other.
    #[error("the payload's collection is damaged")]
    Damaged,
    /// There is no such type.
    #[error("the payload's type {0} is unknown")]
    UnknownType(u8),
    /// There is no such length, or an encoding where only a length may stand.
    #[error("the payload has an unknown length {0:#04x}")]
    UnknownLength(u8),
    /// There is no such encoding of a string.
    #[error("the payload's string has an unknown encoding {0}")]
    UnknownEncoding(u8),
    /// The compressed bytes are damaged, or give another length than announced.
    #[error("the payload's compressed string is damaged")]
    Compression,
    /// The value is longer than it may be.
    #[error("the payload's value is too long")]
    TooLong,
}
