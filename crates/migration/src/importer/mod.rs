//! The target of a migration: pulls, replays, and wakes waiting commands.
//!
//! Purpose: from activation on this node owns the range and serves it, while the machine fetches the source's
//! remaining records. It consists of machines: greeting (connections), pull (bulk), samp_pull, priority_pull,
//! probe (counting), changes (rounds of a copy made before the freeze), ahead (hot positions and large
//! collections copied before it), sweep (tombstones). Each borrows their shared state (parts). What
//! concerns several of them is here, in phases and in replay. Large records
//! arrive in pieces (partial).
//!
//! Call order. After construction and after every call of [`Importer::handle`]: drain
//! [`Importer::poll_event`], and for each lane with little pending output call [`Importer::poll_transmit`]
//! until it writes nothing. If `handle` returned a [`Replay`], do that first, so that the next pull is on its
//! way; then pass it to [`Importer::replay`], and drain events again. At the instant of
//! [`Importer::poll_timeout`], pass in [`TargetInput::Timeout`].
//!
//! Invariants: M3 (phases), M5 (records), M7 (replay), M6 and M8 (sweep), M11 (changes), M9 (`message`), M10:
//! every request carries a sequence number that its reply repeats. A reply to anything but the request in
//! flight is ignored; unanswered requests are repeated, and replaying twice changes nothing.
//!
//! Realises: Fulva III and IV-A to IV-C (destination side), Rocksteady 2.3.1 (pipelined pulls by partition),
//! 2.3.3 (batched, de-duplicated priority pulls). Deviations: the cursor is a position and part of every
//! pull, so the source keeps nothing; progress moves after replay; a finished partition has a state of its
//! own; "not here yet" and "absent" are different answers; `Fin` goes through the coordinator, which commits
//! it.
//!
//! Ownership: one mover thread. Workers see only [`ImportView`](crate::ImportView).

mod ahead;
mod changes;
mod collection_copies;
mod copies;
mod cuts;
mod greeting;
mod held;
mod hints;
mod hot_copies;
mod joining;
mod large_keys;
mod news;
mod partial;
mod parts;
mod phases;
mod position_queue;
mod priority_pull;
mod probe;
mod pull;
mod records;
mod replay;
mod samp_pull;
mod sweep;
mod turn;

pub use replay::Replay;

use crate::cuts::CutTimes;
use crate::{
    Breach, Copies, Failure, ImportPhase, ImportView, ImportWriter, MigrationSpec, TargetEvent, TargetInput,
    Waiter,
};
use ahead::Ahead;
use changes::Changes;
use cuts::Cuts;
use greeting::Greeting;
use parts::TargetParts;
use priority_pull::PriorityQueue;
use probe::Probes;
use pull::Pulls;
use records::Untaken;
use replay::Stall;
use samp_pull::Samples;
use sidle_store::{LogHead, Store};
use sidle_types::{Fill, MonotonicUs};
use sidle_wire::{CutReply, Hello, Lane, Message, Refusal, RefusalCode};
use std::sync::Arc;
use sweep::Sweep;
use turn::Cleared;

/// What a target has done so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ImporterCounters {
    /// Records that arrived and were new.
    pub records_moved: u64,
    /// Records that arrived although the target had an entry for their key: written here, or pulled twice.
    pub records_present: u64,
    /// Bytes of records that arrived.
    pub bytes_moved: u64,
    /// Bulk pulls sent, resent ones included.
    pub pulls: u64,
    /// Sampled pulls sent, resent ones included.
    pub samp_pulls: u64,
    /// Priority pulls sent, resent ones included.
    pub priority_pulls: u64,
    /// Pieces that arrived of what is larger than a reply.
    pub pieces: u64,
    /// Large collections that arrived chunk by chunk.
    pub collections: u64,
    /// Large collections that were copied before the freeze, of a range that freezes whole.
    pub collections_ahead: u64,
    /// Bytes that arrived of what had changed in them since they were copied.
    pub patch_bytes: u64,
    /// Ranges and positions that had changed at the source and were updated here.
    pub changes: u64,
    /// Of those, how many were left in the source's last report.
    pub changes_left: u64,
    /// Pulls of cuts sent, resent ones included.
    pub cuts: u64,
    /// What went first because it was hot: positions that cuts gave and no command had waited for, or records
    /// that were copied before the freeze and had not changed.
    pub hinted: u64,
    /// How long cuts took that gave something.
    pub cut_times: CutTimes,
}

