//! The migrations that a node takes part in: one value for each, from the first message that names it until
//! its end is announced and nothing of it is left here.

use super::event::{AgentEvent, Outbox};
use super::source::{Source, SourceStage};
use super::talk::Talk;
use super::target::{Target, TargetStage};
use crate::MigrationRecord;
use crate::limits::{HISTORY, MAX_HELD};
use sidle_types::{MapEpoch, MigrationId, MonotonicUs, PositionRange};
use std::collections::{BTreeMap, BTreeSet, VecDeque};

/// All of them, by role. `X`, `I`: what the driver keeps for each as its source and as its target.
#[derive(Debug)]
pub struct Migrations<X, I> {
    /// Those that this node is the source of.
    pub sources: BTreeMap<MigrationId, Source<X>>,
    /// Those that this node is the target of.
    pub targets: BTreeMap<MigrationId, Target<I>>,
    /// The last that ended here, so that a late message does not begin them again.
    ended: VecDeque<MigrationId>,
}

impl<X, I> Default for Migrations<X, I> {
    fn default() -> Migrations<X, I> {
        Migrations { sources: BTreeMap::new(), targets: BTreeMap::new(), ended: VecDeque::new() }
    }
}

impl<X, I> Migrations<X, I> {
    /// How many there are, those included that are over and of which something is left here.
    pub(super) fn len(&self) -> usize {
        self.sources.len() + self.targets.len()
    }

    fn talks(&self) -> impl Iterator<Item = (MigrationId, &Talk)> {
        let sources = self.sources.iter().map(|(&id, source)| (id, &source.talk));
        sources.chain(self.targets.iter().map(|(&id, target)| (id, &target.talk)))
    }

    /// Whether the migration is here.
    pub(super) fn holds(&self, id: MigrationId) -> bool {
        self.sources.contains_key(&id) || self.targets.contains_key(&id)
    }

    /// Those that the coordinator may still send messages about.
    pub(super) fn held(&self) -> BTreeSet<MigrationId> {
        self.talks().filter(|(_, talk)| talk.is_held()).map(|(id, _)| id).collect()
    }

    /// How many ends are remembered.
    pub(super) fn remembered(&self) -> usize {
        self.ended.len()
    }

    /// Whether a question about it is to be answered: not when it has ended here, or there is no room.
    fn may_be_asked(&self, id: MigrationId) -> bool {
        !self.ended.contains(&id) && (self.holds(id) || self.held().len() < MAX_HELD)
    }

    /// Whether a migration gives some of the range away, as far as is known here. If it has ended in fact,
    /// the range may have come back, and is to be taken back before anything else happens to it. The
    /// coordinator repeats its questions (M10).
    fn gives_away(&self, range: PositionRange) -> bool {
        let gives = SourceStage::GivenAway..SourceStage::Over;
        let mut sources = self.sources.values();
        sources.any(|source| gives.contains(&source.stage) && source.range.intersection(range).is_some())
    }

    pub(super) fn asked_to_survey(
        &mut self,
        id: MigrationId,
        range: PositionRange,
        parts: usize,
        out: &mut Outbox,
    ) {
        if let Some(source) = self.sources.get_mut(&id) {
            source.talk.owes = true;
        } else if self.may_be_asked(id) && !self.holds(id) && !self.gives_away(range) {
            self.sources.insert(id, Source::new(range));
            out.event(AgentEvent::Survey(id, parts));
        }
    }

    pub(super) fn asked_to_track(&mut self, record: MigrationRecord, out: &mut Outbox) {
        let (id, is_mine) = (record.id, (record.source, record.source_incarnation) == out.identity());
        if !is_mine || !self.may_be_asked(id) || self.targets.contains_key(&id) {
            return;
        }
        if !self.holds(id) && self.gives_away(record.range) {
            return;
        }
        let source = self.sources.entry(id).or_insert_with(|| Source::new(record.range));
        let begins = source.advance(SourceStage::Waiting);
        // Once the migration runs only maps count: a late question (M10) may name a policy that is past.
        if source.stage < SourceStage::GivenAway {
            hear(source.record.replace(record.clone()).as_ref(), &record, out);
        }
        if begins {
            out.event(AgentEvent::Track(id));
        }
    }

    pub(super) fn asked_to_prepare(&mut self, now: MonotonicUs, record: MigrationRecord, out: &mut Outbox) {
        let (id, is_mine) = (record.id, (record.target, record.target_incarnation) == out.identity());
        if !is_mine || !self.may_be_asked(id) || self.sources.contains_key(&id) {
            return;
        }
        match self.targets.get_mut(&id) {
            None => {
                self.targets.insert(id, Target::new(now, record, TargetStage::Clearing));
                out.event(AgentEvent::Prepare(id));
            }
            Some(target) if target.began => {}
            Some(target) if target.stage() < TargetStage::Ready => {
                let known = std::mem::replace(&mut target.record, record);
                hear(Some(&known), &target.record, out);
            }
            Some(target) => target.talk.owes = true,
        }
    }

