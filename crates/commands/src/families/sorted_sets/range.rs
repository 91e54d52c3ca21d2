//! Ranges of members: by place, by score, by text.

use super::super::Done;
use super::super::changed::store;
use super::Changed;
use super::members::{remove, reply_members};
use super::score::Bounds;
use crate::call::{Call, Executor};
use crate::number::parse_i64;
use crate::reply::Reply;
use crate::reply_error::ReplyError;
use sidle_collections::{Draft, Scored, SortedSet, SortedSetDraft, SortedSets};

/// What a range is by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum By {
    Rank,
    Score,
    Text,
}

/// A range as a command names it.
#[derive(Clone, Copy, Debug)]
struct Range<'a> {
    bounds: Bounds<'a>,
    is_reversed: bool,
    /// LIMIT: how many to leave out, and how many to return at most; `None`: no limit.
    limit: Option<(i64, i64)>,
    with_scores: bool,
}

/// What a command lets its options choose.
#[derive(Clone, Copy, Debug)]
struct Form {
    /// `None`: BYSCORE and BYLEX choose.
    by: Option<By>,
    /// `None`: REV chooses.
    is_reversed: Option<bool>,
    /// Whether WITHSCORES may be given.
    may_score: bool,
}

impl<'a> Range<'a> {
    /// A range of these bounds and options.
    fn parse(
        form: Form,
        low: &'a [u8],
        high: &'a [u8],
        options: &[&'a [u8]],
    ) -> Result<Range<'a>, ReplyError> {
        let (mut by, mut is_reversed) = (form.by, form.is_reversed);
        let (mut limit, mut with_scores, mut options) = (None, false, options);
        let integer = |text: &[u8]| parse_i64(text).ok_or(ReplyError::NotAnInteger);
        while let [option, rest @ ..] = options {
            let is = |name: &[u8]| option.eq_ignore_ascii_case(name);
            options = rest;
            if form.may_score && is(b"withscores") {
                with_scores = true;
            } else if is(b"limit")
                && let [offset, count, rest @ ..] = options
            {
                limit = Some((integer(offset)?, integer(count)?));
                options = rest;
            } else if is_reversed.is_none() && is(b"rev") {
                is_reversed = Some(true);
            } else if by.is_none() && is(b"byscore") {
                by = Some(By::Score);
            } else if by.is_none() && is(b"bylex") {
                by = Some(By::Text);
            } else {
                return Err(ReplyError::Syntax);
            }
        }
        let (by, is_reversed) = (by.unwrap_or(By::Rank), is_reversed.unwrap_or(false));
        if limit.is_some_and(|(_, count)| count != -1) && by == By::Rank {
            return Err(ReplyError::text(
                "ERR syntax error, LIMIT is only supported in combination with either BYSCORE or BYLEX",
            ));
        }
        // As in Redis, an offset without a count is no error there, and means nothing.
        let limit = limit.filter(|_| by != By::Rank);
        if with_scores && by == By::Text {
            return Err(ReplyError::text(
                "ERR syntax error, WITHSCORES not supported in combination with BYLEX",
            ));
        }
        // The highest comes first in the request, too.
        let (first, last) = if is_reversed { (high, low) } else { (low, high) };
        let bounds = match by {
            By::Rank => Bounds::Ranks(integer(low)?, integer(high)?),
            By::Score => Bounds::scores(first, last)?,
            By::Text => Bounds::texts(first, last)?,
        };
        Ok(Range { bounds, is_reversed, limit, with_scores })
    }

    /// The indices of the members in the range.
    fn indices(&self, set: SortedSet<'_>) -> std::ops::Range<usize> {
        let found = self.bounds.indices(set, self.is_reversed);
        let Some((offset, count)) = self.limit else { return found };
        let Ok(offset) = usize::try_from(offset) else { return 0..0 };
        let offset = offset.min(found.len());
        let count = usize::try_from(count).unwrap_or(usize::MAX).min(found.len() - offset);
        match self.is_reversed {
            true => found.end - offset - count..found.end - offset,
            false => found.start + offset..found.start + offset + count,
        }
    }
}

const ANY: Form = Form { by: None, is_reversed: None, may_score: true };

fn reply_range<E: Executor>(call: &mut Call<'_, E>, form: Form) -> Done {
    let range = Range::parse(form, call.args[2], call.args[3], &call.args[4..])?;
    let Some(set) = call.look_up_as::<SortedSets>(0)? else {
        reply_members(call, 0, std::iter::empty(), range.with_scores);
        return Ok(());
    };
    let indices = range.indices(set);
    match range.is_reversed {
        true => reply_members(call, indices.len(), set.range_back(indices), range.with_scores),
        false => reply_members(call, indices.len(), set.range(indices), range.with_scores),
    }
    Ok(())
}

fn fixed(by: By, is_reversed: bool) -> Form {
    Form { by: Some(by), is_reversed: Some(is_reversed), may_score: true }
}

pub(super) fn zrange<E: Executor>(call: &mut Call<'_, E>) -> Done {
    reply_range(call, ANY)
}

pub(super) fn zrevrange<E: Executor>(call: &mut Call<'_, E>) -> Done {
    reply_range(call, fixed(By::Rank, true))
}

pub(super) fn zrangebyscore<E: Executor>(call: &mut Call<'_, E>) -> Done {
    reply_range(call, fixed(By::Score, false))
}

pub(super) fn zrevrangebyscore<E: Executor>(call: &mut Call<'_, E>) -> Done {
    reply_range(call, fixed(By::Score, true))
}

