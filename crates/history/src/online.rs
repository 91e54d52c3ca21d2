//! Judges one key's operations while the run goes on, and forgets what is decided.
//!
//! The checker keeps every configuration that the key may be in: its value, which operations under way have
//! taken effect, and which of unknown fate. An operation that returns must have taken effect. Each
//! configuration has that already, takes the steps that lead there, or is dropped (Lowe, "Testing for
//! linearizability", just-in-time linearization). If no configuration is left, no order explains the
//! operations.
//!
//! Reductions that keep it small, and why each is sound:
//! - Operations of unknown fate with the same effect on every value are one class with a count: they are
//!   indistinguishable.
//! - Two configurations may differ only in how many operations of unknown fate they have used. The one that
//!   used fewer is kept: it can still use the others.
//! - An operation whose reply shows that it changed nothing takes effect as soon as it can.
//! - An operation of unknown fate takes effect only right before an operation that it makes possible or
//!   changes the effect of. It may also precede others of unknown fate that build on it, while the value
//!   stays within what a read has seen.

use crate::Operation;
use crate::model::{Action, Reply, State};
use crate::search::Call;
use crate::{Op, Outcome};
use smallvec::SmallVec;
use std::collections::BTreeMap;

/// The most operations of one key under way at once.
const MOST_UNDER_WAY: usize = 64;

/// The verdict after an operation was judged.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Judged {
    /// Some order explains everything so far.
    Fine,
    /// No order does; the operation added under this number is the first without a place.
    Stuck(usize),
    /// There are too many possible orders; there is no verdict on the key any more.
    Undecided,
}

/// How many operations of each class of unknown fate have taken effect; classes with none are left out.
type Used = SmallVec<[(u32, u32); 2]>;

/// A state that the key may be in.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Configuration {
    state: State,
    /// By place: which of the operations under way have taken effect.
    done: u64,
    used: Used,
}

/// Operations of unknown fate with the same effect.
#[derive(Clone, Debug)]
struct Loose {
    action: Action,
    count: u32,
}

/// An operation that has not been judged.
#[derive(Clone, Debug)]
struct Waiting {
    call: Call,
    /// Its place in [`Configuration::done`], once it is called.
    place: Option<u32>,
}

/// The configurations found, without dominated ones.
#[derive(Debug, Default)]
struct Found {
    by_state: BTreeMap<(State, u64), SmallVec<[Used; 1]>>,
    count: usize,
}

impl Found {
    /// Adds a configuration; returns whether it is new.
    fn add(&mut self, configuration: &Configuration) -> bool {
        let known = self.by_state.entry((configuration.state, configuration.done)).or_default();
        if known.iter().any(|used| is_within(used, &configuration.used)) {
            return false;
        }
        let before = known.len();
        known.retain(|used| !is_within(&configuration.used, used));
        known.push(configuration.used.clone());
        self.count += known.len();
        self.count -= before;
        true
    }

    fn into_configurations(self) -> Vec<Configuration> {
        let all = self.by_state.into_iter();
        all.flat_map(|((state, done), useds)| {
            useds.into_iter().map(move |used| Configuration { state, done, used })
        })
        .collect()
    }
}

/// Whether `few` uses no class more often than `many`.
fn is_within(few: &Used, many: &Used) -> bool {
    few.iter().all(|&(class, count)| count_of(many, class) >= count)
}

fn count_of(used: &Used, class: u32) -> u32 {
    used.binary_search_by_key(&class, |&(class, _)| class).map_or(0, |at| used[at].1)
}

fn with_one_more(used: &Used, class: u32) -> Used {
    let mut used = used.clone();
    match used.binary_search_by_key(&class, |&(class, _)| class) {
        Ok(at) => used[at].1 += 1,
        Err(at) => used.insert(at, (class, 1)),
    }
    used
}

/// Judges the operations of one key, which starts absent, in the order of their returns.
#[derive(Debug)]
pub struct KeyChecker {
    budget: usize,
    configurations: Vec<Configuration>,
    loose: Vec<Loose>,
    /// Operations with a reply whose returns are not judged yet.
    waiting: Vec<Waiting>,
    /// Operations of unknown fate whose calls are not judged yet.
    to_be_called: Vec<Call>,
    verdict: Judged,
}

impl KeyChecker {
    /// A checker that gives up if one return takes more than `budget` configurations.
    pub fn new(budget: usize) -> KeyChecker {
        KeyChecker {
            budget,
            configurations: vec![Configuration { state: State::Absent, done: 0, used: Used::new() }],
            loose: Vec::new(),
            waiting: Vec::new(),
            to_be_called: Vec::new(),
            verdict: Judged::Fine,
        }
    }

    /// Adds an operation that has returned or whose fate stays unknown, under the caller's number.
    pub fn add(&mut self, number: usize, operation: &Operation) {
        let Some(call) = Call::new(operation, number) else { return };
        if self.verdict != Judged::Fine {
            return;
        }
        match operation.outcome {
            Outcome::Ok if call.reply.is_some() => {
                self.waiting.push(Waiting { call, place: None });
            }
            _ => self.to_be_called.push(call),
        }
    }

