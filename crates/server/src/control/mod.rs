//! The control thread: the node's control, the conversation with the coordinator, signals, timers.
//!
//! It waits for no disk: the coordinator and the keeper of the last tablet map each have a thread
//! of their own ([`coordinator_thread`]). Only this node's identity for later starts is written
//! here, at the first join and when members come or go.
//!
//! Everything that happens comes in through one loop. After each input the machines' output is
//! carried out before the next is taken.
//!
//! Ownership: the thread that called [`run`](crate::run).

pub(crate) mod calls;
mod candidate;
pub(crate) mod coordinator;
mod coordinator_thread;
pub(crate) mod forwarding;
mod heard;
pub(crate) mod links;
mod log_fate;
mod office;
pub(crate) mod outbox;
mod search;
mod signals;

use crate::clock::Clock;
use crate::cluster_secret;
use crate::data_dir::{DataDir, Identity, Kept, random_bytes};
use crate::door::Door;
use crate::durable_log::{BackupsInput, CopiesInput, CopiesReport};
use crate::join;
use crate::last_map::{LastMap, MapKeeper};
use crate::mover::{MoverInbox, MoverInput, MoverLink};
use crate::process::Sampler;
use crate::repeated::Repeated;
use crate::start::StartError;
use crate::thread::start_task;
use crate::users_file;
use crate::worker::{WorkerInput, WorkerLink};
use candidate::{Announced, Candidate, CandidateThread, ElectionNews};
use coordinator::CoordinatorSeat;
use coordinator_thread::CoordinatorThread;
use forwarding::WantedLink;
use links::{BusEvent, Events, Lane, Reception, Room};
use log_fate::LogFate;
use office::Office;
use outbox::{Outbox, Outboxes};
use search::Signs;
use sidle_cluster::{
    ClusterId, ControlMessage, Election, HostPort, LogCopies, NodeInfo, StartNumber, ToNode,
};
use sidle_migration::Tuning;
use sidle_node::{
    ControlEvent, ControlInput, ControlReply, ControlRequest, MoverIndex, MoverReport, NodeControl, NodeParts,
};
use sidle_types::{LogId, MapEpoch, MigrationId, NodeId, PositionRange, TabletEpoch};
use std::collections::BTreeMap;
use std::net::TcpListener;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;
use tokio::runtime::{Builder, LocalOptions};
use tokio::sync::{Notify, mpsc, oneshot, watch};
use tokio::time::{Instant, MissedTickBehavior, interval, sleep_until};

/// How often workers are ticked and gauges are refreshed; Redis's `hz 10`.
const TICK: Duration = Duration::from_millis(100);

/// The data directory is checked every so many ticks.
const TICKS_PER_LOOK: u32 = 30;

/// A worker's request to the control thread.
#[derive(Debug)]
pub(crate) enum ControlCall {
    /// A client's request, to be answered.
    Request(ControlRequest, oneshot::Sender<ControlReply>),
    /// A connection to another node, to forward requests over.
    Link(WantedLink),
    /// SHUTDOWN.
    Shutdown,
    /// Everything of a range that this node takes over from a dead one is here.
    TookOver(PositionRange, TabletEpoch),
    /// It cannot be read for now.
    TakeoverFails(PositionRange, TabletEpoch, String),
    /// What the durable log's copies come to.
    Copies(CopiesReport),
    /// The durable log is read, or cannot be.
    Loaded(Result<LoadedLog, StartError>),
}

impl ControlCall {
    /// A request, and where its answer arrives.
    pub(crate) fn new(request: ControlRequest) -> (ControlCall, oneshot::Receiver<ControlReply>) {
        let (sender, receiver) = oneshot::channel();
        (ControlCall::Request(request, sender), receiver)
    }
}

/// A durable log that was read.
#[derive(Debug)]
pub(crate) struct LoadedLog {
    /// Its name.
    pub(crate) log: LogId,
    /// Whether it was salvaged, and may lack some of what it had.
    pub(crate) may_lack: bool,
}

