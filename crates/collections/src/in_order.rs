//! Elements in an order of their own, in chunks: changed chunks are split and joined, and get labels.
//!
//! Whoever changes a collection puts the changed chunks, as long or as short as they are, and then settles
//! the sequence. Invariants of chunks that were settled:
//! - Q1. None is longer than a chunk may be, unless it is one element, and none is empty.
//! - Q2. No two neighbours would fit into half a chunk.
//! - Q3. A sorted set has the same members in both of its sequences, with the same scores.
//!
//! At an end a chunk is filled before the next one begins: a queue has full chunks, and a push or a pop
//! rewrites one. Elsewhere a chunk is split into equal parts.

use crate::elements::{self, Elements};
use crate::encoding::Limits;
use crate::labels::Labels;
use sidle_outline::{Chunk, Large, Order, Outline, Place, Sequence};
use std::collections::BTreeSet;

/// A sequence that is changed.
pub(crate) struct InOrder<'o, 'b> {
    outline: &'o mut Outline,
    /// The state that the outline came of.
    old: Option<Large<'b>>,
    /// How many byte strings an element is.
    strings: usize,
    chunk_bytes: usize,
    labels: Labels,
    /// Chunks that may be too long.
    long: BTreeSet<u64>,
    /// Chunks that may be too short.
    short: BTreeSet<u64>,
}

impl<'o, 'b> InOrder<'o, 'b> {
    /// The main sequence of an outline that came of this collection.
    pub(crate) fn of(
        outline: &'o mut Outline,
        old: Option<Large<'b>>,
        strings: usize,
        limits: &Limits,
        labels: Labels,
    ) -> InOrder<'o, 'b> {
        let chunk_bytes = limits.chunk_bytes;
        InOrder { outline, old, strings, chunk_bytes, labels, long: BTreeSet::new(), short: BTreeSet::new() }
    }

    fn sequence(&self) -> &Sequence {
        self.outline.sequence(Order::Main)
    }

    /// Puts a chunk of any length, which is not empty.
    pub(crate) fn put(&mut self, label: u64, elements: usize, bytes: &[u8]) {
        self.place(label, elements, bytes);
        if bytes.len() > self.chunk_bytes && elements > 1 {
            self.long.insert(label);
        } else if self.may_be_short(bytes.len()) {
            self.short.insert(label);
        }
    }

    /// Whether a chunk of so many bytes may fit into half a chunk with a neighbour.
    fn may_be_short(&self, bytes: usize) -> bool {
        bytes < self.chunk_bytes / 2
    }

    /// Removes a chunk.
    pub(crate) fn remove(&mut self, label: u64) {
        self.outline.remove(Order::Main, label);
        let before = self.sequence().last_up_to(label).map(|at| at.chunk.label);
        self.short.extend(before);
    }

    /// Splits what is too long, and joins what is too short.
    pub(crate) fn settle(mut self) {
        while let Some(label) = self.long.pop_first() {
            self.short.insert(label);
            self.split(label);
        }
        let mut settled = BTreeSet::new();
        while let Some(label) = self.short.pop_first() {
            self.join(label);
            if cfg!(debug_assertions) {
                settled.insert(label);
            }
        }
        debug_assert!(settled.into_iter().all(|label| self.is_settled(label)), "Q1, Q2");
    }

    /// Whether what Q1 and Q2 say holds for a chunk, if there is one with this label, and for its neighbours.
    fn is_settled(&self, label: u64) -> bool {
        let Some(chunk) = self.sequence().labelled(label).map(|at| at.chunk) else { return true };
        let (before, behind) = self.beside(label);
        let others =
            [before, behind].into_iter().flatten().filter_map(|other| self.sequence().labelled(other));
        let fit = others.map(|other| (other.chunk.bytes + chunk.bytes) as usize).min();
        (chunk.bytes as usize <= self.chunk_bytes || chunk.elements == 1)
            && chunk.elements > 0
            && fit.is_none_or(|bytes| bytes > self.chunk_bytes / 2)
    }

    /// Puts a chunk; the published one if it is that again.
    fn place(&mut self, label: u64, elements: usize, bytes: &[u8]) {
        debug_assert!(elements > 0, "an empty chunk");
        debug_assert_eq!(sizes(bytes, self.strings).len(), elements, "elements of a chunk");
        let again = self.old.and_then(|old| {
            let chunk = old.outline().sequence(Order::Main).labelled(label)?.chunk;
            let is_same = chunk.bytes as usize == bytes.len() && old.bytes_of(chunk) == bytes;
            is_same.then(|| chunk.clone())
        });
        let is_there =
            |again: &Chunk| self.sequence().labelled(label).is_some_and(|at| at.chunk.place == again.place);
        match again {
            Some(again) if is_there(&again) => {}
            Some(again) => self.outline.put(Order::Main, again),
            None => self.outline.put(Order::Main, Chunk::new(label, elements as u32, bytes)),
        }
    }

