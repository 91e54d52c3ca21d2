//! One worker: everything that a serving thread needs to run commands.
//!
//! Purpose: binds a snapshot of the range table, an append head, the queues to the movers and the parked
//! commands to the thread that uses them.
//!
//! Call order, for its driver: [`turn`](Worker::turn) whenever the thread was notified and at least every few
//! milliseconds; then [`poll_woken`](Worker::poll_woken) until `None`, serving each ticket's connection
//! again; [`serve`](Worker::serve) for every connection with input, which may be [foreseen](Worker::foresee)
//! before; [`poll_notify`](Worker::poll_notify) until `None` before the thread sleeps. A control reply goes
//! through [`answer`](Worker::answer). Report a connection that closes while it is parked with
//! [`forget`](Worker::forget). After all of these call [`poll_forward`](Worker::poll_forward) and
//! [`poll_wake_worker`](Worker::poll_wake_worker) until `None`.
//! Report events and bytes of connections to other nodes as they happen.
//!
//! Invariants:
//! - W1 (D4, M2): the snapshot changes only in `turn` and at the start of `serve` and `execute`, never inside
//!   a command. The step of exports changes there too, and before joint commands make their own parts: a
//!   thread that slept has taken none meanwhile.
//! - W2: no method waits.
//!
//! Ownership: one thread for each worker.

use crate::admission::catalogue;
use crate::commands::commands;
use crate::config::Config;
use crate::current_table::{CurrentTable, Sleep};
use crate::digests::Digests;
use crate::dispatch::Dispatcher;
use crate::execute::Executor;
use crate::forward::{ForwardEvent, ForwardLink};
use crate::locks::{Helpers, OverNodes};
use crate::now::Now;
use crate::observe::Lap;
use crate::outcome::{ControlReply, Outcome};
use crate::queue::{MoverIndex, Ticket, WorkerIndex, WorkerPort};
use crate::range_table::RangeTable;
use crate::session::{Replies, Session};
use crate::shared::{NodeParts, NodeShared, ProcessFacts};
use crate::shown::Shown;
use sidle_heat::WorkerHeat;
use sidle_resp::{Args, ReplyWriter};
use sidle_store::ExpirySweep;
use sidle_types::{CommitNumber, Fill, KeyHash, MonotonicUs, Slot, fault};
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

/// A serving thread's state.
pub struct Worker {
    index: WorkerIndex,
    pub(crate) dispatcher: Dispatcher,
    published: Arc<CurrentTable>,
    /// The oldest publication in use, as reported.
    passed: u64,
    /// The requests that `serve` has read ahead; kept for their memory.
    pub(crate) read_ahead: Vec<Args>,
    /// What it has seen of pauses.
    pause_seen: (u64, u64),
    pub(crate) lap: Lap,
    pub(crate) heat: WorkerHeat,
    pub(crate) digests: Digests,
    /// Transactions that it decides in place of their coordinators.
    helpers: Helpers,
    over_nodes: OverNodes,
    /// Keys of foreseen requests, whose slots are being loaded.
    pub(crate) foreseen: Vec<(Slot, KeyHash)>,
    /// Whether replies since the last [`take_shown`](Worker::take_shown) show anything of the data.
    pub(crate) shows_data: bool,
    /// When commands began to run last, for a fault.
    began_at: MonotonicUs,
}

impl Worker {
    /// A worker of the node made of `parts`. `ports`: its ends of the queues, by mover. `seed`: for sampling.
    ///
    /// # Panics
    /// If there are more than [`MAX_MOVERS`](crate::MAX_MOVERS) movers, or the node has no counters for the
    /// worker.
    pub fn new(parts: &NodeParts, index: WorkerIndex, ports: Vec<WorkerPort>, seed: u64) -> Worker {
        Worker {
            index,
            dispatcher: Dispatcher::new(Executor::new(parts, index, seed), ports),
            published: Arc::clone(&parts.published),
            passed: 0,
            read_ahead: Vec::new(),
            pause_seen: (0, 0),
            lap: Lap::default(),
            heat: WorkerHeat::default(),
            digests: Digests::default(),
            helpers: Helpers::default(),
            over_nodes: OverNodes::default(),
            foreseen: Vec::new(),
            shows_data: false,
            began_at: MonotonicUs(0),
        }
    }

    /// Which worker it is.
    pub fn index(&self) -> WorkerIndex {
        self.index
    }

