//! One holder's bytes, within the sum of all holders'.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// One holder's bytes, counted in a sum.
#[derive(Debug, Default)]
pub(crate) struct Tally {
    bytes: AtomicU64,
    sum: Arc<AtomicU64>,
}

impl Tally {
    /// Of a holder without bytes, counted in this sum.
    pub(crate) fn in_sum(sum: &Arc<AtomicU64>) -> Tally {
        Tally { bytes: AtomicU64::new(0), sum: Arc::clone(sum) }
    }

    pub(crate) fn bytes(&self) -> u64 {
        self.bytes.load(Relaxed)
    }

    /// Sets its bytes; one thread at a time may.
    pub(crate) fn set(&self, bytes: u64) {
        let before = self.bytes.load(Relaxed);
        if bytes != before {
            self.bytes.store(bytes, Relaxed);
            // Wraps where it shrinks; the sum does not.
            self.sum.fetch_add(bytes.wrapping_sub(before), Relaxed);
        }
    }
}