    fn bytes_of(&self, chunk: &Chunk) -> Vec<u8> {
        match (&chunk.place, self.old) {
            (Place::New(bytes), _) => bytes.to_vec(),
            (Place::InLog(_), Some(old)) => old.under(self.outline).bytes_of(chunk).to_vec(),
            (Place::InLog(address), None) => unreachable!("a collection of its own, a chunk at {address}"),
        }
    }

    /// The labels of a chunk's neighbours.
    fn beside(&self, label: u64) -> (Option<u64>, Option<u64>) {
        let before = label.checked_sub(1).and_then(|label| self.sequence().last_up_to(label));
        let behind = label.checked_add(1).and_then(|label| self.sequence().first_from(label));
        (before.map(|at| at.chunk.label), behind.map(|at| at.chunk.label))
    }

    fn split(&mut self, label: u64) {
        let Some(chunk) = self.sequence().labelled(label).map(|at| at.chunk) else { return };
        if chunk.bytes as usize <= self.chunk_bytes || chunk.elements == 1 {
            return;
        }
        let bytes = self.bytes_of(chunk);
        let (before, behind) = self.beside(label);
        let fill = match (before, behind) {
            (_, None) => Fill::FromStart,
            (None, Some(_)) => Fill::FromEnd,
            (Some(_), Some(_)) => Fill::Evenly,
        };
        let mut parts = parts(&bytes, self.strings, self.chunk_bytes, fill);
        // The other parts are new; when they get labels, this one may get another.
        let kept = if fill == Fill::FromEnd { parts.pop() } else { Some(parts.remove(0)) };
        if let Some((elements, part)) = kept {
            self.place(label, elements, part);
        }
        let (low, high) = if fill == Fill::FromEnd { (None, Some(label)) } else { (Some(label), behind) };
        for ((elements, part), label) in parts.iter().zip(self.room(low, high, parts.len())) {
            self.place(label, *elements, part);
            self.short.insert(label);
        }
    }

    /// Joins a chunk with its neighbours, one after the other, while they are short.
    fn join(&mut self, label: u64) {
        let Some(bytes) = self.sequence().labelled(label).map(|at| at.chunk.bytes) else { return };
        if !self.may_be_short(bytes as usize) {
            return;
        }
        let (before, behind) = self.beside(label);
        let is_short = |other: &u64| {
            let other = self.sequence().labelled(*other);
            other.is_some_and(|at| (at.chunk.bytes + bytes) as usize <= self.chunk_bytes / 2)
        };
        if let Some(behind) = behind.filter(is_short) {
            self.join_two(label, behind);
        } else if let Some(before) = before.filter(is_short) {
            self.join_two(before, label);
        }
    }

    fn join_two(&mut self, label: u64, behind: u64) {
        let (mut joined, mut elements) = (Vec::new(), 0);
        for chunk in [label, behind].into_iter().filter_map(|label| self.sequence().labelled(label)) {
            joined.extend(self.bytes_of(chunk.chunk));
            elements += chunk.chunk.elements as usize;
        }
        self.outline.remove(Order::Main, behind);
        self.place(label, elements, &joined);
        self.short.insert(label);
    }

    /// Labels for so many chunks between two neighbours, or beyond the first or the last chunk. Other chunks
    /// give way if there is no room.
    fn room(&mut self, low: Option<u64>, high: Option<u64>, count: usize) -> Vec<u64> {
        if let Some(labels) = self.labels.between(low, high, count) {
            return labels;
        }
        // At an end, all move to the middle: that is once for so many chunks as fit beside it.
        let is_end = low.is_none() || high.is_none();
        let mut reach = if is_end { usize::MAX } else { 1 };
        loop {
            let before: Vec<Chunk> = low
                .map_or(Vec::new(), |low| self.sequence().iter_back_from(low).take(reach).cloned().collect());
            let behind: Vec<Chunk> = high
                .map_or(Vec::new(), |high| self.sequence().iter_from(high).take(reach).cloned().collect());
            let lowest = before.last().map(|chunk| chunk.label).or(high);
            let highest = behind.last().map(|chunk| chunk.label).or(low);
            let below = lowest.and_then(|label| self.beside(label).0);
            let above = highest.and_then(|label| self.beside(label).1);
            let all = before.len() + count + behind.len();
            let (labels, spacing) = self.labels.spread(below, above, all);
            let is_all = below.is_none() && above.is_none();
            if spacing >= self.labels.fair || is_all {
                assert!(spacing > 0, "more chunks than labels");
                let (first, rest) = labels.split_at(before.len());
                let (given, last) = rest.split_at(count);
                let moved = before.into_iter().rev().zip(first).chain(behind.into_iter().zip(last));
                self.relabel(moved.map(|(chunk, label)| (chunk, *label)).collect());
                return given.to_vec();
            }
            reach = reach.saturating_mul(2);
        }
    }

