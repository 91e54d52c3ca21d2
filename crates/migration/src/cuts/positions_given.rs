//! Positions given out of turn: a set that one thread adds to and many read without a lock.
//!
//! Each position has the number of the step from which it counts. Entries are never removed or changed; the
//! set grows in blocks, each twice as large as the one before, so that no entry ever moves.
//!
//! Ownership: one writer, the migration's machine; any worker reads.

use sidle_types::Position;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};

/// Entries of the first block.
const FIRST_BLOCK: usize = 1 << 10;
/// As many blocks as [`MOST`] positions need.
const BLOCKS: usize = 11;
/// How many positions it takes: three quarters of all blocks.
const MOST: usize = (FIRST_BLOCK << BLOCKS) / 4 * 3 - FIRST_BLOCK;
/// The most positions that a migration may give out of turn.
pub const OUT_OF_TURN_MAX: usize = 1_000_000;
const _: () = assert!(OUT_OF_TURN_MAX <= MOST, "there is room for them");

/// An entry without a position.
const EMPTY: u64 = 0;

#[derive(Debug, Default)]
struct Entry {
    /// The position plus one; [`EMPTY`] if there is none.
    key: AtomicU64,
    since: AtomicU64,
}

#[derive(Debug, Default)]
struct Block {
    entries: OnceLock<Box<[Entry]>>,
    len: AtomicU64,
}

/// Positions, each with a step's number: see the module's header.
#[derive(Debug)]
pub(crate) struct PositionsGiven {
    /// How many it takes.
    most: usize,
    blocks: [Block; BLOCKS],
}

/// Where to look for a key first.
fn start(key: u64, entries: usize) -> usize {
    // Positions are hashes, but for the slot's bits on top.
    (key.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32) as usize & (entries - 1)
}

impl PositionsGiven {
    /// A set of at most so many positions.
    pub(crate) fn new(most: usize) -> PositionsGiven {
        PositionsGiven { most: most.min(MOST), blocks: Default::default() }
    }

    /// From which step on the position counts, if it is in the set.
    #[inline]
    pub(crate) fn since(&self, position: Position) -> Option<u64> {
        let key = position.0.wrapping_add(1);
        let blocks = self.blocks.iter().map_while(|block| block.entries.get());
        blocks.into_iter().find_map(|entries| find(entries, key))
    }

    /// How many positions it holds.
    pub(crate) fn len(&self) -> usize {
        self.blocks.iter().map(|block| block.len.load(Ordering::Relaxed) as usize).sum()
    }

    /// All of them, in no order.
    pub(crate) fn iter(&self) -> impl Iterator<Item = Position> {
        let entries = self.blocks.iter().filter_map(|block| block.entries.get()).flatten();
        let keys = entries.map(|entry| entry.key.load(Ordering::Acquire)).filter(|&key| key != EMPTY);
        keys.map(|key| Position(key - 1))
    }

    /// Whether there is room for so many more.
    pub(crate) fn has_room(&self, more: usize) -> bool {
        self.len() + more <= self.most
    }

    /// Whether a position has a place in it, if there is room: the last one of all has none.
    pub(crate) fn may_have(position: Position) -> bool {
        position != Position::LAST
    }

    /// Adds a position that counts from a step on. The writer's.
    pub(crate) fn insert(&self, position: Position, since: u64) {
        if self.since(position).is_some() {
            return;
        }
        let has_place = PositionsGiven::may_have(position) && self.has_room(1);
        assert!(has_place, "it was asked whether there is room");
        let key = position.0 + 1;
        let (index, block) =
            self.blocks.iter().enumerate().find(|(index, block)| block.has_room(*index)).expect("room");
        let entries =
            block.entries.get_or_init(|| (0..FIRST_BLOCK << index).map(|_| Entry::default()).collect());
        let mut at = start(key, entries.len());
        while entries[at].key.load(Ordering::Relaxed) != EMPTY {
            at = (at + 1) & (entries.len() - 1);
        }
        entries[at].since.store(since, Ordering::Relaxed);
        // Who finds the key finds its step.
        entries[at].key.store(key, Ordering::Release);
        block.len.fetch_add(1, Ordering::Relaxed);
    }
}

impl Block {
    fn has_room(&self, index: usize) -> bool {
        (self.len.load(Ordering::Relaxed) as usize) < (FIRST_BLOCK << index) / 4 * 3
    }
}

fn find(entries: &[Entry], key: u64) -> Option<u64> {
    let mut at = start(key, entries.len());
    loop {
        match entries[at].key.load(Ordering::Acquire) {
            EMPTY => return None,
            found if found == key => return Some(entries[at].since.load(Ordering::Relaxed)),
            _ => at = (at + 1) & (entries.len() - 1),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn positions_are_found_with_their_step_while_the_set_grows() {
        let set = PositionsGiven::new(20_001);
        assert_eq!(set.since(Position(0)), None);
        for n in 0..20_000 {
            set.insert(Position(n * 7), n);
            set.insert(Position(n * 7), n + 1);
        }
        assert_eq!(set.len(), 20_000);
        for n in 0..20_000 {
            assert_eq!(set.since(Position(n * 7)), Some(n));
            assert_eq!(set.since(Position(n * 7 + 1)), None);
        }
        let mut all: Vec<_> = set.iter().map(|position| position.0).collect();
        all.sort_unstable();
        assert!(all.into_iter().eq((0..20_000).map(|n| n * 7)));
        assert!(set.has_room(1) && !set.has_room(2) && !PositionsGiven::may_have(Position::LAST));
    }

    #[test]
    fn it_takes_as_many_as_it_says() {
        let blocks: usize = (0..BLOCKS).map(|index| (FIRST_BLOCK << index) / 4 * 3).sum();
        assert!(MOST <= blocks, "{MOST} {blocks}");
    }
}
