//! A log, its copies, and the coordinator's record, on disks and links that fail.

mod disk;
mod fetching;
mod leases;
mod named_faults;
mod random;
mod scripted;
mod world;
