//! YCSB workloads: key choice, operation mix, values that prove themselves.
//!
//! Everything is drawn from one seed with integer generators of our own, so that a run can be repeated. A
//! value carries the number of its record, of its writer and of the write, under a checksum; a [`Ledger`]
//! that all clients of a run share knows which writes were acknowledged. Together they tell a wrong, torn,
//! stale or lost value at the moment it is read, whoever wrote it.

mod distribution;
mod keys;
mod ledger;
mod mix;
mod random;
mod scatter;
mod value;
mod zipf;

pub use distribution::{Chooser, Distribution, ParseDistributionError};
pub use keys::{KeyFormat, KeysTooShort};
pub use ledger::{Fault, Floor, Ledger};
pub use mix::{Draw, OperationStream, ParseWorkloadError, Workload};
pub use random::Random;
pub use scatter::Scatter;
pub use value::{Stamp, VALUE_MIN_BYTES, ValueFault, ValueFormat, ValueTooShort};
pub use zipf::Zipfian;
