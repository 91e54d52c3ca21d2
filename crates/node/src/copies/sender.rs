//! The copies of this node's log at other nodes.

use super::held_up::held_up;
use super::record::{CopiesRecord, copies, record};
use crate::shared::NodeParts;
use sidle_cluster::{HostPort, LogCopies, TabletMap};
use sidle_log_copies::{BackupId, Copies, Event, LogReport, OwnFiles, Sent, Settings, is_end_of};
use sidle_types::{CommitNumber, LogId, MonotonicUs, NodeId, ProtocolVersion};
use sidle_wire::{CopyHello, FrameFilter, FrameReader, Message, Place, ToBackup};
use std::collections::{BTreeMap, VecDeque};

/// The files of the node's log.
pub trait ReadLog {
    /// Bytes of a file; `None`: they cannot be read, or are there no more.
    fn read(&mut self, at: Place, bytes: u64) -> Option<Vec<u8>>;
}

/// What is to be done.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CopiesEvent {
    /// Connect to a backup.
    Connect(BackupId),
    /// Close the connection to it.
    Close(BackupId),
    /// Keep this record for good, and then have the coordinator decide on its proposal.
    Propose(CopiesRecord),
}

/// Whether writes are refused since nothing becomes safe.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum HeldUp {
    /// From now on, for this reason.
    Begins(String),
    /// Not any more.
    Ends,
}

/// The sending end of all copies of a log.
#[derive(Debug)]
pub struct CopySender {
    node: NodeId,
    log: LogId,
    copies: Copies,
    version: ProtocolVersion,
    readers: BTreeMap<BackupId, FrameReader>,
    /// Where nodes are, or were.
    addresses: BTreeMap<NodeId, HostPort>,
    /// Whether each copy syncs what it writes.
    syncs: bool,
    events: VecDeque<CopiesEvent>,
}

impl CopySender {
    /// The copies of a log that this node goes on with: its files, its last commit, and what its folder has
    /// kept of the copies.
    pub fn new(
        now: MonotonicUs,
        (node, log): (NodeId, LogId),
        settings: Settings,
        own: OwnFiles,
        last: CommitNumber,
        kept: &CopiesRecord,
    ) -> CopySender {
        let (decided, proposed) = kept.of(log);
        let mut copies = Copies::new(settings, own, last, decided, proposed);
        if kept.needs_copies() && kept.synced != settings.syncs {
            copies.stand_alone_first();
        }
        if kept.is_lost {
            copies.adopt_record();
        }
        let mut sender = CopySender {
            node,
            log,
            copies,
            version: ProtocolVersion::CURRENT,
            readers: BTreeMap::new(),
            addresses: kept.addresses.clone(),
            syncs: settings.syncs,
            events: VecDeque::new(),
        };
        sender.take_events(now, None);
        sender
    }

    /// The last commit that is safe here and at all copies that count.
    pub fn safe(&self) -> CommitNumber {
        self.copies.safe()
    }

    /// Shows why writes are refused, if nothing has come nearer to being safe for too long, or that they are
    /// not any more. What to log, if that has changed.
    pub fn show_held_up(&self, parts: &NodeParts) -> Option<HeldUp> {
        let (table, shared) = (parts.published.table(), &parts.shared);
        let lacking = self.copies.held_up();
        let why = lacking.map(|lacking| held_up(&lacking, table.map(), shared.unreachable.coordinator()));
        let before = shared.durability.show_held_up(why.as_deref());
        match why {
            Some(why) if !before => Some(HeldUp::Begins(why)),
            None if before => Some(HeldUp::Ends),
            _ => None,
        }
    }

    /// Until when nobody takes the log over; without leases for ever.
    pub fn lease_until(&self) -> MonotonicUs {
        self.copies.lease_until()
    }

    /// Who has a copy that counts.
    pub fn backups(&self) -> impl ExactSizeIterator<Item = BackupId> {
        self.copies.record().backups.iter().copied()
    }

    /// The commit up to which the log itself is to be synced, if anything waits for that.
    pub fn wanted_synced(&self) -> Option<CommitNumber> {
        self.copies.wanted_synced()
    }

    /// Where a node is, or was.
    pub fn address_of(&self, node: NodeId) -> Option<&HostPort> {
        self.addresses.get(&node)
    }

    /// Whether the coordinator's record is another writer's.
    pub fn is_deposed(&self) -> bool {
        self.copies.is_deposed()
    }

    /// The cluster is this one now. Its members behind this one, in the order of their ids, and then those
    /// before it are its backups: so all nodes have about as many copies.
    pub fn set_map(&mut self, now: MonotonicUs, map: &TabletMap, own: &mut dyn ReadLog) {
        self.version = map.version();
        self.addresses.extend(map.nodes().iter().map(|node| (node.id, node.bus_addr.clone())));
        let mut nodes: Vec<BackupId> = Vec::new();
        if self.version.has_log_copies() {
            let others = map.nodes().iter().filter(|node| node.id != self.node);
            nodes.extend(others.map(|node| BackupId { node: node.id, incarnation: node.incarnation.0 }));
        }
        nodes.sort_by_key(|backup| (backup.node < self.node, *backup));
        self.copies.set_nodes(now, nodes);
        self.take_events(now, Some(own));
    }

    /// The log's writer has reported this.
    pub fn report(&mut self, now: MonotonicUs, report: LogReport, own: &mut dyn ReadLog) {
        match report {
            LogReport::Written(to, commit) => self.copies.written(now, to, commit),
            LogReport::SafeHere { commit, synced } => self.copies.safe_here(now, commit, synced),
            LogReport::Removed(file) => self.copies.removed(file),
        }
        self.take_events(now, Some(own));
    }

