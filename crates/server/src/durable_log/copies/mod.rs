//! Copies of durable logs, with sockets and files: those of this node's log at others, and those of others
//! here. What is sent when is decided by `sidle_log_copies` and `sidle_node`.
//!
//! | file | what |
//! |---|---|
//! | `connections` | the connections of one thread: all that happens to them comes through one queue |
//! | `running` | how the two threads begin and end |
//! | `sending` | the thread that has the copies of this node's log follow it |
//! | `own_log` | the log's files, as that thread reads them |
//! | `backups` | the thread that keeps the copies of other nodes' logs |
//! | `folders` | their files |
//! | `copy_syncs` | syncs of these beside their writes |
//! | `fetching` | a takeover that fetches a copy from another node |
//! | `reclaiming` | a start that asks the copies for what the own disk lost |
//!
//! Ownership: each thread owns all of its state; others hold its queue.

mod backups;
mod connections;
mod copy_syncs;
mod fetching;
mod folders;
mod own_log;
mod reclaiming;
mod running;
mod sending;

pub(crate) use backups::{BackupsInput, BackupsSetup, BackupsThread, Fenced};
pub(super) use fetching::{FetchError, Fetched, Fetching, KnownOfCopies, remove_folder};
pub(super) use reclaiming::{ReclaimError, Reclaiming};
pub(crate) use sending::{CopiesInput, CopiesReport, CopiesSetup};
pub(super) use sending::{CopiesThread, Followed};
