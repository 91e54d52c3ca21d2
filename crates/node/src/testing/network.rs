//! Links between test nodes: ordered, with latency, to be held, cut and restored.

use crate::forward::ForwardLink;
use sidle_cluster::{CoordinatorSays, ToCoordinator, ToNode};
use sidle_resp::RespVersion;
use sidle_types::{MigrationId, NodeId};
use sidle_wire::{FrameReader, Lane};
use std::collections::BTreeMap;

/// How long a message is under way between two nodes.
pub const LATENCY_US: u64 = 40;

/// Chooses among what the coordinator says.
type IsKind = fn(&CoordinatorSays) -> bool;

/// Something under way.
pub(super) enum Delivery {
    ToCoordinator(ToCoordinator),
    ToNode(ToNode),
    /// The far end of a connection that `Side::Opener` asked for exists now.
    Opened {
        connection: u64,
    },
    /// There is no such node, or no way to it.
    OpenFailed {
        connection: u64,
    },
    Bytes {
        connection: u64,
        to: Side,
        bytes: Vec<u8>,
    },
    Closed {
        connection: u64,
        to: Side,
    },
}

/// Which end of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Side {
    /// The target of the migration, or who forwards.
    Opener,
    /// The source, or who runs what is forwarded.
    Acceptor,
}

impl Side {
    pub(super) fn other(self) -> Side {
        match self {
            Side::Opener => Side::Acceptor,
            Side::Acceptor => Side::Opener,
        }
    }
}

/// What a connection between two nodes is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Purpose {
    /// A lane of a migration, between two movers.
    Lane(MigrationId, Lane),
    /// What a worker of the opener forwards: what it calls the connection, and the version of the protocol.
    Forward { worker: usize, link: ForwardLink, version: RespVersion },
}

/// A connection between two nodes.
pub(super) struct Connection {
    pub(super) purpose: Purpose,
    pub(super) opener: usize,
    pub(super) acceptor: usize,
    pub(super) is_open: bool,
    readers: [FrameReader; 2],
}

impl Connection {
    /// The index of the node at this end.
    pub(super) fn node(&self, side: Side) -> usize {
        match side {
            Side::Opener => self.opener,
            Side::Acceptor => self.acceptor,
        }
    }

    pub(super) fn reader(&mut self, side: Side) -> &mut FrameReader {
        &mut self.readers[side as usize]
    }
}

/// Everything under way between the nodes and the coordinator.
#[derive(Default)]
pub struct Network {
    pub(super) now_us: u64,
    queue: BTreeMap<(u64, u64), Delivery>,
    sequence: u64,
    pub(super) connections: BTreeMap<u64, Connection>,
    next_connection: u64,
    /// Bulk frames stay on their way while this is set: what has not arrived does not arrive, except out of
    /// turn.
    pub hold_bulk: bool,
    /// Priority frames stay on their way while this is set: pulls out of turn, and activation.
    pub hold_priority: bool,
    /// Forwarded requests and their replies stay on their way while this is set.
    pub hold_forwarded: bool,
    /// Connections stay half open while this is set.
    pub hold_opening: bool,
    /// What the coordinator says of this kind to this node is lost on its way.
    pub lose: Option<(NodeId, IsKind)>,
    /// What this node says to the coordinator is lost on its way.
    pub mute: Option<NodeId>,
    /// What the coordinator says of this kind is kept as well, to come once more.
    pub keep: Option<IsKind>,
    kept: Vec<ToNode>,
    /// Connections break and cannot be opened while this is set.
    pub is_cut: bool,
    held: Vec<Delivery>,
    /// Bytes that travelled between movers.
    pub bytes: u64,
}

impl Network {
    pub(super) fn at(now_us: u64) -> Network {
        Network { now_us, ..Network::default() }
    }

    pub(super) fn send(&mut self, delivery: Delivery) {
        if let Delivery::ToNode(message) = &delivery
            && self.keep.is_some_and(|is_kind| is_kind(&message.body))
        {
            self.kept.push(message.clone());
        }
        self.send_in(LATENCY_US, delivery);
    }

    /// Everything that was kept comes once more.
    pub fn repeat_kept(&mut self) {
        for message in std::mem::take(&mut self.kept) {
            self.send(Delivery::ToNode(message));
        }
    }

    fn send_in(&mut self, us: u64, delivery: Delivery) {
        self.sequence += 1;
        self.queue.insert((self.now_us + us, self.sequence), delivery);
    }

    pub(super) fn open(&mut self, purpose: Purpose, opener: usize, acceptor: usize) {
        self.next_connection += 1;
        let connection = self.next_connection;
        let readers = Default::default();
        let is_open = false;
        self.connections.insert(connection, Connection { purpose, opener, acceptor, is_open, readers });
        self.send(match self.is_cut {
            true => Delivery::OpenFailed { connection },
            false => Delivery::Opened { connection },
        });
    }

