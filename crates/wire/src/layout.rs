//! Fixed parts of the bodies, as laid out in memory. Sizes are multiples of eight, so that what follows a
//! fixed part keeps its alignment from the log.

use zerocopy::little_endian::{U16, U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

/// The mark of an activation that has what transactions have at keys, in its number of records.
pub(crate) const HAS_LOCKS: u64 = 1 << 63;

macro_rules! layouts {
    ($($(#[$doc:meta])* $name:ident { $($field:ident: $type:ty),* $(,)? })*) => { $(
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, Default, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
        #[repr(C)]
        pub(crate) struct $name { $(pub(crate) $field: $type),* }
        const _: () = assert!(size_of::<$name>() % 8 == 0);
    )* };
}

layouts! {
    /// First in every migration message (M9).
    ScopeLayout { migration: U64, epoch: U64 }
    HelloLayout { scope: ScopeLayout, node: [u8; 20], lane: u8, zero: [u8; 3] }
    /// Followed by the text.
    RefuseLayout { scope: ScopeLayout, code: U16, zero: [u8; 6] }
    /// Followed, from version 4 on, by positions that have not changed since they were copied. The topmost
    /// bit of `records`: before them stands their number (U64), and behind them are records.
    ActivateLayout { scope: ScopeLayout, highest_version: U64, records: U64 }
    /// After the fixed part of a pull or a reply to one, if the version has pieces. All zero: none.
    PieceLayout {
        position: U64, version: U64, total: U64, offset: U64,
        collection: U64, since: U64, label: U64, is_patch: u8, order: u8, zero: [u8; 6],
    }
    PullLayout {
        scope: ScopeLayout, sequence: U64, from: U64, last: U64, max_bytes: U32, partition: u8, zero: [u8; 3],
    }
    /// Followed by the records. `next` is valid only if `more` is 1.
    PullReplyLayout {
        scope: ScopeLayout, sequence: U64, from: U64, next: U64, more: u8, partition: u8, zero: [u8; 6],
    }
    /// Before the positions of a sampled pull, and before the records of its reply; before the positions of a
    /// probe.
    SampPullLayout { scope: ScopeLayout, sequence: U64 }
    /// Followed by the keys, each a length (U32) and its bytes.
    PriorityPullLayout { scope: ScopeLayout, sequence: U64, count: U32, zero: [u8; 4] }
    /// Followed by the records. Bit `i` of `absent`: the request's key `i` does not exist.
    PriorityPullReplyLayout { scope: ScopeLayout, sequence: U64, answered: U32, absent: U32 }
    ChangedPullLayout { scope: ScopeLayout, sequence: U64, max_bytes: U32, zero: [u8; 4] }
    /// Followed by the ranges, each a `ChangedRangeLayout`, and the records.
    ChangedPullReplyLayout {
        scope: ScopeLayout, sequence: U64, remaining: U64, round: U32, count: U32,
        is_frozen: u8, zero: [u8; 7],
    }
    /// Followed by as many cursors (U64) as there are `partitions`, and the positions to be taken. Bit `i` of
    /// `complete`: all of partition `i` is here, and its cursor means nothing. `room`: see `Room`.
    CutPullLayout {
        scope: ScopeLayout, sequence: U64, complete: U64, cut: U32, max_bytes: U32,
        took_us: U32, partitions: u8, gives: u8, room: U16,
    }
    /// Followed by the ranges, each a `ChangedRangeLayout`, and the records. `asks`, `owes_all`: 0 or 1.
    CutReplyLayout {
        scope: ScopeLayout, sequence: U64, highest_version: U64, remaining: U64, records: U64, owed: U64,
        cut: U32, count: U32, asks: u8, owes_all: u8, zero: [u8; 6],
    }
    /// Followed by the positions: those of hot keys, and behind them those of large collections.
    HotHintsLayout { scope: ScopeLayout, hot: U32, zero: [u8; 4] }
    ChangedRangeLayout { first: U64, last: U64 }
    ProbeReplyLayout { scope: ScopeLayout, sequence: U64, found: U64 }
    PingLayout { nonce: U64 }
    CopyHelloLayout {
        log: [u8; 16], epoch: U64, incarnation: U64, node: [u8; 20], syncs: u8, reads: u8, zero: [u8; 2],
    }
    /// Followed by the bytes that are to be appended, if it appends any.
    CopyTaskLayout { file: U64, at: U64, what: u8, zero: [u8; 7] }
    /// `number`: the backup's start, an epoch, or that of a beat. To a reader, `synced_file` is the copy's
    /// first file, and `synced_at` for how long its writer may still answer.
    CopyAnswerLayout {
        number: U64, file: U64, at: U64, synced_file: U64, synced_at: U64,
        check: U32, what: u8, zero: [u8; 3],
    }
    /// Followed by the bytes.
    CopyBytesLayout { ends_file: u8, zero: [u8; 7] }
    ForwardLayout { node: [u8; 20], clients_version: u8, zero: [u8; 3] }
}
