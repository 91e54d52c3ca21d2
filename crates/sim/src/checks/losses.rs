//! What a node's death may cost: exactly what stood in its memory and nowhere else.

use crate::disk::Disk;
use crate::host::Host;
use crate::world::HostId;
use sidle_cluster::Metadata;
use sidle_node::Role;
use sidle_store::Entry;
use sidle_types::{HashedKey, Position};

/// Which of these keys may be gone when this machine's process dies now: those that it owns, those that it gives up and
/// that have not arrived, those that it takes in.
pub fn keys_at_risk(hosts: &[Host], dying: HostId, keys: impl Iterator<Item = String>) -> Vec<String> {
    let possible = hosts[0].disk.as_ref().map(Disk::possible).unwrap_or_default();
    keys.filter(|key| is_at_risk(hosts, dying, &possible, key.as_bytes())).collect()
}

fn is_at_risk(hosts: &[Host], dying: HostId, possible: &[Metadata], key: &[u8]) -> bool {
    let position = Position::of_key(key);
    let Some(process) = &hosts[dying.0].process else { return false };
    let is_mine = process.workers.iter().any(|worker| worker.worker.ranges().is_owned(position));
    // By what the coordinator has committed, which the node may not have heard yet.
    let name = crate::process::node_id(dying);
    let is_assigned = possible.iter().any(|data| data.map.owner_of(position) == name);
    if is_mine || is_assigned {
        return true;
    }
    let is_source = possible
        .iter()
        .any(|data| data.map.migration_at(position).is_some_and(|migration| migration.source == name))
        || process
            .workers
            .iter()
            .any(|worker| matches!(worker.worker.ranges().entry_at(position).role, Role::Exporting(_)));
    // A frozen copy is lost where its target has no entry yet, which then wins for ever.
    is_source && !somebody_else_has_it(hosts, dying, key)
}

fn somebody_else_has_it(hosts: &[Host], dying: HostId, key: &[u8]) -> bool {
    let position = Position::of_key(key);
    hosts.iter().enumerate().filter(|(number, _)| *number != dying.0).any(|(_, host)| {
        host.process.as_ref().is_some_and(|process| {
            process.workers[0].worker.ranges().is_owned(position)
                && !matches!(process.parts.store.pin().get(HashedKey::new(key)), Entry::Absent)
        })
    })
}
