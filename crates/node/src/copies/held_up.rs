//! What clients and operators are told when no commit of the log becomes safe.

use sidle_cluster::TabletMap;
use sidle_log_copies::BackupId;
use sidle_types::NodeId;
use std::collections::BTreeSet;

/// Why nothing becomes safe, and what helps. `lacking`: the copies that count and lack what waits. None of
/// them: this node's own disk does. `coordinator`: the node that runs it, if known.
pub(super) fn held_up(lacking: &BTreeSet<BackupId>, map: &TabletMap, coordinator: Option<NodeId>) -> String {
    let shown = |node: NodeId| {
        let id = node.to_string();
        let at = map.node(node).map(|node| format!("{} ({})", node.client_addr, &id[..8]));
        at.unwrap_or_else(|| id[..8].to_owned())
    };
    let nodes: BTreeSet<NodeId> = lacking.iter().map(|backup| backup.node).collect();
    let names: Vec<String> = nodes.iter().map(|node| shown(*node)).collect();
    let at = names.join(", ");
    let (text, remedy) = match coordinator {
        _ if nodes.is_empty() => {
            ("this node's disk has not synced them".to_owned(), "look after that disk".to_owned())
        }
        Some(coordinator) if nodes.contains(&coordinator) => {
            let which = if nodes.len() == 1 { "which" } else { "one of which" };
            let text = format!(
                "the copies of its log at {at} are not reached, {which} coordinates the cluster, and only the \
                 coordinator can leave a copy out"
            );
            (text, format!("start {} again, or mend the network", shown(coordinator)))
        }
        coordinator => {
            let its = coordinator.map_or_else(|| "its node".to_owned(), shown);
            let text = format!(
                "the copies of its log at {at} are not reached, and the coordinator, which could leave them \
                 out, has not done so"
            );
            (text, format!("start {at} again, or the coordinator at {its}, or mend the network"))
        }
    };
    format!(
        "writes of this node cannot be made safe: {text}; {remedy}. What waits was not refused, and may yet be done"
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use sidle_cluster::fixtures;

    #[test]
    fn it_names_what_is_not_reached_and_what_to_start() {
        let map = fixtures::map(1, 3, &[(0, 1, 1)], Vec::new());
        let [second, third] = [2, 3].map(fixtures::node_id);
        let at =
            |node: NodeId| format!("{} ({})", map.node(node).unwrap().client_addr, &node.to_string()[..8]);
        let backups = |nodes: &[NodeId]| -> BTreeSet<BackupId> {
            nodes.iter().map(|&node| BackupId { node, incarnation: 1 }).collect()
        };
        for (lacking, coordinator, parts) in [
            (
                backups(&[second]),
                Some(second),
                vec![
                    format!("at {} are not reached, which coordinates", at(second)),
                    format!("start {}", at(second)),
                ],
            ),
            (
                backups(&[second, third]),
                Some(third),
                vec![
                    format!("at {}, {} are not reached, one of which", at(second), at(third)),
                    format!("start {} again", at(third)),
                ],
            ),
            (
                backups(&[second]),
                Some(third),
                vec![format!("start {} again, or the coordinator at {}", at(second), at(third))],
            ),
            (backups(&[]), None, vec!["this node's disk".to_owned()]),
        ] {
            let text = held_up(&lacking, &map, coordinator);
            assert!(parts.iter().all(|part| text.contains(part)), "{text}");
        }
    }
}
