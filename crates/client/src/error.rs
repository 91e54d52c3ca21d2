//! Why an operation failed, and whether it took effect.

use sidle_client_core::{Effect, Failure, Reason};
use sidle_cluster::ParseHostPortError;
use sidle_resp::Value;

/// A failed operation. [`effect`](Self::effect) returns whether it took effect.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum Error {
    /// The server answered with this error.
    #[error("the server answered: {0}")]
    Server(String),
    /// There was no answer.
    #[error(transparent)]
    NoAnswer(#[from] Failure),
    /// More operations are under way than the settings allow.
    #[error("too many operations are under way; start fewer at a time or raise max_outstanding")]
    Busy,
    /// The client's task has ended, with its runtime.
    #[error("the client's runtime has ended; whether the operation had its effect is unknown")]
    Closed,
    /// The server sent a reply that the command never has.
    #[error("the server answered {reply:?}, which {command} never does")]
    UnexpectedReply {
        /// The command.
        command: &'static str,
        /// The reply.
        reply: Value,
    },
    /// A command without a name, or without the key that it needs.
    #[error("the command lacks {0}")]
    IncompleteCommand(&'static str),
    /// A node's address is invalid.
    #[error(transparent)]
    Address(#[from] ParseHostPortError),
    /// No node of the cluster was usable.
    #[error("no node could be reached: {why}")]
    Unreachable {
        /// The last problem.
        why: String,
    },
}

/// The codes of a node that does not know whether a command has run: not now, or never again.
const UNKNOWN: [&str; 2] = ["SIDLEUNKNOWN ", "SIDLELATE "];

impl Error {
    /// The error of a command that was sent several times.
    pub(crate) fn if_it_may_have_run(self, may_have_run: bool) -> Error {
        match self {
            Error::NoAnswer(failure) if may_have_run => {
                Error::NoAnswer(Failure { effect: Effect::Unknown, ..failure })
            }
            Error::Busy if may_have_run => {
                Error::NoAnswer(Failure { reason: Reason::TimedOut, effect: Effect::Unknown })
            }
            error => error,
        }
    }

    /// Whether the operation took effect.
    pub fn effect(&self) -> Effect {
        match self {
            Error::NoAnswer(failure) => failure.effect,
            Error::Server(text) if UNKNOWN.iter().any(|code| text.starts_with(code)) => Effect::Unknown,
            Error::Closed => Effect::Unknown,
            Error::UnexpectedReply { .. } => Effect::Done,
            Error::Server(_)
            | Error::Busy
            | Error::IncompleteCommand(_)
            | Error::Address(_)
            | Error::Unreachable { .. } => Effect::None,
        }
    }
}
