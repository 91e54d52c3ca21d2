//! What a command sees of the data.

use crate::reply_error::ReplyError;
use sidle_types::WallMs;
use smallvec::SmallVec;
use std::fmt;

/// A value as it was when it was looked up. It stays readable, whatever is written meanwhile.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Value<'g> {
    /// The bytes.
    pub bytes: &'g [u8],
    /// When the key ends, if ever.
    pub expires_at: Option<WallMs>,
}

/// What several keys have, in their order.
pub type Values<'g> = SmallVec<[Option<Value<'g>>; 8]>;

/// There is no memory for what was to be written; nothing was.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OutOfMemory;

impl fmt::Display for OutOfMemory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("there is no memory for this write")
    }
}

impl std::error::Error for OutOfMemory {}

impl From<OutOfMemory> for ReplyError {
    fn from(_: OutOfMemory) -> ReplyError {
        ReplyError::OutOfMemory
    }
}

/// The keys of one command, each named by its number among them.
///
/// A key whose time is over is as absent as one that never was. What is read stays as it is while the command
/// runs, but for what the command writes itself: where it writes, nobody else does meanwhile. Everybody else
/// sees all that a command wrote or nothing of it, also where it returned an error: then it is nothing.
///
/// # Panics
/// All methods, on a number that no key has.
pub trait Keyspace<'g> {
    /// How many keys the command has.
    fn len(&self) -> usize;

    /// Whether it has none.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The value of a key.
    fn get(&mut self, key: usize) -> Option<Value<'g>>;

    /// The values of all keys as they are at one moment.
    fn get_all(&mut self) -> Values<'g>;

    /// Sets the value of a key, given in parts to be joined, and when it ends.
    ///
    /// # Errors
    /// There is no memory for it.
    fn put(&mut self, key: usize, value: &[&[u8]], expires_at: Option<WallMs>) -> Result<(), OutOfMemory>;

    /// Sets the value of a key to what lives as long as the request does: an argument need not be copied to
    /// be kept for later.
    ///
    /// # Errors
    /// There is no memory for it.
    fn put_argument(
        &mut self,
        key: usize,
        value: &'g [u8],
        expires_at: Option<WallMs>,
    ) -> Result<(), OutOfMemory> {
        self.put(key, &[value], expires_at)
    }

    /// Adds parts to the end of a key's value, and leaves its end as it is. The time is in proportion to what
    /// is added.
    ///
    /// # Errors
    /// There is no memory for it.
    ///
    /// # Panics
    /// When the key has no value.
    fn extend(&mut self, key: usize, added: &[&[u8]]) -> Result<(), OutOfMemory>;

    /// Says when a key ends, or that it does not.
    ///
    /// # Errors
    /// There is no memory for it.
    ///
    /// # Panics
    /// When the key has no value.
    fn set_end(&mut self, key: usize, expires_at: Option<WallMs>) -> Result<(), OutOfMemory>;

    /// Removes a key, if it is there.
    ///
    /// # Errors
    /// There is no memory for what has to stay in its place.
    fn remove(&mut self, key: usize) -> Result<(), OutOfMemory>;

    /// Counts look-ups for `keyspace_hits` and `keyspace_misses` of INFO: what a client asked for, not what a
    /// command looked at for its own sake.
    fn count_look_ups(&mut self, hits: usize, misses: usize);

    /// The longest value that may be written.
    fn longest_value_bytes(&self) -> u64;
}
