//! Which of several processes coordinates.
//!
//! A store that several processes reach has one leader at a time: who holds a lease there. The lease is for
//! speed, so that one process asks and the others wait. Safety is the store's: it takes a commit of the
//! leader only, as one step with the check that it leads ([`MetaError::Deposed`]).

use crate::{MetaError, MetaStore};
use sidle_types::MonotonicUs;

/// A store that several processes reach, from one of them.
pub trait Election {
    /// Who leads, and whether there is a cluster.
    fn look(&mut self) -> Result<Seen, MetaError>;

    /// Becomes the leader if there is none, and announces itself with these words; the store then. `None`:
    /// another process leads.
    fn campaign(&mut self, announced: &str) -> Result<Option<Box<dyn MetaStore + Send>>, MetaError>;

    /// Extends the lease of the last campaign that was won; returns whether this process leads on.
    fn extend(&mut self) -> Result<bool, MetaError>;

    /// Leads no more, so that another process need not wait for the lease's end.
    fn resign(&mut self);

    /// How long the lease lasts from the moment when it is taken or extended.
    fn lease_us(&self) -> u64;
}

/// What a store shows to whoever does not lead.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Seen {
    /// What the leader announced, if there is one.
    pub leader: Option<String>,
    /// Whether a cluster was founded.
    pub is_founded: bool,
}

/// For how long a leader acts.
///
/// # Invariant
/// A leader acts only until a margin before the end of its lease, by its own clock, counted from when it
/// *sent* what last extended it. The store counts from later, so no successor acts before that, as long as
/// both clocks run equally fast within the margin.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tenure {
    until: MonotonicUs,
}

impl Tenure {
    /// How long before the end of its lease a leader stops to act.
    pub const MARGIN_US: u64 = 1_000_000;

    /// Of a lease that was taken or extended by a request that was sent then.
    pub const fn sent_at(sent: MonotonicUs, lease_us: u64) -> Tenure {
        Tenure { until: sent.plus_us(lease_us.saturating_sub(Tenure::MARGIN_US)) }
    }

    /// When it ends.
    pub const fn until(self) -> MonotonicUs {
        self.until
    }

    /// Whether the leader acts at this time.
    pub fn is_held(self, now: MonotonicUs) -> bool {
        now < self.until
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_leader_stops_a_second_before_its_lease_ends() {
        let tenure = Tenure::sent_at(MonotonicUs(10_000_000), 5_000_000);
        assert!(tenure.is_held(MonotonicUs(10_000_000)) && tenure.is_held(MonotonicUs(13_999_999)));
        assert!(!tenure.is_held(MonotonicUs(14_000_000)) && !tenure.is_held(MonotonicUs(99_000_000)));
        let short = Tenure::sent_at(MonotonicUs(5), 10);
        assert!(!short.is_held(MonotonicUs(5)), "one below the margin is never held");
    }
}
