//! The search for an order that explains one key's operations (Wing and Gong; Lowe, "Testing for
//! linearizability"): depth first, memoised on (set of linearised operations, state).
//!
//! Optimisations, and why each is sound:
//! - The set is the exclusive-or of one 128-bit random word per operation. So a configuration costs 16 bytes
//!   and a step constant time, whatever the history's length.
//! - An operation that is possible now and whose reply shows no change is taken at once: moving it to the
//!   front of any explanation leaves an explanation.
//! - A value that only one operation writes cannot come back: leaving it while a read still needs it is a
//!   dead end. Not used for keys with `append` or `incrby`, which compute values.
//! - An operation of unknown fate is tried only right before an operation that it makes possible or changes
//!   the effect of: elsewhere it could as well come later, or never.

use crate::model::{Action, Reply, State};
use crate::{Op, Operation, Outcome};
use hashbrown::{HashMap, HashSet};
use std::collections::BTreeMap;
use std::hash::{BuildHasherDefault, Hasher};

/// One operation in the search.
#[derive(Clone, Debug)]
pub(crate) struct Call {
    pub(crate) action: Action,
    /// `None`: the fate is unknown.
    pub(crate) reply: Option<Reply>,
    pub(crate) call_ns: u64,
    pub(crate) return_ns: u64,
    /// Its index in the caller's list.
    pub(crate) source: usize,
}

impl Call {
    /// `None` if the operation cannot matter (refused, or a read that never returned).
    pub(crate) fn new(operation: &Operation, source: usize) -> Option<Call> {
        let action = Action::new(operation.op, &operation.arg);
        let (reply, return_ns) = match (operation.outcome, operation.return_ns) {
            (Outcome::None, _) => return None,
            (Outcome::Ok, Some(return_ns)) => {
                (Some(Reply::claimed(operation.op, &operation.result)), return_ns)
            }
            (Outcome::Ok | Outcome::Unknown, _) if operation.op.is_read() => return None,
            (Outcome::Ok | Outcome::Unknown, _) => (None, u64::MAX),
        };
        Some(Call { action, reply, call_ns: operation.call_ns, return_ns, source })
    }

    /// The state after the operation, or `None` if its reply is impossible in `state`.
    pub(crate) fn after(&self, state: State) -> Option<State> {
        let (reply, next) = self.action.apply(state);
        match self.reply {
            Some(claimed) if claimed != reply => None,
            _ => Some(next),
        }
    }

    pub(crate) fn written_value(&self) -> Option<State> {
        matches!(self.action.op, Op::Set | Op::SetNx | Op::GetSet).then(|| self.action.text.state())
    }

    pub(crate) fn observed_value(&self) -> Option<State> {
        match self.reply {
            Some(Reply::Value(state @ State::Present(_))) => Some(state),
            _ => None,
        }
    }

    /// Whether the operation, by its reply, left any state unchanged.
    pub(crate) fn changes_nothing(&self) -> bool {
        match self.action.op {
            Op::Get | Op::StrLen | Op::Exists => true,
            Op::SetNx | Op::Del => self.reply == Some(Reply::Integer(0)),
            Op::GetDel => self.reply == Some(Reply::Value(State::Absent)),
            Op::Set | Op::GetSet | Op::Flush | Op::IncrBy | Op::Append => false,
        }
    }
}

/// The result of a search.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Found {
    /// An order exists.
    Order,
    /// None does. The state of the longest partial order, and the indexes of the calls waiting there.
    Stuck { state: State, waiting: Vec<usize> },
    /// More configurations than the budget allows.
    GaveUp,
}

/// Searches for an order of `calls` from an absent key, visiting at most `budget` configurations.
pub(crate) fn search(calls: &[Call], budget: usize) -> Found {
    Search::new(calls, budget).run()
}

/// Fingerprints are random already: their lower half is the hash.
#[derive(Default)]
struct Lower(u64);

impl Hasher for Lower {
    fn write(&mut self, _: &[u8]) {
        unreachable!("only fingerprints are hashed");
    }

    fn write_u128(&mut self, fingerprint: u128) {
        self.0 = fingerprint as u64;
    }

    fn finish(&self) -> u64 {
        self.0
    }
}

type Fingerprints = HashSet<u128, BuildHasherDefault<Lower>>;
type Interned = HashMap<u128, u32, BuildHasherDefault<Lower>>;

fn mix(mut x: u64) -> u64 {
    x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    x ^ (x >> 31)
}

fn wide(x: u64) -> u128 {
    u128::from(mix(x.wrapping_add(0x9e37_79b9_7f4a_7c15))) << 64 | u128::from(mix(!x))
}

