//! EXEC over keys of several nodes: what the connections asked for, and what became of it.
//!
//! Who opted in (`CLIENT CAPA cross-slot`) may name any keys. For all others this is what becomes of a
//! transaction over keys of one slot that has moved, or was split, since its commands were queued.
//!
//! Purpose: the dispatcher leaves a transaction here, and its connection waits. The worker's [`OverNodes`]
//! commits it, and leaves the replies.
//!
//! [`OverNodes`]: super::OverNodes

use crate::admission::refusal_in_exec;
use crate::execute::Executor;
use crate::now::Now;
use crate::prepared::{Prepared, prepare};
use crate::queue::Ticket;
use crate::range_table::Redirect;
use crate::request::Request;
use crate::routing::{Asked, Verdict, judge};
use crate::session::Session;
use crate::table::{CommandFlags, Found};
use crate::transaction::Transaction;
use sidle_commands::{ReplyError, Run};
use sidle_resp::{RespVersion, Value};
use sidle_types::HashedKey;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

const ONLY_KEYS: ReplyError = ReplyError::text(
    "ERR a transaction over several nodes has only commands that name keys, and do not wait",
);
const WATCHES: ReplyError = ReplyError::text(
    "ERR a transaction over several nodes cannot be conditional on watched keys: UNWATCH first",
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
        match session.route.ticket {
            Some(ticket) if self.has(ticket) => return true,
            Some(_) if session.route.has_begun() => return false,
            Some(_) | None => {}
        }
        let Executor { ranges, store, step, .. } = executor;
        if transaction.is_spoilt() || ranges.owns_everything() {
            return false;
        }
        let keys = request.keys.iter().copied().enumerate();
        let is_elsewhere = match judge(ranges, store, *step, keys, false, &Asked::new()).verdict {
            Verdict::CrossSlot => true,
            Verdict::Redirect(redirect) => redirect != Redirect::NotServed,
            _ => false,
        };
        let knows = || ranges.map().version().has_transactions();
        is_elsewhere && (session.crosses_slots || knows() && may_follow(transaction, request.keys))
    }

    /// Whether the connection's EXEC is one of these.
    pub(crate) fn has(&self, ticket: Ticket) -> bool {
        self.waiting.contains(&ticket) || self.ended.contains_key(&ticket)
    }

    /// A connection waits for a transaction under this ticket; or what became of it, if it cannot be one over
    /// several nodes.
    pub(crate) fn begin(
        &mut self,
        now: Now,
        executor: &Executor,
        session: &Session,
        (found, transaction): (Found, &Arc<Transaction>),
        park: impl FnOnce() -> Ticket,
    ) -> Result<Ticket, Executed> {
        session.client.touch(now.wall, Some(found.id));
        executor.stats.command(found.id).calls.add(1);
        let aborted = |error| Err(Err(Failed::Aborted(error)));
        if session.watch.is_some() {
            return if session.crosses_slots { aborted(WATCHES) } else { Err(Ok(None)) };
        }
        for command in prepare(transaction) {
            if !names_keys(&command) {
                return aborted(ONLY_KEYS);
            }
            let Prepared { found, words, .. } = command;
            if let Some(error) = refusal_in_exec(&executor.shared, session, now.wall, found, &words) {
                return aborted(error);
            }
        }
        let (ticket, version, transaction) = (park(), session.version, Arc::clone(transaction));
        self.begun.push(Begun { ticket, transaction, version });
        self.waiting.insert(ticket);
        Ok(ticket)
    }

    /// What became of the one that has been woken.
    pub(crate) fn take_ended(&mut self, ticket: Ticket) -> Option<Executed> {
        self.ended.remove(&ticket)
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
