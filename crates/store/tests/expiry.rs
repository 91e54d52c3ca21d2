//! Expired values: their removal, its cost, and the memory it frees.

#![expect(clippy::unwrap_used, reason = "tests may fail")]

use sidle_store::{Entry, Expiring, ExpirySweep, Leave, LogHead, Store, StoreConfig};
use sidle_types::{HashedKey, Position, PositionRange, Slot, WallMs};

const NOW: WallMs = WallMs(1_000_000);

/// Removes what is outside a range that must be left alone.
struct Outside {
    kept: Option<PositionRange>,
    leave: Leave,
    removed: Vec<Position>,
}

impl Expiring for Outside {
    fn leave(&mut self, position: Position) -> Option<Leave> {
        (!self.kept.is_some_and(|kept| kept.contains(position))).then_some(self.leave)
    }

    fn removed(&mut self, position: Position) {
        self.removed.push(position);
    }
}

fn outside(kept: Option<PositionRange>) -> Outside {
    Outside { kept, leave: Leave::Nothing, removed: Vec::new() }
}

fn store() -> (Store, LogHead) {
    let config =
        StoreConfig { huge_pages: false, segment_bytes: 64 << 10, ..StoreConfig::with_memory(16 << 20) };
    let store = Store::new(config).unwrap();
    let head = store.log_head();
    (store, head)
}

fn put(store: &Store, head: &mut LogHead, name: &str, bytes: usize, deadline: Option<WallMs>) {
    let key = HashedKey::new(name.as_bytes());
    store.lock_slot(key.slot()).put(head, key, &[&vec![1; bytes]], deadline).unwrap();
}

fn sweep_all(
    store: &Store,
    head: &mut LogHead,
    now: WallMs,
    budget: usize,
    expiring: &mut Outside,
) -> ExpirySweep {
    let mut sum = ExpirySweep::default();
    let mut from = Some(Position::FIRST);
    while let Some(at) = from {
        let sweep = store.expire(head, at, now, budget, expiring);
        (sum.looked, sum.removed) = (sum.looked + sweep.looked, sum.removed + sweep.removed);
        from = sweep.next;
    }
    sum
}

#[test]
fn expire_removes_what_is_past_its_deadline_and_nothing_else() {
    for (budget, leave) in [(1, Leave::Nothing), (7, Leave::Tombstone), (usize::MAX, Leave::Nothing)] {
        let (store, mut head) = store();
        for i in 0..3000u64 {
            let tag = if i % 2 == 0 { "{tag}" } else { "" };
            put(
                &store,
                &mut head,
                &format!("{tag}{i}"),
                20,
                (i % 3 != 0).then_some(WallMs(NOW.0 - 2 + i % 3)),
            );
        }
        let mut expiring = Outside { leave, ..outside(None) };
        let sum = sweep_all(&store, &mut head, NOW, budget, &mut expiring);
        assert_eq!((sum.removed, expiring.removed.len(), store.len()), (1000, 1000, 2000));
        assert_eq!(store.expiring_len(), 1000);
        let tombstones = if leave == Leave::Tombstone { 1000 } else { 0 };
        assert_eq!(store.tombstones_in(PositionRange::ALL), tombstones);
        // At the deadline itself a value exists.
        let due =
            (0..3000u64).filter(|i| i % 3 == 2).map(|i| format!("{}{i}", ["{tag}", ""][i as usize % 2]));
        assert!(
            due.into_iter()
                .all(|name| { matches!(store.pin().get(HashedKey::new(name.as_bytes())), Entry::Value(_)) })
        );
        assert_eq!(store.check_accounting(), Ok(()));
    }
}

