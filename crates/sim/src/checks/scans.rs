//! A whole SCAN loop over one node returns every key that existed there and was the node's throughout.
//!
//! A loop over all nodes guarantees nothing while ranges move: a key may move from a node not yet scanned to
//! one that was. So each node is judged separately, on the keys of those tablets that it owned, in one
//! ownership epoch, for every worker, from the loop's beginning to its end.

use super::Violation;
use crate::disk::Disk;
use crate::host::Host;
use crate::process::{Process, node_id};
use crate::workload::stored_key;
use crate::world::HostId;
use sidle_cluster::Metadata;
use sidle_types::{NodeId, Position, TabletEpoch};
use std::collections::{BTreeMap, BTreeSet};

/// A node's ownership at an instant, in agreement of all its workers and the coordinator.
pub struct Ownership<'h> {
    process: Option<&'h Process>,
    /// What the coordinator has committed, or may have during a commit.
    possible: Vec<Metadata>,
    name: NodeId,
}

impl<'h> Ownership<'h> {
    /// As it is now.
    pub fn of(hosts: &'h [Host], host: HostId) -> Ownership<'h> {
        let possible = hosts[0].disk.as_ref().map(Disk::possible).unwrap_or_default();
        Ownership { process: hosts[host.0].process.as_ref(), possible, name: node_id(host) }
    }

    /// The ownership epoch of its key.
    pub fn since(&self, key: &str) -> Option<TabletEpoch> {
        self.holder(key).filter(|holder| holder.is_self).map(|holder| holder.epoch)
    }
    /// A key's owner and ownership epoch; `None` while they disagree, or this node may keep the key of a
    /// range that it gives bit by bit. The same holder at two instants held it in between, in one
    /// incarnation: an owner never returns under an old epoch.
    pub fn holder(&self, key: &str) -> Option<Holder> {
        let position = Position::of_key(stored_key(key).as_bytes());
        let mut tablets = self.possible.iter().map(|data| data.map.tablet_at(position));
        let tablet = tablets.next()?;
        let is_certain = tablets.all(|other| other.owner == tablet.owner && other.epoch == tablet.epoch);
        let agrees = self.process?.workers.iter().all(|worker| {
            let ranges = worker.worker.ranges();
            let own = ranges.map().tablet_at(position);
            // The map names the target at once.
            let may_be_kept =
                ranges.exports().any(|view| view.is_by_cuts() && view.range().contains(position));
            let agrees = own.owner == tablet.owner && own.epoch == tablet.epoch;
            ranges.is_joined() && agrees && !may_be_kept
        });
        let holder = Holder { owner: tablet.owner, epoch: tablet.epoch, is_self: tablet.owner == self.name };
        (is_certain && agrees).then_some(holder)
    }
}

/// A key's owner, on which all agree.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Holder {
    owner: NodeId,
    epoch: TabletEpoch,
    /// Whether it is the node that was asked about.
    pub is_self: bool,
}

/// A running loop: the keys that it must return, unless they move meanwhile.
#[derive(Clone, Debug)]
pub struct Scan {
    host: HostId,
    start: u64,
    expected: BTreeMap<String, TabletEpoch>,
}

impl Scan {
    /// A loop over this machine's node begins. `kept`: keys that certainly exist.
    pub fn begin(hosts: &[Host], host: HostId, kept: &BTreeSet<String>) -> Scan {
        let ownership = Ownership::of(hosts, host);
        let owned = kept.iter().filter_map(|key| Some((key.clone(), ownership.since(key)?)));
        Scan { host, start: hosts[host.0].starts, expected: owned.collect() }
    }

    /// How many keys it has to return.
    pub fn expected(&self) -> usize {
        self.expected.len()
    }

    /// The loop has ended. `kept`: keys that existed throughout.
    pub fn end(
        &self,
        hosts: &[Host],
        kept: &BTreeSet<String>,
        found: &BTreeSet<String>,
    ) -> Result<(), Violation> {
        if hosts[self.host.0].starts != self.start {
            return Ok(());
        }
        let ownership = Ownership::of(hosts, self.host);
        for (key, epoch) in &self.expected {
            let stayed = kept.contains(key) && ownership.since(key) == Some(*epoch);
            if stayed && !found.contains(key) {
                let what = format!("node {} has had {key} all the time, and SCAN left it out", self.host.0);
                return Err(Violation::new("scans", what));
            }
        }
        Ok(())
    }
}
