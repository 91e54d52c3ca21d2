//! The range table: this node's role for every position.
//!
//! Purpose: one immutable, sorted table answers every command's first question, who owns a position. That
//! takes one comparison when this node owns everything, a short binary search otherwise. It is built from the
//! cluster's tablet map and this node's imports and exports, and replaced as a whole
//! ([`CurrentTable`](crate::Published)).
//!
//! Invariants:
//! - R1: the entries tile all positions, in order.
//! - R2: `Owned` and `Importing` appear only where the tablet map names this node the owner (M1).
//! - R3: a migration to this node without an import here (it restarted and lost everything) makes the range
//!   `Lost`. Nothing is acknowledged there: absent would be wrong (M8).
//! - R4: before the coordinator has confirmed this incarnation of the node, nothing is served, whatever an
//!   earlier incarnation's map shows: ownership may have changed since.
//! - R5: of what is being taken over from a dead node nothing is served before a map says that it is here.
//!
//! Ownership: built by the control thread; each worker reads its own
//! snapshot.

use sidle_cluster::{NodeInfo, Tablet, TabletMap};
use sidle_migration::{ExportView, ImportView};
use sidle_store::{Leave, Store};
use sidle_types::{MigrationId, NodeId, Position, PositionRange, ProtocolVersion, Slot, fault};
use std::collections::BTreeSet;
use std::fmt;
use std::sync::{Arc, OnceLock};

/// This node's role for a range.
#[derive(Clone)]
pub enum Role {
    /// Owner, with all of its data.
    Owned,
    /// Owner, while its data still arrives.
    Importing(Arc<ImportView>),
    /// Former owner, with a frozen copy.
    Exporting(Arc<ExportView>),
    /// None; another node owns it.
    Elsewhere,
    /// Owner by the map, without the data: nobody can serve it.
    Lost,
    /// Owner, while it reads the data from a copy of a dead node's log: commands wait for the next table.
    TakingOver,
    /// The same, but it cannot read them for now: commands are refused, and so are walks.
    Unreadable,
}

impl Role {
    /// Whether commands on the range run here.
    pub fn is_served(&self) -> bool {
        matches!(self, Role::Owned | Role::Importing(_))
    }
}

impl fmt::Debug for Role {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Role::Owned => "Owned",
            Role::Importing(_) => "Importing",
            Role::Exporting(_) => "Exporting",
            Role::Elsewhere => "Elsewhere",
            Role::Lost => "Lost",
            Role::TakingOver => "TakingOver",
            Role::Unreadable => "Unreadable",
        })
    }
}

/// A range and this node's role for it.
#[derive(Clone, Debug)]
pub struct RangeEntry {
    /// The positions.
    pub range: PositionRange,
    /// This node's role.
    pub role: Role,
    /// Their owner.
    pub owner: NodeId,
    /// For owned positions that are copied before they leave: where workers mark their changes (M11).
    pub tracked: Option<Arc<ExportView>>,
}

impl RangeEntry {
    /// Notes a change by a worker at this step, within the command that made it, if it is being copied (M11,
    /// M22).
    pub(crate) fn mark(&self, position: Position, step: u64) {
        match (&self.tracked, &self.role) {
            (Some(view), _) => view.mark(position, step),
            (None, Role::Exporting(view)) => view.mark_kept(position, step),
            (None, _) => {}
        }
    }
}

/// Where to send a request instead.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Redirect<'t> {
    /// The slot belongs to the node at this address; the client may remember that.
    Moved(Slot, &'t str),
    /// This one request belongs to the node at this address.
    Ask(Slot, &'t str),
    /// No node can serve it.
    NotServed,
}

/// How far a walk over this node's keys may go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reach {
    /// These positions come next, and all of their keys are here.
    Here(PositionRange),
    /// The keys from this position on are not all known yet: this import brings them.
    NotYet(Position, MigrationId),
    /// The same: they are being taken over from a dead node.
    TakingOver(Position),
    /// The same, and they cannot be read for now.
    Unreadable(Position),
    /// Nothing of this node's follows.
    End,
}

