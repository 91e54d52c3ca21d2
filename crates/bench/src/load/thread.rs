//! One load thread: several clients on one epoll loop.
//!
//! By default the clients of a thread belong to one application, like a program's tasks
//! that share a client library: one [`Core`] with as many connections to each node as there
//! are clients, so that each finds one free, and shared knowledge of moved keys. Separate clients have
//! a [`Core`] each, with one connection to each node.
//!
//! Everything shares the machine with the servers under test, so the loop is lean: one read and one write per
//! connection and round for any number of operations, no allocation and no task per operation.

use crate::load::collector::{Collector, Flight, Totals};
use crate::load::feed::{Feed, Next};
use crate::load::plan::{ClientKind, Pacing, Plan, World};
use crate::load::socket::{Closed, Sent, Socket};
use crate::machine::own_thread_cpu_ns;
use rustix::event::epoll;
use sidle_client_core::{Awareness, Class, Config, ConnectionId, Core, Counters, Destination, Event, Input};
use sidle_types::{HashedKey, MonotonicUs, Position};
use sidle_workload::Stamp;
use std::sync::atomic::{AtomicBool, Ordering};

/// An operation without an answer is given up after this time.
const OPERATION_TIMEOUT_US: u64 = 5_000_000;
/// The same while loading and reading back, where latency is not measured.
const SWEEP_TIMEOUT_US: u64 = 20_000_000;
/// How often timers and counters are checked.
const CHECK_NS: u64 = 250_000;
/// How often look-ups are timed while data moves, and how many at a time.
const LOOKUPS_NS: u64 = 50_000_000;
const LOOKUPS: usize = 256;

struct Application {
    core: Core,
    /// By the connection's index.
    sockets: Vec<Option<Socket>>,
    /// The core's counters at the last check.
    counted: Counters,
}

/// A thread's work.
pub(crate) struct Task<'a> {
    /// Clients to drive.
    pub(crate) clients: u32,
    /// The most operations that each has under way.
    pub(crate) outstanding: u32,
    /// When operations are sent; an open loop's rate is this thread's share.
    pub(crate) pacing: Pacing,
    /// The operations' source.
    pub(crate) feed: Feed<'a>,
    /// Ends this load (not the whole run).
    pub(crate) end: &'a AtomicBool,
}

pub(crate) struct Thread<'a> {
    world: &'a World<'a>,
    task: Task<'a>,
    collector: Collector<'a>,
    applications: Vec<Application>,
    clients_per_application: usize,
    epoll: rustix::fd::OwnedFd,
    /// Whether the feed has ended.
    is_fed: bool,
    /// When the next operation of an open loop is due.
    due_ns: u64,
    interval_ns: f64,
    due_fraction: f64,
    next_check_ns: u64,
    next_lookups_ns: u64,
    positions: Vec<Position>,
    reported: u64,
    key: Vec<u8>,
    value: Vec<u8>,
}

