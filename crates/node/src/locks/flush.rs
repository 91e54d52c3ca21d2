//! FLUSHALL among transactions: it waits for those that have locked keys, and keeps what became of others.
//!
//! Were a vote forgotten, its key would refuse a transaction that others have committed; were an outcome, a
//! late request would be carried out again. So what lies beside keys stays. A key that has voted is flushed
//! once its transaction has ended: before, the flush would be neither before that transaction nor behind it.

use super::claims::{Claims, WholeClaim};
use crate::forward::Holds;
use crate::queue::WorkerIndex;
use sidle_store::{Leave, LogHead, Store};
use sidle_txn::Locks;
use sidle_types::{Position, PositionRange, Slot, ValueKind, fault};
use std::sync::Arc;

/// From now on no key of this node votes, until the claim ends. Whoever has not seen it has ended.
pub(crate) fn claim_everything(claims: &Arc<Claims>, store: &Store) -> WholeClaim {
    let claim = claims.claim_everything();
    // Claims are looked at under the slots' locks.
    Slot::all().for_each(|slot| drop(store.lock_slot(slot)));
    claim
}

/// Whether a key in the range has voted for a transaction that has not ended. The worker is then woken when
/// one has.
pub(crate) fn awaits_any(
    store: &Store,
    (holds, worker): (&Holds, WorkerIndex),
    range: PositionRange,
) -> bool {
    if !store.has_locks() || fault!(FlushIgnoresLocks) || !has_voted(store, range) {
        return false;
    }
    holds.note_waiting(worker);
    // It may have ended before the worker was noted.
    has_voted(store, range)
}

fn has_voted(store: &Store, range: PositionRange) -> bool {
    store.positions_with_locks(range).into_iter().any(|position| has_voted_at(store, position))
}

fn has_voted_at(store: &Store, position: Position) -> bool {
    let mut has = false;
    store.visit(position, position, usize::MAX, &mut |record| {
        has |= record.kind() == ValueKind::Locks
            && Locks::read(record.value())
                .is_none_or(|locks| locks.entries().iter().any(|entry| entry.state.is_prepared()));
    });
    has
}

/// The keys at a position that have something beside them, and other keys there; not what is beside them.
pub(crate) fn keys_at(store: &Store, position: Position) -> Vec<Vec<u8>> {
    let mut keys = Vec::new();
    store.visit(position, position, usize::MAX, &mut |record| {
        if record.kind() != ValueKind::Locks {
            keys.push(record.key().to_vec());
        }
    });
    keys
}

/// Removes the keys at a position; what lies beside them stays. None of them has voted.
pub(crate) fn remove_at(store: &Store, head: &mut LogHead, position: Position) {
    assert!(
        !has_voted_at(store, position) || fault!(FlushIgnoresLocks),
        "X4: a key that has voted is flushed"
    );
    for key in keys_at(store, position) {
        let key = sidle_types::HashedKey::new(&key);
        let slot = store.lock_slot(key.slot());
        slot.remove(head, key, Leave::Nothing).expect("what leaves nothing takes no memory");
    }
}
