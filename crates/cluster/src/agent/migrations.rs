//! What a node keeps for each migration that it takes part in.

use super::{AgentEvent, NodeAgent};
use crate::limits::MAX_HELD;
use crate::timing::{HEARTBEAT_INTERVAL_US, PROGRESS_INTERVAL_US, RETRY_US};
use crate::{HISTORY, HostPort, MigrationRecord, MigrationState, NodeSays, PrepareRefusal, Progress, Survey};
use sidle_types::{MapEpoch, MigrationId, MonotonicUs, PositionRange};

/// What the node keeps for one migration.
#[derive(Debug)]
pub(super) enum Held {
    /// As the source: the driver counts the range.
    Counting(PositionRange),
    /// As the source: what was counted.
    Counted(PositionRange, Survey),
    /// As the source: the range is copied while it is served.
    Tracking(PositionRange),
    /// As the target: the driver makes room, and where the protocol says so takes a copy, which has come this
    /// far.
    Preparing(Option<Import>),
    /// As the target: there is room, or there is none and nothing is kept.
    Prepared(Result<(), PrepareRefusal>),
    /// As the source: the range is given away.
    Exporting(PositionRange),
    /// As the target: the range is taken.
    Importing(Import),
}

/// The reports of an import, or of a copy made before it, to the coordinator.
#[derive(Debug)]
pub(super) struct Import {
    progress: Progress,
    /// Whether the coordinator has not been told the latest.
    dirty: bool,
    told_at: MonotonicUs,
    ended: Option<ImportEnd>,
}

impl Import {
    fn new(now: MonotonicUs) -> Import {
        Import { progress: Progress::default(), dirty: false, told_at: now, ended: None }
    }
}

#[derive(Debug)]
enum ImportEnd {
    Finished,
    Broken(String),
}

/// The end of a migration, to be announced once a map without it is published.
#[derive(Debug)]
pub(super) struct End {
    record: Option<MigrationRecord>,
    map_epoch: MapEpoch,
}

impl Held {
    /// When the coordinator is to be told of it next.
    pub(super) fn report_due(&self) -> Option<MonotonicUs> {
        let (Held::Importing(import) | Held::Preparing(Some(import))) = self else { return None };
        Some(import.told_at.plus_us(match import {
            Import { ended: Some(_), .. } => RETRY_US,
            Import { dirty: true, .. } => PROGRESS_INTERVAL_US,
            // Now and then even so: a coordinator that restarted knows nothing of it.
            _ => HEARTBEAT_INTERVAL_US,
        }))
    }
}

impl NodeAgent {
    pub(super) fn asked_to_survey(
        &mut self,
        migration: MigrationId,
        range: PositionRange,
        partitions: usize,
    ) {
        if self.ended.contains(&migration) {
            return;
        }
        match self.held.get(&migration) {
            None if self.held.len() >= MAX_HELD => {}
            None => {
                self.held.insert(migration, Held::Counting(range));
                self.event(AgentEvent::Survey { migration, range, partitions });
            }
            Some(Held::Counted(_, survey)) => {
                let survey = survey.clone();
                self.send(NodeSays::Surveyed { migration, survey });
            }
            Some(_) => {}
        }
    }

    pub(super) fn surveyed(&mut self, migration: MigrationId, survey: Survey) {
        if let Some(&mut Held::Counting(range)) = self.held.get_mut(&migration) {
            self.held.insert(migration, Held::Counted(range, survey.clone()));
            self.send(NodeSays::Surveyed { migration, survey });
        }
    }

    pub(super) fn asked_to_track(&mut self, record: MigrationRecord) {
        let migration = record.id;
        let is_mine = record.source == self.me.id && record.source_incarnation == self.me.incarnation;
        if !is_mine || self.ended.contains(&migration) {
            return;
        }
        match self.held.get(&migration) {
            None if self.held.len() >= MAX_HELD => {}
            None | Some(Held::Counting(_) | Held::Counted(..)) => {
                self.hear_policy(&record);
                self.held.insert(migration, Held::Tracking(record.range));
                self.event(AgentEvent::Track { record });
            }
            Some(Held::Tracking(_)) => self.hear_policy(&record),
            Some(_) => {}
        }
    }

