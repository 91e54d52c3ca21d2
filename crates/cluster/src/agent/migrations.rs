//! The migrations that a node takes part in: one value for each, from the first message that names it until
//! its end is announced.

use super::event::{AgentEvent, End};
use super::outbox::Outbox;
use super::source::Source;
use super::target::Target;
use crate::limits::{HISTORY, MAX_HELD};
use crate::{HostPort, MigrationRecord, NodeSays};
use sidle_types::{MapEpoch, MigrationId, MigrationPolicy, MonotonicUs, PositionRange};
use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, VecDeque};

/// One migration on this node.
#[derive(Debug)]
struct Migration {
    role: Role,
    /// How hard it may press, as was heard last.
    policy: Option<MigrationPolicy>,
    /// Its end, to be announced once a map without it is published.
    over: Option<Over>,
}

#[derive(Debug)]
enum Role {
    Source(Source),
    Target(Target),
}

#[derive(Debug)]
struct Over {
    record: Option<MigrationRecord>,
    map_epoch: MapEpoch,
}

impl Migration {
    fn new(role: Role, policy: Option<MigrationPolicy>) -> Migration {
        Migration { role, policy, over: None }
    }

    /// A question that is asked again, or a newer map, may name another policy than the one that the driver
    /// knows. Once the migration runs only maps count: a late question (M10) may name one that is past.
    fn hear_policy(&mut self, record: &MigrationRecord, out: &mut Outbox) {
        let (migration, policy) = (record.id, record.policy);
        if self.policy.replace(policy).is_some_and(|known| known != policy) {
            out.event(AgentEvent::Policy { migration, policy });
        }
    }
}

/// All of them.
#[derive(Debug, Default)]
pub(super) struct Migrations {
    all: BTreeMap<MigrationId, Migration>,
    /// The last that ended here, so that a late message does not begin them again.
    ended: VecDeque<MigrationId>,
}

