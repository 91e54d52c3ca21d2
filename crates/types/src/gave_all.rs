//! Why a range that is given bit by bit was given at once.

use serde::{Deserialize, Serialize};

/// Why the source of a range that is given bit by bit gave all that was left in one cut.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum GaveAll {
    /// The migration's options say so.
    Option,
    /// The source's workers fell behind.
    Load,
    /// No more keys could be given out of turn.
    TableFull,
    /// The target had no memory for what was in transit.
    Memory,
    /// The range was flushed.
    Flush,
    /// One of its nodes restarted: what was marked, or in transit, is not known any more.
    Restart,
}

impl std::fmt::Display for GaveAll {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            GaveAll::Option => "by its options",
            GaveAll::Load => "the source fell behind its clients",
            GaveAll::TableFull => "no more keys could be taken out of turn",
            GaveAll::Memory => "the target had no memory for what was in transit",
            GaveAll::Flush => "the range was flushed",
            GaveAll::Restart => "one of its nodes restarted",
        })
    }
}
