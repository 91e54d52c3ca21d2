//! Migrations that may begin: their connections to the source are made while they are prepared.
//!
//! A connection that is refused or cut is dialed again: that happens to anybody while strangers crowd the
//! source's port. Once both stand, and the migration has begun, its machine looks after them.

use super::links::Side;
use super::*;
use sidle_types::MonotonicUs;

/// For how long a source is dialed before it is reported unreachable. The coordinator gives the preparation
/// up a while later.
const DIAL_PATIENCE_US: u64 = 20_000_000;
/// The pause before a lane is dialed again the first time; it doubles each time, up to [`LONGEST_PAUSE_US`].
const FIRST_PAUSE_US: u64 = 50_000;
const LONGEST_PAUSE_US: u64 = 1_000_000;

/// How the connections to a source are coming about.
#[derive(Debug)]
pub(super) struct Expected {
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
    fn due(&self) -> impl Iterator<Item = MonotonicUs> {
        self.lanes.iter().filter_map(|dialed| dialed.again_at)
    }
}

impl Mover {
    /// Dials the source of a migration that may begin.
    pub(super) fn expect(&mut self, now: MonotonicUs, id: MigrationId, peer: NodeId) {
        if self.expected.contains_key(&id) {
            return;
        }
        let lanes = [Dialed { again_at: None, pause_us: FIRST_PAUSE_US }; Lane::ALL.len()];
        let until = now.plus_us(DIAL_PATIENCE_US);
        self.expected.insert(id, Expected { peer, until, is_connected: false, lanes });
        self.events.extend(Lane::ALL.map(|lane| MoverEvent::Connect { migration: id, lane, peer }));
    }

    /// A lane of an expected migration stands: whether that makes both.
    pub(super) fn expected_stands(&mut self, id: MigrationId) -> bool {
        let Some(expected) = self.expected.get_mut(&id) else { return false };
        let stands = |lane| self.links.link(LinkEnd { migration: id, side: Side::Target, lane }).is_some();
        let both_stand = Lane::ALL.into_iter().all(stands);
        expected.is_connected |= both_stand;
        both_stand
    }

    /// A lane of an expected migration was refused or cut.
    pub(super) fn expected_failed(&mut self, now: MonotonicUs, id: MigrationId, lane: Lane) {
        let Some(expected) = self.expected.get_mut(&id).filter(|expected| !expected.is_connected) else {
            return;
        };
        let dialed = &mut expected.lanes[lane.index()];
        let again_at = now.plus_us(dialed.pause_us);
        if again_at >= expected.until {
            self.report(id, MoverReport::Unreachable);
            return;
        }
        dialed.again_at = Some(again_at);
        dialed.pause_us = (dialed.pause_us * 2).min(LONGEST_PAUSE_US);
    }

    /// Dials again what it is time for.
    pub(super) fn dial_again(&mut self, now: MonotonicUs) {
        for (&migration, expected) in &mut self.expected {
            for lane in Lane::ALL {
                if expected.lanes[lane.index()].again_at.take_if(|at| *at <= now).is_some() {
                    let peer = expected.peer;
                    self.events.push_back(MoverEvent::Connect { migration, lane, peer });
                }
            }
        }
    }

    /// When something is to be dialed again.
    pub(super) fn dial_due(&self) -> Option<MonotonicUs> {
        self.expected.values().flat_map(Expected::due).min()
    }
}
