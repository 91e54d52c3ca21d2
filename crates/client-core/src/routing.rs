//! The tablet map, prepared for one look-up per operation.

use crate::index::NodeIndex;
use sidle_cluster::{NodeInfo, TabletMap};
use sidle_types::Position;

/// The route of a position's operations.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Route {
    /// The owner.
    pub(crate) node: NodeIndex,
    /// The index of the position's migration, or [`Route::NO_MIGRATION`].
    migration: u16,
}

/// The parts of one migration that a read needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct MigrationRoute {
    /// The node that gave the range up.
    pub(crate) source: NodeIndex,
    /// Whether the source answers reads of frozen positions.
    pub(crate) source_answers: bool,
    /// Whether the source owns and serves what it has not given yet.
    pub(crate) source_keeps: bool,
}

impl Route {
    const NO_MIGRATION: u16 = u16::MAX;

    /// The index of the position's migration.
    #[inline]
    pub(crate) fn migration(self) -> Option<usize> {
        if self.migration == Route::NO_MIGRATION { None } else { Some(usize::from(self.migration)) }
    }
}

/// The routes of every position; none without a map.
#[derive(Debug, Default)]
pub(crate) struct Routes {
    /// Where each part of the positions starts; stored separately, so that a search touches few cache lines.
    firsts: Vec<u64>,
    routes: Vec<Route>,
    migrations: Vec<MigrationRoute>,
}

impl Routes {
    /// The routes of a map, with nodes named by `index_of`.
    pub(crate) fn new(map: &TabletMap, mut index_of: impl FnMut(&NodeInfo) -> NodeIndex) -> Routes {
        let mut index = |id| index_of(map.node(id).expect("a map's owners and sources are among its nodes"));
        let mut firsts: Vec<u64> = map.tablets().iter().map(|tablet| tablet.range.first().0).collect();
        for record in map.migrations() {
            firsts.push(record.range.first().0);
            firsts.extend(record.range.last().next().map(|after| after.0));
        }
        firsts.sort_unstable();
        firsts.dedup();
        let route = |&first: &u64| {
            let position = Position(first);
            let migration = map.migrations().iter().position(|record| record.range.contains(position));
            let migration = migration.map_or(Route::NO_MIGRATION, |index| index as u16);
            Route { node: index(map.owner_of(position)), migration }
        };
        let routes = firsts.iter().map(route).collect();
        let migrations = map.migrations().iter();
        let migrations = migrations
            .map(|record| MigrationRoute {
                source: index(record.source),
                source_answers: record.frozen_reads,
                source_keeps: record.kept_by_source,
            })
            .collect();
        Routes { firsts, routes, migrations }
    }

    /// The route of a position, or `None` without a map.
    #[inline]
    pub(crate) fn at(&self, position: Position) -> Option<Route> {
        let after = self.firsts.partition_point(|&first| first <= position.0);
        Some(self.routes[after.checked_sub(1)?])
    }

    /// The migration at a route's index.
    pub(crate) fn migration(&self, index: usize) -> MigrationRoute {
        self.migrations[index]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use sidle_testbed::fixtures::{map, node_id, range, running};

    #[test]
    fn every_position_goes_to_its_owner() {
        let mut other = running(2, range(300, u64::MAX), 2, 1, 5);
        other.protocol = "rocksteady".to_owned();
        other.frozen_reads = false;
        let migrations = vec![running(1, range(100, 199), 1, 2, 5), other];
        let map = map(5, 2, &[(0, 1, 1), (100, 2, 5), (200, 1, 1), (250, 2, 1), (300, 1, 5)], migrations);
        let routes = Routes::new(&map, |node| u16::from(node.id.as_bytes()[0]));
        for (position, node, migration) in [
            (0, 1, None),
            (99, 1, None),
            (100, 2, Some(0)),
            (199, 2, Some(0)),
            (200, 1, None),
            (u64::MAX, 1, Some(1)),
        ] {
            let route = routes.at(Position(position)).unwrap();
            assert_eq!((route.node, route.migration()), (node, migration), "{position}");
            assert_eq!(map.owner_of(Position(position)), node_id(node as u8));
        }
        assert_eq!(
            routes.migration(0),
            MigrationRoute { source: 1, source_answers: true, source_keeps: false }
        );
        assert_eq!(
            routes.migration(1),
            MigrationRoute { source: 2, source_answers: false, source_keeps: false }
        );
        assert_eq!(Routes::default().at(Position(5)), None);
    }
}
