//! The pair: two stores, two machines, two lanes, workers at both ends, on virtual time.
//!
//! Workers follow the node's rules: the range table defines a range's role, progress before the store,
//! tombstones while importing, one command wholly under one table (`workers`).

use crate::model::{Answer, Bytes, Model, Op};
use crate::net::{Arrival, End, Faults, Net};
use crate::protocols::{by_cuts, copies_ahead};
use sidle_migration::{
    BarrierTicket, ExportPhase, ExportView, ExportWriter, Exporter, ImportView, Importer, MigrationSpec,
    ProtocolChoices, RangeBarrier, SourceEvent, SourceInput, TargetEvent, TargetInput, Tuning, Waiter,
};
use sidle_store::{Leave, LogHead, Store, StoreConfig};
use sidle_testbed::fixtures::node_id;
use sidle_testbed::{Random, Side};
use sidle_types::{
    Fill, ImportId, MigrationId, MigrationPolicy, MonotonicUs, Position, PositionRange, ProtocolVersion,
    TabletEpoch, WallMs,
};
use sidle_wire::{Frame, FrameReader, Lane, Message, Refusal, RefusalCode};
use std::collections::BTreeMap;
use std::sync::Arc;

/// Workers at each end.
pub(crate) const WORKERS: usize = 2;
/// A worker reaches a loop boundary within this time after it is notified.
const TURN_US: u64 = 100;

/// A range's role in a worker's range table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Role {
    Owned,
    /// Owned, and changes are marked.
    Tracked,
    Elsewhere,
    Importing,
    Exporting,
}

pub(crate) struct Node {
    pub(crate) store: Store,
    pub(crate) head: LogHead,
    barrier: RangeBarrier,
    published: Role,
    /// By worker: the table it uses, and when it reaches its next boundary.
    pub(crate) roles: [Role; WORKERS],
    turns: [Option<u64>; WORKERS],
    ticket: Option<BarrierTicket>,
    /// Of what is given bit by bit: the barrier, the step of each worker, and the one that is awaited.
    steps: RangeBarrier,
    pub(crate) step: [u64; WORKERS],
    step_ticket: Option<BarrierTicket>,
}

impl Node {
    pub(crate) fn new(memory_bytes: u64, role: Role) -> Node {
        Node::of(StoreConfig { memory_bytes, ..StoreConfig::default() }, role)
    }

    /// The same with a durable log.
    pub(crate) fn durable(memory_bytes: u64, role: Role) -> Node {
        Node::of(StoreConfig { memory_bytes, is_durable: true, ..StoreConfig::default() }, role)
    }

    fn of(config: StoreConfig, role: Role) -> Node {
        let config = StoreConfig { segment_bytes: 64 << 10, huge_pages: false, ..config };
        let store = Store::new(config).unwrap();
        Node {
            head: store.log_head(),
            store,
            barrier: RangeBarrier::new(WORKERS),
            published: role,
            roles: [role; WORKERS],
            turns: [None; WORKERS],
            ticket: None,
            steps: RangeBarrier::new(WORKERS),
            step: [0; WORKERS],
            step_ticket: None,
        }
    }

    fn publish(&mut self, now: u64, role: Role, rng: &mut Random) {
        self.published = role;
        self.ticket = Some(self.barrier.publish());
        self.turns = std::array::from_fn(|_| Some(now + rng.between(1, TURN_US)));
    }

    fn turn(&mut self, worker: usize) {
        let epoch = self.barrier.published();
        self.roles[worker] = self.published;
        self.barrier.pass(worker, epoch);
        self.step[worker] = self.steps.published();
        self.steps.pass(worker, self.step[worker]);
        self.turns[worker] = None;
    }
}

/// The outcome of a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
    Answered(Answer),
    Parked,
    OutOfMemory,
    /// Neither end knows yet that it owns the range: the client retries.
    Redirected,
}

#[derive(Clone, Debug)]
pub(crate) enum Awaits {
    Activation,
    Wake,
}

