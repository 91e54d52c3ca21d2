//! An interpreter of operation sequences against a plain model, for the property test and the fuzzer.
//!
//! Bytes decode to operations on two small stores. Each operation's result is compared with a `BTreeMap`.
//! [`Harness::check_everything`] compares the stores' contents, order, counters and log accounting, segment
//! by segment.

mod collection;
mod durable_log;

use crate::{
    Change, CleanOutcome, Entry, Leave, LogHead, OutOfMemory, Record, RecordBatch, ReplayError, SlotGuards,
    Store, StoreConfig,
};
use collection::Collection;
use durable_log::DurableLog;
use sidle_outline::Outline;
use sidle_types::{HashedKey, Position, PositionRange, ValueKind, Version, WallMs, locks_key};
use std::collections::BTreeMap;

/// Memory of each store: small, so that sequences fill it and the cleaner has to work.
const MEMORY_BYTES: u64 = 1 << 20;
const SEGMENT_BYTES: u32 = 4 << 10;
/// Bytes that one operation is decoded from.
pub const OPERATION_BYTES: usize = 8;
/// Keys that get large collections: few, so that most are changed again.
const LARGE_KEYS: u16 = 150;
const NOW: WallMs = WallMs(1 << 40);

#[derive(Clone, Debug, PartialEq, Eq)]
struct ModelEntry {
    /// None is a tombstone. Of a large collection, what is sent of it.
    value: Option<Vec<u8>>,
    /// It is kept as this.
    large: Option<Collection>,
    version: Version,
    expires_at: Option<WallMs>,
    /// For a tombstone: the record lengths of the removed value, which may serve as its tombstone.
    removed_bytes: Option<[u64; 2]>,
}

/// One store and its expected contents.
struct Side {
    store: Store,
    head: LogHead,
    model: BTreeMap<(Position, Vec<u8>), ModelEntry>,
    /// The highest version that a key ever had, across removals.
    versions: BTreeMap<Vec<u8>, Version>,
    /// What its store's durable log has.
    log: DurableLog,
}

/// Two stores under test.
pub struct Harness {
    sides: [Side; 2],
    /// Operations refused for lack of memory.
    pub refused: usize,
}

impl Default for Harness {
    fn default() -> Harness {
        Harness { sides: [Side::new(), Side::new()], refused: 0 }
    }
}

/// A store's record as a migration sends it.
fn packed(store: &Store, record: Record<'_>) -> Vec<u8> {
    let mut batch = Vec::new();
    if record.is_large() {
        assert!(store.pack(record.hashed_key(), &mut batch), "nobody removes it meanwhile");
    } else {
        record.pack(&mut batch);
    }
    batch
}

/// The positions of removed expired values.
struct Removed {
    leave: Leave,
    positions: Vec<Position>,
}

impl crate::Expiring for Removed {
    fn leave(&mut self, _position: Position) -> Option<Leave> {
        Some(self.leave)
    }

    fn removed(&mut self, position: Position) {
        self.positions.push(position);
    }
}

/// The key with this number: some share one slot, most do not, and some stand beside another one.
fn key_of(number: u16) -> Vec<u8> {
    match number % 4 {
        _ if number % 8 == 7 => locks_key(&key_of(number - 7)),
        0 => format!("{{tag}}{number}").into_bytes(),
        1 => format!("{{tag}}a considerably longer key, so that lengths differ:{number}").into_bytes(),
        _ => format!("{number}").into_bytes(),
    }
}

/// What it has, where it is no collection: a few have what no walk over keys shows.
fn kind_of(number: u16) -> ValueKind {
    match number % 8 {
        5 => ValueKind::Completions,
        7 => ValueKind::Locks,
        _ => ValueKind::String,
    }
}

fn value_of(seed: u16, bytes: usize) -> Vec<u8> {
    (0..bytes).map(|i| (usize::from(seed) * 31 + i * 7) as u8).collect()
}

