//! A copy of a dead node's log, fetched from another node to take over what it had.

use super::connections::{ConnectionId, Connections, Event, Events, Signal};
use crate::clock::Clock;
use crate::door::Door;
use crate::durable_log::folder::Folder;
use sidle_cluster::{DeadLog, HostPort, LogBackup};
use sidle_log_copies::{BackupId, FetchedCopy};
use sidle_log_files::FileSet;
use sidle_node::{Fetcher, FetcherEvent, HowFar, NodeParts};
use sidle_types::{MonotonicUs, NodeId};
use sidle_wire::Tail;
use std::collections::{BTreeMap, BTreeSet};
use std::fs::{DirBuilder, remove_dir_all};
use std::io;
use std::os::unix::fs::DirBuilderExt;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};
use tokio::runtime::{Builder, LocalOptions};
use tokio::time::timeout;

/// How often it looks whether the node ends.
const LOOK: Duration = Duration::from_millis(100);
/// Who has not answered for so long is not waited for.
const SILENCE: Duration = Duration::from_secs(3);
/// What clients stored is for the node's user only.
const FOLDER_MODE: u32 = 0o700;

/// Why no copy was fetched.
#[derive(Debug, thiserror::Error)]
pub(in crate::durable_log) enum FetchError {
    #[error("the copy of its log cannot be fetched into {path}: {error}")]
    Refused { path: String, error: io::Error },
    #[error("no copy of its log can be fetched for now ({0})")]
    NoCopy(String),
    #[error("the node ends")]
    Stopped,
}

/// What is known of the copies of a log from earlier attempts.
#[derive(Debug, Default)]
pub(in crate::durable_log) struct KnownOfCopies {
    /// How those end that have everything.
    ends: BTreeMap<NodeId, Tail>,
    /// Those that could not be read. They are tried last.
    pub(in crate::durable_log) damaged: BTreeSet<NodeId>,
    /// How far the last attempt to take over came, which failed.
    pub(in crate::durable_log) failed_at: Option<HowFar>,
}

/// A copy that was fetched whole.
#[derive(Clone, Copy, Debug)]
pub(in crate::durable_log) struct Fetched {
    /// From where.
    pub(in crate::durable_log) from: NodeId,
    /// Until when the log's writer may answer clients.
    pub(in crate::durable_log) promised_until: Instant,
}

/// Fetches a copy.
pub(in crate::durable_log) struct Fetching<'f> {
    /// The folder that it is put into.
    pub(in crate::durable_log) path: &'f Path,
    pub(in crate::durable_log) door: &'f Door,
    pub(in crate::durable_log) parts: &'f NodeParts,
    pub(in crate::durable_log) clock: Clock,
    pub(in crate::durable_log) stop: &'f AtomicBool,
}

impl Fetching<'_> {
    /// Asks those with copies that counted, and reads one.
    pub(in crate::durable_log) fn run(
        &self,
        dead: &DeadLog,
        known: &mut KnownOfCopies,
    ) -> Result<Fetched, FetchError> {
        let table = self.parts.published.table();
        let me = table.node();
        let mut backups: Vec<&LogBackup> = dead.backups.iter().filter(|backup| backup.node != me).collect();
        backups.sort_by_key(|backup| known.damaged.contains(&backup.node));
        let backups = backups
            .into_iter()
            .map(|&LogBackup { node, incarnation }| BackupId { node, incarnation: incarnation.0 });
        let (of, version) = ((dead.log, dead.log_epoch), table.map().version());
        let fetcher = Fetcher::new(me, of, backups, known.ends.clone(), version);
        let folder = self.new_folder().map_err(|error| self.refused(error))?;
        let runtime = Builder::new_current_thread().enable_all().build_local(LocalOptions::default());
        let runtime = runtime.map_err(|error| self.refused(error))?;
        runtime.block_on(async {
            let (connections, events) = Connections::new();
            let (links, failures) = (BTreeMap::new(), BTreeMap::new());
            let mut round = Round { of: self, dead, fetcher, folder, connections, links, failures, bytes: 0 };
            let fetched = round.run(events).await;
            known.ends = round.fetcher.known().clone();
            fetched
        })
    }

    /// An empty one.
    fn new_folder(&self) -> io::Result<Folder> {
        remove_folder(self.path)?;
        if let Some(above) = self.path.parent() {
            DirBuilder::new().mode(FOLDER_MODE).recursive(true).create(above)?;
        }
        Folder::open(self.path)
    }

    fn refused(&self, error: io::Error) -> FetchError {
        FetchError::Refused { path: self.path.display().to_string(), error }
    }
}

