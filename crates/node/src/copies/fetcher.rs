//! A dead node's log, whose copy is fetched from another node to take it over.

use sidle_log_copies::{BackupId, Fetch, FetchWanted, FetchedCopy, FoundCopy};
use sidle_types::{LogId, MonotonicUs, NodeId, ProtocolVersion};
use sidle_wire::{CopyHello, FrameFilter, FrameReader, Message, Place, Tail, ToBackup, ToWriter};
use std::collections::{BTreeMap, VecDeque};

/// What is to be done.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FetcherEvent {
    /// Connect to this node.
    Connect(NodeId),
    /// Close the connection to it.
    Close(NodeId),
    /// Throw away what was fetched, if anything was.
    Begin,
    /// Write these bytes of the copy. At byte 0 the file is new.
    Write(Place, Vec<u8>),
}

/// The fetching of a copy, over the bus.
#[derive(Debug)]
pub struct Fetcher {
    /// This node.
    node: NodeId,
    log: LogId,
    /// From this epoch on nobody writes the log.
    epoch: u64,
    version: ProtocolVersion,
    fetch: Fetch,
    readers: BTreeMap<NodeId, FrameReader>,
    /// Until when the writers of the copies that were fenced may answer clients.
    promised_until: BTreeMap<NodeId, MonotonicUs>,
    /// How many bytes copies have, as their nodes have said.
    sizes: BTreeMap<NodeId, u64>,
    failures: BTreeMap<NodeId, &'static str>,
    to_send: VecDeque<(NodeId, Vec<u8>)>,
    events: VecDeque<FetcherEvent>,
}

impl Fetcher {
    /// A copy of this log, which is fenced at this epoch. The backups are as they were when its node died.
    /// `known`: what an earlier attempt [has seen](Fetcher::known).
    pub fn new(
        node: NodeId,
        (log, epoch): (LogId, u64),
        backups: impl IntoIterator<Item = BackupId>,
        known: BTreeMap<NodeId, Tail>,
        version: ProtocolVersion,
    ) -> Fetcher {
        let mut fetcher = Fetcher {
            node,
            log,
            epoch,
            version,
            fetch: Fetch::new(backups, known),
            readers: BTreeMap::new(),
            promised_until: BTreeMap::new(),
            sizes: BTreeMap::new(),
            failures: BTreeMap::new(),
            to_send: VecDeque::new(),
            events: VecDeque::new(),
        };
        fetcher.follow();
        fetcher
    }

    /// How it ended, once it has and everything is written: with a copy, and until when the log's writer may
    /// answer clients; or with none for now.
    pub fn outcome(&self) -> Option<Option<(FetchedCopy, MonotonicUs)>> {
        let outcome = self.fetch.outcome().filter(|_| self.events.is_empty())?;
        let until = |node| self.promised_until.get(&node).copied().unwrap_or(MonotonicUs(0));
        Some(outcome.map(|fetched| (fetched, until(fetched.copy.backup.node))))
    }

    /// How copies end that have everything safe, as far as that is known.
    pub fn known(&self) -> &BTreeMap<NodeId, Tail> {
        self.fetch.known()
    }

    /// Whose copy is asked for, or fetched, and how many bytes that has: 0 until the node has said so.
    pub fn at(&self) -> Option<(NodeId, u64)> {
        self.fetch.at().map(|node| (node, self.sizes.get(&node).copied().unwrap_or(0)))
    }

    /// Why copies could not be fetched whose nodes have answered.
    pub fn failures(&self) -> &BTreeMap<NodeId, &'static str> {
        &self.failures
    }

    /// What is to be done next.
    pub fn poll_event(&mut self) -> Option<FetcherEvent> {
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
        let hello = CopyHello { log, epoch, node, incarnation: 0, syncs: false, reads: true };
        hello.write(self.version, &mut out);
        self.to_send.push_back((to, out));
    }

    /// A node cannot be reached, or not any more.
    pub fn lost(&mut self, node: NodeId) {
        self.readers.remove(&node);
        self.fetch.lost(node);
        self.follow();
    }

    /// A node has sent something.
    pub fn received(&mut self, now: MonotonicUs, node: NodeId, bytes: &[u8]) {
        let Some(mut reader) = self.readers.remove(&node) else { return };
        reader.push(bytes);
        loop {
            let taken = match reader.next_frame().map(|frame| frame.map(|frame| frame.message())) {
                Ok(None) => break,
                Ok(Some(Ok(Message::ToWriter(answer)))) => self.answered(now, node, answer),
                Ok(Some(_)) | Err(_) => Err("what it sent makes no sense"),
            };
            if let Err(why) = taken {
                self.failures.insert(node, why);
                self.events.push_back(FetcherEvent::Close(node));
                self.lost(node);
                return;
            }
        }
        self.readers.insert(node, reader);
        self.follow();
    }

    /// The error names why the copy does not do.
    fn answered(&mut self, now: MonotonicUs, node: NodeId, answer: ToWriter<'_>) -> Result<(), &'static str> {
        match answer {
            ToWriter::Fenced { incarnation, first, tail, promised_us } => {
                self.promised_until.insert(node, now.plus_us(promised_us));
                let backup = BackupId { node, incarnation };
                self.fetch.has(node, Some(FoundCopy { backup, first, tail }));
                Ok(())
            }
            ToWriter::Size(bytes) => {
                self.sizes.insert(node, bytes);
                Ok(())
            }
            ToWriter::Has { tail: None, .. } => {
                self.failures.insert(node, "it has no copy any more");
                self.fetch.has(node, None);
                Ok(())
            }
            ToWriter::Bytes { bytes, ends_file } => {
                let Some(at) = self.fetch.reads_at(node) else { return Err("nobody asked for that") };
                if !self.fetch.read(bytes, ends_file) {
                    return Err("its copy does not end as it was written: it is damaged");
                }
                self.events.push_back(FetcherEvent::Write(at, bytes.to_vec()));
                Ok(())
            }
            ToWriter::Deposed(_) => Err("its copy was taken over in a later epoch"),
            ToWriter::Has { .. } | ToWriter::Holds { .. } | ToWriter::Promises(_) => {
                Err("what it sent makes no sense")
            }
        }
    }

    fn follow(&mut self) {
        while let Some(wanted) = self.fetch.poll_wanted() {
            match wanted {
                FetchWanted::Ask(node) => self.events.push_back(FetcherEvent::Connect(node)),
                FetchWanted::Begin => self.events.push_back(FetcherEvent::Begin),
                FetchWanted::Read(node, place) => {
                    let mut out = Vec::new();
                    ToBackup::Read(place).write(self.version, &mut out).expect("a small message");
                    self.to_send.push_back((node, out));
                }
            }
        }
    }
}
