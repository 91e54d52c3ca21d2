//! For how long a coordinator acts: between the thread that extends its lease and the one that acts.

use sidle_cluster::Tenure;
use sidle_types::MonotonicUs;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::SeqCst};

/// The time in which a coordinator acts, which grows while its lease is extended.
#[derive(Debug)]
pub(super) struct Office {
    until_us: AtomicU64,
    is_over: AtomicBool,
    is_left: AtomicBool,
}

impl Office {
    /// Without an end: nobody else can have the store.
    pub(super) const fn for_ever() -> Office {
        Office::until(u64::MAX)
    }

    /// As long as this lease, and what extends it.
    pub(super) const fn of(tenure: Tenure) -> Office {
        Office::until(tenure.until().0)
    }

    const fn until(us: u64) -> Office {
        let (is_over, is_left) = (AtomicBool::new(false), AtomicBool::new(false));
        Office { until_us: AtomicU64::new(us), is_over, is_left }
    }

    /// The lease was extended.
    pub(super) fn extend(&self, tenure: Tenure) {
        self.until_us.fetch_max(tenure.until().0, SeqCst);
    }

    /// Ends it before its time. Nothing extends it again.
    pub(super) fn end(&self) {
        self.is_over.store(true, SeqCst);
    }

    /// The coordinator has ended: it was over, or it is from now on.
    pub(super) fn leave(&self) {
        self.end();
        self.is_left.store(true, SeqCst);
    }

    /// Whether the coordinator has ended.
    pub(super) fn is_left(&self) -> bool {
        self.is_left.load(SeqCst)
    }

    /// Whether the coordinator acts at this time.
    pub(super) fn is_held(&self, now: MonotonicUs) -> bool {
        !self.is_over.load(SeqCst) && now.0 < self.until_us.load(SeqCst)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_grows_with_the_lease_and_never_returns() {
        let at = |sent: u64| Tenure::sent_at(MonotonicUs(sent), 5_000_000);
        let office = Office::of(at(0));
        assert!(office.is_held(MonotonicUs(3_999_999)) && !office.is_held(MonotonicUs(4_000_000)));
        office.extend(at(2_000_000));
        office.extend(at(1_000_000));
        assert!(office.is_held(MonotonicUs(5_999_999)) && !office.is_held(MonotonicUs(6_000_000)));
        office.end();
        office.extend(at(50_000_000));
        assert!(!office.is_held(MonotonicUs(1)) && !office.is_left());
        office.leave();
        assert!(office.is_left());
        assert!(Office::for_ever().is_held(MonotonicUs(1 << 60)));
    }
}
