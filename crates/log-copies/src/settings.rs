//! How many copies of a log there are to be, and when one is left out.

/// How many copies there are to be.
#[derive(Clone, Copy, Debug)]
pub struct Settings {
    /// As many as this, if there are as many nodes.
    pub wanted: usize,
    /// Whether a copy has a commit only when it has synced it.
    pub syncs: bool,
    /// A copy that does not answer for so long is left out, in microseconds.
    pub patience_us: u64,
    /// A node that was left out is tried again after so long, in microseconds; after twice as long each time
    /// that it is left out again before it has everything.
    pub rest_us: u64,
    /// Once no commit has come nearer to being safe for so long, in microseconds, new writes are to be
    /// refused.
    pub refuses_after_us: u64,
    /// The most bytes that are sent at once.
    pub most_bytes: u64,
    /// A log whose writer is gone for so long may be taken over, in milliseconds: then copies give leases.
    pub takeover_after_ms: Option<u64>,
    /// So many appends may be unanswered. What is written meanwhile goes with the next, and shares its sync.
    pub most_under_way: usize,
}
