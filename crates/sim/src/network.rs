//! The simulated network: byte streams between machines and clients, with TCP's guarantees.
//!
//! Bytes sent over one connection arrive in order and unchanged, or not at all, as with TCP. Everything else
//! may happen. Latency, jitter, bandwidth and retransmission delay bytes; they arrive in pieces; a cut holds
//! them back, in one direction or both. A connection breaks and each end learns of it at its own time. So
//! bytes of an old connection can arrive after those of its successor, and the same message can go over both.

use crate::link::{Links, LinksSetup};
use crate::process::OUTPUT_BYTES;
use crate::world::{Actor, Event, HostId, World};
use sidle_migration::tuning::PRIORITY_REPLY_BYTES;
pub use sidle_testbed::Side;
use sidle_wire::Lane;
use std::collections::{BTreeMap, BTreeSet, VecDeque};

/// A connection, by number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct StreamId(pub u64);

/// A location: cuts lie between places.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Place {
    /// A machine of the cluster.
    Host(HostId),
    /// A client's machine.
    Client(usize),
}

impl Place {
    /// Where an actor is.
    ///
    /// # Panics
    /// If it is nowhere.
    pub fn of(actor: Actor) -> Place {
        match actor {
            Actor::Thread(host, _) => Place::Host(host),
            Actor::Client(number) => Place::Client(number),
            Actor::Nemesis => panic!("{actor:?} is not on the network"),
        }
    }
}

/// The destination of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Port {
    /// The port that clients connect to.
    Clients,
    /// The port that nodes connect to.
    Bus,
}

/// An event for the holder of an end.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Signal {
    /// The connection is open.
    Opened,
    /// It could not be opened.
    Refused,
    /// These bytes have arrived.
    Bytes(Vec<u8>),
    /// It has ended; nothing more arrives, and nothing more can be sent.
    Closed,
}

/// The wait before an unanswered connection request is repeated; doubles each time, as in TCP.
const KNOCK_AGAIN_US: u64 = 1_000_000;
/// How many requests before it gives up.
const KNOCKS: u32 = 3;
/// A sender with more than this in flight waits.
const WINDOW_BYTES: usize = 256 << 10;

/// No workload has a record as large as this.
const LARGEST_RECORD_BYTES: usize = 1 << 20;

struct Packet {
    at_us: u64,
    signal: Signal,
    /// It comes from the receiver's own machine, which gives up, and needs no link.
    is_local: bool,
}

/// The bytes in flight to one end.
#[derive(Default)]
struct Direction {
    packets: VecDeque<Packet>,
    under_way_bytes: usize,
    /// Nothing more is sent this way.
    is_shut: bool,
}

struct Stream {
    port: Port,
    /// How many of its requests failed.
    knocks: u32,
    places: [Place; 2],
    /// The receivers of arrivals; none at a closed end.
    holders: [Option<Actor>; 2],
    /// By the end that receives.
    directions: [Direction; 2],
}

/// All connections, and the faults of the links between places.
pub struct Network {
    /// The links between places.
    pub links: Links,
    streams: BTreeMap<StreamId, Stream>,
    last_stream: u64,
    /// Nothing from the first place reaches the second.
    cuts: BTreeSet<(Place, Place)>,
    /// Places that take this long for each packet, and when they take the next.
    slow_readers: BTreeMap<Place, (u64, u64)>,
    /// Packets that arrived.
    pub delivered: u64,
}

impl Network {
    /// A network without connections.
    pub fn new(links: LinksSetup) -> Network {
        Network {
            links: Links::new(links),
            streams: BTreeMap::new(),
            last_stream: 0,
            cuts: BTreeSet::new(),
            slow_readers: BTreeMap::new(),
            delivered: 0,
        }
    }

    /// Makes a place take this long for each packet that it reads.
    pub fn slow_down(&mut self, place: Place, us: u64) {
        self.slow_readers.insert(place, (us, 0));
    }

    /// Whether the sender at `from` should wait before it sends more.
    pub fn is_full(&self, stream: StreamId, from: Side) -> bool {
        let to = from.other() as usize;
        self.streams.get(&stream).is_some_and(|s| s.directions[to].under_way_bytes > WINDOW_BYTES)
    }

    /// The most in flight to one end of a connection between nodes: a full window, and what was sent at once
    /// before it was full, up to the end of a frame. The longest is a migration's, which ends with the record
    /// that fills it.
    pub const MOST_UNDER_WAY_BYTES: usize =
        WINDOW_BYTES + OUTPUT_BYTES + PRIORITY_REPLY_BYTES + LARGEST_RECORD_BYTES;

    /// The longest wait of a migration's message over the slowest link between machines: everything that may
    /// be in flight on both lanes' connections, itself included.
    pub fn longest_wait_us(&self) -> u64 {
        let bytes = Lane::ALL.len() * Self::MOST_UNDER_WAY_BYTES;
        self.links.slowest_bytes_per_ms().map_or(0, |per_ms| bytes as u64 * 1000 / per_ms)
    }

