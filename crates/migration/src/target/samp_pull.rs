//! Sampled pulls: records that clients ask for often come ahead of their turn.
//!
//! Workers draw one miss in so many and offer its position; here positions are de-duplicated and batched. One batch is
//! in flight, and the next goes out when it returns. A lost offer costs nothing but time: the record comes with its
//! partition anyway.
//!
//! Realises: Fulva IV-B, SampPull. (Its code samples nothing.) Deviations: batches name positions, not hashes; the
//! reply is bounded, and what it left out is drawn again.

use super::TargetMachine;
use crate::resend::Resend;
use crate::tuning::{PRIORITY_RESEND_US, SAMP_PULL_INTERVAL_US, SAMPLED_WAITING_MAX};
use crate::{Breach, ImportPhase, ImportView, Sampling};
use sidle_store::{RecordBatch, ReplayError, Store};
use sidle_types::{Fill, MonotonicUs, Position};
use sidle_wire::{Lane, SampPull, SampPullReply};
use std::collections::{BTreeSet, VecDeque};

#[derive(Debug)]
struct InFlight {
    positions: Vec<Position>,
    resend: Resend,
}

/// Sampled positions, waiting and in flight.
#[derive(Debug)]
pub(super) struct Samples {
    sampling: Option<Sampling>,
    /// In the order they were drawn.
    waiting: VecDeque<Position>,
    /// Everything that is waiting or in flight.
    known: BTreeSet<Position>,
    sequence: u64,
    in_flight: Option<InFlight>,
    /// No pull is put in flight before this.
    rests_until: Option<MonotonicUs>,
}

impl Samples {
    pub(super) fn new(sampling: Option<Sampling>) -> Samples {
        let (waiting, known) = (VecDeque::new(), BTreeSet::new());
        Samples { sampling, waiting, known, sequence: 0, in_flight: None, rests_until: None }
    }

    /// A read missed at this position.
    pub(super) fn offer(&mut self, position: Position, view: &ImportView) {
        let is_wanted = self.sampling.is_some()
            && view.phase() == ImportPhase::Serving
            && self.waiting.len() < SAMPLED_WAITING_MAX
            && !view.has_arrived(position);
        if is_wanted && self.known.insert(position) {
            self.waiting.push_back(position);
        }
    }

    /// How full the queues are.
    pub(super) fn queues(&self) -> [Fill; 2] {
        let in_flight = self.sampling.map_or(0, |sampling| sampling.batch);
        let known = SAMPLED_WAITING_MAX + in_flight;
        [
            Fill::new("sampled positions", self.waiting.len(), SAMPLED_WAITING_MAX),
            Fill::new("sampled positions that wait or are under way", self.known.len(), known),
        ]
    }

    pub(super) fn timeout(&mut self, now: MonotonicUs) {
        if let Some(pull) = &mut self.in_flight {
            pull.resend.expire(now);
        }
        self.rests_until = self.rests_until.filter(|&until| until > now);
    }

    pub(super) fn reconnected(&mut self) {
        if let Some(pull) = &mut self.in_flight {
            pull.resend.reset();
        }
    }

    pub(super) fn deadline(&self) -> Option<MonotonicUs> {
        match &self.in_flight {
            Some(pull) => pull.resend.deadline(),
            None => self.rests_until.filter(|_| !self.waiting.is_empty()),
        }
    }

    pub(super) fn stop(&mut self) {
        self.waiting.clear();
        self.known.clear();
        self.in_flight = None;
    }

    /// Puts the next batch in flight, if there is one and none is.
    fn fill(&mut self, now: MonotonicUs, view: &ImportView) -> Option<&mut InFlight> {
        let batch = self.sampling?.batch;
        if self.in_flight.is_none() && self.rests_until.is_none_or(|until| until <= now) {
            let mut positions = Vec::new();
            while let Some(position) = self.waiting.pop_front() {
                if view.has_arrived(position) {
                    self.known.remove(&position);
                    continue;
                }
                positions.push(position);
                if positions.len() == batch {
                    break;
                }
            }
            if !positions.is_empty() {
                self.sequence += 1;
                self.rests_until = Some(now.plus_us(SAMP_PULL_INTERVAL_US));
                self.in_flight = Some(InFlight { positions, resend: Resend::new(PRIORITY_RESEND_US) });
            }
        }
        self.in_flight.as_mut()
    }

    fn returned(&mut self) {
        if let Some(pull) = self.in_flight.take() {
            pull.positions.iter().for_each(|position| {
                self.known.remove(position);
            });
        }
    }
}

impl TargetMachine {
    pub(super) fn transmit_samp_pull(&mut self, now: MonotonicUs, out: &mut Vec<u8>) -> bool {
        if self.writer.view().phase() != ImportPhase::Serving || self.stall.is_some() {
            return false;
        }
        let Some(pull) = self.samples.fill(now, self.writer.view()).filter(|pull| pull.resend.is_due())
        else {
            return false;
        };
        pull.resend.sent(now);
        let positions = std::mem::take(&mut pull.positions);
        SampPull::write(self.scope, self.samples.sequence, &positions, out);
        if let Some(pull) = &mut self.samples.in_flight {
            pull.positions = positions;
        }
        self.counters.samp_pulls += 1;
        true
    }

    pub(super) fn samp_pulled(&mut self, store: &Store, lane: Lane, reply: &SampPullReply<'_>) {
        let is_awaited = self.samples.in_flight.is_some() && self.samples.sequence == reply.sequence;
        if !is_awaited || self.writer.view().phase() != ImportPhase::Serving {
            return;
        }
        let batch = match RecordBatch::parse(reply.batch) {
            Ok(batch) => batch,
            Err(error) => return self.breach(lane, Breach::CorruptBatch(error.to_string())),
        };
        match self.insert(store, &batch, self.spec.range, reply.batch.len()) {
            // Out of memory: the bulk pulls find out too, and see to it.
            Ok(_) | Err(ReplayError::OutOfMemory(_)) => {
                self.samples.returned();
                self.greetings[lane.index()].proved();
            }
            Err(error @ ReplayError::OutsideRange(_)) => {
                self.breach(lane, Breach::CorruptBatch(error.to_string()));
            }
        }
    }
}
