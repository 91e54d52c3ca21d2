//! A load thread: the real client core with many clients' operations under way, in rounds as the load generator makes them.

use crate::costs::Costs;
use crate::event::{Arrival, Output, Turn};
use crate::node::node_at;
use crate::processors::ThreadId;
use crate::recorder::{Gap, Recorder};
use crate::sample::Sample;
use crate::stopwatch::Stopwatch;
use sidle_bench::latencies::AnsweredBy;
use sidle_client_core::{
    Class, Completions, Config, ConnectionId, Core, Counters, Destination, Event, Input, Outcome, Token,
};
use sidle_resp::Reply;
use sidle_types::{HashedKey, MonotonicUs, Position, PositionRange};
use sidle_workload::{KeyFormat, OperationStream};
use std::cell::RefCell;
use std::collections::VecDeque;
use std::rc::Rc;

/// An operation without an answer is given up after this.
const OPERATION_TIMEOUT_US: u64 = 5_000_000;
/// How often it is looked at what the client tracks.
const COUNT_NS: u64 = 1_000_000;

/// What all load threads have in common.
#[derive(Debug)]
pub(crate) struct Load {
    pub(crate) sample: Sample,
    pub(crate) keys: KeyFormat,
    pub(crate) value: Vec<u8>,
    pub(crate) moving: PositionRange,
    /// How long no read, and no write, of a moving key was answered.
    pub(crate) gaps: RefCell<[Gap; 2]>,
}

#[derive(Clone, Copy, Debug, Default)]
struct Flight {
    record: u64,
    is_write: bool,
    since_ns: u64,
}

/// Where operations come back.
struct Desk {
    load: Rc<Load>,
    flights: Vec<Flight>,
    free: Vec<u32>,
    now_ns: u64,
    answered_by: AnsweredBy,
    pub(crate) recorder: Recorder,
    key: Vec<u8>,
}

impl Completions for Desk {
    fn answered_by(&mut self, _token: Token, node: usize) {
        self.answered_by = if node == 0 { AnsweredBy::Source } else { AnsweredBy::Target };
    }

    fn completed(&mut self, token: Token, outcome: Outcome<'_>) {
        let flight = self.flights[token as usize];
        self.free.push(token as u32);
        match outcome {
            Outcome::Failed(failure) => self.recorder.failed(&failure.reason),
            Outcome::Reply(Reply::Error(text)) => self.recorder.refused(text),
            Outcome::Reply(reply) => {
                if !flight.is_write {
                    let value = reply.as_bytes();
                    let is_right = match value {
                        Some(bytes) => bytes == self.load.value,
                        None => !self.load.sample.has(flight.record),
                    };
                    self.recorder.judge(is_right);
                }
                self.key.clear();
                self.load.keys.write(flight.record, &mut self.key);
                if self.load.moving.contains(Position::of_key(&self.key)) {
                    self.load.gaps.borrow_mut()[usize::from(flight.is_write)].success(self.now_ns);
                }
                self.recorder.answered(flight.is_write, self.answered_by, flight.since_ns, self.now_ns);
            }
        }
    }
}

/// A connection as the client has it.
struct Wire {
    name: ConnectionId,
    worker: ThreadId,
    number: usize,
    input: Vec<u8>,
}

/// A load thread.
pub(crate) struct ClientThread {
    pub(crate) id: ThreadId,
    core: Core,
    desk: Desk,
    stream: OperationStream,
    inbox: VecDeque<Arrival>,
    wires: Vec<Option<Wire>>,
    pub(crate) is_ending: bool,
    counted: Counters,
    next_count_ns: u64,
}

impl ClientThread {
    /// A thread that keeps `outstanding` operations under way, over as many connections to each node.
    pub(crate) fn new(
        id: ThreadId,
        load: Rc<Load>,
        outstanding: u32,
        tracking: bool,
        stream: OperationStream,
    ) -> ClientThread {
        let mut config = Config::new(vec![crate::node::address(0)]);
        config.connections_per_node = (outstanding as usize).min(Config::MAX_CONNECTIONS_PER_NODE);
        config.max_outstanding = outstanding as usize;
        config.operation_timeout_us = OPERATION_TIMEOUT_US;
        config.tracking = tracking;
        ClientThread {
            id,
            core: Core::new(config),
            desk: Desk {
                load,
                flights: vec![Flight::default(); outstanding as usize],
                free: (0..outstanding).collect(),
                now_ns: 0,
                answered_by: AnsweredBy::Source,
                recorder: Recorder::default(),
                key: Vec::new(),
            },
            stream,
            inbox: VecDeque::new(),
            wires: Vec::new(),
            is_ending: false,
            counted: Counters::default(),
            next_count_ns: 0,
        }
    }

    /// What it has measured.
    pub(crate) fn recorder(&mut self) -> &mut Recorder {
        &mut self.desk.recorder
    }

    /// What its client counted.
    pub(crate) fn counters(&self) -> Counters {
        self.core.counters()
    }

    /// Whether nothing is under way.
    pub(crate) fn is_idle(&self) -> bool {
        self.desk.free.len() == self.desk.flights.len()
    }

    /// Something arrived.
    pub(crate) fn receive(&mut self, arrival: Arrival) {
        self.inbox.push_back(arrival);
    }

