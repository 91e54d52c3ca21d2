//! Large collections beside readers, other writers and the cleaner, in little memory. A collection proves
//! itself: its first chunk says when each of the others was written.

#![expect(clippy::unwrap_used, clippy::disallowed_methods, reason = "tests have clocks and may fail")]

use sidle_outline::{Chunk, Chunks, Large, Order, Outline};
use sidle_store::{Change, CleanOutcome, Leave, OutOfMemory, RecordBatch, SlotGuards, Store, StoreConfig};
use sidle_testbed::Random;
use sidle_types::{HashedKey, Position, Slot, ValueKind, WallMs};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::time::{Duration, Instant};

const FOR: Duration = Duration::from_secs(3);
/// Keys whose collections change together, in four slots.
const KEYS: usize = 8;
/// Chunks of a collection behind its first one.
const CHUNKS: usize = 30;

fn store() -> Store {
    let config = StoreConfig {
        memory_bytes: 4 << 20,
        segment_bytes: 64 << 10,
        huge_pages: false,
        ..StoreConfig::default()
    };
    Store::new(config).unwrap()
}

fn names() -> Vec<String> {
    (0..KEYS).map(|number| format!("{{{}}}{number}", number % 4)).collect()
}

fn elements(label: usize, stamp: u64) -> Vec<u8> {
    let mut bytes = stamp.to_le_bytes().to_vec();
    bytes.resize(8 + (stamp as usize * 37 + label * 101) % 900, (stamp + label as u64) as u8);
    bytes
}

/// The first chunk: the stamp of the collection, and of each other chunk.
fn directory(stamp: u64, stamps: &[u64; CHUNKS]) -> Vec<u8> {
    std::iter::once(&stamp).chain(stamps).flat_map(|stamp| stamp.to_le_bytes()).collect()
}

fn stamps(directory: &[u8]) -> (u64, [u64; CHUNKS]) {
    let mut all = directory.chunks_exact(8).map(|bytes| u64::from_le_bytes(bytes.try_into().unwrap()));
    let first = all.next().unwrap();
    let others: Vec<u64> = all.collect();
    (first, others.try_into().unwrap())
}

/// Checks the whole collection; returns its stamp.
fn verify(outline: &Outline, lent: &dyn Chunks) -> u64 {
    let mut chunks = Large::new(outline, lent).iter_from(Order::Main, 0);
    let (stamp, stamps) = stamps(chunks.next().unwrap().1);
    for (label, at) in stamps.into_iter().enumerate() {
        let (chunk, bytes) = chunks.next().unwrap();
        assert_eq!((chunk.label, bytes), (label as u64 + 1, &elements(label, at)[..]), "torn at {stamp}");
    }
    assert!(chunks.next().is_none());
    stamp
}

/// A new state of a collection, or a new collection, with this stamp.
fn changed(old: Option<(Outline, &dyn Chunks)>, stamp: u64, random: &mut Random) -> Outline {
    let (mut outline, mut all) = match old {
        Some((outline, lent)) => {
            let directory = Large::new(&outline, lent).iter_from(Order::Main, 0).next().unwrap().1;
            let all = stamps(directory).1;
            (outline, all)
        }
        None => (Outline::new(1), [0; CHUNKS]),
    };
    let is_new = outline.is_empty();
    for (label, at) in all.iter_mut().enumerate() {
        if is_new || random.below(8) == 0 {
            *at = stamp;
            outline.put(Order::Main, Chunk::new(label as u64 + 1, 1, &elements(label, stamp)));
        }
    }
    outline.put(Order::Main, Chunk::new(0, 1, &directory(stamp, &all)));
    outline
}

/// Ends the other threads at the end of this one, also if it fails.
struct Stop<'t>(&'t AtomicBool);

impl Drop for Stop<'_> {
    fn drop(&mut self) {
        self.0.store(true, Relaxed);
    }
}

struct Test {
    store: Store,
    stop: AtomicBool,
    done: [AtomicU64; 4],
}

impl Test {
    /// Runs the work of a thread; one that fails ends the others.
    fn run(&self, work: impl FnOnce()) {
        let _stop = Stop(&self.stop);
        work();
    }

    fn goes_on(&self) -> bool {
        !self.stop.load(Relaxed)
    }

