//! How full queues are, for whoever watches their bounds.

/// One queue, and how many things there may be in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fill {
    /// What waits in it.
    pub what: &'static str,
    /// How many there are.
    pub count: usize,
    /// How many there may be.
    pub most: usize,
}

impl Fill {
    /// So many of these, of so many at most.
    pub const fn new(what: &'static str, count: usize, most: usize) -> Fill {
        Fill { what, count, most }
    }
}