pub(crate) struct Pair {
    pub(crate) now: MonotonicUs,
    pub(crate) wall: WallMs,
    pub(crate) rng: Random,
    pub(crate) spec: MigrationSpec,
    pub(crate) source: Node,
    pub(crate) target: Node,
    pub(crate) source_machine: Option<Exporter>,
    pub(crate) target_machine: Option<Importer>,
    pub(crate) export: Option<Arc<ExportView>>,
    pub(crate) import: Option<Arc<ImportView>>,
    pub(crate) net: Net,
    pub(crate) model: Model,
    /// Waiting commands: their workers, and what they wait for.
    pub(crate) parked: BTreeMap<u64, (usize, Op, Awaits)>,
    /// Flushes that run again once all else has happened that was to.
    flushes_again: Vec<u64>,
    pub(crate) next_ticket: u64,
    /// Every event of the target except wakes, and every event of the source.
    pub(crate) target_events: Vec<TargetEvent>,
    pub(crate) source_events: Vec<SourceEvent>,
    /// The outcomes of commands that had been parked.
    pub(crate) woken: Vec<(Op, Outcome)>,
    /// Whether the coordinator commits `Done` as soon as the target reports that it is finished.
    pub(crate) commits_done: bool,
    /// Whether it commits `Running` as soon as the target reports that the range may be frozen.
    commits_when_caught_up: bool,
    /// How many of a hundred misses of opted-in clients are drawn.
    pub(crate) sampled_percent: u64,
    /// Whether the cleaners run, a little at every step.
    pub(crate) cleans: bool,
    /// Commands that run between the arrival of a pulled batch and its replay.
    pub(crate) before_replay: Vec<Op>,
    /// What is hot at the source when the migration begins.
    pub(crate) hot: Vec<Position>,
    /// How many pulls the target had sent before its first replay.
    pub(crate) pulls_before_replay: Option<u64>,
}

pub(crate) struct Setup {
    pub(crate) seed: u64,
    pub(crate) range: PositionRange,
    pub(crate) faults: Faults,
    pub(crate) source_bytes: u64,
    pub(crate) target_bytes: u64,
    pub(crate) tuning: Tuning,
    pub(crate) protocol: ProtocolChoices,
    /// The version of both ends.
    pub(crate) version: ProtocolVersion,
}

impl Setup {
    pub(crate) fn of(protocol: ProtocolChoices) -> Setup {
        Setup {
            seed: 1,
            range: PositionRange::ALL,
            faults: Faults::NONE,
            source_bytes: 16 << 20,
            target_bytes: 16 << 20,
            tuning: Tuning::default(),
            protocol,
            version: ProtocolVersion::CURRENT,
        }
    }

    /// Bulk pulls are slow, so that a test acts before most records arrive.
    pub(crate) fn slow(protocol: ProtocolChoices) -> Setup {
        let mut setup = Setup::of(protocol);
        setup.tuning.max_bytes_per_s = Some(300_000);
        setup
    }
}

pub(crate) fn key(n: u64) -> Bytes {
    format!("key:{n}").into_bytes()
}

impl Pair {
    /// The source owns the range, and nothing moves.
    pub(crate) fn new(setup: Setup) -> Pair {
        let source = Node::new(setup.source_bytes, Role::Owned);
        let target = Node::new(setup.target_bytes, Role::Elsewhere);
        Pair::of_nodes(setup, source, target, Model::default(), 1)
    }

