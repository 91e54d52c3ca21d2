//! The migrations that this node takes part in: one value for each, from the first thing that is to be done
//! for it until nothing of it is left here.

use super::source::Source;
use super::target::Target;
use sidle_migration::{ExportView, ImportView};
use sidle_types::{MigrationId, PositionRange};
use std::collections::BTreeMap;
use std::sync::Arc;

/// One migration on this node.
#[derive(Debug)]
pub(super) enum Migration {
    Source(Source),
    Target(Target),
}

impl Migration {
    fn range(&self) -> PositionRange {
        match self {
            Migration::Source(source) => source.range(),
            Migration::Target(target) => target.range(),
        }
    }

    /// Whether workers see it: it is in the range table.
    fn is_in_table(&self) -> bool {
        match self {
            Migration::Source(source) => source.view().is_some(),
            Migration::Target(target) => target.is_importing(),
        }
    }

    /// Whether something of it is, or is about to be, in the store.
    fn has_records(&self) -> bool {
        match self {
            Migration::Source(source) => !source.waits(),
            Migration::Target(target) => target.has_records(),
        }
    }

    /// Whether nobody else may discard what is in its range (C7).
    fn claims_range(&self) -> bool {
        match self {
            Migration::Source(source) => source.view().is_some(),
            Migration::Target(target) => target.claims_range(),
        }
    }
}

/// All of them.
#[derive(Debug, Default)]
pub(super) struct Migrations(BTreeMap<MigrationId, Migration>);

impl Migrations {
    pub(super) fn insert(&mut self, id: MigrationId, migration: Migration) {
        self.0.insert(id, migration);
    }

    pub(super) fn get(&self, id: MigrationId) -> Option<&Migration> {
        self.0.get(&id)
    }

    pub(super) fn get_mut(&mut self, id: MigrationId) -> Option<&mut Migration> {
        self.0.get_mut(&id)
    }

    pub(super) fn remove(&mut self, id: MigrationId) {
        self.0.remove(&id);
    }

    pub(super) fn len(&self) -> usize {
        self.0.len()
    }

    pub(super) fn source(&self, id: MigrationId) -> Option<&Source> {
        self.sources().find_map(|(other, source)| (other == id).then_some(source))
    }

    pub(super) fn target(&mut self, id: MigrationId) -> Option<&mut Target> {
        match self.0.get_mut(&id)? {
            Migration::Target(target) => Some(target),
            Migration::Source(_) => None,
        }
    }

    pub(super) fn sources(&self) -> impl Iterator<Item = (MigrationId, &Source)> {
        self.0.iter().filter_map(|(&id, migration)| match migration {
            Migration::Source(source) => Some((id, source)),
            Migration::Target(_) => None,
        })
    }

    pub(super) fn sources_mut(&mut self) -> impl Iterator<Item = (MigrationId, &mut Source)> {
        self.0.iter_mut().filter_map(|(&id, migration)| match migration {
            Migration::Source(source) => Some((id, source)),
            Migration::Target(_) => None,
        })
    }

    pub(super) fn targets(&self) -> impl Iterator<Item = (MigrationId, &Target)> {
        self.0.iter().filter_map(|(&id, migration)| match migration {
            Migration::Target(target) => Some((id, target)),
            Migration::Source(_) => None,
        })
    }

    /// The exports and tracked ranges of the range table.
    pub(super) fn exports(&self) -> impl Iterator<Item = &Arc<ExportView>> {
        self.sources().filter_map(|(_, source)| source.view())
    }

    /// The imports of the range table.
    pub(super) fn imports(&self) -> impl Iterator<Item = &Arc<ImportView>> {
        self.targets().filter(|(_, target)| target.is_importing()).filter_map(|(_, target)| target.view())
    }

    /// Whether one of the range table shares a position with the range.
    pub(super) fn in_table(&self, range: PositionRange) -> bool {
        self.0.values().any(|migration| migration.is_in_table() && migration.range().overlaps(range))
    }

    /// Whether one that has something in the store shares a position with the range.
    pub(super) fn have_records_in(&self, range: PositionRange) -> bool {
        self.0.values().any(|migration| migration.has_records() && migration.range().overlaps(range))
    }

    /// Ranges in which nothing may be discarded (C7).
    pub(super) fn claimed(&self) -> impl Iterator<Item = PositionRange> {
        self.0.values().filter(|migration| migration.claims_range()).map(Migration::range)
    }
}
