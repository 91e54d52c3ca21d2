//! The Space-Saving table: the positions with the largest sums of a stream, in bounded memory.
//!
//! A new position takes the entry with the least count, and inherits the count as its error: it may have had
//! that much before, unnoticed. So counts never fall short (S1), and what has more than a share of
//! `1 / TRACKED` of everything is always there. A position's usage is summed from when it got its entry on.

use crate::access::{KeyText, Usage};
use crate::summary::{Hot, Summary};
use sidle_types::Position;

/// How many positions a table tracks. Of accesses that are Zipf-distributed (0.99 over 100,000 keys) the
/// least entry grows to 0.65 % of all, below the tenth key's 0.80 %: so the ten hottest keys stay, once
/// noticed.
pub const TRACKED: usize = 128;

/// Chains of entries by hash.
const CHAINS: usize = 128;
/// No entry.
const NONE: u16 = u16::MAX;

#[derive(Clone, Debug)]
struct Entry {
    position: Position,
    error: u64,
    usage: Usage,
    key: KeyText,
    /// The next entry of its chain.
    next: u16,
    /// Its place in the heap.
    place: u16,
}

/// An entry in the heap.
#[derive(Clone, Copy, Debug)]
struct Counted {
    count: u64,
    /// The entry.
    number: u16,
}

/// A table that tracks [`TRACKED`] positions.
#[derive(Clone, Debug)]
pub struct SpaceSaving {
    entries: Vec<Entry>,
    chains: [u16; CHAINS],
    /// A binary heap: the least count at the top.
    heap: Vec<Counted>,
    /// The count of the entry that was replaced last, the largest that ever was: the least count never falls.
    replaced: u64,
    total: Usage,
}

impl Default for SpaceSaving {
    fn default() -> SpaceSaving {
        SpaceSaving {
            entries: Vec::with_capacity(TRACKED),
            chains: [NONE; CHAINS],
            heap: Vec::with_capacity(TRACKED),
            replaced: 0,
            total: Usage::default(),
        }
    }
}

impl SpaceSaving {
    /// Adds `amount` to the position's count.
    pub fn add(&mut self, position: Position, key: &[u8], amount: u64, usage: Usage) {
        self.total.add(usage);
        match self.find(position) {
            Some(number) => {
                let entry = &mut self.entries[usize::from(number)];
                entry.usage.add(usage);
                let place = usize::from(entry.place);
                self.heap[place].count += amount;
                self.sink(place);
            }
            None if self.entries.len() < TRACKED => self.insert(position, key, amount, usage),
            None => self.replace_least(position, key, amount, usage),
        }
    }

    /// Forgets everything.
    pub fn clear(&mut self) {
        self.entries.clear();
        self.chains = [NONE; CHAINS];
        self.heap.clear();
        self.replaced = 0;
        self.total = Usage::default();
    }

    /// The sum of everything that was added.
    pub fn total(&self) -> Usage {
        self.total
    }

    /// The memory that it takes beside itself.
    #[cfg(test)]
    pub(crate) fn bytes(&self) -> usize {
        self.entries.capacity() * size_of::<Entry>() + self.heap.capacity() * size_of::<Counted>()
    }

    /// What it knows, to be kept and merged.
    pub fn summary(&self) -> Summary {
        let hot = |entry: &Entry| Hot {
            position: entry.position,
            count: self.heap[usize::from(entry.place)].count,
            error: entry.error,
            usage: entry.usage,
            key: entry.key,
        };
        Summary::new(self.entries.iter().map(hot).collect(), self.replaced, self.total)
    }

    fn entry(&self, number: u16) -> &Entry {
        &self.entries[usize::from(number)]
    }

    // ---- chains ----

    fn chain_of(position: Position) -> usize {
        position.0 as usize % CHAINS
    }

    fn find(&self, position: Position) -> Option<u16> {
        let mut number = self.chains[Self::chain_of(position)];
        while number != NONE {
            let entry = self.entry(number);
            if entry.position == position {
                return Some(number);
            }
            number = entry.next;
        }
        None
    }

    fn insert(&mut self, position: Position, key: &[u8], amount: u64, usage: Usage) {
        let number = self.entries.len() as u16;
        let next = std::mem::replace(&mut self.chains[Self::chain_of(position)], number);
        let key = KeyText::new(key);
        self.entries.push(Entry { position, error: 0, usage, key, next, place: number });
        self.heap.push(Counted { count: amount, number });
        self.rise(self.heap.len() - 1);
    }

    fn replace_least(&mut self, position: Position, key: &[u8], amount: u64, usage: Usage) {
        let Counted { count, number } = self.heap[0];
        self.replaced = count;
        self.heap[0].count += amount;
        self.unlink(number);
        let next = std::mem::replace(&mut self.chains[Self::chain_of(position)], number);
        let entry = &mut self.entries[usize::from(number)];
        entry.position = position;
        entry.error = count;
        entry.usage = usage;
        entry.key = KeyText::new(key);
        entry.next = next;
        self.sink(0);
    }

    fn unlink(&mut self, number: u16) {
        let Entry { position, next, .. } = *self.entry(number);
        let chain = Self::chain_of(position);
        if self.chains[chain] == number {
            self.chains[chain] = next;
            return;
        }
        let mut before = self.chains[chain];
        while self.entry(before).next != number {
            before = self.entry(before).next;
        }
        self.entries[usize::from(before)].next = next;
    }

    // ---- heap ----

    /// Restores the order after the count at this place grew.
    fn sink(&mut self, mut place: usize) {
        let grown = self.heap[place];
        loop {
            let (left, right) = (2 * place + 1, 2 * place + 2);
            let Some(&least) = self.heap.get(left) else { break };
            let (mut child, mut least) = (left, least);
            if let Some(&other) = self.heap.get(right)
                && other.count < least.count
            {
                (child, least) = (right, other);
            }
            if grown.count <= least.count {
                break;
            }
            self.put(place, least);
            place = child;
        }
        self.put(place, grown);
    }

    /// Restores the order after an entry was added at the end, which is this place.
    fn rise(&mut self, mut place: usize) {
        let added = self.heap[place];
        while place > 0 {
            let above = self.heap[(place - 1) / 2];
            if added.count >= above.count {
                break;
            }
            self.put(place, above);
            place = (place - 1) / 2;
        }
        self.put(place, added);
    }

    fn put(&mut self, place: usize, counted: Counted) {
        self.heap[place] = counted;
        self.entries[usize::from(counted.number)].place = place as u16;
    }
}
