//! Sorted sets: members, each with a score, in the order of their scores; those of one score in that of
//! their bytes.

use crate::by_hash::ByHash;
use crate::by_hash_draft::{ByHashDraft, write_new};
use crate::by_score::{self, Change, order, scored};
use crate::collection::{Collection, Draft, Finished, Form, Kind};
use crate::either::Either;
use crate::elements::{Elements, Writer};
use crate::encoding::{Encoding, Limits};
use crate::in_order::{self, strings_from};
use crate::labels::Labels;
use crate::scan::scan;
use crate::table::Table;
use sidle_outline::{Large, Order, Outline};
use sidle_types::ValueKind;
use std::collections::BTreeSet;
use std::ops::Range;

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
        match self.form() {
            Form::Packed(_) => self.members().find(|(other, _)| *other == member).map(|(_, score)| score),
            Form::Large(large) => by_member(large).get(member),
        }
    }

    /// How many members stand before one.
    pub fn rank(self, member: &[u8]) -> Option<usize> {
        match self.form() {
            Form::Packed(_) => self.members().position(|(other, _)| other == member),
            Form::Large(large) => {
                let found = (member, by_member(large).get(member)?);
                Some(by_score::count_while(large, |other| order(other, found).is_lt()))
            }
        }
    }

    /// How many first members this holds for. It holds for no member behind one for which it does not.
    pub fn count_while(self, holds: impl Fn(Scored<'_>) -> bool) -> usize {
        match self.form() {
            Form::Packed(_) => self.members().take_while(|member| holds(*member)).count(),
            Form::Large(large) => by_score::count_while(large, holds),
        }
    }

    /// All members with their scores, in order.
    pub fn members(self) -> impl Iterator<Item = Scored<'b>> {
        scored(self.elements())
    }

    /// How many [`members`](Self::members) there are, whatever a record's head says.
    pub fn member_count(self) -> usize {
        if self.is_large() { self.len() } else { self.members().count() }
    }

    /// The member of this index.
    pub fn nth(self, index: usize) -> Option<Scored<'b>> {
        self.range(index..index.saturating_add(1)).next()
    }

    /// The members of these indices, in order.
    pub fn range(self, range: Range<usize>) -> impl Iterator<Item = Scored<'b>> {
        match self.form() {
            Form::Packed(_) => Either::Packed(self.members().skip(range.start).take(range.len())),
            Form::Large(large) => {
                Either::Large(scored(strings_from(large, range.start, by_score::STRINGS)).take(range.len()))
            }
        }
    }

    /// The members of these indices, the last first.
    pub fn range_back(self, range: Range<usize>) -> impl Iterator<Item = Scored<'b>> {
        match self.form() {
            Form::Packed(_) => {
                let members: Vec<Scored<'_>> = self.range(range).collect();
                Either::Packed(members.into_iter().rev())
            }
            Form::Large(large) => Either::Large(by_score::range_back(large, range)),
        }
    }

    /// The next members of a walk in steps, with their scores, and the cursor of the next step ([`scan`]).
    pub fn scan(self, cursor: u64, count: usize) -> (u64, Vec<Scored<'b>>) {
        match self.form() {
            Form::Large(large) if !self.encoding().is_small() => by_member(large).scan(cursor, count),
            // Commands show a small one whole, and in order.
            _ => scan(self.members().map(|member| (member.0, member)), cursor, count),
        }
    }
}

fn by_member(large: Large<'_>) -> ByHash<'_, f64> {
    ByHash::of(large, Order::ByMember)
}

/// A sorted set that is asked for the scores of many members.
#[derive(Debug)]
pub struct ScoreTable<'b>(Asked<'b>);

