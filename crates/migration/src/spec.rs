//! One migration's specification: its range, source, target, partitions and protocol.

use crate::{Copies, Cuts, ProtocolChoices, Tuning};
use sidle_pacing::{Governor, Limits};
use sidle_types::{
    ImportId, MigrationId, MigrationPolicy, MonotonicUs, NodeId, PositionRange, ProtocolVersion, TabletEpoch,
};
use sidle_wire::Scope;

/// The most partitions of a range: a partition's number is sent as one byte, and a client keeps one position
/// for each.
pub const PARTITIONS_MAX: usize = 64;

/// One migration, as the coordinator committed it. Both ends must have the same.
#[derive(Clone, Debug)]
pub struct MigrationSpec {
    /// Its number.
    pub id: MigrationId,
    /// As what the target notes in its durable log how far it is.
    pub import: ImportId,
    /// The epoch at which the target owns the range.
    pub epoch: TabletEpoch,
    /// What moves.
    pub range: PositionRange,
    /// The version that both ends write in.
    pub version: ProtocolVersion,
    /// The node that gives it up.
    pub source: NodeId,
    /// Which of the source's incarnations takes part. Versions of two of them are not compared: one that lost
    /// its memory may not know the latest.
    pub source_life: u64,
    /// The node that takes it.
    pub target: NodeId,
    /// `range`, cut into 1..=[`PARTITIONS_MAX`] parts in order, each pulled on its own.
    pub partitions: Vec<PositionRange>,
    /// Its protocol.
    pub protocol: ProtocolChoices,
    /// Roughly how many bytes of records the range holds.
    pub bytes: u64,
    /// How hard it may press on the two nodes; may be changed while it runs.
    pub policy: MigrationPolicy,
    /// What the nodes' operators have set.
    pub tuning: Tuning,
}

/// Why a [`MigrationSpec`] cannot be run.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SpecError {
    /// Too few or too many partitions.
    #[error("a migration has 1 to {PARTITIONS_MAX} partitions, not {0}")]
    PartitionCount(usize),
    /// The partitions leave gaps, overlap, or do not end where the range does.
    #[error("the partitions do not tile {range}: see partition {index}")]
    NotTiled {
        /// The range.
        range: PositionRange,
        /// The first partition that does not start where the previous one ends.
        index: usize,
    },
    /// A node cannot give a range to itself.
    #[error("source and target are the same node, {0}")]
    SameNode(NodeId),
    /// Large records would never arrive.
    #[error("a piece of a large record has at least one byte, not 0: correct `piece_bytes`")]
    NoPieceBytes,
    /// What it needs is not in its version.
    #[error("the cluster speaks {spoken}, and this protocol needs {needed}: raise it with `sidle upgrade`")]
    TooEarly {
        /// Its version.
        spoken: ProtocolVersion,
        /// The first one that has it.
        needed: ProtocolVersion,
    },
}

impl MigrationSpec {
    /// What every message of the migration carries (M9).
    pub fn scope(&self) -> Scope {
        Scope { migration: self.id, epoch: self.epoch, version: self.version }
    }

    /// Whether the range is copied before its freeze.
    pub(crate) fn copies_ahead(&self) -> bool {
        matches!(self.protocol.copies, Copies::BeforeFreeze(_))
    }

    /// How the range is given bit by bit, if it is.
    pub(crate) fn cuts(&self) -> Option<Cuts> {
        match self.protocol.copies {
            Copies::BeforeCuts(cuts) => Some(cuts),
            Copies::AfterFreeze | Copies::BeforeFreeze(_) => None,
        }
    }

    /// Limits bulk work at one of the ends.
    pub(crate) fn governor(&self, now: MonotonicUs) -> Governor {
        let Tuning { max_bytes_per_s, worker_lag_limit_us, .. } = self.tuning;
        let limits = Limits { max_bytes_per_s, worker_lag_limit_us };
        Governor::new(now, self.protocol.pace, self.policy, limits)
    }