    /// A question that is asked again, or a newer map, may name another policy than the one that the driver
    /// knows. Once the migration runs only maps count: a late question (M10) may name one that is past.
    fn hear_policy(&mut self, record: &MigrationRecord) {
        let (migration, policy) = (record.id, record.policy);
        let known = self.policies.insert(migration, policy);
        if known.is_some_and(|known| known != policy) {
            self.event(AgentEvent::Policy { migration, policy });
        }
    }

    pub(super) fn asked_to_prepare(&mut self, record: MigrationRecord, source_bus_addr: HostPort) {
        let migration = record.id;
        let is_mine = record.target == self.me.id && record.target_incarnation == self.me.incarnation;
        if !is_mine || self.ended.contains(&migration) {
            return;
        }
        match self.held.get(&migration) {
            None if self.held.len() >= MAX_HELD => {}
            None => {
                self.hear_policy(&record);
                self.held.insert(migration, Held::Preparing(None));
                self.event(AgentEvent::Prepare { record, source_bus_addr });
            }
            Some(Held::Preparing(_)) => self.hear_policy(&record),
            Some(Held::Prepared(result)) => {
                let answer = prepare_answer(migration, result);
                self.send(answer);
            }
            Some(_) => {}
        }
    }

    pub(super) fn prepared(&mut self, migration: MigrationId, result: Result<(), PrepareRefusal>) {
        if let Some(held @ Held::Preparing(_)) = self.held.get_mut(&migration) {
            let answer = prepare_answer(migration, &result);
            *held = Held::Prepared(result);
            self.send(answer);
        }
    }

    /// Whether this incarnation of the node takes part in the migration.
    pub(super) fn is_mine(&self, record: &MigrationRecord) -> bool {
        let me = (self.me.id, self.me.incarnation);
        let lives = [(record.source, record.source_incarnation), (record.target, record.target_incarnation)];
        lives.contains(&me)
    }

    /// Whether something is kept for the migration.
    pub(super) fn holds(&self, migration: MigrationId) -> bool {
        self.held.contains_key(&migration)
    }

    /// Announces an export or import when a map shows it for the first time (invariant 2).
    pub(super) fn meet_running(&mut self, now: MonotonicUs, record: &MigrationRecord) {
        let me = (self.me.id, self.me.incarnation);
        if self.is_mine(record) {
            self.hear_policy(record);
        }
        let held = self.held.get(&record.id);
        let exports = matches!(held, Some(Held::Exporting(_)));
        let imports = matches!(held, Some(Held::Importing(_)));
        if (record.source, record.source_incarnation) == me && !exports {
            self.held.insert(record.id, Held::Exporting(record.range));
            self.event(AgentEvent::StartExport { record: record.clone() });
        }
        if (record.target, record.target_incarnation) == me && !imports {
            let import = Import::new(now);
            self.held.insert(record.id, Held::Importing(import));
            self.event(AgentEvent::StartImport { record: record.clone() });
        }
    }

    pub(super) fn progress(&mut self, now: MonotonicUs, migration: MigrationId, progress: Progress) {
        let held = self.held.get_mut(&migration);
        let is_copying = matches!(held, Some(Held::Preparing(_)));
        let is_first = matches!(held, Some(Held::Preparing(None)));
        let import = match held {
            Some(Held::Importing(import)) => Some(import),
            Some(Held::Preparing(copy)) => Some(copy.get_or_insert_with(|| Import::new(now))),
            _ => None,
        };
        if let Some(import) = import {
            // The first word, that the target serves, or copies, goes out at once.
            let at_once = is_first || !is_copying && progress.activated && !import.progress.activated;
            import.dirty |= import.progress != progress;
            import.progress = progress;
            if at_once {
                self.tell(now, migration);
            }
        }
    }

    pub(super) fn finished(&mut self, now: MonotonicUs, migration: MigrationId, progress: Progress) {
        if let Some(Held::Importing(import)) = self.held.get_mut(&migration) {
            import.progress = progress;
            import.ended.get_or_insert(ImportEnd::Finished);
            self.tell(now, migration);
        }
    }

