//! Values in Redis's serialised form: the payloads of DUMP and RESTORE. Pure: bytes to bytes.
//!
//! A payload is a type, a value and a footer:
//!
//! | bytes | what |
//! |---|---|
//! | 1 | the type; 0 is a string |
//! | any | the value. A string is a length and so many bytes, an integer of 1, 2 or 4 bytes, or compressed |
//! | 2 | the version of the form, little-endian |
//! | 8 | CRC64 of all before it, little-endian |
//!
//! | file | what |
//! |---|---|
//! | `dump` | the payload of a string, in parts that are not copied |
//! | `restore` | the value of a payload, or what is wrong with it |
//! | `rest`, `length`, `text` | what is unread, lengths, strings |
//! | `lzf`, `checksum` | the compression, the CRC64 |
//!
//! Strings are the only values so far; a payload of another type is refused by its name. Nothing is written
//! compressed, as by a Redis with `rdbcompression no`, and everything that Redis writes is read.

mod checksum;
mod dump;
mod error;
mod length;
mod lzf;
mod rest;
mod restore;
mod text;

pub use dump::{Dump, dump};
pub use error::RestoreError;
pub use restore::restore;

/// The version that is written: Redis 7.0's. It has all that a string needs, and later ones read it too.
pub const WRITTEN_VERSION: u16 = 10;
/// The latest version that is read: Redis 7.2's.
pub const LATEST_VERSION: u16 = 11;

/// The bytes of a footer.
const FOOTER_BYTES: usize = 10;
/// The type of a string.
const STRING: u8 = 0;
