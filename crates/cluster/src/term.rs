//! Terms: which of several coordinators is the latest.
//!
//! # Invariant
//! No two coordinators of a cluster have the same term, and a later one has a higher one. A node takes no
//! message of a lower term than the highest that it has seen. So a coordinator that was replaced, and does
//! not know it yet, is not believed by anybody who has heard of its successor. What it would commit, its
//! store refuses ([`MetaError::Deposed`](crate::MetaError::Deposed)), whether anybody has heard or not.

use serde::{Deserialize, Serialize};

/// For how long one coordinator has the store: a number that grows from each to the next.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Term(pub u64);

impl Term {
    /// That of a coordinator whose store only its own process can open.
    pub const ONLY: Term = Term(0);

    /// Whether it is left out where it is written. Whoever knows no terms writes none.
    pub const fn is_only(&self) -> bool {
        self.0 == Self::ONLY.0
    }
}

/// The highest term that a node has seen.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct HighestTerm(Term);

impl HighestTerm {
    /// Whether a message of this term is taken; if so, none of a lower one is from now on.
    pub fn takes(&mut self, term: Term) -> bool {
        let is_taken = term >= self.0;
        self.0 = self.0.max(term);
        is_taken
    }

    /// That term.
    pub const fn get(&self) -> Term {
        self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_of_a_lower_term_is_taken() {
        let mut highest = HighestTerm::default();
        assert!(highest.takes(Term::ONLY) && highest.takes(Term::ONLY), "the file's coordinator");
        assert!(highest.takes(Term(7)) && highest.takes(Term(7)));
        assert!(!highest.takes(Term(6)) && !highest.takes(Term::ONLY));
        assert!(highest.takes(Term(7)), "what was refused changes nothing");
        assert!(highest.takes(Term(9)) && !highest.takes(Term(7)));
    }

    #[test]
    fn the_only_term_is_not_written() {
        assert!(Term::ONLY.is_only() && Term::default().is_only() && !Term(1).is_only());
    }
}
