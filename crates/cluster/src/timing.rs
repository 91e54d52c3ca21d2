//! Intervals, deadlines and bounds of the conversation between nodes and coordinator.

/// How often a node says that it lives.
pub const HEARTBEAT_INTERVAL_US: u64 = 250_000;

/// How long a node must be silent to be suspected.
pub const SUSPECTED_AFTER_US: u64 = 2_000_000;

/// How late the coordinator's own timer must be for it to conclude that it stood still.
pub const STANDSTILL_US: u64 = 50_000;

/// How long either side waits for an answer or an acknowledgement before it repeats a message.
pub const RETRY_US: u64 = 200_000;

/// How often a node that is not yet a member asks to be one.
pub const JOIN_RETRY_US: u64 = 500_000;

/// How long a node that was refused waits before it asks again.
pub const JOIN_REFUSED_RETRY_US: u64 = 5_000_000;

/// How long the coordinator waits after a failed commit before it tries again.
pub const COMMIT_RETRY_US: u64 = 500_000;

/// How long a migration may be in preparation before it is given up.
pub const PREPARE_DEADLINE_US: u64 = 30_000_000;

/// How often a target tells its progress at most.
pub const PROGRESS_INTERVAL_US: u64 = 100_000;

/// How long a node waits for the answer to a client's request; longer than a preparation may take.
pub const REQUEST_DEADLINE_US: u64 = PREPARE_DEADLINE_US + 10_000_000;

/// Over how long a time the rate of a migration is measured at least.
pub const RATE_WINDOW_US: u64 = 1_000_000;

/// How many members a cluster has at most.
pub const MAX_NODES: usize = 1_000;

/// How many migrations may be under way or queued.
pub const MAX_UNFINISHED: usize = 64;

/// How many client requests a node keeps open.
pub const MAX_OPEN_REQUESTS: usize = 64;

/// How many requests may wait for a migration's end; further ones are answered at once.
pub const MAX_WAITS: usize = 1_024;

/// How long a request may wait for a migration's end: while it is open, it holds up a window of numbers.
pub const MAX_PATIENCE_US: u64 = 5_000_000;

/// How many numbers may lie between the oldest open request of a node and its newest, and so how many answers the
/// coordinator keeps for a node.
pub const REQUEST_WINDOW: u64 = 256;

/// How many messages may wait to be sent. Beyond it the oldest are dropped, as a link may drop them.
pub const MAX_TRANSMIT: usize = 4_096;

/// How many events may wait to be taken. A driver that takes them after every input never comes near it.
pub const MAX_EVENTS: usize = 65_536;