/// The origin of a table's map.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Standing {
    /// No map: the node has not joined a cluster yet.
    Unknown,
    /// An earlier incarnation of the node published it; this incarnation has not joined yet.
    Remembered,
    /// The coordinator, which knows this incarnation of the node.
    Joined,
}

/// A node's role for every position, at one map epoch.
pub struct RangeTable {
    node: NodeId,
    map: Arc<TabletMap>,
    entries: Box<[RangeEntry]>,
    /// The first position of each entry, stored separately so that a search touches few cache lines.
    firsts: Box<[u64]>,
    /// The client address of each member as redirects name it, in the order of the map's nodes.
    addresses: Box<[Box<str>]>,
    owns_everything: bool,
    standing: Standing,
    /// The map for who reads the current version, and for who reads the one before only.
    map_json: [OnceLock<String>; 2],
}

impl RangeTable {
    /// The table of a node that has not joined a cluster and has no map: it serves no position (R4).
    pub fn before_joining(node: NodeInfo) -> RangeTable {
        let id = node.id;
        let map = Arc::new(TabletMap::founded_by(node));
        let lost = RangeEntry { range: PositionRange::ALL, role: Role::Lost, owner: id, tracked: None };
        RangeTable { standing: Standing::Unknown, ..RangeTable::from_entries(id, map, vec![lost]) }
    }

    /// The table of a node that has not rejoined its cluster, with the last map of an earlier incarnation. It
    /// serves no position (R4), and redirects clients by that map.
    ///
    /// # Panics
    /// If the node is no member by the map.
    pub fn remembered(node: NodeInfo, map: &TabletMap) -> RangeTable {
        let id = node.id;
        let map = map.with_member(node).expect("a remembered map was checked when it was read");
        let entry = |tablet: &Tablet| RangeEntry {
            range: tablet.range,
            role: if tablet.owner == id { Role::Lost } else { Role::Elsewhere },
            owner: tablet.owner,
            tracked: None,
        };
        let entries = join_neighbours(map.tablets().iter().map(entry).collect());
        RangeTable { standing: Standing::Remembered, ..RangeTable::from_entries(id, Arc::new(map), entries) }
    }

    /// The table of `node` under `map`, with the imports and exports that it takes part in.
    ///
    /// # Panics
    /// If two imports overlap (the coordinator starts no such migrations), what is imported is tracked (M11),
    /// or no member is called `node`.
    pub fn new(
        node: NodeId,
        map: Arc<TabletMap>,
        imports: &[Arc<ImportView>],
        exports: &[Arc<ExportView>],
    ) -> RangeTable {
        assert!(map.node(node).is_some(), "the tablet map was made for a cluster without this node");
        for (index, import) in imports.iter().enumerate() {
            let apart = |other: &Arc<ImportView>| !other.range().overlaps(import.range());
            assert!(imports[..index].iter().all(apart), "import {} overlaps another", import.id());
        }
        let entries = tiles(&map, imports, exports)
            .into_iter()
            .map(|range| {
                let owner = map.owner_of(range.first());
                let role = role(node, owner, &map, range, imports, exports);
                let mut tracking = exports.iter().filter(|view| view.is_tracked());
                let tracked = tracking.find(|view| role.is_served() && view.range().covers(range)).cloned();
                let is_unmarked = tracked.is_some() && matches!(role, Role::Importing(_));
                assert!(!is_unmarked, "M11: {range} is tracked while it is imported");
                RangeEntry { range, role, owner, tracked }
            })
            .collect();
        RangeTable::from_entries(node, map, join_neighbours(entries))
    }

    /// The same table, but that nobody waits for these ranges, which cannot be taken over for now.
    #[must_use]
    pub fn without_waiting_for(mut self, ranges: &[PositionRange]) -> RangeTable {
        for entry in &mut self.entries {
            let is_failing = ranges.iter().any(|range| range.covers(entry.range));
            if is_failing && matches!(entry.role, Role::TakingOver) {
                entry.role = Role::Unreadable;
            }
        }
        self
    }

