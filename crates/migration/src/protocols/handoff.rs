//! Hand-off, our own: each key has one owner at any moment, each operation takes one trip, and nothing is
//! half arrived.

use crate::{
    Copies, Cuts, OnMissing, Pace, PriorityPulls, ProtocolChoices, PullBytes, Serves, SourceReads, Uncovered,
};

/// The source serves what it has not given; the target takes what is requested of it, and otherwise what has
/// been copied, cut by cut.
pub const HANDOFF: ProtocolChoices = ProtocolChoices {
    name: "handoff",
    copies: Copies::BeforeCuts(Cuts {
        period_us: 5_000,
        keys: 300,
        bytes: 2 << 20,
        digest: true,
        out_of_turn: crate::OUT_OF_TURN_MAX,
        uncovered: Uncovered::Source,
    }),
    serves: Serves::WhatItWasGiven,
    source_reads: SourceReads::Redirects,
    missing: OnMissing::Waits,
    partitions: 8,
    pulls: PullBytes::Adaptive(64 << 10),
    pace: Pace::YieldsToClients,
    sampling: None,
    priority: PriorityPulls { batch: 16, in_flight: 1 },
    hot_first: true,
    collections_ahead: false,
};
