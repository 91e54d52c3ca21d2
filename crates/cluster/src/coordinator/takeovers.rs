//! What a dead node had goes to nodes that have copies of its durable log.
//!
//! Each copy that counts has everything that was ever safe (Y1 of `sidle-log-copies`), so any of them will
//! do: each of their nodes takes a share, and reads its own copy from its own disk (RAMCloud, section 4.6,
//! where each recovery master reads what backups everywhere have). Shares are cut between slots, so that no
//! command over several keys, which are of one slot, is in two of them.
//!
//! The coordinator commits the new owners first, with a log epoch that no writer has. Each of them fences its
//! copy at that epoch before it reads it: from then on nothing that the dead node writes is safe, should it
//! live after all. What it serves it can only have served before.
//!
//! A node without a copy fetches one over the bus from a node that has it, which fences it there. So it
//! takes over only what nobody can who has a copy: where a migration's target, or a node in its place, has
//! none, and where those with copies have failed.

use super::hindered;
use super::joins::Judge;
use super::members::{incarnation_of, shown};
use super::rebinding::may_go_on;
use crate::limits::{MAX_TABLETS, MAX_TAKEOVERS};
use crate::{
    DeadLog, KnownCopies, Legacy, LogBackup, MigrationRecord, MigrationState, NodeState, Refusal, Tablet,
    Takeover,
};
use sidle_types::{MigrationId, MonotonicUs, NodeId, Position, PositionRange, TabletEpoch};

