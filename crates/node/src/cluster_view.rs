//! The cluster as this node shows it to clients of Redis Cluster: members, slots, and failures.
//!
//! In Redis a node has failed when most agree that it is unreachable; until then it is suspected. Here the
//! coordinator decides. Without the coordinator a node knows only its own links: it suspects the
//! coordinator's node, and those that it cannot reach.
//!
//! Without a map there are no slots. A slot counts as served while its owner is not suspected. This node's
//! own slots count only once the coordinator has confirmed them.

use crate::range_table::RangeTable;
use arc_swap::ArcSwap;
use sidle_cluster::{NodeInfo, SlotRun, Suspects};
use sidle_types::NodeId;
use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

/// The unreachable members. The control thread replaces them as a whole.
#[derive(Debug, Default)]
pub struct Unreachable {
    who: ArcSwap<Who>,
    others_may_coordinate: AtomicBool,
}

#[derive(Debug, Default)]
struct Who {
    suspects: Suspects,
    /// The node that runs the coordinator.
    coordinator: Option<NodeId>,
}

impl Unreachable {
    /// Replaces the unreachable members.
    pub fn replace(&self, suspects: Suspects, coordinator: Option<NodeId>) {
        self.who.store(Arc::new(Who { suspects, coordinator }));
    }

    /// Sets the node that runs the coordinator, if known.
    pub fn set_coordinator(&self, coordinator: Option<NodeId>) {
        let who = self.who.load();
        if who.coordinator != coordinator {
            self.replace(who.suspects.clone(), coordinator);
        }
    }

    /// The node that runs the coordinator, once known.
    pub(crate) fn coordinator(&self) -> Option<NodeId> {
        self.who.load().coordinator
    }

    /// Several nodes reach the cluster's record: when its coordinator has died, another one follows.
    pub fn set_others_may_coordinate(&self) {
        self.others_may_coordinate.store(true, Relaxed);
    }

    /// Whether that is so, as far as this node knows.
    pub(crate) fn others_may_coordinate(&self) -> bool {
        self.others_may_coordinate.load(Relaxed)
    }
}

/// A member's health.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Health {
    Well,
    /// This node does not reach it.
    Suspected,
    /// The coordinator does not reach it.
    Failed,
}

/// How many slots have an owner, and how many of these are not known to be served: those of failed nodes, and
/// others.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct SlotCounts {
    pub(crate) assigned: u64,
    pub(crate) failed: u64,
    pub(crate) suspected: u64,
}

/// What one command shows of the cluster.
pub(crate) struct ClusterView<'t> {
    ranges: &'t RangeTable,
    unreachable: Arc<Who>,
    /// All slots that have an owner, in order.
    runs: Vec<SlotRun>,
}

impl<'t> ClusterView<'t> {
    pub(crate) fn new(ranges: &'t RangeTable, unreachable: &Unreachable) -> ClusterView<'t> {
        let runs = ranges.known_map().map_or_else(Vec::new, |map| map.slot_runs());
        ClusterView { ranges, unreachable: unreachable.who.load_full(), runs }
    }

    /// The members, this node at least, in order of their ids.
    pub(crate) fn nodes(&self) -> &'t [NodeInfo] {
        self.ranges.map().nodes()
    }

    /// All slots as runs of one owner.
    pub(crate) fn runs(&self) -> &[SlotRun] {
        &self.runs
    }

    /// The slots shown as the node's.
    pub(crate) fn slots_of(&self, node: NodeId) -> Vec<SlotRun> {
        self.runs.iter().copied().filter(|run| run.owner == node).collect()
    }

    pub(crate) fn health(&self, node: NodeId) -> Health {
        let suspects = &self.unreachable.suspects;
        if suspects.by_coordinator.contains(&node) {
            Health::Failed
        } else if suspects.by_this_node.contains(&node) {
            Health::Suspected
        } else {
            Health::Well
        }
    }

    /// The number of nodes with slots.
    pub(crate) fn owners(&self) -> usize {
        self.runs.iter().map(|run| run.owner).collect::<BTreeSet<_>>().len()
    }

    pub(crate) fn slot_counts(&self) -> SlotCounts {
        let mut counts = SlotCounts::default();
        for run in &self.runs {
            let slots = u64::from(run.last.number() - run.first.number()) + 1;
            let is_unconfirmed = run.owner == self.ranges.node() && !self.ranges.is_joined();
            counts.assigned += slots;
            match self.health(run.owner) {
                Health::Failed => counts.failed += slots,
                Health::Suspected => counts.suspected += slots,
                Health::Well if is_unconfirmed => counts.suspected += slots,
                Health::Well => {}
            }
        }
        counts
    }

    /// The map's epoch; 0 without a map.
    pub(crate) fn epoch(&self) -> u64 {
        self.ranges.known_map().map_or(0, |map| map.epoch().0)
    }

    /// The closest to Redis's configuration epoch: the latest ownership epoch.
    pub(crate) fn config_epoch(&self, node: NodeId) -> u64 {
        let tablets = self.ranges.known_map().into_iter().flat_map(|map| map.tablets());
        tablets.filter(|tablet| tablet.owner == node).map(|tablet| tablet.epoch.0).max().unwrap_or(0)
    }
}
