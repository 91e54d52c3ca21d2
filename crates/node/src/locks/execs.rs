//! EXEC and WATCH over keys of several nodes: what the connections asked for, and what became of it.
//!
//! Who opted in (`CLIENT CAPA cross-slot`) may name any keys. For all others this is what becomes of a
//! transaction over keys of one slot that has moved, or was split, since its commands were queued. A WATCH is
//! a transaction that looks at its keys.
//!
//! Purpose: the dispatcher leaves a transaction here, and its connection waits. The worker's [`OverNodes`]
//! commits it, and leaves the replies.
//!
//! [`OverNodes`]: super::OverNodes

use super::look;
use crate::admission::refusal_in_exec;
use crate::execute::Executor;
use crate::now::Now;
use crate::prepared::{Prepared, prepare};
use crate::queue::Ticket;
use crate::range_table::Redirect;
use crate::request::Request;
use crate::routing::{Asked, Verdict, judge};
use crate::session::Session;
use crate::table::CommandFlags;
use crate::transaction::Transaction;
use sidle_commands::{ReplyError, Run};
use sidle_resp::{ReplyWriter, RespVersion, Value};
use sidle_store::Store;
use sidle_txn::TransactionCommand;
use sidle_types::HashedKey;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

const ONLY_KEYS: ReplyError = ReplyError::text(
    "ERR a transaction over several nodes has only commands that name keys, and do not wait",
);
/// Why an EXEC has no replies.
pub(crate) enum Failed {
    /// Nothing was done, because of this.
    Aborted(ReplyError),
    /// Whether it was done is not known.
    Unknown(ReplyError),
}

/// What became of an EXEC; no replies if a watched key has changed.
pub(crate) type Executed = Result<Option<Vec<Value>>, Failed>;

/// A transaction that is to be committed.
pub(super) struct Begun {
    pub(super) ticket: Ticket,
    /// The looks at watched keys: before all commands.
    pub(super) looks: Vec<TransactionCommand>,
    pub(super) transaction: Arc<Transaction>,
    /// Its replies are in it.
    pub(super) version: RespVersion,
}

/// The EXECs over several nodes of a worker's connections.
#[derive(Default)]
pub(crate) struct Execs {
    begun: Vec<Begun>,
    /// Those whose connections wait.
    waiting: BTreeSet<Ticket>,
    ended: BTreeMap<Ticket, Executed>,
}

impl Execs {
    /// Whether an EXEC is one of these, or begins as one now.
    pub(crate) fn takes(
        &self,
        executor: &Executor,
        session: &Session,
        transaction: &Transaction,
        request: Request<'_>,
    ) -> bool {
        self.goes_on(session).unwrap_or_else(|| {
            let knows = || executor.ranges.map().version().has_transactions();
            !transaction.is_spoilt()
                && is_over_nodes(executor, session, request.keys)
                && (session.crosses_slots || knows() && may_follow(transaction, request.keys))
        })
    }

    /// The same of a WATCH.
    pub(crate) fn takes_watch(&self, executor: &Executor, session: &Session, request: Request<'_>) -> bool {
        let goes_on = || self.goes_on(session);
        session.crosses_slots
            && request.found.spec.name == "watch"
            && session.transaction.is_none()
            && goes_on().unwrap_or_else(|| is_over_nodes(executor, session, request.keys))
    }

    /// Whether the connection's request is one of these; unknown if it does not wait, or may begin anew.
    fn goes_on(&self, session: &Session) -> Option<bool> {
        match session.route.ticket {
            Some(ticket) if self.has(ticket) => Some(true),
            Some(_) if session.route.has_begun() => Some(false),
            Some(_) | None => None,
        }
    }

    /// Whether the connection's EXEC is one of these.
    pub(crate) fn has(&self, ticket: Ticket) -> bool {
        self.waiting.contains(&ticket) || self.ended.contains_key(&ticket)
    }

