//! A log that goes on after its writer's death: the longest of the copies that count, and of its own files.
//!
//! The machine may have lost its power, and its disk what was not synced; a copy has it. So whoever goes on
//! with a log asks the copies first, and takes from the longest what its own files lack.

use crate::backup_id::BackupId;
use crate::copies::Record;
use sidle_types::{NodeId, fault};
use sidle_wire::{Place, Tail};
use std::collections::{BTreeMap, VecDeque};

/// What is to be done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wanted {
    /// Ask where this node's copy ends; [`Reclaim::has`] takes the answer.
    Ask(NodeId),
    /// Read this copy from here on; [`Reclaim::read`] takes what was read.
    Read(NodeId, Place),
}

/// How a log goes on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Outcome {
    /// What was read of a copy takes the place of everything from here on. `None`: no copy has more.
    pub from: Option<Place>,
    /// Whether a copy was among those asked that has everything safe: where each write is synced, any; else
    /// one that has not restarted since it counted (Y7). Without one, nothing but the log's own disk shows
    /// that the end is not lost; unless the log was closed there (Y14).
    pub is_sure: bool,
    /// Whether each copy that counts has answered: there is nothing else to wait for.
    pub all_answered: bool,
}

impl Outcome {
    /// Whether the log can go on.
    pub const fn is_settled(&self) -> bool {
        self.is_sure || self.all_answered
    }
}

/// What a node has answered.
#[derive(Clone, Copy, Debug)]
enum Asked {
    Waits,
    Has(Place, bool),
}

/// What is read.
#[derive(Clone, Copy, Debug)]
struct Reading {
    node: NodeId,
    end: Place,
    next: Place,
}

/// The search for the longest copy.
#[derive(Debug)]
pub struct Reclaim {
    /// Where its own files end that can be read.
    own: Place,
    /// The copies that count.
    counted: BTreeMap<NodeId, u64>,
    /// Those that may be asked.
    asked: BTreeMap<NodeId, Asked>,
    syncs: bool,
    /// Its own files have everything (Y14).
    is_whole: bool,
    reading: Option<Reading>,
    wanted: VecDeque<Wanted>,
    outcome: Option<Outcome>,
}

impl Reclaim {
    /// A log whose own files end here, and whose copies are these. `syncs`: each write of theirs was synced.
    pub fn new(own: Place, record: &Record, syncs: bool) -> Reclaim {
        let counted: BTreeMap<NodeId, u64> =
            record.backups.iter().map(|backup| (backup.node, backup.incarnation)).collect();
        Reclaim {
            own,
            syncs,
            is_whole: false,
            asked: counted.keys().map(|&node| (node, Asked::Waits)).collect(),
            reading: None,
            wanted: counted.keys().map(|&node| Wanted::Ask(node)).collect(),
            outcome: counted.is_empty().then_some(Outcome { from: None, is_sure: true, all_answered: true }),
            counted,
        }
    }

    /// A writer that was stopped closed the log here (Y14). If its own files end there still, no copy is
    /// waited for.
    pub fn closed_at(&mut self, end: Place) {
        self.is_whole = self.own == end || fault!(CleanStopIsNotCompared);
    }

    /// What is to be done next.
    pub fn poll_wanted(&mut self) -> Option<Wanted> {
        self.wanted.pop_front()
    }

    /// How the log goes on, once that is known.
    pub fn outcome(&self) -> Option<Outcome> {
        self.outcome
    }

    /// A node's copy ends here. A copy that counts has something: who has nothing has lost it.
    pub fn has(&mut self, backup: BackupId, tail: Option<Tail>) {
        let Some(tail) = tail.filter(|tail| tail.end > Place::default()) else {
            self.lost(backup.node);
            return;
        };
        let is_same = self.syncs || self.counted.get(&backup.node) == Some(&backup.incarnation);
        // An older state of the folder was put back, with what was kept of an earlier stop.
        self.is_whole &= tail.end <= self.own;
        if let Some(asked) = self.asked.get_mut(&backup.node) {
            *asked = Asked::Has(tail.end, is_same);
        }
        self.judge();
    }

    /// Whoever has not answered is not waited for any more, nor for what is being read.
    pub fn give_up(&mut self) {
        let reading = self.reading.map(|reading| reading.node);
        let is_silent =
            |node: &NodeId, asked: &Asked| matches!(asked, Asked::Waits) || reading == Some(*node);
        let silent: Vec<NodeId> =
            self.asked.iter().filter(|(node, asked)| is_silent(node, asked)).map(|(&node, _)| node).collect();
        silent.into_iter().for_each(|node| self.lost(node));
    }

    /// A node cannot be reached.
    pub fn lost(&mut self, node: NodeId) {
        self.asked.remove(&node);
        self.reading.take_if(|reading| reading.node == node);
        self.judge();
    }

    /// So many bytes were read from where it was wanted; with them, a file ends if `ends_file`.
    pub fn read(&mut self, bytes: u64, ends_file: bool) {
        let Some(Reading { node, end, next }) = self.reading else { return };
        let at = Place { file: next.file, at: next.at + bytes };
        if at >= end {
            self.settle(Some(self.first()));
            return;
        }
        let next = if ends_file { Place { file: at.file + 1, at: 0 } } else { at };
        self.reading = Some(Reading { node, end, next });
        self.wanted.push_back(Wanted::Read(node, next));
    }

    /// Its own last file is read again from its beginning: what it has behind its last whole block may be
    /// anything.
    fn first(&self) -> Place {
        Place { file: self.own.file, at: 0 }
    }

    fn settle(&mut self, from: Option<Place>) {
        let has_all = |asked: &Asked| matches!(asked, Asked::Has(_, true));
        let is_sure = self.is_whole || self.asked.values().any(has_all);
        let all_answered = self.asked.len() == self.counted.len();
        self.outcome = Some(Outcome { from, is_sure, all_answered });
        self.reading = None;
    }

    fn judge(&mut self) {
        let waits = self.asked.values().any(|asked| matches!(asked, Asked::Waits));
        if self.outcome.is_some() || self.reading.is_some() || waits {
            return;
        }
        let ends = self.asked.iter().filter_map(|(&node, asked)| match asked {
            Asked::Has(end, _) => Some((*end, node)),
            Asked::Waits => None,
        });
        match ends.max() {
            Some((end, node)) if end > self.own && !fault!(GoesOnBehindItsOwnEnd) => {
                let next = self.first();
                self.reading = Some(Reading { node, end, next });
                self.wanted.push_back(Wanted::Read(node, next));
            }
            _ => self.settle(None),
        }
    }
}
