//! A log that goes on after its writer's death: what its copies have, and its own files have not.

use super::record::CopiesRecord;
use sidle_log_copies::{BackupId, Outcome, Reclaim, Wanted};
use sidle_types::{LogId, NodeId, ProtocolVersion};
use sidle_wire::{CopyHello, FrameFilter, FrameReader, Message, Place, ToBackup, ToWriter};
use std::collections::{BTreeMap, VecDeque};

/// What is to be done.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ReclaimerEvent {
    /// Connect to this node.
    Connect(NodeId),
    /// Close the connection to it.
    Close(NodeId),
    /// Put these bytes in the place of this file of the log, whole or not at all, and for good.
    Take(u64, Vec<u8>),
}

/// The search for the longest copy, over the bus.
#[derive(Debug)]
pub struct Reclaimer {
    node: NodeId,
    log: LogId,
    epoch: u64,
    version: ProtocolVersion,
    syncs: bool,
    reclaim: Reclaim,
    readers: BTreeMap<NodeId, FrameReader>,
    is_deposed: bool,
    /// The file that is read, as far as it was.
    file: (u64, Vec<u8>),
    to_send: VecDeque<(NodeId, Vec<u8>)>,
    events: VecDeque<ReclaimerEvent>,
}

impl Reclaimer {
    /// The copies of this node's log, whose own files end at `own`. Without a copy that may count nobody is
    /// asked.
    pub fn new(
        (node, log): (NodeId, LogId),
        own: Place,
        kept: &CopiesRecord,
        version: ProtocolVersion,
    ) -> Reclaimer {
        let record = kept.to_ask(log);
        let mut reclaimer = Reclaimer {
            node,
            log,
            epoch: record.epoch,
            version,
            syncs: kept.synced,
            reclaim: Reclaim::new(own, &record, kept.synced),
            readers: BTreeMap::new(),
            is_deposed: false,
            file: (own.file, Vec::new()),
            to_send: VecDeque::new(),
            events: VecDeque::new(),
        };
        reclaimer.follow();
        reclaimer
    }

    /// A writer that was stopped closed the log here: if its own files end there still, no copy is waited
    /// for (Y14).
    pub fn closed_at(&mut self, end: Place) {
        self.reclaim.closed_at(end);
    }

    /// How the log goes on, once that is known and everything is taken.
    pub fn outcome(&self) -> Option<Outcome> {
        self.reclaim.outcome().filter(|_| self.events.is_empty())
    }

    /// Whether the log is another's by now: a copy has seen an epoch that this node never proposed.
    pub fn is_deposed(&self) -> bool {
        self.is_deposed
    }

    /// What is to be done next.
    pub fn poll_event(&mut self) -> Option<ReclaimerEvent> {
        self.events.pop_front()
    }

    /// What is to be sent next.
    pub fn poll_transmit(&mut self) -> Option<(NodeId, Vec<u8>)> {
        self.to_send.pop_front()
    }

    /// A connection that was asked for is there.
    pub fn connected(&mut self, to: NodeId) {
        self.readers.insert(to, FrameReader::filtered(FrameFilter::FROM_BACKUP));
        let mut out = Vec::new();
        let (log, epoch, node) = (self.log, self.epoch, self.node);
        let hello = CopyHello { log, epoch, node, incarnation: 0, syncs: self.syncs, reads: false };
        hello.write(self.version, &mut out);
        self.to_send.push_back((to, out));
    }

    /// A node cannot be reached, or not any more.
    pub fn lost(&mut self, node: NodeId) {
        self.readers.remove(&node);
        self.reclaim.lost(node);
        self.follow();
    }

    /// Whoever has not answered is not waited for any more.
    pub fn give_up(&mut self) {
        self.reclaim.give_up();
        self.follow();
    }

    /// A node has sent something.
    pub fn received(&mut self, node: NodeId, bytes: &[u8]) {
        let Some(mut reader) = self.readers.remove(&node) else { return };
        reader.push(bytes);
        let mut is_sound = true;
        loop {
            match reader.next_frame().map(|frame| frame.map(|frame| frame.message())) {
                Ok(None) => break,
                Ok(Some(Ok(Message::ToWriter(answer)))) => is_sound = self.answered(node, answer),
                Ok(Some(_)) | Err(_) => is_sound = false,
            }
            if !is_sound {
                break;
            }
        }
        if is_sound {
            self.readers.insert(node, reader);
        } else {
            self.events.push_back(ReclaimerEvent::Close(node));
            self.reclaim.lost(node);
        }
        self.follow();
    }

    /// Whether the answer makes sense.
    fn answered(&mut self, node: NodeId, answer: ToWriter<'_>) -> bool {
        match answer {
            ToWriter::Has { incarnation, tail, .. } => self.reclaim.has(BackupId { node, incarnation }, tail),
            ToWriter::Holds { .. } | ToWriter::Promises(_) => {}
            // Nobody asked for it.
            ToWriter::Fenced { .. } | ToWriter::Size(_) => return false,
            ToWriter::Deposed(epoch) => {
                self.is_deposed |= epoch > self.epoch;
                return false;
            }
            ToWriter::Bytes { bytes, ends_file } => {
                if bytes.is_empty() {
                    return false;
                }
                self.file.1.extend_from_slice(bytes);
                self.reclaim.read(bytes.len() as u64, ends_file);
                if ends_file || self.reclaim.outcome().is_some() {
                    let next = self.file.0 + 1;
                    let (file, bytes) = std::mem::replace(&mut self.file, (next, Vec::new()));
                    self.events.push_back(ReclaimerEvent::Take(file, bytes));
                }
            }
        }
        true
    }

    fn follow(&mut self) {
        while let Some(wanted) = self.reclaim.poll_wanted() {
            match wanted {
                Wanted::Ask(node) => self.events.push_back(ReclaimerEvent::Connect(node)),
                Wanted::Read(node, place) => {
                    if place.at == 0 {
                        self.file = (place.file, Vec::new());
                    }
                    let mut out = Vec::new();
                    ToBackup::Read(place).write(self.version, &mut out).expect("a small message");
                    self.to_send.push_back((node, out));
                }
            }
        }
    }
}
