//! What the terminal shows while a run lasts. On standard error; nothing moves where that is no terminal.

use crate::words::rate;
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressState, ProgressStyle};
use std::fmt::Write;
use std::io::IsTerminal;

/// The display of one run.
#[derive(Debug)]
pub struct Terminal {
    is_quiet: bool,
}

impl Terminal {
    /// A display; a quiet one shows nothing.
    pub const fn new(is_quiet: bool) -> Terminal {
        Terminal { is_quiet }
    }

    fn bar(&self, length: Option<u64>) -> ProgressBar {
        let target =
            if self.is_quiet { ProgressDrawTarget::hidden() } else { ProgressDrawTarget::stderr_with_hz(10) };
        ProgressBar::with_draw_target(length, target)
    }

    /// A line that stays.
    pub fn say(&self, text: &str) {
        if !self.is_quiet {
            eprintln!("{text}");
        }
    }

    /// A bar for work of known size; finish it with `finish_and_clear`.
    pub fn progress(&self, what: &'static str, total: u64) -> ProgressBar {
        let bar = self.bar(Some(total));
        let style = ProgressStyle::with_template("{msg:12} {bar:30} {human_pos} of {human_len}, {rate}");
        let style = style.expect("the template is a constant").progress_chars("=> ");
        let written = |state: &ProgressState, text: &mut dyn Write| {
            // A display that cannot be written to shows nothing.
            let _ = text.write_str(&rate(state.per_sec()));
        };
        bar.set_style(style.with_key("rate", written));
        bar.set_message(what);
        bar
    }

    /// A bar for a number of runs; its message is what runs at present.
    pub fn runs(&self, total: u64) -> ProgressBar {
        let bar = self.bar(Some(total));
        let style = ProgressStyle::with_template("{bar:20} {pos} of {len} runs, {wide_msg}");
        bar.set_style(style.expect("the template is a constant").progress_chars("=> "));
        bar
    }

    /// A line for where no bar can be seen.
    pub fn note(&self, text: &str) {
        if !std::io::stderr().is_terminal() {
            self.say(text);
        }
    }

    /// A line that changes, with a bar for the part of the run it is in.
    pub fn live(&self) -> ProgressBar {
        let bar = self.bar(Some(1000));
        let style = ProgressStyle::with_template("{prefix:12} {bar:30} {msg}");
        bar.set_style(style.expect("the template is a constant").progress_chars("=> "));
        bar
    }
}
