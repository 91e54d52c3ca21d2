//! Migrations that may begin: their connections to the source are made while they are prepared.
//!
//! A connection that is refused or cut is dialed again: that happens to anybody while strangers crowd the
//! source's port. Once both stand, and the migration has begun, its machine looks after them.

use super::*;
use sidle_types::MonotonicUs;

/// For how long a source is dialed before it is reported unreachable. The coordinator gives the preparation
/// up a while later.
const DIAL_PATIENCE_US: u64 = 20_000_000;
/// The pause before a lane is dialed again the first time; it doubles each time, up to [`LONGEST_PAUSE_US`].
const FIRST_PAUSE_US: u64 = 50_000;
const LONGEST_PAUSE_US: u64 = 1_000_000;

/// The migrations that may begin.
#[derive(Debug, Default)]
pub(super) struct Expected(BTreeMap<MigrationId, Dialing>);

/// How the connections to a source are coming about.
#[derive(Debug)]
struct Dialing {
    peer: NodeId,
    /// When the source is given up.
    until: MonotonicUs,
    /// Both stood: nothing is dialed again.
    is_connected: bool,
    lanes: [Dialed; Lane::ALL.len()],
}

/// How one of them is.
#[derive(Clone, Copy, Debug)]
struct Dialed {
    /// When it is dialed again; `None` while it is being opened, or stands.
    again_at: Option<MonotonicUs>,
    pause_us: u64,
}

impl Expected {
    /// How many there are.
    pub(super) fn len(&self) -> usize {
        self.0.len()
    }

    pub(super) fn contains(&self, id: MigrationId) -> bool {
        self.0.contains_key(&id)
    }

    /// It has begun, or does not.
    pub(super) fn remove(&mut self, id: MigrationId) {
        self.0.remove(&id);
    }

    /// Dials the source of a migration that may begin.
    pub(super) fn add(&mut self, now: MonotonicUs, id: MigrationId, peer: NodeId) -> Vec<MoverEvent> {
        if self.contains(id) {
            return Vec::new();
        }
        let lanes = [Dialed { again_at: None, pause_us: FIRST_PAUSE_US }; Lane::ALL.len()];
        let until = now.plus_us(DIAL_PATIENCE_US);
        self.0.insert(id, Dialing { peer, until, is_connected: false, lanes });
        Lane::ALL.map(|lane| MoverEvent::Connect { migration: id, lane, peer }).into()
    }

    /// Both lanes stand: whether the migration is expected.
    pub(super) fn connected(&mut self, id: MigrationId) -> bool {
        let dialing = self.0.get_mut(&id);
        dialing.map(|dialing| dialing.is_connected = true).is_some()
    }

    /// A lane was refused or cut: whether its source is given up.
    pub(super) fn failed(&mut self, now: MonotonicUs, id: MigrationId, lane: Lane) -> bool {
        let Some(dialing) = self.0.get_mut(&id).filter(|dialing| !dialing.is_connected) else {
            return false;
        };
        let dialed = &mut dialing.lanes[lane.index()];
        let again_at = now.plus_us(dialed.pause_us);
        if again_at >= dialing.until {
            return true;
        }
        dialed.again_at = Some(again_at);
        dialed.pause_us = (dialed.pause_us * 2).min(LONGEST_PAUSE_US);
        false
    }

    /// What it is time to dial again.
    pub(super) fn due(&mut self, now: MonotonicUs) -> Vec<MoverEvent> {
        let mut due = Vec::new();
        for (&migration, dialing) in &mut self.0 {
            for lane in Lane::ALL {
                if dialing.lanes[lane.index()].again_at.take_if(|at| *at <= now).is_some() {
                    due.push(MoverEvent::Connect { migration, lane, peer: dialing.peer });
                }
            }
        }
        due
    }

    /// When something is to be dialed again.
    pub(super) fn due_at(&self) -> Option<MonotonicUs> {
        self.0.values().flat_map(|dialing| dialing.lanes).filter_map(|dialed| dialed.again_at).min()
    }
}
