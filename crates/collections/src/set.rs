//! Sets: members, each once.

use crate::by_hash::ByHash;
use crate::collection::{Collection, Draft, Finished, Form, Kind};
use crate::encoding::{Encoding, Limits};
use crate::names_draft::{NamesDraft, packed};
use crate::scan::scan;
use crate::table::Table;
use sidle_outline::Order;
use sidle_types::ValueKind;

/// The type of sets.
#[derive(Clone, Copy, Debug)]
pub enum Sets {}

impl Kind for Sets {
    const VALUE_KIND: ValueKind = ValueKind::Set;
    type Draft<'b> = SetDraft<'b>;
}

/// A set that is read.
pub type Set<'b> = Collection<'b, Sets>;

/// A member, of which nothing more is known.
pub type Member<'b> = (&'b [u8], ());

impl<'b> Set<'b> {
    /// Whether it has a member.
    pub fn contains(self, member: &[u8]) -> bool {
        match self.form() {
            Form::Packed(_) => self.elements().any(|other| other == member),
            Form::Large(large) => ByHash::<()>::of(large, Order::Main).get(member).is_some(),
        }
    }

    /// All members: of a small set of integers in ascending order; otherwise in the order in which they were
    /// added, or, in chunks, of their hashes.
    pub fn members(self) -> impl Iterator<Item = &'b [u8]> {
        let (sorted, others) = match self.form() {
            Form::Large(_) if self.encoding() == Encoding::Intset => {
                let mut members: Vec<&[u8]> = self.elements().collect();
                members.sort_by_cached_key(|member| integer(member));
                (Some(members), None)
            }
            _ => (None, Some(self.elements())),
        };
        sorted.into_iter().flatten().chain(others.into_iter().flatten())
    }

    /// How many [`members`](Self::members) there are, whatever a record's head says.
    pub fn member_count(self) -> usize {
        if self.is_large() { self.len() } else { self.elements().count() }
    }

    /// The member of an index in an order of no meaning.
    pub fn nth(self, index: usize) -> Option<Member<'b>> {
        match self.form() {
            Form::Packed(_) => self.elements().nth(index).map(|member| (member, ())),
            Form::Large(large) => ByHash::of(large, Order::Main).nth(index as u64),
        }
    }

    /// The next members of a walk in steps, and the cursor of the next step ([`scan`]).
    pub fn scan(self, cursor: u64, count: usize) -> (u64, Vec<Member<'b>>) {
        match self.form() {
            Form::Large(large) if self.encoding() != Encoding::Intset => {
                ByHash::of(large, Order::Main).scan(cursor, count)
            }
            // Commands show a small set whole, and its integers in order.
            _ => scan(self.members().map(|member| (member, (member, ()))), cursor, count),
        }
    }
}

/// A set that is asked many times.
#[derive(Debug)]
pub struct MemberTable<'b>(Asked<'b>);

#[derive(Debug)]
enum Asked<'b> {
    Packed(Table<'b, ()>),
    Large(ByHash<'b, ()>),
}

impl<'b> MemberTable<'b> {
    /// To be asked about so many times.
    pub fn of(set: Set<'b>, times: usize) -> MemberTable<'b> {
        MemberTable(match set.form() {
            Form::Packed(_) => Asked::Packed(Table::new(set.elements().map(|member| (member, ())), times)),
            Form::Large(large) => Asked::Large(ByHash::of(large, Order::Main)),
        })
    }

    /// Whether the set has a member.
    pub fn contains(&self, member: &[u8]) -> bool {
        match &self.0 {
            Asked::Packed(table) => table.get(member).is_some(),
            Asked::Large(members) => members.get(member).is_some(),
        }
    }
}

/// A set that is changed.
#[derive(Debug)]
pub struct SetDraft<'b> {
    members: NamesDraft<'b, ()>,
    encoding: Encoding,
}

impl<'b> SetDraft<'b> {
    /// What is left of a set without these members of it.
    pub fn without(set: Set<'b>, removed: impl ExactSizeIterator<Item = &'b [u8]>) -> SetDraft<'b> {
        let mut draft = SetDraft::of(Some(set), removed.len());
        removed.for_each(|member| draft.members.remove_found((member, ())));
        draft
    }

    /// What is left of a set: only these members of it.
    pub fn left_of(set: Set<'b>, left: impl ExactSizeIterator<Item = &'b [u8]>) -> SetDraft<'b> {
        let mut draft = SetDraft { encoding: set.encoding(), ..SetDraft::of(None, left.len()) };
        left.for_each(|member| draft.take(member));
        draft
    }

    /// All members: those that were added here behind the others.
    pub fn members(&self) -> impl Iterator<Item = &'b [u8]> + '_ {
        self.members.iter().map(|(member, ())| member)
    }

    /// Adds a member; whether it is new.
    pub fn add(&mut self, member: &'b [u8]) -> bool {
        if self.encoding == Encoding::Intset && integer(member).is_none() {
            self.encoding = Encoding::Hashtable;
        }
        self.members.set(member, ()).is_none()
    }

    /// Removes a member; whether it was there.
    pub fn remove(&mut self, member: &[u8]) -> bool {
        self.members.remove(member).is_some()
    }
}

