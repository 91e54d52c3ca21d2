//! The model: two nodes, a coordinator and clients, whose threads take turns on processors and send over links.

use crate::agenda::Agenda;
use crate::client::{ClientThread, Feed, Load};
use crate::costs::Costs;
use crate::event::{Arrival, Event, Output, Turn};
use crate::links::Interfaces;
use crate::machines::Machines;
use crate::node::{Node, Threads, info, now, number_of};
use crate::processors::{GroupId, Pause, PoolId, Processors, ThreadId, Waker};
use crate::recorder::Gap;
use crate::stopwatch::Stopwatch;
use sidle_cluster::{
    ClusterId, Coordinator, CoordinatorInput, Founding, MemoryMetaStore, MigrationRecord, NodeName,
};
use sidle_node::{ControlEvent, ControlInput, ControlReply, ControlRequest};
use sidle_types::{MigrationPolicy, MonotonicUs, PositionRange};
use sidle_workload::{OperationStream, Random};
use std::rc::Rc;

/// What a message of a control thread or the coordinator takes to be handled: they have a thread of their own, which is never busy.
const CONTROL_NS: u64 = 20_000;
/// The clients' machine; the nodes are 0 and 1.
const CLIENTS: usize = 2;
/// The stream of a seed's draws that quotas' phases come from; clients' are numbered from 0.
const PHASES: u64 = u64::MAX;
/// The prober's priority, where the system allows that: nice -15, which is so many times a usual thread's weight.
const PROBER_WEIGHT: u64 = 28;
/// How often the course of the load goes on.
pub(crate) const TICK_NS: u64 = 5_000_000;

/// What a thread is.
#[derive(Clone, Copy, Debug)]
enum Role {
    Worker(usize, usize),
    Mover(usize, usize),
    Client(usize),
}

/// What the clients do.
pub(crate) struct Clients {
    pub(crate) load: Rc<Load>,
    pub(crate) outstanding: u32,
    pub(crate) tracking: bool,
    pub(crate) streams: Vec<OperationStream>,
    /// The records that the prober goes round.
    pub(crate) probed: Vec<u64>,
}

/// The model.
pub(crate) struct Model {
    agenda: Agenda<Event>,
    processors: Processors,
    interfaces: Interfaces,
    costs: Costs,
    pub(crate) watch: Stopwatch,
    pub(crate) nodes: Vec<Node>,
    pub(crate) clients: Vec<ClientThread>,
    client_group: GroupId,
    coordinator: Coordinator<MemoryMetaStore>,
    coordinator_due: Option<MonotonicUs>,
    roles: Vec<Role>,
    /// The present turn of each thread.
    turns: Vec<Turn>,
    /// What each thread used for waking others since its turn began.
    waking_ns: Vec<u64>,
    /// When a group goes on that stands still, by cores.
    releases: Vec<Option<u64>>,
    /// The earliest time that each thread wants to be woken at.
    alarms: Vec<Option<u64>>,
    pub(crate) replies: Vec<ControlReply>,
}

impl Model {
    /// A model in which nothing has happened; node 0 owns everything.
    pub(crate) fn new(
        machines: &Machines,
        costs: Costs,
        watch: Stopwatch,
        memory_bytes: u64,
        weight: f64,
        seed: u64,
    ) -> Model {
        let mut processors = Processors::new(costs.core_latency_ns);
        let shared = machines.shared_cores.map(|cores| processors.add_pool(cores as usize));
        let mut phases = Random::new(seed, PHASES);
        let [source, target, clients] =
            [&machines.source, &machines.target, &machines.clients].map(|machine| {
                let pool = shared.unwrap_or_else(|| processors.add_pool(machine.cores as usize));
                Threads::new(machine, pool, phases.unit(), &mut processors)
            });
        let founding = Founding { cluster: ClusterId::from_bits(1), first: info(0) };
        let coordinator =
            Coordinator::open(MonotonicUs(0), MemoryMetaStore::new(), founding, sidle_node::read_protocol)
                .expect("an empty store in memory opens");
        let mut roles = Vec::new();
        for (node, threads) in [&source, &target].into_iter().enumerate() {
            roles.extend((0..threads.workers.len()).map(|index| Role::Worker(node, index)));
            roles.extend((0..threads.movers.len()).map(|index| Role::Mover(node, index)));
        }
        roles.extend((0..clients.workers.len()).map(Role::Client));
        let node = |number, threads| Node::new(number, threads, memory_bytes, weight, seed);
        let releases = vec![None; processors.pools()];
        let mut model = Model {
            agenda: Agenda::default(),
            nodes: vec![node(0, [&source, &target]), node(1, [&target, &source])],
            processors,
            interfaces: Interfaces::new(machines.link, 3),
            costs,
            watch,
            clients: Vec::new(),
            client_group: clients.group,
            coordinator,
            coordinator_due: None,
            alarms: vec![None; roles.len()],
            turns: roles.iter().map(|_| Turn::default()).collect(),
            waking_ns: vec![0; roles.len()],
            releases,
            roles,
            replies: Vec::new(),
        };
        for number in 0..model.nodes.len() {
            model.control(number, ControlInput::Connected);
        }
        model
    }

