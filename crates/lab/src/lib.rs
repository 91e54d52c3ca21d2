//! The lab: every protocol under every workload, many times, and the papers' figures from the results.
//!
//! A [`Matrix`] or the papers' own set ([`figures`]) gives [`Cell`]s. [`run`] measures each of them several
//! times, one process a run, round by round over all cells in an order that each round draws anew. [`Folder`]
//! keeps a report per run, so an interrupted lab continues where it stopped. [`Results`]
//! reads a folder, [`page`] draws it, and [`compare`] puts folders side by side. [`peers`] compares
//! a request's cost on the server's processor with its cost on Redis's.

// A program at the edge reads clocks, files and the environment.
#![allow(clippy::disallowed_methods, clippy::disallowed_types)]

mod cell;
mod child;
mod compare;
mod confidence;
pub mod figures;
mod folder;
mod lab_file;
mod matrix;
pub mod measures;
pub mod page;
mod papers;
pub mod peers;
mod program;
mod results;
mod run;
mod settings;
pub mod table;
mod variant;

pub use cell::{Cell, Mix, Scene, Skew, SourceCpu};
pub use compare::{Compared, ComparedCell, Comparison, compare};
pub use folder::{FailedRun, Folder, FolderError, LAB_FILE, PAGE_FILE, RunState, is_run_name, run_file};
pub use lab_file::{LabFile, LabMachine};
pub use matrix::{Matrix, add, order, without_quotas};
pub use page::page;
pub use program::Program;
pub use results::{CellRuns, Results};
pub use run::{LabOutcome, LabPlan, expected_run_s, run};
pub use settings::{Database, OnModel, Settings};
pub use variant::Variant;