    /// Announces an export or import when a map shows it for the first time.
    /// One whose target died begins at another one once that has what the first was given: `is_taken_over`
    /// until then.
    pub(super) fn meet_running(
        &mut self,
        now: MonotonicUs,
        record: &MigrationRecord,
        is_taken_over: bool,
        out: &mut Outbox,
    ) {
        let (id, me) = (record.id, out.identity());
        if (record.source, record.source_incarnation) == me && !self.targets.contains_key(&id) {
            let source = self.sources.entry(id).or_insert_with(|| Source::new(record.range));
            let known = source.record.replace(record.clone());
            hear(known.as_ref(), record, out);
            if source.advance(SourceStage::GivenAway) {
                out.event(AgentEvent::StartExport(id));
            } else if known.as_ref().is_some_and(|known| is_another_target(known, record)) {
                out.event(AgentEvent::OtherEndRestarted(id));
            }
            if let Some(back) = record.settled_for()
                && known.and_then(|known| known.settled_for()).is_none()
            {
                out.event(AgentEvent::Settled(id, back));
            }
        } else if (record.target, record.target_incarnation) == me
            && !is_taken_over
            && !self.sources.contains_key(&id)
        {
            let unprepared = || Target::new(now, record.clone(), TargetStage::Dropped);
            let target = self.targets.entry(id).or_insert_with(unprepared);
            let known = std::mem::replace(&mut target.record, record.clone());
            hear(Some(&known), record, out);
            if !std::mem::replace(&mut target.began, true) {
                out.event(AgentEvent::StartImport(id));
            }
            let has_died = known.source_log.is_none() && record.source_log.is_some();
            if known.source_incarnation != record.source_incarnation || has_died {
                out.event(AgentEvent::OtherEndRestarted(id));
            }
            if record.turn.is_some() && known.turn.is_none() {
                out.event(AgentEvent::TurnsBack(id));
            }
        }
    }

    /// When the next report to the coordinator is due.
    pub(super) fn report_due(&self) -> Option<MonotonicUs> {
        let owes = self.talks().any(|(_, talk)| talk.is_held() && talk.owes);
        let reports = self.targets.values().filter(|target| target.talk.is_held());
        reports.filter_map(Target::report_due).chain(owes.then_some(MonotonicUs(0))).min()
    }

    /// Sends the coordinator every report that is due.
    pub(super) fn report(&mut self, now: MonotonicUs, out: &mut Outbox) {
        for (&id, source) in &mut self.sources {
            if std::mem::take(&mut source.talk.owes) && source.talk.is_held() {
                source.message(id).into_iter().for_each(|message| out.send(message));
            }
        }
        for target in self.targets.values_mut().filter(|target| target.talk.is_held()) {
            let is_due = target.report_due().is_some_and(|due| now >= due);
            if std::mem::take(&mut target.talk.owes) || is_due {
                target.message(now).into_iter().for_each(|message| out.send(message));
            }
        }
    }

    /// Reports every import to the coordinator, as after a new connection.
    pub(super) fn repeat(&mut self) {
        self.targets.values_mut().for_each(|target| target.talk.owes |= target.reports());
    }

    /// Takes in from the coordinator that a migration is over, and the first map without it.
    pub(super) fn over(&mut self, id: MigrationId, record: Option<MigrationRecord>, map_epoch: MapEpoch) {
        let source = self.sources.get_mut(&id).map(|source| &mut source.talk);
        if let Some(talk) = source.or(self.targets.get_mut(&id).map(|target| &mut target.talk)) {
            talk.over(record, map_epoch);
        }
    }

    /// Announces ends whose map is in use.
    pub(super) fn announce_ends(&mut self, published: MapEpoch, out: &mut Outbox) {
        let sources = self.sources.iter_mut().filter_map(|(&id, source)| {
            source.talk.take_end(published).map(|record| (id, source.end(record.as_ref())))
        });
        let targets = self.targets.iter_mut().filter_map(|(&id, target)| {
            target.talk.take_end(published).map(|record| (id, target.end(record.as_ref())))
        });
        for (id, end) in sources.chain(targets) {
            out.event(AgentEvent::Over(id, end));
            self.ended.push_back(id);
        }
        self.ended.drain(..self.ended.len().saturating_sub(HISTORY));
    }

    /// Drops those whose end was announced and handled, and of which nothing is left here.
    pub(super) fn drop_ended(&mut self) {
        self.sources.retain(|_, source| source.talk.is_held() || source.view.is_some());
        self.targets.retain(|_, target| target.talk.is_held() || target.import.is_some());
    }
}

/// Whether the target restarted, or another node has its place.
fn is_another_target(known: &MigrationRecord, record: &MigrationRecord) -> bool {
    (known.target, known.target_incarnation) != (record.target, record.target_incarnation)
}

/// Takes in a policy that the driver does not know yet, from a repeated question or a newer map.
fn hear(known: Option<&MigrationRecord>, record: &MigrationRecord, out: &mut Outbox) {
    if known.is_some_and(|known| known.policy != record.policy) {
        out.event(AgentEvent::Policy(record.id, record.policy));
    }
}
