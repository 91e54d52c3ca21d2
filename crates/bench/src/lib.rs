//! Load generation, measurement, reports and the demonstration.
//!
//! A load is made by threads that each drive several clients ([`load`]); what they measure goes into windows
//! of 100 ms ([`timeline`]), from which a report is made ([`report`]), one JSON file that the HTML page
//! ([`page`]) is drawn from. [`demo`] moves half of the data between two nodes under such a load.

// A program at the edge: it reads clocks, files and the environment.
#![allow(clippy::disallowed_methods, clippy::disallowed_types)]

pub mod control;
pub mod cpu_lists;
pub mod demo;
pub mod failures;
pub mod figures;
pub mod gap;
mod host;
pub mod latencies;
pub mod limits;
pub mod load;
pub mod machine;
pub mod node_process;
pub mod outcome;
pub mod page;
pub mod policy;
pub mod quota;
pub mod report;
pub mod run_folder;
pub mod spread;
pub mod steady;
pub mod summary;
pub mod terminal;
pub mod timeline;
pub mod words;
