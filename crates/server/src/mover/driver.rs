//! A mover with the output of its connections.

use crate::clock::{Clock, process_cpu_us, thread_cpu_us};
use crate::mover::MoverReports;
use crate::mover::spare_cores::SpareCoresProbe;
use crate::output::{Output, shut_down};
use crate::repeated::Repeated;
use crate::worker::WorkerLink;
use sidle_node::{Link, Mover, MoverCommand, MoverEvent, NodeParts};
use sidle_pacing::{Load, OwnTime, probe_after_us};
use sidle_types::{MigrationId, MonotonicUs, NodeId};
use sidle_wire::{Lane, Message};
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::ops::Bound::{Excluded, Unbounded};
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use tokio::net::TcpStream;
use tokio::sync::Notify;

/// A connection gets more to send while less than this waits. Small enough that urgent data on another
/// connection does not wait for long; large enough to keep a fast network busy.
const SHORT_OUTPUT_BYTES: usize = 512 << 10;
/// After this many bytes of records the node's load is measured anew.
const PIECE_BYTES: usize = 16 << 10;
/// A connection that the mover asks for.
pub(super) struct Wanted {
    pub(super) migration: MigrationId,
    pub(super) lane: Lane,
    pub(super) peer: NodeId,
}

/// The mover, and its surroundings.
pub(super) struct Driver {
    mover: Mover,
    parts: NodeParts,
    workers: Vec<Arc<WorkerLink>>,
    reports: MoverReports,
    own_time: OwnTime,
    spare_cores: SpareCoresProbe,
    clock: Clock,
    /// The slowest worker's lag at the last probe.
    worker_lag_us: u64,
    /// When the next probe is due.
    next_probe: MonotonicUs,
    pub(super) outputs: BTreeMap<Link, Output>,
    last_link: u64,
    /// Connections to be opened by tasks.
    pub(super) wanted: Vec<Wanted>,
    /// Notified when there are some.
    pub(super) wanted_added: Rc<Notify>,
    /// What was logged of sources that cannot be reached.
    pub(super) complaints: Repeated,
}

impl Driver {
    pub(super) fn new(
        mover: Mover,
        parts: NodeParts,
        workers: Vec<Arc<WorkerLink>>,
        reports: MoverReports,
        own_time: OwnTime,
        clock: Clock,
    ) -> Rc<RefCell<Driver>> {
        Rc::new(RefCell::new(Driver {
            mover,
            parts,
            workers,
            reports,
            own_time,
            spare_cores: SpareCoresProbe::default(),
            clock,
            worker_lag_us: 0,
            next_probe: MonotonicUs(0),
            outputs: BTreeMap::new(),
            last_link: 0,
            wanted: Vec::new(),
            wanted_added: Rc::default(),
            complaints: Repeated::default(),
        }))
    }

    fn now(&self) -> MonotonicUs {
        self.clock.mono()
    }

    /// When something is due that only time brings.
    pub(super) fn due(&self) -> Option<MonotonicUs> {
        let probe = (!self.mover.is_idle()).then_some(self.next_probe);
        self.mover.poll_timeout(self.now()).into_iter().chain(probe).min()
    }

    /// Does a piece of work and takes the mover's output.
    fn at_work(&mut self, work: impl FnOnce(&mut Driver)) {
        self.own_time.begin(thread_cpu_us);
        work(self);
        self.drain();
        self.own_time.end(thread_cpu_us);
    }

    /// Handles the workers' messages, and the passing of time.
    pub(super) fn turn(&mut self) {
        self.at_work(|driver| driver.mover.turn(driver.now()));
    }

    /// Handles the control thread's command.
    pub(super) fn command(&mut self, command: MoverCommand) {
        let (migration, step) = &command;
        tracing::debug!("migration {migration}: {}", step.name());
        self.at_work(|driver| driver.mover.command(driver.now(), command));
    }

    /// Handles the passing of time without other input. Now and then probes the slowest worker's
    /// lag.
    pub(super) fn measure_again(&mut self) {
        self.at_work(|driver| {
            let now = driver.now();
            if now >= driver.next_probe && !driver.mover.is_idle() {
                let lags = driver.workers.iter().map(|worker| worker.probe_lag_us(now.0));
                driver.worker_lag_us = lags.max().unwrap_or(0);
                driver.next_probe = now.plus_us(probe_after_us(driver.worker_lag_us));
            }
            driver.measure();
        });
    }

