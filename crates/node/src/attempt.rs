//! The result of an attempt to run a command, where it is that the keys are elsewhere.

use crate::call::CommandResult;
use crate::execute::Executor;
use crate::forward::NOT_HERE_ERROR;
use crate::queue::Ticket;
use crate::range_table::{RangeTable, Redirect, Role};
use crate::refusals::{NOT_SERVED, redirect_error, several_owners};
use crate::request::Request;
use crate::routing::{Asked, INLINE_KEYS, Missing, Verdict, judge};
use crate::session::Session;
use crate::table::{Access, CommandFlags};
use sidle_commands::ReplyError;
use sidle_migration::{ImportView, OnMissing};
use sidle_types::{HashedKey, MigrationId, Position, fault};
use smallvec::SmallVec;
use std::sync::Arc;

/// The result of an attempt to run a command.
pub(crate) enum Attempt {
    /// It ran.
    Ran(CommandResult),
    /// It ran, and its reply passed the limit.
    ReplyTooLong,
    /// It did not run; the reply gives the reason.
    Refused(ReplyError),
    /// The import is not active yet.
    AwaitActivation(MigrationId),
    /// What it needs is being taken over from a dead node.
    AwaitTable,
    /// These keys have to be pulled first.
    Pull(SmallVec<[Missing; INLINE_KEYS]>),
    /// The reply sends the client to the source. One in so many of these is drawn for a sampled pull.
    NotHereYet { migration: MigrationId, position: Position, sample_one_in: Option<u32> },
    /// The client is to retry after so many microseconds; meanwhile these keys are pulled.
    Retry(u32, SmallVec<[Missing; INLINE_KEYS]>),
    /// Some of its keys are elsewhere, and the client cannot be redirected to them.
    Elsewhere,
    /// It waits for other nodes.
    Parked(Ticket),
    /// It waits for a command that holds one of its keys (F8).
    AwaitHold,
}

/// Whether a command has to know what its keys have.
#[inline]
pub(crate) fn needs_old_values(request: Request<'_>) -> bool {
    match request.found.spec.access {
        Access::NoKeys => false,
        Access::Read => true,
        Access::BlindWrite(is_blind) => !is_blind(request.args),
        Access::ReadWrite if fault!(IncrementsStartAtZero) => false,
        Access::ReadWrite => true,
    }
}

/// The migration that gives one of these keys bit by bit, and in which the target takes the others of its
/// range too.
#[cold]
fn given_of(ranges: &RangeTable, keys: &[HashedKey<'_>]) -> Option<MigrationId> {
    keys.iter().find_map(|key| match &ranges.entry_at(key.position()).role {
        Role::Exporting(view) if view.is_by_cuts() => Some(view.id()),
        _ => None,
    })
}

/// The answer to an opted-in client whose key was given: it remembers that, and asks the target.
#[cold]
fn given_error(migration: MigrationId) -> ReplyError {
    ReplyError::owned(format!("SIDLEGIVEN {migration} this node has given the key to the migration's target"))
}

/// The outcome of a command with keys elsewhere. `stays`: it is not forwarded, since it would wait there for
/// its client.
#[cold]
fn not_here(session: &Session, verdict: Verdict<'_>, stays: bool) -> Attempt {
    match verdict {
        // Another node knows no more about unserved positions.
        Verdict::Redirect(Redirect::NotServed) => Attempt::Refused(NOT_SERVED),
        _ if session.is_forwarded => Attempt::Refused(NOT_HERE_ERROR),
        Verdict::CrossSlot => Attempt::Elsewhere,
        Verdict::Redirect(_) if session.forwards_all => Attempt::Elsewhere,
        Verdict::Redirect(Redirect::Ask(..)) if !session.capa_sidle && !stays => Attempt::Elsewhere,
        Verdict::Redirect(redirect) => Attempt::Refused(redirect_error(redirect)),
        _ => unreachable!("it may run or wait here"),
    }
}

/// The outcome of a command with this verdict.
#[cold]
pub(crate) fn elsewhere(
    ranges: &RangeTable,
    session: &Session,
    Request { found, keys, .. }: Request<'_>,
    verdict: Verdict<'_>,
) -> Attempt {
    let knows_cuts = session.is_aware() && session.reads_version.has_cuts();
    let stays = found.spec.flags.contains(CommandFlags::BLOCKING);
    match verdict {
        Verdict::Redirect(_) if knows_cuts && let Some(id) = given_of(ranges, keys) => {
            Attempt::Refused(given_error(id))
        }
        Verdict::CrossSlot if stays => Attempt::Refused(several_owners(ranges, found.spec.name, keys)),
        verdict => not_here(session, verdict, stays),
    }
}

/// As in Redis, clients learn at once that a key is another node's. What this node forwards is queued, and
/// what may be at several nodes.
pub(crate) fn refusal_to_queue(
    executor: &Executor,
    session: &Session,
    request: Request<'_>,
) -> Option<ReplyError> {
    let Executor { ranges, store, step, .. } = executor;
    if ranges.owns_everything() || request.keys.is_empty() {
        return None;
    }
    let keys = request.keys.iter().copied().enumerate();
    match judge(ranges, store, *step, keys, false, &Asked::new()).verdict {
        Verdict::Redirect(Redirect::Moved(..) | Redirect::Ask(..)) if session.crosses_slots => None,
        verdict @ Verdict::Redirect(_) => match not_here(session, verdict, false) {
            Attempt::Refused(error) => Some(error),
            _ => None,
        },
        _ => None,
    }
}

/// The outcome of a command for whose keys this node waits.
#[cold]
pub(crate) fn when_missing(
    session: &Session,
    request: Request<'_>,
    import: Option<&Arc<ImportView>>,
    missing: SmallVec<[Missing; INLINE_KEYS]>,
    is_short: bool,
) -> Attempt {
    let stays_at_source = import.is_some_and(|view| view.takes_no_more()) && !fault!(PartsOutliveTheTurn);
    if session.is_forwarded && stays_at_source {
        return Attempt::Refused(NOT_HERE_ERROR);
    }
    let choice = import.map_or(OnMissing::Waits, |view| view.missing());
    match (choice, &missing[..]) {
        (OnMissing::SaysNotHereYet, [one]) if session.is_aware() && request.found.spec.double_read => {
            Attempt::NotHereYet {
                migration: one.migration,
                position: request.keys[0].position(),
                sample_one_in: import.and_then(|view| view.sample_one_in()),
            }
        }
        // What is pulled for a retrying client may make way before it returns, where memory is short.
        (OnMissing::SaysRetry { after_us }, _) if session.is_aware() && !is_short => {
            Attempt::Retry(after_us, missing)
        }
        _ => Attempt::Pull(missing),
    }
}
