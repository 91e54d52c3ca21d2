//! Whether commands take the long way through the dispatcher: the node reads its durable log, connections
//! monitor it (MONITOR), or its clients are paused (CLIENT PAUSE).
//!
//! Purpose: one word for all of these reasons. On its usual way a command loads it once, and nothing else of
//! what they are about.

use std::sync::atomic::{AtomicU32, Ordering};

/// How many reasons there are.
#[derive(Debug, Default)]
pub(crate) struct Detours(AtomicU32);

impl Detours {
    /// There is one more reason.
    pub(crate) fn begin(&self) {
        self.0.fetch_add(1, Ordering::AcqRel);
    }

    /// One is gone: whoever finds none sees what was done before.
    pub(crate) fn end(&self) {
        self.0.fetch_sub(1, Ordering::AcqRel);
    }

    /// Whether there is any.
    #[inline]
    pub(crate) fn is_any(&self) -> bool {
        self.0.load(Ordering::Acquire) != 0
    }
}