/// The target of a migration: see the module's header.
#[derive(Debug)]
pub struct Importer {
    parts: TargetParts,
    /// Whether `Activate` has arrived, and its answer is not sent.
    owes_activated: bool,
    pulls: Pulls,
    /// Of a copy made before the freeze.
    changes: Option<Changes>,
    /// Of a range that is given bit by bit.
    cuts: Option<Cuts>,
    /// Of a range of which only hot positions or large collections are copied before the freeze, until then.
    ahead: Option<Ahead>,
    samples: Samples,
    probes: Probes,
    priority: PriorityQueue,
    /// Flushes that came before activation.
    flushes: Vec<Waiter>,
    sweep: Sweep,
    /// Records of a range given bit by bit that are not this node's, and are being cleared.
    cleared: Option<Cleared>,
    /// Whether it turns back, and nothing is in transit any more.
    is_settled: bool,
    /// Whether the source is dead: what is left comes from a copy of its log.
    source_is_dead: bool,
    failed: bool,
}

impl Importer {
    /// The machine of an import that has not begun. Its first events ask for the two connections.
    ///
    /// `head` must be of the store that every later call gets. The range must be empty here; what an earlier
    /// owner left (tombstones) must have been discarded. After a restart it has what this node had of the
    /// import, tombstones included, if it had answered anybody (M5, M6). If all had arrived before, it is
    /// finished at once.
    pub fn new(now: MonotonicUs, spec: MigrationSpec, writer: ImportWriter, head: LogHead) -> Importer {
        assert_eq!(writer.view().id(), spec.id, "M9: the view belongs to another migration");
        let mut importer = Importer::begun(now, spec, writer, head);
        if importer.parts.phase() == ImportPhase::Complete {
            importer.parts.events.clear();
            importer.end_work();
        }
        importer
    }

    fn begun(now: MonotonicUs, spec: MigrationSpec, writer: ImportWriter, head: LogHead) -> Importer {
        Importer {
            owes_activated: false,
            pulls: Pulls::new(&spec),
            changes: match spec.protocol.copies {
                Copies::AfterFreeze | Copies::BeforeCuts(_) => None,
                Copies::BeforeFreeze(rounds) => Some(Changes::new(rounds)),
            },
            cuts: spec.cuts().map(|cuts| Cuts::new(cuts, &spec)),
            ahead: Ahead::new(now, &spec),
            samples: Samples::new(&spec.protocol),
            probes: Probes::default(),
            priority: PriorityQueue::new(spec.protocol.priority),
            flushes: Vec::new(),
            sweep: Sweep::NotYet,
            cleared: Cleared::outdated(now, writer.view()),
            is_settled: false,
            source_is_dead: false,
            failed: false,
            parts: TargetParts::new(now, spec, writer, head),
        }
    }

    /// The workers' view of the migration.
    pub fn view(&self) -> &Arc<ImportView> {
        self.parts.writer.view()
    }

    /// The migration.
    pub fn spec(&self) -> &MigrationSpec {
        &self.parts.spec
    }

    /// What was done so far.
    pub fn counters(&self) -> ImporterCounters {
        self.parts.counters
    }

    /// Whether pulls pause due to lack of memory.
    pub fn is_stalled(&self) -> bool {
        self.parts.stall.is_some()
    }

    /// Whether both connections are open and greeted: the migration may be committed.
    pub fn is_connected(&self) -> bool {
        self.parts.greetings.iter().all(Greeting::is_up)
    }

    /// How full its queues are.
    pub fn queues(&self) -> impl Iterator<Item = Fill> {
        let queues = self.samples.queues().into_iter().chain(self.probes.queues());
        let queues = queues.chain(self.priority.queues()).chain([self.pulls.queue()]);
        let queues = queues.chain(self.changes.as_ref().map(Changes::queue));
        let queues = queues.chain(self.cuts.as_ref().and_then(Cuts::queue));
        queues.chain([self.parts.copies.queue()]).chain(self.parts.outbox.queues())
    }

