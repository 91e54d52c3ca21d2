//! Sessions of the client library: its core, with one or several connections to each node that are slow and
//! break.

use super::draw::{Asked, Draw, datum, is_failure};
use sidle_client_core::{
    Awareness, Class, Config, ConnectionId, Core, Counters, Destination, Effect, Event, Input, Outcome,
};
use sidle_history::{Datum, Operation};
use sidle_node::testing::{ClientKey, TestCluster};
use sidle_resp::Value;
use sidle_types::HashedKey;
use std::collections::VecDeque;

/// One connection with both ends: requests arrive later, in order.
struct Wire {
    connection: ConnectionId,
    node: usize,
    /// The node's end, once it is open.
    to: Option<ClientKey>,
    opens_us: u64,
    requests: VecDeque<(u64, Vec<u8>)>,
    replies: VecDeque<(u64, Vec<u8>)>,
    /// Received bytes that the core has not consumed.
    input: Vec<u8>,
    /// The client has lost it. Its requests may still arrive.
    is_lost: bool,
}

/// Appends bytes that arrive after this delay, but not before earlier ones.
fn put(on: &mut VecDeque<(u64, Vec<u8>)>, now_us: u64, draw: &mut Draw, bytes: Vec<u8>) {
    let before = on.back().map_or(0, |last| last.0);
    on.push_back((before.max(now_us + draw.travel_us()), bytes));
}

impl Wire {
    fn next_us(&self) -> Option<u64> {
        let opens = self.to.is_none().then_some(self.opens_us);
        let arrivals = [self.requests.front(), self.replies.front()].into_iter().flatten().map(|next| next.0);
        arrivals.chain(opens).min()
    }
}

/// The state of one of its operations in a row.
struct Lane {
    wake_us: u64,
    asked: Option<Asked>,
}

pub(super) struct LibrarySession {
    number: u64,
    core: Core,
    wires: Vec<Wire>,
    lanes: Vec<Lane>,
    left: u64,
}

/// The concurrent operations of a session.
const LANES: usize = 2;

impl LibrarySession {
    pub(super) fn new(
        number: u64,
        operations: u64,
        awareness: Awareness,
        connections_per_node: usize,
    ) -> LibrarySession {
        let seed = "127.0.0.1:7001".parse().expect("an address");
        let config = Config {
            awareness,
            // Shorter than the longest times without a link.
            operation_timeout_us: 2_500,
            connections_per_node,
            ..Config::new(vec![seed])
        };
        LibrarySession {
            number,
            core: Core::new(config),
            wires: Vec::new(),
            lanes: (0..LANES).map(|_| Lane { wake_us: 0, asked: None }).collect(),
            left: operations,
        }
    }

    pub(super) fn counters(&self) -> Counters {
        self.core.counters()
    }