    /// Reports the node's load to the mover; call it between pieces of work.
    fn measure(&mut self) {
        let (now, mover_cpu_us, node_cpu_us) =
            (self.now(), self.own_time.used_us(thread_cpu_us), process_cpu_us());
        // On a worker's thread it has no core to itself.
        let spare_permille = match self.own_time.is_of_turns() {
            true => 0,
            false => self.spare_cores.permille(now.0, mover_cpu_us, node_cpu_us),
        };
        let load = Load { worker_lag_us: self.worker_lag_us, mover_cpu_us, node_cpu_us, spare_permille };
        self.mover.load(now, load);
    }

    /// A name for a new connection.
    pub(super) fn add(&mut self, stream: Rc<TcpStream>) -> Link {
        self.last_link += 1;
        let link = Link(self.last_link);
        self.outputs.insert(link, Output::new(stream));
        link
    }

    /// Hands the mover a connection that it asked for.
    pub(super) fn connected(&mut self, wanted: &Wanted, link: Link) {
        self.at_work(|driver| driver.mover.connected(driver.now(), wanted.migration, wanted.lane, link));
    }

    /// Reports that a connection could not be opened.
    pub(super) fn connect_failed(&mut self, wanted: &Wanted) {
        self.at_work(|driver| driver.mover.connect_failed(driver.now(), wanted.migration, wanted.lane));
    }

    /// A message arrived. Its requests are sent before its records are replayed, so that the next
    /// records are under way meanwhile.
    pub(super) fn message(&mut self, link: Link, message: Message<'_>) {
        self.at_work(|driver| {
            if let Some(pending) = driver.mover.message(driver.now(), link, message) {
                driver.drain();
                driver.mover.replay(driver.now(), pending);
                driver.measure();
            }
        });
    }

    /// A connection ended by itself.
    pub(super) fn closed(&mut self, link: Link) {
        if let Some(output) = self.outputs.remove(&link) {
            output.waiting.notify_one();
            self.at_work(|driver| driver.mover.closed(driver.now(), link));
        }
    }

    /// Another node's bus address, by the workers' map.
    pub(super) fn bus_address(&self, node: NodeId) -> Option<String> {
        let table = self.parts.published.table();
        table.map().node(node).map(|info| info.bus_addr.to_string())
    }

    /// A connection takes more output.
    pub(super) fn write_on(&mut self) {
        self.at_work(|_| {});
    }

    /// Takes all of the mover's output.
    fn drain(&mut self) {
        let now = self.now();
        while let Some(event) = self.mover.poll_event() {
            self.follow(event);
        }
        let mut given_bytes = 0;
        let mut after = Unbounded;
        while let Some((&link, _)) = self.outputs.range((after, Unbounded)).next() {
            given_bytes += self.give(now, link);
            after = Excluded(link);
        }
        if given_bytes > 0 {
            self.parts.shared.gauges.migration.bytes_sent.fetch_add(given_bytes, Relaxed);
        }
        while let Some(worker) = self.mover.poll_notify() {
            self.workers[usize::from(worker.0)].wake();
        }
    }

    /// Moves the mover's output to a connection, and to its socket; returns how many bytes
    /// it was.
    fn give(&mut self, now: MonotonicUs, link: Link) -> u64 {
        let mut given_bytes = 0;
        loop {
            let Some(output) = self.outputs.get_mut(&link) else { return given_bytes };
            if output.pending() >= SHORT_OUTPUT_BYTES {
                break;
            }
            let before = output.bytes.len();
            if !self.mover.poll_transmit(now, link, &mut output.bytes) {
                break;
            }
            let piece_bytes = output.bytes.len() - before;
            given_bytes += piece_bytes as u64;
            if piece_bytes >= PIECE_BYTES {
                self.measure();
            }
        }
        if let Some(output) = self.outputs.get_mut(&link) {
            let has_more = output.pending() >= SHORT_OUTPUT_BYTES;
            match output.write() {
                // The writer continues, with what waits or with further output.
                Ok(()) if has_more || output.pending() > 0 => output.waiting.notify_one(),
                Ok(()) => {}
                // The reader detects it, and reports the connection closed.
                Err(_) => shut_down(&output.stream),
            }
        }
        given_bytes
    }

    fn follow(&mut self, event: MoverEvent) {
        match event {
            MoverEvent::Connect { migration, lane, peer } => {
                self.wanted.push(Wanted { migration, lane, peer });
                self.wanted_added.notify_one();
            }
            MoverEvent::Close(link, why) => {
                if let Some(mut output) = self.outputs.remove(&link) {
                    tracing::debug!("closing a connection to another node: {why}");
                    // The other end may want to read why; a failure to send it does not matter.
                    let _ = output.write();
                    output.waiting.notify_one();
                    shut_down(&output.stream);
                }
            }
            MoverEvent::Report(migration, report) => {
                tracing::debug!("migration {migration}: {report:?}");
                // Without a control thread the process is ending.
                let _ = self.reports.send((migration, report));
            }
        }
    }
}
