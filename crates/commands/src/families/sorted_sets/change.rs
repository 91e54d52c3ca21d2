//! Scores that are set, members that are removed.

use super::super::Done;
use super::super::changed::remove_named;
use super::super::multi_pop::{pop_first, take_first};
use super::Changed;
use super::members::{remove, reply_members};
use super::score::score;
use crate::call::{Call, Executor};
use crate::reply::Reply;
use crate::reply_error::ReplyError;
use sidle_collections::{Scored, SortedSetDraft, SortedSets};

/// ZADD's options.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct AddOptions {
    only_new: bool,
    only_old: bool,
    only_greater: bool,
    only_less: bool,
    /// CH: what has changed counts, too.
    counts_changes: bool,
    /// INCR: the score is added, and the new one returned.
    adds: bool,
}

impl AddOptions {
    /// The options, and the scores and members behind them.
    fn parse<'a, 'w>(mut args: &'w [&'a [u8]]) -> Result<(AddOptions, &'w [&'a [u8]]), ReplyError> {
        let mut options = AddOptions::default();
        while let [option, rest @ ..] = args {
            let is = |name: &[u8]| option.eq_ignore_ascii_case(name);
            let named = if is(b"nx") {
                &mut options.only_new
            } else if is(b"xx") {
                &mut options.only_old
            } else if is(b"gt") {
                &mut options.only_greater
            } else if is(b"lt") {
                &mut options.only_less
            } else if is(b"ch") {
                &mut options.counts_changes
            } else if is(b"incr") {
                &mut options.adds
            } else {
                break;
            };
            *named = true;
            args = rest;
        }
        if args.is_empty() || !args.len().is_multiple_of(2) {
            return Err(ReplyError::Syntax);
        }
        let AddOptions { only_new, only_old, only_greater, only_less, adds, .. } = options;
        if only_new && only_old {
            return Err(ReplyError::text("ERR XX and NX options at the same time are not compatible"));
        }
        if only_new && (only_greater || only_less) || only_greater && only_less {
            return Err(ReplyError::text(
                "ERR GT, LT, and/or NX options at the same time are not compatible",
            ));
        }
        if adds && args.len() > 2 {
            return Err(ReplyError::text("ERR INCR option supports a single increment-element pair"));
        }
        Ok((options, args))
    }

    /// The member's new score; `None` if it is to stay as it is.
    fn score(self, old: Option<f64>, given: f64) -> Result<Option<f64>, ReplyError> {
        let Some(old) = old else { return Ok(Some(given).filter(|_| !self.only_old)) };
        if self.only_new {
            return Ok(None);
        }
        let score = if self.adds { old + given } else { given };
        if score.is_nan() {
            return Err(ReplyError::text("ERR resulting score is not a number (NaN)"));
        }
        let stays = self.only_greater && score <= old || self.only_less && score >= old;
        Ok(Some(score).filter(|_| !stays))
    }
}

pub(super) fn zadd<E: Executor>(call: &mut Call<'_, E>) -> Done {
    let (options, pairs) = AddOptions::parse(&call.args[2..])?;
    add(call, options, pairs)
}

pub(super) fn zincrby<E: Executor>(call: &mut Call<'_, E>) -> Done {
    let pairs = &call.args[2..];
    add(call, AddOptions { adds: true, ..AddOptions::default() }, pairs)
}

fn add<'g, E: Executor>(call: &mut Call<'g, E>, options: AddOptions, pairs: &[&'g [u8]]) -> Done {
    let scored = pairs.chunks_exact(2).map(|pair| Ok((pair[1], score(pair[0])?)));
    let scored: Vec<Scored<'_>> = scored.collect::<Result<_, ReplyError>>()?;
    let set = Changed::of(call, 0)?;
    let mut draft: SortedSetDraft<'_> = set.draft(scored.len());
    let (mut added, mut changed, mut last) = (0, 0, None);
    for (member, given) in scored {
        let old = draft.score(member);
        last = options.score(old, given)?;
        let Some(score) = last else { continue };
        match old {
            None => added += 1,
            Some(old) if old != score => changed += 1,
            Some(_) => continue,
        }
        draft.set(member, score);
    }
    if added + changed > 0 {
        set.write(call, &draft)?;
    }
    match (options.adds, last) {
        (true, Some(score)) => call.reply.double(score),
        (true, None) => call.reply.null(),
        (false, _) => call.reply.integer(if options.counts_changes { added + changed } else { added }),
    }
    Ok(())
}

pub(super) fn zrem<E: Executor>(call: &mut Call<'_, E>) -> Done {
    remove_named::<SortedSets, E>(call, SortedSetDraft::remove)
}

