//! SORT and SORT_RO: the elements of a list, a set or a sorted set in order.
//!
//! Patterns of BY and GET name keys by the values of elements. Where one node owns everything, such a command
//! runs under the locks of all slots; otherwise it is refused, as by Redis in cluster mode.

use super::Done;
use super::changed::store;
use super::sort_pattern::Pattern;
use crate::call::{Call, Executor};
use crate::key_spec::KeySpec;
use crate::keyspace::{Keyspace, Value};
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
                .reads_unnamed(has_patterns)
                .docs(
                    "generic",
                    "1.0.0",
                    SIZE,
                    "Returns elements in order, or sets a key to a list of them.",
                ),
            CommandSpec::over_keys("sort_ro", -2, READ, sort_ro)
                .keys(KeySpec::one(&["RO", "access"]), Access::Read)
                .reads_unnamed(has_patterns)
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

/// Whether BY or GET names keys by elements.
fn has_patterns(args: &[&[u8]]) -> bool {
    let mut at = 2;
    while at < args.len() {
        let is_pattern = |word: &&[u8]| word.contains(&b'*');
        let option = args[at];
        if (option.eq_ignore_ascii_case(b"by") || option.eq_ignore_ascii_case(b"get"))
            && args.get(at + 1).is_some_and(is_pattern)
        {
            return true;
        }
        at += 1 + arguments_of(option);
    }
    false
}

/// What is returned of an element.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Shown<'p> {
    /// GET of a key that no element is a part of: there is none.
    Nothing,
    Itself,
    Named(Pattern<'p>),
}

/// What is asked for.
#[derive(Clone, Debug, PartialEq, Eq)]
struct SortOptions<'p> {
    /// ALPHA: the order is that of bytes, not of numbers.
    by_text: bool,
    is_descending: bool,
    /// BY a key that no element is a part of: the order is that of the collection.
    is_unsorted: bool,
    /// BY: the order is that of what this names.
    by: Option<Pattern<'p>>,
    /// LIMIT: how many to leave out, and how many to return at most; negative: all.
    limit: (i64, i64),
    /// GET, each for every element; none: the element.
    shown: Vec<Shown<'p>>,
    /// STORE: whether the second key is set to the list.
    stores: bool,
}

