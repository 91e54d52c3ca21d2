//! The cluster as this node shows it to clients of Redis Cluster: members, slots, and who is suspected.
//!
//! Without a map there are no slots. A slot counts as served while its owner is not suspected, and this
//! node's own slots only once the coordinator has confirmed that they are its own.

use crate::range_table::RangeTable;
use arc_swap::ArcSwap;
use sidle_cluster::{NodeInfo, SlotRun};
use sidle_types::NodeId;
use std::collections::BTreeSet;
use std::sync::Arc;

/// The members that are suspected, which the control thread replaces as a whole.
#[derive(Debug, Default)]
pub struct Suspected(ArcSwap<BTreeSet<NodeId>>);

impl Suspected {
    /// From now on these are suspected, and no others.
    pub fn replace(&self, nodes: BTreeSet<NodeId>) {
        self.0.store(Arc::new(nodes));
    }

    /// All of them.
    pub fn load(&self) -> Arc<BTreeSet<NodeId>> {
        self.0.load_full()
    }
}

/// How many slots have an owner, and how many of these nobody is known to serve.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct SlotCounts {
    pub(crate) assigned: u64,
    pub(crate) not_served: u64,
}

/// What one command shows of the cluster.
pub(crate) struct ClusterView<'t> {
    ranges: &'t RangeTable,
    suspected: Arc<BTreeSet<NodeId>>,
    /// All slots that have an owner, in order.
    runs: Vec<SlotRun>,
}

impl<'t> ClusterView<'t> {
    pub(crate) fn new(ranges: &'t RangeTable, suspected: &Suspected) -> ClusterView<'t> {
        let runs = ranges.known_map().map_or_else(Vec::new, |map| map.slot_runs());
        ClusterView { ranges, suspected: suspected.load(), runs }
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

    pub(crate) fn is_suspected(&self, node: NodeId) -> bool {
        self.suspected.contains(&node)
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
            if is_unconfirmed || self.is_suspected(run.owner) {
                counts.not_served += slots;
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
