//! A thread's completed operations: each answer is judged, timed, counted and recorded.

use crate::failures;
use crate::gap::GapMeter;
use crate::latencies::AnsweredBy;
use crate::load::plan::World;
use crate::load::recording::{Called, Ended, Recording};
use crate::timeline::{Recorder, Window};
use sidle_client_core::{Completions, Effect, Outcome, Reason, Token};
use sidle_resp::Reply;
use sidle_types::Position;
use sidle_workload::{Floor, Stamp};
use std::collections::BTreeMap;

/// An operation under way.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Flight {
    pub(crate) record: u64,
    /// The write's sequence number; 0 for a read.
    pub(crate) sequence: u32,
    /// The least sequence number that a read must see.
    pub(crate) floor: Floor,
    /// When it was due: latency counts from here.
    pub(crate) due_ns: u64,
    /// When it was sent, for the history.
    pub(crate) call_ns: u64,
}

/// The sums of a thread, or of a whole load.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Totals {
    /// Reads that succeeded.
    pub reads: u64,
    /// Writes that succeeded.
    pub writes: u64,
    /// Operations that ended in an error, by kind.
    pub errors: BTreeMap<String, u64>,
    /// Reads with a wrong answer, by the kind of error.
    pub wrong: BTreeMap<String, u64>,
    /// The first wrong answers in words.
    pub samples: Vec<String>,
    /// Reads that found nothing where nothing was known to be.
    pub absent: u64,
    /// Reads that asked both nodes.
    pub double_reads: u64,
    /// Reads of moving keys that asked the target only.
    pub single_target_reads: u64,
    /// Reads of moving keys that asked the source only.
    pub single_source_reads: u64,
    /// Bytes of requests and replies beyond one of each per operation.
    pub extra_bytes: u64,
    /// The most bytes that one client's SPH held.
    pub sph_bytes_max: u64,
    /// Nanoseconds that timed look-ups of where to read took.
    pub lookups_ns: u64,
    /// How many look-ups were timed.
    pub lookups: u64,
    /// Records for which a sweep of reads has no answer: they can be requested again.
    pub missed: Vec<u64>,
    /// Nodes' refusals, and replies that the client did not understand, in words.
    pub troubles: Vec<String>,
}

/// How many wrong answers are described in words.
const SAMPLES: usize = 5;

impl Totals {
    /// Adds another thread's totals.
    pub fn add(&mut self, other: &Totals) {
        self.reads += other.reads;
        self.writes += other.writes;
        for (mine, theirs) in [(&mut self.errors, &other.errors), (&mut self.wrong, &other.wrong)] {
            for (kind, count) in theirs {
                *mine.entry(kind.clone()).or_default() += count;
            }
        }
        self.samples.extend(other.samples.iter().cloned());
        self.samples.truncate(SAMPLES);
        self.absent += other.absent;
        self.double_reads += other.double_reads;
        self.single_target_reads += other.single_target_reads;
        self.single_source_reads += other.single_source_reads;
        self.extra_bytes += other.extra_bytes;
        self.sph_bytes_max = self.sph_bytes_max.max(other.sph_bytes_max);
        self.lookups_ns += other.lookups_ns;
        self.lookups += other.lookups;
        self.missed.extend_from_slice(&other.missed);
        self.troubles.extend(other.troubles.iter().cloned());
        self.troubles.truncate(SAMPLES);
    }

    /// All wrong answers.
    pub fn wrong_values(&self) -> u64 {
        self.wrong.values().sum()
    }
}

/// The recipient of the timings.
#[derive(Debug)]
pub(crate) enum Meter<'a> {
    /// The load itself.
    Load { recorder: Box<Recorder>, start_ns: u64 },
    /// A prober.
    Probe { reads: &'a GapMeter, writes: &'a GapMeter },
    /// None: loading and reading back.
    Nobody,
}

/// One client's operations under way, and its thread's counts.
#[derive(Debug)]
pub(crate) struct Collector<'a> {
    pub(crate) world: &'a World<'a>,
    pub(crate) meter: Meter<'a>,
    pub(crate) recording: Option<Recording<'a>>,
    pub(crate) totals: Totals,
    /// The instant of the answers being handled.
    pub(crate) now_ns: u64,
    /// The client whose answer is being handled.
    answered_by: AnsweredBy,
    flights: Vec<Flight>,
    /// Free places for operations, by client.
    free: Vec<Vec<u32>>,
    outstanding: u32,
    /// The number of this thread's first client in the whole load.
    first_client: u32,
    pub(crate) ended: u64,
    key: Vec<u8>,
    value: Vec<u8>,
}

