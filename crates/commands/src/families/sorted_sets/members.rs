//! Members as commands take and return them.

use super::super::Done;
use super::Changed;
use crate::call::{Call, Executor};
use crate::reply::Reply;
use sidle_collections::Scored;

/// Removes these members of a sorted set, each named once.
pub(super) fn remove<'g, E: Executor>(
    call: &mut Call<'g, E>,
    set: Changed<'g>,
    members: &[Scored<'_>],
) -> Done {
    if members.is_empty() {
        return Ok(());
    }
    if set.old.is_some_and(|old| old.member_count() == members.len()) {
        return set.remove(call);
    }
    let mut draft = set.draft(members.len());
    for (member, _) in members {
        draft.remove(member);
    }
    set.write(call, &draft)
}

/// Replies with so many members, and with their scores if wanted: in pairs where the protocol has them.
pub(super) fn reply_members<'b, E: Executor>(
    call: &mut Call<'_, E>,
    count: usize,
    members: impl Iterator<Item = Scored<'b>>,
    with_scores: bool,
) {
    match with_scores {
        true => call.reply.pairs(count),
        false => call.reply.array(count),
    }
    for (member, score) in members {
        if call.reply.is_cut() {
            return;
        }
        if with_scores {
            call.reply.pair();
        }
        call.reply.bulk(member);
        if with_scores {
            call.reply.double(score);
        }
    }
}
