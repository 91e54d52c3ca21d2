//! Clients' requests: the checks before a migration is committed, cancelling, and answers that survive
//! repeats. Requests that wait for an end are in `waits`.

use super::attempt::Attempt;
use super::joins::Judge;
use super::members::{incarnation_of, shown};
use super::steps::Step;
use super::{Coordinator, CoordinatorEvent, upgrade};
use crate::limits::{MAX_PARTS_NAMED, MAX_TABLETS, MAX_UNFINISHED, REQUEST_WINDOW};
use crate::{
    CoordinatorSays, Incarnation, MetaStore, MigrationCounters, MigrationRecord, MigrationState, NodeInfo,
    NodeName, NodeState, Refusal, Reply, Request, RequestKey, Turn, Upgraded,
};
use sidle_types::{
    MapEpoch, MigrationId, MigrationPolicy, MonotonicUs, NodeId, PositionRange, TabletEpoch, fault,
};
use std::sync::Arc;

/// How a range is to be moved.
struct Manner {
    protocol: String,
    policy: MigrationPolicy,
}

impl<M: MetaStore> Coordinator<M> {
    /// Executes or repeats a request and answers it, now or once its migration has been prepared.
    pub(super) fn request(
        &mut self,
        now: MonotonicUs,
        from: NodeId,
        incarnation: Incarnation,
        number: u64,
        oldest_open: u64,
        request: Request,
    ) {
        let Some(member) = self.members.get_mut(from) else { return };
        member.oldest_open = member.oldest_open.max(oldest_open);
        member.refusals = member.refusals.split_off(&member.oldest_open);
        // A read-only request holds no window back, and may be older than the requests in it.
        if number < member.oldest_open && !request.only_looks() {
            return;
        }
        let key = RequestKey { node: from, incarnation, number };
        let reply = match request {
            Request::Status => Some(Reply::Status(Box::new(self.report(now)))),
            Request::Cancel { migration } => Some(self.cancel(now, key, migration)),
            Request::SetPolicy { migration, policy } => Some(self.set_policy(now, migration, policy)),
            Request::Forget { node } => Some(self.forget(now, &node)),
            Request::TakeOver { node, accepts_loss } => Some(self.take_over(now, &node, accepts_loss)),
            Request::Upgrade => Some(self.upgrade(now)),
            Request::AwaitEnd { migration, patience_us } => self.await_end(now, key, migration, patience_us),
            Request::StartMigration { range, target, protocol, policy } => {
                self.start(now, key, range, &target, Manner { protocol, policy })
            }
        };
        if let Some(reply) = reply {
            self.out.send(&self.data.map, from, CoordinatorSays::Reply { number, reply });
        }
    }

    fn start(
        &mut self,
        now: MonotonicUs,
        key: RequestKey,
        range: PositionRange,
        target: &NodeName,
        manner: Manner,
    ) -> Option<Reply> {
        let earlier = self.data.all_migrations().find(|record| record.requested_by == key);
        if let Some(record) = earlier.filter(|_| !fault!(RequestExecutedTwice)) {
            return start_reply(record, self.attempts.get(&record.id));
        }
        let member = self.members.get(key.node)?;
        if let Some(refused) = member.refusals.get(&key.number) {
            return Some(refused.clone());
        }
        match self.start_new(now, key, range, target, manner) {
            Ok(reply) => reply,
            Err(refusal) => {
                let reply = Reply::Refused(refusal);
                let refusals = &mut self.members.get_mut(key.node)?.refusals;
                refusals.insert(key.number, reply.clone());
                if refusals.len() as u64 > REQUEST_WINDOW {
                    refusals.pop_first();
                }
                Some(reply)
            }
        }
    }

