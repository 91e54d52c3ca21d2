//! The tablet map as clients of Redis Cluster see it: whole slots, each with one owner.
//!
//! A slot that is split between nodes is shown with the owner of its first position; requests for its other
//! parts are answered with ASK, which leaves the client's slot map alone. Migrations are never shown
//! (`CLUSTER NODES` markers of moving slots confuse clients).

use crate::TabletMap;
use sidle_types::{NodeId, Position, PositionRange, SLOT_COUNT, Slot};

/// Neighbouring slots with one owner.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SlotRun {
    /// The first slot.
    pub first: Slot,
    /// The last slot.
    pub last: Slot,
    /// The node that is shown as their owner.
    pub owner: NodeId,
}

impl TabletMap {
    /// The node that is shown as the slot's owner: the owner of its first position.
    pub fn slot_owner(&self, slot: Slot) -> NodeId {
        self.owner_of(Position::first_of(slot))
    }

    /// Whether more than one node owns positions of the slot.
    pub fn is_split(&self, slot: Slot) -> bool {
        let owner = self.slot_owner(slot);
        PositionRange::of_slots(slot, slot)
            .is_some_and(|range| self.tablets_in(range).iter().any(|tablet| tablet.owner != owner))
    }

    /// All slots as the longest runs of one owner, in order.
    pub fn slot_runs(&self) -> Vec<SlotRun> {
        let mut runs: Vec<SlotRun> = Vec::new();
        for tablet in self.tablets() {
            // The slots whose first position lies in the tablet.
            let (touched, last) = tablet.range.slots();
            let first = match Position::first_of(touched) {
                start if start >= tablet.range.first() => touched,
                _ => match Slot::new(touched.number() + 1) {
                    Some(next) if next <= last => next,
                    _ => continue,
                },
            };
            match runs.last_mut() {
                Some(run) if run.owner == tablet.owner => run.last = last,
                _ => runs.push(SlotRun { first, last, owner: tablet.owner }),
            }
        }
        runs
    }

    /// The slots that are shown as the node's, as runs in order.
    pub fn slots_of(&self, node: NodeId) -> Vec<SlotRun> {
        self.slot_runs().into_iter().filter(|run| run.owner == node).collect()
    }

    /// How many slots are shown as the node's.
    pub fn slot_count_of(&self, node: NodeId) -> u16 {
        let count = self.slots_of(node).iter().map(|run| run.last.number() - run.first.number() + 1).sum();
        debug_assert!(count <= SLOT_COUNT);
        count
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixtures::{node_id, node_info, running};
    use sidle_types::MigrationId;

    fn slot(number: u16) -> Slot {
        Slot::new(number).unwrap()
    }

    fn slots(first: u16, last: u16) -> PositionRange {
        PositionRange::of_slots(slot(first), slot(last)).unwrap()
    }

    fn map_after(moves: &[PositionRange]) -> TabletMap {
        let mut map = TabletMap::founded_by(node_info(1)).changed(|map| map.put_node(node_info(2)));
        for (index, range) in moves.iter().enumerate() {
            let id = index as u64 + 1;
            map = map.changed(|map| map.start(running(id, *range, 1, 2, 2)));
            map = map.changed(|map| map.finish(MigrationId(id)));
        }
        map
    }

    fn runs(map: &TabletMap) -> Vec<(u16, u16, NodeId)> {
        map.slot_runs().iter().map(|run| (run.first.number(), run.last.number(), run.owner)).collect()
    }

    #[test]
    fn whole_slots_are_shown_as_they_are() {
        let map = map_after(&[slots(0, 8191)]);
        assert_eq!(runs(&map), [(0, 8191, node_id(2)), (8192, 16383, node_id(1))]);
        assert_eq!(map.slot_count_of(node_id(2)), 8192);
        assert!(Slot::all().all(|slot| !map.is_split(slot)));
    }

    #[test]
    fn a_split_slot_is_shown_with_the_owner_of_its_first_position() {
        let first_half =
            PositionRange::new(Position::first_of(slot(7)), Position(Position::first_of(slot(7)).0 + 1000));
        let map = map_after(&[first_half.unwrap()]);
        assert_eq!(runs(&map), [(0, 6, node_id(1)), (7, 7, node_id(2)), (8, 16383, node_id(1))]);
        assert!(map.is_split(slot(7)) && !map.is_split(slot(6)) && !map.is_split(slot(8)));

        let inner =
            PositionRange::new(Position(Position::first_of(slot(7)).0 + 5), Position::last_of(slot(7)));
        let map = map_after(&[inner.unwrap()]);
        assert_eq!(runs(&map), [(0, 16383, node_id(1))]);
        assert!(map.is_split(slot(7)));
        assert_eq!(map.slot_count_of(node_id(2)), 0);
    }

    #[test]
    fn runs_agree_with_single_slots() {
        let from_inside = PositionRange::new(
            Position(Position::first_of(slot(100)).0 + 5),
            Position(Position::first_of(slot(200)).0 + 5),
        );
        let to_the_end = PositionRange::new(Position(Position::first_of(Slot::LAST).0 + 1), Position::LAST);
        let map = map_after(&[from_inside.unwrap(), slots(300, 300), to_the_end.unwrap()]);
        let mut shown = Vec::new();
        for run in map.slot_runs() {
            shown.extend((run.first.number()..=run.last.number()).map(|number| (number, run.owner)));
        }
        let single: Vec<_> = Slot::all().map(|slot| (slot.number(), map.slot_owner(slot))).collect();
        assert_eq!(shown, single);
    }
}
