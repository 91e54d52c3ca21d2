//! A modelled node: the real workers, movers and control, on threads whose turns take time.

mod control;
mod mover;
mod worker;

use crate::costs::Costs;
use crate::event::{Arrival, Turn};
use crate::machines::Machine;
use crate::processors::{GroupId, Pause, PoolId, Processors, ThreadId};
use crate::sample::Sample;
use crate::stopwatch::Stopwatch;
use control::ControlThread;
pub(crate) use mover::MoverThread;
use sidle_cluster::{HostPort, NodeInfo, StartNumber};
use sidle_migration::Tuning;
use sidle_node::{
    Config, CurrentTable, Mover, MoverIndex, NodeControl, NodeParts, NodeShared, Now, ProcessFacts,
    RangeTable, Worker, WorkerIndex, connect,
};
use sidle_pacing::{Load, probe_after_us};
use sidle_store::{OutOfMemory, Store, StoreConfig};
use sidle_testbed::fixtures::node_info_at;
use sidle_types::{HashedKey, MonotonicUs, Slot, WallMs};
use sidle_workload::KeyFormat;
use std::sync::Arc;
pub(crate) use worker::WorkerThread;

/// Wall clock at the start of a model.
const WALL_START_MS: u64 = 1_700_000_000_000;
/// The nodes' client ports start here.
const FIRST_PORT: u16 = 7001;

/// Both clocks of a node at an instant of the model.
pub(crate) fn now(now_ns: u64) -> Now {
    Now {
        mono: MonotonicUs(now_ns / 1000),
        wall: WallMs(WALL_START_MS + now_ns / 1_000_000),
        wall_micros: 0,
        reading_ns: 0,
    }
}

/// The address of node 0 or 1.
pub(crate) fn address(node: usize) -> HostPort {
    HostPort::new("127.0.0.1", FIRST_PORT + node as u16).expect("a good address")
}

/// The node with this address.
pub(crate) fn node_at(address: &HostPort) -> usize {
    usize::from(address.port() - FIRST_PORT)
}

/// The identity of node 0 or 1.
pub(crate) fn info(node: usize) -> NodeInfo {
    node_info_at(node as u8 + 1, address(node))
}

/// A node.
pub(crate) struct Node {
    pub(crate) group: GroupId,
    /// Cores that it may use: the quota rounded to whole ones, at least one.
    cores: u64,
    pub(crate) parts: NodeParts,
    pub(crate) workers: Vec<WorkerThread>,
    pub(crate) movers: Vec<MoverThread>,
    pub(crate) control: ControlThread,
    next_worker: usize,
}

/// The numbers of a node's threads.
#[derive(Clone, Debug)]
pub(crate) struct Threads {
    pub(crate) group: GroupId,
    /// Cores that they may use: the quota rounded to whole ones, at least one.
    cores: u64,
    pub(crate) workers: Vec<ThreadId>,
    pub(crate) movers: Vec<ThreadId>,
    /// The control thread; at the clients' machine the operator's.
    pub(crate) control: ThreadId,
}

impl Threads {
    /// The threads of a machine, on these cores. `phase`: of its quota's first period.
    pub(crate) fn new(machine: &Machine, pool: PoolId, phase: f64, processors: &mut Processors) -> Threads {
        let quota = machine.quota.map(|share| share.quota(phase));
        let group = processors.add_group(pool, quota);
        let mut threads =
            |count: u16| -> Vec<ThreadId> { (0..count).map(|_| processors.add_thread(group, 1)).collect() };
        let cores = (machine.processors() as u64).max(1);
        let (workers, movers) = (threads(machine.workers), threads(machine.movers));
        Threads { group, cores, workers, movers, control: processors.add_thread(group, 1) }
    }
}

impl Node {
    pub(crate) fn new(
        number: usize,
        [own, other]: [&Threads; 2],
        memory_bytes: u64,
        weight: f64,
        seed: u64,
    ) -> Node {
        let info = info(number);
        let (workers, movers) = (own.workers.len() as u16, own.movers.len() as u16);
        let parts = parts(&info, workers, memory_bytes);
        let (worker_ports, mover_ports) = connect(workers, movers);
        let workers = (worker_ports.into_iter().enumerate())
            .map(|(index, ports)| {
                let seed = seed ^ (number as u64) << 32 ^ index as u64;
                let worker = Worker::new(&parts, WorkerIndex(index as u16), ports, seed);
                WorkerThread::new(own.workers[index], worker, own.movers.clone())
            })
            .collect();
        let movers_ = (mover_ports.into_iter().enumerate())
            .map(|(index, ports)| {
                let mover = Mover::new(&parts, MoverIndex(index as u16), movers, ports);
                let neighbours = (other.movers.clone(), own.workers.clone());
                MoverThread::new(own.movers[index], mover, neighbours, weight)
            })
            .collect();
        let control = NodeControl::new(
            MonotonicUs(0),
            info.clone(),
            StartNumber::default(),
            None,
            parts.clone(),
            movers,
            Tuning::default(),
        );
        let threads = (own.workers.clone(), own.movers.clone());
        let control = ControlThread::new(own.control, control, &info, number == 0, other.control, threads);
        Node { group: own.group, cores: own.cores, parts, workers, movers: movers_, control, next_worker: 0 }
    }

