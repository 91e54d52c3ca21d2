//! What must always hold, and what must hold in the end; each checker in a file of its own.

mod deadlines;
mod linearizability;
mod losses;
mod scans;
mod single_owner;

pub use deadlines::check_deadlines;
pub use linearizability::check_history;
pub use losses::keys_at_risk;
pub use scans::{Ownership, Scan};

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
pub struct Checks {}

impl Checks {
    /// Something happened that checkers want to know of. `hosts`: everything as it is right after.
    pub fn observe(&mut self, hosts: &[Host], facts: &[Fact]) -> Result<(), Violation> {
        if facts.iter().any(|fact| matches!(fact, Fact::TableTaken(_) | Fact::Activated(_))) {
            single_owner::check(hosts)?;
        }
        Ok(())
    }

    /// Nothing goes wrong any more, every request and every migration is over, and there was time to clear away.
    pub fn at_rest(&mut self, hosts: &[Host]) -> Result<(), Violation> {
        single_owner::check(hosts)
    }
}
