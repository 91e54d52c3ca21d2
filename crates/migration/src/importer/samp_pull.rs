//! Sampled pulls: records that clients ask for often are pulled ahead.
//!
//! Workers draw one miss in several and offer its position; here positions are de-duplicated and batched. One
//! batch is in flight, and the next is sent when it returns. A lost offer costs only time: the record arrives
//! with its partition anyway.
//!
//! Realises: Fulva IV-B, SampPull. (Its code samples nothing.) Deviations: batches name positions, not
//! hashes; the reply is bounded, and what it left out is drawn again; records larger than a piece arrive with
//! their partition.

use super::parts::TargetParts;
use super::position_queue::{Bounds, PositionQueue};
use super::records::{Records, Untaken};
use crate::tuning::{SAMP_PULL_INTERVAL_US, SAMPLED_WAITING_MAX};
use crate::{ImportPhase, ImportView, Sampling};
use sidle_store::Store;
use sidle_types::{Fill, MonotonicUs, Position};
use sidle_wire::{Lane, SampPull, SampPullReply};

/// Sampled positions, waiting and in flight; nothing for a protocol that does not sample.
#[derive(Debug)]
pub(super) struct Samples(Option<PositionQueue>);

impl Samples {
    pub(super) fn new(sampling: Option<Sampling>) -> Samples {
        let bounds = |sampling: Sampling| Bounds {
            waiting: SAMPLED_WAITING_MAX,
            batch: sampling.batch,
            interval_us: SAMP_PULL_INTERVAL_US,
        };
        Samples(sampling.map(|sampling| PositionQueue::new(bounds(sampling))))
    }

    /// A read missed at this position.
    pub(super) fn offer(&mut self, position: Position, view: &ImportView) {
        let is_wanted = view.phase() == ImportPhase::Serving && !view.has_arrived(position);
        if let Some(queue) = self.0.as_mut().filter(|_| is_wanted) {
            queue.offer(position);
        }
    }

    /// How full the queues are.
    pub(super) fn queues(&self) -> [Fill; 2] {
        let lengths = self.0.as_ref().map_or([(0, SAMPLED_WAITING_MAX); 2], PositionQueue::lengths);
        let [(waiting, most), (known, most_known)] = lengths;
        [
            Fill::new("sampled positions", waiting, most),
            Fill::new("sampled positions that wait or are under way", known, most_known),
        ]
    }

    pub(super) fn timeout(&mut self, now: MonotonicUs) {
        self.0.iter_mut().for_each(|queue| queue.timeout(now));
    }

    pub(super) fn reconnected(&mut self) {
        self.0.iter_mut().for_each(PositionQueue::reconnected);
    }

    pub(super) fn deadline(&self) -> Option<MonotonicUs> {
        self.0.as_ref().and_then(PositionQueue::deadline)
    }

    pub(super) fn stop(&mut self) {
        self.0.iter_mut().for_each(PositionQueue::stop);
    }

    fn returned(&mut self) {
        self.0.iter_mut().for_each(PositionQueue::returned);
    }

    pub(super) fn transmit(&mut self, parts: &mut TargetParts, now: MonotonicUs, out: &mut Vec<u8>) -> bool {
        if parts.phase() != ImportPhase::Serving || parts.stall.is_some() {
            return false;
        }
        let view = parts.writer.view();
        let due = self.0.as_mut().and_then(|queue| queue.due(now, |at| !view.has_arrived(at)));
        let Some((sequence, positions)) = due else { return false };
        SampPull::write(parts.scope, sequence, positions, out);
        parts.counters.samp_pulls += 1;
        true
    }

    pub(super) fn samp_pulled(
        &mut self,
        parts: &mut TargetParts,
        store: &Store,
        lane: Lane,
        reply: &SampPullReply<'_>,
    ) -> Result<(), Untaken> {
        let is_awaited = self.0.as_ref().is_some_and(|queue| queue.is_awaited(reply.sequence));
        if !is_awaited || parts.phase() != ImportPhase::Serving {
            return Ok(());
        }
        let records = Records::parse(reply.batch)?;
        match parts.insert(store, records, parts.spec.range, reply.batch.len()) {
            // Out of memory: the bulk pulls notice it too, and handle it.
            Ok(_) | Err(Untaken::OutOfMemory) => {
                self.returned();
                parts.proved(lane);
                Ok(())
            }
            Err(corrupt) => Err(corrupt),
        }
    }
}