    /// How many bytes sent from this end are in flight.
    pub fn under_way_bytes(&self, stream: StreamId, from: Side) -> usize {
        let to = from.other() as usize;
        self.streams.get(&stream).map_or(0, |stream| stream.directions[to].under_way_bytes)
    }

    /// Whether every connection between nodes is open, for the holders of both of its ends. (Some clients
    /// never read, and so never notice.)
    pub fn is_whole(&self) -> bool {
        self.streams.values().filter(|stream| stream.port == Port::Bus).all(|stream| {
            stream.holders.iter().all(Option::is_some) && stream.directions.iter().all(|to| !to.is_shut)
        })
    }

    /// The port that a connection was opened to, and who opened it.
    pub fn port(&self, stream: StreamId) -> Option<Port> {
        self.streams.get(&stream).map(|stream| stream.port)
    }

    /// Where an end of a connection is.
    pub fn place(&self, stream: StreamId, side: Side) -> Option<Place> {
        self.streams.get(&stream).map(|stream| stream.places[side as usize])
    }

    /// The connections with an end at this place.
    pub fn streams_at(&self, place: Place) -> Vec<StreamId> {
        let is_there = |stream: &Stream| stream.places.contains(&place);
        self.streams.iter().filter(|(_, stream)| is_there(stream)).map(|(&id, _)| id).collect()
    }

    /// All connections.
    pub fn streams(&self) -> Vec<StreamId> {
        self.streams.keys().copied().collect()
    }

    /// Whether any link is cut.
    pub fn is_cut(&self) -> bool {
        !self.cuts.is_empty()
    }

    /// Nothing gets from one place to another from now on.
    pub fn cut(&mut self, from: Place, to: Place) {
        self.cuts.insert((from, to));
    }
}

impl World {
    /// Opens a connection from the opener's place to a machine; the opener receives [`Signal::Opened`] or
    /// [`Signal::Refused`].
    pub fn open(&mut self, opener: Actor, to: HostId, port: Port) -> StreamId {
        let places = [Place::of(opener), Place::Host(to)];
        self.network.last_stream += 1;
        let id = StreamId(self.network.last_stream);
        let holders = [Some(opener), None];
        self.network
            .streams
            .insert(id, Stream { port, knocks: 0, places, holders, directions: Default::default() });
        let travel_us = self.travel_us(places[0], places[1], 0);
        self.schedule(self.now_us + travel_us, Event::Knock(id));
        id
    }

    /// Whether the request for a connection gets through. If not, it is repeated after a while, and finally
    /// given up.
    pub fn gets_through(&mut self, id: StreamId) -> bool {
        let Some(stream) = self.network.streams.get_mut(&id) else { return false };
        let link = (stream.places[Side::Opener as usize], stream.places[Side::Acceptor as usize]);
        if !self.network.cuts.contains(&link) {
            return true;
        }
        stream.knocks += 1;
        let wait_us = KNOCK_AGAIN_US << (stream.knocks - 1);
        if stream.knocks < KNOCKS {
            self.schedule(self.now_us + wait_us, Event::Knock(id));
        } else {
            self.put_after(id, Side::Opener, wait_us, Signal::Refused, true);
        }
        false
    }

    /// The machine accepts the connection; `holder` receives its data.
    pub fn accept(&mut self, id: StreamId, holder: Actor) {
        let Some(stream) = self.network.streams.get_mut(&id) else { return };
        if stream.directions[Side::Acceptor as usize].is_shut {
            // It broke before it was open.
            return;
        }
        stream.holders[Side::Acceptor as usize] = Some(holder);
        self.put(id, Side::Opener, Signal::Opened);
    }

    /// Nobody there can accept the connection.
    pub fn refuse(&mut self, id: StreamId) {
        self.put(id, Side::Opener, Signal::Refused);
    }

    /// Hands an end over to another thread of the same machine.
    pub fn hand_over(&mut self, id: StreamId, side: Side, holder: Actor) {
        if let Some(stream) = self.network.streams.get_mut(&id) {
            stream.holders[side as usize] = Some(holder);
        }
    }

    /// Sends bytes from one end to the other.
    pub fn send(&mut self, id: StreamId, from: Side, bytes: Vec<u8>) {
        let to = from.other();
        match self.network.streams.get(&id) {
            Some(stream) if !stream.directions[to as usize].is_shut && !bytes.is_empty() => {}
            _ => return,
        }
        if bytes.len() > 1 && self.random.one_in(8) {
            let cut = 1 + self.random.index(bytes.len() - 1);
            self.put(id, to, Signal::Bytes(bytes[..cut].to_vec()));
            self.put(id, to, Signal::Bytes(bytes[cut..].to_vec()));
        } else {
            self.put(id, to, Signal::Bytes(bytes));
        }
    }

    /// Closes an end: bytes already sent still arrive, then the other end is notified. Arrivals here are
    /// dropped.
    pub fn close(&mut self, id: StreamId, by: Side) {
        let Some(stream) = self.network.streams.get_mut(&id) else { return };
        if stream.holders[by as usize].take().is_some() {
            self.put(id, by.other(), Signal::Closed);
            self.shut(id, by.other());
        }
        self.tidy(id);
    }

