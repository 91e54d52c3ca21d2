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
}

impl ValueKind {
    /// All of them.
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
        }
    }

    /// Whether it is of elements, and not a string.
    pub const fn is_collection(self) -> bool {
        !matches!(self, ValueKind::String)
    }
}
