//! Probes: keys that were written here blindly, of which the source may have a record.
//!
//! A blind write of a key that has not arrived creates an entry here. Whether the source has the key too is
//! unknown until its record arrives. Until then the key would be counted twice: as written here and as not
//! arrived. So workers name the positions of such writes, and the source is asked at how many of them it has
//! a record. Only the number of keys depends on it.

use super::parts::TargetParts;
use super::position_queue::{Bounds, PositionQueue};
use super::records::Untaken;
use crate::tuning::{PROBE_BATCH, PROBE_INTERVAL_US, PROBED_WAITING_MAX};
use crate::{ImportPhase, ImportView};
use sidle_types::{Fill, MonotonicUs, Position};
use sidle_wire::{Lane, Probe, ProbeReply};

/// Positions to ask about, waiting and in flight.
#[derive(Debug)]
pub(super) struct Probes(PositionQueue);

impl Default for Probes {
    fn default() -> Probes {
        let bounds =
            Bounds { waiting: PROBED_WAITING_MAX, batch: PROBE_BATCH, interval_us: PROBE_INTERVAL_US };
        Probes(PositionQueue::new(bounds))
    }
}

impl Probes {
    /// A key was written here that had not arrived.
    pub(super) fn offer(&mut self, position: Position, view: &ImportView) {
        if view.phase() == ImportPhase::Serving {
            self.0.offer(position);
        }
    }

    /// How full the queues are.
    pub(super) fn queues(&self) -> [Fill; 2] {
        let [(waiting, most), (known, most_known)] = self.0.lengths();
        [
            Fill::new("positions to be probed", waiting, most),
            Fill::new("positions to be probed or under way", known, most_known),
        ]
    }

    pub(super) fn timeout(&mut self, now: MonotonicUs) {
        self.0.timeout(now);
    }

    pub(super) fn reconnected(&mut self) {
        self.0.reconnected();
    }

    pub(super) fn deadline(&self) -> Option<MonotonicUs> {
        self.0.deadline()
    }

    pub(super) fn stop(&mut self) {
        self.0.stop();
    }

    pub(super) fn transmit(&mut self, parts: &TargetParts, now: MonotonicUs, out: &mut Vec<u8>) -> bool {
        if parts.phase() != ImportPhase::Serving {
            return false;
        }
        // Including those that have arrived in bulk meanwhile: the record was found present, and no more is
        // known of it.
        let Some((sequence, positions)) = self.0.due(now, |_| true) else { return false };
        Probe::write(parts.scope, sequence, positions, out);
        true
    }

    pub(super) fn probed(
        &mut self,
        parts: &mut TargetParts,
        lane: Lane,
        reply: ProbeReply,
    ) -> Result<(), Untaken> {
        if !self.0.is_awaited(reply.sequence) {
            return Ok(());
        }
        if reply.found > self.0.in_flight() as u64 {
            let reason = "more positions are found than were asked for".to_owned();
            return Err(Untaken::Corrupt(reason));
        }
        parts.writer.met(reply.found);
        self.0.returned();
        parts.proved(lane);
        Ok(())
    }
}
