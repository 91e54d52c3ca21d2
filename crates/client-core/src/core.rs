//! The client's core: operations and replies go in, requests and outcomes come out.

use crate::config::{
    Awareness, Config, IMMEDIATE_TRIES, MAX_RETRY_DELAY_US, MAX_TRIES, RETRY_DELAY_US, backoff_us,
};
use crate::connection::{Awaited, ConnectionId, Role};
use crate::counters::Counters;
use crate::deferred::DeferredRequest;
use crate::double_read::DoubleRead;
use crate::event::Event;
use crate::index::{ConnectionIndex, NodeIndex};
use crate::links::{Links, Node};
use crate::operation::{Class, Goes, Operations, Place};
use crate::outcome::{Completions, Failure, Outcome, Reason, Token};
use crate::refresh::Refresh;
use crate::routing::Routes;
use crate::timers::Timers;
use crate::tracking::Trackings;
use sidle_cluster::{HostPort, TabletMap};
use sidle_resp::RequestWriter;
use sidle_types::{HashedKey, MapEpoch, MonotonicUs, Position};
use std::sync::Arc;

/// Refuses an operation: the allowed number is running.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Busy;

impl std::fmt::Display for Busy {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("too many operations are under way")
    }
}

impl std::error::Error for Busy {}

/// A command's destination.
#[derive(Clone, Copy, Debug)]
pub enum Destination<'r> {
    /// The owner of this key. Further keys of the command must have the same owner.
    Key(HashedKey<'r>),
    /// The node with this number, in the order of [`Core::nodes`], whatever it owns.
    Node(usize),
    /// Any node.
    Any,
}

/// The client's logic without input or output: routing by the tablet map, MCR and SPH of each running
/// migration, double reads, redirects, retries and timeouts. It uses one or several connections to each node,
/// which share all knowledge.
///
/// One thread owns it. A new core has a timeout in the past: its first [`Input::Tick`] makes it connect to a
/// seed. The driver's loop, in this order:
/// 1. [`get`](Self::get) and [`submit`](Self::submit) all new operations;
/// 2. [`poll_event`](Self::poll_event) until `None`: connect and close as requested;
/// 3. [`poll_transmit`](Self::poll_transmit) until `None`, [`take_output`](Self::take_output) of each
///    connection, and one write for all requests that were deferred;
/// 4. wait for a connection to be readable or for [`poll_timeout`](Self::poll_timeout); then
///    [`received`](Self::received) or [`handle`](Self::handle), which report completions; repeat from 1.
///
/// Operations are independent: concurrent ones have no order. An operation is lost with its connection, not
/// with the others to the same node.
#[derive(Debug)]
pub struct Core {
    pub(crate) config: Config,
    pub(crate) links: Links,
    pub(crate) operations: Operations,
    pub(crate) routes: Routes,
    pub(crate) trackings: Trackings,
    pub(crate) map: Option<Arc<TabletMap>>,
    pub(crate) map_epoch: MapEpoch,
    pub(crate) refresh: Refresh,
    pub(crate) timers: Timers,
    /// Requests that leave with others of this round.
    deferred: Vec<DeferredRequest>,
    pub(crate) counters: Counters,
}

impl Core {
    /// A client that knows only its seeds.
    ///
    /// # Panics
    /// If there is no seed, or the number of connections to a node is not within its bounds.
    pub fn new(config: Config) -> Core {
        assert!(!config.seeds.is_empty(), "a client needs a node to ask first");
        assert!(
            (1..=Config::MAX_CONNECTIONS_PER_NODE).contains(&config.connections_per_node),
            "a client makes 1 to {} connections to a node",
            Config::MAX_CONNECTIONS_PER_NODE
        );
        let mut core = Core {
            links: Links::new(config.connections_per_node),
            operations: Operations::new(config.max_outstanding),
            routes: Routes::default(),
            trackings: Trackings::default(),
            map: None,
            map_epoch: MapEpoch(0),
            refresh: Refresh::default(),
            timers: Timers::default(),
            deferred: Vec::new(),
            counters: Counters::default(),
            config,
        };
        for seed in core.config.seeds.clone() {
            core.links.node_at(&seed);
        }
        core.refresh.want(None);
        core
    }

