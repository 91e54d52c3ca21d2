//! What a Space-Saving table knew at one moment: kept in windows, merged over windows, workers and nodes.

use crate::access::{KeyText, Usage};
use sidle_types::Position;
use std::cmp::Reverse;
use std::collections::BTreeMap;

/// A position and its bounds. `K`: what names its key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Hot<K = KeyText> {
    /// The position.
    pub position: Position,
    /// At most so much (S1).
    pub count: u64,
    /// By how much less it may be.
    pub error: u64,
    /// What its accesses took since it was noticed; less than all by what `error` may hide.
    pub usage: Usage,
    /// Its key.
    pub key: K,
}

impl<K> Hot<K> {
    /// At least so much. The best estimate of what is hot: a hot position is noticed early.
    pub fn at_least(&self) -> u64 {
        self.count - self.error
    }
}

/// The hottest positions, and a bound for all others.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Summary<K = KeyText> {
    /// The hottest first, by [`Hot::at_least`].
    hottest: Vec<Hot<K>>,
    /// A position that is not listed has at most so much (S1).
    absent: u64,
    total: Usage,
}

impl<K> Default for Summary<K> {
    fn default() -> Summary<K> {
        Summary { hottest: Vec::new(), absent: 0, total: Usage::default() }
    }
}

impl<K: Clone> Summary<K> {
    /// These positions, each once; any other has at most `absent`.
    pub fn new(mut hottest: Vec<Hot<K>>, absent: u64, total: Usage) -> Summary<K> {
        hottest.sort_unstable_by_key(|hot| (Reverse(hot.at_least()), hot.position));
        Summary { hottest, absent, total }
    }

    /// The hottest positions, the hottest first.
    pub fn hottest(&self) -> &[Hot<K>] {
        &self.hottest
    }

    /// At most so much has a position that is not listed.
    pub fn absent(&self) -> u64 {
        self.absent
    }

    /// Everything, listed or not.
    pub fn total(&self) -> Usage {
        self.total
    }

    /// The sum of streams that were counted apart. Of several names for a position the one with the largest
    /// count stays.
    pub fn merged<'s>(parts: impl IntoIterator<Item = &'s Summary<K>>) -> Summary<K>
    where
        K: 's,
    {
        struct Sum<K> {
            hot: Hot<K>,
            /// The largest count in one part.
            largest: u64,
            /// What the parts that list it say of those that they do not.
            absent_there: u64,
        }
        let mut found: BTreeMap<Position, Sum<K>> = BTreeMap::new();
        let (mut absent, mut total) = (0, Usage::default());
        for part in parts {
            absent += part.absent;
            total.add(part.total);
            for hot in &part.hottest {
                let Some(sum) = found.get_mut(&hot.position) else {
                    let sum = Sum { hot: hot.clone(), largest: hot.at_least(), absent_there: part.absent };
                    found.insert(hot.position, sum);
                    continue;
                };
                sum.absent_there += part.absent;
                sum.hot.count += hot.count;
                sum.hot.error += hot.error;
                sum.hot.usage.add(hot.usage);
                if hot.at_least() > sum.largest {
                    (sum.largest, sum.hot.key) = (hot.at_least(), hot.key.clone());
                }
            }
        }
        // S1: the parts that do not list it may still have had some.
        let completed = |sum: Sum<K>| {
            let unlisted = absent - sum.absent_there;
            Hot { count: sum.hot.count + unlisted, error: sum.hot.error + unlisted, ..sum.hot }
        };
        Summary::new(found.into_values().map(completed).collect(), absent, total)
    }

    /// Keeps the `most` hottest positions.
    pub fn shorten(&mut self, most: usize) {
        let dropped = self.hottest.get(most..).into_iter().flatten().map(|hot| hot.count).max();
        self.absent = self.absent.max(dropped.unwrap_or(0));
        self.hottest.truncate(most);
        self.hottest.shrink_to_fit();
    }
}
