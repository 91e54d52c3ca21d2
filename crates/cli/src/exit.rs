//! How the program ends: one message on standard error, and an exit status that scripts can tell apart.

use std::any::Any;
use std::fmt;
use std::panic::{self, AssertUnwindSafe};
use std::process::ExitCode;

/// The exit statuses, as `--help` lists them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Status {
    /// Refused, or could not be started; nothing has changed.
    Refused = 1,
    /// The command line is wrong, or the settings that it names: another one would do. Nothing was begun. The
    /// parser ends with the same.
    WrongLine = 2,
    /// A migration failed after it had begun.
    FailedInTheMiddle = 3,
    /// The node could not be reached, or the connection to it broke. Whatever was asked may have happened.
    Unreachable = 4,
    /// A check found wrong answers.
    WrongAnswers = 5,
    /// Interrupted; what was asked of a cluster goes on.
    Detached = 130,
    /// Whoever read the output has stopped: what shells give a program that the system ended for that.
    Unread = 141,
}

/// An error together with the status that the program ends with.
#[derive(Debug)]
pub struct Failure {
    /// What to end with.
    pub status: Status,
    /// What happened and what to do about it.
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

    /// A request that was refused, or something that the machine refused.
    pub fn refused(message: impl fmt::Display) -> Failure {
        Failure::new(Status::Refused, message)
    }
}

/// Runs a command of this program and reports what it came to. Whoever reads the output may stop, as in
/// `sidle status | head -1`: the command then ends without a word. The library's printing panics there;
/// everything that the command holds goes as it does after any other panic.
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

/// Whether a panic says that nobody reads the output any more.
fn is_unread(payload: &(dyn Any + Send)) -> bool {
    let text = payload.downcast_ref::<String>();
    text.is_some_and(|text| text.starts_with("failed printing to std") && text.contains("(os error 32)"))
}

/// Looks for the exit statuses in the help of a command and of all its subcommands that are shown.
///
/// # Panics
/// One does not have them.
#[cfg(feature = "testing")]
pub fn assert_exit_statuses(command: &clap::Command) {
    let help = command.get_after_help().map(ToString::to_string).unwrap_or_default();
    let name = command.get_name();
    assert!(help.contains("Exit status"), "the help of '{name}' does not say what it ends with: {help}");
    command.get_subcommands().filter(|command| !command.is_hide_set()).for_each(assert_exit_statuses);
}

/// Says what went wrong, if anything did, and turns it into the exit status.
fn report(program: &str, outcome: Result<(), Failure>) -> ExitCode {
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            eprintln!("{program}: {}", failure.message);
            ExitCode::from(failure.status as u8)
        }
    }
}
