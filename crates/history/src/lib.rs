//! Operation histories and the linearizability checker.
//!
//! A history records every operation of every recording client: the request, the result, and the interval
//! between call and return. [`check`] decides whether some order of the operations explains all results. It
//! seeks one order per key in which every operation takes effect at one instant of its interval (Herlihy and
//! Wing, "Linearizability: a correctness condition for concurrent objects").
//!
//! The file format is one JSON object a line, so that other checkers can judge it, too.

mod check;
mod explain;
mod file;
mod graph;
pub mod list_append;
mod model;
mod online;
mod operation;
mod search;

pub use check::{CheckOptions, KeyVerdict, Report, check, check_key};
pub use explain::{Explanation, Reason};
pub use file::{ReadError, Writer, read};
pub use online::{Judged, KeyChecker};
pub use operation::{Datum, Invalid, Op, Operation, Outcome};
