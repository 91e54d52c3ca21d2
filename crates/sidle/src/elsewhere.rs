//! Commands that stand elsewhere: refused with the command line that works.

use clap::Args;
use sidle_cli::exit::Failure;
use std::ffi::OsString;

/// Everything after such a command.
#[derive(Debug, Args)]
#[command(disable_help_flag = true)]
pub(crate) struct ElsewhereArguments {
    #[arg(trailing_var_arg = true, allow_hyphen_values = true, hide = true)]
    words: Vec<OsString>,
}

/// Refuses what is a flag of `sidle migrate`. `here`: the words behind the program's name.
pub(crate) fn refuse_cancel(here: &str, arguments: &ElsewhereArguments) -> Result<(), Failure> {
    let words = arguments.words.iter().map(|word| word.to_string_lossy());
    let words: Vec<_> = words.filter(|word| word != "--help" && word != "-h").collect();
    let rest = if words.is_empty() { "ID".into() } else { words.join(" ") };
    Err(Failure::wrong_line(format!("there is no 'sidle {here}': write `sidle migrate --cancel {rest}`")))
}

/// Refuses `here`, which is `there` in the program `sidle-lab`, with the same arguments.
pub(crate) fn refuse(here: &str, there: &[&str], arguments: &ElsewhereArguments) -> Result<(), Failure> {
    let words = arguments.words.iter().map(|word| word.to_string_lossy());
    let line: Vec<String> =
        there.iter().map(|word| (*word).to_owned()).chain(words.map(|word| word.into_owned())).collect();
    let line = if line.is_empty() { "--help".to_owned() } else { line.join(" ") };
    Err(Failure::wrong_line(format!(
        "'{here}' is in a program of its own: sidle-lab {line}\n  From Sidle's sources: cargo run --release \
         --package sidle-lab -- {line}"
    )))
}
