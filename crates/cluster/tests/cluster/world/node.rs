//! A node of the world: an agent, and a driver that holds one value per chunk.

use super::role::{Role, roles_of};
use super::{AHEAD, CHUNKS, chunk_of, info, start_of};
use sidle_cluster::{
    AgentEvent, AgentInput, ClusterId, End, Incarnation, LogCopies, MigrationRecord, NodeAgent, NodeInfo,
    NodeLoad, PrepareRefusal, Progress, Reply, Request, StartNumber, Survey, TabletMap, Takeover,
    TakeoverProgress, Target, TargetStage, ToCoordinator, ToNode,
};
use sidle_testbed::TimeQueue;
use sidle_types::{
    LogId, MapEpoch, MigrationId, MonotonicUs, NodeId, Position, PositionRange, Speaks, TabletEpoch,
};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// The answer to a read.
pub(crate) enum Read {
    Value(u64),
    Absent,
    NotHereYet,
}

/// How long a step of a copy takes.
const COPY_STEP_US: u64 = 2_000;

struct Import {
    record: MigrationRecord,
    activated: bool,
    /// Chunks from here on have not arrived.
    next: u64,
    moved: u64,
}

type Roles = Vec<(PositionRange, Role)>;

/// Lost when the process dies.
#[derive(Default)]
struct Driver {
    /// The tables that the workers use: one, or two while they change over.
    roles: Vec<Roles>,
    in_use: MapEpoch,
    changing_to: Option<MapEpoch>,
    imports: BTreeMap<MigrationId, Import>,
    prepared: BTreeSet<MigrationId>,
    exports: BTreeSet<MigrationId>,
    /// Ranges that are copied while they are served.
    tracked: BTreeSet<MigrationId>,
    data: BTreeMap<u64, u64>,
    /// What the driver reads of dead nodes.
    taking: Vec<Takeover>,
    pending: TimeQueue<Pending>,
}

enum Pending {
    Surveyed(MigrationId, Survey),
    Prepare(MigrationRecord),
    /// This many steps of a copy are done.
    Copy(MigrationRecord, u64),
    ChangeOver,
    Pull(MigrationId),
    TakeOver(Takeover),
}

pub(crate) struct SimNode {
    pub(crate) info: NodeInfo,
    /// The versions that its program speaks from its next start on.
    pub(crate) speaks: Speaks,
    incarnation: u64,
    cluster: Option<ClusterId>,
    pub(crate) agent: Option<NodeAgent>,
    driver: Driver,
    /// Whether the coordinator is unreachable.
    pub(crate) cut_off: bool,
    /// Whether nothing from the coordinator arrives.
    pub(crate) deaf: bool,
    /// Whether imports are paused.
    pub(crate) stalled: bool,
    /// Whether it cannot read copies of logs.
    pub(crate) cannot_take_over: bool,
    /// How many steps a copy before the freeze takes.
    pub(crate) copy_steps: u64,
    /// Whether it has a durable log, and so its data after a restart.
    pub(crate) keeps_log: bool,
    /// Since which of its incarnations.
    pub(crate) log_since: u64,
    /// The node's answer to preparations instead of making room.
    pub(crate) refuse: Option<PrepareRefusal>,
    /// The members that the agent announced as suspected last.
    pub(crate) suspected: BTreeSet<NodeId>,
    /// Those of them that only this node suspects.
    pub(crate) suspected_alone: BTreeSet<NodeId>,
    /// Why the agent was refused last.
    pub(crate) refused: Option<String>,
    /// How often it announced that.
    pub(crate) announcements: u64,
    /// What it learnt of the copies of its log that count.
    pub(crate) copies: Vec<Option<LogCopies>>,
    /// How far it says that it has read what it takes over.
    pub(crate) taking_over: Option<TakeoverProgress>,
    /// A log that it has set aside, and what that had.
    former: Option<(LogId, BTreeMap<u64, u64>)>,
    /// Values that were lost with an incarnation of the node.
    pub(crate) lost: BTreeSet<(u64, u64)>,
}

