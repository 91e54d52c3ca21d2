//! Parked commands, by ticket, and the queues to the movers that they wait for.
//!
//! A parked command holds no locks and no memory but its entry here. Its connection stops reading, keeps the
//! request in its buffer, and runs it again from the start once the ticket is woken. That makes waking safe:
//! a spurious wake costs a look, never a wrong answer.
//!
//! Invariants:
//! - P1: a ticket is woken at most once, and never after it was forgotten.
//! - P2: the lot holds at most one entry a connection, one for each forwarded request aside, and one for each
//!   request of the node's own. So the numbers of these bound it.
//! - P3: what a ticket waits for wakes it. Keys: the arrival of all of them, the end of their migration, or a
//!   new range table (then the command may run, redirect or wait again). A pause: its end, or a change of it
//!   (A2). A flush: the answers of all its movers. Positions: their arrival, or the end of the patience.
//!   Other nodes: the end of all requests to them (F4).
//!
//! Ownership: one lot for each worker, touched by that worker's thread only.

use crate::queue::{MAX_MOVERS, MoverIndex, Ticket, ToMover, ToWorker, WorkerPort};
use crate::routing::Missing;
use sidle_migration::WaiterRefusal;
use sidle_store::LogHead;
use sidle_types::{Fill, HashedKey, MigrationId, Position, PositionRange, fault};
use std::collections::{BTreeMap, BTreeSet, VecDeque};

#[derive(Debug)]
struct Waiting {
    /// The imports that it waits for, each with the number of outstanding answers; 0 for its activation.
    on: Vec<(MigrationId, u32)>,
    /// Whether the end of an import, or a new range table, is an answer. Only its movers answer a flush: it
    /// needs to know what they did.
    ends_with_import: bool,
}

/// The parked commands of one worker, and its ends of the queues.
#[derive(Default)]
pub(crate) struct ParkingLot {
    last_ticket: u64,
    waiting: BTreeMap<Ticket, Waiting>,
    /// Those of them that wait for a whole range.
    ranges: BTreeSet<Ticket>,
    woken: VecDeque<Ticket>,
    /// Woken tickets that fail, and why; taken when the command runs again.
    refused: BTreeMap<Ticket, WaiterRefusal>,
    /// Woken tickets with all answers; taken when the command runs again.
    answered: BTreeSet<Ticket>,
    /// Woken tickets whose patience is over; taken when the command runs again.
    waited_out: BTreeSet<Ticket>,
    /// Which imports were flushed for a ticket; taken when its command runs again.
    flushed: BTreeMap<Ticket, Vec<MigrationId>>,
    /// Messages that found their queue full; sent again each turn. At most one for each outstanding answer:
    /// without a waiter it is dropped.
    unsent: VecDeque<(MoverIndex, ToMover)>,
    /// The queues, by mover.
    ports: Vec<WorkerPort>,
    /// A bit for each mover whose queue is not empty.
    notify: u64,
}

impl ParkingLot {
    /// Nothing is parked. `ports`: the worker's ends of the queues, by mover.
    ///
    /// # Panics
    /// If there are more than [`MAX_MOVERS`] movers.
    pub(crate) fn new(ports: Vec<WorkerPort>) -> ParkingLot {
        assert!(ports.len() <= usize::from(MAX_MOVERS), "more than {MAX_MOVERS} movers");
        ParkingLot { ports, ..ParkingLot::default() }
    }

    /// Handles the movers' messages, and sends those that found a queue full.
    pub(crate) fn turn(&mut self) {
        for mover in 0..self.ports.len() {
            while let Ok(message) = self.ports[mover].from_mover.pop() {
                self.handle(message);
            }
        }
        while let Some((mover, message)) = self.unsent.pop_front() {
            if let Err(message) = self.try_send(mover, message) {
                self.unsent.push_front((mover, message));
                break;
            }
        }
    }

    /// The next mover whose thread to wake, since its queue is not empty.
    pub(crate) fn poll_notify(&mut self) -> Option<MoverIndex> {
        if self.notify == 0 {
            return None;
        }
        let mover = self.notify.trailing_zeros();
        self.notify &= self.notify - 1;
        Some(MoverIndex(mover as u16))
    }

