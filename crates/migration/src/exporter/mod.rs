//! The source of a migration: freezes, activates the target, answers pulls, and frees its memory.
//!
//! Purpose: once frozen, this node's data of the range never changes, so the store alone can answer every
//! request. The machine keeps no cursor: a pull contains all that it needs, and the store may resize and
//! clean freely.
//!
//! Call order. After every call of [`Exporter::handle`]: drain [`Exporter::poll_event`], and for each lane
//! with little pending output call [`Exporter::poll_transmit`] until it writes nothing. Packing happens
//! there, so a full lane costs nothing. At the instant of [`Exporter::poll_timeout`], pass in
//! [`SourceInput::Timeout`]. [`SourceInput::Frozen`] and [`SourceInput::Over`] take the proof of the barrier.
//!
//! A range that is copied before its freeze is served to the target once every worker marks its changes
//! ([`SourceInput::Tracked`]); the marked changes are sent in rounds (changes). If only hot positions are
//! copied ahead, these are named when they are marked (hints), and `Activate` says which have not changed.
//! Large collections are named with them, and their pieces sent (serve) while the source serves (M32).
//!
//! Invariants: M2 (nothing else is packed before the freeze, and the highest version then is still the
//! highest at the end), M8 (release only after `Done` is committed and every worker knows), M9 (`message`),
//! M10: requests are answered as often as they arrive, but not while the last answer is still on its way; of
//! several pulls of one partition only the newest is kept. M11 (changes).
//!
//! Realises: Fulva IV-A and IV-B (source side), Rocksteady 2.3.1.1 (a source without migration state).
//! Deviations: the freeze is a barrier over workers; activation carries the highest version; the answer after
//! the end is "done", never "absent"; memory is freed in slices.
//!
//! Ownership: one mover thread. Workers see only [`ExportView`](crate::ExportView).

mod activation;
mod by_load;
mod changes;
mod cuts;
mod hints;
mod parts;
mod pieces;
mod recent_replies;
mod release;
mod sent_whole;
mod serve;

use crate::{BarrierPassed, ExportPhase, ExportView, ExportWriter, MigrationSpec, SourceEvent, SourceInput};
use activation::Activation;
use changes::Changes;
use cuts::Cuts;
use hints::Hints;
use parts::SourceParts;
use release::Release;
use serve::Requests;
use sidle_store::Store;
use sidle_types::{Fill, MonotonicUs};
use sidle_wire::{Hello, Lane, Message, RefusalCode};
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
    parts: SourceParts,
    /// By lane: whether the target's `Hello` has arrived on the open connection.
    greeted: [bool; Lane::ALL.len()],
    /// By lane: whether the answer to `Hello` is to be sent.
    owes_ack: [bool; Lane::ALL.len()],
    activation: Activation,
    requests: Requests,
    changes: Changes,
    /// Of a range that is given bit by bit.
    cuts: Option<Cuts>,
    hints: Hints,
    release: Release,
    /// Of a range that is given bit by bit: the publication of the table that exports it.
    exported_at: u64,
    /// Of a range that is given bit by bit: since when it is this node's again.
    taken_back_at: Option<MonotonicUs>,
}

impl Exporter {
    /// The machine of an export that has not been frozen.
    pub fn new(now: MonotonicUs, spec: MigrationSpec, writer: ExportWriter) -> Exporter {
        spec.check().expect("specs are checked where they enter the node");
        assert_eq!(writer.view().id(), spec.id, "M9: the view belongs to another migration");
        let parts = SourceParts::new(now, spec, writer);
        let spec = &parts.spec;
        Exporter {
            cuts: spec.cuts().map(|cuts| Cuts::new(cuts, spec)),
            hints: Hints::new(&parts),
            greeted: [false; Lane::ALL.len()],
            owes_ack: [false; Lane::ALL.len()],
            activation: Activation::NotFrozen,
            requests: Requests::default(),
            changes: Changes::default(),
            release: Release::NotDone,
            exported_at: 0,
            taken_back_at: None,
            parts,
        }
    }

    /// The workers' view of the migration.
    pub fn view(&self) -> &Arc<ExportView> {
        self.parts.writer.view()
    }

    /// The migration.
    pub fn spec(&self) -> &MigrationSpec {
        &self.parts.spec
    }

