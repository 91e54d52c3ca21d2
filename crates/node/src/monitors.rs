//! MONITOR: the commands that this node's workers run, a line each, for the connections that asked for them.
//!
//! A worker that has run a command writes its line once, and appends it to the lines of every monitor. The
//! worker of a monitor is woken for the first of them, and sends all that are there.
//!
//! Invariants:
//! - J1: every line is whole, and all monitors get them in one order. One client's are in the order in which
//!   its commands ran; those of clients of other workers lie between them.
//! - J2: no line shows a secret: passwords are left out, and so are commands for administrators.
//! - J3: lines that wait for a monitor's worker are bounded as a client's output is. Who would pass that gets
//!   no more, and is closed.

use crate::detours::Detours;
use crate::observe::is_secret;
use crate::queue::WorkerIndex;
use crate::tally::Tally;
use crate::worker_wakes::WorkerWakes;
use sidle_commands::CommandFlags;
use std::io::Write;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// The monitors of a node.
#[derive(Debug)]
pub(crate) struct Monitors {
    feeds: Mutex<Vec<Arc<Feed>>>,
    /// How many.
    count: AtomicU32,
    /// By worker: whether there are lines for a monitor of its.
    due: Vec<AtomicBool>,
    detours: Arc<Detours>,
    wakes: Arc<WorkerWakes>,
}

/// One monitor's lines.
#[derive(Debug)]
struct Feed {
    worker: WorkerIndex,
    lines: Mutex<Lines>,
    /// What they take in memory.
    held: Arc<Tally>,
}

#[derive(Debug, Default)]
struct Lines {
    bytes: Vec<u8>,
    /// There were too many of them.
    is_over: bool,
}

/// A command that has run.
pub(crate) struct Shown<'c> {
    /// When, in microseconds of the wall clock.
    pub(crate) at_us: u64,
    /// Its client's address.
    pub(crate) address: &'c str,
    /// The command's name and flags.
    pub(crate) name: &'c str,
    pub(crate) flags: CommandFlags,
    /// Its words, as the client gave them.
    pub(crate) args: &'c [&'c [u8]],
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // Lines are whole wherever a panic could happen.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Monitors {
    /// No monitors, at a node with so many workers.
    pub(crate) fn new(workers: usize, detours: &Arc<Detours>, wakes: &Arc<WorkerWakes>) -> Monitors {
        Monitors {
            feeds: Mutex::default(),
            count: AtomicU32::new(0),
            due: (0..workers).map(|_| AtomicBool::new(false)).collect(),
            detours: Arc::clone(detours),
            wakes: Arc::clone(wakes),
        }
    }

    /// Whether there is any.
    #[inline]
    pub(crate) fn is_any(&self) -> bool {
        self.count.load(Ordering::Relaxed) != 0
    }

    /// A connection of this worker monitors from here on. `held`: what its lines take in memory.
    pub(crate) fn begin(self: &Arc<Self>, worker: WorkerIndex, held: &Arc<Tally>) -> Monitoring {
        let feed = Arc::new(Feed { worker, lines: Mutex::default(), held: Arc::clone(held) });
        lock(&self.feeds).push(Arc::clone(&feed));
        self.count.fetch_add(1, Ordering::Relaxed);
        self.detours.begin();
        Monitoring { feed, monitors: Arc::clone(self) }
    }

    /// A command has run: every monitor gets its line. `most_bytes`: of the lines that wait for one.
    #[cold]
    pub(crate) fn show(&self, command: &Shown<'_>, most_bytes: usize) {
        if command.flags.contains(CommandFlags::ADMIN) {
            return;
        }
        let line = command.line(most_bytes);
        for feed in lock(&self.feeds).iter() {
            if feed.add(line.as_deref(), most_bytes) {
                self.due[usize::from(feed.worker.0)].store(true, Ordering::Release);
                self.wakes.add(feed.worker);
            }
        }
    }

    /// Whether there are lines for a monitor of this worker, since the last call.
    #[inline]
    pub(crate) fn take_due(&self, worker: WorkerIndex) -> bool {
        let due = &self.due[usize::from(worker.0)];
        due.load(Ordering::Relaxed) && due.swap(false, Ordering::AcqRel)
    }
}