impl<'a> Thread<'a> {
    pub(crate) fn new(
        world: &'a World<'a>,
        task: Task<'a>,
        collector: Collector<'a>,
    ) -> std::io::Result<Thread<'a>> {
        let clients_per_application = clients_per_application(&world.plan, task.clients);
        let mut config = config(&world.plan, clients_per_application, task.outstanding);
        if matches!(task.feed, Feed::Sweep { .. }) {
            config.operation_timeout_us = SWEEP_TIMEOUT_US;
        }
        let application = |_| Application {
            core: Core::new(config.clone()),
            sockets: Vec::new(),
            counted: Counters::default(),
        };
        let rate = if let Pacing::Open(rate) = task.pacing { rate } else { 1.0 };
        let now_ns = world.now_ns();
        Ok(Thread {
            applications: (0..task.clients.div_ceil(clients_per_application)).map(application).collect(),
            clients_per_application: clients_per_application as usize,
            epoll: epoll::create(epoll::CreateFlags::CLOEXEC)?,
            is_fed: false,
            due_ns: now_ns,
            interval_ns: 1e9 / rate,
            due_fraction: 0.0,
            next_check_ns: now_ns,
            next_lookups_ns: 0,
            positions: world
                .moving_records(LOOKUPS)
                .iter()
                .map(|&record| Position::of_key(&world.plan.keys.key(record)))
                .collect(),
            reported: 0,
            key: Vec::new(),
            value: Vec::new(),
            world,
            task,
            collector,
        })
    }

    /// Runs until the feed or the load ends and everything under way has come back.
    pub(crate) fn run(mut self) -> std::io::Result<Totals> {
        let mut events = Vec::with_capacity(256);
        let mut ending_since = None;
        loop {
            let now_ns = self.world.now_ns();
            self.collector.now_ns = now_ns;
            if self.task.end.load(Ordering::Relaxed) || self.world.is_stopping() {
                self.is_fed = true;
            }
            if self.is_fed {
                let since = *ending_since.get_or_insert(now_ns);
                if self.collector.is_idle() || now_ns - since > self.drain_limit_ns() {
                    break;
                }
            } else {
                self.issue(now_ns);
            }
            if now_ns >= self.next_check_ns {
                self.check(now_ns);
            }
            for application in 0..self.applications.len() {
                self.connect_and_close(application, now_ns);
                self.transmit(application, now_ns);
            }
            self.wait(&mut events)?;
            for event in events.drain(..) {
                let event: epoll::Event = event;
                let data = event.data.u64();
                self.ready((data >> 32) as usize, data as u32 as usize, event.flags);
            }
            let ended = self.collector.ended - self.reported;
            if ended > 0 {
                self.world.ended.fetch_add(ended, Ordering::Relaxed);
                self.reported = self.collector.ended;
            }
        }
        self.finish()
    }

    /// How long operations may take to end after the last was sent. All of a sweep count, so each has its
    /// client's whole timeout.
    fn drain_limit_ns(&self) -> u64 {
        match self.task.feed {
            _ if self.world.is_stopping() => 0,
            Feed::Sweep { .. } => SWEEP_TIMEOUT_US * 1000 + World::drain_limit().as_nanos() as u64,
            Feed::Workload(_) | Feed::Probe { .. } => World::drain_limit().as_nanos() as u64,
        }
    }

    fn finish(mut self) -> std::io::Result<Totals> {
        self.count();
        self.collector.give_up();
        if let crate::load::collector::Meter::Load { recorder, .. } = &mut self.collector.meter {
            recorder.hand_over();
        }
        for application in &self.applications {
            let counters = application.core.counters();
            self.collector.totals.double_reads += counters.double_reads;
            self.collector.totals.single_target_reads += counters.single_target_reads;
            self.collector.totals.single_source_reads += counters.single_source_reads;
        }
        Ok(self.collector.totals)
    }

    fn issue(&mut self, now_ns: u64) {
        match self.task.pacing {
            Pacing::Open(_) => self.issue_due(now_ns),
            Pacing::Closed | Pacing::Batches => {
                let whole = self.task.pacing == Pacing::Batches;
                for client in 0..self.task.clients as usize {
                    if whole && self.collector.vacancies(client) < self.task.outstanding as usize {
                        continue;
                    }
                    while self.collector.vacancies(client) > 0 && self.issue_one(client, now_ns, now_ns) {}
                }
            }
        }
    }

    /// Sends the due operations, spread over the clients.
    fn issue_due(&mut self, now_ns: u64) {
        while self.due_ns <= now_ns {
            // The client with the most room, so that one slow node does not delay the others' operations.
            let roomiest =
                (0..self.task.clients as usize).max_by_key(|&client| self.collector.vacancies(client));
            let Some(client) = roomiest.filter(|&client| self.collector.vacancies(client) > 0) else {
                return;
            };
            if !self.issue_one(client, self.due_ns, now_ns) {
                return;
            }
            self.due_fraction += self.interval_ns;
            let whole = self.due_fraction.floor();
            self.due_fraction -= whole;
            self.due_ns += whole as u64;
        }
    }

    /// Sends the next operation; returns whether there was one.
    #[inline]
    fn issue_one(&mut self, client: usize, due_ns: u64, now_ns: u64) -> bool {
        let ledger = &self.world.ledger;
        let (record, sequence) = match self.task.feed.next(ledger) {
            Next::Read(record) => (record, 0),
            Next::Write(record, sequence) => (record, sequence),
            Next::Busy => return false,
            Next::End => {
                self.is_fed = true;
                return false;
            }
        };
        let flight = Flight {
            record,
            sequence,
            floor: ledger.floor(record),
            due_ns,
            call_ns: self.world_call_ns(now_ns),
        };
        let token = self.collector.depart(client, flight);
        let plan = &self.world.plan;
        self.key.clear();
        plan.keys.write(record, &mut self.key);
        let key = HashedKey::new(&self.key);
        let now = MonotonicUs(now_ns / 1000);
        let core = &mut self.applications[client / self.clients_per_application].core;
        let admitted = if sequence == 0 {
            core.get(now, token, key)
        } else {
            let writer = self.collector.writer(client);
            let stamp = Stamp { record, sequence: u64::from(sequence), writer, run: ledger.run() };
            self.value.clear();
            plan.values.write(stamp, &mut self.value);
            core.submit(now, token, Class::Write, Destination::Key(key), &[b"SET", &self.key, &self.value])
        };
        if admitted.is_err() {
            self.collector.turn_back(token);
        }
        admitted.is_ok()
    }

    /// The call time of an operation sent now. A recorded history needs the true instant, since others may
    /// have been acknowledged since this round began; a measurement does not.
    fn world_call_ns(&self, now_ns: u64) -> u64 {
        if self.collector.recording.is_some() { self.world.now_ns() } else { now_ns }
    }

    fn connect_and_close(&mut self, application: usize, now_ns: u64) {
        let now = MonotonicUs(now_ns / 1000);
        while let Some(event) = self.applications[application].core.poll_event() {
            let Application { core, sockets, .. } = &mut self.applications[application];
            match event {
                Event::Connect { connection, address } => {
                    let index = connection.index();
                    if sockets.len() <= index {
                        sockets.resize_with(index + 1, || None);
                    }
                    let connected = Socket::connect(connection, &address.to_string()).and_then(|socket| {
                        epoll::add(
                            &self.epoll,
                            &socket.stream,
                            data(application, index),
                            epoll::EventFlags::IN,
                        )?;
                        Ok(socket)
                    });
                    match connected {
                        Ok(socket) => {
                            sockets[index] = Some(socket);
                            core.handle(now, Input::Connected(connection), &mut self.collector);
                        }
                        Err(_) => {
                            sockets[index] = None;
                            core.handle(now, Input::Disconnected(connection), &mut self.collector);
                        }
                    }
                }
                Event::Close(connection) => {
                    let place = &mut sockets[connection.index()];
                    if place.as_ref().is_some_and(|socket| socket.connection == connection) {
                        *place = None;
                    }
                }
                Event::MapChanged(_) => {}
                Event::Trouble { address, why } => self.collector.trouble(format!("{address}: {why}")),
            }
        }
    }

    fn transmit(&mut self, application: usize, now_ns: u64) {
        while let Some(connection) = self.applications[application].core.poll_transmit() {
            let Application { core, sockets, .. } = &mut self.applications[application];
            let Some(Some(socket)) = sockets.get_mut(connection.index()) else { continue };
            if socket.connection != connection {
                continue;
            }
            core.take_output(connection, &mut socket.out);
            if !socket.waits_to_write {
                self.write(application, connection.index(), now_ns);
            }
        }
    }

    fn write(&mut self, application: usize, index: usize, now_ns: u64) {
        let Some(Some(socket)) = self.applications[application].sockets.get_mut(index) else { return };
        let connection = socket.connection;
        match socket.write() {
            Ok(sent) => {
                let waits = sent == Sent::Part;
                if waits == socket.waits_to_write {
                    return;
                }
                socket.waits_to_write = waits;
                let data = data(application, index);
                let write = if waits { epoll::EventFlags::OUT } else { epoll::EventFlags::empty() };
                if epoll::modify(&self.epoll, &socket.stream, data, epoll::EventFlags::IN | write).is_err() {
                    self.lost(application, connection, now_ns);
                }
            }
            Err(Closed) => self.lost(application, connection, now_ns),
        }
    }

    fn lost(&mut self, application: usize, connection: ConnectionId, now_ns: u64) {
        let Application { core, sockets, .. } = &mut self.applications[application];
        sockets[connection.index()] = None;
        core.handle(MonotonicUs(now_ns / 1000), Input::Disconnected(connection), &mut self.collector);
    }

    /// Waits for a connection, the next due operation or the next check.
    fn wait(&self, events: &mut Vec<epoll::Event>) -> std::io::Result<()> {
        let mut until_ns = self.next_check_ns;
        // A due operation waits for an answer while every client has its most under way. Polling
        // meanwhile would keep the nodes from the cores, and so delay the answers.
        let has_vacancy =
            || (0..self.task.clients as usize).any(|client| self.collector.vacancies(client) > 0);
        if matches!(self.task.pacing, Pacing::Open(_)) && !self.is_fed && has_vacancy() {
            until_ns = until_ns.min(self.due_ns);
        }
        let wait_ns = until_ns.saturating_sub(self.world.now_ns()) as i64;
        let timeout = rustix::event::Timespec { tv_sec: 0, tv_nsec: wait_ns.min(999_999_999) };
        match epoll::wait(&self.epoll, rustix::buffer::spare_capacity(events), Some(&timeout)) {
            Ok(_) | Err(rustix::io::Errno::INTR) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }

    fn ready(&mut self, application: usize, index: usize, flags: epoll::EventFlags) {
        let now_ns = self.world.now_ns();
        self.collector.now_ns = now_ns;
        if flags.contains(epoll::EventFlags::OUT) {
            self.write(application, index, now_ns);
        }
        if !flags.intersects(epoll::EventFlags::IN | epoll::EventFlags::HUP | epoll::EventFlags::ERR) {
            return;
        }
        let Application { core, sockets, .. } = &mut self.applications[application];
        let Some(Some(socket)) = sockets.get_mut(index) else { return };
        let connection = socket.connection;
        match socket.read() {
            Ok(bytes) => {
                // An answer's instant is when it was read.
                let now_ns = self.world.now_ns();
                self.collector.now_ns = now_ns;
                let consumed =
                    core.received(MonotonicUs(now_ns / 1000), connection, bytes, &mut self.collector);
                socket.consume(consumed);
            }
            Err(Closed) => self.lost(application, connection, now_ns),
        }
    }

    /// Timers, counters and the timing of look-ups: now and then, since they cost time too.
    fn check(&mut self, now_ns: u64) {
        let now = MonotonicUs(now_ns / 1000);
        let mut next_ns = now_ns + CHECK_NS * 4;
        for Application { core, .. } in &mut self.applications {
            if core.poll_timeout().is_some_and(|at| at <= now) {
                core.handle(now, Input::Tick, &mut self.collector);
            }
            if let Some(at) = core.poll_timeout() {
                next_ns = next_ns.min(at.0 * 1000);
            }
        }
        self.next_check_ns = next_ns.max(now_ns + CHECK_NS);
        self.count();
        let moves = self.applications[0].core.map().is_some_and(|map| !map.migrations().is_empty());
        if moves && now_ns >= self.next_lookups_ns && !self.positions.is_empty() {
            self.next_lookups_ns = now_ns + LOOKUPS_NS;
            self.time_lookups();
        }
    }

    fn count(&mut self) {
        for application in &mut self.applications {
            let counters = application.core.counters();
            let extra = |counters: &Counters| counters.extra_request_bytes + counters.extra_reply_bytes;
            let bytes = extra(&counters) - extra(&application.counted);
            if bytes > 0 {
                self.collector.extra_bytes(bytes);
            }
            application.counted = counters;
            self.collector
                .tracks(application.core.sph_bytes() as u64, application.core.tracking_bytes() as u64);
        }
    }

    fn time_lookups(&mut self) {
        let core = &self.applications[0].core;
        // Not the wall clock's: other programs' time on this core is not the look-up's.
        let before_ns = own_thread_cpu_ns();
        let single = self.positions.iter().filter(|&&position| core.is_single_read(position)).count();
        std::hint::black_box(single);
        let took_ns = own_thread_cpu_ns() - before_ns;
        self.collector.looked_up(self.positions.len() as u64, took_ns);
    }
}

