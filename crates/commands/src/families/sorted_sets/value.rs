//! A key's sorted set, and replies with scores.

use crate::call::{Call, Executor};
use crate::keyspace::{Keyspace, Value};
use crate::reply::Reply;
use crate::reply_error::ReplyError;
use sidle_collections::{Scored, SortedSet, SortedSetDraft};
use sidle_types::ValueKind;

/// The value as a sorted set.
pub(super) fn as_sorted_set(value: Option<Value<'_>>) -> Result<Option<SortedSet<'_>>, ReplyError> {
    let value = value.map(|value| value.of_kind(ValueKind::SortedSet)).transpose()?;
    Ok(value.map(|value| SortedSet::of(value.bytes)))
}

/// The sorted set of the command's key, counted as a look-up.
pub(super) fn look_up<'g, E: Executor>(call: &mut Call<'g, E>) -> Result<Option<SortedSet<'g>>, ReplyError> {
    as_sorted_set(call.look_up(0))
}

/// All members of a sorted set.
pub(super) fn all(set: Option<SortedSet<'_>>) -> Vec<Scored<'_>> {
    set.into_iter().flat_map(SortedSet::members).collect()
}

/// A key's sorted set that the command changes.
pub(super) struct Changed<'g> {
    key: usize,
    pub(super) old: Option<Value<'g>>,
}

impl<'g> Changed<'g> {
    pub(super) fn of<E: Executor>(call: &mut Call<'g, E>, key: usize) -> Result<Changed<'g>, ReplyError> {
        let old = call.keyspace.get(key);
        as_sorted_set(old)?;
        Ok(Changed { key, old })
    }

    pub(super) fn set(&self) -> Option<SortedSet<'g>> {
        self.old.map(|value| SortedSet::of(value.bytes))
    }

    pub(super) fn draft(&self, changes: usize) -> SortedSetDraft<'g> {
        SortedSetDraft::of(self.set(), changes)
    }

    pub(super) fn write<E: Executor>(
        self,
        call: &mut Call<'g, E>,
        draft: &SortedSetDraft<'_>,
    ) -> Result<(), ReplyError> {
        if draft.is_empty() {
            return Ok(call.keyspace.remove(self.key)?);
        }
        let limits = call.keyspace.collection_limits();
        let expires_at = self.old.and_then(|value| value.expires_at);
        call.put_collection(self.key, ValueKind::SortedSet, &draft.finish(&limits), expires_at)
    }

    /// Removes these members of it.
    pub(super) fn without<E: Executor>(
        self,
        call: &mut Call<'g, E>,
        members: &[Scored<'_>],
    ) -> Result<(), ReplyError> {
        if members.is_empty() {
            return Ok(());
        }
        let mut draft = self.draft(members.len());
        for (member, _) in members {
            draft.remove(member);
        }
        self.write(call, &draft)
    }
}

/// Sets the first key to these members, or removes it; replies with how many there are.
pub(super) fn store<E: Executor>(call: &mut Call<'_, E>, members: &[Scored<'_>]) -> Result<(), ReplyError> {
    if members.is_empty() {
        if call.keyspace.get(0).is_some() {
            call.keyspace.remove(0)?;
        }
    } else {
        let mut draft = SortedSetDraft::of(None, members.len());
        for &(member, score) in members {
            draft.set(member, score);
        }
        let bytes = draft.finish(&call.keyspace.collection_limits());
        call.put_collection(0, ValueKind::SortedSet, &bytes, None)?;
    }
    call.reply.integer(members.len() as i64);
    Ok(())
}

/// Replies with members, and with their scores if wanted: in pairs where the protocol has them.
pub(super) fn reply_members<E: Executor>(call: &mut Call<'_, E>, members: &[Scored<'_>], with_scores: bool) {
    if !with_scores {
        call.reply.array(members.len());
        members.iter().for_each(|(member, _)| call.reply.bulk(member));
        return;
    }
    call.reply.pairs(members.len());
    for &(member, score) in members {
        call.reply.pair();
        call.reply.bulk(member);
        call.reply.double(score);
    }
}