impl Harness {
    /// Runs the operations that the bytes decode to, then checks everything.
    ///
    /// # Panics
    /// When a store differs from the model.
    pub fn run(bytes: &[u8]) -> Harness {
        let mut harness = Harness::default();
        for operation in bytes.chunks_exact(OPERATION_BYTES) {
            harness.step(operation.try_into().expect("exact chunks"));
        }
        harness.check_everything();
        harness
    }

    /// Runs one operation.
    pub fn step(&mut self, operation: [u8; OPERATION_BYTES]) {
        let [code, side, a0, a1, b0, b1, c0, c1] = operation;
        let (a, b, c) =
            (u16::from_le_bytes([a0, a1]), u16::from_le_bytes([b0, b1]), u16::from_le_bytes([c0, c1]));
        let (here, is_other_way) = (usize::from(side & 1), side & 2 != 0);
        let side = &mut self.sides[here];
        let refused = match code % 16 {
            4 if is_other_way => side.publish(a, b % 512, usize::from(c % 5000)),
            0..=3 if is_other_way => side.large(a % LARGE_KEYS, b, c),
            0..=3 => side.put(a, value_of(b, usize::from(c % 300)), deadline(b)),
            4 => (0..b % 512)
                .try_for_each(|i| side.put(a.wrapping_add(i), value_of(i, usize::from(c % 64)), None)),
            5 if is_other_way => side.extend(a, value_of(b, usize::from(c))),
            5 => side.put(a, value_of(b, usize::from(c) * 4), None),
            6 => side.remove(a, if b % 2 == 0 { Leave::Nothing } else { Leave::Tombstone }),
            7 => (0..b % 512).try_for_each(|i| side.remove(a.wrapping_add(i), Leave::Nothing)),
            8 => side.read(a),
            9 => side.clean(usize::from(c)),
            10 => side.scan(range(a, b), usize::from(c)),
            11 => side.take_out(range(a, b), c),
            12 => side.floor(Version(u64::from(a))),
            13 => side.cut(range(a, b), usize::from(c % 20)),
            14 => side.sample(u64::from(a) << 48 | u64::from(b) << 24 | u64::from(c)),
            _ => self.replay(here, range(a, b), usize::from(c)),
        };
        self.refused += usize::from(refused.is_err());
        for side in self.sides.iter_mut().filter(|_| c % 3 == 0) {
            side.log.commit(&side.store);
        }
    }

    /// Copies a range from one store to the other, as a migration does.
    fn replay(&mut self, from: usize, range: PositionRange, max_bytes: usize) -> Result<(), OutOfMemory> {
        let mut batch = Vec::new();
        self.sides[from].store.scan(range.first(), range.last(), max_bytes, &mut batch);
        let batch = RecordBatch::parse(&batch).expect("a batch just packed");
        let target = &mut self.sides[1 - from];
        let result = target.store.replay(&mut target.head, &batch, range);
        let mut counts = (0, 0);
        for record in &batch {
            let key = (record.position(), record.key().to_vec());
            if target.model.contains_key(&key) {
                counts.1 += 1;
                continue;
            }
            // After a refusal the store shows how much it replayed. What arrives gets a version of its own.
            let stored = match target.store.pin().get(HashedKey::new(record.key())) {
                Entry::Value(stored) => stored.version(),
                _ if result.is_err() => continue,
                other => panic!("{other:?} arrived"),
            };
            counts.0 += 1;
            let highest = target.versions.get(record.key()).copied().unwrap_or_default();
            assert!(stored > record.version().max(highest), "the record may have been here before");
            target.note(record.key(), Some(record.value().to_vec()), stored, record.expires_at());
        }
        match result {
            Ok(replayed) => assert_eq!((replayed.inserted, replayed.present), counts),
            Err(ReplayError::OutOfMemory(out)) => return Err(out),
            Err(other) => panic!("{other}"),
        }
        Ok(())
    }

    /// How many files of the durable logs went.
    pub fn files_gone(&self) -> usize {
        self.sides.iter().map(|side| side.log.gone).sum()
    }

