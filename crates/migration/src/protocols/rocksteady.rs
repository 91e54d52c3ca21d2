//! Rocksteady (SOSP 2017): the target owns the range at once; a client that needs a missing record retries
//! while it is pulled ahead of the others.

use crate::{Copies, OnMissing, Pace, PriorityPulls, ProtocolChoices, PullBytes, Serves, SourceReads};

/// Rocksteady with the paper's parameters: 8 partitions, pulls of 20 KB (2.3.1), priority pulls of at most 16
/// keys with one in flight, and clients that retry "a few tens of microseconds" later (2.3.3).
pub const ROCKSTEADY: ProtocolChoices = ProtocolChoices {
    name: "rocksteady",
    copies: Copies::AfterFreeze,
    serves: Serves::AtActivation,
    source_reads: SourceReads::Redirects,
    missing: OnMissing::SaysRetry { after_us: 40 },
    partitions: 8,
    pulls: PullBytes::Fixed(20 << 10),
    pace: Pace::YieldsToClients,
    sampling: None,
    priority: PriorityPulls { batch: 16, in_flight: 1 },
    hot_first: false,
    collections_ahead: true,
};
