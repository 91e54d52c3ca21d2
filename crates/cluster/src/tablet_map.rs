//! The tablet map: who owns which positions, at which epoch.
//!
//! Invariants, held by every value of [`TabletMap`] (its constructors and its deserializer check them):
//! 1. The tablets, in order, cover every position exactly once.
//! 2. Nodes are in order of their ids, each id once; every owner, source and target is one of them.
//! 3. Migrations are in order of their ids, all of them [`Running`](MigrationState::Running), their ranges
//!    apart.
//! 4. A running migration's target owns all of its range at the migration's epoch (M1), its source is another
//!    node, and its partitions tile the range.
//! 5. Takeovers are in order of their ranges, which are apart from each other and from the migrations'. Their
//!    owners own them at the takeovers' epochs.
//!
//! Within a cluster the map epoch grows with every change, and a tablet's epoch with every change of owner.
//! So for one position an epoch never names two owners.

use crate::bounds;
use crate::migration_record::tiles;
use crate::{DeadLog, Incarnation, MigrationRecord, MigrationState, NodeInfo, Takeover, Turn};
use serde::{Deserialize, Serialize};
use sidle_types::{
    GaveAll, MapEpoch, MigrationId, MigrationPolicy, NodeId, Position, PositionRange, ProtocolVersion,
    TabletEpoch,
};

/// A range of positions with one owner.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Tablet {
    /// The positions.
    pub range: PositionRange,
    /// The node that acknowledges writes for them.
    pub owner: NodeId,
    /// Grows with every change of owner.
    pub epoch: TabletEpoch,
}

/// Which invariant a would-be map breaks.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the tablet map is inconsistent: {0}")]
pub struct MapError(String);

/// All nodes, tablets and running migrations at one map epoch.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "Unchecked")]
pub struct TabletMap {
    epoch: MapEpoch,
    nodes: Vec<NodeInfo>,
    tablets: Vec<Tablet>,
    migrations: Vec<MigrationRecord>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    takeovers: Vec<Takeover>,
    #[serde(skip_serializing_if = "ProtocolVersion::is_unsaid")]
    version: ProtocolVersion,
}

#[derive(Deserialize)]
struct Unchecked {
    epoch: MapEpoch,
    #[serde(deserialize_with = "bounds::nodes")]
    nodes: Vec<NodeInfo>,
    #[serde(deserialize_with = "bounds::tablets")]
    tablets: Vec<Tablet>,
    #[serde(deserialize_with = "bounds::migrations")]
    migrations: Vec<MigrationRecord>,
    #[serde(default, deserialize_with = "bounds::takeovers")]
    takeovers: Vec<Takeover>,
    #[serde(default = "ProtocolVersion::unsaid")]
    version: ProtocolVersion,
}

impl TryFrom<Unchecked> for TabletMap {
    type Error = MapError;

    fn try_from(map: Unchecked) -> Result<TabletMap, MapError> {
        let Unchecked { epoch, nodes, tablets, migrations, takeovers, version } = map;
        let map = TabletMap { epoch, nodes, tablets, migrations, takeovers, version };
        map.check().map(|()| map)
    }
}

impl TabletMap {
    /// The map of a cluster whose first node owns everything, in the current version.
    pub fn founded_by(first: NodeInfo) -> TabletMap {
        let everything = Tablet { range: PositionRange::ALL, owner: first.id, epoch: TabletEpoch(1) };
        TabletMap {
            epoch: MapEpoch(1),
            nodes: vec![first],
            tablets: vec![everything],
            migrations: Vec::new(),
            takeovers: Vec::new(),
            version: ProtocolVersion::CURRENT,
        }
    }

    /// The map with these parts in the current version, or which invariant they break.
    pub fn new(
        epoch: MapEpoch,
        nodes: Vec<NodeInfo>,
        tablets: Vec<Tablet>,
        migrations: Vec<MigrationRecord>,
    ) -> Result<TabletMap, MapError> {
        let (takeovers, version) = (Vec::new(), ProtocolVersion::CURRENT);
        let map = TabletMap { epoch, nodes, tablets, migrations, takeovers, version };
        map.check().map(|()| map)
    }

