//! A serving thread: one command of one connection per turn.

use super::connection::{Came, Connection, flush};
use super::forward::ForwardLinks;
use super::pushes::Pushes;
use super::{Mailbox, control::Call};
use crate::clock::Clock;
use crate::network::{Side, Signal, StreamId};
use crate::world::{Actor, Fact, HostId, Thread, World};
use sidle_node::{ControlReply, NodeParts, Now, Sleep, Worker, WorkerIndex, WorkerPort};
use sidle_types::{MonotonicUs, ProtocolVersion};
use std::collections::{BTreeMap, VecDeque};

/// How many values with a deadline are checked.
const EXPIRE_SAMPLE: usize = 64;

/// What a worker's turn borrows from its process.
pub(super) struct Site<'p> {
    pub(super) host: HostId,
    pub(super) parts: &'p NodeParts,
    /// The interval at which it checks for expired keys.
    pub(super) tick_us: u64,
    /// The machine's.
    pub(super) clock: Clock,
    /// Until when long waits of commands are excused.
    pub(super) excused_at: MonotonicUs,
    /// The cluster's version.
    pub(super) version: ProtocolVersion,
    /// Whether replies wait for commits of a durable log.
    pub(super) is_durable: bool,
}

/// A serving thread with its connections.
pub struct WorkerThread {
    /// The real worker.
    pub worker: Worker,
    pub(super) connections: BTreeMap<StreamId, Connection>,
    /// Connections over which it forwards.
    pub(super) links: ForwardLinks,
    /// Answers of the control thread.
    pub(super) answers: VecDeque<(StreamId, ControlReply)>,
    /// Pushes of what cuts gave.
    pushes: Pushes,
    next_tick_us: u64,
    sleep: Sleep,
    /// It always has something else to do, so every step waits for it.
    is_sleepless: bool,
}

impl WorkerThread {
    pub(super) fn new(
        parts: &NodeParts,
        index: WorkerIndex,
        ports: Vec<WorkerPort>,
        seed: u64,
    ) -> WorkerThread {
        let worker = Worker::new(parts, index, ports, seed);
        let (connections, answers) = (BTreeMap::new(), VecDeque::new());
        let sleep = worker.sleep();
        WorkerThread {
            worker,
            connections,
            links: ForwardLinks::default(),
            answers,
            pushes: Pushes::default(),
            next_tick_us: 0,
            sleep,
            is_sleepless: seed & 1 == 0,
        }
    }

    /// How many commands may wait here: one of each client and of each forwarding node, and those that have
    /// stepped aside.
    pub fn may_wait(&self) -> usize {
        let aside = |connection: &Connection| connection.session.aside_tickets().count();
        self.connections.len() + self.connections.values().map(aside).sum::<usize>()
    }

