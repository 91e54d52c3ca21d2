//! Hashes: fields with values.

use crate::collection::{Collection, Draft, Finished, Kind};
use crate::elements::Writer;
use crate::encoding::{Encoding, Limits};
use crate::table::Table;
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
        let mut elements = self.elements();
        while let Some(found) = elements.next() {
            let value = elements.next()?;
            if found == field {
                return Some(value);
            }
        }
        None
    }

    /// All fields with their values, in the order in which they were added.
    pub fn pairs(self) -> impl Iterator<Item = Pair<'b>> {
        let mut elements = self.elements();
        std::iter::from_fn(move || Some((elements.next()?, elements.next()?)))
    }
}

/// A hash that is changed.
#[derive(Debug)]
pub struct HashDraft<'b> {
    fields: Table<'b, &'b [u8]>,
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
            fields: Table::new(hash.into_iter().flat_map(Hash::pairs), changes),
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
        let bytes = self.fields.iter().map(|(field, value)| field.len() + value.len() + 4).sum();
        let mut writer = Writer::new(encoding, self.len(), bytes);
        for (field, value) in self.fields.iter() {
            writer.push(field);
            writer.push(value);
        }
        Finished::Packed(writer.finish())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeMap;

    #[derive(Clone, Debug)]
    enum Change {
        Set(u8, u8),
        Remove(u8),
    }

    fn change() -> impl Strategy<Value = Change> {
        prop_oneof![
            2 => (0u8..30, any::<u8>()).prop_map(|(field, value)| Change::Set(field, value)),
            1 => (0u8..30).prop_map(Change::Remove),
        ]
    }

    static BYTES: [u8; 256] = {
        let mut bytes = [0; 256];
        let mut at = 0;
        while at < 256 {
            bytes[at] = at as u8;
            at += 1;
        }
        bytes
    };

    fn word(of: u8) -> &'static [u8] {
        std::slice::from_ref(&BYTES[usize::from(of)])
    }

    proptest! {
        /// With and without an index it does what a map does.
        #[test]
        fn a_draft_is_a_map(rounds in prop::collection::vec(prop::collection::vec(change(), 0..20), 1..4)) {
            let mut model: BTreeMap<u8, u8> = BTreeMap::new();
            let mut bytes: Option<Vec<u8>> = None;
            for changes in rounds {
                let mut draft = HashDraft::of(bytes.as_deref().map(Hash::of), changes.len());
                for change in changes {
                    match change {
                        Change::Set(field, value) => {
                            let is_new = model.insert(field, value).is_none();
                            prop_assert_eq!(draft.set(word(field), word(value)), is_new);
                        }
                        Change::Remove(field) => {
                            prop_assert_eq!(draft.remove(word(field)), model.remove(&field).is_some());
                        }
                    }
                    prop_assert_eq!(draft.len(), model.len());
                }
                for field in 0..30 {
                    prop_assert_eq!(draft.get(word(field)), model.get(&field).map(|&value| word(value)));
                }
                bytes = Some(draft.finish(&Limits::default()).into_packed().expect("it is short"));
                let hash = Hash::of(bytes.as_deref().unwrap_or_default());
                prop_assert_eq!((hash.len(), hash.is_empty()), (model.len(), model.is_empty()));
                let read = hash.pairs().map(|(field, value)| (field[0], value[0]));
                prop_assert_eq!(&read.collect::<BTreeMap<u8, u8>>(), &model);
                prop_assert_eq!(hash.get(word(7)), model.get(&7).map(|&value| word(value)));
            }
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