    /// Starts a GET, the one command that may be read from two nodes during a migration.
    ///
    /// # Errors
    /// [`Busy`]: nothing was started.
    #[inline]
    pub fn get(&mut self, now: MonotonicUs, token: Token, key: HashedKey<'_>) -> Result<(), Busy> {
        let place = self.operations.admit(token, Class::Get, Goes::ByPosition).ok_or(Busy)?;
        let operation = &mut self.operations[place];
        operation.position = key.position();
        RequestWriter::new(&mut operation.request).request(&[b"GET", key.bytes()]);
        let key_end = operation.request.len() as u32 - 2;
        operation.key = key_end - key.bytes().len() as u32..key_end;
        self.start(now, place);
        Ok(())
    }

    /// Starts any other command, with its name as the first argument. A single-key GET should use
    /// [`get`](Self::get).
    ///
    /// # Errors
    /// [`Busy`]: nothing was started.
    ///
    /// # Panics
    /// If the class is [`Class::Get`], or there is no node of the number given.
    #[inline]
    pub fn submit(
        &mut self,
        now: MonotonicUs,
        token: Token,
        class: Class,
        destination: Destination<'_>,
        args: &[&[u8]],
    ) -> Result<(), Busy> {
        assert!(class != Class::Get, "GETs start with Core::get");
        let goes = match destination {
            Destination::Key(_) => Goes::ByPosition,
            Destination::Node(node) => {
                assert!(node < self.links.nodes.len(), "there is no node {node}");
                Goes::ToNode(node as NodeIndex)
            }
            Destination::Any => Goes::Anywhere,
        };
        let place = self.operations.admit(token, class, goes).ok_or(Busy)?;
        let operation = &mut self.operations[place];
        if let Destination::Key(key) = destination {
            operation.position = key.position();
        }
        RequestWriter::new(&mut operation.request).request(args);
        self.start(now, place);
        Ok(())
    }

    #[inline]
    fn start(&mut self, now: MonotonicUs, place: Place) {
        let deadline = now.plus_us(self.config.operation_timeout_us);
        self.timers.start(deadline, place, &self.operations);
        self.attempt(now, place);
    }

    /// Makes the next attempt of an operation.
    #[inline]
    pub(crate) fn attempt(&mut self, now: MonotonicUs, place: Place) {
        let operation = &mut self.operations[place];
        operation.attempt = operation.attempt.wrapping_add(1);
        operation.read = None;
        operation.migration = None;
        operation.map_epoch = self.map_epoch;
        if let Some((node, is_asking)) = operation.redirect.take() {
            self.send(now, place, node, if is_asking { Role::AskedAnswer } else { Role::Answer });
            return;
        }
        match operation.goes {
            Goes::ByPosition => match self.routes.at(operation.position) {
                Some(route) => match route.migration() {
                    None => self.send(now, place, route.node, Role::Answer),
                    Some(migration) => self.attempt_migrating(now, place, route.node, migration),
                },
                None => self.wait_for_map(place),
            },
            Goes::ToNode(node) => self.send(now, place, node, Role::Answer),
            Goes::Anywhere => match self.links.nodes.iter().position(Node::is_ready) {
                Some(node) => self.send(now, place, node as NodeIndex, Role::Answer),
                None => self.wait_for_map(place),
            },
        }
    }

    fn attempt_migrating(&mut self, now: MonotonicUs, place: Place, target: NodeIndex, migration: usize) {
        let operation = &mut self.operations[place];
        let tracking = self.trackings.at(migration);
        let id = tracking.id;
        let from = self.routes.migration(migration);
        // If the source answers no reads, knowing what is at the target is useless.
        operation.migration = (from.source_answers || from.source_keeps).then_some(id);
        if from.source_keeps {
            // What is believed may be wrong: then the source names the owner, or the target takes the key.
            let is_kept = self.config.tracking && !tracking.is_at_target(operation.position);
            return self.send(now, place, if is_kept { from.source } else { target }, Role::Answer);
        }
        if operation.class != Class::Get || !from.source_answers {
            self.send(now, place, target, Role::Answer);
        } else if self.config.tracking && tracking.is_at_target(operation.position) {
            operation.read = Some(DoubleRead::target_alone(id));
            self.counters.single_target_reads += 1;
            self.send(now, place, target, Role::Answer);
        } else {
            operation.read = Some(DoubleRead::both(id));
            self.counters.double_reads += 1;
            self.defer(now, place, target, Role::Answer);
            self.defer(now, place, from.source, Role::Source);
        }
    }

