//! Connections: made when wanted, greeted, given up and made anew.

use crate::config::{
    CONNECT_TIMEOUT_US, MAX_RECONNECT_DELAY_US, RECONNECT_DELAY_US, RETRY_DELAY_US, backoff_us,
};
use crate::core::{Core, Event, Input};
use crate::node::{Awaited, ConnectionId, NodeIndex, Phase, Role};
use crate::operation::Class;
use crate::outcome::{Completions, Failure, Reason};
use sidle_resp::{Reply, ReplyLimits, ReplyParser};
use sidle_types::MonotonicUs;

impl Core {
    /// Takes in what became of connections, and the passing of time.
    pub fn handle(&mut self, now: MonotonicUs, input: Input, done: &mut impl Completions) {
        match input {
            Input::Connected(connection) => self.connected(now, connection),
            Input::Disconnected(connection) => {
                if self.nodes[connection.node()].life == connection.life {
                    self.lost(now, connection.node, done);
                }
            }
            Input::Tick => self.tick(now, done),
        }
        self.ask_for_map(now);
    }

    /// Makes a connection to the node unless there is one, or the last failed just now.
    pub(crate) fn want_connection(&mut self, now: MonotonicUs, index: NodeIndex) {
        let node = &mut self.nodes[usize::from(index)];
        match node.phase {
            Phase::Resting { until } if until > now => return,
            Phase::Connecting { .. } | Phase::Greeting { .. } | Phase::Ready => return,
            Phase::Idle | Phase::Resting { .. } => {}
        }
        node.life = node.life.wrapping_add(1);
        node.phase = Phase::Connecting { since: now };
        let connection = ConnectionId { node: index, life: node.life };
        self.events.push_back(Event::Connect { connection, address: node.address.clone() });
    }

    fn connected(&mut self, now: MonotonicUs, connection: ConnectionId) {
        let node = &mut self.nodes[connection.node()];
        if node.life != connection.life {
            return;
        }
        assert!(matches!(node.phase, Phase::Connecting { .. }), "a connection is made once");
        node.phase = Phase::Greeting { since: now };
        node.heard_at = now;
        match &self.config.credentials {
            Some((user, password)) => {
                node.write_own(Role::Hello, &[b"HELLO", b"3", b"AUTH", user.as_bytes(), password.as_bytes()]);
            }
            None => node.write_own(Role::Hello, &[b"HELLO", b"3"]),
        }
        if self.config.awareness == crate::config::Awareness::Sidle {
            node.write_own(Role::Capability, &[b"CLIENT", b"CAPA", b"sidle"]);
        }
        self.count_own(connection.node, 0);
    }

    /// Counts what was written beyond `before`, as not asked for by any operation.
    pub(crate) fn count_own(&mut self, index: NodeIndex, before: usize) {
        let written = (self.nodes[usize::from(index)].out.len() - before) as u64;
        self.counters.request_bytes += written;
        self.counters.extra_request_bytes += written;
        self.mark_dirty(index);
    }

    pub(crate) fn greeting_answer(
        &mut self,
        now: MonotonicUs,
        from: NodeIndex,
        role: Role,
        reply: Reply<'_>,
        done: &mut impl Completions,
    ) {
        if let Reply::Error(text) = reply {
            self.trouble(from, String::from_utf8_lossy(text).into_owned());
            self.give_up(now, from, done);
            return;
        }
        if role == Role::Hello && self.is_aware() {
            return;
        }
        let node = &mut self.nodes[usize::from(from)];
        node.phase = Phase::Ready;
        if self.map.is_some() {
            // Before that, a node that greets may still turn out to know of no map.
            node.failures = 0;
        }
        self.refresh.nodes_changed(now);
        let node = &mut self.nodes[usize::from(from)];
        for awaited in std::mem::take(&mut node.parked) {
            if self.is_current(awaited) {
                self.write(now, from, awaited);
            }
        }
        // What goes to any node waits for a node to be ready as well as for a map.
        if self.map.is_some() {
            self.wake_all(now);
        }
    }

