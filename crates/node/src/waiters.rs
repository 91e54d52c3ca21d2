//! Who waits for a key to have something to take: BLPOP and its like, first come first served.
//!
//! Purpose: one queue for each key for all of a node's workers. A waiting command holds nothing but its
//! places. When the key changes, the first in its queue gets the turn, and runs again from the start; then
//! the next one, if the key still has a value.
//!
//! Invariants:
//! - B1: a place is taken and left under the lock of its key's slot; a change is reported under the same. A
//!   place is taken only while there is nothing to take, or somebody before it has the turn. Where there is
//!   something and nobody has the turn, it is given with the place. So no change is missed between the look
//!   and the wait.
//! - B2: while somebody has the turn, no other waiting command takes from the key. Whoever has it runs again,
//!   or leaves, and passes it on: to the next while the key has a value.
//! - B3: a change during a turn begins the round again: those that found nothing to their liking look again.
//! - B4: a command's reply follows what it set off. Whoever gave a turn is answered when that turn and those
//!   after it are over, or their time is. So a client that pushed finds those served that waited.
//! - B5: nobody stands behind a command that stands behind others. Whoever takes something passes its turn on
//!   when it has run, though it is answered later; those behind it then stand where it stands, too. So two
//!   moves between two lists never wait for each other.
//!
//! What a migration brings is no change, and the keys were settled before the command waited. If the range
//! goes, a new table or step makes the command run again, and its client is redirected.

use crate::queue::WorkerIndex;
use crate::worker_wakes::WorkerWakes;
use sidle_store::{Entry, Observer, SlotGuards, Store};
use sidle_types::{HashedKey, Position, WallMs, fault};
use std::collections::{BTreeMap, VecDeque};
use std::fmt;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

const SHARDS: usize = 16;
const WORKER_BITS: u32 = 16;

/// A waiting command of the node: its number, and its worker. Never 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct WaiterId(u64);

impl WaiterId {
    pub(crate) fn from_bits(bits: u64) -> Option<WaiterId> {
        (bits != 0).then_some(WaiterId(bits))
    }

    pub(crate) fn bits(self) -> u64 {
        self.0
    }

    fn worker(self) -> WorkerIndex {
        WorkerIndex(self.0 as u16)
    }
}

/// Those that wait for one key.
#[derive(Debug, Default)]
struct Queue {
    waiters: VecDeque<WaiterId>,
    /// Whose turn it is.
    turn: Option<WaiterId>,
    /// The key has changed since this turn began.
    begins_again: bool,
    /// Commands that ran, and reply when the turns are over, here and wherever else they stand.
    behind: Vec<Arc<WaiterId>>,
}

impl Queue {
    /// The key has changed; returns whom to wake.
    fn changed(&mut self) -> Option<WaiterId> {
        if self.turn.is_some() {
            self.begins_again = true;
            return None;
        }
        self.turn = self.waiters.front().copied();
        self.turn
    }

    /// The turn is over, if it is this one's; returns whom to wake.
    fn pass(&mut self, id: WaiterId, leaves: bool, has_value: bool) -> Option<WaiterId> {
        let place = self.waiters.iter().position(|&waiter| waiter == id)?;
        if leaves && !(fault!(PlaceOutlivesItsCommand) && self.turn != Some(id)) {
            self.waiters.remove(place);
        }
        if self.turn != Some(id) {
            return None;
        }
        let next = if std::mem::take(&mut self.begins_again) { 0 } else { place + usize::from(!leaves) };
        self.turn = self.waiters.get(next).copied().filter(|_| has_value && !fault!(TurnEndsWithItsHolder));
        self.turn
    }
}

/// The waiting commands of a node.
#[derive(Debug)]
pub(crate) struct Waiters {
    queues: [Mutex<BTreeMap<Position, Queue>>; SHARDS],
    last_number: AtomicU64,
    /// How many wait.
    count: AtomicU64,
    /// By worker: those of its commands that are to run again, and whether there are any.
    woken: Vec<(AtomicBool, Mutex<Vec<WaiterId>>)>,
    /// Where it is left whose threads are to be woken.
    wakes: Arc<WorkerWakes>,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // Every change is one step.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Waiters {
    /// Nobody waits at a node with so many workers.
    pub(crate) fn new(workers: usize, wakes: &Arc<WorkerWakes>) -> Waiters {
        Waiters {
            queues: std::array::from_fn(|_| Mutex::default()),
            last_number: AtomicU64::new(0),
            count: AtomicU64::new(0),
            woken: (0..workers).map(|_| Default::default()).collect(),
            wakes: Arc::clone(wakes),
        }
    }

