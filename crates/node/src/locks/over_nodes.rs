//! EXEC over keys of several nodes, for connections that opted in (`CLIENT CAPA sidle cross-slot`).
//!
//! Purpose: the node that has the connection is the transaction's coordinator: it prepares a part at each
//! owner, and replies once all have applied the transaction. If others are in its way it tries again, with
//! the same age. It goes on when its client has gone.
//!
//! Ownership: each worker, for its connections.

use super::own_requests::{OwnRequests, owner_of};
use crate::dispatch::Dispatcher;
use crate::forward::UNKNOWN;
use crate::now::Now;
use crate::prepared::{Prepared, prepare};
use crate::queue::Ticket;
use crate::table::CommandFlags;
use crate::transaction::Transaction;
use sidle_commands::{ReplyError, Run};
use sidle_resp::{RespVersion, Value};
use sidle_txn::{Age, Attempt, Committing, Lost, Outcome, TransactionCommand, TransactionId};
use sidle_types::{CommitNumber, MonotonicUs};
use std::collections::BTreeMap;
use std::sync::Arc;

/// Others may be in its way for so long.
const PATIENCE_US: u64 = 10_000_000;
/// The rest before another attempt, at most; it is drawn.
const REST_US: u64 = 10_000;
/// What is safe is looked at so often while a reply waits for it.
const LOOK_US: u64 = 500;
/// Their own times pass so often, without an event.
const TURN_US: u64 = 20_000;

const IN_USE: ReplyError =
    ReplyError::text("TRYAGAIN other transactions have locked the keys: nothing was done, send it again");
const ONLY_KEYS: ReplyError = ReplyError::text(
    "ERR a transaction over several nodes has only commands that name keys, and do not wait",
);
const SEVERAL: ReplyError =
    ReplyError::text("CROSSSLOT the keys of one command are on several nodes: give each its own command");

/// The EXECs over several nodes of a worker.
#[derive(Default)]
pub(crate) struct OverNodes {
    by_ticket: BTreeMap<Ticket, OverNode>,
    goes_on_at: MonotonicUs,
}

/// One of them.
struct OverNode {
    transaction: Arc<Transaction>,
    version: RespVersion,
    age: Age,
    gives_up_at: MonotonicUs,
    state: State,
    /// Attempts whose outcome is known, and not at all keys yet.
    last: Vec<OwnRequests>,
    has_client: bool,
}

enum State {
    Runs(Box<OwnRequests>),
    /// Others were in its way.
    RestsUntil(MonotonicUs),
    /// Its reply waits to be taken, if it has not been.
    Ended(Result<Vec<Value>, ReplyError>),
}

impl OverNodes {
    pub(crate) fn has(&self, ticket: Ticket) -> bool {
        self.by_ticket.contains_key(&ticket)
    }

    /// The reply of one that has been woken; its replies, or why nothing was done.
    pub(crate) fn take_ended(&mut self, ticket: Ticket) -> Option<Result<Vec<Value>, ReplyError>> {
        let over = self.by_ticket.get_mut(&ticket)?;
        let State::Ended(result) = &mut over.state else { unreachable!("it is woken when it has ended") };
        over.has_client = false;
        Some(std::mem::replace(result, Ok(Vec::new())))
    }

    /// Its connection is gone.
    pub(crate) fn left(&mut self, ticket: Ticket) {
        self.by_ticket.entry(ticket).and_modify(|over| over.has_client = false);
    }

    /// A request has been woken: whether it is one of these.
    pub(crate) fn woken(&mut self, ticket: Ticket) -> bool {
        let is_own = self.by_ticket.values().any(|over| over.requests().any(|own| own.waits_under(ticket)));
        if is_own {
            self.goes_on_at = MonotonicUs(0);
        }
        is_own
    }

    /// When [`pass_time`](Self::pass_time) is due.
    pub(crate) fn poll_timeout(&self) -> Option<MonotonicUs> {
        (!self.by_ticket.is_empty()).then_some(self.goes_on_at)
    }

    /// Begins one, for the connection that waits under this ticket.
    pub(crate) fn begin(
        &mut self,
        now: Now,
        ticket: Ticket,
        transaction: Arc<Transaction>,
        version: RespVersion,
    ) {
        let (age, gives_up_at) = (Age(now.wall), now.mono.plus_us(PATIENCE_US));
        let (state, last) = (State::RestsUntil(now.mono), Vec::new());
        let over = OverNode { transaction, version, age, gives_up_at, state, last, has_client: true };
        self.by_ticket.insert(ticket, over);
        self.goes_on_at = MonotonicUs(0);
    }

    /// Carries all on. `safe`: what replies may show.
    pub(crate) fn pass_time(&mut self, now: Now, dispatcher: &mut Dispatcher, safe: CommitNumber) {
        for (&ticket, over) in &mut self.by_ticket {
            over.go_on(now, dispatcher, safe);
            if let State::Ended(_) = over.state {
                dispatcher.parking.wake(ticket);
            }
        }
        self.by_ticket.retain(|_, over| over.has_client || !over.is_over());
        // Whatever may not be sent now may not count, either.
        let may_count = dispatcher.executor.shared.durability.lease.lasts(|| now.mono).then_some(safe);
        let next = self.by_ticket.values().map(|over| over.deadline(now.mono, may_count)).min();
        self.goes_on_at = next.unwrap_or_default();
    }
}

