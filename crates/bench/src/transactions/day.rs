//! What all threads of a run share.

use crate::timeline::Part;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU64, Ordering::Relaxed};
use std::time::Instant;

/// A run: its parts, its clock, and how much was done.
#[derive(Debug)]
pub(crate) struct Day {
    node: String,
    part: AtomicU8,
    is_over: AtomicBool,
    started: Instant,
    committed: AtomicU64,
}

impl Day {
    /// On the cluster of this node.
    pub(crate) fn new(node: &str) -> Day {
        Day {
            node: node.to_owned(),
            part: AtomicU8::new(Part::Before as u8),
            is_over: AtomicBool::new(false),
            started: Instant::now(),
            committed: AtomicU64::new(0),
        }
    }

    /// A node that knows the others.
    pub(crate) fn node(&self) -> &str {
        &self.node
    }

    pub(crate) fn now_ns(&self) -> u64 {
        self.started.elapsed().as_nanos() as u64
    }

    /// Starts this part of the run; when.
    pub(crate) fn enter(&self, part: Part) -> u64 {
        self.part.store(part as u8, Relaxed);
        self.now_ns()
    }

    pub(crate) fn part(&self) -> Part {
        match self.part.load(Relaxed) {
            0 => Part::Before,
            1 => Part::During,
            _ => Part::After,
        }
    }

    pub(crate) fn end(&self) {
        self.is_over.store(true, Relaxed);
    }

    pub(crate) fn is_over(&self) -> bool {
        self.is_over.load(Relaxed)
    }

    /// A transaction was committed.
    pub(crate) fn note_committed(&self) {
        self.committed.fetch_add(1, Relaxed);
    }

    /// Transactions that were committed so far.
    pub(crate) fn committed(&self) -> u64 {
        self.committed.load(Relaxed)
    }
}