impl Feed {
    /// Appends a line; `None` is one that is too long. Returns whether its worker is to be woken.
    fn add(&self, line: Option<&[u8]>, most_bytes: usize) -> bool {
        let mut lines = lock(&self.lines);
        if lines.is_over {
            return false;
        }
        let was_empty = lines.bytes.is_empty();
        match line.filter(|line| lines.bytes.len() + line.len() <= most_bytes) {
            Some(line) => lines.bytes.extend_from_slice(line),
            None => *lines = Lines { bytes: Vec::new(), is_over: true },
        }
        self.held.set(lines.bytes.capacity() as u64);
        was_empty || lines.is_over
    }
}

impl Shown<'_> {
    /// Its line, unless that has more than so many bytes.
    fn line(&self, most_bytes: usize) -> Option<Vec<u8>> {
        let (seconds, micros) = (self.at_us / 1_000_000, self.at_us % 1_000_000);
        let mut line = Vec::with_capacity(128);
        write!(line, "+{seconds}.{micros:06} [0 {}]", self.address).expect("writing to memory cannot fail");
        for (index, arg) in self.args.iter().enumerate() {
            // Each byte is one at least: what is too long is not written first.
            if line.len() + arg.len() > most_bytes {
                return None;
            }
            line.extend_from_slice(b" \"");
            match is_secret(self.name, self.args, index) {
                true => line.extend_from_slice(b"(redacted)"),
                false => arg.iter().for_each(|&byte| quote(byte, &mut line)),
            }
            line.push(b'"');
        }
        line.extend_from_slice(b"\r\n");
        (line.len() <= most_bytes).then_some(line)
    }
}

/// Writes a byte between quotation marks as Redis does.
fn quote(byte: u8, out: &mut Vec<u8>) {
    let letter = match byte {
        b'\\' | b'"' => byte,
        b'\n' => b'n',
        b'\r' => b'r',
        b'\t' => b't',
        0x07 => b'a',
        0x08 => b'b',
        0x20..=0x7e => return out.push(byte),
        _ => return write!(out, "\\x{byte:02x}").expect("writing to memory cannot fail"),
    };
    out.extend_from_slice(&[b'\\', letter]);
}

/// A connection's place among the monitors, until it is dropped.
#[derive(Debug)]
pub(crate) struct Monitoring {
    feed: Arc<Feed>,
    monitors: Arc<Monitors>,
}

impl Monitoring {
    /// Appends the lines since the last call to `out`; `None` if they were too many.
    pub(crate) fn take_lines(&self, out: &mut Vec<u8>) -> Option<()> {
        let mut lines = lock(&self.feed.lines);
        if lines.is_over {
            return None;
        }
        match out.is_empty() {
            true => std::mem::swap(out, &mut lines.bytes),
            false => out.append(&mut lines.bytes),
        }
        lines.bytes = Vec::new();
        self.feed.held.set(0);
        Some(())
    }
}

