//! The read, publish and reclaim kernel under loom: every interleaving, within bounds, of a reader with
//! writers that replace, split and retire.
//!
//! `RUSTFLAGS="--cfg loom" cargo test -p sidle-store --lib --release kernel_model`
//!
//! The tables, the epochs and the limbo are the real ones. Records are cells under loom's checks: reading one
//! that is released, or still being written, fails the model.

use crate::address::Address;
use crate::array::ArrayWord;
use crate::bucket::{EntryKind, Word};
use crate::epoch::{Epochs, Limbo, Participant, Pinned};
use crate::hidden::Hidden;
use crate::slot_lock::read_undisturbed;
use crate::slot_table::{Arrays, Counted, SlotTable};
use loom::cell::UnsafeCell;
use loom::sync::Arc;
use loom::thread;

const KIND: EntryKind = EntryKind { is_tombstone: false, has_deadline: false };

/// The most interruptions of a thread; more find nothing new here and take long.
const PREEMPTIONS: usize = 3;

/// A place in a log of few records.
struct Cell {
    /// The record's hash and version; both 0 while it is free.
    record: UnsafeCell<(u64, u64)>,
}

struct Kernel {
    table: SlotTable,
    epochs: Epochs,
    cells: Vec<Cell>,
    released_cells: Limbo<usize>,
    arrays: Limbo<ArrayWord>,
}

impl Arrays for Kernel {
    fn retire(&self, array: ArrayWord) {
        self.arrays.retire(&self.epochs, array);
    }

    fn grew(&self, _bytes: usize) {}

    fn has_room(&self, _bytes: usize) -> bool {
        true
    }
}

impl Kernel {
    /// A table with `entries` records, one each in the first cells, and some free cells.
    fn new(entries: u64) -> Arc<Kernel> {
        let cells = (0..entries + 4).map(|_| Cell { record: UnsafeCell::new((0, 0)) }).collect();
        let kernel = Kernel {
            table: SlotTable::default(),
            epochs: Epochs::new(),
            cells,
            released_cells: Limbo::new(),
            arrays: Limbo::new(),
        };
        for number in 0..entries {
            kernel.grow_by_one(hash(number), number as usize);
        }
        Arc::new(kernel)
    }

    #[allow(unsafe_code)]
    fn write_cell(&self, cell: usize, hash: u64, version: u64) {
        // SAFETY: loom checks that nobody else is in the cell.
        self.cells[cell].record.with_mut(|record| unsafe { *record = (hash, version) });
    }

    #[allow(unsafe_code)]
    fn read(&self, word: Word<'_>) -> (u64, u64) {
        let cell = word.address().units() as usize - 1;
        // SAFETY: loom checks that nobody writes the cell.
        self.cells[cell].record.with(|record| unsafe { *record })
    }

    fn insert(&self, hash: u64, cell: usize, version: u64) {
        let pin = Pinned::by(self);
        self.write_cell(cell, hash, version);
        self.table.insert(hash, |level| word(cell, hash, level), pin, self, |word| self.read(word).0);
    }

    /// Replaces the entry of a hash, as an overwrite or a relocation does, and retires the old record's cell.
    fn replace(&self, hash: u64, cell: usize, version: u64) {
        self.table.lock.acquire();
        self.replace_locked(hash, cell, version);
        self.table.lock.release();
    }

    fn replace_locked(&self, hash: u64, cell: usize, version: u64) {
        let pin = Pinned::by(self);
        self.write_cell(cell, hash, version);
        let (place, old) = self.table.find(hash, pin, |found| self.read(found).0 == hash).expect("present");
        place.bucket.store(place.index, word(cell, hash, place.level));
        self.released_cells.retire(&self.epochs, old.address().units() as usize - 1);
    }

    fn grow_by_one(&self, hash: u64, cell: usize) {
        self.table.lock.acquire();
        self.insert(hash, cell, 1);
        self.table.count(None, Some(Counted { kind: KIND, hidden: Hidden::No, bytes: 8 }));
        self.table.lock.release();
    }

    /// Moves one unit towards a smaller table.
    fn shrink(&self) {
        self.table.lock.acquire();
        assert!(self.table.shrink(Pinned::by(self), self, |word| self.read(word).0));
        self.table.lock.release();
    }

