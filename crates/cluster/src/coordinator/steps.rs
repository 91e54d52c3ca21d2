//! A migration's way from state to state: which step is due, and what to ask its nodes.

use super::attempt::{Attempt, Attempts};
use super::members::{Members, incarnation_of, shown};
use crate::timing::{PREPARE_DEADLINE_US, RETRY_US};
use crate::{
    CoordinatorSays, Metadata, MigrationRecord, MigrationState, PrepareRefusal, ReadProtocol, Settled,
    Survey, Turn,
};
use sidle_types::words::{count, counted};
use sidle_types::{MapEpoch, MigrationId, MonotonicUs, NodeId, TabletEpoch, fault};
use std::sync::Arc;

/// One committed step of a migration.
#[derive(Debug)]
pub(super) enum Step {
    /// It is first in the queue.
    Begin,
    /// The source has counted.
    Counted(Survey),
    /// The target has made room: it owns the range from here on.
    Run,
    /// The range goes back to the source, which never learnt of the migration, or knows what it gave; the
    /// migration ends so.
    GiveBack(MigrationState),
    /// Nothing is in transit: its source is to note what it kept.
    Settle,
    /// It ends, and its way back begins: its source has noted what it kept.
    TurnBack,
    /// It ends.
    End(MigrationState),
}

/// Which steps are due.
pub(super) struct Steps<'a> {
    pub(super) data: &'a Metadata,
    pub(super) members: &'a Members,
    pub(super) attempts: &'a Attempts,
    pub(super) read_protocol: ReadProtocol,
}

