//! Commands that go on: they work in slices, and other connections have their turns between them.
//!
//! The progress is the session's. It goes with the command's end, whatever that is, and with the connection;
//! what was built aside is given back then, unless a key has it. Each turn judges the command anew.

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
}

impl GoesOn {
    /// Whether a command has begun.
    pub(crate) fn has_begun(&self) -> bool {
        self.flush.is_some() || self.restoring.is_some()
    }

    /// The command has ended; most had not begun.
    #[inline]
    pub(crate) fn end(&mut self) {
        if self.has_begun() {
            *self = GoesOn::default();
        }
    }
}
