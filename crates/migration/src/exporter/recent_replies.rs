//! The answers over the open connections, so that nothing is answered twice while the first answer is on its
//! way.

use crate::tuning::{ANSWER_STANDS_US, PRIORITY_PULLS_QUEUED_MAX};
use sidle_types::MonotonicUs;
use sidle_wire::Lane;
use std::collections::VecDeque;

/// A request, as it would be repeated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Request {
    /// A pull of this partition, with its sequence number.
    Pull(u8, u64),
    /// A sampled pull.
    SampPull(u64),
    /// A priority pull.
    PriorityPull(u64),
}

impl Request {
    fn lane(self) -> Lane {
        match self {
            Request::Pull(..) => Lane::Bulk,
            Request::SampPull(_) | Request::PriorityPull(_) => Lane::Priority,
        }
    }
}

/// How many answers are remembered for each lane: as many as a target can wait for. A forgotten one is sent
/// again.
const REMEMBERED: [usize; 2] = [crate::PARTITIONS_MAX, PRIORITY_PULLS_QUEUED_MAX + 1];

/// The last answers, by lane.
#[derive(Debug, Default)]
pub(super) struct RecentReplies {
    last: [VecDeque<(Request, MonotonicUs)>; Lane::ALL.len()],
}

impl RecentReplies {
    /// Notes an answer.
    pub(super) fn note(&mut self, now: MonotonicUs, request: Request) {
        let lane = request.lane().index();
        let last = &mut self.last[lane];
        last.retain(|&(earlier, _)| earlier != request);
        if last.len() == REMEMBERED[lane] {
            last.pop_front();
        }
        last.push_back((request, now));
    }

    /// Whether this was answered, and the answer may still be on its way.
    pub(super) fn stands(&self, now: MonotonicUs, request: Request) -> bool {
        let mut last = self.last[request.lane().index()].iter();
        last.any(|&(earlier, at)| earlier == request && now.since(at) < ANSWER_STANDS_US)
    }

    /// The lane's connection is new, or gone.
    pub(super) fn forget(&mut self, lane: Lane) {
        self.last[lane.index()].clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_stands_for_a_while_on_its_connection() {
        let mut answered = RecentReplies::default();
        let (pull, other) = (Request::Pull(3, 7), Request::Pull(3, 8));
        assert!(!answered.stands(MonotonicUs(5), pull));
        answered.note(MonotonicUs(5), pull);
        assert!(answered.stands(MonotonicUs(5 + ANSWER_STANDS_US - 1), pull));
        assert!(!answered.stands(MonotonicUs(5 + ANSWER_STANDS_US), pull), "it may be lost after all");
        assert!(!answered.stands(MonotonicUs(6), other));
        answered.forget(Lane::Priority);
        assert!(answered.stands(MonotonicUs(6), pull));
        answered.forget(Lane::Bulk);
        assert!(!answered.stands(MonotonicUs(6), pull));
    }

    #[test]
    fn as_many_answers_are_remembered_as_can_be_waited_for() {
        let mut answered = RecentReplies::default();
        for sequence in 0..100 {
            answered.note(MonotonicUs(0), Request::PriorityPull(sequence));
        }
        let stands = |sequence| answered.stands(MonotonicUs(1), Request::PriorityPull(sequence));
        assert!((100 - PRIORITY_PULLS_QUEUED_MAX as u64..100).all(stands));
        assert!(!stands(0));
    }
}
