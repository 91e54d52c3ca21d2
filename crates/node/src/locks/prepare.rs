//! A part of a transaction is prepared: what it has read is checked, its commands run aside, and its keys
//! are locked with what they are to write. A part that is alone is committed at once.

use super::beside;
use super::look;
use super::means::Means;
use super::request::{Part, Step};
use crate::call::{CommandResult, Flow};
use crate::key_state::state_of;
use crate::keyspace::{NodeKeyspace, Scene, Together, stored};
use crate::request::{Request, slots_of};
use crate::table::NodeExecutor;
use bumpalo::Bump;
use sidle_commands::{Blocking, Change, Content, Overlay, ReplyError};
use sidle_resp::{ReplyWriter, RespVersion};
use sidle_store::SlotGuards;
use sidle_txn::{Effect, Entry, Keys, LIFE_MS, Locks, NotVoted, State, TransactionId};
use sidle_types::{HashedKey, WallMs, fault, locks_key};
use std::collections::BTreeMap;

/// The longest replies that a key keeps for a coordinator whose answer was lost.
const REPLIES_BYTES_MAX: usize = 1 << 20;

const OLD_NODES: ReplyError = ReplyError::text(
    "ERR transactions over several nodes need all nodes to speak a later version: see `sidle upgrade`",
);
const TOO_LATE: ReplyError =
    ReplyError::text("SIDLELATE the part was issued more than 2 minutes ago: it is not prepared any more");
const TOO_LONG: ReplyError =
    ReplyError::text("ERR the replies of this part take more than 1 MiB: nothing was prepared");
const REFUSED: ReplyError =
    ReplyError::text("SIDLEREFUSED a node has decided this transaction: it will not be committed");
const TWICE: ReplyError =
    ReplyError::text("SIDLETWICE the part was prepared before: ask its keys what became of it");
const TOO_LARGE: ReplyError = ReplyError::text(
    "ERR a transaction over several nodes cannot change a collection as large as one of its keys has",
);

/// What a part's commands did aside.
struct Ran<'g> {
    /// The replies that are sent, as one array.
    reply: Vec<u8>,
    /// In the order they were made.
    changes: Vec<(HashedKey<'g>, Change<'g>)>,
}

/// Prepares a part, or commits it if it is alone.
pub(super) fn prepare(
    means: Means<'_>,
    request: Request<'_>,
    version: RespVersion,
    out: &mut Vec<u8>,
) -> CommandResult {
    let part = Part::of(request)?;
    let Scene { now, ranges, stats, .. } = means.scene;
    if !ranges.map().version().has_transactions() {
        return Err(OLD_NODES);
    }
    // X13: its refusal may be gone.
    if part.issued.0.saturating_add(2 * LIFE_MS) < now.0 {
        return Err(TOO_LATE);
    }
    let slots = SlotGuards::lock(means.store, &slots_of(&part.keys));
    let together = Together { slots, has_all: false, scene: means.scene };
    // It claims its keys again if it is to wait again.
    let waited_since = means.claims.end(part.id);
    let waited_ms = waited_since.map_or(0, |since| now.0.saturating_sub(since.0));
    stats.transactions.waited_ms.add(waited_ms);
    if means.is_held(&part.keys) {
        return Ok(Flow::Held);
    }
    let (arena, mut all) = (Bump::new(), Vec::new());
    let ran = run(&part, &together, &arena, &mut all, (version, means.most))?;
    let effects = effects_of(&part, &ran.changes)?;
    let names: Vec<Vec<u8>> = part.keys.iter().map(|key| locks_key(key.bytes())).collect();
    let besides: Vec<HashedKey<'_>> =
        part.keys.iter().zip(&names).map(|(key, name)| key.beside(name)).collect();
    let mut locks = Vec::with_capacity(besides.len());
    for &key in &besides {
        locks.push(beside::read(&together, key, now)?);
    }
    let may = may_vote(&part, &locks, &effects)?;
    let keys = || {
        let keys = part.keys.iter().zip(&effects);
        keys.map(|(key, effect)| (key.position(), effect.is_some())).collect::<Vec<_>>()
    };
    if !part.is_alone && means.claims.len() > 0 {
        let older = means.claims.older(part.id, part.age, &keys(), now);
        older.map_or(Ok(()), |older| Err(locked_by(older)))?;
    }
    if !may {
        let claims = means.claims.begin(part.id, part.age, keys(), now);
        stats.transactions.waited.add(u64::from(claims && waited_since.is_none()));
        means.holds.note_waiting(means.worker);
        return Ok(Flow::Held);
    }
    let mut changes = if part.is_alone { ran.changes } else { Vec::new() };
    if !part.is_alone || !changes.is_empty() {
        vote(&part, now, &effects, &ran.reply, &mut locks);
        for (locks, &key) in locks.iter().zip(&besides).filter(|(locks, _)| !locks.entries().is_empty()) {
            let bytes = locks.value().map(|bytes| &*arena.alloc_slice_copy(&bytes));
            changes.push((key, beside::change(locks, bytes)));
        }
        let changes = changes.iter().map(|&change| stored(ranges, change));
        let expired = together.slots.publish(means.head, now, changes);
        stats.expired.add(expired.map_err(|_| ReplyError::OutOfMemory)? as u64);
        means.holds.note_granted();
    }
    out.extend_from_slice(&ran.reply);
    Ok(Flow::Done)
}

