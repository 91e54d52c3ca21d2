//! A command's view of the data.

use crate::reply_error::ReplyError;
use sidle_collections::{Collection, Encoding, Kind, Limits};
use sidle_outline::{Large, Order, Outline};
use sidle_types::{ValueKind, WallMs};
use smallvec::SmallVec;
use std::fmt;

/// A value at the time of its look-up. It stays readable during later writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Value<'g> {
    /// Its type.
    pub kind: ValueKind,
    /// What it consists of.
    pub content: Content<'g>,
    /// When the key expires, if ever.
    pub expires_at: Option<WallMs>,
}

/// What a value consists of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Content<'g> {
    /// The bytes of a string; of a collection, all of it, as `sidle-collections` lays it out.
    Whole(&'g [u8]),
    /// A collection that is kept in chunks.
    Large(Large<'g>),
}

impl<'g> Value<'g> {
    /// A string that does not expire.
    pub fn string(bytes: &'g [u8]) -> Value<'g> {
        Value { kind: ValueKind::String, content: Content::Whole(bytes), expires_at: None }
    }

    /// The bytes of a string.
    #[inline]
    pub fn bytes(self) -> &'g [u8] {
        match self.content {
            Content::Whole(bytes) => bytes,
            Content::Large(_) => unreachable!("a string is not kept in chunks"),
        }
    }

    /// The encoding of a collection that is reported.
    pub(crate) fn encoding(self) -> Encoding {
        match self.content {
            Content::Whole(bytes) => sidle_collections::encoding(bytes),
            Content::Large(large) => Encoding::numbered(large.outline().encoding()),
        }
    }

    /// How many bytes it takes.
    pub fn content_bytes(self) -> usize {
        match self.content {
            Content::Whole(bytes) => bytes.len(),
            Content::Large(large) => (large.outline().bytes() + large.outline().memory_bytes()) as usize,
        }
    }

    /// In how many chunks it is kept.
    pub(crate) fn chunk_count(self) -> usize {
        match self.content {
            Content::Whole(_) => 0,
            Content::Large(large) => {
                Order::ALL.iter().map(|order| large.outline().sequence(*order).chunk_count()).sum()
            }
        }
    }

    /// The value, if it is of this type.
    ///
    /// # Errors
    /// It is of another type.
    #[inline]
    pub(crate) fn of_kind(self, kind: ValueKind) -> Result<Value<'g>, ReplyError> {
        if self.kind == kind { Ok(self) } else { Err(ReplyError::WrongType) }
    }

    /// The collection, if it is one of this type.
    ///
    /// # Errors
    /// It is of another type.
    pub(crate) fn collection<K: Kind>(self) -> Result<Collection<'g, K>, ReplyError> {
        Ok(self.of_kind(K::VALUE_KIND)?.into_collection())
    }
}

impl<'g> Value<'g> {
    /// The collection that it is; its type is known.
    pub fn into_collection<K: Kind>(self) -> Collection<'g, K> {
        debug_assert_eq!(self.kind, K::VALUE_KIND);
        match self.content {
            Content::Whole(bytes) => Collection::of(bytes),
            Content::Large(large) => Collection::large(large),
        }
    }
}

/// The values of several keys, in their order.
pub type Values<'g> = SmallVec<[Option<Value<'g>>; 8]>;

/// There is no memory for the write; nothing was written.
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

/// The keys of one command, each identified by its index.
///
/// An expired key counts as absent. Values that a command reads change only by its own writes: no other
/// command writes its keys meanwhile. Others see all writes of a command or none. A command that returns an
/// error has written nothing.
///
/// # Panics
/// All methods, on an index without a key.
pub trait Keyspace<'g> {
    /// The number of the command's keys.
    fn len(&self) -> usize;

    /// Whether there are none.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The value of a key.
    fn get(&mut self, key: usize) -> Option<Value<'g>>;

    /// Whether it lends keys that the request does not name.
    fn lends_unnamed(&self) -> bool;

    /// The value of a key that the request does not name.
    ///
    /// # Panics
    /// If it does not lend such keys.
    fn get_unnamed(&mut self, key: &[u8]) -> Option<Value<'g>>;

    /// A snapshot of all keys' values.
    fn get_all(&mut self) -> Values<'g>;

    /// Sets a key's value, given in parts to be joined, and its expiry.
    ///
    /// # Errors
    /// There is no memory for it.
    fn put(
        &mut self,
        key: usize,
        kind: ValueKind,
        value: &[&[u8]],
        expires_at: Option<WallMs>,
    ) -> Result<(), OutOfMemory>;

    /// Sets a key's value to one that need not be copied, since it outlives the command: a part of the
    /// request, or another value.
    ///
    /// # Errors
    /// There is no memory for it.
    fn put_lasting(&mut self, key: usize, value: Value<'g>) -> Result<(), OutOfMemory> {
        match value.content {
            Content::Whole(bytes) => self.put(key, value.kind, &[bytes], value.expires_at),
            Content::Large(large) => {
                self.put_large(key, value.kind, large.outline().clone(), value.expires_at)
            }
        }
    }

    /// Sets a key's value to a collection in chunks, and its expiry.
    ///
    /// An outline with an identity is a state of that published collection: the key has it, or takes it from
    /// another key, which the command removes.
    ///
    /// # Errors
    /// There is no memory for it.
    fn put_large(
        &mut self,
        key: usize,
        kind: ValueKind,
        outline: Outline,
        expires_at: Option<WallMs>,
    ) -> Result<(), OutOfMemory>;

    /// What a command that [goes on](crate::Blocking::GoesOn) has built aside for its key.
    fn aside(&mut self) -> Option<Large<'g>>;

    /// Builds on aside: a new outline, or one that was made from what is [there](Self::aside).
    ///
    /// # Errors
    /// There is no memory for it; nothing was written.
    fn put_aside(&mut self, kind: ValueKind, outline: Outline) -> Result<(), OutOfMemory>;

    /// Sets a key's value to a string that is a part of the request.
    ///
    /// # Errors
    /// There is no memory for it.
    #[inline]
    fn put_argument(
        &mut self,
        key: usize,
        bytes: &'g [u8],
        expires_at: Option<WallMs>,
    ) -> Result<(), OutOfMemory> {
        self.put_lasting(key, Value { expires_at, ..Value::string(bytes) })
    }

    /// Appends parts to a key's string and keeps its expiry. Takes time in proportion to the bytes added.
    ///
    /// # Errors
    /// There is no memory for it.
    ///
    /// # Panics
    /// If the key has no string.
    fn extend(&mut self, key: usize, added: &[&[u8]]) -> Result<(), OutOfMemory>;

    /// Sets or removes a key's expiry.
    ///
    /// # Errors
    /// There is no memory for it.
    ///
    /// # Panics
    /// If the key has no value.
    fn set_end(&mut self, key: usize, expires_at: Option<WallMs>) -> Result<(), OutOfMemory>;

    /// Removes a key, if it exists.
    ///
    /// # Errors
    /// There is no memory for the tombstone.
    fn remove(&mut self, key: usize) -> Result<(), OutOfMemory>;

    /// Counts look-ups for `keyspace_hits` and `keyspace_misses` of INFO: the client's requests, not a
    /// command's internal reads.
    fn count_look_ups(&mut self, hits: usize, misses: usize);

    /// The longest value that may be written.
    fn longest_value_bytes(&self) -> u64;

    /// Up to which size collections are reported as small.
    fn collection_limits(&self) -> Limits;

    /// Whether all nodes of the cluster know collections.
    fn takes_collections(&self) -> bool;

    /// Fresh random bits.
    fn random(&mut self) -> u64;
}