impl Judge<'_> {
    /// The nodes that asked to be taken over once they are silent for a time, and have been.
    pub(super) fn long_silent(&self) -> Vec<NodeId> {
        let is_silent = |known: &&KnownCopies| {
            let after_ms = known.copies.takeover_after_ms?;
            let since = self.members.get(known.node)?.heard_at.unwrap_or(self.members.opened_at);
            let due = since.plus_us(after_ms.saturating_mul(1_000)).max(self.members.listens_from);
            Some(due <= self.now)
        };
        let silent = self.data.copies.iter().filter(|known| is_silent(known).unwrap_or(false));
        silent.map(|known| known.node).collect()
    }

    /// Who takes over what of a node that is down, or why nobody does. `accepts_loss`: also from copies
    /// at nodes that have restarted since (Y7).
    pub(super) fn legacy_of(&self, id: NodeId, accepts_loss: bool) -> Result<Legacy, Refusal> {
        let node = shown(self.data, id);
        if let Some(refusal) = self.why_alive(id) {
            return Err(refusal);
        }
        let map = &self.data.map;
        let is_lost = |tablet: &&Tablet| {
            let first = tablet.range.first();
            tablet.owner == id && map.takeover_at(first).is_none() && map.migration_at(first).is_none()
        };
        let tablets: Vec<Tablet> = map.tablets().iter().filter(is_lost).copied().collect();
        let takeovers = self.takeovers_of_unread(id, accepts_loss)?;
        let is_part = |record: &&MigrationRecord| {
            record.target == id || record.source == id && record.source_log.is_none()
        };
        let parts: Vec<&MigrationRecord> = self.data.unfinished().filter(is_part).collect();
        if tablets.is_empty() && takeovers.is_empty() && parts.is_empty() {
            return Err(Refusal::OwnsNothing { node });
        }
        let unread = |backups: &[LogBackup]| hindered::unread(self, "its log", backups);
        let no_copies =
            |backups: &[LogBackup]| Refusal::NoCopies { node: node.clone(), why: unread(backups) };
        let copies = self.data.copies_of(id).ok_or_else(|| no_copies(&[]))?;
        // One that has restarted may lack the end of its copy (Y7), and is as one without.
        let counts =
            |backup: &LogBackup| accepts_loss || incarnation_of(self.data, backup.node) == backup.incarnation;
        let dead = DeadLog {
            from: id,
            log: copies.log,
            // No writer has it, nor that of the record.
            log_epoch: copies.epoch + 2,
            backups: self.at_present(copies.backups.iter().filter(|backup| counts(backup))),
        };
        let holders = self.holders(&dead);
        if holders.is_empty() && !tablets.is_empty() {
            return Err(no_copies(&copies.backups));
        }
        let (exports, in_vain, source_logs) = (Vec::new(), Vec::new(), Vec::new());
        let mut legacy = Legacy { dead, takeovers, exports, in_vain, source_logs };
        parts.into_iter().try_for_each(|record| self.add_part(&mut legacy, record, &copies.backups))?;
        let Legacy { dead, takeovers, .. } = &mut legacy;
        let begin = |(range, owner, epoch): (_, _, TabletEpoch)| Takeover {
            range,
            owner,
            epoch: TabletEpoch(epoch.0 + 1),
            dead: dead.clone(),
            import: None,
            unread_by: Vec::new(),
        };
        takeovers.extend(shares(&tablets, &holders).into_iter().map(begin));
        let count = takeovers.len();
        if map.takeovers().len() + count > MAX_TAKEOVERS {
            return Err(Refusal::TooManyTakeovers { ranges: count, limit: MAX_TAKEOVERS });
        }
        match map.tablets().len() + count > MAX_TABLETS {
            true => Err(Refusal::TooManyTablets { limit: MAX_TABLETS }),
            false => Ok(legacy),
        }
    }

    /// What becomes of a migration that the dead node takes part in. `copies`: all that counted of its log.
    fn add_part(
        &self,
        legacy: &mut Legacy,
        record: &MigrationRecord,
        copies: &[LogBackup],
    ) -> Result<(), Refusal> {
        let Legacy { dead, takeovers, exports, in_vain, .. } = legacy;
        if record.state != MigrationState::Running {
            in_vain.push(record.id);
        } else if record.source == dead.from && self.can_read(dead, record.target) {
            exports.push(record.id);
        } else if record.source == dead.from {
            let target = || shown(self.data, record.target);
            let why = match self.members.state_of(self.now, record.target) {
                NodeState::Up => hindered::unread(self, "its log", copies),
                _ => format!("its target {} is down, too; start one of them", target()),
            };
            return Err(Refusal::TakesPart { node: shown(self.data, dead.from), migration: record.id, why });
        } else if self.data.map.takeover_at(record.range.first()).is_none() {
            takeovers.push(self.succeeded(record, dead, copies)?);
        }
        Ok(())
    }

    /// These copies, as their nodes are now.
    fn at_present<'b>(&self, backups: impl IntoIterator<Item = &'b LogBackup>) -> Vec<LogBackup> {
        let present = |&LogBackup { node, .. }: &LogBackup| LogBackup {
            node,
            incarnation: incarnation_of(self.data, node),
        };
        backups.into_iter().map(present).collect()
    }

    /// Who takes over what this node, which is down, was to take over itself and had not read yet: another
    /// one, best one with a copy of the same log. What the node has put into its own does not count.
    fn takeovers_of_unread(&self, id: NodeId, accepts_loss: bool) -> Result<Vec<Takeover>, Refusal> {
        let unread = self.data.map.takeovers().iter().filter(|takeover| takeover.owner == id);
        let begin = |(index, unread): (usize, &Takeover)| {
            let mut unread = unread.clone();
            let mut readers = self.best_readers(&unread);
            if readers.is_empty() && accepts_loss {
                unread.dead.backups = self.at_present(&unread.dead.backups);
                readers = self.best_readers(&unread);
            }
            let owner = *readers.get(index % readers.len().max(1)).ok_or_else(|| Refusal::NoCopies {
                node: shown(self.data, id),
                why: {
                    let log = format!("the log of {}", shown(self.data, unread.dead.from));
                    self.why_nobody(&unread, &log, &unread.dead.backups)
                },
            })?;
            let takeover = Takeover { owner, epoch: TabletEpoch(unread.epoch.0 + 1), ..unread };
            Ok(takeover.unread_by(id))
        };
        unread.enumerate().map(begin).collect()
    }

    /// The logs of sources that died, of running migrations to this node, where nobody can read them who has
    /// not restarted since: with their copies as they are now.
    pub(super) fn source_logs_at_present(&self, id: NodeId) -> Vec<(MigrationId, DeadLog)> {
        let unread = |record: &MigrationRecord| {
            let dead = record.source_log.as_ref().filter(|_| record.target == id)?;
            let backups = self.at_present(&dead.backups);
            let can_be_read = dead.backups.iter().any(|backup| self.holds(backup));
            (!can_be_read).then(|| (record.id, DeadLog { backups, ..dead.clone() }))
        };
        self.data.map.migrations().iter().filter_map(unread).collect()
    }

    /// Who takes the place of a running migration's target, whose log this is.
    fn succeeded(
        &self,
        record: &MigrationRecord,
        dead: &DeadLog,
        copies: &[LogBackup],
    ) -> Result<Takeover, Refusal> {
        let takeover = Takeover {
            range: record.range,
            owner: record.target,
            epoch: TabletEpoch(record.epoch.0 + 1),
            dead: dead.clone(),
            import: Some(record.import()),
            unread_by: Vec::new(),
        };
        let takes_part = || Refusal::TakesPart {
            node: shown(self.data, record.target),
            migration: record.id,
            why: match may_go_on(record) {
                true => self.why_nobody(&takeover, "its log", copies),
                false => "an earlier version of the coordinator began it; start the node again".to_owned(),
            },
        };
        let readers = self.readers(&takeover);
        let owner = *readers.first().filter(|_| may_go_on(record)).ok_or_else(takes_part)?;
        Ok(Takeover { owner, ..takeover })
    }

    /// Why nobody who is up can do that, and what helps. `log`: the log, in words; `copies`: what counted.
    fn why_nobody(&self, takeover: &Takeover, log: &str, copies: &[LogBackup]) -> String {
        let can_be_read = |dead: &DeadLog| dead.backups.iter().any(|backup| self.holds(backup));
        let moved = self.data.map.migration_at(takeover.range.first());
        let source_log = moved.and_then(|record| record.source_log.as_ref());
        match source_log {
            _ if !can_be_read(&takeover.dead) => hindered::unread(self, log, copies),
            Some(source_log) if !can_be_read(source_log) => {
                let source = shown(self.data, source_log.from);
                let log = format!("the log of its source {source}, which died as well");
                hindered::unread(self, &log, &source_log.backups)
            }
            _ => "in its place it takes a node with a durable log of its own, which is not the source, and none is \
                  up. Start the node again; or have one more join, which fetches what it lacks: `sidle takeover NODE` then"
                .to_owned(),
        }
    }

    /// Who may take over, the best first: a node with a copy, or else one that fetches it. In the place of a
    /// migration's target not its source, and only one with a durable log, that can read the source's log as
    /// well if that died; best is one with a copy of that even if the source lives.
    fn readers(&self, takeover: &Takeover) -> Vec<NodeId> {
        self.ranked(takeover).into_iter().map(|(_, node)| node).collect()
    }

    /// Those than whom nobody is better.
    fn best_readers(&self, takeover: &Takeover) -> Vec<NodeId> {
        let ranked = self.ranked(takeover);
        let best = ranked.first().map(|&(rank, _)| rank);
        ranked.into_iter().take_while(|&(rank, _)| Some(rank) == best).map(|(_, node)| node).collect()
    }

    /// Who may take over, in order of how many copies, and which ones, each would have to fetch.
    fn ranked(&self, takeover: &Takeover) -> Vec<(u8, NodeId)> {
        let with_copy = self.holders(&takeover.dead);
        let rank = |node: &NodeId, copies: &[NodeId]| u8::from(!copies.contains(node));
        let mut readers = with_copy.clone();
        readers.extend(self.fetchers(&takeover.dead));
        let moved = self.data.map.migration_at(takeover.range.first());
        let Some(record) = moved.filter(|_| takeover.import.is_some()) else {
            return readers.into_iter().map(|node| (rank(&node, &with_copy), node)).collect();
        };
        readers.retain(|node| *node != record.source && self.has_log(*node));
        let of_source = match &record.source_log {
            Some(source_log) => {
                readers.retain(|node| self.can_read(source_log, *node));
                self.holders(source_log)
            }
            None => {
                let copies = self.data.copies_of(record.source).into_iter();
                copies.flat_map(|copies| &copies.backups).map(|backup| backup.node).collect()
            }
        };
        let rank = |node: NodeId| (2 * rank(&node, &with_copy) + rank(&node, &of_source), node);
        let mut ranked: Vec<(u8, NodeId)> = readers.into_iter().map(rank).collect();
        ranked.sort_by_key(|&(rank, _)| rank);
        ranked
    }

    /// The same takeover by another node, which has a copy and has not failed lately.
    pub(super) fn instead_of(&self, takeover: &Takeover, failed: &FailedTakeovers) -> Option<Takeover> {
        let readers = self.readers(takeover);
        let owner = readers.into_iter().find(|&node| !failed.has(self.now, takeover.range, node))?;
        Some(Takeover { owner, epoch: TabletEpoch(takeover.epoch.0 + 1), ..takeover.clone() })
    }

    /// The nodes that are up, and whose copies count; of these those with a durable log of their own, if
    /// there are any, and those whose connections have not ended, as those of a process that died. One
    /// that has restarted may lack the end of its copy (Y7).
    fn holders(&self, dead: &DeadLog) -> Vec<NodeId> {
        let all = dead.backups.iter().filter(|backup| self.holds(backup)).map(|backup| backup.node).collect();
        preferring(preferring(all, |node| self.has_log(*node)), |node| self.is_connected(*node))
    }

    /// The nodes that would have to fetch a copy, if anybody has one. They are up, and have durable logs of
    /// their own.
    fn fetchers(&self, dead: &DeadLog) -> Vec<NodeId> {
        let nodes = self.data.map.nodes().iter().map(|node| node.id);
        let all = nodes.filter(|node| self.has_log(*node) && self.can_fetch(dead, *node)).collect();
        preferring(all, |node| self.is_connected(*node))
    }

    /// Whether the node is up, and has a copy of the log, or can fetch one.
    fn can_read(&self, dead: &DeadLog, node: NodeId) -> bool {
        dead.backups.iter().any(|backup| backup.node == node && self.holds(backup))
            || self.can_fetch(dead, node)
    }

    /// Whether the node is up, has no copy of the log, and can fetch one. Who had one that counted reads
    /// that, though it has restarted since. Who wrote the log fetches it as anybody else does, once it has
    /// come back with another one.
    fn can_fetch(&self, dead: &DeadLog, node: NodeId) -> bool {
        let has_one = dead.backups.iter().any(|backup| backup.node == node);
        let is_up = self.members.state_of(self.now, node) == NodeState::Up;
        let is_its_own = node == dead.from && !self.has_begun_anew(dead);
        is_up && !has_one && !is_its_own && dead.backups.iter().any(|backup| self.holds(backup))
    }

    /// Whether the node that wrote this log has another one by now, or none.
    fn has_begun_anew(&self, dead: &DeadLog) -> bool {
        let is_of_it = self.data.copies_of(dead.from).is_some_and(|copies| copies.log == dead.log);
        let present = incarnation_of(self.data, dead.from);
        let since = self.data.known_start(dead.from, present).map(|known| known.log_since.unwrap_or(present));
        // No copies of another log have been recorded yet.
        let is_later =
            || self.data.taken_over(dead.from).zip(since).is_some_and(|(last, since)| since > last);
        !is_of_it || is_later()
    }

    /// Whether that node is up, and has not restarted.
    fn holds(&self, backup: &LogBackup) -> bool {
        self.members.state_of(self.now, backup.node) == NodeState::Up
            && incarnation_of(self.data, backup.node) == backup.incarnation
    }

    fn is_connected(&self, node: NodeId) -> bool {
        self.members.get(node).is_some_and(|member| !member.disconnected)
    }

    /// Whether the node has a durable log of its own.
    fn has_log(&self, node: NodeId) -> bool {
        let known = self.data.known_start(node, incarnation_of(self.data, node));
        known.is_some_and(|known| known.log_since.is_some())
    }
}

