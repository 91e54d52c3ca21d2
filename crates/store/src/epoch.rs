//! Epochs: when memory that readers may still use is freed.
//!
//! Purpose: readers take no lock and do no read-modify-write, yet an unlinked segment, bucket array or chain
//! must outlive every reader that may have found it.
//!
//! How: each thread has a participant per store. Pinning stores the current epoch there, unpinning stores 0.
//! Unlinked objects are retired into a limbo, which closes the current epoch over them. Collecting frees them
//! once no participant is pinned in that epoch or an earlier one.
//!
//! Invariants:
//! - E1 An object is retired, and an epoch closed over it, after the store that unlinks it.
//! - E2 A participant pinned with an epoch later than the object's has seen the closing, hence the unlinking.
//! - E3 A participant whose pin the collector does not see will, by the fence, see the unlinking.
//!
//! Why not crossbeam-epoch: its pin is a sequentially consistent fence, 10 to 20 ns where a whole GET is to
//! take 60. Here the collector pays. On Linux `membarrier` makes every running thread pass a barrier, so a
//! pin is a plain store; without that call a pin falls back to a fence. The collector runs once per freed
//! segment.
//!
//! Ownership: participants belong to their threads; any thread collects.
#![allow(unsafe_code)] // one dereference of a thread-local cache, see `Epochs::participant`

use crate::sync::{AtomicU32, AtomicU64, Mutex, MutexGuard, Ordering, fence};
use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::sync::{Arc, OnceLock, PoisonError};

const UNPINNED: u64 = 0;
const FIRST_EPOCH: u64 = 1;

/// One thread's pin on one store. On its own cache lines: every pin writes it.
#[repr(align(128))]
#[derive(Debug)]
pub(crate) struct Participant {
    /// [`UNPINNED`] or the epoch it was pinned in.
    pinned: AtomicU64,
    /// How many guards its thread holds; only that thread accesses it.
    depth: AtomicU32,
    /// 1 while a thread owns it.
    owned: AtomicU32,
    /// 1 once the store is gone.
    closed: AtomicU32,
}

impl Participant {
    fn new() -> Participant {
        Participant {
            pinned: AtomicU64::new(UNPINNED),
            depth: AtomicU32::new(0),
            owned: AtomicU32::new(1),
            closed: AtomicU32::new(0),
        }
    }

    /// Whether its thread holds a guard.
    #[inline]
    pub(crate) fn is_pinned(&self) -> bool {
        self.depth.load(Ordering::Relaxed) != 0
    }

    /// Drops one guard.
    #[inline]
    pub(crate) fn unpin(&self) {
        let depth = self.depth.load(Ordering::Relaxed) - 1;
        self.depth.store(depth, Ordering::Relaxed);
        if depth == 0 {
            self.pinned.store(UNPINNED, Ordering::Release);
        }
    }
}

/// The epochs of one store.
#[derive(Debug)]
pub(crate) struct Epochs {
    global: AtomicU64,
    /// Whether `membarrier` replaces the readers' fence.
    asymmetric: bool,
    #[cfg_attr(loom, allow(dead_code))]
    id: u64,
    participants: Mutex<Vec<Arc<Participant>>>,
}

impl Epochs {
    pub(crate) fn new() -> Epochs {
        static NEXT_ID: std::sync::atomic::AtomicU64 = std::sync::atomic::AtomicU64::new(1);
        Epochs {
            global: AtomicU64::new(FIRST_EPOCH),
            asymmetric: membarrier_works(),
            id: NEXT_ID.fetch_add(1, std::sync::atomic::Ordering::Relaxed),
            participants: Mutex::new(Vec::new()),
        }
    }

    /// Pins the participant of the calling thread.
    #[inline]
    pub(crate) fn pin(&self, participant: &Participant) {
        let depth = participant.depth.load(Ordering::Relaxed);
        participant.depth.store(depth + 1, Ordering::Relaxed);
        if depth == 0 {
            let epoch = self.global.load(Ordering::Acquire);
            // Release: a collector that reads this pin sees that earlier pins' accesses are over.
            participant.pinned.store(epoch, Ordering::Release);
            if self.asymmetric {
                std::sync::atomic::compiler_fence(std::sync::atomic::Ordering::SeqCst);
            } else {
                fence(Ordering::SeqCst);
            }
        }
    }

