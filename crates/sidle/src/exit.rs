//! How the program ends: one message on standard error, and an exit status that scripts can tell apart.

use std::fmt;
use std::process::ExitCode;

/// The exit statuses, as `sidle --help` lists them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Status {
    /// Refused, or could not be started; nothing has changed.
    Refused = 1,
    /// A migration failed after it had begun.
    FailedInTheMiddle = 3,
    /// The node could not be reached, or the connection to it broke. Whatever was asked may have happened.
    Unreachable = 4,
    /// A check found wrong answers.
    WrongAnswers = 5,
    /// Interrupted; what was asked of a cluster goes on.
    Detached = 130,
}

/// An error together with the status that the program ends with.
#[derive(Debug)]
pub(crate) struct Failure {
    /// What to end with.
    pub(crate) status: Status,
    /// What happened and what to do about it.
    pub(crate) message: String,
}

impl Failure {
    /// A failure with this status and message.
    pub(crate) fn new(status: Status, message: impl fmt::Display) -> Failure {
        Failure { status, message: message.to_string() }
    }

    /// A request that was refused.
    pub(crate) fn refused(message: impl fmt::Display) -> Failure {
        Failure::new(Status::Refused, message)
    }
}

/// Says what went wrong, if anything did, and turns it into the exit status.
pub(crate) fn report(outcome: Result<(), Failure>) -> ExitCode {
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            eprintln!("sidle: {}", failure.message);
            ExitCode::from(failure.status as u8)
        }
    }
}