    /// Frees everything free: loom would detect a reader during these writes and frees.
    #[allow(unsafe_code)]
    fn collect(&self) {
        for cell in self.released_cells.collect(&self.epochs) {
            self.write_cell(cell, 0, 0);
        }
        for array in self.arrays.collect(&self.epochs) {
            // SAFETY: unlinked, and its epoch has passed: what the model checks.
            unsafe { array.free() };
        }
    }

    /// Looks a hash up under a pin and returns the version found. It does not wait for the lock (X2): without
    /// exclusive holders there is nothing to wait for, and a look-up must be right without.
    fn get(&self, participant: &Participant, hash: u64) -> Option<u64> {
        self.epochs.pin(participant);
        let version = self.look_up(hash);
        participant.unpin();
        version
    }

    /// The same, beside changes of several keys.
    fn get_in_turn(&self, participant: &Participant, hash: u64) -> Option<u64> {
        self.epochs.pin(participant);
        self.table.lock.await_turn();
        let version = self.look_up(hash);
        participant.unpin();
        version
    }

    /// Looks a hash up; the caller is pinned.
    fn look_up(&self, hash: u64) -> Option<u64> {
        let mut version = None;
        self.table.find(hash, Pinned::by(self), |word| {
            let record = self.read(word);
            let is_it = record.0 == hash;
            if is_it {
                version = Some(record.1);
            }
            is_it
        });
        version
    }
}

impl Drop for Kernel {
    #[allow(unsafe_code)]
    fn drop(&mut self) {
        let linked = self.table.take_arrays().into_iter().filter(|array| !array.is_none());
        for array in linked.chain(self.arrays.drain()) {
            // SAFETY: the model is over; an array is linked or in limbo.
            unsafe { array.free() };
        }
    }
}

fn word<'p>(cell: usize, hash: u64, level: u32) -> Word<'p> {
    Word::new(Address::from_units(cell as u64 + 1), hash, level, KIND)
}

/// Hashes that share their tag and differ in the first bit, by turns: half of them move to the upper bucket.
fn hash(number: u64) -> u64 {
    (number % 2) << 63 | number + 1
}

fn model(f: impl Fn() + Sync + Send + 'static) {
    model_with(PREEMPTIONS, f);
}

fn model_with(preemptions: usize, f: impl Fn() + Sync + Send + 'static) {
    let mut model = loom::model::Builder::new();
    model.preemption_bound = Some(preemptions);
    model.max_branches = 20_000;
    model.check(f);
}

/// A reader against overwrites whose old records are released at once. It sees one of the versions, never an
/// older one than before, and never a released record.
#[test]
fn reader_against_replacement_and_release() {
    model(|| {
        let kernel = Kernel::new(1);
        let writer = {
            let kernel = kernel.clone();
            thread::spawn(move || {
                kernel.replace(hash(0), 1, 2);
                kernel.collect();
                kernel.replace(hash(0), 2, 3);
                kernel.collect();
            })
        };
        let participant = kernel.epochs.register();
        let first = kernel.get(&participant, hash(0)).expect("only ever replaced");
        let second = kernel.get(&participant, hash(0)).expect("only ever replaced");
        assert!(first <= second);
        writer.join().expect("the writer is done");
        assert_eq!(kernel.get(&participant, hash(0)), Some(3));
    });
}

/// A reader against growth bucket by bucket, overwrites before and after the buckets move, and the release of
/// the old array and the old records.
#[test]
fn reader_against_growth_replacement_and_release() {
    model(|| {
        let kernel = Kernel::new(2);
        let writer = {
            let kernel = kernel.clone();
            thread::spawn(move || {
                kernel.grow_by_one(hash(2), 2); // starts to grow: the lower bucket moves
                kernel.replace(hash(0), 3, 2);
                kernel.grow_by_one(hash(3), 4); // the upper bucket moves
                kernel.replace(hash(1), 5, 2);
                kernel.collect();
            })
        };
        let participant = kernel.epochs.register();
        let lower = kernel.get(&participant, hash(0)).expect("only ever replaced");
        assert!(kernel.get(&participant, hash(1)).is_some());
        assert!(kernel.get(&participant, hash(0)).expect("only ever replaced") >= lower);
        writer.join().expect("the writer is done");
        assert_eq!(kernel.get(&participant, hash(1)), Some(2));
        assert!(kernel.get(&participant, hash(3)).is_some());
    });
}

