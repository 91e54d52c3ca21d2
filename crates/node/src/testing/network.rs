//! Links between test nodes: ordered, with latency; tests hold, cut and restore them.

use crate::forward::ForwardLink;
use sidle_cluster::{CoordinatorSays, ToCoordinator, ToNode};
use sidle_resp::RespVersion;
pub(super) use sidle_testbed::Side;
use sidle_testbed::{Arrival, Fate, Links, Quality, Random};
use sidle_types::{MigrationId, NodeId};
use sidle_wire::{FrameReader, Lane};
use std::collections::BTreeMap;

/// How long a message travels between two nodes.
pub const LATENCY_US: u64 = 40;

/// Selects coordinator messages.
type IsKind = fn(&CoordinatorSays) -> bool;

/// A link's message.
#[derive(Clone)]
pub(super) enum Sent {
    ToCoordinator(ToCoordinator),
    ToNode(ToNode),
    Bytes(Vec<u8>),
}

/// An arrived message. A connection's opener is the migration's target, or the forwarder.
pub(super) type Delivery = Arrival<u64, Sent>;

/// The nodes' link to the coordinator, which is always open; connections have higher numbers.
const COORDINATOR: u64 = 0;

/// Nothing is lost or overtaken by itself.
const WAYS: [Quality; 2] = [Quality::sound(LATENCY_US, LATENCY_US); 2];

/// The purpose of a connection between two nodes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Purpose {
    /// A lane of a migration, between two movers.
    Lane(MigrationId, Lane),
    /// A worker of the opener forwards: its name for the connection, and the protocol version.
    Forward { worker: usize, link: ForwardLink, version: RespVersion },
}

/// A connection between two nodes.
pub(super) struct Connection {
    pub(super) purpose: Purpose,
    pub(super) opener: usize,
    pub(super) acceptor: usize,
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

    fn is_forward(&self) -> bool {
        matches!(self.purpose, Purpose::Forward { .. })
    }

    pub(super) fn reader(&mut self, side: Side) -> &mut FrameReader {
        &mut self.readers[side as usize]
    }
}

/// Everything in flight between the nodes and the coordinator.
#[derive(Default)]
pub struct Network {
    pub(super) now_us: u64,
    links: Links<u64, Sent>,
    /// Links need it; nothing depends on its draws.
    random: Random,
    /// By number, opening and closed ones included.
    pub(super) connections: BTreeMap<u64, Connection>,
    last_connection: u64,
    /// Bulk frames stay in flight while this is set: missing records arrive out of turn only.
    pub hold_bulk: bool,
    /// Priority frames stay in flight while this is set: pulls out of turn, and activation.
    pub hold_priority: bool,
    /// Forwarded requests and their replies stay in flight while this is set.
    pub hold_forwarded: bool,
    /// Connections stay half open while this is set.
    pub hold_opening: bool,
    /// Coordinator messages of this kind to this node are lost.
    pub lose: Option<(NodeId, IsKind)>,
    /// This node's messages to the coordinator are lost.
    pub mute: Option<NodeId>,
    /// Coordinator messages of this kind are kept as well, to arrive again.
    pub keep: Option<IsKind>,
    kept: Vec<ToNode>,
    /// Connections break and cannot be opened while this is set.
    pub is_cut: bool,
    /// Bytes sent between movers.
    pub bytes: u64,
}

impl Network {
    pub(super) fn at(now_us: u64) -> Network {
        let mut links = Links::default();
        links.establish(COORDINATOR, WAYS);
        Network { now_us, links, last_connection: COORDINATOR, ..Network::default() }
    }

    pub(super) fn send_to_coordinator(&mut self, message: ToCoordinator) {
        self.send(COORDINATOR, Side::Acceptor, Sent::ToCoordinator(message));
    }

    pub(super) fn send_to_node(&mut self, message: ToNode) {
        if self.keep.is_some_and(|is_kind| is_kind(&message.body)) {
            self.kept.push(message.clone());
        }
        self.send(COORDINATOR, Side::Opener, Sent::ToNode(message));
    }

    /// All kept messages arrive again.
    pub fn repeat_kept(&mut self) {
        for message in std::mem::take(&mut self.kept) {
            self.send_to_node(message);
        }
    }

    pub(super) fn send_bytes(&mut self, connection: u64, to: Side, bytes: Vec<u8>) {
        self.bytes += bytes.len() as u64;
        self.send(connection, to, Sent::Bytes(bytes));
    }

    fn send(&mut self, link: u64, to: Side, sent: Sent) {
        self.links.send(link, to, sent, 0, self.now_us, &mut self.random);
    }

