//! What comes out of a mover: frames, wakes, reports, and when it wants to be called again.

use super::links::Side;
use super::*;
use crate::parking::Ticket;
use crate::queue::ToWorker;
use sidle_migration::{SourceEvent, SourceInput, TargetEvent, TargetInput, Waiter};

/// How soon a mover tries again to tell a worker whose queue is full.
const BLOCKED_RETRY_US: u64 = 1_000;

impl Mover {
    /// Appends one frame for this link; whether there was one. To be called while the link's output is short.
    pub fn poll_transmit(&mut self, now: MonotonicUs, link: Link, out: &mut Vec<u8>) -> bool {
        let Some(LinkEnd { migration, side, lane }) = self.links.end(link) else { return false };
        match side {
            Side::Source => self
                .exports
                .get_mut(&migration)
                .is_some_and(|machine| machine.poll_transmit(now, &self.store, lane, out)),
            Side::Target => self
                .imports
                .get_mut(&migration)
                .is_some_and(|import| import.machine.poll_transmit(now, &self.store, lane, out)),
        }
    }

    /// The next thing that the driver should do.
    pub fn poll_event(&mut self) -> Option<MoverEvent> {
        self.events.pop_front()
    }

    /// The next worker whose thread has to be woken.
    pub fn poll_notify(&mut self) -> Option<WorkerIndex> {
        self.wakes.poll_notify()
    }

    /// When [`Mover::turn`] is due, if nothing happens before. `now`: the present.
    pub fn poll_timeout(&self, now: MonotonicUs) -> Option<MonotonicUs> {
        let blocked = self.wakes.is_blocked().then(|| now.plus_us(BLOCKED_RETRY_US));
        (self.imports.values().filter_map(|import| import.machine.poll_timeout()))
            .chain(self.exports.values().filter_map(Exporter::poll_timeout))
            .chain(self.arrivals.deadline())
            .chain(self.expected.due_at())
            .chain(blocked)
            .min()
    }

    /// Carries out what a target machine asks for.
    pub(super) fn drain_target(&mut self, now: MonotonicUs, id: MigrationId) {
        while let Some(import) = self.imports.get_mut(&id)
            && let Some(event) = import.machine.poll_event()
        {
            let counters = import.machine.counters();
            let peer = import.machine.spec().source;
            match event {
                TargetEvent::Connect(lane) => {
                    // It may have been opened while the migration was prepared.
                    match self.links.link(LinkEnd { migration: id, side: Side::Target, lane }) {
                        Some(_) => {
                            let replay =
                                import.machine.handle(now, &self.store, TargetInput::Connected(lane));
                            assert!(replay.is_none(), "only messages bring records");
                        }
                        None => self.events.push_back(MoverEvent::Connect { migration: id, lane, peer }),
                    }
                }
                TargetEvent::Close(lane, breach) => {
                    let replay = import.machine.handle(now, &self.store, TargetInput::Disconnected(lane));
                    assert!(replay.is_none(), "only messages bring records");
                    self.close_lane(LinkEnd { migration: id, side: Side::Target, lane }, &breach.to_string());
                }
                TargetEvent::Activated => {
                    self.wakes.tell_all(ToWorker::WakeAll(id));
                    self.report(id, MoverReport::Activated);
                }
                TargetEvent::Flushed(waiter) => {
                    let (worker, ticket) = named(waiter);
                    self.wakes.tell(worker, ToWorker::Flushed { migration: id, ticket });
                }
                TargetEvent::Wake(waiter) => {
                    let (worker, ticket) = named(waiter);
                    self.wakes.tell(worker, ToWorker::Wake { migration: id, ticket });
                }
                TargetEvent::Refuse(waiter, why) => {
                    let (worker, ticket) = named(waiter);
                    self.wakes.tell(worker, ToWorker::Refuse(ticket, why));
                }
                TargetEvent::CaughtUp => self.report(id, MoverReport::CaughtUp),
                TargetEvent::Stalled => self.report(id, MoverReport::Stalled),
                TargetEvent::Resumed => self.report(id, MoverReport::Resumed),
                TargetEvent::Finished => {
                    self.wakes.tell_all(ToWorker::WakeAll(id));
                    self.report(id, MoverReport::Finished(counters));
                }
                TargetEvent::Failed(failure) => self.report(id, MoverReport::Failed(failure.to_string())),
                TargetEvent::SweepFinished => {
                    self.forget_import(id);
                    self.report(id, MoverReport::ImportEnded);
                }
            }
        }
    }

    /// Carries out what a source machine asks for.
    pub(super) fn drain_source(&mut self, now: MonotonicUs, id: MigrationId) {
        while let Some(machine) = self.exports.get_mut(&id)
            && let Some(event) = machine.poll_event()
        {
            match event {
                SourceEvent::Close(lane, breach) => {
                    machine.handle(now, &self.store, SourceInput::Disconnected(lane));
                    self.close_lane(LinkEnd { migration: id, side: Side::Source, lane }, &breach.to_string());
                }
                SourceEvent::Activated => {}
                SourceEvent::ReleaseFinished => {
                    self.forget_export(id);
                    self.report(id, MoverReport::ExportEnded);
                }
            }
        }
    }

    pub(super) fn forget_import(&mut self, id: MigrationId) {
        self.expected.remove(id);
        self.imports.remove(&id);
        self.arrivals.forget(id);
        for link in self.links.unbind_all(id, Side::Target) {
            self.close(link, "the migration is over");
        }
    }

    pub(super) fn forget_export(&mut self, id: MigrationId) {
        self.exports.remove(&id);
        for link in self.links.unbind_all(id, Side::Source) {
            self.close(link, "the migration is over");
        }
    }

    fn close_lane(&mut self, end: LinkEnd, why: &str) {
        if let Some(link) = self.links.link(end) {
            self.links.unbind(link);
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
