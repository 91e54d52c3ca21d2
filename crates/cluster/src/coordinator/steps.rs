//! A migration's way from state to state: which step is due, its commit, and what follows from it.

use super::members::{incarnation_of, shown};
use super::{Attempt, Coordinator, CoordinatorEvent};
use crate::bounds::clipped;
use crate::limits::MAX_TEXT_BYTES;
use crate::timing::{PREPARE_DEADLINE_US, RETRY_US};
use crate::{
    CoordinatorSays, MetaError, MetaStore, MigrationRecord, MigrationState, NodeSays, PrepareRefusal, Survey,
};
use sidle_types::words::{count, counted};
use sidle_types::{MapEpoch, MigrationId, MonotonicUs, NodeId, TabletEpoch, fault};
use std::sync::Arc;

/// One committed step of a migration.
#[derive(Debug)]
pub(super) enum Step {
    /// Its turn has come.
    Begin,
    /// The source has counted.
    Counted(Survey),
    /// The target has made room: it owns the range from here on.
    Run,
    /// The range goes back to the source, which knows of nothing, for this reason.
    GiveBack(String),
    /// It ends.
    End(MigrationState),
}

impl<M: MetaStore> Coordinator<M> {
    /// Takes in what a node says about a migration that it takes part in (M9: anything else is dropped).
    pub(super) fn migration_message(&mut self, now: MonotonicUs, from: NodeId, body: NodeSays) {
        let migration = match &body {
            NodeSays::Surveyed { migration, .. }
            | NodeSays::Prepared { migration }
            | NodeSays::PrepareRefused { migration, .. }
            | NodeSays::Progress { migration, .. }
            | NodeSays::Finished { migration, .. }
            | NodeSays::Broken { migration, .. } => *migration,
            NodeSays::Join { .. } | NodeSays::Heartbeat(_) | NodeSays::Request { .. } => return,
        };
        let Some(record) = self.data.unfinished().find(|record| record.id == migration) else { return };
        let copies_before = self.copies_before_freeze(record);
        let Some(attempt) = self.attempts.get_mut(&migration) else { return };
        let preparing = record.state == MigrationState::Preparing;
        let running = record.state == MigrationState::Running;
        let incarnation = incarnation_of(&self.data, from);
        let is_source = (record.source, record.source_incarnation) == (from, incarnation);
        let is_target = (record.target, record.target_incarnation) == (from, incarnation);
        let counted = !record.partitions.is_empty();
        match body {
            NodeSays::Surveyed { survey, .. } if preparing && is_source && !counted => {
                let found = MigrationRecord { partitions: survey.partitions.clone(), ..record.clone() };
                if found.partitions_tile_the_range() {
                    attempt.survey = Some(survey);
                } else {
                    let source = shown(&self.data, from);
                    attempt.broken =
                        Some(format!("the source {source} cut the range into parts that do not fit"));
                }
            }
            NodeSays::Prepared { .. } if preparing && is_target && counted => {
                attempt.prepared.get_or_insert(Ok(()));
            }
            NodeSays::PrepareRefused { why, .. } if preparing && is_target && counted => {
                attempt.prepared.get_or_insert(Err(why));
            }
            NodeSays::Progress { progress, .. } if running && is_target => attempt.advance(now, progress),
            NodeSays::Progress { progress, .. } if preparing && is_target && counted && copies_before => {
                attempt.copied(now, progress);
                // From here on whoever asked for it can watch it.
                self.answer_start(migration);
            }
            NodeSays::Finished { progress, .. } if running && is_target => {
                attempt.advance(now, progress);
                attempt.finished = true;
            }
            NodeSays::Broken { why, .. } if running && is_target => {
                let target = shown(&self.data, from);
                attempt.broken.get_or_insert(format!("the target {target} cannot go on ({why})"));
            }
            _ => {}
        }
    }

    /// Takes every step that is due, unless the metadata cannot be written at present.
    pub(super) fn advance(&mut self, now: MonotonicUs) {
        if let Some(at) = self.commit_retry_at {
            // After a failed commit the store may hold what was not done, and must hold what is before
            // anything follows.
            if now < at || self.commit(now, self.data.clone()).is_err() {
                return;
            }
        }
        while let Some((id, step)) = self.due_step(now) {
            if self.take(now, id, step).is_err() {
                return;
            }
        }
    }