/// The parts of the control thread.
pub(crate) struct ControlSetup {
    /// What is announced of this node.
    pub(crate) info: NodeInfo,
    /// The part of it that is kept.
    pub(crate) identity: Identity,
    /// The data directory.
    pub(crate) data_dir: Arc<DataDir>,
    /// Whether the coordinator is on this node, always.
    pub(crate) founds: bool,
    /// Where nodes campaign to coordinate, if they do.
    pub(crate) election: Option<Box<dyn Election + Send>>,
    /// The node that ran the coordinator in an earlier incarnation of this one, if known.
    pub(crate) last_coordinator: Option<NodeId>,
    /// The client address of a node of the cluster to join; empty: none.
    pub(crate) join: String,
    /// The cluster's password; empty: none.
    pub(crate) password: String,
    /// What the node's threads share.
    pub(crate) parts: NodeParts,
    /// Where other nodes connect.
    pub(crate) bus: TcpListener,
    /// Where both ends prove that they belong to the cluster.
    pub(crate) door: Door,
    /// The workers.
    pub(crate) workers: Vec<Arc<WorkerLink>>,
    /// Notified by workers that have taken a new range table.
    pub(crate) table_taken: Arc<Notify>,
    /// The movers, each with the inbox for what is handed to it.
    pub(crate) movers: Vec<(Arc<MoverLink>, MoverInbox)>,
    /// The thread that has the durable log's copies follow it, if there is one.
    pub(crate) copies: mpsc::UnboundedSender<CopiesInput>,
    /// The thread that keeps copies of other nodes' logs.
    pub(crate) backups: mpsc::UnboundedSender<BackupsInput>,
    /// The thread that reads what this node takes over.
    pub(crate) takeovers: std::sync::mpsc::Sender<sidle_node::CopyToRead>,
    /// The workers' requests.
    pub(crate) calls: mpsc::UnboundedReceiver<ControlCall>,
    /// The movers' reports.
    pub(crate) reports: mpsc::UnboundedReceiver<(MigrationId, MoverReport)>,
    /// The process's clock.
    pub(crate) clock: Clock,
}

/// The control thread's state.
pub(crate) struct ControlThread {
    setup: ControlSetup,
    control: NodeControl,
    /// The coordinator, if it is on this node.
    seat: Option<CoordinatorThread>,
    /// Its messages to this node.
    from_seat: mpsc::UnboundedReceiver<ToNode>,
    /// Whether it is.
    leads: watch::Sender<bool>,
    /// Campaigns to have it here, if nodes do; ends after it.
    candidate: Option<CandidateThread>,
    news: (mpsc::UnboundedSender<ElectionNews>, mpsc::UnboundedReceiver<ElectionNews>),
    /// The leader, as the candidate saw it last.
    leader: watch::Sender<Option<Announced>>,
    /// The node's cluster, for the candidate.
    cluster: watch::Sender<Option<ClusterId>>,
    /// The number that this process drew.
    start: StartNumber,
    /// The conversation with the coordinator, if that is on another node.
    coordinator: Option<Outbox>,
    /// The coordinator's last known address; sent to nodes that ask here.
    coordinator_at: watch::Sender<Option<HostPort>>,
    /// Possible addresses of the coordinator; kept with the identity, the best first.
    found_at: watch::Sender<Vec<String>>,
    /// Notified when the node may look for the coordinator.
    takes_part: Arc<Notify>,
    keeper: MapKeeper,
    /// The map last given to the keeper, and the coordinator's node.
    kept: (MapEpoch, Option<NodeId>),
    replies: BTreeMap<u64, oneshot::Sender<ControlReply>>,
    last_tag: u64,
    /// The worker that got the last connection over which another node forwards.
    last_forwarded_to: usize,
    sampler: Sampler,
    /// The address announced by a coordinator that had received nothing from this node.
    called_from: watch::Sender<Option<HostPort>>,
    /// Whether this process has been a member.
    has_joined: bool,
    /// Whether it has been logged that the node is ready.
    is_ready: bool,
    /// Why the cluster did not let this node in, as last logged.
    refused: Option<String>,
    ticks: u32,
    /// What is wrong with the data directory, as last logged.
    trouble: Option<String>,
    /// Whether the cluster's secret is in the data directory.
    is_secret_kept: bool,
    stop: Option<String>,
    /// Whether it stops because it is no member any more.
    is_superseded: bool,
    /// What is asked of the node's log before it joins.
    log_fate: Option<LogFate>,
    /// Why it ends.
    ended: Option<StartError>,
}

