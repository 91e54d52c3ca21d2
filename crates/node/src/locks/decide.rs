//! What a key is told of a transaction, or asked: the decision, what became of it, that it is over.

use super::beside;
use super::means::Means;
use super::request::id_of;
use crate::call::{CommandResult, Flow};
use crate::keyspace::{Scene, Together, stored};
use crate::request::Request;
use sidle_commands::{Change, Content, ReplyError, Value};
use sidle_resp::{ReplyWriter, RespVersion};
use sidle_store::SlotGuards;
use sidle_txn::{Effect, Entry, Locks, State, Status, TransactionId};
use sidle_types::{HashedKey, fault, locks_key};

const NO_DECISION: ReplyError = ReplyError::text("ERR a decision is COMMIT or ABORT");
const CONTRADICTED: ReplyError = ReplyError::text(
    "SIDLECONTRADICTED the key has another decision: whoever decided this one speaks the protocol wrongly",
);
const NO_EFFECT: ReplyError =
    ReplyError::text("ERR what the transaction is to write is of a later version: see `sidle upgrade`");

/// What is asked of a key.
enum Asked {
    Decide { commits: bool },
    Resolve,
    Forget,
    Settle,
}

impl Asked {
    fn of(request: Request<'_>) -> Result<Asked, ReplyError> {
        Ok(match (request.found.spec.name, request.args.get(4)) {
            ("sidle.tx|decide", Some(word)) if word.eq_ignore_ascii_case(b"commit") => {
                Asked::Decide { commits: true }
            }
            ("sidle.tx|decide", Some(word)) if word.eq_ignore_ascii_case(b"abort") => {
                Asked::Decide { commits: false }
            }
            ("sidle.tx|decide", _) => return Err(NO_DECISION),
            ("sidle.tx|resolve", _) => Asked::Resolve,
            ("sidle.tx|forget", _) => Asked::Forget,
            _ => Asked::Settle,
        })
    }
}

/// Tells or asks a key something of a transaction.
pub(super) fn decide(
    means: Means<'_>,
    request: Request<'_>,
    version: RespVersion,
    out: &mut Vec<u8>,
) -> CommandResult {
    let (key, id, asked) = (request.keys[0], id_of(request.args[3])?, Asked::of(request)?);
    let Scene { now, ranges, stats, .. } = means.scene;
    let slots = SlotGuards::lock(means.store, &[key.slot()]);
    let together = Together { slots, has_all: false, scene: means.scene };
    let name = locks_key(key.bytes());
    let before = beside::read(&together, key.beside(&name), now)?;
    let mut locks = before.clone();
    let mut writer = ReplyWriter::new(out, version);
    let mut applied = None;
    match asked {
        Asked::Decide { commits } => {
            applied = locks.decide(id, commits, now).map_err(|_| CONTRADICTED)?;
            writer.ok();
        }
        Asked::Resolve => match known(locks.resolve(id, now)) {
            Some(value) => writer.bulk(&value),
            None => writer.null(),
        },
        Asked::Forget => {
            locks.forget(id);
            writer.ok();
        }
        Asked::Settle => {
            locks.settle(id, now);
            writer.ok();
        }
    }
    if locks != before {
        let value = locks.value();
        let mut changes = effect_on(key, applied)?;
        changes.push((key.beside(&name), beside::change(&locks, value.as_deref())));
        let changes = changes.into_iter().map(|change| stored(ranges, change));
        let published = match means.is_short {
            true => together.slots.publish_freeing(means.head, now, changes),
            false => together.slots.publish(means.head, now, changes),
        };
        stats.expired.add(published.map_err(|_| ReplyError::OutOfMemory)? as u64);
        if ends_a_lock(&before, &locks, id) && !fault!(LockEndWakesNobody) {
            means.holds.note_end();
        }
    }
    Ok(Flow::Done)
}

/// What a key knows of a transaction for good, as the value that only has that; none if it refuses.
fn known(status: Status<'_>) -> Option<Vec<u8>> {
    let (Status::Prepared(entry) | Status::Committed(entry)) = status else { return None };
    let state = if entry.state == State::Settled { State::Committed } else { entry.state };
    let mut only = Locks::default();
    only.vote(Entry { state, effect: &[], ..entry });
    only.value()
}

/// The change of a key that is applied now.
fn effect_on<'v>(
    key: HashedKey<'v>,
    applied: Option<Entry<'v>>,
) -> Result<Vec<(HashedKey<'v>, Change<'v>)>, ReplyError> {
    let Some(entry) = applied.filter(|entry| !entry.effect.is_empty()) else { return Ok(Vec::new()) };
    Ok(match Effect::read(entry.effect).ok_or(NO_EFFECT)? {
        Effect::Nothing => Vec::new(),
        Effect::Remove => vec![(key, Change::Remove)],
        Effect::Put { kind, expires_at, value } => {
            vec![(key, Change::Put(Value { kind, content: Content::Whole(value), expires_at }))]
        }
    })
}

/// Whether the transaction had locked the key, and has no more.
fn ends_a_lock(before: &Locks<'_>, after: &Locks<'_>, id: TransactionId) -> bool {
    let is_locked = |locks: &Locks<'_>| matches!(locks.look(id), Status::Prepared(_));
    is_locked(before) && !is_locked(after)
}
