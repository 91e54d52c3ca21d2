//! CLIENT PAUSE: until when a node's clients wait with their commands, all or those that write.
//!
//! A worker asks before it runs a command, and parks what is paused (`held_up.rs`).
//!
//! Invariants:
//! - A1: the reply to CLIENT PAUSE follows the moment at which every worker has passed a boundary with the
//!   pause in sight. So nothing that is paused takes effect behind that reply.
//! - A2: a pause ends by its time wherever the next worker looks, or with CLIENT UNPAUSE. Every change wakes
//!   all workers, and each of them runs again what it has parked.
//! - A3: a pause grows only: the later end and the wider kind count, until it is over.

use crate::detours::Detours;
use crate::queue::WorkerIndex;
use crate::worker_wakes::WorkerWakes;
use sidle_types::MonotonicUs;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// What is paused. The wider kind is the greater one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Paused {
    /// What may write.
    Writes = 1,
    /// Everything.
    All = 2,
}

const KIND_BITS: u32 = 2;

/// The pause of a node's clients.
#[derive(Debug)]
pub(crate) struct Pause {
    /// Its end in microseconds, shifted, and its kind; 0: there is none.
    state: AtomicU64,
    /// The number of the last change.
    changes: AtomicU64,
    /// The last change that all workers have seen.
    settled: AtomicU64,
    /// By worker: the last change that it has seen.
    seen: Vec<AtomicU64>,
    detours: Arc<Detours>,
    wakes: Arc<WorkerWakes>,
}

fn pack(kind: Paused, until: MonotonicUs) -> u64 {
    until.0.min(u64::MAX >> KIND_BITS) << KIND_BITS | kind as u64
}

fn unpack(state: u64) -> Option<(Paused, MonotonicUs)> {
    let kind = match state & ((1 << KIND_BITS) - 1) {
        0 => return None,
        1 => Paused::Writes,
        _ => Paused::All,
    };
    Some((kind, MonotonicUs(state >> KIND_BITS)))
}

/// The pause at an instant, if it is not over.
fn at(state: u64, now: MonotonicUs) -> Option<(Paused, MonotonicUs)> {
    unpack(state).filter(|&(_, until)| until > now)
}

impl Pause {
    /// No pause, at a node with so many workers.
    pub(crate) fn new(workers: usize, detours: &Arc<Detours>, wakes: &Arc<WorkerWakes>) -> Pause {
        Pause {
            state: AtomicU64::new(0),
            changes: AtomicU64::new(0),
            settled: AtomicU64::new(0),
            seen: (0..workers).map(|_| AtomicU64::new(0)).collect(),
            detours: Arc::clone(detours),
            wakes: Arc::clone(wakes),
        }
    }

    /// Begins a pause, or widens the one that there is. Returns the change's number.
    pub(crate) fn begin(&self, kind: Paused, now: MonotonicUs, until: MonotonicUs) -> u64 {
        let wider = |state| match at(state, now) {
            Some((before, end)) => pack(before.max(kind), end.max(until)),
            None => pack(kind, until),
        };
        let before = self.state.fetch_update(Ordering::AcqRel, Ordering::Acquire, |state| Some(wider(state)));
        if before == Ok(0) {
            self.detours.begin();
        }
        self.announce()
    }

    /// Ends it.
    pub(crate) fn end(&self) {
        if self.state.swap(0, Ordering::AcqRel) != 0 {
            self.detours.end();
            self.announce();
        }
    }

    /// What is paused now, and until when.
    pub(crate) fn at(&self, now: MonotonicUs) -> Option<(Paused, MonotonicUs)> {
        let state = self.state.load(Ordering::Acquire);
        let pause = at(state, now);
        let is_over = state != 0 && pause.is_none();
        // Others may have ended it, or begun another one.
        if is_over && self.state.compare_exchange(state, 0, Ordering::AcqRel, Ordering::Acquire).is_ok() {
            self.detours.end();
        }
        pause
    }

