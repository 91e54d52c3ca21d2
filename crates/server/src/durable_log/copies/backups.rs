//! The thread `log-backups`: it keeps the copies of other nodes' logs.

use super::connections::{ConnectionId, Connections, Event, Events, Signal};
use super::copy_syncs::{CopySyncs, Ended, Opened};
use super::folders::CopyFolders;
use super::running::Running;
use crate::clock::Clock;
use crate::control::links::Lane;
use sidle_node::{Backups, CopyLink, NodeParts};
use sidle_types::LogId;
use sidle_wire::CopyHello;
use std::io;
use std::path::PathBuf;
use std::time::{Duration, Instant};
use tokio::net::TcpStream;
use tokio::sync::{mpsc, oneshot};
use tokio::time::{MissedTickBehavior, interval, sleep_until};

/// How often a copy is synced that does not sync each write.
const SYNC_EVERY_US: u64 = 1_000_000;

/// How often it looks whether the copies' files are in their place.
const LOOK_EVERY: Duration = Duration::from_secs(3);

/// What the thread is given.
pub(crate) enum BackupsInput {
    /// A node has opened a connection for a copy.
    Opened(CopyHello, Box<Lane>),
    /// The copy of this log is to be read: nobody of an older epoch writes it any more. Answered once that
    /// is on the disk.
    Fence(LogId, u64, oneshot::Sender<Fenced>),
    /// The node ends.
    Stop,
}

/// How the fencing of a copy ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fenced {
    /// Nobody of an older epoch writes it. For so long its writer may answer reads.
    Done(Duration),
    /// It does not end as it was written.
    Damaged,
    /// There is none, or it cannot be used: the node's log says why.
    NoCopy,
}

/// What the thread needs.
pub(crate) struct BackupsSetup {
    /// Where the copies are.
    pub(crate) path: PathBuf,
    /// The node's start.
    pub(crate) incarnation: u64,
    pub(crate) parts: NodeParts,
    pub(crate) clock: Clock,
}

/// The running thread.
pub(crate) struct BackupsThread(Running<BackupsInput>);

impl BackupsThread {
    /// Starts it.
    pub(crate) fn start(setup: BackupsSetup) -> io::Result<BackupsThread> {
        let (inputs, queue) = mpsc::unbounded_channel();
        let (syncs, ended) = CopySyncs::start()?;
        let body = move || async move {
            let (connections, events) = Connections::new();
            let keeping = Keeping {
                backups: Backups::new(setup.incarnation, SYNC_EVERY_US),
                folders: CopyFolders::new(setup.path, syncs),
                parts: setup.parts,
                clock: setup.clock,
                connections,
            };
            keeping.run(queue, events, ended).await;
        };
        Running::start("log-backups", (inputs, BackupsInput::Stop), body).map(BackupsThread)
    }

    /// Where its input goes.
    pub(crate) fn inputs(&self) -> mpsc::UnboundedSender<BackupsInput> {
        self.0.inputs()
    }
}

struct Keeping {
    backups: Backups,
    folders: CopyFolders,
    parts: NodeParts,
    clock: Clock,
    connections: Connections,
}

impl Keeping {
    async fn run(
        mut self,
        mut inputs: mpsc::UnboundedReceiver<BackupsInput>,
        mut events: Events,
        mut syncs: Ended,
    ) {
        let mut looks = interval(LOOK_EVERY);
        looks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            let due = self.backups.poll_timeout().map(|at| self.clock.instant(at));
            tokio::select! {
                input = inputs.recv() => match input {
                    Some(BackupsInput::Opened(hello, lane)) => self.open(hello, *lane),
                    Some(BackupsInput::Fence(log, epoch, answer)) => {
                        // The node may end.
                        let _ = answer.send(self.fence(log, epoch));
                    }
                    Some(BackupsInput::Stop) | None => return,
                },
                Some((id, event)) = events.recv() => self.hear(id, event),
                _ = looks.tick() => self.look_after_files(),
                Some((opened, result)) = syncs.recv() => self.end_sync(opened, result),
                () = sleep_until(due.unwrap_or_else(Instant::now).into()), if due.is_some() => {
                    self.backups.pass_time(self.clock.mono());
                }
            }
            self.work();
        }
    }

    /// A copy whose files somebody has removed is none.
    fn look_after_files(&mut self) {
        for (log, error) in self.folders.misplaced() {
            self.fail(log, &error);
        }
    }

    fn open(&mut self, hello: CopyHello, lane: Lane) {
        let Ok(stream) = TcpStream::from_std(lane.stream) else { return };
        match hello.reads {
            true => {
                tracing::info!("node {} fetches the copy of log {} to take it over", hello.node, hello.log)
            }
            false => tracing::debug!("node {} keeps a copy of its log {} here", hello.node, hello.log),
        }
        self.backups.set_version(self.parts.published.table().map().version());
        let id = self.connections.adopt(stream, lane.place);
        self.backups.opened(self.clock.mono(), CopyLink(id), hello, lane.reader, &mut self.folders);
    }

    fn fence(&mut self, log: LogId, epoch: u64) -> Fenced {
        let now = self.clock.mono();
        let is_there = self.backups.fence(now, log, epoch, &mut self.folders);
        self.work();
        // A step that failed has dropped it.
        let Some(until) = self.backups.is_fenced(log, epoch).filter(|_| is_there) else {
            return Fenced::NoCopy;
        };
        match self.backups.has_its_end(log, &mut self.folders) {
            Ok(true) => Fenced::Done(Duration::from_micros(until.since(self.clock.mono()))),
            Ok(false) => Fenced::Damaged,
            Err(error) => {
                tracing::error!("the copy of log {log} cannot be read: {error}");
                Fenced::NoCopy
            }
        }
    }

    fn hear(&mut self, id: ConnectionId, event: Event) {
        match self.connections.take(id, event) {
            Some(Signal::Bytes(bytes)) => {
                self.backups.received(self.clock.mono(), CopyLink(id), &bytes, &mut self.folders);
            }
            Some(Signal::Ended(why)) => {
                tracing::debug!("a connection for a log's copy ended: {why}");
                self.backups.lost(CopyLink(id));
            }
            Some(Signal::Opened) | None => {}
        }
    }

    /// A sync beside the writes has ended.
    fn end_sync(&mut self, opened: Opened, result: io::Result<()>) {
        if !self.folders.is_current(opened) {
            return;
        }
        let (log, _) = opened;
        match result {
            Ok(()) => self.backups.sync_ended(self.clock.mono(), log, &mut self.folders),
            Err(error) => self.fail(log, &error),
        }
    }

    fn fail(&mut self, log: LogId, error: &io::Error) {
        tracing::error!("the copy of durable log {log} cannot be written: {error}");
        self.folders.forget(log);
        self.backups.failed(log);
    }

    /// Carries out all steps, and sends what follows.
    fn work(&mut self) {
        self.send();
        while let Some((log, step)) = self.backups.step() {
            match self.folders.carry_out(log, step) {
                Ok(()) => self.backups.done(self.clock.mono(), log, &mut self.folders),
                Err(error) => self.fail(log, &error),
            }
            self.send();
        }
    }

    fn send(&mut self) {
        while let Some((CopyLink(id), bytes)) = self.backups.poll_transmit() {
            self.connections.send(id, &bytes);
        }
        while let Some(CopyLink(id)) = self.backups.poll_close() {
            self.connections.close(id);
        }
    }
}
