//! Changes of names in chunks. Only the chunks that a changed name belongs to are read, and written anew.

use crate::by_hash::{ByHash, hash_of};
use crate::elements::Elements;
use crate::known::{Known, Named, named, named_bytes, push_named};
use crate::table::Table;
use sidle_outline::{Chunk, Large, Order, Outline, Place};

/// Names in chunks that are changed.
#[derive(Debug)]
pub(crate) struct ByHashDraft<'b, V> {
    old: ByHash<'b, V>,
    /// The names that were changed.
    changes: Table<'b, Became<V>>,
    len: usize,
    bytes: usize,
}

/// What became of a name.
#[derive(Clone, Copy, Debug)]
struct Became<V> {
    /// What the collection has; nothing of a new name.
    was: Option<V>,
    /// Nothing of a removed one.
    now: Option<V>,
}

impl<'b, V: Known<'b>> ByHashDraft<'b, V> {
    /// To make about so many changes.
    pub(crate) fn of(old: ByHash<'b, V>, changes: usize) -> ByHashDraft<'b, V> {
        let (len, bytes) = (old.len() as usize, old.bytes() as usize);
        ByHashDraft { old, changes: Table::new(std::iter::empty(), changes), len, bytes }
    }

    /// How many names there are.
    pub(crate) fn len(&self) -> usize {
        self.len
    }

    /// How many bytes they will take.
    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }

    /// The collection that is changed.
    pub(crate) fn old(&self) -> Large<'b> {
        self.old.large()
    }

    /// What is known of a name.
    pub(crate) fn get(&self, name: &[u8]) -> Option<V> {
        match self.changes.get(name) {
            Some(change) => change.now,
            None => self.old.get(name),
        }
    }

    /// Sets what is known of a name; returns what was.
    pub(crate) fn set(&mut self, name: &'b [u8], known: V) -> Option<V> {
        let old = self.old;
        let mut before = None;
        self.changes.change(name, |changed| {
            let was = changed.map_or_else(|| old.get(name), |changed| changed.was);
            before = changed.map_or(was, |changed| changed.now);
            Became { was, now: Some(known) }
        });
        self.forget(name, before);
        self.len += 1;
        self.bytes += named_bytes((name, known));
        before
    }

    /// Removes a name; returns what was known of it.
    pub(crate) fn remove(&mut self, name: &[u8]) -> Option<V> {
        match self.changes.remove(name) {
            // Of a new name nothing is left.
            Some(Became { was: None, now }) => {
                self.forget(name, now);
                now
            }
            changed => {
                // The request's name does not last.
                let (name, was) = self.old.find(name)?;
                let before = changed.map_or(Some(was), |changed| changed.now);
                self.changes.set(name, Became { was: Some(was), now: None });
                self.forget(name, before);
                before
            }
        }
    }

    /// Removes a name that was found in the collection.
    pub(crate) fn remove_found(&mut self, (name, was): Named<'b, V>) {
        let changed = self.changes.set(name, Became { was: Some(was), now: None });
        self.forget(name, changed.map_or(Some(was), |changed| changed.now));
    }

    fn forget(&mut self, name: &[u8], was: Option<V>) {
        if let Some(was) = was {
            self.len = self.len.saturating_sub(1);
            self.bytes = self.bytes.saturating_sub(named_bytes((name, was)));
        }
    }

    /// What was known of each name that was changed, and what is.
    pub(crate) fn changes(&self) -> impl Iterator<Item = (&'b [u8], Option<V>, Option<V>)> + '_ {
        self.changes.iter().map(|(name, changed)| (name, changed.was, changed.now))
    }

    /// All names: first those that were not changed. Reads all chunks.
    pub(crate) fn iter(&self) -> impl Iterator<Item = Named<'b, V>> + '_ {
        let kept = self.old.from(0).filter(|(name, _)| self.changes.get(name).is_none());
        let set = self.changes.iter().filter_map(|(name, changed)| Some((name, changed.now?)));
        kept.chain(set)
    }

    /// Makes the changes to a sequence of the outline: a clone of the old one. Chunks that are longer than
    /// so many bytes are split.
    pub(crate) fn write_into(&self, outline: &mut Outline, order: Order, most_bytes: usize) {
        let changes = self.changes.iter().map(|(name, Became { now, .. })| Change {
            hash: hash_of(name),
            name,
            known: now,
        });
        let lent = Some(self.old.large());
        Writing { outline, order, most_bytes, lent, touched: Vec::new() }.write(changes.collect());
    }
}

