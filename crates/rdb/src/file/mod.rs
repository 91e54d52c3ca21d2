//! RDB files: the keys of a Redis, as its SAVE writes them.
//!
//! | bytes | what |
//! |---|---|
//! | 9 | `REDIS` and the version, four digits |
//! | any | marks, each a byte with what follows from it, and keys: the value's type, the key, the value |
//! | 1 | the mark of the end |
//! | 8 | CRC64 of all before it, little-endian; 0: none. Since version 5 |
//!
//! | file | what |
//! |---|---|
//! | `reader` | the keys of a file, one after the other |
//! | `values` | how long a value is that nobody has read into memory |
//! | `tape` | the bytes, their checksum, and those that are kept |
//! | `writer` | a file of keys |
//! | `error` | what may be wrong with a file |

mod error;
mod reader;
mod tape;
mod values;
mod writer;

pub use error::FileError;
pub use reader::{FileKey, FileReader, FileValue};
pub use writer::{Begun, Checkpoint, FileWriter};

/// What a file begins with, before its version.
const MAGIC: &[u8; 5] = b"REDIS";
/// The version that is written: Redis 7.0's, as its values.
const WRITTEN_FILE_VERSION: u16 = crate::WRITTEN_VERSION;
/// The latest version of a file that is read: Redis 7.4's. Values that came with it are refused.
const LATEST_FILE_VERSION: u16 = 12;
/// The first version with a checksum.
const CHECKED_SINCE: u16 = 5;

/// A library of functions.
const FUNCTION: u8 = 245;
/// A library of functions of a version that was never released.
const FUNCTION_EARLY: u8 = 246;
/// What a module keeps beside keys.
const MODULE_AUX: u8 = 247;
/// How long the next key was not accessed: seconds.
const IDLE: u8 = 248;
/// How often the next key was accessed: a logarithm.
const FREQUENCY: u8 = 249;
/// A name and a value that describe the file.
const AUX: u8 = 250;
/// How many keys the database has, and how many of them have a deadline.
const RESIZE: u8 = 251;
/// The next key's deadline, in milliseconds.
const EXPIRES_MS: u8 = 252;
/// The next key's deadline, in seconds, until Redis 2.6.
const EXPIRES_S: u8 = 253;
/// The number of the database of what follows.
const DATABASE: u8 = 254;
/// How many keys a slot has, of a cluster's node.
const SLOT: u8 = 244;
/// The end.
const END: u8 = 255;