    fn queues(&self, position: Position) -> MutexGuard<'_, BTreeMap<Position, Queue>> {
        lock(&self.queues[position.slot().index() % SHARDS])
    }

    /// How many commands wait.
    #[inline]
    pub(crate) fn count(&self) -> u64 {
        self.count.load(Ordering::Acquire)
    }

    /// Whether somebody else has the turn at one of these keys, and this one, if any, has it at none.
    pub(crate) fn are_before(&self, id: Option<WaiterId>, keys: &[HashedKey<'_>]) -> bool {
        if self.count() == 0 {
            return false;
        }
        let turns = keys.iter().filter_map(|key| {
            let queues = self.queues(key.position());
            queues.get(&key.position()).and_then(|queue| queue.turn)
        });
        let mut is_anybodys = false;
        for turn in turns {
            if Some(turn) == id {
                return false;
            }
            is_anybodys = true;
        }
        is_anybodys
    }

    /// A command of this worker with these keys has run. Its new number, if somebody has the turn at one of
    /// them: it is woken when such turns are over. `own`: its places, whose turns do not count; those behind
    /// these stand where it stands, too (B5).
    pub(crate) fn stand_behind(
        &self,
        own: Option<WaiterId>,
        keys: &[HashedKey<'_>],
        worker: WorkerIndex,
    ) -> Option<WaiterId> {
        let mut those_behind = Vec::new();
        if let Some(own) = own {
            for key in keys {
                if let Some(queue) = self.queues(key.position()).get(&key.position())
                    && queue.turn == Some(own)
                {
                    those_behind.extend(queue.behind.iter().cloned());
                }
            }
        }
        let mut this: Option<Arc<WaiterId>> = None;
        for key in keys {
            let mut queues = self.queues(key.position());
            let queue = queues.get_mut(&key.position());
            let Some(queue) = queue.filter(|queue| queue.turn.is_some_and(|turn| Some(turn) != own)) else {
                continue;
            };
            let this = this.get_or_insert_with(|| Arc::new(self.next_id(worker)));
            queue.behind.push(Arc::clone(this));
            queue.behind.extend(those_behind.iter().cloned());
        }
        this.map(|this| *this)
    }

    fn next_id(&self, worker: WorkerIndex) -> WaiterId {
        let number = self.last_number.fetch_add(1, Ordering::Relaxed) + 1;
        WaiterId(number << WORKER_BITS | u64::from(worker.0))
    }

    /// Wakes a command, whoever's turn it is.
    pub(crate) fn wake(&self, id: WaiterId) {
        let worker = id.worker();
        let (has_any, woken) = &self.woken[usize::from(worker.0)];
        lock(woken).push(id);
        has_any.store(true, Ordering::Release);
        self.wakes.add(worker);
    }

    /// The commands of this worker that are to run again.
    #[inline]
    pub(crate) fn take_woken(&self, worker: WorkerIndex) -> Vec<WaiterId> {
        let (has_any, woken) = &self.woken[usize::from(worker.0)];
        if !has_any.load(Ordering::Acquire) {
            return Vec::new();
        }
        // First, so that what is added from now on is taken next time.
        has_any.swap(false, Ordering::AcqRel);
        std::mem::take(&mut *lock(woken))
    }
}

impl Observer for Waiters {
    fn touched(&self, position: Position) {
        let next = self.queues(position).get_mut(&position).and_then(Queue::changed);
        next.into_iter().for_each(|id| self.wake(id));
    }
}

/// A waiting command's places, until it is dropped.
pub(crate) struct Waiting {
    id: WaiterId,
    waiters: Arc<Waiters>,
    store: Arc<Store>,
    /// Each once.
    keys: Vec<Box<[u8]>>,
}

impl Waiting {
    /// Takes the last place for each of these keys, whose slots are locked; waits for nothing else if there
    /// are none. `has_value`: there is something to take, though somebody before it has the turn at another
    /// key.
    pub(crate) fn new(
        waiters: &Arc<Waiters>,
        store: &Arc<Store>,
        worker: WorkerIndex,
        keys: &[HashedKey<'_>],
        slots: &SlotGuards<'_>,
        has_value: impl Fn(HashedKey<'_>) -> bool,
    ) -> Waiting {
        let id = waiters.next_id(worker);
        let mut waiting =
            Waiting { id, waiters: Arc::clone(waiters), store: Arc::clone(store), keys: Vec::new() };
        let observer: Arc<dyn Observer> = Arc::<Waiters>::clone(waiters);
        waiters.count.fetch_add(1, Ordering::AcqRel);
        for key in keys {
            let mut queues = waiters.queues(key.position());
            let queue = queues.entry(key.position()).or_default();
            if queue.waiters.contains(&id) {
                continue;
            }
            queue.waiters.push_back(id);
            let is_first = queue.waiters.len() == 1;
            let next = if queue.turn.is_none() && has_value(*key) { queue.changed() } else { None };
            drop(queues);
            next.into_iter().for_each(|id| waiters.wake(id));
            waiting.keys.push(key.bytes().into());
            if is_first {
                slots.slot(key.slot()).observe(*key, &observer, false);
            }
        }
        waiting
    }

    pub(crate) fn id(&self) -> WaiterId {
        self.id
    }

    /// Where it waits.
    pub(crate) fn positions(&self) -> impl Iterator<Item = Position> {
        self.keys.iter().map(|key| HashedKey::new(key).position())
    }

    /// Whether one of its keys has a value, and nobody has the turn there.
    #[cfg(any(test, feature = "testing"))]
    pub(crate) fn misses_items(&self) -> bool {
        self.keys.iter().any(|key| {
            let key = HashedKey::new(key);
            let slot = self.store.lock_slot(key.slot());
            let has_turn = |queue: &Queue| queue.turn.is_some();
            matches!(slot.get(key), Entry::Value(_))
                && !self.waiters.queues(key.position()).get(&key.position()).is_some_and(has_turn)
        })
    }

    /// It has looked, and waits on. No slot is locked by this thread.
    pub(crate) fn pass(&self, now: WallMs) {
        self.each(false, |entry| matches!(entry, Entry::Value(record) if !record.is_expired(now)));
    }

    fn each(&self, leaves: bool, has_value: impl Fn(Entry<'_>) -> bool) {
        let observer: Arc<dyn Observer> = Arc::<Waiters>::clone(&self.waiters);
        for key in &self.keys {
            let key = HashedKey::new(key);
            let slot = self.store.lock_slot(key.slot());
            let has_value = has_value(slot.get(key));
            let mut queues = self.waiters.queues(key.position());
            let Some(queue) = queues.get_mut(&key.position()) else { continue };
            let next = queue.pass(self.id, leaves, has_value);
            let is_empty = queue.waiters.is_empty();
            let behind = if queue.turn.is_none() { std::mem::take(&mut queue.behind) } else { Vec::new() };
            if is_empty {
                queues.remove(&key.position());
            }
            drop(queues);
            if is_empty {
                slot.stop_observing(key, &observer);
            }
            // Whoever stands elsewhere, too, waits for that.
            let behind = behind.into_iter().filter_map(Arc::into_inner);
            next.into_iter().chain(behind).for_each(|id| self.waiters.wake(id));
        }
    }
}

impl fmt::Debug for Waiting {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Waiting")
            .field("id", &self.id)
            .field("keys", &self.keys.len())
            .finish_non_exhaustive()
    }
}

/// The thread has no slot locked.
impl Drop for Waiting {
    fn drop(&mut self) {
        // An expired value counts: whoever looks finds nothing.
        self.each(true, |entry| matches!(entry, Entry::Value(_)));
        self.waiters.count.fetch_sub(1, Ordering::AcqRel);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn queue(waiters: impl IntoIterator<Item = u64>) -> Queue {
        Queue { waiters: waiters.into_iter().map(WaiterId).collect(), ..Queue::default() }
    }

    #[test]
    fn a_turn_goes_on_while_there_is_something_to_take() {
        let mut queue = queue(1..=3);
        assert_eq!(queue.changed(), Some(WaiterId(1)));
        assert_eq!(queue.pass(WaiterId(2), true, true), None, "it is not its turn");
        assert_eq!(queue.pass(WaiterId(1), true, true), Some(WaiterId(3)));
        assert_eq!(queue.pass(WaiterId(3), true, false), None);
        assert!(queue.waiters.is_empty() && queue.turn.is_none());
    }

    #[test]
    fn who_finds_nothing_to_his_liking_keeps_his_place() {
        let mut queue = queue(1..=2);
        assert_eq!(queue.changed(), Some(WaiterId(1)));
        assert_eq!(queue.pass(WaiterId(1), false, true), Some(WaiterId(2)));
        assert_eq!(queue.pass(WaiterId(2), false, true), None, "all have looked");
        assert_eq!(queue.changed(), Some(WaiterId(1)));
        assert_eq!(queue.changed(), None);
        assert_eq!(queue.pass(WaiterId(1), false, true), Some(WaiterId(1)), "B3");
        assert_eq!(queue.pass(WaiterId(1), false, false), None);
    }

    #[test]
    fn a_change_begins_the_round_again_behind_who_leaves() {
        let mut queue = queue(1..=3);
        queue.changed();
        queue.pass(WaiterId(1), false, true);
        queue.changed();
        assert_eq!(queue.pass(WaiterId(2), true, true), Some(WaiterId(1)), "B3");
    }
}