    fn due_step(&self, now: MonotonicUs) -> Option<(MigrationId, Step)> {
        let running = self.data.map.migrations().iter();
        let ended = running.filter_map(|record| Some((record.id, self.end_of_running(record)?)));
        let waiting = self.data.waiting.iter().enumerate();
        let moved = waiting.filter_map(|(index, record)| {
            let step = match record.state {
                MigrationState::Queued => self.step_of_queued(now, index, record),
                _ => self.step_of_preparing(now, record),
            };
            Some((record.id, step?))
        });
        ended.chain(moved).next()
    }

    fn end_of_running(&self, record: &MigrationRecord) -> Option<Step> {
        let attempt = self.attempts.get(&record.id)?;
        if attempt.finished {
            return Some(Step::End(MigrationState::Done));
        }
        let MigrationRecord { source, target, .. } = record;
        let is_silent = self.members.get(source).is_some_and(|member| member.suspected);
        let is_taken_for_dead = fault!(SilenceCountsAsDeath) && is_silent;
        if incarnation_of(&self.data, *source) != record.source_incarnation || is_taken_for_dead {
            let source = shown(&self.data, *source);
            let why = format!("the source {source} restarted: {}", self.loss_of_the_rest(record, attempt));
            return Some(Step::End(MigrationState::Failed { why }));
        }
        if let Some(why) = self.why_given_back(record, attempt) {
            return Some(Step::GiveBack(why));
        }
        let why = if incarnation_of(&self.data, *target) != record.target_incarnation {
            format!(
                "the target {} restarted: it owns {}, empty, and what the range held is lost (about {})",
                shown(&self.data, *target),
                record.range,
                counted(record.counters.records, "record")
            )
        } else {
            format!("{}: {}", attempt.broken.as_ref()?, self.loss_of_the_rest(record, attempt))
        };
        if !self.source_has_frozen(record, attempt) && !fault!(RestartedTargetServesAtOnce) {
            return None;
        }
        Some(Step::End(MigrationState::Failed { why }))
    }

    /// Why a migration is not to run after all, of which its source does not know yet (invariant 7).
    fn why_given_back(&self, record: &MigrationRecord, attempt: &Attempt) -> Option<String> {
        if !attempt.is_withheld && !fault!(GivenBackThoughSent) {
            return None;
        }
        let [source, target] = [record.source, record.target].map(|node| shown(&self.data, node));
        let what = if incarnation_of(&self.data, record.target) != record.target_incarnation {
            format!("the target {target} restarted")
        } else if self.members.get(&record.target).is_some_and(|member| member.suspected) {
            format!("the target {target} is down, the coordinator has not heard of it lately")
        } else {
            attempt.broken.clone()?
        };
        Some(format!(
            "{what}, before the source {source} had given the range up: the range is the source's as before \
             and nothing is lost; start the migration again"
        ))
    }

    /// Without this no end may let the target serve (M1): whether the incarnation of the source that holds
    /// the data is known to acknowledge no more writes of the range: the target heard so from it, or all its
    /// workers use a map in which the migration runs.
    fn source_has_frozen(&self, record: &MigrationRecord, attempt: &Attempt) -> bool {
        let published = self.members.get(&record.source).map_or(MapEpoch(0), |member| member.map_epoch);
        attempt.progress.activated || published >= record.map_epoch
    }

    fn step_of_queued(&self, now: MonotonicUs, index: usize, record: &MigrationRecord) -> Option<Step> {
        let mut earlier = self.data.map.migrations().iter().chain(&self.data.waiting[..index]);
        if earlier.any(|earlier| earlier.shares_a_node_with(record)) {
            return None;
        }
        Some(self.silence(now, record).unwrap_or(Step::Begin))
    }

