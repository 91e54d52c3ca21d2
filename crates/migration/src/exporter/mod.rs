//! The source of a migration: freezes, activates the target, answers pulls, and gives its memory back.
//!
//! Purpose: once frozen, this node's data of the range never changes, so every request can be answered from
//! the store alone. The machine keeps no cursor: all that a pull needs stands in it, and the store may resize
//! and clean freely.
//!
//! Call order. After every call of [`Exporter::handle`]: take events until [`Exporter::poll_event`] has none,
//! and for each lane whose output is short call [`Exporter::poll_transmit`] until it writes nothing; packing
//! happens there, so a lane that is full costs nothing. When the instant of [`Exporter::poll_timeout`] comes,
//! hand in [`SourceInput::Timeout`]. [`SourceInput::Frozen`] and [`SourceInput::Over`] take the proof of the
//! barrier.
//!
//! A range that is copied before its freeze is answered for as soon as every worker marks what it changes
//! ([`SourceInput::Tracked`]); what is marked goes out in rounds (changes).
//!
//! Invariants: M2 (nothing else is packed before the freeze, and the highest version seen then is still the
//! highest at the end), M8 (release only after `Done` is committed and every worker knows), M9 (`message`),
//! M10: requests are answered as often as they come, but not while the last answer is still on its way; of
//! several pulls of one partition only the newest is kept. M11 (changes).
//!
//! Realises: Fulva IV-A and IV-B (source side), Rocksteady 2.3.1.1 (a source without migration state).
//! Deviations: the freeze is a barrier over workers; activation tells the target the highest version; what is
//! over is "done", never "absent"; memory goes back in slices.
//!
//! Ownership: one mover thread. Workers see only [`ExportView`](crate::ExportView).

mod activation;
mod changes;
mod pieces;
mod recent_replies;
mod release;
mod serve;

use crate::outbox::Outbox;
use crate::{Breach, Copies, ExportPhase, ExportView, ExportWriter, MigrationSpec, SourceEvent, SourceInput};
use activation::Activation;
use changes::Changes;
use release::Release;
use serve::Requests;
use sidle_pacing::Governor;
use sidle_store::Store;
use sidle_types::{Fill, MonotonicUs};
use sidle_wire::{Lane, Message, RefusalCode, Scope};
use std::collections::VecDeque;
use std::sync::Arc;

/// What a source has done so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ExporterCounters {
    /// Records sent in bulk, repeated ones included.
    pub records_sent: u64,
    /// Bytes of records sent, on both lanes, repeated ones included.
    pub bytes_sent: u64,
    /// Records sent out of turn, for sampled and priority pulls.
    pub records_sent_early: u64,
}

/// The source of a migration: see the module's header.
#[derive(Debug)]
pub struct Exporter {
    spec: MigrationSpec,
    scope: Scope,
    writer: ExportWriter,
    /// By lane: whether the target's `Hello` was heard on the connection that is open now.
    greeted: [bool; Lane::ALL.len()],
    /// By lane: whether the answer to `Hello` is to be sent.
    owes_ack: [bool; Lane::ALL.len()],
    activation: Activation,
    requests: Requests,
    changes: Changes,
    governor: Governor,
    release: Release,
    outbox: Outbox,
    events: VecDeque<SourceEvent>,
    counters: ExporterCounters,
}

impl Exporter {
    /// The machine of an export that has not been frozen.
    pub fn new(now: MonotonicUs, spec: MigrationSpec, writer: ExportWriter) -> Exporter {
        spec.check().expect("specs are checked where they enter the node");
        assert_eq!(writer.view().id(), spec.id, "M9: the view belongs to another migration");
        Exporter {
            scope: spec.scope(),
            greeted: [false; Lane::ALL.len()],
            owes_ack: [false; Lane::ALL.len()],
            activation: Activation::NotFrozen,
            requests: Requests::default(),
            changes: Changes::default(),
            governor: spec.governor(now),
            release: Release::NotDone,
            outbox: Outbox::default(),
            events: VecDeque::new(),
            counters: ExporterCounters::default(),
            spec,
            writer,
        }
    }

    /// What workers see of the migration.
    pub fn view(&self) -> &Arc<ExportView> {
        self.writer.view()
    }

    /// The migration.
    pub fn spec(&self) -> &MigrationSpec {
        &self.spec
    }

    /// What was done so far.
    pub fn counters(&self) -> ExporterCounters {
        self.counters
    }

    /// How full its queues are.
    pub fn queues(&self) -> impl Iterator<Item = Fill> {
        self.requests.queues(self.spec.partitions.len()).into_iter().chain(self.outbox.queues())
    }

    /// Takes in what happened.
    pub fn handle(&mut self, now: MonotonicUs, store: &Store, input: SourceInput<'_>) {
        match input {
            SourceInput::Tracked(passed) => self.track(passed),
            SourceInput::Frozen(passed) => self.freeze(store, passed),
            SourceInput::Connected(lane) | SourceInput::Disconnected(lane) => self.forget(lane),
            SourceInput::Message(lane, message) => self.message(now, lane, message),
            SourceInput::Load(load) => self.governor.measured(now, load),
            SourceInput::Policy(policy) => self.governor.follow(now, policy),
            SourceInput::Timeout => {
                self.activation.timeout(now);
                self.requests.timeout(now);
                self.release_slice(now, store);
            }
            SourceInput::DoneCommitted => self.finish(store),
            SourceInput::Over(passed) => self.begin_release(now, passed),
        }
    }

