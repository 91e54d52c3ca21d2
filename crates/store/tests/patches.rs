//! Large collections that are sent to another store chunk by chunk, and brought up to date there.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use proptest::prelude::*;
use sidle_outline::{Chunk, Large, Order, Outline};
use sidle_store::{
    Arrival, Arrived, Change, CleanOutcome, Holds, Leave, LogHead, Patch, ReplayError, Replayed, SlotGuards,
    Store, StoreConfig,
};
use sidle_types::{HashedKey, Position, PositionRange, ValueKind, Version, WallMs};

const KEY: &[u8] = b"key";
const OTHER: &[u8] = b"another key";
const LABELS: u64 = 1200;

fn store_of(memory_bytes: u64) -> (Store, LogHead) {
    let config =
        StoreConfig { memory_bytes, segment_bytes: 16 << 10, huge_pages: false, ..StoreConfig::default() };
    let store = Store::new(config).unwrap();
    let head = store.log_head();
    (store, head)
}

fn elements(label: u64, stamp: u64) -> Vec<u8> {
    (0..8 + label % 60).map(|at| (label * 31 + stamp * 7 + at) as u8).collect()
}

fn clean(store: &Store) {
    let mut cleaner = store.cleaner();
    while cleaner.step(64 << 10) == CleanOutcome::Progress {}
}

/// A key's value: its encoding, its deadline, and its chunks.
type State = (u8, Option<WallMs>, Vec<(Order, u64, u32, Vec<u8>)>);

fn state(store: &Store, key: &[u8]) -> Option<State> {
    let guard = store.pin();
    let (entry, outline) = guard.get_whole(HashedKey::new(key));
    let (record, outline) = (entry.value()?, outline?);
    let large = Large::new(&outline, &guard);
    let chunks = Order::ALL.into_iter().flat_map(|order| {
        large
            .iter_from(order, 0)
            .map(move |(chunk, bytes)| (order, chunk.label, chunk.elements, bytes.to_vec()))
    });
    Some((outline.encoding(), record.expires_at(), chunks.collect()))
}

fn change(store: &Store, head: &mut LogHead, key: &[u8], f: impl FnOnce(&mut Outline)) {
    let key = HashedKey::new(key);
    let slot = store.lock_slot(key.slot());
    let (mut outline, expires_at) = match slot.get(key).value() {
        Some(record) => (slot.outline(record), record.expires_at()),
        None => (Outline::new(3), None),
    };
    f(&mut outline);
    if outline.is_empty() {
        outline.put(Order::Main, Chunk::new(7, 1, b"least"));
    }
    slot.put_large(head, key, ValueKind::List, outline, expires_at).unwrap();
}

/// The other node: what it has, and how far a patch has come.
#[derive(Default)]
struct Target {
    whole: Option<(Arrived, u64, Version)>,
    part: Option<(Arrival, Patch)>,
    bytes: usize,
}

impl Target {
    /// Takes a part of a patch; whether it was the last one.
    fn step(&mut self, source: &Store, most: usize, target: &Store, head: &mut LogHead) -> bool {
        let holds = match (&self.part, &self.whole) {
            (Some((_, patch)), _) => Holds::Part(*patch),
            (None, Some((_, collection, version))) => Holds::Whole(*collection, *version),
            (None, None) => Holds::Nothing,
        };
        let mut bytes = Vec::new();
        let packed = source.pack_patch(Position::of_key(KEY), holds, most, &mut bytes).unwrap();
        self.bytes += bytes.len();
        if packed.is_first {
            let version = packed.patch.version;
            let arrival = match self.whole.take() {
                Some((arrived, ..)) if packed.patch.since.0 > 0 => {
                    Arrival::again(target, &arrived, version).unwrap()
                }
                // Another collection took its key.
                _ => Arrival::begin(target, &bytes, version).unwrap(),
            };
            self.part = Some((arrival, packed.patch));
        }
        let (arrival, patch) = self.part.as_mut().unwrap();
        *patch = packed.patch;
        arrival.apply(target, head, &bytes).unwrap();
        target.check_accounting().unwrap();
        if packed.is_last {
            let (mut arrival, patch) = self.part.take().unwrap();
            if !arrival.is_entry() {
                target.discard(Position::of_key(KEY), Position::of_key(KEY), usize::MAX);
            }
            arrival.finish(target, head, PositionRange::ALL).unwrap();
            let is_entry = arrival.is_entry();
            let arrived = arrival.arrived().filter(|_| is_entry);
            self.whole = arrived.map(|arrived| (arrived, patch.collection, patch.version));
        }
        packed.is_last
    }
}

#[derive(Clone, Debug)]
enum Operation {
    Put(u64, u16),
    Remove(u64, u16),
    Relabel(u64, u64),
    /// Another collection takes the key, with the older chunks that it had under its own.
    RenameOver,
    Deadline(u64),
    Encoding(u8),
    Clean,
    Walk(u8, u16),
}

