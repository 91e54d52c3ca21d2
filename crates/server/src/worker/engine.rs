//! The state shared by one worker's connections: the worker itself, and the buffers for a turn of any of
//! them.
//!
//! Requests are read into one buffer and answered into another, both of the worker, so that an idle
//! connection holds no buffer at all and a busy one finds them in the cache.

use super::WorkerLink;
use super::forward::LinkHandle;
use super::waits::Waits;
use super::watch::Watch;
use crate::clock::Clock;
use crate::control::ControlCall;
use crate::control::forwarding::WantedLink;
use crate::durable_log::LogRequests;
use crate::limits::ClientLimits;
use crate::mover::MoverLink;
use sidle_node::{
    EXPIRY_SLICE_US, ExpiryEffort, ForwardEvent, ForwardLink, NodeShared, Now, Shown, Worker, WorkerStats,
};
use sidle_resp::RespVersion;
use sidle_types::{MapEpoch, MonotonicUs};
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;
use std::sync::Arc;
use std::task::Waker;
use std::time::Duration;
use tokio::sync::mpsc;

/// How much is read in one call.
pub(super) const READ_BYTES: usize = 64 << 10;
/// The longest unfinished request that is joined with the next read in the shared buffer. A longer one is
/// read straight into the connection's own buffer.
pub(super) const JOIN_BYTES: usize = 16 << 10;
/// A shorter read waits until other connections have read too: a round. A longer one is
/// a batch by itself, or not worth a copy.
pub(super) const ROUND_BYTES: usize = 512;
/// How many buffers for waiting reads are kept.
const ROUND_BUFFERS: usize = 64;
/// The shared output buffer frees its memory if it has grown beyond this.
const OUTPUT_KEEP_BYTES: usize = 4 << 20;

/// How many values with a deadline are checked between two readings of the clock.
const EXPIRE_AT_ONCE: usize = 256;

/// A worker's engine, shared by the tasks of its thread.
pub(super) type SharedEngine = Rc<RefCell<Engine>>;

/// How a worker reaches the node's other threads.
pub(super) struct OtherThreads {
    pub(super) movers: Vec<Arc<MoverLink>>,
    /// All workers, this one among them.
    pub(super) workers: Vec<Arc<WorkerLink>>,
    pub(super) control: mpsc::UnboundedSender<ControlCall>,
    /// Whom to ask for commits, on a node with a durable log.
    pub(super) log: Option<Arc<LogRequests>>,
}

/// One worker's shared state.
pub(super) struct Engine {
    pub(super) worker: Worker,
    movers: Vec<Arc<MoverLink>>,
    pub(super) shared: Arc<NodeShared>,
    pub(super) stats: Arc<WorkerStats>,
    pub(super) limits: ClientLimits,
    pub(super) control: mpsc::UnboundedSender<ControlCall>,
    clock: Clock,
    expiry: ExpiryEffort,
    /// `JOIN_BYTES` for the start of an unfinished request, then `READ_BYTES` for the read.
    pub(super) input: Box<[u8]>,
    /// The replies of one turn of one connection.
    pub(super) output: Vec<u8>,
    /// Buffers for reads that wait for their round.
    round_buffers: Vec<Vec<u8>>,
    pub(super) waits: Waits,
    pub(super) watch: Watch,
    /// All workers: woken when one of their connections is to end, or may go on.
    workers: Vec<Arc<WorkerLink>>,
    /// How many endings this worker has followed, and how many it has announced to all.
    endings_followed: u64,
    endings_announced: u64,
    /// Connections to other nodes over which the worker forwards.
    links: BTreeMap<ForwardLink, Rc<LinkHandle>>,
    /// Whom to ask for commits, on a node with a durable log.
    log: Option<Arc<LogRequests>>,
    /// Connections whose replies wait for a commit.
    held: Vec<(Shown, Waker)>,
    /// The tablet map for which opted-in clients have been woken.
    told_map: MapEpoch,
    /// When the thread wakes for the end of a wait.
    wakes_at: Option<MonotonicUs>,
}

impl Engine {
    pub(super) fn new(
        mut worker: Worker,
        others: OtherThreads,
        shared: Arc<NodeShared>,
        limits: ClientLimits,
        clock: Clock,
    ) -> SharedEngine {
        let OtherThreads { movers, workers, control, log } = others;
        worker.measure_with(move || clock.mono_ns());
        Rc::new(RefCell::new(Engine {
            stats: Arc::clone(&shared.workers[usize::from(worker.index().0)]),
            worker,
            movers,
            shared,
            limits,
            control,
            clock,
            expiry: ExpiryEffort::default(),
            input: vec![0; JOIN_BYTES + READ_BYTES].into(),
            output: Vec::with_capacity(READ_BYTES),
            round_buffers: Vec::new(),
            waits: Waits::default(),
            watch: Watch::default(),
            workers,
            endings_followed: 0,
            endings_announced: 0,
            links: BTreeMap::new(),
            log,
            held: Vec::new(),
            told_map: MapEpoch::default(),
            wakes_at: None,
        }))
    }