    /// Begins operations, delivers arrivals to nodes, advances the core's time.
    pub(super) fn step_requests(
        &mut self,
        cluster: &mut TestCluster,
        draw: &mut Draw,
        history: &mut Vec<Operation>,
    ) {
        let now = cluster.now().mono;
        for lane in 0..LANES {
            if self.lanes[lane].asked.is_none() && self.lanes[lane].wake_us <= now.0 && self.left > 0 {
                self.begin(cluster, lane, draw);
                if draw.below(40) == 0 && !self.wires.is_empty() {
                    let wire = draw.below(self.wires.len() as u64) as usize;
                    self.break_wire(cluster, wire, draw, history);
                }
            }
        }
        if self.core.poll_timeout().is_some_and(|at| at <= now) {
            let mut ended = Vec::new();
            self.core.handle(now, Input::Tick, &mut |token, outcome: Outcome<'_>| {
                ended.push((token, owned(outcome)));
            });
            self.end(now.0, draw, ended, history);
        }
        for index in 0..self.wires.len() {
            let wire = &mut self.wires[index];
            if wire.to.is_none() && wire.opens_us <= now.0 && !wire.is_lost {
                wire.to = Some(cluster.connect_raw(wire.node, self.number as usize % 2));
                let connection = wire.connection;
                self.core.handle(now, Input::Connected(connection), &mut |_, _: Outcome<'_>| {
                    unreachable!("nothing ends when a connection is made")
                });
            }
            let wire = &mut self.wires[index];
            while wire.requests.front().is_some_and(|next| next.0 <= now.0) {
                let (_, bytes) = wire.requests.pop_front().expect("just seen");
                cluster.client(wire.to.expect("only an open connection is written to")).send_raw(&bytes);
            }
        }
        self.pump(cluster, draw);
    }

    fn begin(&mut self, cluster: &TestCluster, lane: usize, draw: &mut Draw) {
        let now = cluster.now().mono;
        let asked = draw.operation(self.number, self.left, now.0);
        self.left -= 1;
        let words: Vec<&[u8]> = asked.words.iter().map(|word| word.as_bytes()).collect();
        let key = HashedKey::new(words[1]);
        let class = if asked.operation.op.is_read() { Class::Read } else { Class::Write };
        let started = match words[0] {
            b"GET" => self.core.get(now, lane as u64, key),
            _ => self.core.submit(now, lane as u64, class, Destination::Key(key), &words),
        };
        started.expect("two operations are not many");
        self.lanes[lane].asked = Some(asked);
    }

    /// The client loses a connection; some of its requests may still arrive.
    fn break_wire(
        &mut self,
        cluster: &TestCluster,
        index: usize,
        draw: &mut Draw,
        history: &mut Vec<Operation>,
    ) {
        let now = cluster.now().mono;
        let wire = &mut self.wires[index];
        if std::mem::replace(&mut wire.is_lost, true) {
            return;
        }
        let arrive = draw.below(wire.requests.len() as u64 + 1) as usize;
        wire.requests.truncate(arrive);
        wire.replies.clear();
        let connection = wire.connection;
        let mut ended = Vec::new();
        self.core.handle(now, Input::Disconnected(connection), &mut |token, outcome: Outcome<'_>| {
            ended.push((token, owned(outcome)));
        });
        self.end(now.0, draw, ended, history);
    }

    /// Takes in the nodes' answers.
    pub(super) fn step_replies(
        &mut self,
        cluster: &mut TestCluster,
        draw: &mut Draw,
        history: &mut Vec<Operation>,
    ) {
        let now = cluster.now().mono;
        for index in 0..self.wires.len() {
            let wire = &mut self.wires[index];
            let Some(to) = wire.to else { continue };
            let output = cluster.client(to).take_output();
            if wire.is_lost {
                continue;
            }
            if !output.is_empty() {
                put(&mut wire.replies, now.0, draw, output);
            }
            while wire.replies.front().is_some_and(|next| next.0 <= now.0) {
                wire.input.extend(wire.replies.pop_front().expect("just seen").1);
            }
            let mut ended = Vec::new();
            let consumed =
                self.core.received(now, wire.connection, &wire.input, &mut |token, outcome: Outcome<'_>| {
                    ended.push((token, owned(outcome)))
                });
            wire.input.drain(..consumed);
            self.end(now.0, draw, ended, history);
        }
        self.pump(cluster, draw);
        let is_over = |wire: &Wire| wire.is_lost && wire.requests.is_empty();
        for wire in self.wires.extract_if(.., |wire| is_over(wire)) {
            if let Some(to) = wire.to {
                cluster.disconnect(to);
            }
        }
    }

    /// Carries out the core's events, and puts its output on the wires.
    fn pump(&mut self, cluster: &TestCluster, draw: &mut Draw) {
        let now_us = cluster.now().mono.0;
        while let Some(event) = self.core.poll_event() {
            match event {
                Event::Connect { connection, address } => self.wires.push(Wire {
                    connection,
                    node: usize::from(address.port() - 7001),
                    to: None,
                    opens_us: now_us + draw.travel_us(),
                    requests: VecDeque::new(),
                    replies: VecDeque::new(),
                    input: Vec::new(),
                    is_lost: false,
                }),
                Event::Close(connection) => {
                    let wire = self.wires.iter_mut().find(|wire| wire.connection == connection);
                    wire.into_iter().for_each(|wire| wire.is_lost = true);
                }
                Event::MapChanged(_) => {}
                Event::Trouble { why, .. } => panic!("the node reports trouble: {why}"),
            }
        }
        while let Some(connection) = self.core.poll_transmit() {
            let mut bytes = Vec::new();
            self.core.take_output(connection, &mut bytes);
            let wire = self.wires.iter_mut().find(|wire| wire.connection == connection);
            put(&mut wire.expect("the core writes to open connections").requests, now_us, draw, bytes);
        }
    }

    fn end(&mut self, now_us: u64, draw: &mut Draw, ended: Vec<(u64, Ended)>, history: &mut Vec<Operation>) {
        for (token, ended) in ended {
            let lane = &mut self.lanes[token as usize];
            let asked = lane.asked.take().expect("an operation ends once");
            lane.wake_us = now_us + draw.span_us(100);
            history.push(match ended {
                Ended::Answer(result) => asked.answered(now_us, result),
                Ended::Without(Effect::None) => asked.refused(),
                Ended::Without(Effect::Unknown) => asked.operation,
                Ended::Without(Effect::Done) => panic!("done, but without an answer"),
            });
        }
    }

    /// When it next acts by itself.
    pub(super) fn wake_us(&mut self) -> Option<u64> {
        let idle = self.lanes.iter().filter(|lane| lane.asked.is_none() && self.left > 0);
        let wakes = idle.map(|lane| lane.wake_us).chain(self.wires.iter().filter_map(Wire::next_us));
        let next = wakes.min();
        let timeout = self.core.poll_timeout().map(|at| at.0);
        next.into_iter().chain(timeout).min()
    }

    pub(super) fn is_over(&self) -> bool {
        self.left == 0 && self.lanes.iter().all(|lane| lane.asked.is_none())
    }
}

/// How an operation of the core ended.
enum Ended {
    Answer(Datum),
    Without(Effect),
}

fn owned(outcome: Outcome<'_>) -> Ended {
    match outcome {
        Outcome::Reply(reply) => match reply.to_value() {
            Value::Error(text) if text.starts_with(sidle_node::UNKNOWN) => Ended::Without(Effect::Unknown),
            Value::Error(text) if is_failure(&text) => Ended::Without(Effect::None),
            Value::Error(text) => panic!("the node answered {text}"),
            value => Ended::Answer(datum(value)),
        },
        Outcome::Failed(failure) => Ended::Without(failure.effect),
    }
}
