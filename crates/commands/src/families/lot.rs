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

/// Reads an element of a collection by its index.
pub(super) type Nth<'g, K, T> = fn(Collection<'g, K>, usize) -> Option<(&'g [u8], T)>;

/// The elements that are drawn from.
pub(super) enum Urn<'g, K, T> {
    /// Of a collection in one record.
    All(Vec<(&'g [u8], T)>),
    /// In chunks: an element is found by its index.
    Large(Collection<'g, K>, Nth<'g, K, T>),
}

impl<'g, K: Kind, T: Copy> Urn<'g, K, T> {
    /// With a collection's elements.
    pub(super) fn of<I: Iterator<Item = (&'g [u8], T)>>(
        collection: Option<Collection<'g, K>>,
        elements: fn(Collection<'g, K>) -> I,
        nth: Nth<'g, K, T>,
    ) -> Urn<'g, K, T> {
        match collection {
            Some(large) if large.is_large() => Urn::Large(large, nth),
            packed => Urn::All(packed.into_iter().flat_map(elements).collect()),
        }
    }

    /// How many there are.
    pub(super) fn len(&self) -> usize {
        match self {
            Urn::All(elements) => elements.len(),
            Urn::Large(collection, _) => collection.len(),
        }
    }

    fn get(&self, index: usize) -> Option<(&'g [u8], T)> {
        match self {
            Urn::All(elements) => elements.get(index).copied(),
            Urn::Large(collection, nth) => nth(*collection, index),
        }
    }

    /// Any of them.
    pub(super) fn one(&self, draws: &mut Draws) -> Option<(&'g [u8], T)> {
        if self.len() == 0 { None } else { self.get(draws.below(self.len())) }
    }

    /// So many different ones.
    pub(super) fn some(&self, draws: &mut Draws, count: usize) -> Vec<(&'g [u8], T)> {
        draws.distinct_below(self.len(), count).into_iter().filter_map(|index| self.get(index)).collect()
    }
}

/// Replies with names of a collection's elements: with one, or with so many different ones, or with so many
/// that may be the same.
pub(super) fn draw<'g, K: Kind, E: Executor, T: Copy, I: Iterator<Item = (&'g [u8], T)>>(
    call: &mut Call<'g, E>,
    elements: fn(Collection<'g, K>) -> I,
    nth: Nth<'g, K, T>,
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
    let collection = call.look_up_as::<K>(0)?;
    let urn = Urn::of(collection, elements, nth);
    let mut draws = Draws::new(call.keyspace.random());
    match count {
        None => match urn.one(&mut draws) {
            Some((name, _)) => call.reply.bulk(name),
            None => call.reply.null(),
        },
        Some(count @ 0..) => {
            let count = usize::try_from(count).unwrap_or(usize::MAX);
            match collection.filter(|all| all.is_large() && all.len() <= count) {
                Some(all) => reply_drawn(call, all.len(), elements(all), with),
                None => {
                    let drawn = urn.some(&mut draws, count);
                    reply_drawn(call, drawn.len(), drawn.into_iter(), with);
                }
            }
        }
        Some(times) => {
            let times = if urn.len() == 0 { 0 } else { times.unsigned_abs() as usize };
            reply_drawn(call, times, (0..times).map_while(|_| urn.one(&mut draws)), with);
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