/// Visited values are not visited again before their time, but new ones are.
#[test]
fn nothing_is_looked_at_where_nothing_can_have_expired() {
    let (store, mut head) = store();
    for i in 0..5000u64 {
        put(&store, &mut head, &format!("{i}"), 20, Some(WallMs(NOW.0 + 100 + i)));
    }
    let mut expiring = outside(None);
    assert_eq!(sweep_all(&store, &mut head, NOW, usize::MAX, &mut expiring).looked, 0);
    let later = WallMs(NOW.0 + 101);
    assert_eq!(sweep_all(&store, &mut head, later, usize::MAX, &mut expiring).removed, 1);
    put(&store, &mut head, "short", 20, Some(NOW));
    let sum = sweep_all(&store, &mut head, WallMs(NOW.0 + 1), usize::MAX, &mut expiring);
    assert_eq!(sum.removed, 1);
    assert!(sum.looked < 10, "{sum:?}: only the others of its slot");
    assert_eq!(sweep_all(&store, &mut head, later, usize::MAX, &mut expiring).looked, 0);
    // A call that visits the whole slot sets its time anew; any other leaves it.
    put(&store, &mut head, "{tag}a", 20, Some(NOW));
    (0..50).for_each(|i| put(&store, &mut head, &format!("{{tag}}{i}"), 20, Some(WallMs(NOW.0 + 500))));
    for _ in 0..3 {
        store.expire(&mut head, Position::first_of(Slot::of_key(b"{tag}")), later, 5, &mut expiring);
    }
    sweep_all(&store, &mut head, later, 5, &mut expiring);
    assert_eq!(expiring.removed.len(), 3);
    assert_eq!(store.check_accounting(), Ok(()));
}

#[test]
fn what_must_stay_stays_until_it_may_go() {
    let (store, mut head) = store();
    let frozen = PositionRange::of_slots(Slot::new(0).unwrap(), Slot::new(8191).unwrap()).unwrap();
    for i in 0..2000u64 {
        put(&store, &mut head, &format!("{i}"), 20, Some(WallMs(1)));
    }
    let kept = store.len_in(frozen) as usize;
    let mut expiring = outside(Some(frozen));
    assert_eq!(sweep_all(&store, &mut head, NOW, 100, &mut expiring).removed, 2000 - kept);
    assert_eq!(sweep_all(&store, &mut head, NOW, 100, &mut expiring).removed, 0);
    assert_eq!(sweep_all(&store, &mut head, NOW, 100, &mut outside(None)).removed, kept);
    assert!(store.is_empty());
}

/// Memory is freed by the segment, oldest first, however little of it all has been visited.
#[test]
fn expire_segment_frees_what_was_written_together() {
    let (store, mut head) = store();
    let memory = |store: &Store| store.memory().log_used;
    for i in 0..40_000u64 {
        // The first half expires, except for one in a thousand.
        let deadline = if i < 20_000 && i % 1000 != 7 { NOW } else { WallMs(NOW.0 + 1000) };
        put(&store, &mut head, &format!("{i:06}"), 100, Some(deadline));
    }
    let mut expiring = outside(None);
    assert_eq!(
        store.expire_segment(&mut head, NOW, &mut expiring),
        None,
        "at the deadline nothing has expired"
    );
    let (before, now) = (memory(&store), WallMs(NOW.0 + 1));
    let sweep = store.expire_segment(&mut head, now, &mut expiring).unwrap();
    assert_eq!(sweep.removed, expiring.removed.len());
    assert!((400..600).contains(&sweep.removed), "{sweep:?} of a segment of 64 KiB");
    let mut rounds = 1;
    while store.expire_segment(&mut head, now, &mut expiring).is_some() {
        rounds += 1;
    }
    assert!((40..48).contains(&rounds), "{rounds}: each is looked at once");
    assert!(expiring.removed.len() > 19_400, "{}", expiring.removed.len());
    let mut cleaner = store.cleaner();
    cleaner.step(1 << 20);
    // Half of the segments are empty; the others can be cleaned.
    assert!(memory(&store) < before * 4 / 5, "{before}, {}", memory(&store));
    assert_eq!(store.check_accounting(), Ok(()));
}