impl Migrations {
    /// The place of one that is asked for, unless it has ended here, or is new and there is no room.
    fn asked(&mut self, id: MigrationId) -> Option<Entry<'_, MigrationId, Migration>> {
        let has_room = self.all.len() < MAX_HELD || self.holds(id);
        (has_room && !self.ended.contains(&id)).then(|| self.all.entry(id))
    }

    /// Whether something is kept for the migration.
    pub(super) fn holds(&self, id: MigrationId) -> bool {
        self.all.contains_key(&id)
    }

    /// Those that something is kept for, in order.
    pub(super) fn ids(&self) -> impl ExactSizeIterator<Item = MigrationId> {
        self.all.keys().copied()
    }

    /// How many ends wait to be announced.
    pub(super) fn unannounced(&self) -> usize {
        self.all.values().filter(|migration| migration.over.is_some()).count()
    }

    /// How many ends are remembered.
    pub(super) fn remembered(&self) -> usize {
        self.ended.len()
    }

    /// The driver reports something of a migration; nothing is acted on that does not fit its state.
    pub(super) fn reported(&mut self, now: MonotonicUs, report: NodeSays, out: &mut Outbox) {
        let id = report.migration().expect("all else is the agent's own to say");
        match self.all.get_mut(&id).map(|migration| &mut migration.role) {
            Some(Role::Source(source)) => source.reported(id, report, out),
            Some(Role::Target(target)) => target.reported(now, id, report, out),
            None => {}
        }
    }

    pub(super) fn asked_to_survey(
        &mut self,
        migration: MigrationId,
        range: PositionRange,
        partitions: usize,
        out: &mut Outbox,
    ) {
        match self.asked(migration) {
            Some(Entry::Vacant(place)) => {
                place.insert(Migration::new(Role::Source(Source::counting(range)), None));
                out.event(AgentEvent::Survey { migration, range, partitions });
            }
            Some(Entry::Occupied(held)) => {
                if let Role::Source(source) = &held.get().role {
                    source.asked_again(migration, out);
                }
            }
            None => {}
        }
    }

    pub(super) fn asked_to_track(&mut self, record: MigrationRecord, out: &mut Outbox) {
        let is_mine = record.source == out.me.id && record.source_incarnation == out.me.incarnation;
        let Some(place) = self.asked(record.id).filter(|_| is_mine) else { return };
        let mut begins = matches!(place, Entry::Vacant(_));
        let new = || Migration::new(Role::Source(Source::tracking(record.range)), None);
        let migration = place.or_insert_with(new);
        let Role::Source(source) = &mut migration.role else { return };
        begins |= source.track(record.range);
        if source.is_tracking() {
            migration.hear_policy(&record, out);
        }
        if begins {
            out.event(AgentEvent::Track { record });
        }
    }

    pub(super) fn asked_to_prepare(
        &mut self,
        record: MigrationRecord,
        source_bus_addr: HostPort,
        out: &mut Outbox,
    ) {
        let is_mine = record.target == out.me.id && record.target_incarnation == out.me.incarnation;
        match self.asked(record.id).filter(|_| is_mine) {
            Some(Entry::Vacant(place)) => {
                place.insert(Migration::new(Role::Target(Target::Preparing(None)), Some(record.policy)));
                out.event(AgentEvent::Prepare { record, source_bus_addr });
            }
            Some(Entry::Occupied(mut held)) => match &held.get().role {
                Role::Target(Target::Preparing(_)) => held.get_mut().hear_policy(&record, out),
                Role::Target(target) => target.asked_again(record.id, out),
                Role::Source(_) => {}
            },
            None => {}
        }
    }

    /// Announces an export or import when a map shows it for the first time.
    pub(super) fn meet_running(&mut self, now: MonotonicUs, record: &MigrationRecord, out: &mut Outbox) {
        let me = (out.me.id, out.me.incarnation);
        let is_source = (record.source, record.source_incarnation) == me;
        if !is_source && (record.target, record.target_incarnation) != me {
            return;
        }
        let mut is_known = self.holds(record.id);
        let role = || match is_source {
            true => Role::Source(Source::exporting(record.range)),
            false => Role::Target(Target::importing(now)),
        };
        let migration = self.all.entry(record.id).or_insert_with(|| Migration::new(role(), None));
        migration.hear_policy(record, out);
        is_known &= match &migration.role {
            Role::Source(source) => is_source && source.is_exporting(),
            Role::Target(target) => !is_source && matches!(target, Target::Importing(_)),
        };
        if is_known {
            return;
        }
        migration.role = role();
        let record = record.clone();
        out.event(match is_source {
            true => AgentEvent::StartExport { record },
            false => AgentEvent::StartImport { record },
        });
    }

    fn targets(&mut self) -> impl Iterator<Item = (MigrationId, &mut Target)> {
        self.all.iter_mut().filter_map(|(&id, migration)| match &mut migration.role {
            Role::Target(target) => Some((id, target)),
            Role::Source(_) => None,
        })
    }

    /// When the coordinator is to be told of one of them next.
    pub(super) fn report_due(&self) -> Option<MonotonicUs> {
        let reports = self.all.values().filter_map(|migration| match &migration.role {
            Role::Target(target) => target.report_due(),
            Role::Source(_) => None,
        });
        reports.min()
    }

    /// Tells the coordinator of every import whose time has come.
    pub(super) fn report(&mut self, now: MonotonicUs, out: &mut Outbox) {
        let is_due = |due: Option<MonotonicUs>| due.is_some_and(|due| now >= due);
        let due = self.targets().filter(|(_, target)| is_due(target.report_due()));
        due.for_each(|(id, target)| target.tell(now, id, out));
    }

    /// Tells the coordinator of every import, as after a new connection.
    pub(super) fn repeat(&mut self, now: MonotonicUs, out: &mut Outbox) {
        self.targets().for_each(|(id, target)| target.tell(now, id, out));
    }

    /// The coordinator says that a migration is over, and which map is the first without it.
    pub(super) fn over(&mut self, id: MigrationId, record: Option<MigrationRecord>, map_epoch: MapEpoch) {
        if let Some(migration) = self.all.get_mut(&id) {
            migration.over.get_or_insert(Over { record, map_epoch });
        }
    }

    /// Announces the ends that the map in use is new enough for, and forgets what has ended.
    pub(super) fn announce_ends(&mut self, published: MapEpoch, out: &mut Outbox) {
        let is_past = |over: &Over| over.map_epoch <= published;
        let ended = self.all.extract_if(.., |_, migration| migration.over.as_ref().is_some_and(is_past));
        for (id, Migration { role, over, .. }) in ended {
            let record = over.and_then(|over| over.record);
            let end = match role {
                Role::Source(source) => source.end(record.as_ref()),
                Role::Target(target) => target.end(record.as_ref()),
            };
            let forgotten = || "the coordinator no longer remembers how it ended".to_owned();
            let end = end.unwrap_or_else(|| {
                End::GivenUp(record.as_ref().map_or_else(forgotten, |record| record.state.to_string()))
            });
            out.event(AgentEvent::Over { migration: id, end });
            self.ended.push_back(id);
            if self.ended.len() > HISTORY {
                self.ended.pop_front();
            }
        }
    }
}