/// Runs a part's commands aside; an error if one fails, or has another reply than before.
fn run<'g>(
    part: &'g Part<'_>,
    together: &'g Together<'g>,
    arena: &'g Bump,
    all: &'g mut Vec<u8>,
    (version, most): (RespVersion, usize),
) -> Result<Ran<'g>, ReplyError> {
    let scene = together.scene;
    let mut sent = Vec::new();
    let keyspace = NodeKeyspace::Together(Overlay::new(together, arena, scene.outlines, &[]));
    let reply = ReplyWriter::bounded(all, version, most);
    let blocking = Blocking::No;
    let mut call = sidle_commands::Call::<'_, NodeExecutor> {
        args: &[],
        keyspace,
        now: scene.now,
        reply,
        blocking,
        progress: None,
    };
    for Step { name, run, words, keys, check } in &part.steps {
        let NodeKeyspace::Together(overlay) = &mut call.keyspace else { unreachable!("it was lent one") };
        let changes = overlay.change_count();
        overlay.next_command(keys);
        let start = call.reply.len();
        call.args = words;
        let result = match run {
            Some(run) => run(&mut call),
            None => {
                let state = state_of(together.slots.slot(keys[0].slot()), keys[0], scene.now);
                look::write(state, &mut call.reply);
                Ok(())
            }
        };
        if let Err(error) = result {
            let NodeKeyspace::Together(overlay) = &call.keyspace else { unreachable!("it keeps it") };
            assert!(overlay.change_count() == changes, "'{name}' returned an error and has written");
            if check.is_none() && !part.keeps_errors {
                return Err(error);
            }
            call.reply.error_bytes(&error.line());
        }
        match check {
            Some(check)
                if *check != sidle_txn::Check::of(call.reply.behind(start)) && !fault!(ChangedReadsPass) =>
            {
                return Err(changed(name, keys));
            }
            Some(_) => {}
            None => sent.push(start..call.reply.len()),
        }
    }
    let is_cut = call.reply.is_cut();
    let mut reply = Vec::new();
    ReplyWriter::new(&mut reply, version).array(sent.len());
    sent.into_iter().for_each(|range| reply.extend_from_slice(&call.reply.behind(0)[range]));
    let NodeKeyspace::Together(overlay) = call.keyspace else { unreachable!("it was lent one") };
    if is_cut || reply.len() > REPLIES_BYTES_MAX {
        return Err(TOO_LONG);
    }
    Ok(Ran { reply, changes: overlay.into_last_changes() })
}

#[cold]
fn changed(name: &str, keys: &[HashedKey<'_>]) -> ReplyError {
    let mut text = format!("SIDLECHANGED '{name}' has another reply than before, of the key ").into_bytes();
    text.extend_from_slice(keys.first().map_or(&[][..], |key| key.bytes()));
    ReplyError::owned(text)
}

/// What is to be written at each key; nothing where it is only read.
fn effects_of(
    part: &Part<'_>,
    changes: &[(HashedKey<'_>, Change<'_>)],
) -> Result<Vec<Option<Vec<u8>>>, ReplyError> {
    // The last change of a key counts.
    let last: BTreeMap<&[u8], &Change<'_>> =
        changes.iter().map(|(key, change)| (key.bytes(), change)).collect();
    let effect = |key: &HashedKey<'_>| match last.get(key.bytes()) {
        None => Ok(None),
        Some(_) if part.is_alone => Ok(Some(Vec::new())),
        Some(Change::Remove) => Ok(Some(Effect::Remove.write())),
        Some(Change::Put(value)) => match value.content {
            Content::Whole(bytes) => {
                let (kind, expires_at) = (value.kind, value.expires_at);
                Ok(Some(Effect::Put { kind, expires_at, value: bytes }.write()))
            }
            Content::Large(_) => Err(TOO_LARGE),
        },
    };
    part.keys.iter().map(effect).collect()
}

/// Whether all keys may vote for the part; if not, it waits for younger transactions to end.
fn may_vote(part: &Part<'_>, locks: &[Locks<'_>], effects: &[Option<Vec<u8>>]) -> Result<bool, ReplyError> {
    let mut may = true;
    for (locks, effect) in locks.iter().zip(effects) {
        match locks.may_vote(part.id, part.age, effect.is_some()) {
            Ok(()) => {}
            // One that is alone holds nothing while it waits, whatever its age.
            Err(NotVoted::Waits(_)) => may = false,
            Err(NotVoted::Locked(_)) if part.is_alone => may = false,
            Err(NotVoted::Locked(other)) => return Err(locked_by(other)),
            Err(NotVoted::Refused) => return Err(REFUSED),
            Err(NotVoted::Twice) => return Err(TWICE),
        }
    }
    Ok(may)
}

#[cold]
fn locked_by(older: TransactionId) -> ReplyError {
    ReplyError::owned(format!(
        "SIDLELOCKED {older} has locked one of the keys, or waits for it, and is older"
    ))
}

/// Has the keys vote for the part; of one that is alone, the first keeps that it is committed.
fn vote<'v>(
    part: &'v Part<'_>,
    now: WallMs,
    effects: &'v [Option<Vec<u8>>],
    reply: &'v [u8],
    locks: &mut [Locks<'v>],
) {
    let (id, age, first) = (part.id, part.age, part.first);
    for (place, ((key, effect), locks)) in part.keys.iter().zip(effects).zip(locks).enumerate() {
        let is_first = key.bytes() == first;
        let state = match effect {
            _ if part.is_alone => State::Committed,
            Some(_) => State::Exclusive,
            None => State::Shared,
        };
        if !part.is_alone || is_first {
            let keys = if is_first { Keys(part.list) } else { Keys::default() };
            let keeps_reply = if part.is_alone { is_first } else { place == 0 };
            let reply = if keeps_reply { reply } else { &[] };
            let effect = effect.as_deref().unwrap_or_default();
            locks.vote(Entry { id, state, age, at: now, first, keys, effect, reply });
        }
    }
}
