//! Every committed migration has one end, which never changes, is true, and is shown in the status.

use super::Violation;
use crate::clients::Told;
use crate::disk::Disk;
use crate::host::Host;
use crate::process::{Process, Seat, host_of};
use sidle_cluster::{
    HISTORY, Metadata, MigrationRecord, MigrationState, MigrationStatus, NodeState, TabletMap,
};
use sidle_types::{MigrationId, TabletEpoch};
use std::collections::BTreeMap;

/// The commits so far.
#[derive(Debug, Default)]
pub(super) struct Endings {
    /// Every migration as last committed.
    records: BTreeMap<MigrationId, MigrationRecord>,
    /// How many gave their range back.
    given_back: u64,
}

impl Endings {
    /// The coordinator's metadata has changed for good.
    pub(super) fn committed(&mut self, hosts: &[Host]) -> Result<(), Violation> {
        let possible = hosts[0].disk.as_ref().map(Disk::possible).unwrap_or_default();
        // During the next commit: that one will be reported, too.
        let [data] = &possible[..] else { return Ok(()) };
        for record in data.all_migrations() {
            let before = self.records.insert(record.id, record.clone());
            let is_new_end = record.state.is_over() && before.as_ref() != Some(record);
            if let Some(before) = &before {
                follows(before, record)?;
            }
            if is_new_end {
                let is_back = is_given_back(before.as_ref(), record, &data.map);
                ends_well(hosts, data, record, is_back)?;
                self.given_back += u64::from(is_back);
            }
        }
        for record in self.records.values().filter(|record| data.migration(record.id).is_none()) {
            if !record.state.is_over() {
                return Err(wrong(record, "was not over, and is gone"));
            }
            if data.history.len() < HISTORY {
                return Err(wrong(record, "is forgotten, though there is room to remember it"));
            }
        }
        Ok(())
    }

    /// How many migrations gave their range back to its source.
    pub(super) fn given_back(&self) -> u64 {
        self.given_back
    }

    /// Nothing is under way any more.
    pub(super) fn at_rest(&self, hosts: &[Host]) -> Result<(), Violation> {
        let (Some(seat), Some(process)) = (seat(hosts), &hosts[0].process) else {
            return Err(Violation::new("endings", "the coordinator does not run though nothing is wrong"));
        };
        if let Some(stuck) = self.records.values().find(|record| !record.state.is_over()) {
            return Err(wrong(stuck, "never came to an end"));
        }
        agrees(process, seat)
    }

    /// The operator was notified of this many started migrations, and got no result for this many requests.
    /// (M10: a repeated request is executed once, and has one answer.)
    pub(super) fn operator_was_told(&self, started: u64, untold: u64) -> Result<(), Violation> {
        let written = self.records.len() as u64;
        let is_done = |record: &&MigrationRecord| record.state == MigrationState::Done;
        let done = self.records.values().filter(is_done).count() as u64;
        if started <= written && done <= started + untold {
            return Ok(());
        }
        let told = format!("the operator was told of {started} migrations, and of {untold} requests nothing");
        Err(Violation::new("endings", format!("{told}; {written} migrations were written down, {done} done")))
    }

    /// The canceller was notified that a migration is cancelled, or can no longer be: it must have ended so.
    pub(super) fn canceller_was_told(&self, told: Told) -> Result<(), Violation> {
        match self.records.get(&told.migration) {
            Some(record) if (record.state == MigrationState::Cancelled) == told.is_cancelled => Ok(()),
            Some(record) if told.is_cancelled => Err(wrong(record, "was said to be cancelled")),
            Some(record) => Err(wrong(record, "was said to run")),
            None => Err(Violation::new("endings", format!("nobody wrote down {}", told.migration))),
        }
    }
}

fn seat(hosts: &[Host]) -> Option<&Seat> {
    hosts[0].process.as_ref()?.control.seat.as_ref()
}