    /// From now on commands' durations are measured, with a nanosecond stopwatch that is cheap to read.
    /// [`Now::reading_ns`](crate::Now::reading_ns) must come from the same.
    pub fn measure_with(&mut self, stopwatch: impl Fn() -> u64 + Send + 'static) {
        self.dispatcher.executor.stopwatch = Box::new(stopwatch);
    }

    /// The stopwatch's reading.
    #[inline]
    pub fn reading_ns(&self) -> u64 {
        self.dispatcher.executor.reading_ns()
    }

    /// One turn of the loop: takes a new range table if there is one, handles the movers' messages, sends
    /// those that found a queue full. Returns whether the range table changed: opted-in connections are then
    /// due a push ([`write_pushes`](Worker::write_pushes)).
    pub fn turn(&mut self) -> bool {
        let changed = self.pass_boundary();
        self.dispatcher.parking.turn();
        let Dispatcher { blocked, executor, parking, .. } = &mut self.dispatcher;
        blocked.wake(executor, parking);
        self.pass_pause();
        let ended = self.dispatcher.executor.holds.ended();
        self.dispatcher.lines.holds_ended(ended, &mut self.dispatcher.parking);
        self.dispatcher.executor.stats.parked.set(self.dispatcher.parking.len() as u64);
        changed
    }

    /// Sees a pause of the clients, or its end; what waits for either looks again.
    #[inline]
    fn pass_pause(&mut self) {
        let Dispatcher { blocked, held_up, executor, parking, .. } = &mut self.dispatcher;
        let seen = executor.shared.pause.pass(self.index);
        if seen != self.pause_seen {
            self.pause_seen = seen;
            held_up.wake(parking);
            blocked.wake_keyless(parking);
        }
    }

    /// Visits about `budget` values with a deadline, from where the last call ended, and removes expired
    /// ones. Ends at the last position; the next call begins at the first. While clients are paused nothing
    /// is removed, as in Redis.
    pub fn expire(&mut self, now: Now, budget: usize) -> ExpirySweep {
        if self.dispatcher.executor.shared.pause.at(now.mono).is_some() {
            return ExpirySweep::default();
        }
        self.pass_boundary();
        self.dispatcher.executor.expire(now.wall, budget)
    }

    /// Call it a few times a second: what was counted of the keys and slots goes to the node once a second.
    pub fn hand_over_heat(&mut self, now: MonotonicUs) {
        let Executor { shared, random, .. } = &mut self.dispatcher.executor;
        self.heat.tick(&shared.heat, now, random.next());
    }

    /// Runs one request, name first, and appends its reply to `out`.
    ///
    /// # Panics
    /// On a request without arguments, which the parser's caller skips.
    pub fn execute(&mut self, now: Now, session: &mut Session, args: &[&[u8]], out: &mut Vec<u8>) -> Outcome {
        self.pass_boundary();
        self.dispatcher.executor.shared.access.keep_up(session);
        self.shows_data = true;
        self.dispatcher.execute(now, session, args, out)
    }

    /// The next parked command that may run again.
    pub fn poll_woken(&mut self) -> Option<Ticket> {
        loop {
            let ticket = self.dispatcher.parking.poll_woken()?;
            if !self.over_nodes.woken(ticket) {
                return Some(ticket);
            }
        }
    }

    /// The next mover whose thread to wake, since its queue is not empty.
    pub fn poll_notify(&mut self) -> Option<MoverIndex> {
        self.dispatcher.parking.poll_notify()
    }

    /// What replies have shown since the last call. The commit, of a node without a durable log, is 0.
    #[inline]
    pub fn take_shown(&mut self) -> Shown {
        let commit = std::mem::take(&mut self.dispatcher.executor.shown);
        Shown { commit, is_of_data: std::mem::take(&mut self.shows_data) }
    }

    /// The last safe commit of the durable log; of a node without one, 0.
    #[inline]
    pub fn safe_commit(&self) -> CommitNumber {
        if fault!(RepliesBeforeSafe) {
            return CommitNumber(u64::MAX);
        }
        self.dispatcher.executor.store.commits().map_or(CommitNumber::default(), |commits| commits.safe())
    }

    /// Whether replies that show this may be sent now: the commit is safe, and nobody has taken over the log
    /// with the data that they show. The clock is read after the commands ran, since the process may have
    /// stood still meanwhile.
    #[inline]
    pub fn may_send(&self, shown: Shown, now: impl FnOnce() -> MonotonicUs) -> bool {
        let now = || if fault!(LeaseCheckedBeforeExecuting) { self.began_at } else { now() };
        let lease = &self.dispatcher.executor.shared.durability.lease;
        shown.commit <= self.safe_commit() && (!shown.is_of_data || lease.lasts(now))
    }

