//! Several sets as one: ZUNION, ZINTER, ZDIFF, and what stores them. A member of a set has score 1.

use super::super::Done;
use super::super::changed::store;
use super::members::reply_members;
use crate::call::{Call, Executor};
use crate::keyspace::Value;
use crate::number::parse_i64;
use crate::reply::Reply;
use crate::reply_error::ReplyError;
use crate::strtod::parse_f64;
use sidle_collections::{Draft, MemberTable, ScoreTable, Scored, Set, SortedSet, SortedSetDraft};
use sidle_types::ValueKind;

/// How sets are combined.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Combination {
    Union,
    Inter,
    Diff,
}

/// The score of a member of several sets.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Aggregate {
    #[default]
    Sum,
    Min,
    Max,
}

impl Aggregate {
    fn of(self, one: f64, other: f64) -> f64 {
        match self {
            // Infinities of both signs are none, as in Redis.
            Aggregate::Sum if (one + other).is_nan() => 0.0,
            Aggregate::Sum => one + other,
            // What is no number is not less and not more.
            Aggregate::Min => {
                if other < one {
                    other
                } else {
                    one
                }
            }
            Aggregate::Max => {
                if other > one {
                    other
                } else {
                    one
                }
            }
        }
    }
}

/// What a command asks for.
#[derive(Clone, Debug, Default)]
struct Options {
    /// For each set; none: 1 for all.
    weights: Vec<f64>,
    aggregate: Aggregate,
    with_scores: bool,
    /// The most members to count.
    limit: Option<usize>,
}

/// What options there may be.
#[derive(Clone, Copy, Debug)]
struct Form {
    combination: Combination,
    may_score: bool,
    may_limit: bool,
}

impl Options {
    fn parse(form: Form, keys: usize, mut options: &[&[u8]]) -> Result<Options, ReplyError> {
        let mut parsed = Options::default();
        let may_weigh = form.combination != Combination::Diff && !form.may_limit;
        while let [option, rest @ ..] = options {
            let is = |name: &[u8]| option.eq_ignore_ascii_case(name);
            options = rest;
            if may_weigh && is(b"weights") && options.len() >= keys {
                let (weights, rest) = options.split_at(keys);
                let weight =
                    |text: &&[u8]| parse_f64(text).ok_or(ReplyError::text("ERR weight value is not a float"));
                parsed.weights = weights.iter().map(weight).collect::<Result<_, _>>()?;
                options = rest;
            } else if may_weigh
                && is(b"aggregate")
                && let [name, rest @ ..] = options
            {
                parsed.aggregate = match name.to_ascii_lowercase().as_slice() {
                    b"sum" => Aggregate::Sum,
                    b"min" => Aggregate::Min,
                    b"max" => Aggregate::Max,
                    _ => return Err(ReplyError::Syntax),
                };
                options = rest;
            } else if form.may_score && is(b"withscores") {
                parsed.with_scores = true;
            } else if form.may_limit
                && is(b"limit")
                && let [number, rest @ ..] = options
            {
                let limit = parse_i64(number).filter(|limit| *limit >= 0);
                let limit = limit.ok_or(ReplyError::text("ERR LIMIT can't be negative"))?;
                parsed.limit = usize::try_from(limit).ok().filter(|limit| *limit > 0);
                options = rest;
            } else {
                return Err(ReplyError::Syntax);
            }
        }
        Ok(parsed)
    }

    /// What a score of a set counts; it may be no number.
    fn weighted(&self, set: usize, score: f64) -> f64 {
        self.weights.get(set).map_or(score, |weight| weight * score)
    }

    /// The same of the first set that has a member.
    fn first_weighted(&self, set: usize, score: f64) -> f64 {
        let weighted = self.weighted(set, score);
        if weighted.is_nan() { 0.0 } else { weighted }
    }
}

