//! A sorted set that is made in slices, each of its two orders by itself.
//!
//! All members are counted first: what they make together says how they are kept. Then they come in the order
//! of their hashes, and after that in the order of their scores. So each slice goes on behind the one before,
//! and only the last chunk is written again.

use crate::by_hash::ByHash;
use crate::by_hash_draft::{ByHashDraft, write_new};
use crate::by_score::{self, Change, STRINGS};
use crate::elements::HEAD_BYTES;
use crate::encoding::{Encoding, Limits};
use crate::in_order;
use crate::labels::Labels;
use crate::sorted_set::{Scored, is_small, packed, shown};
use sidle_outline::{Large, Order, Outline};

/// What the members of a sorted set are together.
#[derive(Clone, Copy, Debug, Default)]
pub struct SortedSetSlices {
    members: u64,
    longest_bytes: u64,
    bytes: u64,
}

impl SortedSetSlices {
    /// There is this member, too, with a score.
    pub fn count(&mut self, member: &[u8]) {
        self.members += 1;
        self.longest_bytes = self.longest_bytes.max(member.len() as u64);
        self.bytes += by_score::written_bytes((member, 0.0)) as u64;
    }

    /// Whether one record is to hold them: then they are no matter for slices.
    pub fn fit_packed(&self, limits: &Limits) -> bool {
        HEAD_BYTES as u64 + self.bytes <= limits.packed_bytes as u64
    }

    fn encoding(&self, limits: &Limits) -> Encoding {
        match is_small(self.members, self.longest_bytes, limits) {
            true => Encoding::Listpack,
            false => Encoding::Skiplist,
        }
    }

    /// Adds members behind those that have come in the order of hashes; none if one is there twice.
    pub fn add_by_member(
        &self,
        old: Option<Large<'_>>,
        members: &[Scored<'_>],
        limits: &Limits,
    ) -> Option<Outline> {
        let encoding = self.encoding(limits);
        let members = members.iter().map(|(member, score)| (*member, shown(*score, encoding)));
        let had = old.map_or(0, |old| old.outline().sequence(Order::ByMember).elements());
        let expected = had + members.len() as u64;
        let mut outline = old.map_or_else(|| Outline::new(encoding as u8), |old| old.outline().clone());
        match old {
            None => write_new(members, &mut outline, Order::ByMember, limits.chunk_bytes),
            Some(old) => {
                let mut draft = ByHashDraft::of(ByHash::of(old, Order::ByMember), members.len());
                for (member, score) in members {
                    let _ = draft.set(member, score);
                }
                draft.write_into(&mut outline, Order::ByMember, limits.chunk_bytes);
            }
        }
        (outline.sequence(Order::ByMember).elements() == expected).then_some(outline)
    }

    /// Adds members behind those that have come in the order of scores. All have come by their hashes.
    pub fn add_by_score(&self, old: Large<'_>, members: &[Scored<'_>], limits: &Limits) -> Outline {
        let encoding = self.encoding(limits);
        let members = members.iter().map(|(member, score)| (*member, shown(*score, encoding)));
        let mut outline = old.outline().clone();
        if outline.is_empty() {
            let members: Vec<Scored<'_>> = members.collect();
            let bytes = packed(encoding, &members);
            in_order::fill(&mut outline, &bytes, STRINGS, limits, Labels::ALL);
        } else {
            let changes = members.map(|member| Change { member, is_added: true }).collect();
            by_score::write(&mut outline, old, changes, limits, Labels::ALL);
        }
        outline
    }

    /// Whether all have come, in both orders (Q3).
    pub fn are_all_in(&self, outline: &Outline) -> bool {
        let in_each = Order::ALL.map(|order| outline.sequence(order).elements());
        in_each == [self.members; 2]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::by_hash::hash_of;
    use crate::collection::{Draft, Finished};
    use crate::publisher::Publisher;
    use crate::sorted_set::{SortedSet, SortedSetDraft};
    use proptest::prelude::*;

    fn made(members: &[Scored<'_>], slice: usize, limits: &Limits) -> Option<Publisher> {
        let mut whole = SortedSetSlices::default();
        members.iter().for_each(|(member, _)| whole.count(member));
        assert!(!whole.fit_packed(limits));
        let mut publisher = Publisher::default();
        let mut sorted = members.to_vec();
        sorted.sort_by_key(|(member, _)| (hash_of(member), *member));
        for members in sorted.chunks(slice) {
            let has_any = !publisher.large().outline().sequence(Order::ByMember).is_empty();
            let outline = whole.add_by_member(has_any.then(|| publisher.large()), members, limits)?;
            publisher.publish(&outline);
        }
        sorted.sort_by(|one, other| by_score::order(*one, *other));
        let mut written = 0;
        for members in sorted.chunks(slice) {
            assert!(!whole.are_all_in(publisher.large().outline()));
            let outline = whole.add_by_score(publisher.large(), members, limits);
            written += outline.new_chunks().count();
            publisher.publish(&outline);
        }
        let outline = publisher.large().outline();
        assert!(whole.are_all_in(outline));
        let chunks = outline.sequence(Order::Main).chunk_count();
        let slices = members.len().div_ceil(slice);
        assert!(written <= chunks + 2 * slices, "{written} of {chunks} chunks in {slices} slices");
        Some(publisher)
    }

    proptest! {
        #[test]
        fn it_is_what_is_made_at_once(
            numbers in prop::collection::btree_map(0u16..500, -3i8..3, 30..200),
            slice in 1usize..50,
            zset_entries in 0u64..250,
            zset_value_bytes in 5u64..12,
        ) {
            let limits = Limits {
                packed_bytes: 64, chunk_bytes: 48, zset_entries, zset_value_bytes, ..Limits::default()
            };
            let names: Vec<(String, f64)> = numbers.iter().map(|(number, score)| {
                let name = "m".repeat(usize::from(number % 7)) + &number.to_string();
                (name, if *score == 0 { -0.0 } else { f64::from(*score) })
            }).collect();
            let mut members: Vec<Scored<'_>> =
                names.iter().map(|(name, score)| (name.as_bytes(), *score)).collect();
            let Finished::Large(at_once) = SortedSetDraft::made_of(members.iter().copied()).finish(&limits)
            else {
                panic!("it is long")
            };
            let none = Publisher::default();
            let at_once: SortedSet<'_> = SortedSet::large(Large::new(&at_once, &none));
            let publisher = made(&members, slice, &limits).expect("none is there twice");
            let made_so: SortedSet<'_> = SortedSet::large(publisher.large());
            let bits = |set: SortedSet<'_>| -> Vec<(Vec<u8>, u64)> {
                set.members().map(|(member, score)| (member.to_vec(), score.to_bits())).collect()
            };
            prop_assert_eq!(bits(made_so), bits(at_once));
            prop_assert_eq!(made_so.encoding(), at_once.encoding());
            for (member, _) in &members {
                let score = |set: SortedSet<'_>| set.score(member).map(f64::to_bits);
                let of = |set: SortedSet<'_>| (score(set), set.rank(member));
                prop_assert_eq!(of(made_so), of(at_once));
            }
            members.push(members[slice % members.len()]);
            prop_assert!(made(&members, slice, &limits).is_none(), "one is there twice");
        }
    }
}
