//! Fulva (SRDS 2019): the target owns the range at once; readers of a missing key take the source's frozen
//! value.

use crate::{
    Copies, OnMissing, Pace, PriorityPulls, ProtocolChoices, PullBytes, Sampling, Serves, SourceReads,
};

/// Fulva, with sampling as in its section IV-B. Commands that need the old value, and clients without opt-in,
/// get Rocksteady's batched, de-duplicated priority pulls.
pub const FULVA: ProtocolChoices = ProtocolChoices {
    name: "fulva",
    copies: Copies::AfterFreeze,
    serves: Serves::AtActivation,
    source_reads: SourceReads::AnswersFrozen,
    missing: OnMissing::SaysNotHereYet,
    partitions: 8,
    pulls: PullBytes::Adaptive(64 << 10),
    pace: Pace::YieldsToClients,
    sampling: Some(Sampling { one_in: 8, batch: 256 }),
    priority: PriorityPulls { batch: 16, in_flight: 1 },
    hot_first: false,
    collections_ahead: true,
};