    /// As [`Pair::new`], with nodes that have been part of a migration before.
    pub(crate) fn of_nodes(setup: Setup, source: Node, target: Node, model: Model, id: u64) -> Pair {
        let spec = MigrationSpec {
            id: MigrationId(id),
            import: ImportId::of(MigrationId(id), 0),
            epoch: TabletEpoch(id + 1),
            range: setup.range,
            version: setup.version,
            source: node_id(1),
            source_life: 1,
            target: node_id(2),
            partitions: vec![setup.range],
            protocol: setup.protocol.in_version(setup.version),
            bytes: 0,
            policy: MigrationPolicy::default(),
            tuning: setup.tuning,
        };
        Pair {
            now: MonotonicUs(1_000),
            wall: WallMs(1_000_000),
            rng: Random::new(setup.seed),
            spec,
            source,
            target,
            source_machine: None,
            target_machine: None,
            export: None,
            import: None,
            net: Net::new(setup.faults),
            model,
            parked: BTreeMap::new(),
            flushes_again: Vec::new(),
            next_ticket: 0,
            target_events: Vec::new(),
            source_events: Vec::new(),
            woken: Vec::new(),
            commits_done: true,
            commits_when_caught_up: false,
            sampled_percent: 100,
            cleans: true,
            before_replay: Vec::new(),
            hot: Vec::new(),
            pulls_before_replay: None,
        }
    }

    /// A pair with `records` records of `value_bytes` each.
    pub(crate) fn with_records(setup: Setup, records: u64, value_bytes: usize) -> Pair {
        let mut pair = Pair::new(setup);
        for n in 0..records {
            let value = format!("{n:>value_bytes$}").into_bytes();
            pair.expect_ok(Op::Set(key(n), value, None));
        }
        pair
    }

    // ---- the coordinator

    /// The target allocates import state and connects.
    pub(crate) fn prepare(&mut self) {
        self.spec.partitions = self.source.store.partition(self.spec.range, self.spec.protocol.partitions);
        self.spec.bytes = self.source.store.bytes_in(self.spec.range);
        self.prepare_with_given_partitions();
    }

    pub(crate) fn prepare_with_given_partitions(&mut self) {
        let (view, writer) = ImportView::new(&self.spec);
        self.import = Some(view);
        let machine = Importer::new(self.now, self.spec.clone(), writer, self.target.store.log_head());
        self.target_machine = Some(machine);
        if self.spec.protocol.copies_in_preparation() {
            self.begin_export(Role::Tracked);
        }
        self.pump();
    }

    /// `Running` is committed: the target owns the range, the source freezes it.
    pub(crate) fn commit(&mut self) {
        let now = self.now.0;
        self.target.publish(now, Role::Importing, &mut self.rng);
        if self.spec.protocol.copies_in_preparation() {
            self.source.publish(now, Role::Exporting, &mut self.rng);
        } else {
            self.begin_export(Role::Exporting);
        }
    }

    pub(crate) fn copies_ahead(&self) -> bool {
        copies_ahead(&self.spec.protocol)
    }

    fn begin_export(&mut self, role: Role) {
        let hot = self.hot.clone();
        self.begin_export_by(role, |spec| ExportView::new(spec, &hot));
    }

    fn begin_export_by(
        &mut self,
        role: Role,
        view: impl FnOnce(&MigrationSpec) -> (Arc<ExportView>, ExportWriter),
    ) {
        let (view, writer) = view(&self.spec);
        self.export = Some(view);
        self.source_machine = Some(Exporter::new(self.now, self.spec.clone(), writer));
        self.source.publish(self.now.0, role, &mut self.rng);
        // Closes connections that the source's driver accepted before it had a machine.
        for lane in self.net.open_lanes() {
            let machine = self.source_machine.as_mut().unwrap();
            machine.handle(self.now, &self.source.store, SourceInput::Connected(lane));
        }
    }

    /// The source's workers reach no loop boundary before this much time.
    pub(crate) fn hold_up_the_source(&mut self, us: u64) {
        self.source.turns = [Some(self.now.0 + us); WORKERS];
    }

    /// Whether the source's workers are yet to take a step.
    pub(crate) fn awaits_step(&self) -> bool {
        self.source.step_ticket.is_some()
    }