    /// The piece size for larger records at one position; in a version without pieces they are sent whole.
    pub(crate) fn piece_bytes(&self) -> usize {
        if self.version.has_pieces() { self.tuning.piece_bytes as usize } else { usize::MAX }
    }

    /// Checks the machines' preconditions.
    pub fn check(&self) -> Result<(), SpecError> {
        if self.source == self.target {
            return Err(SpecError::SameNode(self.source));
        }
        if !(1..=PARTITIONS_MAX).contains(&self.partitions.len()) {
            return Err(SpecError::PartitionCount(self.partitions.len()));
        }
        if self.tuning.piece_bytes == 0 {
            return Err(SpecError::NoPieceBytes);
        }
        let (spoken, needed) = (self.version, self.protocol.needs());
        if spoken < needed {
            return Err(SpecError::TooEarly { spoken, needed });
        }
        let mut expected = Some(self.range.first());
        for (index, partition) in self.partitions.iter().enumerate() {
            if Some(partition.first()) != expected {
                return Err(SpecError::NotTiled { range: self.range, index });
            }
            expected = partition.last().next();
        }
        if expected != self.range.last().next() {
            return Err(SpecError::NotTiled { range: self.range, index: self.partitions.len() - 1 });
        }
        Ok(())
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::FULVA;
    use sidle_types::Position;

    pub(crate) fn range(first: u64, last: u64) -> PositionRange {
        PositionRange::new(Position(first), Position(last)).expect("in order")
    }

    pub(crate) fn spec(range: PositionRange, partitions: Vec<PositionRange>) -> MigrationSpec {
        MigrationSpec {
            id: MigrationId(7),
            import: ImportId(7),
            epoch: TabletEpoch(2),
            range,
            version: ProtocolVersion::CURRENT,
            source: NodeId::from_bytes([1; 20]),
            source_life: 1,
            target: NodeId::from_bytes([2; 20]),
            partitions,
            protocol: FULVA,
            bytes: 0,
            policy: MigrationPolicy::default(),
            tuning: Tuning::default(),
        }
    }

    #[test]
    fn check_accepts_partitions_that_tile() {
        for (whole, parts) in [
            (range(0, 9), vec![range(0, 9)]),
            (range(0, 9), vec![range(0, 3), range(4, 4), range(5, 9)]),
            (range(5, u64::MAX), vec![range(5, 8), range(9, u64::MAX)]),
        ] {
            assert_eq!(spec(whole, parts).check(), Ok(()));
        }
    }

    #[test]
    fn check_refuses_gaps_overlaps_and_wrong_ends() {
        for (parts, at) in [
            (vec![range(1, 9)], 0),
            (vec![range(0, 3), range(5, 9)], 1),
            (vec![range(0, 3), range(3, 9)], 1),
            (vec![range(0, 3), range(4, 8)], 1),
            (vec![range(0, 3), range(4, 10)], 1),
            (vec![range(0, u64::MAX), range(0, 9)], 1),
        ] {
            assert_eq!(
                spec(range(0, 9), parts).check(),
                Err(SpecError::NotTiled { range: range(0, 9), index: at })
            );
        }
        assert_eq!(spec(range(0, 9), vec![]).check(), Err(SpecError::PartitionCount(0)));
        let many = (0..=PARTITIONS_MAX as u64).map(|n| range(n, n)).collect();
        assert_eq!(spec(range(0, 64), many).check(), Err(SpecError::PartitionCount(65)));
    }

    #[test]
    fn check_refuses_a_node_that_gives_to_itself() {
        let mut spec = spec(range(0, 9), vec![range(0, 9)]);
        spec.target = spec.source;
        assert_eq!(spec.check(), Err(SpecError::SameNode(spec.source)));
    }

    #[test]
    fn check_refuses_pieces_of_no_bytes() {
        let mut spec = spec(range(0, 9), vec![range(0, 9)]);
        for (piece_bytes, expected) in [(0, Err(SpecError::NoPieceBytes)), (1, Ok(()))] {
            spec.tuning.piece_bytes = piece_bytes;
            assert_eq!(spec.check(), expected);
        }
    }
}
