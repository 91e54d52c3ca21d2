//! Who has a copy.

use sidle_types::NodeId;

/// A backup: a node, from one of its starts on (Y7).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct BackupId {
    /// The node.
    pub node: NodeId,
    /// Which of its starts.
    pub incarnation: u64,
}