    fn from_entries(node: NodeId, map: Arc<TabletMap>, entries: Vec<RangeEntry>) -> RangeTable {
        let whole = entries.first().is_some_and(|entry| entry.range.first() == Position::FIRST)
            && entries.last().is_some_and(|entry| entry.range.last() == Position::LAST)
            && entries.windows(2).all(|pair| pair[0].range.last().next() == Some(pair[1].range.first()));
        assert!(whole, "R1: the range table leaves a gap or overlaps");
        RangeTable {
            node,
            firsts: entries.iter().map(|entry| entry.range.first().0).collect(),
            owns_everything: matches!(&entries[..], [RangeEntry { role: Role::Owned, tracked: None, .. }]),
            addresses: map.nodes().iter().map(|node| node.client_addr.unbracketed().into()).collect(),
            entries: entries.into(),
            standing: Standing::Joined,
            map_json: Default::default(),
            map,
        }
    }

    /// This node.
    pub fn node(&self) -> NodeId {
        self.node
    }

    /// The tablet map that clients may see: the coordinator's, or the last of an earlier incarnation of the
    /// node.
    pub fn known_map(&self) -> Option<&Arc<TabletMap>> {
        (self.standing != Standing::Unknown).then_some(&self.map)
    }

    /// The tablet map that the table was built from. Without one a placeholder, which must not be shown
    /// ([`known_map`](Self::known_map)).
    pub fn map(&self) -> &Arc<TabletMap> {
        &self.map
    }

    /// Whether the coordinator has confirmed that this incarnation of the node is a member.
    pub fn is_joined(&self) -> bool {
        self.standing == Standing::Joined
    }

    /// The known tablet map as SIDLE.MAP shows it to a client that reads no later version than this; made
    /// once.
    pub fn map_json(&self, version: ProtocolVersion) -> Option<&str> {
        let map = self.known_map()?;
        let written = &self.map_json[usize::from(version < ProtocolVersion::CURRENT)];
        Some(written.get_or_init(|| map.written_in(version)))
    }

    /// Every range with its role, in order.
    pub fn entries(&self) -> &[RangeEntry] {
        &self.entries
    }

    /// Whether this node has everything, whoever may be copying it.
    pub fn is_sole_owner(&self) -> bool {
        self.entries.iter().all(|entry| matches!(entry.role, Role::Owned))
    }

    /// Whether this node owns every position, has all of its data, and nothing is copied from it.
    #[inline]
    pub fn owns_everything(&self) -> bool {
        self.owns_everything
    }

    /// The entry that holds the position.
    #[inline]
    pub fn entry_at(&self, position: Position) -> &RangeEntry {
        // R1: the first entry starts at the first position, so at least one starts no later.
        &self.entries[self.firsts.partition_point(|&first| first <= position.0) - 1]
    }

    /// Whether an export has given the position away, for a worker at this step.
    pub(crate) fn has_given(&self, position: Position, step: u64) -> bool {
        matches!(&self.entry_at(position).role, Role::Exporting(view) if !view.keeps(position, step))
    }