struct MixState(u64, u64);

impl Hasher for MixState {
    fn write(&mut self, bytes: &[u8]) {
        for &byte in bytes {
            self.write_u64(u64::from(byte));
        }
    }

    fn write_u64(&mut self, word: u64) {
        self.0 = mix(self.0 ^ word).wrapping_add(0x9e37_79b9_7f4a_7c15);
        self.1 = mix(self.1.rotate_left(29) ^ !word).wrapping_add(0xd1b5_4a32_d192_ed03);
    }

    fn finish(&self) -> u64 {
        self.0
    }
}

fn fingerprint_of(state: State) -> u128 {
    let mut hasher = MixState(1, 2);
    std::hash::Hash::hash(&state, &mut hasher);
    u128::from(hasher.0) << 64 | u128::from(hasher.1)
}

const END: usize = usize::MAX;

/// The calls not linearised yet, in order of their call: a doubly linked list over indexes. Removal and its
/// undo (in reverse order) take constant time.
struct Remaining {
    head: usize,
    next: Vec<usize>,
    previous: Vec<usize>,
}

impl Remaining {
    fn new(indexes: &[usize], capacity: usize) -> Remaining {
        let mut list = Remaining { head: END, next: vec![END; capacity], previous: vec![END; capacity] };
        let mut last = END;
        for &index in indexes {
            list.previous[index] = last;
            *list.link(last) = index;
            last = index;
        }
        list
    }

    fn link(&mut self, index: usize) -> &mut usize {
        if index == END { &mut self.head } else { &mut self.next[index] }
    }

    fn remove(&mut self, index: usize) {
        let (previous, next) = (self.previous[index], self.next[index]);
        *self.link(previous) = next;
        if next != END {
            self.previous[next] = previous;
        }
    }

    fn put_back(&mut self, index: usize) {
        let (previous, next) = (self.previous[index], self.next[index]);
        *self.link(previous) = index;
        if next != END {
            self.previous[next] = index;
        }
    }
}

/// How many writes and reads of a value are pending.
#[derive(Clone, Copy, Default)]
struct Pending {
    writers: u32,
    readers: u32,
}

/// One level of the depth-first search: the steps left to try from here.
struct Level {
    state: State,
    steps: Vec<usize>,
    next: usize,
    /// The step that led here; `END` at the root.
    taken: usize,
}

struct Search<'c> {
    calls: &'c [Call],
    budget: usize,
    definite: Remaining,
    loose: Remaining,
    /// Definite calls not yet linearised.
    left: usize,
    set: u128,
    seen: Fingerprints,
    /// The values' numbers, if no value can arise twice.
    values: Option<Interned>,
    pending: Vec<Pending>,
    best_left: usize,
    best: (State, Vec<usize>),
}

