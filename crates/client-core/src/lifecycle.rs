//! A connection's states: opened, greeted, given up, lost; and the passing of time.

use crate::config::{Awareness, RETRY_DELAY_US};
use crate::connection::{Awaited, ConnectionId, Phase, Role};
use crate::core::Core;
use crate::event::{Event, Input};
use crate::index::ConnectionIndex;
use crate::operation::{Class, Place};
use crate::outcome::{Completions, Failure, Reason};
use sidle_resp::Reply;
use sidle_types::{MonotonicUs, ProtocolVersion, fault};

impl Core {
    /// Handles connection events, and the passing of time.
    pub fn handle(&mut self, now: MonotonicUs, input: Input, done: &mut impl Completions) {
        match input {
            Input::Connected(connection) => self.connected(now, connection),
            Input::Disconnected(connection) => {
                if self.links.connections[connection.index()].generation == connection.generation {
                    self.lost(now, connection.index, done);
                }
            }
            Input::Tick => self.tick(now, done),
        }
        self.ask_for_map(now);
    }

    fn connected(&mut self, now: MonotonicUs, id: ConnectionId) {
        let wants_digests = self.subscribes();
        let connection = &mut self.links.connections[id.index()];
        if connection.generation != id.generation {
            return;
        }
        assert!(matches!(connection.phase, Phase::Connecting { .. }), "a connection is made once");
        connection.phase = Phase::Greeting { since: now };
        connection.received_at = now;
        match &self.config.credentials {
            Some((user, password)) => {
                let hello: [&[u8]; 5] = [b"HELLO", b"3", b"AUTH", user.as_bytes(), password.as_bytes()];
                connection.write_own(Role::Hello, &hello);
            }
            None => connection.write_own(Role::Hello, &[b"HELLO", b"3"]),
        }
        if self.config.awareness == Awareness::Sidle {
            // On every connection: the opt-in affects its answers (progress, "not here yet"), and a map is
            // announced on each connection before it answers by it.
            let version = format!("sidle-{}", ProtocolVersion::CURRENT.0);
            let opts_in: [&[u8]; 5] = [b"CLIENT", b"CAPA", b"sidle", version.as_bytes(), b"sidle-given"];
            // One connection to each node brings what it was given.
            let node = &mut self.links.nodes[usize::from(connection.node)];
            let subscribes = wants_digests && node.subscribed.is_none();
            if subscribes {
                node.subscribed = Some(id.index);
            }
            connection.write_own(Role::Capability, &opts_in[..4 + usize::from(subscribes)]);
        }
        self.count_own(id.index, 0);
    }

    /// Counts the output beyond `before` as the client's own.
    pub(crate) fn count_own(&mut self, index: ConnectionIndex, before: usize) {
        let written = (self.links.connections[index as usize].out.len() - before) as u64;
        self.counters.request_bytes += written;
        self.counters.extra_request_bytes += written;
        self.links.mark_dirty(index);
    }

    pub(crate) fn greeting_answer(
        &mut self,
        now: MonotonicUs,
        from: ConnectionIndex,
        role: Role,
        reply: Reply<'_>,
        done: &mut impl Completions,
    ) {
        let connection = &mut self.links.connections[from as usize];
        let of = connection.node;
        if let Reply::Error(text) = reply {
            self.links.trouble(of, String::from_utf8_lossy(text).into_owned());
            self.give_up(now, from, done);
            return;
        }
        if role == Role::Hello && self.config.awareness == Awareness::Sidle {
            return;
        }
        connection.phase = Phase::Ready;
        self.links.making.retain(|&index| index != from);
        let node = &mut self.links.nodes[usize::from(of)];
        let is_first = !node.is_ready();
        node.got_ready();
        if self.map.is_some() {
            // Before that, a greeting node may still turn out to have no map.
            node.forget_failures();
        }
        let parked = std::mem::take(&mut node.parked);
        self.refresh.nodes_changed(now);
        for awaited in parked {
            if self.operations.is_attempt(awaited.place, awaited.attempt) {
                self.write(now, from, awaited);
            }
        }
        if self.subscribes() && self.links.nodes[usize::from(of)].subscribed.is_none() {
            self.subscribe(from);
        }
        self.links.list_if_idle(from);
        // Requests to any node wait for a ready node as well as for a map.
        if is_first && self.map.is_some() {
            self.wake_all(now);
        }
    }

    /// Closes a connection that is no longer useful.
    pub(crate) fn give_up(&mut self, now: MonotonicUs, index: ConnectionIndex, done: &mut impl Completions) {
        let generation = self.links.connections[index as usize].generation;
        self.links.events.push_back(Event::Close(ConnectionId { index, generation }));
        self.lost(now, index, done);
    }