/// A reader against shrinking unit by unit, overwrites before and after the buckets move, and the release of
/// the old array and the old records.
#[test]
fn reader_against_shrinking_replacement_and_release() {
    // Twice as many buckets move as in growth.
    model_with(PREEMPTIONS - 1, || {
        let kernel = Kernel::new(4);
        assert_eq!(kernel.table.level(), Some(2));
        let writer = {
            let kernel = kernel.clone();
            thread::spawn(move || {
                kernel.shrink(); // the two lower buckets move
                kernel.replace(hash(0), 4, 2);
                kernel.shrink(); // the two upper buckets move
                kernel.replace(hash(1), 5, 2);
                kernel.collect();
            })
        };
        let participant = kernel.epochs.register();
        let lower = kernel.get(&participant, hash(0)).expect("only ever replaced");
        assert!(kernel.get(&participant, hash(1)).is_some());
        assert!(kernel.get(&participant, hash(0)).expect("only ever replaced") >= lower);
        writer.join().expect("the writer is done");
        assert_eq!(kernel.table.level(), Some(1));
        for number in 0..4 {
            let version = if number < 2 { 2 } else { 1 };
            assert_eq!(kernel.get(&participant, hash(number)), Some(version));
        }
    });
}

/// A reader against a table that grows and shrinks again: one resizing's progress is no evidence for the next
/// one.
#[test]
fn reader_against_growth_and_shrinking() {
    model_with(PREEMPTIONS - 1, || {
        let kernel = Kernel::new(1);
        let writer = {
            let kernel = kernel.clone();
            thread::spawn(move || {
                kernel.grow_by_one(hash(1), 1);
                kernel.replace(hash(0), 2, 2);
                kernel.shrink();
                kernel.replace(hash(0), 3, 3);
                kernel.collect();
            })
        };
        let participant = kernel.epochs.register();
        let first = kernel.get(&participant, hash(0)).expect("only ever replaced");
        let second = kernel.get(&participant, hash(0)).expect("only ever replaced");
        assert!(first <= second);
        writer.join().expect("the writer is done");
        assert_eq!(kernel.get(&participant, hash(0)), Some(3));
        assert!(kernel.get(&participant, hash(1)).is_some());
    });
}

/// Two writers under the slot's lock: neither write is lost.
#[test]
fn writers_exclude_each_other() {
    model(|| {
        let kernel = Kernel::new(1);
        let other = {
            let kernel = kernel.clone();
            thread::spawn(move || kernel.replace(hash(0), 1, 2))
        };
        kernel.replace(hash(0), 2, 2);
        other.join().expect("the writer is done");
        assert_eq!(kernel.released_cells.collect(&kernel.epochs).len(), 2);
    });
}

/// Tables with a change of several keys, and whether it makes their readers wait.
struct Change {
    kernels: Vec<Arc<Kernel>>,
    /// For each key its kernel and its hash.
    keys: [(usize, u64); 2],
    excludes_readers: bool,
}

impl Change {
    /// Two keys that share a slot.
    fn of_one_slot(excludes_readers: bool) -> Arc<Change> {
        let keys = [(0, hash(0)), (0, hash(1))];
        Arc::new(Change { kernels: vec![Kernel::new(2)], keys, excludes_readers })
    }

    /// Two keys in two slots.
    fn of_two_slots(excludes_readers: bool) -> Arc<Change> {
        let keys = [(0, hash(0)), (1, hash(0))];
        Arc::new(Change { kernels: vec![Kernel::new(1), Kernel::new(1)], keys, excludes_readers })
    }

    /// Sets both keys to this version, as `SlotGuards::publish` does (X1).
    fn write(&self, version: u64) {
        self.kernels.iter().for_each(|kernel| kernel.table.lock.acquire());
        if self.excludes_readers {
            self.kernels.iter().for_each(|kernel| kernel.table.lock.make_exclusive());
        }
        for (number, (kernel, hash)) in self.keys.into_iter().enumerate() {
            self.kernels[kernel].replace_locked(hash, 2 * version as usize - 2 + number, version);
        }
        self.kernels.iter().for_each(|kernel| kernel.table.lock.release());
    }

    fn register(&self) -> Vec<std::sync::Arc<Participant>> {
        self.kernels.iter().map(|kernel| kernel.epochs.register()).collect()
    }

    /// One key by itself (X2).
    fn get(&self, participants: &[std::sync::Arc<Participant>], number: usize) -> u64 {
        let (kernel, hash) = self.keys[number];
        self.kernels[kernel].get_in_turn(&participants[kernel], hash).expect("only ever replaced")
    }

