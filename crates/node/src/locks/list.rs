//! What transactions have locked at this node's keys, for operators.

use serde::Serialize;
use sidle_store::Store;
use sidle_txn::{Locks, State};
use sidle_types::{PositionRange, ValueKind, WallMs, beside_what};

/// The most that are listed.
const MOST: usize = 1_000;

/// A key that has voted for a transaction, which is not decided yet.
#[derive(Debug, Serialize)]
struct Prepared {
    /// The transaction.
    id: String,
    /// The key; what is no UTF-8 in it is replaced.
    key: String,
    /// Whether the transaction is to write it, or has read it only.
    writes: bool,
    /// So long it has been locked.
    locked_ms: u64,
    /// The transaction's first key, which has the list of all.
    first: String,
    /// All keys of the transaction; of another than its first key none are listed.
    keys: Vec<String>,
}

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
                Prepared {
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
