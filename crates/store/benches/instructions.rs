//! The store's instructions for a read and a write: the same in every run, whatever the load of the machine.
//!
//! `cargo bench -p sidle-store --bench instructions`; needs valgrind and gungraun's runner
//! (docs/benchmarks.md, "Instructions"). Each case is 2000 operations, with keys of 30 bytes and
//! values of 100 bytes.

#![allow(clippy::disallowed_methods)] // starts valgrind

#[path = "support/counting.rs"]
mod counting;

use counting::{KEYS, VALUE, key, numbers};
use sidle_store::{Entry, LogHead, Store, StoreConfig};
use sidle_types::HashedKey;
use std::hint::black_box;

/// Which keys a case names.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Which {
    /// Keys that the store has.
    Present,
    /// Keys that it does not have.
    Absent,
}

/// A store, and the keys to work on.
pub struct Prepared {
    store: Store,
    head: LogHead,
    keys: Vec<String>,
}

impl Prepared {
    fn new(which: Which) -> Prepared {
        let store = Store::new(StoreConfig::with_memory(64 << 20)).expect("a good configuration");
        let head = store.log_head();
        let mut prepared = Prepared { store, head, keys: (0..KEYS).map(key).collect() };
        prepared.put_all();
        let first = if which == Which::Absent { KEYS } else { 0 };
        prepared.keys = numbers(first).map(key).collect();
        prepared
    }

    fn put_all(&mut self) {
        for key in &self.keys {
            let key = HashedKey::new(key.as_bytes());
            let slot = self.store.lock_slot(key.slot());
            slot.put(&mut self.head, key, &[&VALUE], None).expect("there is memory");
        }
    }

    fn get_all(&self) {
        for key in &self.keys {
            let guard = self.store.pin();
            if let Entry::Value(record) = guard.get(HashedKey::new(key.as_bytes())) {
                black_box(record.value());
            }
        }
    }
}

mod cases {
    use super::{Prepared, Which};
    use gungraun::{Callgrind, LibraryBenchmarkConfig, library_benchmark, library_benchmark_group, main};

    #[library_benchmark(setup = Prepared::new)]
    #[bench::hit(Which::Present)]
    #[bench::miss(Which::Absent)]
    fn get(prepared: Prepared) -> Prepared {
        prepared.get_all();
        prepared
    }

    #[library_benchmark(setup = Prepared::new)]
    #[bench::overwrite(Which::Present)]
    #[bench::new(Which::Absent)]
    fn put(mut prepared: Prepared) -> Prepared {
        prepared.put_all();
        prepared
    }

    library_benchmark_group!(name = store, benchmarks = [get, put]);
    main!(
        config = LibraryBenchmarkConfig::default().tool(Callgrind::with_args(["--cache-sim=no"]));
        library_benchmark_groups = store
    );

    pub(super) fn run() {
        main();
    }
}

fn main() {
    counting::run(cases::run);
}
