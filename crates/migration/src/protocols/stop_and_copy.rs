//! Stop and copy: the baseline for all other protocols. Nobody serves the range while it moves.

use crate::{Copies, OnMissing, Pace, PriorityPulls, ProtocolChoices, PullBytes, Serves, SourceReads};

/// Freeze, copy everything as fast as both ends can, serve. Requests wait at the target throughout.
pub const STOP_AND_COPY: ProtocolChoices = ProtocolChoices {
    name: "stop-and-copy",
    copies: Copies::AfterFreeze,
    serves: Serves::WhenAllIsHere,
    source_reads: SourceReads::Redirects,
    missing: OnMissing::Waits,
    partitions: 8,
    pulls: PullBytes::Adaptive(64 << 10),
    pace: Pace::Full,
    sampling: None,
    priority: PriorityPulls { batch: 16, in_flight: 1 },
    hot_first: false,
    collections_ahead: false,
};