impl OverNode {
    fn requests(&self) -> impl Iterator<Item = &OwnRequests> {
        let running = match &self.state {
            State::Runs(requests) => Some(&**requests),
            State::RestsUntil(_) | State::Ended(_) => None,
        };
        running.into_iter().chain(&self.last)
    }

    fn is_over(&self) -> bool {
        matches!(self.state, State::Ended(_)) && self.last.is_empty()
    }

    /// `may_count`: the last commit that replies may show.
    fn deadline(&self, now: MonotonicUs, may_count: Option<CommitNumber>) -> MonotonicUs {
        let replies = match self.requests().filter_map(OwnRequests::least_shown).min() {
            Some(shown) if may_count.is_some_and(|safe| shown <= safe) => now,
            Some(_) => now.plus_us(LOOK_US),
            None => now.plus_us(TURN_US),
        };
        match self.state {
            State::RestsUntil(until) => until.min(replies),
            State::Runs(_) | State::Ended(_) => replies,
        }
    }

    fn go_on(&mut self, now: Now, dispatcher: &mut Dispatcher, safe: CommitNumber) {
        for requests in self.last.iter_mut() {
            requests.go_on(now, dispatcher, safe);
        }
        for requests in self.last.extract_if(.., |requests| requests.committing.is_over()) {
            requests.leave(dispatcher);
        }
        match &mut self.state {
            State::RestsUntil(until) if *until <= now.mono => self.state = self.attempt(now, dispatcher),
            State::RestsUntil(_) | State::Ended(_) => return,
            State::Runs(_) => {}
        }
        let State::Runs(requests) = &mut self.state else { return };
        requests.go_on(now, dispatcher, safe);
        if let Some(outcome) = requests.committing.poll_outcome() {
            let next = self.after(now, outcome, dispatcher);
            if let State::Runs(requests) = std::mem::replace(&mut self.state, next) {
                self.last.push(*requests);
            }
        }
    }

    /// Another attempt, under the map of now.
    fn attempt(&self, now: Now, dispatcher: &Dispatcher) -> State {
        let random = &dispatcher.executor.random;
        let id = TransactionId(u128::from(random.next()) << 64 | u128::from(random.next()));
        let attempt = Attempt { id, age: self.age, issued: now.wall, keeps_errors: true };
        let ranges = &dispatcher.executor.ranges;
        let owner = |position| owner_of(ranges, position);
        let commands = prepare(&self.transaction).iter().map(command_of).collect();
        match Committing::begin(now.mono, attempt, commands, owner) {
            Ok(committing) => State::Runs(Box::new(OwnRequests::new(committing, self.version))),
            Err(_) => State::Ended(Err(SEVERAL)),
        }
    }

    /// The state behind an attempt with this outcome.
    fn after(&self, now: Now, outcome: Outcome, dispatcher: &Dispatcher) -> State {
        let replies = |parts: &[Vec<u8>]| match &self.state {
            State::Runs(requests) => requests.committing.replies(parts),
            State::RestsUntil(_) | State::Ended(_) => None,
        };
        State::Ended(match outcome {
            Outcome::Committed(parts) => replies(&parts).ok_or_else(unknown),
            Outcome::Aborted(Lost::Failed(line)) => Err(ReplyError::owned(line)),
            Outcome::Aborted(_) if now.mono < self.gives_up_at => {
                let rest_us = 1 + dispatcher.executor.random.next() % REST_US;
                return State::RestsUntil(now.mono.plus_us(rest_us));
            }
            Outcome::Aborted(_) => Err(IN_USE),
            Outcome::Unknown => Err(unknown()),
        })
    }
}

/// Why a transaction cannot be one over several nodes, if it cannot.
pub(crate) fn refusal_over_nodes(transaction: &Transaction) -> Option<ReplyError> {
    let names_keys = |Prepared { found, words, keys }: Prepared<'_>| {
        matches!(found.spec.run, Run::OverKeys(_))
            && !found.spec.flags.contains(CommandFlags::BLOCKING)
            && !keys.is_empty()
            && !found.spec.is_over_unnamed(&words)
    };
    let all = prepare(transaction).into_iter().all(names_keys);
    (!all).then_some(ONLY_KEYS)
}

fn unknown() -> ReplyError {
    ReplyError::owned(format!(
        "{UNKNOWN} whether the transaction is done: the nodes decide it, look at its keys"
    ))
}

fn command_of(prepared: &Prepared<'_>) -> TransactionCommand {
    let Prepared { found, words, .. } = prepared;
    TransactionCommand {
        words: words.iter().map(|word| word.to_vec()).collect(),
        keys: found.spec.keys.indices(words).collect(),
        check: None,
    }
}