fn operation() -> impl Strategy<Value = Operation> {
    prop_oneof![
        6 => (0..LABELS, 0..6u16).prop_map(|(label, n)| Operation::Put(label, n)),
        3 => (0..LABELS, 0..6u16).prop_map(|(label, n)| Operation::Remove(label, n)),
        1 => (0..LABELS, 0..400u16).prop_map(|(label, n)| Operation::Remove(label, n)),
        2 => (0..LABELS, 0..LABELS).prop_map(|(from, to)| Operation::Relabel(from, to)),
        1 => Just(Operation::RenameOver),
        1 => (0..3u64).prop_map(Operation::Deadline),
        1 => (0..3u8).prop_map(Operation::Encoding),
        1 => Just(Operation::Clean),
        8 => (0..9u8, 1..3000u16).prop_map(|(steps, most)| Operation::Walk(steps, most)),
    ]
}

fn rename_over(store: &Store, head: &mut LogHead) {
    let (from, to) = (HashedKey::new(OTHER), HashedKey::new(KEY));
    let mut slots = [from.slot(), to.slot()];
    slots.sort_unstable();
    let locks = SlotGuards::lock(store, &slots);
    let outline = locks.slot(from.slot()).outline(locks.get(from).value().unwrap());
    let changes =
        [(to, Change::PutLarge(ValueKind::List, &outline, None)), (from, Change::Remove(Leave::Nothing))];
    locks.publish(head, WallMs(0), changes.into_iter()).unwrap();
    drop(locks);
    change(store, head, OTHER, |outline| (0..90).for_each(|at| put(outline, at * 3, 5)));
}

fn put(outline: &mut Outline, label: u64, stamp: u64) {
    outline.put(Order::Main, Chunk::new(label, 1 + (label % 3) as u32, &elements(label, stamp)));
    if label.is_multiple_of(2) {
        outline.put(Order::ByMember, Chunk::new(label ^ 85, 1, &elements(label, stamp + 1)));
    }
}

fn remove(outline: &mut Outline, label: u64) {
    outline.remove(Order::Main, label);
    outline.remove(Order::ByMember, label ^ 85);
}

fn apply(store: &Store, head: &mut LogHead, stamp: u64, operation: &Operation) {
    match *operation {
        Operation::Put(label, n) => change(store, head, KEY, |outline| {
            (label..label + u64::from(n)).for_each(|label| put(outline, label, stamp));
        }),
        Operation::Remove(label, n) => change(store, head, KEY, |outline| {
            (label..label + u64::from(n)).for_each(|label| remove(outline, label));
        }),
        Operation::Relabel(from, to) => change(store, head, KEY, |outline| {
            remove(outline, from);
            put(outline, to, stamp);
        }),
        Operation::RenameOver => rename_over(store, head),
        Operation::Deadline(at) => {
            let key = HashedKey::new(KEY);
            let deadline = (at > 0).then_some(WallMs(at));
            store.lock_slot(key.slot()).set_deadline(head, key, deadline).unwrap();
        }
        Operation::Encoding(encoding) => change(store, head, KEY, |outline| outline.set_encoding(encoding)),
        Operation::Clean => clean(store),
        Operation::Walk(..) => {}
    }
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(48) })]

    #[test]
    fn what_is_patched_is_what_is_sent(operations in prop::collection::vec(operation(), 1..80)) {
        let ((source, mut source_head), (target, mut head)) = (store_of(8 << 20), store_of(8 << 20));
        for key in [KEY, OTHER] {
            let first = |outline: &mut Outline| (0..400).for_each(|at| put(outline, at * 3, 0));
            change(&source, &mut source_head, key, first);
        }
        let mut here = Target::default();
        for (stamp, operation) in operations.iter().enumerate() {
            apply(&source, &mut source_head, stamp as u64, operation);
            if let Operation::Walk(steps, most) = *operation {
                for _ in 0..steps {
                    here.step(&source, most.into(), &target, &mut head);
                }
                clean(&target);
            }
        }
        for _ in 0..2 {
            while !here.step(&source, 500, &target, &mut head) {}
        }
        prop_assert_eq!(state(&target, KEY), state(&source, KEY));
        let version = |store: &Store| {
            let guard = store.pin();
            guard.version_of(guard.get(HashedKey::new(KEY)).value().unwrap())
        };
        prop_assert_eq!(version(&target), version(&source));
        // What arrived is as any other collection.
        change(&target, &mut head, KEY, |outline| (0..LABELS).for_each(|label| put(outline, label, 99)));
        clean(&target);
        target.check_accounting().unwrap();
        let arrival = here.part.take();
        drop(arrival);
        target.discard(Position::FIRST, Position::LAST, usize::MAX);
        clean(&target);
        target.check_accounting().unwrap();
        prop_assert_eq!(target.memory().log_live, 0);
    }
}

