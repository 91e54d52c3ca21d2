//! Bringing every member to the present map.

use super::attempt::Attempts;
use super::members::{Member, Members, incarnation_of};
use crate::timing::RETRY_US;
use crate::{Metadata, MigrationRecord};
use sidle_types::{MonotonicUs, NodeId};

/// Who is to be sent the present map.
pub(super) struct Maps<'a> {
    pub(super) data: &'a Metadata,
    pub(super) members: &'a Members,
    pub(super) attempts: &'a Attempts,
    /// Whether the store may hold something else than the present map.
    pub(super) is_unsure: bool,
}

impl Maps<'_> {
    /// Who is to be sent it now.
    pub(super) fn due(&self, now: MonotonicUs) -> Vec<NodeId> {
        let is_due =
            |(id, member): &(&NodeId, &Member)| self.due_at(**id, member).is_some_and(|due| now >= due);
        self.members.by_id.iter().filter(is_due).map(|(&id, _)| id).collect()
    }

    /// When the coordinator has to look at the member again.
    pub(super) fn timeout(&self) -> Option<MonotonicUs> {
        let members = self.members.by_id.iter();
        let due = members.flat_map(|(&id, member)| {
            let suspicion = (!member.suspected).then(|| self.members.suspected_at(member));
            suspicion.into_iter().chain(self.due_at(id, member))
        });
        due.min()
    }

    /// When to send the member the present map: never while it has it or is silent, nor while a target has to
    /// see it first.
    pub(super) fn due_at(&self, node: NodeId, member: &Member) -> Option<MonotonicUs> {
        let epoch = self.data.map.epoch();
        if member.map_epoch >= epoch || member.heard_at.is_none() || member.suspected {
            return None;
        }
        // Two targets must not wait for each other.
        let running = self.data.map.migrations().iter();
        let mut awaited = running.filter(|record| self.awaits_target(record)).peekable();
        if awaited.peek().is_some() && awaited.all(|record| record.target != node) {
            return None;
        }
        match member.map_sent {
            Some((sent, at)) if sent == epoch => Some(at.plus_us(RETRY_US)),
            _ => Some(MonotonicUs(0)),
        }
    }

    /// Whether a running migration's target has yet to learn that it owns the range. The others learn it
    /// later: the source serves until it knows, and then redirects clients to a target that expects them. In
    /// the other order the two would redirect clients to each other. A target that is down or restarted
    /// delays nobody. If nobody knows of the migration yet, it is not to run. While that may be committed
    /// already, nobody learns of it (invariant 7).
    ///
    /// A way back awaits nobody: each end serves what it did, and sends clients to the other for the rest,
    /// whichever learns of it first. The one end would even wait for the other: a command there may hold the
    /// table until a part of it was made at the end that is to learn of the turn.
    fn awaits_target(&self, record: &MigrationRecord) -> bool {
        if record.continues.is_some() {
            return false;
        }
        let lives = incarnation_of(self.data, record.target) == record.target_incarnation;
        let Some(target) = self.members.get(record.target) else { return false };
        let has_map = lives && target.map_epoch >= record.map_epoch;
        if self.attempts.get(&record.id).is_some_and(|attempt| attempt.is_withheld) {
            return !has_map || self.is_unsure;
        }
        lives && !target.suspected && !has_map
    }

    /// Whether the node must not know yet that a range was given away whose source it is.
    pub(super) fn is_kept_from(&self, node: NodeId) -> bool {
        let gives = |record: &&MigrationRecord| record.source == node;
        self.data.map.migrations().iter().filter(gives).any(|record| self.awaits_target(record))
    }
}
