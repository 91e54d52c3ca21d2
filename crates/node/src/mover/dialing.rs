//! How a migration that may begin connects to its source.
//!
//! A refused or cut connection is dialed again: strangers may crowd the source's port. Once both are open,
//! and the migration has begun, its machine looks after them.

use sidle_types::{MonotonicUs, NodeId};
use sidle_wire::Lane;

/// How long a source is dialed before it is reported unreachable. The coordinator gives the preparation up
/// some time later.
const DIAL_PATIENCE_US: u64 = 20_000_000;
/// The first pause before a lane is dialed again; it doubles each time, up to [`LONGEST_PAUSE_US`].
const FIRST_PAUSE_US: u64 = 50_000;
const LONGEST_PAUSE_US: u64 = 1_000_000;

/// The dialing of one source.
#[derive(Debug)]
pub(super) struct Dialing {
    peer: NodeId,
    /// When the source is given up.
    until: MonotonicUs,
    /// Both were open: nothing is dialed again.
    is_connected: bool,
    lanes: [Dialed; Lane::ALL.len()],
}

/// The state of one lane.
#[derive(Clone, Copy, Debug)]
struct Dialed {
    /// When it is dialed again; `None` while it is being opened, or open.
    again_at: Option<MonotonicUs>,
    pause_us: u64,
}

impl Dialing {
    /// Both lanes are being opened.
    pub(super) fn new(now: MonotonicUs, peer: NodeId) -> Dialing {
        let lanes = [Dialed { again_at: None, pause_us: FIRST_PAUSE_US }; Lane::ALL.len()];
        Dialing { peer, until: now.plus_us(DIAL_PATIENCE_US), is_connected: false, lanes }
    }

    /// The source.
    pub(super) fn peer(&self) -> NodeId {
        self.peer
    }

    /// Both lanes are open.
    pub(super) fn connected(&mut self) {
        self.is_connected = true;
    }

    /// A lane was refused or cut: whether the source is given up.
    pub(super) fn failed(&mut self, now: MonotonicUs, lane: Lane) -> bool {
        if self.is_connected {
            return false;
        }
        let dialed = &mut self.lanes[lane.index()];
        let again_at = now.plus_us(dialed.pause_us);
        if again_at >= self.until {
            return true;
        }
        dialed.again_at = Some(again_at);
        dialed.pause_us = (dialed.pause_us * 2).min(LONGEST_PAUSE_US);
        false
    }

    /// The lanes due to be dialed again; they count as being opened from now on.
    pub(super) fn take_due(&mut self, now: MonotonicUs) -> impl Iterator<Item = Lane> {
        Lane::ALL
            .into_iter()
            .filter(move |lane| self.lanes[lane.index()].again_at.take_if(|at| *at <= now).is_some())
    }

    /// When a lane is to be dialed again.
    pub(super) fn due_at(&self) -> Option<MonotonicUs> {
        self.lanes.iter().filter_map(|dialed| dialed.again_at).min()
    }
}