    /// The ranges that this node owns, arriving ones included, in order.
    pub fn owned(&self) -> impl Iterator<Item = PositionRange> + '_ {
        self.entries.iter().filter(|entry| entry.role.is_served()).map(|entry| entry.range)
    }

    /// Whether this node serves commands on the position now.
    pub fn is_served(&self, position: Position) -> bool {
        match &self.entry_at(position).role {
            Role::Owned => true,
            Role::Importing(view) if view.is_by_cuts() => view.has_arrived(position),
            Role::Importing(view) => view.activated(),
            Role::Exporting(_) | Role::Elsewhere | Role::Lost | Role::TakingOver | Role::Unreadable => false,
        }
    }

    /// The import whose source serves what is at this position until its turn comes: a large collection, or
    /// anything where memory is short (`is_short`).
    pub fn left_to_source(&self, position: Position, is_short: bool) -> Option<&ImportView> {
        let is_left = |view: &ImportView| match is_short {
            true => view.is_kept_by_source(position),
            false => view.is_left_to_source(position),
        };
        match &self.entry_at(position).role {
            Role::Importing(view) if is_left(view) => Some(view),
            _ => None,
        }
    }

    /// Whether this node owns the position.
    #[inline]
    pub fn is_owned(&self, position: Position) -> bool {
        self.owns_everything || self.entry_at(position).role.is_served()
    }

    /// What a removal leaves behind at the position (M6).
    #[inline]
    pub fn left_by_removal(&self, position: Position) -> Leave {
        match &self.entry_at(position).role {
            Role::Importing(view) => view.left_by_removal(),
            _ => Leave::Nothing,
        }
    }

    /// The number of this node's keys by its own count: those of what it owns, missing ones included, and of
    /// exports those that the new owner does not count yet. Where a range moves, completions are counted,
    /// too: nobody knows how many of them are where.
    pub fn key_count(&self, store: &Store) -> u64 {
        let count = |entry: &RangeEntry| match &entry.role {
            Role::Owned => store.shown_in(entry.range),
            Role::Importing(view) => {
                let is_first = entry.range.contains(view.range().first());
                let awaited = if is_first { view.missing_keys() } else { 0 };
                let here = if view.activated() { store.len_in(entry.range) } else { 0 };
                (here + awaited).saturating_sub(if is_first { view.inert_records() } else { 0 })
            }
            Role::Exporting(view) if !view.is_handed_over() => view.kept_records(store.len_in(entry.range)),
            Role::Exporting(_) | Role::Elsewhere | Role::Lost | Role::TakingOver | Role::Unreadable => 0,
        };
        self.entries.iter().map(count).sum()
    }

    /// Whether all of the range is this node's, arrived or not.
    pub fn has(&self, range: PositionRange) -> bool {
        let within = self.entries.iter().filter(|entry| entry.range.intersection(range).is_some());
        within.map(|entry| &entry.role).all(|role| matches!(role, Role::Owned | Role::Importing(_)))
    }

    /// The first part of the range that this node imports and that has not all arrived. Call it before
    /// looking into the store.
    pub fn awaited_in(&self, range: PositionRange) -> Option<(MigrationId, PositionRange)> {
        self.entries.iter().find_map(|entry| match &entry.role {
            Role::Importing(view) => {
                let range = entry.range.intersection(range).filter(|&part| !view.has_all(part))?;
                Some((view.id(), range))
            }
            _ => None,
        })
    }

    /// Whether any part of the range is being taken over from a dead node.
    pub fn is_taking_over(&self, range: PositionRange) -> bool {
        let is_its = |entry: &&RangeEntry| entry.range.overlaps(range);
        self.entries.iter().filter(is_its).any(|entry| matches!(entry.role, Role::TakingOver))
    }

    /// Whether any part of the range is to be taken over, and cannot be read for now.
    pub fn is_unreadable(&self, range: PositionRange) -> bool {
        let is_its = |entry: &&RangeEntry| entry.range.overlaps(range);
        self.entries.iter().filter(is_its).any(|entry| matches!(entry.role, Role::Unreadable))
    }

    /// How a walk over this node's keys continues from a position.
    pub fn reach(&self, from: Position) -> Reach {
        let index = self.firsts.partition_point(|&first| first <= from.0) - 1;
        for entry in &self.entries[index..] {
            let start = entry.range.first().max(from);
            match &entry.role {
                Role::Owned => return Reach::Here(rest(entry.range, start)),
                Role::Importing(view) => return reach_of_import(view, entry.range, start),
                Role::TakingOver => return Reach::TakingOver(start),
                Role::Unreadable => return Reach::Unreadable(start),
                Role::Exporting(_) | Role::Elsewhere | Role::Lost => {}
            }
        }
        Reach::End
    }

    /// Where to send a request for a position that this node does not serve.
    ///
    /// A whole slot elsewhere is answered with MOVED. Clients see a split slot as its first position's
    /// owner's. That owner forwards requests for the other parts. To opted-in clients it answers ASK, so that
    /// they keep their maps. Every other node redirects to it.
    ///
    /// No redirect names this node's own address. A member that lost its data directory stays in the map at
    /// its old address, and the node that now runs there stands in for it: clients of the lost one come here.
    pub fn redirect(&self, position: Position) -> Redirect<'_> {
        let entry = self.entry_at(position);
        if self.is_here(entry.owner) {
            return Redirect::NotServed;
        }
        let slot = position.slot();
        let shown = self.map.slot_owner(slot);
        if self.is_here(shown) {
            Redirect::Ask(slot, self.address(entry.owner))
        } else {
            Redirect::Moved(slot, self.address(shown))
        }
    }

    /// Whether this member's client address is this node's.
    fn is_here(&self, member: NodeId) -> bool {
        member == self.node || self.address(member) == self.address(self.node)
    }

    /// The client address of a member, as redirects name it.
    ///
    /// # Panics
    /// If the map has no such member.
    pub fn address(&self, node: NodeId) -> &str {
        let index = self.map.nodes().binary_search_by_key(&node, |member| member.id);
        &self.addresses[index.expect("every owner is a member of the cluster")]
    }

    /// The import with this number, while it runs.
    pub fn import(&self, id: MigrationId) -> Option<&Arc<ImportView>> {
        self.imports().find(|view| view.id() == id)
    }

    /// The imports that run.
    pub fn imports(&self) -> impl Iterator<Item = &Arc<ImportView>> {
        self.entries.iter().filter_map(|entry| match &entry.role {
            Role::Importing(view) => Some(view),
            _ => None,
        })
    }

    /// The exports whose frozen copy is still here.
    pub fn exports(&self) -> impl Iterator<Item = &Arc<ExportView>> {
        self.entries.iter().filter_map(|entry| match &entry.role {
            Role::Exporting(view) => Some(view),
            _ => None,
        })
    }
}

