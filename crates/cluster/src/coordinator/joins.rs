//! Who becomes a member, and who is forgotten.
//!
//! A node that restarts joins in a later incarnation, which voids its earlier one. A mistaken join, of a
//! copied data directory for instance, must not void a node that serves: see
//! [`Judge::earlier_life_obstacle`].

use super::members::{Member, Members, Process, incarnation_of, shown};
use super::rebinding::Rebinding;
use super::{Coordinator, CoordinatorEvent};
use crate::limits::{MAX_IDLE_DOWN, MAX_INCARNATION_LEAP, MAX_NODES};
use crate::timing::{IDLE_FORGOTTEN_AFTER_US, SUSPECTED_AFTER_US};
use crate::{
    ClusterId, CoordinatorSays, HostPort, Incarnation, KnownStart, MetaStore, Metadata, MigrationRecord,
    NodeInfo, NodeName, NodeState, Refusal, Reply, StartNumber,
};
use sidle_types::{MonotonicUs, NodeId};
use std::collections::BTreeSet;
use std::sync::Arc;

/// Why a node is not let in.
enum Obstacle {
    /// Somebody has to act.
    Refused(String),
    /// It passes by itself.
    Passing(String),
}

impl<M: MetaStore> Coordinator<M> {
    pub(super) fn join(
        &mut self,
        now: MonotonicUs,
        info: NodeInfo,
        process: Process,
        cluster: Option<ClusterId>,
    ) {
        let (node, incarnation, start) = (info.id, info.incarnation, process.start);
        match self.judge(now).join_obstacle(&info, process, cluster) {
            None => self.admit(now, info, process),
            Some(Obstacle::Refused(why)) => {
                self.out.event(CoordinatorEvent::JoinRefused { node, why: why.clone() });
                self.out.send_to_start(node, incarnation, start, CoordinatorSays::JoinRefused { why });
            }
            Some(Obstacle::Passing(why)) => {
                let member = self.members.get_mut(node);
                let is_news =
                    member.is_some_and(|member| member.successor.replace(incarnation) != Some(incarnation));
                if is_news {
                    self.out.event(CoordinatorEvent::JoinRefused { node, why: why.clone() });
                }
                self.out.send_to_start(node, incarnation, start, CoordinatorSays::JoinLater { why });
            }
        }
    }

    fn admit(&mut self, now: MonotonicUs, info: NodeInfo, process: Process) {
        let (node, incarnation) = (info.id, info.incarnation);
        let known = self.data.map.node(node);
        let restarted = known.is_some_and(|known| known.incarnation < incarnation);
        // The founding of the first node counts as its first incarnation's join.
        let is_new = known.is_none_or(|known| known.incarnation < incarnation)
            || self.members.get(node).is_some_and(|member| member.heard_at.is_none());
        let Process { start, speaks, log_since } = process;
        let noted = |start| KnownStart { node, incarnation, start, speaks: Some(speaks), log_since };
        let noted = start.map(noted);
        if known == Some(&info) {
            // It has been a member since before such numbers were drawn, or all this was written down.
            let lacks_any = |known: &KnownStart| {
                let is_unsaid = self.data.map.version().is_unsaid();
                !is_unsaid && (known.speaks.is_none() || known.log_since != log_since)
            };
            let is_news = self.data.known_start(node, incarnation).is_none_or(lacks_any);
            if let Some(noted) = noted.filter(|_| is_news) {
                let mut next = self.data.clone();
                next.note_start(noted);
                if self.commit(now, next).is_err() {
                    return;
                }
            }
        } else {
            let is_full = known.is_none() && self.data.map.nodes().len() >= MAX_NODES;
            let gone = if is_full { self.judge(now).longest_idle(0).into_iter().next() } else { None };
            let mut next = self.data.clone();
            next.map = Arc::new(next.map.changed(|map| {
                gone.into_iter().for_each(|gone| map.remove_node(gone));
                map.put_node(info);
            }));
            noted.into_iter().for_each(|noted| next.note_start(noted));
            let rebound = Rebinding { data: &next }.due(node);
            rebound.iter().for_each(|&id| next.rebind(id, node));
            if self.commit(now, next).is_err() {
                return;
            }
            self.rebound(now, node, rebound);
            gone.into_iter().for_each(|gone| self.forgotten(gone));
            self.members.by_id.insert(node, Member::default());
        }
        self.members.by_id.entry(node).and_modify(|member| member.speaks = Some(speaks));
        if is_new {
            self.out.event(CoordinatorEvent::NodeJoined { node, incarnation, restarted });
        }
        self.heard(now, node);
        // What ends with the node's earlier incarnation ends before the new incarnation sees its first map.
        self.advance(now);
        if self.maps().is_kept_from(node) {
            // It asks again.
            return;
        }
        let map = Arc::clone(&self.data.map);
        self.note_map_sent(now, node);
        let welcome = CoordinatorSays::Welcome { cluster: self.data.cluster, map };
        self.out.send(&self.data.map, node, welcome);
    }

