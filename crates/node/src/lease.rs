//! Until when the node's replies may be sent: a node whose log may be taken over has a lease from its copies.

use sidle_types::MonotonicUs;
use std::sync::atomic::{AtomicU64, Ordering};

/// A node's lease. A node without one may answer for ever.
#[derive(Debug)]
pub struct Lease {
    until_us: AtomicU64,
}

impl Default for Lease {
    fn default() -> Lease {
        Lease { until_us: AtomicU64::new(u64::MAX) }
    }
}

impl Lease {
    /// It lasts until then; [`u64::MAX`]: none is needed.
    pub fn set(&self, until: MonotonicUs) {
        self.until_us.store(until.0, Ordering::Release);
    }

    /// Whether it lasts. The clock is read after the lease was, and only if there is one.
    #[inline]
    pub fn lasts(&self, now: impl FnOnce() -> MonotonicUs) -> bool {
        let until_us = self.until_us.load(Ordering::Acquire);
        until_us == u64::MAX || now().0 < until_us
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_over_at_its_end_and_without_one_never() {
        let lease = Lease::default();
        assert!(lease.lasts(|| panic!("no clock is read")));
        lease.set(MonotonicUs(10));
        assert!(lease.lasts(|| MonotonicUs(9)) && !lease.lasts(|| MonotonicUs(10)));
    }
}
