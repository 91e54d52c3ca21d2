//! Transactions over several nodes that this node's connections asked for: they are committed here.
//!
//! Purpose: the node that has the connection is the transaction's coordinator: it prepares a part at each
//! owner, and replies once all have applied the transaction. If others are in its way it tries again, with
//! the same age. It goes on when its client has gone.
//!
//! Ownership: each worker, for its connections.

use super::execs::{Begun, Executed, Failed};
use super::own_requests::{OwnRequests, owner_of};
use super::pieces::{Pieces, in_pieces, join};
use crate::dispatch::Dispatcher;
use crate::forward::UNKNOWN;
use crate::now::Now;
use crate::queue::Ticket;
use crate::transaction::Transaction;
use sidle_commands::ReplyError;
use sidle_resp::{RespVersion, Value};
use sidle_txn::{Age, Attempt, Committing, Lost, Outcome, TransactionCommand, TransactionId};
use sidle_types::{CommitNumber, MonotonicUs};
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
const SEVERAL: ReplyError =
    ReplyError::text("CROSSSLOT the keys of one command are on several nodes: give each its own command");

/// The transactions that a worker commits.
#[derive(Default)]
pub(crate) struct OverNodes {
    running: Vec<OverNode>,
    goes_on_at: MonotonicUs,
}

/// One of them.
struct OverNode {
    ticket: Ticket,
    looks: Vec<TransactionCommand>,
    transaction: Arc<Transaction>,
    /// What its commands are in the running attempt.
    pieces: Vec<Pieces>,
    version: RespVersion,
    age: Age,
    gives_up_at: MonotonicUs,
    state: State,
    /// Attempts whose outcome is known, and not at all keys yet.
    last: Vec<OwnRequests>,
}

enum State {
    Runs(Box<OwnRequests>),
    /// Others were in its way.
    RestsUntil(MonotonicUs),
    /// What became of it, until that is taken.
    Ended(Option<Executed>),
}

impl OverNodes {
    /// How many there are.
    pub(crate) fn len(&self) -> usize {
        self.running.len()
    }

    /// How many of their requests have not ended.
    pub(crate) fn requests(&self) -> usize {
        self.running.iter().flat_map(OverNode::requests).map(OwnRequests::len).sum()
    }

    /// Whether some wait for a later commit than this.
    pub(crate) fn awaits_more_than(&self, safe: CommitNumber) -> bool {
        let mut requests = self.running.iter().flat_map(OverNode::requests);
        requests.any(|own| own.least_shown().is_some_and(|shown| shown > safe))
    }

    /// A request has been woken: whether it is one of these.
    pub(crate) fn woken(&mut self, ticket: Ticket) -> bool {
        let is_own = self.running.iter().any(|over| over.requests().any(|own| own.waits_under(ticket)));
        if is_own {
            self.goes_on_at = MonotonicUs(0);
        }
        is_own
    }

    /// When [`pass_time`](Self::pass_time) is due.
    pub(crate) fn poll_timeout(&self, dispatcher: &Dispatcher) -> Option<MonotonicUs> {
        match dispatcher.execs.has_begun() {
            true => Some(MonotonicUs(0)),
            false => (!self.running.is_empty()).then_some(self.goes_on_at),
        }
    }

    /// Carries all on, and wakes the connections of those that have ended. `safe`: what replies may show.
    pub(crate) fn pass_time(&mut self, now: Now, dispatcher: &mut Dispatcher, safe: CommitNumber) {
        let begun = dispatcher.execs.take_begun().into_iter();
        self.running.extend(begun.map(|begun| OverNode::new(now, begun)));
        for over in &mut self.running {
            over.go_on(now, dispatcher, safe);
            if let State::Ended(executed) = &mut over.state
                && let Some(executed) = executed.take()
                && dispatcher.execs.end(over.ticket, executed)
            {
                dispatcher.parking.wake(over.ticket);
            }
        }
        self.running.retain(|over| !over.is_over());
        // Whatever may not be sent now may not count, either.
        let may_count = dispatcher.executor.shared.durability.lease.lasts(|| now.mono).then_some(safe);
        let next = self.running.iter().map(|over| over.deadline(now.mono, may_count)).min();
        self.goes_on_at = next.unwrap_or_default();
    }
}

impl OverNode {
    fn new(now: Now, Begun { ticket, looks, transaction, version }: Begun) -> OverNode {
        let (age, gives_up_at) = (Age(now.wall), now.mono.plus_us(PATIENCE_US));
        let (state, pieces, last) = (State::RestsUntil(now.mono), Vec::new(), Vec::new());
        OverNode { ticket, looks, transaction, pieces, version, age, gives_up_at, state, last }
    }

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
    fn attempt(&mut self, now: Now, dispatcher: &Dispatcher) -> State {
        let random = &dispatcher.executor.random;
        let id = TransactionId(u128::from(random.next()) << 64 | u128::from(random.next()));
        let attempt = Attempt { id, age: self.age, issued: now.wall, keeps_errors: true };
        let ranges = &dispatcher.executor.ranges;
        let owner = |position| owner_of(ranges, position);
        let (commands, pieces) = in_pieces(&self.transaction, |key| owner(key.position()));
        self.pieces = pieces;
        let commands = self.looks.iter().cloned().chain(commands).collect();
        match Committing::begin(now.mono, attempt, commands, owner) {
            Ok(committing) => State::Runs(Box::new(OwnRequests::new(committing, self.version))),
            Err(_) => State::Ended(Some(Err(Failed::Aborted(SEVERAL)))),
        }
    }

    /// The state behind an attempt with this outcome.
    fn after(&self, now: Now, outcome: Outcome, dispatcher: &Dispatcher) -> State {
        let replies = |parts: &[Vec<u8>]| match &self.state {
            State::Runs(requests) => requests.committing.replies(parts),
            State::RestsUntil(_) | State::Ended(_) => None,
        };
        let is_watch = self.transaction.queued().is_empty();
        let joined = |replies: Vec<Value>| match is_watch {
            // What the looks found.
            true => Some(replies),
            false => join(&self.pieces, replies),
        };
        if matches!(outcome, Outcome::Committed(_)) && !is_watch {
            dispatcher.executor.stats.transactions.committed.add(1);
        }
        State::Ended(Some(match outcome {
            Outcome::Committed(parts) => replies(&parts).and_then(joined).map(Some).ok_or_else(unknown),
            Outcome::Aborted(Lost::Changed) => Ok(None),
            Outcome::Aborted(Lost::Failed(line)) => Err(Failed::Aborted(ReplyError::owned(line))),
            Outcome::Aborted(_) if now.mono < self.gives_up_at => {
                let rest_us = 1 + dispatcher.executor.random.next() % REST_US;
                return State::RestsUntil(now.mono.plus_us(rest_us));
            }
            Outcome::Aborted(_) => Err(Failed::Aborted(IN_USE)),
            Outcome::Unknown => Err(unknown()),
        }))
    }
}

fn unknown() -> Failed {
    let text = "whether the transaction is done: the nodes decide it, look at its keys";
    Failed::Unknown(ReplyError::owned(format!("{UNKNOWN} {text}")))
}
