//! Types that all other crates share: slots, key hashes, positions, ranges, identifiers, epochs and time; and
//! numbers formatted for people ([`words`]).
//!
//! Data is stored, split, scanned and moved in one total order, the [`Position`]: Redis's hash slot in the
//! upper 14 bits, the upper 50 bits of the key's XXH3-64 hash below. So a slot is one interval, and so is any
//! finer part of it, down to a single hot key.

mod beside;
mod fault;
mod fill;
mod gave_all;
pub mod glob;
mod id;
mod key;
mod log_buckets;
mod policy;
mod position;
mod position_cursors;
mod position_filter;
mod protocol_version;
mod scan_cursor;
mod slot;
mod time;
mod value_kind;
pub mod words;

pub use beside::{beside_what, locks_key};
#[cfg(feature = "faults")]
pub use fault::PutBack;
pub use fault::{About, Fault, World};
pub use fill::Fill;
pub use gave_all::GaveAll;
pub use id::{
    CommitNumber, ImportId, LogId, MapEpoch, MigrationId, NodeId, ParseLogIdError, ParseNodeIdError,
    TabletEpoch, Version,
};
pub use key::HashedKey;
pub use log_buckets::LogBuckets;
pub use policy::{MigrationPolicy, ParsePolicyError};
pub use position::{KeyHash, ParsePositionError, Position, PositionRange};
pub use position_cursors::{parse_cursors, write_cursors};
pub use position_filter::{FILTER_POSITIONS_MAX, FINER_BITS_MAX, PositionFilter, fingerprint};
pub use protocol_version::{ProtocolVersion, Speaks};
pub use scan_cursor::ScanCursor;
pub use slot::{SLOT_COUNT, Slot, hash_tag};
pub use time::{MonotonicUs, WallMs};
pub use value_kind::ValueKind;