    /// Both keys at one moment, as `Guard::get_together` reads them (X3).
    fn get_together(&self, participants: &[std::sync::Arc<Participant>]) -> [u64; 2] {
        let pins = || self.kernels.iter().zip(participants);
        pins().for_each(|(kernel, participant)| kernel.epochs.pin(participant));
        let look_up = || {
            self.keys.map(|(kernel, hash)| self.kernels[kernel].look_up(hash).expect("only ever replaced"))
        };
        let locks = || self.kernels.iter().map(|kernel| &kernel.table.lock);
        let seen = read_undisturbed(locks, look_up).unwrap_or_else(|| {
            locks().for_each(|lock| lock.acquire());
            let seen = look_up();
            locks().for_each(|lock| lock.release());
            seen
        });
        pins().for_each(|(_, participant)| participant.unpin());
        seen
    }
}

/// Reads one key after the other, then both, beside a change of both.
fn read_beside_a_change(change: &Change) {
    let participants = change.register();
    let first = change.get(&participants, 0);
    assert!(change.get(&participants, 1) >= first, "half of a change was seen");
    let [one, other] = change.get_together(&participants);
    assert_eq!(one, other, "half of a change was seen");
    assert!(one >= first);
}

/// One writer of two keys, a reader of one key and then the other, a reader of both at once.
#[test]
fn readers_see_a_change_in_one_slot_whole() {
    model_with(PREEMPTIONS - 1, || {
        let change = Change::of_one_slot(true);
        let writer = {
            let change = change.clone();
            thread::spawn(move || change.write(2))
        };
        let reader = {
            let change = change.clone();
            thread::spawn(move || {
                let participants = change.register();
                let first = change.get(&participants, 0);
                assert!(change.get(&participants, 1) >= first, "half of a change was seen");
            })
        };
        let participants = change.register();
        let [first, second] = change.get_together(&participants);
        assert_eq!(first, second, "half of a change was seen");
        assert!(change.get(&participants, 0) >= first);
        writer.join().expect("the writer is done");
        reader.join().expect("what the reader saw was in order");
        assert_eq!(change.get_together(&participants), [2, 2]);
    });
}

#[test]
fn a_reader_sees_a_change_in_two_slots_whole() {
    model_with(PREEMPTIONS - 1, || {
        let change = Change::of_two_slots(true);
        let writer = {
            let change = change.clone();
            thread::spawn(move || change.write(2))
        };
        read_beside_a_change(&change);
        writer.join().expect("the writer is done");
    });
}

/// The model shows why exclusivity is needed.
#[test]
#[should_panic(expected = "half of a change was seen")]
fn without_exclusivity_a_reader_sees_half_of_a_change() {
    model(|| {
        let change = Change::of_two_slots(false);
        let writer = {
            let change = change.clone();
            thread::spawn(move || change.write(2))
        };
        read_beside_a_change(&change);
        writer.join().expect("the writer is done");
    });
}

/// A key with a large collection of one chunk. Each state has a head and a chunk of the same version.
struct LargeKey {
    kernel: Arc<Kernel>,
    /// What the collection's cell names: the places of its head and of its chunk.
    published: loom::sync::RwLock<(usize, usize)>,
    /// Whether readers look at which head the cell names (K2).
    checks_head: bool,
}

/// The hash that chunks' records have here.
const CHUNK: u64 = 77;

impl LargeKey {
    fn new(checks_head: bool) -> Arc<LargeKey> {
        let kernel = Kernel::new(1);
        kernel.write_cell(1, CHUNK, 1);
        Arc::new(LargeKey { kernel, published: loom::sync::RwLock::new((0, 1)), checks_head })
    }

    /// A state of this version with a new head, as `LargePut` writes it.
    fn put(&self, version: u64, head: usize, chunk: usize) {
        self.kernel.table.lock.acquire();
        self.kernel.write_cell(chunk, CHUNK, version);
        let mut published = self.published.write().expect("no thread fails");
        let old = std::mem::replace(&mut *published, (head, chunk));
        drop(published);
        self.kernel.replace_locked(hash(0), head, version);
        self.kernel.released_cells.retire(&self.kernel.epochs, old.1);
        self.kernel.table.lock.release();
        self.kernel.collect();
    }