    /// Compares both stores' contents with the models.
    pub fn check_everything(&mut self) {
        self.sides.iter_mut().for_each(Side::check_everything);
    }
}

fn deadline(seed: u16) -> Option<WallMs> {
    seed.is_multiple_of(5).then(|| WallMs(NOW.0 - 100 + u64::from(seed % 200)))
}

fn range(a: u16, b: u16) -> PositionRange {
    let (a, b) = (u64::from(a) << 48, u64::from(b) << 48 | ((1 << 48) - 1));
    PositionRange::new(Position(a), Position(b)).unwrap_or(PositionRange::ALL)
}

impl Side {
    fn new() -> Side {
        let config = StoreConfig {
            memory_bytes: MEMORY_BYTES,
            segment_bytes: SEGMENT_BYTES,
            huge_pages: false,
            is_durable: true,
            ..StoreConfig::default()
        };
        let store = Store::new(config).expect("a valid configuration");
        let head = store.log_head();
        let log = DurableLog::default();
        Side { store, head, model: BTreeMap::new(), versions: BTreeMap::new(), log }
    }

    fn note(&mut self, key: &[u8], value: Option<Vec<u8>>, version: Version, expires_at: Option<WallMs>) {
        let entry = ModelEntry { value, large: None, version, expires_at, removed_bytes: None };
        self.model.insert((Position::of_key(key), key.to_vec()), entry);
        let highest = self.versions.entry(key.to_vec()).or_default();
        *highest = version.max(*highest);
    }

    fn put(&mut self, number: u16, value: Vec<u8>, expires_at: Option<WallMs>) -> Result<(), OutOfMemory> {
        let key = key_of(number);
        let hashed = HashedKey::new(&key);
        let (left, right) = value.split_at(value.len() / 3);
        let kind = kind_of(number);
        let parts = [left, right];
        let put =
            self.store.lock_slot(hashed.slot()).put_typed(&mut self.head, hashed, kind, &parts, expires_at);
        if let Ok(version) = put {
            assert!(version > self.versions.get(&key).copied().unwrap_or_default(), "versions only grow");
            self.note(&key, Some(value), version, expires_at);
        }
        self.read(number)?;
        put.map(|_| ())
    }

    /// Appends to a value in several steps.
    fn extend(&mut self, number: u16, added: Vec<u8>) -> Result<(), OutOfMemory> {
        let key = key_of(number);
        let hashed = HashedKey::new(&key);
        let is_other = |record: Record<'_>| record.kind() != ValueKind::String;
        if self.store.pin().get(hashed).value().is_some_and(is_other) {
            return Ok(());
        }
        for step in 0..4 {
            let Some(old) =
                self.model.get(&(hashed.position(), key.clone())).filter(|old| old.value.is_some())
            else {
                return Ok(());
            };
            let (mut value, expires_at) = (old.value.clone().expect("just looked"), old.expires_at);
            let added = &added[added.len() / 5 * step..];
            let (left, right) = added.split_at(added.len() / 3);
            let version = self.store.lock_slot(hashed.slot()).extend(&mut self.head, hashed, &[left, right]);
            if version.is_ok() {
                value.extend_from_slice(added);
            }
            let version = version.inspect_err(|_| self.read(number).expect("reading takes no memory"))?;
            assert!(version > self.versions.get(&key).copied().unwrap_or_default(), "versions only grow");
            self.note(&key, Some(value), version, expires_at);
            self.read(number)?;
        }
        Ok(())
    }

    /// Something with a key's large collection, which is made if there is none.
    fn large(&mut self, number: u16, seed: u16, how: u16) -> Result<(), OutOfMemory> {
        let key = key_of(number);
        let entry = self.model.get(&(Position::of_key(&key), key.clone()));
        let Some(entry) = entry.filter(|entry| entry.large.is_some()).cloned() else {
            return self.put_large(number, seed, 1 + how % 60, None);
        };
        match how % 8 {
            0 => self.put_large(number, seed, 1 + how % 60, None),
            1..=4 => self.put_large(number, seed, how >> 3 & 7, Some(entry)),
            5 => self.rename(number, seed % LARGE_KEYS, how, entry),
            6 => self.set_deadline(number, deadline(seed), entry),
            _ => self.pack_pieces(&key, usize::from(how) + 1, &entry),
        }
    }

