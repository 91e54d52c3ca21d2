//! Every bound, window and timer of a migration, named; and the few that an operator may set.

/// The least that a pull asks for.
pub const PULL_BYTES_MIN: u32 = 16 << 10;
/// The most that a pull asks for. A reply may be larger by what stands at its last position, up to
/// [`PIECE_BYTES`]. Packing or
/// replaying so much takes a few hundred microseconds, which a worker on the same core may have to wait for.
pub const PULL_BYTES_MAX: u32 = 128 << 10;
/// A reply that came full in less than half of this, counted from the reply before it if that came after the
/// pull was sent, makes the partition's next pull ask for twice as much; one that took more than twice this,
/// for half. With every partition's pull under way at once, this bounds what waits in front of the priority
/// lane on a slow network.
pub const PULL_TARGET_US: u64 = 10_000;

/// Sampled pulls follow each other no sooner than this, so that each has many positions.
pub const SAMP_PULL_INTERVAL_US: u64 = 4_000;
/// A sampled pull's reply ends after the position that reaches this, so that the priority lane stays short.
pub const SAMP_REPLY_BYTES: usize = 64 << 10;
/// A priority pull's reply ends after the key that reaches this; the other keys are asked for again.
pub const PRIORITY_REPLY_BYTES: usize = 256 << 10;

/// A priority pull takes no further key once its keys are this long together.
pub const PRIORITY_REQUEST_BYTES: usize = 64 << 10;
/// No key is pulled ahead for clients that will come again while so many are awaited. They come again anyway.
pub const KEYS_WANTED_MAX: usize = 4096;
/// How many unanswered priority pulls a source keeps; the oldest is dropped, and will be asked again.
pub const PRIORITY_PULLS_QUEUED_MAX: usize = 16;
/// How many commands may wait for keys of one import; further ones fail. Far more than wait at a time, but
/// whoever waited and left counts until the source answers.
pub const PRIORITY_WAITERS_MAX: usize = 1 << 17;
/// How many refusals and pongs may wait for a lane; further ones are dropped, as their causes come again.
pub const NOTICES_QUEUED_MAX: usize = 32;

/// How many sampled positions may wait for the next sampled pull; further ones are dropped, as most misses
/// are anyway.
pub const SAMPLED_WAITING_MAX: usize = 4096;

/// How many positions that were written without looking may wait for a probe; further ones are dropped, and
/// the number of missing keys is too high by them until the end.
pub const PROBED_WAITING_MAX: usize = 1 << 16;
/// The most positions in one probe.
pub const PROBE_BATCH: usize = 1024;
/// Probes follow each other no sooner than this, so that each has many positions.
pub const PROBE_INTERVAL_US: u64 = 4_000;

/// What stands at one position goes in pieces of this size where it is larger. A reply is no larger than its
/// budget and one of them.
pub const PIECE_BYTES: u32 = 256 << 10;

/// A pull that is not answered for so long is sent again; doubles with each time, up to [`RESEND_US_MAX`].
pub const RESEND_US: u64 = 500_000;
/// As [`RESEND_US`], for what somebody waits for: priority pulls and activation.
pub const PRIORITY_RESEND_US: u64 = 100_000;
/// A request that comes again over a connection that its answer was given to less than this long ago is not
/// answered again: the first answer is still on its way there, perhaps behind a large one on a slow network,
/// and a second would only delay others.
pub const ANSWER_STANDS_US: u64 = 1_000_000;
/// The longest wait before anything is sent again.
pub const RESEND_US_MAX: u64 = 4_000_000;

/// The first wait before a refused greeting or a lost connection is tried again; doubles up to
/// [`RECONNECT_US_MAX`]. Short: at the start the source may hear of the migration a moment after the target.
pub const RECONNECT_US: u64 = 1_000;
/// The longest wait before a connection is tried again.
pub const RECONNECT_US_MAX: u64 = 250_000;

/// The first wait before replay is tried again when the target is out of memory; doubles up to
/// [`STALL_US_MAX`].
pub const STALL_US: u64 = 10_000;
/// The longest wait of a stalled target.
pub const STALL_US_MAX: u64 = 1_000_000;

/// How long a target that has few changes left waits before it asks for the next ones, until the source is
/// frozen.
pub const ROUND_REST_US: u64 = 10_000;

/// How many records one slice of release or sweep handles.
pub const RELEASE_SLICE_RECORDS: usize = 512;
/// How long the mover does other things between two slices.
pub const RELEASE_PAUSE_US: u64 = 200;

/// What an operator may set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tuning {
    /// The most bytes that bulk pulls may bring in a second, whatever a migration's policy, or `None` for no
    /// such limit.
    pub max_bytes_per_s: Option<u64>,
    /// Bulk work takes a share of the processor only while workers are later than this with their loops.
    pub worker_lag_limit_us: u64,
    /// As [`PIECE_BYTES`].
    pub piece_bytes: u32,
}

impl Default for Tuning {
    fn default() -> Tuning {
        Tuning { max_bytes_per_s: None, worker_lag_limit_us: 500, piece_bytes: PIECE_BYTES }
    }
}