    /// Commands begin to run.
    #[inline]
    pub(crate) fn note_begin(&mut self, now: MonotonicUs) {
        if fault!(LeaseCheckedBeforeExecuting) {
            self.began_at = now;
        }
    }

    /// Forgets a parked command: its connection is gone.
    pub fn forget(&mut self, ticket: Ticket) {
        self.dispatcher.leave(ticket);
        self.pass_tables();
        self.dispatcher.executor.stats.parked.set(self.dispatcher.parking.len() as u64);
    }

    /// Whether this ticket is of a transaction over several nodes, which is carried out here.
    pub fn is_over_nodes(&self, ticket: Ticket) -> bool {
        self.dispatcher.execs.has(ticket)
    }

    /// Whether a parked command waits for a whole range to arrive: it walks over keys.
    pub fn awaits_range(&self, ticket: Ticket) -> bool {
        self.dispatcher.parking.awaits_range(ticket)
    }

    /// How many commands are parked here.
    pub fn parked(&self) -> usize {
        self.dispatcher.parking.len()
    }

    /// The fill of its queues. `connections`: how many of its commands may wait at once: one a connection,
    /// and those aside. The node's own come on top.
    pub fn queues(&self, connections: usize) -> impl Iterator<Item = Fill> {
        let connections = connections + self.helpers.requests() + self.over_nodes.requests();
        self.dispatcher
            .parking
            .queues(connections)
            .into_iter()
            .chain(self.dispatcher.lines.queues(connections + self.dispatcher.joints.left_alone()))
    }

    /// Pending work by name, with its count: empty when no command waits.
    pub fn in_hand(&self) -> Vec<(&'static str, usize)> {
        let mut in_hand = self.dispatcher.parking.in_hand();
        let holds = self.dispatcher.executor.holds.len();
        if holds > 0 {
            in_hand.push(("holds of the node", holds));
        }
        if self.helpers.len() > 0 {
            in_hand.push(("transactions that are helped", self.helpers.len()));
        }
        if self.over_nodes.len() > 0 {
            in_hand.push(("transactions over nodes", self.over_nodes.len()));
        }
        if self.dispatcher.lines.len() > 0 {
            in_hand.push(("commands that wait for other nodes", self.dispatcher.lines.len()));
        }
        in_hand
    }

    /// The range table in use.
    pub fn ranges(&self) -> &Arc<RangeTable> {
        &self.dispatcher.executor.ranges
    }

    /// The step in use of exports that are given bit by bit; while the thread sleeps, the newest.
    pub fn exports_step(&self) -> u64 {
        self.published.step_of(self.index)
    }

    /// For the driver, which reports with it when the thread sleeps. Who never does so stays awake.
    pub fn sleep(&self) -> Sleep {
        Sleep::new(Arc::clone(&self.published), self.index)
    }

    /// W1: the only place where the snapshot changes.
    #[inline]
    pub(crate) fn pass_boundary(&mut self) -> bool {
        self.dispatcher.executor.reply_bytes =
            usize::try_from(self.dispatcher.executor.shared.config.output_bytes()).unwrap_or(usize::MAX);
        self.pass_steps();
        let epoch = self.published.epoch();
        if epoch == self.dispatcher.executor.seen {
            return false;
        }
        self.take_table(epoch);
        true
    }

    #[inline]
    fn pass_steps(&mut self) {
        let step = self.published.step();
        if step != self.dispatcher.executor.step {
            self.take_step(step);
        }
    }

    /// What is given at this step is not this node's from here on (M20). The movers wait for that.
    #[cold]
    fn take_step(&mut self, step: u64) {
        let Dispatcher { blocked, executor, parking, .. } = &mut self.dispatcher;
        executor.step = step;
        self.published.pass_step(self.index, step);
        let by_cuts = executor.ranges.exports().filter(|view| view.is_by_cuts());
        by_cuts.for_each(|view| parking.notify(view.id()));
        blocked.wake_given(executor, parking);
    }

    #[cold]
    fn take_table(&mut self, epoch: u64) {
        self.dispatcher.executor.ranges = self.published.table();
        self.dispatcher.executor.seen = epoch;
        // P3: what commands waited for may have a new owner.
        if !fault!(NewTableWakesNobody) {
            self.dispatcher.parking.wake_everything();
            self.dispatcher
                .lines
                .table_changed(&self.dispatcher.executor.ranges, &mut self.dispatcher.parking);
        }
        self.conclude_joints(None);
    }

