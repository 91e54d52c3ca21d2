//! Sets: members, each once.

use crate::collection::{Collection, Draft, Finished, Kind};
use crate::elements::Writer;
use crate::encoding::{Encoding, Limits};
use crate::table::Table;
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

impl<'b> Set<'b> {
    /// Whether it has a member.
    pub fn contains(self, member: &[u8]) -> bool {
        self.members().any(|other| other == member)
    }

    /// All members: of a small set of integers in ascending order, otherwise in the order in which they were
    /// added.
    pub fn members(self) -> impl Iterator<Item = &'b [u8]> {
        self.elements()
    }
}

/// A set that is asked many times.
#[derive(Debug)]
pub struct MemberTable<'b>(Table<'b, ()>);

impl<'b> MemberTable<'b> {
    /// To be asked about so many times.
    pub fn of(set: Set<'b>, times: usize) -> MemberTable<'b> {
        MemberTable(Table::new(set.members().map(|member| (member, ())), times))
    }

    /// Whether the set has a member.
    pub fn contains(&self, member: &[u8]) -> bool {
        self.0.get(member).is_some()
    }
}

/// A set that is changed.
#[derive(Debug)]
pub struct SetDraft<'b> {
    members: Table<'b, ()>,
    encoding: Encoding,
}

impl<'b> SetDraft<'b> {
    /// All members, in order.
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
        let members = set.into_iter().flat_map(Set::members).map(|member| (member, ()));
        let encoding = set.map_or(Encoding::Intset, Set::encoding);
        SetDraft { members: Table::new(members, changes), encoding }
    }

    fn take(&mut self, member: &'b [u8]) {
        self.add(member);
    }

    fn len(&self) -> usize {
        self.members.len()
    }

    fn finish(&self, limits: &Limits) -> Finished {
        let is_intset = self.encoding == Encoding::Intset && self.len() as u64 <= limits.intset_entries;
        let mut members: Vec<&[u8]> = self.members().collect();
        if is_intset {
            members.sort_by_cached_key(|member| integer(member));
        }
        let bytes = members.iter().map(|member| member.len() + 2).sum();
        let encoding = if is_intset { Encoding::Intset } else { Encoding::Hashtable };
        let mut writer = Writer::new(encoding, members.len(), bytes);
        members.into_iter().for_each(|member| writer.push(member));
        Finished::Packed(writer.finish())
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
    use proptest::prelude::*;
    use std::collections::BTreeSet;

    proptest! {
        #[test]
        fn a_draft_is_a_set(
            rounds in prop::collection::vec(prop::collection::vec((any::<bool>(), 0usize..40), 0..20), 1..4),
        ) {
            let names: Vec<String> = (0..40).map(|number| match number {
                0..30 => (number - 15).to_string(),
                _ => format!("m{number}"),
            }).collect();
            let mut model: BTreeSet<usize> = BTreeSet::new();
            let mut bytes: Option<Vec<u8>> = None;
            for changes in rounds {
                let mut draft = SetDraft::of(bytes.as_deref().map(Set::of), changes.len());
                for (adds, number) in changes {
                    let member = names[number].as_bytes();
                    match adds {
                        true => prop_assert_eq!(draft.add(member), model.insert(number)),
                        false => prop_assert_eq!(draft.remove(member), model.remove(&number)),
                    }
                }
                let written = draft.finish(&Limits { intset_entries: 12, ..Limits::default() }).into_packed().expect("it is short");
                let set = Set::of(&written);
                prop_assert_eq!((set.len(), set.is_empty()), (model.len(), model.is_empty()));
                let read: BTreeSet<&[u8]> = set.members().collect();
                let expected = model.iter().map(|&number| names[number].as_bytes());
                prop_assert_eq!(read, expected.collect::<BTreeSet<&[u8]>>());
                let table = MemberTable::of(set, 100);
                for (number, name) in names.iter().enumerate() {
                    prop_assert_eq!(set.contains(name.as_bytes()), model.contains(&number));
                    prop_assert_eq!(table.contains(name.as_bytes()), model.contains(&number));
                }
                if set.encoding() == Encoding::Intset {
                    prop_assert!(set.members().is_sorted_by_key(integer) && set.len() <= 12);
                }
                bytes = Some(written);
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
