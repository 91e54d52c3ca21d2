//! What a connection owes and holds, and how it ends if its client does not end it.

use super::{Connection, State, Step};
use crate::worker::accept::TOO_MANY_CLIENTS;
use crate::worker::engine::{Engine, ROUND_BYTES, SharedEngine};
use sidle_node::{Buffers, ClientTotals, Closing, Ending};
use sidle_types::MonotonicUs;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::task::Context;

/// How long a client beyond `maxclients` may take to show that it is an operator. Programs send at once;
/// one that waits for the node's first message must get Redis's answer soon.
const GUEST_PATIENCE_US: u64 = 300_000;
/// How long a client may take to close after the node's last reply.
const FAREWELL_PATIENCE_US: u64 = 10_000_000;
/// At most one log line in this time on attacks by way of a browser: Redis's own pace.
const ATTACK_LINES_US: u64 = 60_000_000;

/// What the connection owes by a deadline.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Owes {
    Nothing,
    FirstRequest,
    Password,
    Farewell,
}

impl Connection {
    /// The work of the first poll: from here on the connection can be woken from outside.
    #[cold]
    pub(super) fn begin(&mut self, cx: &Context<'_>) {
        let owes = match (self.session.is_guest, self.session.authenticated) {
            (true, _) => Owes::FirstRequest,
            (false, false) => Owes::Password,
            (false, true) => Owes::Nothing,
        };
        let shared = SharedEngine::clone(&self.engine);
        let engine = &mut *shared.borrow_mut();
        engine.watch.enter(self.id, self.session.client.record(), cx.waker().clone());
        self.owe(engine, owes);
        self.has_begun = true;
    }

    /// What the connection owes once its requests have run.
    #[inline]
    pub(super) fn follow_debts(&mut self, engine: &mut Engine) {
        let owes = match (&self.state, self.session.authenticated) {
            (State::Closing | State::Lingering(_), _) => Owes::Farewell,
            (_, false) => Owes::Password,
            (_, true) => Owes::Nothing,
        };
        if owes != self.owes && !self.session.is_forwarded {
            self.owe(engine, owes);
        }
    }

    #[cold]
    fn owe(&mut self, engine: &mut Engine, owes: Owes) {
        self.owes = owes;
        if owes == Owes::Farewell {
            self.session.client.note_leaving();
        }
        let patience_us = match owes {
            Owes::Nothing => None,
            Owes::FirstRequest => Some(GUEST_PATIENCE_US),
            Owes::Password => engine.limits.password_patience_us,
            Owes::Farewell => Some(FAREWELL_PATIENCE_US),
        };
        let now = engine.now().mono;
        let deadline = patience_us.map(|patience_us| MonotonicUs(now.0 + patience_us));
        engine.watch.set_deadline(self.id, deadline);
    }

    /// Another task wants the connection to end; returns whether it does.
    #[cold]
    pub(super) fn ends(&mut self, why: Ending) -> Step {
        let address = &self.session.client.address;
        let waits_for_the_node = matches!(self.state, State::Parked(_) | State::Asking(_));
        let listens = self.is_aware || self.is_monitoring;
        match why {
            // It is not silent: the node owes the answer, or the client listens for pushes.
            Ending::Idle if waits_for_the_node || listens => {
                self.session.client.spare();
                return Step::Go;
            }
            Ending::Idle => tracing::debug!("closed {address}: idle for longer than the timeout"),
            Ending::Killed => tracing::info!("closed {address}: CLIENT KILL"),
            // The reason was sent already.
            Ending::Displaced if self.owes == Owes::Farewell => {}
            Ending::Displaced if self.owes != Owes::FirstRequest => {
                tracing::info!("closed {address}: another operator needs its place");
            }
            // The one that decided it has reported it.
            Ending::Evicted => {}
            Ending::Displaced | Ending::Overdue if self.owes == Owes::FirstRequest => {
                self.count(|totals| &totals.rejected);
                // A fresh socket's buffer takes all of this; a client that is gone needs no reply.
                let _ = self.stream.try_write(TOO_MANY_CLIENTS);
            }
            Ending::Displaced | Ending::Overdue => {
                tracing::debug!("closed {address}: it did not do in time what it owed")
            }
        }
        Step::Over
    }

    /// Logs why the node closes the connection, if an operator has to know.
    #[cold]
    pub(super) fn tell_why(&mut self, engine: &mut Engine, why: Closing) {
        let address = &self.session.client.address;
        match why {
            Closing::Asked => {}
            Closing::Protocol => tracing::debug!("closed {address}: it broke the protocol"),
            Closing::RequestTooLong => {
                ClientTotals::count(&engine.shared.clients.totals.query_limit);
                tracing::warn!("closed {address}: a request is longer than it may be");
            }
            Closing::NoPlace => ClientTotals::count(&engine.shared.clients.totals.rejected),
            Closing::ReplyTooLong => {
                ClientTotals::count(&engine.shared.clients.totals.output_limit);
                let most = engine.shared.config.output_bytes();
                tracing::warn!("closed {address}: a reply passed the {most} bytes that may stand unread");
            }
            Closing::CrossProtocol => {
                static LAST_US: AtomicU64 = AtomicU64::new(0);
                let now_us = engine.now().mono.0.max(1);
                let is_due =
                    |last_us: u64| (last_us == 0 || now_us >= last_us + ATTACK_LINES_US).then_some(now_us);
                if LAST_US.fetch_update(Relaxed, Relaxed, is_due).is_ok() {
                    tracing::warn!(
                        "closed {address}: it sent POST or Host:, as a browser does. Possible SECURITY \
                         ATTACK: a web page may be trying to send commands to this node (cross protocol scripting)"
                    );
                }
            }
        }
    }

    fn count(&self, total: impl Fn(&ClientTotals) -> &AtomicU64) {
        ClientTotals::count(total(&self.engine.borrow().shared.clients.totals));
    }

    /// Records the connection's size, for the sum of all and for CLIENT LIST. Call it
    /// wherever it may have grown, before the worker turns to something else. It costs nothing for an
    /// empty connection.
    #[inline]
    pub(super) fn account(&mut self) {
        let input_bytes = match self.input.capacity() {
            // These are lent by the worker; they come back within the round.
            0..=ROUND_BYTES => 0,
            capacity => capacity,
        };
        let total = input_bytes + self.parser.kept_bytes() + self.output.capacity();
        if total != 0 || self.held_bytes != 0 {
            self.hold(total, input_bytes);
        }
    }

    #[cold]
    fn hold(&mut self, total: usize, input_bytes: usize) {
        let has_grown = total > self.held_bytes;
        self.held_bytes = total;
        let input = self.input.len().min(input_bytes);
        self.session.client.hold(Buffers {
            input: input as u64,
            input_free: (input_bytes - input) as u64,
            arguments: self.parser.kept_bytes() as u64,
            output: self.output.capacity() as u64,
        });
        if has_grown {
            self.engine.borrow_mut().keep_clients_small();
        }
    }
}