    pub(super) fn open(&mut self, purpose: Purpose, opener: usize, acceptor: usize) {
        self.last_connection += 1;
        let (connection, at_us) = (self.last_connection, self.now_us + LATENCY_US);
        let readers = Default::default();
        self.connections.insert(connection, Connection { purpose, opener, acceptor, readers });
        match self.is_cut {
            true => self.links.refuse(connection, at_us),
            false => self.links.open(connection, WAYS, at_us),
        }
    }

    /// The open connections.
    pub(super) fn standing(&self) -> impl Iterator<Item = (u64, &Connection)> {
        self.links.open_links().filter_map(|link| Some((link, self.connections.get(&link)?)))
    }

    /// One end closed the connection: the other is notified, and receives nothing more.
    pub(super) fn close(&mut self, connection: u64, by: Side) {
        if self.links.is_open(connection) {
            self.end(connection, |side| side != by);
        }
    }

    /// Breaks a connection; everything in flight over it is lost.
    pub(super) fn break_off(&mut self, connection: u64) {
        self.end(connection, |_| true);
    }

    fn end(&mut self, connection: u64, learns: impl Fn(Side) -> bool) {
        let at_us = Side::BOTH.map(|side| learns(side).then_some(self.now_us + LATENCY_US));
        self.links.cut(connection, at_us, 0, &mut self.random);
    }

    fn break_off_those(&mut self, which: impl Fn(&Connection) -> bool) {
        let standing = self.standing().filter(|(_, known)| which(known));
        let those: Vec<u64> = standing.map(|(connection, _)| connection).collect();
        those.into_iter().for_each(|connection| self.break_off(connection));
    }

    /// Breaks every connection; everything in flight is lost.
    pub fn cut(&mut self) {
        self.is_cut = true;
        self.break_off_those(|_| true);
    }

    /// How many connections forward requests.
    pub fn forwarding_connections(&self) -> usize {
        self.standing().filter(|(_, known)| known.is_forward()).count()
    }

    /// Breaks every forwarding connection; everything in flight is lost.
    pub fn cut_forwarding(&mut self) {
        self.break_off_those(Connection::is_forward);
    }

    /// Breaks every connection of a node, opening ones included.
    pub(super) fn cut_off(&mut self, node: usize) {
        self.break_off_those(|known| known.opener == node || known.acceptor == node);
        let Network { connections, links, random, .. } = self;
        connections.retain(|&connection, known| {
            let stays = known.opener != node;
            if !stays {
                links.cut(connection, [None; 2], 0, random);
            }
            stays
        });
    }

    /// A worker's open connection with this name.
    pub(super) fn forwarding(&self, node: usize, worker: usize, link: ForwardLink) -> Option<u64> {
        let is_it = |known: &Connection| {
            let Purpose::Forward { worker: of, link: called, .. } = known.purpose else { return false };
            (known.opener, of, called) == (node, worker, link)
        };
        self.standing().find(|(_, known)| is_it(known)).map(|(connection, _)| connection)
    }

    /// The next message that has arrived by now.
    pub(super) fn receive(&mut self) -> Option<Delivery> {
        let Network { links, connections, lose, mute, .. } = self;
        let holds = |connection: &u64| match connections.get(connection).map(|known| known.purpose) {
            Some(Purpose::Lane(_, Lane::Bulk)) => self.hold_bulk,
            Some(Purpose::Lane(_, Lane::Priority)) => self.hold_priority,
            Some(Purpose::Forward { .. }) => self.hold_forwarded,
            None => false,
        };
        let is_lost = |message: &ToNode| {
            lose.is_some_and(|(node, is_kind)| message.to == node && is_kind(&message.body))
        };
        links.receive(self.now_us, |delivery| match delivery {
            Arrival::Message(_, _, Sent::ToNode(message)) if is_lost(message) => Fate::IsLost,
            Arrival::Message(_, _, Sent::ToCoordinator(message)) if *mute == Some(message.from) => {
                Fate::IsLost
            }
            Arrival::Message(connection, _, Sent::Bytes(_)) if holds(connection) => Fate::Waits,
            Arrival::Opened(_) if self.hold_opening => Fate::Waits,
            _ => Fate::Arrives,
        })
    }

    /// Releases everything held.
    pub fn release(&mut self) {
        (self.hold_bulk, self.hold_priority, self.hold_opening) = (false, false, false);
        self.hold_forwarded = false;
        self.links.release(self.now_us);
    }

    /// When the next thing arrives.
    pub(super) fn next_arrival_us(&self) -> Option<u64> {
        self.links.next_at_us()
    }
}
