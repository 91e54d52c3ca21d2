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
use sidle_collections::{Draft, ScoreTable, Scored, Set, SortedSetDraft, SortedSets};
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

/// The members of a set or a sorted set.
fn members_of(value: Option<Value<'_>>) -> Result<Vec<Scored<'_>>, ReplyError> {
    match value {
        None => Ok(Vec::new()),
        Some(value) if value.kind == ValueKind::SortedSet => {
            Ok(value.into_collection::<SortedSets>().members().collect())
        }
        Some(value) => {
            let set: Set<'_> = value.collection()?;
            Ok(set.members().map(|member| (member, 1.0)).collect())
        }
    }
}

/// The sets in one, in the order of scores. Sums depend on the order of their terms: as in Redis small sets
/// come first.
fn combined<'g>(sets: &[Vec<Scored<'g>>], combination: Combination, options: &Options) -> Vec<Scored<'g>> {
    let mut by_size: Vec<(usize, &[Scored<'_>])> = sets.iter().map(Vec::as_slice).enumerate().collect();
    by_size.sort_by_key(|(_, set)| set.len());
    match combination {
        Combination::Union => union(&by_size, options),
        Combination::Inter => inter(&by_size, options),
        Combination::Diff => diff(sets),
    }
    .members()
}

/// Of sets with their places.
fn union<'g>(sets: &[(usize, &[Scored<'g>])], options: &Options) -> SortedSetDraft<'g> {
    let mut draft = SortedSetDraft::of(None, sets.iter().map(|(_, set)| set.len()).sum());
    for (place, set) in sets {
        for &(member, score) in *set {
            let weighted = options.first_weighted(*place, score);
            let score = draft.score(member).map(|other| options.aggregate.of(other, weighted));
            draft.set(member, score.unwrap_or(weighted));
        }
    }
    draft
}

/// Of sets with their places, the smallest first.
fn inter<'g>(sets: &[(usize, &[Scored<'g>])], options: &Options) -> SortedSetDraft<'g> {
    let Some((&(first, members), others)) = sets.split_first() else { return SortedSetDraft::of(None, 0) };
    let table =
        |(place, set): &(usize, &[Scored<'g>])| (*place, ScoreTable::of(set.iter().copied(), members.len()));
    let tables: Vec<(usize, ScoreTable<'_>)> = others.iter().map(table).collect();
    let mut draft = SortedSetDraft::of(None, members.len());
    for &(member, score) in members {
        let start = options.first_weighted(first, score);
        let score = tables.iter().try_fold(start, |sum, (place, table)| {
            Some(options.aggregate.of(sum, options.weighted(*place, table.score(member)?)))
        });
        if let Some(score) = score {
            draft.set(member, score);
        }
    }
    draft
}

fn diff<'g>(sets: &[Vec<Scored<'g>>]) -> SortedSetDraft<'g> {
    let Some((first, others)) = sets.split_first() else { return SortedSetDraft::of(None, 0) };
    let table = |set: &Vec<Scored<'g>>| ScoreTable::of(set.iter().copied(), first.len());
    let tables: Vec<ScoreTable<'_>> = others.iter().map(table).collect();
    let is_alone = |(member, _): &&Scored<'_>| tables.iter().all(|table| table.score(member).is_none());
    let left: Vec<Scored<'_>> = first.iter().filter(is_alone).copied().collect();
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
    let sets = values.into_iter().skip(count_at - 1).map(members_of).collect::<Result<Vec<_>, _>>()?;
    let options = Options::parse(form, keys, &call.args[count_at + 1 + keys..])?;
    Ok((combined(&sets, form.combination, &options), options))
}

fn reply_combined<E: Executor>(call: &mut Call<'_, E>, combination: Combination) -> Done {
    let form = Form { combination, may_score: true, may_limit: false };
    let (members, options) = combine(call, 1, form)?;
    reply_members(call, &members, options.with_scores);
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
    let (members, options) = combine(call, 1, form)?;
    call.reply.integer(members.len().min(options.limit.unwrap_or(usize::MAX)) as i64);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scores_are_weighed_and_aggregated() {
        let one: Vec<Scored<'_>> = vec![(b"a", 1.0), (b"b", 2.0)];
        let other: Vec<Scored<'_>> = vec![(b"b", 5.0), (b"c", 1.0)];
        let sets = [one, other];
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
