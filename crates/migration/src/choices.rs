//! Protocols as sets of choices.
//!
//! All protocols share one skeleton: the views, the barrier, the two lanes, the source machine that answers pulls from
//! frozen data, and the target machine that pulls, replays and wakes. What differs is written down here, and the
//! skeleton reads the choices, never the name. A protocol that makes the same kinds of choices is one more constant
//! and one more line in [`PROTOCOLS`]; one that needs a new kind (an owner other than the target, rounds of dirty
//! records) adds the field here and the phase as a module beside `target` or `source`.

/// What a migration protocol decides.
#[derive(Debug, PartialEq, Eq)]
pub struct ProtocolChoices {
    /// The name that requests and records use.
    pub name: &'static str,
    /// What the source does with reads of the frozen range.
    pub source_reads: SourceReads,
    /// What the target does with an opted-in client's read of a key that is not here yet.
    pub missing_reads: MissingReads,
    /// Into how many partitions the range is cut, each with one pull in flight.
    pub partitions: usize,
    /// How much the first pull of each partition asks for; later ones adapt.
    pub first_pull_bytes: u32,
    /// Whether and how sampled misses are pulled out of turn.
    pub sampling: Option<Sampling>,
    /// How keys that a command waits for are pulled.
    pub priority: PriorityPulls,
}

/// What the source does with reads of the frozen range.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SourceReads {
    /// Answers them to clients that name the migration; redirects everybody else.
    AnswersFrozen,
    /// Redirects them.
    Redirects,
}

/// What the target does with an opted-in client's read of a key that is not here yet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MissingReads {
    /// Says so at once; the client takes the source's frozen value (Fulva, III-B: "empty").
    SaysNotHereYet,
    /// Pulls the key, then answers.
    WaitsForPull,
}

/// Pulling the records of sampled misses (Fulva, IV-B: SampPull). The paper draws 1 %, in migrations of half a minute at
/// a million operations a second. A migration here lasts seconds, in which a hot key misses a few dozen times; and in a
/// batch a record costs each node a fraction of what one more double read of it costs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sampling {
    /// One in so many misses is drawn.
    pub one_in: u32,
    /// The most positions in one pull; one is in flight.
    pub batch: usize,
}

/// Pulling keys that commands wait for (Rocksteady, 2.3.3).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PriorityPulls {
    /// The most keys in one pull.
    pub batch: usize,
    /// The most pulls in flight. Each key is in one of them at most.
    pub in_flight: usize,
}

/// Fulva (IPDPS 2020), with sampling as its section IV-B has it and, for commands that need the old value and clients
/// that did not opt in, Rocksteady's batched, de-duplicated priority pulls.
pub const FULVA: ProtocolChoices = ProtocolChoices {
    name: "fulva",
    source_reads: SourceReads::AnswersFrozen,
    missing_reads: MissingReads::SaysNotHereYet,
    partitions: 8,
    first_pull_bytes: 64 << 10,
    sampling: Some(Sampling { one_in: 8, batch: 256 }),
    priority: PriorityPulls { batch: 16, in_flight: 1 },
};

/// Every protocol there is.
pub static PROTOCOLS: &[&ProtocolChoices] = &[&FULVA];

/// The protocol of this name.
pub fn protocol(name: &str) -> Option<&'static ProtocolChoices> {
    PROTOCOLS.iter().copied().find(|protocol| protocol.name == name)
}

#[cfg(test)]
mod tests {
    use super::*;
    use sidle_wire::limits::{PRIORITY_PULL_KEYS_MAX, SAMP_PULL_POSITIONS_MAX};

    #[test]
    fn protocol_finds_by_name() {
        assert_eq!(protocol("fulva"), Some(&FULVA));
        assert_eq!(protocol("Fulva"), None);
    }

    #[test]
    fn every_protocol_keeps_the_wire_limits() {
        for protocol in PROTOCOLS {
            assert!((1..=crate::PARTITIONS_MAX).contains(&protocol.partitions));
            assert!((1..=PRIORITY_PULL_KEYS_MAX).contains(&protocol.priority.batch));
            assert!(protocol.priority.in_flight >= 1);
            let pull = protocol.first_pull_bytes;
            assert!((crate::tuning::PULL_BYTES_MIN..=crate::tuning::PULL_BYTES_MAX).contains(&pull));
            if let Some(sampling) = protocol.sampling {
                assert!((1..=SAMP_PULL_POSITIONS_MAX).contains(&sampling.batch) && sampling.one_in >= 1);
            }
        }
    }
}
