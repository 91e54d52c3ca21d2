//! The terminal's display during a run, on standard error; nothing moves if that is no terminal.

use crate::words::{count, rate};
use indicatif::{MultiProgress, ProgressBar, ProgressDrawTarget, ProgressFinish, ProgressStyle};
use std::io::{IsTerminal, stderr};

/// The columns of a terminal that does not report them.
const USUAL_COLUMNS: usize = 80;
/// The columns of the longest bar, and of the shortest that is drawn.
const LONGEST_BAR: usize = 30;
const SHORTEST_BAR: usize = 8;

/// The display of one run. Its lines disappear when dropped, in every case, and permanent lines are
/// written above them.
#[derive(Debug)]
pub struct Terminal {
    is_quiet: bool,
    bars: MultiProgress,
}

/// A line that changes, with a bar, until it is dropped.
#[derive(Debug)]
pub struct Line(ProgressBar);

impl Terminal {
    /// A display; a quiet one shows nothing.
    pub fn new(is_quiet: bool) -> Terminal {
        let target =
            if is_quiet { ProgressDrawTarget::hidden() } else { ProgressDrawTarget::stderr_with_hz(10) };
        Terminal { is_quiet, bars: MultiProgress::with_draw_target(target) }
    }

    /// A permanent line.
    pub fn say(&self, text: &str) {
        if !self.is_quiet {
            self.bars.suspend(|| eprintln!("{text}"));
        }
    }

    /// A line for terminals that show no bar.
    pub fn note(&self, text: &str) {
        if !stderr().is_terminal() {
            self.say(text);
        }
    }

    /// A line that changes.
    pub fn live(&self) -> Line {
        let style = ProgressStyle::with_template("{msg}").expect("the template is a constant");
        let bar = ProgressBar::no_length().with_style(style).with_finish(ProgressFinish::AndClear);
        Line(self.bars.add(bar))
    }

    /// A line for work of known size, which is told how much is done, until it is dropped.
    pub fn progress(&self, what: &'static str, total: u64) -> impl Fn(u64) + use<> {
        let line = self.live();
        move |done| {
            line.0.set_position(done);
            let text = format!("{} of {}, {}", count(done), count(total), rate(line.0.per_sec()));
            line.show(what, done as f64 / total as f64, &text);
        }
    }
}

impl Line {
    /// Shows what is being done, the part of it that is done, and words that end earlier where the terminal
    /// does.
    pub fn show(&self, what: &str, part: f64, text: &str) {
        let size = rustix::termios::tcgetwinsize(stderr()).ok();
        let columns = size.map(|size| usize::from(size.ws_col)).filter(|&columns| columns > 0);
        self.0.set_message(line(what, part, text, columns.unwrap_or(USUAL_COLUMNS)));
    }

    /// Shows how many runs are made, and the present one.
    pub fn show_run(&self, made: usize, all: usize, run: &str) {
        self.show(&format!("{made} of {all} runs"), made as f64 / all as f64, run);
    }
}

/// A line of a display with this many columns.
fn line(what: &str, part: f64, text: &str, columns: usize) -> String {
    let words = format!("{what:<12} {text}");
    // Its brackets and a space.
    let width = columns.saturating_sub(words.chars().count() + 3).min(LONGEST_BAR);
    if width < SHORTEST_BAR {
        return shortened(&words, columns);
    }
    let done = "=".repeat((part.clamp(0.0, 1.0) * width as f64) as usize);
    let bar = if done.len() < width { done + ">" } else { done };
    format!("{what:<12} [{bar:<width$}] {text}")
}

/// A text in this many columns: where it is cut, whole parts stay, or else whole words.
fn shortened(text: &str, columns: usize) -> String {
    if text.chars().count() <= columns {
        return text.to_owned();
    }
    let room: String = text.chars().take(columns.saturating_sub(2)).collect();
    let part = [", ", "; ", ". "].into_iter().filter_map(|mark| room.rfind(mark)).max();
    let end = part.or_else(|| room.rfind(' ')).unwrap_or(room.len());
    format!("{} \u{2026}", room[..end].trim_end())
}

#[cfg(test)]
mod tests {
    use super::*;

    const FIGURES: &str = "1,234,567/s, reads p50 123 µs p99 1.23 ms, 123 MB moved";

    #[test]
    fn a_line_fits_any_terminal_and_keeps_whole_figures() {
        for columns in 1..200 {
            let line = line("moving", 0.5, FIGURES, columns);
            assert!(line.chars().count() <= columns.max(2), "{columns}: {line}");
            if let Some(kept) = line.strip_suffix(" \u{2026}").filter(|_| columns > 40) {
                assert!(kept.ends_with("/s") || kept.ends_with(" ms"), "{columns}: {line}");
            }
        }
        assert_eq!(
            line("moving", 0.5, FIGURES, 200),
            format!("moving       [{:<30}] {FIGURES}", "=".repeat(15) + ">")
        );
        assert_eq!(line("moving", 1.0, FIGURES, 80), format!("moving       [=========] {FIGURES}"));
        assert_eq!(line("moving", 1.0, FIGURES, 70), format!("moving       {FIGURES}"));
    }

    #[test]
    fn a_text_is_cut_behind_a_part_or_else_a_word() {
        let trouble =
            "cannot reach a server at 127.0.0.1:6379: Connection refused (os error 111). Start a node";
        let refused = "cannot reach a server at 127.0.0.1:6379: Connection refused (os error 111) \u{2026}";
        assert_eq!(shortened(trouble, 85), refused);
        assert_eq!(shortened(trouble, 60), "cannot reach a server at 127.0.0.1:6379: Connection \u{2026}");
        assert_eq!(shortened(trouble, trouble.len()), trouble);
        assert_eq!(shortened("unbreakable", 6), "unbr \u{2026}");
    }
}