    pub(super) fn broken(&mut self, now: MonotonicUs, migration: MigrationId, why: String) {
        if let Some(Held::Importing(import)) = self.held.get_mut(&migration) {
            import.ended.get_or_insert(ImportEnd::Broken(why));
            self.tell(now, migration);
        }
    }

    /// Tells the coordinator of every import whose time has come.
    pub(super) fn report_imports(&mut self, now: MonotonicUs) {
        let due = |held: &Held| held.report_due().is_some_and(|due| now >= due);
        let due: Vec<MigrationId> =
            self.held.iter().filter(|(_, held)| due(held)).map(|(&id, _)| id).collect();
        due.into_iter().for_each(|migration| self.tell(now, migration));
    }

    /// Tells the coordinator of every import, as after a new connection.
    pub(super) fn repeat_imports(&mut self, now: MonotonicUs) {
        let all: Vec<MigrationId> = self.held.keys().copied().collect();
        all.into_iter().for_each(|migration| self.tell(now, migration));
    }

    fn tell(&mut self, now: MonotonicUs, migration: MigrationId) {
        if let Some(Held::Importing(import) | Held::Preparing(Some(import))) = self.held.get_mut(&migration) {
            import.dirty = false;
            import.told_at = now;
            let progress = import.progress.clone();
            let report = match &import.ended {
                None => NodeSays::Progress { migration, progress },
                Some(ImportEnd::Finished) => NodeSays::Finished { migration, progress },
                Some(ImportEnd::Broken(why)) => NodeSays::Broken { migration, why: why.clone() },
            };
            self.send(report);
        }
    }

    pub(super) fn over(
        &mut self,
        migration: MigrationId,
        record: Option<MigrationRecord>,
        map_epoch: MapEpoch,
    ) {
        if self.held.contains_key(&migration) {
            self.ends.entry(migration).or_insert(End { record, map_epoch });
            self.announce_ends();
        }
    }

    /// Announces the ends that the map in use is new enough for (invariant 3).
    pub(super) fn announce_ends(&mut self) {
        let present = self.published;
        let ready = self.ends.extract_if(.., |_, end| end.map_epoch <= present);
        for (migration, End { record, .. }) in ready.collect::<Vec<_>>() {
            let Some(held) = self.held.remove(&migration) else { continue };
            self.policies.remove(&migration);
            if matches!(held, Held::Tracking(_)) {
                self.event(AgentEvent::StopTracking { migration });
            }
            self.ended.push_back(migration);
            if self.ended.len() > HISTORY {
                self.ended.pop_front();
            }
            if let Some(event) = self.end_of(migration, held, record) {
                self.event(event);
            }
        }
    }

    fn end_of(
        &self,
        migration: MigrationId,
        held: Held,
        record: Option<MigrationRecord>,
    ) -> Option<AgentEvent> {
        let forgotten = || "the coordinator no longer remembers how it ended".to_owned();
        let why = record.as_ref().map_or_else(forgotten, |record| record.state.to_string());
        match held {
            Held::Exporting(range) => Some(AgentEvent::ReleaseExport { migration, range }),
            // No map showed it running, but the node may have been cut off while it ran.
            Held::Counting(range) | Held::Counted(range, _) | Held::Tracking(range) => {
                let gave_away = record.is_some_and(|record| record.ran());
                gave_away.then_some(AgentEvent::ReleaseExport { migration, range })
            }
            Held::Prepared(Err(_)) => None,
            Held::Preparing(_) | Held::Prepared(Ok(())) => {
                Some(AgentEvent::AbandonPrepared { migration, why })
            }
            Held::Importing(Import { ended, .. }) => {
                let done = record.is_some_and(|record| record.state == MigrationState::Done);
                let has_everything = matches!(ended, Some(ImportEnd::Finished));
                Some(if done || has_everything {
                    AgentEvent::FinishImport { migration }
                } else {
                    AgentEvent::DiscardRest { migration, why }
                })
            }
        }
    }
}

fn prepare_answer(migration: MigrationId, result: &Result<(), PrepareRefusal>) -> NodeSays {
    match result {
        Ok(()) => NodeSays::Prepared { migration },
        Err(why) => NodeSays::PrepareRefused { migration, why: why.clone() },
    }
}