    /// Changes the number, and wakes all workers.
    fn announce(&self) -> u64 {
        let number = self.changes.fetch_add(1, Ordering::AcqRel) + 1;
        self.wake_all();
        number
    }

    fn wake_all(&self) {
        (0..self.seen.len()).for_each(|worker| self.wakes.add(WorkerIndex(worker as u16)));
    }

    /// A worker passes a boundary: from here on it runs nothing that is paused (A1). Returns what is the same
    /// as the last time if nothing has changed.
    #[inline]
    pub(crate) fn pass(&self, worker: WorkerIndex) -> (u64, u64) {
        let changes = self.changes.load(Ordering::Acquire);
        if self.seen[usize::from(worker.0)].load(Ordering::Relaxed) != changes {
            self.see(worker, changes);
        }
        (changes, self.settled.load(Ordering::Acquire))
    }

    #[cold]
    fn see(&self, worker: WorkerIndex, changes: u64) {
        self.seen[usize::from(worker.0)].store(changes, Ordering::SeqCst);
        let all = self.seen.iter().map(|seen| seen.load(Ordering::SeqCst)).min().unwrap_or(changes);
        if self.settled.fetch_max(all, Ordering::AcqRel) < all {
            self.wake_all();
        }
    }

    /// Whether all workers have seen a change.
    pub(crate) fn is_seen(&self, number: u64) -> bool {
        self.settled.load(Ordering::Acquire) >= number
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pause(workers: usize) -> (Pause, Arc<Detours>, Arc<WorkerWakes>) {
        let (detours, wakes) = (Arc::default(), Arc::default());
        (Pause::new(workers, &detours, &wakes), detours, wakes)
    }

    #[test]
    fn the_later_end_and_the_wider_kind_count() {
        let (pause, detours, _) = pause(1);
        let at = |us| pause.at(MonotonicUs(us));
        pause.begin(Paused::Writes, MonotonicUs(0), MonotonicUs(100));
        pause.begin(Paused::Writes, MonotonicUs(0), MonotonicUs(50));
        assert_eq!(at(99), Some((Paused::Writes, MonotonicUs(100))));
        pause.begin(Paused::All, MonotonicUs(0), MonotonicUs(50));
        pause.begin(Paused::Writes, MonotonicUs(0), MonotonicUs(200));
        assert_eq!(at(199), Some((Paused::All, MonotonicUs(200))));
        assert!(detours.is_any());
        assert_eq!(at(200), None);
        assert!(!detours.is_any());
        pause.begin(Paused::Writes, MonotonicUs(0), MonotonicUs(u64::MAX));
        assert!(matches!(at(1 << 61), Some((Paused::Writes, _))));
        pause.end();
        pause.end();
        assert_eq!((at(0), detours.is_any()), (None, false));
    }

    #[test]
    fn one_that_is_over_widens_no_other() {
        let (pause, detours, _) = pause(1);
        pause.begin(Paused::All, MonotonicUs(0), MonotonicUs(100));
        pause.begin(Paused::Writes, MonotonicUs(100), MonotonicUs(150));
        assert_eq!(pause.at(MonotonicUs(149)), Some((Paused::Writes, MonotonicUs(150))));
        assert_eq!(pause.at(MonotonicUs(150)), None);
        assert!(!detours.is_any());
    }

    #[test]
    fn it_is_seen_when_the_last_worker_has_passed() {
        let (pause, _, wakes) = pause(2);
        let woken = || std::iter::from_fn(|| wakes.poll()).count();
        let number = pause.begin(Paused::All, MonotonicUs(0), MonotonicUs(100));
        assert_eq!(woken(), 2);
        let first = pause.pass(WorkerIndex(0));
        assert!(!pause.is_seen(number) && woken() == 0);
        pause.pass(WorkerIndex(1));
        assert!(pause.is_seen(number) && woken() == 2);
        assert_ne!(pause.pass(WorkerIndex(0)), first, "it looks again");
        assert_eq!(pause.pass(WorkerIndex(0)), pause.pass(WorkerIndex(0)));
    }
}
