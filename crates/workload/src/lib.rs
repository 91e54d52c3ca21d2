//! YCSB workloads: key choice, operation mix, self-verifying values.
//!
//! Everything is drawn from one seed with our own integer generators, so that a run can be repeated. A value
//! carries the numbers of its record, its writer and the write, under a checksum. A [`Ledger`] shared by all
//! clients of a run records which writes were acknowledged. Together they detect a wrong, torn, stale or lost
//! value when it is read.

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