    /// Both clocks, read once.
    #[inline]
    pub(super) fn now(&self) -> Now {
        let reading_ns = self.clock.mono_ns();
        let mono = MonotonicUs(reading_ns / 1000);
        let (wall, wall_micros) = (self.clock.wall(mono), self.clock.wall_micros(mono));
        Now { mono, wall, wall_micros, reading_ns }
    }

    /// A turn of the worker that no connection requested.
    pub(super) fn turn(&mut self) -> Now {
        let now = self.now();
        self.worker.turn();
        if self.worker.next_end_of_wait().is_some_and(|end| end <= now.mono) {
            self.worker.pass_time(now);
        }
        if let Some(log) = self.log.as_ref().filter(|_| self.worker.awaits_commit()) {
            log.ask();
        }
        self.release_held();
        let endings = self.shared.clients.endings();
        if endings != self.endings_followed {
            self.endings_followed = endings;
            self.watch.wake_ending();
        }
        let map = self.worker.ranges().map().epoch();
        if map != self.told_map {
            self.told_map = map;
            self.waits.wake_aware();
        }
        if self.worker.collect_digests() {
            self.waits.wake_subscribed();
        }
        if self.worker.take_lines_due() {
            self.waits.wake_monitors();
        }
        self.after_serving();
        now
    }

    /// Whether replies that show this may be sent now.
    #[inline]
    pub(super) fn may_send(&self, shown: Shown) -> bool {
        self.log.is_none() || self.worker.may_send(shown, || self.clock.mono())
    }

    /// A connection's replies wait for a commit, or for the node's lease: it is woken once they may be sent.
    #[cold]
    pub(super) fn hold(&mut self, shown: Shown, waker: Waker) {
        self.held.push((shown, waker));
        self.await_release();
    }

    /// Wakes the connections whose replies may be sent.
    fn release_held(&mut self) {
        if !self.held.is_empty() {
            self.wake_held();
            self.await_release();
        }
    }

    fn wake_held(&mut self) {
        let (worker, clock) = (&self.worker, &self.clock);
        self.held.retain(|(shown, waker)| {
            let waits = !worker.may_send(*shown, || clock.mono());
            if !waits {
                waker.wake_by_ref();
            }
            waits
        });
    }

    /// Has this worker woken once replies that are held may be sent. Asks for a commit if any waits for one:
    /// without a lease another one would wake this worker, and it would ask again.
    fn await_release(&mut self) {
        if self.held.is_empty() {
            return;
        }
        self.workers[usize::from(self.worker.index().0)].hold_replies();
        // The lease may have been renewed just now.
        self.wake_held();
        let safe = self.worker.safe_commit();
        if let Some(log) =
            self.log.as_ref().filter(|_| self.held.iter().any(|(shown, _)| shown.commit > safe))
        {
            log.ask();
        }
    }

    /// The work of a few times a second: follow the wall clock, end connections whose time is over,
    /// check what waits for other nodes, and search for expired keys that nobody requests.
    pub(super) fn tick(&mut self) {
        self.clock.follow_wall_clock();
        let now = self.clock.mono();
        let idle_seconds = self.shared.config.idle_seconds();
        self.watch.tick(&self.shared.clients, now, self.clock.wall(now), idle_seconds);
        self.keep_clients_small();
        self.announce_endings();
        self.worker.pass_time(self.now());
        self.worker.hand_over_heat(now);
        self.after_serving();
        self.expiry.tick();
    }

    /// How long the thread may sleep, as far as the ends of waits go.
    pub(super) fn sleeps_for(&mut self) -> Option<Duration> {
        self.wakes_at = self.worker.next_end_of_wait();
        self.wakes_at.map(|end| Duration::from_micros(end.since(self.clock.mono())))
    }

    /// Whether more expired keys may remain than were removed since the last tick.
    pub(super) fn has_more_to_expire(&self) -> bool {
        self.expiry.goes_on()
    }

    /// If there are many expired keys, removes them for no longer than a client may have to wait.
    pub(super) fn expire(&mut self) {
        let started = self.clock.mono();
        let mut spent_us = 0;
        while self.expiry.goes_on() && spent_us < EXPIRY_SLICE_US {
            let sweep = self.worker.expire(self.now(), EXPIRE_AT_ONCE);
            let us = self.clock.mono().since(started);
            self.expiry.spent(sweep, us - spent_us);
            spent_us = us;
        }
    }

