//! A large list that is changed: the chunks that a change touches, and no others.

use crate::elements::{Elements, push, written_bytes};
use crate::encoding::Limits;
use crate::in_order::InOrder;
use crate::labels::Labels;
use crate::side::Side;
use sidle_outline::{Chunk, Large, Order, Outline};
use std::collections::{BTreeMap, VecDeque};

/// A large list with changes.
#[derive(Debug)]
pub(crate) struct TouchedChunks<'b> {
    old: Large<'b>,
    /// Which chunks are left. It leads to items; what has to be written is made at the end.
    left: Outline,
    /// The items of those that were touched, by label; none is empty.
    touched: BTreeMap<u64, VecDeque<&'b [u8]>>,
    /// The labels of those that are left no longer.
    gone: Vec<u64>,
    len: usize,
}

impl<'b> TouchedChunks<'b> {
    /// Those of a list, which is not changed yet.
    pub(crate) fn of(old: Large<'b>) -> TouchedChunks<'b> {
        let left = old.outline().clone();
        TouchedChunks { len: left.len() as usize, old, left, touched: BTreeMap::new(), gone: Vec::new() }
    }

    /// The list before all changes.
    pub(crate) fn old(&self) -> Large<'b> {
        self.old
    }

    /// How many items there are.
    pub(crate) fn len(&self) -> usize {
        self.len
    }

    /// The label of the chunk at an end.
    fn end(&self, side: Side) -> Option<u64> {
        let sequence = self.left.sequence(Order::Main);
        let at = if side == Side::Left { sequence.first() } else { sequence.last() };
        at.map(|at| at.chunk.label)
    }

    /// The label of the next chunk, seen from an end.
    fn next(&self, label: u64, from: Side) -> Option<u64> {
        let sequence = self.left.sequence(Order::Main);
        let at = match from {
            Side::Left => sequence.first_from(label.checked_add(1)?),
            Side::Right => sequence.last_up_to(label.checked_sub(1)?),
        };
        at.map(|at| at.chunk.label)
    }

