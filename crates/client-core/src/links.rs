//! All nodes with their connections, and the choice of one for a request.
//!
//! A request takes a connection without outstanding answers if there is one, the last used one: caches stay
//! warm, and a burst's extra connections fall silent. Otherwise it takes the one with the fewest. That one
//! answers soonest. A stuck connection, behind a waiting request or on a dead link, is avoided. And when one
//! read brings many answers of one connection, the following requests leave in one write to it. Round robin
//! would give each connection a single request instead, and the stuck one its full share. The halves of
//! double reads first look for others to join ([`deferred`](crate::deferred)).
//!
//! Connections are opened on demand, one at a time: when none is idle and not all are open yet. To the nodes
//! of a small cluster all of them are opened ahead (`CONNECTED_AHEAD`).

use crate::config::{
    CONNECT_TIMEOUT_US, FEWEST_AMONG, MAX_NODES, MAX_RECONNECT_DELAY_US, RECONNECT_DELAY_US, backoff_us,
};
use crate::connection::{Awaited, Connection, ConnectionId, Phase};
use crate::event::Event;
use crate::index::{ConnectionIndex, NodeIndex};
use sidle_cluster::HostPort;
use sidle_types::MonotonicUs;
use smallvec::SmallVec;
use std::collections::VecDeque;

/// One node.
#[derive(Debug)]
pub(crate) struct Node {
    pub(crate) address: HostPort,
    /// Its connections, closed ones included.
    connections: SmallVec<[ConnectionIndex; 2]>,
    /// How many of them are ready, and how many are being opened.
    ready: usize,
    making: usize,
    /// Connections without outstanding answers, the last used one at the end. Some may be busy or lost again.
    idle: Vec<ConnectionIndex>,
    /// Where the search for the connection with the fewest starts.
    turn: usize,
    /// The connection over which it pushes what it was given.
    pub(crate) subscribed: Option<ConnectionIndex>,
    /// Requests that wait for a ready connection.
    pub(crate) parked: Vec<Awaited>,
    /// Failures to reach it since a connection was last ready.
    failures: u32,
    /// No connection is opened before that.
    rests_until: MonotonicUs,
}

impl Node {
    pub(crate) fn new(address: HostPort) -> Node {
        Node {
            address,
            connections: SmallVec::new(),
            ready: 0,
            making: 0,
            idle: Vec::new(),
            turn: 0,
            subscribed: None,
            parked: Vec::new(),
            failures: 0,
            rests_until: MonotonicUs(0),
        }
    }

    /// Whether any connection takes requests.
    #[inline]
    pub(crate) fn is_ready(&self) -> bool {
        self.ready > 0
    }

    /// Whether a connection is ready or being opened.
    pub(crate) fn has_connection(&self) -> bool {
        self.ready + self.making > 0
    }

    /// When to open a connection for parked requests, unless one is being opened.
    pub(crate) fn reconnects_at(&self) -> Option<MonotonicUs> {
        (!self.parked.is_empty() && !self.has_connection()).then_some(self.rests_until)
    }

    /// A connection being opened is ready.
    pub(crate) fn got_ready(&mut self) {
        self.making -= 1;
        self.ready += 1;
    }

    pub(crate) fn forget_failures(&mut self) {
        self.failures = 0;
    }

    /// A connection was lost, or could not be opened.
    pub(crate) fn lost_one(&mut self, now: MonotonicUs, was_ready: bool) {
        *(if was_ready { &mut self.ready } else { &mut self.making }) -= 1;
        if self.rests_until <= now {
            // Others lost meanwhile have the same cause; and one lost while another serves is no evidence
            // about the node.
            self.failures += u32::from(!was_ready || !self.is_ready());
            let rest_us = backoff_us(self.failures, RECONNECT_DELAY_US, MAX_RECONNECT_DELAY_US);
            self.rests_until = now.plus_us(rest_us);
        }
    }
}

/// Nodes, connections, and the driver's actions for them.
#[derive(Debug)]
pub(crate) struct Links {
    connections_per_node: usize,
    pub(crate) nodes: Vec<Node>,
    /// All connections to all nodes, closed ones included.
    pub(crate) connections: Vec<Connection>,
    /// Those being opened.
    pub(crate) making: Vec<ConnectionIndex>,
    /// Those with requests to send.
    pub(crate) dirty: Vec<ConnectionIndex>,
    pub(crate) events: VecDeque<Event>,
}

impl Links {
    pub(crate) fn new(connections_per_node: usize) -> Links {
        Links {
            connections_per_node,
            nodes: Vec::new(),
            connections: Vec::new(),
            making: Vec::new(),
            dirty: Vec::new(),
            events: VecDeque::new(),
        }
    }

    #[inline]
    pub(crate) fn mark_dirty(&mut self, index: ConnectionIndex) {
        let connection = &mut self.connections[index as usize];
        if !connection.is_dirty {
            connection.is_dirty = true;
            self.dirty.push(index);
        }
    }

    /// The connection for a request to this node; `None` when none is ready. Wants one more when all have
    /// outstanding answers.
    #[inline]
    pub(crate) fn choose(&mut self, now: MonotonicUs, to: NodeIndex) -> Option<ConnectionIndex> {
        let node = &mut self.nodes[usize::from(to)];
        if self.connections_per_node == 1 {
            let only = *node.connections.first()?;
            return self.connections[only as usize].is_ready().then_some(only);
        }
        self.choose_of_several(now, to)
    }

