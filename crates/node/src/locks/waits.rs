//! Whether a command is to wait for a transaction (X4).

use crate::forward::Holds;
use crate::queue::WorkerIndex;
use sidle_store::{Guard, Store};
use sidle_txn::Locks;
use sidle_types::{HashedKey, locks_key};

/// Whether a transaction has locked one of these keys. The worker is then woken when one has ended.
#[inline]
pub(crate) fn awaits_transaction(
    store: &Store,
    who: (&Holds, WorkerIndex),
    keys: &[HashedKey<'_>],
    writes: bool,
) -> bool {
    keys.iter().any(|key| store.has_hidden(key.slot())) && waits_for(store, who, keys, writes)
}

#[cold]
fn waits_for(
    store: &Store,
    (holds, worker): (&Holds, WorkerIndex),
    keys: &[HashedKey<'_>],
    writes: bool,
) -> bool {
    let guard = store.pin();
    let is_any = || keys.iter().any(|&key| is_locked(&guard, key, writes));
    if !is_any() {
        return false;
    }
    holds.note_waiting(worker);
    // It may have ended before the worker was noted.
    is_any()
}

/// Whether a transaction has locked a key. A value that cannot be read locks it for good: nobody knows what
/// was promised.
fn is_locked(guard: &Guard<'_>, key: HashedKey<'_>, writes: bool) -> bool {
    let beside = locks_key(key.bytes());
    let Some(record) = guard.get(key.beside(&beside)).value() else { return false };
    Locks::read(record.value()).is_none_or(|locks| locks.awaited(writes).is_some())
}