    /// The coordinator turns it back: runs until nothing is in transit, then returns the way back, which has
    /// begun from there. Commands that wait are forgotten, as if their clients had gone. An error if the cut
    /// in transit was the last: then it goes on to its end.
    pub(crate) fn turned_back(mut self, setup: Setup) -> Result<Pair, Box<Pair>> {
        self.target_input(TargetInput::TurnsBack);
        self.run_until("settled", |pair| {
            pair.pump();
            let is_last =
                |event: &TargetEvent| matches!(event, TargetEvent::Settled { .. } | TargetEvent::Finished);
            pair.target_events.iter().any(is_last)
        });
        if self.target_events.contains(&TargetEvent::Finished) {
            return Err(Box::new(self));
        }
        let (export, import) = (self.export.take().unwrap(), self.import.take().unwrap());
        let [kept, owned] = [export.kept(), import.owned()];
        assert_eq!(owned.rest_of(self.spec.range), kept, "M20: each position has one owner over the turn");
        let id = self.spec.id.0 + 1;
        let Pair { now, wall, spec, mut source, mut target, model, .. } = self;
        (source.roles, target.roles) = ([Role::Importing; WORKERS], [Role::Exporting; WORKERS]);
        (source.ticket, source.step_ticket, target.ticket) = (None, None, None);
        let mut back = Pair::of_nodes(setup, target, source, model, id);
        (back.now, back.wall, back.spec.partitions, back.spec.bytes) =
            (now, wall, spec.partitions, spec.bytes);
        let (view, writer) = ImportView::of_way_back(&back.spec, kept, export.given_records());
        let head = back.target.store.log_head();
        back.target_machine = Some(Importer::new(now, back.spec.clone(), writer, head));
        back.import = Some(view);
        back.target.publish(now.0, Role::Importing, &mut back.rng);
        back.begin_export_by(Role::Exporting, |spec| ExportView::of_way_back(spec, &[], owned));
        back.pump();
        Ok(back)
    }

    pub(crate) fn is_caught_up(&self) -> bool {
        self.target_events.contains(&TargetEvent::CaughtUp)
    }

    /// Runs until the coordinator commits, and commits: the source may still serve commands that its workers
    /// have in hand.
    pub(crate) fn start(&mut self) {
        self.prepare();
        self.run_until_it_may_be_committed();
        self.commit();
    }

    pub(crate) fn run_until_it_may_be_committed(&mut self) {
        if self.spec.protocol.copies_in_preparation() {
            self.run_until("caught up", |pair| pair.is_caught_up());
        }
    }

    /// Starts, and runs until the source is frozen.
    pub(crate) fn start_and_freeze(&mut self) {
        self.start();
        self.run_until("frozen", |pair| pair.export.as_ref().unwrap().phase() == ExportPhase::Frozen);
    }

    /// Begins, and lets the coordinator commit when it may.
    pub(crate) fn begin(&mut self) {
        self.prepare();
        self.commit_in_time();
    }

    pub(crate) fn commit_in_time(&mut self) {
        match self.spec.protocol.copies_in_preparation() {
            true => self.commits_when_caught_up = true,
            false => self.commit(),
        }
    }

    /// Begins, and runs until records arrive: the end that serves meanwhile under this protocol does, and
    /// most records are still to arrive.
    pub(crate) fn begin_to_the_middle(&mut self) {
        self.begin();
        match self.copies_ahead() {
            true => self.run_until("some of it is copied", |pair| !pair.target.store.is_empty()),
            false if by_cuts(&self.spec.protocol) => {
                self.run_until("some of it is copied", |pair| !pair.target.store.is_empty());
            }
            false => self.run_until("frozen", |pair| pair.import.as_ref().unwrap().source_is_frozen()),
        }
    }

    /// In the middle of a migration of this many records.
    pub(crate) fn in_the_middle(setup: Setup, records: u64, value_bytes: usize) -> Pair {
        let mut pair = Pair::with_records(setup, records, value_bytes);
        pair.begin_to_the_middle();
        pair
    }

    /// Runs to the very end, and checks it.
    pub(crate) fn ends_well(&mut self) {
        self.run_to_end();
        self.check_end();
    }

    /// Cancels it before the commit; each end has forgotten it.
    pub(crate) fn cancel(&mut self) {
        (self.target_machine, self.import, self.source_machine, self.export) = (None, None, None, None);
        (self.source.ticket, self.source.step_ticket, self.source.turns) = (None, None, [None; WORKERS]);
        self.source.roles = [Role::Owned; WORKERS];
        let rest = self.target.store.discard(self.spec.range.first(), self.spec.range.last(), usize::MAX);
        assert_eq!(rest, None);
    }