impl SimNode {
    pub(crate) fn new(number: u8, speaks: Speaks) -> SimNode {
        SimNode {
            info: info(number, 0),
            speaks,
            incarnation: 0,
            cluster: None,
            agent: None,
            driver: Driver::default(),
            cut_off: false,
            deaf: false,
            stalled: false,
            cannot_take_over: false,
            copy_steps: 5,
            keeps_log: false,
            log_since: 1,
            refuse: None,
            suspected: BTreeSet::new(),
            suspected_alone: BTreeSet::new(),
            refused: None,
            announcements: 0,
            copies: Vec::new(),
            taking_over: None,
            former: None,
            lost: BTreeSet::new(),
        }
    }

    /// The next start has another log than this one, which was taken over.
    pub(crate) fn set_aside(&mut self, log: LogId) {
        self.former = Some((log, std::mem::take(&mut self.driver.data)));
        self.log_since = self.incarnation + 1;
    }

    /// What a log of this node has.
    fn data_of(&self, log: LogId) -> &BTreeMap<u64, u64> {
        let former = self.former.as_ref().filter(|(former, _)| *former == log);
        former.map_or(&self.driver.data, |(_, data)| data)
    }

    pub(crate) fn start(&mut self, now: MonotonicUs) {
        self.incarnation += 1;
        self.start_process(now, start_of(self.incarnation));
    }

    /// Starts another process in the last incarnation, as on an older copy of the data directory.
    pub(crate) fn start_copy(&mut self, now: MonotonicUs) {
        self.start_process(now, StartNumber(0xbad));
    }

    fn start_process(&mut self, now: MonotonicUs, start: StartNumber) {
        self.info.incarnation.0 = self.incarnation;
        let mut agent = NodeAgent::new(now, self.info.clone(), start, self.cluster);
        agent.set_speaks(self.speaks);
        agent.set_log_since(self.keeps_log.then_some(Incarnation(self.log_since)));
        self.agent = Some(agent);
        self.suspected.clear();
        self.suspected_alone.clear();
        self.input(now, AgentInput::Connected);
    }

    pub(crate) fn kill(&mut self) {
        self.agent = None;
        let Driver { data, .. } = std::mem::take(&mut self.driver);
        match self.keeps_log {
            true => self.driver.data = data,
            false => self.lost.extend(data),
        }
    }

    /// The first map of an incarnation says what of its log is of use.
    fn forget_leavings(&mut self, map: &TabletMap) {
        let roles = roles_of(map, self.info.id, self.info.incarnation);
        let is_used = |chunk: &u64| {
            let covering = roles.iter().find(|(range, _)| range.covers(super::chunks(*chunk, *chunk)));
            covering.is_some_and(|(_, role)| !matches!(role, Role::Elsewhere(_)))
        };
        self.driver.data.retain(|chunk, _| is_used(chunk));
    }

    pub(crate) fn connected(&mut self, now: MonotonicUs) {
        self.input(now, AgentInput::Connected);
    }

    pub(crate) fn map(&self) -> Option<&Arc<TabletMap>> {
        self.agent.as_ref()?.map()
    }

    pub(crate) fn uses_map(&self) -> bool {
        self.driver.in_use > MapEpoch(0)
    }

    pub(crate) fn uses_epoch(&self, epoch: MapEpoch) -> bool {
        self.driver.in_use == epoch && self.driver.changing_to.is_none()
    }

    /// Whether every worker uses the map of this epoch or a later one.
    pub(crate) fn uses_at_least(&self, epoch: MapEpoch) -> bool {
        self.driver.in_use >= epoch
    }

    /// Whether some worker may use the map of this epoch or a later one.
    pub(crate) fn goes_by(&self, epoch: MapEpoch) -> bool {
        self.uses_at_least(epoch) || self.driver.changing_to.is_some_and(|changing| changing >= epoch)
    }

    pub(crate) fn holds_nothing(&self) -> bool {
        let Driver { imports, prepared, tracked, .. } = &self.driver;
        imports.is_empty() && prepared.is_empty() && tracked.is_empty()
    }

    pub(crate) fn request(&mut self, now: MonotonicUs, ticket: u64, request: Request) {
        self.input(now, AgentInput::Request(ticket, request));
    }