    /// Sends a request of the present attempt, or parks it until a connection is ready.
    #[inline]
    pub(crate) fn send(&mut self, now: MonotonicUs, place: Place, to: NodeIndex, role: Role) {
        let awaited = Awaited { place, attempt: self.operations[place].attempt, role };
        let connection = self.links.choose(now, to);
        self.write_or_park(now, connection, to, awaited);
    }

    /// Sends a request of the present attempt with others of this round.
    pub(crate) fn defer(&mut self, now: MonotonicUs, place: Place, to: NodeIndex, role: Role) {
        let awaited = Awaited { place, attempt: self.operations[place].attempt, role };
        self.deferred.push(DeferredRequest { to, awaited, asked_at: now });
    }

    /// Gives every deferred request its connection: one with reads if possible, or else any.
    #[inline]
    fn place_deferred(&mut self) {
        if !self.deferred.is_empty() {
            self.place_all_deferred();
        }
    }

    fn place_all_deferred(&mut self) {
        let mut deferred = std::mem::take(&mut self.deferred);
        for request in deferred.drain(..) {
            let DeferredRequest { to, awaited, asked_at } = request;
            if self.operations.is_attempt(awaited.place, awaited.attempt) {
                let connection = request.connection(&mut self.links, &self.operations);
                self.write_or_park(asked_at, connection, to, awaited);
            }
        }
        self.deferred = deferred;
    }

    /// Sends a request on the chosen connection, or parks it.
    #[inline]
    fn write_or_park(
        &mut self,
        now: MonotonicUs,
        connection: Option<ConnectionIndex>,
        to: NodeIndex,
        awaited: Awaited,
    ) {
        match connection {
            Some(connection) => self.write(now, connection, awaited),
            None => {
                self.links.nodes[usize::from(to)].parked.push(awaited);
                self.links.want_connection(now, to);
            }
        }
    }

    /// Appends a request to the output of a ready connection.
    #[inline]
    pub(crate) fn write(&mut self, now: MonotonicUs, to: ConnectionIndex, awaited: Awaited) {
        let operation = &mut self.operations[awaited.place];
        let connection = &mut self.links.connections[to as usize];
        let before = connection.out.len();
        let is_extra = match (awaited.role, &operation.read) {
            (Role::Source, Some(read)) => {
                connection.write_frozen_read(operation, read.migration(), awaited);
                true
            }
            _ => {
                operation.may_have_run = true;
                operation.connection = to;
                operation.sent_at = now;
                connection.write(operation, awaited);
                operation.tries > 0
            }
        };
        let written = (connection.out.len() - before) as u64;
        self.counters.request_bytes += written;
        if is_extra {
            self.counters.extra_request_bytes += written;
        }
        self.links.mark_dirty(to);
    }

    fn wait_for_map(&mut self, place: Place) {
        self.timers.wait_for_map(place, &self.operations);
        self.refresh.want(None);
    }

    /// Makes another attempt after an answer without effect: at once for the first few (`is_now`), else after
    /// a wait.
    pub(crate) fn again(
        &mut self,
        now: MonotonicUs,
        place: Place,
        is_now: bool,
        done: &mut impl Completions,
    ) {
        let operation = &mut self.operations[place];
        operation.may_have_run = false;
        operation.tries += 1;
        self.counters.retries += 1;
        self.counters.extra_reply_bytes += u64::from(std::mem::take(&mut operation.source_reply_bytes));
        if operation.tries > MAX_TRIES {
            let effect = operation.effect_without_answer();
            self.fail(place, Failure { reason: Reason::TooManyTries, effect }, done);
        } else if is_now && operation.tries <= IMMEDIATE_TRIES {
            self.attempt(now, place);
        } else {
            let wait_us = backoff_us(u32::from(operation.tries), RETRY_DELAY_US, MAX_RETRY_DELAY_US);
            self.rest(now.plus_us(wait_us), place);
        }
    }

