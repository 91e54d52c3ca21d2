//! A mover's inputs: commands, worker messages, frames, time.

use super::arrivals::Arrival;
use super::*;
use crate::queue::Ticket;
use crate::queue::{ToMover, ToWorker};
use sidle_migration::{ImportPhase, Load, SourceInput, Waiter};
use sidle_wire::{Hello, Message};
use std::collections::btree_map::Entry;

/// How often the control thread is notified of progress.
const REPORT_INTERVAL_US: u64 = 50_000;

impl Mover {
    /// Handles a command of the control thread.
    ///
    /// # Panics
    /// If the migration belongs to another mover (V1).
    pub fn command(&mut self, now: MonotonicUs, (id, step): MoverCommand) {
        assert_eq!(
            MoverIndex::of(id, self.movers),
            self.index,
            "V1: migration {id} belongs to another mover"
        );
        match step {
            MoverStep::Expect(peer) => {
                if let Entry::Vacant(place) = self.migrations.entry(id) {
                    place.insert(Migration::new(Role::Expected(Dialing::new(now, peer))));
                    let connect = |lane| MoverEvent::Connect { migration: id, lane, peer };
                    self.events.extend(Lane::ALL.map(connect));
                }
            }
            MoverStep::StartImport(spec, writer) => {
                let machine = Importer::new(now, *spec, writer, self.store.log_head());
                let import = Import { machine, reported: ImporterCounters::default(), reported_at: now };
                let expected = self.migrations.remove(&id);
                let is_expected = |before: &Migration| matches!(before.role, Role::Expected(_));
                assert!(expected.as_ref().is_none_or(is_expected), "import {id} is started twice");
                let lanes = expected.map_or_else(Lanes::default, |expected| expected.lanes);
                self.migrations
                    .insert(id, Migration { lanes, ..Migration::new(Role::Import(Box::new(import))) });
                self.drain_target(now, id);
            }
            MoverStep::StartExport(spec, writer) => {
                let machine = Box::new(Exporter::new(now, *spec, writer));
                let export = Migration::new(Role::Export(machine));
                assert!(self.migrations.insert(id, export).is_none(), "export {id} is started twice");
                self.drain_source(now, id);
                self.bind_early_greetings(now, id);
            }
            MoverStep::Policy(policy) => {
                self.target(now, id, TargetInput::Policy(policy));
                self.source(now, id, SourceInput::Policy(policy));
            }
            MoverStep::Passed(Table::Tracked, proof) => self.source(now, id, SourceInput::Tracked(proof)),
            MoverStep::Passed(Table::Frozen, proof) => self.source(now, id, SourceInput::Frozen(proof)),
            MoverStep::Passed(Table::Over, proof) if self.import(id).is_some() => {
                self.target(now, id, TargetInput::Over(proof));
            }
            MoverStep::Passed(Table::Over, proof) => {
                self.source(now, id, SourceInput::DoneCommitted);
                self.source(now, id, SourceInput::Over(proof));
            }
            MoverStep::TurnBack => self.target(now, id, TargetInput::TurnsBack),
            MoverStep::Turned if self.import(id).is_some() => self.target(now, id, TargetInput::Turned),
            MoverStep::Turned => self.end(id),
            MoverStep::TakeBack => self.source(now, id, SourceInput::TakenBack),
            MoverStep::SourceRestarted => self.target(now, id, TargetInput::SourceRestarted),
            MoverStep::SourceDied => self.target(now, id, TargetInput::SourceDied),
            MoverStep::CopyIsHere => self.copy_is_here(now, id),
            MoverStep::Drop => match self.import(id).map(|import| import.machine.view().phase()) {
                // What is here and not this node's goes first.
                Some(ImportPhase::Taking) => self.target(now, id, TargetInput::GivenUp),
                _ => self.end(id),
            },
        }
    }

    /// Everything of an import whose source died is here.
    fn copy_is_here(&mut self, now: MonotonicUs, id: MigrationId) {
        let flushed = self.import(id).filter(|import| import.machine.has_deferred_flush());
        if let Some(range) = flushed.map(|import| import.machine.spec().range) {
            flush::remove_all(&self.store, &mut self.head, range);
        }
        self.target(now, id, TargetInput::CopyIsHere);
    }