    /// What became of the one that its connection has waited for; otherwise it [begins](Self::begin), and
    /// waits under a ticket.
    pub(crate) fn go_on_with(
        &mut self,
        now: Now,
        executor: &Executor,
        session: &mut Session,
        what: (Request<'_>, Option<&Arc<Transaction>>),
        park: impl FnOnce() -> Ticket,
    ) -> Result<Executed, Ticket> {
        if let Some(ticket) = session.route.ticket.take() {
            return Ok(self.ended.remove(&ticket).expect("it is woken when it has ended"));
        }
        match self.begin(now, executor, session, what, park) {
            Ok(ticket) => Err(ticket),
            Err(executed) => Ok(executed),
        }
    }

    /// A connection waits under this ticket for a transaction, or without one for what its WATCH finds; or
    /// what became of it, if it cannot be one over several nodes.
    fn begin(
        &mut self,
        now: Now,
        executor: &Executor,
        session: &Session,
        (request, transaction): (Request<'_>, Option<&Arc<Transaction>>),
        park: impl FnOnce() -> Ticket,
    ) -> Result<Ticket, Executed> {
        let found = request.found;
        session.client.touch(now.wall, Some(found.id));
        executor.stats.command(found.id).calls.add(1);
        let Some(transaction) = transaction else {
            let looks = request.keys.iter().map(|key| look::command(key.bytes(), None)).collect();
            return Ok(self.add(session, looks, Arc::default(), park()));
        };
        if session.client.is_touched() {
            return Err(Ok(None));
        }
        let aborted = |error| Err(Err(Failed::Aborted(error)));
        for command in prepare(transaction) {
            if !names_keys(&command) {
                return aborted(ONLY_KEYS);
            }
            let Prepared { found, words, .. } = command;
            if let Some(error) = refusal_in_exec(&executor.shared, session, now.wall, found, &words) {
                return aborted(error);
            }
        }
        let states = session.watch.iter().flat_map(|watch| watch.states());
        let looks = states.map(|(key, state)| look::command(key, Some(state))).collect();
        Ok(self.add(session, looks, Arc::clone(transaction), park()))
    }

    fn add(
        &mut self,
        session: &Session,
        looks: Vec<TransactionCommand>,
        transaction: Arc<Transaction>,
        ticket: Ticket,
    ) -> Ticket {
        self.begun.push(Begun { ticket, looks, transaction, version: session.version });
        self.waiting.insert(ticket);
        ticket
    }

    /// Its connection is gone.
    pub(crate) fn left(&mut self, ticket: Ticket) {
        self.waiting.remove(&ticket);
        self.ended.remove(&ticket);
    }

    /// Whether there are transactions that nobody commits yet.
    pub(super) fn has_begun(&self) -> bool {
        !self.begun.is_empty()
    }

    pub(super) fn take_begun(&mut self) -> Vec<Begun> {
        std::mem::take(&mut self.begun)
    }

    /// One has ended; whether its connection waits for it.
    pub(super) fn end(&mut self, ticket: Ticket, executed: Executed) -> bool {
        let waits = self.waiting.remove(&ticket);
        if waits {
            self.ended.insert(ticket, executed);
        }
        waits
    }
}

/// Replies to an EXEC.
pub(crate) fn write_replies(replies: Option<Vec<Value>>, reply: &mut ReplyWriter<'_>) {
    match replies {
        Some(replies) => Value::Array(replies).write(reply),
        None => reply.null_array(),
    }
}

/// Keeps what a WATCH has found.
pub(crate) fn keep_states(
    session: &mut Session,
    store: &Arc<Store>,
    keys: &[HashedKey<'_>],
    executed: Executed,
) -> Result<(), ReplyError> {
    let found = match executed {
        Ok(found) => found.unwrap_or_default(),
        Err(Failed::Aborted(error) | Failed::Unknown(error)) => return Err(error),
    };
    let states = found.iter().map(look::read).collect::<Result<Vec<_>, _>>()?;
    session.watch(store, |watch| {
        keys.iter().zip(states).for_each(|(key, state)| watch.add_state(key.bytes(), state));
    });
    Ok(())
}

/// Whether these keys are not all this node's, and some node's; or watched by their states, which nodes
/// compare.
fn is_over_nodes(executor: &Executor, session: &Session, keys: &[HashedKey<'_>]) -> bool {
    let Executor { ranges, store, step, .. } = executor;
    let has_states_only = session.watch.as_ref().is_some_and(|watch| watch.has_states_only());
    if ranges.owns_everything() {
        return has_states_only;
    }
    match judge(ranges, store, *step, keys.iter().copied().enumerate(), false, &Asked::new()).verdict {
        Verdict::CrossSlot => true,
        Verdict::Redirect(redirect) => redirect != Redirect::NotServed,
        Verdict::Run | Verdict::NotHereYet(_) => has_states_only,
        Verdict::AwaitActivation(_) | Verdict::AwaitTable => false,
    }
}

/// Whether a transaction goes where its keys have gone, though its client knows nothing of several nodes:
/// they are in one slot. What cannot go there is redirected.
fn may_follow(transaction: &Transaction, keys: &[HashedKey<'_>]) -> bool {
    keys.iter().all(|key| key.slot() == keys[0].slot()) && prepare(transaction).iter().all(names_keys)
}

fn names_keys(Prepared { found, words, keys }: &Prepared<'_>) -> bool {
    matches!(found.spec.run, Run::OverKeys(_))
        && !found.spec.flags.contains(CommandFlags::BLOCKING)
        && !keys.is_empty()
        && !found.spec.is_over_unnamed(words)
}