    /// Fills the store.
    pub(crate) fn load(&self, sample: &Sample, keys: &KeyFormat, value: &[u8]) -> Result<(), OutOfMemory> {
        let mut head = self.parts.store.log_head();
        let mut key = Vec::new();
        for record in sample.stored() {
            key.clear();
            keys.write(record, &mut key);
            self.parts.store.lock_slot(Slot::of_key(&key)).put(
                &mut head,
                HashedKey::new(&key),
                &[value],
                None,
            )?;
        }
        Ok(())
    }

    /// The worker that takes the next connection.
    pub(crate) fn next_worker(&mut self) -> usize {
        self.next_worker += 1;
        (self.next_worker - 1) % self.workers.len()
    }

    /// A client connects to a worker.
    pub(crate) fn accept(
        &mut self,
        worker: usize,
        now: Now,
        client: ThreadId,
        name: Option<sidle_client_core::ConnectionId>,
    ) -> usize {
        self.workers[worker].accept(&self.parts.shared, now, client, name)
    }

    /// A mover's turn.
    pub(crate) fn mover_turn(
        &mut self,
        index: usize,
        now: MonotonicUs,
        processors: &Processors,
        costs: &Costs,
        pause: Pause,
        watch: &mut Stopwatch,
    ) -> Turn {
        let mut turn = Turn::default();
        let mover = &mut self.movers[index];
        if !mover.mover.is_idle() && now.0 >= mover.next_probe_us {
            mover.lag_us = (self.workers.iter_mut())
                .map(|worker| {
                    turn.outputs.push(crate::event::Output::Wake(worker.id));
                    worker.probe_lag_us(now.0)
                })
                .max()
                .unwrap_or(0);
            mover.next_probe_us = now.0 + probe_after_us(mover.lag_us);
            mover.wake_at(MonotonicUs(mover.next_probe_us), &mut turn);
        }
        let (used_ns, node_ns) = (processors.used_ns(mover.id), processors.used_by_group_ns(self.group));
        let (mover_cpu_us, node_cpu_us) = (used_ns / 1000, node_ns / 1000);
        let spare_permille = mover.spare.permille(now.0, mover_cpu_us, node_cpu_us, self.cores);
        let load = Load { worker_lag_us: mover.lag_us, mover_cpu_us, node_cpu_us, spare_permille };
        mover.turn(now, load, costs, pause, watch, &mut turn);
        turn
    }

    /// A message arrived for one of its threads.
    pub(crate) fn receive(&mut self, to: ThreadId, from: ThreadId, arrival: Arrival) {
        match arrival {
            Arrival::Requests { connection, bytes } => {
                let worker = self.workers.iter_mut().find(|worker| worker.id == to);
                worker.expect("requests go to workers").receive(connection, &bytes);
            }
            Arrival::Control(mail) => self.control.receive(*mail),
            arrival => {
                let mover = self.movers.iter_mut().find(|mover| mover.id == to);
                mover.expect("frames go to movers").receive(from, arrival);
            }
        }
    }
}

fn parts(info: &NodeInfo, workers: u16, memory_bytes: u64) -> NodeParts {
    let facts = ProcessFacts {
        node: info.id,
        run_id: info.id,
        started_at: WallMs(WALL_START_MS),
        process_id: 1,
        port: info.client_addr.port(),
        system: "modelled".into(),
        executable: "sidle".into(),
        config_file: String::new(),
    };
    let first = Arc::new(RangeTable::before_joining(info.clone()));
    NodeParts {
        store: Arc::new(Store::new(StoreConfig::with_memory(memory_bytes)).expect("a good configuration")),
        shared: Arc::new(NodeShared::new(Config::default(), usize::from(workers), facts)),
        published: Arc::new(CurrentTable::new(workers, first)),
    }
}