impl ControlThread {
    /// Opens the coordinator if it belongs to this node, and gets everything ready to run.
    pub(crate) fn open(setup: ControlSetup) -> Result<ControlThread, StartError> {
        let now = setup.clock.mono();
        let start = StartNumber::from_bits(u64::from_ne_bytes(random_bytes()?));
        let (seat, from_seat) = match setup.founds {
            true => {
                let (info, door) = (&setup.info, setup.door.clone());
                let seat = CoordinatorSeat::in_data_dir(now, &setup.data_dir, info, start, door)?;
                let office = Arc::new(Office::for_ever());
                let (seat, from_seat) = CoordinatorThread::start(seat, setup.clock, office)?;
                (Some(seat), from_seat)
            }
            false => (None, mpsc::unbounded_channel().1),
        };
        let mut control = NodeControl::new(
            now,
            setup.info.clone(),
            start,
            setup.identity.cluster,
            setup.parts.clone(),
            setup.movers.len() as u16,
            Tuning::default(),
        );
        if let Some(coordinator) = setup.last_coordinator {
            control.remember_coordinator(coordinator);
        }
        if setup.election.is_some() {
            setup.parts.shared.unreachable.set_others_may_coordinate();
        }
        Ok(ControlThread {
            control,
            leads: watch::Sender::new(seat.is_some()),
            seat,
            from_seat,
            candidate: None,
            news: mpsc::unbounded_channel(),
            leader: watch::Sender::new(None),
            cluster: watch::Sender::new(setup.identity.cluster),
            start,
            coordinator: None,
            coordinator_at: watch::Sender::new(None),
            found_at: watch::Sender::new(setup.identity.found_at.clone()),
            takes_part: Arc::default(),
            keeper: MapKeeper::start(Arc::clone(&setup.data_dir))?,
            kept: (MapEpoch::default(), None),
            replies: BTreeMap::new(),
            last_tag: 0,
            last_forwarded_to: 0,
            sampler: Sampler::default(),
            called_from: watch::Sender::new(None),
            has_joined: false,
            is_ready: false,
            refused: None,
            ticks: 0,
            trouble: None,
            is_secret_kept: matches!(cluster_secret::kept(&setup.data_dir), Ok(Some(_))),
            stop: None,
            is_superseded: false,
            log_fate: None,
            ended: None,
            setup,
        })
    }

    /// Runs until the node is asked to stop.
    pub(crate) fn run(self) -> Result<(), StartError> {
        let runtime = Builder::new_current_thread().enable_all().build_local(LocalOptions::default())?;
        runtime.block_on(self.serve())
    }

    async fn serve(mut self) -> Result<(), StartError> {
        let mut stop = signals::Stop::listen()?;
        let mut ticks = interval(TICK);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut bus = self.start_conversations()?;
        let table_taken = Arc::clone(&self.setup.table_taken);
        // With a durable log `Loaded` comes, also if it is read by now: the node joins as one that has it.
        if !self.setup.parts.shared.durability.is_on.load(Ordering::Relaxed) {
            self.take_part()?;
        }
        if self.seat.is_none() {
            tracing::info!("clients can connect, and are served once this node is a member of its cluster");
        }
        while self.stop.is_none() && !self.is_superseded && self.ended.is_none() {
            let due = self.timeout();
            tokio::select! {
                signal = stop.requested() => self.stop = Some(signal.to_owned()),
                Some((event, room)) = bus.recv() => self.bus_event(event, room),
                message = self.from_seat.recv(), if self.seat.is_some() => match message {
                    Some(message) => self.input(ControlInput::Message(message)),
                    None => self.stand_down(),
                },
                Some(news) = self.news.1.recv() => self.election_news(news)?,
                call = self.setup.calls.recv() => self.call(call)?,
                Some((migration, report)) = self.setup.reports.recv() => {
                    self.input(ControlInput::Mover(migration, report));
                }
                () = table_taken.notified() => self.input(ControlInput::Timer),
                () = sleep_until(due.unwrap_or_else(Instant::now)), if due.is_some() => {
                    self.input(ControlInput::Timer);
                }
                _ = ticks.tick() => self.tick(),
            }
        }
        if let Some(error) = self.ended {
            return Err(error);
        }
        if self.is_superseded {
            tracing::error!(
                "stopping: other nodes have taken over what this node had, or another process runs with its identity"
            );
            return Err(StartError::Superseded);
        }
        let why = self.stop.unwrap_or_default();
        tracing::info!("stopping: {why}");
        Ok(())
    }