impl<'a> Collector<'a> {
    pub(crate) fn new(
        world: &'a World<'a>,
        meter: Meter<'a>,
        clients: u32,
        outstanding: u32,
        first_client: u32,
    ) -> Collector<'a> {
        let vacant = Flight { record: 0, sequence: 0, floor: world.ledger.floor(0), due_ns: 0, call_ns: 0 };
        Collector {
            world,
            meter,
            recording: world.history.as_ref().map(Recording::new),
            totals: Totals::default(),
            now_ns: 0,
            answered_by: AnsweredBy::Source,
            flights: vec![vacant; (clients * outstanding) as usize],
            free: (0..clients)
                .map(|client| (client * outstanding..(client + 1) * outstanding).rev().collect())
                .collect(),
            outstanding,
            first_client,
            ended: 0,
            key: Vec::new(),
            value: Vec::new(),
        }
    }

    /// How many operations a client may still send.
    #[inline]
    pub(crate) fn vacancies(&self, client: usize) -> usize {
        self.free[client].len()
    }

    /// Whether no client has anything under way.
    pub(crate) fn is_idle(&self) -> bool {
        self.free.iter().all(|free| free.len() == self.outstanding as usize)
    }

    /// Takes a place for an operation of a client; there must be a vacancy.
    #[inline]
    pub(crate) fn depart(&mut self, client: usize, flight: Flight) -> Token {
        let place = self.free[client].pop().expect("the caller saw a vacancy");
        self.flights[place as usize] = flight;
        Token::from(place)
    }

    /// The number of a client in the whole load, which its values carry.
    #[inline]
    pub(crate) fn writer(&self, client: usize) -> u32 {
        self.first_client + client as u32
    }

    fn client_of(&self, place: usize) -> usize {
        place / self.outstanding as usize
    }

    /// Takes back an operation that was not sent.
    pub(crate) fn turn_back(&mut self, token: Token) {
        let flight = self.flights[token as usize];
        if flight.sequence > 0 {
            self.world.ledger.refuse(flight.record);
        } else {
            self.miss(&flight);
        }
        let client = self.client_of(token as usize);
        self.free[client].push(token as u32);
    }

    /// Gives up the operations under way when the load ends. The history records their outcome as unknown.
    pub(crate) fn give_up(&mut self) {
        let mut is_free = vec![false; self.flights.len()];
        self.free.iter().flatten().for_each(|&place| is_free[place as usize] = true);
        for place in (0..self.flights.len()).filter(|&place| !is_free[place]) {
            let flight = self.flights[place];
            self.failed(self.client_of(place), &flight, failures::UNFINISHED.to_owned(), Effect::Unknown);
        }
    }

    fn time(&mut self, flight: &Flight) {
        let is_write = flight.sequence > 0;
        match &mut self.meter {
            Meter::Load { recorder, start_ns } => {
                let since_start_ns = self.now_ns.saturating_sub(*start_ns);
                let latency_ns = self.now_ns.saturating_sub(flight.due_ns);
                let window = recorder.at(since_start_ns, self.world.part());
                window.answered(is_write, self.answered_by, latency_ns, since_start_ns);
            }
            Meter::Probe { reads, writes } => {
                (if is_write { writes } else { reads }).success(self.now_ns);
            }
            Meter::Nobody => {}
        }
        if is_write && let Some(moving) = self.world.plan.moving {
            self.key.clear();
            self.world.plan.keys.write(flight.record, &mut self.key);
            if moving.contains(Position::of_key(&self.key)) {
                self.world.moving_writes.success(self.now_ns);
            }
        }
    }

    fn answered(&mut self, client: usize, flight: &Flight, reply: Reply<'_>) {
        let world = self.world;
        match reply {
            Reply::Error(text) => {
                let code = text.split(|&byte| byte == b' ').next().unwrap_or(text);
                let code = String::from_utf8_lossy(code).into_owned();
                // An error means that the operation had no effect.
                self.failed(client, flight, code, Effect::None);
            }
            _ if flight.sequence > 0 => {
                world.ledger.acknowledge(flight.record);
                self.totals.writes += 1;
                self.time(flight);
                self.record(client, flight, Ended::Written);
            }
            reply => {
                let value = reply.as_bytes();
                match world.ledger.judge(&world.plan.values, flight.record, flight.floor, value) {
                    Ok(stamp) => self.totals.absent += u64::from(stamp.is_none()),
                    Err(fault) => self.wrong(flight, &fault.to_string(), value),
                }
                self.totals.reads += 1;
                self.time(flight);
                self.record(client, flight, Ended::Value(value));
            }
        }
    }

    fn wrong(&mut self, flight: &Flight, fault: &str, value: Option<&[u8]>) {
        *self.totals.wrong.entry(fault.to_owned()).or_default() += 1;
        if self.totals.samples.len() < SAMPLES {
            let stamp = value.map(|bytes| self.world.plan.values.read(bytes));
            let key = String::from_utf8_lossy(&self.world.plan.keys.key(flight.record)).into_owned();
            let floor = flight.floor;
            self.totals.samples.push(format!("{fault}: {key} after {floor:?} gave {stamp:?}"));
        }
    }

    /// Records a failed read of a sweep.
    fn miss(&mut self, flight: &Flight) {
        if matches!(self.meter, Meter::Nobody) {
            self.totals.missed.push(flight.record);
        }
    }

    fn failed(&mut self, client: usize, flight: &Flight, kind: String, effect: Effect) {
        *self.totals.errors.entry(kind).or_default() += 1;
        let is_write = flight.sequence > 0;
        if !is_write {
            self.miss(flight);
        }
        match effect {
            Effect::None if is_write => self.world.ledger.refuse(flight.record),
            Effect::Done if is_write => self.world.ledger.acknowledge(flight.record),
            // The claim stays: the write may take effect at any later time.
            Effect::None | Effect::Done | Effect::Unknown => {}
        }
        let ended = match effect {
            Effect::Done if is_write => Ended::Written,
            Effect::None => Ended::Refused,
            Effect::Done | Effect::Unknown => Ended::Unknown,
        };
        self.record(client, flight, ended);
    }

    fn record(&mut self, client: usize, flight: &Flight, ended: Ended<'_>) {
        let Some(recording) = &mut self.recording else { return };
        let plan = &self.world.plan;
        self.key.clear();
        plan.keys.write(flight.record, &mut self.key);
        let written = (flight.sequence > 0).then(|| {
            let stamp = Stamp {
                record: flight.record,
                sequence: u64::from(flight.sequence),
                writer: self.first_client + client as u32,
                run: self.world.ledger.run(),
            };
            self.value.clear();
            plan.values.write(stamp, &mut self.value);
            self.value.as_slice()
        });
        let called = Called {
            client: u64::from(self.first_client) + client as u64,
            key: &self.key,
            written,
            call_ns: flight.call_ns,
        };
        recording.record(called, ended, self.now_ns);
    }

    /// Records a node's refusal.
    pub(crate) fn trouble(&mut self, what: String) {
        if self.totals.troubles.len() < SAMPLES && !self.totals.troubles.contains(&what) {
            self.totals.troubles.push(what);
        }
    }

    /// Counts bytes beyond the necessary.
    pub(crate) fn extra_bytes(&mut self, bytes: u64) {
        self.totals.extra_bytes += bytes;
        if let Some(window) = self.window() {
            window.extra_bytes += bytes;
        }
    }

    /// Records how many bytes a client's SPH takes, and MCR and SPH together.
    pub(crate) fn tracks(&mut self, sph_bytes: u64, bytes: u64) {
        self.totals.sph_bytes_max = self.totals.sph_bytes_max.max(sph_bytes);
        if bytes > 0
            && let Some(window) = self.window()
        {
            window.tracking_bytes = window.tracking_bytes.max(bytes);
        }
    }

    /// Counts timed look-ups of where to read.
    pub(crate) fn looked_up(&mut self, lookups: u64, took_ns: u64) {
        self.totals.lookups_ns += took_ns;
        self.totals.lookups += lookups;
        if let Some(window) = self.window() {
            window.lookups_ns += took_ns;
            window.lookups += lookups;
        }
    }

    /// The window of the present instant, if this is the measured load.
    fn window(&mut self) -> Option<&mut Window> {
        match &mut self.meter {
            Meter::Load { recorder, start_ns } => {
                Some(recorder.at(self.now_ns.saturating_sub(*start_ns), self.world.part()))
            }
            Meter::Probe { .. } | Meter::Nobody => None,
        }
    }
}

impl Completions for Collector<'_> {
    #[inline]
    fn answered_by(&mut self, _token: Token, node: usize) {
        // The seeds have the first numbers, and the first seed is the records' origin.
        self.answered_by = if node == 0 { AnsweredBy::Source } else { AnsweredBy::Target };
    }

    fn completed(&mut self, token: Token, outcome: Outcome<'_>) {
        let place = token as usize;
        let flight = self.flights[place];
        let client = self.client_of(place);
        match outcome {
            Outcome::Reply(reply) => self.answered(client, &flight, reply),
            Outcome::Failed(failure) => {
                let kind = match failure.reason {
                    Reason::TimedOut => failures::TIMEOUT,
                    Reason::ConnectionLost => failures::CONNECTION_LOST,
                    Reason::TooManyTries => failures::TOO_MANY_TRIES,
                };
                self.failed(client, &flight, kind.to_owned(), failure.effect);
            }
        }
        // A prober's operations are not load.
        self.ended += u64::from(!matches!(self.meter, Meter::Probe { .. }));
        self.free[client].push(place as u32);
    }
}
