//! The thread `log-copies`: it has the copies of this node's log follow it, and reports what is safe.

use super::connections::{ConnectionId, Connections, Event, Events, Signal};
use super::own_log::OwnLog;
use super::running::Running;
use crate::clock::Clock;
use crate::door::Door;
use crate::durable_log::folder::Folder;
use crate::durable_log::requests::LogRequests;
use crate::repeated::Repeated;
use sidle_cluster::LogCopies;
use sidle_log_copies::{BackupId, LogReport, OwnFiles, Settings};
use sidle_node::{CopiesEvent, CopiesRecord, CopySender, HeldUp, NodeParts};
use sidle_types::{CommitNumber, LogId, MapEpoch, MonotonicUs, NodeId};
use std::collections::BTreeMap;
use std::fs::File;
use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::sync::mpsc;
use tokio::time::sleep_until;

/// The file that keeps which copies count.
const RECORD_NAME: &str = "copies.json";
/// A copy that does not answer for so long is left out. Disks that others use too stall for half a second.
const PATIENCE_US: u64 = 1_000_000;
/// A node that was left out is tried again after so long.
const REST_US: u64 = 500_000;
/// New writes are refused once no commit has come nearer to being safe for so long. A coordinator that
/// restarts takes less.
const REFUSES_AFTER_US: u64 = 10_000_000;
/// The most bytes that are sent at once.
const MOST_BYTES: u64 = 1 << 20;
/// One append is synced while the next one is on its way.
const MOST_UNDER_WAY: usize = 2;
/// What has lasted so long is logged.
const LASTS: Duration = Duration::from_secs(1);
/// How long it rests before it tries again to keep its record.
const RETRY_REST: Duration = Duration::from_millis(100);

/// What the thread is given.
pub(crate) enum CopiesInput {
    /// The log's writer has reported this. With a handle of the file, if it has just begun that.
    Report(LogReport, Option<File>),
    /// The coordinator's record.
    Decided(Option<LogCopies>),
    /// There is another tablet map.
    Map,
    /// The node ends.
    Stop,
}

/// What it has for the control thread.
#[derive(Debug)]
pub(crate) enum CopiesReport {
    /// The copies that are to count.
    Proposed(LogCopies),
    /// Another one writes the log.
    Deposed,
}

/// What the thread needs.
pub(crate) struct CopiesSetup {
    pub(crate) node: NodeId,
    /// How many copies there are to be, and whether each syncs what it writes before it is acknowledged.
    pub(crate) wanted: usize,
    pub(crate) syncs: bool,
    /// The log may be taken over when this node is gone for so long.
    pub(crate) takeover_after_ms: Option<u64>,
    pub(crate) parts: NodeParts,
    pub(crate) door: Door,
    pub(crate) clock: Clock,
    /// Wakes whoever waits for a commit, or for the lease.
    pub(crate) wake: Box<dyn Fn() + Send>,
    pub(crate) requests: Arc<LogRequests>,
    pub(crate) report: Box<dyn Fn(CopiesReport) + Send>,
    pub(crate) inputs: mpsc::UnboundedReceiver<CopiesInput>,
}

/// The log that it goes on with.
pub(in crate::durable_log) struct Followed {
    pub(in crate::durable_log) path: PathBuf,
    pub(in crate::durable_log) log: LogId,
    pub(in crate::durable_log) files: Vec<(u64, u64)>,
    pub(in crate::durable_log) last: CommitNumber,
    /// What its folder has kept of its copies.
    pub(in crate::durable_log) kept: CopiesRecord,
}

/// What a log's folder has kept of its copies. The error: why that cannot be read.
pub(super) fn kept_record(folder: &Folder, had_copies: bool) -> io::Result<CopiesRecord> {
    let refused = |why: String| {
        let remedy = "put it back; or start once with --salvage, without what only the copies have";
        Err(io::Error::new(io::ErrorKind::InvalidData, format!("{RECORD_NAME} {why}: {remedy}")))
    };
    match folder.kept(RECORD_NAME)? {
        None if had_copies => {
            refused("is missing, and copies of the log at other nodes may have more".to_owned())
        }
        None => Ok(CopiesRecord::default()),
        Some(json) => CopiesRecord::from_json(&json).or_else(|why| refused(format!("is damaged ({why})"))),
    }
}

/// The running thread.
pub(in crate::durable_log) struct CopiesThread {
    _running: Running<CopiesInput>,
}