    /// Concludes joint commands whose parts have ended; then their tables may be the past.
    fn conclude_joints(&mut self, now: Option<Now>) {
        self.pass_steps();
        self.dispatcher.conclude_joints(now);
        self.pass_tables();
    }

    /// Reports the oldest table that anything on this thread refers to.
    fn pass_tables(&mut self) {
        let seen = self.dispatcher.executor.seen;
        if self.passed == seen {
            return;
        }
        let oldest = self.dispatcher.joints.oldest_table().map_or(seen, |oldest| oldest.min(seen));
        if oldest != self.passed {
            self.passed = oldest;
            self.published.pass(self.index, oldest);
        }
    }

    /// The next worker of this node to wake: others have left it something to do.
    #[inline]
    pub fn poll_wake_worker(&mut self) -> Option<WorkerIndex> {
        let executor = &self.dispatcher.executor;
        executor.holds.poll_wake().or_else(|| executor.shared.wakes.poll())
    }

    /// The driver's next action for requests to other nodes.
    #[inline]
    pub fn poll_forward(&mut self) -> Option<ForwardEvent> {
        self.dispatcher.lines.poll_event()
    }

    /// A requested connection is open; its handshake is complete. Returns whether it is still needed.
    pub fn forward_connected(&mut self, now: MonotonicUs, link: ForwardLink) -> bool {
        self.clear_suspicion(link);
        self.dispatcher.lines.connected(now, link)
    }

    /// A connection failed or ended.
    pub fn forward_lost(&mut self, now: Now, link: ForwardLink) {
        self.dispatcher.lines.lost(now.mono, link, &mut self.dispatcher.parking);
        self.conclude_joints(Some(now));
    }

    /// Bytes arrived over a connection: other nodes' replies.
    pub fn forward_received(&mut self, now: Now, link: ForwardLink, bytes: &[u8]) {
        self.clear_suspicion(link);
        self.dispatcher.lines.received(now.mono, link, bytes, &mut self.dispatcher.parking);
        self.conclude_joints(Some(now));
    }

    fn clear_suspicion(&self, link: ForwardLink) {
        let suspects = &self.dispatcher.executor.shared.suspects;
        if suspects.is_any()
            && let Some(node) = self.dispatcher.lines.node_of(link)
        {
            suspects.clear(node);
        }
    }

    /// Moves some output of a connection to `out`; returns whether there was any.
    pub fn forward_output(&mut self, link: ForwardLink, out: &mut Vec<u8>) -> bool {
        self.dispatcher.lines.take_output(link, out, &mut self.dispatcher.parking)
    }

    /// Time has passed: ends waits, and requests to other nodes, that took too long.
    pub fn pass_time(&mut self, now: Now) {
        let Dispatcher { blocked, held_up, parking, .. } = &mut self.dispatcher;
        blocked.wake_over(now.mono, parking);
        held_up.wake_over(now.mono, parking);
        // What waits for a sync, or for a save.
        blocked.wake_keyless(parking);
        self.dispatcher.lines.pass_time(now.mono, &mut self.dispatcher.parking);
        self.conclude_joints(Some(now));
        let helps = self.index == WorkerIndex(0)
            && (self.helpers.len() > 0 || self.dispatcher.executor.store.has_locks());
        let over_nodes_due = self.over_nodes.poll_timeout(&self.dispatcher);
        let is_over_nodes = over_nodes_due.is_some_and(|due| due <= now.mono);
        if !helps && !is_over_nodes {
            return;
        }
        self.pass_boundary();
        let safe = self.safe_commit();
        if helps {
            self.helpers.pass_time(now, &mut self.dispatcher, safe);
            let shared = &self.dispatcher.executor.shared;
            shared.helped.store(self.helpers.len() as u64, Relaxed);
        }
        if is_over_nodes {
            self.over_nodes.pass_time(now, &mut self.dispatcher, safe);
        }
    }

    /// When the next wait for a key ends by its time, or the pause that holds commands up; or a transaction
    /// goes on that this worker commits, or decides. [`pass_time`](Self::pass_time) is due then.
    #[inline]
    pub fn next_end_of_wait(&self) -> Option<MonotonicUs> {
        let Dispatcher { blocked, held_up, .. } = &self.dispatcher;
        let transactions = self.over_nodes.poll_timeout(&self.dispatcher);
        let transactions = transactions.into_iter().chain(self.helpers.poll_timeout(false));
        blocked.next_end().into_iter().chain(held_up.next_end()).chain(transactions).min()
    }