    /// Delays an operation until then, or until the map changes.
    pub(crate) fn rest(&mut self, until: MonotonicUs, place: Place) {
        let operation = &mut self.operations[place];
        // Answers to the abandoned attempt no longer count.
        operation.attempt = operation.attempt.wrapping_add(1);
        operation.read = None;
        self.counters.extra_reply_bytes += u64::from(std::mem::take(&mut operation.source_reply_bytes));
        self.timers.rest(until, place, &self.operations);
    }

    pub(crate) fn fail(&mut self, place: Place, failure: Failure, done: &mut impl Completions) {
        self.counters.failures += 1;
        let operation = &mut self.operations[place];
        self.counters.extra_reply_bytes += u64::from(std::mem::take(&mut operation.source_reply_bytes));
        let token = operation.token;
        self.operations.release(place);
        done.completed(token, Outcome::Failed(failure));
    }

    /// The next connection with requests to send, each once until more are added. Follow with
    /// [`take_output`](Self::take_output).
    #[inline]
    pub fn poll_transmit(&mut self) -> Option<ConnectionId> {
        self.place_deferred();
        while let Some(index) = self.links.dirty.pop() {
            let connection = &mut self.links.connections[index as usize];
            connection.is_dirty = false;
            if !connection.out.is_empty() {
                return Some(ConnectionId { index, generation: connection.generation });
            }
        }
        None
    }

    /// Moves a connection's requests behind what is in `buffer`. An empty buffer is swapped without a copy,
    /// and its capacity reused. From now on the requests count as sent.
    #[inline]
    pub fn take_output(&mut self, connection: ConnectionId, buffer: &mut Vec<u8>) {
        let of = &mut self.links.connections[connection.index()];
        if of.generation != connection.generation {
            return;
        }
        if buffer.is_empty() {
            std::mem::swap(buffer, &mut of.out);
        } else {
            buffer.append(&mut of.out);
        }
        of.untaken = 0;
    }

    /// The driver's next action.
    #[inline]
    pub fn poll_event(&mut self) -> Option<Event> {
        self.place_deferred();
        self.links.events.pop_front()
    }

    /// The client's counters so far.
    pub fn counters(&self) -> Counters {
        self.counters
    }

    /// The number of running operations.
    pub fn outstanding(&self) -> usize {
        self.operations.len()
    }

    /// The present map.
    pub fn map(&self) -> Option<&Arc<TabletMap>> {
        self.map.as_ref()
    }

    /// The number of the node that owns a position, as far as the present map shows.
    pub fn owner_at(&self, position: Position) -> Option<usize> {
        self.routes.at(position).map(|route| usize::from(route.node))
    }

    /// The bytes of the SPH tables; at most 4 MB.
    pub fn sph_bytes(&self) -> usize {
        self.trackings.sph_bytes()
    }

    /// The bytes of all that is known of running migrations. For measuring.
    pub fn tracking_bytes(&self) -> usize {
        self.trackings.mcr_bytes() + self.trackings.sph_bytes() + self.trackings.given_bytes()
    }

    /// The nodes' addresses, in the order of their numbers: the seeds come first.
    pub fn nodes(&self) -> impl Iterator<Item = &HostPort> {
        self.links.nodes.iter().map(|node| &node.address)
    }

    /// The address of a connection's node.
    pub fn address_of(&self, connection: ConnectionId) -> &HostPort {
        &self.links.nodes[usize::from(self.links.connections[connection.index()].node)].address
    }

    /// Whether a read of this position would ask the target alone (or its only owner), by MCR and SPH. For
    /// measuring.
    #[inline]
    pub fn is_single_read(&self, position: Position) -> bool {
        match self.routes.at(position).and_then(|route| route.migration()) {
            Some(migration) => self.config.tracking && self.trackings.at(migration).is_at_target(position),
            None => true,
        }
    }

    pub(crate) fn is_aware(&self) -> bool {
        self.config.awareness == Awareness::Sidle
    }
}
