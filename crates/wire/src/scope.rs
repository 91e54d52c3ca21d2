//! What every message of a migration carries.

use sidle_types::{MigrationId, ProtocolVersion, TabletEpoch};

/// A message's migration, the ownership epoch of its range, and its version (M9). Both ends of a migration
/// write in the version that the coordinator recorded for it. The version is in the frame's header.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Scope {
    /// The migration.
    pub migration: MigrationId,
    /// The epoch at which the target owns the range.
    pub epoch: TabletEpoch,
    /// The version that its messages are in.
    pub version: ProtocolVersion,
}

impl std::fmt::Display for Scope {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Scope { migration, epoch, version } = self;
        write!(f, "this is migration {migration} at epoch {}, in {version}", epoch.0)
    }
}