    /// What was done so far.
    pub fn counters(&self) -> ExporterCounters {
        self.parts.counters
    }

    /// How full its queues are.
    pub fn queues(&self) -> impl Iterator<Item = Fill> {
        let requests = self.requests.queues(self.parts.spec.partitions.len()).into_iter();
        requests.chain(self.parts.outbox.queues()).chain([self.hints.queue()])
    }

    /// Handles an input.
    pub fn handle(&mut self, now: MonotonicUs, store: &Store, input: SourceInput<'_>) {
        match input {
            SourceInput::Tracked(_) => {
                self.parts.writer.track();
                self.hints.copy_ahead(&mut self.parts, now, self.greeted[Lane::Priority.index()]);
            }
            // Workers serve what is not given, and mark their changes there.
            SourceInput::Frozen(passed) if self.cuts.is_some() => {
                self.exported_at = passed.epoch();
                self.parts.writer.track();
                self.hints.begin(&self.parts, now);
            }
            SourceInput::Frozen(passed) => {
                self.activation.freeze(&mut self.parts, store, passed, self.hints.may_be_copied());
            }
            SourceInput::Stepped(passed) => self.stepped(now, store, passed),
            SourceInput::Connected(lane) | SourceInput::Disconnected(lane) => self.forget(lane),
            SourceInput::Message(lane, message) => self.message(now, store, lane, message),
            SourceInput::Load(load) => {
                self.parts.governor.measured(now, load);
                self.cuts.iter_mut().for_each(|cuts| cuts.measured(now, load));
            }
            SourceInput::Policy(policy) => self.parts.governor.follow(now, policy),
            SourceInput::Timeout => {
                self.parts.paced_until = self.parts.paced_until.filter(|&until| until > now);
                self.activation.timeout(now);
                self.hints.timeout(&self.parts, now, store);
                self.release.slice(&mut self.parts, now, store);
                if self.cuts.as_mut().is_some_and(|cuts| cuts.timeout(&mut self.parts, now, store)) {
                    self.gave(now, store);
                }
            }
            SourceInput::TakenBack => self.take_back(now),
            SourceInput::DoneCommitted => self.finish(store),
            SourceInput::Over(passed) => {
                self.release.begin(&self.parts, self.activation.frozen(), now, passed);
            }
        }
    }

    /// The step of the cut under way, or of the copies ahead, counts from this number of the steps' barrier
    /// on. Answers [`SourceEvent::Step`]; [`SourceInput::Stepped`] follows with the proof.
    pub fn publish_step(&mut self, number: u64) {
        match &mut self.cuts {
            Some(cuts) => cuts.publish_step(&mut self.parts, number),
            None => self.hints.publish_step(&mut self.parts, number),
        }
    }

    /// The range is this node's again. What was given is cleared once every worker agrees on it.
    fn take_back(&mut self, now: MonotonicUs) {
        self.taken_back_at = Some(now);
        let cuts = self.cuts.as_ref().expect("only what is given bit by bit is taken back");
        if let Some(given) = cuts.given(&self.parts.spec.partitions) {
            self.release.clear(now, given);
        }
    }

    fn stepped(&mut self, now: MonotonicUs, store: &Store, passed: BarrierPassed) {
        let Some(cuts) = &mut self.cuts else {
            return self.hints.stepped(&self.parts, now, passed);
        };
        if cuts.stepped(&mut self.parts, now, store, passed) {
            self.gave(now, store);
        }
    }

    /// A cut was given.
    fn gave(&mut self, now: MonotonicUs, store: &Store) {
        if self.taken_back_at.is_some() {
            return self.take_back(now);
        }
        let Some(cuts) = &self.cuts else { return };
        if cuts.has_given_all() && self.parts.phase() == ExportPhase::Tracking {
            self.activation.gave_all(&mut self.parts, store, self.exported_at);
        }
    }

    fn hello(&mut self, now: MonotonicUs, lane: Lane, hello: Hello) {
        if hello.node != self.parts.spec.target || hello.lane != lane {
            let text = format!("migration {} goes to {}", self.parts.spec.id, self.parts.spec.target);
            return self.parts.refuse(lane, RefusalCode::WrongNode, text);
        }
        self.greeted[lane.index()] = true;
        self.owes_ack[lane.index()] = true;
        // Whichever lane is later: a pull over the other one, from before, counts as its answer.
        if self.cuts.is_none() {
            self.activation.reconnected();
        }
        if lane == Lane::Priority {
            self.hints.copy_ahead(&mut self.parts, now, true);
        }
    }

