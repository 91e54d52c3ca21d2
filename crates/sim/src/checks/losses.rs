//! A node's death may cost exactly what was in its memory and nowhere else.
//!
//! By the coordinator's commits, including one that may be in progress, a dying process puts a key at risk
//! that it
//! - owns, even with its source's frozen copy still there: any value in that may be outdated;
//! - gives up in a running migration, if it has not arrived: the target has no entry of its own for it;
//! - is about to take over, when the preparation lacks only its answer: the coordinator may have the answer
//!   already, and learn of the death afterwards.
//!
//! If the coordinator's process cannot die, the last is no risk, and neither is the first while the source
//! has no map that gives the key away: the range goes back to it.
//!
//! A key that the dying process owns outright, with no move under way, is not only at risk: it is gone before
//! the next incarnation begins. Nothing brings it back.

use crate::disk::Disk;
use crate::host::Host;
use crate::process::node_id;
use crate::workload::stored_key;
use crate::world::HostId;
use sidle_cluster::{Metadata, MigrationState};
use sidle_history::{Datum, Op, Operation, Outcome};
use sidle_node::Role;
use sidle_store::Entry;
use sidle_types::{HashedKey, NodeId, Position};

/// The client number under which losses are recorded.
pub const LOSSES: u64 = 1_000_000;

/// The keys that died with processes, until those are back.
#[derive(Debug, Default)]
pub struct Losses {
    /// Whether the coordinator's process cannot die.
    coordinator_lives: bool,
    /// What is certainly gone before this machine's next incarnation begins, and since when.
    gone: Vec<(HostId, Operation)>,
}

impl Losses {
    /// Nothing is lost yet.
    pub fn new(coordinator_lives: bool) -> Losses {
        Losses { coordinator_lives, gone: Vec::new() }
    }

    /// Which of these keys may be lost if this machine's process dies now.
    pub fn at_risk(&self, hosts: &[Host], dying: HostId, keys: impl Iterator<Item = String>) -> Vec<String> {
        let possible = hosts[0].disk.as_ref().map(Disk::possible).unwrap_or_default();
        keys.filter(|key| !matches!(self.fate(hosts, dying, &possible, key), Fate::Kept)).collect()
    }

    /// Which of these keys, none of which exists, may be set when this machine's process has died and be gone
    /// later. They are on their way to it or from it, perhaps by a map that is being committed.
    pub fn in_doubt(&self, hosts: &[Host], dying: HostId, keys: impl Iterator<Item = String>) -> Vec<String> {
        let possible = hosts[0].disk.as_ref().map(Disk::possible).unwrap_or_default();
        keys.filter(|key| matches!(self.fate(hosts, dying, &possible, key), Fate::AtRisk)).collect()
    }

    /// This machine's process dies right after this call. Records which of these keys may be gone.
    pub fn death(
        &mut self,
        hosts: &[Host],
        dying: HostId,
        keys: impl Iterator<Item = String>,
        now_us: u64,
        history: &mut Vec<Operation>,
    ) {
        let possible = hosts[0].disk.as_ref().map(Disk::possible).unwrap_or_default();
        let call_ns = now_us * 1000;
        for key in keys {
            match self.fate(hosts, dying, &possible, &key) {
                Fate::Kept => continue,
                Fate::AtRisk => {}
                Fate::Gone => self.gone.push((dying, operation(Op::Get, key.clone(), call_ns, None))),
            }
            history.push(operation(Op::Del, key, call_ns, None));
        }
    }

    /// Some machines may have begun a new incarnation. Records what is certainly gone if they have.
    pub fn births(&mut self, hosts: &[Host], now_us: u64, history: &mut Vec<Operation>) {
        let is_back = |(host, _): &mut (HostId, Operation)| hosts[host.0].process.is_some();
        for (_, look) in self.gone.extract_if(.., is_back) {
            history.push(operation(Op::Get, look.key, look.call_ns, Some(now_us * 1000)));
        }
    }