    fn step_of_preparing(&self, now: MonotonicUs, record: &MigrationRecord) -> Option<Step> {
        let fail = |why: String| Some(Step::End(MigrationState::Failed { why }));
        let attempt = self.attempts.get(&record.id)?;
        let lives = [
            ("source", record.source, record.source_incarnation),
            ("target", record.target, record.target_incarnation),
        ];
        if let Some((role, node, _)) =
            lives.into_iter().find(|(_, node, incarnation)| incarnation_of(&self.data, *node) != *incarnation)
        {
            let node = shown(&self.data, node);
            return fail(format!("the {role} {node} restarted before the range moved; nothing has changed"));
        }
        if let Some(why) = &attempt.broken {
            return fail(format!("{why}; nothing has changed"));
        }
        match (&attempt.prepared, &attempt.survey) {
            (Some(Ok(())), _) => Some(Step::Run),
            (Some(Err(why)), _) => fail(self.refusal_text(record, why)),
            (None, Some(survey)) if record.partitions.is_empty() => Some(Step::Counted(survey.clone())),
            _ if now >= attempt.deadline && attempt.moves_since.is_some() => {
                let target = shown(&self.data, record.target);
                let seconds = PREPARE_DEADLINE_US / 1_000_000;
                let stalled = attempt.progress.stalled.as_ref();
                let stalled = stalled.map_or(String::new(), |stalled| format!(" ({stalled})"));
                fail(format!(
                    "the copy at the target {target} has not got on for {seconds} s{stalled}; nothing has changed"
                ))
            }
            _ if now >= attempt.deadline => {
                let (role, node) = asked(record);
                let node = shown(&self.data, node);
                let seconds = PREPARE_DEADLINE_US / 1_000_000;
                fail(format!("the {role} {node} did not answer within {seconds} s; nothing has changed"))
            }
            _ => self.silence(now, record),
        }
    }

    /// The end of a migration that does not run yet, when one of its nodes is down.
    fn silence(&self, now: MonotonicUs, record: &MigrationRecord) -> Option<Step> {
        let sides = [("source", record.source), ("target", record.target)];
        let (role, node) = sides.into_iter().find(|(_, node)| self.is_down(now, *node))?;
        let node = shown(&self.data, node);
        let why = format!(
            "the {role} {node} is down, the coordinator has not heard of it lately; nothing has changed"
        );
        Some(Step::End(MigrationState::Failed { why }))
    }

    /// Commits a step, then does what follows from it.
    pub(super) fn take(&mut self, now: MonotonicUs, id: MigrationId, step: Step) -> Result<(), MetaError> {
        let mut next = self.data.clone();
        let is_withheld = matches!(step, Step::Run);
        let attempt = self.attempts.get(&id);
        let end = match &step {
            Step::End(MigrationState::Failed { why }) | Step::GiveBack(why) => {
                Some(MigrationState::Failed { why: clipped(why.clone(), MAX_TEXT_BYTES) })
            }
            Step::End(state) => Some(state.clone()),
            Step::Begin | Step::Counted(_) | Step::Run => None,
        };
        if matches!(step, Step::GiveBack(_)) {
            let is_whole = attempt.is_some_and(|attempt| attempt.is_withheld);
            assert!(is_whole || fault!(GivenBackThoughSent), "M1: the source may have frozen the range");
            next.give_back(id);
        }
        if let Some(state) = end {
            // Of a copy that came to nothing, nothing has moved.
            let record = next.migration(id).filter(|record| record.ran());
            let counters = record.and_then(|record| Some(attempt?.counters(now, record)));
            next.end(id, state, counters);
        } else {
            let index = next.waiting.iter().position(|record| record.id == id);
            let index = index.expect("only a migration that waits begins, is counted or runs");
            let mut record = next.waiting.remove(index);
            match step {
                Step::Begin => {
                    record.state = MigrationState::Preparing;
                    record.source_incarnation = incarnation_of(&self.data, record.source);
                    record.target_incarnation = incarnation_of(&self.data, record.target);
                }
                Step::Counted(survey) => {
                    record.counters.records = survey.records;
                    record.counters.bytes = survey.bytes;
                    record.partitions = survey.partitions;
                    // Nothing that is not over overlaps: until it runs, no epoch in the range changes.
                    let epochs = next.map.tablets_in(record.range).iter().map(|tablet| tablet.epoch.0);
                    record.epoch = TabletEpoch(epochs.max().unwrap_or(0) + 1);
                }
                Step::Run => {
                    record.state = MigrationState::Running;
                    record.map_epoch = MapEpoch(next.map.epoch().0 + 1);
                }
                Step::GiveBack(_) | Step::End(_) => unreachable!("handled above"),
            }
            if record.state == MigrationState::Running {
                next.map = Arc::new(next.map.changed(|map| map.start(record)));
            } else {
                next.waiting.insert(index, record);
            }
        }
        self.commit(now, next)?;
        if let Some(record) = self.data.unfinished().find(|record| record.id == id) {
            // What was heard belongs to the state before; what comes next is asked for anew.
            let mut attempt = Attempt::new(now, record);
            attempt.is_withheld = is_withheld;
            if let Some(before) = self.attempts.remove(&id) {
                if !record.partitions.is_empty() {
                    attempt.deadline = before.deadline;
                }
                attempt.go_on(before);
            }
            self.attempts.insert(id, attempt);
        }
        self.after_change(id);
        Ok(())
    }