    /// A connection is lost. Unsent requests and those without an effect, or with one however often they run,
    /// are sent again; other writes have an unknown effect. The node's other connections continue.
    fn lost(&mut self, now: MonotonicUs, index: ConnectionIndex, done: &mut impl Completions) {
        let connection = &mut self.links.connections[index as usize];
        let was_ready = connection.is_ready();
        let (awaited, taken) = connection.close();
        let node = &mut self.links.nodes[usize::from(connection.node)];
        node.lost_one(now, was_ready);
        // While another connection is being opened, parked requests keep waiting.
        let parked = if node.has_connection() { Vec::new() } else { std::mem::take(&mut node.parked) };
        self.links.making.retain(|&other| other != index);
        self.refresh.lost(index);
        if !was_ready {
            self.refresh.nodes_changed(now);
        }
        let unsent = awaited.iter().skip(taken).chain(&parked);
        for &awaited in awaited.iter().take(taken) {
            self.answer_lost(now, awaited, true, done);
        }
        for &awaited in unsent {
            self.answer_lost(now, awaited, false, done);
        }
        if let Some(other) = self.links.subscription_lost(index) {
            self.subscribe(other);
        }
        // Its range may have a new owner.
        self.refresh.want(None);
    }

    /// Whether it wants nodes to push what they were given.
    fn subscribes(&self) -> bool {
        self.is_aware() && self.config.digests && self.config.tracking
    }

    /// Has a node push over this ready connection what it was given.
    fn subscribe(&mut self, index: ConnectionIndex) {
        let connection = &mut self.links.connections[index as usize];
        self.links.nodes[usize::from(connection.node)].subscribed = Some(index);
        let before = connection.out.len();
        connection.write_own(Role::Subscription, &[b"CLIENT", b"CAPA", b"sidle-given"]);
        self.count_own(index, before);
    }

    fn answer_lost(
        &mut self,
        now: MonotonicUs,
        awaited: Awaited,
        was_sent: bool,
        done: &mut impl Completions,
    ) {
        if !matches!(awaited.role, Role::Answer | Role::AskedAnswer | Role::Source)
            || !self.operations.is_attempt(awaited.place, awaited.attempt)
        {
            return;
        }
        let place = awaited.place;
        if awaited.role == Role::Source {
            self.source_failed(now, place, done);
            return;
        }
        let operation = &mut self.operations[place];
        if was_sent && operation.class == Class::Write && !fault!(LostWriteSentAgain) {
            let effect = operation.effect_without_answer();
            self.fail(place, Failure { reason: Reason::ConnectionLost, effect }, done);
            return;
        }
        // Not counted as a try: however long a node is away, only the operation's own time ends the wait.
        operation.may_have_run = false;
        operation.was_lost |= was_sent && matches!(operation.class, Class::Once { .. });
        self.counters.retries += u64::from(was_sent);
        self.rest(now.plus_us(RETRY_DELAY_US), place);
    }

    /// When the driver must call [`handle`](Self::handle) with [`Input::Tick`] at the latest.
    pub fn poll_timeout(&mut self) -> Option<MonotonicUs> {
        let timers = self.timers.timeout(&self.operations);
        [timers, self.links.timeout(), self.refresh.timeout()].into_iter().flatten().min()
    }

    fn tick(&mut self, now: MonotonicUs, done: &mut impl Completions) {
        while let Some(place) = self.timers.poll_expired(now, &self.operations) {
            self.expire(now, place, done);
        }
        while let Some(place) = self.timers.poll_rested(now, &self.operations) {
            self.attempt(now, place);
        }
        self.links.late(now).into_iter().for_each(|index| self.give_up(now, index, done));
        self.links.reconnect(now);
        self.refresh.tick(now);
    }

    fn expire(&mut self, now: MonotonicUs, place: Place, done: &mut impl Completions) {
        self.counters.timeouts += 1;
        let operation = &self.operations[place];
        let (connection, was_sent, sent_at) =
            (operation.connection, operation.may_have_run, operation.sent_at);
        let effect = operation.effect_without_answer();
        self.fail(place, Failure { reason: Reason::TimedOut, effect }, done);
        // A node silent since then hangs or is cut off: a new connection may reach it, or its successor,
        // where this one will not.
        let state = &self.links.connections[connection as usize];
        if was_sent && state.is_ready() && state.received_at <= sent_at {
            self.give_up(now, connection, done);
        }
    }

    /// Makes the next attempt of every operation that waits for anything but an answer: the map has changed.
    pub(crate) fn wake_all(&mut self, now: MonotonicUs) {
        let waiting: Vec<(Place, u64)> = self.timers.take_all().collect();
        for (place, serial) in waiting {
            if self.operations.is_current(place, serial) {
                self.attempt(now, place);
            }
        }
    }
}
