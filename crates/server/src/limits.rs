//! What one client may use, and how many there may be.

use crate::config::LimitsConfig;
use sidle_resp::Limits;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// What one client may use.
#[derive(Clone, Debug)]
pub(crate) struct ClientLimits {
    /// Limits of requests.
    pub(crate) requests: Limits,
    /// Replies that the client leaves unread.
    pub(crate) output_bytes: usize,
    /// The places that clients take.
    pub(crate) places: Arc<Places>,
}

impl ClientLimits {
    /// The limits that the settings ask for.
    pub(crate) fn new(config: &LimitsConfig) -> ClientLimits {
        let requests = Limits {
            arguments: config.arguments as usize,
            bulk_bytes: config.value.0 as usize,
            query_buffer_bytes: config.query_buffer.0.min(u64::from(u32::MAX)) as usize,
            ..Limits::default()
        };
        let output_bytes = match config.output_buffer.0 {
            0 => usize::MAX,
            bytes => usize::try_from(bytes).unwrap_or(usize::MAX),
        };
        ClientLimits { requests, output_bytes, places: Arc::default() }
    }
}

/// Places for clients, over all workers.
#[derive(Debug, Default)]
pub(crate) struct Places {
    taken: AtomicUsize,
}

impl Places {
    /// Takes one of `most` places until the value returned is dropped; `None` when all are taken.
    pub(crate) fn take(self: &Arc<Places>, most: usize) -> Option<Place> {
        let free = |taken: usize| (taken < most).then_some(taken + 1);
        self.taken.fetch_update(Ordering::AcqRel, Ordering::Acquire, free).ok()?;
        Some(Place(Arc::clone(self)))
    }
}

/// One client's place.
#[derive(Debug)]
pub(crate) struct Place(Arc<Places>);

impl Drop for Place {
    fn drop(&mut self) {
        self.0.taken.fetch_sub(1, Ordering::AcqRel);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_run_out_and_come_back() {
        let limits = ClientLimits::new(&LimitsConfig::default());
        let first = limits.places.take(2);
        let second = limits.places.take(2);
        assert!(first.is_some() && second.is_some() && limits.places.take(2).is_none());
        drop(first);
        assert!(limits.places.take(2).is_some());
    }
}