    /// The same map of a cluster that speaks another version.
    pub fn in_version(self, version: ProtocolVersion) -> TabletMap {
        TabletMap { version, ..self }
    }

    /// The same map with a member's own report in place of what the map had; `None` if it is no member.
    pub fn with_member(&self, node: NodeInfo) -> Option<TabletMap> {
        let index = self.nodes.binary_search_by_key(&node.id, |member| member.id).ok()?;
        let mut map = self.clone();
        map.nodes[index] = node;
        Some(map)
    }

    /// The version that the cluster speaks between its nodes.
    pub const fn version(&self) -> ProtocolVersion {
        self.version
    }

    /// The map in JSON, for a reader of this version at the latest: what it does not know is left out.
    pub fn written_in(&self, version: ProtocolVersion) -> String {
        let json = |map: &TabletMap| serde_json::to_string(map);
        let written = match version > ProtocolVersion::UNSAID {
            true => json(self),
            false => {
                let mut map = self.clone().in_version(version);
                for record in &mut map.migrations {
                    (record.version, record.kept_by_source) = (version, false);
                    (record.turn, record.continues, record.kept_is_noted) = (None, None, false);
                }
                json(&map)
            }
        };
        written.expect("a map has string keys and plain values only")
    }

    /// Counts the changes of the map.
    pub const fn epoch(&self) -> MapEpoch {
        self.epoch
    }

    /// The members, in order of their ids.
    pub fn nodes(&self) -> &[NodeInfo] {
        &self.nodes
    }

    /// The tablets, in order of their positions.
    pub fn tablets(&self) -> &[Tablet] {
        &self.tablets
    }

    /// The running migrations, in order of their ids.
    pub fn migrations(&self) -> &[MigrationRecord] {
        &self.migrations
    }

    /// The ranges that are being taken over, in order of their positions.
    pub fn takeovers(&self) -> &[Takeover] {
        &self.takeovers
    }

    /// The takeover of the position, if it is being taken over.
    pub fn takeover_at(&self, position: Position) -> Option<&Takeover> {
        self.takeovers.iter().find(|takeover| takeover.range.contains(position))
    }

    /// The member with this id.
    pub fn node(&self, id: NodeId) -> Option<&NodeInfo> {
        self.nodes.binary_search_by_key(&id, |node| node.id).ok().map(|index| &self.nodes[index])
    }

    /// The running migration with this id.
    pub fn migration(&self, id: MigrationId) -> Option<&MigrationRecord> {
        self.migrations.iter().find(|record| record.id == id)
    }

    /// The running migration whose range holds the position.
    pub fn migration_at(&self, position: Position) -> Option<&MigrationRecord> {
        self.migrations.iter().find(|record| record.range.contains(position))
    }

    /// The tablet that holds the position; a binary search.
    pub fn tablet_at(&self, position: Position) -> &Tablet {
        &self.tablets[self.index_at(position)]
    }

    /// The node that owns the position; a binary search.
    pub fn owner_of(&self, position: Position) -> NodeId {
        self.tablet_at(position).owner
    }

    /// The tablets that share a position with the range, in order.
    pub fn tablets_in(&self, range: PositionRange) -> &[Tablet] {
        &self.tablets[self.index_at(range.first())..=self.index_at(range.last())]
    }

    fn index_at(&self, position: Position) -> usize {
        // Invariant 1: the first tablet starts at the first position, so at least one starts no later.
        self.tablets.partition_point(|tablet| tablet.range.first() <= position) - 1
    }

