//! What the connections of one worker share: the worker itself, and the buffers that a turn of any of them uses.
//!
//! Requests are read into one buffer and answered into another, both of the worker, so that an idle connection holds
//! no buffer at all and a busy one finds them in the cache.

use super::waits::{ConnectionId, Waits};
use crate::clock::Clock;
use crate::control::ControlCall;
use crate::limits::ClientLimits;
use crate::mover::MoverLink;
use sidle_node::{EXPIRY_SLICE_US, ExpiryEffort, NodeShared, Now, Worker, WorkerStats};
use sidle_types::MapEpoch;
use std::cell::RefCell;
use std::rc::Rc;
use std::sync::Arc;
use tokio::sync::mpsc;

/// How much is read at once.
pub(super) const READ_BYTES: usize = 64 << 10;
/// The longest unfinished request that is joined with what is read next in the shared buffer. A longer one is read
/// straight into the connection's own buffer.
pub(super) const JOIN_BYTES: usize = 16 << 10;
/// What is read and shorter than this waits until other connections have read too: a round. What is longer is a batch by itself, or not
/// worth a copy.
pub(super) const ROUND_BYTES: usize = 512;
/// How many buffers for that are kept.
const ROUND_BUFFERS: usize = 64;
/// The shared output buffer gives its memory back when it has grown beyond this.
const OUTPUT_KEEP_BYTES: usize = 4 << 20;

/// How many values with a deadline are looked at between two looks at the clock.
const EXPIRE_AT_ONCE: usize = 256;

/// A worker's engine, shared by the tasks of its thread.
pub(super) type SharedEngine = Rc<RefCell<Engine>>;

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
    /// `JOIN_BYTES` for the start of an unfinished request, then `READ_BYTES` for what is read.
    pub(super) input: Box<[u8]>,
    /// The replies of one turn of one connection.
    pub(super) output: Vec<u8>,
    /// Buffers for what waits until its round has been read.
    round_buffers: Vec<Vec<u8>>,
    pub(super) waits: Waits,
    /// The tablet map that opted-in clients have been woken for.
    told_map: MapEpoch,
    last_connection: ConnectionId,
}

impl Engine {
    pub(super) fn new(
        worker: Worker,
        movers: Vec<Arc<MoverLink>>,
        shared: Arc<NodeShared>,
        limits: ClientLimits,
        control: mpsc::UnboundedSender<ControlCall>,
        clock: Clock,
    ) -> SharedEngine {
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
            told_map: MapEpoch::default(),
            last_connection: 0,
        }))
    }

    /// Both clocks, read once.
    #[inline]
    pub(super) fn now(&self) -> Now {
        let mono = self.clock.mono();
        Now { mono, wall: self.clock.wall(mono) }
    }

    /// A turn of the worker that no connection asked for.
    pub(super) fn turn(&mut self) -> Now {
        let now = self.now();
        self.worker.turn();
        let map = self.worker.ranges().map().epoch();
        if map != self.told_map {
            self.told_map = map;
            self.waits.wake_aware();
        }
        self.after_serving();
        now
    }

    /// What is done a few times a second: the wall clock is followed, and expired keys are looked for that nobody asks for.
    pub(super) fn tick(&mut self) {
        self.clock.follow_wall_clock();
        self.expiry.tick();
    }

    /// Whether there may be more expired keys than were removed since the last tick.
    pub(super) fn has_more_to_expire(&self) -> bool {
        self.expiry.goes_on()
    }

    /// Removes expired keys for as long as a client may have to wait for that, if there are many.
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

    /// Passes on what the worker has to say to movers and to other connections; to be called after every use of it.
    #[inline]
    pub(super) fn after_serving(&mut self) {
        while let Some(mover) = self.worker.poll_notify() {
            self.movers[usize::from(mover.0)].wake();
        }
        while let Some(ticket) = self.worker.poll_woken() {
            self.waits.wake(ticket);
        }
    }

    /// A copy of what was read, for a connection that waits until others have read.
    #[inline]
    pub(super) fn round_buffer(&mut self, length: usize) -> Vec<u8> {
        let mut buffer = self.round_buffers.pop().unwrap_or_else(|| Vec::with_capacity(ROUND_BYTES));
        buffer.extend_from_slice(&self.input[JOIN_BYTES..JOIN_BYTES + length]);
        buffer
    }

    /// Takes back a connection's buffer, of which nothing is needed any more.
    #[inline]
    pub(super) fn give_back(&mut self, mut buffer: Vec<u8>) {
        if buffer.capacity() == ROUND_BYTES && self.round_buffers.len() < ROUND_BUFFERS {
            buffer.clear();
            self.round_buffers.push(buffer);
        }
    }

    /// Empties the shared output buffer.
    #[inline]
    pub(super) fn clear_output(&mut self) {
        self.output.clear();
        if self.output.capacity() > OUTPUT_KEEP_BYTES {
            self.output = Vec::with_capacity(READ_BYTES);
        }
    }

    /// A number for a new connection.
    pub(super) fn next_connection(&mut self) -> ConnectionId {
        self.last_connection += 1;
        self.last_connection
    }
}