/// Cuts the positions wherever an owner changes or a migration begins or ends.
fn tiles(map: &TabletMap, imports: &[Arc<ImportView>], exports: &[Arc<ExportView>]) -> Vec<PositionRange> {
    let ranges = (map.tablets().iter().map(|tablet| tablet.range))
        .chain(map.migrations().iter().map(|record| record.range))
        .chain(map.takeovers().iter().map(|takeover| takeover.range))
        .chain(imports.iter().map(|view| view.range()))
        .chain(exports.iter().map(|view| view.range()));
    let mut firsts = BTreeSet::from([Position::FIRST]);
    for range in ranges {
        firsts.insert(range.first());
        firsts.extend(range.last().next());
    }
    let lasts = firsts.iter().skip(1).filter_map(|first| first.previous()).chain([Position::LAST]);
    firsts.iter().zip(lasts).filter_map(|(&first, last)| PositionRange::new(first, last)).collect()
}

fn role(
    node: NodeId,
    owner: NodeId,
    map: &TabletMap,
    range: PositionRange,
    imports: &[Arc<ImportView>],
    exports: &[Arc<ExportView>],
) -> Role {
    // What was given is still to be cleared, where the range came back.
    let is_by_cuts = |view: &&Arc<ExportView>| view.is_by_cuts() && view.range().covers(range);
    if owner != node || exports.iter().any(|view| is_by_cuts(&view)) {
        return match exports.iter().find(|view| view.range().covers(range)) {
            Some(view) => Role::Exporting(Arc::clone(view)),
            None => Role::Elsewhere,
        };
    }
    if let Some(view) = imports.iter().find(|view| view.range().covers(range)) {
        return Role::Importing(Arc::clone(view));
    }
    if map.takeover_at(range.first()).is_some() && !fault!(ServesBeforeItHasTakenOver) {
        return Role::TakingOver;
    }
    match map.migration_at(range.first()) {
        Some(_) => Role::Lost,
        None => Role::Owned,
    }
}

