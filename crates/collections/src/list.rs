//! Lists: items in an order of their own.

use crate::collection::{Collection, Draft, Finished, Form, Kind};
use crate::either::Either;
use crate::elements::{Elements, Writer};
use crate::encoding::{Encoding, Limits};
use crate::in_order::{self, strings_from};
use crate::labels::Labels;
use crate::side::Side;
use crate::touched_chunks::{TouchedChunks, remove_from};
use sidle_outline::{Order, Outline};
use sidle_types::ValueKind;
use std::collections::VecDeque;

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

    /// How many [`items`](Self::items) there are, whatever a record's head says.
    pub fn item_count(self) -> usize {
        if self.is_large() { self.len() } else { self.items().count() }
    }

    /// All items, the last first.
    pub fn items_back(self) -> impl Iterator<Item = &'b [u8]> {
        match self.form() {
            Form::Packed(bytes) => Either::Packed(reversed(Elements::of(bytes))),
            Form::Large(large) => {
                let chunks = large.iter_back_from(Order::Main, u64::MAX);
                Either::Large(chunks.flat_map(|(_, bytes)| reversed(Elements::of_chunk(bytes))))
            }
        }
    }

    /// The items from this index on, in order.
    pub fn items_from(self, index: usize) -> impl Iterator<Item = &'b [u8]> {
        match self.form() {
            Form::Packed(bytes) => Either::Packed(Elements::of(bytes).skip(index)),
            Form::Large(large) => Either::Large(strings_from(large, index, 1)),
        }
    }
}

fn reversed<'b>(items: Elements<'b>) -> impl Iterator<Item = &'b [u8]> {
    let items: Vec<&[u8]> = items.collect();
    items.into_iter().rev()
}

/// A list that is changed.
#[derive(Debug)]
pub struct ListDraft<'b> {
    form: Items<'b>,
}

/// The items of a list that is changed.
#[derive(Debug)]
enum Items<'b> {
    /// All of them.
    All(VecDeque<&'b [u8]>),
    /// Those of the chunks that were touched.
    Touched(Box<TouchedChunks<'b>>),
}

impl Default for ListDraft<'_> {
    fn default() -> Self {
        ListDraft { form: Items::All(VecDeque::new()) }
    }
}

impl<'b> ListDraft<'b> {
    /// Adds an item at an end.
    pub fn push(&mut self, side: Side, item: &'b [u8]) {
        if self.is_empty() {
            *self = ListDraft::default();
        }
        match (&mut self.form, side) {
            (Items::All(items), Side::Left) => items.push_front(item),
            (Items::All(items), Side::Right) => items.push_back(item),
            (Items::Touched(chunks), side) => chunks.push(side, item),
        }
    }

