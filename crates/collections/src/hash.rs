//! Hashes: fields with values.

use crate::by_hash::ByHash;
use crate::collection::{Collection, Draft, Finished, Form, Kind};
use crate::encoding::{Encoding, Limits};
use crate::names_draft::{NamesDraft, packed};
use crate::scan::scan;
use sidle_outline::Order;
use sidle_types::ValueKind;

/// A field and its value.
pub type Pair<'b> = (&'b [u8], &'b [u8]);

/// The type of hashs.
#[derive(Clone, Copy, Debug)]
pub enum Hashes {}

impl Kind for Hashes {
    const VALUE_KIND: ValueKind = ValueKind::Hash;
    type Draft<'b> = HashDraft<'b>;
}

/// A hash that is read.
pub type Hash<'b> = Collection<'b, Hashes>;

impl<'b> Hash<'b> {
    /// A field's value.
    pub fn get(self, field: &[u8]) -> Option<&'b [u8]> {
        match self.form() {
            Form::Packed(_) => self.pairs().find(|(other, _)| *other == field).map(|(_, value)| value),
            Form::Large(large) => ByHash::of(large, Order::Main).get(field),
        }
    }

    /// How many [`pairs`](Self::pairs) there are, whatever a record's head says.
    pub fn pair_count(self) -> usize {
        if self.is_large() { self.len() } else { self.pairs().count() }
    }

    /// The field of an index, with its value.
    pub fn nth(self, index: usize) -> Option<Pair<'b>> {
        match self.form() {
            Form::Packed(_) => self.pairs().nth(index),
            Form::Large(large) => ByHash::of(large, Order::Main).nth(index as u64),
        }
    }

    /// The next fields of a walk in steps, with their values, and the cursor of the next step ([`scan`]).
    pub fn scan(self, cursor: u64, count: usize) -> (u64, Vec<Pair<'b>>) {
        match self.form() {
            Form::Packed(_) => scan(self.pairs().map(|pair| (pair.0, pair)), cursor, count),
            Form::Large(large) => ByHash::of(large, Order::Main).scan(cursor, count),
        }
    }

    /// All fields with their values: in the order in which they were added, or, in chunks, of their hashes.
    pub fn pairs(self) -> impl Iterator<Item = Pair<'b>> {
        let mut elements = self.elements();
        std::iter::from_fn(move || Some((elements.next()?, elements.next()?)))
    }
}

/// A hash that is changed.
#[derive(Debug)]
pub struct HashDraft<'b> {
    fields: NamesDraft<'b, &'b [u8]>,
    encoding: Encoding,
    /// The longest field or value that was set here.
    longest_bytes: usize,
}

impl<'b> HashDraft<'b> {
    /// A field's value.
    pub fn get(&self, field: &[u8]) -> Option<&'b [u8]> {
        self.fields.get(field)
    }

    /// Sets a field; whether it is new.
    pub fn set(&mut self, field: &'b [u8], value: &'b [u8]) -> bool {
        self.longest_bytes = self.longest_bytes.max(field.len()).max(value.len());
        self.fields.set(field, value).is_none()
    }

    /// Removes a field; whether it was there.
    pub fn remove(&mut self, field: &[u8]) -> bool {
        self.fields.remove(field).is_some()
    }
}