impl<'p> SortOptions<'p> {
    /// `may_name`: whether patterns may name keys.
    fn parse(
        mut options: &[&'p [u8]],
        may_store: bool,
        may_name: bool,
    ) -> Result<SortOptions<'p>, ReplyError> {
        let mut parsed = SortOptions {
            by_text: false,
            is_descending: false,
            is_unsorted: false,
            by: None,
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
                (b"by", [pattern]) => match Pattern::parse(pattern) {
                    Some(_) if !may_name => {
                        return Err(ReplyError::text("ERR BY option of SORT denied in Cluster mode."));
                    }
                    // As in Redis, an earlier word without an element wins.
                    Some(by) => parsed.by = Some(by),
                    None => parsed.is_unsorted = true,
                },
                (b"get", [b"#"]) => parsed.shown.push(Shown::Itself),
                (b"get", [pattern]) => match Pattern::parse(pattern) {
                    Some(_) if !may_name => {
                        return Err(ReplyError::text("ERR GET option of SORT denied in Cluster mode."));
                    }
                    Some(named) => parsed.shown.push(Shown::Named(named)),
                    None => parsed.shown.push(Shown::Nothing),
                },
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
    fn of<'g, E: Executor>(
        &self,
        call: &mut Call<'g, E>,
        value: Option<Value<'g>>,
    ) -> Result<Vec<&'g [u8]>, ReplyError> {
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
        if let Some(by) = self.by.filter(|_| has_order) {
            let named = elements.into_iter().map(|element| (by.of(call, element), element)).collect();
            elements = if self.by_text { by_named_text(named) } else { by_named_number(named)? };
        } else if has_order && !self.by_text {
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
        ValueKind::String | ValueKind::Hash | ValueKind::Completions | ValueKind::Locks => {
            Err(ReplyError::WrongType)
        }
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
    by_named_number(elements.into_iter().map(|element| (Some(element), element)).collect())
}

/// Elements in the order of texts; those without one first.
fn by_named_text<'g>(mut named: Vec<(Option<&'g [u8]>, &'g [u8])>) -> Vec<&'g [u8]> {
    named.sort_by_key(|(text, _)| *text);
    named.into_iter().map(|(_, element)| element).collect()
}

/// Elements in the order of numbers, 0 for those without one; equal ones in that of their bytes.
fn by_named_number<'g>(named: Vec<(Option<&'g [u8]>, &'g [u8])>) -> Result<Vec<&'g [u8]>, ReplyError> {
    let refusal = ReplyError::text("ERR One or more scores can't be converted into double");
    let number = |(text, element): (Option<&[u8]>, &'g [u8])| match text {
        Some(text) => Some((strtod::read(text).and_then(Read::precise)?, element)),
        None => Some((0.0, element)),
    };
    let mut numbered: Vec<(f64, &[u8])> =
        named.into_iter().map(number).collect::<Option<_>>().ok_or(refusal)?;
    let order = |one: f64, other: f64| one.partial_cmp(&other).unwrap_or(Ordering::Equal);
    numbered.sort_unstable_by(|(a, a_text), (b, b_text)| order(*a, *b).then_with(|| a_text.cmp(b_text)));
    Ok(numbered.into_iter().map(|(_, element)| element).collect())
}

fn sort<E: Executor>(call: &mut Call<'_, E>) -> Done {
    let options = SortOptions::parse(&call.args[2..], true, call.keyspace.lends_unnamed())?;
    let value = call.look_up(0);
    let elements = options.of(call, value)?;
    if !options.stores {
        reply_shown(call, &elements, &options.shown);
        return Ok(());
    }
    let mut items: Vec<&[u8]> = Vec::with_capacity(elements.len() * options.shown.len());
    for element in elements {
        items.extend(options.shown.iter().map(|shown| shown.of(call, element).unwrap_or_default()));
    }
    store(call, 1, &ListDraft::made_of(items.into_iter()))
}

fn sort_ro<E: Executor>(call: &mut Call<'_, E>) -> Done {
    let options = SortOptions::parse(&call.args[2..], false, call.keyspace.lends_unnamed())?;
    let value = call.look_up(0);
    let elements = options.of(call, value)?;
    reply_shown(call, &elements, &options.shown);
    Ok(())
}

impl Shown<'_> {
    /// What is returned of this element; none: null.
    fn of<'g, E: Executor>(self, call: &mut Call<'g, E>, element: &'g [u8]) -> Option<&'g [u8]> {
        match self {
            Shown::Nothing => None,
            Shown::Itself => Some(element),
            Shown::Named(pattern) => pattern.of(call, element),
        }
    }
}

fn reply_shown<'g, E: Executor>(call: &mut Call<'g, E>, elements: &[&'g [u8]], shown: &[Shown<'_>]) {
    call.reply.array(elements.len() * shown.len());
    for element in elements {
        for shown in shown {
            match shown.of(call, element) {
                Some(text) => call.reply.bulk(text),
                None => call.reply.null(),
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
        const WORDS: [&[u8]; 8] = [b"asc", b"limit", b"0", b"by", b"get", b"STORE", b"k", b"k*"];
        for number in 0..WORDS.len().pow(5) {
            let words = (0..5).map(|place| WORDS[number / WORDS.len().pow(place) % WORDS.len()]);
            let args: Vec<&[u8]> = [&b"sort"[..], b"key"].into_iter().chain(words).collect();
            let Ok(parsed) = SortOptions::parse(&args[2..], true, true) else { continue };
            assert_eq!(parsed.stores, destination(&args).is_some(), "{args:?}");
            let named = |shown: &Shown<'_>| matches!(shown, Shown::Named(_));
            let has_named = parsed.by.is_some() || parsed.shown.iter().any(named);
            assert_eq!(has_named, has_patterns(&args), "{args:?}");
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
        let parse = |line: &'static str| {
            let options: Vec<&[u8]> = line.split_whitespace().map(str::as_bytes).collect();
            SortOptions::parse(&options, false, false)
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