    fn start_new(
        &mut self,
        now: MonotonicUs,
        key: RequestKey,
        range: PositionRange,
        target: &NodeName,
        manner: Manner,
    ) -> Result<Option<Reply>, Refusal> {
        let Manner { protocol, policy } = manner;
        let outline = (self.read_protocol)(&protocol).map_err(|why| Refusal::Protocol { why })?;
        let version = self.data.map.version();
        if version < outline.needs {
            let why = format!(
                "the cluster speaks {version}, and this protocol needs {}: raise it with `sidle upgrade`, or choose \
                 another one, or other options",
                outline.needs
            );
            return Err(Refusal::Protocol { why });
        }
        let (range, source, target) = self.judge(now).check_start(range, target)?;
        let mut next = self.data.clone();
        let id = next.next_migration;
        next.next_migration = MigrationId(id.0 + 1);
        let mut record = MigrationRecord {
            id,
            protocol,
            frozen_reads: outline.frozen_reads,
            kept_by_source: outline.gives_by_cuts,
            policy,
            range,
            source,
            source_incarnation: incarnation_of(&self.data, source),
            target,
            target_incarnation: incarnation_of(&self.data, target),
            epoch: TabletEpoch(0),
            map_epoch: MapEpoch(0),
            partitions: Vec::new(),
            state: MigrationState::Preparing,
            counters: MigrationCounters::default(),
            requested_by: key,
            version: self.data.map.version(),
            turn: None,
            continues: None,
            kept_is_noted: false,
            source_log: None,
            succession: 0,
        };
        if self.data.unfinished().any(|earlier| earlier.shares_a_node_with(&record)) {
            record.state = MigrationState::Queued;
        }
        next.waiting.push(record.clone());
        self.commit(now, next).map_err(|error| Refusal::not_committed(&error))?;
        self.attempts.insert(id, Attempt::new(now, &record));
        self.out.event(CoordinatorEvent::Migration { migration: id, state: record.state.clone() });
        Ok(start_reply(&record, None))
    }

    /// Gives a migration up; allowed until it runs. One that gives its range bit by bit turns back.
    fn cancel(&mut self, now: MonotonicUs, key: RequestKey, migration: MigrationId) -> Reply {
        let refused = match self.data.migration(migration) {
            None => self.unknown(migration),
            Some(record) => match &record.state {
                MigrationState::Queued | MigrationState::Preparing => {
                    match self.take(now, migration, Step::End(MigrationState::Cancelled)) {
                        Ok(()) => return Reply::Cancelled { migration },
                        Err(error) => Refusal::not_committed(&error),
                    }
                }
                MigrationState::Cancelled => {
                    let turned_back = record.turned_back().map(|by| Reply::TurnsBack { migration, by });
                    return turned_back.unwrap_or(Reply::Cancelled { migration });
                }
                MigrationState::Running if record.kept_by_source => match self.turn_back(now, key, migration)
                {
                    Ok(reply) => return reply,
                    Err(refusal) => refusal,
                },
                MigrationState::Running if record.counters.gave_all.is_some() => self.gave_all(now, record),
                MigrationState::Running => Refusal::Running { migration, range: record.range },
                over => Refusal::IsOver { migration, state: over.to_string() },
            },
        };
        Reply::Refused(refused)
    }

    /// A number that no migration has, or not yet: that of a way back is named before it begins.
    fn unknown(&self, migration: MigrationId) -> Refusal {
        let turns = |record: &&MigrationRecord| record.turn.is_some_and(|turn| turn.by == migration);
        let before = self.data.unfinished().find(turns).filter(|record| record.kept_by_source);
        Refusal::UnknownMigration { migration, continues: before.map(|record| record.id) }
    }

    /// Of a running migration that gives its range bit by bit, and gave all.
    fn gave_all(&self, now: MonotonicUs, record: &MigrationRecord) -> Refusal {
        let counters = self.attempts.get(&record.id).map(|attempt| attempt.counters(now, record));
        let why = counters.unwrap_or(record.counters).gave_all;
        Refusal::GaveAll { migration: record.id, range: record.range, why }
    }

    /// Has a running migration turn back that gives its range bit by bit. If its source knows of nothing yet,
    /// it is cancelled at once.
    fn turn_back(
        &mut self,
        now: MonotonicUs,
        requested_by: RequestKey,
        migration: MigrationId,
    ) -> Result<Reply, Refusal> {
        let not_committed = |error| Refusal::not_committed(&error);
        if self.would_give_back(migration) {
            let step = Step::GiveBack(MigrationState::Cancelled);
            return self
                .take(now, migration, step)
                .map(|()| Reply::Cancelled { migration })
                .map_err(not_committed);
        }
        let record = self.data.map.migration(migration).expect("it runs");
        if let Some(Turn { by, .. }) = record.turn {
            return Ok(Reply::TurnsBack { migration, by });
        }
        let attempt = self.attempts.get(&migration);
        if attempt.is_some_and(|attempt| attempt.finished || attempt.progress.activated) {
            return Err(self.gave_all(now, record));
        }
        let mut next = self.data.clone();
        let by = next.next_migration;
        next.next_migration = MigrationId(by.0 + 1);
        let turn = Turn { by, requested_by, settled_at: MapEpoch(0) };
        next.map = Arc::new(next.map.changed(|map| map.set_turn(migration, turn)));
        self.commit(now, next).map_err(not_committed)?;
        Ok(Reply::TurnsBack { migration, by })
    }