    /// Gives chunks other labels. They are new, since a published one has its label with it.
    fn relabel(&mut self, moved: Vec<(Chunk, u64)>) {
        let moved: Vec<(Chunk, u64)> =
            moved.into_iter().filter(|(chunk, label)| chunk.label != *label).collect();
        let bytes: Vec<Vec<u8>> = moved.iter().map(|(chunk, _)| self.bytes_of(chunk)).collect();
        for (chunk, _) in &moved {
            self.outline.remove(Order::Main, chunk.label);
        }
        for ((chunk, label), bytes) in moved.iter().zip(&bytes) {
            self.place(*label, chunk.elements as usize, bytes);
        }
        for set in [&mut self.long, &mut self.short] {
            let known: Vec<u64> =
                moved.iter().filter(|(chunk, _)| set.remove(&chunk.label)).map(|(_, label)| *label).collect();
            set.extend(known);
        }
    }
}

/// Fills a new outline with the elements of a packed collection, which is not empty.
pub(crate) fn fill(outline: &mut Outline, packed: &[u8], strings: usize, limits: &Limits, labels: Labels) {
    let parts = parts(elements::body(packed), strings, limits.chunk_bytes, Fill::FromStart);
    let first = labels.middle();
    let given = match labels.between(Some(first), None, parts.len().saturating_sub(1)) {
        Some(behind) => std::iter::once(first).chain(behind).collect(),
        None => labels.spread(None, None, parts.len()).0,
    };
    for ((elements, part), label) in parts.into_iter().zip(given) {
        outline.put(Order::Main, Chunk::new(label, elements as u32, part));
    }
    debug_assert_eq!(outline.len() as usize, elements::count(packed), "elements of the collection");
}

/// The byte strings of the elements from this index on, in order.
pub(crate) fn strings_from(large: Large<'_>, index: usize, strings: usize) -> impl Iterator<Item = &[u8]> {
    let part = large.with_index(Order::Main, index as u64);
    part.into_iter().flat_map(move |part| {
        let before = index - part.first_index as usize;
        let behind = part.chunk.label.checked_add(1).map(|label| large.iter_from(Order::Main, label));
        let behind = behind.into_iter().flatten().flat_map(|(_, bytes)| Elements::of_chunk(bytes));
        Elements::of_chunk(part.bytes).skip(before * strings).chain(behind)
    })
}

/// How a chunk that is too long is split.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fill {
    /// Into full ones, from the left.
    FromStart,
    /// Into full ones, from the right.
    FromEnd,
    /// Into about equal ones.
    Evenly,
}

/// The bytes of each element.
fn sizes(bytes: &[u8], strings: usize) -> Vec<usize> {
    let mut elements = Elements::of_chunk(bytes);
    let mut sizes = Vec::new();
    loop {
        let before = elements.bytes_left();
        if elements.by_ref().take(strings).count() < strings {
            return sizes;
        }
        sizes.push(before - elements.bytes_left());
    }
}

/// The parts that a chunk is split into: of each, how many elements it has, and their bytes.
fn parts(bytes: &[u8], strings: usize, most: usize, fill: Fill) -> Vec<(usize, &[u8])> {
    let sizes = sizes(bytes, strings);
    let mut lengths = match fill {
        Fill::FromStart => lengths(sizes.into_iter(), most, usize::MAX),
        Fill::FromEnd => lengths(sizes.into_iter().rev(), most, usize::MAX),
        Fill::Evenly => lengths(sizes.into_iter(), most, bytes.len() / bytes.len().div_ceil(most.max(1))),
    };
    if fill == Fill::FromEnd {
        lengths.reverse();
    }
    let mut rest = bytes;
    let mut part = |(elements, length): (usize, usize)| {
        let (part, behind) = rest.split_at(length);
        rest = behind;
        (elements, part)
    };
    lengths.into_iter().map(&mut part).collect()
}

/// How many elements parts have, and how many bytes: at most so many, and `enough` where that is reached.
fn lengths(sizes: impl Iterator<Item = usize>, most: usize, enough: usize) -> Vec<(usize, usize)> {
    let mut parts: Vec<(usize, usize)> = Vec::new();
    for size in sizes {
        match parts.last_mut() {
            Some((elements, length)) if *length + size <= most && *length < enough => {
                *elements += 1;
                *length += size;
            }
            _ => parts.push((1, size)),
        }
    }
    parts
}