    /// Closes a connection that is of no use any more.
    pub(crate) fn give_up(&mut self, now: MonotonicUs, index: NodeIndex, done: &mut impl Completions) {
        let life = self.nodes[usize::from(index)].life;
        self.events.push_back(Event::Close(ConnectionId { node: index, life }));
        self.lost(now, index, done);
    }

    /// A connection is gone. Requests that never left go out anew; so do reads; what became of writes is unknown.
    fn lost(&mut self, now: MonotonicUs, index: NodeIndex, done: &mut impl Completions) {
        let node = &mut self.nodes[usize::from(index)];
        let was_ready = node.is_ready();
        node.life = node.life.wrapping_add(1);
        node.failures += 1;
        let rest_us = backoff_us(node.failures, RECONNECT_DELAY_US, MAX_RECONNECT_DELAY_US);
        node.phase = Phase::Resting { until: now.plus_us(rest_us) };
        node.parser = ReplyParser::new(ReplyLimits::default());
        node.out.clear();
        let left = node.awaited.len() - std::mem::take(&mut node.untaken);
        let awaited = std::mem::take(&mut node.awaited);
        let parked = std::mem::take(&mut node.parked);
        self.refresh.lost(index);
        if !was_ready {
            self.refresh.nodes_changed(now);
        }
        let unsent = awaited.iter().skip(left).chain(&parked);
        for &awaited in awaited.iter().take(left) {
            self.answer_lost(now, awaited, true, done);
        }
        for &awaited in unsent {
            self.answer_lost(now, awaited, false, done);
        }
        // Its range may have another owner by now.
        self.want_map(None);
    }

    fn answer_lost(
        &mut self,
        now: MonotonicUs,
        awaited: Awaited,
        was_sent: bool,
        done: &mut impl Completions,
    ) {
        if !matches!(awaited.role, Role::Answer | Role::AskedAnswer | Role::Source)
            || !self.is_current(awaited)
        {
            return;
        }
        let place = awaited.place;
        if awaited.role == Role::Source {
            self.source_failed(now, place, done);
            return;
        }
        let operation = &mut self.operations[place];
        if was_sent && operation.class == Class::Write && !self.config.bugs.lost_write_sent_again {
            let effect = operation.effect_without_answer();
            self.fail(place, Failure { reason: Reason::ConnectionLost, effect }, done);
            return;
        }
        // Not counted as a try: however long a node is away, only the operation's own time ends the waiting.
        operation.may_have_run = false;
        self.counters.retries += u64::from(was_sent);
        self.rest(now.plus_us(RETRY_DELAY_US), place);
    }

    /// Gives up connections that do not come about in time, and makes those that somebody waits for.
    pub(crate) fn tick_connections(&mut self, now: MonotonicUs, done: &mut impl Completions) {
        for index in 0..self.nodes.len() as NodeIndex {
            let node = &self.nodes[usize::from(index)];
            match node.phase {
                Phase::Connecting { since } | Phase::Greeting { since }
                    if now.since(since) >= CONNECT_TIMEOUT_US =>
                {
                    self.give_up(now, index, done);
                }
                Phase::Resting { until } if until <= now && !node.parked.is_empty() => {
                    self.want_connection(now, index);
                }
                _ => {}
            }
        }
    }

    /// When [`tick_connections`](Self::tick_connections) has something to do next.
    pub(crate) fn connections_timeout(&self) -> Option<MonotonicUs> {
        let timeout = |node: &crate::node::Node| match node.phase {
            Phase::Connecting { since } | Phase::Greeting { since } => {
                Some(since.plus_us(CONNECT_TIMEOUT_US))
            }
            Phase::Resting { until } if !node.parked.is_empty() => Some(until),
            _ => None,
        };
        self.nodes.iter().filter_map(timeout).min()
    }
}