    /// The connections over which it forwards.
    pub fn links(&self) -> impl Iterator<Item = StreamId> + '_ {
        self.links.streams()
    }

    /// Turns the worker's loop once; notifies the control of a changed range table.
    fn look_around(&mut self, site: &Site<'_>, now: Now, world: &mut World) {
        let changed = self.worker.turn();
        if changed {
            world.facts.push(Fact::TableTaken(site.host));
            for (&id, connection) in &mut self.connections {
                self.worker.write_pushes(&mut connection.session, &mut connection.output);
                flush(id, connection, &mut self.worker, now.mono, world);
            }
        }
        self.pushes.send(&mut self.worker, &mut self.connections, now.mono, world);
        if let Some(at_us) = self.pushes.next_us() {
            world.turn_at(self.me(site.host), at_us);
        }
        while let Some(ticket) = self.worker.poll_woken() {
            let mut connections = self.connections.values_mut();
            if let Some(since) = connections.find_map(|connection| connection.wake(ticket)) {
                let link_us = world.network.longest_wait_us();
                world.checks.waited(site.host, now.mono, since.max(site.excused_at), link_us);
            }
        }
        self.check_who_waits(site.host, world);
        if changed {
            world.wake(site.host, Thread::Control);
        }
    }

    /// Whoever waits for items waits where this node serves, and misses nothing.
    fn check_who_waits(&self, host: HostId, world: &mut World) {
        for connection in self.connections.values() {
            let Some(ticket) = connection.waits_for_items() else { continue };
            if self.worker.waits_where_given(ticket) {
                world.checks.waits_wrongly(host, "that it has given");
            }
            if connection.session.misses_items() {
                world.checks.waits_wrongly(host, "that has items, and nobody has the turn there");
            }
        }
    }

    /// Runs one command of one connection that has one; returns whether there was one, and the requests to
    /// the control.
    fn serve_one(&mut self, host: HostId, now: Now, world: &mut World) -> (bool, Option<Call>) {
        let mut held_back = 0;
        let mut ready: Vec<(&StreamId, &mut Connection)> = (self.connections.iter_mut())
            .filter(|(_, connection)| connection.is_ready())
            .filter(|(id, _)| {
                // A command whose answer cannot be sent is not run.
                let is_full = world.network.is_full(**id, Side::Acceptor);
                held_back += u64::from(is_full);
                !is_full
            })
            .collect();
        if held_back > 0 {
            world.meet("held back", held_back);
        }
        while !ready.is_empty() {
            let (&id, connection) = ready.swap_remove(world.random.index(ready.len()));
            let came = connection.serve(&mut self.worker, now);
            let (waiting, aside) = std::mem::take(&mut connection.began_to_wait);
            if waiting > 0 {
                world.meet("parked", waiting);
                world.facts.push(Fact::Parked(host));
            }
            if aside > 0 {
                world.meet("stepped aside", aside);
            }
            let call = match came {
                Came::Nothing => continue,
                Came::Served => None,
                Came::Asks(request) => Some(Call { stream: id, worker: self.worker.index(), request }),
                Came::Closes => {
                    connection.is_closing = true;
                    None
                }
            };
            flush(id, connection, &mut self.worker, now.mono, world);
            self.close_what_is_over(id, world);
            return (true, call);
        }
        (false, None)
    }

    /// It has a turn: arrivals, due work, and one more step.
    pub(super) fn turn(
        &mut self,
        mail: Mailbox,
        site: &Site<'_>,
        calls: &mut VecDeque<Call>,
        now: Now,
        world: &mut World,
    ) {
        self.sleep.end();
        for (id, _, signal) in mail {
            if self.links.hear(id, &signal, site.version, now, &mut self.worker, world) {
                continue;
            }
            match signal {
                Signal::Opened | Signal::Refused => {}
                Signal::Bytes(bytes) => {
                    let new = || Connection::new(&site.parts.shared, now);
                    self.connections.entry(id).or_insert_with(new).read(&bytes);
                }
                Signal::Closed => {
                    world.close(id, Side::Acceptor);
                    self.drop_connection(id);
                }
            }
        }
        while let Some((id, reply)) = self.answers.pop_front() {
            if let Some(connection) = self.connections.get_mut(&id) {
                connection.answer(&self.worker, &reply);
                flush(id, connection, &mut self.worker, now.mono, world);
            }
        }
        if world.now_us >= self.next_tick_us {
            self.next_tick_us = world.now_us + site.tick_us;
            self.worker.expire(now, EXPIRE_SAMPLE);
            self.worker.hand_over_heat(now.mono);
            world.meet("ticks", 1);
        }
        self.worker.pass_time(now);
        world.turn_at(self.me(site.host), self.next_tick_us);
        if self.step(site, calls, now, world) {
            world.wake(site.host, self.thread());
        }
    }

    /// Takes one step; returns whether there may be more to do. Requests to the control go to `calls`.
    pub(super) fn step(
        &mut self,
        site: &Site<'_>,
        calls: &mut VecDeque<Call>,
        now: Now,
        world: &mut World,
    ) -> bool {
        let host = site.host;
        self.sleep.end();
        if site.is_durable {
            self.send_what_is_safe(now, world);
        }
        self.look_around(site, now, world);
        let (has_served, call) = self.serve_one(host, now, world);
        while let Some(mover) = self.worker.poll_notify() {
            world.wake(host, Thread::Mover(usize::from(mover.0)));
        }
        while let Some(worker) = self.worker.poll_wake_worker() {
            world.meet("woken after a hold", 1);
            world.wake(host, Thread::Worker(usize::from(worker.0)));
        }
        if let Some(call) = call {
            calls.push_back(call);
            world.wake(host, Thread::Control);
        }
        let me = self.me(host);
        self.links.follow(me, host, &mut self.worker, world);
        if let Some(due) = self.worker.poll_timeout() {
            world.turn_at(me, site.clock.instant(due).max(world.now_us + 1));
        }
        // Running a command may have taken a new table, too.
        self.look_around(site, now, world);
        if site.is_durable && self.connections.values().any(Connection::is_held) {
            world.meet("replies held back", 1);
            // Without a lease nothing else would help.
            let safe = self.worker.safe_commit();
            if self.connections.values().any(|connection| connection.awaits_commit(safe)) {
                world.wake(host, Thread::LogWriter);
            }
        }
        if site.is_durable && self.worker.awaits_commit() {
            world.wake(host, Thread::LogWriter);
        }
        // An arrival gets its own turn, and an incomplete request does nothing.
        let has_more = has_served && self.has_work();
        if !has_more && !self.is_sleepless {
            assert!(!self.sleep.begin(), "it has just taken the newest step");
            world.meet("slept", 1);
        }
        has_more
    }

    fn thread(&self) -> Thread {
        Thread::Worker(usize::from(self.worker.index().0))
    }

    fn me(&self, host: HostId) -> Actor {
        Actor::Thread(host, self.thread())
    }

    /// Whether there is anything to run.
    fn has_work(&self) -> bool {
        self.connections.values().any(Connection::is_ready)
    }

    /// Sends replies that waited for a commit, or for the node's lease (C5 of the server's connections).
    fn send_what_is_safe(&mut self, now: Now, world: &mut World) {
        let held = self.connections.iter().filter(|(_, connection)| connection.is_held());
        for id in held.map(|(id, _)| *id).collect::<Vec<_>>() {
            let connection = self.connections.get_mut(&id).expect("it was just there");
            flush(id, connection, &mut self.worker, now.mono, world);
            self.close_what_is_over(id, world);
        }
    }

    /// Closes the connection if it is to be closed, and its last reply was sent.
    fn close_what_is_over(&mut self, id: StreamId, world: &mut World) {
        if self.connections.get(&id).is_some_and(|connection| connection.is_closing && !connection.is_held())
        {
            world.close(id, Side::Acceptor);
            self.drop_connection(id);
        }
    }

    fn drop_connection(&mut self, id: StreamId) {
        if let Some(connection) = self.connections.remove(&id) {
            let session = &connection.session;
            session.ticket().into_iter().chain(session.aside_tickets()).for_each(|ticket| {
                self.worker.forget(ticket);
            });
        }
    }
}
