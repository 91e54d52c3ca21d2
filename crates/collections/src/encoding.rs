//! The encodings that Redis would use, which OBJECT ENCODING reports. They say nothing about how Sidle keeps
//! a collection.

/// An encoding by Redis's name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Encoding {
    /// A small hash, list or sorted set.
    Listpack = 0,
    /// A hash or a set that was not small once.
    Hashtable = 1,
    /// A small set of integers.
    Intset = 2,
    /// A list.
    Quicklist = 3,
    /// A sorted set that was not small once.
    Skiplist = 4,
}

impl Encoding {
    /// The name in OBJECT ENCODING's reply.
    pub const fn name(self) -> &'static str {
        match self {
            Encoding::Listpack => "listpack",
            Encoding::Hashtable => "hashtable",
            Encoding::Intset => "intset",
            Encoding::Quicklist => "quicklist",
            Encoding::Skiplist => "skiplist",
        }
    }

    /// Whether Redis keeps such a collection in one piece.
    pub const fn is_small(self) -> bool {
        matches!(self, Encoding::Listpack | Encoding::Intset)
    }

    /// The one with this number; another version's numbers count as the small one.
    pub const fn numbered(number: u8) -> Encoding {
        match number {
            1 => Encoding::Hashtable,
            2 => Encoding::Intset,
            3 => Encoding::Quicklist,
            4 => Encoding::Skiplist,
            _ => Encoding::Listpack,
        }
    }
}

/// Up to which sizes collections are reported as small, by Redis's parameters of these names; and how they
/// are kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// `hash-max-listpack-entries`.
    pub hash_entries: u64,
    /// `hash-max-listpack-value`: bytes of a field or a value.
    pub hash_value_bytes: u64,
    /// `set-max-intset-entries`.
    pub intset_entries: u64,
    /// `zset-max-listpack-entries`.
    pub zset_entries: u64,
    /// `zset-max-listpack-value`: bytes of a member.
    pub zset_value_bytes: u64,
    /// A longer collection is kept in chunks; one below a quarter of it is packed again.
    pub packed_bytes: usize,
    /// A longer chunk is split.
    pub chunk_bytes: usize,
}

impl Default for Limits {
    fn default() -> Limits {
        Limits {
            hash_entries: 512,
            hash_value_bytes: 64,
            intset_entries: 512,
            zset_entries: 128,
            zset_value_bytes: 64,
            packed_bytes: 1024,
            chunk_bytes: 512,
        }
    }
}
