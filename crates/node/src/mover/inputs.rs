//! What comes into a mover: commands, worker messages, frames, the passing of time.

use super::arrivals::Arrival;
use super::links::Side;
use super::*;
use crate::parking::Ticket;
use crate::queue::{ToMover, ToWorker};
use sidle_migration::{Load, SourceInput, TargetInput, Waiter};
use sidle_wire::Message;

/// How often the control thread is told how much has arrived.
const TELL_INTERVAL_US: u64 = 50_000;

impl Mover {
    /// Takes in what the control thread says.
    ///
    /// # Panics
    /// If the migration belongs to another mover (V1).
    pub fn command(&mut self, now: MonotonicUs, command: MoverCommand) {
        let id = command.migration();
        assert_eq!(
            MoverIndex::of(id, self.movers),
            self.index,
            "V1: migration {id} belongs to another mover"
        );
        match command {
            MoverCommand::Expect(_, peer) => {
                let dials = self.expected.add(now, id, peer);
                self.events.extend(dials);
            }
            MoverCommand::StartImport(spec, writer) => {
                self.expected.remove(id);
                let machine = Importer::new(now, *spec, writer, self.store.log_head());
                let import = Import { machine, told: ImporterCounters::default(), told_at: now };
                assert!(self.imports.insert(id, import).is_none(), "import {id} is started twice");
                self.drain_target(now, id);
            }
            MoverCommand::StartExport(spec, writer) => {
                let machine = Exporter::new(now, *spec, writer);
                assert!(self.exports.insert(id, machine).is_none(), "export {id} is started twice");
                self.drain_source(now, id);
                self.hear_early_greetings(now, id);
            }
            MoverCommand::Policy(_, policy) => {
                self.target(now, id, TargetInput::Policy(policy));
                self.source(now, id, SourceInput::Policy(policy));
            }
            MoverCommand::Tracked(_, proof) => self.source(now, id, SourceInput::Tracked(proof)),
            MoverCommand::DropExport(_) => self.forget_export(id),
            MoverCommand::Frozen(_, proof) => self.source(now, id, SourceInput::Frozen(proof)),
            MoverCommand::ReleaseExport(_, proof) => {
                self.source(now, id, SourceInput::DoneCommitted);
                self.source(now, id, SourceInput::Done(proof));
            }
            MoverCommand::FinishImport(_, proof) => self.target(now, id, TargetInput::Done(proof)),
            MoverCommand::DropImport(_) => {
                self.forget_import(id);
                self.report(id, MoverReport::ImportDropped);
            }
        }
    }

    /// Takes in what workers say and what time brings.
    pub fn turn(&mut self, now: MonotonicUs) {
        self.wakes.flush_all();
        while let Some((worker, message)) = self.wakes.receive() {
            self.worker_message(now, worker, message);
        }
        let due = |timeout: Option<MonotonicUs>| timeout.is_some_and(|at| at <= now);
        let imports: Vec<MigrationId> =
            self.imports.iter().filter(|(_, i)| due(i.machine.poll_timeout())).map(|(&id, _)| id).collect();
        imports.into_iter().for_each(|id| self.target(now, id, TargetInput::Timeout));
        let exports: Vec<MigrationId> =
            self.exports.iter().filter(|(_, m)| due(m.poll_timeout())).map(|(&id, _)| id).collect();
        exports.into_iter().for_each(|id| self.source(now, id, SourceInput::Timeout));
        self.events.extend(self.expected.due(now));
        self.wake_arrivals(now);
        self.tell_progress(now);
    }

    /// What the node and its workers have to bear; bulk work slows down for it. To be called every few
    /// milliseconds, and between pieces of work.
    pub fn load(&mut self, now: MonotonicUs, load: Load) {
        for import in self.imports.values_mut() {
            let replay = import.machine.handle(now, &self.store, TargetInput::Load(load));
            assert!(replay.is_none(), "only messages bring records");
        }
        for machine in self.exports.values_mut() {
            machine.handle(now, &self.store, SourceInput::Load(load));
        }
    }

