//! A node's heat as it travels (JSON), and the heat of a cluster, which is made of its nodes'.

use crate::access::Usage;
use crate::heat::Recent;
use crate::summary::{Hot, Summary};
use serde::{Deserialize, Serialize};
use sidle_types::{NodeId, Position, Slot};
use std::collections::BTreeMap;

/// The last seconds of one node. All counts are estimates from samples.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct HeatReport {
    /// The node.
    pub node: NodeId,
    /// The time that was looked at, in microseconds; 0: nothing was counted yet.
    pub window_us: u64,
    /// Accesses to keys: a command with several keys counts for each.
    pub operations: u64,
    /// Those among them that may have changed the key.
    pub writes: u64,
    /// Bytes of the requests.
    pub bytes_in: u64,
    /// Bytes of the replies.
    pub bytes_out: u64,
    /// Processor time of the workers, in microseconds.
    pub cpu_us: u64,
    /// A key that is not listed had so many accesses at most.
    pub unlisted_at_most: u64,
    /// The hottest keys, the hottest first.
    pub keys: Vec<KeyReport>,
    /// The hottest slots, the hottest first.
    pub slots: Vec<SlotReport>,
}

/// One key.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct KeyReport {
    /// The key; bytes that are not printable ASCII are escaped as in a Rust string.
    pub key: String,
    /// Whether these are only its first 64 bytes.
    pub is_cut: bool,
    /// Its position.
    pub position: Position,
    /// Its slot.
    pub slot: Slot,
    /// Accesses, at least.
    pub operations: u64,
    /// Accesses, at most.
    pub operations_at_most: u64,
    /// Those among them that may have changed it.
    pub writes: u64,
    /// Bytes of the requests.
    pub bytes_in: u64,
    /// Bytes of the replies.
    pub bytes_out: u64,
    /// Processor time, in microseconds.
    pub cpu_us: u64,
}

/// One slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SlotReport {
    /// The slot.
    pub slot: Slot,
    /// Accesses to its keys.
    pub operations: u64,
}

impl HeatReport {
    /// Of a node's last seconds, with `most` keys and slots at most.
    pub fn new(node: NodeId, recent: Recent, most: usize) -> HeatReport {
        let Recent { mut keys, slots, us } = recent;
        keys.shorten(most);
        let total = keys.total();
        let key = |hot: &Hot| KeyReport {
            key: hot.key.bytes().escape_ascii().to_string(),
            is_cut: hot.key.is_cut(),
            position: hot.position,
            slot: hot.position.slot(),
            operations: hot.at_least(),
            operations_at_most: hot.count,
            writes: hot.usage.writes,
            bytes_in: hot.usage.bytes_in,
            bytes_out: hot.usage.bytes_out,
            cpu_us: hot.usage.nanoseconds / 1000,
        };
        let slot = |&(slot, operations): &(Slot, u64)| SlotReport { slot, operations };
        HeatReport {
            node,
            window_us: us,
            operations: total.operations,
            writes: total.writes,
            bytes_in: total.bytes_in,
            bytes_out: total.bytes_out,
            cpu_us: total.nanoseconds / 1000,
            unlisted_at_most: keys.absent(),
            keys: keys.hottest().iter().map(key).collect(),
            slots: slots.iter().take(most).map(slot).collect(),
        }
    }

    fn summary(&self) -> Summary<NamedKey> {
        let hot = |key: &KeyReport| Hot {
            position: key.position,
            count: key.operations_at_most.max(key.operations),
            error: key.operations_at_most.saturating_sub(key.operations),
            usage: Usage {
                operations: key.operations,
                writes: key.writes,
                bytes_in: key.bytes_in,
                bytes_out: key.bytes_out,
                nanoseconds: key.cpu_us.saturating_mul(1000),
            },
            key: NamedKey { key: key.key.clone(), is_cut: key.is_cut, node: self.node },
        };
        let total = Usage {
            operations: self.operations,
            writes: self.writes,
            bytes_in: self.bytes_in,
            bytes_out: self.bytes_out,
            nanoseconds: self.cpu_us.saturating_mul(1000),
        };
        Summary::new(self.keys.iter().map(hot).collect(), self.unlisted_at_most, total)
    }
}

/// A key, and the node that served it most.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NamedKey {
    /// As in [`KeyReport`].
    pub key: String,
    /// As in [`KeyReport`].
    pub is_cut: bool,
    /// The node.
    pub node: NodeId,
}

/// The last seconds of several nodes.
#[derive(Clone, Debug)]
pub struct ClusterHeat {
    /// The keys.
    pub keys: Summary<NamedKey>,
    /// Slots with their accesses and the node that served most of them, the hottest first.
    pub slots: Vec<(Slot, u64, NodeId)>,
    /// The time that was looked at, in microseconds.
    pub window_us: u64,
}

impl ClusterHeat {
    /// Merges the reports of nodes.
    pub fn new(reports: &[HeatReport]) -> ClusterHeat {
        let parts: Vec<_> = reports.iter().map(HeatReport::summary).collect();
        // All of it, the most at one node, that node.
        let mut found: BTreeMap<Slot, (u64, u64, NodeId)> = BTreeMap::new();
        for (report, slot) in
            reports.iter().flat_map(|report| report.slots.iter().map(move |slot| (report, slot)))
        {
            let (all, most, node) = found.entry(slot.slot).or_insert((0, 0, report.node));
            *all += slot.operations;
            if slot.operations > *most {
                (*most, *node) = (slot.operations, report.node);
            }
        }
        let mut slots: Vec<_> = found.into_iter().map(|(slot, (all, _, node))| (slot, all, node)).collect();
        slots.sort_by_key(|&(slot, all, _)| (std::cmp::Reverse(all), slot));
        let window_us = reports.iter().map(|report| report.window_us).max().unwrap_or(0);
        ClusterHeat { keys: Summary::merged(&parts), slots, window_us }
    }
}