    /// A large collection is new, or some of its chunks are.
    fn put_large(
        &mut self,
        number: u16,
        seed: u16,
        changes: u16,
        old: Option<ModelEntry>,
    ) -> Result<(), OutOfMemory> {
        let key = key_of(number);
        let hashed = HashedKey::new(&key);
        let expires_at = match &old {
            Some(old) if !seed.is_multiple_of(8) => old.expires_at,
            _ => deadline(seed),
        };
        let slot = self.store.lock_slot(hashed.slot());
        let (mut outline, mut large, old_head) = match old {
            None => (Outline::new(0), Collection::default(), None),
            Some(old) => {
                let outline = slot.outline(slot.get(hashed).value().expect("the model has a value"));
                let large = old.large.expect("a large collection");
                let head = (large.head_version, old.expires_at, large.encoding);
                (outline, large, Some(head))
            }
        };
        large.encoding = u8::from(seed.is_multiple_of(11));
        large.patch(&mut outline, seed, changes);
        let put = slot.put_large(&mut self.head, hashed, ValueKind::List, outline, expires_at);
        drop(slot);
        if let Ok(version) = put {
            let stays = old_head.filter(|(_, at, encoding)| (*at, *encoding) == (expires_at, large.encoding));
            large.head_version = stays.map_or(version, |(head_version, ..)| head_version);
            self.note_large(&key, large, version, expires_at);
        }
        self.read(number)?;
        put.map(drop)
    }

    fn note_large(&mut self, key: &[u8], large: Collection, version: Version, expires_at: Option<WallMs>) {
        assert!(version > self.versions.get(key).copied().unwrap_or_default(), "versions only grow");
        self.note(key, Some(large.packed()), version, expires_at);
        self.model.get_mut(&(Position::of_key(key), key.to_vec())).expect("just noted").large = Some(large);
    }

    /// The collection goes to another key, changed on the way.
    fn rename(&mut self, from: u16, to: u16, how: u16, entry: ModelEntry) -> Result<(), OutOfMemory> {
        let (from_key, to_key) = (key_of(from), key_of(to));
        let [old, new] = [&from_key, &to_key].map(|key| HashedKey::new(key));
        if from_key == to_key {
            return Ok(());
        }
        let mut slots = vec![old.slot(), new.slot()];
        slots.sort_unstable();
        slots.dedup();
        let leave = if how & 8 == 0 { Leave::Nothing } else { Leave::Tombstone };
        let locks = SlotGuards::lock(&self.store, &slots);
        let slot = locks.slot(old.slot());
        let mut outline = slot.outline(slot.get(old).value().expect("the model has a value"));
        let mut large = entry.large.expect("a large collection");
        large.patch(&mut outline, how, how >> 4 & 3);
        let mut changes = [
            (new, Change::PutLarge(ValueKind::List, &outline, entry.expires_at)),
            (old, Change::Remove(leave)),
        ];
        if how & 128 == 0 {
            changes.reverse();
        }
        let published = locks.publish(&mut self.head, WallMs(0), changes.into_iter());
        drop(locks);
        if published.is_ok() {
            self.note_removed(&from_key, leave);
            let version = self.store.pin().get(new).value().expect("it was renamed").version();
            large.head_version = version;
            self.note_large(&to_key, large, version, entry.expires_at);
        }
        self.read(from)?;
        self.read(to)?;
        published.map(drop)
    }

