//! Members as commands take and return them.

use super::super::Done;
use super::Changed;
use crate::call::{Call, Executor};
use crate::reply::Reply;
use sidle_collections::{Scored, SortedSet};

/// All members of a sorted set.
pub(super) fn all(set: Option<SortedSet<'_>>) -> Vec<Scored<'_>> {
    set.into_iter().flat_map(SortedSet::members).collect()
}

/// Removes these members of a sorted set.
pub(super) fn remove<'g, E: Executor>(
    call: &mut Call<'g, E>,
    set: Changed<'g>,
    members: &[Scored<'_>],
) -> Done {
    if members.is_empty() {
        return Ok(());
    }
    let mut draft = set.draft(members.len());
    for (member, _) in members {
        draft.remove(member);
    }
    set.write(call, &draft)
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