    fn old_chunk(&self, label: u64) -> Option<&'b Chunk> {
        self.old.outline().sequence(Order::Main).labelled(label).map(|at| at.chunk)
    }

    /// A chunk's items as they were.
    fn old_items(&self, label: u64) -> Elements<'b> {
        self.items_of(self.old_chunk(label))
    }

    fn items_of(&self, chunk: Option<&'b Chunk>) -> Elements<'b> {
        Elements::of_chunk(chunk.map_or(&[], |chunk| self.old.bytes_of(chunk)))
    }

    /// A chunk's items, to change them; then it is [`changed`](Self::changed).
    fn touch(&mut self, label: u64) -> &mut VecDeque<&'b [u8]> {
        if !self.touched.contains_key(&label) {
            let old = self.old_chunk(label);
            // With room for what a push adds.
            let count = old.map_or(0, |chunk| chunk.elements.min(chunk.bytes)) as usize;
            let mut items = VecDeque::with_capacity(count + 1);
            items.extend(self.items_of(old));
            self.touched.insert(label, items);
        }
        self.touched.get_mut(&label).expect("it was touched")
    }

    /// A touched chunk has another number of items now.
    fn changed(&mut self, label: u64, before: usize) {
        let items = self.touched.get(&label).map_or(0, VecDeque::len);
        self.len = self.len + items - before;
        if items == 0 {
            self.drop_chunk(label);
        }
    }

    /// The chunk that has the item of this index, and its place there.
    fn at(&mut self, index: usize) -> Option<(u64, usize)> {
        for (label, items) in &self.touched {
            let counted = self.left.sequence(Order::Main).labelled(*label);
            if counted.is_none_or(|at| at.chunk.elements as usize != items.len()) {
                self.left.put(Order::Main, Chunk::new(*label, items.len() as u32, &[]));
            }
        }
        let at = self.left.sequence(Order::Main).with_index(index as u64)?;
        Some((at.chunk.label, index - at.first_index as usize))
    }

    /// Adds an item at an end of a list that is not empty.
    pub(crate) fn push(&mut self, side: Side, item: &'b [u8]) {
        let label = self.end(side).expect("a list that is not empty");
        let items = self.touch(label);
        match side {
            Side::Left => items.push_front(item),
            Side::Right => items.push_back(item),
        }
        self.len += 1;
    }

    pub(crate) fn pop(&mut self, side: Side) -> Option<&'b [u8]> {
        let label = self.end(side)?;
        let items = self.touch(label);
        let before = items.len();
        let item = if side == Side::Left { items.pop_front() } else { items.pop_back() };
        self.changed(label, before);
        item
    }

    pub(crate) fn set(&mut self, index: usize, item: &'b [u8]) -> bool {
        let Some((label, place)) = self.at(index) else { return false };
        self.touch(label).get_mut(place).map(|old| *old = item).is_some()
    }

    pub(crate) fn insert(&mut self, index: usize, item: &'b [u8]) {
        let (label, place) = self.at(index).expect("an index of the list");
        self.touch(label).insert(place, item);
        self.len += 1;
    }

    pub(crate) fn index_of(&self, item: &[u8]) -> Option<usize> {
        let mut walked = 0;
        let mut next = self.end(Side::Left);
        while let Some(label) = next {
            let found = match self.touched.get(&label) {
                Some(items) => position(items.iter().copied(), item),
                None => position(self.old_items(label), item),
            };
            match found {
                Ok(place) => return Some(walked + place),
                Err(items) => walked += items,
            }
            next = self.next(label, Side::Left);
        }
        None
    }

    pub(crate) fn remove(&mut self, item: &[u8], most: usize, from: Side) -> usize {
        let mut removed = 0;
        let mut next = self.end(from);
        while let Some(label) = next.filter(|_| removed < most) {
            next = self.next(label, from);
            let is_touched = self.touched.contains_key(&label);
            if !is_touched && !self.old_items(label).any(|other| other == item) {
                continue;
            }
            let items = self.touch(label);
            let before = items.len();
            removed += remove_from(items, item, most - removed, from);
            self.changed(label, before);
        }
        removed
    }

    pub(crate) fn keep(&mut self, first: usize, last: usize) {
        let end = last.saturating_add(1).min(self.len);
        if first >= end {
            while let Some(label) = self.end(Side::Left) {
                self.drop_chunk(label);
            }
            return;
        }
        self.drop_beyond(end - 1, Side::Right);
        self.drop_beyond(first, Side::Left);
    }

    /// Removes the items beyond one, at an end. Chunks that have no others are not read.
    fn drop_beyond(&mut self, index: usize, side: Side) {
        let Some((label, place)) = self.at(index) else { return };
        while let Some(end) = self.end(side).filter(|end| *end != label) {
            self.drop_chunk(end);
        }
        let items =
            self.left.sequence(Order::Main).labelled(label).map_or(0, |at| at.chunk.elements as usize);
        match side {
            Side::Left if place > 0 => drop(self.touch(label).drain(..place)),
            Side::Right if place + 1 < items => self.touch(label).truncate(place + 1),
            _ => return,
        }
        self.changed(label, items);
    }

    /// Removes a chunk with all its items.
    fn drop_chunk(&mut self, label: u64) {
        let at = self.left.sequence(Order::Main).labelled(label);
        let counted = at.map_or(0, |at| at.chunk.elements as usize);
        self.len -= self.touched.remove(&label).map_or(counted, |items| items.len());
        self.left.remove(Order::Main, label);
        self.gone.push(label);
    }

    /// The outline of what became of the list.
    pub(crate) fn outline(&self, limits: &Limits, labels: Labels) -> Outline {
        let mut outline = self.old.outline().clone();
        let mut sequence = InOrder::of(&mut outline, Some(self.old), 1, limits, labels);
        for label in &self.gone {
            sequence.remove(*label);
        }
        for (label, items) in &self.touched {
            let mut bytes = Vec::with_capacity(items.iter().map(|item| written_bytes(item)).sum());
            items.iter().for_each(|item| push(&mut bytes, item));
            sequence.put(*label, items.len(), &bytes);
        }
        sequence.settle();
        debug_assert_eq!(outline.len() as usize, self.len, "items of the list");
        outline
    }
}

/// Where an item stands; otherwise how many there are.
fn position<'a>(items: impl Iterator<Item = &'a [u8]>, item: &[u8]) -> Result<usize, usize> {
    let mut walked = 0;
    for other in items {
        if other == item {
            return Ok(walked);
        }
        walked += 1;
    }
    Err(walked)
}

/// Removes so many items that are this one, seen from an end; how many.
pub(crate) fn remove_from(items: &mut VecDeque<&[u8]>, item: &[u8], most: usize, from: Side) -> usize {
    let before = items.len();
    let mut left = most;
    let mut stays = |other: &&[u8]| match *other == item && left > 0 {
        true => {
            left -= 1;
            false
        }
        false => true,
    };
    match from {
        Side::Left => items.retain(stays),
        Side::Right => {
            let kept: VecDeque<&[u8]> = items.iter().rev().copied().filter(|item| stays(item)).collect();
            *items = kept.into_iter().rev().collect();
        }
    }
    before - items.len()
}