    /// The migration's mover is to be woken.
    pub(crate) fn notify(&mut self, migration: MigrationId) {
        self.notify |= 1 << self.mover_of(migration).0;
    }

    /// Parks a command until the import may be served.
    pub(crate) fn park_for_activation(&mut self, migration: MigrationId) -> Ticket {
        self.park(vec![(migration, 0)], true)
    }

    /// Parks a command until each of these imports has been flushed.
    pub(crate) fn park_for_flush(&mut self, imports: impl Iterator<Item = MigrationId>) -> Ticket {
        self.park(imports.map(|migration| (migration, 1)).collect(), false)
    }

    /// Parks a command with more to do, until the other connections had their turn.
    pub(crate) fn park_for_a_turn(&mut self) -> Ticket {
        let ticket = self.park(Vec::new(), false);
        self.wake(ticket);
        ticket
    }

    /// Parks a command until there is a new range table, or something wakes it.
    pub(crate) fn park_for_a_new_table(&mut self) -> Ticket {
        self.park(Vec::new(), true)
    }

    /// Parks a command until all of its requests to other nodes have ended.
    pub(crate) fn park_for_another_node(&mut self) -> Ticket {
        self.park(Vec::new(), false)
    }

    /// Parks a command until so many answers have arrived from each of these imports.
    pub(crate) fn park_for_answers(&mut self, on: Vec<(MigrationId, u32)>) -> Ticket {
        assert!(
            on.iter().all(|&(_, answers)| answers > 0),
            "P3: a command waits for an answer that was never requested"
        );
        self.park(on, true)
    }