/// A connection's value in epoll.
fn data(application: usize, index: usize) -> epoll::EventData {
    epoll::EventData::new_u64((application as u64) << 32 | index as u64)
}

/// How many of a thread's clients share a [`Core`]: all of them, unless they are separate, or exceed its
/// most connections to a node.
fn clients_per_application(plan: &Plan, clients: u32) -> u32 {
    assert!(plan.separate_clients || plan.pacing != Pacing::Batches, "a whole batch needs one connection");
    if plan.separate_clients {
        return 1;
    }
    let applications = clients.div_ceil(Config::MAX_CONNECTIONS_PER_NODE as u32);
    clients.div_ceil(applications)
}

fn config(plan: &Plan, clients: u32, outstanding: u32) -> Config {
    let mut config = Config::new(plan.seeds.clone());
    config.connections_per_node = clients as usize;
    config.max_outstanding = Config::MAX_OUTSTANDING.max(clients as usize * outstanding as usize);
    config.awareness = match plan.client {
        ClientKind::Sidle => Awareness::Sidle,
        ClientKind::Plain => Awareness::Plain,
    };
    config.credentials = plan.password.clone().map(|password| ("default".to_owned(), password));
    config.tracking = plan.tracking;
    config.operation_timeout_us = OPERATION_TIMEOUT_US;
    config
}
