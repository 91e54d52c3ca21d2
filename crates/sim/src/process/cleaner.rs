//! The cleaner's thread.

use sidle_node::NodeParts;
use sidle_store::{CleanOutcome, Store};
use std::sync::Arc;

/// How many bytes of the log one turn handles.
const STEP_BYTES: usize = 64 << 10;
/// The pause between two steps, with work to do and without.
const BUSY_REST_US: u64 = 2_000;
const IDLE_REST_US: u64 = 50_000;

pub(super) struct CleanerThread {
    store: Arc<Store>,
}

impl CleanerThread {
    pub(super) fn new(parts: &NodeParts) -> CleanerThread {
        CleanerThread { store: Arc::clone(&parts.store) }
    }

    /// One step; returns how long to rest.
    pub(super) fn turn(&mut self) -> u64 {
        match self.store.cleaner().step(STEP_BYTES) {
            CleanOutcome::Progress | CleanOutcome::Waiting => BUSY_REST_US,
            CleanOutcome::Idle => IDLE_REST_US,
        }
    }
}
