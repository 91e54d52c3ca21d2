//! The commands of one worker that wait for what they are to take: how they are parked, and run again.
//!
//! Ownership: a worker's dispatcher. An entry is there while its command is parked.

use crate::clients::Unblock;
use crate::execute::Executor;
use crate::now::Now;
use crate::parking::ParkingLot;
use crate::queue::Ticket;
use crate::request::{Request, slots_of};
use crate::session::Session;
use crate::wait::{Behind, Wait};
use crate::waiters::{WaiterId, Waiting};
use sidle_commands::ReplyError;
use sidle_store::{Entry, SlotGuards};
use sidle_types::{HashedKey, MonotonicUs, Position, fault};
use std::collections::{BTreeMap, BTreeSet};

/// So long a reply waits for those that the command gave a turn: their thread runs, and does not read slowly.
const SERVED_WITHIN_US: u64 = 10_000;

const UNBLOCKED: ReplyError = ReplyError::text("UNBLOCKED client unblocked via CLIENT UNBLOCK");

/// A parked command that waits for keys.
#[derive(Debug)]
struct Parked {
    ticket: Ticket,
    until: Option<MonotonicUs>,
    positions: Vec<Position>,
    /// It waits for no key.
    is_keyless: bool,
}

/// The parked commands that wait for keys.
#[derive(Debug, Default)]
pub(crate) struct Blocked {
    parked: BTreeMap<WaiterId, Parked>,
    ends: BTreeSet<(MonotonicUs, WaiterId)>,
}

impl Blocked {
    /// A command found nothing, and waits: its ticket. `None`: there may be something by now.
    #[cold]
    pub(crate) fn park(
        &mut self,
        now: Now,
        session: &mut Session,
        request: Request<'_>,
        at_most_ms: u64,
        (executor, lot): (&Executor, &mut ParkingLot),
    ) -> Option<Ticket> {
        if let Some(wait) = &session.route.wait {
            wait.places.pass(now.wall);
        } else {
            let places = take_places(now, request, executor)?;
            let until = (at_most_ms > 0).then(|| now.mono.plus_us(at_most_ms.saturating_mul(1000)));
            session.client.note_waiter(Some(places.id()));
            session.route.wait = Some(Box::new(Wait { places, until, is_over: false }));
        }
        let Wait { places, until, .. } = &**session.route.wait.as_ref()?;
        let ticket = lot.park_for_a_new_table();
        let positions: Vec<Position> = places.positions().collect();
        let is_keyless = positions.is_empty();
        self.parked.insert(places.id(), Parked { ticket, until: *until, positions, is_keyless });
        self.ends.extend(until.map(|until| (until, places.id())));
        Some(ticket)
    }

    /// A command has run, and `reply` is its reply: its ticket, if others have to be served first (B4).
    #[cold]
    pub(crate) fn park_behind(
        &mut self,
        now: Now,
        session: &mut Session,
        request: Request<'_>,
        reply: &[u8],
        (executor, lot): (&Executor, &mut ParkingLot),
    ) -> Option<Ticket> {
        let begun = session.route.behind.take();
        let until = begun.map_or_else(|| now.mono.plus_us(SERVED_WITHIN_US), |behind| behind.until);
        if until <= now.mono || fault!(RepliesBeforeServed) {
            return None;
        }
        let own = session.route.wait.as_ref().map(|wait| wait.places.id());
        let id = executor.shared.waiters.stand_behind(own, request.keys, executor.index)?;
        if !fault!(KeepsItsTurnBehindOthers) {
            session.stop_waiting();
        }
        session.route.behind = Some(Box::new(Behind { id, until, reply: reply.to_vec() }));
        let ticket = lot.park_for_a_new_table();
        self.parked
            .insert(id, Parked { ticket, until: Some(until), positions: Vec::new(), is_keyless: false });
        self.ends.insert((until, id));
        Some(ticket)
    }

    /// The reply of a command that ran and was parked.
    pub(crate) fn take_reply(&mut self, session: &mut Session) -> Option<Vec<u8>> {
        let behind = session.route.behind.as_mut()?;
        let reply = std::mem::take(&mut behind.reply);
        self.remove(behind.id);
        Some(reply)
    }