    /// The time, in nanoseconds.
    pub(crate) fn now_ns(&self) -> u64 {
        self.agenda.now_ns()
    }

    /// Processor time that source, target and clients have used, in seconds.
    pub(crate) fn cpu_seconds(&self) -> [f64; 3] {
        [self.nodes[0].group, self.nodes[1].group, self.client_group]
            .map(|group| self.processors.used_by_group_ns(group) as f64 / 1e9)
    }

    /// Processor time that the movers of the source and of the target have used, in seconds.
    pub(crate) fn mover_seconds(&self) -> [f64; 2] {
        [0, 1].map(|node| {
            let movers = self.nodes[node].movers.iter();
            movers.map(|mover| self.processors.used_ns(mover.id)).sum::<u64>() as f64 / 1e9
        })
    }

    /// How often those have taken bulk work up again.
    pub(crate) fn resumptions(&self) -> u64 {
        self.nodes[..2].iter().flat_map(|node| &node.movers).map(|mover| mover.resumptions).sum()
    }

    /// The load threads, without the prober.
    pub(crate) fn load_threads(&self) -> usize {
        self.clients.len() - 1
    }

    /// Gaps in reads and in writes that the prober sees.
    pub(crate) fn gaps(&mut self) -> Option<&mut [Gap; 2]> {
        self.clients.last_mut()?.gaps()
    }

    /// How many slices of moved records those have given back.
    pub(crate) fn releases(&self) -> u64 {
        self.nodes[..2].iter().flat_map(|node| &node.movers).map(|mover| mover.releases).sum()
    }

    /// The record of the one migration, if it was asked for.
    pub(crate) fn migration(&self) -> Option<&MigrationRecord> {
        self.coordinator.data().all_migrations().next()
    }

    /// Whether both nodes serve.
    pub(crate) fn is_ready(&self) -> bool {
        self.coordinator.map().nodes().len() == self.nodes.len()
            && self.nodes.iter().all(|node| {
                node.workers.iter().all(|worker| {
                    let ranges = worker.worker.ranges();
                    ranges.is_joined() && ranges.map().epoch() == self.coordinator.map().epoch()
                })
            })
    }

    /// The clients begin.
    pub(crate) fn start_clients(&mut self, clients: Clients) {
        let is_client = |role: &Role| matches!(role, Role::Client(_));
        let first = self.roles.iter().position(is_client).expect("machines were checked");
        for (index, stream) in clients.streams.into_iter().enumerate() {
            let id = first + index;
            let load = Rc::clone(&clients.load);
            let feed = Feed::Workload(stream);
            self.clients.push(ClientThread::new(id, load, clients.outstanding, clients.tracking, feed));
            self.wake(id, None);
        }
        let id = self.processors.add_thread(self.client_group, PROBER_WEIGHT);
        self.roles.push(Role::Client(self.clients.len()));
        self.turns.push(Turn::default());
        self.alarms.push(None);
        self.waking_ns.push(0);
        let feed = Feed::probe(clients.probed, self.now_ns());
        self.clients.push(ClientThread::new(id, clients.load, 1, clients.tracking, feed));
        self.wake(id, None);
        self.agenda.at(self.now_ns() + TICK_NS, Event::Tick);
    }

    /// Asks the source to move a range to the target.
    pub(crate) fn start_migration(&mut self, range: PositionRange, protocol: &str, policy: MigrationPolicy) {
        let request = ControlRequest::StartMigration {
            range,
            target: NodeName::Id(info(1).id),
            protocol: protocol.to_owned(),
            policy,
        };
        self.control(0, ControlInput::Request { tag: 1, request });
    }

    /// Lets things happen until the course is to go on; `false` when nothing ever happens again.
    pub(crate) fn run_to_tick(&mut self) -> bool {
        while let Some(event) = self.agenda.next() {
            if matches!(event, Event::Tick) {
                self.agenda.at(self.now_ns() + TICK_NS, Event::Tick);
                return true;
            }
            self.happen(event);
        }
        false
    }