    fn choose_of_several(&mut self, now: MonotonicUs, to: NodeIndex) -> Option<ConnectionIndex> {
        let node = &mut self.nodes[usize::from(to)];
        while let Some(index) = node.idle.pop() {
            let connection = &mut self.connections[index as usize];
            connection.is_listed = false;
            if connection.is_idle() {
                return Some(index);
            }
        }
        if !node.is_ready() {
            return None;
        }
        if node.making == 0 {
            self.make_another(now, to);
        }
        self.owing_fewest(to)
    }

    /// The connection with the fewest outstanding answers among some of the node's, others each time unless
    /// there are few.
    fn owing_fewest(&mut self, to: NodeIndex) -> Option<ConnectionIndex> {
        let node = &mut self.nodes[usize::from(to)];
        node.turn = node.turn.wrapping_add(1);
        let (before, after) = node.connections.split_at(node.turn % node.connections.len().max(1));
        let ready = after.iter().chain(before).filter(|&&index| self.connections[index as usize].is_ready());
        ready.take(FEWEST_AMONG).min_by_key(|&&index| self.connections[index as usize].awaited.len()).copied()
    }

    /// Notes that a connection may have no outstanding answer any more.
    #[inline]
    pub(crate) fn list_if_idle(&mut self, index: ConnectionIndex) {
        if self.connections_per_node == 1 {
            return;
        }
        let connection = &mut self.connections[index as usize];
        if !connection.is_listed && connection.is_idle() {
            connection.is_listed = true;
            self.nodes[usize::from(connection.node)].idle.push(index);
        }
    }

    /// Ensures that the node has a connection, ready or being opened; unless the last failed just now.
    pub(crate) fn want_connection(&mut self, now: MonotonicUs, index: NodeIndex) {
        if !self.nodes[usize::from(index)].has_connection() {
            self.make_another(now, index);
        }
    }

    /// Wants all allowed connections to the node.
    pub(crate) fn want_all_connections(&mut self, now: MonotonicUs, index: NodeIndex) {
        while self.make_another(now, index) {}
    }

    /// Opens one more connection to the node, unless it has them all, or the last failed just now. Returns
    /// whether it did.
    fn make_another(&mut self, now: MonotonicUs, index: NodeIndex) -> bool {
        let node = &mut self.nodes[usize::from(index)];
        if node.ready + node.making == self.connections_per_node || node.rests_until > now {
            return false;
        }
        let is_closed = |index: &&ConnectionIndex| self.connections[**index as usize].phase == Phase::Closed;
        let has_closed = node.ready + node.making < node.connections.len();
        let closed = if has_closed { node.connections.iter().find(is_closed).copied() } else { None };
        let number = closed.unwrap_or_else(|| {
            let number = self.connections.len() as ConnectionIndex;
            self.connections.push(Connection::new(index));
            node.connections.push(number);
            number
        });
        node.making += 1;
        self.making.push(number);
        let connection = &mut self.connections[number as usize];
        connection.generation = connection.generation.wrapping_add(1);
        connection.phase = Phase::Connecting { since: now };
        let connection = ConnectionId { index: number, generation: connection.generation };
        self.events.push_back(Event::Connect { connection, address: node.address.clone() });
        true
    }

    /// A connection is lost. If the node pushed over it what it was given, returns a ready one to take its
    /// place.
    pub(crate) fn subscription_lost(&mut self, index: ConnectionIndex) -> Option<ConnectionIndex> {
        let node = &mut self.nodes[usize::from(self.connections[index as usize].node)];
        if node.subscribed != Some(index) {
            return None;
        }
        let is_ready = |other: &ConnectionIndex| self.connections[*other as usize].is_ready();
        node.subscribed = None;
        node.connections.iter().copied().find(is_ready)
    }

    /// The number of the node with this address, added if it is new; `None` when there are too many.
    pub(crate) fn node_at(&mut self, address: &HostPort) -> Option<NodeIndex> {
        if let Some(index) = self.nodes.iter().position(|node| node.address == *address) {
            return Some(index as NodeIndex);
        }
        if self.nodes.len() == MAX_NODES {
            return None;
        }
        self.nodes.push(Node::new(address.clone()));
        Some(self.nodes.len() as NodeIndex - 1)
    }

    /// The connections that were not ready in time.
    pub(crate) fn late(&self, now: MonotonicUs) -> Vec<ConnectionIndex> {
        let is_late = |index: &ConnectionIndex| {
            let began = self.connections[*index as usize].began();
            began.is_some_and(|since| now.since(since) >= CONNECT_TIMEOUT_US)
        };
        self.making.iter().copied().filter(is_late).collect()
    }

    /// Opens the connections that requests wait for.
    pub(crate) fn reconnect(&mut self, now: MonotonicUs) {
        for index in 0..self.nodes.len() {
            if self.nodes[index].reconnects_at().is_some_and(|at| at <= now) {
                self.want_connection(now, index as NodeIndex);
            }
        }
    }

    /// When a connection is not ready in time, or one has to be opened.
    pub(crate) fn timeout(&self) -> Option<MonotonicUs> {
        let making = self.making.iter().filter_map(|&index| self.connections[index as usize].began());
        let given_up = making.map(|since| since.plus_us(CONNECT_TIMEOUT_US));
        given_up.chain(self.nodes.iter().filter_map(Node::reconnects_at)).min()
    }

    /// Reports a node's error to the driver.
    pub(crate) fn trouble(&mut self, node: NodeIndex, why: String) {
        let address = self.nodes[usize::from(node)].address.clone();
        self.events.push_back(Event::Trouble { address, why });
    }
}