    /// `Done` is committed.
    pub(crate) fn commit_done(&mut self) {
        let now = self.now;
        self.source_machine.as_mut().unwrap().handle(now, &self.source.store, SourceInput::DoneCommitted);
        self.source.publish(now.0, Role::Elsewhere, &mut self.rng);
        self.target.publish(now.0, Role::Owned, &mut self.rng);
    }

    fn tickets(&mut self) {
        let now = self.now;
        if let Some(proof) = self.source.ticket.as_ref().and_then(BarrierTicket::passed) {
            self.source.ticket = None;
            let machine = self.source_machine.as_mut().unwrap();
            let input = match self.source.published {
                Role::Tracked => SourceInput::Tracked(proof),
                Role::Exporting => SourceInput::Frozen(proof),
                _ => SourceInput::Over(proof),
            };
            machine.handle(now, &self.source.store, input);
        }
        if let Some(proof) = self.source.step_ticket.as_ref().and_then(BarrierTicket::passed) {
            self.source.step_ticket = None;
            self.source_input(SourceInput::Stepped(proof));
        }
        if let Some(proof) = self.target.ticket.as_ref().and_then(BarrierTicket::passed) {
            self.target.ticket = None;
            if self.target.published == Role::Owned {
                self.target_input(TargetInput::Over(proof));
            }
        }
    }

    // ---- time

    fn next_at(&self) -> Option<u64> {
        let source = self.source_machine.as_ref().and_then(Exporter::poll_timeout);
        let target = self.target_machine.as_ref().and_then(Importer::poll_timeout);
        let turns = self.source.turns.iter().chain(&self.target.turns).flatten().copied();
        let timers = [source, target].into_iter().flatten().map(|at| at.0);
        turns.chain(timers).chain(self.net.next_at()).min()
    }

    /// Runs to the next event; returns whether there was one.
    pub(crate) fn step(&mut self) -> bool {
        let Some(at) = self.next_at() else { return false };
        self.now = MonotonicUs(self.now.0.max(at));
        let now = self.now;
        for node in [&mut self.source, &mut self.target] {
            for worker in 0..WORKERS {
                if node.turns[worker].is_some_and(|at| at <= now.0) {
                    node.turn(worker);
                }
            }
        }
        self.tickets();
        if let Some(machine) = &mut self.source_machine
            && machine.poll_timeout().is_some_and(|at| at <= now)
        {
            machine.handle(now, &self.source.store, SourceInput::Timeout);
        }
        if self.target_machine.as_ref().is_some_and(|m| m.poll_timeout().is_some_and(|at| at <= now)) {
            self.target_input(TargetInput::Timeout);
        }
        if self.cleans {
            self.source.store.cleaner().step(16 << 10);
            self.target.store.cleaner().step(16 << 10);
        }
        while let Some(arrival) = self.net.pop(now.0) {
            self.arrive(arrival);
        }
        self.pump();
        true
    }

    pub(crate) fn run_until(&mut self, what: &str, mut is_reached: impl FnMut(&mut Pair) -> bool) {
        for _ in 0..2_000_000 {
            if is_reached(self) {
                return;
            }
            assert!(self.step(), "nothing happens any more, and never: {what}");
        }
        panic!("never: {what}; the target's events: {:?}", self.target_events);
    }

    pub(crate) fn run_us(&mut self, us: u64) {
        let end = self.now.0 + us;
        while self.next_at().is_some_and(|at| at <= end) {
            self.step();
        }
        self.now = MonotonicUs(end);
    }

    /// Runs to the very end: memory freed, tombstones swept.
    pub(crate) fn run_to_end(&mut self) {
        self.run_until("the end", |pair| {
            pair.source_events.contains(&SourceEvent::Ended)
                && pair.target_events.contains(&TargetEvent::Ended)
        });
    }

