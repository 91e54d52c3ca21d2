//! Operation histories and the linearizability checker.
//!
//! A history says, for every operation of every recording client, what was asked, what came back, and between
//! which two instants. [`check`] decides whether some order of the operations explains all of it: one order
//! per key, in which every operation takes effect at one instant between its call and its return (Herlihy and
//! Wing, "Linearizability: a correctness condition for concurrent objects").
//!
//! The file format is one JSON object a line, so that checkers other than this one can judge too.

mod check;
mod explain;
mod file;
mod model;
mod online;
mod operation;
mod search;

pub use check::{CheckOptions, KeyVerdict, Report, check, check_key};
pub use explain::{Explanation, Reason};
pub use file::{ReadError, Writer, read};
pub use online::{Judged, KeyChecker};
pub use operation::{Datum, Invalid, Op, Operation, Outcome};