    /// `Done` is committed: from here on nothing is answered from frozen data.
    fn finish(&mut self, store: &Store) {
        if self.parts.phase() == ExportPhase::Done {
            return;
        }
        self.activation.assert_unchanged(self.parts.spec.range, store);
        self.parts.writer.finish();
        Lane::ALL.into_iter().for_each(|lane| self.requests.forget(lane));
    }

    /// The lane's connection is new, or gone: requests over it will be repeated.
    fn forget(&mut self, lane: Lane) {
        self.greeted[lane.index()] = false;
        self.owes_ack[lane.index()] = false;
        self.parts.outbox.clear(lane);
        self.requests.forget(lane);
        self.changes.forget(lane);
        if let Some(cuts) = &mut self.cuts {
            cuts.forget(lane);
        }
    }

    fn message(&mut self, now: MonotonicUs, store: &Store, lane: Lane, message: Message<'_>) {
        if let Some(scope) = message.scope().filter(|&scope| scope != self.parts.scope) {
            // M9; a refusal is never refused: two nodes would continue for ever.
            if !matches!(message, Message::Refuse(_)) {
                let text = self.parts.scope.to_string();
                self.parts.outbox.refuse(lane, scope, RefusalCode::StaleScope, text);
            }
            return;
        }
        if let Message::Hello(hello) = message {
            return self.hello(now, lane, hello);
        }
        if !self.greeted[lane.index()] {
            // From an earlier connection (M10): it will be repeated after `Hello`.
            return;
        }
        if self.is_of_earlier_life(&message) {
            return;
        }
        let is_in_range = serve::is_in_range(&self.parts.spec, &message);
        if is_in_range.is_some_and(|is_in_range| !self.accepts(lane, &message, is_in_range)) {
            return;
        }
        match message {
            Message::Activated(_) => self.activation.target_activated(&mut self.parts),
            Message::Pull(pull) => self.requests.take_pull(now, pull),
            Message::SampPull(pull) => self.requests.take_samp_pull(now, pull),
            Message::PriorityPull(pull) => self.requests.take_priority_pull(now, pull),
            Message::ChangedPull(pull) if self.parts.spec.protocol.copies_collections_ahead() => {
                self.requests.take_collection_pull(pull);
            }
            Message::ChangedPull(pull) => self.changes.take_changed_pull(pull),
            Message::CutPull(pull) => {
                if let Some(cuts) = &mut self.cuts {
                    cuts.take_cut_pull(&mut self.parts, store, pull);
                }
            }
            Message::Probe(probe) => self.requests.take_probe(probe),
            Message::Ping(nonce) => self.parts.outbox.pong(lane, nonce),
            Message::Pong(_) | Message::Refuse(_) => {}
            Message::Hello(_) => unreachable!("taken above"),
            Message::HelloAck(_) => self.parts.wrong_direction(lane, "HelloAck"),
            Message::Activate(_) => self.parts.wrong_direction(lane, "Activate"),
            Message::PullReply(_) => self.parts.wrong_direction(lane, "PullReply"),
            Message::SampPullReply(_) => self.parts.wrong_direction(lane, "SampPullReply"),
            Message::PriorityPullReply(_) => self.parts.wrong_direction(lane, "PriorityPullReply"),
            Message::ChangedPullReply(_) => self.parts.wrong_direction(lane, "ChangedPullReply"),
            Message::CutReply(_) => self.parts.wrong_direction(lane, "CutReply"),
            Message::HotHints(_) => self.parts.wrong_direction(lane, "HotHints"),
            Message::ProbeReply(_) => self.parts.wrong_direction(lane, "ProbeReply"),
            Message::Forward(_) => self.parts.wrong_direction(lane, "Forward"),
            Message::CopyHello(_) | Message::ToBackup(_) | Message::ToWriter(_) => {
                self.parts.wrong_direction(lane, "a log's copy");
            }
            Message::Control(_) => self.parts.wrong_direction(lane, "Control"),
        }
    }