    fn set_deadline(
        &mut self,
        number: u16,
        expires_at: Option<WallMs>,
        entry: ModelEntry,
    ) -> Result<(), OutOfMemory> {
        let key = key_of(number);
        let hashed = HashedKey::new(&key);
        let set = self.store.lock_slot(hashed.slot()).set_deadline(&mut self.head, hashed, expires_at);
        if let Ok(version) = set {
            let mut large = entry.large.expect("a large collection");
            large.head_version = version;
            self.note_large(&key, large, version, expires_at);
        }
        self.read(number)?;
        set.map(drop)
    }

    /// What is sent of a key, in pieces.
    fn pack_pieces(&mut self, key: &[u8], most: usize, entry: &ModelEntry) -> Result<(), OutOfMemory> {
        let (mut pieces, position) = (Vec::new(), Position::of_key(key));
        while pieces.len() < self.store.packed_bytes_at(position) {
            let offset = pieces.len();
            let packed = self.store.pack_piece(position, |_| offset, most, &mut pieces);
            assert!(packed.is_some() && (offset + 1..=offset + most).contains(&pieces.len()));
        }
        let records = RecordBatch::parse(&pieces).expect("a batch just packed");
        let record = records.iter().find(|record| record.key() == key).expect("its record");
        entry.check(record);
        Ok(())
    }

    /// Several changes at once, two of some keys; all or none.
    fn publish(&mut self, first: u16, count: u16, bytes: usize) -> Result<(), OutOfMemory> {
        let leave = if bytes.is_multiple_of(2) { Leave::Nothing } else { Leave::Tombstone };
        let changes: Vec<(Vec<u8>, Option<Vec<u8>>)> = (0..count)
            .map(|i| {
                let value = (i % 5 != 4).then(|| value_of(i, bytes >> (i % 8)));
                (key_of(first.wrapping_add(i % 300)), value)
            })
            .collect();
        let mut slots: Vec<_> = changes.iter().map(|(key, _)| HashedKey::new(key).slot()).collect();
        slots.sort_unstable();
        slots.dedup();
        let locked = SlotGuards::lock(&self.store, &slots);
        let used = self.store.memory().log_used;
        let published = locked.publish(
            &mut self.head,
            WallMs(0),
            changes.iter().map(|(key, value)| {
                let change = match value {
                    Some(value) => Change::Put(ValueKind::String, value, None),
                    None => Change::Remove(leave),
                };
                (HashedKey::new(key), change)
            }),
        );
        drop(locked);
        assert!(published.is_ok() || self.store.memory().log_used <= used, "unused memory is returned");
        if published.is_ok() {
            let last: BTreeMap<Vec<u8>, Option<Vec<u8>>> = changes.into_iter().collect();
            for (key, value) in last {
                let Some(value) = value else {
                    self.note_removed(&key, leave);
                    continue;
                };
                let highest = self.versions.get(&key).copied().unwrap_or_default();
                let version = self.store.pin().get(HashedKey::new(&key)).value().expect("a value").version();
                assert!(version > highest, "versions only grow");
                self.note(&key, Some(value), version, None);
            }
        }
        (0..300).try_for_each(|i| self.read(first.wrapping_add(i)))?;
        published.map(drop)
    }

    fn remove(&mut self, number: u16, leave: Leave) -> Result<(), OutOfMemory> {
        let key = key_of(number);
        let hashed = HashedKey::new(&key);
        let removed = self.store.lock_slot(hashed.slot()).remove(&mut self.head, hashed, leave);
        let place = (hashed.position(), key.clone());
        let needs_memory = leave == Leave::Tombstone && !self.model.contains_key(&place);
        assert!(needs_memory || removed.is_ok(), "only a tombstone without an entry needs memory");
        if let Ok(had_value) = removed {
            let had = self.model.get(&place).map(|entry| entry.value.is_some());
            assert_eq!(had_value, had == Some(true));
            self.note_removed(&key, leave);
        }
        self.read(number)?;
        removed.map(|_| ())
    }