    /// Has the coordinator decide which copies of its log count, or tell.
    pub(crate) fn ask_for_copies(&mut self, now: MonotonicUs, copies: LogCopies) {
        self.input(now, AgentInput::Copies(copies));
    }

    /// It could not read what it takes over.
    pub(crate) fn cannot_read(
        &mut self,
        now: MonotonicUs,
        (range, epoch): (PositionRange, TabletEpoch),
        why: &str,
    ) {
        self.input(now, AgentInput::CannotTakeOver(range, epoch, why.to_owned()));
    }

    pub(crate) fn message(&mut self, now: MonotonicUs, message: ToNode) {
        self.input(now, AgentInput::Message(message));
    }

    fn input(&mut self, now: MonotonicUs, input: AgentInput) {
        if let Some(agent) = &mut self.agent {
            agent.handle(now, input);
        }
    }

    /// Advances a migration at this node as its target.
    fn target(&mut self, now: MonotonicUs, id: MigrationId, change: impl FnOnce(&mut Target<()>)) {
        if let Some(target) = self.agent.as_mut().and_then(|agent| agent.migrations.targets.get_mut(&id)) {
            change(target);
        }
        self.input(now, AgentInput::Timer);
    }

    fn source_record(&self, id: MigrationId) -> MigrationRecord {
        let migrations = &self.agent.as_ref().expect("it asks").migrations;
        migrations.sources[&id].record.clone().expect("asked with a record")
    }

    fn target_record(&self, id: MigrationId) -> MigrationRecord {
        self.agent.as_ref().expect("it asks").migrations.targets[&id].record.clone()
    }

    pub(crate) fn timeout(&self) -> Option<MonotonicUs> {
        let agent = self.agent.as_ref()?.poll_timeout();
        agent.into_iter().chain(self.driver.pending.next_at().map(MonotonicUs)).min()
    }

    fn later(&mut self, at: MonotonicUs, what: Pending) {
        self.driver.pending.push(at.0, what);
    }

    /// Does what is due.
    pub(crate) fn step(&mut self, now: MonotonicUs, random: u64, others: &[SimNode]) {
        let Some(pending) = self.driver.pending.pop_due(now.0) else {
            let keys = self.driver.data.len() as u64;
            let load = NodeLoad { keys, taking_over: self.taking_over, ..NodeLoad::default() };
            self.input(now, AgentInput::Load(load));
            return self.input(now, AgentInput::Timer);
        };
        match pending {
            Pending::Surveyed(id, survey) => {
                let source = self.agent.as_mut().and_then(|agent| agent.migrations.sources.get_mut(&id));
                source.into_iter().for_each(|source| source.surveyed(survey.clone()));
                self.input(now, AgentInput::Timer);
            }
            Pending::ChangeOver => {
                self.driver.roles.drain(..self.driver.roles.len() - 1);
                if let Some(epoch) = self.driver.changing_to.take() {
                    self.driver.in_use = epoch;
                    self.input(now, AgentInput::Published(epoch));
                }
            }
            Pending::Prepare(record) => self.prepare(now, record),
            Pending::Copy(record, done) => self.copy(now, record, done, others),
            Pending::Pull(id) => self.pull(now, id, random, others),
            Pending::TakeOver(takeover) if !self.driver.taking.contains(&takeover) => {}
            Pending::TakeOver(takeover) if self.cannot_take_over => {
                let (range, epoch) = (takeover.range, takeover.epoch);
                self.input(now, AgentInput::CannotTakeOver(range, epoch, "it was told so".to_owned()));
                self.later(now.plus_us(3_000_000), Pending::TakeOver(takeover));
            }
            Pending::TakeOver(takeover) => {
                let dead = others.iter().find(|other| other.info.id == takeover.dead.from);
                let data = dead.unwrap_or(self).data_of(takeover.dead.log);
                let is_its = |chunk: &u64| takeover.range.contains(super::chunks(*chunk, *chunk).first());
                let taken = data.iter().filter(|(chunk, _)| is_its(chunk));
                let taken: Vec<(u64, u64)> = taken.map(|(&chunk, &value)| (chunk, value)).collect();
                self.driver.data.extend(taken);
                self.input(now, AgentInput::TookOver(takeover.range, takeover.epoch));
            }
        }
    }

