//! Deadlines, and operations that wait before their next attempt.

use crate::core::Core;
use crate::outcome::{Completions, Failure, Reason};
use sidle_types::MonotonicUs;
use std::cmp::Reverse;

impl Core {
    /// When the driver must call [`handle`](Self::handle) with [`Input::Tick`](crate::Input::Tick), whatever
    /// else happens.
    pub fn poll_timeout(&mut self) -> Option<MonotonicUs> {
        // Operations that ended leave their deadlines behind: nearly always the first one is such.
        while let Some(&(_, place, serial)) = self.deadlines.front()
            && !self.operations.is_current(place, serial)
        {
            self.deadlines.pop_front();
        }
        let deadline = self.deadlines.front().map(|&(at, ..)| at);
        let resting = self.resting.peek().map(|&Reverse((at, ..))| at);
        let times = [deadline, resting, self.connections_timeout(), self.refresh.timeout()];
        times.into_iter().flatten().min()
    }

    pub(crate) fn tick(&mut self, now: MonotonicUs, done: &mut impl Completions) {
        self.expire(now, done);
        while let Some(&Reverse((at, place, serial))) = self.resting.peek()
            && at <= now
        {
            self.resting.pop();
            if self.operations.is_current(place, serial) {
                self.attempt(now, place);
            }
        }
        self.tick_connections(now, done);
        self.tick_refresh(now);
    }

    fn expire(&mut self, now: MonotonicUs, done: &mut impl Completions) {
        while let Some(&(deadline, place, serial)) = self.deadlines.front() {
            let is_current = self.operations.is_current(place, serial);
            if is_current && deadline > now {
                break;
            }
            self.deadlines.pop_front();
            if !is_current {
                continue;
            }
            self.counters.timeouts += 1;
            let operation = &self.operations[place];
            let (connection, was_sent, sent_at) =
                (operation.connection, operation.may_have_run, operation.sent_at);
            let effect = operation.effect_without_answer();
            self.fail(place, Failure { reason: Reason::TimedOut, effect }, done);
            // A node that has said nothing at all since then is hung or cut off: a new connection may reach
            // it, or its successor, where this one will not.
            let state = &self.connections[connection as usize];
            if was_sent && state.is_ready() && state.heard_at <= sent_at {
                self.give_up(now, connection, done);
            }
        }
    }

    /// Makes the next attempt of every operation that waits for anything but an answer: the map has changed.
    pub(crate) fn wake_all(&mut self, now: MonotonicUs) {
        let resting = std::mem::take(&mut self.resting).into_iter();
        let resting = resting.map(|Reverse((_, place, serial))| (place, serial));
        let waiting: Vec<_> = std::mem::take(&mut self.unrouted).into_iter().chain(resting).collect();
        for (place, serial) in waiting {
            if self.operations.is_current(place, serial) {
                self.attempt(now, place);
            }
        }
    }
}
