//! A node's process: the real worker, mover and control objects, each with its own turns.

mod backups;
mod cleaner;
mod connection;
mod control;
mod copies;
mod fetching;
mod forward;
mod log_threads;
mod log_writer;
mod mover;
mod pressure;
mod pushes;
mod reclaiming;
mod seat;
mod takeovers;
mod worker;

use crate::clock::Clock;
use crate::disk::Disk;
use crate::durable::{BegunLog, DurableSetup};
use crate::network::{Side, Signal, StreamId};
use crate::world::{Actor, Fact, HostId, Thread, World};
use cleaner::CleanerThread;
use connection::Connection;
use control::Call;
pub use control::ControlThread;
use log_threads::{Holder, LogThreads, begin_to_write};
use mover::MoverThread;
pub(crate) use mover::OUTPUT_BYTES;
pub use pressure::Pressure;
pub use seat::Seat;
use sidle_cluster::{HostPort, Incarnation, LogCopies, MetaError, NodeInfo, StartNumber, TabletMap};
use sidle_migration::ImportView;
use sidle_node::{
    Config, CurrentTable, MoverIndex, NodeParts, NodeShared, Now, ProcessFacts, RangeTable, WorkerIndex,
    connect,
};
use sidle_store::{Store, StoreConfig};
use sidle_testbed::fixtures;
use sidle_types::{MonotonicUs, NodeId, Speaks, WallMs};
use sidle_wire::{CopyHello, Forward, FrameReader};
use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use worker::Site;
pub use worker::WorkerThread;

/// The segment size of a simulated node's log: small, so that cleaning happens.
const SEGMENT_BYTES: u32 = 64 << 10;
/// How many movers a node has.
pub const MOVERS: u16 = 2;
/// The first machine's client port; the others follow.
pub const FIRST_PORT: u16 = 7001;

/// A machine's permanent settings.
#[derive(Clone, Debug)]
pub struct HostSetup {
    /// How many workers its node has.
    pub workers: u16,
    /// How much memory its node has.
    pub memory_bytes: u64,
    /// Its clocks.
    pub clock: Clock,
    /// The versions of its first program. A restart uses this build's program.
    pub speaks: Speaks,
    /// The most bytes per second for bulk pulls.
    pub max_bytes_per_s: Option<u64>,
    /// The piece size for large records.
    pub piece_bytes: u32,
    /// Above which size a collection is kept in chunks, and how long these become; none: the product's.
    pub collection_bytes: Option<(u64, u64)>,
    /// How many of a thousand messages of the coordinator arrive twice.
    pub echoes_permille: u64,
    /// The interval at which its workers check for expired keys.
    pub tick_us: u64,
    /// Its threads' load, which decides how much bulk work is held back.
    pub pressure: Pressure,
    /// How its durable log is kept, if it has one.
    pub durable: Option<DurableSetup>,
}

impl HostSetup {
    /// The configuration of its node's store.
    pub fn store_config(&self) -> StoreConfig {
        StoreConfig {
            memory_bytes: self.memory_bytes,
            is_durable: self.durable.is_some(),
            ..store_config(self.workers)
        }
    }
}

/// What a process begins with.
pub struct Begins {
    /// On the coordinator's machine.
    pub disk: Option<Disk>,
    /// Its content: that of its durable log, if it has one.
    pub store: Arc<Store>,
    /// The durable log.
    pub log: Option<BegunLog>,
    /// Since which incarnation that has everything.
    pub log_since: Option<Incarnation>,
}

/// The store's configuration for this many workers, except for its size.
pub fn store_config(workers: u16) -> StoreConfig {
    StoreConfig {
        segment_bytes: SEGMENT_BYTES,
        heads: workers + MOVERS,
        huge_pages: false,
        // Nobody waits for pages here, and most stores stay nearly empty.
        warm_segments: 0,
        ..StoreConfig::default()
    }
}

/// The name of the node on a machine.
pub fn node_id(host: HostId) -> NodeId {
    fixtures::node_id(host.0 as u8 + 1)
}

/// The machine of a node.
pub fn host_of(node: NodeId) -> HostId {
    HostId(usize::from(node.as_bytes()[0]) - 1)
}

