//! The workers whose threads are to be woken: another worker has left them something to do.

use crate::queue::WorkerIndex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// The workers of a node that are to be woken.
#[derive(Debug, Default)]
pub(crate) struct WorkerWakes {
    /// Whether there are any.
    is_any: AtomicBool,
    workers: Mutex<Vec<WorkerIndex>>,
}

impl WorkerWakes {
    /// This one is to be woken.
    pub(crate) fn add(&self, worker: WorkerIndex) {
        self.workers().push(worker);
        self.is_any.store(true, Ordering::Release);
    }

    /// The next one.
    #[inline]
    pub(crate) fn poll(&self) -> Option<WorkerIndex> {
        if !self.is_any.load(Ordering::Acquire) {
            return None;
        }
        let mut workers = self.workers();
        let worker = workers.pop();
        self.is_any.store(!workers.is_empty(), Ordering::Release);
        worker
    }

    fn workers(&self) -> MutexGuard<'_, Vec<WorkerIndex>> {
        // Every change is one step.
        self.workers.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