impl Steps<'_> {
    /// The next step that is due.
    pub(super) fn due(&self, now: MonotonicUs) -> Option<(MigrationId, Step)> {
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
        if self.data.map.takeover_at(record.range.first()).is_some() {
            // Its new target goes on with what the one had that died, and reads that first.
            return None;
        }
        let attempt = self.attempts.get(&record.id)?;
        if attempt.finished {
            return Some(Step::End(MigrationState::Done));
        }
        if record.source_log.is_some() {
            return self.end_without_source(record, attempt);
        }
        let source = &record.source;
        let is_silent = self.members.get(*source).is_some_and(|member| member.suspected);
        let is_taken_for_dead = fault!(SilenceCountsAsDeath) && is_silent;
        if incarnation_of(self.data, *source) != record.source_incarnation || is_taken_for_dead {
            let source = shown(self.data, *source);
            let why = format!("the source {source} restarted: {}", self.loss_of_the_rest(record, attempt));
            return Some(Step::End(MigrationState::Failed { why }));
        }
        if let Some(why) = self.why_given_back(record, attempt) {
            return Some(Step::GiveBack(MigrationState::Failed { why }));
        }
        let is_target_back = incarnation_of(self.data, record.target) != record.target_incarnation;
        // Once all is given, the source's copy is as outdated as a frozen one.
        if is_target_back && record.kept_by_source && !attempt.progress.activated {
            return Some(Step::GiveBack(MigrationState::Failed { why: self.loss_of_given(record, attempt) }));
        }
        // The source of a way back may not know of it yet, and has a share to begin the next one with.
        let published = self.members.get(*source).map_or(MapEpoch(0), |member| member.map_epoch);
        let is_known = record.continues.is_none() || published >= record.map_epoch;
        if !is_target_back
            && is_known
            && let Some(step) = turn_of(record, attempt, published)
        {
            return Some(step);
        }
        let why = if is_target_back {
            self.loss_of_restarted_target(record)
        } else {
            format!("{}: {}", attempt.broken.as_ref()?, self.loss_of_the_rest(record, attempt))
        };
        if !self.source_has_frozen(record, attempt) && !fault!(RestartedTargetServesAtOnce) {
            return None;
        }
        Some(Step::End(MigrationState::Failed { why }))
    }

    /// The same where the source died: its last incarnation serves nothing any more.
    fn end_without_source(&self, record: &MigrationRecord, attempt: &Attempt) -> Option<Step> {
        let is_target_back = incarnation_of(self.data, record.target) != record.target_incarnation;
        let why = match is_target_back {
            true => self.loss_of_restarted_target(record),
            false => format!("{}: {}", attempt.broken.as_ref()?, self.loss_of_the_rest(record, attempt)),
        };
        Some(Step::End(MigrationState::Failed { why }))
    }

    fn loss_of_restarted_target(&self, record: &MigrationRecord) -> String {
        format!(
            "the target {} restarted: it owns {} with what its durable log has of it, if it has one, and the rest is \
             lost (of about {})",
            shown(self.data, record.target),
            record.range,
            counted(record.counters.records, "record")
        )
    }

    /// Why a migration that its source does not know of yet is not to run after all (invariant 7).
    fn why_given_back(&self, record: &MigrationRecord, attempt: &Attempt) -> Option<String> {
        if !attempt.is_withheld && !fault!(GivenBackThoughSent) {
            return None;
        }
        let [source, target] = [record.source, record.target].map(|node| shown(self.data, node));
        let what = if incarnation_of(self.data, record.target) != record.target_incarnation {
            format!("the target {target} restarted")
        } else if self.members.get(record.target).is_some_and(|member| member.suspected) {
            format!("the target {target} is down, the coordinator has not heard of it lately")
        } else {
            attempt.broken.clone()?
        };
        Some(format!(
            "{what}, before the source {source} had given the range up: the range is the source's as before \
             and nothing is lost; start the migration again"
        ))
    }

    /// Whether the source's incarnation with the data is known to acknowledge no more writes of the range. No
    /// end may let the target serve before that (M1). It is known from the target's report, or if all its
    /// workers use a map in which the migration runs.
    fn source_has_frozen(&self, record: &MigrationRecord, attempt: &Attempt) -> bool {
        let published = self.members.get(record.source).map_or(MapEpoch(0), |member| member.map_epoch);
        // What was given bit by bit it froze later: at the latest with the present map.
        let frozen_by = if self.was_by_cuts(record) { self.data.map.epoch() } else { record.map_epoch };
        attempt.progress.activated || published >= frozen_by && !record.kept_by_source
    }

    /// Whether the range was given bit by bit until one of the nodes restarted.
    pub(super) fn was_by_cuts(&self, record: &MigrationRecord) -> bool {
        let by_cuts = (self.read_protocol)(&record.protocol).is_ok_and(|outline| outline.gives_by_cuts);
        by_cuts && !record.kept_by_source
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
            lives.into_iter().find(|(_, node, incarnation)| incarnation_of(self.data, *node) != *incarnation)
        {
            let node = shown(self.data, node);
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
                let target = shown(self.data, record.target);
                let seconds = PREPARE_DEADLINE_US / 1_000_000;
                let stalled = attempt.progress.stalled.as_ref();
                let stalled = stalled.map_or(String::new(), |stalled| format!(" ({stalled})"));
                fail(format!(
                    "the copy at the target {target} has not got on for {seconds} s{stalled}; nothing has changed"
                ))
            }
            _ if now >= attempt.deadline => {
                let (role, node) = asked(record);
                let node = shown(self.data, node);
                let seconds = PREPARE_DEADLINE_US / 1_000_000;
                fail(format!("the {role} {node} did not answer within {seconds} s; nothing has changed"))
            }
            _ => self.silence(now, record),
        }
    }

    /// How a migration ends that does not run yet, when one of its nodes is down.
    fn silence(&self, now: MonotonicUs, record: &MigrationRecord) -> Option<Step> {
        let sides = [("source", record.source), ("target", record.target)];
        let (role, node) = sides.into_iter().find(|(_, node)| self.members.is_down(now, *node))?;
        let node = shown(self.data, node);
        let why = format!(
            "the {role} {node} is down, the coordinator has not heard of it lately; nothing has changed"
        );
        Some(Step::End(MigrationState::Failed { why }))
    }

    /// The metadata to commit with a step.
    pub(super) fn metadata_after(&self, now: MonotonicUs, id: MigrationId, step: Step) -> Metadata {
        let mut next = self.data.clone();
        let attempt = self.attempts.get(&id);
        let record = next.waiting.iter_mut().find(|record| record.id == id);
        match (step, record) {
            (Step::Begin, Some(record)) => {
                record.state = MigrationState::Preparing;
                record.source_incarnation = incarnation_of(self.data, record.source);
                record.target_incarnation = incarnation_of(self.data, record.target);
                record.version = self.data.map.version();
            }
            (Step::Counted(survey), Some(record)) => {
                record.counters.records = survey.records;
                record.counters.bytes = survey.bytes;
                record.partitions = survey.partitions;
                // No two unfinished migrations overlap: until this one runs, no epoch in the range changes.
                let epochs = next.map.tablets_in(record.range).iter().map(|tablet| tablet.epoch.0);
                record.epoch = TabletEpoch(epochs.max().unwrap_or(0) + 1);
            }
            (Step::Run, Some(record)) => {
                record.state = MigrationState::Running;
                record.map_epoch = MapEpoch(next.map.epoch().0 + 1);
                let record = record.clone();
                next.waiting.retain(|record| record.id != id);
                next.map = Arc::new(next.map.changed(|map| map.start(record)));
            }
            (Step::Begin | Step::Counted(_) | Step::Run, None) => unreachable!("it waits"),
            (Step::Settle, _) => {
                let turn = self.data.migration(id).and_then(|record| record.turn);
                let settled_at = MapEpoch(next.map.epoch().0 + 1);
                let turn = Turn { settled_at, ..turn.expect("it is to turn back") };
                next.map = Arc::new(next.map.changed(|map| map.set_turn(id, turn)));
            }
            (Step::TurnBack, _) => {
                let record = self.data.migration(id).expect("it runs");
                let counters = attempt.expect("it has settled").counters(now, record);
                next.turn_back(id, counters);
            }
            (Step::GiveBack(state), _) => {
                let is_whole = attempt.is_some_and(|attempt| attempt.is_withheld);
                let record = self.data.migration(id);
                let is_kept = record.is_some_and(|record| record.kept_by_source);
                let is_known = is_whole || is_kept || fault!(GivenBackThoughSent);
                assert!(is_known, "M1: the source may have frozen the range");
                // What a restarted target had been given is lost, and was moved.
                let is_lost = is_kept && !is_whole && matches!(state, MigrationState::Failed { .. });
                let counters = attempt.zip(record).filter(|_| is_lost);
                let counters = counters.map(|(attempt, record)| attempt.counters(now, record));
                next.give_back(id);
                next.end(id, state, counters);
            }
            (Step::End(state), _) => {
                // A failed copy has moved nothing.
                let record = self.data.migration(id).filter(|record| record.ran());
                let counters = record.and_then(|record| Some(attempt?.counters(now, record)));
                next.end(id, state, counters);
            }
        }
        next
    }

    /// Whether the migration's protocol copies the range before it changes its owner.
    fn copies_before_freeze(&self, record: &MigrationRecord) -> bool {
        (self.read_protocol)(&record.protocol).is_ok_and(|outline| outline.copies_before_freeze)
    }

    /// Whether something of it is copied while the migration is prepared.
    pub(super) fn copies_in_preparation(&self, record: &MigrationRecord) -> bool {
        copies_in_preparation(self.read_protocol, record)
    }

    /// What is lost if a running migration transfers nothing more.
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
            "lost up to {} of {}, which had not arrived by the target's last report; the target owns {range} with \
             what had arrived and what was written since",
            count(all.saturating_sub(attempt.progress.records_moved)),
            counted(all, "record")
        )
    }

    /// What is lost if the target of a range restarts that is given bit by bit.
    fn loss_of_given(&self, record: &MigrationRecord, attempt: &Attempt) -> String {
        let MigrationRecord { source, target, range, .. } = record;
        let [source, target] = [*source, *target].map(|node| shown(self.data, node));
        let all = counted(record.counters.records, "record");
        // A coordinator that restarted as well has no report.
        let moved = match attempt.progress.records_moved {
            0 => format!("an unknown part of {all}"),
            moved => format!("about {} of {all}", count(moved)),
        };
        match record.continues {
            None => format!(
                "the target {target} restarted: what it had been given of {range} is lost, {moved}; the source \
                 {source} serves the rest as before"
            ),
            Some(before) => format!(
                "the target {target} restarted: what it had kept of {range} in migration {before} is lost, and what \
                 it had been given back since, {moved}; the source {source} serves the rest as before"
            ),
        }
    }

    /// A target's refusal, as text.
    fn refusal_text(&self, record: &MigrationRecord, why: &PrepareRefusal) -> String {
        let [source, target] = [record.source, record.target].map(|node| shown(self.data, node));
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

/// How a migration goes on that is to turn back, once its target has settled what it owns. `published`: by
/// the source. A way back goes on with a target that restarts, if its log has the share it begins with.
fn turn_of(record: &MigrationRecord, attempt: &Attempt, published: MapEpoch) -> Option<Step> {
    let turn = record.turn.filter(|_| record.kept_by_source)?;
    match attempt.progress.settled? {
        // As a preparation's cancel: the source owned all of it throughout.
        Settled::OwnsNothing => Some(Step::GiveBack(MigrationState::Cancelled)),
        Settled::OwnsSome if fault!(TurnedBeforeNoted) => Some(Step::TurnBack),
        Settled::OwnsSome if turn.settled_at == MapEpoch(0) => Some(Step::Settle),
        Settled::OwnsSome => (published >= turn.settled_at).then_some(Step::TurnBack),
    }
}

/// Whose answer a preparation waits for.
fn asked(record: &MigrationRecord) -> (&'static str, NodeId) {
    if record.partitions.is_empty() { ("source", record.source) } else { ("target", record.target) }
}

fn copies_in_preparation(read_protocol: ReadProtocol, record: &MigrationRecord) -> bool {
    let since = read_protocol(&record.protocol).ok().and_then(|outline| outline.copies_in_preparation);
    since.is_some_and(|since| since <= record.version)
}

/// What to ask source or target next for a preparation, if that is due.
pub(super) fn questions(
    now: MonotonicUs,
    data: &Metadata,
    attempts: &mut Attempts,
    read_protocol: ReadProtocol,
) -> Vec<(NodeId, CoordinatorSays)> {
    let mut questions = Vec::new();
    for record in &data.waiting {
        let Some(attempt) = attempts.get_mut(&record.id) else { continue };
        let due = attempt.asked_at.is_none_or(|at| now >= at.plus_us(RETRY_US));
        if record.state != MigrationState::Preparing || !due {
            continue;
        }
        attempt.asked_at = Some(now);
        if record.partitions.is_empty() {
            // It was readable when the migration was committed; a coordinator of another version may not know
            // it.
            let Ok(outline) = read_protocol(&record.protocol) else { continue };
            let question = CoordinatorSays::Survey {
                migration: record.id,
                range: record.range,
                partitions: outline.partitions,
            };
            questions.push((record.source, question));
        } else {
            if copies_in_preparation(read_protocol, record) {
                let question = CoordinatorSays::Track { record: Box::new(record.clone()) };
                questions.push((record.source, question));
            }
            questions.push((record.target, CoordinatorSays::Prepare { record: Box::new(record.clone()) }));
        }
    }
    questions
}