    /// Judges the returns before this instant. The caller must have added every operation called before it
    /// that has returned or been abandoned. Every operation still under way must have been called at this
    /// instant or later.
    pub fn judge(&mut self, before_ns: u64) -> &Judged {
        while self.verdict == Judged::Fine {
            let next = (0..self.waiting.len()).min_by_key(|&index| self.waiting[index].call.return_ns);
            let Some(next) = next.filter(|&next| self.waiting[next].call.return_ns < before_ns) else {
                break;
            };
            self.judge_return(next);
        }
        &self.verdict
    }

    /// How many configurations the key may be in.
    pub fn configurations(&self) -> usize {
        self.configurations.len()
    }

    fn judge_return(&mut self, returning: usize) {
        let has_room = self.call_until(self.waiting[returning].call.return_ns);
        let place = self.waiting[returning].place.filter(|_| has_room);
        if let Some(place) = place
            && let Some(after) = self.after_alone(returning, place)
        {
            self.configurations[0].state = after;
            self.waiting.swap_remove(returning);
            return;
        }
        let Some(found) = place.and_then(|place| self.take_effect(place)) else {
            self.verdict = Judged::Undecided;
            return;
        };
        self.configurations = found.into_configurations();
        let returned = self.waiting.swap_remove(returning);
        if self.configurations.is_empty() {
            self.verdict = Judged::Stuck(returned.call.source);
            return;
        }
        self.forget_what_all_have_used();
    }

    /// The state after this operation if no other operation can have taken effect: most operations run alone.
    fn after_alone(&self, returning: usize, place: u32) -> Option<State> {
        let [only] = &self.configurations[..] else { return None };
        let is_alone = self.waiting.iter().filter(|waiting| waiting.place.is_some()).count() == 1
            && self.loose.iter().all(|loose| loose.count == 0);
        if !is_alone || only.done & 1 << place != 0 {
            return None;
        }
        self.waiting[returning].call.after(only.state)
    }

    /// Starts every operation called up to this instant; `false` if too many are under way.
    fn call_until(&mut self, until_ns: u64) -> bool {
        let called = self.to_be_called.extract_if(.., |call| call.call_ns <= until_ns);
        for call in called {
            let action = call.action.without_reply();
            match self.loose.iter_mut().find(|loose| loose.action.does_the_same(&action)) {
                Some(loose) => loose.count += 1,
                None => self.loose.push(Loose { action, count: 1 }),
            }
        }
        let mut taken: u64 =
            self.waiting.iter().filter_map(|waiting| waiting.place).fold(0, |all, place| all | 1 << place);
        for waiting in &mut self.waiting {
            if waiting.place.is_none() && waiting.call.call_ns <= until_ns {
                let place = taken.trailing_ones();
                if place as usize == MOST_UNDER_WAY {
                    return false;
                }
                taken |= 1 << place;
                waiting.place = Some(place);
            }
        }
        true
    }

    /// The configurations in which the operation at this place has taken effect; `None` if there are too
    /// many.
    fn take_effect(&self, place: u32) -> Option<Found> {
        let candidates: Vec<(u32, &Call)> =
            self.waiting.iter().filter_map(|waiting| Some((waiting.place?, &waiting.call))).collect();
        let (mut seen, mut found) = (Found::default(), Found::default());
        let mut stack: Vec<Configuration> = Vec::new();
        let bit = 1 << place;
        for configuration in &self.configurations {
            if configuration.done & bit != 0 {
                found.add(&Configuration { done: configuration.done & !bit, ..configuration.clone() });
            } else if seen.add(configuration) {
                stack.push(configuration.clone());
            }
        }
        let mut steps = 0;
        while let Some(from) = stack.pop() {
            steps += 1;
            if steps > self.budget || found.count > self.budget {
                return None;
            }
            for next in self.steps_from(&from, &candidates) {
                if next.done & bit != 0 {
                    found.add(&Configuration { done: next.done & !bit, ..next });
                } else if seen.add(&next) {
                    stack.push(next);
                }
            }
        }
        Some(found)
    }

    fn steps_from(&self, from: &Configuration, candidates: &[(u32, &Call)]) -> Vec<Configuration> {
        let open: Vec<(u32, &Call)> =
            candidates.iter().copied().filter(|(place, _)| from.done & 1 << place == 0).collect();
        let takes = |place: u32, state| Configuration {
            state,
            done: from.done | 1 << place,
            used: from.used.clone(),
        };
        let at_once =
            open.iter().find(|(_, call)| call.changes_nothing() && call.after(from.state).is_some());
        if let Some(&(place, _)) = at_once {
            return vec![takes(place, from.state)];
        }
        let definite = open.iter().filter_map(|&(place, call)| Some(takes(place, call.after(from.state)?)));
        let mut steps: Vec<Configuration> = definite.collect();
        let sought = Sought::by(&open, &self.loose);
        for (class, loose) in self.left(from) {
            let state = loose.action.apply(from.state).1;
            let is_useful = state != from.state
                && (open.iter().any(|(_, call)| helps(&loose.action, call, from.state, state))
                    || sought.may_need(state) && self.has_follower(from, class, state, &sought));
            if is_useful {
                let used = with_one_more(&from.used, class);
                steps.push(Configuration { state, done: from.done, used });
            }
        }
        steps
    }

