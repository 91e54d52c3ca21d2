//! A load thread: the real client core with many operations under way, in rounds like the load generator's.
//! And the prober, a separate client that measures gaps.

use crate::costs::Costs;
use crate::event::{Arrival, Output, Turn};
use crate::node::node_at;
use crate::processors::{Pause, ThreadId};
use crate::recorder::{Gap, Recorder};
use crate::sample::Sample;
use crate::stopwatch::Stopwatch;
use sidle_bench::latencies::AnsweredBy;
use sidle_bench::load::{PROBED_RECORDS, PROBES_PER_S};
use sidle_client_core::{
    Class, Completions, Config, ConnectionId, Core, Counters, Destination, Event, Input, Outcome, Token,
};
use sidle_resp::Reply;
use sidle_types::{HashedKey, MonotonicUs, Position, PositionRange};
use sidle_workload::{Draw, KeyFormat, OperationStream};
use std::cell::RefCell;
use std::collections::VecDeque;
use std::rc::Rc;

/// An operation without an answer is abandoned after this.
const OPERATION_TIMEOUT_US: u64 = 5_000_000;
/// How often a load thread checks its timers and its client's tracking state.
const COUNT_NS: u64 = 1_000_000;

/// State shared by all load threads.
#[derive(Debug)]
pub(crate) struct Load {
    pub(crate) sample: Sample,
    pub(crate) keys: KeyFormat,
    pub(crate) value: Vec<u8>,
    pub(crate) moving: PositionRange,
    /// The longest time without an answered write of a moving key.
    pub(crate) write_pause: RefCell<Gap>,
}

impl Load {
    /// Records for a prober, spread over the stored ones that will move.
    pub(crate) fn probed(&self) -> Vec<u64> {
        let step = (self.sample.len() / (PROBED_RECORDS as u64 * 16)).max(1) as usize;
        let is_moving = |record: &u64| self.moving.contains(Position::of_key(&self.keys.key(*record)));
        self.sample.stored().step_by(step).filter(is_moving).take(PROBED_RECORDS).collect()
    }
}

#[derive(Clone, Copy, Debug, Default)]
struct Flight {
    record: u64,
    is_write: bool,
    since_ns: u64,
}

/// Collects completed operations.
struct Collector {
    load: Rc<Load>,
    flights: Vec<Flight>,
    free: Vec<u32>,
    now_ns: u64,
    answered_by: AnsweredBy,
    pub(crate) recorder: Recorder,
    /// The prober's: the longest times without an answered read and write.
    gaps: Option<[Gap; 2]>,
    key: Vec<u8>,
}

/// The source of a client's operations.
pub(crate) enum Feed {
    /// The load's operations, each after one was answered.
    Closed(OperationStream),
    /// The load's operations at a fixed rate, whatever is answered. Latency counts from when one was due.
    Open { stream: OperationStream, schedule: Schedule },
    /// A read, then a write of each of these records in turn, at a fixed rate.
    Probe { records: Vec<u64>, turn: usize, due_ns: u64 },
}

/// When the operations of an open loop are due: at equal distances.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Schedule {
    begin_ns: u64,
    interval_ns: f64,
    issued: u64,
}

impl Schedule {
    /// The schedule of thread `number` of so many, which make so many operations a second together, in turns.
    pub(crate) fn of_thread(number: u32, threads: u32, per_s: f64, begin_ns: u64) -> Schedule {
        let distance_ns = 1e9 / per_s;
        let interval_ns = distance_ns * f64::from(threads);
        let begin_ns = begin_ns + (distance_ns * f64::from(number)) as u64;
        Schedule { begin_ns, interval_ns, issued: 0 }
    }

    fn due_ns(&self) -> u64 {
        self.begin_ns + (self.issued as f64 * self.interval_ns) as u64
    }

    /// When the next one is due, which is taken.
    fn take(&mut self) -> u64 {
        let due_ns = self.due_ns();
        self.issued += 1;
        due_ns
    }
}

impl Feed {
    /// The prober's, starting then.
    pub(crate) fn probe(records: Vec<u64>, begin_ns: u64) -> Feed {
        Feed::Probe { records, turn: 0, due_ns: begin_ns }
    }

    /// When the next operation may start; never if there is none.
    fn due_ns(&self) -> u64 {
        match self {
            Feed::Closed(_) => 0,
            Feed::Open { schedule, .. } => schedule.due_ns(),
            Feed::Probe { records, .. } if records.is_empty() => u64::MAX,
            Feed::Probe { due_ns, .. } => *due_ns,
        }
    }