/// Those of which that holds, if there are any.
fn preferring(nodes: Vec<NodeId>, holds: impl FnMut(&NodeId) -> bool) -> Vec<NodeId> {
    let preferred: Vec<NodeId> = nodes.iter().copied().filter(holds).collect();
    if preferred.is_empty() { nodes } else { preferred }
}

/// For so long nobody is asked again who could not take a range over, if there is anybody else.
const FAILED_FOR_US: u64 = 30_000_000;

/// A new owner that could not read its range.
#[derive(Debug)]
struct Failed {
    range: PositionRange,
    node: NodeId,
    why: String,
    at: MonotonicUs,
}

/// Which new owners could not read what they are to take over, and why, as far as this coordinator knows.
#[derive(Debug, Default)]
pub(super) struct FailedTakeovers(Vec<Failed>);

impl FailedTakeovers {
    /// Notes it; whether that is new.
    pub(super) fn add(&mut self, now: MonotonicUs, range: PositionRange, node: NodeId, why: &str) -> bool {
        let known = self.0.iter().position(|failed| (failed.range, failed.node) == (range, node));
        let known = known.map(|index| self.0.swap_remove(index));
        self.0.push(Failed { range, node, why: why.to_owned(), at: now });
        known.is_none_or(|known| known.why != why)
    }