/// A set that is combined with others.
#[derive(Clone, Copy, Debug)]
enum Input<'g> {
    /// A key without a value.
    Nothing,
    Members(Set<'g>),
    Scored(SortedSet<'g>),
}

impl<'g> Input<'g> {
    fn of(value: Option<Value<'g>>) -> Result<Input<'g>, ReplyError> {
        match value {
            None => Ok(Input::Nothing),
            Some(value) if value.kind == ValueKind::SortedSet => Ok(Input::Scored(value.into_collection())),
            Some(value) => Ok(Input::Members(value.collection()?)),
        }
    }

    fn len(self) -> usize {
        match self {
            Input::Nothing => 0,
            Input::Members(set) => set.len(),
            Input::Scored(set) => set.len(),
        }
    }

    /// The members with their scores.
    fn members(self) -> impl Iterator<Item = Scored<'g>> {
        let (set, scored) = match self {
            Input::Nothing => (None, None),
            Input::Members(set) => (Some(set), None),
            Input::Scored(set) => (None, Some(set)),
        };
        let members = set.into_iter().flat_map(Set::members).map(|member| (member, 1.0));
        members.chain(scored.into_iter().flat_map(SortedSet::members))
    }
}

/// A set that is asked for many members.
#[derive(Debug)]
enum Asked<'g> {
    Nothing,
    Members(MemberTable<'g>),
    Scored(ScoreTable<'g>),
}

impl<'g> Asked<'g> {
    /// To be asked about so many times.
    fn of(set: Input<'g>, times: usize) -> Asked<'g> {
        match set {
            Input::Nothing => Asked::Nothing,
            Input::Members(set) => Asked::Members(MemberTable::of(set, times)),
            Input::Scored(set) => Asked::Scored(ScoreTable::of(set, times)),
        }
    }

    /// A member's score.
    fn score(&self, member: &[u8]) -> Option<f64> {
        match self {
            Asked::Nothing => None,
            Asked::Members(table) => table.contains(member).then_some(1.0),
            Asked::Scored(table) => table.score(member),
        }
    }
}

/// The sets in one, in the order of scores. Sums depend on the order of their terms: as in Redis small sets
/// come first.
fn combined<'g>(sets: &[Input<'g>], combination: Combination, options: &Options) -> Vec<Scored<'g>> {
    let mut by_size: Vec<(usize, Input<'_>)> = sets.iter().copied().enumerate().collect();
    by_size.sort_by_key(|(_, set)| set.len());
    match combination {
        Combination::Union => union(&by_size, options),
        Combination::Inter => SortedSetDraft::made_of(inter(&by_size, options).into_iter()),
        Combination::Diff => diff(sets),
    }
    .members()
}

/// Of sets with their places.
fn union<'g>(sets: &[(usize, Input<'g>)], options: &Options) -> SortedSetDraft<'g> {
    let mut draft = SortedSetDraft::of(None, sets.iter().map(|(_, set)| set.len()).sum());
    for (place, set) in sets {
        for (member, score) in set.members() {
            let weighted = options.first_weighted(*place, score);
            let score = draft.score(member).map(|other| options.aggregate.of(other, weighted));
            draft.set(member, score.unwrap_or(weighted));
        }
    }
    draft
}

/// Of sets with their places, the smallest first; at most as many members as the options say.
fn inter<'g>(sets: &[(usize, Input<'g>)], options: &Options) -> Vec<Scored<'g>> {
    let Some((&(first, smallest), others)) = sets.split_first() else { return Vec::new() };
    let asked = |(place, set): &(usize, Input<'g>)| (*place, Asked::of(*set, smallest.len()));
    let asked: Vec<(usize, Asked<'_>)> = others.iter().map(asked).collect();
    let shared = smallest.members().filter_map(|(member, score)| {
        let start = options.first_weighted(first, score);
        let score = asked.iter().try_fold(start, |sum, (place, set)| {
            Some(options.aggregate.of(sum, options.weighted(*place, set.score(member)?)))
        });
        Some((member, score?))
    });
    shared.take(options.limit.unwrap_or(usize::MAX)).collect()
}

fn diff<'g>(sets: &[Input<'g>]) -> SortedSetDraft<'g> {
    let Some((first, others)) = sets.split_first() else { return SortedSetDraft::of(None, 0) };
    let asked: Vec<Asked<'_>> = others.iter().map(|set| Asked::of(*set, first.len())).collect();
    let is_alone = |(member, _): &Scored<'_>| asked.iter().all(|set| set.score(member).is_none());
    let left: Vec<Scored<'_>> = first.members().filter(is_alone).collect();
    SortedSetDraft::made_of(left.into_iter())
}