    /// The next operation, and when it began: an open loop's when it was due.
    fn draw(&mut self, called_ns: u64) -> (Draw, u64) {
        match self {
            Feed::Closed(stream) => (stream.draw(), called_ns),
            Feed::Open { stream, schedule } => (stream.draw(), schedule.take()),
            Feed::Probe { records, turn, due_ns } => {
                let draw = Draw { record: records[*turn / 2 % records.len()], write: *turn % 2 == 1 };
                *turn += 1;
                *due_ns += (1e9 / PROBES_PER_S) as u64;
                (draw, called_ns)
            }
        }
    }
}

impl Completions for Collector {
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
                if let Some(gaps) = &mut self.gaps {
                    gaps[usize::from(flight.is_write)].success(self.now_ns);
                    return;
                }
                if flight.is_write && self.load.moving.contains(Position::of_key(&self.key)) {
                    self.load.write_pause.borrow_mut().success(self.now_ns);
                }
                self.recorder.answered(flight.is_write, self.answered_by, flight.since_ns, self.now_ns);
            }
        }
    }
}

/// A client's connection.
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
    collector: Collector,
    feed: Feed,
    inbox: VecDeque<Arrival>,
    wires: Vec<Option<Wire>>,
    /// The connection whose requests leave next.
    sends: Option<ConnectionId>,
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
        feed: Feed,
    ) -> ClientThread {
        let mut config = Config::new(vec![crate::node::address(0)]);
        config.connections_per_node = (outstanding as usize).min(Config::MAX_CONNECTIONS_PER_NODE);
        config.max_outstanding = outstanding as usize;
        config.operation_timeout_us = OPERATION_TIMEOUT_US;
        config.tracking = tracking;
        ClientThread {
            id,
            core: Core::new(config),
            collector: Collector {
                load,
                flights: vec![Flight::default(); outstanding as usize],
                free: (0..outstanding).collect(),
                now_ns: 0,
                answered_by: AnsweredBy::Source,
                recorder: Recorder::default(),
                gaps: matches!(feed, Feed::Probe { .. }).then(Default::default),
                key: Vec::new(),
            },
            feed,
            inbox: VecDeque::new(),
            wires: Vec::new(),
            sends: None,
            is_ending: false,
            counted: Counters::default(),
            next_count_ns: 0,
        }
    }

    /// Its measurements.
    pub(crate) fn recorder(&mut self) -> &mut Recorder {
        &mut self.collector.recorder
    }

    /// The prober's gaps.
    pub(crate) fn gaps(&mut self) -> Option<&mut [Gap; 2]> {
        self.collector.gaps.as_mut()
    }

    /// Its client's counters.
    pub(crate) fn counters(&self) -> Counters {
        self.core.counters()
    }

    /// Whether no operation is under way.
    pub(crate) fn is_idle(&self) -> bool {
        self.collector.free.len() == self.collector.flights.len()
    }

    pub(crate) fn receive(&mut self, arrival: Arrival) {
        self.inbox.push_back(arrival);
    }

    /// One round: takes answers and starts as many operations; or sends the requests of one connection. So
    /// the receiver may answer while requests to others are still unsent.
    pub(crate) fn turn(
        &mut self,
        start_ns: u64,
        costs: &Costs,
        pause: Pause,
        connect: &mut dyn FnMut(usize) -> ThreadId,
        watch: &mut Stopwatch,
    ) -> Turn {
        let mut turn = Turn::default();
        if let Some(connection) = self.sends.take() {
            turn.cost_ns += costs.of_pause(pause);
            self.send(connection, costs, &mut turn);
            self.sends = self.core.poll_transmit();
            turn.has_more = self.sends.is_some() || !self.inbox.is_empty();
            return turn;
        }
        turn.cost_ns += costs.poll_ns + costs.of_pause(pause);
        self.collector.now_ns = start_ns + turn.cost_ns;
        if self.core.poll_timeout().is_some_and(|at| at.0 * 1000 <= start_ns) {
            self.core.handle(MonotonicUs(start_ns / 1000), Input::Tick, &mut self.collector);
        }
        for _ in 0..self.inbox.len() {
            if let Some(arrival) = self.inbox.pop_front() {
                self.take(arrival, start_ns, costs, watch, &mut turn);
            }
        }
        // All operations of a round have one start, like the load generator's closed loop.
        let called_ns = start_ns + turn.cost_ns;
        while !self.is_ending && !self.collector.free.is_empty() && self.feed.due_ns() <= start_ns {
            self.issue(called_ns, costs, watch, &mut turn);
        }
        if !self.is_ending && !self.collector.free.is_empty() {
            turn.outputs.push(Output::WakeAt(self.id, self.feed.due_ns()));
        }
        self.connect(connect, &mut turn);
        self.sends = self.core.poll_transmit();
        turn.has_more = self.sends.is_some();
        if start_ns >= self.next_count_ns {
            self.next_count_ns = start_ns + COUNT_NS;
            self.count(start_ns);
        }
        turn.outputs.push(Output::WakeAt(self.id, self.next_count_ns));
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
                self.core.handle(now, Input::Connected(connection), &mut self.collector);
            }
            Arrival::Replies { connection, bytes } => {
                let wire = self.wires.get_mut(connection.index()).and_then(Option::as_mut);
                let Some(wire) = wire.filter(|wire| wire.name == connection) else { return };
                turn.cost_ns += costs.read_ns;
                // An answer's instant is when it was read.
                self.collector.now_ns = start_ns + turn.cost_ns;
                wire.input.extend_from_slice(&bytes);
                let now = MonotonicUs(self.collector.now_ns / 1000);
                let begun_ns = watch.begin();
                let consumed = self.core.received(now, connection, &wire.input, &mut self.collector);
                watch.answer.add(watch.end(begun_ns), consumed as u64);
                wire.input.drain(..consumed);
            }
            _ => unreachable!("clients are connected to workers"),
        }
    }

    fn issue(&mut self, called_ns: u64, costs: &Costs, watch: &mut Stopwatch, turn: &mut Turn) {
        let begun_ns = watch.begin();
        let (draw, since_ns) = self.feed.draw(called_ns);
        let Some(place) = self.collector.free.pop() else { return };
        turn.cost_ns += if draw.write { costs.ask_set_ns } else { costs.ask_get_ns };
        self.collector.flights[place as usize] =
            Flight { record: draw.record, is_write: draw.write, since_ns };
        let mut key = std::mem::take(&mut self.collector.key);
        key.clear();
        self.collector.load.keys.write(draw.record, &mut key);
        let (now, token, hashed) = (MonotonicUs(called_ns / 1000), Token::from(place), HashedKey::new(&key));
        let admitted = if draw.write {
            let value = &self.collector.load.value;
            let words: [&[u8]; 3] = [b"SET", &key, value];
            self.core.submit(now, token, Class::Write, Destination::Key(hashed), &words)
        } else {
            self.core.get(now, token, hashed)
        };
        admitted.expect("no more are under way than the client was configured for");
        self.collector.key = key;
        let took_ns = watch.end(begun_ns);
        let lap = if draw.write { &mut watch.ask_set } else { &mut watch.ask_get };
        lap.add(took_ns, 0);
    }

    fn connect(&mut self, connect: &mut dyn FnMut(usize) -> ThreadId, turn: &mut Turn) {
        while let Some(event) = self.core.poll_event() {
            match event {
                Event::Connect { connection, address } => {
                    let worker = connect(node_at(&address));
                    turn.send(worker, Arrival::Client { client: self.id, connection }, 0);
                }
                Event::Close(_) | Event::MapChanged(_) => {}
                Event::Trouble { address, why } => {
                    self.collector.recorder.trouble(format!("{address}: {why}"))
                }
            }
        }
    }

    fn send(&mut self, connection: ConnectionId, costs: &Costs, turn: &mut Turn) {
        let mut bytes = Vec::new();
        self.core.take_output(connection, &mut bytes);
        let wire = self.wires.get(connection.index()).and_then(Option::as_ref);
        if let Some(wire) = wire.filter(|wire| wire.name == connection) {
            turn.cost_ns += costs.write_ns;
            let length = bytes.len();
            turn.send(wire.worker, Arrival::Requests { connection: wire.number, bytes }, length);
        }
    }

    fn count(&mut self, now_ns: u64) {
        let counters = self.core.counters();
        let extra = |counters: &Counters| counters.extra_request_bytes + counters.extra_reply_bytes;
        let bytes = extra(&counters) - extra(&self.counted);
        self.counted = counters;
        let (sph, all) = (self.core.sph_bytes() as u64, self.core.tracking_bytes() as u64);
        self.collector.recorder.tracked(now_ns, bytes, sph, all);
    }
}