    /// A connection breaks. Each end is notified after this time; some of the bytes in flight to it arrive
    /// before.
    pub fn break_off(&mut self, id: StreamId, after_us: [u64; 2]) {
        for side in Side::BOTH {
            let Some(stream) = self.network.streams.get(&id) else { return };
            let (to, from) = (stream.places[side as usize], stream.places[side.other() as usize]);
            let arrives = match self.network.cuts.contains(&(from, to)) {
                true => 0,
                false => stream.directions[side as usize].packets.len() as u64,
            };
            let arrives = self.random.between(0, arrives) as usize;
            let Some(stream) = self.network.streams.get_mut(&id) else { return };
            let direction = &mut stream.directions[side as usize];
            direction.packets.truncate(arrives);
            direction.is_shut = false;
            direction.under_way_bytes = direction.packets.iter().map(|packet| packet.signal.bytes()).sum();
            self.put_after(id, side, after_us[side as usize], Signal::Closed, true);
            self.shut(id, side);
        }
        self.tidy(id);
    }

    /// The holder of this end is gone silently.
    pub fn abandon(&mut self, id: StreamId, side: Side) {
        if let Some(stream) = self.network.streams.get_mut(&id) {
            stream.holders[side as usize] = None;
        }
        self.tidy(id);
    }

    /// Every link works again.
    pub fn heal(&mut self) {
        self.network.cuts.clear();
        for id in self.network.streams() {
            for side in Side::BOTH {
                let Stream { places, directions, .. } = &self.network.streams[&id];
                let (from, to) = (places[side.other() as usize], places[side as usize]);
                if !directions[side as usize].packets.is_empty() {
                    let travel_us = self.travel_us(from, to, 0);
                    self.schedule(self.now_us + travel_us, Event::Arrival(id, side));
                }
            }
        }
    }

    /// The next thing that has arrived at this end by now, and its receiver.
    pub fn receive(&mut self, id: StreamId, side: Side) -> Option<(Actor, Signal)> {
        let now_us = self.now_us;
        let stream = self.network.streams.get_mut(&id)?;
        let (to, from) = (stream.places[side as usize], stream.places[side.other() as usize]);
        let direction = &mut stream.directions[side as usize];
        let first = direction.packets.front()?;
        let is_cut = self.network.cuts.contains(&(from, to));
        if first.at_us > now_us || (is_cut && !first.is_local) {
            return None;
        }
        if let Some((takes_us, next_us)) = self.network.slow_readers.get_mut(&to) {
            if *next_us > now_us {
                let again_us = *next_us;
                self.schedule(again_us, Event::Arrival(id, side));
                return None;
            }
            *next_us = now_us + *takes_us;
        }
        let signal = direction.packets.pop_front()?.signal;
        let before_bytes = direction.under_way_bytes;
        direction.under_way_bytes -= signal.bytes();
        let has_room = before_bytes > WINDOW_BYTES && direction.under_way_bytes <= WINDOW_BYTES;
        let (holder, sender) = (stream.holders[side as usize], stream.holders[side.other() as usize]);
        if let Some(Actor::Thread(host, thread)) = sender.filter(|_| has_room) {
            self.wake(host, thread);
        }
        if matches!(signal, Signal::Closed | Signal::Refused)
            && let Some(stream) = self.network.streams.get_mut(&id)
        {
            stream.holders[side as usize] = None;
            self.tidy(id);
        }
        self.network.delivered += 1;
        Some((holder?, signal))
    }

    fn travel_us(&mut self, from: Place, to: Place, bytes: usize) -> u64 {
        self.network.links.send_us(from, to, bytes, self.now_us, &mut self.random)
    }

    fn put(&mut self, id: StreamId, to: Side, signal: Signal) {
        let Some(Stream { places, .. }) = self.network.streams.get(&id) else { return };
        let (there, here) = (places[to as usize], places[to.other() as usize]);
        let travel_us = self.travel_us(here, there, signal.bytes());
        self.put_after(id, to, travel_us, signal, false);
    }

    fn put_after(&mut self, id: StreamId, to: Side, after_us: u64, signal: Signal, is_local: bool) {
        let now_us = self.now_us;
        let Some(stream) = self.network.streams.get_mut(&id) else { return };
        let direction = &mut stream.directions[to as usize];
        if direction.is_shut {
            return;
        }
        let before_us = direction.packets.back().map_or(0, |packet| packet.at_us);
        let at_us = before_us.max(now_us + after_us);
        direction.under_way_bytes += signal.bytes();
        direction.packets.push_back(Packet { at_us, signal, is_local });
        self.schedule(at_us, Event::Arrival(id, to));
    }

    fn shut(&mut self, id: StreamId, to: Side) {
        if let Some(stream) = self.network.streams.get_mut(&id) {
            stream.directions[to as usize].is_shut = true;
        }
    }

    fn tidy(&mut self, id: StreamId) {
        if self.network.streams.get(&id).is_some_and(|stream| stream.holders == [None, None]) {
            self.network.streams.remove(&id);
        }
    }
}

impl Signal {
    fn bytes(&self) -> usize {
        if let Signal::Bytes(bytes) = self { bytes.len() } else { 0 }
    }
}
