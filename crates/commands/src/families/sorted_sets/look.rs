//! Scores, ranks, draws and walks.

use super::super::Done;
use super::value::{all, look_up, reply_members};
use crate::call::{Call, Executor};
use crate::draws::Draws;
use crate::keyspace::Keyspace;
use crate::number::parse_signed_count;
use crate::reply::Reply;
use crate::reply_error::ReplyError;
use crate::scan_options::ScanOptions;
use sidle_collections::{Encoding, ScoreTable, Scored, SortedSet};
use sidle_resp::format_double;

pub(super) fn zcard<E: Executor>(call: &mut Call<'_, E>) -> Done {
    let members = look_up(call)?.map_or(0, SortedSet::len);
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
    let score = look_up(call)?.and_then(|set| set.score(call.args[2]));
    reply_score(call, score);
    Ok(())
}

pub(super) fn zmscore<E: Executor>(call: &mut Call<'_, E>) -> Done {
    let asked = &call.args[2..];
    let table = look_up(call)?.map(|set| ScoreTable::of(set.members(), asked.len()));
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
    let members = all(look_up(call)?);
    match members.iter().position(|(member, _)| *member == call.args[2]) {
        Some(place) if is_reversed => call.reply.integer((members.len() - 1 - place) as i64),
        Some(place) => call.reply.integer(place as i64),
        None => call.reply.null(),
    }
    Ok(())
}

pub(super) fn zrandmember<E: Executor>(call: &mut Call<'_, E>) -> Done {
    if call.args.len() == 2 {
        let members = all(look_up(call)?);
        match Draws::new(call.keyspace.random()).one_of(&members) {
            Some((member, _)) => call.reply.bulk(member),
            None => call.reply.null(),
        }
        return Ok(());
    }
    let count = parse_signed_count(call.args[2])?;
    let with_scores = match call.args[3..] {
        [] => false,
        // Redis counts the scores too.
        [option] if option.eq_ignore_ascii_case(b"withscores") => {
            if !(-(i64::MAX / 2)..=i64::MAX / 2).contains(&count) {
                return Err(ReplyError::OutOfRange);
            }
            true
        }
        _ => return Err(ReplyError::Syntax),
    };
    let members = all(look_up(call)?);
    let mut draws = Draws::new(call.keyspace.random());
    if count >= 0 {
        let drawn = draws.some_of(members, usize::try_from(count).unwrap_or(usize::MAX));
        reply_members(call, &drawn, with_scores);
        return Ok(());
    }
    let times = if members.is_empty() { 0 } else { count.unsigned_abs() as usize };
    if with_scores {
        call.reply.pairs(times);
    } else {
        call.reply.array(times);
    }
    for _ in 0..times {
        let (Some((member, score)), false) = (draws.one_of(&members), call.reply.is_cut()) else { break };
        if with_scores {
            call.reply.pair();
        }
        call.reply.bulk(member);
        if with_scores {
            call.reply.double(score);
        }
    }
    Ok(())
}

pub(super) fn zscan<E: Executor>(call: &mut Call<'_, E>) -> Done {
    let cursor = ScanOptions::cursor(call.args[2])?;
    let (next, found) = match look_up(call)? {
        None => (0, Vec::new()),
        Some(set) => {
            let options = ScanOptions::parse(&call.args[3..])?;
            // Redis returns a small one whole.
            let count = if set.encoding() == Encoding::Listpack { usize::MAX } else { options.count };
            let named = set.members().map(|scored| (scored.0, scored));
            let (next, found) = sidle_collections::scan(named, cursor, count);
            let wanted = found.into_iter().filter(|(member, _)| options.wants(member));
            (next, wanted.collect::<Vec<Scored<'_>>>())
        }
    };
    call.reply.array(2);
    call.reply.bulk(next.to_string().as_bytes());
    call.reply.array(2 * found.len());
    for (member, score) in found {
        call.reply.bulk(member);
        let mut text = Vec::new();
        format_double(score, &mut text);
        call.reply.bulk(&text);
    }
    Ok(())
}
