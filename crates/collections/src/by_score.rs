//! The members of a large sorted set in the order of their scores: searches, and changes.

use crate::elements::{self, Elements};
use crate::encoding::Limits;
use crate::in_order::InOrder;
use crate::known::{Known, Named};
use crate::labels::Labels;
use sidle_outline::{Large, Order, Outline};
use std::cmp::Ordering;
use std::ops::Range;

/// How many byte strings an element is: the score, and the member.
pub(crate) const STRINGS: usize = 2;

/// The order of members: by score, zeros of both signs being equal, then by their bytes.
pub(crate) fn order((a, a_score): Named<'_, f64>, (b, b_score): Named<'_, f64>) -> Ordering {
    a_score.partial_cmp(&b_score).unwrap_or(Ordering::Equal).then_with(|| a.cmp(b))
}

/// The members that byte strings hold.
pub(crate) fn scored<'b>(strings: impl Iterator<Item = &'b [u8]>) -> impl Iterator<Item = Named<'b, f64>> {
    let mut strings = strings;
    std::iter::from_fn(move || {
        let score = f64::from_le_bytes(*strings.next()?.first_chunk()?);
        // Nobody writes what is no number; it would have no order.
        Some((strings.next()?, if score.is_nan() { 0.0 } else { score }))
    })
}

/// Writes a member behind others.
pub(crate) fn push(bytes: &mut Vec<u8>, (member, score): Named<'_, f64>) {
    score.write(bytes);
    elements::push(bytes, member);
}

/// How many bytes a member takes with its score.
pub(crate) fn written_bytes((member, score): Named<'_, f64>) -> usize {
    score.written_bytes() + elements::written_bytes(member)
}

/// The members of a chunk of the order of scores, with their scores.
pub fn members_in_chunk(bytes: &[u8]) -> impl Iterator<Item = (&[u8], f64)> {
    in_chunk(bytes)
}

fn in_chunk(bytes: &[u8]) -> impl Iterator<Item = Named<'_, f64>> {
    scored(Elements::of_chunk(bytes))
}

/// How many first members this holds for. It holds for no member behind one for which it does not.
pub(crate) fn count_while(large: Large<'_>, holds: impl Fn(Named<'_, f64>) -> bool) -> usize {
    let begins = |bytes| in_chunk(bytes).next().is_some_and(&holds);
    let Some(part) = large.last_where(Order::Main, begins) else { return 0 };
    part.first_index as usize + in_chunk(part.bytes).take_while(|member| holds(*member)).count()
}

/// The members of these indices, the last first.
pub(crate) fn range_back(large: Large<'_>, range: Range<usize>) -> impl Iterator<Item = Named<'_, f64>> {
    let last = range.end.checked_sub(1).and_then(|last| large.with_index(Order::Main, last as u64));
    let members = last.into_iter().flat_map(move |last| {
        let here = reversed(last.bytes, range.end - last.first_index as usize);
        let before = last.chunk.label.checked_sub(1).map(|label| large.iter_back_from(Order::Main, label));
        here.chain(before.into_iter().flatten().flat_map(|(_, bytes)| reversed(bytes, usize::MAX)))
    });
    members.take(range.len())
}

/// The first members of a chunk, the last of them first.
fn reversed(bytes: &[u8], first: usize) -> impl Iterator<Item = Named<'_, f64>> {
    let members: Vec<Named<'_, f64>> = in_chunk(bytes).take(first).collect();
    members.into_iter().rev()
}

/// A member that is added or removed. A new score is both.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Change<'b> {
    pub(crate) member: Named<'b, f64>,
    pub(crate) is_added: bool,
}

/// Makes the changes to the main sequence of an outline, which came of this sorted set. Only the chunks where
/// a change belongs are written anew.
pub(crate) fn write<'b>(
    outline: &mut Outline,
    old: Large<'b>,
    mut changes: Vec<Change<'b>>,
    limits: &Limits,
    labels: Labels,
) {
    changes.sort_by(|a, b| order(a.member, b.member).then(a.is_added.cmp(&b.is_added)));
    let mut sequence = InOrder::of(outline, Some(old), STRINGS, limits, labels);
    let mut rest = changes.as_slice();
    while let Some(first) = rest.first() {
        let is_before = |bytes| {
            let begin = in_chunk(bytes).next();
            begin.is_some_and(|begin| order(begin, first.member) != Ordering::Greater)
        };
        let chunk = old.last_where(Order::Main, is_before).or_else(|| old.covering(Order::Main, 0));
        let chunk = chunk.expect("a large sorted set has members");
        let label = chunk.chunk.label;
        let behind = label.checked_add(1).and_then(|label| old.iter_from(Order::Main, label).next());
        let end = behind.and_then(|(_, bytes)| in_chunk(bytes).next());
        let here =
            rest.partition_point(|change| end.is_none_or(|end| order(change.member, end) == Ordering::Less));
        let (here, after) = rest.split_at(here.max(1));
        let members = merged(chunk.bytes, here);
        match members.is_empty() {
            true => sequence.remove(label),
            false => {
                let mut bytes = Vec::with_capacity(members.iter().copied().map(written_bytes).sum());
                members.iter().for_each(|member| push(&mut bytes, *member));
                sequence.put(label, members.len(), &bytes);
            }
        }
        rest = after;
    }
    sequence.settle();
}

/// A chunk's members with the changes, which are sorted.
fn merged<'b>(bytes: &'b [u8], changes: &[Change<'b>]) -> Vec<Named<'b, f64>> {
    let mut members = Vec::new();
    let mut old = in_chunk(bytes).peekable();
    for change in changes {
        while let Some(kept) = old.next_if(|old| order(*old, change.member) == Ordering::Less) {
            members.push(kept);
        }
        if change.is_added {
            members.push(change.member);
        } else {
            let removed = old.next_if(|old| order(*old, change.member) == Ordering::Equal);
            debug_assert!(removed.is_some(), "a member that is removed is there: {change:?}");
        }
    }
    members.extend(old);
    members
}
