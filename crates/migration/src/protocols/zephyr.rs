//! Zephyr (SIGMOD 2011): the target owns the range at once; a command that misses waits for a pull of that
//! one piece of data, while the rest is pulled in the background.

use crate::{Copies, OnMissing, Pace, PriorityPulls, ProtocolChoices, PullBytes, Serves, SourceReads};

/// Zephyr over keys where the paper has pages: each missing key is a pull of its own, as soon as it is
/// missed, and one background stream brings what nobody asked for.
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
};
