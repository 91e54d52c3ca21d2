//! SORT and SORT_RO: the elements of a list, a set or a sorted set in order.
//!
//! A command locks the keys that its request names. Patterns of BY and GET name keys by the values of
//! elements, so those that do are refused, as by Redis in cluster mode.

use super::Done;
use super::changed::store;
use crate::call::{Call, Executor};
use crate::key_spec::KeySpec;
use crate::keyspace::Value;
use crate::number::parse_i64;
use crate::reply::Reply;
use crate::reply_error::ReplyError;
use crate::spec::{Access, CommandFlags, CommandSpec};
use crate::strtod::{self, Read};
use sidle_collections::{Draft, List, ListDraft, Lists, Sets, SortedSet, SortedSets};
use sidle_types::ValueKind;
use std::cmp::Ordering;

const COLLECTIONS: CommandFlags =
    CommandFlags::LIST.with(CommandFlags::SET).with(CommandFlags::SORTED_SET).with(CommandFlags::DANGEROUS);
const READ: CommandFlags = CommandFlags::READONLY.with(COLLECTIONS).with(CommandFlags::MOVABLE_KEYS);
const STORE: CommandFlags =
    CommandFlags::WRITE.with(CommandFlags::DENYOOM).with(COLLECTIONS).with(CommandFlags::MOVABLE_KEYS);
const SIZE: &str = "O(N*log(N)) where N is the number of elements; with BY of no key, that of those returned";

pub(super) const fn commands<E: Executor>() -> &'static [CommandSpec<E>] {
    const {
        &[
            CommandSpec::over_keys("sort", -2, STORE, sort)
                .keys(
                    KeySpec::one_and_optional(&["RO", "access"], destination, &["OW", "update"]),
                    Access::ReadWrite,
                )
                .docs(
                    "generic",
                    "1.0.0",
                    SIZE,
                    "Returns elements in order, or sets a key to a list of them.",
                ),
            CommandSpec::over_keys("sort_ro", -2, READ, sort_ro)
                .keys(KeySpec::one(&["RO", "access"]), Access::Read)
                .docs("generic", "7.0.0", SIZE, "Returns elements in order."),
        ]
    }
}

/// How many arguments belong to an option.
fn arguments_of(option: &[u8]) -> usize {
    match option.to_ascii_lowercase().as_slice() {
        b"limit" => 2,
        b"by" | b"get" | b"store" => 1,
        _ => 0,
    }
}

/// The index of the key to store to, which is the last that is named.
fn destination(args: &[&[u8]]) -> Option<usize> {
    let (mut found, mut at) = (None, 2);
    while at < args.len() {
        if args[at].eq_ignore_ascii_case(b"store") && at + 1 < args.len() {
            found = Some(at + 1);
        }
        at += 1 + arguments_of(args[at]);
    }
    found
}

/// What is returned of an element.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Shown {
    /// GET of a key that no element is a part of: there is none.
    Nothing,
    Itself,
}

/// What is asked for.
#[derive(Clone, Debug, PartialEq, Eq)]
struct SortOptions {
    /// ALPHA: the order is that of bytes, not of numbers.
    by_text: bool,
    is_descending: bool,
    /// BY a key that no element is a part of: the order is that of the collection.
    is_unsorted: bool,
    /// LIMIT: how many to leave out, and how many to return at most; negative: all.
    limit: (i64, i64),
    /// GET, each for every element; none: the element.
    shown: Vec<Shown>,
    /// STORE: whether the second key is set to the list.
    stores: bool,
}