/// Joins neighbours that differ in nothing, so that the table stays short.
fn join_neighbours(entries: Vec<RangeEntry>) -> Vec<RangeEntry> {
    let mut joined: Vec<RangeEntry> = Vec::with_capacity(entries.len());
    for entry in entries {
        let Some(before) = joined.last_mut().filter(|before| is_same(before, &entry)) else {
            joined.push(entry);
            continue;
        };
        before.range =
            PositionRange::new(before.range.first(), entry.range.last()).expect("the entries are in order");
    }
    joined
}

fn is_same(a: &RangeEntry, b: &RangeEntry) -> bool {
    a.owner == b.owner
        && a.tracked.as_ref().map(Arc::as_ptr) == b.tracked.as_ref().map(Arc::as_ptr)
        && match (&a.role, &b.role) {
            (Role::Owned, Role::Owned)
            | (Role::Elsewhere, Role::Elsewhere)
            | (Role::Lost, Role::Lost)
            | (Role::TakingOver, Role::TakingOver)
            | (Role::Unreadable, Role::Unreadable) => true,
            (Role::Importing(a), Role::Importing(b)) => Arc::ptr_eq(a, b),
            (Role::Exporting(a), Role::Exporting(b)) => Arc::ptr_eq(a, b),
            _ => false,
        }
}

/// Only the arrived part of an import can be walked: beyond it a key might be missed that was never deleted.
fn reach_of_import(view: &ImportView, range: PositionRange, from: Position) -> Reach {
    if !view.activated() {
        return Reach::NotYet(from, view.id());
    }
    let mut partitions = view.partitions().iter().zip(view.progress());
    let (partition, next) = partitions
        .find(|(partition, _)| partition.contains(from))
        .expect("the partitions tile the import's range");
    let arrived = match next {
        None => partition.last(),
        Some(next) => match next.previous() {
            Some(last) if last >= from => last,
            _ => return Reach::NotYet(from, view.id()),
        },
    };
    Reach::Here(PositionRange::new(from, arrived.min(range.last())).expect("`from` has arrived"))
}

