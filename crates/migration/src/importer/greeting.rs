//! Connections to the source: opened by the target, one for each lane, greeted, and reopened when they are
//! cut.
//!
//! M10: requests in flight on a lane are repeated once its new connection is greeted.

use crate::resend::Resend;
use crate::tuning::{RECONNECT_US, RECONNECT_US_MAX, RESEND_US};
use sidle_types::MonotonicUs;
use sidle_wire::Hello;

#[derive(Debug)]
enum State {
    /// The driver was asked to open the connection.
    Connecting,
    /// No connection; to be opened at this instant.
    Down { retry_at: MonotonicUs },
    /// Open; `Hello` is to be sent, or was and is not answered.
    Greeting(Resend),
    /// Open, but the source does not take part (yet): to be greeted at this instant.
    Postponed { retry_at: MonotonicUs },
    /// Greeted.
    Up,
}

/// One lane's connection.
#[derive(Debug)]
pub(super) struct Greeting {
    state: State,
    wait_us: u64,
}

impl Default for Greeting {
    fn default() -> Greeting {
        Greeting { state: State::Connecting, wait_us: RECONNECT_US }
    }
}

impl Greeting {
    pub(super) fn connected(&mut self) {
        self.state = State::Greeting(Resend::new(RESEND_US));
    }

    pub(super) fn disconnected(&mut self, now: MonotonicUs) {
        self.state = State::Down { retry_at: self.back_off(now) };
    }

    pub(super) fn postponed(&mut self, now: MonotonicUs) {
        if matches!(self.state, State::Greeting(_) | State::Up) {
            self.state = State::Postponed { retry_at: self.back_off(now) };
        }
    }

    fn back_off(&mut self, now: MonotonicUs) -> MonotonicUs {
        let retry_at = now.plus_us(self.wait_us);
        self.wait_us = (self.wait_us * 2).min(RECONNECT_US_MAX);
        retry_at
    }

    /// The connection carried a valid answer: the next failure counts as a first one.
    pub(super) fn proved(&mut self) {
        self.wait_us = RECONNECT_US;
    }

    /// Handles the passing of time; returns whether the connection is to be opened.
    pub(super) fn timeout(&mut self, now: MonotonicUs) -> bool {
        match &mut self.state {
            State::Down { retry_at } if *retry_at <= now => {
                self.state = State::Connecting;
                return true;
            }
            State::Postponed { retry_at } if *retry_at <= now => self.connected(),
            State::Greeting(resend) => resend.expire(now),
            State::Down { .. } | State::Postponed { .. } | State::Connecting | State::Up => {}
        }
        false
    }

    pub(super) fn deadline(&self) -> Option<MonotonicUs> {
        match &self.state {
            State::Down { retry_at } | State::Postponed { retry_at } => Some(*retry_at),
            State::Greeting(resend) => resend.deadline(),
            State::Connecting | State::Up => None,
        }
    }

    pub(super) fn is_up(&self) -> bool {
        matches!(self.state, State::Up)
    }

    /// Sends `Hello` if it is due.
    pub(super) fn transmit(&mut self, now: MonotonicUs, hello: Hello, out: &mut Vec<u8>) -> bool {
        let State::Greeting(resend) = &mut self.state else { return false };
        if !resend.is_due() {
            return false;
        }
        resend.sent(now);
        hello.write(out);
        true
    }

    /// The source answered `Hello`; returns whether that was awaited. An answer on an earlier connection
    /// means nothing for one that has not been greeted.
    pub(super) fn greeted(&mut self) -> bool {
        let is_greeting = matches!(self.state, State::Greeting(_));
        if is_greeting {
            self.state = State::Up;
        }
        is_greeting
    }
}