/// Removes what was fetched.
pub(in crate::durable_log) fn remove_folder(path: &Path) -> io::Result<()> {
    match remove_dir_all(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}

/// One attempt.
struct Round<'r> {
    of: &'r Fetching<'r>,
    dead: &'r DeadLog,
    fetcher: Fetcher,
    folder: Folder,
    connections: Connections,
    links: BTreeMap<NodeId, ConnectionId>,
    failures: BTreeMap<NodeId, String>,
    bytes: u64,
}

impl Round<'_> {
    async fn run(&mut self, mut events: Events) -> Result<Fetched, FetchError> {
        let mut since = Instant::now();
        loop {
            self.follow().map_err(|error| self.of.refused(error))?;
            if let Some(outcome) = self.fetcher.outcome() {
                return match outcome {
                    Some((fetched, promised_until)) => self.finish(fetched, promised_until),
                    None => Err(FetchError::NoCopy(self.why())),
                };
            }
            if self.of.stop.load(Ordering::Acquire) {
                return Err(FetchError::Stopped);
            }
            if since.elapsed() > SILENCE {
                self.give_up();
                since = Instant::now();
            } else if let Ok(Some((id, event))) = timeout(LOOK, events.recv()).await {
                self.hear(id, event);
                since = Instant::now();
            }
        }
    }

    /// It is a log as any other one from here on.
    fn finish(&mut self, fetched: FetchedCopy, promised_until: MonotonicUs) -> Result<Fetched, FetchError> {
        let FetchedCopy { copy, is_sure } = fetched;
        let (from, log, bytes) = (copy.backup.node, self.dead.log, self.bytes);
        let set = FileSet { log, first: copy.first, last: copy.tail.end.file };
        self.folder.record(set).map_err(|error| self.of.refused(error))?;
        if !is_sure {
            tracing::warn!(
                "all nodes with copies of log {log} have restarted since: if their machines lost their power, \
                 the last second before that may be lost"
            );
        }
        tracing::info!("fetched the copy of log {log} from node {from}: {bytes} bytes");
        Ok(Fetched { from, promised_until: self.of.clock.instant(promised_until) })
    }

    /// Who has not answered is as one that cannot be reached.
    fn give_up(&mut self) {
        for (node, id) in std::mem::take(&mut self.links) {
            self.connections.close(id);
            self.failures.insert(node, "it does not answer".to_owned());
            self.fetcher.lost(node);
        }
    }

    fn why(&self) -> String {
        let answered = self.fetcher.failures().iter().map(|(node, why)| format!("node {node}: {why}"));
        let others = self.failures.iter().filter(|(node, _)| !self.fetcher.failures().contains_key(node));
        let others = others.map(|(node, why)| format!("node {node}: {why}"));
        answered.chain(others).collect::<Vec<_>>().join("; ")
    }

    fn address(&self, node: NodeId) -> Option<HostPort> {
        self.of.parts.published.table().map().node(node).map(|info| info.bus_addr.clone())
    }

    fn hear(&mut self, id: ConnectionId, event: Event) {
        let Some(signal) = self.connections.take(id, event) else { return };
        let Some((&node, _)) = self.links.iter().find(|(_, other)| **other == id) else { return };
        match signal {
            Signal::Opened => self.fetcher.connected(node),
            Signal::Bytes(bytes) => self.fetcher.received(self.of.clock.mono(), node, &bytes),
            Signal::Ended(why) => {
                self.failures.insert(node, why.to_string());
                self.links.remove(&node);
                self.fetcher.lost(node);
            }
        }
    }

    fn follow(&mut self) -> io::Result<()> {
        while let Some(event) = self.fetcher.poll_event() {
            match event {
                FetcherEvent::Connect(node) => {
                    let id = self.connections.dial(self.of.door, self.address(node).as_ref());
                    self.links.insert(node, id);
                }
                FetcherEvent::Close(node) => {
                    if let Some(id) = self.links.remove(&node) {
                        self.connections.close(id);
                    }
                }
                FetcherEvent::Begin => {
                    self.folder = self.of.new_folder()?;
                    self.bytes = 0;
                }
                FetcherEvent::Write(at, bytes) => {
                    self.folder.write_bytes(at.file, at.at, &[&bytes])?;
                    self.bytes += bytes.len() as u64;
                }
            }
            self.of.parts.shared.taking_over.note_fetched(self.bytes);
        }
        if let Some((node, bytes)) = self.fetcher.at() {
            self.of.parts.shared.taking_over.note_source(node, bytes);
        }
        while let Some((node, bytes)) = self.fetcher.poll_transmit() {
            if let Some(&id) = self.links.get(&node) {
                self.connections.send(id, &bytes);
            }
        }
        Ok(())
    }
}
