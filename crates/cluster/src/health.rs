//! Which members are suspected: as the coordinator reports it to every node, and as one node knows it.

use crate::bounds;
use serde::{Deserialize, Serialize};
use sidle_types::NodeId;
use std::collections::BTreeSet;

/// What the coordinator knows of the members' health at one moment.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
// It travels between two versions: what a later one adds is ignored.
pub struct Health {
    /// The node whose process runs the coordinator: when the coordinator is silent, so is that node.
    pub coordinator: NodeId,
    /// The members that have been silent for too long, in order of their ids.
    #[serde(deserialize_with = "bounds::suspected")]
    pub suspected: Vec<NodeId>,
}

/// The members that are not well, as one node knows it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Suspects {
    /// As the coordinator reports.
    pub by_coordinator: BTreeSet<NodeId>,
    /// Only as this node has found out.
    pub by_this_node: BTreeSet<NodeId>,
}

impl Health {
    /// A fingerprint of the content. A heartbeat names the one that its node knows, so the list is sent only
    /// when it has changed. It depends on nothing else: a new coordinator need not know what an earlier one
    /// sent. Never 0, which stands for a node that knows nothing yet.
    pub fn fingerprint(&self) -> u64 {
        // FNV-1a.
        const BASIS: u64 = 0xcbf2_9ce4_8422_2325;
        const PRIME: u64 = 0x0100_0000_01b3;
        let nodes = [&self.coordinator].into_iter().chain(&self.suspected);
        let bytes = nodes.flat_map(|node| node.as_bytes());
        bytes.fold(BASIS, |hash, &byte| (hash ^ u64::from(byte)).wrapping_mul(PRIME)).max(1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixtures::node_id;

    #[test]
    fn what_a_later_coordinator_says_besides_is_ignored() {
        let health = Health { coordinator: node_id(1), suspected: vec![node_id(2)] };
        let text = serde_json::to_string(&health).unwrap().replacen('{', r#"{"unheard_of":1,"#, 1);
        assert_eq!(serde_json::from_str::<Health>(&text).ok(), Some(health));
    }

    #[test]
    fn fingerprint_tells_lists_apart() {
        let health = |suspected: &[u8]| Health {
            coordinator: node_id(1),
            suspected: suspected.iter().map(|&number| node_id(number)).collect(),
        };
        let lists: [&[u8]; 4] = [&[], &[2], &[3], &[2, 3]];
        let fingerprints = lists.map(|list| health(list).fingerprint());
        for (index, fingerprint) in fingerprints.iter().enumerate() {
            assert_ne!(*fingerprint, 0);
            assert!(!fingerprints[..index].contains(fingerprint));
        }
        assert_ne!(Health { coordinator: node_id(2), ..health(&[]) }.fingerprint(), fingerprints[0]);
    }
}
