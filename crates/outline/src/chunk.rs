//! A chunk, and where it is.

use std::sync::Arc;

/// Where a chunk's bytes are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Place {
    /// At this address of the store's log.
    InLog(u64),
    /// Not published yet.
    New(Arc<Box<[u8]>>),
}

/// Some adjacent elements of a collection.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Chunk {
    /// Orders the chunks of a sequence; no two of them have the same.
    pub label: u64,
    /// How many elements it has; never 0.
    pub elements: u32,
    /// How many bytes they take.
    pub bytes: u32,
    /// Where they are.
    pub place: Place,
}

impl Chunk {
    /// A chunk that is not published yet.
    pub fn new(label: u64, elements: u32, bytes: &[u8]) -> Chunk {
        Chunk { label, elements, bytes: bytes.len() as u32, place: Place::New(Arc::new(bytes.into())) }
    }
}