pub(super) fn zrangebylex<E: Executor>(call: &mut Call<'_, E>) -> Done {
    reply_range(call, fixed(By::Text, false))
}

pub(super) fn zrevrangebylex<E: Executor>(call: &mut Call<'_, E>) -> Done {
    reply_range(call, fixed(By::Text, true))
}

pub(super) fn zrangestore<E: Executor>(call: &mut Call<'_, E>) -> Done {
    let form = Form { may_score: false, ..ANY };
    let range = Range::parse(form, call.args[3], call.args[4], &call.args[5..])?;
    let set = call.look_up_as::<SortedSets>(1)?;
    let found: Vec<Scored<'_>> = set.into_iter().flat_map(|set| set.range(range.indices(set))).collect();
    store(call, 0, &SortedSetDraft::made_of(found.into_iter()))
}

fn count_in<E: Executor>(call: &mut Call<'_, E>, bounds: Bounds<'_>) -> Done {
    let set = call.look_up_as::<SortedSets>(0)?;
    call.reply.integer(set.map_or(0, |set| bounds.indices(set, false).len()) as i64);
    Ok(())
}

pub(super) fn zcount<E: Executor>(call: &mut Call<'_, E>) -> Done {
    let bounds = Bounds::scores(call.args[2], call.args[3])?;
    count_in(call, bounds)
}

pub(super) fn zlexcount<E: Executor>(call: &mut Call<'_, E>) -> Done {
    let bounds = Bounds::texts(call.args[2], call.args[3])?;
    count_in(call, bounds)
}

fn remove_in<E: Executor>(call: &mut Call<'_, E>, bounds: Bounds<'_>) -> Done {
    let set: Changed<'_> = Changed::of(call, 0)?;
    let indices = set.old.map_or(0..0, |old| bounds.indices(old, false));
    let removed = remove(call, set, indices)?;
    call.reply.integer(removed as i64);
    Ok(())
}

pub(super) fn zremrangebyrank<E: Executor>(call: &mut Call<'_, E>) -> Done {
    let integer = |at: usize| parse_i64(call.args[at]).ok_or(ReplyError::NotAnInteger);
    let bounds = Bounds::Ranks(integer(2)?, integer(3)?);
    remove_in(call, bounds)
}

pub(super) fn zremrangebyscore<E: Executor>(call: &mut Call<'_, E>) -> Done {
    let bounds = Bounds::scores(call.args[2], call.args[3])?;
    remove_in(call, bounds)
}

pub(super) fn zremrangebylex<E: Executor>(call: &mut Call<'_, E>) -> Done {
    let bounds = Bounds::texts(call.args[2], call.args[3])?;
    remove_in(call, bounds)
}

#[cfg(test)]
mod tests {
    use super::*;
    use sidle_collections::Limits;

    #[test]
    fn a_limit_counts_from_where_the_range_begins() {
        let members = [(&b"a"[..], 1.0), (b"b", 2.0), (b"c", 2.0), (b"d", 3.0), (b"e", 4.0)];
        let finished = SortedSetDraft::made_of(members.into_iter()).finish(&Limits::default());
        let bytes = finished.into_packed().expect("it is short");
        let set = SortedSet::of(&bytes);
        let of = |form: Form, line: &str| {
            let words: Vec<&[u8]> = line.split(' ').map(str::as_bytes).collect();
            let range = Range::parse(form, words[0], words[1], &words[2..]).unwrap();
            let indices = range.indices(set);
            let name = |(member, _): Scored<'_>| char::from(member[0]);
            match range.is_reversed {
                true => set.range_back(indices).map(name).collect::<String>(),
                false => set.range(indices).map(name).collect(),
            }
        };
        for (line, found) in [
            ("1 3", "bcd"),
            ("0 1 rev", "ed"),
            ("-2 -1 rev", "ba"),
            ("2 inf byscore", "bcde"),
            ("2 inf byscore limit 1 2", "cd"),
            ("2 inf byscore limit 3 9", "e"),
            ("2 inf byscore limit 4 -1", ""),
            ("2 inf byscore limit -1 2", ""),
            ("inf 2 byscore rev limit 1 2", "dc"),
            ("inf 2 byscore rev limit 2 -1", "cb"),
            ("(3 (1 byscore rev limit 1 5", "b"),
            ("2 inf byscore rev", ""),
        ] {
            assert_eq!(of(ANY, line), found, "{line}");
        }
        assert_eq!(of(fixed(By::Score, true), "inf -inf limit 0 2"), "ed");
        assert_eq!(of(fixed(By::Rank, true), "3 4"), "ba");
        let texts = [(&b"a"[..], 0.0), (b"b", 0.0), (b"c", 0.0), (b"d", 0.0)];
        let finished = SortedSetDraft::made_of(texts.into_iter()).finish(&Limits::default());
        let bytes = finished.into_packed().expect("it is short");
        let texts = |line: &str, is_reversed: bool| {
            let words: Vec<&[u8]> = line.split(' ').map(str::as_bytes).collect();
            let range = Range::parse(fixed(By::Text, is_reversed), words[0], words[1], &words[2..]);
            range.unwrap().indices(SortedSet::of(&bytes))
        };
        assert_eq!(texts("(a + limit 1 1", false), 2..3);
        assert_eq!(texts("+ (a limit 1 1", true), 2..3);
        assert_eq!(texts("[c - limit 0 2", true), 1..3);
    }
}