    fn prepare(&mut self, now: MonotonicUs, record: MigrationRecord) {
        let migration = record.id;
        let (first, last) = (chunk_of(record.range.first()), chunk_of(record.range.last()));
        if self.driver.data.range(first..=last).next().is_some() {
            // An earlier release has not finished.
            return self.later(now.plus_us(500), Pending::Prepare(record));
        }
        if record.protocol == AHEAD && self.refuse.is_none() {
            return self.later(now, Pending::Copy(record, 0));
        }
        match self.refuse.clone() {
            Some(why) => self.target(now, migration, |target| target.refuse(why)),
            None => {
                self.driver.prepared.insert(migration);
                self.target(now, migration, |target| target.advance(TargetStage::Ready));
            }
        }
    }

    /// One step of a copy, which a source serves only while it tracks the range.
    fn copy(&mut self, now: MonotonicUs, record: MigrationRecord, done: u64, others: &[SimNode]) {
        let migration = record.id;
        let source = others.iter().find(|node| node.info.id == record.source);
        let is_given = source.is_some_and(|source| source.driver.tracked.contains(&migration));
        let done = done + u64::from(is_given && !self.stalled);
        let next = record.partitions.iter().map(|partition| Some(partition.first())).collect();
        let stalled = self.stalled.then(|| "told to".to_owned());
        let progress = Progress { records_moved: done, next, stalled, ..Progress::default() };
        self.target(now, migration, |target| {
            target.progressed(progress);
            target.advance(TargetStage::Copying);
        });
        if done < self.copy_steps {
            return self.later(now.plus_us(COPY_STEP_US), Pending::Copy(record, done));
        }
        self.driver.prepared.insert(migration);
        self.target(now, migration, |target| target.advance(TargetStage::Ready));
    }

    /// Advances an import: activation once the source has frozen the range, then one chunk at a time.
    fn pull(&mut self, now: MonotonicUs, id: MigrationId, random: u64, others: &[SimNode]) {
        // The present one: its source may have died.
        let targets = self.agent.as_ref().map(|agent| &agent.migrations.targets);
        let present = targets.and_then(|targets| Some(targets.get(&id)?.record.clone()));
        let Some(import) = self.driver.imports.get_mut(&id) else { return };
        let record = present.unwrap_or_else(|| import.record.clone());
        let is_read = record.source_log.is_some();
        let source = others.iter().find(|node| node.info.id == record.source);
        let source = source.filter(|node| is_read || node.exports(record.id, chunk_of(record.range.first())));
        if let Some(source) = source.filter(|_| !self.stalled) {
            if !import.activated {
                import.activated = true;
            } else if import.next <= chunk_of(record.range.last()) {
                if let Some(&value) = source.driver.data.get(&import.next) {
                    self.driver.data.entry(import.next).or_insert(value);
                    import.moved += 1;
                }
                import.next += 1;
            }
        }
        let import = &self.driver.imports[&id];
        let done = import.next > chunk_of(record.range.last());
        let next = record.partitions.iter().map(|partition| {
            let arrived = chunk_of(partition.last()) < import.next;
            (!arrived).then_some(Position(import.next << 60).max(partition.first()))
        });
        let progress = Progress {
            activated: import.activated,
            records_moved: import.moved,
            bytes_moved: import.moved * 100,
            next: next.collect(),
            stalled: self.stalled.then(|| "told to".to_owned()),
            ..Progress::default()
        };
        self.target(now, id, |target| {
            target.progressed(progress);
            if done {
                target.finish(Ok(()));
            }
        });
        if done {
            return;
        }
        self.later(now.plus_us(200 + random % 2_000), Pending::Pull(id));
    }

    /// Whether the node is the frozen source of the migration.
    fn exports(&self, id: MigrationId, chunk: u64) -> bool {
        self.driver.roles.len() == 1 && self.role(&self.driver.roles[0], chunk) == Some(Role::Exporting(id))
    }

    fn role(&self, roles: &Roles, chunk: u64) -> Option<Role> {
        let range = super::chunks(chunk, chunk);
        roles.iter().find(|(covering, _)| covering.covers(range)).map(|(_, role)| *role)
    }