    /// A key was removed.
    fn note_removed(&mut self, key: &[u8], leave: Leave) {
        let place = (Position::of_key(key), key.to_vec());
        let had = self.model.get(&place).map(|entry| entry.value.is_some());
        if leave == Leave::Nothing {
            self.model.remove(&place);
        } else if had != Some(false) {
            let version = match self.store.pin().get(HashedKey::new(key)) {
                Entry::Tombstone(version) => version,
                other => panic!("no tombstone, but {other:?}"),
            };
            let highest = self.versions.get(key).copied().unwrap_or_default();
            let removed = self.model.get(&place).cloned();
            match &removed {
                Some(removed) => assert_eq!(version, removed.record_version()),
                None => assert!(version > highest),
            }
            self.note(key, None, version, None);
            self.model.get_mut(&place).expect("just noted").removed_bytes =
                removed.map(|removed| removed.record_bytes(key));
        }
    }

    fn read(&mut self, number: u16) -> Result<(), OutOfMemory> {
        let key = key_of(number);
        let hashed = HashedKey::new(&key);
        let guard = self.store.pin();
        guard.prefetch_bucket(hashed.slot(), hashed.hash());
        guard.prefetch_record(hashed.slot(), hashed.hash());
        let expected = self.model.get(&(hashed.position(), key.clone()));
        match guard.get(hashed) {
            Entry::Absent => assert_eq!(expected, None, "{}", key.escape_ascii()),
            Entry::Tombstone(version) => {
                let expected = expected.expect("the model has an entry");
                assert_eq!((version, &None), (expected.version, &expected.value));
            }
            Entry::Value(record) => {
                expected.expect("the model has an entry").check_stored(&self.store, record);
            }
        }
        Ok(())
    }

    fn clean(&mut self, budget: usize) -> Result<(), OutOfMemory> {
        let mut cleaner = self.store.cleaner();
        for _ in 0..100 {
            if cleaner.step(budget.max(64)) == CleanOutcome::Idle {
                break;
            }
        }
        Ok(())
    }

    fn values_in(&self, range: PositionRange) -> impl Iterator<Item = (&(Position, Vec<u8>), &ModelEntry)> {
        self.model
            .range((range.first(), Vec::new())..)
            .take_while(move |((position, _), _)| *position <= range.last())
            .filter(|(_, entry)| entry.value.is_some())
    }

    fn scan(&mut self, range: PositionRange, max_bytes: usize) -> Result<(), OutOfMemory> {
        let mut from = Some(range.first());
        let mut batch = Vec::new();
        while let Some(at) = from {
            let before = batch.len();
            let end = self.store.scan(at, range.last(), max_bytes, &mut batch);
            let added = RecordBatch::parse(&batch[before..]).expect("a batch just packed");
            let first = added.iter().next().map(|record| record.position());
            let is_one_position = || added.iter().all(|record| Some(record.position()) == first);
            assert!(batch.len() - before <= max_bytes || is_one_position(), "a position travels as one");
            assert!(end.next.is_none_or(|next| next > at && range.contains(next)), "a scan makes progress");
            from = end.next;
        }
        let records = RecordBatch::parse(&batch).expect("a batch just packed");
        let mut visited = Vec::new();
        let mut from = Some(range.first());
        while let Some(at) = from {
            from = self.store.visit(at, range.last(), max_bytes % 50, &mut |record| {
                visited.push(packed(&self.store, record));
            });
        }
        assert!(records.iter().map(|record| packed(&self.store, record)).eq(visited));
        // Those at one position are in any order.
        let mut records: Vec<_> = records.iter().collect();
        records.sort_by_key(|record| (record.position(), record.key()));
        let mut records = records.into_iter();
        for ((position, key), entry) in self.values_in(range) {
            let record = records.next().expect("as many records as the model");
            assert_eq!((record.position(), record.key()), (*position, key.as_slice()));
            entry.check(record);
        }
        assert!(records.next().is_none(), "more records than the model");
        Ok(())
    }

