//! Sorted sets: members, each with a score, in the order of their scores; those of one score in that of
//! their bytes.

use crate::collection::{Collection, Draft, Finished, Kind};
use crate::elements::Writer;
use crate::encoding::{Encoding, Limits};
use crate::table::Table;
use sidle_types::ValueKind;
use std::cmp::Ordering;

/// A member and its score.
pub type Scored<'b> = (&'b [u8], f64);

/// The type of sorted sets.
#[derive(Clone, Copy, Debug)]
pub enum SortedSets {}

impl Kind for SortedSets {
    const VALUE_KIND: ValueKind = ValueKind::SortedSet;
    type Draft<'b> = SortedSetDraft<'b>;
}

/// A sorted set that is read.
pub type SortedSet<'b> = Collection<'b, SortedSets>;

impl<'b> SortedSet<'b> {
    /// A member's score.
    pub fn score(self, member: &[u8]) -> Option<f64> {
        self.members().find(|(other, _)| *other == member).map(|(_, score)| score)
    }

    /// All members with their scores, in order.
    pub fn members(self) -> impl Iterator<Item = Scored<'b>> {
        let mut elements = self.elements();
        std::iter::from_fn(move || {
            let score = f64::from_le_bytes(*elements.next()?.first_chunk()?);
            // Nobody writes what is no number; it would have no order.
            Some((elements.next()?, if score.is_nan() { 0.0 } else { score }))
        })
    }
}

/// A sorted set that is asked for the scores of many members.
#[derive(Debug)]
pub struct ScoreTable<'b>(Table<'b, f64>);

impl<'b> ScoreTable<'b> {
    /// To be asked about so many times.
    pub fn of(members: impl Iterator<Item = Scored<'b>>, times: usize) -> ScoreTable<'b> {
        ScoreTable(Table::new(members, times))
    }

    /// A member's score.
    pub fn score(&self, member: &[u8]) -> Option<f64> {
        self.0.get(member)
    }
}

/// A sorted set that is changed.
#[derive(Debug)]
pub struct SortedSetDraft<'b> {
    members: Table<'b, f64>,
    encoding: Encoding,
    /// The longest member that was added here.
    longest_bytes: usize,
}

impl<'b> SortedSetDraft<'b> {
    /// A member's score.
    pub fn score(&self, member: &[u8]) -> Option<f64> {
        self.members.get(member)
    }

    /// Sets a member's score, which is a number; returns the old one.
    ///
    /// # Panics
    /// If it is no number: members would have no order.
    pub fn set(&mut self, member: &'b [u8], score: f64) -> Option<f64> {
        assert!(!score.is_nan(), "a score that is no number");
        self.longest_bytes = self.longest_bytes.max(member.len());
        self.members.set(member, score)
    }

    /// Removes a member; whether it was there.
    pub fn remove(&mut self, member: &[u8]) -> bool {
        self.members.remove(member).is_some()
    }

    /// All members with their scores, in order.
    pub fn members(&self) -> Vec<Scored<'b>> {
        let mut members: Vec<Scored<'_>> = self.members.iter().collect();
        // Zeros of both signs are equal.
        let order = |one: f64, other: f64| one.partial_cmp(&other).unwrap_or(Ordering::Equal);
        members.sort_by(|(a, a_score), (b, b_score)| order(*a_score, *b_score).then_with(|| a.cmp(b)));
        members
    }
}