    pub(super) fn send_bytes(&mut self, connection: u64, to: Side, bytes: Vec<u8>) {
        self.bytes += bytes.len() as u64;
        self.send(Delivery::Bytes { connection, to, bytes });
    }

    /// One end closed the connection: the other hears of it, and nothing more.
    pub(super) fn close(&mut self, connection: u64, by: Side) {
        if let Some(known) = self.connections.get_mut(&connection)
            && std::mem::take(&mut known.is_open)
        {
            self.send(Delivery::Closed { connection, to: by.other() });
        }
    }

    /// Breaks every connection, and everything on its way over them is lost.
    pub fn cut(&mut self) {
        self.is_cut = true;
        self.held.clear();
        let open: Vec<u64> =
            self.connections.iter().filter(|(_, c)| c.is_open).map(|(&connection, _)| connection).collect();
        open.into_iter().for_each(|connection| self.break_off(connection));
    }

    /// How many connections there are over which requests are forwarded.
    pub fn forwarding_connections(&self) -> usize {
        let is_forward = |known: &&Connection| matches!(known.purpose, Purpose::Forward { .. });
        self.connections.values().filter(|known| known.is_open).filter(is_forward).count()
    }

    /// Breaks every connection over which requests are forwarded; what is on its way over them is lost.
    pub fn cut_forwarding(&mut self) {
        let is_forward = |known: &Connection| matches!(known.purpose, Purpose::Forward { .. });
        let open = self.connections.iter().filter(|(_, known)| known.is_open && is_forward(known));
        let open: Vec<u64> = open.map(|(&id, _)| id).collect();
        self.held
            .retain(|held| !matches!(held, Delivery::Bytes { connection, .. } if open.contains(connection)));
        open.into_iter().for_each(|connection| self.break_off(connection));
    }

    /// Gives up every connection that a node waits for.
    pub(super) fn forget_openings(&mut self, node: usize) {
        self.connections.retain(|_, known| known.is_open || known.opener != node);
    }

    /// The open connection that a worker of a node calls so.
    pub(super) fn forwarding(&self, node: usize, worker: usize, link: ForwardLink) -> Option<u64> {
        let is_it = |known: &Connection| {
            let Purpose::Forward { worker: of, link: called, .. } = known.purpose else { return false };
            known.is_open && (known.opener, of, called) == (node, worker, link)
        };
        self.connections.iter().find(|(_, known)| is_it(known)).map(|(&id, _)| id)
    }

    /// The open connections of a node.
    pub(super) fn connections_of(&self, node: usize) -> Vec<u64> {
        let is_its = |known: &Connection| known.is_open && (known.opener == node || known.acceptor == node);
        self.connections.iter().filter(|(_, known)| is_its(known)).map(|(&id, _)| id).collect()
    }

    /// Breaks a connection, and everything on its way over it is lost.
    pub(super) fn break_off(&mut self, connection: u64) {
        let known = self.connections.get_mut(&connection).expect("it is open");
        known.is_open = false;
        self.send(Delivery::Closed { connection, to: Side::Opener });
        self.send(Delivery::Closed { connection, to: Side::Acceptor });
    }

    /// The next thing that has arrived by now.
    pub(super) fn receive(&mut self) -> Option<Delivery> {
        loop {
            let entry = self.queue.first_entry().filter(|entry| entry.key().0 <= self.now_us)?;
            let delivery = entry.remove();
            if self.is_lost(&delivery) {
                continue;
            }
            if self.is_held(&delivery) {
                self.held.push(delivery);
            } else {
                return Some(delivery);
            }
        }
    }

    fn is_lost(&self, delivery: &Delivery) -> bool {
        match delivery {
            Delivery::ToNode(message) => {
                self.lose.is_some_and(|(node, is_kind)| message.to == node && is_kind(&message.body))
            }
            Delivery::ToCoordinator(message) => self.mute == Some(message.from),
            _ => false,
        }
    }

    fn is_held(&self, delivery: &Delivery) -> bool {
        let Delivery::Bytes { connection, .. } = delivery else {
            return self.hold_opening && matches!(delivery, Delivery::Opened { .. });
        };
        match self.connections.get(connection).map(|connection| connection.purpose) {
            Some(Purpose::Lane(_, Lane::Bulk)) => self.hold_bulk,
            Some(Purpose::Lane(_, Lane::Priority)) => self.hold_priority,
            Some(Purpose::Forward { .. }) => self.hold_forwarded,
            None => false,
        }
    }

    /// Lets everything through again that was held.
    pub fn release(&mut self) {
        (self.hold_bulk, self.hold_priority, self.hold_opening) = (false, false, false);
        self.hold_forwarded = false;
        for delivery in std::mem::take(&mut self.held) {
            self.send_in(0, delivery);
        }
    }

    /// When the next thing arrives.
    pub(super) fn next_arrival_us(&self) -> Option<u64> {
        self.queue.first_key_value().map(|((at, _), _)| *at)
    }
}