pub(super) fn zpopmin<E: Executor>(call: &mut Call<'_, E>) -> Done {
    pop(call, false)
}

pub(super) fn zpopmax<E: Executor>(call: &mut Call<'_, E>) -> Done {
    pop(call, true)
}

fn pop<E: Executor>(call: &mut Call<'_, E>, highest: bool) -> Done {
    let count = match call.args[2..] {
        [] => None,
        [count] => Some(call.positive(count)?),
        _ => return Err(ReplyError::Syntax),
    };
    let set = Changed::of(call, 0)?;
    call.count_look_up(set.old.is_some());
    let popped = pop_some(call, set, highest, count.unwrap_or(1))?;
    match (count, popped.first()) {
        (None, Some(&(member, score))) => {
            call.reply.array(2);
            call.reply.bulk(member);
            call.reply.double(score);
        }
        _ => reply_members(call, popped.len(), popped.into_iter(), true),
    }
    Ok(())
}

/// Removes members at an end; returns them.
fn pop_some<'g, E: Executor>(
    call: &mut Call<'g, E>,
    set: Changed<'g>,
    highest: bool,
    count: usize,
) -> Result<Vec<Scored<'g>>, ReplyError> {
    let Some(old) = set.old else { return Ok(Vec::new()) };
    let all = old.member_count();
    let indices = if highest { all.saturating_sub(count)..all } else { 0..count.min(all) };
    let members = match highest {
        true => old.range_back(indices.clone()).collect(),
        false => old.range(indices.clone()).collect(),
    };
    remove(call, set, indices)?;
    Ok(members)
}

/// Whether a word names the end of the highest scores.
fn highest(word: &[u8]) -> Result<bool, ReplyError> {
    match word {
        word if word.eq_ignore_ascii_case(b"min") => Ok(false),
        word if word.eq_ignore_ascii_case(b"max") => Ok(true),
        _ => Err(ReplyError::Syntax),
    }
}

pub(super) fn zmpop<E: Executor>(call: &mut Call<'_, E>) -> Done {
    pop_first(call, None, highest, pop_some, reply_pairs)
}

pub(super) fn bzmpop<E: Executor>(call: &mut Call<'_, E>) -> Done {
    pop_first(call, Some(call.args[1]), highest, pop_some, reply_pairs)
}

fn reply_pairs<E: Executor>(call: &mut Call<'_, E>, members: &[Scored<'_>]) {
    call.reply.array(members.len());
    for &(member, score) in members {
        call.reply.array(2);
        call.reply.bulk(member);
        call.reply.double(score);
    }
}

pub(super) fn bzpopmin<E: Executor>(call: &mut Call<'_, E>) -> Done {
    take_one(call, false)
}

pub(super) fn bzpopmax<E: Executor>(call: &mut Call<'_, E>) -> Done {
    take_one(call, true)
}

fn take_one<E: Executor>(call: &mut Call<'_, E>, highest: bool) -> Done {
    take_first(call, |call, name, set: Changed<'_>| {
        for (member, score) in pop_some(call, set, highest, 1)? {
            call.reply.array(3);
            call.reply.bulk(name);
            call.reply.bulk(member);
            call.reply.double(score);
        }
        Ok(())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_decide_which_scores_are_set() {
        let parse = |line: &'static str| {
            let args: Vec<&[u8]> = line.split_whitespace().map(str::as_bytes).collect();
            AddOptions::parse(&args).map(|(options, pairs)| (options, pairs.len()))
        };
        for bad in ["", "nx", "1", "1 a 2", "nx xx 1 a", "gt lt 1 a", "nx gt 1 a", "incr 1 a 2 b"] {
            assert!(parse(bad).is_err(), "{bad}");
        }
        assert_eq!(parse("XX ch 1 a 2 b").unwrap().1, 4);
        for (options, old, given, score) in [
            ("1 a", None, 1.0, Some(1.0)),
            ("xx 1 a", None, 1.0, None),
            ("nx 1 a", Some(2.0), 1.0, None),
            ("gt 1 a", Some(2.0), 1.0, None),
            ("gt 1 a", Some(0.0), 1.0, Some(1.0)),
            ("gt 1 a", None, 1.0, Some(1.0)),
            ("lt 1 a", Some(1.0), 1.0, None),
            ("incr 1 a", Some(2.0), 1.0, Some(3.0)),
            ("lt incr 1 a", Some(2.0), 1.0, None),
        ] {
            assert_eq!(parse(options).unwrap().0.score(old, given), Ok(score), "{options} {old:?}");
        }
        let adds = AddOptions { adds: true, ..AddOptions::default() };
        assert!(adds.score(Some(f64::INFINITY), f64::NEG_INFINITY).is_err());
    }
}