    /// A command that waits runs again; its error, if it is ended by one.
    #[cold]
    pub(crate) fn run_again(&mut self, now: Now, session: &mut Session) -> Option<ReplyError> {
        let wait = session.route.wait.as_mut()?;
        self.remove(wait.places.id());
        match session.client.take_unblock() {
            Some(Unblock::WithError) => return Some(UNBLOCKED),
            Some(Unblock::AsIfOver) => wait.is_over = true,
            None => wait.is_over |= wait.until.is_some_and(|until| until <= now.mono),
        }
        None
    }

    fn remove(&mut self, id: WaiterId) {
        if let Some(Parked { until: Some(until), .. }) = self.parked.remove(&id) {
            self.ends.remove(&(until, id));
        }
    }

    /// Its client is gone.
    pub(crate) fn forget(&mut self, ticket: Ticket) {
        let found = self.parked.iter().find(|(_, parked)| parked.ticket == ticket);
        if let Some(id) = found.map(|(&id, _)| id) {
            self.remove(id);
        }
    }

    /// Wakes commands that others have woken: a key has changed, or by CLIENT UNBLOCK.
    #[inline]
    pub(crate) fn wake(&self, executor: &Executor, lot: &mut ParkingLot) {
        for id in executor.shared.waiters.take_woken(executor.index) {
            if let Some(parked) = self.parked.get(&id) {
                lot.wake(parked.ticket);
            }
        }
    }

    /// Wakes commands that wait for no key: they look again.
    pub(crate) fn wake_keyless(&self, lot: &mut ParkingLot) {
        let keyless = self.parked.values().filter(|parked| parked.is_keyless);
        keyless.for_each(|parked| lot.wake(parked.ticket));
    }

    /// When the next one's time is over.
    #[inline]
    pub(crate) fn next_end(&self) -> Option<MonotonicUs> {
        self.ends.first().map(|&(end, _)| end)
    }

    /// Wakes commands whose time is over.
    pub(crate) fn wake_over(&mut self, now: MonotonicUs, lot: &mut ParkingLot) {
        while let Some(&(end, id)) = self.ends.first()
            && end <= now
        {
            self.ends.pop_first();
            if let Some(parked) = self.parked.get(&id) {
                lot.wake(parked.ticket);
            }
        }
    }

    /// Wakes commands that wait at positions which exports have given.
    pub(crate) fn wake_given(&self, executor: &Executor, lot: &mut ParkingLot) {
        if fault!(GivenKeyKeepsItsWaiters) {
            return;
        }
        for parked in self.parked.values() {
            if parked.positions.iter().any(|&at| executor.ranges.has_given(at, executor.step)) {
                lot.wake(parked.ticket);
            }
        }
    }
}

#[cfg(any(test, feature = "testing"))]
impl Blocked {
    /// Whether a parked command waits at a position which exports have given.
    pub(crate) fn waits_where_given(&self, ticket: Ticket, executor: &Executor) -> bool {
        let mut own = self.parked.values().filter(|parked| parked.ticket == ticket);
        let is_given = |&at: &Position| executor.ranges.has_given(at, executor.step);
        own.any(|parked| parked.positions.iter().any(is_given))
    }
}

/// B1: only while there is nothing to take, or others are before it.
fn take_places(now: Now, request: Request<'_>, executor: &Executor) -> Option<Waiting> {
    let keys = request.awaited_keys();
    let (waiters, store) = (&executor.shared.waiters, &executor.store);
    let slots = SlotGuards::lock(store, &slots_of(keys));
    let has_value = |key: HashedKey<'_>| match slots.get(key) {
        Entry::Value(record) => !record.is_expired(now.wall),
        Entry::Tombstone(_) | Entry::Absent => false,
    };
    let has_any = keys.iter().any(|&key| has_value(key));
    if has_any && !waiters.are_before(None, keys) && !fault!(WaitsWithoutLook) {
        return None;
    }
    let is_left = |key: HashedKey<'_>| has_value(key) && !fault!(WaitsWithoutLook);
    Some(Waiting::new(waiters, store, executor.index, keys, &slots, is_left))
}
