//! A connection's subscription to what cuts gave.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// A subscription: it counts until it is dropped.
#[derive(Debug)]
pub(crate) struct Subscription {
    subscribers: Arc<AtomicU64>,
    /// The number of the pushes that it was sent last.
    pub(crate) round: u64,
}

impl Subscription {
    /// One more of these subscribers, which was sent this round of pushes.
    pub(crate) fn of(subscribers: &Arc<AtomicU64>, round: u64) -> Subscription {
        subscribers.fetch_add(1, Relaxed);
        Subscription { subscribers: Arc::clone(subscribers), round }
    }
}

impl Drop for Subscription {
    fn drop(&mut self) {
        self.subscribers.fetch_sub(1, Relaxed);
    }
}