    /// Whether a record has arrived in pieces, and not all of it.
    pub(crate) fn has_pieces(&self) -> bool {
        let is_in_hand = |fill: Fill| fill.what.contains("piece") && fill.count > 0;
        self.target_machine.as_ref().is_some_and(|machine| machine.queues().any(is_in_hand))
    }

    pub(crate) fn run_until_serving(&mut self) {
        self.run_until("serving", |pair| pair.import.as_ref().unwrap().activated());
    }

    // ---- frames and events

    pub(crate) fn arrive(&mut self, arrival: Arrival) {
        let now = self.now;
        match arrival {
            Arrival::Refused(lane) => panic!("the source accepts {lane:?}"),
            Arrival::Opened(lane) => {
                if let Some(machine) = &mut self.source_machine {
                    machine.handle(now, &self.source.store, SourceInput::Connected(lane));
                }
                self.target_input(TargetInput::Connected(lane));
            }
            Arrival::Closed(lane, _) => {
                if let Some(machine) = &mut self.source_machine {
                    machine.handle(now, &self.source.store, SourceInput::Disconnected(lane));
                }
                self.target_input(TargetInput::Disconnected(lane));
            }
            Arrival::Message(lane, Side::Acceptor, bytes) => {
                let mut reader = FrameReader::new();
                reader.push(&bytes);
                let message = reader.next_frame().unwrap().map(Frame::message).unwrap().unwrap();
                match &mut self.source_machine {
                    Some(machine) => {
                        machine.handle(now, &self.source.store, SourceInput::Message(lane, message));
                    }
                    None => self.refuse_unknown(lane, &message),
                }
            }
            Arrival::Message(lane, Side::Opener, bytes) => {
                let mut reader = FrameReader::new();
                reader.push(&bytes);
                let message = reader.next_frame().unwrap().map(Frame::message).unwrap().unwrap();
                let Some(mut machine) = self.target_machine.take() else { return };
                let replay = machine.handle(now, &self.target.store, TargetInput::Message(lane, message));
                self.target_machine = Some(machine);
                self.pump();
                if let Some(replay) = replay {
                    for op in std::mem::take(&mut self.before_replay) {
                        self.ask(op);
                    }
                    let machine = self.target_machine.as_mut().unwrap();
                    self.pulls_before_replay.get_or_insert(machine.counters().pulls);
                    machine.replay(now, &self.target.store, replay);
                    self.pump();
                }
            }
        }
        self.pump();
    }

    /// The answer of a source's driver without a machine for the migration.
    fn refuse_unknown(&mut self, lane: Lane, message: &Message<'_>) {
        let Message::Hello(hello) = message else { return };
        let mut out = Vec::new();
        Refusal::write(hello.scope, RefusalCode::UnknownMigration, "not heard of", &mut out);
        self.net.send(self.now.0, End::Target, lane, out, &mut self.rng);
    }

    pub(crate) fn source_input(&mut self, input: SourceInput<'_>) {
        if let Some(machine) = &mut self.source_machine {
            machine.handle(self.now, &self.source.store, input);
        }
    }

    pub(crate) fn target_input(&mut self, input: TargetInput<'_>) {
        if let Some(machine) = &mut self.target_machine {
            let replay = machine.handle(self.now, &self.target.store, input);
            assert!(replay.is_none(), "only messages bring records");
        }
    }

