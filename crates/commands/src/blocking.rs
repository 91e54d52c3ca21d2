//! Commands that do not end in one turn.

/// Whether a command that finds nothing may wait, and whether it does; or whether it goes on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Blocking {
    /// It may not: it replies at once. So in a transaction.
    No,
    /// It has waited, and its time is over: it replies at once.
    Over,
    /// It may.
    May,
    /// It may, and has waited.
    Again,
    /// Others have waited for longer: it waits, whatever there is.
    Behind,
    /// It waits, so many milliseconds at most; 0: without an end. Set by the command, which has written
    /// nothing.
    Waits(u64),
    /// It runs again when others had their turn. Set by the command, which has written nothing but its
    /// progress.
    GoesOn,
}

impl Blocking {
    /// Whether it has waited: then a key of another type counts as one without a value.
    pub(crate) fn has_waited(self) -> bool {
        matches!(self, Blocking::Again | Blocking::Over)
    }
}
