//! Commands that wait for what they are to take: how the dispatcher parks them, and runs them again.

use crate::clients::Unblock;
use crate::dispatch::{Attempt, Dispatcher};
use crate::execute::slots_of;
use crate::now::Now;
use crate::queue::Ticket;
use crate::request::Request;
use crate::session::Session;
use crate::waiters::Waiting;
use sidle_commands::ReplyError;
use sidle_store::{Entry, SlotGuards};
use sidle_types::{HashedKey, MonotonicUs, fault};

const UNBLOCKED: ReplyError = ReplyError::text("UNBLOCKED client unblocked via CLIENT UNBLOCK");

/// What a connection's command waits for, across its attempts.
#[derive(Debug)]
pub(crate) struct Wait {
    places: Waiting,
    until: Option<MonotonicUs>,
    is_over: bool,
}

impl Wait {
    pub(crate) fn is_over(&self) -> bool {
        self.is_over
    }

    pub(crate) fn places(&self) -> &Waiting {
        &self.places
    }
}

impl Dispatcher {
    /// A command found nothing, and waits: its ticket. `None`: there may be something by now.
    #[cold]
    pub(crate) fn block(
        &mut self,
        now: Now,
        session: &mut Session,
        request: Request<'_>,
        at_most_ms: u64,
    ) -> Option<Ticket> {
        #[cfg(any(test, feature = "testing"))]
        self.hooks.found_nothing(&self.executor.store);
        if let Some(wait) = &session.route.wait {
            wait.places.pass(now.wall);
        } else {
            let places = self.take_places(now, request)?;
            let until = (at_most_ms > 0).then(|| now.mono.plus_us(at_most_ms.saturating_mul(1000)));
            session.client.note_waiter(Some(places.id()));
            session.route.wait = Some(Box::new(Wait { places, until, is_over: false }));
        }
        let wait = session.route.wait.as_ref()?;
        let ticket = self.parking.park_for_a_new_table();
        self.blocked.park(wait.places.id(), ticket, wait.until, wait.places.positions());
        Some(ticket)
    }

    /// B1: only while there is nothing to take, or others are before it.
    fn take_places(&self, now: Now, request: Request<'_>) -> Option<Waiting> {
        let Request { keys, .. } = request;
        let executor = &self.executor;
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
        Some(Waiting::new(waiters, store, executor.index, keys, &slots))
    }

    /// A waiting command runs again; its end, if that comes from outside.
    #[cold]
    pub(crate) fn unblock(&mut self, now: Now, session: &mut Session) -> Option<Attempt> {
        let wait = session.route.wait.as_mut()?;
        self.blocked.remove(wait.places.id());
        match session.client.take_unblock() {
            Some(Unblock::WithError) => return Some(Attempt::Ran(Err(UNBLOCKED))),
            Some(Unblock::AsIfOver) => wait.is_over = true,
            None => wait.is_over |= wait.until.is_some_and(|until| until <= now.mono),
        }
        None
    }

    /// Wakes commands that others have woken, for a change of a key or by CLIENT UNBLOCK.
    #[inline]
    pub(crate) fn wake_blocked(&mut self) {
        for id in self.executor.shared.waiters.take_woken(self.executor.index) {
            if let Some(ticket) = self.blocked.ticket(id) {
                self.parking.wake(ticket);
            }
        }
    }

    /// Wakes commands whose time is over.
    pub(crate) fn end_waits(&mut self, now: MonotonicUs) {
        for ticket in self.blocked.take_over(now) {
            self.parking.wake(ticket);
        }
    }

    /// Wakes commands that wait at positions which exports have given.
    pub(crate) fn wake_given(&mut self) {
        if self.blocked.len() == 0 || fault!(GivenKeyKeepsItsWaiters) {
            return;
        }
        let (ranges, step) = (&self.executor.ranges, self.executor.step);
        for ticket in self.blocked.at(|position| ranges.has_given(position, step)) {
            self.parking.wake(ticket);
        }
    }
}