    /// Gives all keys' collections a new stamp, sometimes in exchange for another's, or for a new one.
    fn write_together(&self, keys: &[HashedKey<'_>]) {
        let mut slots: Vec<Slot> = keys.iter().map(|key| key.slot()).collect();
        slots.sort_unstable();
        slots.dedup();
        let (mut head, mut random, mut stamp) = (self.store.log_head(), Random::new(7), 1);
        while self.goes_on() {
            let published = {
                let locks = SlotGuards::lock(&self.store, &slots);
                let (turn, renew) = (random.index(KEYS) * random.index(2), random.index(2 * KEYS));
                let outlines: Vec<Outline> = (0..KEYS)
                    .map(|at| {
                        let from = keys[(at + turn) % KEYS];
                        let slot = locks.slot(from.slot());
                        let old = slot.get(from).value().filter(|_| at != renew);
                        let old = old.map(|record| (slot.outline(record), slot as &dyn Chunks));
                        changed(old, stamp, &mut random)
                    })
                    .collect();
                let deadline = (random.below(3) == 0).then_some(WallMs(stamp));
                let changes =
                    outlines.iter().map(|outline| Change::PutLarge(ValueKind::Hash, outline, deadline));
                locks.publish(&mut head, WallMs(0), keys.iter().copied().zip(changes)).is_ok()
            };
            stamp += u64::from(published);
            self.done[0].fetch_add(u64::from(published), Relaxed);
        }
    }

    /// Makes, changes and removes collections and strings of its own.
    fn churn(&self, seed: u64) {
        let (mut head, mut random) = (self.store.log_head(), Random::new(seed));
        let mut refused = 0;
        while self.goes_on() {
            let name = format!("{{{}}}churn {seed} {}", random.below(6), random.below(60));
            let key = HashedKey::new(name.as_bytes());
            let slot = self.store.lock_slot(key.slot());
            let record = slot.get(key).value();
            let result: Result<(), OutOfMemory> = match random.below(8) {
                0 | 1 => {
                    slot.remove(&mut head, key, [Leave::Nothing, Leave::Tombstone][random.index(2)]).map(drop)
                }
                2 => slot.put(&mut head, key, &[&[7; 300]], None).map(drop),
                3 if record.is_some() => slot.set_deadline(&mut head, key, Some(WallMs(5))).map(drop),
                _ => {
                    let old = record.filter(|record| record.is_large());
                    let old = old.map(|record| (slot.outline(record), &slot as &dyn Chunks));
                    let outline = changed(old, random.below(1 << 40), &mut random);
                    slot.put_large(&mut head, key, ValueKind::Set, outline, None).map(drop)
                }
            };
            drop(slot);
            refused += u64::from(result.is_err());
            self.done[1].fetch_add(1, Relaxed);
        }
        assert!(refused < self.done[1].load(Relaxed), "everything was refused");
    }

    fn clean(&self) {
        let mut cleaner = self.store.cleaner();
        while self.goes_on() {
            if cleaner.step(16 << 10) != CleanOutcome::Progress {
                std::thread::yield_now();
            }
        }
    }

    /// All keys one by one, then together.
    fn read(&self, keys: &[HashedKey<'_>]) {
        let mut seen = 0;
        while self.goes_on() {
            let guard = self.store.pin();
            for key in keys {
                let (entry, outline) = guard.get_whole(*key);
                let stamp = verify(&outline.unwrap(), &guard);
                let deadline = entry.value().unwrap().expires_at();
                assert!(deadline.is_none_or(|deadline| deadline == WallMs(stamp)), "head and outline differ");
                assert!(stamp >= seen, "after {seen} was seen a key still had {stamp}");
                seen = stamp;
            }
            let together = guard.get_whole_together(keys);
            let stamps: Vec<u64> =
                together.iter().map(|(_, outline)| verify(outline.as_ref().unwrap(), &guard)).collect();
            assert!(stamps.iter().all(|stamp| *stamp == stamps[0] && *stamp >= seen), "torn: {stamps:?}");
            seen = stamps[0];
            self.done[2].fetch_add(1, Relaxed);
        }
    }

    /// Packs everything again and again.
    fn pack(&self) {
        while self.goes_on() {
            let (mut from, mut records) = (Some(Position::FIRST), 0);
            while let Some(at) = from {
                let mut batch = Vec::new();
                let end = self.store.scan_to_large(at, Position::LAST, 20_000, 10_000, &mut batch);
                records += RecordBatch::parse(&batch).unwrap().len();
                from = end.next;
                if end.is_large {
                    let at = end.next.unwrap();
                    let mut piece = Vec::new();
                    let packed = self.store.pack_piece(at, |_| 0, usize::MAX, &mut piece);
                    if let Some((image, _)) = packed {
                        assert_eq!(piece.len(), image.bytes);
                        records += RecordBatch::parse(&piece).unwrap().len();
                    }
                    from = at.next();
                }
            }
            assert!(records >= KEYS, "{records}");
            self.done[3].fetch_add(1, Relaxed);
        }
    }
}

#[test]
fn large_collections_stay_whole_beside_writers_and_the_cleaner() {
    let test = Test { store: store(), stop: AtomicBool::new(false), done: Default::default() };
    let names = names();
    let keys: Vec<HashedKey<'_>> = names.iter().map(|name| HashedKey::new(name.as_bytes())).collect();
    let mut head = test.store.log_head();
    for &key in &keys {
        let outline = changed(None, 0, &mut Random::new(1));
        let slot = test.store.lock_slot(key.slot());
        slot.put_large(&mut head, key, ValueKind::Hash, outline, None).unwrap();
    }
    drop(head);
    std::thread::scope(|scope| {
        let (test, keys) = (&test, &keys);
        scope.spawn(|| test.run(|| test.write_together(keys)));
        scope.spawn(|| test.run(|| test.churn(1)));
        scope.spawn(|| test.run(|| test.churn(2)));
        scope.spawn(|| test.run(|| test.clean()));
        scope.spawn(|| test.run(|| test.read(keys)));
        scope.spawn(|| test.run(|| test.read(keys)));
        scope.spawn(|| test.run(|| test.pack()));
        let until = Instant::now() + FOR;
        while Instant::now() < until && test.goes_on() {
            std::thread::sleep(Duration::from_millis(10));
        }
        test.stop.store(true, Relaxed);
    });
    let done = test.done.each_ref().map(|done| done.load(Relaxed));
    assert!(done.iter().all(|done| *done > 20), "{done:?}");
    println!("changes, churn, reads, packs: {done:?}");
    while test.store.cleaner().step(1 << 20) == CleanOutcome::Progress {}
    test.store.check_accounting().unwrap();
}

/// Runs `write` beside `other` for a while.
fn beside(mut write: impl FnMut() + Send, mut other: impl FnMut()) {
    let stop = AtomicBool::new(false);
    let until = Instant::now() + Duration::from_secs(2);
    let goes_on = || !stop.load(Relaxed);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let _stop = Stop(&stop);
            while goes_on() {
                write();
            }
        });
        // A thread that fails ends the other.
        let _stop = Stop(&stop);
        while Instant::now() < until && goes_on() {
            other();
        }
    });
}

