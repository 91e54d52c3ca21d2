//! Parts that wait for younger transactions, and are not passed over meanwhile (X14).
//!
//! Purpose: a part that waits has locked none of its keys here, so that nobody waits for it. Under a steady
//! load one of many keys is always locked by somebody, and it would wait for ever. So it claims its keys:
//! younger transactions give way to it as if it had locked them. They do not wait for it, since it may wait
//! for what they have locked at another node. A part that is alone locks nothing, and passes.
//!
//! A claim promises nothing. It ends when its part is looked at again, or a while after nobody did so.
//!
//! A FLUSHALL claims everything until it has ended: no transaction locks a key meanwhile, so that it need not
//! wait for ever.
//!
//! Ownership: one table for a node's workers.

use sidle_txn::{Age, TransactionId};
use sidle_types::{Position, WallMs};
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// The most claims of a node; beyond that parts wait without one.
const MOST: usize = 256;
/// So long a claim lasts whose part is not looked at again.
const KEPT_MS: u64 = 500;

/// The claims of a node.
#[derive(Debug, Default)]
pub(crate) struct Claims {
    count: AtomicUsize,
    /// How many have claimed everything so far.
    whole: AtomicU64,
    list: Mutex<Vec<Claim>>,
}

#[derive(Debug)]
struct Claim {
    id: TransactionId,
    age: Age,
    since: WallMs,
    what: What,
    until: WallMs,
}

#[derive(Debug)]
enum What {
    Everything,
    /// In order; whether each is to be written.
    Keys(Vec<(Position, bool)>),
}

impl Claim {
    fn is_in_the_way_of(&self, (position, writes): (Position, bool)) -> bool {
        let What::Keys(keys) = &self.what else { return true };
        let place = keys.binary_search_by_key(&position, |&(position, _)| position);
        place.is_ok_and(|place| writes || keys[place].1)
    }
}

/// A claim of everything; it ends when it is dropped.
#[derive(Debug)]
pub(crate) struct WholeClaim {
    claims: Arc<Claims>,
    id: TransactionId,
}

impl Drop for WholeClaim {
    fn drop(&mut self) {
        self.claims.end(self.id);
    }
}

impl Claims {
    /// A part with these keys waits: they are in order, each with whether it is to be written. Whether there
    /// is room for its claim.
    pub(super) fn begin(
        &self,
        id: TransactionId,
        age: Age,
        keys: Vec<(Position, bool)>,
        now: WallMs,
    ) -> bool {
        let mut list = self.list();
        list.retain(|claim| claim.until > now);
        let has_room = list.len() < MOST;
        if has_room {
            let (what, until) = (What::Keys(keys), WallMs(now.0.saturating_add(KEPT_MS)));
            list.push(Claim { id, age, since: now, what, until });
        }
        self.count.store(list.len(), Ordering::Release);
        has_room
    }

    /// Claims everything, before all transactions.
    pub(crate) fn claim_everything(self: &Arc<Claims>) -> WholeClaim {
        let id = TransactionId(u128::from(self.whole.fetch_add(1, Ordering::Relaxed)));
        let (what, age) = (What::Everything, Age(WallMs(0)));
        let mut list = self.list();
        list.push(Claim { id, age, since: WallMs(0), what, until: WallMs(u64::MAX) });
        self.count.store(list.len(), Ordering::Release);
        drop(list);
        WholeClaim { claims: Arc::clone(self), id }
    }

    /// The part is looked at: it has no claim, unless it waits again. Since when it had one, if it had.
    pub(super) fn end(&self, id: TransactionId) -> Option<WallMs> {
        if self.count.load(Ordering::Acquire) == 0 {
            return None;
        }
        let mut list = self.list();
        let since = list.iter().find(|claim| claim.id == id).map(|claim| claim.since);
        list.retain(|claim| claim.id != id);
        self.count.store(list.len(), Ordering::Release);
        since
    }

    /// An older transaction that has claimed some of these keys.
    pub(super) fn older(
        &self,
        id: TransactionId,
        age: Age,
        keys: &[(Position, bool)],
        now: WallMs,
    ) -> Option<TransactionId> {
        let mut list = self.list();
        list.retain(|claim| claim.until > now);
        self.count.store(list.len(), Ordering::Release);
        let mut older = list.iter().filter(|claim| (claim.age, claim.id) < (age, id));
        older.find(|claim| keys.iter().any(|&key| claim.is_in_the_way_of(key))).map(|claim| claim.id)
    }

    /// How many parts wait.
    pub(crate) fn len(&self) -> usize {
        self.count.load(Ordering::Acquire)
    }

    fn list(&self) -> MutexGuard<'_, Vec<Claim>> {
        self.list.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: WallMs = WallMs(1_000);

    fn key(number: u64, writes: bool) -> (Position, bool) {
        (Position(number), writes)
    }

    #[test]
    fn younger_ones_give_way_to_a_claim_and_older_ones_do_not() {
        let claims = Claims::default();
        let (own, other) = (TransactionId(5), TransactionId(6));
        claims.begin(own, Age(WallMs(20)), vec![key(1, false), key(4, true)], NOW);
        let in_the_way =
            |age, number, writes| claims.older(other, Age(WallMs(age)), &[key(number, writes)], NOW);
        assert_eq!(in_the_way(21, 4, false), Some(own));
        assert_eq!(in_the_way(21, 1, true), Some(own));
        assert_eq!(in_the_way(20, 1, true), Some(own), "of the same age, the lower id counts as older");
        assert_eq!(in_the_way(21, 1, false), None, "both only read");
        assert_eq!(in_the_way(21, 2, true), None, "another key");
        assert_eq!(in_the_way(19, 4, true), None, "it is older itself");
        assert_eq!((claims.end(own), claims.end(own)), (Some(NOW), None), "since when it waits");
        assert_eq!(in_the_way(21, 4, true), None);
    }

    #[test]
    fn all_give_way_to_a_claim_of_everything_until_it_ends() {
        let claims = Arc::new(Claims::default());
        let (first, second) = (claims.claim_everything(), claims.claim_everything());
        let much_later = WallMs(u64::MAX - 1);
        let oldest = || claims.older(TransactionId(7), Age(WallMs(1)), &[key(1, false)], much_later);
        assert_eq!(oldest(), Some(first.id));
        drop(first);
        assert_eq!(oldest(), Some(second.id));
        drop(second);
        assert_eq!((oldest(), claims.len()), (None, 0));
    }

    #[test]
    fn a_claim_that_nobody_renews_ends_and_there_are_never_too_many() {
        let claims = Claims::default();
        for id in 0..2 * MOST as u128 {
            claims.begin(TransactionId(id), Age(WallMs(20)), vec![key(1, true)], NOW);
        }
        assert_eq!(claims.list().len(), MOST);
        let later = WallMs(NOW.0 + KEPT_MS);
        let young = (TransactionId(u128::MAX), Age(WallMs(21)));
        assert!(claims.older(young.0, young.1, &[key(1, true)], NOW).is_some());
        assert_eq!(claims.older(young.0, young.1, &[key(1, true)], later), None);
    }
}
