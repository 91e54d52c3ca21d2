//! Why nothing was taken over.

use crate::config::Size;
use crate::durable_log::recover::RecoverError;
use sidle_log_files::Damage;
use sidle_store::{RecoveryError, ReplayError, StoreError};
use std::io;
use std::path::PathBuf;

/// Why nothing was taken over.
#[derive(Debug, thiserror::Error)]
pub(crate) enum TakeOverError {
    /// The system refused.
    #[error("cannot read the copy of a durable log in {}: {error}", path.display())]
    Refused {
        /// The folder.
        path: PathBuf,
        /// The system's error.
        error: io::Error,
    },
    /// What was safe on the disk cannot be read.
    #[error("the copy of a durable log in {} is damaged: {damage}. Nothing was changed", path.display())]
    Damaged {
        /// The folder.
        path: PathBuf,
        /// What is damaged.
        damage: Damage,
    },
    /// A file's records are damaged, though its checksums are right.
    #[error("the copy of a durable log in {} cannot be replayed: {why} in {file}", path.display())]
    Replay {
        /// The folder.
        path: PathBuf,
        /// The file.
        file: String,
        /// What is wrong.
        why: RecoveryError,
    },
    /// The copy cannot be read with so little memory, also in the most parts.
    #[error("the copy of a durable log in {} needs more than {memory} of memory to be read", path.display())]
    TooMuch {
        /// The folder.
        path: PathBuf,
        /// The limit.
        memory: Size,
    },
    /// The scratch store cannot be made.
    #[error("no memory to read the copy of a durable log: {0}")]
    Scratch(#[from] StoreError),
    /// The live store has no room.
    #[error("what is to be taken over needs {needed} more, and {free} are free: raise max_memory")]
    NoMemory {
        /// What is left to be put in.
        needed: Size,
        /// What the live store has room for.
        free: Size,
    },
    /// The live store did not take what the scratch store has.
    #[error("what was read of the copy of a durable log was not taken: {0}")]
    NotTaken(ReplayError),
    /// The system refused a thread for it.
    #[error("the operating system refused a thread: {0}")]
    Threads(io::Error),
    /// It was given up.
    #[error("the take-over was given up")]
    Stopped,
}

impl TakeOverError {
    /// Whether another copy of the same log may do.
    pub(crate) fn is_of_the_copy(&self) -> bool {
        use TakeOverError::{Damaged, Refused, Replay};
        matches!(self, Refused { .. } | Damaged { .. } | Replay { .. })
    }
}

impl From<RecoverError> for TakeOverError {
    fn from(error: RecoverError) -> TakeOverError {
        match error {
            RecoverError::Refused { path, error } => TakeOverError::Refused { path, error },
            RecoverError::Damaged { path, damage } => TakeOverError::Damaged { path, damage },
            RecoverError::Replay { path, file, why } => TakeOverError::Replay { path, file, why },
            RecoverError::TooMuch { path, memory } => TakeOverError::TooMuch { path, memory },
            RecoverError::Threads(error) => TakeOverError::Threads(error),
            RecoverError::Deposed { path, .. } => {
                TakeOverError::Refused { path, error: io::ErrorKind::Other.into() }
            }
            RecoverError::Stopped => TakeOverError::Stopped,
        }
    }
}
