//! The terminal's display during a run, on standard error; nothing moves if that is no terminal.

use crate::words::rate;
use indicatif::{
    MultiProgress, ProgressBar, ProgressDrawTarget, ProgressFinish, ProgressState, ProgressStyle,
};
use std::fmt::Write;
use std::io::IsTerminal;

/// The display of one run. Its bars disappear when dropped, in every case, and permanent lines are
/// written above them.
#[derive(Debug)]
pub struct Terminal {
    is_quiet: bool,
    bars: MultiProgress,
}

impl Terminal {
    /// A display; a quiet one shows nothing.
    pub fn new(is_quiet: bool) -> Terminal {
        let target =
            if is_quiet { ProgressDrawTarget::hidden() } else { ProgressDrawTarget::stderr_with_hz(10) };
        Terminal { is_quiet, bars: MultiProgress::with_draw_target(target) }
    }

    fn bar(&self, length: u64, template: &str) -> ProgressBar {
        let bar = self.bars.add(ProgressBar::new(length).with_finish(ProgressFinish::AndClear));
        let style = ProgressStyle::with_template(template).expect("the templates are constants");
        let written = |state: &ProgressState, text: &mut dyn Write| {
            // A display that cannot be written to shows nothing.
            let _ = text.write_str(&rate(state.per_sec()));
        };
        bar.set_style(style.progress_chars("=> ").with_key("rate", written));
        bar
    }

    /// A permanent line.
    pub fn say(&self, text: &str) {
        if !self.is_quiet {
            self.bars.suspend(|| eprintln!("{text}"));
        }
    }

    /// A bar for work of known size, until it is dropped.
    pub fn progress(&self, what: &'static str, total: u64) -> ProgressBar {
        let bar = self.bar(total, "{msg:12} {bar:30} {human_pos} of {human_len}, {rate}");
        bar.set_message(what);
        bar
    }

    /// A bar for a number of runs, until it is dropped; its message is the present run.
    pub fn runs(&self, total: u64) -> ProgressBar {
        self.bar(total, "{bar:20} {pos} of {len} runs, {wide_msg}")
    }

    /// A line for terminals that show no bar.
    pub fn note(&self, text: &str) {
        if !std::io::stderr().is_terminal() {
            self.say(text);
        }
    }

    /// A line that changes, with a bar for the present part of the run, until it is dropped.
    pub fn live(&self) -> ProgressBar {
        self.bar(1000, "{prefix:12} {bar:30} {wide_msg}")
    }
}
