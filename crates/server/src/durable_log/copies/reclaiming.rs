//! A start that asks the copies of its log for what its own disk lost, before the log is read.

use super::connections::{ConnectionId, Connections, Event, Events, Signal};
use super::sending::kept_record;
use crate::clock::Clock;
use crate::door::Door;
use crate::durable_log::clean_stop::CleanStop;
use crate::durable_log::folder::Folder;
use crate::repeated::Repeated;
use sidle_cluster::{HostPort, TabletMap};
use sidle_log_copies::whole_end;
use sidle_log_files::file_name;
use sidle_node::{AskedForCopy, CopiesRecord, NodeShared, Reclaimer, ReclaimerEvent, WaitsForCopies};
use sidle_types::{LogId, NodeId, ProtocolVersion};
use sidle_wire::Place;
use std::collections::BTreeMap;
use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};
use tokio::runtime::{Builder, LocalOptions};
use tokio::time::{sleep, timeout};

/// How long it rests before it asks again.
const REST: Duration = Duration::from_millis(300);
/// Nodes that start together find each other before that: only what lasts longer is logged.
const PATIENCE: Duration = Duration::from_secs(2);
/// How often it looks whether the node ends.
const LOOK: Duration = Duration::from_millis(100);
/// Who has not answered for so long is not waited for.
const SILENCE: Duration = Duration::from_secs(3);
/// The same where the log is whole as far as its own files show.
const SHORT_SILENCE: Duration = Duration::from_millis(500);

/// Why a log does not go on.
#[derive(Debug, thiserror::Error)]
pub(in crate::durable_log) enum ReclaimError {
    #[error(transparent)]
    Refused(#[from] io::Error),
    #[error("the log is another's by now")]
    Deposed(LogId),
}

/// Asks the copies.
pub(in crate::durable_log) struct Reclaiming {
    pub(in crate::durable_log) path: PathBuf,
    pub(in crate::durable_log) node: NodeId,
    pub(in crate::durable_log) door: Door,
    /// Where clients learn what the start waits for.
    pub(in crate::durable_log) shared: Arc<NodeShared>,
    pub(in crate::durable_log) clock: Clock,
    /// Whether the node's identity says that copies may count.
    pub(in crate::durable_log) had_copies: bool,
    /// Whether the log is the one that the start before went on with. An older state of the data directory,
    /// whose count of starts was set, says nothing of how the last one ended.
    pub(in crate::durable_log) is_known: bool,
    /// The map of an earlier incarnation, with the addresses of the others.
    pub(in crate::durable_log) map: Option<Arc<TabletMap>>,
}

impl Reclaiming {
    /// Takes what the own disk lost, unless the log is salvaged. What is known of the copies.
    pub(in crate::durable_log) fn run(
        &self,
        salvages: bool,
        stop: &AtomicBool,
    ) -> Result<CopiesRecord, ReclaimError> {
        if !self.path.exists() {
            return Ok(CopiesRecord::default());
        }
        let mut folder = Folder::open(&self.path)?;
        let kept = match kept_record(&folder, self.had_copies) {
            Err(error) if salvages => {
                tracing::warn!("{error}");
                CopiesRecord { is_lost: true, ..CopiesRecord::default() }
            }
            kept => kept?,
        };
        if salvages && (kept.needs_copies() || self.had_copies) {
            tracing::warn!("the durable log's copies are not asked: what only they have is lost");
        } else if kept.needs_copies() {
            let asked = self.ask(&kept, &mut folder, stop);
            self.shared.loading.show_waits(None);
            asked?;
        }
        Ok(kept)
    }

    fn ask(&self, kept: &CopiesRecord, folder: &mut Folder, stop: &AtomicBool) -> Result<(), ReclaimError> {
        tracing::info!(
            "the durable log has copies at other nodes: they are asked for what this disk may lack"
        );
        let runtime = Builder::new_current_thread().enable_all().build_local(LocalOptions::default())?;
        runtime.block_on(async {
            let (mut complaints, began, since_seconds) =
                (Repeated::default(), Instant::now(), self.clock.wall(self.clock.mono()).0 / 1000);
            loop {
                // Damage of the record is reported by whoever reads the log.
                let Ok(Some(set)) = folder.read_record()? else { return Ok(()) };
                let own = Place { file: set.last, at: own_end(folder, set.first, set.last, set.log) };
                let version = self.map.as_ref().map_or(ProtocolVersion::CURRENT, |map| map.version());
                let mut reclaimer = Reclaimer::new((self.node, set.log), own, kept, version);
                let closed_at = CleanStop::of(&self.path).read(set.log).filter(|_| self.is_known);
                closed_at.into_iter().for_each(|end| reclaimer.closed_at(end));
                let silence = if closed_at == Some(own) { SHORT_SILENCE } else { SILENCE };
                let (connections, events) = Connections::new();
                let mut search = Search {
                    of: self,
                    log: set.log,
                    kept,
                    folder: &mut *folder,
                    reclaimer,
                    connections,
                    links: BTreeMap::new(),
                    failures: BTreeMap::new(),
                    silence,
                };
                let is_over = search.run(events, stop).await?;
                if is_over || stop.load(Ordering::Acquire) {
                    return Ok(());
                }
                let (log, syncs, nodes) = (set.log, kept.synced, search.waits_for());
                let waits = WaitsForCopies { since_seconds, log, syncs, nodes };
                let text = format!("the start waits for a copy of its durable log {}", waits.what_helps());
                self.shared.loading.show_waits(Some(waits));
                let now = Instant::now();
                if now - began > PATIENCE
                    && let Some(text) = complaints.due(&text, now)
                {
                    tracing::warn!("{text}");
                }
                sleep(REST).await;
            }
        })
    }
}

/// Where a log's own last file ends that can be read.
fn own_end(folder: &Folder, first: u64, last: u64, log: LogId) -> u64 {
    if last < first {
        return 0;
    }
    folder.read(last).ok().and_then(|bytes| whole_end(&bytes, last, log)).unwrap_or(0)
}

/// One round of questions.
struct Search<'s> {
    of: &'s Reclaiming,
    log: LogId,
    kept: &'s CopiesRecord,
    folder: &'s mut Folder,
    reclaimer: Reclaimer,
    connections: Connections,
    links: BTreeMap<NodeId, ConnectionId>,
    failures: BTreeMap<NodeId, String>,
    /// Who has not answered for so long is not waited for.
    silence: Duration,
}

