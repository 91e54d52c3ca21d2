//! A digest of values, whatever the order and the form that they are kept in: DEBUG DIGEST.

use sidle_collections::{Hashes, Lists, Sets, SortedSets};
use sidle_commands::Value;
use sidle_types::{HashedKey, ValueKind};
use std::fmt;

/// The digest of a number of parts. Equal contents have equal digests; nothing has 0.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct ContentDigest(pub(crate) u64);

impl ContentDigest {
    /// The digest of a value.
    pub(crate) fn of_value(value: Value<'_>) -> ContentDigest {
        let mut digest = ContentDigest::default();
        match value.kind {
            ValueKind::Hash => value
                .into_collection::<Hashes>()
                .pairs()
                .for_each(|(field, value)| digest.add(&[field, value])),
            ValueKind::Set => {
                value.into_collection::<Sets>().members().for_each(|member| digest.add(&[member]))
            }
            ValueKind::List => value.into_collection::<Lists>().items().for_each(|item| digest.follow(item)),
            ValueKind::SortedSet => {
                for (member, score) in value.into_collection::<SortedSets>().members() {
                    digest.add(&[member, &score.to_be_bytes()]);
                }
            }
            ValueKind::String | ValueKind::Completions | ValueKind::Locks => digest.follow(value.bytes()),
        }
        let mut whole = ContentDigest::default();
        whole.add(&[value.kind.name().as_bytes(), &digest.0.to_be_bytes()]);
        whole
    }

    /// Adds an element without a place among the others.
    pub(crate) fn add(&mut self, parts: &[&[u8]]) {
        self.0 ^= hash_of(parts);
    }

    /// Adds the next element of a sequence.
    fn follow(&mut self, element: &[u8]) {
        self.0 = hash_of(&[&self.0.to_be_bytes(), element]);
    }
}

/// In Redis's form.
impl fmt::Display for ContentDigest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:040x}", self.0)
    }
}

fn hash_of(parts: &[&[u8]]) -> u64 {
    let mut bytes = Vec::new();
    for part in parts {
        bytes.extend_from_slice(&(part.len() as u64).to_be_bytes());
        bytes.extend_from_slice(part);
    }
    HashedKey::new(&bytes).hash().0
}

#[cfg(test)]
mod tests {
    use super::*;
    use sidle_collections::{Draft, HashDraft, Kind, Limits, ListDraft, SetDraft, Side};
    use sidle_commands::Content;

    fn of<'b, D: Draft<'b>>(draft: &D, limits: &Limits) -> ContentDigest {
        let bytes = draft.finish(limits).into_packed().expect("it is short");
        let content = Content::Whole(&bytes);
        ContentDigest::of_value(Value { kind: D::Of::VALUE_KIND, content, expires_at: None })
    }

    fn hash(pairs: &[(&'static str, &'static str)], limits: &Limits) -> ContentDigest {
        let mut draft = HashDraft::of(None, pairs.len());
        for (field, value) in pairs {
            draft.set(field.as_bytes(), value.as_bytes());
        }
        of(&draft, limits)
    }

    #[test]
    fn the_order_and_the_form_of_a_hash_do_not_count_but_its_contents_do() {
        let (wide, narrow) = (Limits::default(), Limits { hash_entries: 1, ..Limits::default() });
        let one = hash(&[("a", "1"), ("b", "2")], &wide);
        assert_eq!(one, hash(&[("b", "2"), ("a", "1")], &narrow));
        assert_ne!(one, hash(&[("a", "2"), ("b", "1")], &wide));
        assert_ne!(hash(&[("a", "bc")], &wide), hash(&[("ab", "c")], &wide));
    }

    #[test]
    fn the_order_of_a_list_counts_and_that_of_a_set_does_not() {
        let list = |items: [&'static str; 2]| {
            let mut draft = ListDraft::of(None, 2);
            items.iter().for_each(|item| draft.push(Side::Right, item.as_bytes()));
            of(&draft, &Limits::default())
        };
        let set = |members: [&'static str; 2]| {
            let mut draft = SetDraft::of(None, 2);
            assert!(members.iter().all(|member| draft.add(member.as_bytes())));
            of(&draft, &Limits::default())
        };
        assert_ne!(list(["a", "b"]), list(["b", "a"]));
        assert_eq!(set(["a", "b"]), set(["b", "a"]));
        assert_ne!(list(["a", "b"]), set(["a", "b"]));
        assert_eq!(list(["a", "b"]).to_string().len(), 40);
    }
}