/// The combination that the command names, whose keys are counted by the argument with this index.
fn combine<'g, E: Executor>(
    call: &mut Call<'g, E>,
    count_at: usize,
    form: Form,
) -> Result<(Vec<Scored<'g>>, Options), ReplyError> {
    let keys = parse_i64(call.args[count_at]).ok_or(ReplyError::NotAnInteger)?;
    if keys < 1 {
        let command = String::from_utf8_lossy(call.args[0]).to_ascii_lowercase();
        return Err(ReplyError::owned(format!("ERR at least 1 input key is needed for '{command}' command")));
    }
    let rest = call.args.len() - (count_at + 1);
    let keys = usize::try_from(keys).ok().filter(|keys| *keys <= rest).ok_or(ReplyError::Syntax)?;
    let values = call.look_up_all();
    // A destination comes first.
    let sets = values.into_iter().skip(count_at - 1).map(Input::of).collect::<Result<Vec<_>, _>>()?;
    let options = Options::parse(form, keys, &call.args[count_at + 1 + keys..])?;
    Ok((combined(&sets, form.combination, &options), options))
}

fn reply_combined<E: Executor>(call: &mut Call<'_, E>, combination: Combination) -> Done {
    let form = Form { combination, may_score: true, may_limit: false };
    let (members, options) = combine(call, 1, form)?;
    reply_members(call, members.len(), members.into_iter(), options.with_scores);
    Ok(())
}

fn store_combined<E: Executor>(call: &mut Call<'_, E>, combination: Combination) -> Done {
    let (members, _) = combine(call, 2, Form { combination, may_score: false, may_limit: false })?;
    store(call, 0, &SortedSetDraft::made_of(members.into_iter()))
}

pub(super) fn zunion<E: Executor>(call: &mut Call<'_, E>) -> Done {
    reply_combined(call, Combination::Union)
}

pub(super) fn zinter<E: Executor>(call: &mut Call<'_, E>) -> Done {
    reply_combined(call, Combination::Inter)
}

pub(super) fn zdiff<E: Executor>(call: &mut Call<'_, E>) -> Done {
    reply_combined(call, Combination::Diff)
}

pub(super) fn zunionstore<E: Executor>(call: &mut Call<'_, E>) -> Done {
    store_combined(call, Combination::Union)
}

pub(super) fn zinterstore<E: Executor>(call: &mut Call<'_, E>) -> Done {
    store_combined(call, Combination::Inter)
}

pub(super) fn zdiffstore<E: Executor>(call: &mut Call<'_, E>) -> Done {
    store_combined(call, Combination::Diff)
}

pub(super) fn zintercard<E: Executor>(call: &mut Call<'_, E>) -> Done {
    let form = Form { combination: Combination::Inter, may_score: false, may_limit: true };
    let (members, _) = combine(call, 1, form)?;
    call.reply.integer(members.len() as i64);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use sidle_collections::Limits;

    #[test]
    fn scores_are_weighed_and_aggregated() {
        let one: Vec<Scored<'static>> = vec![(b"a", 1.0), (b"b", 2.0)];
        let other: Vec<Scored<'static>> = vec![(b"b", 5.0), (b"c", 1.0)];
        let made = |members: Vec<Scored<'static>>| {
            let finished = SortedSetDraft::made_of(members.into_iter()).finish(&Limits::default());
            finished.into_packed().expect("it is short")
        };
        let (one, other) = (made(one), made(other));
        let sets = [&one, &other].map(|bytes| Input::Scored(SortedSet::of(bytes)));
        let of = |combination, options: &str| {
            let options: Vec<&[u8]> = options.split_whitespace().map(str::as_bytes).collect();
            let form = Form { combination, may_score: true, may_limit: false };
            let members = combined(&sets, combination, &Options::parse(form, 2, &options).unwrap());
            members
                .iter()
                .map(|(member, score)| format!("{}{score}", char::from(member[0])))
                .collect::<Vec<_>>()
                .join(" ")
        };
        assert_eq!(of(Combination::Union, ""), "a1 c1 b7");
        assert_eq!(of(Combination::Union, "weights 10 1"), "c1 a10 b25");
        assert_eq!(of(Combination::Union, "aggregate max"), "a1 c1 b5");
        assert_eq!(of(Combination::Inter, "aggregate min weights 1 2"), "b2");
        assert_eq!(of(Combination::Diff, "withscores"), "a1");
        assert_eq!(Aggregate::Sum.of(f64::INFINITY, f64::NEG_INFINITY), 0.0);
        assert_eq!(Aggregate::Max.of(1.0, f64::NAN), 1.0);
        let form = Form { combination: Combination::Diff, may_score: false, may_limit: false };
        assert!(Options::parse(form, 1, &[b"weights", b"1"]).is_err());
    }
}