    /// Lets things happen until something holds, or for so long at most.
    pub(crate) fn run_until(&mut self, limit_ns: u64, holds: impl Fn(&Model) -> bool) -> bool {
        let limit_ns = self.now_ns() + limit_ns;
        while !holds(self) {
            match self.agenda.next() {
                Some(Event::Tick) => self.agenda.at(self.now_ns() + TICK_NS, Event::Tick),
                Some(event) if self.now_ns() <= limit_ns => self.happen(event),
                _ => return false,
            }
        }
        true
    }

    fn mono(&self) -> MonotonicUs {
        MonotonicUs(self.now_ns() / 1000)
    }

    fn happen(&mut self, event: Event) {
        match event {
            Event::Done(thread) => self.done(thread),
            Event::Release(pool) => self.schedule(pool),
            Event::Wake(thread) => {
                if self.alarms[thread].is_some_and(|at_ns| at_ns <= self.now_ns()) {
                    self.alarms[thread] = None;
                    self.wake(thread, None);
                }
            }
            Event::Arrival { to, from, arrival } => self.arrive(to, from, arrival),
            Event::ToNode(node, message) => self.control(node, ControlInput::Message(message)),
            Event::ToCoordinator(message) => {
                self.coordinator.handle(self.mono(), CoordinatorInput::Message(message));
                self.coordinate();
            }
            Event::Control(node) => {
                if self.nodes[node].control_due.is_some_and(|due| due <= self.mono()) {
                    self.nodes[node].control_due = None;
                    self.control(node, ControlInput::Timer);
                }
            }
            Event::Coordinator => {
                if self.coordinator_due.is_some_and(|due| due <= self.mono()) {
                    self.coordinator_due = None;
                    self.coordinator.handle(self.mono(), CoordinatorInput::Timer);
                    self.coordinate();
                }
            }
            Event::Tick => unreachable!("whoever runs the model takes ticks"),
        }
    }

    /// Something came for a thread. `by`: from another, whose next turn is the longer for it.
    fn wake(&mut self, thread: ThreadId, by: Option<Waker>) {
        let woken = self.processors.wake(thread, by, self.agenda.now_ns());
        if let Some(by) = by {
            self.waking_ns[by.thread] += self.costs.of_waking(woken);
        }
        self.schedule(self.processors.pool_of(thread));
    }

    /// Gives idle cores to threads that wait for them.
    fn schedule(&mut self, pool: PoolId) {
        while let Some((thread, pause)) = self.processors.take(pool, self.now_ns()) {
            let mut turn = self.turn(thread, pause);
            turn.cost_ns += std::mem::take(&mut self.waking_ns[thread]);
            self.processors.charge(thread, turn.cost_ns);
            self.agenda.at(self.now_ns() + turn.cost_ns, Event::Done(thread));
            self.turns[thread] = turn;
        }
        let release = self.processors.next_change(pool);
        if release != self.releases[pool] {
            self.releases[pool] = release;
            if let Some(at_ns) = release {
                self.agenda.at(at_ns, Event::Release(pool));
            }
        }
    }

    fn turn(&mut self, thread: ThreadId, pause: Pause) -> Turn {
        let (now_ns, costs) = (self.now_ns(), self.costs);
        let Model { nodes, clients, processors, watch, roles, .. } = self;
        match roles[thread] {
            Role::Worker(node, index) => {
                let mut turn = Turn::default();
                nodes[node].workers[index].turn(now(now_ns), &costs, pause, watch, &mut turn);
                turn
            }
            Role::Mover(node, index) => {
                nodes[node].mover_turn(index, now(now_ns).mono, processors, &costs, pause, watch)
            }
            Role::Client(index) => {
                let mut connect = |node: usize| {
                    let worker = nodes[node].next_worker();
                    nodes[node].workers[worker].id
                };
                clients[index].turn(now_ns, &costs, pause, &mut connect, watch)
            }
        }
    }

    fn done(&mut self, thread: ThreadId) {
        let Turn { outputs, has_more, .. } = std::mem::take(&mut self.turns[thread]);
        if matches!(self.roles[thread], Role::Mover(..)) {
            // It bounds its share of the node by the processor time that both have used.
            self.processors.look(thread, self.agenda.now_ns());
        }
        self.processors.done(thread, self.agenda.now_ns(), has_more);
        for output in outputs {
            self.output(thread, output);
        }
        self.schedule(self.processors.pool_of(thread));
    }

    /// The machine of a thread: a node's number, or the clients'.
    fn machine(&self, thread: ThreadId) -> usize {
        match self.roles[thread] {
            Role::Worker(node, _) | Role::Mover(node, _) => node,
            Role::Client(_) => CLIENTS,
        }
    }

