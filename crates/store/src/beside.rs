//! Where what transactions have at keys is: the positions of such values.
//!
//! Purpose: a migration sends them before its target serves, and a node looks after them. Neither may visit
//! all keys for that.
//!
//! Ownership: changed under the lock of the position's slot; read by any thread.

use sidle_types::{Position, PositionRange};
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// How many such values are at each position that has any.
#[derive(Debug, Default)]
pub(crate) struct Beside {
    positions: Mutex<BTreeMap<Position, u32>>,
    /// Whether there are any, for reading without the lock.
    is_any: AtomicBool,
}

impl Beside {
    fn lock(&self) -> MutexGuard<'_, BTreeMap<Position, u32>> {
        self.positions.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// One more is at a position, or one fewer.
    #[cold]
    pub(crate) fn count(&self, position: Position, is_added: bool) {
        let mut positions = self.lock();
        if is_added {
            *positions.entry(position).or_default() += 1;
        } else {
            let left = positions.get_mut(&position).expect("what goes was counted");
            *left -= 1;
            if *left == 0 {
                positions.remove(&position);
            }
        }
        self.is_any.store(!positions.is_empty(), Ordering::Release);
    }

    /// Whether there are any.
    pub(crate) fn is_any(&self) -> bool {
        self.is_any.load(Ordering::Acquire)
    }

    /// Where there are any in this range.
    pub(crate) fn positions_in(&self, range: PositionRange) -> Vec<Position> {
        self.lock().range(range.first()..=range.last()).map(|(&position, _)| position).collect()
    }

    /// How many there are.
    pub(crate) fn len(&self) -> u64 {
        self.lock().values().map(|&count| u64::from(count)).sum()
    }
}
