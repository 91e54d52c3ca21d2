//! What a connection's command waits for, across its attempts.

use crate::waiters::{WaiterId, Waiting};
use sidle_types::MonotonicUs;

/// A command that found nothing, and waits for it.
#[derive(Debug)]
pub(crate) struct Wait {
    pub(crate) places: Waiting,
    pub(crate) until: Option<MonotonicUs>,
    /// Its time is over, or it was ended.
    pub(crate) is_over: bool,
}

/// A command that ran, and replies when those are served that waited for what it wrote (B4).
#[derive(Debug)]
pub(crate) struct Behind {
    pub(crate) id: WaiterId,
    pub(crate) until: MonotonicUs,
    pub(crate) reply: Vec<u8>,
}
