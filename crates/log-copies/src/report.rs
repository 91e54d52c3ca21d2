//! What the log's writer reports to its copies.

use sidle_log_files::Step;
use sidle_types::CommitNumber;
use sidle_wire::Place;

/// What the log's writer reports, in the order in which it happened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LogReport {
    /// The log is written up to here; with the commit that ends here, if one does.
    Written(Place, Option<CommitNumber>),
    /// Everything up to this commit is safe, as far as the writer's own disk goes.
    SafeHere {
        /// That commit.
        commit: CommitNumber,
        /// The last one that is synced.
        synced: CommitNumber,
    },
    /// The log's oldest file is gone.
    Removed(u64),
}

/// What a step of the writer changes for the copies, once it is done.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Change {
    /// Nothing.
    #[default]
    Nothing,
    /// The log is written up to here, and whether a commit ends there.
    Write(Place, bool),
    /// The log's oldest file goes.
    Removal(u64),
}

impl Change {
    /// That of this step.
    pub fn of(step: &Step<'_>) -> Change {
        match step {
            Step::Write(write) => {
                let bytes = write.head.len() + write.records.len() + write.padding;
                let to = Place { file: write.file, at: write.at + bytes as u64 };
                Change::Write(to, !write.records.is_empty())
            }
            Step::Remove(file) => Change::Removal(*file),
            _ => Change::Nothing,
        }
    }

    /// It is done. `last`: the last commit that is written.
    pub fn report(self, last: CommitNumber) -> Option<LogReport> {
        match self {
            Change::Nothing => None,
            Change::Write(to, ends_commit) => Some(LogReport::Written(to, ends_commit.then_some(last))),
            Change::Removal(file) => Some(LogReport::Removed(file)),
        }
    }
}
