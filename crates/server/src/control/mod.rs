//! The control thread: the node's control, the coordinator's seat or the conversation with it, signals, timers.
//!
//! Everything that happens comes in through one loop; after each input whatever came out of the machines is carried
//! out before the next is taken.
//!
//! Ownership: the thread that called [`run`](crate::run).

mod coordinator;
pub(crate) mod forwarding;
pub(crate) mod links;
mod signals;

use crate::clock::Clock;
use crate::data_dir::{DataDir, Identity};
use crate::join;
use crate::mover::{MoverInbox, MoverInput, MoverLink};
use crate::process::Sampler;
use crate::start::StartError;
use crate::thread::start_task;
use crate::worker::{WorkerInput, WorkerLink};
use coordinator::CoordinatorSeat;
use forwarding::WantedLink;
use links::{BusEvent, Lane, Outbox};
use sidle_cluster::{ClusterId, ControlMessage, NodeInfo};
use sidle_migration::Tuning;
use sidle_node::{
    ControlEvent, ControlInput, ControlReply, ControlRequest, MoverIndex, MoverReport, NodeControl, NodeParts,
};
use sidle_types::MigrationId;
use std::collections::BTreeMap;
use std::net::TcpListener;
use std::sync::Arc;
use std::time::Duration;
use tokio::runtime::{Builder, LocalOptions};
use tokio::sync::{Notify, mpsc, oneshot, watch};
use tokio::time::{Instant, MissedTickBehavior, interval, sleep_until};

/// How often workers are ticked and gauges are refreshed; Redis's `hz 10`.
const TICK: Duration = Duration::from_millis(100);

/// What a worker asks of the control thread.
#[derive(Debug)]
pub(crate) enum ControlCall {
    /// A client's request, to be answered.
    Request(ControlRequest, oneshot::Sender<ControlReply>),
    /// A connection to another node, to forward requests over.
    Link(WantedLink),
    /// SHUTDOWN.
    Shutdown,
}

impl ControlCall {
    /// A request, and where its answer will come.
    pub(crate) fn new(request: ControlRequest) -> (ControlCall, oneshot::Receiver<ControlReply>) {
        let (sender, receiver) = oneshot::channel();
        (ControlCall::Request(request, sender), receiver)
    }
}

/// What the control thread is made from.
pub(crate) struct ControlSetup {
    /// What the cluster is told of this node.
    pub(crate) info: NodeInfo,
    /// What is kept of it.
    pub(crate) identity: Identity,
    /// Where.
    pub(crate) data_dir: DataDir,
    /// The client address of a node of the cluster to join; empty: none.
    pub(crate) join: String,
    /// The cluster's password; empty: none.
    pub(crate) password: String,
    /// What the node's threads share.
    pub(crate) parts: NodeParts,
    /// Where other nodes connect.
    pub(crate) bus: TcpListener,
    /// The workers.
    pub(crate) workers: Vec<Arc<WorkerLink>>,
    /// Notified by workers that have taken a new range table.
    pub(crate) table_taken: Arc<Notify>,
    /// The movers, each with where to put what is handed to it.
    pub(crate) movers: Vec<(Arc<MoverLink>, MoverInbox)>,
    /// What workers ask.
    pub(crate) calls: mpsc::UnboundedReceiver<ControlCall>,
    /// What movers tell.
    pub(crate) reports: mpsc::UnboundedReceiver<(MigrationId, MoverReport)>,
    /// The process's clock.
    pub(crate) clock: Clock,
}

/// The control thread's state.
pub(crate) struct ControlThread {
    setup: ControlSetup,
    control: NodeControl,
    seat: Option<CoordinatorSeat>,
    /// The conversation with the coordinator, where that is another node's.
    coordinator: Option<Outbox>,
    /// Where the coordinator was reached last; told to nodes that ask here.
    coordinator_at: watch::Sender<String>,
    /// Where the coordinator may be found; kept with the identity, the best first.
    found_at: watch::Sender<Vec<String>>,
    replies: BTreeMap<u64, oneshot::Sender<ControlReply>>,
    last_tag: u64,
    /// The worker that was given the last connection over which another node forwards.
    last_forwarded_to: usize,
    sampler: Sampler,
    stop: Option<String>,
}