    /// Whether some worker of the node acknowledges writes of the chunk.
    pub(crate) fn acknowledges(&self, chunk: u64) -> bool {
        self.driver.roles.iter().any(|roles| match self.role(roles, chunk) {
            Some(Role::Owned) => true,
            Some(Role::Importing(id)) => self.driver.imports.get(&id).is_some_and(|import| import.activated),
            _ => false,
        })
    }

    pub(crate) fn write(&mut self, chunk: u64, value: u64) {
        self.driver.data.insert(chunk, value);
    }

    pub(crate) fn read(&self, chunk: u64, others: &[SimNode]) -> Read {
        if let Some(&value) = self.driver.data.get(&chunk) {
            return Read::Value(value);
        }
        let importing = self.driver.roles.last().and_then(|roles| match self.role(roles, chunk)? {
            Role::Importing(id) => self.driver.imports.get(&id),
            _ => None,
        });
        match importing {
            Some(import) if import.next <= chunk => {
                let source = others.iter().find(|node| node.info.id == import.record.source);
                match source.filter(|node| node.exports(import.record.id, chunk)) {
                    Some(source) => {
                        source.driver.data.get(&chunk).map_or(Read::Absent, |&value| Read::Value(value))
                    }
                    None => Read::NotHereYet,
                }
            }
            _ => Read::Absent,
        }
    }

    /// Executes the agent's events, and collects its messages.
    pub(crate) fn drain(
        &mut self,
        now: MonotonicUs,
        replies: &mut BTreeMap<u64, Reply>,
    ) -> Vec<ToCoordinator> {
        while let Some(event) = self.agent.as_mut().and_then(NodeAgent::poll_event) {
            self.event(now, event, replies);
        }
        let Some(agent) = &mut self.agent else { return Vec::new() };
        std::iter::from_fn(|| agent.poll_transmit()).collect()
    }

    fn event(&mut self, now: MonotonicUs, event: AgentEvent, replies: &mut BTreeMap<u64, Reply>) {
        match event {
            AgentEvent::Joined(cluster) => self.cluster = Some(cluster),
            AgentEvent::Suspected(nodes) => {
                self.suspected = &nodes.by_coordinator | &nodes.by_this_node;
                self.suspected_alone = nodes.by_this_node;
                self.announcements += 1;
            }
            AgentEvent::JoinRefused(why) => self.refused = Some(why),
            AgentEvent::Superseded
            | AgentEvent::LogFate(..)
            | AgentEvent::Policy(..)
            | AgentEvent::TurnsBack(_)
            | AgentEvent::Settled(..)
            | AgentEvent::OtherEndRestarted(_) => {}
            AgentEvent::Survey(migration, partitions) => {
                let range = self.agent.as_ref().expect("it asks").migrations.sources[&migration].range;
                let survey = self.survey(range, partitions);
                self.later(now.plus_us(300), Pending::Surveyed(migration, survey));
            }
            AgentEvent::Prepare(id) => {
                let record = self.target_record(id);
                self.later(now.plus_us(300), Pending::Prepare(record));
            }
            AgentEvent::Track(id) => {
                let record = self.source_record(id);
                assert_eq!(
                    record.source_incarnation, self.info.incarnation,
                    "tracking is this incarnation's own"
                );
                assert!(self.driver.tracked.insert(record.id), "tracking starts once");
            }
            AgentEvent::StartExport(id) => {
                let record = self.source_record(id);
                assert_eq!(
                    record.source_incarnation, self.info.incarnation,
                    "an export is this incarnation's own"
                );
                assert!(self.driver.exports.insert(record.id), "an export starts once");
                let was_tracked = self.driver.tracked.remove(&record.id);
                let is_ahead = record.protocol == AHEAD && !self.keeps_log;
                assert!(was_tracked || !is_ahead, "a range that was copied ahead was tracked");
                assert!(!was_tracked || record.protocol == AHEAD, "nothing else is tracked");
            }
            AgentEvent::StartImport(id) => {
                let record = self.target_record(id);
                let was_prepared = self.driver.prepared.remove(&record.id);
                assert!(was_prepared || self.keeps_log, "an import was prepared");
                let next = chunk_of(record.range.first());
                self.driver.imports.insert(id, Import { record, activated: false, next, moved: 0 });
                self.later(now.plus_us(500), Pending::Pull(id));
            }
            AgentEvent::Publish(map) => {
                assert!(
                    self.driver.changing_to.is_none_or(|epoch| epoch < map.epoch()),
                    "maps come in order"
                );
                if self.driver.roles.is_empty() {
                    self.forget_leavings(&map);
                }
                for (_, role) in roles_of(&map, self.info.id, self.info.incarnation) {
                    match role {
                        Role::Exporting(id) => {
                            assert!(self.driver.exports.contains(&id), "announced before the map")
                        }
                        Role::Importing(id) => {
                            assert!(self.driver.imports.contains_key(&id), "announced before")
                        }
                        _ => {}
                    }
                }
                self.driver.taking.retain(|takeover| map.takeovers().contains(takeover));
                let own = map.takeovers().iter().filter(|takeover| takeover.owner == self.info.id);
                let new = own.filter(|takeover| !self.driver.taking.contains(takeover));
                for takeover in new.cloned().collect::<Vec<_>>() {
                    self.driver.taking.push(takeover.clone());
                    self.later(now.plus_us(3_000), Pending::TakeOver(takeover));
                }
                self.driver.roles.push(roles_of(&map, self.info.id, self.info.incarnation));
                self.driver.changing_to = Some(map.epoch());
                self.later(now.plus_us(700), Pending::ChangeOver);
            }
            AgentEvent::Over(id, end) => self.over(id, end),
            AgentEvent::Copies(copies) => self.copies.push(copies),
            AgentEvent::Reply(ticket, reply) => {
                assert!(replies.insert(ticket, reply).is_none(), "a request is answered once");
            }
        }
    }