    fn take_out(&mut self, range: PositionRange, seed: u16) -> Result<(), OutOfMemory> {
        let everything = seed.is_multiple_of(4);
        let mut from = Some(range.first());
        while let Some(at) = from {
            from = if everything {
                self.store.discard(at, range.last(), usize::from(seed % 100))
            } else {
                self.store.sweep_tombstones(at, range.last(), usize::from(seed % 100))
            };
            assert!(from.is_none_or(|next| next > at && range.contains(next)), "a sweep makes progress");
        }
        self.model.retain(|(position, _), entry| {
            !range.contains(*position) || (!everything && entry.value.is_some())
        });
        Ok(())
    }

    fn floor(&mut self, floor: Version) -> Result<(), OutOfMemory> {
        self.store.raise_version_floor(PositionRange::ALL, floor);
        let highest = self.store.highest_version(PositionRange::ALL);
        assert!(highest >= floor && self.versions.values().all(|version| *version <= highest));
        Ok(())
    }

    fn cut(&mut self, range: PositionRange, n: usize) -> Result<(), OutOfMemory> {
        let parts = self.store.partition(range, n);
        assert!((1..=n.max(1)).contains(&parts.len()));
        assert_eq!((parts[0].first(), parts[parts.len() - 1].last()), (range.first(), range.last()));
        assert!(parts.windows(2).all(|pair| pair[0].last().next() == Some(pair[1].first())));
        for part in parts {
            assert_eq!(self.store.len_in(part), self.values_in(part).count() as u64);
            let mut shown = 0;
            self.store.visit(part.first(), part.last(), usize::MAX, &mut |record| {
                shown += u64::from(record.kind().is_shown());
            });
            assert_eq!(self.store.shown_in(part), shown);
        }
        Ok(())
    }

    fn sample(&mut self, random: u64) -> Result<(), OutOfMemory> {
        let guard = self.store.pin();
        match guard.random_record(random) {
            Some(record) => {
                let entry = &self.model[&(record.position(), record.key().to_vec())];
                entry.check_stored(&self.store, record);
            }
            None => assert_eq!(self.store.len(), 0),
        }
        drop(guard);
        if random.is_multiple_of(8) { self.expire(random) } else { Ok(()) }
    }

    /// Removes expired values: all of them by position in pieces, or those in closed segments.
    fn expire(&mut self, random: u64) -> Result<(), OutOfMemory> {
        let due = |entry: &ModelEntry| entry.value.is_some() && entry.expires_at.is_some_and(|at| at < NOW);
        let before = self.model.values().filter(|entry| due(entry)).count();
        let mut removed = Removed { leave: Leave::Nothing, positions: Vec::new() };
        if random.is_multiple_of(16) {
            let mut from = Some(Position::FIRST);
            while let Some(at) = from {
                let budget = (random >> 8) as usize % 50 + 1;
                from = self.store.expire(&mut self.head, at, NOW, budget, &mut removed).next;
                assert!(from.is_none_or(|next| next > at), "a sweep makes progress");
            }
            assert_eq!(removed.positions.len(), before);
        } else {
            while self.store.expire_segment(&mut self.head, NOW, &mut removed).is_some() {}
        }
        self.model.retain(|(position, _), entry| !(due(entry) && removed.positions.contains(position)));
        assert_eq!(self.model.values().filter(|entry| due(entry)).count(), before - removed.positions.len());
        Ok(())
    }

    fn check_everything(&mut self) {
        let store = &self.store;
        let values = self.model.values().filter(|entry| entry.value.is_some());
        let expected_len = values.clone().count() as u64;
        assert_eq!(store.len(), expected_len);
        let expiring = values.filter(|entry| entry.expires_at.is_some()).count();
        assert_eq!(store.expiring_len(), expiring as u64);
        assert_eq!(
            store.tombstones_in(PositionRange::ALL),
            self.model.values().filter(|entry| entry.value.is_none()).count() as u64
        );
        assert_eq!(store.is_empty(), expected_len == 0);
        self.scan(PositionRange::ALL, 1000).expect("a scan needs no memory");
        self.check_log();
        self.check_recovery();
    }