    fn worker_message(&mut self, now: MonotonicUs, worker: WorkerIndex, message: ToMover) {
        let waiter = |ticket: Ticket| Waiter { worker: worker.0, ticket: ticket.0 };
        match message {
            ToMover::Sampled { migration, position } => {
                self.target(now, migration, TargetInput::SampledMiss(position));
            }
            ToMover::Wanted { migration, key } => self.target(now, migration, TargetInput::Wanted(&key)),
            ToMover::WrittenUnseen { migration, position } => {
                self.target(now, migration, TargetInput::WrittenUnseen(position));
            }
            ToMover::Await { migration, range, patience_us, ticket } => {
                let until = now.plus_us(patience_us);
                if !self.arrivals.add(Arrival { migration, range, worker, ticket, until }) {
                    self.wakes.tell(worker, ToWorker::WaitedOut(ticket));
                }
            }
            ToMover::Pull { migration, key, ticket } => {
                if self.imports.contains_key(&migration) {
                    self.target(now, migration, TargetInput::PriorityPull(&key, waiter(ticket)));
                } else {
                    // V3: the import is over, or not begun here; whatever is true of the key, the worker will
                    // see it. This is no answer to its question.
                    self.wakes.tell(worker, ToWorker::WakeAll(migration));
                }
            }
            ToMover::Flush { migration, ticket } => match self.imports.get(&migration) {
                Some(import) => {
                    flush::remove_all(&self.store, &mut self.head, import.machine.spec().range);
                    self.target(now, migration, TargetInput::Flush(waiter(ticket)));
                }
                None => self.wakes.tell(worker, ToWorker::Wake { migration, ticket }),
            },
        }
    }

    /// The connection asked for by [`MoverEvent::Connect`] is open.
    pub fn connected(&mut self, now: MonotonicUs, migration: MigrationId, lane: Lane, link: Link) {
        let expected = self.expected.contains(migration);
        if !expected && !self.imports.contains_key(&migration) {
            self.close(link, "the migration is over");
            return;
        }
        let end = |lane| LinkEnd { migration, side: Side::Target, lane };
        self.bind(link, end(lane));
        let both_stand = Lane::ALL.into_iter().all(|lane| self.links.link(end(lane)).is_some());
        if both_stand && self.expected.connected(migration) {
            self.report(migration, MoverReport::Connected);
        }
        self.target(now, migration, TargetInput::Connected(lane));
    }

    /// The connection asked for by [`MoverEvent::Connect`] could not be opened.
    pub fn connect_failed(&mut self, now: MonotonicUs, migration: MigrationId, lane: Lane) {
        self.dial_failed(now, migration, lane);
        if self.imports.contains_key(&migration) {
            self.report(migration, MoverReport::Unreachable);
            self.target(now, migration, TargetInput::Disconnected(lane));
        }
    }

    /// A lane of a migration that may begin was refused or cut.
    fn dial_failed(&mut self, now: MonotonicUs, migration: MigrationId, lane: Lane) {
        if self.expected.failed(now, migration, lane) {
            self.report(migration, MoverReport::Unreachable);
        }
    }

    /// A link is closed.
    pub fn closed(&mut self, now: MonotonicUs, link: Link) {
        self.early.remove(&link);
        let Some(LinkEnd { migration, side, lane }) = self.links.unbind(link) else { return };
        match side {
            Side::Source => self.source(now, migration, SourceInput::Disconnected(lane)),
            Side::Target => {
                self.dial_failed(now, migration, lane);
                self.target(now, migration, TargetInput::Disconnected(lane));
            }
        }
    }

