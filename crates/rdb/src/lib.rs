//! Values in Redis's serialised form: the payloads of DUMP and RESTORE, and RDB files. Pure: bytes to bytes.
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
//! | `value` | values that are written, and that were read |
//! | `dump` | the payload of a value, in parts: a string is not copied |
//! | `restore` | the value of a payload, or what is wrong with it |
//! | `slices` | a large collection's elements, some at a time |
//! | `rest`, `length`, `text` | what is unread, lengths, strings |
//! | `listpack`, `ziplist`, `intset` | small collections as one string |
//! | `score` | scores as texts |
//! | `file` | the keys of an RDB file |
//! | `lzf`, `checksum` | the compression, the CRC64 |
//!
//! Strings, hashes, sets, sorted sets and lists are known; a payload of another type is refused by its name.
//! Nothing is written compressed, as by a Redis with `rdbcompression no`, and everything that Redis writes is
//! read.

mod checksum;
mod dump;
mod error;
mod file;
mod intset;
mod length;
mod listpack;
mod lzf;
mod rest;
mod restore;
mod score;
mod slices;
mod text;
mod value;
mod ziplist;

pub use dump::{Dump, dump};
pub use error::RestoreError;
pub use file::{Begun, Checkpoint, FileError, FileKey, FileReader, FileValue, FileWriter};
pub use restore::restore;
pub use slices::{Element, SlicedKind, Slices};
pub use value::{Dumped, Pair, Restored, Text};

/// The version that is written: Redis 7.0's. It has all that a string needs, and later ones read it too.
pub const WRITTEN_VERSION: u16 = 10;
/// The latest version that is read: Redis 7.2's.
pub const LATEST_VERSION: u16 = 11;

/// The bytes of a footer.
const FOOTER_BYTES: usize = 10;
/// The type of a string.
const STRING: u8 = 0;
/// The type of a list: how many items, then each.
const LIST: u8 = 1;
/// A small list until Redis 3.0, as one string.
const LIST_ZIPLIST: u8 = 10;
/// A list until Redis 6: how many strings, then each, with a part of it.
const LIST_QUICKLIST: u8 = 14;
/// A list: how many parts, then for each whether it is one item, and a string.
const LIST_QUICKLIST_2: u8 = 18;
/// The type of a sorted set until Redis 3.2: how many members, then each and its score as a text.
const SORTED_SET_TEXTS: u8 = 3;
/// The type of a sorted set: how many members, then each and its score, a double.
const SORTED_SET: u8 = 5;
/// A small sorted set until Redis 6, as one string.
const SORTED_SET_ZIPLIST: u8 = 12;
/// A small sorted set, as one string.
const SORTED_SET_LISTPACK: u8 = 17;
/// The type of a set: how many members, then each.
const SET: u8 = 2;
/// A small set of integers, as one string.
const SET_INTSET: u8 = 11;
/// A small set since Redis 7.2, as one string.
const SET_LISTPACK: u8 = 20;
/// The type of a hash: how many fields, then each and its value.
const HASH: u8 = 4;
/// A small hash of Redis 2.4, as one string.
const HASH_ZIPMAP: u8 = 9;
/// A small hash until Redis 6, as one string.
const HASH_ZIPLIST: u8 = 13;
/// A small hash, as one string.
const HASH_LISTPACK: u8 = 16;
