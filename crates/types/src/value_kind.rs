//! What a key holds.

/// A value's type, by Redis's names.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum ValueKind {
    /// Bytes.
    #[default]
    String,
    /// Fields with values.
    Hash,
    /// Items in an order of their own.
    List,
    /// Members without an order.
    Set,
    /// Members in the order of their scores.
    SortedSet,
    /// What a client's requests have done that are to run once: the replies to those that it may repeat. No
    /// walk over keys shows it, and no count of them has it.
    Completions,
    /// What transactions have at the key that this one is beside: votes, outcomes and refusals. It is hidden
    /// as completions are.
    Locks,
}

impl ValueKind {
    /// All that users have.
    pub const ALL: [ValueKind; 5] =
        [ValueKind::String, ValueKind::Hash, ValueKind::List, ValueKind::Set, ValueKind::SortedSet];

    /// The name in TYPE's reply.
    pub const fn name(self) -> &'static str {
        match self {
            ValueKind::String => "string",
            ValueKind::Hash => "hash",
            ValueKind::List => "list",
            ValueKind::Set => "set",
            ValueKind::SortedSet => "zset",
            ValueKind::Completions => "completions",
            ValueKind::Locks => "locks",
        }
    }

    /// Whether it is of elements, and not a string.
    pub const fn is_collection(self) -> bool {
        !matches!(self, ValueKind::String | ValueKind::Completions | ValueKind::Locks)
    }

    /// Whether users see it when they walk over keys.
    #[inline]
    pub const fn is_shown(self) -> bool {
        !matches!(self, ValueKind::Completions | ValueKind::Locks)
    }
}