    /// Tells of a committed change: the event, the answer to who started it, and the end to both sides.
    pub(super) fn after_change(&mut self, id: MigrationId) {
        let Some(record) = self.data.migration(id) else { return };
        let (source, target, state) = (record.source, record.target, record.state.clone());
        let is_over = state.is_over();
        self.event(CoordinatorEvent::Migration { migration: id, state });
        self.answer_start(id);
        if is_over {
            self.attempts.remove(&id);
            self.send_over(source, id);
            self.send_over(target, id);
        }
    }

    /// Asks source or target for what a preparation needs next, if it is time to.
    pub(super) fn ask(&mut self, now: MonotonicUs) {
        let mut questions = Vec::new();
        for record in &self.data.waiting {
            let Some(attempt) = self.attempts.get_mut(&record.id) else { continue };
            let due = attempt.asked_at.is_none_or(|at| now >= at.plus_us(RETRY_US));
            if record.state != MigrationState::Preparing || !due {
                continue;
            }
            attempt.asked_at = Some(now);
            if record.partitions.is_empty() {
                // Read before the migration was written down; a coordinator of another version may know it no
                // more.
                let Ok(outline) = (self.read_protocol)(&record.protocol) else { continue };
                let question = CoordinatorSays::Survey {
                    migration: record.id,
                    range: record.range,
                    partitions: outline.partitions,
                };
                questions.push((record.source, question));
            } else if let Some(source) = self.data.map.node(record.source) {
                if (self.read_protocol)(&record.protocol).is_ok_and(|outline| outline.copies_before_freeze) {
                    let question = CoordinatorSays::Track { record: Box::new(record.clone()) };
                    questions.push((record.source, question));
                }
                let source_bus_addr = source.bus_addr.clone();
                let question = CoordinatorSays::Prepare { record: Box::new(record.clone()), source_bus_addr };
                questions.push((record.target, question));
            }
        }
        for (node, question) in questions {
            self.send(node, question);
        }
    }

    /// Whether the migration's protocol copies the range before it changes its owner.
    fn copies_before_freeze(&self, record: &MigrationRecord) -> bool {
        (self.read_protocol)(&record.protocol).is_ok_and(|outline| outline.copies_before_freeze)
    }

    /// What is lost when a running migration brings no more over.
    fn loss_of_the_rest(&self, record: &MigrationRecord, attempt: &Attempt) -> String {
        let (all, range) = (record.counters.records, record.range);
        if self.copies_before_freeze(record) {
            return format!(
                "lost what the range held, about {}, unless the target serves it already: without the last \
                 changes its copy may be stale; the target owns {range}",
                counted(all, "record")
            );
        }
        format!(
            "lost about {} of {}, which had not arrived; the target owns {range} with what had arrived and what \
             was written since",
            count(all.saturating_sub(attempt.progress.records_moved)),
            counted(all, "record")
        )
    }

    /// What a target's refusal means.
    fn refusal_text(&self, record: &MigrationRecord, why: &PrepareRefusal) -> String {
        let [source, target] = [record.source, record.target].map(|node| shown(&self.data, node));
        match why {
            PrepareRefusal::NoMemory { needed_bytes, free_bytes } => format!(
                "the target {target} has no memory for it: {needed_bytes} bytes needed, {free_bytes} bytes free; nothing \
             has changed"
            ),
            PrepareRefusal::SourceUnreachable { error } => {
                format!("the target {target} cannot reach the source {source} ({error}); nothing has changed")
            }
            PrepareRefusal::Other { why } => {
                format!("the target {target} refuses: {why}; nothing has changed")
            }
        }
    }
}

/// Whose answer a preparation waits for.
fn asked(record: &MigrationRecord) -> (&'static str, NodeId) {
    if record.partitions.is_empty() { ("source", record.source) } else { ("target", record.target) }
}
