//! What transactions have locked at this node's keys, for operators.

use sidle_cluster::LockedKey;
use sidle_store::Store;
use sidle_txn::{Locks, State};
use sidle_types::{PositionRange, ValueKind, WallMs, beside_what};

/// The most that are listed.
const MOST: usize = 1_000;

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// The locked keys in these ranges, as JSON.
pub(crate) fn list(store: &Store, ranges: impl Iterator<Item = PositionRange>, now: WallMs) -> String {
    let mut listed = Vec::new();
    for position in ranges.flat_map(|range| store.positions_with_locks(range)) {
        if listed.len() >= MOST {
            break;
        }
        store.visit(position, position, usize::MAX, &mut |record| {
            let key = beside_what(record.key()).filter(|_| record.kind() == ValueKind::Locks);
            let (Some(key), Some(locks)) = (key, Locks::read(record.value())) else { return };
            listed.extend(locks.entries().iter().filter(|entry| entry.state.is_prepared()).map(|entry| {
                LockedKey {
                    id: entry.id.to_string(),
                    key: text(key),
                    writes: entry.state == State::Exclusive,
                    locked_ms: now.0.saturating_sub(entry.at.0),
                    first: text(entry.first),
                    keys: entry.keys.iter().map(text).collect(),
                }
            }));
        });
    }
    serde_json::to_string(&listed).expect("a list is plain data")
}
