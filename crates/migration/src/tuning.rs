//! Every bound, window and timer of a migration, by name; and the few that an operator may set.

/// The least that a pull asks for.
pub const PULL_BYTES_MIN: u32 = 16 << 10;
/// The most that a pull asks for. A reply may exceed it by the records at its last position, up to
/// [`PIECE_BYTES`]. Packing or replaying that much takes a few hundred microseconds; a worker on the same
/// core may have to wait for it.
pub const PULL_BYTES_MAX: u32 = 128 << 10;
/// The target time of a reply, counted from the previous reply if that came after the pull was sent. A full
/// reply in less than half of this doubles the partition's next pull; one that took more than twice this
/// halves it. With all partitions' pulls in flight, this bounds the queue ahead of the priority lane on a
/// slow network.
pub const PULL_TARGET_US: u64 = 10_000;

/// The minimum interval between sampled pulls, so that each has many positions.
pub const SAMP_PULL_INTERVAL_US: u64 = 4_000;
/// A sampled pull's reply ends after the position that reaches this, so that the priority lane stays short.
pub const SAMP_REPLY_BYTES: usize = 64 << 10;
/// A priority pull's reply ends after the key that reaches this; the other keys are asked for again.
pub const PRIORITY_REPLY_BYTES: usize = 256 << 10;

/// A priority pull takes no further key once its keys reach this total length.
pub const PRIORITY_REQUEST_BYTES: usize = 64 << 10;
/// While this many keys are awaited, none is pulled ahead for clients that will retry. They retry anyway.
pub const KEYS_WANTED_MAX: usize = 4096;
/// How many unanswered priority pulls a source keeps; the oldest is dropped, and will be repeated.
pub const PRIORITY_PULLS_QUEUED_MAX: usize = 16;
/// How many commands may wait for keys of one import; further ones fail. Far more than wait at a time, but a
/// waiter that left counts until the source answers.
pub const PRIORITY_WAITERS_MAX: usize = 1 << 17;
/// How many refusals and pongs may wait for a lane; further ones are dropped, as their causes recur.
pub const NOTICES_QUEUED_MAX: usize = 32;

/// How many sampled positions may wait for the next sampled pull; further ones are dropped, as most misses
/// are anyway.
pub const SAMPLED_WAITING_MAX: usize = 4096;

/// How often a source looks for hot positions that its workers have noticed.
pub const HINTS_EVERY_US: u64 = 2_000;
/// The largest records at a position that a source names as hot: nobody serves them in transit.
pub const HINTED_BYTES_MAX: usize = 16 << 10;
/// How many hot positions may wait at either end, for a frame or for a cut; further ones are dropped, and
/// come with their partition.
pub const HINTS_WAITING_MAX: usize = 8192;
/// The minimum interval between cuts that only take hot positions, so that each has many.
pub const HINTS_REST_US: u64 = 500;
/// Nobody serves hot positions while a cut gives them. One that takes longer than this halves the number of
/// the next one, down to [`HINTED_LEAST`]; one that takes less than half of it doubles it.
pub const HINTED_CUT_US: u64 = 1_500;
/// As many hot positions a cut may give however long it takes.
pub const HINTED_LEAST: usize = 16;

/// How many hot positions one pull copies before the freeze, of a protocol that does not sample.
pub const HOT_BATCH: usize = 256;
/// A target waits at most so long for the hot positions that are copied before the freeze.
pub const HOT_COPIES_US: u64 = 100_000;

/// How many of a store's collections are looked at in one go for those that are large.
pub const LOOK_FOR_LARGE: u32 = 4096;
/// A target of what is given bit by bit waits at most so long for their names before it takes keys out of
/// turn. They come as soon as the source can give anything: when its workers, idle ones too, use the map.
pub const NAMES_US: u64 = 300_000;

/// How many positions of blind writes may wait for a probe. Further ones are dropped, and make the number of
/// missing keys too high until the end.
pub const PROBED_WAITING_MAX: usize = 1 << 16;
/// The most positions in one probe.
pub const PROBE_BATCH: usize = 1024;
/// The minimum interval between probes, so that each has many positions.
pub const PROBE_INTERVAL_US: u64 = 4_000;

/// The piece size for larger records at one position. A reply is at most its budget and one piece.
pub const PIECE_BYTES: u32 = 256 << 10;

/// A large collection that is to be given by a cut is copied again, what changed of it, until that is no
/// longer than this part of a piece (64 KiB by default): nobody serves it in transit ...
pub const CATCH_UP_PART: u64 = 4;
/// ... or until it was copied so many times.
pub const CATCH_UP_ROUNDS: u32 = 8;

/// The least time between two reports to clients of what cuts gave.
pub const DIGEST_PERIOD_US: u64 = 5_000;
/// The wait before an unanswered pull is resent; doubles each time, up to [`RESEND_US_MAX`].
pub const RESEND_US: u64 = 500_000;
/// As [`RESEND_US`], for awaited answers: to priority pulls and activation.
pub const PRIORITY_RESEND_US: u64 = 100_000;
/// How long an answer counts as on its way. A request repeated within this time over the same connection is
/// not answered again. The answer may be behind a large one on a slow network, and a second would only delay
/// others.
pub const ANSWER_STANDS_US: u64 = 1_000_000;
/// The longest wait before a resend.
pub const RESEND_US_MAX: u64 = 4_000_000;

/// The first wait before a retry after a refused greeting or a lost connection; doubles up to
/// [`RECONNECT_US_MAX`]. Short: at the start the source may learn of the migration a moment after the target.
pub const RECONNECT_US: u64 = 1_000;
/// The longest wait before a connection is retried.
pub const RECONNECT_US_MAX: u64 = 250_000;

/// The first wait before replay is retried when the target is out of memory; doubles up to [`STALL_US_MAX`].
pub const STALL_US: u64 = 10_000;
/// How long what is in transit may wait for memory at its target: nobody serves it meanwhile. After that the
/// cut is the last one, and owes all (M38).
pub const CUT_MEMORY_US: u64 = 200_000;
/// The longest wait of a stalled target.
pub const STALL_US_MAX: u64 = 1_000_000;

/// How long a target with few changes left waits before it asks for the next ones, until the source is
/// frozen.
pub const ROUND_REST_US: u64 = 10_000;

/// A source that gives bit by bit gives all that is left once its workers' wait has been more than so many
/// thousandths of a take's round trip ...
pub const GIVE_ALL_WAIT_PERMILLE: u64 = 1_500;
/// ... for so long.
pub const GIVE_ALL_AFTER_US: u64 = 50_000;

/// How many records one slice of release or sweep handles.
pub const RELEASE_SLICE_RECORDS: usize = 512;
/// The mover's pause between two slices, for other work.
pub const RELEASE_PAUSE_US: u64 = 200;

/// How often a source looks whether its durable log is safe up to where it gave all.
pub const SAFE_POLL_US: u64 = 200;

/// Settings for an operator.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tuning {
    /// The most bytes per second for bulk pulls, whatever a migration's policy, or `None` for no limit.
    pub max_bytes_per_s: Option<u64>,
    /// Bulk work takes a share of the processor only while workers are later than this with their loops.
    pub worker_lag_limit_us: u64,
    /// As [`PIECE_BYTES`], at least 1. Tests and the simulator vary it, so that small records come in pieces.
    pub piece_bytes: u32,
}

impl Default for Tuning {
    fn default() -> Tuning {
        Tuning { max_bytes_per_s: None, worker_lag_limit_us: 500, piece_bytes: PIECE_BYTES }
    }
}