impl<'c> Search<'c> {
    fn new(calls: &'c [Call], budget: usize) -> Search<'c> {
        let mut order: Vec<usize> = (0..calls.len()).collect();
        order.sort_by_key(|&index| (calls[index].call_ns, calls[index].return_ns));
        let (definite, loose): (Vec<usize>, Vec<usize>) =
            order.into_iter().partition(|&index| calls[index].reply.is_some());
        let mut search = Search {
            calls,
            budget,
            left: definite.len(),
            best_left: usize::MAX,
            definite: Remaining::new(&definite, calls.len()),
            loose: Remaining::new(&loose, calls.len()),
            set: 0,
            seen: Fingerprints::default(),
            values: None,
            pending: Vec::new(),
            best: (State::Absent, Vec::new()),
        };
        if !calls.iter().any(|call| matches!(call.action.op, Op::Append | Op::IncrBy)) {
            search.count_values();
        }
        search
    }

    fn count_values(&mut self) {
        let mut values = Interned::default();
        for call in self.calls {
            for state in [call.written_value(), call.observed_value()].into_iter().flatten() {
                let next = values.len() as u32;
                values.entry(fingerprint_of(state)).or_insert(next);
            }
        }
        self.pending = vec![Pending::default(); values.len()];
        self.values = Some(values);
        for call in self.calls {
            self.count(call, 1);
        }
    }

    fn value_number(&self, state: State) -> Option<usize> {
        self.values.as_ref()?.get(&fingerprint_of(state)).map(|&number| number as usize)
    }

    /// Adds a call's write and read to the pending ones, or removes them (`change` = -1).
    fn count(&mut self, call: &Call, change: i32) {
        if let Some(value) = call.written_value().and_then(|state| self.value_number(state)) {
            self.pending[value].writers = self.pending[value].writers.wrapping_add_signed(change);
        }
        if let Some(value) = call.observed_value().and_then(|state| self.value_number(state)) {
            self.pending[value].readers = self.pending[value].readers.wrapping_add_signed(change);
        }
    }

    fn run(mut self) -> Found {
        let mut levels = vec![self.level(State::Absent, END)];
        while let Some(level) = levels.last_mut() {
            if self.left == 0 {
                return Found::Order;
            }
            let Some(&step) = level.steps.get(level.next) else {
                let taken = level.taken;
                levels.pop();
                if taken != END {
                    self.undo(taken);
                }
                continue;
            };
            level.next += 1;
            let state = level.state;
            let calls = self.calls;
            let Some(next) = calls[step].after(state) else { continue };
            self.take(step);
            if self.loses_a_value(state, next) || !self.seen.insert(self.set ^ fingerprint_of(next)) {
                self.undo(step);
                continue;
            }
            if self.seen.len() > self.budget {
                return Found::GaveUp;
            }
            levels.push(self.level(next, step));
        }
        Found::Stuck { state: self.best.0, waiting: self.best.1 }
    }

    fn take(&mut self, step: usize) {
        let calls = self.calls;
        self.set ^= wide(step as u64);
        self.count(&calls[step], -1);
        if calls[step].reply.is_some() {
            self.definite.remove(step);
            self.left -= 1;
        } else {
            self.loose.remove(step);
        }
    }

    fn undo(&mut self, step: usize) {
        let calls = self.calls;
        self.set ^= wide(step as u64);
        self.count(&calls[step], 1);
        if calls[step].reply.is_some() {
            self.definite.put_back(step);
            self.left += 1;
        } else {
            self.loose.put_back(step);
        }
    }

    /// Whether going from `state` to `next` leaves a value that a read still needs and no call can write.
    fn loses_a_value(&self, state: State, next: State) -> bool {
        state != next
            && self
                .value_number(state)
                .is_some_and(|value| self.pending[value].readers > 0 && self.pending[value].writers == 0)
    }

    /// The level reached by `taken`, with its candidates.
    fn level(&mut self, state: State, taken: usize) -> Level {
        let mut candidates = Vec::new();
        let mut deadline = u64::MAX;
        let mut index = self.definite.head;
        while index != END && self.calls[index].call_ns <= deadline {
            let call = &self.calls[index];
            deadline = deadline.min(call.return_ns);
            if call.changes_nothing() && call.after(state).is_some() {
                return Level { state, steps: vec![index], next: 0, taken };
            }
            candidates.push(index);
            index = self.definite.next[index];
        }
        if self.left < self.best_left {
            self.best_left = self.left;
            self.best = (state, candidates.clone());
        }
        let mut steps: Vec<usize> =
            candidates.iter().copied().filter(|&index| self.calls[index].after(state).is_some()).collect();
        steps.sort_by_key(|&index| self.calls[index].return_ns);
        self.add_useful_loose(state, deadline, &candidates, &mut steps);
        Level { state, steps, next: 0, taken }
    }

    fn add_useful_loose(&self, state: State, deadline: u64, candidates: &[usize], steps: &mut Vec<usize>) {
        let mut index = self.loose.head;
        while index != END && self.calls[index].call_ns <= deadline {
            let call = &self.calls[index];
            let next = call.action.apply(state).1;
            // It must come before a candidate if only then the candidate is possible, or if the two do not
            // commute and the candidate does not undo it either.
            let helps = |&candidate: &usize| {
                let candidate = &self.calls[candidate];
                match (candidate.after(state), candidate.after(next)) {
                    (_, None) => false,
                    (None, Some(_)) => true,
                    (Some(without), Some(with)) => without != with && call.action.apply(without).1 != with,
                }
            };
            if next != state
                && (candidates.iter().any(helps) || self.has_loose_follower(index, next, deadline))
            {
                steps.push(index);
            }
            index = self.loose.next[index];
        }
    }

    /// Whether another operation of unknown fate builds on this one's state.
    fn has_loose_follower(&self, first: usize, state: State, deadline: u64) -> bool {
        let mut index = self.loose.head;
        while index != END && self.calls[index].call_ns <= deadline {
            let call = &self.calls[index];
            if index != first && call.action.is_relative() && call.action.apply(state).1 != state {
                return true;
            }
            index = self.loose.next[index];
        }
        false
    }
}

/// The calls of each key, in the caller's order.
pub(crate) fn by_key(operations: &[Operation]) -> BTreeMap<&str, Vec<usize>> {
    let mut keys: BTreeMap<&str, Vec<usize>> = BTreeMap::new();
    for (index, operation) in operations.iter().enumerate() {
        keys.entry(&operation.key).or_default().push(index);
    }
    keys
}
