//! What the node's clients learn while it reads its durable log.
//!
//! The reader has the store to itself until it has ended: commands without [`CommandFlags::LOADING`] are
//! refused, and nothing expires.
//!
//! [`CommandFlags::LOADING`]: crate::table::CommandFlags::LOADING

use crate::detours::Detours;
use sidle_types::NodeId;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

/// How far the log is read. The default is a node with nothing to read.
#[derive(Debug, Default)]
pub struct Loading {
    is_on: AtomicBool,
    /// Since when, in seconds since the Unix epoch.
    since_seconds: AtomicU64,
    total_bytes: AtomicU64,
    loaded_bytes: AtomicU64,
    waits: Mutex<Option<WaitsForCopies>>,
    detours: Arc<Detours>,
}

/// A start that waits for copies of its log, before it reads that.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WaitsForCopies {
    /// Since when, in seconds since the Unix epoch.
    pub since_seconds: u64,
    /// The nodes with copies: where each is, as far as that is known, and why its copy does not do.
    pub nodes: Vec<(NodeId, Option<String>, String)>,
}

impl WaitsForCopies {
    /// For a request that nobody else can answer: what it waits for, for how long, and what helps.
    pub fn shown(&self, now_seconds: u64) -> String {
        let shown = |(node, at, why): &(NodeId, Option<String>, String)| {
            let id = &node.to_string()[..8];
            match at {
                Some(at) => format!("{at} ({id}: {why})"),
                None => format!("{id} ({why})"),
            }
        };
        let nodes: Vec<String> = self.nodes.iter().map(shown).collect();
        format!(
            "this node has not joined its cluster: for {} s its start has waited for a copy of its durable log, \
             which these nodes had: {}. Start them with their data directories; or, to lose what only the copies \
             have, restart this node with --salvage. Other nodes show the cluster meanwhile",
            now_seconds.saturating_sub(self.since_seconds),
            nodes.join(", ")
        )
    }

    /// The nodes, each with its address behind an `@`.
    pub(crate) fn names(&self) -> String {
        let shown = |(node, at, _): &(NodeId, Option<String>, String)| {
            format!("{node}@{}", at.as_deref().unwrap_or("?"))
        };
        let nodes: Vec<String> = self.nodes.iter().map(shown).collect();
        nodes.join(",")
    }
}

/// How far the log is read, at one moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Progress {
    /// Since when it is read, in seconds since the Unix epoch.
    pub since_seconds: u64,
    /// The bytes of its files.
    pub total_bytes: u64,
    /// How many of them have been read.
    pub loaded_bytes: u64,
}

impl Loading {
    /// Of a node whose commands look for detours here.
    pub(crate) fn of(detours: &Arc<Detours>) -> Loading {
        Loading { detours: Arc::clone(detours), ..Loading::default() }
    }

    /// From now on the log is read. Call it before any command is run.
    pub fn begin(&self, since_seconds: u64) {
        self.since_seconds.store(since_seconds, Ordering::Relaxed);
        if !self.is_on.swap(true, Ordering::AcqRel) {
            self.detours.begin();
        }
    }

    /// So many bytes are to be read.
    pub fn note_total(&self, bytes: u64) {
        self.total_bytes.store(bytes, Ordering::Relaxed);
    }

    /// So many more bytes have been read.
    pub fn note_loaded(&self, bytes: u64) {
        self.loaded_bytes.fetch_add(bytes, Ordering::Relaxed);
    }

    /// All is read: whoever finds this sees the store as it was recovered.
    pub fn end(&self) {
        if self.is_on.swap(false, Ordering::AcqRel) {
            self.detours.end();
        }
    }

    /// The log is not read before copies of it have been heard; or it goes on.
    pub fn show_waits(&self, waits: Option<WaitsForCopies>) {
        *self.waits.lock().unwrap_or_else(PoisonError::into_inner) = waits;
    }

    /// What the start waits for, if it waits for copies.
    pub fn waits(&self) -> Option<WaitsForCopies> {
        self.waits.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Whether the log is being read.
    #[inline]
    pub fn is_on(&self) -> bool {
        self.is_on.load(Ordering::Acquire)
    }

    /// How far it is read; `None` when nothing is.
    pub fn progress(&self) -> Option<Progress> {
        self.is_on().then(|| Progress {
            since_seconds: self.since_seconds.load(Ordering::Relaxed),
            total_bytes: self.total_bytes.load(Ordering::Relaxed),
            loaded_bytes: self.loaded_bytes.load(Ordering::Relaxed),
        })
    }
}

impl Progress {
    /// What is read, in percent.
    pub fn percent(&self) -> f64 {
        self.loaded_bytes.min(self.total_bytes) as f64 * 100.0 / self.total_bytes.max(1) as f64
    }

    /// How many seconds are left at the speed so far; as Redis shows it, 1 when nothing is known.
    pub fn left_seconds(&self, now_seconds: u64) -> u64 {
        let spent = now_seconds.saturating_sub(self.since_seconds);
        let left = self.total_bytes.saturating_sub(self.loaded_bytes);
        match self.loaded_bytes {
            0 => 1,
            loaded => (u128::from(spent) * u128::from(left) / u128::from(loaded)) as u64,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_start_that_waits_names_for_whom_and_what_helps() {
        let node = NodeId::from_bytes([0xab; 20]);
        let at = Some("10.0.0.2:6379".to_owned());
        let waits = WaitsForCopies {
            since_seconds: 100,
            nodes: vec![(node, at, "Connection refused".into()), (node, None, "it has none".into())],
        };
        let shown = waits.shown(107);
        for part in ["for 7 s", "10.0.0.2:6379 (abababab: Connection refused)", "abababab (it has none)"] {
            assert!(shown.contains(part), "{shown}");
        }
        assert_eq!(waits.names(), format!("{node}@10.0.0.2:6379,{node}@?"));
        let loading = Loading::default();
        loading.show_waits(Some(waits.clone()));
        assert_eq!(loading.waits(), Some(waits));
    }

    #[test]
    fn progress_is_shown_while_something_is_read() {
        let loading = Loading::default();
        assert_eq!(loading.progress(), None);
        loading.begin(100);
        loading.note_total(1000);
        assert_eq!(loading.progress().map(|progress| progress.left_seconds(110)), Some(1));
        loading.note_loaded(250);
        let progress = loading.progress().unwrap();
        assert_eq!((progress.percent(), progress.left_seconds(110)), (25.0, 30));
        loading.note_loaded(2000);
        let progress = loading.progress().unwrap();
        assert_eq!((progress.percent(), progress.left_seconds(110)), (100.0, 0));
        loading.end();
        assert_eq!(loading.progress(), None);
    }
}
