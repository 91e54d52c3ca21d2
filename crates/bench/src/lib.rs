//! Load generation, measurement, reports and the demonstration.
//!
//! Threads make a load, each driving several clients ([`load`]). Their measurements go into windows
//! of 100 ms ([`timeline`]), from which a report is made ([`report`]): a JSON file, from which the HTML page
//! ([`page`]) is drawn. [`demo`] moves half of the data between two nodes under such a load,
//! and [`kill`] kills one of three. In [`bank`] the load is transfers between accounts.

// A program at the edge reads clocks, files and the environment.
#![allow(clippy::disallowed_methods, clippy::disallowed_types)]

pub mod bank;
pub mod control;
pub mod cpu_lists;
pub mod demo;
pub mod failures;
pub mod figures;
pub mod gap;
mod host;
pub mod kill;
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
pub mod tpcc;
pub mod transactions;
pub mod words;
