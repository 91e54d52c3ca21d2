//! Two lanes between two machines, with the faults that M10 allows: frames are lost, duplicated and delayed,
//! and those of a cut connection may arrive after the next one is open.

use sidle_testbed::{Fate, Links, Quality, Random, Side};
use sidle_wire::Lane;

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

    /// The end of the link: the target opens it.
    pub(crate) fn side(self) -> Side {
        match self {
            End::Source => Side::Acceptor,
            End::Target => Side::Opener,
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
    /// Nothing arrives over this lane, without notice.
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

    /// The path to an end.
    fn way(&self, to: End) -> Quality {
        let (least_us, most_us) = match to {
            End::Source => self.to_source_us,
            End::Target => self.to_target_us,
        };
        Quality {
            bytes_per_ms: self.bytes_per_us * 1000,
            lost_permille: self.lose_per_mille,
            doubled_permille: self.duplicate_per_mille,
            is_ordered: !self.reorder,
            ..Quality::sound(least_us, most_us)
        }
    }
}

/// An arrival over a lane. Both ends learn of a cut at once, when the target does.
pub(crate) type Arrival = sidle_testbed::Arrival<Lane, Vec<u8>>;

#[derive(Debug)]
pub(crate) struct Net {
    pub(crate) faults: Faults,
    links: Links<Lane, Vec<u8>>,
    /// Frames and bytes that were sent, by lane.
    pub(crate) sent: [(u64, u64); 2],
    /// Every frame that was sent, if a test asks for it.
    pub(crate) record: Option<Vec<(End, Lane, Vec<u8>)>>,
}

impl Net {
    pub(crate) fn new(faults: Faults) -> Net {
        Net { faults, links: Links::default(), sent: [(0, 0); 2], record: None }
    }

    pub(crate) fn open(&mut self, now: u64, lane: Lane) {
        let ways = [End::Target, End::Source].map(|end| self.faults.way(end));
        self.links.open(lane, ways, now + 2 * self.faults.to_source_us.0);
    }

    /// Cuts the lane's connection if it is open, or being opened.
    pub(crate) fn cut(&mut self, now: u64, lane: Lane, rng: &mut Random) {
        self.links.cut(lane, [Some(now), None], self.faults.linger_per_mille, rng);
    }

    pub(crate) fn send(&mut self, now: u64, to: End, lane: Lane, frame: Vec<u8>, rng: &mut Random) {
        let sent = &mut self.sent[lane.index()];
        let bytes = frame.len();
        *sent = (sent.0 + 1, sent.1 + bytes as u64);
        if let Some(record) = &mut self.record {
            record.push((to, lane, frame.clone()));
        }
        if self.faults.blocked == Some(lane) {
            return;
        }
        self.links.set_quality(lane, to.side(), self.faults.way(to));
        if self.links.send(lane, to.side(), frame, bytes, now, rng) && rng.permille(self.faults.cut_per_mille)
        {
            self.cut(now, lane, rng);
        }
    }

    pub(crate) fn open_lanes(&self) -> Vec<Lane> {
        self.links.open_links().collect()
    }

    pub(crate) fn next_at(&self) -> Option<u64> {
        self.links.next_at_us()
    }

    pub(crate) fn pop(&mut self, now: u64) -> Option<Arrival> {
        self.links.receive(now, |_| Fate::Arrives)
    }
}