/// Writes names, of which each is there once, into an outline's empty sequence.
pub(crate) fn write_new<'b, V: Known<'b>>(
    names: impl Iterator<Item = Named<'b, V>>,
    outline: &mut Outline,
    order: Order,
    most_bytes: usize,
) {
    debug_assert!(outline.sequence(order).is_empty());
    let changes = names.map(|(name, known)| Change { hash: hash_of(name), name, known: Some(known) });
    Writing { outline, order, most_bytes, lent: None, touched: Vec::new() }.write(changes.collect());
}

/// What becomes of a name.
struct Change<'b, V> {
    hash: u64,
    name: &'b [u8],
    known: Option<V>,
}

impl<'b, V> Change<'b, V> {
    /// What names are ordered by.
    fn place(&self) -> (u64, &'b [u8]) {
        (self.hash, self.name)
    }
}

impl<'b, V: Known<'b>> Change<'b, V> {
    /// What is left of the name in bytes.
    fn bytes(&self) -> usize {
        self.known.map_or(0, |known| named_bytes((self.name, known)))
    }
}

/// An outline's sequence while it is changed.
struct Writing<'o, 'b> {
    outline: &'o mut Outline,
    order: Order,
    most_bytes: usize,
    /// Lends the chunks that are published.
    lent: Option<Large<'b>>,
    /// The labels of chunks that were written or removed, in ascending order.
    touched: Vec<u64>,
}

impl<'b> Writing<'_, 'b> {
    fn write<V: Known<'b>>(mut self, mut changes: Vec<Change<'b, V>>) {
        changes.sort_by_key(Change::place);
        // What a peer sent may have a name twice: then the first one counts, as in look-ups.
        changes.dedup_by_key(|change| change.place());
        let mut rest = changes.as_slice();
        while let Some(first) = rest.first() {
            let old = self.lent.and_then(|large| large.covering(self.order, first.hash));
            let (label, elements, bytes) =
                old.map_or((0, 0, &[][..]), |part| (part.chunk.label, part.chunk.elements, part.bytes));
            let next = self.lent.and_then(|large| {
                let after = large.outline().sequence(self.order).first_from(label.checked_add(1)?)?;
                Some(after.chunk.label)
            });
            let here = rest.partition_point(|change| next.is_none_or(|next| change.hash < next));
            let (here, after) = rest.split_at(here.max(1));
            // Of a new collection all names are there, and they may be many.
            if bytes.is_empty() && here.iter().all(|change| change.known.is_some()) {
                self.put(label, here);
            } else {
                self.put(label, &merged((elements, bytes), here));
            }
            rest = after;
        }
        self.begin_at_zero();
        if self.lent.is_none() {
            // Chunks that were split are long enough, but for the last one.
            self.touched.drain(..self.touched.len().saturating_sub(1));
        }
        for label in std::mem::take(&mut self.touched) {
            self.join(label);
            debug_assert!(self.is_sound_at::<V>(label), "chunk {label}");
        }
    }

    /// Puts names in the place of the chunk with this label: in several chunks, if they are too many for one.
    fn put<V: Known<'b>>(&mut self, label: u64, names: &[Change<'b, V>]) {
        self.touched.push(label);
        if names.is_empty() {
            self.outline.remove(self.order, label);
        }
        for (number, names) in split(names, self.most_bytes).into_iter().enumerate() {
            let mut bytes = Vec::with_capacity(names.iter().map(Change::bytes).sum());
            for name in names {
                name.known.into_iter().for_each(|known| push_named(&mut bytes, (name.name, known)));
            }
            let label = if number == 0 { label } else { names[0].hash };
            self.outline.put(self.order, Chunk::new(label, names.len() as u32, &bytes));
            if number > 0 {
                self.touched.push(label);
            }
        }
    }

    /// The first chunk has label 0 (N1).
    fn begin_at_zero(&mut self) {
        let first = self.outline.sequence(self.order).first().map(|at| at.chunk.clone());
        if let Some(first) = first.filter(|first| first.label != 0) {
            let moved = Chunk::new(0, first.elements, self.bytes_of(&first));
            self.outline.remove(self.order, first.label);
            self.outline.put(self.order, moved);
        }
    }

    /// Joins the chunk that covers this hash with its neighbours, where both fit well into one.
    fn join(&mut self, hash: u64) {
        let Some(here) = self.covering(hash) else { return };
        if here.bytes as usize >= self.joined_bytes() {
            return;
        }
        if let Some(next) = self.outline.sequence(self.order).first_from(here.label.saturating_add(1)) {
            let next = next.chunk.clone();
            self.join_two(&here, &next);
        }
        let before = here.label.checked_sub(1).and_then(|before| self.covering(before));
        if let (Some(before), Some(here)) = (before, self.covering(here.label)) {
            self.join_two(&before, &here);
        }
    }

    /// What joined chunks may take: there is room left to grow.
    fn joined_bytes(&self) -> usize {
        self.most_bytes / 4 * 3
    }

    fn join_two(&mut self, one: &Chunk, next: &Chunk) {
        let bytes = one.bytes as usize + next.bytes as usize;
        if one.label >= next.label || bytes > self.joined_bytes() {
            return;
        }
        let joined = [self.bytes_of(one), self.bytes_of(next)].concat();
        self.outline.put(self.order, Chunk::new(one.label, one.elements + next.elements, &joined));
        self.outline.remove(self.order, next.label);
    }

    fn covering(&self, hash: u64) -> Option<Chunk> {
        self.outline.sequence(self.order).last_up_to(hash).map(|at| at.chunk.clone())
    }

    fn bytes_of<'c>(&self, chunk: &'c Chunk) -> &'c [u8]
    where
        'b: 'c,
    {
        match (&chunk.place, self.lent) {
            (Place::New(bytes), _) => bytes,
            (Place::InLog(_), Some(large)) => large.bytes_of(chunk),
            (Place::InLog(_), None) => unreachable!("a published chunk of a new collection"),
        }
    }

    /// Whether the chunk that covers this hash is as N1 to N3 say.
    fn is_sound_at<V: Known<'b>>(&self, hash: u64) -> bool {
        let sequence = self.outline.sequence(self.order);
        let Some(chunk) = self.covering(hash) else { return sequence.is_empty() };
        let next = chunk.label.checked_add(1).and_then(|after| sequence.first_from(after));
        let is_below_next = |hash| next.is_none_or(|next| hash < next.chunk.label);
        let bytes = self.bytes_of(&chunk);
        let places = places_in::<V>(bytes);
        chunk.elements > 0
            && chunk.bytes as usize == bytes.len()
            && chunk.elements as usize == places.len()
            && places.is_sorted_by(|one, next| one < next)
            && places.iter().all(|(hash, _)| chunk.label <= *hash && is_below_next(*hash))
            && sequence.first().is_some_and(|first| first.chunk.label == 0)
    }
}

