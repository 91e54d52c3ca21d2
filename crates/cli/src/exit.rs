//! The program's end: one message on standard error, and an exit status that scripts can distinguish.

use std::any::Any;
use std::fmt;
use std::panic::{self, AssertUnwindSafe};
use std::process::ExitCode;

/// The exit statuses, as `--help` lists them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Status {
    /// Refused, or could not be started; nothing has changed.
    Refused = 1,
    /// The command line, or the settings that it names, are wrong: others would work. Nothing was begun. The
    /// parser exits with the same status.
    WrongLine = 2,
    /// A migration failed after it had begun, or a takeover waits for a node that is down.
    FailedInTheMiddle = 3,
    /// The node was unreachable, or its connection broke. The request may have taken effect.
    Unreachable = 4,
    /// A check found wrong answers.
    WrongAnswers = 5,
    /// Interrupted; the cluster goes on with the request.
    Detached = 130,
    /// The output's reader has stopped: the status that shells report if the system ends a program for it.
    Unread = 141,
}

/// An error, with the program's exit status.
#[derive(Debug)]
pub struct Failure {
    /// The exit status.
    pub status: Status,
    /// What happened, and the remedy.
    pub message: String,
}

impl Failure {
    /// A failure with this status and message.
    pub fn new(status: Status, message: impl fmt::Display) -> Failure {
        Failure { status, message: message.to_string() }
    }

    /// A command line, or settings, that cannot work.
    pub fn wrong_line(message: impl fmt::Display) -> Failure {
        Failure::new(Status::WrongLine, message)
    }

    /// A request refused by a node or by the machine.
    pub fn refused(message: impl fmt::Display) -> Failure {
        Failure::new(Status::Refused, message)
    }
}

/// Runs a command of this program and reports its outcome. The output's reader may stop, as in
/// `sidle status | head -1`: the command then ends without a message. The library's printing panics there;
/// the command's resources are released as after any panic.
pub fn run(program: &str, command: impl FnOnce() -> Result<(), Failure>) -> ExitCode {
    let usual = panic::take_hook();
    panic::set_hook(Box::new(move |info| {
        if !is_unread(info.payload()) {
            usual(info);
        }
    }));
    match panic::catch_unwind(AssertUnwindSafe(command)) {
        Ok(outcome) => report(program, outcome),
        Err(payload) if is_unread(&*payload) => ExitCode::from(Status::Unread as u8),
        Err(payload) => panic::resume_unwind(payload),
    }
}

/// Whether a panic was caused by output that is no longer read.
fn is_unread(payload: &(dyn Any + Send)) -> bool {
    let text = payload.downcast_ref::<String>();
    text.is_some_and(|text| text.starts_with("failed printing to std") && text.contains("(os error 32)"))
}

/// Checks that the help of a command and of its visible subcommands lists the exit statuses.
///
/// # Panics
/// A help without them.
#[cfg(feature = "testing")]
pub fn assert_exit_statuses(command: &clap::Command) {
    let help = command.get_after_help().map(ToString::to_string).unwrap_or_default();
    let name = command.get_name();
    assert!(help.contains("Exit status"), "the help of '{name}' does not say what it ends with: {help}");
    command.get_subcommands().filter(|command| !command.is_hide_set()).for_each(assert_exit_statuses);
}

/// Reports a failure, if any, and returns the exit status.
fn report(program: &str, outcome: Result<(), Failure>) -> ExitCode {
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            eprintln!("{program}: {}", failure.message);
            ExitCode::from(failure.status as u8)
        }
    }
}
