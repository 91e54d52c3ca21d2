//! Commands that go on: they work in slices, and other connections have their turns between them.
//!
//! The progress is the session's. It goes with the command's end, whatever that is, and with the connection;
//! what was built aside is given back then, unless a key has it. Each turn judges the command anew.

use crate::clients::ClientRecord;
use crate::flush::Flush;
use sidle_commands::Restoring;
use sidle_store::Aside;

/// The progress of a command that goes on.
#[derive(Debug, Default)]
pub(crate) struct GoesOn {
    /// Of a FLUSHALL in steps.
    pub(crate) flush: Option<Flush>,
    /// Of a RESTORE in steps.
    pub(crate) restoring: Option<Box<Restoring>>,
    /// What it has built aside.
    pub(crate) aside: Option<Aside>,
    /// How much of this counts as the connection's memory.
    noted_bytes: u64,
}

impl GoesOn {
    /// Whether a command has begun.
    pub(crate) fn has_begun(&self) -> bool {
        self.flush.is_some() || self.restoring.is_some()
    }

    /// Counts what a RESTORE takes beside its payload as its connection's. What is built aside is the store's.
    pub(crate) fn note_memory(&mut self, client: &ClientRecord) {
        let bytes = self.restoring.as_ref().map_or(0, |restoring| restoring.memory_bytes() as u64);
        client.note_progress(bytes, std::mem::replace(&mut self.noted_bytes, bytes));
    }

    /// The command has ended; most had not begun.
    #[inline]
    pub(crate) fn end(&mut self, client: &ClientRecord) {
        if self.has_begun() {
            client.note_progress(0, self.noted_bytes);
            *self = GoesOn::default();
        }
    }
}
