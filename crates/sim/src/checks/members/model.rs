//! The members of a key, and the effect of an operation on them.

use crate::checks::search;
use crate::workload::{MEMBERS, MembersOp, MembersOperation, Shown};

/// The score of each member that is there.
pub(super) type State = [Option<i64>; MEMBERS];

/// An operation, ready to be applied.
pub(super) struct Action<'h>(pub(super) &'h MembersOperation);

/// The members in their order.
fn in_order(state: &State) -> Vec<(usize, i64)> {
    let there = state.iter().enumerate().filter_map(|(member, score)| Some((member, (*score)?)));
    let mut all: Vec<(usize, i64)> = there.collect();
    all.sort_by_key(|&(member, score)| (score, member));
    all
}

fn count(state: &State) -> i64 {
    state.iter().flatten().count() as i64
}

impl Action<'_> {
    /// Whether this may be the answer, if there is one.
    fn answers(&self, found: &Shown) -> bool {
        self.0.answer.as_ref().is_none_or(|(_, answer)| *answer == *found)
    }

    /// A removal of everything by a flush or a death tells nothing.
    fn answers_done_or(&self, found: &Shown) -> bool {
        self.answers(&Shown::Done) || self.answers(found)
    }

    /// What takes one member, and the answer that goes with each.
    fn pop(&self, state: &State, next: &mut Vec<State>) {
        let all = in_order(state);
        if all.is_empty() && self.answers(&Shown::Nothing) {
            next.push(*state);
        }
        // A set has no first.
        let candidates = if self.0.is_sorted() { all.iter().take(1) } else { all.iter().take(MEMBERS) };
        for &(member, score) in candidates {
            if self.answers(&Shown::Member(member, score)) {
                let mut then = *state;
                then[member] = None;
                next.push(then);
            }
        }
    }

    /// What changes members and answers one thing: the state that follows, and the answer.
    fn change(&self, state: &State) -> (State, Shown) {
        let mut then = *state;
        let found = match &self.0.op {
            MembersOp::Add(members) => {
                members.iter().for_each(|&(member, score)| then[member] = Some(score));
                Shown::Number(count(&then) - count(state))
            }
            MembersOp::Increment(member, by) => {
                let score = then[*member].unwrap_or(0) + by;
                then[*member] = Some(score);
                Shown::Number(score)
            }
            MembersOp::Remove(members) => {
                members.iter().for_each(|&member| then[member] = None);
                Shown::Number(count(state) - count(&then))
            }
            MembersOp::Rank(member) => {
                let rank = in_order(state).iter().position(|&(other, _)| other == *member);
                rank.map_or(Shown::Nothing, |rank| Shown::Number(rank as i64))
            }
            MembersOp::Score(member) => match (self.0.is_sorted(), state[*member]) {
                (false, score) => Shown::Number(i64::from(score.is_some())),
                (true, score) => score.map_or(Shown::Nothing, Shown::Number),
            },
            MembersOp::Count => Shown::Number(count(state)),
            MembersOp::Look => Shown::All(in_order(state)),
            MembersOp::Clear => {
                then = State::default();
                Shown::Number(i64::from(count(state) > 0))
            }
            MembersOp::Pop => unreachable!("it answers one of several things"),
        };
        (then, found)
    }
}

impl search::Action for Action<'_> {
    type State = State;

    fn interval(&self) -> Option<(u64, Option<u64>)> {
        Some((self.0.call_us, self.0.answer.as_ref().map(|(us, _)| *us)))
    }

    fn over_us(&self) -> Option<u64> {
        self.0.over_us
    }

    fn is_read(&self) -> bool {
        let answer = self.0.answer.as_ref().map(|(_, found)| found);
        match self.0.op {
            MembersOp::Rank(_) | MembersOp::Score(_) | MembersOp::Count | MembersOp::Look => true,
            MembersOp::Pop => answer == Some(&Shown::Nothing),
            MembersOp::Remove(_) | MembersOp::Clear => answer == Some(&Shown::Number(0)),
            MembersOp::Add(_) => !self.0.is_sorted() && answer == Some(&Shown::Number(0)),
            MembersOp::Increment(..) => false,
        }
    }

    fn same_effect(&self) -> Option<u32> {
        if self.0.answer.is_some() {
            return None;
        }
        let mask =
            |members: &mut dyn Iterator<Item = usize>| members.fold(0, |mask, member| mask | 1 << member);
        match &self.0.op {
            MembersOp::Clear => Some(0),
            MembersOp::Pop => Some(1),
            MembersOp::Remove(members) => Some(1_000 + mask(&mut members.iter().copied())),
            MembersOp::Add(members) if !self.0.is_sorted() => {
                Some(2_000 + mask(&mut members.iter().map(|(member, _)| *member)))
            }
            MembersOp::Increment(member, by) => Some(3_000 + 100 * *member as u32 + *by as u32),
            _ => None,
        }
    }

    fn apply(&self, state: &State, next: &mut Vec<State>) {
        if self.0.op == MembersOp::Pop {
            return self.pop(state, next);
        }
        let (then, found) = self.change(state);
        let fits = match self.0.op {
            MembersOp::Clear => self.answers_done_or(&found),
            _ => self.answers(&found),
        };
        next.extend(fits.then_some(then));
    }
}
