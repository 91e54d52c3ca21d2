//! Why a transaction did not commit.

use crate::error::Error;
use sidle_client_core::Effect;
use sidle_txn::Lost;

/// What was in a transaction's way. It had no effect, and may succeed if it is tried again.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Conflict {
    /// What it had read has changed.
    #[error("what it had read has changed")]
    Changed,
    /// An older transaction has locked one of its keys.
    #[error("an older transaction has locked one of its keys")]
    Locked,
    /// The keys of one of its commands moved to several nodes while it was sent.
    #[error("the keys of one of its commands were moving from node to node")]
    Moved,
    /// A node decided it, since an answer was lost, or a node could not be reached in time.
    #[error("an answer was missing for too long")]
    Late,
}

/// A transaction that did not commit, or whose end is not known.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum TransactionError {
    /// Another one was in its way, for as long as it was tried. It had no effect.
    #[error("the transaction had no effect: {0}")]
    Conflict(Conflict),
    /// One of its commands failed, or its closure did. It had no effect.
    #[error("the transaction had no effect: {0}")]
    Failed(#[from] Error),
    /// The keys of one of its commands have several owners; the command's place. It had no effect.
    #[error("the transaction had no effect: the keys of its command {0} are on several nodes")]
    SeveralOwners(usize),
    /// It reads a key with a command whose reply is an error, or that it is to write. It had no effect.
    #[error("the transaction had no effect: {0}")]
    Misused(&'static str),
    /// No node answered for a minute. The nodes decide whether it has its effect, all of it or nothing.
    #[error("whether the transaction has its effect is not known: no answer came for a minute")]
    Unknown,
}

impl TransactionError {
    /// Whether it took effect.
    pub fn effect(&self) -> Effect {
        match self {
            TransactionError::Unknown => Effect::Unknown,
            _ => Effect::None,
        }
    }

    /// Of one that a node did not vote for.
    pub(crate) fn of(lost: Lost) -> TransactionError {
        let conflict = match lost {
            Lost::Failed(text) => {
                let text = String::from_utf8_lossy(&text).into_owned();
                return TransactionError::Failed(Error::Server(text));
            }
            Lost::Locked(_) => Conflict::Locked,
            Lost::Changed => Conflict::Changed,
            Lost::Parted => Conflict::Moved,
            Lost::Refused | Lost::Late => Conflict::Late,
        };
        TransactionError::Conflict(conflict)
    }
}
