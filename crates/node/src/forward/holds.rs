//! Holds: the keys of commands that several nodes carry out together, which other commands leave alone
//! meanwhile (F8).
//!
//! Purpose: one table for a node's workers. A command that only reads lets others read, too.
//!
//! Invariants:
//! - H1: holds that conflict are granted in the order of their requests, all keys of one at once. So no two
//!   wait for each other, and none is passed over for ever.
//! - H2: a hold is granted under the locks of its slots. A write checks for holds under the same lock, so
//!   that none is published between the grant and its end. A read of one key checks before it looks: what it
//!   finds was there at the grant, or is there after the end. A read of several keys checks on both sides.
//! - H3: a worker that found a hold in its way is woken when any has ended.

use crate::queue::WorkerIndex;
use sidle_types::{HashedKey, Position};
use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering, fence};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// The most holds of a node, requested ones included; beyond that commands wait for the end of one.
const MOST: usize = 1_024;

/// The holds of a node.
#[derive(Debug, Default)]
pub(crate) struct Holds {
    /// A bit for each slot with a granted hold, by its number modulo 64.
    filter: AtomicU64,
    /// How many were granted so far, and how many have ended.
    granted: AtomicU64,
    ended: AtomicU64,
    /// Whether [`List::to_wake`] has any.
    wakes: AtomicBool,
    list: Mutex<List>,
}

#[derive(Debug, Default)]
struct List {
    last_id: u64,
    /// In the order of their requests.
    entries: Vec<Entry>,
    /// Workers with commands that wait for the end of a hold.
    waiting: BTreeSet<WorkerIndex>,
    /// Those of them to be woken.
    to_wake: BTreeSet<WorkerIndex>,
}

#[derive(Debug)]
struct Entry {
    id: u64,
    /// In order.
    positions: Vec<Position>,
    is_write: bool,
    is_granted: bool,
}

impl Entry {
    fn conflicts(&self, other: &Entry) -> bool {
        let shares = || self.positions.iter().any(|position| other.positions.binary_search(position).is_ok());
        (self.is_write || other.is_write) && shares()
    }
}

/// A requested or granted hold; it ends when it is dropped.
#[derive(Debug)]
pub(crate) struct Hold {
    holds: Arc<Holds>,
    id: u64,
}

fn bit(position: Position) -> u64 {
    1 << (position.slot().number() % 64)
}

impl Holds {
    /// Whether any hold is granted.
    #[inline]
    pub(crate) fn is_any(&self) -> bool {
        self.filter.load(Ordering::Acquire) != 0
    }

    /// How many were granted, after all that this thread has read.
    pub(crate) fn granted(&self) -> u64 {
        fence(Ordering::Acquire);
        self.granted.load(Ordering::Acquire)
    }

    /// How many have ended.
    pub(crate) fn ended(&self) -> u64 {
        self.ended.load(Ordering::Acquire)
    }