fn with_many(chunks: u64) -> ((Store, LogHead), (Store, LogHead)) {
    let ((source, mut source_head), target) = (store_of(64 << 20), store_of(64 << 20));
    change(&source, &mut source_head, KEY, |outline| (0..chunks).for_each(|at| put(outline, at * 4, 0)));
    ((source, source_head), target)
}

#[test]
fn a_patch_is_as_long_as_what_changed() {
    let ((source, mut source_head), (target, mut head)) = with_many(40_000);
    let mut here = Target::default();
    let mut all = |here: &mut Target| {
        let before = here.bytes;
        while !here.step(&source, 256 << 10, &target, &mut head) {}
        here.bytes - before
    };
    let first = all(&mut here);
    assert!(first > 40_000 * 2 * 30, "{first} bytes");
    change(&source, &mut source_head, KEY, |outline| {
        (0..10).for_each(|at| put(outline, at * 4000, 1));
        (0..10).for_each(|at| remove(outline, at * 4000 + 40));
    });
    let second = all(&mut here);
    assert!(second < 20_000, "{second} bytes");
    let third = all(&mut here);
    assert!(third < 100, "{third} bytes of nothing");
    assert_eq!(state(&target, KEY), state(&source, KEY));
}

/// M5: what the target has stays, and what arrived leaves nothing behind.
#[test]
fn a_key_with_an_entry_keeps_it() {
    let ((source, _), (target, mut head)) = with_many(200);
    let mut bytes = Vec::new();
    let packed = source.pack_patch(Position::of_key(KEY), Holds::Nothing, 1 << 20, &mut bytes).unwrap();
    assert!(packed.is_first && packed.is_last);
    let mut arrival = Arrival::begin(&target, &bytes, packed.patch.version).unwrap();
    arrival.apply(&target, &mut head, &bytes).unwrap();
    assert!(target.is_empty() && target.memory().log_live == 0, "nobody has it yet");
    let key = HashedKey::new(KEY);
    target.lock_slot(key.slot()).put(&mut head, key, &[b"mine"], None).unwrap();
    let replayed = arrival.finish(&target, &mut head, PositionRange::ALL).unwrap();
    assert_eq!(replayed, Replayed { inserted: 0, present: 1 });
    drop(arrival);
    clean(&target);
    target.check_accounting().unwrap();
    assert_eq!(target.pin().get(key).value().unwrap().value(), b"mine");
}

#[test]
fn what_does_not_fit_is_refused() {
    let ((source, mut source_head), (target, mut head)) = with_many(200);
    let mut here = Target::default();
    while !here.step(&source, 1 << 20, &target, &mut head) {}
    change(&source, &mut source_head, KEY, |outline| put(outline, 40, 1));
    let (arrived, collection, version) = here.whole.clone().unwrap();
    let mut bytes = Vec::new();
    let holds = Holds::Whole(collection, version);
    source.pack_patch(Position::of_key(KEY), holds, 1 << 20, &mut bytes).unwrap();
    for end in 0..bytes.len() {
        let mut arrival = Arrival::again(&target, &arrived, version).unwrap();
        let refused = arrival.apply(&target, &mut head, &bytes[..end]);
        assert!(matches!(refused, Err(ReplayError::Patch(_)) | Ok(())));
    }
    // It is for a state that has more.
    change(&target, &mut head, KEY, |outline| (0..800).for_each(|label| remove(outline, label)));
    let mut arrival = Arrival::again(&target, &arrived, version).unwrap();
    let refused = arrival.apply(&target, &mut head, &bytes);
    assert_eq!(refused, Err(ReplayError::Patch("a chunk that is not held")));
    target.discard(Position::FIRST, Position::LAST, usize::MAX);
    assert_eq!(arrival.finish(&target, &mut head, PositionRange::ALL), Err(ReplayError::Gone));
    assert!(Arrival::again(&target, &arrived, version).is_none());
}

#[test]
fn without_memory_a_part_is_applied_again_later() {
    let ((source, _), (target, mut head)) =
        (with_many(20_000).0, store_of(StoreConfig::default().for_heads(2).least_memory_bytes() >> 5));
    let mut bytes = Vec::new();
    let packed = source.pack_patch(Position::of_key(KEY), Holds::Nothing, 4 << 20, &mut bytes).unwrap();
    let mut arrival = Arrival::begin(&target, &bytes, packed.patch.version).unwrap();
    assert!(matches!(arrival.apply(&target, &mut head, &bytes), Err(ReplayError::OutOfMemory(_))));
    target.check_accounting().unwrap();
    drop(arrival);
    clean(&target);
    target.check_accounting().unwrap();
    assert_eq!(target.memory().log_live, 0);
}