    /// Handles workers' messages and due timers.
    pub fn turn(&mut self, now: MonotonicUs) {
        self.wakes.flush_all();
        while let Some((worker, message)) = self.wakes.receive() {
            self.worker_message(now, worker, message);
        }
        self.pass_steps(now);
        let due = self.migrations.iter().filter(|(_, m)| m.poll_timeout().is_some_and(|at| at <= now));
        let (imports, exports): (Vec<_>, Vec<_>) =
            due.map(|(&id, m)| (id, m.import().is_some())).partition(|(_, is_import)| *is_import);
        imports.into_iter().for_each(|(id, _)| self.target(now, id, TargetInput::Timeout));
        exports.into_iter().for_each(|(id, _)| self.source(now, id, SourceInput::Timeout));
        self.dial_again(now);
        self.wake_arrivals(now);
        self.report_progress(now);
    }

    /// The present load of the node and its workers; bulk work slows down for it. Call it every few
    /// milliseconds, and between pieces of work.
    pub fn load(&mut self, now: MonotonicUs, load: Load) {
        for migration in self.migrations.values_mut() {
            match &mut migration.role {
                Role::Expected(_) => {}
                Role::Import(import) => import.handle(now, &self.store, TargetInput::Load(load)),
                Role::Export(machine) => machine.handle(now, &self.store, SourceInput::Load(load)),
            }
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
                if self.import(migration).is_none() {
                    // V3, as for a pull: nothing would take the wait away once the import is over.
                    self.wakes.send(worker, ToWorker::Wake { migration, ticket });
                } else if !self.arrivals.add(Arrival { migration, range, worker, ticket, until }) {
                    self.wakes.send(worker, ToWorker::WaitedOut(ticket));
                }
            }
            ToMover::Pull { migration, key, ticket } => {
                if self.import(migration).is_some() {
                    self.target(now, migration, TargetInput::PriorityPull(&key, waiter(ticket)));
                } else {
                    // V3: the import is over, or not begun here; the worker will see the key's state itself.
                    // This does not answer its question.
                    self.wakes.send(worker, ToWorker::WakeAll(migration));
                }
            }
            ToMover::Flush { migration, ticket } => match self.import(migration) {
                Some(import) => {
                    let range = import.machine.spec().range;
                    // What is to be cleared is yet to come, or to be given.
                    if !import.machine.defers_flush() {
                        flush::remove_all(&self.store, &mut self.head, range);
                    }
                    self.target(now, migration, TargetInput::Flush(waiter(ticket)));
                }
                None => self.wakes.send(worker, ToWorker::Wake { migration, ticket }),
            },
        }
    }

    /// The connection asked for by [`MoverEvent::Connect`] is open.
    pub fn connected(&mut self, now: MonotonicUs, migration: MigrationId, lane: Lane, link: Link) {
        let end = LinkEnd { migration, lane };
        if !self.migrations.get(&migration).is_some_and(Migration::is_target) {
            return self.close(link, "the migration is over");
        }
        self.bind(link, end);
        let of_it = self.migrations.get_mut(&migration).expect("looked up");
        if let Role::Expected(dialing) = &mut of_it.role
            && of_it.lanes.iter().all(Option::is_some)
        {
            dialing.connected();
            self.report(migration, MoverReport::Connected);
        }
        self.target(now, migration, TargetInput::Connected(lane));
    }

    /// The connection asked for by [`MoverEvent::Connect`] could not be opened.
    pub fn connect_failed(&mut self, now: MonotonicUs, migration: MigrationId, lane: Lane) {
        if self.dial_failed(now, migration, lane) {
            return;
        }
        if self.migrations.get(&migration).is_some_and(Migration::is_target) {
            self.report(migration, MoverReport::Unreachable);
            self.target(now, migration, TargetInput::Disconnected(lane));
        }
    }

    /// A lane of a migration that may begin failed, to be dialed again; whether the migration is one.
    fn dial_failed(&mut self, now: MonotonicUs, migration: MigrationId, lane: Lane) -> bool {
        let Some(Migration { role: Role::Expected(dialing), .. }) = self.migrations.get_mut(&migration)
        else {
            return false;
        };
        if dialing.failed(now, lane) {
            self.report(migration, MoverReport::Unreachable);
        }
        true
    }

    /// Dials again what is due.
    fn dial_again(&mut self, now: MonotonicUs) {
        for (&migration, of_it) in &mut self.migrations {
            if let Role::Expected(dialing) = &mut of_it.role {
                let peer = dialing.peer();
                let connect = |lane| MoverEvent::Connect { migration, lane, peer };
                self.events.extend(dialing.take_due(now).map(connect));
            }
        }
    }

    /// A link is closed.
    pub fn closed(&mut self, now: MonotonicUs, link: Link) {
        let Some(LinkEnd { migration, lane }) = self.unbind(link) else { return };
        self.dial_failed(now, migration, lane);
        self.target(now, migration, TargetInput::Disconnected(lane));
        self.source(now, migration, SourceInput::Disconnected(lane));
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
        let LinkEnd { migration, lane } = self.links.end(link)?;
        match &mut self.migrations.get_mut(&migration)?.role {
            Role::Expected(_) => None,
            Role::Export(_) => {
                self.source(now, migration, SourceInput::Message(lane, message));
                None
            }
            Role::Import(import) => {
                let replay = import.machine.handle(now, &self.store, TargetInput::Message(lane, message));
                self.drain_target(now, migration);
                replay.map(|replay| PendingReplay { migration, replay })
            }
        }
    }

    /// Replays a message's records; call it after the mover's output was taken.
    pub fn replay(&mut self, now: MonotonicUs, pending: PendingReplay<'_>) {
        if let Some(Migration { role: Role::Import(import), .. }) =
            self.migrations.get_mut(&pending.migration)
        {
            import.machine.replay(now, &self.store, pending.replay);
            self.drain_target(now, pending.migration);
            self.wake_arrivals(now);
        }
    }

    /// Exports whose step every worker uses go on.
    fn pass_steps(&mut self, now: MonotonicUs) {
        let passed = self.migrations.iter_mut().filter_map(|(&id, migration)| {
            let proof = migration.step.as_ref()?.passed()?;
            migration.step = None;
            Some((id, proof))
        });
        for (id, proof) in passed.collect::<Vec<_>>() {
            self.source(now, id, SourceInput::Stepped(proof));
        }
    }

    /// Notifies the commands whose positions have arrived, and those whose patience is over.
    fn wake_arrivals(&mut self, now: MonotonicUs) {
        let migrations = &self.migrations;
        let has_arrived = |id, range| {
            let import = migrations.get(&id).and_then(Migration::import);
            import.is_some_and(|import| import.machine.view().has_all(range))
        };
        for (worker, message) in self.arrivals.take_over(now, has_arrived) {
            self.wakes.send(worker, message);
        }
    }

    /// The export has begun: handles the greetings that preceded it.
    fn bind_early_greetings(&mut self, now: MonotonicUs, id: MigrationId) {
        for (link, hello) in self.links.early_of(id) {
            let nothing = self.message(now, link, Message::Hello(hello));
            assert!(nothing.is_none(), "a greeting brings no records");
        }
    }

    /// Another node greets over an unbound link: binds it, if its migration is known.
    fn greet(&mut self, now: MonotonicUs, link: Link, hello: &Hello) {
        let migration = hello.scope.migration;
        if !self.migrations.get(&migration).is_some_and(|of_it| matches!(of_it.role, Role::Export(_))) {
            // The target uses the new map before its source does, so this is usual. A refusal would delay it.
            return self.links.greeted_early(link, *hello);
        }
        self.bind(link, LinkEnd { migration, lane: hello.lane });
        self.source(now, migration, SourceInput::Connected(hello.lane));
    }

    fn bind(&mut self, link: Link, end: LinkEnd) {
        let migration = self.migrations.get_mut(&end.migration).expect("looked up");
        if let Some(before) = self.links.bind(link, end, &mut migration.lanes) {
            self.close(before, "another connection took its place");
        }
    }

    /// Passes an input to a target machine, and carries out its output.
    fn target(&mut self, now: MonotonicUs, id: MigrationId, input: TargetInput<'_>) {
        if let Some(Migration { role: Role::Import(import), .. }) = self.migrations.get_mut(&id) {
            import.handle(now, &self.store, input);
            self.drain_target(now, id);
        }
    }

    /// Passes an input to a source machine, and carries out its output.
    fn source(&mut self, now: MonotonicUs, id: MigrationId, input: SourceInput<'_>) {
        if let Some(Migration { role: Role::Export(machine), .. }) = self.migrations.get_mut(&id) {
            machine.handle(now, &self.store, input);
            self.drain_source(now, id);
        }
    }

    fn report_progress(&mut self, now: MonotonicUs) {
        for (&id, migration) in &mut self.migrations {
            let Role::Import(import) = &mut migration.role else { continue };
            if now.since(import.reported_at) < REPORT_INTERVAL_US {
                continue;
            }
            let counters = import.machine.counters();
            if counters != import.reported {
                (import.reported, import.reported_at) = (counters, now);
                self.events.push_back(MoverEvent::Report(id, MoverReport::Moved(Box::new(counters))));
            }
        }
    }
}