    /// A connection that was asked for is there.
    pub fn connected(&mut self, now: MonotonicUs, backup: BackupId) {
        self.readers.insert(backup, FrameReader::filtered(FrameFilter::FROM_BACKUP));
        self.copies.connected(backup);
        self.take_events(now, None);
    }

    /// A connection has ended, or could not be made.
    pub fn lost(&mut self, now: MonotonicUs, backup: BackupId) {
        self.readers.remove(&backup);
        self.copies.lost(now, backup);
        self.take_events(now, None);
    }

    /// A backup has sent something.
    pub fn received(&mut self, now: MonotonicUs, backup: BackupId, bytes: &[u8], own: &mut dyn ReadLog) {
        let Some(mut reader) = self.readers.remove(&backup) else { return };
        reader.push(bytes);
        loop {
            match reader.next_frame().map(|frame| frame.map(|frame| frame.message())) {
                Ok(None) => break,
                Ok(Some(Ok(Message::ToWriter(answer)))) => self.copies.receive(now, backup, answer),
                Ok(Some(_)) | Err(_) => {
                    self.events.push_back(CopiesEvent::Close(backup));
                    self.copies.lost(now, backup);
                    break;
                }
            }
        }
        self.readers.insert(backup, reader);
        self.take_events(now, Some(own));
    }

    /// The coordinator's record, if there is one.
    pub fn decided(&mut self, now: MonotonicUs, decided: Option<&LogCopies>) {
        let Some(decided) = decided else { return };
        match decided.log == self.log {
            true => self.copies.decided(now, record(decided)),
            false => self.copies.begin_behind(now, decided.epoch),
        }
        self.take_events(now, None);
    }

    /// Time has passed.
    pub fn pass_time(&mut self, now: MonotonicUs) {
        self.copies.pass_time(now);
        self.take_events(now, None);
    }

    /// When to call [`CopySender::pass_time`] if nothing else happens.
    pub fn poll_timeout(&self) -> Option<MonotonicUs> {
        self.copies.poll_timeout()
    }

    /// What is to be done next.
    pub fn poll_event(&mut self) -> Option<CopiesEvent> {
        self.events.pop_front()
    }

    /// What is to be sent next, appended to `out`, and to whom. Nobody whose connection `is_full`.
    pub fn poll_transmit(
        &mut self,
        now: MonotonicUs,
        own: &mut dyn ReadLog,
        is_full: impl Fn(BackupId) -> bool,
        out: &mut Vec<u8>,
    ) -> Option<BackupId> {
        loop {
            let sent = self.copies.poll_transmit(now, &is_full);
            self.take_events(now, Some(&mut *own));
            let (backup, sent) = sent?;
            if self.write(backup, sent, own, out) {
                return Some(backup);
            }
            // It begins again, with what there is.
            self.events.push_back(CopiesEvent::Close(backup));
            self.lost(now, backup);
        }
    }

    /// Whether it could be written.
    fn write(&self, backup: BackupId, sent: Sent, own: &mut dyn ReadLog, out: &mut Vec<u8>) -> bool {
        let bytes;
        let message = match sent {
            Sent::Hello { epoch } => {
                let (log, node, incarnation) = (self.log, self.node, backup.incarnation);
                CopyHello { log, epoch, node, incarnation, syncs: self.syncs, reads: false }
                    .write(self.version, out);
                return true;
            }
            Sent::Restart => ToBackup::Restart,
            Sent::Append { at, bytes: count } => match own.read(at, count) {
                Some(read) => {
                    bytes = read;
                    ToBackup::Append { at, bytes: &bytes }
                }
                None => return false,
            },
            Sent::Forget { first } => ToBackup::Forget { first },
            Sent::Epoch(epoch) => ToBackup::Epoch(epoch),
            Sent::Beat(number) => ToBackup::Beat(number),
        };
        message.write(self.version, out).expect("less is sent at once than a frame takes");
        true
    }

    /// Takes what the copies want done. `own`: the log's files, if anything may have to be compared.
    fn take_events(&mut self, now: MonotonicUs, mut own: Option<&mut (dyn ReadLog + '_)>) {
        while let Some(event) = self.copies.poll_event() {
            match event {
                Event::Connect(backup) => self.events.push_back(CopiesEvent::Connect(backup)),
                Event::Close(backup) => {
                    self.readers.remove(&backup);
                    self.events.push_back(CopiesEvent::Close(backup));
                }
                Event::Compare(backup, tail) => {
                    let own = own.as_deref_mut().expect("an answer is compared");
                    let at = Place { at: 0, ..tail.end };
                    let is_same = own.read(at, tail.end.at).is_some_and(|bytes| is_end_of(tail, &bytes));
                    self.copies.compared(now, backup, is_same);
                }
                Event::Propose(proposed) => {
                    let (decided, proposed) = (self.copies.record(), &proposed);
                    let nodes = decided.backups.iter().chain(&proposed.backups).map(|backup| backup.node);
                    let addresses = nodes.filter_map(|node| Some((node, self.addresses.get(&node)?.clone())));
                    let record = CopiesRecord {
                        addresses: addresses.collect(),
                        decided: Some(copies(self.log, decided)),
                        proposed: Some(copies(self.log, proposed)),
                        synced: self.syncs,
                        is_lost: false,
                    };
                    self.events.push_back(CopiesEvent::Propose(record));
                }
            }
        }
    }
}
