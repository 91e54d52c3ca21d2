//! Copies of a durable log at other nodes, its **backups**: a commit is safe once all of them have it.
//!
//! A copy is the log's files, byte for byte, so that any node can read it as its own. Whoever writes the log
//! follows each copy through its files, from where that copy ends: a copy that has just begun, one that was
//! away, and one that is up to date differ in nothing but the distance.
//!
//! Which copies **count** is a record of the coordinator, numbered by the log's **epoch**. A copy leaves or
//! joins by a new epoch, and until that is decided both sets count. So whoever finds the record later knows
//! that each copy in it has everything that was ever safe (RAMCloud, section 4: the log's digest and its
//! replicas; here the record of the copies is the coordinator's, so no search for the newest digest).
//!
//! | file | what |
//! |---|---|
//! | `backup_id` | who has a copy |
//! | `settings` | how many there are to be |
//! | `own` | what the log itself has |
//! | `report` | what the log's writer reports |
//! | `held_up` | whether commits become safe, or are held up |
//! | `lease` | until when nobody takes the log over |
//! | `link` | one copy, followed through the files |
//! | `copies` | all copies of a log: which count, what is safe |
//! | `backup` | a copy, where it lies |
//! | `reclaim` | a log that goes on after its writer's death |
//! | `fetch` | a dead node's log, whose copy is fetched from its backup |
//!
//! What the two ends send is in `sidle-wire`, `copy`.
//!
//! Nothing here does I/O: the caller sends, reads and writes, and reports what became of it.
//!
//! Invariants:
//! - Y1: a commit is safe only when each copy that counts has it, and each that an undecided change names.
//! - Y2: a copy is proposed only when it has everything that is safe.
//! - Y3: one change is undecided at a time. Only the coordinator's decision ends it.
//! - Y4: a file of a copy goes only when the copy has synced what was needed of it.
//! - Y5: a copy that counts is only appended to, and only where it ends. One that is begun again, in whole or
//!   in its last file, does not count.
//! - Y6: a backup takes nothing of an epoch older than the newest that it has seen, also by an earlier start.
//! - Y7: a backup that has restarted is another one: it may lack the end of what it had.
//! - Y8: a log goes on behind the longest of its own files and of the copies that count.
//! - Y9: where copies are synced, a log whose record names no copy has synced what is safe itself, from
//!   before that record is proposed.
//! - Y10: the lease of a log's writer is over before the promise of any copy that counts is.
//! - Y11: a copy that somebody has fenced promises nothing more to whoever wrote it.
//! - Y12: a backup that has restarted keeps what an earlier start may have promised.
//! - Y13: a copy has nothing of a process of its writer before it has forgotten what was gone when that
//!   began. A removal there may have a higher order than what that process writes: it knows the orders only
//!   of what its own log still has.
//! - Y14: a log goes on without an answer of its copies only where its own files end exactly where a writer
//!   closed them when it was stopped. Whatever is made safe later lies in a file that is recorded before
//!   (G6), so from then on the files end elsewhere, also after a loss of power.
//! - Y15: what a process of a backup left is kept as long as that counts. Its next one is not begun anew
//!   before a change without it is decided: a writer that starts meanwhile may need it (Y8).
//! - Y16: a writer sends its copies no epoch beyond those that the log's folder has kept. A start would take
//!   a later one for another writer's.
//! - Y17: a backup gives whoever takes a log over nothing of its copy before that is fenced. And its reader
//!   serves nothing of it before the promise is over that the copy had made by then.

mod backup;
mod backup_id;
mod copies;
mod fetch;
mod held_up;
mod lease;
mod link;
mod own;
mod reclaim;
mod report;
mod settings;

pub use backup::{Answer, Backup, BackupStep, Found, whole_end};
pub use backup_id::BackupId;
pub use copies::{Copies, Event, Record};
pub use fetch::{Fetch, FetchWanted, FetchedCopy, FoundCopy};
pub use lease::LEASE_US;
pub use link::{Sent, check_of, is_end_of};
pub use own::OwnFiles;
pub use reclaim::{Outcome, Reclaim, Wanted};
pub use report::{Change, LogReport};
pub use settings::Settings;