fn rest(range: PositionRange, from: Position) -> PositionRange {
    PositionRange::new(from, range.last()).expect("the walk stands inside the range")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{migration_spec, node_info};
    use sidle_cluster::{HostPort, Tablet};
    use sidle_testbed::fixtures::{node_id as id, range};
    use sidle_types::{MapEpoch, TabletEpoch};

    /// Node 1 owns everything but 100..=199 and 300..=399, which are node 2's.
    fn map() -> Arc<TabletMap> {
        let tablet = |first, last, owner| Tablet { range: range(first, last), owner, epoch: TabletEpoch(1) };
        let tablets = vec![
            tablet(0, 99, id(1)),
            tablet(100, 199, id(2)),
            tablet(200, 299, id(1)),
            tablet(300, 399, id(2)),
            tablet(400, u64::MAX, id(1)),
        ];
        let nodes = vec![node_info(1), node_info(2)];
        Arc::new(TabletMap::new(MapEpoch(5), nodes, tablets, Vec::new()).expect("a sound map"))
    }

    #[test]
    fn entry_at_agrees_with_a_linear_search() {
        let table = RangeTable::new(id(1), map(), &[], &[]);
        assert!(!table.owns_everything());
        for position in [0, 1, 99, 100, 150, 199, 200, 299, 300, 399, 400, u64::MAX].map(Position) {
            let entry = table.entry_at(position);
            assert!(entry.range.contains(position));
            assert_eq!(entry.owner, table.map().owner_of(position));
            assert_eq!(table.is_owned(position), entry.owner == id(1));
        }
    }

    #[test]
    fn a_sole_owner_has_one_entry() {
        let map = Arc::new(TabletMap::founded_by(node_info(1)));
        let table = RangeTable::new(id(1), map, &[], &[]);
        assert!(table.owns_everything() && table.is_owned(Position::LAST));
        assert_eq!(table.entries().len(), 1);
    }

    #[test]
    fn imports_and_exports_cut_entries() {
        let (import, _writer) = ImportView::new(&migration_spec(1, range(120, 150), 1, 2));
        let (export, _export_writer) = ExportView::new(&migration_spec(1, range(250, 450), 2, 1), &[]);
        let table = RangeTable::new(id(2), map(), &[import], &[export]);
        let roles: Vec<(u64, String)> =
            table.entries().iter().map(|e| (e.range.first().0, format!("{:?}", e.role))).collect();
        let expected = [
            (0, "Elsewhere"),
            (100, "Owned"),
            (120, "Importing"),
            (151, "Owned"),
            (200, "Elsewhere"),
            (250, "Exporting"),
            (300, "Owned"),
            (400, "Exporting"),
            (451, "Elsewhere"),
        ];
        assert_eq!(roles, expected.map(|(first, role)| (first, role.to_owned())));
    }

    #[test]
    fn a_range_that_is_copied_is_owned_and_tracked() {
        let mut ahead = migration_spec(1, range(120, 150), 2, 1);
        ahead.protocol = sidle_migration::SOURCE_DRIVEN;
        let (view, _writer) = ExportView::new(&ahead, &[]);
        let founded = Arc::new(TabletMap::founded_by(node_info(2)));
        let whole = RangeTable::new(id(2), founded, &[], std::slice::from_ref(&view));
        assert!(!whole.owns_everything() && whole.is_owned(Position(130)));
        let table = RangeTable::new(id(2), map(), &[], &[view]);
        let tracked = |first| table.entry_at(Position(first)).tracked.is_some();
        assert_eq!([100, 120, 150, 151, 200].map(tracked), [false, true, true, false, false]);
        assert!(table.entries().iter().all(|entry| !matches!(entry.role, Role::Exporting(_))));
    }

    #[test]
    fn a_node_before_joining_serves_nothing() {
        let table = RangeTable::before_joining(node_info(1));
        assert!(!table.is_joined() && !table.is_owned(Position::FIRST));
        assert_eq!(table.redirect(Position(7)), Redirect::NotServed);
        assert_eq!(table.reach(Position::FIRST), Reach::End);
        assert!(
            table.known_map().is_none() && table.map_json(ProtocolVersion::CURRENT).is_none(),
            "it claims no slots"
        );
    }

    #[test]
    fn a_node_that_remembers_a_map_serves_nothing_and_knows_the_owners() {
        let slots = |first, last| {
            let slot = |number| Slot::new(number).expect("a slot");
            PositionRange::of_slots(slot(first), slot(last)).expect("in order")
        };
        let tablet = |range, owner| Tablet { range, owner, epoch: TabletEpoch(1) };
        let tablets = vec![tablet(slots(0, 99), id(1)), tablet(slots(100, 16383), id(2))];
        let map = TabletMap::new(MapEpoch(5), vec![node_info(1), node_info(2)], tablets, Vec::new());
        let mut info = node_info(1);
        info.incarnation.0 += 1;
        let table = RangeTable::remembered(info.clone(), &map.expect("a sound map"));
        assert!(!table.is_joined());
        assert_eq!(table.owned().count(), 0, "R4");
        let (own, other) = (slots(7, 7).first(), slots(100, 100).first());
        assert_eq!(table.redirect(own), Redirect::NotServed, "its owner may have changed");
        assert_eq!(table.redirect(other), Redirect::Moved(other.slot(), "127.0.0.1:7002"));
        let known = table.known_map().expect("it remembers");
        assert_eq!((known.epoch(), known.node(info.id)), (MapEpoch(5), Some(&info)));
    }

    #[test]
    fn no_redirect_names_this_node() {
        // Node 3 runs where node 1 ran, whose data directory is lost.
        let mut me = node_info(3);
        me.client_addr = node_info(1).client_addr;
        let slots = |first, last| {
            let slot = |number| Slot::new(number).expect("a slot");
            PositionRange::of_slots(slot(first), slot(last)).expect("in order")
        };
        let whole = slots(0, 16383);
        let split = slots(5, 5).first();
        let after = Position(split.0 + 100);
        let between = |first, last| PositionRange::new(first, last).expect("in order");
        let tablet = |range, owner| Tablet { range, owner, epoch: TabletEpoch(1) };
        let tablets = vec![
            tablet(between(whole.first(), Position(after.0 - 1)), id(1)),
            tablet(between(after, whole.last()), id(2)),
        ];
        let nodes = vec![node_info(1), node_info(2), me.clone()];
        let map = TabletMap::new(MapEpoch(5), nodes, tablets, Vec::new()).expect("a sound map");
        let tables =
            [RangeTable::new(me.id, Arc::new(map.clone()), &[], &[]), RangeTable::remembered(me, &map)];
        for table in tables {
            assert_eq!(table.redirect(slots(3, 3).first()), Redirect::NotServed);
            assert_eq!(table.redirect(split), Redirect::NotServed);
            let ask = Redirect::Ask(split.slot(), "127.0.0.1:7002");
            assert_eq!(table.redirect(after), ask, "this node is the shown owner");
            let other = slots(6, 6).first();
            assert_eq!(table.redirect(other), Redirect::Moved(other.slot(), "127.0.0.1:7002"));
        }
    }

    #[test]
    fn redirects_name_ipv6_addresses_without_brackets() {
        let mut other = node_info(2);
        other.client_addr = HostPort::new("::1", 7002).expect("an address");
        let tablets = vec![Tablet { range: PositionRange::ALL, owner: other.id, epoch: TabletEpoch(1) }];
        let map = TabletMap::new(MapEpoch(5), vec![node_info(1), other], tablets, Vec::new());
        let table = RangeTable::new(id(1), Arc::new(map.expect("a sound map")), &[], &[]);
        let slot = Position::FIRST.slot();
        assert_eq!(table.redirect(Position::FIRST), Redirect::Moved(slot, "::1:7002"));
    }

    #[test]
    fn reach_skips_what_is_elsewhere_and_stops_at_what_has_not_arrived() {
        let whole = range(300, 399);
        let (view, mut writer) = ImportView::new(&migration_spec(1, whole, 1, 2));
        let table = RangeTable::new(id(2), map(), &[view], &[]);
        assert_eq!(table.reach(Position(0)), Reach::Here(range(100, 199)));
        assert_eq!(table.reach(Position(150)), Reach::Here(range(150, 199)));
        assert_eq!(table.reach(Position(200)), Reach::NotYet(Position(300), MigrationId(1)), "not activated");
        assert!(!table.is_served(Position(300)) && table.is_served(Position(100)));
        writer.activate();
        let awaited = |first, last| table.awaited_in(range(first, last)).map(|(_, part)| part);
        assert_eq!(awaited(0, u64::MAX), Some(range(300, 399)));
        assert_eq!((awaited(0, 299), awaited(390, 500)), (None, Some(range(390, 399))));
        assert_eq!(
            table.reach(Position(200)),
            Reach::NotYet(Position(300), MigrationId(1)),
            "nothing has arrived"
        );
        writer.advance(0, Some(Position(350)));
        assert_eq!(table.reach(Position(200)), Reach::Here(range(300, 349)));
        assert_eq!(table.reach(Position(350)), Reach::NotYet(Position(350), MigrationId(1)));
        writer.complete();
        assert_eq!(table.reach(Position(350)), Reach::Here(range(350, 399)));
        assert_eq!(table.reach(Position(400)), Reach::End);
    }
}