    /// Forgets members that joined, own nothing, and are gone; one that returns joins again.
    pub(super) fn forget_surplus(&mut self, now: MonotonicUs) {
        if self.members.by_id.values().filter(|member| member.suspected).count() <= MAX_IDLE_DOWN {
            return;
        }
        let mut surplus = self.judge(now).longest_idle(IDLE_FORGOTTEN_AFTER_US);
        surplus.truncate(surplus.len().saturating_sub(MAX_IDLE_DOWN));
        if surplus.is_empty() {
            return;
        }
        let mut next = self.data.clone();
        next.map = Arc::new(next.map.changed(|map| surplus.iter().for_each(|&node| map.remove_node(node))));
        if self.commit(now, next).is_ok() {
            surplus.into_iter().for_each(|node| self.forgotten(node));
        }
    }

    /// Removes a member from the list if nothing prevents it.
    pub(super) fn forget(&mut self, now: MonotonicUs, name: &NodeName) -> Reply {
        let forgotten = self.judge(now).node_called(name).and_then(|node| {
            if let Some(refusal) = self.judge(now).why_not_forgotten(node) {
                return Err(refusal);
            }
            let mut next = self.data.clone();
            next.map = Arc::new(next.map.changed(|map| map.remove_node(node)));
            let error = |error: crate::MetaError| Refusal::not_committed(&error);
            self.commit(now, next).map_err(error)?;
            self.forgotten(node);
            Ok(node)
        });
        forgotten.map_or_else(Reply::Refused, |node| Reply::Forgotten { node })
    }

    fn forgotten(&mut self, node: NodeId) {
        self.members.by_id.remove(&node);
        self.waits.forget(node);
        self.out.event(CoordinatorEvent::NodeForgotten { node });
    }
}

/// Checks what prevents a join or a request.
pub(super) struct Judge<'a> {
    pub(super) now: MonotonicUs,
    pub(super) data: &'a Metadata,
    pub(super) members: &'a Members,
}

