//! What the coordinator must know of a migration protocol. It does not know the protocols themselves.

use sidle_types::ProtocolVersion;

/// What the coordinator must know of a migration protocol.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ProtocolOutline {
    /// Into how many partitions the range is cut, at most [`MAX_PARTITIONS`](crate::MAX_PARTITIONS).
    pub partitions: usize,
    /// Whether the source answers clients' reads of what it froze.
    pub frozen_reads: bool,
    /// Whether the range is copied before it changes its owner, while the migration is prepared.
    pub copies_before_freeze: bool,
    /// From which version of the cluster on something is copied while the migration is prepared, and the
    /// source marks its changes; none: in none.
    pub copies_in_preparation: Option<ProtocolVersion>,
    /// Whether the source serves what it has not given yet, while the migration runs.
    pub gives_by_cuts: bool,
    /// The first version of the cluster that has it.
    pub needs: ProtocolVersion,
}

/// Reads a protocol's name with its options. The error names what is wrong with it, and the valid choices.
pub type ReadProtocol = fn(&str) -> Result<ProtocolOutline, String>;
