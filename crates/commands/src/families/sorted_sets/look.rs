//! Scores, ranks, draws and walks.

use super::super::Done;
use super::super::lot::draw;
use super::super::walk::walk;
use crate::call::{Call, Executor};
use crate::reply::Reply;
use sidle_collections::{ScoreTable, SortedSet, SortedSets};
use sidle_resp::format_double;

pub(super) fn zcard<E: Executor>(call: &mut Call<'_, E>) -> Done {
    let members = call.look_up_as::<SortedSets>(0)?.map_or(0, SortedSet::len);
    call.reply.integer(members as i64);
    Ok(())
}

fn reply_score<E: Executor>(call: &mut Call<'_, E>, score: Option<f64>) {
    match score {
        Some(score) => call.reply.double(score),
        None => call.reply.null(),
    }
}

pub(super) fn zscore<E: Executor>(call: &mut Call<'_, E>) -> Done {
    let score = call.look_up_as::<SortedSets>(0)?.and_then(|set| set.score(call.args[2]));
    reply_score(call, score);
    Ok(())
}

pub(super) fn zmscore<E: Executor>(call: &mut Call<'_, E>) -> Done {
    let asked = &call.args[2..];
    let table = call.look_up_as::<SortedSets>(0)?.map(|set| ScoreTable::of(set, asked.len()));
    call.reply.array(asked.len());
    for member in asked {
        reply_score(call, table.as_ref().and_then(|table| table.score(member)));
    }
    Ok(())
}

pub(super) fn zrank<E: Executor>(call: &mut Call<'_, E>) -> Done {
    rank(call, false)
}

pub(super) fn zrevrank<E: Executor>(call: &mut Call<'_, E>) -> Done {
    rank(call, true)
}

fn rank<E: Executor>(call: &mut Call<'_, E>, is_reversed: bool) -> Done {
    let set = call.look_up_as::<SortedSets>(0)?;
    let found = set.and_then(|set| Some((set.rank(call.args[2])?, set)));
    match found {
        Some((rank, set)) if is_reversed => call.reply.integer((set.member_count() - 1 - rank) as i64),
        Some((rank, _)) => call.reply.integer(rank as i64),
        None => call.reply.null(),
    }
    Ok(())
}

pub(super) fn zrandmember<E: Executor>(call: &mut Call<'_, E>) -> Done {
    draw(call, SortedSet::members, SortedSet::nth, Some((b"withscores", Reply::double)))
}

pub(super) fn zscan<E: Executor>(call: &mut Call<'_, E>) -> Done {
    walk(
        call,
        SortedSet::scan,
        Some(|reply, score| {
            let mut text = Vec::new();
            format_double(score, &mut text);
            reply.bulk(&text);
        }),
    )
}
