//! Log-structured memory and the per-slot hash index.
//!
//! All threads share one [`Store`]. Reading takes a pin and no lock; writing locks the key's slot and appends
//! to the writer's own log head. A change of several keys locks their slots, and makes their readers wait
//! while it is published: each of them sees all of it or nothing.
//!
//! ```
//! use sidle_store::{Entry, Leave, Store, StoreConfig};
//! use sidle_types::HashedKey;
//!
//! let store = Store::new(StoreConfig::with_memory(64 << 20))?;
//! let mut head = store.log_head(); // one per worker
//! let key = HashedKey::new(b"key");
//!
//! store.lock_slot(key.slot()).put(&mut head, key, &[b"val", b"ue"], None)?;
//! if let Entry::Value(record) = store.pin().get(key) {
//!     assert_eq!(record.value(), b"value");
//! }
//! assert!(store.lock_slot(key.slot()).remove(&mut head, key, Leave::Nothing)?);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! | who | uses |
//! |---|---|
//! | worker | [`Store::pin`], [`Guard::get`], [`Guard::get_whole`], [`Guard::get_together`], [`Guard::get_whole_together`], [`Store::at_one_moment`], [`Store::prefetch_slot`], [`Guard::prefetch_bucket`], [`Guard::prefetch_record`], [`Store::lock_slot`], [`SlotGuard::put`], [`SlotGuard::extend`], [`SlotGuard::put_large`], [`Aside`], [`SlotGuard::set_deadline`], [`SlotGuards::lock`], [`SlotGuards::publish`], [`SlotGuard::remove`], [`SlotGuard::mark_absent`], [`Store::is_short`], [`Store::visit`], [`Guard::random_record`], [`Store::expire`], [`Store::expire_segment`] |
//! | mover | [`Store::partition`], [`Store::scan`], [`Store::pack`], [`Store::pack_piece`], [`Store::pack_patch`], [`Store::large_collections`], [`RecordBatch::parse`], [`Store::replay`], [`Assembly`], [`Arrival`], [`Store::discard`], [`Store::sweep_tombstones`], [`Store::highest_version`], [`Store::raise_version_floor`] |
//! | control thread | [`Store::cleaner`], [`Store::memory`] |
//!
//! The store reads no clock: the caller passes the time to check whether a record
//! [is expired](Record::is_expired). Expired values stay until the caller has them removed.
//!
//! Threads hold pins and locks briefly: a pin keeps emptied memory from being reused, a lock keeps the
//! writers of one slot waiting. Memory is reclaimed only while some thread steps the [`Cleaner`].
//!
//! # How it is built
//! - `record`, `record_kind`: one layout for memory and for batches of migrations (`batch`).
//! - `memory`, `segment`, `runs`, `log`, `cleaner`: a reserved range with segments that heads append to and
//!   runs of pages for large records, and the cleaner that makes room (invariants L1 to L5, C1 to C6).
//! - `bucket`, `array`, `slot_table`, `resize`, `index`: a table per slot in the order of the hash, which
//!   grows and shrinks (T1 to T4: why a reader without a lock never misses a key).
//! - `slot_lock`, `together`: waiting for a change of several keys, and reading several keys at one moment
//!   (X1 to X4).
//! - `occupancy`: which slots have entries, so that walks and counts skip the others.
//! - `epoch`: when unlinked memory may be reused (E1 to E3).
//! - `data`, `writer`: log and index together; look-ups under a pin, writes under a slot's lock.
//! - `walk`, `scan`, `partition`, `expiry`: passes over a range; `store`, `replay`, `discard`: the store,
//!   which lends them the data and makes writers free memory.
//! - `publish`: changes of several keys (X1).
//! - `interest`, `observe`: who is told of a key's changes (I1, I2).
//! - `extend`: values that are changed in part: strings that grow (L5), large collections, deadlines.
//! - `large`: collections in chunks (K1 to K5).
//! - `rebuild`: a slot's index anew from its records.
//! - `pending_tombstones`: removals without room for tombstones.
//!
//! Unsafe code is in `memory`, `log`, `array`, `index` and `epoch` only. The property test and the fuzzer
//! share `testing`; tests of accounts use `audit`. Loom checks the kernel with `RUSTFLAGS="--cfg loom" cargo
//! test -p sidle-store --lib --release kernel_model` (half a minute; use a separate target directory).

mod address;
mod array;
mod assembly;
#[cfg(feature = "testing")]
mod audit;
mod batch;
mod beside;
mod bucket;
mod cleaner;
mod commit;
mod config;
mod current;
mod data;
mod discard;
#[cfg(all(test, not(loom)))]
mod documented;
mod epoch;
mod expiry;
mod extend;
mod hidden;
mod imports;
mod index;
mod interest;
#[cfg(all(test, loom))]
mod kernel_model;
mod large;
mod log;
mod logged;
mod memory;
mod move_in;
mod observe;
mod occupancy;
mod partition;
mod pending_tombstones;
mod publish;
mod range_key;
mod rebuild;
mod record;
mod record_kind;
mod recovered_positions;
mod recovery;
mod recovery_chunks;
mod recovery_part;
mod repeated;
mod replay;
mod resize;
mod restamp;
mod runs;
mod scan;
mod segment;
mod slot_lock;
mod slot_table;
mod store;
mod sync;
#[cfg(feature = "testing")]
pub mod testing;
mod together;
mod walk;
mod writer;

pub use assembly::Assembly;
pub use batch::{BatchError, RecordBatch, RecordBatchIter};
pub use cleaner::{CleanOutcome, Cleaner};
pub use commit::Commits;
pub use config::{
    MAX_COLLECTION_BYTES, MAX_KEY_BYTES, MAX_SEGMENT_BYTES, MAX_VALUE_BYTES, MIN_SEGMENT_BYTES, OutOfMemory,
    StoreConfig, StoreError,
};
pub use data::{Entry, Guard};
pub use discard::WholeDiscard;
pub use expiry::{Expiring, ExpirySweep};
pub use imports::{ImportNote, ImportStage, NotedImport};
pub use interest::Observer;
pub use large::arrival::{Arrival, Arrived};
pub use large::aside::Aside;
pub use large::patch::{Holds, PackedPatch, Patch, PatchCursor};
pub use log::LogHead;
pub use logged::{LoggedError, LoggedRecord, logged_records};
pub use move_in::{MoveIn, Moved};
pub use publish::{Change, SlotGuards};
pub use record::{Record, RecordError};
pub use recovery::{CountElements, Recovered, Recovery};
pub use recovery_part::{RecoveryError, RecoveryPart};
pub use repeated::Repeated;
pub use replay::{ReplayError, Replayed};
pub use scan::{Image, Packed, ScanEnd};
pub use store::{MemoryUse, Store};
pub use together::{Entries, WholeEntries};
pub use writer::{Leave, SlotGuard};