    fn over(&mut self, migration: MigrationId, end: End) {
        let was_exported = self.driver.exports.remove(&migration);
        let was_imported = self.driver.imports.remove(&migration).is_some();
        self.driver.tracked.remove(&migration);
        self.driver.prepared.remove(&migration);
        self.driver.pending.retain(|pending| match pending {
            Pending::Prepare(record) | Pending::Copy(record, _) => record.id != migration,
            Pending::Surveyed(..) | Pending::ChangeOver | Pending::Pull(_) | Pending::TakeOver(_) => true,
        });
        self.assert_no_role_in(migration);
        match end {
            End::GivenAway(range) => {
                for chunk in (0..CHUNKS).filter(|&chunk| range.contains(super::chunks(chunk, chunk).first()))
                {
                    assert!(!self.acknowledges(chunk), "what is released is not served");
                    if let Some(value) = self.driver.data.remove(&chunk) {
                        self.released(chunk, value);
                    }
                }
            }
            End::Complete => assert!(was_imported, "only an import is complete, and once"),
            End::GivenUp(_) => assert!(!was_exported, "what was given away does not come back"),
        }
    }

    /// A value released with a failed migration is lost; this does not check whether it has arrived.
    fn released(&mut self, chunk: u64, value: u64) {
        if !self.keeps_log {
            self.lost.insert((chunk, value));
        }
    }

    /// An end is announced only when every worker uses a map without the migration.
    fn assert_no_role_in(&self, migration: MigrationId) {
        let mut roles = self.driver.roles.iter().flatten();
        assert!(
            roles.all(|(_, role)| ![Role::Exporting(migration), Role::Importing(migration)].contains(role))
        );
    }

    fn survey(&self, range: PositionRange, partitions: usize) -> Survey {
        let chunks: Vec<PositionRange> =
            (0..CHUNKS).filter_map(|chunk| super::chunks(chunk, chunk).intersection(range)).collect();
        let (parts, rest) = chunks.split_at(chunks.len().min(partitions) - 1);
        let last = PositionRange::new(rest[0].first(), range.last()).unwrap();
        let records = self.driver.data.range(chunk_of(range.first())..=chunk_of(range.last())).count() as u64;
        Survey { records, bytes: records * 100, partitions: parts.iter().copied().chain([last]).collect() }
    }
}
