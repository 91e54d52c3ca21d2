//! The cluster as this node shows it to clients of Redis Cluster: members, slots, and who is not well.
//!
//! Redis takes a node for failed when most agree that it is not reached, and until then suspects it. Here the
//! coordinator's word is what all agree on. While the coordinator is silent each node knows by itself only:
//! it suspects the node that the coordinator runs on, and those that it does not reach.
//!
//! Without a map there are no slots. A slot counts as served while its owner is not suspected, and this
//! node's own slots only once the coordinator has confirmed that they are its own.

use crate::range_table::RangeTable;
use arc_swap::ArcSwap;
use sidle_cluster::{NodeInfo, SlotRun, Suspects};
use sidle_types::NodeId;
use std::collections::BTreeSet;
use std::sync::Arc;

/// The members that are not heard of, which the control thread replaces as a whole.
#[derive(Debug, Default)]
pub struct Unheard(ArcSwap<Who>);

/// Who they are.
#[derive(Debug, Default)]
struct Who {
    suspects: Suspects,
    /// The node that runs the coordinator.
    coordinator: Option<NodeId>,
}

impl Unheard {
    /// From now on these are not heard of, and no others.
    pub fn replace(&self, suspects: Suspects, coordinator: Option<NodeId>) {
        self.0.store(Arc::new(Who { suspects, coordinator }));
    }

    /// This node runs the coordinator from now on, as far as known.
    pub fn set_coordinator(&self, coordinator: Option<NodeId>) {
        let who = self.0.load();
        if who.coordinator != coordinator {
            self.replace(who.suspects.clone(), coordinator);
        }
    }

    /// The node that runs the coordinator, once known.
    pub(crate) fn coordinator(&self) -> Option<NodeId> {
        self.0.load().coordinator
    }
}

/// How well a member is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Health {
    Well,
    /// This node does not hear of it.
    Suspected,
    /// The coordinator does not.
    Failed,
}

/// How many slots have an owner, and how many of these nobody is known to serve: those of nodes that have
/// failed, and others.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct SlotCounts {
    pub(crate) assigned: u64,
    pub(crate) failed: u64,
    pub(crate) suspected: u64,
}

/// What one command shows of the cluster.
pub(crate) struct ClusterView<'t> {
    ranges: &'t RangeTable,
    unheard: Arc<Who>,
    /// All slots that have an owner, in order.
    runs: Vec<SlotRun>,
}

impl<'t> ClusterView<'t> {
    pub(crate) fn new(ranges: &'t RangeTable, unheard: &Unheard) -> ClusterView<'t> {
        let runs = ranges.known_map().map_or_else(Vec::new, |map| map.slot_runs());
        ClusterView { ranges, unheard: unheard.0.load_full(), runs }
    }

    /// The members, this node at least, in order of their ids.
    pub(crate) fn nodes(&self) -> &'t [NodeInfo] {
        self.ranges.map().nodes()
    }

    /// All slots as runs of one owner.
    pub(crate) fn runs(&self) -> &[SlotRun] {
        &self.runs
    }

    /// The slots that are shown as the node's.
    pub(crate) fn slots_of(&self, node: NodeId) -> Vec<SlotRun> {
        self.runs.iter().copied().filter(|run| run.owner == node).collect()
    }

    pub(crate) fn health(&self, node: NodeId) -> Health {
        let suspects = &self.unheard.suspects;
        if suspects.by_coordinator.contains(&node) {
            Health::Failed
        } else if suspects.by_this_node.contains(&node) {
            Health::Suspected
        } else {
            Health::Well
        }
    }

    /// How many nodes have slots.
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

    /// Redis's configuration epoch, as near as it comes: the latest of the ownership epochs.
    pub(crate) fn config_epoch(&self, node: NodeId) -> u64 {
        let tablets = self.ranges.known_map().into_iter().flat_map(|map| map.tablets());
        tablets.filter(|tablet| tablet.owner == node).map(|tablet| tablet.epoch.0).max().unwrap_or(0)
    }
}
