//! Suspects: nodes that left a joint command without an answer, or could not be reached in time.
//!
//! Purpose: a joint command holds its keys while it waits. One that waits in vain costs everybody who wants
//! them some seconds, and the next one would cost the same again. So all workers of the node know of it.

use super::HOLD_US;
use sidle_types::{MonotonicUs, NodeId};
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// How often a command may try a suspect, and how long it waits for the answer.
const TRY_EVERY_US: u64 = 5_000_000;
const TRY_US: u64 = 500_000;

/// The suspects of a node.
#[derive(Debug, Default)]
pub(crate) struct Suspects {
    is_any: AtomicBool,
    /// When a command may try each again.
    nodes: Mutex<BTreeMap<NodeId, MonotonicUs>>,
}

impl Suspects {
    /// Whether there is any.
    #[inline]
    pub(crate) fn is_any(&self) -> bool {
        self.is_any.load(Ordering::Acquire)
    }

    /// How long a command may wait for this node's answer now; `None`: it is not to be asked.
    pub(super) fn patience_us(&self, node: NodeId, now: MonotonicUs) -> Option<u64> {
        if !self.is_any() {
            return Some(HOLD_US);
        }
        match self.nodes().get_mut(&node) {
            None => Some(HOLD_US),
            Some(again_at) if *again_at <= now => {
                *again_at = now.plus_us(TRY_EVERY_US);
                Some(TRY_US)
            }
            Some(_) => None,
        }
    }

    /// The node has not answered in time.
    pub(super) fn add(&self, node: NodeId, now: MonotonicUs) {
        self.nodes().insert(node, now.plus_us(TRY_EVERY_US));
        self.is_any.store(true, Ordering::Release);
    }

    /// It gave a sign of life.
    #[cold]
    pub(crate) fn clear(&self, node: NodeId) {
        let mut nodes = self.nodes();
        nodes.remove(&node);
        self.is_any.store(!nodes.is_empty(), Ordering::Release);
    }

    fn nodes(&self) -> MutexGuard<'_, BTreeMap<NodeId, MonotonicUs>> {
        self.nodes.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::node_info;

    #[test]
    fn a_suspect_is_tried_now_and_then_until_it_answers() {
        let (suspects, now) = (Suspects::default(), MonotonicUs(7));
        let [node, other] = [2, 3].map(|number| node_info(number).id);
        suspects.add(node, now);
        assert_eq!(suspects.patience_us(other, now), Some(HOLD_US));
        assert_eq!(suspects.patience_us(node, now.plus_us(TRY_EVERY_US - 1)), None);
        let later = now.plus_us(TRY_EVERY_US);
        assert_eq!(suspects.patience_us(node, later), Some(TRY_US));
        assert_eq!(suspects.patience_us(node, later), None, "one at a time");
        suspects.clear(node);
        assert!(!suspects.is_any());
        assert_eq!(suspects.patience_us(node, later), Some(HOLD_US));
    }
}