    /// Which of the invariants in the module's header the map breaks, if any.
    pub fn check(&self) -> Result<(), MapError> {
        let ensure =
            |holds: bool, what: &dyn Fn() -> String| if holds { Ok(()) } else { Err(MapError(what())) };
        let ranges: Vec<PositionRange> = self.tablets.iter().map(|tablet| tablet.range).collect();
        ensure(tiles(&ranges, PositionRange::ALL), &|| "the tablets leave a gap or overlap".into())?;
        ensure(self.nodes.is_sorted_by(|a, b| a.id < b.id), &|| {
            "the nodes are out of order or doubled".into()
        })?;
        let is_member = |node: NodeId| self.node(node).is_some();
        for tablet in &self.tablets {
            ensure(is_member(tablet.owner), &|| format!("the owner of {} is not a member", tablet.range))?;
        }
        ensure(self.migrations.is_sorted_by(|a, b| a.id < b.id), &|| {
            "the migrations are out of order".into()
        })?;
        for (index, record) in self.migrations.iter().enumerate() {
            let id = record.id;
            ensure(record.state == MigrationState::Running, &|| format!("migration {id} does not run"))?;
            ensure(is_member(record.source), &|| format!("the source of migration {id} is not a member"))?;
            ensure(record.source != record.target, &|| format!("migration {id} goes nowhere"))?;
            ensure(record.partitions_tile_the_range(), &|| {
                format!("the partitions of migration {id} do not tile its range")
            })?;
            let owned = |tablet: &Tablet| tablet.owner == record.target && tablet.epoch == record.epoch;
            ensure(self.tablets_in(record.range).iter().all(owned), &|| {
                format!("the target of migration {id} does not own its range at its epoch")
            })?;
            let apart = |other: &MigrationRecord| !other.range.overlaps(record.range);
            ensure(self.migrations[..index].iter().all(apart), &|| {
                format!("migration {id} overlaps another")
            })?;
        }
        self.check_takeovers()
    }

    fn check_takeovers(&self) -> Result<(), MapError> {
        let is_sound = |takeover: &Takeover| {
            let owned = |tablet: &Tablet| tablet.owner == takeover.owner && tablet.epoch == takeover.epoch;
            let is_its_import = |record: &&MigrationRecord| {
                (record.range, record.target, record.epoch)
                    == (takeover.range, takeover.owner, takeover.epoch)
            };
            let mut there = self.migrations.iter().filter(|record| record.range.overlaps(takeover.range));
            self.tablets_in(takeover.range).iter().all(owned)
                && there.all(|record| takeover.import.is_some() && is_its_import(&record))
        };
        let in_order = self.takeovers.is_sorted_by(|a, b| a.range.last() < b.range.first());
        match in_order && self.takeovers.iter().all(is_sound) {
            true => Ok(()),
            false => {
                Err(MapError("a takeover overlaps another change, or its range is not its owner's".into()))
            }
        }
    }

    /// The map after `change`, one epoch later. Panics if the change breaks an invariant: callers check
    /// beforehand that the change is possible.
    pub(crate) fn changed(&self, change: impl FnOnce(&mut MapChange<'_>)) -> TabletMap {
        let mut map = self.clone();
        map.epoch = MapEpoch(self.epoch.0 + 1);
        change(&mut MapChange { map: &mut map });
        if let Err(error) = map.check() {
            panic!("a change of the tablet map was not checked beforehand: {error}");
        }
        map
    }
}

/// The ways in which a map can change.
pub(crate) struct MapChange<'m> {
    map: &'m mut TabletMap,
}