impl CopiesThread {
    /// Starts it.
    pub(in crate::durable_log) fn start(
        setup: CopiesSetup,
        given: mpsc::UnboundedSender<CopiesInput>,
        followed: Followed,
    ) -> io::Result<CopiesThread> {
        let folder = Folder::open(&followed.path)?;
        let Followed { path, log, files, last, kept } = followed;
        let settings = Settings {
            wanted: setup.wanted,
            syncs: setup.syncs,
            patience_us: PATIENCE_US,
            rest_us: REST_US,
            refuses_after_us: REFUSES_AFTER_US,
            most_bytes: MOST_BYTES,
            takeover_after_ms: setup.takeover_after_ms,
            most_under_way: MOST_UNDER_WAY,
        };
        let before = files.last().map_or(0, |(number, _)| *number);
        let (now, own) = (setup.clock.mono(), OwnFiles::new(files));
        let sender = CopySender::new(now, (setup.node, log), settings, own, last, &kept);
        // Before anybody is answered.
        let lease = sender.lease_until();
        setup.parts.shared.durability.lease.set(lease);
        let body = move || async move {
            let CopiesSetup { inputs, .. } = setup;
            let (connections, events) = Connections::new();
            let sending = Sending {
                parts: setup.parts,
                door: setup.door,
                clock: setup.clock,
                wake: setup.wake,
                requests: setup.requests,
                report: setup.report,
                folder,
                own: OwnLog::new(path, before),
                sender,
                connections,
                links: BTreeMap::new(),
                map: None,
                to_keep: None,
                safe: CommitNumber(0),
                lease,
                wanted: setup.wanted,
                shown: Vec::new(),
                logged: None,
                to_log_at: None,
                is_deposed: false,
                complaints: Repeated::default(),
            };
            sending.run(inputs, events).await;
        };
        let running = Running::start("log-copies", (given, CopiesInput::Stop), body)?;
        Ok(CopiesThread { _running: running })
    }
}

struct Sending {
    parts: NodeParts,
    door: Door,
    clock: Clock,
    wake: Box<dyn Fn() + Send>,
    requests: Arc<LogRequests>,
    report: Box<dyn Fn(CopiesReport) + Send>,
    folder: Folder,
    own: OwnLog,
    sender: CopySender,
    connections: Connections,
    links: BTreeMap<BackupId, ConnectionId>,
    map: Option<MapEpoch>,
    /// What is to be kept before it is proposed, and when that is tried.
    to_keep: Option<(CopiesRecord, Instant)>,
    /// The last commit that was reported as safe.
    safe: CommitNumber,
    /// Until when replies may be sent, as last reported.
    lease: MonotonicUs,
    wanted: usize,
    /// The copies that were shown last, and logged last.
    shown: Vec<NodeId>,
    logged: Option<Vec<NodeId>>,
    to_log_at: Option<Instant>,
    is_deposed: bool,
    complaints: Repeated,
}

impl Sending {
    async fn run(mut self, mut inputs: mpsc::UnboundedReceiver<CopiesInput>, mut events: Events) {
        self.turn();
        loop {
            let due = self.due();
            tokio::select! {
                input = inputs.recv() => {
                    let more = std::iter::from_fn(|| inputs.try_recv().ok());
                    for input in input.into_iter().chain(more) {
                        if !self.take(input) {
                            return;
                        }
                    }
                }
                Some((id, event)) = events.recv() => self.hear(id, event),
                () = sleep_until(due.unwrap_or_else(Instant::now).into()), if due.is_some() => {}
            }
            self.turn();
        }
    }

    /// When it has something to do if nothing happens.
    fn due(&self) -> Option<Instant> {
        let timeout = self.sender.poll_timeout().map(|at| self.clock.instant(at));
        let keeping = self.to_keep.as_ref().map(|(_, at)| *at);
        timeout.into_iter().chain(keeping).chain(self.to_log_at).min()
    }

    /// Whether it goes on.
    fn take(&mut self, input: CopiesInput) -> bool {
        let now = self.clock.mono();
        match input {
            CopiesInput::Report(report, begun) => {
                match report {
                    LogReport::Written(to, _) if begun.is_some() => self.own.begun(to.file, begun),
                    LogReport::Removed(file) => self.own.removed(file),
                    _ => {}
                }
                self.sender.report(now, report, &mut self.own);
            }
            CopiesInput::Decided(decided) => self.sender.decided(now, decided.as_ref()),
            CopiesInput::Map => {}
            CopiesInput::Stop => return false,
        }
        true
    }

    fn hear(&mut self, id: ConnectionId, event: Event) {
        let Some(signal) = self.connections.take(id, event) else { return };
        let Some((&backup, _)) = self.links.iter().find(|(_, other)| **other == id) else {
            self.connections.close(id);
            return;
        };
        let now = self.clock.mono();
        match signal {
            Signal::Opened => self.sender.connected(now, backup),
            Signal::Bytes(bytes) => self.sender.received(now, backup, &bytes, &mut self.own),
            Signal::Ended(why) => {
                tracing::debug!("the copy of the durable log at node {}: {why}", backup.node);
                self.links.remove(&backup);
                self.sender.lost(now, backup);
            }
        }
    }