    /// Whether that node could not, lately.
    fn has(&self, now: MonotonicUs, range: PositionRange, node: NodeId) -> bool {
        let is_it = |failed: &Failed| (failed.range, failed.node) == (range, node);
        self.0.iter().any(|failed| is_it(failed) && now.since(failed.at) < FAILED_FOR_US)
    }

    /// Why this node could not read the range, when it tried last.
    pub(super) fn why(&self, range: PositionRange, node: NodeId) -> Option<&str> {
        let failed = self.0.iter().find(|failed| (failed.range, failed.node) == (range, node));
        failed.map(|failed| failed.why.as_str())
    }

    /// It is read.
    pub(super) fn forget(&mut self, range: PositionRange) {
        self.0.retain(|failed| failed.range != range);
    }
}

/// Tablets in shares of about as many positions, in order: one for each of these nodes, unless there are
/// fewer slots. Each part with the epoch of its tablet.
fn shares(tablets: &[Tablet], nodes: &[NodeId]) -> Vec<(PositionRange, NodeId, TabletEpoch)> {
    let (all, count) = (tablets.iter().map(|tablet| size(tablet.range)).sum::<u128>(), nodes.len() as u128);
    let (mut parts, mut before) = (Vec::new(), 0);
    for tablet in tablets {
        let mut left = Some(tablet.range);
        while let Some(range) = left {
            let number = (before * count / all).min(count - 1);
            let share_left = all * (number + 1) / count - before;
            let cut = cut_behind(range, share_left).filter(|_| number + 1 < count);
            let last = cut.and_then(Position::previous).unwrap_or(range.last());
            let part = PositionRange::new(range.first(), last).expect("it is cut behind its first position");
            parts.push((part, nodes[number as usize], tablet.epoch));
            before += size(part);
            left = cut.and_then(|cut| PositionRange::new(cut, range.last()));
        }
    }
    parts
}