    /// One round: takes what came, asks for as much again, sends it.
    pub(crate) fn turn(
        &mut self,
        start_ns: u64,
        costs: &Costs,
        has_slept: bool,
        connect: &mut dyn FnMut(usize) -> ThreadId,
        watch: &mut Stopwatch,
    ) -> Turn {
        let mut turn = Turn::default();
        turn.cost_ns += costs.poll_ns + if has_slept { costs.sleep_ns } else { 0 };
        self.desk.now_ns = start_ns + turn.cost_ns;
        if self.core.poll_timeout().is_some_and(|at| at.0 * 1000 <= start_ns) {
            self.core.handle(MonotonicUs(start_ns / 1000), Input::Tick, &mut self.desk);
        }
        for _ in 0..self.inbox.len() {
            if let Some(arrival) = self.inbox.pop_front() {
                self.take(arrival, start_ns, costs, watch, &mut turn);
            }
        }
        while !self.is_ending && !self.desk.free.is_empty() {
            self.issue(start_ns, costs, watch, &mut turn);
        }
        self.send(connect, costs, &mut turn);
        if start_ns >= self.next_count_ns {
            self.next_count_ns = start_ns + COUNT_NS;
            self.count(start_ns);
        }
        if let Some(at) = self.core.poll_timeout() {
            turn.outputs.push(Output::WakeAt(self.id, at.0 * 1000));
        }
        turn
    }

    fn take(
        &mut self,
        arrival: Arrival,
        start_ns: u64,
        costs: &Costs,
        watch: &mut Stopwatch,
        turn: &mut Turn,
    ) {
        match arrival {
            Arrival::Connected { connection, worker, number } => {
                let index = connection.index();
                if self.wires.len() <= index {
                    self.wires.resize_with(index + 1, || None);
                }
                self.wires[index] = Some(Wire { name: connection, worker, number, input: Vec::new() });
                let now = MonotonicUs(start_ns / 1000);
                self.core.handle(now, Input::Connected(connection), &mut self.desk);
            }
            Arrival::Replies { connection, bytes } => {
                let wire = self.wires.get_mut(connection.index()).and_then(Option::as_mut);
                let Some(wire) = wire.filter(|wire| wire.name == connection) else { return };
                turn.cost_ns += costs.read_ns;
                // The instant of the answer is when it was read.
                self.desk.now_ns = start_ns + turn.cost_ns;
                wire.input.extend_from_slice(&bytes);
                let now = MonotonicUs(self.desk.now_ns / 1000);
                let begun_ns = watch.begin();
                let consumed = self.core.received(now, connection, &wire.input, &mut self.desk);
                watch.answer.add(watch.end(begun_ns), consumed as u64);
                wire.input.drain(..consumed);
            }
            _ => unreachable!("clients speak with workers"),
        }
    }

    fn issue(&mut self, start_ns: u64, costs: &Costs, watch: &mut Stopwatch, turn: &mut Turn) {
        let begun_ns = watch.begin();
        let draw = self.stream.draw();
        let Some(place) = self.desk.free.pop() else { return };
        turn.cost_ns += if draw.write { costs.ask_set_ns } else { costs.ask_get_ns };
        let at_ns = start_ns + turn.cost_ns;
        self.desk.flights[place as usize] =
            Flight { record: draw.record, is_write: draw.write, since_ns: at_ns };
        let mut key = std::mem::take(&mut self.desk.key);
        key.clear();
        self.desk.load.keys.write(draw.record, &mut key);
        let (now, token, hashed) = (MonotonicUs(at_ns / 1000), Token::from(place), HashedKey::new(&key));
        let admitted = if draw.write {
            let value = &self.desk.load.value;
            let words: [&[u8]; 3] = [b"SET", &key, value];
            self.core.submit(now, token, Class::Write, Destination::Key(hashed), &words)
        } else {
            self.core.get(now, token, hashed)
        };
        admitted.expect("no more are under way than the client was told to expect");
        self.desk.key = key;
        let took_ns = watch.end(begun_ns);
        let lap = if draw.write { &mut watch.ask_set } else { &mut watch.ask_get };
        lap.add(took_ns, 0);
    }

    fn send(&mut self, connect: &mut dyn FnMut(usize) -> ThreadId, costs: &Costs, turn: &mut Turn) {
        while let Some(event) = self.core.poll_event() {
            match event {
                Event::Connect { connection, address } => {
                    let worker = connect(node_at(&address));
                    turn.send(worker, Arrival::Client { client: self.id, connection }, 0);
                }
                Event::Close(_) | Event::MapChanged(_) => {}
                Event::Trouble { address, why } => self.desk.recorder.trouble(format!("{address}: {why}")),
            }
        }
        while let Some(connection) = self.core.poll_transmit() {
            let mut bytes = Vec::new();
            self.core.take_output(connection, &mut bytes);
            let wire = self.wires.get(connection.index()).and_then(Option::as_ref);
            if let Some(wire) = wire.filter(|wire| wire.name == connection) {
                turn.cost_ns += costs.write_ns;
                let length = bytes.len();
                turn.send(wire.worker, Arrival::Requests { connection: wire.number, bytes }, length);
            }
        }
    }

    fn count(&mut self, now_ns: u64) {
        let counters = self.core.counters();
        let extra = |counters: &Counters| counters.extra_request_bytes + counters.extra_reply_bytes;
        let bytes = extra(&counters) - extra(&self.counted);
        self.counted = counters;
        let (sph, all) = (self.core.sph_bytes() as u64, self.core.tracking_bytes() as u64);
        self.desk.recorder.tracked(now_ns, bytes, sph, all);
    }
}
