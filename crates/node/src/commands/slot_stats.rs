//! CLUSTER SLOT-STATS: what each slot of this node holds, and what its commands took.
//!
//! Keys and memory are exact; what commands took is estimated from samples (crate `sidle-heat`). A split slot
//! is shown by each of its owners, with that owner's part; of its memory the part is by the width of its
//! positions.

use crate::call::{Call, CommandResult, Flow};
use sidle_commands::{ReplyError, parse_i64};
use sidle_types::{PositionRange, SLOT_COUNT, Slot};
use smallvec::SmallVec;
use std::cmp::Reverse;

/// What slots can be ordered by, as it is called, in the order of a reply.
const METRICS: [(&str, Metric); 5] = [
    ("key-count", Metric::Keys),
    ("memory-bytes", Metric::MemoryBytes),
    ("cpu-usec", Metric::CpuUs),
    ("network-bytes-in", Metric::BytesIn),
    ("network-bytes-out", Metric::BytesOut),
];

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Metric {
    Keys,
    MemoryBytes,
    CpuUs,
    BytesIn,
    BytesOut,
}

/// A slot that this node owns, whole or in part.
pub(super) struct OwnedSlot {
    pub(super) slot: Slot,
    parts: SmallVec<[PositionRange; 1]>,
}

/// Those slots, in order.
pub(super) fn owned_slots(call: &Call<'_>) -> Vec<OwnedSlot> {
    let mut slots: Vec<OwnedSlot> = Vec::new();
    for range in call.ranges.owned() {
        let numbers = range.first().slot().number()..=range.last().slot().number();
        for slot in numbers.filter_map(Slot::new) {
            let whole = PositionRange::of_slots(slot, slot).expect("one slot");
            let part = whole.intersection(range).expect("the range reaches into it");
            match slots.last_mut() {
                Some(last) if last.slot == slot => last.parts.push(part),
                _ => slots.push(OwnedSlot { slot, parts: SmallVec::from_slice(&[part]) }),
            }
        }
    }
    slots
}

impl Metric {
    fn of(self, call: &Call<'_>, owned: &OwnedSlot) -> u64 {
        let OwnedSlot { slot, parts } = owned;
        let taken = || call.shared.heat.slots().of(*slot);
        match self {
            Metric::Keys => parts.iter().map(|&part| call.store.shown_in(part)).sum(),
            Metric::MemoryBytes => parts.iter().map(|&part| call.store.bytes_in(part)).sum(),
            Metric::CpuUs => taken().nanoseconds / 1000,
            Metric::BytesIn => taken().bytes_in,
            Metric::BytesOut => taken().bytes_out,
        }
    }
}

/// `CLUSTER SLOT-STATS SLOTSRANGE <first> <last>`, or `ORDERBY <metric> [LIMIT <count>] [ASC | DESC]`.
pub(super) fn slot_stats(call: &mut Call<'_>) -> CommandResult {
    let (how, rest) = (call.args[2], &call.args[3..]);
    let slots = if how.eq_ignore_ascii_case(b"slotsrange") && rest.len() == 2 {
        in_range(call, rest[0], rest[1])?
    } else if how.eq_ignore_ascii_case(b"orderby") {
        ordered(call, rest[0], &rest[1..])?
    } else {
        return Err(ReplyError::wrong_subcommand(call.args));
    };
    call.reply.array(slots.len());
    for owned in slots {
        call.reply.array(2);
        call.reply.integer(i64::from(owned.slot.number()));
        call.reply.map(METRICS.len());
        for (name, metric) in METRICS {
            let value = metric.of(call, &owned);
            call.reply.bulk(name.as_bytes());
            call.reply.integer(i64::try_from(value).unwrap_or(i64::MAX));
        }
    }
    Ok(Flow::Done)
}

fn in_range(call: &Call<'_>, first: &[u8], last: &[u8]) -> Result<Vec<OwnedSlot>, ReplyError> {
    let (first, last) = (slot_argument(first)?, slot_argument(last)?);
    if first > last {
        return Err(ReplyError::owned(format!(
            "ERR Start slot number {first} is greater than end slot number {last}"
        )));
    }
    Ok(owned_slots(call).into_iter().filter(|owned| (first..=last).contains(&owned.slot)).collect())
}

fn ordered(call: &Call<'_>, metric: &[u8], filters: &[&[u8]]) -> Result<Vec<OwnedSlot>, ReplyError> {
    let named = |(name, _): &&(&str, Metric)| metric.eq_ignore_ascii_case(name.as_bytes());
    let (_, metric) =
        METRICS.iter().find(named).ok_or(ReplyError::text("ERR Unrecognized sort metric for ORDERBY."))?;
    let (mut limit, mut is_ascending) = (None, None);
    let mut words = filters.iter();
    while let Some(word) = words.next() {
        let is_twice = match word.to_ascii_lowercase().as_slice() {
            b"limit" if !words.as_slice().is_empty() => {
                let count = words.next().and_then(|count| parse_i64(count));
                let count = count.filter(|count| (1..=i64::from(SLOT_COUNT)).contains(count));
                let count = count.ok_or(ReplyError::text(
                    "ERR Limit has to lie in between 1 and 16384 (maximum number of slots).",
                ))?;
                limit.replace(count as usize).is_some()
            }
            b"asc" => is_ascending.replace(true).is_some(),
            b"desc" => is_ascending.replace(false).is_some(),
            _ => return Err(ReplyError::Syntax),
        };
        if is_twice {
            return Err(ReplyError::text("ERR Multiple filters of the same type are disallowed."));
        }
    }
    let mut slots: Vec<(u64, OwnedSlot)> =
        owned_slots(call).into_iter().map(|owned| (metric.of(call, &owned), owned)).collect();
    // Equal ones stay in the order of their numbers.
    match is_ascending {
        Some(true) => slots.sort_by_key(|(value, _)| *value),
        _ => slots.sort_by_key(|(value, _)| Reverse(*value)),
    }
    slots.truncate(limit.unwrap_or(usize::MAX));
    Ok(slots.into_iter().map(|(_, owned)| owned).collect())
}

pub(super) fn slot_argument(argument: &[u8]) -> Result<Slot, ReplyError> {
    let number = parse_i64(argument).and_then(|number| u16::try_from(number).ok());
    number.and_then(Slot::new).ok_or(ReplyError::text("ERR Invalid or out of range slot"))
}