    /// Carries out a worker's request. Without workers the node ends.
    fn call(&mut self, call: Option<ControlCall>) -> Result<(), StartError> {
        match call {
            Some(ControlCall::Request(request, answer)) => self.request(request, answer),
            Some(ControlCall::Link(wanted)) => self.open_link(wanted),
            Some(ControlCall::Loaded(Ok(loaded))) => {
                self.resume_log(&loaded)?;
                self.ask_before_it_joins(loaded.log)?;
                self.take_part()?;
                self.note_ready();
            }
            Some(ControlCall::Loaded(Err(error))) => self.log_is_deposed(error)?,
            Some(ControlCall::Copies(CopiesReport::Proposed(copies))) => self.propose(copies),
            Some(ControlCall::Copies(CopiesReport::Deposed)) => self.copies_are_deposed()?,
            Some(ControlCall::TookOver(range, epoch)) => {
                self.input(ControlInput::TookOver(range, epoch));
            }
            Some(ControlCall::TakeoverFails(range, epoch, why)) => {
                self.input(ControlInput::TakeoverFails(range, epoch, why));
            }
            Some(ControlCall::Shutdown) | None => self.stop = Some("a client asked for it".to_owned()),
        }
        Ok(())
    }

    /// Takes in who coordinates.
    fn election_news(&mut self, news: ElectionNews) -> Result<(), StartError> {
        match news {
            ElectionNews::Elected(seat, from_seat) => {
                (self.seat, self.from_seat, self.coordinator) = (Some(seat), from_seat, None);
                self.leads.send_replace(true);
                self.input(ControlInput::Connected);
            }
            ElectionNews::Leads(leader) => {
                tracing::info!("the node at {} coordinates the cluster", leader.client_addr);
                self.leader.send_replace(Some(leader));
            }
            ElectionNews::OtherCluster(cluster) => return Err(StartError::OtherCluster(cluster)),
        }
        Ok(())
    }

    /// The coordinator on this node has ended: another one takes over, or this one again in another term.
    fn stand_down(&mut self) {
        (self.seat, self.coordinator) = (None, None);
        self.coordinator_at.send_replace(None);
        self.leads.send_replace(false);
    }

    /// Starts to listen for other nodes, and to look for the coordinator if that is on another node.
    fn start_conversations(&mut self) -> Result<mpsc::Receiver<(BusEvent, Room)>, StartError> {
        let (events, queue) = Events::open(Arc::clone(&self.setup.parts.shared.peers), self.setup.clock);
        let outboxes = Outboxes::default();
        let reception = Reception {
            door: self.setup.door.clone(),
            events: events.clone(),
            outboxes: outboxes.clone(),
            coordinator_at: self.coordinator_at.subscribe(),
            leads: self.leads.subscribe(),
        };
        let listener = tokio::net::TcpListener::from_std(self.setup.bus.try_clone()?)?;
        start_task("the listener for nodes", reception.accept(listener));
        if self.seat.is_none() {
            let search = join::Search {
                join: self.setup.join.clone(),
                password: self.setup.password.clone(),
                found_at: self.found_at.subscribe(),
                found: false,
                door: self.setup.door.clone(),
                complaints: Repeated::default(),
            };
            let signs = Signs {
                called: self.called_from.subscribe(),
                leader: self.leader.subscribe(),
                leads: self.leads.subscribe(),
            };
            let following = search::follow_coordinator(search, signs, events, outboxes);
            let takes_part = Arc::clone(&self.takes_part);
            start_task("the search for the coordinator", async move {
                takes_part.notified().await;
                following.await;
            });
        }
        Ok(queue)
    }