impl Search<'_> {
    /// Whether the log has everything now.
    async fn run(&mut self, mut events: Events, stop: &AtomicBool) -> Result<bool, ReclaimError> {
        let mut since = Instant::now();
        loop {
            self.follow()?;
            if self.reclaimer.is_deposed() {
                return Err(ReclaimError::Deposed(self.log));
            }
            if let Some(outcome) = self.reclaimer.outcome() {
                if !outcome.is_settled() {
                    return Ok(false);
                }
                if !outcome.is_sure {
                    tracing::warn!(
                        "all nodes with copies of the durable log have restarted since: if their machines lost \
                         their power, the last second before that may be lost"
                    );
                }
                return Ok(true);
            }
            if stop.load(Ordering::Acquire) {
                return Ok(false);
            }
            if since.elapsed() > self.silence {
                self.give_up();
                since = Instant::now();
                continue;
            }
            if let Ok(Some((id, event))) = timeout(LOOK, events.recv()).await {
                self.hear(id, event);
                since = Instant::now();
            }
        }
    }

    /// Who has not answered is as one that cannot be reached.
    fn give_up(&mut self) {
        for &node in self.links.keys() {
            self.failures.entry(node).or_insert_with(|| "it does not answer".to_owned());
        }
        self.reclaimer.give_up();
    }

    /// The nodes whose copies count: where clients reach each, or else other nodes, and why it was not
    /// reached.
    fn waits_for(&self) -> Vec<AskedForCopy> {
        let newest = self.kept.proposed.as_ref().or(self.kept.decided.as_ref());
        let nodes = newest.into_iter().flat_map(|copies| &copies.backups).map(|backup| backup.node);
        let shown = |node: NodeId| {
            let known = self.of.map.as_ref().and_then(|map| map.node(node));
            let at = known.map(|known| known.client_addr.to_string());
            let at = at.or_else(|| self.address(node).map(|address| address.to_string()));
            AskedForCopy { node, at, not_reached: self.failures.get(&node).cloned() }
        };
        nodes.map(shown).collect()
    }

    fn address(&self, node: NodeId) -> Option<HostPort> {
        let known = self.of.map.as_ref().and_then(|map| map.node(node)).map(|info| info.bus_addr.clone());
        known.or_else(|| self.kept.addresses.get(&node).cloned())
    }

    fn hear(&mut self, id: ConnectionId, event: Event) {
        let Some(signal) = self.connections.take(id, event) else { return };
        let Some((&node, _)) = self.links.iter().find(|(_, other)| **other == id) else { return };
        match signal {
            Signal::Opened => self.reclaimer.connected(node),
            Signal::Bytes(bytes) => self.reclaimer.received(node, &bytes),
            Signal::Ended(why) => {
                let at = self.address(node).map_or_else(|| "?".to_owned(), |address| address.to_string());
                self.failures.insert(node, format!("{why}, at {at}"));
                self.links.remove(&node);
                self.reclaimer.lost(node);
            }
        }
    }

    fn follow(&mut self) -> io::Result<()> {
        while let Some(event) = self.reclaimer.poll_event() {
            match event {
                ReclaimerEvent::Connect(node) => {
                    let id = self.connections.dial(&self.of.door, self.address(node).as_ref());
                    self.links.insert(node, id);
                }
                ReclaimerEvent::Close(node) => {
                    self.failures.insert(node, "what it sent makes no sense".to_owned());
                    if let Some(id) = self.links.remove(&node) {
                        self.connections.close(id);
                    }
                }
                ReclaimerEvent::Take(file, bytes) => {
                    self.folder.keep_file(file, &bytes)?;
                    let name = file_name(file);
                    tracing::info!("{name} of the durable log was taken from a copy, {} bytes", bytes.len());
                }
            }
        }
        while let Some((node, bytes)) = self.reclaimer.poll_transmit() {
            if let Some(&id) = self.links.get(&node) {
                self.connections.send(id, &bytes);
            }
        }
        Ok(())
    }
}
