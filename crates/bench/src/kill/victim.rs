//! Which node dies.

use std::str::FromStr;

/// Which node dies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Victim {
    /// One with half of the data, while nothing moves.
    Node,
    /// The source of a running migration.
    Source,
    /// Its target.
    Target,
}

impl Victim {
    /// The name in options and reports.
    pub const fn name(self) -> &'static str {
        match self {
            Victim::Node => "node",
            Victim::Source => "source",
            Victim::Target => "target",
        }
    }

    /// Whether something moves when it dies.
    pub(crate) const fn moves(self) -> bool {
        matches!(self, Victim::Source | Victim::Target)
    }
}

impl FromStr for Victim {
    type Err = String;

    fn from_str(text: &str) -> Result<Victim, String> {
        [Victim::Node, Victim::Source, Victim::Target]
            .into_iter()
            .find(|victim| victim.name() == text)
            .ok_or_else(|| "node, source or target".to_owned())
    }
}
