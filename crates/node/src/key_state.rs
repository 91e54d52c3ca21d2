//! What a key is at one moment, as a number: what WATCH keeps of a key that may be changed at another node,
//! and EXEC has compared there.
//!
//! It is of the record, whose version grows with every change of the key: so the same value, set again, is
//! another state. No later state is the same number, wherever the key is by then. A move to a node with a
//! durable log, and a takeover, give records new versions: then the key counts as changed. Without a value
//! there is no number: whether a key that has none again had one meanwhile is not seen.

use sidle_store::SlotGuard;
use sidle_types::{HashedKey, WallMs};

/// The state of a key's value, if it has one.
pub(crate) type KeyState = Option<u64>;

/// The state of a key whose slot is locked.
pub(crate) fn state_of(slot: &SlotGuard<'_>, key: HashedKey<'_>, now: WallMs) -> KeyState {
    slot.get(key).value().filter(|record| !record.is_expired(now)).map(|record| slot.state(record))
}