impl SortOptions {
    fn parse(mut options: &[&[u8]], may_store: bool) -> Result<SortOptions, ReplyError> {
        let mut parsed = SortOptions {
            by_text: false,
            is_descending: false,
            is_unsorted: false,
            limit: (0, -1),
            shown: Vec::new(),
            stores: false,
        };
        while let [option, rest @ ..] = options {
            let (arguments, rest) = rest.split_at_checked(arguments_of(option)).ok_or(ReplyError::Syntax)?;
            options = rest;
            match (option.to_ascii_lowercase().as_slice(), arguments) {
                (b"asc", _) => parsed.is_descending = false,
                (b"desc", _) => parsed.is_descending = true,
                (b"alpha", _) => parsed.by_text = true,
                (b"limit", [skipped, count]) => {
                    let number = |text: &[u8]| parse_i64(text).ok_or(ReplyError::NotAnInteger);
                    parsed.limit = (number(skipped)?, number(count)?);
                }
                (b"by", [pattern]) if pattern.contains(&b'*') => {
                    return Err(ReplyError::text("ERR BY option of SORT denied in Cluster mode."));
                }
                (b"by", _) => parsed.is_unsorted = true,
                (b"get", [b"#"]) => parsed.shown.push(Shown::Itself),
                (b"get", [pattern]) if pattern.contains(&b'*') => {
                    return Err(ReplyError::text("ERR GET option of SORT denied in Cluster mode."));
                }
                (b"get", _) => parsed.shown.push(Shown::Nothing),
                (b"store", _) if may_store => parsed.stores = true,
                _ => return Err(ReplyError::Syntax),
            }
        }
        if parsed.shown.is_empty() {
            parsed.shown.push(Shown::Itself);
        }
        Ok(parsed)
    }

    /// What is asked for of a value.
    fn of<'g>(&self, value: Option<Value<'g>>) -> Result<Vec<&'g [u8]>, ReplyError> {
        let kind = value.map_or(ValueKind::List, |value| value.kind);
        let (skipped, count) = self.limit;
        let skipped = usize::try_from(skipped.max(0)).unwrap_or(usize::MAX);
        let count = usize::try_from(count).unwrap_or(usize::MAX);
        if let Some(value) = value.filter(|_| self.is_unsorted && kind != ValueKind::Set) {
            return unsorted(value, self.is_descending, skipped, count);
        }
        let mut elements = value.map_or(Ok(Vec::new()), elements_of)?;
        // A set has no order: one that is stored gets one, as in Redis.
        let (has_order, is_set) = (!self.is_unsorted, kind == ValueKind::Set);
        if has_order && !self.by_text {
            elements = by_number(elements)?;
        } else if has_order || is_set && self.stores {
            elements.sort_unstable();
        }
        if self.is_descending && (has_order || !is_set || self.stores) {
            elements.reverse();
        }
        Ok(elements.into_iter().skip(skipped).take(count).collect())
    }
}

/// The elements of a collection, in its order.
fn elements_of(value: Value<'_>) -> Result<Vec<&[u8]>, ReplyError> {
    match value.kind {
        ValueKind::List => Ok(value.into_collection::<Lists>().items().collect()),
        ValueKind::Set => Ok(value.into_collection::<Sets>().members().collect()),
        ValueKind::SortedSet => {
            Ok(value.into_collection::<SortedSets>().members().map(|(member, _)| member).collect())
        }
        ValueKind::String | ValueKind::Hash => Err(ReplyError::WrongType),
    }
}

/// Elements of a list or a sorted set in its order, or from its end, behind so many others.
fn unsorted(
    value: Value<'_>,
    from_end: bool,
    skipped: usize,
    count: usize,
) -> Result<Vec<&[u8]>, ReplyError> {
    if value.kind != ValueKind::SortedSet {
        let list: List<'_> = value.collection()?;
        return Ok(match from_end {
            false => list.items_from(skipped).take(count).collect(),
            true => list.items_back().skip(skipped).take(count).collect(),
        });
    }
    let set: SortedSet<'_> = value.into_collection();
    let length = set.member_count();
    let (start, end) = (skipped.min(length), skipped.saturating_add(count).min(length));
    Ok(match from_end {
        false => set.range(start..end).map(|(member, _)| member).collect(),
        true => set.range_back(length - end..length - start).map(|(member, _)| member).collect(),
    })
}

