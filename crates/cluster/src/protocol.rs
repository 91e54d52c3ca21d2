//! What the coordinator must know of a migration protocol. It does not know the protocols themselves.

/// What the coordinator must know of a migration protocol.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ProtocolOutline {
    /// Into how many partitions the range is cut, at most [`MAX_PARTITIONS`](crate::MAX_PARTITIONS).
    pub partitions: usize,
    /// Whether the source answers clients' reads of what it froze.
    pub frozen_reads: bool,
    /// Whether the range is copied before it changes its owner, while the migration is prepared.
    pub copies_before_freeze: bool,
    /// Whether the source serves what it has not given yet, while the migration runs.
    pub gives_by_cuts: bool,
}

/// Reads a protocol's name with its options. The error names what is wrong with it, and the valid choices.
pub type ReadProtocol = fn(&str) -> Result<ProtocolOutline, String>;