    /// The durable log has the values of the model, and nothing else.
    fn check_recovery(&mut self) {
        self.log.commit(&self.store);
        let values = self.model.values().filter(|entry| entry.value.is_some()).count();
        self.log.check_needed(&self.store, values);
        for seed in 0..3 {
            let recovered = self.log.recover(seed);
            let mut found = 0;
            recovered.each_entry(PositionRange::ALL, &mut |record, is_tombstone| {
                assert!(!is_tombstone);
                found += 1;
                let place = (record.position(), record.key().to_vec());
                let entry = self.model.get(&place).filter(|entry| entry.value.is_some());
                entry.unwrap_or_else(|| panic!("{record:?} was removed")).check_recovered(&recovered, record);
            });
            assert_eq!(found, values);
            // Nothing that is written from now on is older than what was removed.
            let highest = self.store.highest_version(PositionRange::ALL);
            assert!(recovered.highest_version(PositionRange::ALL) <= highest);
        }
    }

    /// The live bytes are those of the model's records, and all counts are right.
    fn check_log(&mut self) {
        self.head.close();
        let mut live = 0;
        self.store.each_entry(PositionRange::ALL, &mut |record, is_tombstone| {
            let entry = &self.model[&(record.position(), record.key().to_vec())];
            let bytes = record.live_bytes() as u64;
            assert_eq!(is_tombstone, entry.value.is_none());
            let is_outside = record.run().is_some();
            let is_removed =
                entry.removed_bytes.is_some_and(|removed| bytes == removed[usize::from(is_outside)]);
            assert!(bytes == entry.record_bytes(record.key())[usize::from(is_outside)] || is_removed);
            live += bytes + entry.large.as_ref().map_or(0, Collection::chunk_bytes);
        });
        assert_eq!(self.store.memory().log_live, live);
        assert_eq!(self.store.bytes_in(PositionRange::ALL), live);
        self.store.cleaner().close_own_head();
        assert_eq!(self.store.check_accounting(), Ok(()));
    }
}

impl ModelEntry {
    fn check(&self, record: Record<'_>) {
        assert_eq!(Some(record.value()), self.value.as_deref());
        assert_eq!((record.version(), record.expires_at()), (self.version, self.expires_at));
    }

    /// Compares what the store has of it.
    fn check_stored(&self, store: &Store, record: Record<'_>) {
        let Some(large) = &self.large else {
            assert!(!record.is_large());
            return self.check(record);
        };
        assert_eq!((record.version(), record.expires_at()), (large.head_version, self.expires_at));
        let guard = store.pin();
        let (_, outline) = guard.get_whole(record.hashed_key());
        large.check(&outline.expect("a large collection"), &guard);
    }

    /// Compares what a recovered store has of it.
    fn check_recovered(&self, store: &Store, record: Record<'_>) {
        assert_eq!((record.version(), record.expires_at()), (self.record_version(), self.expires_at));
        match &self.large {
            Some(large) => {
                let guard = store.pin();
                let (_, outline) = guard.get_whole(record.hashed_key());
                large.check(&outline.expect("a large collection"), &guard);
            }
            None => assert_eq!(Some(record.value()), self.value.as_deref()),
        }
    }

    /// The version of its record.
    fn record_version(&self) -> Version {
        self.large.as_ref().map_or(self.version, |large| large.head_version)
    }

    /// Its record's length with the value inside, and with the value outside.
    fn record_bytes(&self, key: &[u8]) -> [u64; 2] {
        let packed = self.value.as_ref().map_or(0, Vec::len);
        let value = if self.large.is_some() { crate::record::HEAD_VALUE_BYTES } else { packed };
        let deadline = if self.expires_at.is_some() { 8 } else { 0 };
        let head = crate::record::HEADER_BYTES + deadline + key.len();
        [(head + value).next_multiple_of(8) as u64, ((head + 8).next_multiple_of(8) + value) as u64]
    }
}