    /// Closes the current epoch and returns it.
    pub(crate) fn close(&self) -> u64 {
        self.global.fetch_add(1, Ordering::AcqRel)
    }

    /// The oldest epoch that may still be pinned; everything retired in earlier ones is free.
    pub(crate) fn oldest_pinned(&self) -> u64 {
        if self.asymmetric {
            heavy_barrier();
        } else {
            fence(Ordering::SeqCst);
        }
        let participants = self.participants.lock().unwrap_or_else(PoisonError::into_inner);
        participants
            .iter()
            .map(|participant| participant.pinned.load(Ordering::Acquire))
            .filter(|&pinned| pinned != UNPINNED)
            .min()
            .unwrap_or(u64::MAX)
    }

    /// A participant for the calling thread: a finished thread's, or a new one.
    pub(crate) fn register(&self) -> Arc<Participant> {
        let mut participants = self.participants.lock().unwrap_or_else(PoisonError::into_inner);
        for participant in participants.iter() {
            if participant.owned.load(Ordering::Acquire) == 0 {
                participant.owned.store(1, Ordering::Relaxed);
                return participant.clone();
            }
        }
        let participant = Arc::new(Participant::new());
        participants.push(participant.clone());
        participant
    }
}

impl Drop for Epochs {
    fn drop(&mut self) {
        for participant in self.participants.get_mut().unwrap_or_else(PoisonError::into_inner) {
            participant.closed.store(1, Ordering::Release);
        }
    }
}

fn membarrier_works() -> bool {
    use rustix::thread::{MembarrierCommand, MembarrierQuery, membarrier, membarrier_query};
    static WORKS: OnceLock<bool> = OnceLock::new();
    !cfg!(loom)
        && *WORKS.get_or_init(|| {
            let query: MembarrierQuery = membarrier_query();
            query.contains_command(MembarrierCommand::PrivateExpedited)
                && membarrier(MembarrierCommand::RegisterPrivateExpedited).is_ok()
        })
}

fn heavy_barrier() {
    use rustix::thread::{MembarrierCommand, membarrier};
    membarrier(MembarrierCommand::PrivateExpedited).expect("registered when the store was made");
}

/// The participants of one thread, one per store that it uses.
struct Cache {
    /// The store used last and its participant; null when there is none.
    last: Cell<(u64, *const Participant)>,
    all: RefCell<Vec<(u64, Arc<Participant>)>>,
}

impl Drop for Cache {
    fn drop(&mut self) {
        for (_, participant) in self.all.get_mut().drain(..) {
            // A leaked guard keeps its pin for ever: another thread may use what it protects.
            if !participant.is_pinned() {
                participant.owned.store(0, Ordering::Release);
            }
        }
    }
}

thread_local! {
    static CACHE: Cache = const {
        Cache { last: Cell::new((0, std::ptr::null())), all: RefCell::new(Vec::new()) }
    };
}

impl Epochs {
    /// The calling thread's participant.
    #[inline]
    pub(crate) fn participant(&self) -> &Participant {
        CACHE.with(|cache| {
            let (id, last) = cache.last.get();
            let pointer = if id == self.id { last } else { self.participant_cold(cache) };
            // SAFETY: `participants` of this very store holds the Arc while self exists. Ids are never
            // reused, so a cached pointer with this id is one of them.
            unsafe { &*pointer }
        })
    }

    #[cold]
    fn participant_cold(&self, cache: &Cache) -> *const Participant {
        let mut all = cache.all.borrow_mut();
        all.retain(|(_, participant)| participant.closed.load(Ordering::Acquire) == 0);
        let known =
            all.iter().find(|(id, _)| *id == self.id).map(|(_, participant)| Arc::as_ptr(participant));
        let pointer = known.unwrap_or_else(|| {
            let participant = self.register();
            let pointer = Arc::as_ptr(&participant);
            all.push((self.id, participant));
            pointer
        });
        cache.last.set((self.id, pointer));
        pointer
    }
}