    /// Keeps since when the log has everything: before the node joins.
    fn resume_log(&mut self, loaded: &LoadedLog) -> Result<(), StartError> {
        if self.setup.identity.resume_log(loaded.log, loaded.may_lack) {
            self.setup.data_dir.save(&self.setup.identity)?;
        }
        self.control.set_log_since(self.setup.identity.log_since());
        Ok(())
    }

    /// The node's data is there: it joins its cluster. Before, it would serve, and give away, what it has of
    /// it.
    fn take_part(&mut self) -> Result<(), StartError> {
        match self.seat {
            Some(_) => self.input(ControlInput::Connected),
            None => self.takes_part.notify_one(),
        }
        if let Some(election) = self.setup.election.take() {
            let candidate = Candidate {
                election,
                info: self.setup.info.clone(),
                start: self.start,
                cluster: self.cluster.subscribe(),
                data_dir: Arc::clone(&self.setup.data_dir),
                door: self.setup.door.clone(),
                clock: self.setup.clock,
                news: self.news.0.clone(),
            };
            self.candidate = Some(CandidateThread::start(candidate)?);
        }
        Ok(())
    }

    fn bus_event(&mut self, event: BusEvent, room: Room) {
        match event {
            BusEvent::FromNode(message, outbox) => {
                if let Some(seat) = &self.seat {
                    seat.pass_on(message, Some(outbox), Some(room));
                }
            }
            BusEvent::FromCoordinator(address, message) => {
                // Only now is it certain that that node runs it.
                let address = address.parse().ok();
                self.coordinator_at.send_if_modified(|known| {
                    let is_news = *known != address;
                    *known = address;
                    is_news
                });
                self.input(ControlInput::Message(message));
            }
            BusEvent::CoordinatorReached(outbox) => {
                self.coordinator = Some(outbox);
                self.input(ControlInput::Connected);
            }
            BusEvent::CoordinatorLost => self.coordinator = None,
            BusEvent::CoordinatorCalls(address) => {
                let before = self.called_from.send_replace(Some(address.clone()));
                if before.as_ref() != Some(&address) {
                    tracing::info!("the coordinator calls from {address}");
                }
            }
            BusEvent::Tried(bus_addr, is_reached) => {
                self.input(ControlInput::Tried { bus_addr, is_reached });
            }
            BusEvent::Lane(hello, lane) => self.hand_over(hello, lane),
            BusEvent::Forward(forward, lane) => {
                tracing::debug!("node {} forwards requests to this one", forward.node);
                // Each worker gets equally many.
                self.last_forwarded_to = (self.last_forwarded_to + 1) % self.setup.workers.len();
                let worker = &self.setup.workers[self.last_forwarded_to];
                worker.hand(WorkerInput::Forwarded(forward, lane));
            }
            // The thread ends after this one.
            BusEvent::Copy(hello, lane) => drop(self.setup.backups.send(BackupsInput::Opened(hello, lane))),
        }
    }

    /// Hands a migration's connection to the mover that it belongs to.
    fn hand_over(&self, hello: sidle_wire::Hello, lane: Box<Lane>) {
        let mover = MoverIndex::of(hello.scope.migration, self.setup.movers.len());
        self.tell_mover(mover, MoverInput::Lane(hello, lane));
    }

    fn open_link(&self, wanted: WantedLink) {
        let worker = Arc::clone(&self.setup.workers[usize::from(wanted.worker.0)]);
        let version = self.control.version();
        forwarding::open(self.setup.info.id, version, self.setup.door.clone(), wanted, worker);
    }