    /// Copies the chunk, as the cleaner does (C6).
    fn relocate_chunk(&self, to: usize) {
        self.kernel.table.lock.acquire();
        let from = self.published.read().expect("no thread fails").1;
        let (hash, version) = self.kernel.read(word(from, CHUNK, 0));
        self.kernel.write_cell(to, hash, version);
        self.published.write().expect("no thread fails").1 = to;
        self.kernel.released_cells.retire(&self.kernel.epochs, from);
        self.kernel.table.lock.release();
        self.kernel.collect();
    }

    /// Reads head and chunk, as `Guard::get_whole` does; returns the version of both.
    fn get(&self, participant: &Participant) -> u64 {
        self.kernel.epochs.pin(participant);
        let version = loop {
            let mut found = None;
            self.kernel.table.find(hash(0), Pinned::by(&*self.kernel), |word| {
                found = Some((word.address().units() as usize - 1, self.kernel.read(word).1));
                true
            });
            let (head, version) = found.expect("only ever replaced");
            let (named, chunk) = *self.published.read().expect("no thread fails");
            if named == head || !self.checks_head {
                let of_chunk = self.kernel.read(word(chunk, CHUNK, 0));
                assert_eq!(of_chunk, (CHUNK, version), "head and outline are of two moments");
                break version;
            }
            thread::yield_now();
        };
        participant.unpin();
        version
    }
}

fn read_large_beside_changes(checks_head: bool) {
    let key = LargeKey::new(checks_head);
    let writer = {
        let key = key.clone();
        thread::spawn(move || key.put(2, 2, 3))
    };
    let participant = key.kernel.epochs.register();
    let first = key.get(&participant);
    assert!(key.get(&participant) >= first);
    writer.join().expect("the writer is done");
    assert_eq!(key.get(&participant), 2);
}

/// A reader clones the outline while a writer publishes head and chunk anew, and releases the old ones.
#[test]
fn a_reader_of_a_large_collection_against_its_writer() {
    model_with(PREEMPTIONS - 1, || read_large_beside_changes(true));
}

/// The model shows why the cell names its head.
#[test]
#[should_panic(expected = "two moments")]
fn without_the_head_in_the_cell_a_reader_mixes_two_states() {
    model_with(PREEMPTIONS - 1, || read_large_beside_changes(false));
}

/// A reader beside a cleaner that moves the chunk, and releases the old copy.
#[test]
fn a_reader_of_a_large_collection_against_the_cleaner() {
    model_with(PREEMPTIONS - 1, || {
        let key = LargeKey::new(true);
        let cleaner = {
            let key = key.clone();
            thread::spawn(move || {
                key.relocate_chunk(2);
                key.relocate_chunk(3);
            })
        };
        let participant = key.kernel.epochs.register();
        assert_eq!((key.get(&participant), key.get(&participant)), (1, 1));
        cleaner.join().expect("the cleaner is done");
    });
}

/// U1: who sees a change asks for a commit that has it, or has it in an earlier one.
#[test]
fn what_is_seen_is_in_the_commit_that_its_slot_names() {
    use crate::commit::Commits;
    use loom::sync::atomic::{AtomicU64, Ordering};
    model(|| {
        let slot = sidle_types::Slot::new(0).expect("there is a first slot");
        let commits = Arc::new(Commits::for_slots(1));
        let published = Arc::new(AtomicU64::new(0));
        let writer = {
            let (commits, published) = (Arc::clone(&commits), Arc::clone(&published));
            let buffer = commits.join();
            thread::spawn(move || {
                commits.enter(&buffer, &mut vec![7], std::iter::once(slot));
                published.store(1, Ordering::Release);
            })
        };
        let log_writer = {
            let commits = Arc::clone(&commits);
            thread::spawn(move || {
                let mut records = Vec::new();
                let first = commits.take(&mut records);
                (first, !records.is_empty())
            })
        };
        let seen = (published.load(Ordering::Acquire) == 1).then(|| commits.latest_of(slot));
        let (first, is_in_first) = log_writer.join().expect("it does not panic");
        writer.join().expect("it does not panic");
        if let Some(commit) = seen {
            assert!(commit >= first && (is_in_first || commit > first), "{commit:?} of {first:?}");
        }
        let mut records = Vec::new();
        commits.take(&mut records);
        assert_eq!(records.is_empty(), is_in_first, "it is in one of the two");
    });
}
