//! One whole node without threads: workers, movers, control, connections.

use super::log::TestLog;
use super::network::{Network, Purpose, Side};
use super::solo::parts_of;
use super::{TestClient, Waits};
use crate::control::{ControlEvent, ControlInput, NodeControl};
use crate::forward::ForwardEvent;
use crate::mover::{Link, Mover, MoverEvent};
use crate::now::Now;
use crate::queue::{MoverIndex, WorkerIndex, connect};
use crate::shared::NodeParts;
use crate::worker::Worker;
use sidle_cluster::{NodeInfo, StartNumber};
use sidle_migration::{Load, Tuning};
use sidle_store::StoreConfig;
use sidle_types::NodeId;
use std::collections::BTreeMap;

/// How many movers a test node has.
const MOVERS: u16 = 2;
/// The most output of a link before a mover stops writing to it.
const LINK_OUTPUT_BYTES: usize = 256 << 10;

/// A whole node.
pub struct TestNode {
    /// Its identity.
    pub info: NodeInfo,
    /// What is shared.
    pub parts: NodeParts,
    /// Its workers.
    pub workers: Vec<Worker>,
    pub(super) movers: Vec<Mover>,
    /// Its control.
    pub control: NodeControl,
    /// Its connections, by the cluster's number for them, each with its worker.
    pub(super) clients: BTreeMap<usize, (usize, TestClient)>,
    /// Connections over which other nodes forward, by the network's number, each with its worker.
    pub(super) forwarded: BTreeMap<u64, (usize, TestClient)>,
    /// Workers without a turn: they pass no boundary and serve no connection.
    pub held_workers: Vec<usize>,
    /// The control's notes.
    pub notes: Vec<String>,
    /// Its durable log, if it has one.
    pub log: Option<TestLog>,
}

impl TestNode {
    /// Its movers' pending work by name, with its count.
    pub fn movers_in_hand(&self) -> Vec<(&'static str, usize)> {
        self.movers.iter().flat_map(Mover::in_hand).collect()
    }

    /// Its movers measure this load.
    pub fn load(&mut self, now: Now, load: Load) {
        self.movers.iter_mut().for_each(|mover| mover.load(now.mono, load));
    }

    /// A node in a new incarnation, with what its durable log has.
    pub(super) fn new(
        info: NodeInfo,
        workers: u16,
        memory_bytes: u64,
        tuning: Tuning,
        now: Now,
        log: Option<TestLog>,
    ) -> TestNode {
        let memory = StoreConfig { is_durable: log.is_some(), ..StoreConfig::with_memory(memory_bytes) };
        let parts = parts_of(&info, workers, memory);
        log.iter().for_each(|log| log.recover(&parts.store));
        let (worker_ports, mover_ports) = connect(workers, MOVERS);
        let seed = u64::from(info.client_addr.port());
        let mut control = NodeControl::new(
            now.mono,
            info.clone(),
            StartNumber(info.incarnation.0),
            None,
            parts.clone(),
            MOVERS,
            tuning,
        );
        control.set_log_since(log.as_ref().map(|log| log.since));
        TestNode {
            workers: worker_ports
                .into_iter()
                .enumerate()
                .map(|(index, ports)| {
                    Worker::new(&parts, WorkerIndex(index as u16), ports, seed + index as u64)
                })
                .collect(),
            movers: mover_ports
                .into_iter()
                .enumerate()
                .map(|(index, ports)| Mover::new(&parts, MoverIndex(index as u16), MOVERS, ports))
                .collect(),
            control,
            parts,
            info,
            clients: BTreeMap::new(),
            forwarded: BTreeMap::new(),
            held_workers: Vec::new(),
            notes: Vec::new(),
            log,
        }
    }

    /// Does everything due now; returns whether there was anything.
    pub(super) fn step(&mut self, me: usize, now: Now, ids: &[NodeId], network: &mut Network) -> bool {
        let mut progress = self.step_workers(now);
        progress |= self.step_forwarding(me, now, ids, network);
        progress |= self.step_movers(me, now, ids, network);
        progress |= self.step_control(now, network);
        progress |= self.log.as_mut().is_some_and(|log| log.step(&self.parts));
        progress
    }

    pub(super) fn step_workers(&mut self, now: Now) -> bool {
        let mut progress = false;
        for (index, worker) in self.workers.iter_mut().enumerate() {
            if self.held_workers.contains(&index) {
                continue;
            }
            let changed = worker.turn();
            progress |= changed;
            let all = self.clients.values_mut().chain(self.forwarded.values_mut());
            let mut mine: Vec<&mut TestClient> =
                all.filter(|(on, _)| *on == index).map(|(_, client)| client).collect();
            if changed | worker.collect_digests() | worker.take_lines_due() {
                mine.iter_mut().for_each(|client| client.push(worker));
            }
            while let Some(ticket) = worker.poll_woken() {
                mine.iter_mut().for_each(|client| client.wake(ticket));
                progress = true;
            }
            for client in mine {
                progress |= client.serve(worker, now);
            }
            // Movers check their queues at every step.
            while worker.poll_notify().is_some() {
                progress = true;
            }
            // So do workers.
            while worker.poll_wake_worker().is_some() {
                progress = true;
            }
        }
        progress
    }