impl Judge<'_> {
    fn join_obstacle(
        &self,
        info: &NodeInfo,
        process: Process,
        cluster: Option<ClusterId>,
    ) -> Option<Obstacle> {
        let own = self.data.cluster;
        if let Some(cluster) = cluster.filter(|&cluster| cluster != own) {
            return Some(Obstacle::Refused(format!(
                "the node belongs to cluster {cluster} and this is cluster {own}: point it to its own \
                 coordinator, or start it with an empty data directory"
            )));
        }
        if let Err(why) = process.speaks.check(self.data.map.version()) {
            return Some(Obstacle::Refused(why));
        }
        if self.data.taken_over(info.id).is_some_and(|last| info.incarnation <= last) {
            let why = "other nodes have taken over what this node had: start it again";
            return Some(Obstacle::Refused(why.to_owned()));
        }
        if let Some(obstacle) = self.earlier_life_obstacle(info, process.start) {
            return Some(obstacle);
        }
        let is_known = self.data.map.node(info.id).is_some();
        let is_full = self.data.map.nodes().len() >= MAX_NODES;
        if !is_known && is_full && self.longest_idle(0).is_empty() {
            return Some(Obstacle::Refused(format!(
                "the cluster has {MAX_NODES} nodes, the most it can have: `sidle forget` removes one that \
                 is down and owns nothing"
            )));
        }
        let addresses = |node: &NodeInfo| [node.client_addr.clone(), node.bus_addr.clone()];
        let clash = |other: &&NodeInfo| {
            let taken: [HostPort; 2] = addresses(other);
            other.id != info.id
                && self.members.state_of(self.now, other.id) == NodeState::Up
                && addresses(info).iter().any(|address| taken.contains(address))
        };
        let other = self.data.map.nodes().iter().find(clash)?;
        Some(Obstacle::Refused(format!(
            "node {}, which is up, has announced the same address: announce another one",
            other.id
        )))
    }

    /// Why this incarnation of the node cannot follow its known earlier incarnations.
    ///
    /// - Its number is below the last one: the data directory is an older copy, or two processes use one.
    /// - Its number is far above: no number of restarts explains it, and accepting it would keep the node out
    ///   for good.
    /// - It is the last incarnation, at other addresses or in another process: the data directory is an older
    ///   copy, or a second process uses a copy of it. It has none of the data, and nothing arranged with that
    ///   incarnation may hold for it (invariant 4).
    /// - It is a later incarnation, and the present one still sends. Only when that is silent, or its
    ///   connection has ended, as when a process dies, is it certain that not both of them serve.
    fn earlier_life_obstacle(&self, info: &NodeInfo, start: Option<StartNumber>) -> Option<Obstacle> {
        let (last, next) = (self.last_life_of(info.id), info.incarnation);
        if next < last {
            return Some(Obstacle::Refused(format!(
                "a later start of this node has joined already: two processes use one identity, stop one. \
                 If its data directory is an older copy, set 'starts' in its node.json to {last}"
            )));
        }
        if next.0 - last.0 > MAX_INCARNATION_LEAP {
            return Some(Obstacle::Refused(format!(
                "this is start {next} of a node that was known in start {last}, which no restarts explain: \
                 set 'starts' in its node.json to {last}"
            )));
        }
        let known = self.data.map.node(info.id);
        if next == last {
            let noted = self.data.start_of(info.id, next);
            let is_other_process = noted.is_some() && noted != start;
            let at = match known {
                Some(known) => format!("is a member already, at {}", known.client_addr),
                None => "was a member already".to_owned(),
            };
            let is_elsewhere = known.is_some_and(|known| known != info);
            return (is_elsewhere || is_other_process).then(|| {
                Obstacle::Refused(format!(
                    "start {next} of this node {at}, in another process: if two processes use copies of one \
                     data directory, stop one. If the data directory is an older copy, set 'starts' in its \
                     node.json to {last} and start the node again"
                ))
            });
        }
        let known = known?;
        let member = self.members.get(info.id)?;
        if self.members.state_of(self.now, info.id) != NodeState::Up || member.disconnected {
            return None;
        }
        let seconds = SUSPECTED_AFTER_US / 1_000_000;
        Some(Obstacle::Passing(format!(
            "start {last} of the node, at {}, is still heard of: this start can join when that has ended, \
             or has been silent for {seconds} seconds. If both processes are to run, give each a data \
             directory of its own",
            known.client_addr
        )))
    }

    /// The node's last incarnation that anything mentions.
    fn last_life_of(&self, node: NodeId) -> Incarnation {
        // The map knows a member's. A delayed message or a repeated request may still name an earlier
        // incarnation of a forgotten node.
        let named = self.data.all_migrations().flat_map(MigrationRecord::lives);
        let started = self.data.starts.iter().map(|known| (known.node, known.incarnation));
        let past = named.chain(started).filter(|(id, _)| *id == node).map(|(_, incarnation)| incarnation);
        past.max().unwrap_or_default().max(incarnation_of(self.data, node))
    }

    /// Members that own nothing and have been down for this long; the longest silent first.
    fn longest_idle(&self, silent_us: u64) -> Vec<NodeId> {
        let owners: BTreeSet<NodeId> = self.data.map.tablets().iter().map(|tablet| tablet.owner).collect();
        let heard_at = |node: NodeId| self.members.get(node).and_then(|member| member.heard_at);
        let is_idle = |node: &NodeId| {
            let silent = self.now.since(heard_at(*node).unwrap_or(self.members.opened_at)) >= silent_us;
            silent && !owners.contains(node) && self.why_not_forgotten(*node).is_none()
        };
        let mut idle: Vec<NodeId> =
            self.data.map.nodes().iter().map(|node| node.id).filter(is_idle).collect();
        idle.sort_by_key(|node| heard_at(*node));
        idle
    }

    /// What prevents removing a member from the list. One that owns nothing and takes part in nothing has
    /// frozen all that it gave away (invariant 4). So it serves nothing, even if it still runs and has
    /// received no notice.
    fn why_not_forgotten(&self, id: NodeId) -> Option<Refusal> {
        let tablets = self.data.map.tablets().iter().filter(|tablet| tablet.owner == id).count();
        let owns = || (tablets > 0).then(|| Refusal::OwnsTablets { node: shown(self.data, id), tablets });
        self.why_needed(id).or_else(owns)
    }

    /// Why the cluster cannot do without a member yet, whatever it owns.
    fn why_needed(&self, id: NodeId) -> Option<Refusal> {
        let takes_part = || {
            let record = self.data.unfinished().find(|record| record.involves(id))?;
            let (node, why) = (shown(self.data, id), String::new());
            Some(Refusal::TakesPart { node, migration: record.id, why })
        };
        self.why_alive(id).or_else(takes_part)
    }

    /// Why a member is not to be taken for dead.
    pub(super) fn why_alive(&self, id: NodeId) -> Option<Refusal> {
        let node = shown(self.data, id);
        if id == self.members.seat {
            return Some(Refusal::Coordinates { node });
        }
        if self.members.state_of(self.now, id) == NodeState::Up || !self.members.is_down(self.now, id) {
            return Some(Refusal::StillUp { node });
        }
        None
    }
}