impl MapChange<'_> {
    /// Adds a member, or replaces its entry.
    pub(crate) fn put_node(&mut self, node: NodeInfo) {
        match self.map.nodes.binary_search_by_key(&node.id, |member| member.id) {
            Ok(index) => self.map.nodes[index] = node,
            Err(index) => self.map.nodes.insert(index, node),
        }
    }

    /// Removes a member from the list. It must own nothing and take part in no running migration.
    pub(crate) fn remove_node(&mut self, id: NodeId) {
        self.map.nodes.retain(|node| node.id != id);
    }

    /// Gives the range of a migration to its target and lists the migration as running. The record's epoch
    /// must be above every epoch in the range.
    pub(crate) fn start(&mut self, record: MigrationRecord) {
        self.give(Tablet { range: record.range, owner: record.target, epoch: record.epoch });
        let index = self.map.migrations.partition_point(|running| running.id < record.id);
        self.map.migrations.insert(index, record);
    }

    /// Gives a range to its new owner, which is yet to read what was there. The epoch must be above every
    /// epoch in the range. An owner that died before it had read it all may have had the same range.
    pub(crate) fn take_over(&mut self, takeover: Takeover) {
        let Takeover { range, owner, epoch, import, .. } = takeover;
        self.give(Tablet { range, owner, epoch });
        self.taken_over(range);
        if import.is_some() {
            self.succeed(range, owner, epoch);
        }
        let takeovers = &mut self.map.takeovers;
        let index = takeovers.partition_point(|other| other.range.first() < range.first());
        takeovers.insert(index, takeover);
    }

    /// The new owner takes the place of the running migration's target. As in [`rebind`](Self::rebind)
    /// nothing is given bit by bit any more.
    fn succeed(&mut self, range: PositionRange, owner: NodeId, epoch: TabletEpoch) {
        let incarnation = self.map.node(owner).expect("it is a member").incarnation;
        let record = self.map.migrations.iter_mut().find(|record| record.range == range);
        let record = record.expect("a migration that runs");
        (record.target, record.target_incarnation, record.epoch) = (owner, incarnation, epoch);
        record.succession += 1;
        if std::mem::take(&mut record.kept_by_source) {
            record.counters.gave_all.get_or_insert(GaveAll::Restart);
        }
    }

    /// The new owner has everything. Its tablets stay apart: a migration of its own may be counted, and no
    /// epoch in the range of that changes before it runs.
    pub(crate) fn taken_over(&mut self, range: PositionRange) {
        self.map.takeovers.retain(|takeover| takeover.range != range);
    }

    fn give(&mut self, given: Tablet) {
        let mut tablets = Vec::with_capacity(self.map.tablets.len() + 2);
        for tablet in &self.map.tablets {
            assert!(
                tablet.epoch < given.epoch || !tablet.range.overlaps(given.range),
                "M1: an ownership epoch is given once"
            );
            let (before, after) = tablet.range.without(given.range);
            tablets.extend(before.map(|range| Tablet { range, ..*tablet }));
            if tablet.range.contains(given.range.first()) {
                tablets.push(given);
            }
            tablets.extend(after.map(|range| Tablet { range, ..*tablet }));
        }
        self.map.tablets = tablets;
    }

    /// Gives the range of a running migration back to its source, and removes the migration from the list.
    pub(crate) fn give_back(&mut self, id: MigrationId) {
        let TabletMap { tablets, migrations, .. } = &mut *self.map;
        let record = migrations.iter().find(|record| record.id == id);
        let MigrationRecord { range, source, epoch, .. } = record.expect("it runs");
        for tablet in tablets.iter_mut().filter(|tablet| tablet.range.overlaps(*range)) {
            (tablet.owner, tablet.epoch) = (*source, TabletEpoch(epoch.0 + 1));
        }
        self.finish(id);
    }

    /// Ends a running migration, and lists its way back as running: the range is the other node's.
    pub(crate) fn turn_back(&mut self, id: MigrationId, back: MigrationRecord) {
        self.map.migrations.retain(|record| record.id != id);
        self.start(back);
    }

    /// Notes that a running migration is to turn back.
    pub(crate) fn set_turn(&mut self, id: MigrationId, turn: Turn) {
        if let Some(record) = self.map.migrations.iter_mut().find(|record| record.id == id) {
            record.turn = Some(turn);
        }
    }

    /// A running migration goes on with this incarnation of one of its nodes. If its range was given bit by
    /// bit, it is no more: what was marked, or in transit, is not known.
    pub(crate) fn rebind(&mut self, id: MigrationId, node: NodeId, incarnation: Incarnation) {
        let record = self.map.migrations.iter_mut().find(|record| record.id == id);
        let record = record.expect("it runs");
        let noted = match record.source == node {
            true => &mut record.source_incarnation,
            false => &mut record.target_incarnation,
        };
        assert!(*noted < incarnation, "a later incarnation takes its place");
        *noted = incarnation;
        if std::mem::take(&mut record.kept_by_source) {
            record.counters.gave_all.get_or_insert(GaveAll::Restart);
        }
    }

    /// The source of a running migration died: its target reads a copy of its log. As in
    /// [`rebind`](Self::rebind) nothing is given bit by bit any more.
    pub(crate) fn source_died(&mut self, id: MigrationId, dead: DeadLog) {
        let record = self.map.migrations.iter_mut().find(|record| record.id == id);
        let record = record.expect("it runs");
        record.source_log = Some(dead);
        if std::mem::take(&mut record.kept_by_source) {
            record.counters.gave_all.get_or_insert(GaveAll::Restart);
        }
    }

    /// Raises the version that the cluster speaks.
    pub(crate) fn raise(&mut self, version: ProtocolVersion) {
        assert!(version > self.map.version, "a cluster's version only grows");
        self.map.version = version;
    }

    /// Changes how hard a running migration may press on its nodes.
    pub(crate) fn set_policy(&mut self, id: MigrationId, policy: MigrationPolicy) {
        if let Some(record) = self.map.migrations.iter_mut().find(|record| record.id == id) {
            record.policy = policy;
        }
    }

    /// Removes a migration from the list and joins adjacent tablets of one owner where none of them migrates.
    pub(crate) fn finish(&mut self, id: MigrationId) {
        let record = self.map.migrations.iter().position(|record| record.id == id);
        let Some(record) = record.map(|index| self.map.migrations.remove(index)) else { return };
        self.join_neighbours(record.range);
    }

    /// Joins tablets in this range, and beside it, that are of one owner, where nothing is under way in
    /// either. Their owner took part in what has ended there, so no migration of its own is counted.
    fn join_neighbours(&mut self, around: PositionRange) {
        let TabletMap { tablets, migrations, takeovers, .. } = &mut *self.map;
        let migrates = |tablet: &Tablet| {
            migrations.iter().any(|record| record.range.overlaps(tablet.range))
                || takeovers.iter().any(|takeover| takeover.range.overlaps(tablet.range))
        };
        tablets.dedup_by(|later, earlier| {
            let joined = PositionRange::new(earlier.range.first(), later.range.last());
            let is_there = earlier.range.overlaps(around) || later.range.overlaps(around);
            match joined.filter(|_| is_there) {
                Some(range) if earlier.owner == later.owner && !migrates(earlier) && !migrates(later) => {
                    *earlier = Tablet { range, owner: earlier.owner, epoch: earlier.epoch.max(later.epoch) };
                    true
                }
                _ => false,
            }
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixtures::{node_id, node_info, range, running};

    fn two_nodes() -> TabletMap {
        TabletMap::founded_by(node_info(1)).changed(|map| map.put_node(node_info(2)))
    }

    #[test]
    fn a_migration_splits_its_tablet_and_its_end_joins_neighbours() {
        let map = two_nodes().changed(|map| map.start(running(1, range(100, 199), 1, 2, 2)));
        let owners: Vec<_> = map.tablets().iter().map(|t| (t.range, t.owner, t.epoch.0)).collect();
        assert_eq!(
            owners,
            [
                (range(0, 99), node_id(1), 1),
                (range(100, 199), node_id(2), 2),
                (range(200, u64::MAX), node_id(1), 1)
            ]
        );
        let neighbour = map.changed(|map| map.finish(MigrationId(1)));
        let neighbour = neighbour.changed(|map| map.start(running(2, range(200, 299), 1, 2, 2)));
        assert_eq!(neighbour.tablets().len(), 4, "a migrating tablet is not joined");
        let joined = neighbour.changed(|map| map.finish(MigrationId(2)));
        assert_eq!(joined.tablets().len(), 3);
        assert_eq!(joined.tablet_at(Position(250)).range, range(100, 299));
        assert_eq!(joined.epoch(), MapEpoch(6));
    }

    #[test]
    fn a_range_that_is_given_back_is_its_sources_at_a_later_epoch() {
        let running = two_nodes().changed(|map| map.start(running(1, range(100, 199), 1, 2, 2)));
        let map = running.changed(|map| map.give_back(MigrationId(1)));
        let whole = Tablet { range: PositionRange::ALL, owner: node_id(1), epoch: TabletEpoch(3) };
        assert_eq!((map.tablets(), map.migrations()), (&[whole][..], &[][..]));
        assert_eq!(map.epoch(), MapEpoch(4));
    }

    #[test]
    fn a_range_that_turns_back_moves_the_other_way_at_a_later_epoch() {
        let running_at = |id, source, target, epoch| running(id, range(100, 199), source, target, epoch);
        let map = two_nodes().changed(|map| map.start(running_at(1, 1, 2, 2)));
        let map = map.changed(|map| map.turn_back(MigrationId(1), running_at(2, 2, 1, 3)));
        let ids: Vec<_> = map.migrations().iter().map(|record| record.id.0).collect();
        let moving = map.tablet_at(Position(150));
        assert_eq!((ids, moving.owner, moving.epoch), (vec![2], node_id(1), TabletEpoch(3)));
        assert_eq!(map.tablets().len(), 3, "what moves is not joined");
        let map = map.changed(|map| map.finish(MigrationId(2)));
        assert_eq!(map.tablets().len(), 1);
    }

    #[test]
    fn a_migration_over_several_tablets_leaves_one() {
        let map = two_nodes()
            .changed(|map| map.start(running(1, range(100, 199), 1, 2, 2)))
            .changed(|map| map.finish(MigrationId(1)))
            .changed(|map| map.start(running(2, range(100, 149), 2, 1, 3)))
            .changed(|map| map.finish(MigrationId(2)))
            .changed(|map| map.start(running(3, range(50, 149), 1, 2, 4)));
        let owners: Vec<_> = map.tablets().iter().map(|t| (t.range.first().0, t.owner)).collect();
        assert_eq!(owners, [(0, node_id(1)), (50, node_id(2)), (150, node_id(2)), (200, node_id(1))]);
    }

    #[test]
    fn owner_of_agrees_with_a_linear_search() {
        let map = two_nodes()
            .changed(|map| map.start(running(1, range(100, 199), 1, 2, 2)))
            .changed(|map| map.start(running(2, range(1000, u64::MAX), 1, 2, 2)));
        for position in [0, 99, 100, 150, 199, 200, 999, 1000, u64::MAX].map(Position) {
            let linear = map.tablets().iter().find(|tablet| tablet.range.contains(position)).unwrap();
            assert_eq!(map.owner_of(position), linear.owner);
            assert_eq!(map.migration_at(position).is_some(), linear.owner == node_id(2));
        }
        assert_eq!(map.tablets_in(range(150, 1000)).len(), 3);
    }

    #[test]
    fn json_round_trips_and_is_checked() {
        let map = two_nodes().changed(|map| map.start(running(1, range(100, 199), 1, 2, 2)));
        let json = serde_json::to_string(&map).unwrap();
        assert_eq!(serde_json::from_str::<TabletMap>(&json).unwrap(), map);
        let gap = json.replace("0x0000000000000063", "0x0000000000000062");
        let error = serde_json::from_str::<TabletMap>(&gap).unwrap_err().to_string();
        assert!(error.contains("gap or overlap"), "{error}");
    }

    #[test]
    fn check_names_the_broken_invariant() {
        let sound = two_nodes().changed(|map| map.start(running(1, range(100, 199), 1, 2, 2)));
        let broken = |change: &dyn Fn(&mut TabletMap), why: &str| {
            let mut map = sound.clone();
            change(&mut map);
            let error = map.check().unwrap_err().to_string();
            assert!(error.contains(why), "{error}");
        };
        broken(&|map| map.tablets.truncate(2), "gap or overlap");
        broken(&|map| map.tablets.clear(), "gap or overlap");
        broken(&|map| map.nodes.reverse(), "out of order or doubled");
        broken(&|map| map.tablets[0].owner = node_id(9), "not a member");
        broken(&|map| map.migrations[0].state = MigrationState::Done, "does not run");
        broken(&|map| map.migrations[0].source = node_id(2), "goes nowhere");
        broken(&|map| map.migrations[0].source = node_id(9), "not a member");
        broken(&|map| map.migrations[0].partitions.clear(), "do not tile");
        broken(&|map| map.tablets[1].owner = node_id(1), "does not own its range");
        broken(&|map| map.tablets[1].epoch = TabletEpoch(7), "at its epoch");
        broken(&|map| map.migrations.push(running(2, range(150, 160), 1, 2, 2)), "overlaps another");
    }

    #[test]
    #[should_panic(expected = "M1")]
    fn an_epoch_is_not_given_twice() {
        two_nodes().changed(|map| map.start(running(1, range(100, 199), 1, 2, 1)));
    }
}