fn wrong(record: &MigrationRecord, what: &str) -> Violation {
    let MigrationRecord { id, source, target, state, .. } = record;
    let [source, target] = [source, target].map(|node| host_of(*node).0);
    Violation::new("endings", format!("migration {id} from {source} to {target}, {state}: it {what}"))
}

/// Whether a state may follow another, perhaps with several in between.
fn follows(before: &MigrationRecord, now: &MigrationRecord) -> Result<(), Violation> {
    let step = |state: &MigrationState| match state {
        MigrationState::Queued => 0,
        MigrationState::Preparing => 1,
        MigrationState::Running => 2,
        MigrationState::Done | MigrationState::Cancelled | MigrationState::Failed { .. } => 3,
    };
    // Another node has the place of a target that died.
    let is_succeeded = step(&before.state) == 2 && before.succession < now.succession;
    let is_same =
        (before.range, before.source, before.requested_by) == (now.range, now.source, now.requested_by);
    if !is_same || before.target != now.target && !is_succeeded {
        return Err(wrong(now, "is another one than before"));
    }
    if before.state.is_over() && before != now {
        return Err(wrong(now, &format!("had ended before, as {}", before.state)));
    }
    if step(&now.state) < step(&before.state) {
        return Err(wrong(now, &format!("was {} before", before.state)));
    }
    let may_change = is_succeeded && before.epoch < now.epoch;
    if before.epoch.0 > 0 && before.epoch != now.epoch && !may_change {
        return Err(wrong(now, "changed its epoch while it ran"));
    }
    let may_be_cancelled = now.turned_back().is_some() || now.kept_by_source && !now.ran();
    if before.state == MigrationState::Running && now.state == MigrationState::Cancelled && !may_be_cancelled
    {
        return Err(wrong(now, "was cancelled while it ran"));
    }
    Ok(())
}

/// Whether a migration that is over had run, and its range went back to its source. `before`: as it was
/// committed before, if that was seen. The range has a later epoch than the migration's own only where that
/// was in use: until its end nothing else changes the range.
fn is_given_back(before: Option<&MigrationRecord>, record: &MigrationRecord, map: &TabletMap) -> bool {
    let ran_before = before.is_some_and(|before| before.state == MigrationState::Running);
    let is_counted = record.epoch > TabletEpoch(0);
    !record.ran() && is_counted && (ran_before || is_later(map, record))
}

/// Whether all of the range has later epochs than the migration's.
fn is_later(map: &TabletMap, record: &MigrationRecord) -> bool {
    map.tablets_in(record.range).iter().all(|tablet| tablet.epoch > record.epoch)
}

/// Whether an end agrees with its state and its reason. `data`: right after it, or a little later.
fn ends_well(
    hosts: &[Host],
    data: &Metadata,
    record: &MigrationRecord,
    is_back: bool,
) -> Result<(), Violation> {
    let ran = record.ran();
    let newest = data.map.tablets_in(record.range).iter().map(|tablet| tablet.epoch).max();
    // A later owner of the range has a later epoch.
    let is_newest = ran && newest == Some(record.epoch);
    if is_newest && data.map.tablets_in(record.range).iter().any(|tablet| tablet.owner != record.target) {
        return Err(wrong(record, "ran, and its target does not own the range"));
    }
    let says = |what: &str| record.state.why().is_some_and(|why| why.contains(what));
    if is_back && !is_later(&data.map, record) {
        return Err(wrong(record, "gave the range back, and the map says otherwise"));
    }
    let is_whole = says("the range is the source's as before and nothing is lost");
    let is_cancelled = record.state == MigrationState::Cancelled;
    if !is_cancelled && is_back != (is_whole || says("serves the rest as before")) {
        return Err(wrong(record, "does not say whether the range went back"));
    }
    let lives =
        |node, incarnation: sidle_cluster::Incarnation| hosts[host_of(node).0].incarnations == incarnation.0;
    let source_lives = lives(record.source, record.source_incarnation);
    let target_lives = lives(record.target, record.target_incarnation);
    let restarted =
        |who: &str| record.state.why().is_some_and(|why| why.starts_with(who) && why.contains(") restarted"));
    match &record.state {
        MigrationState::Done if !ran => Err(wrong(record, "never ran")),
        MigrationState::Cancelled if ran && record.turned_back().is_none() => Err(wrong(record, "ran")),
        MigrationState::Failed { .. } if ran && says("nothing has changed") => {
            Err(wrong(record, "ran, and says that nothing has changed"))
        }
        MigrationState::Failed { .. } if !ran && !is_back && !says("nothing has changed") => {
            Err(wrong(record, "does not say that nothing has changed"))
        }
        MigrationState::Failed { .. } if restarted("the source ") && source_lives => {
            Err(wrong(record, "says that its source restarted, which it did not"))
        }
        MigrationState::Failed { .. } if restarted("the target ") && target_lives => {
            Err(wrong(record, "says that its target restarted, which it did not"))
        }
        MigrationState::Failed { .. } if ran && source_lives && target_lives => {
            Err(wrong(record, "lost data though neither end died"))
        }
        MigrationState::Failed { .. } if ran && !says("lost") => {
            Err(wrong(record, "does not say what was lost"))
        }
        _ => Ok(()),
    }
}

