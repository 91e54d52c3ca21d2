//! Elements of a collection drawn by lot: HRANDFIELD, SRANDMEMBER, ZRANDMEMBER.

use super::Done;
use crate::call::{Call, Executor};
use crate::draws::Draws;
use crate::keyspace::Keyspace;
use crate::number::parse_signed_count;
use crate::reply::Reply;
use crate::reply_error::ReplyError;
use sidle_collections::{Collection, Kind};

/// An option that asks for more than names: the word, and what follows a name in the reply.
pub(super) type With<'g, E, T> = (&'static [u8], fn(&mut <E as Executor>::Reply<'g>, T));

/// Replies with names of a collection's elements: with one, or with so many different ones, or with so many
/// that may be the same.
pub(super) fn draw<'g, K: Kind, E: Executor, T: Copy, I: Iterator<Item = (&'g [u8], T)>>(
    call: &mut Call<'g, E>,
    elements: fn(Collection<'g, K>) -> I,
    with: Option<With<'g, E, T>>,
) -> Done {
    let (count, with) = match call.args[2..] {
        [] => (None, None),
        [count] => (Some(parse_signed_count(count)?), None),
        [count, option] if with.is_some_and(|(word, _)| option.eq_ignore_ascii_case(word)) => {
            let count = parse_signed_count(count)?;
            // Redis counts what follows names, too.
            if !(-(i64::MAX / 2)..=i64::MAX / 2).contains(&count) {
                return Err(ReplyError::OutOfRange);
            }
            (Some(count), with)
        }
        [count, ..] => {
            // Without such an option Redis does not look at the count first.
            with.map(|_| parse_signed_count(count)).transpose()?;
            return Err(ReplyError::Syntax);
        }
    };
    let elements: Vec<(&[u8], T)> = call.look_up_as::<K>(0)?.into_iter().flat_map(elements).collect();
    let mut draws = Draws::new(call.keyspace.random());
    match count {
        None => match draws.one_of(&elements) {
            Some((name, _)) => call.reply.bulk(name),
            None => call.reply.null(),
        },
        Some(count @ 0..) => {
            let drawn = draws.some_of(elements, usize::try_from(count).unwrap_or(usize::MAX));
            reply_drawn(call, drawn.len(), drawn.into_iter(), with);
        }
        Some(times) => {
            let times = if elements.is_empty() { 0 } else { times.unsigned_abs() as usize };
            reply_drawn(call, times, (0..times).map_while(|_| draws.one_of(&elements)), with);
        }
    }
    Ok(())
}

fn reply_drawn<'g, E: Executor, T>(
    call: &mut Call<'g, E>,
    count: usize,
    drawn: impl Iterator<Item = (&'g [u8], T)>,
    with: Option<With<'g, E, T>>,
) {
    match with {
        Some(_) => call.reply.pairs(count),
        None => call.reply.array(count),
    }
    for (name, known) in drawn {
        if call.reply.is_cut() {
            return;
        }
        if with.is_some() {
            call.reply.pair();
        }
        call.reply.bulk(name);
        if let Some((_, with)) = with {
            with(&mut call.reply, known);
        }
    }
}
