//! How full queues are, for checks of their bounds.

/// A queue's length and its limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fill {
    /// What the queue holds.
    pub what: &'static str,
    /// How many there are.
    pub count: usize,
    /// How many there may be.
    pub most: usize,
}

impl Fill {
    /// `count` of `what`, of at most `most`.
    pub const fn new(what: &'static str, count: usize, most: usize) -> Fill {
        Fill { what, count, most }
    }
}