fn size(range: PositionRange) -> u128 {
    u128::from(range.last().0) - u128::from(range.first().0) + 1
}

/// The first position of the next slot behind so many positions, if that is in the range.
fn cut_behind(range: PositionRange, positions: u128) -> Option<Position> {
    let last = u128::from(range.first().0) + positions.max(1) - 1;
    let next = Position::last_of(Position(u64::try_from(last).ok()?).slot()).next()?;
    range.contains(next).then_some(next)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixtures::{node_id, range};
    use sidle_types::Slot;

    fn tablet(range: PositionRange, epoch: u64) -> Tablet {
        Tablet { range, owner: node_id(1), epoch: TabletEpoch(epoch) }
    }

    fn slots(first: u16, last: u16) -> PositionRange {
        let slot = |number| Slot::new(number).expect("a slot");
        PositionRange::of_slots(slot(first), slot(last)).expect("in order")
    }

    #[test]
    fn shares_are_cut_between_slots_and_about_equal() {
        let nodes = [node_id(2), node_id(3), node_id(4)];
        let parts = shares(&[tablet(PositionRange::ALL, 7)], &nodes);
        let expected = [(slots(0, 5461), 2), (slots(5462, 10922), 3), (slots(10923, 16383), 4)];
        let expected = expected.map(|(range, node)| (range, node_id(node), TabletEpoch(7)));
        assert_eq!(parts, expected);
    }

    #[test]
    fn several_tablets_are_shared_together_and_a_slot_is_not_cut() {
        let half = range(0, Position::last_of(Slot::new(0).expect("a slot")).0 / 2);
        let parts = shares(&[tablet(half, 2), tablet(slots(8, 9), 3)], &[node_id(2), node_id(3)]);
        let expected = [(half, 2, 2), (slots(8, 8), 2, 3), (slots(9, 9), 3, 3)];
        assert_eq!(parts, expected.map(|(range, node, epoch)| (range, node_id(node), TabletEpoch(epoch))));
        let one = shares(&[tablet(half, 2)], &[node_id(2), node_id(3)]);
        assert_eq!(one, [(half, node_id(2), TabletEpoch(2))]);
    }
}