impl<'b> Draft<'b> for SortedSetDraft<'b> {
    type Of = SortedSets;
    type Element = Scored<'b>;

    fn of(set: Option<SortedSet<'b>>, changes: usize) -> SortedSetDraft<'b> {
        SortedSetDraft {
            members: Table::new(set.into_iter().flat_map(SortedSet::members), changes),
            encoding: set.map_or(Encoding::Listpack, SortedSet::encoding),
            longest_bytes: 0,
        }
    }

    fn take(&mut self, (member, score): Scored<'b>) {
        self.set(member, score);
    }

    fn len(&self) -> usize {
        self.members.len()
    }

    fn finish(&self, limits: &Limits) -> Finished {
        let members = self.members();
        let is_small = members.len() as u64 <= limits.zset_entries
            && self.longest_bytes as u64 <= limits.zset_value_bytes;
        let encoding = if is_small { self.encoding } else { Encoding::Skiplist };
        let bytes = members.iter().map(|(member, _)| member.len() + 11).sum();
        let mut writer = Writer::new(encoding, members.len(), bytes);
        for (member, score) in members {
            // Zero has no sign in Redis's small sorted sets.
            let score = if encoding.is_small() { score + 0.0 } else { score };
            writer.push(&score.to_le_bytes());
            writer.push(member);
        }
        Finished::Packed(writer.finish())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeMap;

    proptest! {
        #[test]
        fn a_draft_is_a_map_in_the_order_of_scores(
            rounds in prop::collection::vec(
                prop::collection::vec((0u8..3, 0usize..30, -3i8..3), 0..20),
                1..4,
            ),
        ) {
            let names: Vec<String> = (0..30).map(|number| format!("m{number}")).collect();
            let mut model: BTreeMap<usize, f64> = BTreeMap::new();
            let mut bytes: Option<Vec<u8>> = None;
            for changes in rounds {
                let mut draft = SortedSetDraft::of(bytes.as_deref().map(SortedSet::of), changes.len());
                for (kind, number, score) in changes {
                    let (member, score) = (names[number].as_bytes(), f64::from(score) / 2.0);
                    match kind {
                        0 => prop_assert_eq!(draft.remove(member), model.remove(&number).is_some()),
                        _ => prop_assert_eq!(draft.set(member, score), model.insert(number, score)),
                    }
                }
                let limits = Limits { zset_entries: 9, ..Limits::default() };
                let written = draft.finish(&limits).into_packed().expect("it is short");
                let set = SortedSet::of(&written);
                let mut expected: Vec<(f64, &[u8])> =
                    model.iter().map(|(&number, &score)| (score, names[number].as_bytes())).collect();
                expected.sort_by(|a, b| a.partial_cmp(b).expect("numbers"));
                let read: Vec<(f64, &[u8])> = set.members().map(|(member, score)| (score, member)).collect();
                prop_assert_eq!(read, expected);
                prop_assert_eq!((set.len(), set.is_empty()), (model.len(), model.is_empty()));
                let table = ScoreTable::of(set.members(), 100);
                for (number, name) in names.iter().enumerate() {
                    prop_assert_eq!(set.score(name.as_bytes()), model.get(&number).copied());
                    prop_assert_eq!(table.score(name.as_bytes()), model.get(&number).copied());
                }
                bytes = Some(written);
            }
        }
    }

    /// The example in `docs/layout.md`.
    #[test]
    fn a_sorted_set_looks_as_documented() {
        let mut draft = SortedSetDraft::of(None, 1);
        assert_eq!(draft.set(b"a", 1.5), None);
        let bytes = draft.finish(&Limits::default()).into_packed().expect("it is short");
        let shown: Vec<String> = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
        let example = format!("    sorted set\n    00  {}  {}\n", shown[..8].join(" "), shown[8..].join(" "));
        assert!(include_str!("../../../docs/layout.md").contains(&example), "{example}");
    }

    #[test]
    fn the_encoding_stays_what_it_became() {
        let limits = Limits { zset_entries: 2, zset_value_bytes: 4, ..Limits::default() };
        let with = |old: Option<&[u8]>, members: &[&'static str]| {
            let mut draft = SortedSetDraft::of(old.map(SortedSet::of), members.len());
            for member in members {
                draft.set(member.as_bytes(), 1.0);
            }
            draft.finish(&limits).into_packed().expect("it is short")
        };
        assert_eq!(SortedSet::of(&with(None, &["four", "a"])).encoding(), Encoding::Listpack);
        assert_eq!(SortedSet::of(&with(None, &["fiver"])).encoding(), Encoding::Skiplist);
        let three = with(None, &["a", "b", "c"]);
        let mut draft = SortedSetDraft::of(Some(SortedSet::of(&three)), 2);
        assert!(draft.remove(b"a") && draft.remove(b"b"));
        assert_eq!(
            SortedSet::of(&draft.finish(&limits).into_packed().expect("it is short")).encoding(),
            Encoding::Skiplist
        );
    }
}
