//! What must always hold, and what must hold in the end; each checker in a file of its own.

mod linearizability;
mod losses;
mod single_owner;

pub use linearizability::check_history;
pub use losses::keys_at_risk;
pub use single_owner::check_single_owner;

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