/// Where the names of a chunk belong.
fn places_in<'b, V: Known<'b>>(bytes: &[u8]) -> Vec<(u64, &[u8])> {
    let names = Elements::of_chunk(bytes).step_by(1 + V::STRINGS);
    names.map(|name| (hash_of(name), name)).collect()
}

/// A chunk's names, of which there are so many, with the changes, which are sorted.
fn merged<'b, V: Known<'b>>(
    (elements, bytes): (u32, &'b [u8]),
    changes: &[Change<'b, V>],
) -> Vec<Change<'b, V>> {
    let most = (elements as usize).min(bytes.len()) + changes.len();
    let mut merged: Vec<Change<'_, V>> = Vec::with_capacity(most);
    let old = named::<V>(Elements::of_chunk(bytes));
    let mut old =
        old.map(|(name, known)| Change { hash: hash_of(name), name, known: Some(known) }).peekable();
    for change in changes {
        while let Some(kept) = old.next_if(|old| old.place() < change.place()) {
            merged.push(kept);
        }
        old.next_if(|old| old.place() == change.place());
        if change.known.is_some() {
            merged.push(Change { ..*change });
        }
    }
    merged.extend(old);
    merged
}

/// Sorted names in stretches for one chunk each. Those of equal hashes stay together.
fn split<'n, 'b, V: Known<'b>>(names: &'n [Change<'b, V>], most_bytes: usize) -> Vec<&'n [Change<'b, V>]> {
    let all: usize = names.iter().map(Change::bytes).sum();
    if all <= most_bytes {
        return if names.is_empty() { Vec::new() } else { vec![names] };
    }
    // Chunks that are filled by two thirds can grow.
    let enough = all.div_ceil(all.div_ceil((most_bytes / 3 * 2).max(1)));
    let (mut stretches, mut start, mut bytes) = (Vec::new(), 0, 0);
    for (at, name) in names.iter().enumerate() {
        let is_full = bytes >= enough || bytes + name.bytes() > most_bytes;
        if at > start && is_full && names[at - 1].hash != name.hash {
            stretches.push(&names[start..at]);
            (start, bytes) = (at, 0);
        }
        bytes += name.bytes();
    }
    if start < names.len() {
        stretches.push(&names[start..]);
    }
    stretches
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::publisher::Publisher;
    use proptest::prelude::*;
    use std::collections::BTreeMap;

    const MOST_BYTES: usize = 32;

    /// Names of lengths from 1 to longer than a chunk.
    fn names() -> Vec<Vec<u8>> {
        (0..60u8).map(|number| vec![number; [1, 3, 9, 20, 40][usize::from(number) % 5]]).collect()
    }

    type Model<'b> = BTreeMap<(u64, &'b [u8]), f64>;

    /// The names are those of the model, as N1 to N3 say.
    fn assert_is(large: Large<'_>, model: &Model<'_>) {
        let by_hash: ByHash<'_, f64> = ByHash::of(large, Order::ByMember);
        let sequence = large.outline().sequence(Order::ByMember);
        let ends = sequence.iter_from(0).skip(1).map(|chunk| chunk.label).map(Some).chain([None]);
        let mut expected = model.iter().peekable();
        for ((chunk, bytes), end) in large.iter_from(Order::ByMember, 0).zip(ends) {
            let mut found = named::<f64>(Elements::of_chunk(bytes));
            let mut elements = 0;
            while let Some(((hash, name), score)) =
                expected.next_if(|((hash, _), _)| end.is_none_or(|end| *hash < end))
            {
                assert!(*hash >= chunk.label);
                assert_eq!(found.next(), Some((*name, *score)));
                elements += 1;
            }
            assert_eq!((found.next(), chunk.elements, chunk.bytes as usize), (None, elements, bytes.len()));
            assert!(elements > 0 && (bytes.len() <= MOST_BYTES || elements == 1), "{chunk:?}");
        }
        assert_eq!(expected.next(), None);
        assert_eq!(by_hash.len() as usize, model.len());
        assert_eq!(sequence.first().map_or(0, |first| first.chunk.label), 0);
    }

    fn assert_reads(by_hash: ByHash<'_, f64>, model: &Model<'_>, names: &[Vec<u8>]) {
        let all: Vec<Named<'_, f64>> = model.iter().map(|((_, name), score)| (*name, *score)).collect();
        for name in names {
            let place = (hash_of(name), name.as_slice());
            assert_eq!(by_hash.get(name), model.get(&place).copied());
            for hash in [place.0, place.0 + 1] {
                let after = all.iter().copied().filter(|(name, _)| hash_of(name) >= hash);
                assert!(by_hash.from(hash).eq(after));
            }
        }
        for index in 0..=all.len() {
            assert_eq!(by_hash.nth(index as u64), all.get(index).copied());
        }
        let (mut cursor, mut seen) = (0, Vec::new());
        loop {
            let (next, found) = by_hash.scan(cursor, 3);
            let (same_next, mut same) = crate::scan(all.iter().map(|one| (one.0, *one)), cursor, 3);
            same.sort_by_key(|(name, _)| hash_of(name));
            assert_eq!((next, &found), (same_next, &same));
            seen.extend(found);
            cursor = next;
            if next == 0 {
                break;
            }
        }
        assert_eq!(seen, all);
    }

    proptest! {
        /// It does what a map does, and what it leaves is in order, whatever is split and joined.
        #[test]
        fn a_draft_is_a_map(rounds in prop::collection::vec(
            prop::collection::vec((0u8..3, 0usize..60, -3i8..3), 0..60), 1..6,
        )) {
            let names = names();
            let (mut model, mut publisher) = (Model::new(), Publisher::default());
            for changes in rounds {
                let mut outline = publisher.large().outline().clone();
                {
                    let old = ByHash::of(publisher.large(), Order::ByMember);
                    let mut draft: ByHashDraft<'_, f64> = ByHashDraft::of(old, changes.len());
                    for (kind, number, score) in changes {
                        let name = names[number].as_slice();
                        let place = (hash_of(name), name);
                        let score = f64::from(score);
                        match kind {
                            0 => prop_assert_eq!(draft.remove(name), model.remove(&place)),
                            _ => prop_assert_eq!(draft.set(name, score), model.insert(place, score)),
                        }
                        prop_assert_eq!(draft.get(name), model.get(&place).copied());
                        prop_assert_eq!(draft.len(), model.len());
                    }
                    let mut all: Vec<Named<'_, f64>> = draft.iter().collect();
                    all.sort_by_key(|(name, _)| (hash_of(name), *name));
                    prop_assert!(all.into_iter().eq(model.iter().map(|((_, name), score)| (*name, *score))));
                    draft.write_into(&mut outline, Order::ByMember, MOST_BYTES);
                    prop_assert_eq!(draft.bytes() as u64, outline.sequence(Order::ByMember).bytes());
                }
                publisher.publish(&outline);
                assert_is(publisher.large(), &model);
                assert_reads(ByHash::of(publisher.large(), Order::ByMember), &model, &names);
            }
            let mut anew = Outline::new(0);
            let all = model.iter().map(|((_, name), score)| (*name, *score));
            write_new(all, &mut anew, Order::ByMember, MOST_BYTES);
            let none = Publisher::default();
            assert_is(Large::new(&anew, &none), &model);
        }

        #[test]
        fn chunks_of_any_content_are_read(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
            let mut outline = Outline::new(0);
            outline.put(Order::Main, Chunk::new(0, 7, &bytes));
            let none = Publisher::default();
            let pairs: ByHash<'_, &[u8]> = ByHash::of(Large::new(&outline, &none), Order::Main);
            let read: usize = pairs.from(0).map(|(name, value)| name.len() + value.len()).sum();
            prop_assert!(read <= bytes.len());
            let _ = (pairs.get(b"a"), pairs.nth(6), pairs.scan(9, 3));
        }
    }

    /// A change costs a few chunks, however many there are.
    #[test]
    fn a_change_reads_few_chunks() {
        let names: Vec<String> = (0..10_000).map(|number| format!("name {number}")).collect();
        let mut publisher = Publisher::default();
        let mut outline = Outline::new(0);
        write_new(names.iter().map(|name| (name.as_bytes(), 1.0)), &mut outline, Order::Main, 512);
        publisher.publish(&outline);
        let chunks = outline.sequence(Order::Main).chunk_count();
        assert!((390..=1_200).contains(&chunks), "{chunks} chunks");
        for changed in [1, 10] {
            let mut outline = publisher.large().outline().clone();
            {
                publisher.reads();
                let mut draft = ByHashDraft::of(ByHash::of(publisher.large(), Order::Main), changed);
                for name in names.iter().skip(changed).step_by(10_000 / changed - 1).take(changed) {
                    assert_eq!(draft.remove(name.as_bytes()), Some(1.0));
                }
                draft.write_into(&mut outline, Order::Main, 512);
            }
            assert!(publisher.reads() <= 5 * changed);
            assert!(outline.new_chunks().count() <= changed, "a chunk is joined or rewritten");
            publisher.publish(&outline);
        }
    }

    /// What is left of many names is in few chunks, whether they go one by one or at once.
    #[test]
    fn chunks_are_joined() {
        let names: Vec<String> = (0..2_000).map(|number| format!("name {number}")).collect();
        for at_once in [1, 1_900] {
            let mut publisher = Publisher::default();
            let mut outline = Outline::new(0);
            write_new(names.iter().map(|name| (name.as_bytes(), 1.0)), &mut outline, Order::Main, 512);
            publisher.publish(&outline);
            for removed in names[..1_900].chunks(at_once) {
                let mut outline = publisher.large().outline().clone();
                let mut draft: ByHashDraft<'_, f64> =
                    ByHashDraft::of(ByHash::of(publisher.large(), Order::Main), removed.len());
                for name in removed {
                    assert_eq!(draft.remove(name.as_bytes()), Some(1.0));
                }
                draft.write_into(&mut outline, Order::Main, 512);
                drop(draft);
                publisher.publish(&outline);
            }
            let left = publisher.large().outline().sequence(Order::Main);
            assert_eq!(left.elements(), 100);
            let most = left.bytes() as usize / 128;
            assert!(left.chunk_count() <= most, "{} chunks for {} bytes", left.chunk_count(), left.bytes());
        }
    }

    #[test]
    fn equal_hashes_stay_together() {
        let name = |hash, name: &'static [u8]| Change { hash, name, known: Some(()) };
        let names =
            [name(1, b"a"), name(2, b"aaaaaaa"), name(2, b"bbbbbbb"), name(2, b"ccccccc"), name(3, b"b")];
        let stretches: Vec<usize> = split(&names, 9).into_iter().map(<[_]>::len).collect();
        assert_eq!(stretches, [1, 3, 1]);
    }

    #[test]
    fn a_name_that_is_there_twice_counts_once() {
        let mut outline = Outline::new(0);
        write_new([(&b"a"[..], 1.0), (b"b", 2.0), (b"a", 3.0)].into_iter(), &mut outline, Order::Main, 512);
        let none = Publisher::default();
        let read: ByHash<'_, f64> = ByHash::of(Large::new(&outline, &none), Order::Main);
        assert_eq!((read.len(), read.get(b"a")), (2, Some(1.0)));
    }
}