impl Drop for Monitoring {
    fn drop(&mut self) {
        lock(&self.monitors.feeds).retain(|feed| !Arc::ptr_eq(feed, &self.feed));
        self.monitors.count.fetch_sub(1, Ordering::Relaxed);
        self.monitors.detours.end();
        // Nobody adds to it any more.
        self.feed.held.set(0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(args: &[&[u8]], most_bytes: usize) -> Option<String> {
        let name = String::from_utf8_lossy(args[0]).to_ascii_lowercase();
        let (at_us, address) = (1_339_518_083_107_412, "127.0.0.1:60866");
        let shown = Shown { at_us, address, name: &name, flags: CommandFlags::NONE, args };
        shown.line(most_bytes).map(|line| String::from_utf8(line).expect("a text"))
    }

    #[test]
    fn a_line_quotes_its_arguments() {
        assert_eq!(
            line(&[b"keys", b"*"], 1000).as_deref(),
            Some("+1339518083.107412 [0 127.0.0.1:60866] \"keys\" \"*\"\r\n")
        );
        let odd = line(&[b"Echo", b"\\ \" \n \r \t \x07 \x08 \x00 \x7f \xe9 a~"], 1000).expect("a line");
        let quoted = r#" "Echo" "\\ \" \n \r \t \a \b \x00 \x7f \xe9 a~""#;
        assert_eq!(odd.trim_end().split_once(']').map(|(_, words)| words), Some(quoted));
    }

    #[test]
    fn secrets_are_left_out() {
        for (args, shown) in [
            (&[&b"auth"[..], b"secret"][..], r#""auth" "(redacted)""#),
            (&[b"AUTH", b"me", b"secret"], r#""AUTH" "(redacted)" "(redacted)""#),
            (&[b"hello", b"3", b"auth", b"me", b"secret"], r#""hello" "3" "auth" "(redacted)" "(redacted)""#),
        ] {
            assert!(line(args, 1000).is_some_and(|line| line.trim_end().ends_with(shown)), "{shown}");
        }
    }

    #[test]
    fn what_is_too_long_is_not_written() {
        let (short, long) = ([b'x'; 100], [0; 100]);
        assert!(line(&[b"echo", &short], 200).is_some());
        assert_eq!(line(&[b"echo", &short], 130), None);
        assert_eq!(line(&[b"echo", &long], 200), None, "each byte is four");
    }

    fn node() -> (Arc<Monitors>, Arc<WorkerWakes>, Arc<Detours>) {
        let (wakes, detours) = (Arc::default(), Arc::default());
        (Arc::new(Monitors::new(2, &detours, &wakes)), wakes, detours)
    }

    fn ping(monitors: &Monitors, most_bytes: usize) {
        let args: &[&[u8]] = &[b"ping"];
        let ping = Shown { at_us: 0, address: "a:1", name: "ping", flags: CommandFlags::FAST, args };
        monitors.show(&ping, most_bytes);
        monitors.show(&Shown { flags: CommandFlags::ADMIN, ..ping }, most_bytes);
    }

    #[test]
    fn a_worker_is_woken_for_the_first_line_only() {
        let (monitors, wakes, detours) = node();
        assert!(!monitors.is_any() && !detours.is_any());
        let held = Arc::default();
        let monitoring = monitors.begin(WorkerIndex(1), &held);
        assert!(monitors.is_any() && detours.is_any());
        ping(&monitors, 1000);
        ping(&monitors, 1000);
        assert_eq!((wakes.poll(), wakes.poll()), (Some(WorkerIndex(1)), None));
        assert!(!monitors.take_due(WorkerIndex(0)) && monitors.take_due(WorkerIndex(1)));
        assert!(!monitors.take_due(WorkerIndex(1)) && held.bytes() > 0);
        let mut out = Vec::new();
        assert_eq!(monitoring.take_lines(&mut out), Some(()));
        assert_eq!(out, b"+0.000000 [0 a:1] \"ping\"\r\n".repeat(2));
        assert_eq!(held.bytes(), 0);
        ping(&monitors, 1000);
        assert_eq!(wakes.poll(), Some(WorkerIndex(1)));
        drop(monitoring);
        assert!(!monitors.is_any() && !detours.is_any() && held.bytes() == 0);
    }

    #[test]
    fn who_does_not_take_its_lines_gets_no_more() {
        let (monitors, _, _) = node();
        let held = Arc::default();
        let monitoring = monitors.begin(WorkerIndex(0), &held);
        let mut out = Vec::new();
        for _ in 0..4 {
            ping(&monitors, 100);
        }
        assert_eq!(held.bytes(), 0, "nothing is kept for one that is to be closed");
        assert_eq!(monitoring.take_lines(&mut out), None);
        assert!(out.is_empty());
    }
}
