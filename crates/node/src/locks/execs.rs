//! EXEC over keys of several nodes, for connections that opted in (`CLIENT CAPA cross-slot`): what the
//! connections asked for, and what became of it.
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
use crate::table::CommandFlags;
use crate::transaction::Transaction;
use sidle_commands::{ReplyError, Run};
use sidle_resp::{RespVersion, Value};
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

/// What became of an EXEC.
pub(crate) type Executed = Result<Vec<Value>, Failed>;

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
    /// Whether an EXEC that does not wait yet is one over several nodes, or at another node.
    pub(crate) fn takes(executor: &Executor, session: &Session, request: Request<'_>) -> bool {
        let Executor { ranges, store, step, .. } = executor;
        if !session.crosses_slots || ranges.owns_everything() {
            return false;
        }
        let keys = request.keys.iter().copied().enumerate();
        match judge(ranges, store, *step, keys, false, &Asked::new()).verdict {
            Verdict::CrossSlot => true,
            Verdict::Redirect(redirect) => redirect != Redirect::NotServed,
            _ => false,
        }
    }

    /// Whether the connection's EXEC is one of these.
    pub(crate) fn has(&self, ticket: Ticket) -> bool {
        self.waiting.contains(&ticket) || self.ended.contains_key(&ticket)
    }

    /// A connection waits for a transaction under this ticket; an error if it cannot be one over several
    /// nodes.
    pub(crate) fn begin(
        &mut self,
        now: Now,
        executor: &Executor,
        session: &Session,
        transaction: &Arc<Transaction>,
        park: impl FnOnce() -> Ticket,
    ) -> Result<Ticket, ReplyError> {
        if session.watch.is_some() {
            return Err(WATCHES);
        }
        for command in prepare(transaction) {
            if !names_keys(&command) {
                return Err(ONLY_KEYS);
            }
            let Prepared { found, words, .. } = command;
            if let Some(error) = refusal_in_exec(&executor.shared, session, now.wall, found, &words) {
                return Err(error);
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

fn names_keys(Prepared { found, words, keys }: &Prepared<'_>) -> bool {
    matches!(found.spec.run, Run::OverKeys(_))
        && !found.spec.flags.contains(CommandFlags::BLOCKING)
        && !keys.is_empty()
        && !found.spec.is_over_unnamed(words)
}
