//! What a key is told of a transaction, or asked: the decision, what became of it, that it is over.

use super::beside;
use super::request::id_of;
use crate::call::{CommandResult, Flow};
use crate::execute::Executor;
use crate::keyspace::{Scene, Together, stored};
use crate::now::Now;
use crate::request::Request;
use crate::session::Session;
use sidle_commands::{Change, Content, ReplyError, Value};
use sidle_resp::ReplyWriter;
use sidle_store::SlotGuards;
use sidle_txn::{Effect, Entry, Locks, State, Status, TransactionId};
use sidle_types::{HashedKey, locks_key};
use typed_arena::Arena;

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

impl Executor {
    /// Tells or asks a key something of a transaction. `is_short`: no memory was found.
    #[inline(never)]
    pub(crate) fn call_on_locks(
        &mut self,
        now: Now,
        session: &Session,
        request: Request<'_>,
        is_short: bool,
        out: &mut Vec<u8>,
    ) -> CommandResult {
        let (key, id, asked) = (request.keys[0], id_of(request.args[3])?, Asked::of(request)?);
        let outlines = Arena::with_capacity(0);
        let scene = Scene {
            now: now.wall,
            stats: &self.stats,
            shared: &self.shared,
            ranges: &self.ranges,
            random: &self.random,
            outlines: &outlines,
        };
        let slots = SlotGuards::lock(&self.store, &[key.slot()]);
        let together = Together { slots, has_all: false, scene };
        let name = locks_key(key.bytes());
        let before = beside::read(&together, key.beside(&name), now.wall)?;
        let mut locks = before.clone();
        let mut writer = ReplyWriter::new(out, session.version);
        let mut applied = None;
        match asked {
            Asked::Decide { commits } => {
                applied = locks.decide(id, commits, now.wall).map_err(|_| CONTRADICTED)?;
                writer.ok();
            }
            Asked::Resolve => match known(locks.resolve(id, now.wall)) {
                Some(value) => writer.bulk(&value),
                None => writer.null(),
            },
            Asked::Forget => {
                locks.forget(id);
                writer.ok();
            }
            Asked::Settle => {
                locks.settle(id, now.wall);
                writer.ok();
            }
        }
        if locks != before {
            let value = locks.value();
            let mut changes = effect_on(key, applied)?;
            changes.push((key.beside(&name), beside::change(&locks, value.as_deref())));
            let changes = changes.into_iter().map(|change| stored(&self.ranges, change));
            let published = match is_short {
                true => together.slots.publish_freeing(&mut self.head, now.wall, changes),
                false => together.slots.publish(&mut self.head, now.wall, changes),
            };
            let expired = published.map_err(|_| ReplyError::OutOfMemory)?;
            self.stats.expired.add(expired as u64);
            if ends_a_lock(&before, &locks, id) {
                self.holds.note_end();
            }
        }
        Ok(Flow::Done)
    }
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