    /// Handles an input. Pass a returned [`Replay`] to [`Importer::replay`] before the next input, after
    /// taking the machine's output.
    pub fn handle<'b>(
        &mut self,
        now: MonotonicUs,
        store: &Store,
        input: TargetInput<'b>,
    ) -> Option<Replay<'b>> {
        match input {
            TargetInput::Connected(lane) => self.parts.greetings[lane.index()].connected(),
            TargetInput::Disconnected(lane) => {
                self.parts.outbox.clear(lane);
                self.parts.greetings[lane.index()].disconnected(now);
            }
            // M35: it may live after all.
            TargetInput::Message(..) if self.source_is_dead => {}
            TargetInput::Message(lane, message) => match self.message(now, store, lane, message) {
                Ok(replay) => return replay,
                Err(why) => self.untaken(now, store, lane, why),
            },
            TargetInput::Timeout => {
                self.timeout(now, store);
                self.meet_copies(store);
            }
            TargetInput::SampledMiss(position) => self.samples.offer(position, self.parts.writer.view()),
            TargetInput::WrittenUnseen(position) => self.probes.offer(position, self.parts.writer.view()),
            TargetInput::PriorityPull(key, waiter) => {
                self.priority.pull_at_once(&mut self.parts, store, key, waiter);
            }
            TargetInput::Wanted(key) => self.priority.pull_soon(&self.parts, store, key),
            TargetInput::Flush(waiter) => self.flush(store, waiter),
            TargetInput::Load(load) => self.parts.governor.measured(now, load),
            TargetInput::Policy(policy) => self.parts.governor.follow(now, policy),
            TargetInput::Over(passed) => self.sweep.begin(&self.parts, now, passed),
            TargetInput::TurnsBack => self.turn_back(now),
            TargetInput::Turned => self.turned(),
            TargetInput::GivenUp => self.give_up(now),
            TargetInput::SourceRestarted => self.source_restarted(now, store),
            TargetInput::SourceDied => self.source_died(now, store),
            TargetInput::CopyIsHere => self.copy_is_here(store),
        }
        None
    }

    fn message<'b>(
        &mut self,
        now: MonotonicUs,
        store: &Store,
        lane: Lane,
        message: Message<'b>,
    ) -> Result<Option<Replay<'b>>, Untaken> {
        if message.scope().is_some_and(|scope| scope != self.parts.scope) {
            self.stale(lane, &message);
            return Ok(None);
        }
        let parts = &mut self.parts;
        match message {
            Message::HelloAck(_) => self.greeted(lane),
            Message::Refuse(refusal) => self.refused(now, lane, refusal),
            Message::Activate(activate) => self.activate(store, &activate)?,
            Message::PullReply(reply) => return self.pulls.pulled(parts, now, store, lane, &reply),
            Message::ChangedPullReply(reply) => {
                if let Some(ahead) = &mut self.ahead {
                    ahead.pulled(parts, now, store, lane, &reply)?;
                    ahead.look(parts, &self.samples);
                }
                if let Some(changes) = &mut self.changes {
                    changes.changed(parts, now, store, lane, &reply)?;
                    self.finish_if_all_here(store);
                }
            }
            Message::CutReply(reply) => {
                self.cut_replied(now, store, lane, &reply)?;
            }
            Message::HotHints(hints) => {
                if let Some(cuts) = &mut self.cuts {
                    cuts.hinted(parts, &hints)?;
                    if hints.collections.iter().next().is_some() {
                        // Those that can go there do, and the others ask again.
                        let view = parts.writer.view();
                        let left = self.priority.take_at(|position| view.is_left_to_source(position));
                        parts.events.extend(left.into_iter().map(TargetEvent::AskAgain));
                    }
                }
                if let Some(ahead) = &mut self.ahead {
                    ahead.named(parts, &mut self.samples, &hints)?;
                }
            }
            Message::SampPullReply(reply) => {
                self.samples.samp_pulled(parts, store, lane, &reply)?;
                if let Some(ahead) = &mut self.ahead {
                    ahead.look(parts, &self.samples);
                }
            }
            Message::ProbeReply(reply) => self.probes.probed(parts, lane, reply)?,
            Message::PriorityPullReply(reply) => self.priority.priority_pulled(parts, store, lane, &reply)?,
            Message::Ping(nonce) => parts.outbox.pong(lane, nonce),
            Message::Pong(_) => {}
            Message::Hello(_) => parts.breach(lane, Breach::WrongDirection("Hello")),
            Message::Activated(_) => parts.breach(lane, Breach::WrongDirection("Activated")),
            Message::Pull(_) => parts.breach(lane, Breach::WrongDirection("Pull")),
            Message::SampPull(_) => parts.breach(lane, Breach::WrongDirection("SampPull")),
            Message::PriorityPull(_) => parts.breach(lane, Breach::WrongDirection("PriorityPull")),
            Message::ChangedPull(_) => parts.breach(lane, Breach::WrongDirection("ChangedPull")),
            Message::CutPull(_) => parts.breach(lane, Breach::WrongDirection("CutPull")),
            Message::Probe(_) => parts.breach(lane, Breach::WrongDirection("Probe")),
            Message::Forward(_) => parts.breach(lane, Breach::WrongDirection("Forward")),
            Message::CopyHello(_) | Message::ToBackup(_) | Message::ToWriter(_) => {
                parts.breach(lane, Breach::WrongDirection("a log's copy"));
            }
            Message::Control(_) => parts.breach(lane, Breach::WrongDirection("Control")),
        }
        Ok(None)
    }

    fn cut_replied(
        &mut self,
        now: MonotonicUs,
        store: &Store,
        lane: Lane,
        reply: &CutReply<'_>,
    ) -> Result<(), Untaken> {
        let (Some(cuts), parts) = (&mut self.cuts, &mut self.parts) else { return Ok(()) };
        let given = cuts.replied(parts, now, store, lane, reply);
        if let Err(Untaken::OutOfMemory) = given {
            // Nothing more is taken before this fits.
            self.priority.refuse_waiting(parts);
            cuts.make_room(parts, store, &mut self.pulls);
        }
        if let Some(given) = given? {
            self.given(store, &given);
            self.settle_if_still(now);
        }
        Ok(())
    }

    /// M9: a message of another migration, or of this one under another epoch, is refused and not applied.
    fn stale(&mut self, lane: Lane, message: &Message<'_>) {
        // A refusal is never refused: two nodes would continue for ever.
        if let (Some(scope), false) = (message.scope(), matches!(message, Message::Refuse(_))) {
            let text = self.parts.scope.to_string();
            self.parts.outbox.refuse(lane, scope, RefusalCode::StaleScope, text);
        }
    }

    /// The source answered `Hello`.
    fn greeted(&mut self, lane: Lane) {
        if !self.parts.greetings[lane.index()].greeted() {
            return;
        }
        match lane {
            Lane::Bulk => {
                self.pulls.reconnected();
                self.ahead.iter_mut().for_each(Ahead::reconnected);
                if let Some(changes) = &mut self.changes {
                    changes.reconnected();
                }
            }
            Lane::Priority => {
                if let Some(cuts) = &mut self.cuts {
                    cuts.reconnected();
                }
                self.samples.reconnected();
                self.probes.reconnected();
                self.priority.reconnected();
            }
        }
    }

    fn refused(&mut self, now: MonotonicUs, lane: Lane, refusal: Refusal<'_>) {
        match refusal.code {
            // The source may learn of the migration a moment later than this node, and of the freeze later
            // still.
            RefusalCode::UnknownMigration | RefusalCode::NotFrozen => {
                self.parts.greetings[lane.index()].postponed(now);
            }
            // The coordinator committed the end, so this node reported it: a request crossed it in transit.
            RefusalCode::Done if self.parts.phase() == ImportPhase::Complete => {}
            RefusalCode::Done
            | RefusalCode::StaleScope
            | RefusalCode::WrongNode
            | RefusalCode::OutOfRange
            | RefusalCode::TooLarge => self.fail(Failure::RefusedBySource(refusal.text.to_owned())),
        }
    }

    fn fail(&mut self, failure: Failure) {
        if !self.failed {
            self.failed = true;
            self.parts.events.push_back(TargetEvent::Failed(failure));
        }
    }

    /// Whether there is anything left to ask the source for.
    fn wants_connections(&self) -> bool {
        !self.failed && !self.is_still() && self.parts.phase() != ImportPhase::Complete
    }

    /// Whether it sends nothing, for now or for good.
    fn is_still(&self) -> bool {
        self.cleared.is_some() || self.is_settled || self.source_is_dead
    }

    fn timeout(&mut self, now: MonotonicUs, store: &Store) {
        for lane in Lane::ALL {
            if self.wants_connections() && self.parts.greetings[lane.index()].timeout(now) {
                self.parts.events.push_back(TargetEvent::Connect(lane));
            }
        }
        self.parts.paced_until = self.parts.paced_until.filter(|&until| until > now);
        self.pulls.timeout(now);
        if let Some(changes) = &mut self.changes {
            changes.timeout(now);
        }
        if let Some(cuts) = &mut self.cuts {
            cuts.timeout(&mut self.parts, now);
        }
        if let Some(ahead) = &mut self.ahead {
            ahead.timeout(&mut self.parts, now);
        }
        self.samples.timeout(now);
        self.probes.timeout(now);
        self.priority.timeout(now);
        if let Some(stall) = &mut self.parts.stall {
            stall.timeout(now);
        }
        self.sweep.slice(&mut self.parts, now, store);
        self.clear_slice(now, store);
    }

    /// Appends one frame for this lane to `out`; returns whether there was one. Call it while the lane has
    /// little pending output.
    pub fn poll_transmit(&mut self, now: MonotonicUs, store: &Store, lane: Lane, out: &mut Vec<u8>) -> bool {
        if self.failed || self.is_still() {
            return false;
        }
        let greeting = &mut self.parts.greetings[lane.index()];
        if !greeting.is_up() {
            let hello = Hello { scope: self.parts.scope, node: self.parts.spec.target, lane };
            return greeting.transmit(now, hello, out);
        }
        if self.parts.outbox.transmit(lane, out) {
            return true;
        }
        if lane == Lane::Priority && self.transmit_activated(out) {
            return true;
        }
        let Importer { parts, pulls, changes, ahead, cuts, samples, probes, priority, .. } = self;
        match lane {
            Lane::Bulk => {
                // Nobody serves what is in transit: while memory is short, it is for that.
                let waits = parts.stall.is_some() && cuts.as_ref().is_some_and(Cuts::is_in_transit);
                !waits && pulls.transmit(parts, now, out)
                    || changes.as_mut().is_some_and(|changes| changes.transmit(parts, now, out))
                    || ahead.as_mut().is_some_and(|ahead| ahead.transmit(parts, now, out))
            }
            Lane::Priority => {
                cuts.as_mut().is_some_and(|cuts| cuts.transmit(parts, now, store, priority, out))
                    || priority.transmit(parts, now, store, out)
                    || samples.transmit(parts, now, out)
                    || probes.transmit(parts, now, out)
            }
        }
    }

    /// When [`TargetInput::Timeout`] is due, if ever.
    pub fn poll_timeout(&self) -> Option<MonotonicUs> {
        let greetings = self.parts.greetings.iter().filter_map(Greeting::deadline);
        let greetings = greetings.filter(|_| self.wants_connections()).min();
        let stall = self.parts.stall.as_ref().and_then(Stall::deadline);
        [
            greetings,
            self.parts.paced_until,
            self.pulls.deadline(),
            self.changes.as_ref().and_then(Changes::deadline),
            self.cuts.as_ref().and_then(Cuts::deadline),
            self.ahead.as_ref().and_then(Ahead::deadline),
            self.cleared.as_ref().map(Cleared::deadline),
            self.samples.deadline(),
            self.probes.deadline(),
            self.priority.deadline(),
            stall,
            self.sweep.deadline(),
        ]
        .into_iter()
        .flatten()
        .min()
    }

    /// The next event for the driver.
    pub fn poll_event(&mut self) -> Option<TargetEvent> {
        self.parts.events.pop_front()
    }
}
