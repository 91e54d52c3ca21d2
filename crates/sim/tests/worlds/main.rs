//! Whole clusters, many seeds of each kind: one program, so that its tests run beside each other.

mod checkers;
mod copied_logs;
mod coverage;
mod disk;
mod fair;
mod given_back;
mod members;
mod split_groups;
mod versions;