    /// Parks a command until these of its keys have arrived, and has them pulled.
    #[cold]
    pub(crate) fn park_for_keys(&mut self, missing: &[Missing], keys: &[HashedKey<'_>]) -> Ticket {
        let mut on: Vec<(MigrationId, u32)> = Vec::new();
        for &Missing { migration, .. } in missing {
            match on.iter_mut().find(|(other, _)| *other == migration) {
                Some((_, answers)) => *answers += 1,
                None => on.push((migration, 1)),
            }
        }
        let ticket = self.park_for_answers(on);
        for &Missing { migration, key } in missing {
            self.send(migration, ToMover::Pull { migration, key: keys[key].bytes().into(), ticket });
        }
        ticket
    }

    /// Asks for these of a command's keys, for which it does not wait.
    pub(crate) fn want(&mut self, missing: &[Missing], keys: &[HashedKey<'_>]) {
        for &Missing { migration, key } in missing {
            self.send_if_room(migration, ToMover::Wanted { migration, key: keys[key].bytes().into() });
        }
    }

    /// Keys were written without a look-up before they arrived. The mover checks whether the source has them,
    /// so that they count once. Only the writer that made a key's entry reports it: another worker may have
    /// written it since the decision, or its record arrived.
    #[cold]
    pub(crate) fn report_unseen(&mut self, head: &mut LogHead, unseen: &[(MigrationId, Position)]) {
        for position in head.take_new_entries() {
            if let Some(&(migration, _)) = unseen.iter().find(|(_, written)| *written == position) {
                self.offer(migration, ToMover::WrittenUnseen { migration, position });
            }
        }
    }

    /// Parks a command until these positions have arrived, of which a mover tells.
    pub(crate) fn park_for_positions(
        &mut self,
        migration: MigrationId,
        range: PositionRange,
        patience_us: u64,
    ) -> Ticket {
        let ticket = self.park_for_arrival(migration);
        self.send(migration, ToMover::Await { migration, range, patience_us, ticket });
        ticket
    }

    /// Parks a command until positions of this import have arrived.
    pub(crate) fn park_for_arrival(&mut self, migration: MigrationId) -> Ticket {
        let ticket = self.park(vec![(migration, 1)], true);
        self.ranges.insert(ticket);
        ticket
    }

    fn park(&mut self, on: Vec<(MigrationId, u32)>, ends_with_import: bool) -> Ticket {
        self.last_ticket += 1;
        let ticket = Ticket(self.last_ticket);
        self.waiting.insert(ticket, Waiting { on, ends_with_import });
        ticket
    }

    /// Handles a mover's message. An answer counts once for the ticket as a whole: an import that ends wakes
    /// it at once.
    pub(crate) fn handle(&mut self, message: ToWorker) {
        match message {
            ToWorker::Flushed { migration, ticket } => {
                if self.waiting.contains_key(&ticket) {
                    self.flushed.entry(ticket).or_default().push(migration);
                    self.handle(ToWorker::Wake { migration, ticket });
                }
            }
            ToWorker::Wake { migration, ticket } => {
                let Some(waiting) = self.waiting.get_mut(&ticket) else { return };
                for (on, answers) in &mut waiting.on {
                    if *on == migration {
                        *answers = answers.saturating_sub(1);
                    }
                }
                if waiting.on.iter().all(|&(_, answers)| answers == 0) {
                    if waiting.ends_with_import {
                        self.answered.insert(ticket);
                    }
                    self.wake(ticket);
                }
            }
            ToWorker::AskAgain(ticket) => {
                if fault!(AskedAgainCountsAsAnswered) && self.waiting.contains_key(&ticket) {
                    self.answered.insert(ticket);
                }
                self.wake(ticket);
            }
            ToWorker::Refuse(ticket, why) => {
                if self.waiting.contains_key(&ticket) {
                    self.refused.insert(ticket, why);
                    self.wake(ticket);
                }
            }
            ToWorker::WaitedOut(ticket) => {
                if self.waiting.contains_key(&ticket) {
                    self.waited_out.insert(ticket);
                    self.wake(ticket);
                }
            }
            ToWorker::WakeAll(migration) => {
                let ready: Vec<Ticket> = self
                    .waiting
                    .iter()
                    .filter(|(_, waiting)| waiting.ends_with_import)
                    .filter(|(_, waiting)| waiting.on.iter().any(|&(on, _)| on == migration))
                    .map(|(&ticket, _)| ticket)
                    .collect();
                ready.into_iter().for_each(|ticket| self.wake(ticket));
            }
        }
    }

    /// Whether the command waits for a whole range to arrive, not for keys.
    pub(crate) fn awaits_range(&self, ticket: Ticket) -> bool {
        self.ranges.contains(&ticket)
    }

    /// Whether the command still waits.
    pub(crate) fn is_waiting(&self, ticket: Ticket) -> bool {
        self.waiting.contains_key(&ticket)
    }

    /// Wakes every parked command that a new range table may concern.
    pub(crate) fn wake_everything(&mut self) {
        let ready = self.waiting.extract_if(.., |_, waiting| waiting.ends_with_import);
        self.woken.extend(ready.map(|(ticket, _)| ticket));
        self.drop_what_nobody_waits_for();
    }

    /// Wakes a command, if it has not been woken or forgotten.
    pub(crate) fn wake(&mut self, ticket: Ticket) {
        if self.waiting.remove(&ticket).is_some() {
            self.woken.push_back(ticket);
            self.drop_what_nobody_waits_for();
        }
    }

    fn drop_what_nobody_waits_for(&mut self) {
        self.ranges.retain(|ticket| self.waiting.contains_key(ticket));
        self.unsent.retain(|(_, message)| match message {
            ToMover::Pull { ticket, .. } | ToMover::Flush { ticket, .. } | ToMover::Await { ticket, .. } => {
                self.waiting.contains_key(ticket)
            }
            // Without a waiter these are not kept.
            _ => false,
        });
    }

    /// The next command that may run again.
    pub(crate) fn poll_woken(&mut self) -> Option<Ticket> {
        self.woken.pop_front()
    }

    /// Why the woken command is to fail, if it is; taken.
    pub(crate) fn take_refusal(&mut self, ticket: Ticket) -> Option<WaiterRefusal> {
        self.refused.remove(&ticket)
    }

    /// Whether the woken command has all of its answers; taken.
    pub(crate) fn take_answered(&mut self, ticket: Ticket) -> bool {
        self.answered.remove(&ticket)
    }

    /// Whether the woken command's patience is over; taken.
    pub(crate) fn take_waited_out(&mut self, ticket: Ticket) -> bool {
        self.waited_out.remove(&ticket)
    }

    /// The imports that were flushed for the woken command; taken.
    pub(crate) fn take_flushed(&mut self, ticket: Ticket) -> Vec<MigrationId> {
        self.flushed.remove(&ticket).unwrap_or_default()
    }

    /// Forgets a command whose connection is gone.
    pub(crate) fn forget(&mut self, ticket: Ticket) {
        self.waiting.remove(&ticket);
        self.drop_what_nobody_waits_for();
        self.woken.retain(|&woken| woken != ticket);
        self.refused.remove(&ticket);
        self.answered.remove(&ticket);
        self.waited_out.remove(&ticket);
        self.flushed.remove(&ticket);
    }

    /// Sends a message that must not be lost.
    pub(crate) fn send(&mut self, migration: MigrationId, message: ToMover) {
        let mover = self.mover_of(migration);
        if let Err(message) = self.try_send(mover, message) {
            self.unsent.push_back((mover, message));
        }
    }

    /// Sends a message that may be lost.
    pub(crate) fn send_if_room(&mut self, migration: MigrationId, message: ToMover) {
        let mover = self.mover_of(migration);
        // A full queue means that the mover has enough to do.
        let _ = self.try_send(mover, message);
    }

    /// Leaves a message that may be lost and is not urgent: the mover is not woken for it.
    pub(crate) fn offer(&mut self, migration: MigrationId, message: ToMover) {
        let mover = self.mover_of(migration);
        // A full queue means that the mover has enough samples.
        let _ = self.ports[usize::from(mover.0)].to_mover.push(message);
    }

    fn mover_of(&self, migration: MigrationId) -> MoverIndex {
        MoverIndex::of(migration, self.ports.len())
    }

    fn try_send(&mut self, mover: MoverIndex, message: ToMover) -> Result<(), ToMover> {
        self.notify |= 1 << mover.0;
        let port = &mut self.ports[usize::from(mover.0)];
        port.to_mover.push(message).map_err(|rtrb::PushError::Full(message)| message)
    }

    /// How full the queues are. `connections`: how many commands may wait (P2).
    pub(crate) fn queues(&self, connections: usize) -> [Fill; 7] {
        let to_come =
            self.waiting.values().flat_map(|waiting| &waiting.on).map(|&(_, answers)| answers as usize);
        [
            Fill::new("parked commands", self.waiting.len(), connections),
            Fill::new("woken commands", self.woken.len(), connections),
            Fill::new("refused commands", self.refused.len(), connections),
            Fill::new("answered commands", self.answered.len(), connections),
            Fill::new("commands whose patience is over", self.waited_out.len(), connections),
            Fill::new("commands whose flushes were answered", self.flushed.len(), connections),
            Fill::new("messages to movers", self.unsent.len(), to_come.sum()),
        ]
    }

    /// Its contents by name, with their count.
    pub(crate) fn in_hand(&self) -> Vec<(&'static str, usize)> {
        [
            ("parked commands", self.waiting.len()),
            ("woken commands", self.woken.len()),
            ("refused commands", self.refused.len()),
            ("answered commands", self.answered.len()),
            ("commands whose patience is over", self.waited_out.len()),
            ("messages to movers", self.unsent.len()),
        ]
        .into_iter()
        .filter(|(_, count)| *count > 0)
        .collect()
    }

    /// How many commands wait.
    pub(crate) fn len(&self) -> usize {
        self.waiting.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const M: MigrationId = MigrationId(7);
    const OTHER: MigrationId = MigrationId(8);

    fn drain(lot: &mut ParkingLot) -> Vec<Ticket> {
        std::iter::from_fn(|| lot.poll_woken()).collect()
    }

    #[test]
    fn what_nobody_waits_for_any_more_is_not_sent() {
        let mut lot = ParkingLot::default();
        let ask = |lot: &mut ParkingLot| {
            let ticket = lot.park_for_answers(vec![(M, 2)]);
            for key in [b"a", b"b"] {
                let pull = ToMover::Pull { migration: M, key: key.as_slice().into(), ticket };
                lot.unsent.push_back((MoverIndex(0), pull));
            }
            ticket
        };
        let is_within = |lot: &ParkingLot| lot.queues(2).iter().all(|fill| fill.count <= fill.most);
        let (gone, stays) = (ask(&mut lot), ask(&mut lot));
        lot.forget(gone);
        assert!(is_within(&lot), "{:?}", lot.queues(2));
        assert_eq!(lot.unsent.len(), 2);
        assert!(matches!(lot.unsent.pop_front(), Some((_, ToMover::Pull { ticket, .. })) if ticket == stays));
        // After a new range table it checks again.
        lot.wake_everything();
        assert_eq!((drain(&mut lot), lot.unsent.len()), (vec![stays], 0));
    }

    #[test]
    fn handle_wakes_when_the_last_answer_came() {
        let mut lot = ParkingLot::default();
        let ticket = lot.park_for_answers(vec![(M, 2), (OTHER, 1)]);
        lot.handle(ToWorker::Wake { migration: M, ticket });
        lot.handle(ToWorker::Wake { migration: OTHER, ticket });
        assert_eq!(drain(&mut lot), []);
        lot.handle(ToWorker::Wake { migration: M, ticket });
        assert_eq!(drain(&mut lot), [ticket]);
        lot.handle(ToWorker::Wake { migration: M, ticket });
        assert_eq!(drain(&mut lot), [], "P1: woken twice");
    }

    #[test]
    fn handle_wake_all_leaves_other_migrations_alone() {
        let mut lot = ParkingLot::default();
        let first = lot.park_for_activation(M);
        let second = lot.park_for_answers(vec![(M, 3)]);
        let third = lot.park_for_activation(OTHER);
        lot.handle(ToWorker::WakeAll(M));
        assert_eq!(drain(&mut lot), [first, second]);
        lot.wake_everything();
        assert_eq!(drain(&mut lot), [third]);
        assert_eq!(lot.len(), 0);
    }

    #[test]
    fn a_flush_outlasts_the_end_of_its_import() {
        let mut lot = ParkingLot::default();
        let ticket = lot.park_for_flush([M, OTHER].into_iter());
        lot.handle(ToWorker::WakeAll(M));
        lot.handle(ToWorker::Flushed { migration: M, ticket });
        lot.wake_everything();
        assert_eq!(drain(&mut lot), [], "the other mover has yet to answer");
        lot.handle(ToWorker::Wake { migration: OTHER, ticket });
        assert_eq!(drain(&mut lot), [ticket]);
        assert_eq!(lot.take_flushed(ticket), [M]);
        assert_eq!(lot.take_flushed(ticket), []);
    }

    #[test]
    fn a_refusal_is_found_once() {
        let mut lot = ParkingLot::default();
        let ticket = lot.park_for_answers(vec![(M, 2)]);
        lot.handle(ToWorker::Refuse(ticket, WaiterRefusal::TooManyWait));
        assert_eq!(drain(&mut lot), [ticket]);
        assert_eq!(lot.take_refusal(ticket), Some(WaiterRefusal::TooManyWait));
        assert_eq!(lot.take_refusal(ticket), None);
    }

    #[test]
    fn the_end_of_patience_is_found_once() {
        let mut lot = ParkingLot::default();
        let (first, second) = (lot.park_for_arrival(M), lot.park_for_arrival(M));
        lot.handle(ToWorker::WaitedOut(first));
        lot.handle(ToWorker::Wake { migration: M, ticket: second });
        assert_eq!(drain(&mut lot), [first, second]);
        assert!(lot.take_waited_out(first) && !lot.take_waited_out(second));
        assert!(!lot.take_waited_out(first));
    }

    #[test]
    fn forget_drops_a_wake_under_way() {
        let mut lot = ParkingLot::default();
        let ticket = lot.park_for_activation(M);
        lot.handle(ToWorker::WakeAll(M));
        lot.forget(ticket);
        assert_eq!(drain(&mut lot), []);
    }
}