    /// Changes how hard a migration may press on its nodes. The nodes of a running one learn it with the next
    /// map.
    fn set_policy(&mut self, now: MonotonicUs, migration: MigrationId, policy: MigrationPolicy) -> Reply {
        let refused = match self.data.migration(migration) {
            None => self.unknown(migration),
            Some(record) if record.state.is_over() => {
                Refusal::IsOver { migration, state: record.state.to_string() }
            }
            // A repeated request, too.
            Some(record) if record.policy == policy => return Reply::PolicySet { migration },
            Some(_) => {
                let mut next = self.data.clone();
                match next.waiting.iter_mut().find(|record| record.id == migration) {
                    Some(record) => record.policy = policy,
                    None => next.map = Arc::new(next.map.changed(|map| map.set_policy(migration, policy))),
                }
                match self.commit(now, next) {
                    Ok(()) => return Reply::PolicySet { migration },
                    Err(error) => Refusal::not_committed(&error),
                }
            }
        };
        Reply::Refused(refused)
    }

    /// Raises the cluster's version to the highest that all members speak.
    fn upgrade(&mut self, now: MonotonicUs) -> Reply {
        let before = self.data.map.version();
        let next = match upgrade::raised(&self.data, &self.members) {
            Ok(Some(next)) => next,
            Ok(None) => return Reply::Upgraded(Upgraded { before, version: before }),
            Err(refusal) => return Reply::Refused(refusal),
        };
        let version = next.map.version();
        match self.commit(now, next) {
            Ok(()) => {
                self.out.event(CoordinatorEvent::VersionRaised { before, version });
                Reply::Upgraded(Upgraded { before, version })
            }
            Err(error) => Reply::Refused(Refusal::not_committed(&error)),
        }
    }

    /// Answers the request that started the migration, if there is an answer by now.
    pub(super) fn answer_start(&mut self, id: MigrationId) {
        let Some(record) = self.data.migration(id) else { return };
        let RequestKey { node, incarnation, number } = record.requested_by;
        let asker_lives = incarnation_of(&self.data, node) == incarnation;
        if let Some(reply) = start_reply(record, self.attempts.get(&id)).filter(|_| asker_lives) {
            self.out.send(&self.data.map, node, CoordinatorSays::Reply { number, reply });
        }
    }

    /// The answer, unless the migration goes on and the request can wait.
    fn await_end(
        &mut self,
        now: MonotonicUs,
        key: RequestKey,
        migration: MigrationId,
        patience_us: u64,
    ) -> Option<Reply> {
        let Some(record) = self.data.migration(migration) else {
            return Some(Reply::Refused(self.unknown(migration)));
        };
        let is_kept = self.waits.keep(now, key, record, patience_us);
        (!is_kept).then(|| Reply::Status(Box::new(self.report(now))))
    }
}

