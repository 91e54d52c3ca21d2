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
//!
//! A worker that sleeps counts as past every publication, so nobody waits until it has woken up. It calls
//! [`RangeBarrier::sleep`] when it has no command under way, and [`RangeBarrier::wake`] before anything else
//! when it wakes; then it must reach a loop boundary before it runs a command. Between a publication and the
//! look at who sleeps, and between waking and the look at what was published, stands a fence each. So of a
//! publisher and a worker that wakes at least one sees the other.

use crate::sync::{AtomicU64, Mutex, Ordering, fence};
use sidle_types::fault;
use std::sync::{Arc, PoisonError};

/// Beside the number of a worker's publication: it sleeps.
const ASLEEP: u64 = 1 << 63;

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

/// On a cache line of its own: each worker writes only its own. The newest publication that it has passed,
/// and whether it sleeps.
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
        fence(Ordering::SeqCst);
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
        let before = seen.load(Ordering::Relaxed);
        assert!(before & ASLEEP == 0, "worker {worker} passes publication {epoch} in its sleep");
        assert!(before <= epoch, "worker {worker} went back to publication {epoch}");
        // All that the worker did under the old table precedes this store, and so the proof.
        seen.store(epoch, Ordering::Release);
    }

    /// A worker sleeps from now on: no command of its is under way. Returns whether there is a publication
    /// that it had not passed; then somebody may wait to be notified.
    pub fn sleep(&self, worker: usize) -> bool {
        let seen = &self.shared.seen[worker].0;
        let passed = seen.load(Ordering::Relaxed) & !ASLEEP;
        seen.store(passed | ASLEEP, Ordering::Release);
        fence(Ordering::SeqCst);
        self.published() > passed
    }

    /// A worker has woken up. It must reach a loop boundary before it runs a command.
    pub fn wake(&self, worker: usize) {
        let seen = &self.shared.seen[worker].0;
        seen.store(seen.load(Ordering::Relaxed) & !ASLEEP, Ordering::Relaxed);
        fence(Ordering::SeqCst);
    }

    /// The publication that a worker uses: the newest, if it sleeps.
    pub fn used_by(&self, worker: usize) -> u64 {
        let seen = self.shared.seen[worker].0.load(Ordering::Acquire);
        if seen & ASLEEP == 0 { seen } else { self.published() }
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
        self.awaited().next().is_none().then_some(BarrierPassed { epoch: self.epoch })
    }

    /// The workers that neither have passed nor sleep.
    pub fn awaited(&self) -> impl Iterator<Item = usize> {
        let is_awaited = |seen: &Seen| {
            let seen = seen.0.load(Ordering::Acquire);
            seen & ASLEEP == 0 && seen < self.epoch
        };
        self.shared
            .seen
            .iter()
            .enumerate()
            .filter_map(move |(worker, seen)| is_awaited(seen).then_some(worker))
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

#[cfg(all(test, not(loom)))]
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
    fn a_worker_that_sleeps_has_passed_until_it_wakes() {
        let barrier = RangeBarrier::new(2);
        assert!(!barrier.sleep(0), "there is nothing to pass");
        let first = barrier.publish();
        assert_eq!(first.awaited().collect::<Vec<_>>(), [1]);
        assert_eq!((barrier.used_by(0), barrier.used_by(1)), (1, 0));
        assert!(barrier.sleep(1), "somebody may wait for it");
        assert!(first.passed().is_some());
        barrier.wake(0);
        let second = barrier.publish();
        assert_eq!(second.awaited().collect::<Vec<_>>(), [0]);
        barrier.pass(0, 2);
        assert!(second.passed().is_some());
    }

    #[test]
    #[should_panic(expected = "in its sleep")]
    fn pass_refuses_a_worker_that_sleeps() {
        let barrier = RangeBarrier::new(1);
        barrier.sleep(0);
        barrier.pass(0, 0);
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