    /// Does what is to be done.
    fn turn(&mut self) {
        let now = self.clock.mono();
        let table = self.parts.published.table();
        if self.map != Some(table.map().epoch()) {
            self.map = Some(table.map().epoch());
            self.sender.set_map(now, table.map(), &mut self.own);
        }
        drop(table);
        self.sender.pass_time(now);
        self.follow();
        self.transmit();
        // What could not be read.
        self.follow();
        // Before a change is proposed that shortens it.
        self.note_lease();
        self.keep();
        self.note_safe();
        self.show_held_up();
        self.show();
        if let Some(commit) = self.sender.wanted_synced() {
            let durability = &self.parts.shared.durability;
            if !durability.is_sync_wanted() {
                durability.want_synced(commit);
                self.requests.ask();
            }
        }
        if self.sender.is_deposed() && !std::mem::replace(&mut self.is_deposed, true) {
            (self.report)(CopiesReport::Deposed);
        }
    }

    fn follow(&mut self) {
        while let Some(event) = self.sender.poll_event() {
            match event {
                CopiesEvent::Connect(backup) => {
                    let table = self.parts.published.table();
                    let known = table.map().node(backup.node).map(|node| node.bus_addr.clone());
                    drop(table);
                    let address = known.or_else(|| self.sender.address_of(backup.node).cloned());
                    let id = self.connections.dial(&self.door, address.as_ref());
                    self.links.insert(backup, id);
                }
                CopiesEvent::Close(backup) => {
                    if let Some(id) = self.links.remove(&backup) {
                        self.connections.close(id);
                    }
                }
                CopiesEvent::Propose(record) => self.to_keep = Some((record, Instant::now())),
            }
        }
    }

    fn transmit(&mut self) {
        let now = self.clock.mono();
        let mut out = Vec::new();
        loop {
            let (links, connections) = (&self.links, &self.connections);
            let is_full = |backup: BackupId| links.get(&backup).is_none_or(|&id| connections.is_full(id));
            let Some(backup) = self.sender.poll_transmit(now, &mut self.own, is_full, &mut out) else {
                return;
            };
            if let Some(&id) = self.links.get(&backup) {
                self.connections.send(id, &out);
            }
            out.clear();
        }
    }

    /// Keeps what is to be proposed, and then has it decided.
    fn keep(&mut self) {
        let Some((record, _)) = self.to_keep.take_if(|(_, at)| *at <= Instant::now()) else { return };
        match self.folder.keep(RECORD_NAME, &record.to_json()) {
            Ok(()) => {
                if let Some(proposed) = record.proposed {
                    (self.report)(CopiesReport::Proposed(proposed));
                }
            }
            Err(error) => {
                let text = format!("which copies of the durable log count cannot be kept: {error}");
                if let Some(text) = self.complaints.due(&text, Instant::now()) {
                    tracing::error!("{text}");
                }
                self.to_keep = Some((record, Instant::now() + RETRY_REST));
            }
        }
    }

    /// Until when replies may be sent. Whoever found that over, perhaps just now, looks again.
    fn note_lease(&mut self) {
        let until = self.sender.lease_until();
        if std::mem::replace(&mut self.lease, until) != until {
            self.parts.shared.durability.lease.set(until);
            (self.wake)();
        }
    }

    fn note_safe(&mut self) {
        let safe = self.sender.safe();
        let commits = self.parts.store.commits().expect("a durable store has commits");
        if safe > self.safe && commits.set_safe(safe) {
            self.safe = safe;
            (self.wake)();
        }
    }

    /// Behind what is safe: who waited for that is answered first.
    fn show_held_up(&mut self) {
        match self.sender.show_held_up(&self.parts) {
            Some(HeldUp::Begins(why)) => tracing::error!("new writes are refused: {why}"),
            Some(HeldUp::Ends) => tracing::info!("writes are made safe again, and new ones accepted"),
            None => {}
        }
    }

    /// Shows which copies count.
    fn show(&mut self) {
        let backups: Vec<NodeId> = self.sender.backups().map(|backup| backup.node).collect();
        if self.shown != backups {
            self.parts.shared.durability.show_copies(backups.clone());
            self.shown = backups;
        }
        if self.logged.as_ref() == Some(&self.shown) {
            self.to_log_at = None;
            return;
        }
        let now = Instant::now();
        if *self.to_log_at.get_or_insert(now + LASTS) > now {
            return;
        }
        self.to_log_at = None;
        let names: Vec<String> = self.shown.iter().map(NodeId::to_string).collect();
        let (at, wanted) = (names.join(", "), self.wanted);
        match names.len() {
            0 if wanted == 0 => tracing::info!("the durable log has no copies any more"),
            0 => tracing::warn!("the durable log has no copy at another node"),
            count if count < wanted => {
                tracing::warn!("the durable log has {count} of {wanted} copies, at {at}");
            }
            _ => tracing::info!("the durable log has all copies, at {at}"),
        }
        self.logged = Some(self.shown.clone());
    }
}