    /// Removes the item at an end.
    pub fn pop(&mut self, side: Side) -> Option<&'b [u8]> {
        match (&mut self.form, side) {
            (Items::All(items), Side::Left) => items.pop_front(),
            (Items::All(items), Side::Right) => items.pop_back(),
            (Items::Touched(chunks), side) => chunks.pop(side),
        }
    }

    /// Replaces an item; whether there is one at this index.
    pub fn set(&mut self, index: usize, item: &'b [u8]) -> bool {
        match &mut self.form {
            Items::All(items) => items.get_mut(index).map(|old| *old = item).is_some(),
            Items::Touched(chunks) => chunks.set(index, item),
        }
    }

    /// Adds an item at this index, in front of what stands there.
    pub fn insert(&mut self, index: usize, item: &'b [u8]) {
        if index == self.len() {
            return self.push(Side::Right, item);
        }
        match &mut self.form {
            Items::All(items) => items.insert(index, item),
            Items::Touched(chunks) => chunks.insert(index, item),
        }
    }

    /// The index of the first item that is this one.
    pub fn index_of(&self, item: &[u8]) -> Option<usize> {
        match &self.form {
            Items::All(items) => items.iter().position(|other| *other == item),
            Items::Touched(chunks) => chunks.index_of(item),
        }
    }

    /// Removes so many items that are this one, seen from an end; how many.
    pub fn remove(&mut self, item: &[u8], most: usize, from: Side) -> usize {
        match &mut self.form {
            Items::All(items) => remove_from(items, item, most, from),
            Items::Touched(chunks) => chunks.remove(item, most, from),
        }
    }

    /// Keeps the items from one index to another, both included.
    pub fn keep(&mut self, first: usize, last: usize) {
        match &mut self.form {
            Items::All(items) => {
                items.truncate(last.saturating_add(1));
                items.drain(..first.min(items.len()));
            }
            Items::Touched(chunks) => chunks.keep(first, last),
        }
    }

    fn finished(&self, limits: &Limits, labels: Labels) -> Finished {
        match &self.form {
            Items::All(items) => finished_from_all(items, limits, labels),
            Items::Touched(chunks) => {
                let mut outline = chunks.outline(limits, labels);
                outline.set_encoding(Encoding::Quicklist as u8);
                if outline.sequence(Order::Main).bytes() >= (limits.packed_bytes / 4) as u64 {
                    return Finished::Large(outline);
                }
                let items = List::large(chunks.old().under(&outline)).items().collect();
                Finished::Packed(packed(&items))
            }
        }
    }
}

fn packed(items: &VecDeque<&[u8]>) -> Vec<u8> {
    let bytes = items.iter().map(|item| item.len() + 2).sum();
    let mut writer = Writer::new(Encoding::Quicklist, items.len(), bytes);
    items.iter().for_each(|item| writer.push(item));
    writer.finish()
}

fn finished_from_all(items: &VecDeque<&[u8]>, limits: &Limits, labels: Labels) -> Finished {
    let bytes = packed(items);
    if bytes.len() <= limits.packed_bytes {
        return Finished::Packed(bytes);
    }
    let mut outline = Outline::new(Encoding::Quicklist as u8);
    in_order::fill(&mut outline, &bytes, 1, limits, labels);
    Finished::Large(outline)
}