/// Elements in the order of the numbers that they are; equal ones in that of their bytes.
fn by_number(elements: Vec<&[u8]>) -> Result<Vec<&[u8]>, ReplyError> {
    let refusal = ReplyError::text("ERR One or more scores can't be converted into double");
    let number = |element| Some((strtod::read(element).and_then(Read::precise)?, element));
    let mut numbered: Vec<(f64, &[u8])> =
        elements.into_iter().map(number).collect::<Option<_>>().ok_or(refusal)?;
    let order = |one: f64, other: f64| one.partial_cmp(&other).unwrap_or(Ordering::Equal);
    numbered.sort_unstable_by(|(a, a_text), (b, b_text)| order(*a, *b).then_with(|| a_text.cmp(b_text)));
    Ok(numbered.into_iter().map(|(_, element)| element).collect())
}

fn sort<E: Executor>(call: &mut Call<'_, E>) -> Done {
    let options = SortOptions::parse(&call.args[2..], true)?;
    let value = call.look_up(0);
    let elements = options.of(value)?;
    if !options.stores {
        reply_shown(call, &elements, &options.shown);
        return Ok(());
    }
    let shown = |element| {
        options.shown.iter().map(move |shown| match shown {
            Shown::Itself => element,
            Shown::Nothing => &[][..],
        })
    };
    let items: Vec<&[u8]> = elements.into_iter().flat_map(shown).collect();
    store(call, 1, &ListDraft::made_of(items.into_iter()))
}

fn sort_ro<E: Executor>(call: &mut Call<'_, E>) -> Done {
    let options = SortOptions::parse(&call.args[2..], false)?;
    let value = call.look_up(0);
    let elements = options.of(value)?;
    reply_shown(call, &elements, &options.shown);
    Ok(())
}

fn reply_shown<E: Executor>(call: &mut Call<'_, E>, elements: &[&[u8]], shown: &[Shown]) {
    call.reply.array(elements.len() * shown.len());
    for element in elements {
        for shown in shown {
            match shown {
                Shown::Itself => call.reply.bulk(element),
                Shown::Nothing => call.reply.null(),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// All requests of a few words: where one is well-formed, the key that is locked is that which is set.
    #[test]
    fn the_destination_is_found_where_it_is_parsed() {
        const WORDS: [&[u8]; 7] = [b"asc", b"limit", b"0", b"by", b"get", b"STORE", b"k"];
        for number in 0..WORDS.len().pow(6) {
            let words = (0..6).map(|place| WORDS[number / WORDS.len().pow(place) % WORDS.len()]);
            let args: Vec<&[u8]> = [&b"sort"[..], b"key"].into_iter().chain(words).collect();
            let Ok(parsed) = SortOptions::parse(&args[2..], true) else { continue };
            assert_eq!(parsed.stores, destination(&args).is_some(), "{args:?}");
        }
        let of = |line: &str| destination(&line.split(' ').map(str::as_bytes).collect::<Vec<_>>());
        assert_eq!(of("sort key store a"), Some(3));
        assert_eq!(of("sort key store a limit 0 1 store b"), Some(8));
        assert_eq!(of("sort key by store store store"), Some(5));
        assert_eq!(of("sort key by store"), None);
        assert_eq!(of("sort key get store b"), None);
        assert_eq!(of("sort"), None);
    }

    #[test]
    fn patterns_that_name_other_keys_are_refused() {
        let parse = |line: &str| {
            let options: Vec<&[u8]> = line.split_whitespace().map(str::as_bytes).collect();
            SortOptions::parse(&options, false)
        };
        for refused in ["by w*", "get *", "get # get a*->b", "by *->f"] {
            assert!(matches!(parse(refused), Err(ReplyError::Text(_))), "{refused}");
        }
        for bad in ["foo", "by", "get", "limit 0", "store", "store k", "asc foo"] {
            assert_eq!(parse(bad), Err(ReplyError::Syntax), "{bad}");
        }
        assert_eq!(parse("limit 0 x"), Err(ReplyError::NotAnInteger));
        assert_eq!(parse("get # get k").unwrap().shown, [Shown::Itself, Shown::Nothing]);
    }
}