/// Whether the status agrees with the commits.
fn agrees(process: &Process, seat: &Seat) -> Result<(), Violation> {
    let data = seat.coordinator.data();
    let report = seat.coordinator.report(process.control.last_turn);
    let differs = |what: String| Err(Violation::new("endings", format!("the status differs: {what}")));
    if report.migrations.len() != data.all_migrations().count() || report.tablets != data.map.tablets() {
        return differs("it has other migrations or tablets".to_owned());
    }
    for status in &report.migrations {
        let Some(record) = data.migration(status.id) else {
            return differs(format!("nobody knows migration {}", status.id));
        };
        if !tells(status, record) {
            return differs(format!("{status:?} is not {record:?}"));
        }
    }
    match report.nodes.iter().find(|node| node.state != NodeState::Up || node.map_epoch != report.map_epoch) {
        Some(node) => differs(format!("nothing is wrong, and it says {node:?}")),
        None => Ok(()),
    }
}

fn tells(status: &MigrationStatus, record: &MigrationRecord) -> bool {
    let is_done = record.state == MigrationState::Done;
    status.state == record.state.name()
        && status.why.as_deref() == record.state.why()
        && (status.source, status.target, status.range) == (record.source, record.target, record.range)
        && status.activated == is_done
        && (!is_done || status.fraction == 1.0)
        && status.stalled.is_none()
        && status.records_moved == record.counters.records_moved
}

#[cfg(test)]
mod tests {
    use super::*;
    use sidle_testbed::fixtures::{map, range, running};
    use sidle_types::MapEpoch;

    #[test]
    fn a_range_is_given_back_where_its_epoch_was_in_use_and_the_migration_did_not_run() {
        let ran = running(1, range(0, 99), 1, 2, 5);
        let failed = MigrationState::Failed { why: "in words of no matter".to_owned() };
        let over = MigrationRecord { state: failed, map_epoch: MapEpoch(0), ..ran.clone() };
        let preparing = MigrationRecord { state: MigrationState::Preparing, ..over.clone() };
        let uncounted = MigrationRecord { epoch: TabletEpoch(0), ..over.clone() };
        let at = |epoch| map(9, 2, &[(0, 1, epoch), (100, 1, 1)], Vec::new());
        for (before, now, epoch, is_back) in [
            (Some(&ran), &over, 6, true),
            (None, &over, 6, true),
            (Some(&preparing), &over, 6, true),
            // The map is wrong, and that is found.
            (Some(&ran), &over, 4, true),
            (Some(&preparing), &over, 4, false),
            (Some(&preparing), &uncounted, 1, false),
            (Some(&ran), &MigrationRecord { map_epoch: MapEpoch(5), ..over.clone() }, 6, false),
        ] {
            assert_eq!(is_given_back(before, now, &at(epoch)), is_back, "{before:?} {now:?} {epoch}");
        }
    }
}