    /// Classes with operations that have not taken effect.
    fn left<'c>(&'c self, from: &'c Configuration) -> impl Iterator<Item = (u32, &'c Loose)> {
        let classes = self.loose.iter().enumerate().map(|(class, loose)| (class as u32, loose));
        classes.filter(|(class, loose)| count_of(&from.used, *class) < loose.count)
    }

    /// Whether another operation of unknown fate builds on the state after one of class `first`.
    fn has_follower(&self, from: &Configuration, first: u32, state: State, sought: &Sought) -> bool {
        self.left(from).any(|(class, loose)| {
            let is_left = class != first || count_of(&from.used, class) + 1 < loose.count;
            let next = loose.action.apply(state).1;
            is_left && loose.action.is_relative() && next != state && sought.may_need(next)
        })
    }

    /// Drops what has taken effect in every configuration.
    fn forget_what_all_have_used(&mut self) {
        let Some((first, others)) = self.configurations.split_first() else { return };
        let common: Used = (first.used.iter())
            .map(|&(class, count)| {
                let least = others.iter().map(|other| count_of(&other.used, class)).min();
                (class, count.min(least.unwrap_or(count)))
            })
            .filter(|&(_, count)| count > 0)
            .collect();
        for &(class, count) in &common {
            self.loose[class as usize].count -= count;
        }
        for configuration in &mut self.configurations {
            for (class, count) in &mut configuration.used {
                *count -= count_of(&common, *class);
            }
            configuration.used.retain(|(_, count)| *count > 0);
        }
    }
}

/// Whether `loose` first makes `call` possible, or changes its effect.
fn helps(loose: &Action, call: &Call, state: State, next: State) -> bool {
    match (call.after(state), call.after(next)) {
        (_, None) => false,
        (None, Some(_)) => true,
        (Some(without), Some(with)) => without != with && loose.apply(without).1 != with,
    }
}

/// The values that the operations under way may need, and how far the value can grow.
#[derive(Debug, Default)]
struct Sought {
    values: Vec<State>,
    integers: Vec<i64>,
    lengths: Vec<u64>,
    /// The most that all operations of unknown fate can add to a number and to a text.
    most_added: i64,
    most_appended: u64,
    /// Values can shrink, or any value may be needed: there is no bound.
    is_open: bool,
}

impl Sought {
    fn by(open: &[(u32, &Call)], loose: &[Loose]) -> Sought {
        let mut sought = Sought::default();
        for Loose { action, count } in loose {
            let times = u64::from(*count);
            match action.op {
                Op::Append => sought.most_appended += action.text.state().length() * times,
                Op::IncrBy => {
                    let added = action.added().saturating_mul(i64::from(*count));
                    sought.is_open |= added < 0;
                    sought.most_added = sought.most_added.saturating_add(added);
                }
                _ => {}
            }
        }
        for (_, call) in open {
            let action = &call.action;
            match (action.op, call.reply) {
                (Op::Get | Op::GetSet | Op::GetDel, Some(Reply::Value(state))) => sought.values.push(state),
                (Op::IncrBy, Some(Reply::Integer(sum))) => {
                    sought.integers.push(sum.saturating_sub(action.added()));
                }
                (Op::StrLen, Some(Reply::Integer(length))) => sought.lengths.extend(u64::try_from(length)),
                (Op::Append, Some(Reply::Integer(length))) => {
                    let before = u64::try_from(length).ok();
                    sought.lengths.extend(before.and_then(|l| l.checked_sub(action.text.state().length())));
                }
                (Op::IncrBy | Op::Append | Op::StrLen, _) => sought.is_open = true,
                _ => {}
            }
        }
        sought
    }

    /// Whether the value can become what a read has seen by growth alone.
    fn may_need(&self, state: State) -> bool {
        let integer = state.integer();
        // An absent key may still be set to anything, and numbers get shorter towards 0.
        let has_no_measure = state == State::Absent || integer.is_some_and(|integer| integer < 0);
        if self.is_open || has_no_measure {
            return true;
        }
        let grows_to = |length: u64| {
            let is_reached = |missing| self.most_added > 0 || missing <= self.most_appended;
            length.checked_sub(state.length()).is_some_and(is_reached)
        };
        let adds_up_to = |sum: i64| {
            let is_reached = |from: i64| (0..=self.most_added).contains(&sum.saturating_sub(from));
            self.most_appended > 0 || integer.is_some_and(is_reached)
        };
        let becomes = |value: State| match value.integer() {
            Some(sum) if self.most_appended == 0 => adds_up_to(sum),
            _ => grows_to(value.length()) && (self.most_added > 0 || state.may_begin(value)),
        };
        self.values.iter().any(|&value| becomes(value))
            || self.integers.iter().any(|&sum| adds_up_to(sum))
            || self.lengths.iter().any(|&length| grows_to(length))
    }
}