    /// The lane's connection is new, or gone: what was asked over it will be asked again.
    fn forget(&mut self, lane: Lane) {
        self.greeted[lane.index()] = false;
        self.owes_ack[lane.index()] = false;
        self.outbox.clear(lane);
        self.requests.forget(lane);
        self.changes.forget(lane);
    }

    fn message(&mut self, now: MonotonicUs, lane: Lane, message: Message<'_>) {
        if let Some(scope) = message.scope().filter(|&scope| scope != self.scope) {
            // M9; a refusal is not refused: two nodes would go on for ever.
            if !matches!(message, Message::Refuse(_)) {
                let text =
                    format!("this is migration {} at epoch {}", self.scope.migration, self.scope.epoch.0);
                self.outbox.refuse(lane, scope, RefusalCode::StaleScope, text);
            }
            return;
        }
        if let Message::Hello(hello) = message {
            return self.hello(lane, hello);
        }
        if !self.greeted[lane.index()] {
            // From a connection before this one (M10): it will be asked again after `Hello`.
            return;
        }
        match message {
            Message::Activated(_) => self.target_activated(),
            Message::Pull(pull) => self.take_pull(now, lane, pull),
            Message::SampPull(pull) => self.take_samp_pull(now, lane, pull),
            Message::PriorityPull(pull) => self.take_priority_pull(now, lane, pull),
            Message::ChangedPull(pull) => self.take_changed_pull(lane, pull),
            Message::Probe(probe) => self.take_probe(lane, probe),
            Message::Ping(nonce) => self.outbox.pong(lane, nonce),
            Message::Pong(_) | Message::Refuse(_) => {}
            Message::Hello(_) => unreachable!("taken above"),
            Message::HelloAck(_) => self.breach(lane, Breach::WrongDirection("HelloAck")),
            Message::Activate(_) => self.breach(lane, Breach::WrongDirection("Activate")),
            Message::PullReply(_) => self.breach(lane, Breach::WrongDirection("PullReply")),
            Message::SampPullReply(_) => self.breach(lane, Breach::WrongDirection("SampPullReply")),
            Message::PriorityPullReply(_) => self.breach(lane, Breach::WrongDirection("PriorityPullReply")),
            Message::ChangedPullReply(_) => self.breach(lane, Breach::WrongDirection("ChangedPullReply")),
            Message::ProbeReply(_) => self.breach(lane, Breach::WrongDirection("ProbeReply")),
            Message::Forward(_) => self.breach(lane, Breach::WrongDirection("Forward")),
            Message::Control(_) => self.breach(lane, Breach::WrongDirection("Control")),
        }
    }

    fn breach(&mut self, lane: Lane, breach: Breach) {
        self.events.push_back(SourceEvent::Close(lane, breach));
    }

    /// Why a pull of this lane cannot be answered now, if so (M2, M8, M11). While the range is copied ahead,
    /// nobody waits for a key of it.
    fn not_ready(&self, lane: Lane) -> Option<(RefusalCode, String)> {
        let id = self.scope.migration;
        match self.writer.view().phase() {
            ExportPhase::Frozen => None,
            ExportPhase::Tracking if lane == Lane::Bulk => None,
            ExportPhase::Pending | ExportPhase::Tracking => {
                Some((RefusalCode::NotFrozen, format!("the range of migration {id} is not frozen yet")))
            }
            ExportPhase::Done => Some((RefusalCode::Done, format!("migration {id} is over"))),
        }
    }

    /// Whether the range is copied before its freeze.
    fn copies_ahead(&self) -> bool {
        matches!(self.spec.protocol.copies, Copies::BeforeFreeze(_))
    }

    /// Appends one frame for this lane to `out`; whether there was one. Call it while the lane's output is
    /// short.
    pub fn poll_transmit(&mut self, now: MonotonicUs, store: &Store, lane: Lane, out: &mut Vec<u8>) -> bool {
        if std::mem::take(&mut self.owes_ack[lane.index()]) {
            self.scope.write_hello_ack(out);
            return true;
        }
        if self.outbox.transmit(lane, out) {
            return true;
        }
        if !self.greeted[lane.index()] {
            return false;
        }
        match lane {
            Lane::Bulk => self.answer_pull(now, store, out) || self.answer_changed_pull(now, store, out),
            Lane::Priority => {
                self.transmit_activate(now, out)
                    || self.answer_priority_pull(now, store, out)
                    || self.answer_samp_pull(now, store, out)
                    || self.answer_probe(store, out)
            }
        }
    }

    /// When [`SourceInput::Timeout`] is due, if ever.
    pub fn poll_timeout(&self) -> Option<MonotonicUs> {
        [self.activation.deadline(), self.requests.deadline(), self.release.deadline()]
            .into_iter()
            .flatten()
            .min()
    }

    /// The next thing that the driver should do or know.
    pub fn poll_event(&mut self) -> Option<SourceEvent> {
        self.events.pop_front()
    }
}