/// The address that clients reach a machine's node at.
pub fn client_address(host: HostId) -> HostPort {
    HostPort::new("127.0.0.1", FIRST_PORT + host.0 as u16).expect("a good address")
}

/// The machine with this client address.
pub fn host_at(address: &HostPort) -> HostId {
    HostId(usize::from(address.port() - FIRST_PORT))
}

/// Arrivals for a thread that it has not handled.
pub(crate) type Mailbox = VecDeque<(StreamId, Side, Signal)>;

/// A node's process, for one incarnation.
pub struct Process {
    /// The machine.
    pub host: HostId,
    setup: HostSetup,
    /// What its threads share.
    pub parts: NodeParts,
    /// Its serving threads.
    pub workers: Vec<WorkerThread>,
    pub(crate) movers: Vec<MoverThread>,
    /// Its control thread.
    pub control: ControlThread,
    cleaner: CleanerThread,
    log: Option<LogThreads>,
    mailboxes: BTreeMap<Thread, Mailbox>,
    /// When commands last had to wait for their keys' turns, or for the next piece of a large record.
    excused_at: MonotonicUs,
}

impl Process {
    /// A process of the machine's node, of this incarnation and with this number. Fails if the disk does not
    /// let it start.
    pub fn start(
        host: HostId,
        setup: HostSetup,
        (incarnation, start): (u64, StartNumber),
        Begins { disk, store, log, log_since }: Begins,
        world: &mut World,
    ) -> Result<Process, MetaError> {
        let now = setup.clock.now(world.now_us);
        let info = node_info(host, incarnation);
        let parts = parts(&info, &setup, store);
        let log = log.map(|log| LogThreads::begin(log, (host, incarnation), &parts, &setup, (now, world)));
        let takes_part = log.as_ref().is_none_or(LogThreads::has_read);
        let (worker_ports, mover_ports) = connect(setup.workers, MOVERS);
        let workers = (worker_ports.into_iter().enumerate())
            .map(|(index, ports)| {
                let seed = world.random.draw();
                WorkerThread::new(&parts, WorkerIndex(index as u16), ports, seed)
            })
            .collect();
        let movers = (mover_ports.into_iter().enumerate())
            .map(|(index, ports)| MoverThread::new(&parts, MoverIndex(index as u16), ports))
            .collect();
        let control =
            ControlThread::new(now.mono, (info, start, log_since), takes_part, &parts, &setup, disk)?;
        let cleaner = CleanerThread::new(&parts);
        let (mailboxes, excused_at) = (BTreeMap::new(), MonotonicUs(0));
        let mut process =
            Process { host, setup, parts, workers, movers, control, cleaner, log, mailboxes, excused_at };
        for thread in process.threads() {
            process.mailboxes.insert(thread, Mailbox::new());
            world.wake(host, thread);
        }
        Ok(process)
    }

    /// All of its threads.
    pub fn threads(&self) -> Vec<Thread> {
        let workers = (0..self.workers.len()).map(Thread::Worker);
        let movers = (0..self.movers.len()).map(Thread::Mover);
        let log = self.log.iter().flat_map(LogThreads::threads);
        workers.chain(movers).chain([Thread::Control, Thread::Cleaner]).chain(log).collect()
    }

    /// Something has arrived for a thread.
    pub fn deliver(&mut self, thread: Thread, id: StreamId, side: Side, signal: Signal, world: &mut World) {
        self.mailboxes.get_mut(&thread).expect("every thread has a mailbox").push_back((id, side, signal));
        world.wake(self.host, thread);
    }

    /// A client or a node connects; returns the thread that takes the connection.
    pub fn accept(&self, port: crate::network::Port, world: &mut World) -> Thread {
        match port {
            crate::network::Port::Clients => Thread::Worker(world.random.index(self.workers.len())),
            crate::network::Port::Bus => Thread::Control,
        }
    }

    /// A thread has a turn.
    pub fn turn(&mut self, thread: Thread, world: &mut World) {
        let now = self.now(world);
        match thread {
            Thread::Worker(index) => {
                let mail = std::mem::take(self.mailbox(thread));
                let (worker, site, calls) = self.lend(index);
                worker.turn(mail, &site, calls, now, world);
            }
            Thread::Mover(index) => self.mover_turn(index, now, world),
            Thread::Control => self.control_turn(now, world),
            Thread::Cleaner => {
                let rest_us = self.cleaner.turn();
                world.turn_at(Actor::Thread(self.host, thread), world.now_us + rest_us);
            }
            Thread::LogWriter => self.log_writer_turn(now, world),
            Thread::Copies => self.copies_turn(now, world),
            Thread::Backups => self.backups_turn(now, world),
            Thread::Takeovers => self.takeovers_turn(now, world),
        }
    }