    /// A message arrived over a link. On a link that another node opened the first is `Hello`, which names
    /// the migration, and so the mover ([`MoverIndex::of`]) that the link belongs to.
    pub fn message<'b>(
        &mut self,
        now: MonotonicUs,
        link: Link,
        message: Message<'b>,
    ) -> Option<PendingReplay<'b>> {
        if self.links.end(link).is_none() {
            match message {
                Message::Hello(hello) => self.greet(now, link, &hello),
                _ => return None,
            }
        }
        let LinkEnd { migration, side, lane } = self.links.end(link)?;
        match side {
            Side::Source => {
                self.source(now, migration, SourceInput::Message(lane, message));
                None
            }
            Side::Target => {
                let import = self.imports.get_mut(&migration)?;
                let replay = import.machine.handle(now, &self.store, TargetInput::Message(lane, message));
                self.drain_target(now, migration);
                replay.map(|replay| PendingReplay { migration, replay })
            }
        }
    }

    /// Replays what a message brought; to be called after the mover's output was taken.
    pub fn replay(&mut self, now: MonotonicUs, pending: PendingReplay<'_>) {
        if let Some(import) = self.imports.get_mut(&pending.migration) {
            import.machine.replay(now, &self.store, pending.replay);
            self.drain_target(now, pending.migration);
            self.wake_arrivals(now);
        }
    }

    /// Tells the commands whose positions have arrived, and those that have waited in vain.
    fn wake_arrivals(&mut self, now: MonotonicUs) {
        let imports = &self.imports;
        let has_arrived = |migration, range| {
            imports.get(&migration).is_some_and(|import: &Import| import.machine.view().has_all(range))
        };
        for (worker, message) in self.arrivals.take_over(now, has_arrived) {
            self.wakes.tell(worker, message);
        }
    }

    /// The export has begun: hears the greetings that came before it.
    fn hear_early_greetings(&mut self, now: MonotonicUs, id: MigrationId) {
        let heard: Vec<_> = self.early.extract_if(.., |_, hello| hello.scope.migration == id).collect();
        for (link, hello) in heard {
            let nothing = self.message(now, link, Message::Hello(hello));
            assert!(nothing.is_none(), "a greeting brings no records");
        }
    }

    /// Another node greets over a link that is not known yet: binds it, if its migration is known.
    fn greet(&mut self, now: MonotonicUs, link: Link, hello: &Hello) {
        let migration = hello.scope.migration;
        if !self.exports.contains_key(&migration) {
            // The target uses the new map before its source does, so this is the rule. A refusal would make
            // it wait.
            self.early.insert(link, *hello);
            return;
        }
        self.early.remove(&link);
        self.bind(link, LinkEnd { migration, side: Side::Source, lane: hello.lane });
        self.source(now, migration, SourceInput::Connected(hello.lane));
    }

    fn bind(&mut self, link: Link, end: LinkEnd) {
        if let Some(before) = self.links.bind(link, end) {
            self.close(before, "another connection took its place");
        }
    }

    /// Hands an input to a target machine, and carries on what comes out of it.
    fn target(&mut self, now: MonotonicUs, id: MigrationId, input: TargetInput<'_>) {
        if let Some(import) = self.imports.get_mut(&id) {
            let replay = import.machine.handle(now, &self.store, input);
            assert!(replay.is_none(), "only messages bring records");
            self.drain_target(now, id);
        }
    }

    /// Hands an input to a source machine, and carries on what comes out of it.
    fn source(&mut self, now: MonotonicUs, id: MigrationId, input: SourceInput<'_>) {
        if let Some(machine) = self.exports.get_mut(&id) {
            machine.handle(now, &self.store, input);
            self.drain_source(now, id);
        }
    }

    fn tell_progress(&mut self, now: MonotonicUs) {
        for (&id, import) in &mut self.imports {
            let counters = import.machine.counters();
            if counters != import.told && now.since(import.told_at) >= TELL_INTERVAL_US {
                (import.told, import.told_at) = (counters, now);
                self.events.push_back(MoverEvent::Report(id, MoverReport::Moved(counters)));
            }
        }
    }
}