impl ControlThread {
    /// Opens the coordinator where it belongs to this node, and makes everything ready to run.
    pub(crate) fn open(setup: ControlSetup) -> Result<ControlThread, StartError> {
        let now = setup.clock.mono();
        let is_seat = coordinator::belongs_here(&setup.identity, &setup.data_dir, &setup.join);
        let seat = match is_seat {
            true => Some(CoordinatorSeat::open(now, &setup.data_dir, &setup.info)?),
            false => None,
        };
        let control = NodeControl::new(
            now,
            setup.info.clone(),
            setup.identity.cluster,
            setup.parts.clone(),
            setup.movers.len() as u16,
            Tuning::default(),
        );
        Ok(ControlThread {
            control,
            seat,
            coordinator: None,
            coordinator_at: watch::Sender::new(String::new()),
            found_at: watch::Sender::new(setup.identity.found_at.clone()),
            replies: BTreeMap::new(),
            last_tag: 0,
            last_forwarded_to: 0,
            sampler: Sampler::default(),
            stop: None,
            setup,
        })
    }

    /// Runs until the node is told to stop.
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
        if self.seat.is_some() {
            self.input(ControlInput::Connected);
        }
        tracing::info!("the node is ready");
        while self.stop.is_none() {
            let due = self.timeout();
            tokio::select! {
                signal = stop.requested() => self.stop = Some(signal.to_owned()),
                Some(event) = bus.recv() => self.bus_event(event),
                call = self.setup.calls.recv() => match call {
                    Some(ControlCall::Request(request, answer)) => self.request(request, answer),
                    Some(ControlCall::Link(wanted)) => self.open_link(wanted),
                    Some(ControlCall::Shutdown) | None => self.stop = Some("a client asked for it".to_owned()),
                },
                Some((migration, report)) = self.setup.reports.recv() => {
                    self.input(ControlInput::Mover(migration, report));
                }
                () = table_taken.notified() => self.input(ControlInput::Timer),
                () = sleep_until(due.unwrap_or_else(Instant::now)), if due.is_some() => self.timer(),
                _ = ticks.tick() => self.tick(),
            }
        }
        let why = self.stop.unwrap_or_default();
        tracing::info!("stopping: {why}");
        Ok(())
    }

    /// Starts to listen for other nodes, and to look for the coordinator where that is another node's.
    fn start_conversations(&mut self) -> Result<mpsc::Receiver<BusEvent>, StartError> {
        let (events, queue) = mpsc::channel(links::EVENTS);
        let detour = self.seat.is_none().then(|| self.coordinator_at.subscribe());
        let listener = tokio::net::TcpListener::from_std(self.setup.bus.try_clone()?)?;
        start_task("the listener for nodes", links::accept(listener, events.clone(), detour));
        if self.seat.is_none() {
            let search = join::Search {
                join: self.setup.join.clone(),
                password: self.setup.password.clone(),
                found_at: self.found_at.subscribe(),
            };
            start_task("the search for the coordinator", links::follow_coordinator(search, events));
        }
        Ok(queue)
    }

    fn bus_event(&mut self, event: BusEvent) {
        match event {
            BusEvent::FromNode(message, outbox) => {
                let now = self.setup.clock.mono();
                if let Some(seat) = &mut self.seat {
                    seat.handle(now, message, Some(outbox));
                }
                self.carry_out();
            }
            BusEvent::FromCoordinator(address, message) => {
                // Only now is it certain that the node there runs it.
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
            BusEvent::Lane(hello, lane) => self.hand_over(hello, lane),
            BusEvent::Forward(forward, lane) => {
                tracing::debug!("node {} forwards requests to this one", forward.node);
                // Each worker gets as many.
                self.last_forwarded_to = (self.last_forwarded_to + 1) % self.setup.workers.len();
                let worker = &self.setup.workers[self.last_forwarded_to];
                worker.hand(WorkerInput::Forwarded(forward, lane));
            }
        }
    }

    /// Hands a migration's connection to the mover that it belongs to.
    fn hand_over(&self, hello: sidle_wire::Hello, lane: Box<Lane>) {
        let mover = MoverIndex::of(hello.scope.migration, self.setup.movers.len());
        self.tell_mover(mover, MoverInput::Lane(hello, lane));
    }

    fn open_link(&self, wanted: WantedLink) {
        let worker = Arc::clone(&self.setup.workers[usize::from(wanted.worker.0)]);
        forwarding::open(self.setup.info.id, wanted, worker);
    }

    fn tell_mover(&self, mover: MoverIndex, input: MoverInput) {
        let (link, inbox) = &self.setup.movers[usize::from(mover.0)];
        // A mover ends only with the process.
        let _ = inbox.send(input);
        link.wake();
    }

    fn request(&mut self, request: ControlRequest, answer: oneshot::Sender<ControlReply>) {
        self.last_tag += 1;
        self.replies.insert(self.last_tag, answer);
        self.input(ControlInput::Request { tag: self.last_tag, request });
    }

    /// When the machines want to be called again, if nothing happens before.
    fn timeout(&self) -> Option<Instant> {
        let control = self.control.poll_timeout(self.setup.clock.mono());
        let seat = self.seat.as_ref().and_then(CoordinatorSeat::timeout);
        let due = control.into_iter().chain(seat).min()?;
        Some(Instant::from_std(self.setup.clock.instant(due)))
    }

    fn timer(&mut self) {
        let now = self.setup.clock.mono();
        if let Some(seat) = &mut self.seat {
            seat.tick(now);
        }
        self.input(ControlInput::Timer);
    }

    fn tick(&mut self) {
        self.setup.clock.follow_wall_clock();
        self.sampler.sample(self.setup.clock.mono(), &self.setup.parts.shared);
        self.setup.workers.iter().for_each(|worker| worker.tick());
    }

    fn input(&mut self, input: ControlInput) {
        self.control.handle(self.setup.clock.mono(), input);
        self.carry_out();
    }

    /// Carries out everything that the machines want.
    fn carry_out(&mut self) {
        loop {
            while let Some(event) = self.control.poll_event() {
                self.follow(event);
            }
            let now = self.setup.clock.mono();
            if let Some(message) = self.control.poll_transmit() {
                match (&mut self.seat, &self.coordinator) {
                    (Some(seat), _) => seat.handle(now, message, None),
                    (None, Some(outbox)) => outbox.send(&ControlMessage::from(message)),
                    // M10: it is said again once there is a conversation.
                    (None, None) => {}
                }
            } else if let Some(message) = self.seat.as_mut().and_then(CoordinatorSeat::poll_local) {
                self.control.handle(now, ControlInput::Message(message));
            } else {
                return;
            }
        }
    }

    fn follow(&mut self, event: ControlEvent) {
        match event {
            ControlEvent::NotifyWorkers => {
                self.setup.workers.iter().for_each(|worker| worker.wake_for_table());
                self.remember_nodes();
            }
            ControlEvent::Mover(mover, command) => self.tell_mover(mover, MoverInput::Command(command)),
            ControlEvent::Reply { tag, reply } => {
                if let Some(answer) = self.replies.remove(&tag) {
                    // The client may be gone.
                    let _ = answer.send(reply);
                }
            }
            ControlEvent::Joined(cluster) => self.joined(cluster),
            ControlEvent::JoinRefused(why) => tracing::warn!("the cluster does not let this node in: {why}"),
            ControlEvent::Superseded => {
                self.stop = Some("another process runs with this node's identity".to_owned());
            }
            ControlEvent::Note(text) => tracing::info!("{text}"),
        }
    }

    fn joined(&mut self, cluster: ClusterId) {
        if self.setup.identity.cluster != Some(cluster) {
            tracing::info!("member of cluster {cluster}");
            self.setup.identity.cluster = Some(cluster);
            self.save_identity();
        }
    }

    /// Keeps where the cluster can be found again, on nodes that have to look for their coordinator.
    fn remember_nodes(&mut self) {
        let Some(map) = self.control.map().filter(|_| self.seat.is_none()) else { return };
        let coordinator = self.coordinator_at.borrow().clone();
        let others = map.nodes().iter().filter(|node| node.id != self.setup.info.id);
        let mut found_at = vec![coordinator];
        found_at.extend(others.map(|node| node.bus_addr.to_string()));
        found_at.retain(|address| !address.is_empty());
        let mut seen = std::collections::BTreeSet::new();
        found_at.retain(|address| seen.insert(address.clone()));
        if found_at != self.setup.identity.found_at {
            self.setup.identity.found_at.clone_from(&found_at);
            self.found_at.send_replace(found_at);
            self.save_identity();
        }
    }

    fn save_identity(&self) {
        if let Err(error) = self.setup.data_dir.save(&self.setup.identity) {
            tracing::error!("{error}");
        }
    }
}
