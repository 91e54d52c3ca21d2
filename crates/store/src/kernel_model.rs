//! The read, publish and reclaim kernel under loom: every interleaving, within bounds, of a reader with
//! writers that replace, split and retire.
//!
//! `RUSTFLAGS="--cfg loom" cargo test -p sidle-store --lib --release kernel_model`
//!
//! The tables, the epochs and the limbo are the real ones. Records are cells that loom watches: reading one
//! that has been released, or is still being written, fails the model.

use crate::address::Address;
use crate::array::ArrayWord;
use crate::bucket::{EntryKind, Word};
use crate::epoch::{Epochs, Limbo, Participant, Pinned};
use crate::slot_table::{Arrays, Counted, SlotTable};
use loom::cell::UnsafeCell;
use loom::sync::Arc;
use loom::thread;

const KIND: EntryKind = EntryKind { is_tombstone: false, has_deadline: false };

/// How often a thread is interrupted at most; more finds nothing new here and takes long.
const PREEMPTIONS: usize = 3;

/// A place in a log of few records.
struct Cell {
    /// The hash that the record is for and its version; both 0 while it is free.
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
        self.table.acquire();
        let pin = Pinned::by(self);
        self.write_cell(cell, hash, version);
        let (place, old) = self.table.find(hash, pin, |found| self.read(found).0 == hash).expect("present");
        place.bucket.store(place.index, word(cell, hash, place.level));
        self.released_cells.retire(&self.epochs, old.address().units() as usize - 1);
        self.table.release();
    }

    fn grow_by_one(&self, hash: u64, cell: usize) {
        self.table.acquire();
        self.insert(hash, cell, 1);
        self.table.count(None, Some(Counted { kind: KIND, bytes: 8 }));
        self.table.release();
    }

    /// Moves one unit towards a smaller table.
    fn shrink(&self) {
        self.table.acquire();
        assert!(self.table.shrink(Pinned::by(self), self, |word| self.read(word).0));
        self.table.release();
    }

    /// Frees what can be freed: writing the cells and freeing the arrays is what loom would catch a reader
    /// at.
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

    /// Looks a hash up under a pin and returns the version found.
    fn get(&self, participant: &Participant, hash: u64) -> Option<u64> {
        self.epochs.pin(participant);
        let mut version = None;
        {
            let pin = Pinned::by(self);
            self.table.find(hash, pin, |word| {
                let record = self.read(word);
                let is_it = record.0 == hash;
                if is_it {
                    version = Some(record.1);
                }
                is_it
            });
        }
        participant.unpin();
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

/// A reader against overwrites whose old records are released at once: it sees one of the versions, never
/// going back, and never a released record.
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

/// A reader against a table that grows and shrinks again: what one resizing has moved says nothing of the
/// next one.
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
