//! The model: two nodes, a coordinator and clients, whose threads share processors and send over links.

use crate::client::{ClientThread, Feed, Load, Schedule};
use crate::costs::Costs;
use crate::event::{Arrival, Event, Output, Turn};
use crate::links::Interfaces;
use crate::machines::Machines;
use crate::node::{Node, Threads, WorkerThread, address, now};
use crate::noise::Noise;
use crate::operator::Operator;
use crate::processors::{GroupId, Pause, PoolId, Processors, ThreadId, Waker};
use crate::recorder::Gap;
use crate::stopwatch::Stopwatch;
use sidle_cluster::MigrationRecord;
use sidle_testbed::TimeQueue;
use sidle_types::MigrationPolicy;
use sidle_workload::{OperationStream, Random};
use std::rc::Rc;

/// The clients' machine; the nodes are 0 and 1.
const CLIENTS: usize = 2;
/// The stream of a seed's draws for the phases of ticks and quotas; clients' streams are numbered from 0.
const PHASES: u64 = u64::MAX;
/// The stream for the machine's noise.
const NOISE: u64 = u64::MAX - 1;
/// The prober's priority, if the system allows it: nice -15, this many times a normal thread's weight.
const PROBER_WEIGHT: u64 = 28;
/// How often the course of the load continues.
pub(crate) const TICK_NS: u64 = 5_000_000;

/// A thread's role.
#[derive(Clone, Copy, Debug)]
enum Role {
    Worker(usize, usize),
    Mover(usize, usize),
    Control(usize),
    Client(usize),
    Operator,
}

/// What the clients do.
pub(crate) struct Clients {
    pub(crate) load: Rc<Load>,
    pub(crate) outstanding: u32,
    pub(crate) tracking: bool,
    pub(crate) streams: Vec<OperationStream>,
    /// Operations per second of all together, in an open loop.
    pub(crate) rate: Option<f64>,
    /// The records that the prober cycles through.
    pub(crate) probed: Vec<u64>,
}

/// The model.
pub(crate) struct Model {
    agenda: TimeQueue<Event>,
    processors: Processors,
    interfaces: Interfaces,
    costs: Costs,
    noise: Noise,
    pub(crate) watch: Stopwatch,
    pub(crate) nodes: Vec<Node>,
    pub(crate) clients: Vec<ClientThread>,
    client_group: GroupId,
    /// Requests the move; it starts with the clients.
    operator: Option<Operator>,
    operator_thread: ThreadId,
    roles: Vec<Role>,
    /// The current turn of each thread.
    turns: Vec<Turn>,
    /// What each thread spent on waking others since its turn began.
    waking_ns: Vec<u64>,
    /// When a throttled group resumes, by cores.
    releases: Vec<Option<u64>>,
    /// The earliest alarm of each thread.
    alarms: Vec<Option<u64>>,
}

impl Model {
    /// A model at time 0; node 0 owns everything.
    pub(crate) fn new(
        machines: &Machines,
        costs: Costs,
        watch: Stopwatch,
        memory_bytes: u64,
        weight: f64,
        seed: u64,
    ) -> Model {
        let mut phases = Random::new(seed, PHASES);
        let mut processors = Processors::new(costs.core_latency_ns, phases.unit());
        let shared = machines.shared_cores.map(|cores| processors.add_pool(cores as usize));
        let [source, target, clients] =
            [&machines.source, &machines.target, &machines.clients].map(|machine| {
                let pool = shared.unwrap_or_else(|| processors.add_pool(machine.cores as usize));
                Threads::new(machine, pool, phases.unit(), &mut processors)
            });
        let mut roles = Vec::new();
        for (node, threads) in [&source, &target].into_iter().enumerate() {
            roles.extend((0..threads.workers.len()).map(|index| Role::Worker(node, index)));
            roles.extend((0..threads.movers.len()).map(|index| Role::Mover(node, index)));
            roles.push(Role::Control(node));
        }
        roles.extend((0..clients.workers.len()).map(Role::Client));
        roles.push(Role::Operator);
        let node = |number, threads| Node::new(number, threads, memory_bytes, weight, seed);
        let releases = vec![None; processors.pools()];
        let mut model = Model {
            agenda: TimeQueue::default(),
            nodes: vec![node(0, [&source, &target]), node(1, [&target, &source])],
            processors,
            interfaces: Interfaces::new(machines.link, 3),
            costs,
            noise: Noise::new(
                if machines.noisy { costs.noise_thousandths } else { 0 },
                Random::new(seed, NOISE),
            ),
            watch,
            clients: Vec::new(),
            client_group: clients.group,
            operator: None,
            operator_thread: clients.control,
            alarms: vec![None; roles.len()],
            turns: roles.iter().map(|_| Turn::default()).collect(),
            waking_ns: vec![0; roles.len()],
            releases,
            roles,
        };
        for number in 0..model.nodes.len() {
            model.wake(model.nodes[number].control.id, None);
        }
        model
    }

