//! A whole SCAN loop over one node returns every key that the node owned, and that was there, all the time.
//!
//! A loop over all nodes promises nothing while ranges move: a key may move from a node that is still to be
//! asked to one that has been. So each node is judged by itself, on the keys of those tablets that were its
//! own, by one and the same ownership epoch, in every worker's eyes when the loop began and when it ended.

use super::Violation;
use crate::disk::Disk;
use crate::host::Host;
use crate::process::{Process, node_id};
use crate::world::HostId;
use sidle_cluster::Metadata;
use sidle_types::{NodeId, Position, TabletEpoch};
use std::collections::{BTreeMap, BTreeSet};

/// What a machine's node owns at an instant: what all of its workers say, and the coordinator too.
pub struct Ownership<'h> {
    process: Option<&'h Process>,
    /// What the coordinator has committed, or may have while it stands in the middle of a commit.
    possible: Vec<Metadata>,
    name: NodeId,
}

impl<'h> Ownership<'h> {
    /// As it is now.
    pub fn of(hosts: &'h [Host], host: HostId) -> Ownership<'h> {
        let possible = hosts[0].disk.as_ref().map(Disk::possible).unwrap_or_default();
        Ownership { process: hosts[host.0].process.as_ref(), possible, name: node_id(host) }
    }

    /// The ownership epoch under which it has a key.
    pub fn since(&self, key: &str) -> Option<TabletEpoch> {
        self.holder(key).filter(|holder| holder.is_self).map(|holder| holder.epoch)
    }

    /// Who has a key, and under which ownership epoch; nothing while they do not all say the same. Who says
    /// the same twice has said so all the time between, in one incarnation: an owner never comes back under
    /// an old epoch.
    pub fn holder(&self, key: &str) -> Option<Holder> {
        let position = Position::of_key(key.as_bytes());
        let mut tablets = self.possible.iter().map(|data| data.map.tablet_at(position));
        let tablet = tablets.next()?;
        let is_certain = tablets.all(|other| other.owner == tablet.owner && other.epoch == tablet.epoch);
        let agrees = self.process?.workers.iter().all(|worker| {
            let ranges = worker.worker.ranges();
            let own = ranges.map().tablet_at(position);
            ranges.is_joined() && own.owner == tablet.owner && own.epoch == tablet.epoch
        });
        let holder = Holder { owner: tablet.owner, epoch: tablet.epoch, is_self: tablet.owner == self.name };
        (is_certain && agrees).then_some(holder)
    }
}

/// Who has a key, in everybody's eyes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Holder {
    owner: NodeId,
    epoch: TabletEpoch,
    /// Whether it is the node that was asked about.
    pub is_self: bool,
}

/// A loop that has begun: the keys that it has to return, unless they move meanwhile.
#[derive(Clone, Debug)]
pub struct Scan {
    host: HostId,
    start: u64,
    expected: BTreeMap<String, TabletEpoch>,
}

impl Scan {
    /// A loop over this machine's node begins. `kept`: keys that are certainly there.
    pub fn begin(hosts: &[Host], host: HostId, kept: &BTreeSet<String>) -> Scan {
        let ownership = Ownership::of(hosts, host);
        let owned = kept.iter().filter_map(|key| Some((key.clone(), ownership.since(key)?)));
        Scan { host, start: hosts[host.0].starts, expected: owned.collect() }
    }

    /// How many keys it has to return.
    pub fn expected(&self) -> usize {
        self.expected.len()
    }

    /// The loop has ended. `kept`: keys that have been there all the time.
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