    fn output(&mut self, from: ThreadId, output: Output) {
        let (now_ns, machine) = (self.now_ns(), self.machine(from));
        match output {
            Output::Send { to, arrival, class, bytes } => {
                let at_ns = self.interfaces.send(now_ns, machine, class, bytes);
                self.agenda.at(at_ns, Event::Arrival { to, from, arrival });
            }
            Output::Wake(thread) => {
                if let Role::Worker(node, index) = self.roles[thread] {
                    self.nodes[node].workers[index].notify();
                }
                self.wake(thread, Some(Waker { thread: from, is_sync: false }));
            }
            Output::WakeAt(thread, at_ns) => {
                if self.alarms[thread].is_none_or(|planned_ns| at_ns < planned_ns) {
                    self.alarms[thread] = Some(at_ns);
                    self.agenda.at(at_ns, Event::Wake(thread));
                }
            }
            Output::Report(migration, report) => {
                self.control(machine, ControlInput::Mover(migration, report));
            }
            Output::TableTaken => self.control(machine, ControlInput::Timer),
        }
    }

    fn arrive(&mut self, to: ThreadId, from: ThreadId, arrival: Arrival) {
        match (self.roles[to], arrival) {
            (Role::Worker(node, index), Arrival::Client { client, connection }) => {
                let number = self.nodes[node].accept(index, now(self.agenda.now_ns()), client, connection);
                let arrival = Arrival::Connected { connection, worker: to, number };
                let at_ns = self.interfaces.send(self.now_ns(), node, crate::links::Class::Small, 0);
                self.agenda.at(at_ns, Event::Arrival { to: client, from: to, arrival });
            }
            (Role::Client(index), arrival) => {
                self.clients[index].receive(arrival);
                self.wake(to, Some(Waker { thread: from, is_sync: true }));
            }
            (Role::Worker(node, _) | Role::Mover(node, _), arrival) => {
                self.nodes[node].receive(to, from, arrival);
                self.wake(to, Some(Waker { thread: from, is_sync: true }));
            }
        }
    }

    /// Something happens to a node's control.
    fn control(&mut self, node: usize, input: ControlInput) {
        let now = self.mono();
        self.nodes[node].control.handle(now, input);
        self.carry_out(node);
    }

    /// Carries out everything that a node's control wants.
    fn carry_out(&mut self, node: usize) {
        let after_ns = self.now_ns() + CONTROL_NS;
        while let Some(message) = self.nodes[node].control.poll_transmit() {
            let at_ns = self.interfaces.send(after_ns, node, crate::links::Class::Small, 0);
            self.agenda.at(at_ns, Event::ToCoordinator(message));
        }
        while let Some(event) = self.nodes[node].control.poll_event() {
            match event {
                ControlEvent::NotifyWorkers => {
                    for index in 0..self.nodes[node].workers.len() {
                        self.nodes[node].workers[index].notify();
                        self.wake(self.nodes[node].workers[index].id, None);
                    }
                }
                ControlEvent::Mover(mover, command) => {
                    let mover = &mut self.nodes[node].movers[usize::from(mover.0)];
                    mover.commands.push_back(command);
                    let id = mover.id;
                    self.wake(id, None);
                }
                ControlEvent::Reply { reply, .. } => self.replies.push(reply),
                ControlEvent::Joined(_) | ControlEvent::Note(_) => {}
                ControlEvent::JoinRefused(why) => unreachable!("a founding member was refused: {why}"),
                ControlEvent::Superseded => unreachable!("each node has one life"),
            }
        }
        if let Some(due) = self.nodes[node].control.poll_timeout(self.mono()) {
            let due = due.max(MonotonicUs(self.mono().0 + 1));
            let planned = &mut self.nodes[node].control_due;
            if planned.is_none_or(|planned| due < planned) {
                *planned = Some(due);
                self.agenda.at(due.0 * 1000, Event::Control(node));
            }
        }
    }

    fn coordinate(&mut self) {
        while self.coordinator.poll_event().is_some() {}
        let after_ns = self.now_ns() + CONTROL_NS;
        while let Some(message) = self.coordinator.poll_transmit() {
            let at_ns = self.interfaces.send(after_ns, 0, crate::links::Class::Small, 0);
            self.agenda.at(at_ns, Event::ToNode(number_of(message.to), message));
        }
        if let Some(due) = self.coordinator.poll_timeout() {
            let due = due.max(MonotonicUs(self.mono().0 + 1));
            if self.coordinator_due.is_none_or(|planned| due < planned) {
                self.coordinator_due = Some(due);
                self.agenda.at(due.0 * 1000, Event::Coordinator);
            }
        }
    }
}
