//! Sampled pulls: records that clients ask for often are pulled ahead.
//!
//! Workers draw one miss in several and offer its position; here positions are de-duplicated and batched. One
//! batch is in flight, and the next is sent when it returns. A lost offer costs only time: the record arrives
//! with its partition anyway. Hot positions are copied before the freeze by the same pulls (hot_copies); a
//! reply to one from before it is not taken behind it (M30).
//!
//! Realises: Fulva IV-B, SampPull. (Its code samples nothing.) Deviations: batches name positions, not
//! hashes; the reply is bounded, and what it left out is drawn again; records larger than a piece arrive with
//! their partition.

use super::parts::TargetParts;
use super::position_queue::{Bounds, PositionQueue};
use super::records::{Records, Untaken};
use crate::tuning::{HOT_BATCH, SAMP_PULL_INTERVAL_US, SAMP_REPLY_BYTES, SAMPLED_WAITING_MAX};
use crate::{ImportPhase, ImportView, ProtocolChoices};
use sidle_store::Store;
use sidle_types::{Fill, MonotonicUs, Position};
use sidle_wire::{Lane, SampPull, SampPullReply};

/// Sampled positions, waiting and in flight; nothing for a protocol that neither samples nor copies what is
/// hot ahead.
#[derive(Debug)]
pub(super) struct Samples {
    queue: Option<PositionQueue>,
    /// In which phase the batch in flight was sent first.
    asked_in: ImportPhase,
}

impl Samples {
    pub(super) fn new(protocol: &ProtocolChoices) -> Samples {
        let hot = protocol.copies_hot_ahead().then_some(HOT_BATCH);
        let batch = protocol.sampling.map(|sampling| sampling.batch).or(hot);
        let bounds =
            |batch| Bounds { waiting: SAMPLED_WAITING_MAX, batch, interval_us: SAMP_PULL_INTERVAL_US };
        Samples {
            queue: batch.map(|batch| PositionQueue::new(bounds(batch))),
            asked_in: ImportPhase::Waiting,
        }
    }

    /// These positions are hot.
    pub(super) fn offer_hot(&mut self, positions: impl IntoIterator<Item = Position>) {
        let Some(queue) = &mut self.queue else { return };
        positions.into_iter().for_each(|position| queue.offer(position));
    }

    /// Whether nothing waits or is in flight.
    pub(super) fn is_idle(&self) -> bool {
        self.queue.as_ref().is_none_or(PositionQueue::is_idle)
    }

    /// A read missed at this position.
    pub(super) fn offer(&mut self, position: Position, view: &ImportView) {
        let is_wanted = view.phase() == ImportPhase::Serving && !view.has_arrived(position);
        if let Some(queue) = self.queue.as_mut().filter(|_| is_wanted) {
            queue.offer(position);
        }
    }

    /// How full the queues are.
    pub(super) fn queues(&self) -> [Fill; 2] {
        let lengths = self.queue.as_ref().map_or([(0, SAMPLED_WAITING_MAX); 2], PositionQueue::lengths);
        let [(waiting, most), (known, most_known)] = lengths;
        [
            Fill::new("sampled positions", waiting, most),
            Fill::new("sampled positions that wait or are under way", known, most_known),
        ]
    }

    pub(super) fn timeout(&mut self, now: MonotonicUs) {
        self.queue.iter_mut().for_each(|queue| queue.timeout(now));
    }

    pub(super) fn reconnected(&mut self) {
        self.queue.iter_mut().for_each(PositionQueue::reconnected);
    }

    pub(super) fn deadline(&self) -> Option<MonotonicUs> {
        self.queue.as_ref().and_then(PositionQueue::deadline)
    }

    pub(super) fn stop(&mut self) {
        self.queue.iter_mut().for_each(PositionQueue::stop);
    }

    pub(super) fn transmit(&mut self, parts: &mut TargetParts, now: MonotonicUs, out: &mut Vec<u8>) -> bool {
        let phase = parts.phase();
        if !takes_samples(phase) || parts.stall.is_some() {
            return false;
        }
        let view = parts.writer.view();
        let Some(queue) = &mut self.queue else { return false };
        if queue.in_flight() == 0 {
            self.asked_in = phase;
        }
        let Some((sequence, positions)) = queue.due(now, |at| !view.has_arrived(at)) else { return false };
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
        let phase = parts.phase();
        let queue = self.queue.as_mut().filter(|queue| queue.is_awaited(reply.sequence));
        let Some(queue) = queue.filter(|_| takes_samples(phase)) else { return Ok(()) };
        assert_eq!(self.asked_in, phase, "M30: asked for before the freeze");
        let records = Records::parse(reply.batch)?;
        let last = records.last_position();
        let inserted = match phase {
            ImportPhase::Serving => parts.insert(store, records, parts.spec.range, reply.batch.len()),
            _ => parts.put_in(store, records, parts.spec.range),
        };
        match inserted {
            // Out of memory: the bulk pulls notice it too, and handle it.
            Ok(_) | Err(Untaken::OutOfMemory) => {
                let asked = queue.returned();
                // What was left out of a full reply comes by another, or is drawn again.
                if phase == ImportPhase::Copying && reply.batch.len() >= SAMP_REPLY_BYTES {
                    let answered = asked.iter().position(|&position| Some(position) == last);
                    let left = asked.iter().skip(answered.map_or(asked.len(), |at| at + 1));
                    left.for_each(|&position| queue.offer(position));
                }
                parts.proved(lane);
                Ok(())
            }
            Err(corrupt) => Err(corrupt),
        }
    }
}

/// Whether sampled pulls are made: of what misses, or of what is hot and copied ahead.
fn takes_samples(phase: ImportPhase) -> bool {
    matches!(phase, ImportPhase::Copying | ImportPhase::Serving)
}
