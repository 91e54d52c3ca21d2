//! Members as commands take and return them.

use super::Changed;
use crate::call::{Call, Executor};
use crate::reply::Reply;
use crate::reply_error::ReplyError;
use sidle_collections::{Scored, SortedSetDraft};
use std::ops::Range;

/// Removes the members of these indices; returns how many there were.
pub(super) fn remove<'g, E: Executor>(
    call: &mut Call<'g, E>,
    set: Changed<'g>,
    indices: Range<usize>,
) -> Result<usize, ReplyError> {
    let Some(old) = set.old else { return Ok(0) };
    let all = old.member_count();
    let indices = indices.start.min(all)..indices.end.min(all);
    match indices.len() {
        0 => {}
        removed if removed == all => set.remove(call)?,
        _ => set.write(call, &SortedSetDraft::without(old, indices.clone()))?,
    }
    Ok(indices.len())
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
