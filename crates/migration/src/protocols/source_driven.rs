//! Copying by the source before it gives the range up, as RAMCloud's migration and Albatross (VLDB 2011) do,
//! and as virtual machines are moved: pre-copy.

use crate::{
    Copies, OnMissing, Pace, PriorityPulls, ProtocolChoices, PullBytes, Rounds, Serves, SourceReads,
};

/// The source serves on while everything is copied, then rounds of what changed meanwhile, until few changes
/// are left; then it freezes, and nobody serves until the last round is at the target.
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
};