    /// The node's present imports.
    pub fn imports(&self) -> impl Iterator<Item = &Arc<ImportView>> {
        self.workers[0].worker.ranges().imports()
    }

    /// Whether replies may be sent: the node's lease lasts, if it has one.
    pub fn may_answer(&self, now_us: u64) -> bool {
        self.parts.shared.durability.lease.lasts(|| self.setup.clock.now(now_us).mono)
    }

    /// Both clocks of the machine.
    pub fn now(&self, world: &World) -> Now {
        self.setup.clock.now(world.now_us)
    }

    /// The map that the node uses.
    pub fn map(&self) -> &Arc<TabletMap> {
        self.workers[0].worker.ranges().map()
    }

    /// Lets a worker take one step; returns whether there may be more to do.
    fn step_worker(&mut self, index: usize, now: Now, world: &mut World) -> bool {
        let (worker, site, calls) = self.lend(index);
        worker.step(&site, calls, now, world)
    }

    /// A worker, what its turn borrows, and where its requests to the control go.
    fn lend(&mut self, index: usize) -> (&mut WorkerThread, Site<'_>, &mut VecDeque<Call>) {
        let site = Site {
            host: self.host,
            parts: &self.parts,
            tick_us: self.setup.tick_us,
            clock: self.setup.clock,
            excused_at: self.excused_at,
            version: self.control.control.version(),
            is_durable: self.log.as_ref().is_some_and(LogThreads::has_read),
        };
        (&mut self.workers[index], site, &mut self.control.calls)
    }

    /// Passes a connection over which another node forwards to a worker, with the bytes already read from it.
    pub(super) fn take_forwarded(
        &mut self,
        id: StreamId,
        forward: Forward,
        rest: &[u8],
        now: Now,
        world: &mut World,
    ) {
        let index = world.random.index(self.workers.len());
        let mut connection = Connection::forwarded(&self.parts.shared, forward.is_resp3, now);
        connection.read(rest);
        self.workers[index].connections.insert(id, connection);
        self.hand_over(id, Thread::Worker(index), world);
    }

    /// Another thread has a connection that the control thread took in.
    fn hand_over(&mut self, id: StreamId, to: Thread, world: &mut World) {
        world.hand_over(id, Side::Acceptor, Actor::Thread(self.host, to));
        // Messages for the control since then are the other's.
        let (its, others): (Vec<_>, Vec<_>) =
            self.mailbox(Thread::Control).drain(..).partition(|(of, _, _)| *of == id);
        self.mailbox(Thread::Control).extend(others);
        self.mailbox(to).extend(its);
        world.wake(self.host, to);
    }

    fn mailbox(&mut self, thread: Thread) -> &mut Mailbox {
        self.mailboxes.get_mut(&thread).expect("every thread has a mailbox")
    }
}

/// The threads around its durable log.
impl Process {
    fn log_writer_turn(&mut self, now: Now, world: &mut World) {
        let mail = std::mem::take(self.mailbox(Thread::LogWriter));
        let (host, workers) = (self.host, self.workers.len());
        let Some(LogThreads { holder, copies, .. }) = &mut self.log else { return };
        match holder {
            Holder::Writer(log) => {
                mail.into_iter().for_each(|(id, side, _)| world.close(id, side));
                log.turn(host, workers, now, world);
                if let (Some(reports), Some(copies)) = (&mut log.reports, copies) {
                    copies.reports.append(reports);
                }
            }
            Holder::Reclaims(reclaims) => {
                if reclaims.thread.turn(host, mail, world) {
                    self.read_log(now, world);
                }
            }
        }
    }

