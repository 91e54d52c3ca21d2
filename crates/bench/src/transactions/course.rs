//! The course of a run: before, the move, after.

use super::day::Day;
use crate::control::Control;
use crate::demo::{DemoError, DemoOptions, request_move};
use crate::load::LOAD_TICK;
use crate::report::Interval;
use crate::terminal::{Line, Terminal};
use crate::timeline::Part;
use crate::words::{bytes, rate};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// The rate that is shown is of so long.
const SHOWN_NS: u64 = 500_000_000;

/// The outcome of the move.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Moved {
    /// When it began and ended, from the beginning of the load.
    pub(crate) interval: Interval,
    /// When the load began and ended, by the day's clock.
    pub(crate) load_ns: [u64; 2],
    pub(crate) records: u64,
    pub(crate) bytes: u64,
}

impl Moved {
    /// How long the load lasted before the move, during it, and after it, in milliseconds.
    pub(crate) fn lengths_ms(&self) -> [f64; 3] {
        let [start_ns, end_ns] = self.load_ns;
        let Interval { from_ms, to_ms } = self.interval;
        [from_ms, to_ms - from_ms, (end_ns - start_ns) as f64 / 1e6 - to_ms]
    }
}

/// What is shown of a run while it lasts.
pub(crate) struct Shown<'a> {
    /// What is committed, in the plural.
    pub(crate) unit: &'a str,
    /// What holds all the time, as of now.
    pub(crate) holds: &'a dyn Fn() -> String,
}

/// The line that shows what happens.
struct Show<'a> {
    day: &'a Day,
    shown: Shown<'a>,
    line: Line,
    /// How much was committed at some moment a short while ago.
    since: (u64, u64),
    rate: Option<f64>,
}

impl Show<'_> {
    fn show(&mut self, what: &str, part: f64, more: &str) {
        let (now_ns, committed) = (self.day.now_ns(), self.day.committed());
        let (then_ns, before) = self.since;
        if now_ns >= then_ns + SHOWN_NS {
            self.rate = Some((committed - before) as f64 * 1e9 / (now_ns - then_ns) as f64);
            self.since = (now_ns, committed);
        }
        let Shown { unit, holds } = &self.shown;
        let rate = self.rate.map_or_else(|| "starting".to_owned(), |shown| format!("{} {unit}", rate(shown)));
        self.line.show(what, part, &format!("{rate}, {}{more}", holds()));
    }
}

/// Has the load run, moves half of the data, and lets it run on.
pub(crate) fn follow(
    day: &Day,
    shown: Shown<'_>,
    options: &DemoOptions,
    (target, mut control): (&str, Control),
    terminal: &Terminal,
    stop: &AtomicBool,
) -> Result<Moved, DemoError> {
    let start_ns = day.enter(Part::Before);
    let (since, holds) = ((start_ns, day.committed()), shown.holds);
    let mut show = Show { day, shown, line: terminal.live(), since, rate: None };
    let margin_ns = options.margin.as_nanos() as u64;
    wait(&mut show, "before", start_ns, margin_ns, stop);
    terminal.say(&format!("before: {}", holds()));
    let since_ns = day.enter(Part::During);
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
    let end_ns = day.enter(Part::After);
    let seconds = (end_ns - since_ns) as f64 / 1e9;
    let moved = bytes(migration.bytes_moved as f64);
    terminal.say(&format!("moved {moved} in {seconds:.2} s: {}", holds()));
    wait(&mut show, "after", end_ns, margin_ns, stop);
    terminal.say(&format!("after: {}", holds()));
    let ms = |at_ns: u64| (at_ns - start_ns) as f64 / 1e6;
    Ok(Moved {
        interval: Interval { from_ms: ms(since_ns), to_ms: ms(end_ns) },
        load_ns: [start_ns, day.now_ns()],
        records: migration.records_moved,
        bytes: migration.bytes_moved,
    })
}

/// Lets the load run for so long.
fn wait(show: &mut Show<'_>, what: &str, since_ns: u64, margin_ns: u64, stop: &AtomicBool) {
    loop {
        let passed_ns = show.day.now_ns() - since_ns;
        if passed_ns >= margin_ns || stop.load(Ordering::Relaxed) {
            return;
        }
        show.show(what, passed_ns as f64 / margin_ns.max(1) as f64, "");
        std::thread::sleep(LOAD_TICK.min(Duration::from_nanos(margin_ns - passed_ns)));
    }
}
