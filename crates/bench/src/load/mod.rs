//! Load: threads, each driving several clients, and their measurements.

mod collector;
mod feed;
mod plan;
mod recording;
mod run;
mod socket;
mod thread;

pub use collector::Totals;
pub use plan::{ClientKind, Pacing, Plan, World};
pub use recording::HistoryFile;
pub use run::{
    LOAD_TICK, Measured, PROBED_RECORDS, PROBES_PER_S, ProbeGaps, Tick, Verdict, load_records, read_back,
    run_workload,
};