/// Proof that the calling thread is pinned (or that nothing else can free what it reads) for `'p`.
#[derive(Clone, Copy)]
pub(crate) struct Pinned<'p> {
    _pin: std::marker::PhantomData<&'p ()>,
}

impl<'p> Pinned<'p> {
    /// Only guards make these: a [`crate::Guard`] and a writer's lock.
    #[inline]
    pub(crate) fn by<T>(_guard: &'p T) -> Pinned<'p> {
        Pinned { _pin: std::marker::PhantomData }
    }
}

/// Unlinked objects that wait for their readers, each with the epoch closed over it; oldest first.
pub(crate) struct Limbo<T> {
    waiting: Mutex<VecDeque<(u64, T)>>,
}

impl<T> Limbo<T> {
    pub(crate) fn new() -> Limbo<T> {
        Limbo { waiting: Mutex::new(VecDeque::new()) }
    }

    fn waiting(&self) -> MutexGuard<'_, VecDeque<(u64, T)>> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds an object that has just been unlinked (E1).
    pub(crate) fn retire(&self, epochs: &Epochs, object: T) {
        let mut waiting = self.waiting();
        let epoch = epochs.close();
        waiting.push_back((epoch, object));
    }

    /// Removes and returns everything that no reader can still see.
    pub(crate) fn collect(&self, epochs: &Epochs) -> Vec<T> {
        let mut waiting = self.waiting();
        if waiting.is_empty() {
            return Vec::new();
        }
        let oldest = epochs.oldest_pinned();
        let free = waiting.partition_point(|(epoch, _)| *epoch < oldest);
        waiting.drain(..free).map(|(_, object)| object).collect()
    }

    /// Visits every waiting object.
    #[cfg(feature = "testing")]
    pub(crate) fn each(&self, f: impl FnMut(&T)) {
        self.waiting().iter().map(|(_, object)| object).for_each(f);
    }

    /// Everything, readers or not; the caller has exclusive access to the store.
    pub(crate) fn drain(&mut self) -> impl Iterator<Item = T> {
        let waiting = self.waiting.get_mut().unwrap_or_else(PoisonError::into_inner);
        waiting.drain(..).map(|(_, object)| object)
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn collect_waits_for_pins_of_the_same_epoch_only() {
        let epochs = Epochs::new();
        let limbo = Limbo::new();
        let (earlier, later) = (epochs.register(), epochs.register());
        epochs.pin(&earlier);
        limbo.retire(&epochs, 1);
        assert!(limbo.collect(&epochs).is_empty());
        epochs.pin(&later);
        assert!(limbo.collect(&epochs).is_empty());
        earlier.unpin();
        assert_eq!(limbo.collect(&epochs), [1]);
        limbo.retire(&epochs, 2);
        assert!(limbo.collect(&epochs).is_empty());
        later.unpin();
        assert_eq!(limbo.collect(&epochs), [2]);
        assert!(limbo.collect(&epochs).is_empty());
    }

    #[test]
    fn pin_nests() {
        let epochs = Epochs::new();
        let limbo = Limbo::new();
        let participant = epochs.participant();
        epochs.pin(participant);
        epochs.pin(participant);
        participant.unpin();
        limbo.retire(&epochs, ());
        assert!(limbo.collect(&epochs).is_empty());
        participant.unpin();
        assert_eq!(limbo.collect(&epochs).len(), 1);
    }

    #[test]
    fn register_reuses_what_a_finished_thread_left() {
        let epochs = Epochs::new();
        for _ in 0..10 {
            std::thread::scope(|scope| {
                let thread = scope.spawn(|| {
                    let participant = epochs.participant();
                    epochs.pin(participant);
                    participant.unpin();
                });
                // The end of a scope does not wait for the destructors of thread-local values; a join does.
                thread.join().unwrap();
            });
        }
        assert_eq!(epochs.participants.lock().unwrap().len(), 1);
    }
}
