//! What a connection's command waits for, across its attempts.

use crate::waiters::Waiting;
use sidle_types::MonotonicUs;

/// A command that found nothing, and waits for it.
#[derive(Debug)]
pub(crate) struct Wait {
    pub(crate) places: Waiting,
    pub(crate) until: Option<MonotonicUs>,
    /// Its time is over, or it was ended.
    pub(crate) is_over: bool,
}
