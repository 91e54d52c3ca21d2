//! Recording a load as a history, for checkers.

use sidle_history::{Datum, Op, Operation, Outcome, Writer};
use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};
use std::sync::Mutex;

/// A thread hands its lines over when it has this many bytes of them.
const HAND_OVER_BYTES: usize = 256 << 10;

/// A history file that many threads write.
#[derive(Debug)]
pub struct HistoryFile {
    path: PathBuf,
    lines: Mutex<Lines>,
}

#[derive(Debug)]
struct Lines {
    file: BufWriter<File>,
    /// Why lines are missing, from the first failed one on.
    failed: Option<io::Error>,
}

impl HistoryFile {
    /// Creates the file.
    pub fn create(path: &Path) -> Result<HistoryFile, String> {
        let file = File::create(path).map_err(|error| format!("{}: {error}", path.display()))?;
        let lines = Lines { file: BufWriter::new(file), failed: None };
        Ok(HistoryFile { path: path.to_owned(), lines: Mutex::new(lines) })
    }

    fn append(&self, text: &[u8]) {
        let mut lines = self.lines.lock().expect("nobody panics with the lock held");
        if lines.failed.is_none() {
            lines.failed = lines.file.write_all(text).err();
        }
    }

    /// Writes out the rest.
    ///
    /// # Errors
    /// Some of it could not be written, now or before.
    pub fn finish(self) -> Result<(), String> {
        let Lines { mut file, failed } = self.lines.into_inner().expect("nobody panics with the lock held");
        let written = failed.map_or_else(|| file.flush(), Err);
        written.map_err(|error| format!("{}: the history is incomplete: {error}", self.path.display()))
    }
}

/// One thread's part of a recording.
#[derive(Debug)]
pub(crate) struct Recording<'a> {
    file: &'a HistoryFile,
    writer: Writer<Vec<u8>>,
    pending_bytes: usize,
}

/// An operation's outcome.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Ended<'r> {
    /// A read returned this value.
    Value(Option<&'r [u8]>),
    /// A write was acknowledged.
    Written,
    /// It had no effect.
    Refused,
    /// It may have had its effect, or may still have it.
    Unknown,
}

/// An operation's call, as recorded.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Called<'k> {
    /// The client's number.
    pub(crate) client: u64,
    /// The key.
    pub(crate) key: &'k [u8],
    /// The value to write; `None` for a read.
    pub(crate) written: Option<&'k [u8]>,
    /// When it was called.
    pub(crate) call_ns: u64,
}

impl<'a> Recording<'a> {
    /// A part of `file`.
    pub(crate) fn new(file: &'a HistoryFile) -> Recording<'a> {
        Recording { file, writer: Writer::new(Vec::new()), pending_bytes: 0 }
    }

    /// Records an operation that ended at `now_ns`. Keys and values are text here.
    pub(crate) fn record(&mut self, called: Called<'_>, ended: Ended<'_>, now_ns: u64) {
        let text = |bytes: &[u8]| Datum::Text(String::from_utf8_lossy(bytes).into_owned());
        let (result, outcome) = match ended {
            Ended::Value(value) => (value.map_or(Datum::Null, text), Outcome::Ok),
            Ended::Written => (Datum::from("OK"), Outcome::Ok),
            Ended::Refused => (Datum::Null, Outcome::None),
            Ended::Unknown => (Datum::Null, Outcome::Unknown),
        };
        let operation = Operation {
            client: called.client,
            op: if called.written.is_some() { Op::Set } else { Op::Get },
            key: String::from_utf8_lossy(called.key).into_owned(),
            arg: called.written.map_or(Datum::Null, text),
            result,
            call_ns: called.call_ns,
            return_ns: (outcome != Outcome::Unknown).then_some(now_ns),
            outcome,
        };
        self.writer.write(&operation).expect("a buffer in memory takes everything");
        self.pending_bytes += 1;
        if self.pending_bytes * 200 > HAND_OVER_BYTES {
            self.hand_over();
        }
    }

    fn hand_over(&mut self) {
        let full = std::mem::replace(&mut self.writer, Writer::new(Vec::new()));
        self.file.append(&full.finish().expect("a buffer in memory takes everything"));
        self.pending_bytes = 0;
    }
}

impl Drop for Recording<'_> {
    fn drop(&mut self) {
        self.hand_over();
    }
}