    /// Whether a granted hold forbids this access. The worker is then woken when a hold has ended.
    #[cold]
    pub(crate) fn forbid(&self, keys: &[HashedKey<'_>], is_write: bool, worker: WorkerIndex) -> bool {
        let filter = self.filter.load(Ordering::Acquire);
        if keys.iter().all(|key| filter & bit(key.position()) == 0) {
            return false;
        }
        let mut list = self.list();
        let mut held = list.entries.iter().filter(|entry| entry.is_granted && (entry.is_write || is_write));
        let is_held =
            |key: &HashedKey<'_>, entry: &Entry| entry.positions.binary_search(&key.position()).is_ok();
        let forbids = held.any(|entry| keys.iter().any(|key| is_held(key, entry)));
        if forbids {
            list.waiting.insert(worker);
        }
        forbids
    }

    /// The worker has found a transaction in its way, and is woken when one has ended (H3).
    pub(crate) fn note_waiting(&self, worker: WorkerIndex) {
        self.list().waiting.insert(worker);
    }

    /// A transaction has locked keys, under whose locks this is called (H2).
    pub(crate) fn note_granted(&self) {
        self.granted.fetch_add(1, Ordering::AcqRel);
    }

    /// A transaction has ended at a key.
    pub(crate) fn note_end(&self) {
        self.end_one(&mut self.list());
    }

    fn end_one(&self, list: &mut List) {
        self.ended.fetch_add(1, Ordering::AcqRel);
        let waiting = std::mem::take(&mut list.waiting);
        list.to_wake.extend(waiting);
        self.wakes.store(!list.to_wake.is_empty(), Ordering::Release);
    }

    /// Requests a hold of these keys; `None` if there are too many, and the worker is woken when one has
    /// ended.
    pub(crate) fn request(
        self: &Arc<Self>,
        keys: &[HashedKey<'_>],
        is_write: bool,
        worker: WorkerIndex,
    ) -> Option<Hold> {
        let mut list = self.list();
        if list.entries.len() >= MOST {
            list.waiting.insert(worker);
            return None;
        }
        let mut positions: Vec<Position> = keys.iter().map(|key| key.position()).collect();
        positions.sort_unstable();
        positions.dedup();
        list.last_id += 1;
        let id = list.last_id;
        list.entries.push(Entry { id, positions, is_write, is_granted: false });
        Some(Hold { holds: Arc::clone(self), id })
    }

    /// The next worker to wake.
    pub(crate) fn poll_wake(&self) -> Option<WorkerIndex> {
        if !self.wakes.load(Ordering::Acquire) {
            return None;
        }
        let mut list = self.list();
        let worker = list.to_wake.pop_first();
        self.wakes.store(!list.to_wake.is_empty(), Ordering::Release);
        worker
    }

    /// How many there are, requested ones included.
    pub(crate) fn len(&self) -> usize {
        self.list().entries.len()
    }

    fn list(&self) -> MutexGuard<'_, List> {
        self.list.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn set_filter(&self, list: &List) {
        let granted = list.entries.iter().filter(|entry| entry.is_granted);
        let filter = granted.flat_map(|entry| &entry.positions).fold(0, |all, &position| all | bit(position));
        self.filter.store(filter, Ordering::Release);
    }
}

impl Hold {
    /// Grants it unless an earlier one conflicts; the worker is then woken when one has ended. H2: the caller
    /// has locked the slots of the keys that are here.
    pub(crate) fn grant(&self, worker: WorkerIndex) -> bool {
        let mut list = self.holds.list();
        let own = list.entries.iter().position(|entry| entry.id == self.id).expect("H1: it is in the list");
        if list.entries[..own].iter().any(|earlier| earlier.conflicts(&list.entries[own])) {
            list.waiting.insert(worker);
            return false;
        }
        list.entries[own].is_granted = true;
        self.holds.granted.fetch_add(1, Ordering::AcqRel);
        self.holds.set_filter(&list);
        true
    }
}

impl Drop for Hold {
    fn drop(&mut self) {
        let mut list = self.holds.list();
        list.entries.retain(|entry| entry.id != self.id);
        self.holds.set_filter(&list);
        self.holds.end_one(&mut list);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const W: WorkerIndex = WorkerIndex(3);

    fn keys<const N: usize>(names: [&'static str; N]) -> [HashedKey<'static>; N] {
        names.map(|name| HashedKey::new(name.as_bytes()))
    }

    #[test]
    fn a_hold_that_writes_forbids_all_and_one_that_reads_forbids_writes() {
        let holds = Arc::new(Holds::default());
        for is_write in [true, false] {
            let hold = holds.request(&keys(["a", "b"]), is_write, W).expect("there is room");
            assert!(!holds.is_any() && !holds.forbid(&keys(["a"]), true, W), "requested only");
            assert!(hold.grant(W) && holds.is_any());
            assert!(holds.forbid(&keys(["c", "b"]), true, W));
            assert_eq!(holds.forbid(&keys(["a"]), false, W), is_write);
            assert!(!holds.forbid(&keys(["c"]), true, W), "another key");
            drop(hold);
            assert!(!holds.is_any() && !holds.forbid(&keys(["a"]), true, W));
        }
    }

    #[test]
    fn conflicting_holds_are_granted_in_the_order_of_their_requests() {
        let holds = Arc::new(Holds::default());
        let request = |names, is_write| holds.request(&keys(names), is_write, W).expect("there is room");
        let (first, second) = (request(["a", "b"], false), request(["b", "c"], false));
        assert!(first.grant(W) && second.grant(W), "both only read");
        let (third, fourth) = (request(["c", "d"], true), request(["c", "e"], false));
        assert!(!third.grant(W) && !fourth.grant(W), "H1: it came behind one that writes");
        let apart = request(["x", "y"], true);
        assert!(apart.grant(W));
        drop(second);
        assert!(!fourth.grant(W) && third.grant(W));
        drop(third);
        assert!(fourth.grant(W));
    }

    #[test]
    fn whoever_found_a_hold_in_its_way_is_woken_at_the_end_of_one() {
        let holds = Arc::new(Holds::default());
        let hold = holds.request(&keys(["a"]), true, W).expect("there is room");
        assert!(hold.grant(W));
        let (ended, behind) = (holds.ended(), holds.request(&keys(["a"]), true, W).expect("there is room"));
        assert!(!behind.grant(WorkerIndex(1)) && holds.forbid(&keys(["a"]), false, WorkerIndex(2)));
        assert_eq!(holds.poll_wake(), None);
        drop(hold);
        assert_ne!(holds.ended(), ended);
        let woken: Vec<_> = std::iter::from_fn(|| holds.poll_wake()).collect();
        assert_eq!(woken, [WorkerIndex(1), WorkerIndex(2)]);
    }

    #[test]
    fn one_hold_too_many_waits() {
        let holds = Arc::new(Holds::default());
        let mut all: Vec<Hold> =
            (0..MOST).map(|_| holds.request(&keys(["a"]), false, W).expect("there is room")).collect();
        assert!(holds.request(&keys(["b"]), false, W).is_none());
        all.pop();
        assert_eq!(holds.poll_wake(), Some(W));
        assert!(holds.request(&keys(["b"]), false, W).is_some());
        assert_eq!(holds.len(), MOST - 1);
    }
}
