//! Zephyr (SIGMOD 2011): the target owns the range at once. A command that misses waits for a pull of that
//! one item, while the rest is pulled in the background.

use crate::{Copies, OnMissing, Pace, PriorityPulls, ProtocolChoices, PullBytes, Serves, SourceReads};

/// Zephyr over keys instead of the paper's pages: each missing key has its own pull as soon as it is missed,
/// and one background stream brings the rest.
pub const ZEPHYR: ProtocolChoices = ProtocolChoices {
    name: "zephyr",
    copies: Copies::AfterFreeze,
    serves: Serves::AtActivation,
    source_reads: SourceReads::Redirects,
    missing: OnMissing::Waits,
    partitions: 1,
    pulls: PullBytes::Adaptive(64 << 10),
    pace: Pace::YieldsToClients,
    sampling: None,
    priority: PriorityPulls { batch: 1, in_flight: crate::tuning::PRIORITY_PULLS_QUEUED_MAX },
    hot_first: false,
    collections_ahead: true,
};