    /// Whether a transaction that this worker commits, or decides, waits for a commit of the durable log.
    pub fn awaits_commit(&self) -> bool {
        let safe = self.safe_commit();
        self.over_nodes.awaits_more_than(safe) || self.helpers.awaits_more_than(safe)
    }

    /// When [`pass_time`](Self::pass_time) is due without an event.
    pub fn poll_timeout(&self) -> Option<MonotonicUs> {
        let has_locks = self.index == WorkerIndex(0) && self.dispatcher.executor.store.has_locks();
        let own = self.helpers.poll_timeout(has_locks).into_iter().chain(self.next_end_of_wait());
        self.dispatcher.lines.poll_timeout().into_iter().chain(own).min()
    }

    /// Notifies an opted-in client of a new tablet map, unless it was: `>2 sidle-map <map epoch>`. Call it
    /// between two replies. Returns whether anything was written.
    pub fn write_pushes(&self, session: &mut Session, out: &mut Vec<u8>) -> bool {
        let epoch = self.dispatcher.executor.ranges.map().epoch();
        if !session.is_aware()
            || !self.dispatcher.executor.ranges.is_joined()
            || session.route.map_sent >= epoch
        {
            return false;
        }
        session.route.map_sent = epoch;
        let mut reply = ReplyWriter::new(out, session.version);
        reply.push(2);
        reply.bulk(b"sidle-map");
        reply.integer(i64::try_from(epoch.0).expect("map epochs are counted from 1"));
        true
    }

    /// Call it after each [`turn`](Worker::turn): whether subscribed connections are due a push of what cuts
    /// gave ([`write_digests`](Worker::write_digests)).
    pub fn collect_digests(&mut self) -> bool {
        self.digests.collect(&self.dispatcher.executor.ranges)
    }

    /// Notifies a subscribed client of what cuts gave, unless it was. Call it between two replies, and not
    /// while it leaves others unread. Returns whether anything was written.
    pub fn write_digests(&self, session: &mut Session, out: &mut Vec<u8>) -> bool {
        self.digests.write(session, &self.dispatcher.executor.stats, out)
    }

    /// Call it after each [`turn`](Worker::turn): whether connections that monitor the node are due lines
    /// ([`write_lines`](Worker::write_lines)).
    #[inline]
    pub fn take_lines_due(&self) -> bool {
        self.dispatcher.executor.shared.monitors.take_due(self.index)
    }

    /// Writes what a connection that monitors the node is to be shown. Call it between two replies. Returns
    /// whether it may go on: it has not left too much of it unread.
    pub fn write_lines(&self, session: &Session, out: &mut Vec<u8>) -> bool {
        let Some(monitoring) = &session.monitoring else { return true };
        let before = out.len();
        let is_within = monitoring.take_lines(out).is_some();
        if session.replies == Replies::Off {
            out.truncate(before);
        }
        is_within
    }

    /// Writes the reply that a connection waits for since its request ended as
    /// [`Then::Control`](crate::Then::Control).
    pub fn answer(&self, session: &mut Session, reply: &ControlReply, out: &mut Vec<u8>) {
        if !session.sends_reply() {
            return;
        }
        let mut writer = ReplyWriter::new(out, session.version);
        match reply {
            ControlReply::Ok => writer.ok(),
            ControlReply::Integer(number) => writer.integer(*number),
            ControlReply::Text(text) => writer.bulk(text.as_bytes()),
            ControlReply::Error(text) => {
                self.dispatcher.executor.stats.count_error(text.split(' ').next().unwrap_or("ERR").into());
                writer.error(text);
            }
        }
    }

    /// How many transactions it decides in place of their coordinators.
    #[cfg(any(test, feature = "testing"))]
    pub fn helped(&self) -> usize {
        self.helpers.len()
    }

    /// Whether a command that waits for items waits where exports have given.
    #[cfg(any(test, feature = "testing"))]
    pub fn waits_where_given(&self, ticket: Ticket) -> bool {
        self.dispatcher.blocked.waits_where_given(ticket, &self.dispatcher.executor)
    }

    /// The worker's hooks.
    #[cfg(any(test, feature = "testing"))]
    pub fn hooks(&mut self) -> &mut crate::testing::Hooks {
        &mut self.dispatcher.hooks
    }
}

impl NodeShared {
    /// The shared part of a node with so many workers.
    pub fn new(config: Config, workers: usize, process: ProcessFacts) -> NodeShared {
        NodeShared::with_commands(commands().all().len(), catalogue(), config, workers, process)
    }
}
