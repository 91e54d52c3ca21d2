//! The files of a durable log: their format, what is written when, and what can be read again.
//!
//! A log is a row of files, numbered without a gap. Commits are appended to the newest as **blocks**; a full
//! file is closed, and the next one begun. The oldest goes once what is still needed of it was written again.
//!
//! | file | what |
//! |---|---|
//! | `block` | a block, and the head of a file |
//! | `writer` | what is written next, and where |
//! | `steps` | in which order that is written and synced, and what follows a failure |
//! | `kept` | the records that would have to be written again |
//! | `cleaning` | what is still needed of the oldest file |
//! | `reader` | the blocks of a file, and whether what ends them is a tear or damage |
//! | `file_set` | which files there are to be |
//! | `survey` | the same of all files of a log |
//!
//! Nothing here does I/O: the caller writes, syncs and reads, and reports what became of it.
//!
//! Invariants:
//! - G1: a file follows another only when all of that one is synced, up to the first commit that it may have
//!   itself; and its head is synced before anything
//!   else is written to it.
//! - G2: a block names a commit up to which everything was synced before it was written. So a block that does
//!   not check is damage if a later one shows it as synced; otherwise it is the torn end of what no sync
//!   covered, and so is everything behind it.
//! - G3: nothing is written behind a torn end: a log that is read again goes on in a new file.
//! - G4: a file goes only when the commits that have what is needed of it are synced.
//! - G5: a file that could not be synced is never synced again, nor written. What was written behind the last
//!   synced commit is in the next file too, before anything is built on it.
//! - G6: the record of the files names a file only once its head is synced, and before it has a commit. It
//!   names none that may be removed, or begun again.

mod block;
mod cleaning;
mod file_set;
mod kept;
mod reader;
mod steps;
mod survey;
mod writer;

pub use block::{FILE_HEAD_BYTES, file_name, number_of_file};
pub use file_set::{FILE_SET_NAME, FileSet};
pub use reader::{Block, Closing, FileEnd, FileError, LogFile, is_torn_beginning};
pub use steps::{CommitSteps, Failed, Step, Taken};
pub use survey::{Damage, Survey, SurveyedFile, survey};
pub use writer::{LogWriter, Settings, Syncs, Write};
