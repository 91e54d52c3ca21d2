//! The course of the bank's day: before, the move, after.

use super::books::Books;
use crate::control::Control;
use crate::demo::{DemoError, DemoOptions, request_move};
use crate::load::LOAD_TICK;
use crate::report::Interval;
use crate::terminal::{Line, Terminal};
use crate::timeline::Part;
use crate::words::{bytes, count, counted, rate};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// The rate that is shown is of so long.
const SHOWN_NS: u64 = 500_000_000;

/// The outcome of the move.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct BankMoved {
    /// When it began and ended, from the beginning of the load.
    pub(crate) interval: Interval,
    /// When the load began and ended, by the books' clock.
    pub(crate) load_ns: [u64; 2],
    pub(crate) records: u64,
    pub(crate) bytes: u64,
}

/// The line that shows what happens.
struct Show<'a> {
    books: &'a Books,
    line: Line,
    /// The transfers at some moment a short while ago.
    since: (u64, u64),
    rate: Option<f64>,
}

impl Show<'_> {
    fn show(&mut self, what: &str, part: f64, more: &str) {
        let (now_ns, transfers) = (self.books.now_ns(), self.books.transfers());
        let (then_ns, before) = self.since;
        if now_ns >= then_ns + SHOWN_NS {
            self.rate = Some((transfers - before) as f64 * 1e9 / (now_ns - then_ns) as f64);
            self.since = (now_ns, transfers);
        }
        let rate =
            self.rate.map_or_else(|| "starting".to_owned(), |shown| format!("{} transfers", rate(shown)));
        self.line.show(what, part, &format!("{rate}, {}{more}", sum_in_words(self.books)));
    }
}

/// The last sum, and how many there were.
fn sum_in_words(books: &Books) -> String {
    let sums = books.sums();
    let Some(last) = sums.last else { return "no sum yet".to_owned() };
    let wrong = match sums.wrong {
        0 => String::new(),
        wrong => format!(", {} WRONG", count(wrong)),
    };
    format!("sum {} ({}{wrong})", count(last.max(0) as u64), counted(sums.count, "time"))
}

/// Has the load run, moves half of the data, and lets it run on.
pub(crate) fn follow(
    books: &Books,
    options: &DemoOptions,
    target: &str,
    mut control: Control,
    terminal: &Terminal,
    stop: &AtomicBool,
) -> Result<BankMoved, DemoError> {
    let start_ns = books.enter(Part::Before);
    let mut show = Show { books, line: terminal.live(), since: (start_ns, books.transfers()), rate: None };
    let margin_ns = options.margin.as_nanos() as u64;
    wait(&mut show, "before", start_ns, margin_ns, stop);
    terminal.say(&format!("before: {}", sum_in_words(books)));
    let since_ns = books.enter(Part::During);
    let id = request_move(&mut control, options, target)?;
    let migration = loop {
        let migration = control.await_end(id, LOAD_TICK)?;
        let moved = format!(", {} moved", bytes(migration.bytes_moved as f64));
        show.show("moving", migration.fraction, &moved);
        match migration.state.as_str() {
            "done" => break migration,
            state @ ("failed" | "cancelled") => {
                let why = migration.why.unwrap_or_else(|| "no reason was given".to_owned());
                return Err(DemoError::Migration(format!("{state}: {why}")));
            }
            _ if stop.load(Ordering::Relaxed) => return Err(DemoError::Interrupted),
            _ => {}
        }
    };
    let end_ns = books.enter(Part::After);
    let seconds = (end_ns - since_ns) as f64 / 1e9;
    let moved = bytes(migration.bytes_moved as f64);
    terminal.say(&format!("moved {moved} in {seconds:.2} s: {}", sum_in_words(books)));
    wait(&mut show, "after", end_ns, margin_ns, stop);
    terminal.say(&format!("after: {}", sum_in_words(books)));
    let ms = |at_ns: u64| (at_ns - start_ns) as f64 / 1e6;
    Ok(BankMoved {
        interval: Interval { from_ms: ms(since_ns), to_ms: ms(end_ns) },
        load_ns: [start_ns, books.now_ns()],
        records: migration.records_moved,
        bytes: migration.bytes_moved,
    })
}

/// Lets the load run for so long.
fn wait(show: &mut Show<'_>, what: &str, since_ns: u64, margin_ns: u64, stop: &AtomicBool) {
    loop {
        let passed_ns = show.books.now_ns() - since_ns;
        if passed_ns >= margin_ns || stop.load(Ordering::Relaxed) {
            return;
        }
        show.show(what, passed_ns as f64 / margin_ns.max(1) as f64, "");
        std::thread::sleep(LOAD_TICK.min(Duration::from_nanos(margin_ns - passed_ns)));
    }
}
