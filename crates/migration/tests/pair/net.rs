//! Two lanes between two machines, with the faults that M10 allows: frames are lost, duplicated, delayed, and
//! those of a connection that was cut may still arrive after the next one is open.

use crate::rng::Rng;
use sidle_wire::Lane;
use std::collections::BTreeMap;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum End {
    Source,
    Target,
}

impl End {
    pub(crate) fn other(self) -> End {
        match self {
            End::Source => End::Target,
            End::Target => End::Source,
        }
    }
}

/// What the links do to frames.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Faults {
    /// The way to the source, first to last.
    pub(crate) to_source_us: (u64, u64),
    /// The way to the target.
    pub(crate) to_target_us: (u64, u64),
    /// Bytes per microsecond, each way.
    pub(crate) bytes_per_us: u64,
    pub(crate) lose_per_mille: u64,
    pub(crate) duplicate_per_mille: u64,
    /// Whether frames overtake each other within a connection.
    pub(crate) reorder: bool,
    /// For each frame: the connection is cut after it.
    pub(crate) cut_per_mille: u64,
    /// For each frame in flight when the connection is cut: it arrives all the same.
    pub(crate) linger_per_mille: u64,
    /// Nothing arrives over this lane, and nobody notices.
    pub(crate) blocked: Option<Lane>,
}

impl Faults {
    pub(crate) const NONE: Faults = Faults {
        to_source_us: (20, 20),
        to_target_us: (20, 20),
        bytes_per_us: 1_000,
        lose_per_mille: 0,
        duplicate_per_mille: 0,
        reorder: false,
        cut_per_mille: 0,
        linger_per_mille: 0,
        blocked: None,
    };

    pub(crate) const EVERYTHING: Faults = Faults {
        to_source_us: (5, 3_000),
        to_target_us: (5, 3_000),
        bytes_per_us: 500,
        lose_per_mille: 30,
        duplicate_per_mille: 60,
        reorder: true,
        cut_per_mille: 10,
        linger_per_mille: 500,
        blocked: None,
    };
}

#[derive(Debug)]
pub(crate) enum Arrival {
    Opened(Lane),
    Cut(Lane),
    Frame(End, Lane, Vec<u8>),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Closed,
    Opening,
    Open,
}

#[derive(Debug)]
pub(crate) struct Net {
    pub(crate) faults: Faults,
    state: [State; 2],
    /// By lane and receiving end: until when earlier frames take all of the way's capacity.
    busy: [[u64; 2]; 2],
    /// By lane and receiving end: when the last frame sent arrives.
    last: [[u64; 2]; 2],
    pending: BTreeMap<(u64, u64), Arrival>,
    serial: u64,
    /// Frames and bytes that were sent, by lane.
    pub(crate) sent: [(u64, u64); 2],
    /// Every frame that was sent, where a test asks for it.
    pub(crate) record: Option<Vec<(End, Lane, Vec<u8>)>>,
}

impl Net {
    pub(crate) fn new(faults: Faults) -> Net {
        Net {
            faults,
            state: [State::Closed; 2],
            busy: [[0; 2]; 2],
            last: [[0; 2]; 2],
            pending: BTreeMap::new(),
            serial: 0,
            sent: [(0, 0); 2],
            record: None,
        }
    }

    fn schedule(&mut self, at: u64, arrival: Arrival) {
        self.serial += 1;
        self.pending.insert((at, self.serial), arrival);
    }

    pub(crate) fn open(&mut self, now: u64, lane: Lane) {
        assert_eq!(self.state[lane.index()], State::Closed, "{lane:?} is opened twice");
        self.state[lane.index()] = State::Opening;
        self.schedule(now + 2 * self.faults.to_source_us.0, Arrival::Opened(lane));
    }

    /// Cuts the lane's connection if it is open, or being opened.
    pub(crate) fn cut(&mut self, now: u64, lane: Lane, rng: &mut Rng) {
        if self.state[lane.index()] == State::Closed {
            return;
        }
        self.state[lane.index()] = State::Closed;
        let linger = self.faults.linger_per_mille;
        self.pending.retain(|_, arrival| match arrival {
            Arrival::Opened(of) => *of != lane,
            Arrival::Frame(_, of, _) => *of != lane || rng.chance(linger),
            Arrival::Cut(_) => true,
        });
        self.last[lane.index()] = [0; 2];
        self.busy[lane.index()] = [0; 2];
        self.schedule(now, Arrival::Cut(lane));
    }

    pub(crate) fn send(&mut self, now: u64, to: End, lane: Lane, frame: Vec<u8>, rng: &mut Rng) {
        let sent = &mut self.sent[lane.index()];
        *sent = (sent.0 + 1, sent.1 + frame.len() as u64);
        if let Some(record) = &mut self.record {
            record.push((to, lane, frame.clone()));
        }
        if self.faults.blocked == Some(lane) {
            return;
        }
        if self.state[lane.index()] != State::Open || rng.chance(self.faults.lose_per_mille) {
            return;
        }
        let copies = if rng.chance(self.faults.duplicate_per_mille) { 2 } else { 1 };
        for _ in 0..copies {
            let (least, most) = match to {
                End::Source => self.faults.to_source_us,
                End::Target => self.faults.to_target_us,
            };
            let busy = &mut self.busy[lane.index()][to as usize];
            *busy = now.max(*busy) + frame.len() as u64 / self.faults.bytes_per_us;
            let mut at = *busy + rng.between(least, most);
            let last = &mut self.last[lane.index()][to as usize];
            if !self.faults.reorder {
                at = at.max(*last);
                *last = at;
            }
            self.schedule(at, Arrival::Frame(to, lane, frame.clone()));
        }
        if rng.chance(self.faults.cut_per_mille) {
            self.cut(now, lane, rng);
        }
    }

    pub(crate) fn open_lanes(&self) -> Vec<Lane> {
        Lane::ALL.into_iter().filter(|lane| self.state[lane.index()] == State::Open).collect()
    }

    pub(crate) fn next_at(&self) -> Option<u64> {
        self.pending.keys().next().map(|&(at, _)| at)
    }

    pub(crate) fn pop(&mut self, now: u64) -> Option<Arrival> {
        let entry = self.pending.first_entry().filter(|entry| entry.key().0 <= now)?;
        let arrival = entry.remove();
        if let Arrival::Opened(lane) = arrival {
            self.state[lane.index()] = State::Open;
        }
        Some(arrival)
    }
}