#[derive(Debug)]
enum Asked<'b> {
    Packed(Table<'b, f64>),
    Large(ByHash<'b, f64>),
}

impl<'b> ScoreTable<'b> {
    /// To be asked about so many times.
    pub fn of(set: SortedSet<'b>, times: usize) -> ScoreTable<'b> {
        ScoreTable(match set.form() {
            Form::Packed(_) => Asked::Packed(Table::new(set.members(), times)),
            Form::Large(large) => Asked::Large(by_member(large)),
        })
    }

    /// A member's score.
    pub fn score(&self, member: &[u8]) -> Option<f64> {
        match &self.0 {
            Asked::Packed(table) => table.get(member),
            Asked::Large(members) => members.get(member),
        }
    }
}

/// A sorted set that is changed.
#[derive(Debug)]
pub struct SortedSetDraft<'b> {
    members: Members<'b>,
    encoding: Encoding,
    /// The longest member that was added here.
    longest_bytes: usize,
}

/// The members of a sorted set that is changed.
#[derive(Debug)]
enum Members<'b> {
    /// All of them.
    All(Table<'b, f64>),
    /// Those that were changed, and what they lead to.
    Changed(ByHashDraft<'b, f64>),
}

impl<'b> SortedSetDraft<'b> {
    /// What is left of a sorted set without the members of these indices. It costs as much as the fewer of
    /// both.
    pub fn without(set: SortedSet<'b>, removed: Range<usize>) -> SortedSetDraft<'b> {
        let left = set.len().saturating_sub(removed.len());
        if set.is_large() && left < removed.len() {
            let mut draft = SortedSetDraft { encoding: set.encoding(), ..SortedSetDraft::of(None, left) };
            let kept = set.range(0..removed.start).chain(set.range(removed.end..set.len()));
            kept.for_each(|member| draft.take(member));
            return draft;
        }
        let mut draft = SortedSetDraft::of(Some(set), removed.len());
        for member in set.range(removed) {
            match &mut draft.members {
                Members::All(members) => _ = members.remove(member.0),
                Members::Changed(members) => members.remove_found(member),
            }
        }
        draft
    }

    /// A member's score.
    pub fn score(&self, member: &[u8]) -> Option<f64> {
        match &self.members {
            Members::All(members) => members.get(member),
            Members::Changed(members) => members.get(member),
        }
    }

    /// Sets a member's score, which is a number; returns the old one.
    ///
    /// # Panics
    /// If it is no number: members would have no order.
    pub fn set(&mut self, member: &'b [u8], score: f64) -> Option<f64> {
        assert!(!score.is_nan(), "a score that is no number");
        self.longest_bytes = self.longest_bytes.max(member.len());
        match &mut self.members {
            Members::All(members) => members.set(member, score),
            Members::Changed(members) => members.set(member, score),
        }
    }

    /// Removes a member; whether it was there.
    pub fn remove(&mut self, member: &[u8]) -> bool {
        match &mut self.members {
            Members::All(members) => members.remove(member).is_some(),
            Members::Changed(members) => members.remove(member).is_some(),
        }
    }

    /// All members with their scores, in order.
    pub fn members(&self) -> Vec<Scored<'b>> {
        let mut members: Vec<Scored<'_>> = match &self.members {
            Members::All(members) => members.iter().collect(),
            Members::Changed(members) => members.iter().collect(),
        };
        members.sort_by(|a, b| order(*a, *b));
        members
    }

    fn finished(&self, limits: &Limits, labels: Labels) -> Finished {
        let is_small = is_small(self.len() as u64, self.longest_bytes as u64, limits);
        let encoding = if is_small { self.encoding } else { Encoding::Skiplist };
        match &self.members {
            Members::All(_) => {
                let mut members = self.members();
                members.iter_mut().for_each(|(_, score)| *score = shown(*score, encoding));
                finished_from_all(encoding, &members, limits, labels)
            }
            Members::Changed(members) if encoding.is_small() => {
                let mut again = ByHashDraft::of(by_member(members.old()), self.len());
                for (member, _, now) in members.changes() {
                    match now {
                        Some(score) => drop(again.set(member, shown(score, encoding))),
                        None => drop(again.remove(member)),
                    }
                }
                finished_from_changes(encoding, &again, limits, labels)
            }
            Members::Changed(members) => finished_from_changes(encoding, members, limits, labels),
        }
    }
}

/// Whether Redis would begin a sorted set of so many members as a small one.
pub(crate) fn is_small(members: u64, longest_bytes: u64, limits: &Limits) -> bool {
    members <= limits.zset_entries && longest_bytes <= limits.zset_value_bytes
}

/// Zero has no sign in Redis's small sorted sets.
pub(crate) fn shown(score: f64, encoding: Encoding) -> f64 {
    if encoding.is_small() { score + 0.0 } else { score }
}

pub(crate) fn packed(encoding: Encoding, members: &[Scored<'_>]) -> Vec<u8> {
    let bytes = members.iter().copied().map(by_score::written_bytes).sum();
    let mut bytes = Writer::new(encoding, members.len(), bytes).finish();
    members.iter().for_each(|member| by_score::push(&mut bytes, *member));
    bytes
}

fn finished_from_all(
    encoding: Encoding,
    members: &[Scored<'_>],
    limits: &Limits,
    labels: Labels,
) -> Finished {
    let bytes = packed(encoding, members);
    if bytes.len() <= limits.packed_bytes {
        return Finished::Packed(bytes);
    }
    let mut outline = Outline::new(encoding as u8);
    write_new(members.iter().copied(), &mut outline, Order::ByMember, limits.chunk_bytes);
    // What a peer sent may have a member twice: then the first one counts, as in look-ups.
    let bytes = if outline.sequence(Order::ByMember).elements() < members.len() as u64 {
        let mut seen = BTreeSet::new();
        let first: Vec<Scored<'_>> =
            members.iter().copied().filter(|(member, _)| seen.insert(*member)).collect();
        packed(encoding, &first)
    } else {
        bytes
    };
    in_order::fill(&mut outline, &bytes, by_score::STRINGS, limits, labels);
    Finished::Large(outline)
}

fn finished_from_changes<'b>(
    encoding: Encoding,
    members: &ByHashDraft<'b, f64>,
    limits: &Limits,
    labels: Labels,
) -> Finished {
    let mut changes = Vec::new();
    for (member, was, now) in members.changes() {
        let is_same = was.map(f64::to_bits) == now.map(f64::to_bits);
        for (score, is_added) in [(was, false), (now, true)] {
            changes
                .extend(score.filter(|_| !is_same).map(|score| Change { member: (member, score), is_added }));
        }
    }
    let mut outline = members.old().outline().clone();
    outline.set_encoding(encoding as u8);
    by_score::write(&mut outline, members.old(), changes, limits, labels);
    if outline.sequence(Order::Main).bytes() < (limits.packed_bytes / 4) as u64 {
        let left: Vec<Scored<'_>> = SortedSet::large(members.old().under(&outline)).members().collect();
        return Finished::Packed(packed(encoding, &left));
    }
    members.write_into(&mut outline, Order::ByMember, limits.chunk_bytes);
    debug_assert_eq!(outline.len(), outline.sequence(Order::ByMember).elements(), "Q3");
    Finished::Large(outline)
}

impl<'b> Draft<'b> for SortedSetDraft<'b> {
    type Of = SortedSets;
    type Element = Scored<'b>;

    fn of(set: Option<SortedSet<'b>>, changes: usize) -> SortedSetDraft<'b> {
        let members = match set.map(SortedSet::form) {
            Some(Form::Large(large)) => Members::Changed(ByHashDraft::of(by_member(large), changes)),
            Some(Form::Packed(bytes)) => Members::All(Table::new(scored(Elements::of(bytes)), changes)),
            None => Members::All(Table::new(std::iter::empty(), changes)),
        };
        let encoding = set.map_or(Encoding::Listpack, SortedSet::encoding);
        SortedSetDraft { members, encoding, longest_bytes: 0 }
    }

    fn take(&mut self, (member, score): Scored<'b>) {
        self.set(member, score);
    }

    fn len(&self) -> usize {
        match &self.members {
            Members::All(members) => members.len(),
            Members::Changed(members) => members.len(),
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
                let table = ScoreTable::of(set, 100);
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

    /// The example in `docs/layout.md`.
    #[test]
    fn a_chunk_looks_as_documented() {
        let limits = Limits { packed_bytes: 0, ..Limits::default() };
        let Finished::Large(outline) =
            SortedSetDraft::made_of([(&b"a"[..], 1.5)].into_iter()).finish(&limits)
        else {
            panic!("it is in chunks")
        };
        let log = Publisher::default();
        for order in Order::ALL {
            let (chunk, bytes) = Large::new(&outline, &log).iter_from(order, 0).next().expect("a chunk");
            let shown: Vec<String> = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
            let example = format!(
                "    chunk of a sorted set, {order:?}, label 0x{:x}\n    00  {}  {}\n",
                chunk.label,
                shown[..8].join(" "),
                shown[8..].join(" ")
            );
            assert!(include_str!("../../../docs/layout.md").contains(&example), "{example}");
        }
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

    /// A member with this number: of few bytes, or of more than a chunk has.
    fn member(number: u8) -> Vec<u8> {
        vec![b'a' + number % 26; [1, 3, 9, 20, 40][usize::from(number) % 5] + usize::from(number) / 26]
    }

    fn check_reads(set: SortedSet<'_>, model: &BTreeMap<&[u8], f64>, names: &[Vec<u8>]) {
        let mut expected: Vec<Scored<'_>> = model.iter().map(|(member, score)| (*member, *score)).collect();
        expected.sort_by(|a, b| order(*a, *b));
        let length = expected.len();
        assert_eq!((set.len(), set.member_count()), (length, length));
        assert_eq!(set.members().collect::<Vec<_>>(), expected);
        let table = ScoreTable::of(set, 100);
        for name in names {
            let score = model.get(name.as_slice()).copied();
            assert_eq!((set.score(name), table.score(name)), (score, score));
            let rank = expected.iter().position(|(member, _)| member == name);
            assert_eq!(set.rank(name), rank);
        }
        for (start, end) in [(0, length), (0, 3), (2, length), (length / 2, length), (length, length + 3)] {
            let here = &expected[start.min(length)..end.min(length)];
            assert!(set.range(start..end).eq(here.iter().copied()), "{start}..{end}");
            if end <= length {
                assert!(set.range_back(start..end).eq(here.iter().rev().copied()), "{start}..{end}");
            }
        }
        for bound in [-1.0, -0.5, 0.0, 0.5, 2.0] {
            let below = expected.iter().filter(|(_, score)| *score < bound).count();
            assert_eq!(set.count_while(|(_, score)| score < bound), below);
        }
        assert_eq!(set.nth(length / 2), expected.get(length / 2).copied());
        let (mut walked, mut cursor) = (BTreeMap::new(), 0);
        loop {
            let (next, found) = set.scan(cursor, 3);
            found.into_iter().for_each(|(member, score)| {
                assert_eq!(walked.insert(member, score), None);
            });
            cursor = next;
            if cursor == 0 {
                break;
            }
        }
        assert_eq!(&walked, model);
    }

    fn check_chunks(outline: &Outline, limits: &Limits) {
        let chunks: Vec<&sidle_outline::Chunk> = outline.sequence(Order::Main).iter_from(0).collect();
        for chunk in &chunks {
            assert!(chunk.bytes as usize <= limits.chunk_bytes || chunk.elements == 1, "{chunk:?}");
        }
        for pair in chunks.windows(2) {
            assert!((pair[0].bytes + pair[1].bytes) as usize > limits.chunk_bytes / 2, "{pair:?}");
        }
        let by_member = outline.sequence(Order::ByMember);
        assert_eq!((by_member.elements(), by_member.bytes()), (outline.len(), outline.bytes() / 2));
    }

    proptest! {
        #[test]
        fn a_sorted_set_in_chunks_is_a_sorted_set(
            rounds in prop::collection::vec(
                prop::collection::vec((0u8..4, 0u8..80, -2i8..3), 1..40),
                1..20,
            ),
            few_labels in any::<bool>(),
            zset_entries in prop_oneof![Just(4u64), Just(128)],
        ) {
            let limits = Limits { packed_bytes: 64, chunk_bytes: 32, zset_entries, ..Limits::default() };
            let few = Labels { first: 5, last: 900, step: 3, fair: 2 };
            let labels = if few_labels { few } else { Labels::ALL };
            let names: Vec<Vec<u8>> = (0..80).map(member).collect();
            let mut model: BTreeMap<&[u8], f64> = BTreeMap::new();
            let (mut log, mut finished) = (Publisher::default(), Finished::Packed(Vec::new()));
            for (number, changes) in rounds.iter().enumerate() {
                let set = match &finished {
                    Finished::Packed(bytes) => SortedSet::of(bytes),
                    Finished::Large(outline) => SortedSet::large(Large::new(outline, &log)),
                };
                // Some changes only remove, so that it shrinks.
                let only_removes = number % 4 == 3;
                let mut draft = SortedSetDraft::of(Some(set), changes.len());
                for (kind, number, score) in changes {
                    let (member, score) = (names[usize::from(*number)].as_slice(), f64::from(*score) / 2.0);
                    match kind {
                        0 => prop_assert_eq!(draft.remove(member), model.remove(member).is_some()),
                        _ if only_removes => {
                            prop_assert_eq!(draft.remove(member), model.remove(member).is_some());
                        }
                        _ => prop_assert_eq!(draft.set(member, score), model.insert(member, score)),
                    }
                    prop_assert_eq!(draft.score(member), model.get(member).copied());
                    prop_assert_eq!(draft.len(), model.len());
                }
                let drafted = draft.members();
                let next = draft.finished(&limits, labels);
                match &next {
                    Finished::Packed(bytes) => {
                        prop_assert!(bytes.len() <= limits.packed_bytes);
                        check_reads(SortedSet::of(bytes), &model, &names);
                    }
                    Finished::Large(outline) => {
                        check_chunks(outline, &limits);
                        let set = SortedSet::large(Large::new(outline, &log));
                        prop_assert_eq!(set.members().collect::<Vec<_>>(), drafted);
                        check_reads(set, &model, &names);
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
    }

    proptest! {
        /// Nothing that a peer sent stops a change, whatever becomes of the sorted set.
        #[test]
        fn bytes_of_any_content_are_changed(
            bytes in prop::collection::vec(prop_oneof![0u8..4, Just(8), any::<u8>()], 0..300),
            twice in any::<bool>(),
        ) {
            let mut bytes = bytes;
            if twice {
                bytes.resize(5, 0);
                let members = (0..20u8).map(|number| (&b"a member"[..], f64::from(number % 3)));
                members.for_each(|member| by_score::push(&mut bytes, member));
            }
            for packed_bytes in [64, 1024] {
                let limits = Limits { packed_bytes, chunk_bytes: packed_bytes / 2, ..Limits::default() };
                let (mut old, mut kept) = (Some(SortedSet::of(&bytes)), Kept::default());
                for member in [&b"a"[..], b"", b"a member"] {
                    let mut draft = SortedSetDraft::of(old.take().or(kept.collection()), 9);
                    draft.remove(member);
                    draft.set(b"new", 1.0);
                    let finished = draft.finish(&limits);
                    drop(draft);
                    kept.keep(finished);
                    let set: SortedSet<'_> = kept.collection().expect("it has a member");
                    prop_assert_eq!(set.score(b"new"), Some(1.0));
                    prop_assert_eq!(set.members().count(), set.member_count());
                    prop_assert_eq!(set.range(0..9).count(), set.member_count().min(9));
                }
            }
        }
    }

    #[test]
    fn zero_has_no_sign_while_the_encoding_is_small() {
        let limits = Limits { packed_bytes: 64, chunk_bytes: 32, zset_entries: 20, ..Limits::default() };
        let names: Vec<String> = (0..40).map(|number| format!("member {number}")).collect();
        let scored = |count: usize| names[..count].iter().map(|name| (name.as_bytes(), 1.0));
        let log = Publisher::default();
        for (count, sign) in [(10, 1.0), (30, -1.0)] {
            let Finished::Large(outline) =
                SortedSetDraft::made_of(scored(count).collect::<Vec<_>>().into_iter()).finish(&limits)
            else {
                panic!("it is long")
            };
            let mut draft = SortedSetDraft::of(Some(SortedSet::large(Large::new(&outline, &log))), 1);
            assert_eq!(draft.set(b"member 0", -0.0), Some(1.0));
            let Finished::Large(outline) = draft.finish(&limits) else { panic!("it is long") };
            let set = SortedSet::large(Large::new(&outline, &log));
            let both = [set.score(b"member 0"), set.nth(0).map(|(_, score)| score)];
            assert_eq!(both.map(|score| score.map(f64::signum)), [Some(sign); 2]);
        }
    }

    #[test]
    fn a_change_of_a_long_sorted_set_reads_and_writes_few_chunks() {
        let limits = Limits::default();
        let names: Vec<String> = (0..100_000).map(|number| format!("member {number}")).collect();
        for has_one_score in [false, true] {
            let score = |number: usize| if has_one_score { 1.0 } else { number as f64 };
            let members = names.iter().enumerate().map(|(number, name)| (name.as_bytes(), score(number)));
            let finished = SortedSetDraft::made_of(members).finish(&limits);
            let Finished::Large(outline) = finished else { panic!("it is long") };
            let mut log = Publisher::default();
            log.publish(&outline);
            let set: SortedSet<'_> = SortedSet::large(log.large());
            // A search looks at the first elements of so many chunks.
            let probes = log.large().outline().sequence(Order::Main).chunk_count().ilog2() as usize + 1;
            let reads = |what: &str, most: usize| {
                let reads = log.reads();
                assert!(reads <= most, "{what}: {reads} chunks of at most {most}");
            };
            log.reads();
            assert!(set.score(b"member 5000").is_some());
            reads("a score", 1);
            assert_eq!((set.range(0..10).count(), set.range_back(99_000..99_010).count()), (10, 10));
            reads("ranges", 4);
            assert!(set.rank(b"member 77777").is_some());
            reads("a rank", 1 + probes + 1);
            assert_eq!(set.scan(1 << 63, 10).1.len(), 10);
            reads("a step of a walk", 4);
            type Changes = fn(&mut SortedSetDraft<'_>);
            let changes: [(&str, usize, Changes); 3] = [
                ("a new member", 4, |draft| assert_eq!(draft.set(b"member x", 0.5), None)),
                ("a new score", 4, |draft| assert!(draft.set(b"member 50000", 0.5).is_some())),
                ("a removal", 2, |draft| assert!(draft.remove(b"member 50000"))),
            ];
            for (what, writes, change) in changes {
                let mut draft = SortedSetDraft::of(Some(set), 1);
                change(&mut draft);
                let Finished::Large(changed) = draft.finish(&limits) else { panic!("it is long") };
                check_chunks(&changed, &limits);
                reads(what, 2 * (probes + 4) + 8);
                let written = changed.new_chunks().count();
                assert!(written <= writes, "{what}: {written} chunks are written");
            }
        }
    }
}