/// An outline whose only chunk is the stamp.
fn stamped(mut outline: Outline, stamp: u64) -> Outline {
    outline.put(Order::Main, Chunk::new(0, 1, &stamp.to_le_bytes()));
    outline
}

/// Each state has its own deadline: a reader finds no other one with it.
#[test]
fn head_and_outline_are_of_one_moment() {
    let store = store();
    let key = HashedKey::new(b"k");
    let put = |stamp: u64| {
        let (mut head, slot) = (store.log_head(), store.lock_slot(key.slot()));
        let old = slot.get(key).value().map_or(Outline::new(0), |record| slot.outline(record));
        slot.put_large(&mut head, key, ValueKind::Set, stamped(old, stamp), Some(WallMs(stamp))).unwrap();
    };
    put(1);
    let (mut stamp, mut reads) = (1, 0u64);
    let write = || {
        stamp += 1;
        put(stamp);
    };
    beside(write, || {
        let guard = store.pin();
        let (entry, outline) = guard.get_whole(key);
        let bytes =
            Large::new(&outline.unwrap(), &guard).iter_from(Order::Main, 0).next().unwrap().1.to_vec();
        let stamp = u64::from_le_bytes(bytes.try_into().unwrap());
        assert_eq!(entry.value().unwrap().expires_at(), Some(WallMs(stamp)));
        reads += 1;
    });
    assert!(stamp > 1000 && reads > 1000, "{stamp} writes, {reads} reads");
}

/// Collections end while the segments with their chunks are being cleaned.
#[test]
fn a_segment_waits_for_the_chunks_of_doomed_collections() {
    let config = StoreConfig {
        memory_bytes: 1 << 20,
        segment_bytes: 4 << 10,
        huge_pages: false,
        ..StoreConfig::default()
    };
    let store = Store::new(config).unwrap();
    let (mut head, mut random, mut rounds) = (store.log_head(), Random::new(3), 0u64);
    let write = || {
        let name = random.below(200).to_le_bytes();
        let key = HashedKey::new(&name);
        let slot = store.lock_slot(key.slot());
        if random.below(2) == 0 {
            slot.remove(&mut head, key, Leave::Nothing).unwrap();
        } else {
            let mut outline = Outline::new(0);
            (0..20).for_each(|label| outline.put(Order::Main, Chunk::new(label, 1, &[7; 100])));
            let _ = slot.put_large(&mut head, key, ValueKind::Set, outline, None);
        }
        rounds += 1;
    };
    let mut cleaner = store.cleaner();
    beside(write, || {
        cleaner.step(1 << 10);
    });
    assert!(rounds > 1000, "{rounds}");
    drop(head);
    while store.cleaner().step(1 << 20) == CleanOutcome::Progress {}
    store.check_accounting().unwrap();
}