    fn tell_mover(&self, mover: MoverIndex, input: MoverInput) {
        let (link, inbox) = &self.setup.movers[usize::from(mover.0)];
        // A mover ends only with the process.
        let _ = inbox.send(input);
        link.wake();
    }

    fn request(&mut self, request: ControlRequest, answer: oneshot::Sender<ControlReply>) {
        let shared = &self.setup.parts.shared;
        let Some((request, answer)) = users_file::answer(shared, request, answer) else { return };
        self.last_tag += 1;
        self.replies.insert(self.last_tag, answer);
        self.input(ControlInput::Request { tag: self.last_tag, request });
    }

    /// When to call the control again, if nothing happens before.
    fn timeout(&self) -> Option<Instant> {
        let due = self.control.poll_timeout(self.setup.clock.mono())?;
        Some(Instant::from_std(self.setup.clock.instant(due)))
    }

    fn tick(&mut self) {
        self.setup.clock.follow_wall_clock();
        let parts = &self.setup.parts;
        parts.shared.gauges.note_used(parts.store.used_bytes());
        self.sampler.sample(self.setup.clock.mono(), &self.setup.parts.shared);
        self.setup.workers.iter().for_each(|worker| worker.tick());
        self.remember_map();
        self.tick_log_fate();
        self.ticks = self.ticks.wrapping_add(1);
        if self.ticks.is_multiple_of(TICKS_PER_LOOK) {
            self.look_after_data_dir();
        }
    }

    /// Ensures that the next start finds what this one learnt.
    fn look_after_data_dir(&mut self) {
        let trouble = match self.setup.data_dir.keep(&self.setup.identity) {
            Ok(Kept::InPlace) => self.setup.data_dir.trouble(),
            Ok(Kept::WrittenAnew) => {
                tracing::warn!("the node's identity had gone from the data directory, and was written anew");
                self.setup.data_dir.trouble()
            }
            Err(error) => Some(error.to_string()),
        };
        if trouble.is_none() && self.is_secret_kept && !self.setup.data_dir.secret_path().exists() {
            tracing::warn!("the cluster's secret had gone from the data directory, and is written anew");
            self.is_secret_kept = false;
            self.keep_secret();
        }
        if trouble.is_none() && self.keeper.has_lost_it() {
            tracing::warn!("the last tablet map had gone from the data directory, and is written anew");
            self.kept = (MapEpoch::default(), None);
            self.remember_map();
        }
        let log = || self.setup.parts.shared.durability.failure();
        let trouble =
            trouble.or_else(|| log().map(|why| format!("the durable log cannot be written: {why}")));
        if trouble == self.trouble {
            return;
        }
        match &trouble {
            Some(trouble) => tracing::error!("{trouble}"),
            None => tracing::info!("the data directory is in order again"),
        }
        self.trouble.clone_from(&trouble);
        self.input(ControlInput::Trouble(trouble));
    }

    fn input(&mut self, input: ControlInput) {
        self.control.handle(self.setup.clock.mono(), input);
        self.carry_out();
    }

    /// Carries out the control's output.
    fn carry_out(&mut self) {
        loop {
            while let Some(event) = self.control.poll_event() {
                self.follow(event);
            }
            let Some(message) = self.control.poll_transmit() else { return };
            match (&self.seat, &self.coordinator) {
                (Some(seat), _) => seat.pass_on(message, None, None),
                (None, Some(outbox)) => outbox.send(&ControlMessage::from(message)),
                // M10: it is sent again once there is a conversation.
                (None, None) => {}
            }
        }
    }

