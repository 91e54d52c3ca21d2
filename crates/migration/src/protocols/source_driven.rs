//! The source's records are copied before it gives up the range, as by RAMCloud's migration and Albatross
//! (VLDB 2011), and as in live migration of virtual machines: pre-copy.

use crate::{
    Copies, OnMissing, Pace, PriorityPulls, ProtocolChoices, PullBytes, Rounds, Serves, SourceReads,
};

/// The source keeps serving while everything is copied, then rounds of changes, until few are left. Then it
/// freezes, and nobody serves until the last round is at the target.
pub const SOURCE_DRIVEN: ProtocolChoices = ProtocolChoices {
    name: "source-driven",
    copies: Copies::BeforeFreeze(Rounds { few: 64, at_most: 8 }),
    serves: Serves::WhenAllIsHere,
    source_reads: SourceReads::Redirects,
    missing: OnMissing::Waits,
    partitions: 8,
    pulls: PullBytes::Adaptive(64 << 10),
    pace: Pace::YieldsToClients,
    sampling: None,
    priority: PriorityPulls { batch: 16, in_flight: 1 },
    hot_first: false,
    collections_ahead: false,
};
