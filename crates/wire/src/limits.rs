//! Bounds on a frame's content. A peer that exceeds one is refused before anything is allocated for it.

/// The largest value of a record, as in Redis.
pub const VALUE_BYTES_MAX: usize = 512 << 20;

/// The longest key of a record, as in Redis.
pub const KEY_BYTES_MAX: usize = 512 << 20;

/// The largest body: the most that one reply may hold before its last record, and that record.
pub const BODY_BYTES_MAX: usize = (64 << 20) + KEY_BYTES_MAX + VALUE_BYTES_MAX;

/// The most records at one position: one with the longest key and value, and others whose keys share the
/// position.
pub const IMAGE_BYTES_MAX: usize = BODY_BYTES_MAX;

/// The longest patch of a large collection: both orders of its elements, and the labels of its chunks.
pub const PATCH_BYTES_MAX: usize = 4 * IMAGE_BYTES_MAX;

/// The largest body of a frame that carries no records.
pub const REQUEST_BODY_BYTES_MAX: usize = 16 << 20;

/// The largest control message from a node to the coordinator. A survey of all partitions takes a tenth of
/// it.
pub const FROM_NODE_BODY_BYTES_MAX: usize = 64 << 10;

/// How many keys one priority pull may ask for (Rocksteady, 2.4: "at most 16 records").
pub const PRIORITY_PULL_KEYS_MAX: usize = 16;

/// How many positions one sampled pull, or one probe, may ask for.
pub const SAMP_PULL_POSITIONS_MAX: usize = 1024;

/// How many hot positions one frame may name: hints of them, or those that have not changed since.
pub const HOT_HINTS_MAX: usize = 512;

/// How many large collections one frame of hints may name.
pub const LARGE_HINTS_MAX: usize = 512;

/// How many ranges one reply to a pull of changes may name.
pub const CHANGED_RANGES_MAX: usize = 1024;

/// The longest explanation in a refusal.
pub const REFUSAL_TEXT_BYTES_MAX: usize = 1024;

/// How much of a frame's body is reserved ahead of its arrival, or a quarter of what has arrived if that is
/// more: a forged length alone must not cost memory.
pub const RECEIVE_AHEAD_BYTES: usize = 1 << 20;

/// A receive buffer larger than this is freed once it is empty.
pub const RECEIVE_KEEP_BYTES: usize = 8 << 20;