    pub(crate) fn now_ns(&self) -> u64 {
        self.agenda.now()
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

    /// Processor time of the workers of both nodes, in nanoseconds; the requests they served; and those of
    /// them on a core that others used as well.
    pub(crate) fn worker_work(&self) -> [f64; 3] {
        let workers = || self.nodes.iter().flat_map(|node| &node.workers);
        let used_ns: u64 = workers().map(|worker| self.processors.used_ns(worker.id)).sum();
        let sum = |of: fn(&WorkerThread) -> u64| workers().map(of).sum::<u64>() as f64;
        [used_ns as f64, sum(|worker| worker.served), sum(|worker| worker.served_shared)]
    }

    /// Processor time of both control threads, in nanoseconds; how often they had work; and how many
    /// decisions they stored.
    pub(crate) fn control_work(&self) -> [u64; 3] {
        let controls = || self.nodes.iter().map(|node| &node.control);
        let used_ns = controls().map(|control| self.processors.used_ns(control.id)).sum();
        [
            used_ns,
            controls().map(|control| control.turns).sum(),
            controls().map(|control| control.commits).sum(),
        ]
    }

    /// How often movers have resumed bulk work.
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

    /// How many slices of moved records movers have released.
    pub(crate) fn releases(&self) -> u64 {
        self.nodes[..2].iter().flat_map(|node| &node.movers).map(|mover| mover.releases).sum()
    }

    /// The record of the only migration, if it was requested.
    pub(crate) fn migration(&self) -> Option<&MigrationRecord> {
        self.nodes[0].control.migration()
    }

    /// Whether both nodes serve.
    pub(crate) fn is_ready(&self) -> bool {
        let Some(map) = self.nodes[0].control.map() else { return false };
        map.nodes().len() == self.nodes.len()
            && self.nodes.iter().all(|node| {
                node.workers.iter().all(|worker| {
                    let ranges = worker.worker.ranges();
                    ranges.is_joined() && ranges.map().epoch() == map.epoch()
                })
            })
    }

    /// Starts the clients.
    pub(crate) fn start_clients(&mut self, clients: Clients) {
        let is_client = |role: &Role| matches!(role, Role::Client(_));
        let first = self.roles.iter().position(is_client).expect("machines were checked");
        let threads = clients.streams.len() as u32;
        for (index, stream) in clients.streams.into_iter().enumerate() {
            let id = first + index;
            let load = Rc::clone(&clients.load);
            let feed = match clients.rate {
                None => Feed::Closed(stream),
                Some(per_s) => {
                    let schedule = Schedule::of_thread(index as u32, threads, per_s, self.now_ns());
                    Feed::Open { stream, schedule }
                }
            };
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
        self.agenda.push(self.now_ns() + TICK_NS, Event::Tick);
        let id = self.operator_thread;
        let worker = self.nodes[0].next_worker();
        let number = self.nodes[0].accept(worker, now(self.agenda.now()), id, None);
        self.operator = Some(Operator::new(id, self.nodes[0].workers[worker].id, number));
    }

    /// The operator requests from the source a move of these slots to the target.
    pub(crate) fn start_migration(&mut self, slots: &str, protocol: &str, policy: MigrationPolicy) {
        let (target, policy) = (address(1).to_string(), policy.words());
        let mut words = vec!["SIDLE.MIGRATE", "START", "SLOTS", slots, "TO", &target, "PROTOCOL", protocol];
        words.extend(policy.iter().map(String::as_str));
        let operator = self.operator.as_mut().expect("it starts with the clients");
        operator.start(&words);
        let id = operator.id;
        self.wake(id, None);
    }

    /// The move's outcome, once the operator has received it.
    pub(crate) fn outcome(&self) -> Option<Result<(), String>> {
        self.operator.as_ref().and_then(Operator::outcome)
    }

    /// Processes events until the course continues or the operator receives the outcome; `false` if no event
    /// is left.
    pub(crate) fn run_to_tick(&mut self) -> bool {
        let is_over = |model: &Model| model.operator.as_ref().is_some_and(Operator::is_over);
        let was_over = is_over(self);
        while let Some(event) = self.agenda.pop() {
            if matches!(event, Event::Tick) {
                self.agenda.push(self.now_ns() + TICK_NS, Event::Tick);
                return true;
            }
            self.happen(event);
            if is_over(self) && !was_over {
                return true;
            }
        }
        false
    }

    /// Processes events until `holds`, or until the limit.
    pub(crate) fn run_until(&mut self, limit_ns: u64, holds: impl Fn(&Model) -> bool) -> bool {
        let limit_ns = self.now_ns() + limit_ns;
        while !holds(self) {
            match self.agenda.pop() {
                Some(Event::Tick) => self.agenda.push(self.now_ns() + TICK_NS, Event::Tick),
                Some(event) if self.now_ns() <= limit_ns => self.happen(event),
                _ => return false,
            }
        }
        true
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
            Event::Tick => unreachable!("the caller handles ticks"),
        }
    }

    /// A message arrived for a thread. `by`: from another thread, which is charged for the wake-up.
    fn wake(&mut self, thread: ThreadId, by: Option<Waker>) {
        let woken = self.processors.wake(thread, by, self.agenda.now());
        if let Some(by) = by {
            self.waking_ns[by.thread] += self.costs.of_waking(woken);
        }
        self.schedule(self.processors.pool_of(thread));
    }

    /// Gives idle cores to waiting threads.
    fn schedule(&mut self, pool: PoolId) {
        while let Some((thread, pause)) = self.processors.take(pool, self.now_ns()) {
            let mut turn = self.turn(thread, pause);
            turn.cost_ns += std::mem::take(&mut self.waking_ns[thread]);
            turn.cost_ns = self.noise.of(turn.cost_ns, self.agenda.now());
            self.processors.charge(thread, turn.cost_ns);
            self.agenda.push(self.now_ns() + turn.cost_ns, Event::Done(thread));
            self.turns[thread] = turn;
        }
        let release = self.processors.next_change(pool);
        if release != self.releases[pool] {
            self.releases[pool] = release;
            if let Some(at_ns) = release {
                self.agenda.push(at_ns, Event::Release(pool));
            }
        }
    }

    fn turn(&mut self, thread: ThreadId, pause: Pause) -> Turn {
        let (now_ns, costs) = (self.now_ns(), self.costs);
        let Model { nodes, clients, operator, processors, watch, roles, .. } = self;
        match roles[thread] {
            Role::Worker(node, index) => {
                let mut turn = Turn::default();
                nodes[node].workers[index].turn(now(now_ns), &costs, pause, watch, &mut turn);
                turn
            }
            Role::Mover(node, index) => {
                nodes[node].mover_turn(index, now(now_ns).mono, processors, &costs, pause, watch)
            }
            Role::Control(node) => {
                let mut turn = Turn::default();
                nodes[node].control.turn(now(now_ns).mono, &costs, pause, &mut turn);
                turn
            }
            Role::Operator => {
                operator.as_mut().map_or_else(Turn::default, |operator| operator.turn(&costs, pause))
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
            // It limits its share of the node by the processor time that both have used.
            self.processors.look(thread, self.agenda.now());
        }
        self.processors.done(thread, self.agenda.now(), has_more);
        for output in outputs {
            self.output(thread, output);
        }
        self.schedule(self.processors.pool_of(thread));
    }

    /// The machine of a thread: a node's number, or the clients'.
    fn machine(&self, thread: ThreadId) -> usize {
        match self.roles[thread] {
            Role::Worker(node, _) | Role::Mover(node, _) | Role::Control(node) => node,
            Role::Client(_) | Role::Operator => CLIENTS,
        }
    }

    fn worker(&mut self, thread: ThreadId) -> &mut WorkerThread {
        let Role::Worker(node, index) = self.roles[thread] else { unreachable!("{thread} is no worker") };
        &mut self.nodes[node].workers[index]
    }

    fn output(&mut self, from: ThreadId, output: Output) {
        let (now_ns, machine) = (self.now_ns(), self.machine(from));
        match output {
            Output::Send { to, arrival, class, bytes } => {
                let at_ns = self.interfaces.send(now_ns, machine, class, bytes);
                self.agenda.push(at_ns, Event::Arrival { to, from, arrival });
            }
            Output::Wake(thread) => {
                if let Role::Worker(node, index) = self.roles[thread] {
                    self.nodes[node].workers[index].notify();
                }
                self.wake(thread, Some(Waker { thread: from, is_sync: false }));
            }
            Output::AwaitTable(worker) => {
                self.worker(worker).await_table();
                self.wake(worker, Some(Waker { thread: from, is_sync: false }));
            }
            Output::WakeAt(thread, at_ns) => {
                if self.alarms[thread].is_none_or(|planned_ns| at_ns < planned_ns) {
                    self.alarms[thread] = Some(at_ns);
                    self.agenda.push(at_ns, Event::Wake(thread));
                }
            }
            Output::Notify(mail) => {
                let control = &mut self.nodes[machine].control;
                control.receive(mail);
                let id = control.id;
                self.wake(id, Some(Waker { thread: from, is_sync: false }));
            }
            Output::Command(mover, command) => {
                let Role::Mover(node, index) = self.roles[mover] else { unreachable!("{mover} is no mover") };
                self.nodes[node].movers[index].commands.push_back(command);
                self.wake(mover, Some(Waker { thread: from, is_sync: false }));
            }
            Output::Answer { worker, connection, reply } => {
                self.worker(worker).answered(connection, reply);
                self.wake(worker, Some(Waker { thread: from, is_sync: false }));
            }
        }
    }

    fn arrive(&mut self, to: ThreadId, from: ThreadId, arrival: Arrival) {
        match (self.roles[to], arrival) {
            (Role::Worker(node, index), Arrival::Client { client, connection }) => {
                let number = self.nodes[node].accept(index, now(self.agenda.now()), client, Some(connection));
                let arrival = Arrival::Connected { connection, worker: to, number };
                let at_ns = self.interfaces.send(self.now_ns(), node, crate::links::Class::Small, 0);
                self.agenda.push(at_ns, Event::Arrival { to: client, from: to, arrival });
            }
            (Role::Operator, Arrival::Answer(bytes)) => {
                self.operator.as_mut().expect("it sent a request").receive(&bytes);
                self.wake(to, Some(Waker { thread: from, is_sync: true }));
            }
            (Role::Client(index), arrival) => {
                self.clients[index].receive(arrival);
                self.wake(to, Some(Waker { thread: from, is_sync: true }));
            }
            (Role::Operator, arrival) => unreachable!("unexpected arrival at the operator: {arrival:?}"),
            (Role::Worker(node, _) | Role::Mover(node, _) | Role::Control(node), arrival) => {
                self.nodes[node].receive(to, from, arrival);
                self.wake(to, Some(Waker { thread: from, is_sync: true }));
            }
        }
    }
}
