//! A program's command line.

use clap::{Command, CommandFactory, FromArgMatches};
use std::ffi::OsString;

/// The program's commands, as they are read: a value may begin with a minus. The flag that it belongs to
/// refuses it then, with the values that it takes.
pub fn command<C: CommandFactory>() -> Command {
    reads_negative_numbers(C::command())
}

fn reads_negative_numbers(command: Command) -> Command {
    command.allow_negative_numbers(true).mut_subcommands(reads_negative_numbers)
}

/// The words of a command line, the program's name included, read.
///
/// # Errors
/// Help was asked for, or the words are wrong.
pub fn read<C: CommandFactory + FromArgMatches>(
    words: impl IntoIterator<Item = impl Into<OsString> + Clone>,
) -> Result<C, clap::Error> {
    let mut command = command::<C>();
    let matches = command.try_get_matches_from_mut(words)?;
    C::from_arg_matches(&matches).map_err(|error| error.format(&mut command))
}

/// This process's command line. Ends it, with help or a refusal, if there is nothing to run.
pub fn of_process<C: CommandFactory + FromArgMatches>() -> C {
    read(std::env::args_os()).unwrap_or_else(|error| error.exit())
}