impl<'b> Draft<'b> for HashDraft<'b> {
    type Of = Hashes;
    type Element = Pair<'b>;

    fn of(hash: Option<Hash<'b>>, changes: usize) -> HashDraft<'b> {
        HashDraft {
            fields: NamesDraft::of(hash, changes),
            encoding: hash.map_or(Encoding::Listpack, Hash::encoding),
            longest_bytes: 0,
        }
    }

    fn take(&mut self, (field, value): Pair<'b>) {
        self.set(field, value);
    }

    fn len(&self) -> usize {
        self.fields.len()
    }

    fn finish(&self, limits: &Limits) -> Finished {
        let is_small =
            self.len() as u64 <= limits.hash_entries && self.longest_bytes as u64 <= limits.hash_value_bytes;
        let encoding = if is_small { self.encoding } else { Encoding::Hashtable };
        if !self.fields.fit_packed(limits) {
            return Finished::Large(self.fields.in_chunks(encoding, limits));
        }
        let pairs: Vec<Pair<'_>> = self.fields.iter().collect();
        Finished::Packed(packed(encoding, &pairs))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::publisher::Kept;
    use proptest::prelude::*;
    use std::collections::{BTreeMap, BTreeSet};

    /// So that it goes from one record to chunks and back all the time.
    const TINY: Limits = Limits {
        hash_entries: 512,
        hash_value_bytes: 64,
        intset_entries: 512,
        zset_entries: 128,
        zset_value_bytes: 64,
        packed_bytes: 64,
        chunk_bytes: 32,
    };

    fn words() -> Vec<Vec<u8>> {
        (0..40u8).map(|number| vec![number; [1, 4, 12, 50][usize::from(number) % 4]]).collect()
    }

    fn assert_reads(hash: Option<Hash<'_>>, model: &BTreeMap<&[u8], &[u8]>, words: &[Vec<u8>]) {
        let Some(hash) = hash else { return assert!(model.is_empty()) };
        assert_eq!(
            (hash.len(), hash.pair_count(), hash.is_empty()),
            (model.len(), model.len(), model.is_empty())
        );
        assert_eq!(&hash.pairs().collect::<BTreeMap<&[u8], &[u8]>>(), model);
        for word in words {
            assert_eq!(hash.get(word), model.get(word.as_slice()).copied());
        }
        let drawn = (0..=model.len()).map_while(|index| hash.nth(index));
        assert!(drawn.eq(hash.pairs()));
    }

    proptest! {
        /// It does what a map does, however it is kept, and a walk in steps goes on across conversions.
        #[test]
        fn a_draft_is_a_map(rounds in prop::collection::vec(
            prop::collection::vec((0u8..3, 0usize..40, 0usize..40), 0..40), 1..8,
        )) {
            for limits in [TINY, Limits::default()] {
                let words = words();
                let (mut model, mut kept) = (BTreeMap::new(), Kept::default());
                let (mut cursor, mut walked, mut throughout) = (0, BTreeSet::new(), None);
                for changes in &rounds {
                    let mut draft = HashDraft::of(kept.collection(), changes.len());
                    for (kind, field, value) in changes {
                        let (field, value) = (words[*field].as_slice(), words[*value].as_slice());
                        match kind {
                            0 => prop_assert_eq!(draft.remove(field), model.remove(field).is_some()),
                            _ => {
                                let is_new = model.insert(field, value).is_none();
                                prop_assert_eq!(draft.set(field, value), is_new);
                            }
                        }
                        prop_assert_eq!(draft.get(field), model.get(field).copied());
                        prop_assert_eq!(draft.len(), model.len());
                    }
                    let finished = draft.finish(&limits);
                    drop(draft);
                    kept.keep(finished);
                    assert_reads(kept.collection(), &model, &words);

                    let here: BTreeSet<Vec<u8>> = model.keys().map(|field| field.to_vec()).collect();
                    let throughout = throughout.get_or_insert_with(|| here.clone());
                    throughout.retain(|field| here.contains(field));
                    let hash: Option<Hash<'_>> = kept.collection();
                    let (next, found) = hash.map_or((0, Vec::new()), |hash| hash.scan(cursor, 5));
                    for (field, value) in found {
                        prop_assert_eq!(model.get(field), Some(&value));
                        prop_assert!(walked.insert(field.to_vec()), "{:?} is returned twice", field);
                    }
                    cursor = next;
                    if cursor == 0 {
                        break;
                    }
                }
                if let (0, Some(throughout)) = (cursor, throughout) {
                    prop_assert!(walked.is_superset(&throughout));
                }
            }
        }
    }

    proptest! {
        /// Nothing that a peer sent stops a change, whatever becomes of the collection.
        #[test]
        fn bytes_of_any_content_are_changed(
            bytes in prop::collection::vec(prop_oneof![0u8..4, any::<u8>()], 0..200),
        ) {
            for limits in [TINY, Limits::default()] {
                let (mut old, mut kept) = (Some(Hash::of(&bytes)), Kept::default());
                for field in [&b"a"[..], b"", b"\x01"] {
                    let mut draft = HashDraft::of(old.take().or(kept.collection()), 9);
                    draft.remove(field);
                    draft.set(b"new", b"value");
                    let finished = draft.finish(&limits);
                    drop(draft);
                    kept.keep(finished);
                    let hash: Hash<'_> = kept.collection().expect("it has a field");
                    prop_assert_eq!(hash.get(b"new"), Some(&b"value"[..]));
                    prop_assert_eq!(hash.pairs().count(), hash.pair_count());
                }
            }
        }
    }

    /// Chunks are made, grow, are split, joined, and packed again.
    #[test]
    fn a_hash_grows_and_shrinks() {
        let fields: Vec<String> = (0..500).map(|number| format!("field {number}")).collect();
        let mut kept = Kept::default();
        for step in [1, 7] {
            for (at, sets) in
                (0..500).step_by(step).map(|at| (at, true)).chain((0..500).map(|at| (at, false)))
            {
                let field = fields[at * 293 % 500].as_bytes();
                let mut draft = HashDraft::of(kept.collection(), 1);
                if sets {
                    assert!(draft.set(field, b"1"));
                } else {
                    draft.remove(field);
                }
                let finished = draft.finish(&TINY);
                drop(draft);
                kept.keep(finished);
            }
            assert!(kept.collection().is_some_and(Hash::is_empty));
        }
        assert_eq!(kept.conversions, 4);
    }

    /// A change of a few fields reads a few chunks.
    #[test]
    fn a_change_reads_few_chunks() {
        let fields: Vec<String> = (0..20_000).map(|number| format!("field {number}")).collect();
        let pairs = fields.iter().map(|field| (field.as_bytes(), &b"value"[..]));
        let mut kept = Kept::default();
        kept.keep(HashDraft::made_of(pairs).finish(&Limits::default()));
        for changes in [1, 30] {
            kept.publisher.reads();
            let mut draft = HashDraft::of(kept.collection(), changes);
            for at in 0..changes {
                assert!(draft.get(fields[at * 601].as_bytes()).is_some());
                assert!(
                    !draft.set(fields[at * 601].as_bytes(), b"other")
                        && draft.remove(fields[at * 607 + changes].as_bytes())
                );
            }
            let finished = draft.finish(&Limits::default());
            drop(draft);
            let reads = kept.publisher.reads();
            assert!(reads <= 10 * changes, "{reads} chunks");
            kept.keep(finished);
            let hash: Hash<'_> = kept.collection().unwrap();
            assert_eq!(hash.get(fields[0].as_bytes()), Some(&b"other"[..]));
            assert!(hash.nth(10_000).is_some());
            assert_eq!((hash.scan(1 << 63, 10).1.len(), hash.pair_count()), (10, hash.len()));
            let reads = kept.publisher.reads();
            assert!(reads <= 5, "{reads} chunks");
        }
    }

    /// The example in `docs/layout.md`.
    #[test]
    fn a_hash_looks_as_documented() {
        let mut draft = HashDraft::of(None, 2);
        assert!(draft.set(b"a", b"1") && draft.set(b"b", b"two"));
        let bytes = draft.finish(&Limits::default()).into_packed().expect("it is short");
        let shown: Vec<String> = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
        let example = format!("    hash\n    00  {}  {}\n", shown[..8].join(" "), shown[8..].join(" "));
        assert!(include_str!("../../../docs/layout.md").contains(&example), "{example}");
    }

    /// The example in `docs/layout.md`.
    #[test]
    fn a_chunk_looks_as_documented() {
        let draft = HashDraft::made_of([(&b"a"[..], &b"1"[..]), (b"b", b"two")].into_iter());
        let mut kept = Kept::default();
        kept.keep(draft.finish(&Limits { packed_bytes: 0, ..Limits::default() }));
        let (chunk, bytes) = kept.publisher.large().iter_from(Order::Main, 0).next().unwrap();
        assert_eq!((chunk.label, chunk.elements), (0, 2));
        let shown: Vec<String> = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
        let example =
            format!("    chunk of a hash\n    00  {}  {}\n", shown[..8].join(" "), shown[8..].join(" "));
        assert!(include_str!("../../../docs/layout.md").contains(&example), "{example}");
    }

    #[test]
    fn the_encoding_stays_what_it_became() {
        let limits = Limits { hash_entries: 2, hash_value_bytes: 4, ..Limits::default() };
        let encoding = |pairs: &[(&'static [u8], &'static [u8])], old: Option<&[u8]>| {
            let mut draft = HashDraft::of(old.map(Hash::of), pairs.len());
            for (field, value) in pairs {
                draft.set(field, value);
            }
            let bytes = draft.finish(&limits).into_packed().expect("it is short");
            (Hash::of(&bytes).encoding(), bytes)
        };
        assert_eq!(encoding(&[(b"a", b"four"), (b"b", b"")], None).0, Encoding::Listpack);
        assert_eq!(encoding(&[(b"a", b"fiver")], None).0, Encoding::Hashtable);
        let (three, bytes) = encoding(&[(b"a", b"1"), (b"b", b"2"), (b"c", b"3")], None);
        assert_eq!(three, Encoding::Hashtable);
        let mut draft = HashDraft::of(Some(Hash::of(&bytes)), 1);
        assert!(draft.remove(b"a") && draft.remove(b"b"));
        assert_eq!(
            Hash::of(&draft.finish(&limits).into_packed().expect("it is short")).encoding(),
            Encoding::Hashtable
        );
    }
}