impl<'b> Draft<'b> for ListDraft<'b> {
    type Of = Lists;
    type Element = &'b [u8];

    fn of(list: Option<List<'b>>, _changes: usize) -> ListDraft<'b> {
        let form = match list.map(List::form) {
            Some(Form::Large(large)) => Items::Touched(Box::new(TouchedChunks::of(large))),
            _ => Items::All(list.into_iter().flat_map(List::items).collect()),
        };
        ListDraft { form }
    }

    fn take(&mut self, item: &'b [u8]) {
        self.push(Side::Right, item);
    }

    fn len(&self) -> usize {
        match &self.form {
            Items::All(items) => items.len(),
            Items::Touched(chunks) => chunks.len(),
        }
    }

    fn finish(&self, limits: &Limits) -> Finished {
        self.finished(limits, Labels::ALL)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::publisher::{Kept, Publisher};
    use proptest::prelude::*;
    use sidle_outline::Large;

    fn text(draft: &ListDraft<'_>) -> String {
        let bytes = draft.finish(&Limits::default()).into_packed().expect("it is short");
        let list = List::of(&bytes);
        assert_eq!((list.len(), list.is_empty()), (draft.len(), draft.is_empty()));
        list.items().map(|item| String::from_utf8_lossy(item).into_owned()).collect()
    }

    fn draft(items: &'static str) -> ListDraft<'static> {
        ListDraft { form: Items::All(items.as_bytes().chunks(1).collect()) }
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

    /// The example in `docs/layout.md`.
    #[test]
    fn chunks_look_as_documented() {
        let limits = Limits { packed_bytes: 0, chunk_bytes: 6, ..Limits::default() };
        let items = [&b"one"[..], b"2", b"three"].into_iter();
        let Finished::Large(outline) = ListDraft::made_of(items).finish(&limits) else {
            panic!("it is in chunks")
        };
        let log = Publisher::default();
        let mut example = "    chunks of a list\n".to_owned();
        for (chunk, bytes) in Large::new(&outline, &log).iter_from(Order::Main, 0) {
            let shown: Vec<String> = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
            example += &format!("    0x{:x}  {}\n", chunk.label, shown.join(" "));
        }
        assert!(include_str!("../../../docs/layout.md").contains(&example), "{example}");
    }

    #[derive(Clone, Debug)]
    enum Change {
        Push(Side, Vec<u8>),
        Pop(Side),
        Set(usize, u8),
        Insert(usize, u8),
        Remove(u8, usize, Side),
        Keep(usize, usize),
    }

    fn change() -> impl Strategy<Value = Change> {
        let side = || prop_oneof![Just(Side::Left), Just(Side::Right)];
        let item = || prop_oneof![4 => 0..4u8, 1 => 40..44u8];
        let place = || prop_oneof![0..100usize, 0..5usize];
        prop_oneof![
            6 => (side(), prop::collection::vec(item(), 1..12))
                .prop_map(|(side, items)| Change::Push(side, items)),
            3 => side().prop_map(Change::Pop),
            2 => (place(), item()).prop_map(|(index, item)| Change::Set(index, item)),
            3 => (place(), item()).prop_map(|(index, item)| Change::Insert(index, item)),
            1 => (item(), prop_oneof![0..3usize, Just(usize::MAX)], side())
                .prop_map(|(item, most, from)| Change::Remove(item, most, from)),
            1 => (0..40usize, prop_oneof![0..200usize, Just(usize::MAX)])
                .prop_map(|(first, last)| Change::Keep(first, last)),
        ]
    }

    /// The item with this number: a few bytes, or more than a chunk has.
    fn item(number: u8) -> &'static [u8] {
        const BYTES: &[u8] = &[b'x'; 60];
        &BYTES[..usize::from(number)]
    }

    fn apply(draft: &mut ListDraft<'_>, model: &mut VecDeque<&'static [u8]>, change: &Change) {
        match *change {
            Change::Push(side, ref items) => items.iter().for_each(|number| {
                draft.push(side, item(*number));
                match side {
                    Side::Left => model.push_front(item(*number)),
                    Side::Right => model.push_back(item(*number)),
                }
            }),
            Change::Pop(Side::Left) => assert_eq!(draft.pop(Side::Left), model.pop_front()),
            Change::Pop(Side::Right) => assert_eq!(draft.pop(Side::Right), model.pop_back()),
            Change::Set(index, number) => {
                let old = model.get_mut(index);
                assert_eq!(draft.set(index, item(number)), old.is_some());
                old.into_iter().for_each(|old| *old = item(number));
            }
            Change::Insert(index, number) => {
                let index = index.min(model.len());
                draft.insert(index, item(number));
                model.insert(index, item(number));
            }
            Change::Remove(number, most, from) => {
                let removed = remove_from(model, item(number), most, from);
                assert_eq!(draft.remove(item(number), most, from), removed);
            }
            Change::Keep(first, last) => {
                draft.keep(first, last);
                model.truncate(last.saturating_add(1));
                model.drain(..first.min(model.len()));
            }
        }
        assert_eq!((draft.len(), draft.is_empty()), (model.len(), model.is_empty()));
    }

    /// What holds for a settled sequence.
    fn check_chunks(outline: &Outline, limits: &Limits) {
        let chunks: Vec<&sidle_outline::Chunk> = outline.sequence(Order::Main).iter_from(0).collect();
        for chunk in &chunks {
            assert!(chunk.bytes as usize <= limits.chunk_bytes || chunk.elements == 1, "{chunk:?}");
        }
        for pair in chunks.windows(2) {
            assert!((pair[0].bytes + pair[1].bytes) as usize > limits.chunk_bytes / 2, "{pair:?}");
            assert!(pair[0].label < pair[1].label);
        }
    }

    fn check_read(list: List<'_>, model: &VecDeque<&'static [u8]>) {
        assert_eq!((list.len(), list.encoding()), (model.len(), Encoding::Quicklist));
        assert!(list.items().eq(model.iter().copied()));
        assert!(list.items_back().eq(model.iter().rev().copied()));
        for index in [0, 1, model.len() / 2, model.len(), model.len() + 1] {
            assert!(list.items_from(index).eq(model.iter().skip(index).copied()), "from {index}");
        }
    }

    proptest! {
        #[test]
        fn a_list_in_chunks_is_a_list(
            rounds in prop::collection::vec(prop::collection::vec(change(), 1..6), 1..40),
            few_labels in any::<bool>(),
        ) {
            let limits = Limits { packed_bytes: 64, chunk_bytes: 32, ..Limits::default() };
            let few = Labels { first: 5, last: 1_500, step: 3, fair: 2 };
            let labels = if few_labels { few } else { Labels::ALL };
            let (mut log, mut model) = (Publisher::default(), VecDeque::new());
            let mut finished = Finished::Packed(Vec::new());
            for (number, changes) in rounds.iter().enumerate() {
                let list = match &finished {
                    Finished::Packed(bytes) => List::of(bytes),
                    Finished::Large(outline) => List::large(Large::new(outline, &log)),
                };
                let mut draft = ListDraft::of(Some(list), 1);
                changes.iter().for_each(|change| apply(&mut draft, &mut model, change));
                for number in 0..4 {
                    let first = model.iter().position(|other| *other == item(number));
                    prop_assert_eq!(draft.index_of(item(number)), first);
                }
                let next = draft.finished(&limits, labels);
                match &next {
                    Finished::Packed(bytes) => {
                        prop_assert!(bytes.len() <= limits.packed_bytes);
                        check_read(List::of(bytes), &model);
                    }
                    Finished::Large(outline) => {
                        prop_assert!(outline.bytes() >= 16);
                        check_chunks(outline, &limits);
                        check_read(List::large(Large::new(outline, &log)), &model);
                    }
                }
                finished = next;
                // Some states are never published: those in the middle of a transaction.
                if number % 3 != 1 && let Finished::Large(outline) = &mut finished {
                    log.publish(outline);
                    *outline = log.large().outline().clone();
                }
            }
        }

        /// Nothing that a peer sent stops a change, whatever becomes of the list.
        #[test]
        fn bytes_of_any_content_are_changed(
            bytes in prop::collection::vec(prop_oneof![0u8..4, any::<u8>()], 0..200),
        ) {
            for packed_bytes in [64, 1024] {
                let limits = Limits { packed_bytes, chunk_bytes: packed_bytes / 2, ..Limits::default() };
                let (mut old, mut kept) = (Some(List::of(&bytes)), Kept::default());
                for side in [Side::Left, Side::Right, Side::Left] {
                    let mut draft = ListDraft::of(old.take().or(kept.collection()), 9);
                    draft.pop(side);
                    draft.push(side, b"new");
                    let finished = draft.finish(&limits);
                    drop(draft);
                    kept.keep(finished);
                    let list: List<'_> = kept.collection().expect("it has an item");
                    prop_assert!(list.items().any(|item| item == b"new"));
                    prop_assert_eq!(list.items().count(), list.item_count());
                }
            }
        }
    }

    #[test]
    fn a_queue_goes_on_at_the_end_of_the_labels() {
        let limits = Limits { packed_bytes: 64, chunk_bytes: 32, ..Limits::default() };
        let labels = Labels { first: 0, last: 199, step: 7, fair: 2 };
        for (to, from) in [(Side::Right, Side::Left), (Side::Left, Side::Right)] {
            let mut log = Publisher::default();
            let words: Vec<String> = (0..2_000).map(|number| format!("{number:04}")).collect();
            let mut draft = ListDraft::default();
            words[..40].iter().for_each(|word| draft.push(to, word.as_bytes()));
            let Finished::Large(mut outline) = draft.finished(&limits, labels) else { panic!("it is long") };
            log.publish(&outline);
            outline = log.large().outline().clone();
            for number in 40..words.len() {
                let mut draft = ListDraft::of(Some(List::large(Large::new(&outline, &log))), 1);
                draft.push(to, words[number].as_bytes());
                assert_eq!(draft.pop(from), Some(words[number - 40].as_bytes()));
                let Finished::Large(next) = draft.finished(&limits, labels) else { panic!("it is long") };
                drop(draft);
                outline = next;
                check_chunks(&outline, &limits);
                assert!(outline.sequence(Order::Main).chunk_count() <= 9);
                log.publish(&outline);
                outline = log.large().outline().clone();
            }
        }
    }

    #[test]
    fn a_change_of_a_long_list_reads_and_writes_few_chunks() {
        let limits = Limits::default();
        let words: Vec<String> = (0..100_000).map(|number| format!("item {number}")).collect();
        let Finished::Large(mut outline) =
            ListDraft::made_of(words.iter().map(String::as_bytes)).finish(&limits)
        else {
            panic!("it is long")
        };
        let mut log = Publisher::default();
        log.publish(&outline);
        outline = log.large().outline().clone();
        let chunks = outline.sequence(Order::Main).chunk_count();
        // Behind each other: how many chunks are lent, written and removed.
        let change = |change: &dyn Fn(&mut ListDraft<'_>)| {
            log.reads();
            let mut draft = ListDraft::of(Some(List::large(Large::new(&outline, &log))), 1);
            change(&mut draft);
            let Finished::Large(changed) = draft.finish(&limits) else { panic!("it is long") };
            check_chunks(&changed, &limits);
            let removed = chunks + changed.new_chunks().count() - changed.sequence(Order::Main).chunk_count();
            (log.reads(), changed.new_chunks().count(), removed)
        };
        let pushed = change(&|draft| draft.push(Side::Left, b"x"));
        assert!(pushed.0 <= 2 && pushed.1 <= 1 && pushed.2 <= 1, "{pushed:?}");
        let pushed = change(&|draft| draft.push(Side::Right, b"x"));
        assert!(pushed.0 <= 2 && pushed.1 <= 1 && pushed.2 <= 1, "{pushed:?}");
        for side in [Side::Left, Side::Right] {
            let popped = change(&|draft| assert!(draft.pop(side).is_some()));
            assert!(popped.0 <= 2 && popped.1 <= 1 && popped.2 <= 1, "{popped:?}");
        }
        let set = change(&|draft| assert!(draft.set(50_000, b"item x")));
        assert!(set.0 <= 2 && set.1 <= 1 && set.2 <= 1, "{set:?}");
        let inserted = change(&|draft| draft.insert(50_000, b"x"));
        assert!(inserted.0 <= 2 && inserted.1 <= 2 && inserted.2 <= 1, "{inserted:?}");
        let removed = change(&|draft| assert_eq!(draft.remove(b"item 0", 1, Side::Left), 1));
        assert!(removed.0 <= 3 && removed.1 == 1, "{removed:?}");
        let kept = change(&|draft| draft.keep(1_000, 1_999));
        assert!(kept.0 <= 4 && kept.1 <= 2 && kept.2 > chunks - 40, "{kept:?} of {chunks}");
        let list = List::large(Large::new(&outline, &log));
        assert_eq!((list.items_from(77_777).next(), log.reads()), (Some(&b"item 77777"[..]), 1));
        assert_eq!((list.items_from(10).take(10).count(), log.reads()), (10, 1));
        assert_eq!((list.items_back().take(10).count(), log.reads()), (10, 1));
    }
}