impl<'b> Draft<'b> for SetDraft<'b> {
    type Of = Sets;
    type Element = &'b [u8];

    fn of(set: Option<Set<'b>>, changes: usize) -> SetDraft<'b> {
        let encoding = set.map_or(Encoding::Intset, Set::encoding);
        SetDraft { members: NamesDraft::of(set, changes), encoding }
    }

    fn take(&mut self, member: &'b [u8]) {
        self.add(member);
    }

    fn len(&self) -> usize {
        self.members.len()
    }

    fn finish(&self, limits: &Limits) -> Finished {
        let is_intset = self.encoding == Encoding::Intset && self.len() as u64 <= limits.intset_entries;
        let encoding = if is_intset { Encoding::Intset } else { Encoding::Hashtable };
        if !self.members.fit_packed(limits) {
            return Finished::Large(self.members.in_chunks(encoding, limits));
        }
        let mut members: Vec<Member<'_>> = self.members.iter().collect();
        if is_intset {
            members.sort_by_cached_key(|(member, ())| integer(member));
        }
        Finished::Packed(packed(encoding, &members))
    }
}

/// The integer that reads exactly as this text.
fn integer(text: &[u8]) -> Option<i64> {
    let digits = text.strip_prefix(b"-").unwrap_or(text);
    let is_exact = match digits {
        [b'0'] => text == b"0",
        [b'1'..=b'9', ..] => true,
        _ => false,
    };
    if is_exact { str::from_utf8(text).ok()?.parse().ok() } else { None }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::publisher::Kept;
    use proptest::prelude::*;
    use std::collections::BTreeSet;

    fn assert_reads(set: Option<Set<'_>>, model: &BTreeSet<&[u8]>, names: &[String]) {
        let Some(set) = set else { return assert!(model.is_empty()) };
        assert_eq!(
            (set.len(), set.member_count(), set.is_empty()),
            (model.len(), model.len(), model.is_empty())
        );
        let members: Vec<&[u8]> = set.members().collect();
        assert_eq!(&members.iter().copied().collect::<BTreeSet<&[u8]>>(), model);
        assert_eq!(members.len(), model.len());
        let drawn: BTreeSet<&[u8]> =
            (0..=model.len()).map_while(|index| set.nth(index)).map(|(one, ())| one).collect();
        assert_eq!(&drawn, model);
        let table = MemberTable::of(set, 100);
        for name in names {
            let name = name.as_bytes();
            assert_eq!(
                (set.contains(name), table.contains(name)),
                (model.contains(name), model.contains(name))
            );
        }
        let (next, whole) = set.scan(0, usize::MAX);
        assert_eq!((next, whole.len()), (0, model.len()));
        if set.encoding() == Encoding::Intset {
            assert!(members.is_sorted_by_key(|member| integer(member)));
            assert!(whole.is_sorted_by_key(|(member, ())| integer(member)));
        }
    }

    proptest! {
        /// It does what a set does, however it is kept; whatever is a set of integers to Redis is in order.
        #[test]
        fn a_draft_is_a_set(
            rounds in prop::collection::vec(prop::collection::vec((any::<bool>(), 0usize..42), 0..20), 1..6),
        ) {
            let names: Vec<String> = (0..42).map(|number| match number {
                0..40 if number % 3 == 0 => (number - 15).to_string(),
                0..40 => ((number - 15) * 1_234_567_890_123_i64).to_string(),
                _ => format!("m{number}"),
            }).collect();
            let limits = Limits { intset_entries: 20, ..Limits::default() };
            for limits in [limits, Limits { packed_bytes: 64, chunk_bytes: 32, ..limits }] {
                let (mut model, mut kept) = (BTreeSet::new(), Kept::default());
                let mut is_intset = true;
                for changes in &rounds {
                    let mut draft = SetDraft::of(kept.collection(), changes.len());
                    for (adds, number) in changes {
                        let member = names[*number].as_bytes();
                        is_intset &= !adds || integer(member).is_some();
                        match adds {
                            true => prop_assert_eq!(draft.add(member), model.insert(member)),
                            false => prop_assert_eq!(draft.remove(member), model.remove(member)),
                        }
                        prop_assert_eq!(draft.len(), model.len());
                    }
                    is_intset &= model.len() <= 20;
                    prop_assert_eq!(&draft.members().collect::<BTreeSet<&[u8]>>(), &model);
                    let finished = draft.finish(&limits);
                    drop(draft);
                    kept.keep(finished);
                    assert_reads(kept.collection(), &model, &names);
                    let encoding = kept.collection().map_or(Encoding::Intset, Set::encoding);
                    prop_assert_eq!(encoding == Encoding::Intset, is_intset);
                    if kept.collection::<Sets>().is_none() || model.is_empty() {
                        // Such a key would go.
                        break;
                    }
                }
            }
        }
    }

    #[test]
    fn integers_read_exactly_as_their_text() {
        for (text, number) in [
            ("0", Some(0)),
            ("-1", Some(-1)),
            ("9223372036854775807", Some(i64::MAX)),
            ("-9223372036854775808", Some(i64::MIN)),
            ("9223372036854775808", None),
            ("-0", None),
            ("01", None),
            ("+1", None),
            ("", None),
            ("-", None),
            ("1x", None),
            (" 1", None),
        ] {
            assert_eq!(integer(text.as_bytes()), number, "{text:?}");
        }
    }
}