impl Judge<'_> {
    /// What moves, its source and its target, or why it cannot move. What the target owns of the range
    /// already is left out.
    fn check_start(
        &self,
        range: PositionRange,
        target: &NodeName,
    ) -> Result<(PositionRange, NodeId, NodeId), Refusal> {
        let target = self.node_called(target)?;
        if let Some(other) = self.data.unfinished().find(|record| record.range.overlaps(range)) {
            let state = other.state.name().to_owned();
            return Err(Refusal::Overlaps { migration: other.id, range: other.range, state });
        }
        if let Some(other) = self.data.map.takeovers().iter().find(|other| other.range.overlaps(range)) {
            return Err(Refusal::BeingTakenOver { range: other.range, node: shown(self.data, other.owner) });
        }
        let shown = |node| shown(self.data, node);
        let parts = self.parts_of_others(range, target);
        let (moving, source) = match parts[..] {
            [] => return Err(Refusal::OwnedByTarget { range, node: shown(target) }),
            [part] => part,
            _ => {
                let count = parts.len();
                let named = parts.into_iter().take(MAX_PARTS_NAMED);
                let parts = named.map(|(part, _)| self.migrate_command(part, target)).collect();
                return Err(Refusal::SeveralParts { range, count, parts });
            }
        };
        // A coordinator that has just started gives its nodes time to report.
        if self.members.is_down(self.now, target) {
            return Err(Refusal::TargetDown { node: shown(target) });
        }
        if self.members.is_down(self.now, source) {
            return Err(Refusal::SourceDown { node: shown(source) });
        }
        if self.data.unfinished().count() >= MAX_UNFINISHED {
            return Err(Refusal::TooManyMigrations { limit: MAX_UNFINISHED });
        }
        // Each migration that starts to run cuts at most two tablets.
        let pieces = 2 * (self.data.waiting.len() + 1);
        if self.data.map.tablets().len() + pieces > MAX_TABLETS {
            return Err(Refusal::TooManyTablets { limit: MAX_TABLETS });
        }
        Ok((moving, source, target))
    }

    /// What others than the target own of the range, with its owners, in order. Adjacent parts of one owner
    /// are merged.
    fn parts_of_others(&self, range: PositionRange, target: NodeId) -> Vec<(PositionRange, NodeId)> {
        let mut parts: Vec<(PositionRange, NodeId)> = Vec::new();
        for tablet in self.data.map.tablets_in(range) {
            let Some(piece) = tablet.range.intersection(range) else { continue };
            match parts.last_mut() {
                Some((part, owner)) if *owner == tablet.owner => {
                    *part = PositionRange::new(part.first(), piece.last()).expect("tablets are in order");
                }
                _ => parts.push((piece, tablet.owner)),
            }
        }
        parts.retain(|&(_, owner)| owner != target);
        parts
    }

    /// The command that moves the range to the node.
    fn migrate_command(&self, range: PositionRange, target: NodeId) -> String {
        let range = match range.is_whole_slots() {
            true => format!("--slots {}-{}", range.slots().0, range.slots().1),
            false => format!("--positions {}-{}", range.first(), range.last()),
        };
        let nodes = self.data.map.nodes();
        let at = |node: &NodeInfo| nodes.iter().filter(|other| other.client_addr == node.client_addr).count();
        let named = self.data.map.node(target).filter(|node| at(node) == 1);
        let target = named.map_or_else(|| target.to_string(), |node| node.client_addr.to_string());
        format!("sidle migrate {range} --to {target}")
    }

    /// The member with this name. An address that several members have announced means the one that is up: a
    /// node that lost its data directory returns as a new member at its old address.
    pub(super) fn node_called(&self, name: &NodeName) -> Result<NodeId, Refusal> {
        let unknown = || Refusal::UnknownNode { name: name.to_string() };
        let address = match name {
            NodeName::Id(id) => return self.data.map.node(*id).map(|node| node.id).ok_or_else(unknown),
            NodeName::Addr(address) => address,
        };
        let nodes = self.data.map.nodes().iter();
        let called: Vec<NodeId> = nodes
            .filter(|node| node.client_addr == *address || node.bus_addr == *address)
            .map(|node| node.id)
            .collect();
        let up: Vec<NodeId> = called
            .iter()
            .copied()
            .filter(|&node| self.members.state_of(self.now, node) == NodeState::Up)
            .collect();
        match (&called[..], &up[..]) {
            ([], _) => Err(unknown()),
            ([node], _) | (_, [node]) => Ok(*node),
            _ => Err(Refusal::AmbiguousNode { name: name.to_string() }),
        }
    }
}

/// The answer to the request that started the migration; none yet while it is prepared, unless by a copy,
/// which may take long.
fn start_reply(record: &MigrationRecord, attempt: Option<&Attempt>) -> Option<Reply> {
    let migration = record.id;
    let is_copied = attempt.is_some_and(|attempt| attempt.moves_since.is_some());
    Some(match &record.state {
        MigrationState::Preparing if !is_copied => return None,
        MigrationState::Failed { why } if !record.ran() => {
            Reply::Refused(Refusal::NotPrepared { migration, why: why.clone() })
        }
        MigrationState::Cancelled => Reply::Refused(Refusal::CancelledMeanwhile { migration }),
        state => Reply::Started { migration, state: state.clone() },
    })
}
