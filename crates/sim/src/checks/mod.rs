//! What must always hold, and what must hold in the end; each checker in a file of its own.

mod endings;
mod linearizability;
mod losses;
mod single_owner;

pub use linearizability::check_history;
pub use losses::Losses;

use crate::host::Host;
use crate::world::Fact;

/// Something that must not be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Violation {
    /// Which check found it.
    pub check: &'static str,
    /// What was found.
    pub what: String,
}

impl Violation {
    /// Found by this check.
    pub fn new(check: &'static str, what: impl Into<String>) -> Violation {
        Violation { check, what: what.into() }
    }
}

impl std::fmt::Display for Violation {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}: {}", self.check, self.what)
    }
}

/// The checkers that look at the machines while they run, with what each remembers.
#[derive(Debug, Default)]
pub struct Checks {
    endings: endings::Endings,
}

impl Checks {
    /// Something happened that checkers want to know of. `hosts`: everything as it is right after.
    pub fn observe(&mut self, hosts: &[Host], facts: &[Fact]) -> Result<(), Violation> {
        if facts.iter().any(|fact| matches!(fact, Fact::TableTaken(_) | Fact::Activated(_))) {
            single_owner::check(hosts)?;
        }
        if facts.contains(&Fact::Committed) {
            self.endings.committed(hosts)?;
        }
        Ok(())
    }

    /// Nothing goes wrong any more, every request and every migration is over, and there was time to clear away.
    /// `started`: how many migrations the operator was told had been started.
    pub fn at_rest(&mut self, hosts: &[Host], started: u64) -> Result<(), Violation> {
        single_owner::check(hosts)?;
        self.endings.at_rest(hosts)?;
        self.endings.operator_was_told(started)
    }
}