    /// What will be recorded as gone, once the dead processes are back.
    pub fn under_way(&self) -> impl Iterator<Item = &Operation> {
        self.gone.iter().map(|(_, look)| look)
    }

    fn fate(&self, hosts: &[Host], dying: HostId, possible: &[Metadata], key: &str) -> Fate {
        let key = stored_key(key);
        let position = Position::of_key(key.as_bytes());
        let name = node_id(dying);
        let moves = possible.iter().filter_map(|data| data.map.migration_at(position));
        let owns = |data: &Metadata| data.map.owner_of(position) == name;
        let is_moving = moves.clone().next().is_some();
        if possible.iter().all(owns) && !is_moving && !possible.is_empty() {
            return Fate::Gone;
        }
        let gives_it_up = moves.clone().any(|migration| migration.source == name);
        let is_owner = possible.iter().any(owns);
        let is_about_to_take_it =
            !self.coordinator_lives && possible.iter().any(|data| is_prepared(data, name, position));
        if self.coordinator_lives && goes_back(hosts, dying, position) {
            return Fate::Kept;
        }
        if is_owner || is_about_to_take_it || gives_it_up && !has_arrived(hosts, dying, key) {
            Fate::AtRisk
        } else {
            Fate::Kept
        }
    }
}

/// A removal that may have happened, or a read that found nothing.
fn operation(op: Op, key: String, call_ns: u64, return_ns: Option<u64>) -> Operation {
    let outcome = if return_ns.is_some() { Outcome::Ok } else { Outcome::Unknown };
    let (arg, result) = (Datum::Null, Datum::Null);
    Operation { client: LOSSES, op, key, arg, result, call_ns, return_ns, outcome }
}

enum Fate {
    Kept,
    AtRisk,
    Gone,
}

/// Whether the position is moving to this node, which has not reported the map of the move, and the source
/// was sent none.
fn goes_back(hosts: &[Host], target: HostId, position: Position) -> bool {
    let seat = hosts[0].process.as_ref().and_then(|process| process.control.seat.as_ref());
    let Some(coordinator) = seat.map(|seat| &seat.coordinator) else { return false };
    let Some(record) = coordinator.map().migration_at(position) else { return false };
    let workers = hosts[target.0].process.iter().flat_map(|process| &process.workers);
    let has_reported =
        workers.map(|worker| worker.worker.ranges().map().epoch()).min() >= Some(record.map_epoch);
    record.target == node_id(target) && coordinator.would_give_back(record.id) && !has_reported
}

/// Whether the node may have reported to the coordinator that it can take this position.
fn is_prepared(data: &Metadata, target: NodeId, position: Position) -> bool {
    data.waiting.iter().any(|record| {
        record.target == target
            && record.range.contains(position)
            && record.state == MigrationState::Preparing
            && !record.partitions.is_empty()
    })
}

/// Whether the node that the key moves to has an entry of its own for it, which then wins for ever. A copy
/// made before the freeze is discarded without its last round. A node with a durable log that restarts takes
/// what it has not served for a copy, too, and pulls it again.
fn has_arrived(hosts: &[Host], dying: HostId, key: &str) -> bool {
    let position = Position::of_key(key.as_bytes());
    hosts.iter().enumerate().filter(|(number, _)| *number != dying.0).any(|(_, host)| {
        host.process.as_ref().is_some_and(|process| {
            let ranges = process.workers[0].worker.ranges();
            let is_durable = process.parts.store.commits().is_some();
            let is_stale = matches!(&ranges.entry_at(position).role,
                Role::Importing(view) if (view.is_copied_ahead() || is_durable) && !view.activated());
            let is_inert = matches!(&ranges.entry_at(position).role,
                Role::Importing(view) if view.is_by_cuts() && !view.has_arrived(position));
            ranges.is_owned(position)
                && !is_stale
                && !is_inert
                && !matches!(process.parts.store.pin().get(HashedKey::new(key.as_bytes())), Entry::Absent)
        })
    })
}