    /// Passes the worker's output on to movers and other connections; call it after every use
    /// of it.
    #[inline]
    pub(super) fn after_serving(&mut self) {
        while let Some(mover) = self.worker.poll_notify() {
            self.movers[usize::from(mover.0)].wake();
        }
        while let Some(worker) = self.worker.poll_wake_worker() {
            self.workers[usize::from(worker.0)].wake();
        }
        while let Some(event) = self.worker.poll_forward() {
            self.follow_forwarding(event);
        }
        while let Some(ticket) = self.worker.poll_woken() {
            self.waits.wake(ticket);
        }
        if self.shared.clients.endings() != self.endings_announced {
            self.announce_endings();
        }
        if let Some(end) = self.worker.next_end_of_wait()
            && self.wakes_at.is_none_or(|wakes_at| end < wakes_at)
        {
            self.wakes_at = Some(end);
            self.workers[usize::from(self.worker.index().0)].wake();
        }
    }

    /// Makes every worker look for connections that are to end.
    #[cold]
    fn announce_endings(&mut self) {
        let endings = self.shared.clients.endings();
        if endings != self.endings_announced {
            self.endings_announced = endings;
            self.workers.iter().for_each(|worker| worker.wake());
            // Those of this worker go before other ready ones.
            self.endings_followed = endings;
            self.watch.wake_ending();
        }
    }

    /// Ends the largest connections if all of them together exceed their bound.
    pub(super) fn keep_clients_small(&mut self) {
        let Some(most_bytes) = self.shared.config.client_bytes() else { return };
        if self.shared.clients.memory_bytes() <= most_bytes {
            return;
        }
        for client in self.shared.clients.evict(most_bytes) {
            tracing::warn!(
                "closed {}: it held {} bytes of requests and replies, the most of all clients, which \
                 together held more than {most_bytes} (maxmemory-clients)",
                client.address,
                client.held_bytes(),
            );
        }
        self.announce_endings();
    }

    #[cold]
    fn follow_forwarding(&mut self, event: ForwardEvent) {
        match event {
            ForwardEvent::Connect { link, node, address, version } => {
                let (worker, is_resp3) = (self.worker.index(), version == RespVersion::Resp3);
                let wanted = WantedLink { worker, link, to: node, address, is_resp3 };
                // Without a control thread the process is ending.
                let _ = self.control.send(ControlCall::Link(wanted));
            }
            ForwardEvent::Send(link) => {
                if let Some(handle) = self.links.get(&link) {
                    handle.send();
                }
            }
            ForwardEvent::Close(link) => {
                if let Some(handle) = self.links.remove(&link) {
                    handle.close();
                }
            }
        }
    }

    /// A connection to another node is open. Returns whether it is still wanted.
    pub(super) fn link_opened(&mut self, link: ForwardLink, handle: Rc<LinkHandle>) -> bool {
        self.links.insert(link, handle);
        let is_wanted = self.worker.forward_connected(self.clock.mono(), link);
        if !is_wanted {
            self.links.remove(&link);
        }
        self.after_serving();
        is_wanted
    }

    /// A connection to another node has ended, or could not be opened.
    pub(super) fn link_lost(&mut self, link: ForwardLink) {
        self.links.remove(&link);
        self.worker.forward_lost(self.now(), link);
        self.after_serving();
    }

    /// Bytes arrived from another node.
    pub(super) fn link_received(&mut self, link: ForwardLink, bytes: &[u8]) {
        self.worker.forward_received(self.now(), link, bytes);
        self.after_serving();
        // They count for the waiting client, whose connection has no turn for that.
        self.keep_clients_small();
    }

    /// The next output to another node.
    pub(super) fn link_output(&mut self, link: ForwardLink, out: &mut Vec<u8>) {
        self.worker.forward_output(link, out);
        self.after_serving();
    }

    /// A copy of the read bytes, for a connection that waits until others have read.
    #[inline]
    pub(super) fn round_buffer(&mut self, length: usize) -> Vec<u8> {
        let mut buffer = self.round_buffers.pop().unwrap_or_else(|| Vec::with_capacity(ROUND_BYTES));
        buffer.extend_from_slice(&self.input[JOIN_BYTES..JOIN_BYTES + length]);
        buffer
    }

    /// Takes back a connection's buffer that is needed no longer.
    #[inline]
    pub(super) fn give_back(&mut self, mut buffer: Vec<u8>) {
        if buffer.capacity() == ROUND_BYTES && self.round_buffers.len() < ROUND_BUFFERS {
            buffer.clear();
            self.round_buffers.push(buffer);
        }
    }

    /// Call it before any write to the shared output buffer, which is empty: leftovers in
    /// it would be another client's.
    #[inline]
    pub(super) fn begin_output(&mut self) {
        debug_assert!(self.output.is_empty(), "replies of another connection were left");
        self.output.clear();
    }

    /// Empties the shared output buffer.
    #[inline]
    pub(super) fn clear_output(&mut self) {
        self.output.clear();
        if self.output.capacity() > OUTPUT_KEEP_BYTES {
            self.output = Vec::with_capacity(READ_BYTES);
        }
    }
}