    /// Carries workers' forwarded requests, and their answers to other nodes.
    fn step_forwarding(&mut self, me: usize, now: Now, ids: &[NodeId], network: &mut Network) -> bool {
        let mut progress = false;
        for (index, worker) in self.workers.iter_mut().enumerate() {
            if self.held_workers.contains(&index) {
                continue;
            }
            if worker.poll_timeout().is_some_and(|due| due <= now.mono) {
                worker.pass_time(now);
                progress = true;
            }
            while let Some(event) = worker.poll_forward() {
                progress = true;
                match event {
                    ForwardEvent::Connect { link, node, version, .. } => {
                        let peer = ids.iter().position(|&id| id == node).expect("the owner is a member");
                        network.open(Purpose::Forward { worker: index, link, version }, me, peer);
                    }
                    ForwardEvent::Send(link) => {
                        let mut out = Vec::new();
                        while worker.forward_output(link, &mut out) {}
                        if let Some(connection) = network.forwarding(me, index, link)
                            && !out.is_empty()
                        {
                            network.send_bytes(connection, Side::Acceptor, out);
                        }
                    }
                    ForwardEvent::Close(link) => {
                        if let Some(connection) = network.forwarding(me, index, link) {
                            network.close(connection, Side::Opener);
                        }
                    }
                }
            }
        }
        for (&connection, (_, client)) in &mut self.forwarded {
            let out = client.take_output();
            if !out.is_empty() {
                network.send_bytes(connection, Side::Opener, out);
                progress = true;
            }
        }
        progress
    }

    fn step_movers(&mut self, me: usize, now: Now, ids: &[NodeId], network: &mut Network) -> bool {
        let mut progress = false;
        for mover in &mut self.movers {
            mover.turn(now.mono);
            let mine: Vec<(u64, Side)> = (network.standing())
                .filter(|(_, c)| is_lane_of(c.purpose, mover.index()))
                .flat_map(|(id, c)| {
                    let sides = [(id, Side::Opener), (id, Side::Acceptor)];
                    sides.map(|(id, side)| (c.node(side) == me).then_some((id, side)))
                })
                .flatten()
                .collect();
            for (connection, side) in mine {
                let mut out = Vec::new();
                while out.len() < LINK_OUTPUT_BYTES
                    && mover.poll_transmit(now.mono, Link(connection), &mut out)
                {}
                if !out.is_empty() {
                    network.send_bytes(connection, side.other(), out);
                    progress = true;
                }
            }
            while let Some(event) = mover.poll_event() {
                progress = true;
                match event {
                    MoverEvent::Connect { migration, lane, peer } => {
                        let peer = ids.iter().position(|&id| id == peer).expect("the source is a member");
                        network.open(Purpose::Lane(migration, lane), me, peer);
                    }
                    MoverEvent::Close(link, _) => {
                        let side = match network.connections.get(&link.0) {
                            Some(connection) if connection.opener == me => Side::Opener,
                            _ => Side::Acceptor,
                        };
                        network.close(link.0, side);
                    }
                    MoverEvent::Report(migration, report) => {
                        self.control.handle(now.mono, ControlInput::Mover(migration, report));
                    }
                }
            }
            while mover.poll_notify().is_some() {
                progress = true;
            }
        }
        progress
    }

    fn step_control(&mut self, now: Now, network: &mut Network) -> bool {
        let mut progress = false;
        for (&key, (_, client)) in &mut self.clients {
            if let Waits::Control(_) = client.waits {
                let Waits::Control(request) = std::mem::replace(&mut client.waits, Waits::Answer) else {
                    unreachable!("looked at above")
                };
                self.control.handle(now.mono, ControlInput::Request { tag: key as u64, request });
                progress = true;
            }
        }
        self.control.handle(now.mono, ControlInput::Timer);
        while let Some(message) = self.control.poll_transmit() {
            network.send_to_coordinator(message);
        }
        while let Some(event) = self.control.poll_event() {
            progress = true;
            match event {
                // Workers check the barrier at every step.
                ControlEvent::NotifyWorkers | ControlEvent::Joined(_) => {}
                // Its log has no copies.
                ControlEvent::Copies(_) | ControlEvent::TakeOver(_) => {}
                ControlEvent::Mover(mover, command) => {
                    self.movers[usize::from(mover.0)].command(now.mono, command);
                }
                ControlEvent::Reply { tag, reply } => {
                    if let Some((worker, client)) = self.clients.get_mut(&(tag as usize)) {
                        client.answer(&self.workers[*worker], &reply);
                    }
                }
                ControlEvent::JoinRefused(why) | ControlEvent::Note(why) => self.notes.push(why),
                ControlEvent::Superseded => self.notes.push("superseded".into()),
                ControlEvent::LogFate(..) => {}
            }
        }
        progress
    }

    /// A connection is gone, even a waiting one.
    pub(super) fn drop_client(&mut self, worker: usize, mut client: TestClient) {
        let session = client.session();
        let tickets: Vec<_> = session.ticket().into_iter().chain(session.aside_tickets()).collect();
        tickets.into_iter().for_each(|ticket| self.workers[worker].forget(ticket));
    }

    /// When this node wants its next turn.
    pub(super) fn next_timeout_us(&self, now: Now) -> Option<u64> {
        let movers = self.movers.iter().filter_map(|mover| mover.poll_timeout(now.mono));
        let workers = self.workers.iter().filter_map(Worker::poll_timeout);
        movers.chain(workers).chain(self.control.poll_timeout(now.mono)).map(|at| at.0).min()
    }
}

fn is_lane_of(purpose: Purpose, mover: MoverIndex) -> bool {
    matches!(purpose, Purpose::Lane(migration, _) if MoverIndex::of(migration, usize::from(MOVERS)) == mover)
}
