//! A dead node's log, of which this node has no copy: one is fetched from a backup.
//!
//! Backups are asked one after the other. Asking fences a copy: its answer says where it ends for good. The
//! first that has everything safe is read. A backup that has restarted may lack the end of what it had (Y7).
//! It does not if its copy ends as it did when an earlier start of it was asked here. Where all have
//! answered, and all have restarted, the longest is read: there is nothing else to wait for.
//!
//! If the backup is lost in the middle, the next one is read, from the beginning: copies need not be cut into
//! files alike.

use crate::backup_id::BackupId;
use crate::link::{check_after, check_of};
use sidle_types::NodeId;
use sidle_wire::{Place, Tail};
use std::collections::{BTreeMap, VecDeque};

/// What is to be done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FetchWanted {
    /// Ask this node for its copy; [`Fetch::has`] takes the answer.
    Ask(NodeId),
    /// Throw away what was fetched: another copy is read from its beginning.
    Begin,
    /// Read this copy from here on; [`Fetch::read`] takes what was read.
    Read(NodeId, Place),
}

/// What a backup has, which is fenced.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FoundCopy {
    /// The backup, as it is now.
    pub backup: BackupId,
    /// The copy's first file.
    pub first: u64,
    /// Where it ends.
    pub tail: Tail,
}

/// A copy that was fetched whole, and ends as it was written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FetchedCopy {
    /// What was fetched.
    pub copy: FoundCopy,
    /// Whether it certainly has everything that was safe.
    pub is_sure: bool,
}

#[derive(Debug)]
struct Reading {
    copy: FoundCopy,
    is_sure: bool,
    next: Place,
    /// Of what was read of the last file.
    check: u32,
}

/// The search for a copy, and its reading.
#[derive(Debug)]
pub struct Fetch {
    /// The backups as they were when the node died.
    named: BTreeMap<NodeId, u64>,
    left: VecDeque<NodeId>,
    asks: Option<NodeId>,
    /// How copies ended that had everything safe, by their nodes.
    known: BTreeMap<NodeId, Tail>,
    /// What may lack its end.
    unsure: Vec<FoundCopy>,
    /// Whether somebody did not answer, or not to the end.
    is_one_lost: bool,
    reading: Option<Reading>,
    wanted: VecDeque<FetchWanted>,
    outcome: Option<Option<FetchedCopy>>,
}

impl Fetch {
    /// A copy of the log whose copies these were. `known`: what an earlier attempt [has seen](Fetch::known).
    pub fn new(backups: impl IntoIterator<Item = BackupId>, known: BTreeMap<NodeId, Tail>) -> Fetch {
        let (mut named, mut left) = (BTreeMap::new(), VecDeque::new());
        for backup in backups {
            named.insert(backup.node, backup.incarnation);
            left.push_back(backup.node);
        }
        let mut fetch = Fetch {
            named,
            left,
            asks: None,
            known,
            unsure: Vec::new(),
            is_one_lost: false,
            reading: None,
            wanted: VecDeque::new(),
            outcome: None,
        };
        fetch.ask_next();
        fetch
    }

    /// What is to be done next.
    pub fn poll_wanted(&mut self) -> Option<FetchWanted> {
        self.wanted.pop_front()
    }

    /// How it ended, once it has: with a copy, or with none for now.
    pub fn outcome(&self) -> Option<Option<FetchedCopy>> {
        self.outcome
    }

    /// Whose copy is asked for, or read.
    pub fn at(&self) -> Option<NodeId> {
        self.asks.or_else(|| self.reading.as_ref().map(|reading| reading.copy.backup.node))
    }

    /// How copies end that have everything safe, as far as that is known. It is the same for ever, since they
    /// are fenced.
    pub fn known(&self) -> &BTreeMap<NodeId, Tail> {
        &self.known
    }

    /// A node was asked, and has this; or no copy any more.
    pub fn has(&mut self, node: NodeId, found: Option<FoundCopy>) {
        if self.asks != Some(node) {
            return;
        }
        self.asks = None;
        let Some(copy) = found else {
            // It has answered: nobody waits for it.
            self.ask_next();
            return;
        };
        let is_same = self.named.get(&node) == Some(&copy.backup.incarnation);
        if is_same || self.known.get(&node) == Some(&copy.tail) {
            self.known.insert(node, copy.tail);
            self.begin(copy, true);
        } else {
            self.unsure.push(copy);
            self.ask_next();
        }
    }

    /// A node cannot be reached, or not any more, or what it sends makes no sense.
    pub fn lost(&mut self, node: NodeId) {
        let was_asked = self.asks.take_if(|asks| *asks == node).is_some();
        let was_read = self.reading.take_if(|reading| reading.copy.backup.node == node).is_some();
        if was_asked || was_read {
            self.is_one_lost = true;
            self.wanted.clear();
            self.ask_next();
        }
    }

    /// What was read from where it was wanted; with it, a file ends if `ends_file`. Whether it fits: if not,
    /// the node is [lost](Fetch::lost), and its copy is damaged.
    pub fn read(&mut self, bytes: &[u8], ends_file: bool) -> bool {
        let Some(Reading { copy, is_sure, next, check }) = &mut self.reading else { return false };
        let end = copy.tail.end;
        let at = Place { file: next.file, at: next.at + bytes.len() as u64 };
        if bytes.is_empty() || at > end {
            return false;
        }
        if next.file < end.file {
            *next = if ends_file { Place { file: at.file + 1, at: 0 } } else { at };
        } else {
            *check = if next.at == 0 { check_of(bytes) } else { check_after(*check, bytes) };
            *next = at;
        }
        if *next == end {
            if *check != copy.tail.check {
                return false;
            }
            self.outcome = Some(Some(FetchedCopy { copy: *copy, is_sure: *is_sure }));
            self.reading = None;
        } else {
            self.wanted.push_back(FetchWanted::Read(copy.backup.node, *next));
        }
        true
    }

    /// From where this node's copy is being read.
    pub fn reads_at(&self, node: NodeId) -> Option<Place> {
        let reading = self.reading.as_ref().filter(|reading| reading.copy.backup.node == node);
        reading.map(|reading| reading.next)
    }

    fn begin(&mut self, copy: FoundCopy, is_sure: bool) {
        let next = Place { file: copy.first, at: 0 };
        self.wanted.push_back(FetchWanted::Begin);
        self.wanted.push_back(FetchWanted::Read(copy.backup.node, next));
        self.reading = Some(Reading { copy, is_sure, next, check: 0 });
    }

    fn ask_next(&mut self) {
        if let Some(node) = self.left.pop_front() {
            self.asks = Some(node);
            self.wanted.push_back(FetchWanted::Ask(node));
            return;
        }
        let longest = self.unsure.iter().copied().max_by_key(|copy| copy.tail.end);
        match longest.filter(|_| !self.is_one_lost) {
            Some(copy) => self.begin(copy, false),
            None => self.outcome = Some(None),
        }
    }
}
