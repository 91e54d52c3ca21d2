//! Lists: items in an order of their own.

use crate::collection::{Collection, Draft, Finished, Kind};
use crate::elements::Writer;
use crate::encoding::{Encoding, Limits};
use sidle_types::ValueKind;
use std::collections::VecDeque;

/// An end of a list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side {
    /// The first items.
    Left,
    /// The last ones.
    Right,
}

/// The type of lists.
#[derive(Clone, Copy, Debug)]
pub enum Lists {}

impl Kind for Lists {
    const VALUE_KIND: ValueKind = ValueKind::List;
    type Draft<'b> = ListDraft<'b>;
}

/// A list that is read.
pub type List<'b> = Collection<'b, Lists>;

impl<'b> List<'b> {
    /// All items, in order.
    pub fn items(self) -> impl Iterator<Item = &'b [u8]> {
        self.elements()
    }
}

/// A list that is changed.
#[derive(Debug, Default)]
pub struct ListDraft<'b> {
    items: VecDeque<&'b [u8]>,
}

impl<'b> ListDraft<'b> {
    /// Adds an item at an end.
    pub fn push(&mut self, side: Side, item: &'b [u8]) {
        match side {
            Side::Left => self.items.push_front(item),
            Side::Right => self.items.push_back(item),
        }
    }

    /// Removes the item at an end.
    pub fn pop(&mut self, side: Side) -> Option<&'b [u8]> {
        match side {
            Side::Left => self.items.pop_front(),
            Side::Right => self.items.pop_back(),
        }
    }

    /// Replaces an item; whether there is one at this index.
    pub fn set(&mut self, index: usize, item: &'b [u8]) -> bool {
        self.items.get_mut(index).map(|old| *old = item).is_some()
    }

    /// Adds an item at this index, in front of what stands there.
    pub fn insert(&mut self, index: usize, item: &'b [u8]) {
        self.items.insert(index, item);
    }

    /// The index of the first item that is this one.
    pub fn index_of(&self, item: &[u8]) -> Option<usize> {
        self.items.iter().position(|other| *other == item)
    }

    /// Removes so many items that are this one, seen from an end; how many.
    pub fn remove(&mut self, item: &[u8], most: usize, from: Side) -> usize {
        let before = self.items.len();
        let mut left = most;
        let mut stays = |other: &&'b [u8]| match *other == item && left > 0 {
            true => {
                left -= 1;
                false
            }
            false => true,
        };
        match from {
            Side::Left => self.items.retain(stays),
            Side::Right => {
                let kept: VecDeque<&[u8]> =
                    self.items.iter().rev().copied().filter(|item| stays(item)).collect();
                self.items = kept.into_iter().rev().collect();
            }
        }
        before - self.items.len()
    }

    /// Keeps the items from one index to another, both included.
    pub fn keep(&mut self, first: usize, last: usize) {
        self.items.truncate(last.saturating_add(1));
        self.items.drain(..first.min(self.items.len()));
    }
}

impl<'b> Draft<'b> for ListDraft<'b> {
    type Of = Lists;
    type Element = &'b [u8];

    fn of(list: Option<List<'b>>, _changes: usize) -> ListDraft<'b> {
        ListDraft { items: list.into_iter().flat_map(List::items).collect() }
    }

    fn take(&mut self, item: &'b [u8]) {
        self.push(Side::Right, item);
    }

    fn len(&self) -> usize {
        self.items.len()
    }

    fn finish(&self, _limits: &Limits) -> Finished {
        let bytes = self.items.iter().map(|item| item.len() + 2).sum();
        let mut writer = Writer::new(Encoding::Quicklist, self.items.len(), bytes);
        self.items.iter().for_each(|item| writer.push(item));
        Finished::Packed(writer.finish())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(draft: &ListDraft<'_>) -> String {
        let bytes = draft.finish(&Limits::default()).into_packed().expect("it is short");
        let list = List::of(&bytes);
        assert_eq!((list.len(), list.is_empty()), (draft.len(), draft.is_empty()));
        list.items().map(|item| String::from_utf8_lossy(item).into_owned()).collect()
    }

    fn draft(items: &'static str) -> ListDraft<'static> {
        ListDraft { items: items.as_bytes().chunks(1).collect() }
    }

    #[test]
    fn ends_are_pushed_and_popped() {
        let mut list = ListDraft::default();
        list.push(Side::Left, b"b");
        list.push(Side::Left, b"a");
        list.push(Side::Right, b"c");
        assert_eq!(text(&list), "abc");
        assert_eq!((list.pop(Side::Right), list.pop(Side::Left)), (Some(&b"c"[..]), Some(&b"a"[..])));
        assert_eq!((list.pop(Side::Left), list.pop(Side::Right)), (Some(&b"b"[..]), None));
        assert!(list.is_empty());
    }

    #[test]
    fn items_are_removed_from_either_end() {
        for (most, from, removed, left) in [
            (1, Side::Left, 1, "bacad"),
            (2, Side::Left, 2, "bcad"),
            (1, Side::Right, 1, "abacd"),
            (2, Side::Right, 2, "abcd"),
            (usize::MAX, Side::Left, 3, "bcd"),
            (usize::MAX, Side::Right, 3, "bcd"),
        ] {
            let mut list = draft("abacad");
            assert_eq!((list.remove(b"a", most, from), text(&list).as_str()), (removed, left));
        }
    }

    #[test]
    fn a_part_is_kept() {
        for (first, last, left) in
            [(0, 9, "abcd"), (1, 2, "bc"), (3, 3, "d"), (4, 9, ""), (0, 0, "a"), (9, usize::MAX, "")]
        {
            let mut list = draft("abcd");
            list.keep(first, last);
            assert_eq!(text(&list), left, "{first} {last}");
        }
        let mut list = draft("abcd");
        list.insert(list.index_of(b"c").unwrap(), b"x");
        assert!(list.set(0, b"y") && !list.set(5, b"z"));
        assert_eq!(text(&list), "ybxcd");
    }
}
