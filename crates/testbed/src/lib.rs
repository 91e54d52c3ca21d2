//! Parts of simulated worlds: random numbers from one seed ([`Random`]), events on virtual time
//! ([`TimeQueue`]), and small clusters ([`fixtures`]). Links ([`Way`], [`Links`]) lose, duplicate, delay and
//! hold back messages, and disks ([`Disk`]) lose unsynced data.
//!
//! The simulator, the model and the scripted tests of the crates below use them. Everything here depends on
//! its arguments only: two runs with one seed are the same on every machine.

mod disk;
mod links;
mod queue;
mod random;
mod sectors;
mod way;

pub use disk::{Disk, DiskMood, File, Folder, SyncUnderWay};
pub use links::{Arrival, Fate, Links, Side};
pub use queue::TimeQueue;
pub use random::Random;
pub use sidle_cluster::fixtures;
pub use way::{Quality, Way};