    fn follow(&mut self, event: ControlEvent) {
        match event {
            ControlEvent::NotifyWorkers => {
                self.setup.workers.iter().for_each(|worker| worker.wake_for_table());
                self.tell_copies(CopiesInput::Map);
                self.remember_nodes();
                self.remember_map();
            }
            ControlEvent::Mover(mover, command) => self.tell_mover(mover, MoverInput::Command(command)),
            ControlEvent::Reply { tag, reply } => {
                if let Some(answer) = self.replies.remove(&tag) {
                    // The client may be gone.
                    let _ = answer.send(reply);
                }
            }
            ControlEvent::Joined(cluster) => self.joined(cluster),
            ControlEvent::JoinRefused(why) => {
                if self.refused.as_ref() != Some(&why) {
                    tracing::warn!("the cluster does not let this node in: {why}");
                    self.refused = Some(why);
                }
            }
            ControlEvent::Superseded => {
                self.is_superseded = true;
            }
            ControlEvent::Copies(copies) => self.tell_copies(CopiesInput::Decided(copies)),
            ControlEvent::LogFate(log, is_over) => self.note_log_fate(log, is_over),
            ControlEvent::TakeOver(takeover) => {
                // The thread ends after this one.
                let _ = self.setup.takeovers.send(takeover);
            }
            ControlEvent::Note(text) => tracing::info!("{text}"),
        }
    }

    /// Has the coordinator decide which copies count. A start knows that there may be some, before there are.
    fn propose(&mut self, copies: LogCopies) {
        if self.setup.identity.note_copies(!copies.backups.is_empty()) {
            self.save_identity();
        }
        self.input(ControlInput::Copies(copies));
    }

    fn tell_copies(&self, input: CopiesInput) {
        // Without copies there is nobody to be told.
        let _ = self.setup.copies.send(input);
    }

    fn joined(&mut self, cluster: ClusterId) {
        self.keep_secret();
        if self.setup.identity.cluster != Some(cluster) {
            tracing::info!("member of cluster {cluster}");
            self.setup.identity.cluster = Some(cluster);
            self.save_identity();
            self.cluster.send_replace(Some(cluster));
        }
        self.refused = None;
        self.has_joined = true;
        self.note_ready();
    }

    /// Logs once that the node serves clients: it has joined, and has its data.
    fn note_ready(&mut self) {
        let is_ready = self.has_joined && !self.setup.parts.shared.loading.is_on();
        if is_ready && !std::mem::replace(&mut self.is_ready, true) {
            tracing::info!("the node is ready");
        }
    }

    /// Keeps the cluster's addresses, on nodes that have to look for their coordinator.
    fn remember_nodes(&mut self) {
        let Some(map) = self.control.map().filter(|_| self.seat.is_none()) else { return };
        let coordinator = self.coordinator_at.borrow().as_ref().map(HostPort::to_string);
        let others = map.nodes().iter().filter(|node| node.id != self.setup.info.id);
        let mut found_at = Vec::from_iter(coordinator);
        found_at.extend(others.map(|node| node.bus_addr.to_string()));
        let mut seen = std::collections::BTreeSet::new();
        found_at.retain(|address| seen.insert(address.clone()));
        if found_at != self.setup.identity.found_at {
            self.setup.identity.found_at.clone_from(&found_at);
            self.found_at.send_replace(found_at);
            self.save_identity();
        }
    }

    /// Keeps the map for the node's next incarnation.
    fn remember_map(&mut self) {
        let Some(map) = self.control.map() else { return };
        let newest = (map.epoch(), self.control.agent().coordinator());
        if newest == self.kept {
            return;
        }
        if let Some(last) = LastMap::new(&self.setup.identity, newest.1, Arc::clone(map)) {
            self.kept = newest;
            self.keeper.keep(last);
        }
    }

    /// Keeps the secret that has turned out to be the cluster's, so that a restart needs no flag.
    fn keep_secret(&mut self) {
        if self.is_secret_kept {
            return;
        }
        let Some(secret) = self.setup.door.secret() else { return };
        match cluster_secret::keep(&self.setup.data_dir, &secret) {
            Ok(()) => {
                self.setup.door.accept_secret();
                self.is_secret_kept = true;
            }
            Err(error) => tracing::error!("{error}"),
        }
    }

    fn save_identity(&self) {
        if let Err(error) = self.setup.data_dir.save(&self.setup.identity) {
            tracing::error!("{error}");
        }
    }
}
