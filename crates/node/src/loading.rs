//! What the node's clients learn while it reads its durable log.
//!
//! The reader has the store to itself until it has ended: commands without [`CommandFlags::LOADING`] are
//! refused, and nothing expires.
//!
//! [`CommandFlags::LOADING`]: crate::table::CommandFlags::LOADING

use crate::detours::Detours;
use sidle_types::{LogId, NodeId};
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
    /// The log.
    pub log: LogId,
    /// Whether what was acknowledged is synced.
    pub syncs: bool,
    /// The nodes whose copies count.
    pub nodes: Vec<AskedForCopy>,
}

/// A node with a copy that a start has asked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AskedForCopy {
    /// The node.
    pub node: NodeId,
    /// Where it is, as far as that is known.
    pub at: Option<String>,
    /// Why it was not reached. `None`: it runs, and its copy does not do, since it may lack its end.
    pub not_reached: Option<String>,
}

impl AskedForCopy {
    /// Where it is, or else its id.
    fn name(&self) -> String {
        self.at.clone().unwrap_or_else(|| self.node.to_string()[..8].to_owned())
    }

    fn shown(&self) -> String {
        let id = &self.node.to_string()[..8];
        let why = self.not_reached.as_deref();
        let about: Vec<&str> = self.at.as_ref().map(|_| id).into_iter().chain(why).collect();
        match about.is_empty() {
            true => self.name(),
            false => format!("{} ({})", self.name(), about.join(": ")),
        }
    }
}

impl WaitsForCopies {
    /// For a request that nobody else can answer: what it waits for, for how long, and what helps.
    pub fn shown(&self, now_seconds: u64) -> String {
        format!(
            "this node has not joined its cluster: for {} s its start has waited for a copy of its durable log {}. \
             Other nodes show the cluster meanwhile",
            now_seconds.saturating_sub(self.since_seconds),
            self.what_helps()
        )
    }

    /// Which log waits for whom, and each way out with what it may lose.
    pub fn what_helps(&self) -> String {
        let (away, here): (Vec<&AskedForCopy>, Vec<&AskedForCopy>) =
            self.nodes.iter().partition(|asked| asked.not_reached.is_some());
        let list = |asked: &[&AskedForCopy], shown: fn(&AskedForCopy) -> String| -> String {
            asked.iter().map(|asked| shown(asked)).collect::<Vec<_>>().join(", ")
        };
        let mut text = self.log.to_string();
        if !here.is_empty() {
            let list = list(&here, AskedForCopy::shown);
            text += &format!(
                ". These nodes run, and have lost their copy, or its end perhaps, by a restart: {list}"
            );
        }
        if !away.is_empty() {
            let names = list(&away, AskedForCopy::name);
            let list = list(&away, AskedForCopy::shown);
            text += &format!(
                ". These have copies, and are not reached: {list}. Start {names} with the data directories that they \
                 had, and it goes on by itself"
            );
        }
        let loss = match self.syncs {
            true => "its own disk has all that was acknowledged, unless it was damaged or exchanged",
            false => {
                "its own disk has all that was acknowledged, unless this machine has lost its power since: then up \
                 to a second of it is lost"
            }
        };
        text += &format!(
            ". If they do not come back, restart this node with --salvage, and so each that waits: {loss}. What a \
             node had that is gone can be taken over then (`sidle takeover NODE --accept-loss`)"
        );
        text
    }

    /// The nodes, each with its address behind an `@`.
    pub(crate) fn names(&self) -> String {
        let shown = |asked: &AskedForCopy| format!("{}@{}", asked.node, asked.at.as_deref().unwrap_or("?"));
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
        let [first, second, third] = [0xab, 0xbc, 0xcd].map(|byte| NodeId::from_bytes([byte; 20]));
        let asked = |node, at: Option<&str>, not_reached: Option<&str>| AskedForCopy {
            node,
            at: at.map(str::to_owned),
            not_reached: not_reached.map(str::to_owned),
        };
        let away = asked(first, Some("10.0.0.2:6379"), Some("Connection refused"));
        let nodes = vec![away, asked(second, Some("10.0.0.3:6379"), None), asked(third, None, None)];
        let log = LogId([7; 16]);
        let mut waits = WaitsForCopies { since_seconds: 100, log, syncs: false, nodes };
        let shown = waits.shown(107);
        for part in [
            "for 7 s its start has waited for a copy of its durable log 0707",
            "not reached: 10.0.0.2:6379 (abababab: Connection refused). Start 10.0.0.2:6379 with",
            "run, and have lost their copy, or its end perhaps, by a restart: 10.0.0.3:6379 (bcbcbcbc), cdcdcdcd.",
            "up to a second of it is lost",
        ] {
            assert!(shown.contains(part), "{part}: {shown}");
        }
        assert_eq!(waits.names(), format!("{first}@10.0.0.2:6379,{second}@10.0.0.3:6379,{third}@?"));
        waits.syncs = true;
        waits.nodes.remove(0);
        let shown = waits.shown(107);
        assert!(!shown.contains("Start") && !shown.contains("a second"), "nobody is away: {shown}");
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