    /// Takes all output and all events.
    pub(crate) fn pump(&mut self) {
        loop {
            let mut is_quiet = true;
            for lane in Lane::ALL {
                let mut out = Vec::new();
                if let Some(machine) = &mut self.source_machine
                    && machine.poll_transmit(self.now, &self.source.store, lane, &mut out)
                {
                    is_quiet = false;
                    self.net.send(self.now.0, End::Target, lane, out, &mut self.rng);
                }
                let mut out = Vec::new();
                if let Some(machine) = &mut self.target_machine
                    && machine.poll_transmit(self.now, &self.target.store, lane, &mut out)
                {
                    is_quiet = false;
                    self.net.send(self.now.0, End::Source, lane, out, &mut self.rng);
                }
            }
            while let Some(event) = self.source_machine.as_mut().and_then(Exporter::poll_event) {
                is_quiet = false;
                match event {
                    SourceEvent::Close(lane, _) => self.net.cut(self.now.0, lane, &mut self.rng),
                    SourceEvent::Step => {
                        self.publish_step();
                        continue;
                    }
                    _ => {}
                }
                self.source_events.push(event);
            }
            while let Some(event) = self.target_machine.as_mut().and_then(Importer::poll_event) {
                is_quiet = false;
                self.target_event(event);
            }
            for ticket in std::mem::take(&mut self.flushes_again) {
                is_quiet = false;
                self.run_again(ticket);
            }
            if is_quiet {
                return;
            }
        }
    }

    fn publish_step(&mut self) {
        let (now, machine) = (self.now.0, self.source_machine.as_mut().expect("it gives bit by bit"));
        let ticket = self.source.steps.publish_with(|number| machine.publish_step(number));
        self.source.step_ticket = Some(ticket);
        for turn in &mut self.source.turns {
            let due = now + self.rng.between(1, TURN_US);
            *turn = Some(turn.map_or(due, |turn| turn.min(due)));
        }
    }

    fn target_event(&mut self, event: TargetEvent) {
        match &event {
            TargetEvent::Connect(lane) => self.net.open(self.now.0, *lane),
            TargetEvent::Close(lane, _) => self.net.cut(self.now.0, *lane, &mut self.rng),
            TargetEvent::Wake(waiter) | TargetEvent::AskAgain(waiter) => {
                let (_, op, _) = self.parked.get(&waiter.ticket).expect("a command is woken once");
                if *op == Op::Flush {
                    // Others may have been woken before it.
                    return self.flushes_again.push(waiter.ticket);
                }
                return self.run_again(waiter.ticket);
            }
            TargetEvent::Flushed(waiter) => return self.flushed(*waiter),
            TargetEvent::Refuse(waiter, _) => {
                let (_, op, _) = self.parked.remove(&waiter.ticket).expect("answered once");
                return self.woken.push((op, Outcome::OutOfMemory));
            }
            TargetEvent::Activated => {
                let waiting: Vec<u64> = self
                    .parked
                    .iter()
                    .filter(|(_, (_, _, awaits))| matches!(awaits, Awaits::Activation))
                    .map(|(&ticket, _)| ticket)
                    .collect();
                self.target_events.push(event);
                return waiting.into_iter().for_each(|ticket| self.run_again(ticket));
            }
            TargetEvent::GaveAll(_) => {
                let waits = |op: &Op, awaits: &Awaits| *op != Op::Flush && matches!(awaits, Awaits::Wake);
                let waiting = self.parked.iter().filter(|(_, (_, op, awaits))| waits(op, awaits));
                let waiting: Vec<u64> = waiting.map(|(&ticket, _)| ticket).collect();
                self.target_events.push(event);
                return waiting.into_iter().for_each(|ticket| self.run_again(ticket));
            }
            TargetEvent::CaughtUp if self.commits_when_caught_up => {
                self.target_events.push(event);
                return self.commit();
            }
            TargetEvent::Finished if self.commits_done => {
                self.target_events.push(event);
                return self.commit_done();
            }
            _ => {}
        }
        self.target_events.push(event);
    }

    /// Nothing is replayed any more: the flush may now discard records.
    fn flushed(&mut self, waiter: Waiter) {
        let (_, op, _) = self.parked.remove(&waiter.ticket).expect("a command is woken once");
        let outcome = self.execute(End::Target, &op, Leave::Nothing);
        self.woken.push((op, outcome));
    }

    fn run_again(&mut self, ticket: u64) {
        let (worker, op, _) = self.parked.remove(&ticket).expect("parked");
        let outcome = self.at(End::Target, worker, op.clone());
        if outcome != Outcome::Parked {
            self.woken.push((op, outcome));
        }
    }

    pub(crate) fn parked(&self) -> usize {
        self.parked.len()
    }
}
