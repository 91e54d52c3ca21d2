//! Walking the index in the order of positions, without locks: what scans, packs, visits and counts are made of.

use crate::bucket::{ENTRIES, Word};
use crate::epoch::Pinned;
use crate::record::Record;
use crate::slot_table::Span;
use crate::store::Store;
use sidle_types::{KeyHash, Position, PositionRange, Slot};

/// How many low bits of a hash do not show in the position.
const HIDDEN_BITS: u32 = 64 - Position::HASH_BITS;
/// Buckets whose records are loaded together.
const BUCKETS_TOGETHER: usize = 8;

/// A bucket on the way, with the positions that it is for.
pub(crate) struct Step<'p> {
    pub(crate) span: Span<'p>,
    /// The last position of the bucket, or of the slot if it is empty.
    pub(crate) last: Position,
}

/// The lowest hash at a position.
pub(crate) fn lowest_hash(position: Position) -> u64 {
    position.hash_bits() << HIDDEN_BITS
}

impl Store {
    /// The bucket that `from` belongs to; else the last position of its slot, which is empty.
    pub(crate) fn bucket_at<'p>(&'p self, from: Position, pin: Pinned<'p>) -> Result<Step<'p>, Position> {
        let slot = from.slot();
        match self.index.slot(slot).span(lowest_hash(from), pin) {
            Some(span) => Ok(Step { span, last: Position::new(slot, KeyHash(span.last)) }),
            None => Err(Position::last_of(slot)),
        }
    }

    /// The first slot from this position on that has any entry, as the position to go on from.
    pub(crate) fn skip_empty(&self, from: Position) -> Option<Position> {
        if self.index.slot(from.slot()).entries() != 0 {
            return Some(from);
        }
        let first = from.slot().number() + 1;
        (first..sidle_types::SLOT_COUNT)
            .filter_map(Slot::new)
            .find(|&slot| self.index.slot(slot).entries() != 0)
            .map(Position::first_of)
    }
}

/// Records in the order of their positions, loaded some buckets at a time.
pub(crate) struct Walk<'p> {
    store: &'p Store,
    pin: Pinned<'p>,
    range: PositionRange,
    /// Where to go on; none at the end.
    next: Option<Position>,
    /// Found so far and not yet given out, in reverse order.
    found: Vec<(Position, Word<'p>)>,
    /// Buckets looked at so far.
    buckets: usize,
}

impl<'p> Walk<'p> {
    /// Values in `range`, in order.
    pub(crate) fn values(store: &'p Store, pin: Pinned<'p>, range: PositionRange) -> Walk<'p> {
        Walk { store, pin, range, next: Some(range.first()), found: Vec::new(), buckets: 0 }
    }

    /// Buckets looked at so far.
    pub(crate) fn buckets(&self) -> usize {
        self.buckets
    }

    fn fill(&mut self) {
        let mut words: Vec<Word<'p>> = Vec::with_capacity(BUCKETS_TOGETHER * ENTRIES);
        for _ in 0..BUCKETS_TOGETHER {
            let Some(from) = self.next else { break };
            let Some(from) = self.store.skip_empty(from).filter(|&from| from <= self.range.last()) else {
                self.next = None;
                break;
            };
            let last = match self.store.bucket_at(from, self.pin) {
                Ok(step) => {
                    self.buckets += 1;
                    for bucket in step.span.chain {
                        for index in 0..ENTRIES {
                            if let Some(word) = bucket.load(index, self.pin)
                                && !word.kind().is_tombstone
                            {
                                self.store.log.prefetch(word.address());
                                words.push(word);
                            }
                        }
                    }
                    step.last
                }
                Err(last) => last,
            };
            self.next = last.next().filter(|&next| next <= self.range.last());
        }
        let range = self.range;
        self.found.extend(words.into_iter().filter_map(|word| {
            let position = self.store.log.record(word.address(), self.pin).position();
            range.contains(position).then_some((position, word))
        }));
        self.found.sort_unstable_by_key(|&(position, _)| std::cmp::Reverse(position));
    }

    /// The next value without taking it.
    fn peek(&mut self) -> Option<(Position, Word<'p>)> {
        while self.found.is_empty() && self.next.is_some() {
            self.fill();
        }
        self.found.last().copied()
    }
}

impl<'p> Iterator for Walk<'p> {
    type Item = (Position, Record<'p>);

    fn next(&mut self) -> Option<(Position, Record<'p>)> {
        let (position, word) = self.peek()?;
        self.found.pop();
        Some((position, self.store.log.record(word.address(), self.pin)))
    }
}

impl<'p> Walk<'p> {
    /// The position of the next value.
    pub(crate) fn peek_position(&mut self) -> Option<Position> {
        self.peek().map(|(position, _)| position)
    }
}