    /// Whether it asks for what only an earlier incarnation of this node gave, or marked: the target has yet
    /// to learn of the restart (M33).
    fn is_of_earlier_life(&self, message: &Message<'_>) -> bool {
        match message {
            Message::CutPull(_) => self.cuts.is_none(),
            Message::ChangedPull(_) => {
                !self.parts.spec.copies_ahead() && !self.parts.spec.protocol.copies_collections_ahead()
            }
            _ => false,
        }
    }

    /// Whether a request for something in or out of the range can be answered; refuses it otherwise.
    fn accepts(&mut self, lane: Lane, message: &Message<'_>, is_in_range: bool) -> bool {
        let refusal = self.not_ready(lane, message).or_else(|| {
            let MigrationSpec { id, range, .. } = self.parts.spec;
            (!is_in_range).then(|| (RefusalCode::OutOfRange, format!("migration {id} moves {range}")))
        });
        match refusal {
            Some((code, text)) => {
                self.parts.refuse(lane, code, text);
                false
            }
            None => {
                // A target that copies ahead pulls before it has received `Activate`.
                if !self.parts.spec.protocol.copies_in_preparation() && self.cuts.is_none() {
                    self.activation.target_activated(&mut self.parts);
                }
                true
            }
        }
    }

    /// Why a pull cannot be answered now, if so (M2, M8, M11). While the range is copied ahead, no command
    /// waits for a key of it.
    fn not_ready(&self, lane: Lane, message: &Message<'_>) -> Option<(RefusalCode, String)> {
        let id = self.parts.spec.id;
        match self.parts.phase() {
            ExportPhase::Frozen => None,
            ExportPhase::Tracking if self.cuts.is_some() || self.may_come_ahead(lane, message) => None,
            ExportPhase::Pending | ExportPhase::Tracking => {
                Some((RefusalCode::NotFrozen, format!("the range of migration {id} is not frozen yet")))
            }
            ExportPhase::Done => Some((RefusalCode::Done, format!("migration {id} is over"))),
        }
    }

    /// Whether it pulls what is copied before the freeze: everything, or samples and large collections.
    fn may_come_ahead(&self, lane: Lane, message: &Message<'_>) -> bool {
        let protocol = &self.parts.spec.protocol;
        match message {
            Message::SampPull(_) => lane == Lane::Priority && protocol.copies_hot_ahead(),
            Message::ChangedPull(_) if protocol.copies_collections_ahead() => lane == Lane::Bulk,
            _ => lane == Lane::Bulk && self.parts.spec.copies_ahead(),
        }
    }

    /// Appends one frame for this lane to `out`; returns whether there was one. Call it while the lane has
    /// little pending output.
    pub fn poll_transmit(&mut self, now: MonotonicUs, store: &Store, lane: Lane, out: &mut Vec<u8>) -> bool {
        if std::mem::take(&mut self.owes_ack[lane.index()]) {
            self.parts.scope.write_hello_ack(out);
            return true;
        }
        if self.parts.outbox.transmit(lane, out) {
            return true;
        }
        if !self.greeted[lane.index()] {
            return false;
        }
        let Exporter { parts, activation, requests, changes, cuts, hints, .. } = self;
        match lane {
            Lane::Bulk => {
                requests.answer_pull(parts, now, store, cuts.as_ref(), out)
                    || changes.answer_changed_pull(parts, now, store, out)
                    || requests.answer_collection_pull(parts, now, store, out)
            }
            Lane::Priority => {
                cuts.as_mut().is_some_and(|cuts| cuts.answer_cut_pull(parts, store, out))
                    || activation.transmit(parts, now, out)
                    || hints.transmit(parts, store, cuts.as_ref(), out)
                    || requests.answer_priority_pull(parts, now, store, out)
                    || requests.answer_samp_pull(parts, now, store, out)
                    || requests.answer_probe(parts, store, out)
            }
        }
    }

    /// When [`SourceInput::Timeout`] is due, if ever.
    pub fn poll_timeout(&self) -> Option<MonotonicUs> {
        let Exporter { activation, parts, release, hints, cuts, .. } = self;
        let own = [activation.deadline(), parts.paced_until, release.deadline(), hints.deadline()];
        own.into_iter().chain([cuts.as_ref().and_then(Cuts::deadline)]).flatten().min()
    }

    /// The next event for the driver.
    pub fn poll_event(&mut self) -> Option<SourceEvent> {
        self.parts.events.pop_front()
    }
}
