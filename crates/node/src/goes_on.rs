//! Commands that go on: they work in slices, and other connections have their turns between them.
//!
//! The progress is the session's. It goes with the command's end, whatever that is, and with the connection;
//! what was built aside is given back then, unless a key has it. Each turn judges the command anew.

use crate::flush::Flush;
use crate::locks::WholeClaim;
use sidle_commands::Restoring;
use sidle_store::Aside;

/// The progress of a command that goes on.
#[derive(Debug, Default)]
pub(crate) struct GoesOn {
    /// Of a FLUSHALL in steps.
    pub(crate) flush: Option<Flush>,
    /// Of a flush, alone or in a transaction: no key votes meanwhile.
    pub(crate) claim: Option<WholeClaim>,
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

    /// What a RESTORE takes beside its payload, in bytes, and what it took when this was asked last. It
    /// counts as its connection's; what is built aside is the store's.
    pub(crate) fn memory_bytes(&mut self) -> (u64, u64) {
        let bytes = self.restoring.as_ref().map_or(0, |restoring| restoring.memory_bytes() as u64);
        (bytes, std::mem::replace(&mut self.noted_bytes, bytes))
    }

    /// The command has ended; most had not begun. Returns how many bytes it took when that was asked last.
    #[inline]
    pub(crate) fn end(&mut self) -> u64 {
        match self.has_begun() || self.claim.is_some() {
            true => std::mem::take(self).noted_bytes,
            false => 0,
        }
    }
}
