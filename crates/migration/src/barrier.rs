//! The barrier between a published range table and the steps that rely on every worker using it.
//!
//! Purpose: a command runs wholly between two loop boundaries of its worker, with the worker's range table at
//! the first. Once every worker has passed a boundary at which it took the new table, no command still uses
//! the old one. [`BarrierPassed`] is the proof, and the steps that depend on it take it as an argument.
//!
//! Invariants: M2 (the freeze holds from the proof on), M8 (release and sweep begin after it).
//!
//! Realises: Fulva assumes RAMCloud's dispatch thread to reject writes from one instant on (IV-A, "the source
//! rejects the requests"); with several workers the barrier creates that instant.
//!
//! Ownership and call order. Publisher (one thread at a time): store the new table where workers find it,
//! then [`RangeBarrier::publish`], then wake every worker, then ask [`BarrierTicket::passed`] until it
//! answers. Worker, at a loop boundary and never within a command: read [`RangeBarrier::published`]; if it
//! grew, take the current table, *then* [`RangeBarrier::pass`] with the number read before.

use sidle_types::fault;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

/// Counts publications, and which of them each worker has seen.
#[derive(Clone, Debug)]
pub struct RangeBarrier {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    published: AtomicU64,
    /// Held while a publication gets its number: several threads may publish.
    publishing: Mutex<()>,
    /// By worker: the newest publication whose table it uses.
    seen: Box<[Seen]>,
}

/// On a cache line of its own: each worker writes only its own.
#[derive(Debug)]
#[repr(align(64))]
struct Seen(AtomicU64);

impl RangeBarrier {
    /// A barrier for this many workers, each of which has seen the (empty) publication 0.
    pub fn new(workers: usize) -> RangeBarrier {
        let seen = (0..workers).map(|_| Seen(AtomicU64::new(0))).collect();
        RangeBarrier {
            shared: Arc::new(Shared { published: AtomicU64::new(0), publishing: Mutex::new(()), seen }),
        }
    }

    /// Announces a range table that has been stored where workers find it.
    #[must_use]
    pub fn publish(&self) -> BarrierTicket {
        self.publish_with(|_| ())
    }

    /// As [`publish`](Self::publish), for what has to know its publication's number before anyone sees it.
    #[must_use]
    pub fn publish_with(&self, write: impl FnOnce(u64)) -> BarrierTicket {
        let _publishing = self.shared.publishing.lock().unwrap_or_else(PoisonError::into_inner);
        write(self.published() + 1);
        let epoch = self.shared.published.fetch_add(1, Ordering::AcqRel) + 1;
        BarrierTicket { shared: Arc::clone(&self.shared), epoch }
    }

    /// The newest publication. A table loaded after this call is that publication's or a newer one.
    #[inline]
    pub fn published(&self) -> u64 {
        self.shared.published.load(Ordering::Acquire)
    }

    /// From now on a worker, at a loop boundary, uses the table of publication `epoch` (or a newer one).
    pub fn pass(&self, worker: usize, epoch: u64) {
        let seen = &self.shared.seen[worker].0;
        assert!(epoch <= self.published(), "worker {worker} saw publication {epoch} before it was made");
        assert!(seen.load(Ordering::Relaxed) <= epoch, "worker {worker} went back to publication {epoch}");
        // All that the worker did under the old table precedes this store, and so the proof.
        seen.store(epoch, Ordering::Release);
    }
}

/// A publication whose barrier is awaited.
#[derive(Debug)]
pub struct BarrierTicket {
    shared: Arc<Shared>,
    epoch: u64,
}

impl BarrierTicket {
    /// The proof, once every worker has passed.
    pub fn passed(&self) -> Option<BarrierPassed> {
        let passed = |seen: &Seen| seen.0.load(Ordering::Acquire) >= self.epoch;
        self.shared.seen.iter().all(passed).then_some(BarrierPassed { epoch: self.epoch })
    }

    /// A false proof, only for a fault that is put back.
    pub fn unproved(&self) -> BarrierPassed {
        assert!(
            fault!(FreezeWithoutBarrier) || fault!(TrackingWithoutBarrier),
            "not every worker has passed"
        );
        BarrierPassed { epoch: self.epoch }
    }
}

/// Proof that no worker acts on a range table from before a certain publication.
#[derive(Debug, PartialEq, Eq)]
#[must_use = "the step that waited for the barrier takes this as its argument"]
pub struct BarrierPassed {
    epoch: u64,
}

impl BarrierPassed {
    /// Which publication has passed; later ones have larger numbers.
    pub fn epoch(&self) -> u64 {
        self.epoch
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn passed_waits_for_every_worker() {
        let barrier = RangeBarrier::new(2);
        let ticket = barrier.publish();
        assert_eq!(ticket.passed(), None);
        barrier.pass(0, barrier.published());
        assert_eq!(ticket.passed(), None);
        barrier.pass(1, barrier.published());
        assert_eq!(ticket.passed().map(|proof| proof.epoch()), Some(1));
    }

    #[test]
    fn passed_ignores_workers_that_saw_only_an_older_publication() {
        let barrier = RangeBarrier::new(1);
        let first = barrier.publish();
        let seen = barrier.published();
        let second = barrier.publish();
        barrier.pass(0, seen);
        assert!(first.passed().is_some());
        assert_eq!(second.passed(), None);
    }

    #[test]
    #[should_panic(expected = "before it was made")]
    fn pass_refuses_a_publication_that_was_not_made() {
        RangeBarrier::new(1).pass(0, 1);
    }

    #[test]
    #[should_panic(expected = "went back")]
    fn pass_refuses_to_go_back() {
        let barrier = RangeBarrier::new(1);
        let _ = barrier.publish();
        barrier.pass(0, 1);
        barrier.pass(0, 0);
    }
}