    /// The log is whole: it is read, and the node takes part.
    fn read_log(&mut self, now: Now, world: &mut World) {
        let Some(LogThreads { holder, copies, .. }) = &mut self.log else { return };
        let (Holder::Reclaims(reclaims), Some(durable)) = (&*holder, &self.setup.durable) else { return };
        let read = match reclaims.log.open(durable, &self.parts.store) {
            Ok(read) => read,
            Err(why) => {
                world.checks.note_log(Err(why));
                world.facts.push(Fact::Safe(self.host));
                return;
            }
        };
        let (writer, its_copies) = begin_to_write(read, self.host, &self.parts, &self.setup, now);
        (*holder, *copies) = (Holder::Writer(writer), its_copies);
        self.parts.shared.loading.end();
        self.control.take_part(now.mono);
        for thread in [Thread::LogWriter, Thread::Copies, Thread::Control] {
            world.wake(self.host, thread);
        }
    }

    fn copies_turn(&mut self, now: Now, world: &mut World) {
        let mail = std::mem::take(self.mailbox(Thread::Copies));
        let parts = (&self.parts, self.workers.len());
        let Some(copies) = self.log.as_mut().and_then(|log| log.copies.as_mut()) else { return };
        let proposals = copies.turn(self.host, mail, parts, now, world);
        if !proposals.is_empty() {
            self.control.proposals.extend(proposals);
            world.wake(self.host, Thread::Control);
        }
    }

    fn backups_turn(&mut self, now: Now, world: &mut World) {
        let mail = std::mem::take(self.mailbox(Thread::Backups));
        let version = self.control.control.version();
        if let Some(backups) = self.log.as_mut().and_then(|log| log.backups.as_mut()) {
            backups.turn(self.host, mail, version, now, world);
        }
    }

    fn takeovers_turn(&mut self, now: Now, world: &mut World) {
        let mail = std::mem::take(self.mailbox(Thread::Takeovers));
        let Some(LogThreads { takeovers: Some(takeovers), backups, .. }) = &mut self.log else { return };
        let parts = (&self.parts, backups.as_mut());
        if let Some(taken) = takeovers.turn(self.host, mail, parts, (now, world)) {
            self.control.taken_over.push_back(taken);
            world.wake(self.host, Thread::Control);
        }
    }

    /// Another node opens a connection to the copy of its log.
    fn take_copied(&mut self, id: StreamId, hello: CopyHello, reader: FrameReader, world: &mut World) {
        let backups = self.log.as_mut().and_then(|log| log.backups.as_mut());
        backups.expect("all nodes have copies, or none").handed_over.push_back((id, reader, hello));
        self.hand_over(id, Thread::Backups, world);
    }

    /// The coordinator has decided on the copies of the node's log.
    fn copies_decided(&mut self, decided: Option<LogCopies>, world: &mut World) {
        if let Some(copies) = self.log.as_mut().and_then(|log| log.copies.as_mut()) {
            copies.decisions.push_back(decided);
            world.wake(self.host, Thread::Copies);
        }
    }

    /// The cluster has changed.
    fn wake_copies(&mut self, world: &mut World) {
        if self.log.as_ref().is_some_and(|log| log.copies.is_some()) {
            world.wake(self.host, Thread::Copies);
        }
    }

    /// The connections of copies.
    pub(crate) fn copy_streams(&self) -> Vec<StreamId> {
        self.log.as_ref().map_or_else(Vec::new, LogThreads::streams)
    }
}

fn node_info(host: HostId, incarnation: u64) -> NodeInfo {
    let first = fixtures::node_info_at(host.0 as u8 + 1, client_address(host));
    NodeInfo { incarnation: Incarnation(incarnation), ..first }
}

fn parts(info: &NodeInfo, setup: &HostSetup, store: Arc<Store>) -> NodeParts {
    let facts = ProcessFacts {
        node: info.id,
        run_id: info.id,
        started_at: WallMs(crate::clock::WALL_START_MS),
        process_id: 1,
        port: info.client_addr.port(),
        system: "simulated".into(),
        executable: "sidle".into(),
        config_file: String::new(),
    };
    let redis_config = Config::default();
    if let Some((packed, chunk)) = setup.collection_bytes {
        redis_config.set_collection_sizes(packed, chunk);
    }
    let first = Arc::new(RangeTable::before_joining(info.clone()));
    NodeParts {
        store,
        shared: Arc::new(NodeShared::new(redis_config, usize::from(setup.workers), facts)),
        published: Arc::new(CurrentTable::new(setup.workers, first)),
    }
}
