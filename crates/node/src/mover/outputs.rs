//! A mover's outputs: frames, wakes, reports, and its next timeout.

use super::*;
use crate::queue::Ticket;
use crate::queue::ToWorker;
use sidle_migration::{SourceEvent, SourceInput, TargetEvent, Waiter};

/// How soon a mover retries a worker's full queue.
const BLOCKED_RETRY_US: u64 = 1_000;
/// How soon a mover looks again whether every worker uses a step, unless a worker notifies it.
const STEP_RETRY_US: u64 = 1_000;

impl Mover {
    /// Appends one frame for this link; whether there was one. Call it while the link's output is short.
    pub fn poll_transmit(&mut self, now: MonotonicUs, link: Link, out: &mut Vec<u8>) -> bool {
        let Some(LinkEnd { migration, lane }) = self.links.end(link) else { return false };
        match self.migrations.get_mut(&migration).map(|migration| &mut migration.role) {
            Some(Role::Import(import)) => {
                let is_sent = import.machine.poll_transmit(now, &self.store, lane, out);
                // What commands wait for may have arrived, or found no room.
                self.drain_target(now, migration);
                is_sent
            }
            Some(Role::Export(machine)) => machine.poll_transmit(now, &self.store, lane, out),
            Some(Role::Expected(_)) | None => false,
        }
    }

    /// The driver's next action.
    pub fn poll_event(&mut self) -> Option<MoverEvent> {
        self.events.pop_front()
    }

    /// The next worker whose thread to wake.
    pub fn poll_notify(&mut self) -> Option<WorkerIndex> {
        self.wakes.poll_notify()
    }

    /// When [`Mover::turn`] is due, unless something happens before. `now`: the present.
    pub fn poll_timeout(&self, now: MonotonicUs) -> Option<MonotonicUs> {
        let blocked = self.wakes.is_blocked().then(|| now.plus_us(BLOCKED_RETRY_US));
        let steps = self.migrations.values().any(|migration| migration.step.is_some());
        (self.migrations.values().filter_map(Migration::poll_timeout))
            .chain(self.arrivals.deadline())
            .chain(blocked)
            .chain(steps.then(|| now.plus_us(STEP_RETRY_US)))
            .min()
    }

    /// Carries out a target machine's requests.
    pub(super) fn drain_target(&mut self, now: MonotonicUs, id: MigrationId) {
        while let Some(Migration { lanes, role: Role::Import(import), .. }) = self.migrations.get_mut(&id)
            && let Some(event) = import.machine.poll_event()
        {
            let peer = import.machine.spec().source;
            match event {
                TargetEvent::Connect(lane) => {
                    // It may have been opened while the migration was prepared.
                    match lanes[lane.index()] {
                        Some(_) => import.handle(now, &self.store, TargetInput::Connected(lane)),
                        None => self.events.push_back(MoverEvent::Connect { migration: id, lane, peer }),
                    }
                }
                TargetEvent::Close(lane, breach) => {
                    import.handle(now, &self.store, TargetInput::Disconnected(lane));
                    self.close_lane(id, lane, &breach.to_string());
                }
                TargetEvent::Activated => {
                    self.wakes.send_all(ToWorker::WakeAll(id));
                    self.report(id, MoverReport::Activated);
                }
                TargetEvent::GaveAll(why) => {
                    self.wakes.send_all(ToWorker::WakeAll(id));
                    self.report(id, MoverReport::GaveAll(why));
                }
                TargetEvent::Flushed(waiter) => {
                    let (worker, ticket) = named(waiter);
                    self.wakes.send(worker, ToWorker::Flushed { migration: id, ticket });
                }
                TargetEvent::Wake(waiter) => {
                    let (worker, ticket) = named(waiter);
                    self.wakes.send(worker, ToWorker::Wake { migration: id, ticket });
                }
                TargetEvent::AskAgain(waiter) => {
                    let (worker, ticket) = named(waiter);
                    self.wakes.send(worker, ToWorker::AskAgain(ticket));
                }
                TargetEvent::Refuse(waiter, why) => {
                    let (worker, ticket) = named(waiter);
                    self.wakes.send(worker, ToWorker::Refuse(ticket, why));
                }
                // Those that sleep have clients to tell.
                TargetEvent::Gave => self.wakes.notify_all(),
                TargetEvent::CaughtUp => self.report(id, MoverReport::CaughtUp),
                TargetEvent::Stalled => self.report(id, MoverReport::Stalled(true)),
                TargetEvent::Resumed => self.report(id, MoverReport::Stalled(false)),
                TargetEvent::Settled { owns } => {
                    let counters = Box::new(import.machine.counters());
                    self.report(id, MoverReport::Settled { counters, owns });
                }
                TargetEvent::Finished => {
                    let counters = Box::new(import.machine.counters());
                    self.wakes.send_all(ToWorker::WakeAll(id));
                    self.report(id, MoverReport::Finished(counters));
                }
                TargetEvent::AwaitsCopy => self.report(id, MoverReport::AwaitsCopy),
                TargetEvent::Failed(failure) => self.report(id, MoverReport::Failed(failure.to_string())),
                TargetEvent::Ended => self.end(id),
            }
        }
    }

    /// Carries out a source machine's requests.
    pub(super) fn drain_source(&mut self, now: MonotonicUs, id: MigrationId) {
        while let Some(Migration { role: Role::Export(machine), step, .. }) = self.migrations.get_mut(&id)
            && let Some(event) = machine.poll_event()
        {
            match event {
                SourceEvent::Close(lane, breach) => {
                    machine.handle(now, &self.store, SourceInput::Disconnected(lane));
                    self.close_lane(id, lane, &breach.to_string());
                }
                SourceEvent::Activated => {}
                SourceEvent::Step => {
                    let ticket = self.published.publish_step(|number| machine.publish_step(number));
                    match ticket.passed() {
                        Some(proof) => machine.handle(now, &self.store, SourceInput::Stepped(proof)),
                        None => {
                            self.wakes.notify(ticket.awaited());
                            *step = Some(ticket);
                        }
                    }
                }
                SourceEvent::Ended => self.end(id),
            }
        }
    }

    /// It is over here, and its links are closed.
    pub(super) fn end(&mut self, id: MigrationId) {
        self.report(id, MoverReport::Ended);
        let Some(Migration { mut lanes, .. }) = self.migrations.remove(&id) else { return };
        self.arrivals.forget(id);
        lanes.sort_unstable();
        for link in lanes.into_iter().flatten() {
            self.links.unbind(link);
            self.close(link, "the migration is over");
        }
    }

    /// A link is gone; returns its purpose.
    pub(super) fn unbind(&mut self, link: Link) -> Option<LinkEnd> {
        let end = self.links.unbind(link)?;
        if let Some(migration) = self.migrations.get_mut(&end.migration) {
            migration.lanes[end.lane.index()] = None;
        }
        Some(end)
    }

    fn close_lane(&mut self, id: MigrationId, lane: Lane, why: &str) {
        if let Some(link) = self.migrations.get(&id).and_then(|migration| migration.lanes[lane.index()]) {
            self.unbind(link);
            self.close(link, why);
        }
    }

    pub(super) fn close(&mut self, link: Link, why: &str) {
        self.events.push_back(MoverEvent::Close(link, why.to_owned()));
    }

    pub(super) fn report(&mut self, id: MigrationId, report: MoverReport) {
        self.events.push_back(MoverEvent::Report(id, report));
    }
}

fn named(waiter: Waiter) -> (WorkerIndex, Ticket) {
    (WorkerIndex(waiter.worker), Ticket(waiter.ticket))
}
