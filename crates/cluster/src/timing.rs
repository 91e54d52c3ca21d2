//! Intervals and deadlines between nodes and coordinator.

/// How often a node reports that it runs.
pub const HEARTBEAT_INTERVAL_US: u64 = 250_000;

/// How long a node must be silent to be suspected.
pub const SUSPECTED_AFTER_US: u64 = 2_000_000;

/// How late the coordinator's own timer must fire for it to conclude that it stood still.
pub const STANDSTILL_US: u64 = 50_000;

/// How long either side waits for an answer or an acknowledgement before it repeats a message.
pub const RETRY_US: u64 = 200_000;

/// How often a node that is not yet a member asks to be one.
pub const JOIN_RETRY_US: u64 = 500_000;

/// How long a refused node waits before it asks again.
pub const JOIN_REFUSED_RETRY_US: u64 = 5_000_000;

/// How long the coordinator waits after a failed commit before it tries again.
pub const COMMIT_RETRY_US: u64 = 500_000;

/// How long a migration's preparation may take before it is given up.
pub const PREPARE_DEADLINE_US: u64 = 30_000_000;

/// How often a target reports its progress at most.
pub const PROGRESS_INTERVAL_US: u64 = 100_000;

/// How long a node waits for the answer to a client's request; longer than a preparation may take.
pub const REQUEST_DEADLINE_US: u64 = PREPARE_DEADLINE_US + 10_000_000;

/// The minimum time over which the rate of a migration is measured.
pub const RATE_WINDOW_US: u64 = 1_000_000;

/// How long a member without tablets must be silent for the cluster to forget it, if there are many such.
pub const IDLE_FORGOTTEN_AFTER_US: u64 = 60_000_000;

/// How often the coordinator checks that its record is where the next start looks for it.
pub const RECORD_CHECK_US: u64 = 3_000_000;
