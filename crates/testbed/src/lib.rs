//! What virtual worlds are made of: chance from one seed ([`Random`]), events on virtual time
//! ([`TimeQueue`]), links that lose, double, delay and hold back what goes over them ([`Way`], [`Links`]),
//! disks that lose what was not synced ([`Disk`]), and small clusters ([`fixtures`]).
//!
//! The simulator, the model and the scripted tests of the crates below build their worlds of these.
//! Everything here is a function of its arguments: two runs with one seed are the same on every machine.

mod disk;
mod links;
mod queue;
mod random;
mod sectors;
mod way;

pub use disk::{Disk, DiskMood, File, Folder};
pub use links::{Arrival, Fate, Links, Side};
pub use queue::TimeQueue;
pub use random::Random;
pub use sidle_cluster::fixtures;
pub use way::{Quality, Way};
