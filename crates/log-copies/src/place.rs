//! Where a copy ends.

use sidle_types::NodeId;

/// A place in a log's files. Places are in the order in which the log was written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Place {
    /// The number of the file.
    pub file: u64,
    /// The byte in it.
    pub at: u64,
}

/// The end of a copy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tail {
    /// Where it ends.
    pub end: Place,
    /// CRC32C of its last file's bytes.
    pub check: u32,
}

/// A backup: a node, from one of its starts on (Y7).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct BackupId {
    /// The node.
    pub node: NodeId,
    /// Which of its starts.
    pub incarnation: u64,
}
