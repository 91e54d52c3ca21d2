//! The search for an order: operations take effect as late as possible, which is when one of them returns
//! (Lowe, "Testing for linearizability").
//!
//! A configuration is a state with the operations under way that have taken effect in it. Two rules keep the
//! configurations few:
//! - a read that fits the state takes effect at once, since it does not affect the others;
//! - of two configurations with the same state and the same operations that will return, the one with fewer
//!   of unknown fate represents both, since those need never take effect.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::{Debug, Display};

/// An operation, ready to be applied to the states of what it is on.
pub(super) trait Action {
    /// A state.
    type State: Clone + Ord + Debug;

    /// When it was called and when it returned, in microseconds. `None` for what has no effect for certain;
    /// without a return its fate is unknown.
    fn interval(&self) -> Option<(u64, Option<u64>)>;

    /// Of unknown fate: from when on it cannot take effect, if that is known.
    fn over_us(&self) -> Option<u64> {
        None
    }

    /// Whether it changes nothing.
    fn is_read(&self) -> bool;

    /// Of those of unknown fate with the same number, each has the same effect on every state.
    fn same_effect(&self) -> Option<u32>;

    /// The states that may follow, given its answer.
    fn apply(&self, state: &Self::State, next: &mut Vec<Self::State>);
}

/// A search's result.
pub(super) enum Found {
    /// Some order explains every operation.
    Order,
    /// Too many possible orders; nothing is claimed.
    GaveUp,
    /// No order explains the operation with this number; the possible states before it, in words.
    Stuck { at: usize, states: String },
}

/// Operations by number, in order.
type Numbers = Vec<u32>;

/// A state, and those that have taken effect in it and will return.
type Place<S> = (S, Numbers);

/// Configurations: for each place the smallest sets of operations of unknown fate that lead to it.
struct Configurations<S> {
    places: BTreeMap<Place<S>, Vec<Numbers>>,
}

impl<S: Clone + Ord> Configurations<S> {
    fn none() -> Configurations<S> {
        Configurations { places: BTreeMap::new() }
    }

    /// Adds it unless another represents it.
    fn insert(&mut self, place: Place<S>, used: Numbers) -> bool {
        let sets = self.places.entry(place).or_default();
        if sets.iter().any(|fewer| is_subset(fewer, &used)) {
            return false;
        }
        sets.retain(|more| !is_subset(&used, more));
        sets.push(used);
        true
    }

    /// Adds all of these.
    fn extend(&mut self, more: Configurations<S>) {
        for (place, sets) in more.places {
            for used in sets {
                self.insert(place.clone(), used);
            }
        }
    }

    /// The same without one that can take effect no more.
    fn without(self, number: u32) -> Configurations<S> {
        let mut rest = Configurations::none();
        for (place, sets) in self.places {
            for mut used in sets {
                used.retain(|&other| other != number);
                rest.insert(place.clone(), used);
            }
        }
        rest
    }

    /// Removes operations that have taken effect in every configuration: they need not be kept.
    fn take_common(&mut self) -> Numbers {
        let mut sets = self.places.values().flatten();
        let mut common = sets.next().cloned().unwrap_or_default();
        for set in sets {
            common.retain(|number| set.binary_search(number).is_ok());
        }
        if !common.is_empty() {
            let sets = self.places.values_mut().flatten();
            sets.for_each(|set| set.retain(|number| common.binary_search(number).is_err()));
        }
        common
    }
}

fn is_subset(small: &[u32], large: &[u32]) -> bool {
    small.len() <= large.len() && small.iter().all(|number| large.binary_search(number).is_ok())
}

fn with(numbers: &[u32], number: u32) -> Numbers {
    let at = numbers.partition_point(|&other| other < number);
    let mut more = numbers.to_vec();
    more.insert(at, number);
    more
}

struct Search<'a, A> {
    actions: &'a [A],
    /// Operations that were called and have not returned; those of unknown fate for ever.
    under_way: BTreeSet<u32>,
    /// How many configurations may still be tried.
    left: usize,
}

/// What happens to an operation at an instant, in the order of those of one instant.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Moment {
    Call,
    Return,
    Over,
}

/// Searches for an order that explains the operations, from this state on.
pub(super) fn search<A: Action>(actions: &[A], first: A::State, limit: usize) -> Found {
    let mut search = Search { actions, under_way: BTreeSet::new(), left: limit };
    let mut now = Configurations::none();
    now.insert((first, Numbers::new()), Numbers::new());
    for (_, moment, number) in events(actions) {
        if moment == Moment::Call {
            search.under_way.insert(number);
            continue;
        }
        let Some(mut next) = search.until_effect(&now, number) else { return Found::GaveUp };
        if moment == Moment::Over {
            // It has taken effect by now, or never will.
            next.extend(std::mem::replace(&mut now, Configurations::none()));
            next = next.without(number);
        }
        if next.places.is_empty() {
            let states = now.places.keys().map(|(state, _)| state).collect::<BTreeSet<_>>();
            return Found::Stuck { at: number as usize, states: format!("{states:?}") };
        }
        search.under_way.remove(&number);
        for number in next.take_common() {
            search.under_way.remove(&number);
        }
        now = next;
    }
    Found::Order
}

/// The calls and returns in their order. Within one instant all calls precede all returns.
fn events<A: Action>(actions: &[A]) -> Vec<(u64, Moment, u32)> {
    let mut events: Vec<(u64, Moment, u32)> = Vec::new();
    for (action, number) in actions.iter().zip(0..) {
        match action.interval() {
            None => {}
            Some((call_us, Some(return_us))) => {
                events.extend([(call_us, Moment::Call, number), (return_us, Moment::Return, number)]);
            }
            Some(_) if action.is_read() => {}
            Some((call_us, None)) => {
                events.push((call_us, Moment::Call, number));
                events.extend(action.over_us().map(|us| (us.max(call_us), Moment::Over, number)));
            }
        }
    }
    events.sort_unstable();
    events
}

impl<A: Action> Search<'_, A> {
    fn returns(&self, number: u32) -> bool {
        matches!(self.actions[number as usize].interval(), Some((_, Some(_))))
    }

    /// Lets operations take effect until this one has; `None` when that takes too many configurations.
    fn until_effect(
        &mut self,
        from: &Configurations<A::State>,
        number: u32,
    ) -> Option<Configurations<A::State>> {
        let mut reached = Configurations::none();
        let mut seen = Configurations::none();
        let mut work: Vec<(Place<A::State>, Numbers)> = Vec::new();
        for (place, sets) in &from.places {
            for used in sets {
                self.visit(place.clone(), used.clone(), &mut seen, &mut work);
            }
        }
        while let Some(((state, effective), used)) = work.pop() {
            if let Ok(at) = effective.binary_search(&number) {
                let mut rest = effective;
                rest.remove(at);
                reached.insert((state, rest), used);
                continue;
            }
            if used.binary_search(&number).is_ok() {
                reached.insert((state, effective), used);
                continue;
            }
            self.left = self.left.checked_sub(1)?;
            for (place, used) in self.steps_from((state, effective), used, number) {
                self.visit(place, used, &mut seen, &mut work);
            }
        }
        Some(reached)
    }

    /// The configurations after one more operation. Reads take effect elsewhere, but for this one.
    fn steps_from(
        &self,
        (state, effective): Place<A::State>,
        used: Numbers,
        number: u32,
    ) -> Vec<(Place<A::State>, Numbers)> {
        let mut steps = Vec::new();
        let mut tried: Vec<u32> = Vec::new();
        let mut states = Vec::new();
        for &other in &self.under_way {
            let has_taken = effective.binary_search(&other).is_ok() || used.binary_search(&other).is_ok();
            let action = &self.actions[other as usize];
            if has_taken || (action.is_read() && other != number) {
                continue;
            }
            if let Some(same) = action.same_effect() {
                // Of identical ones any will do.
                if tried.contains(&same) {
                    continue;
                }
                tried.push(same);
            }
            states.clear();
            action.apply(&state, &mut states);
            for then in states.drain(..) {
                let (effective, used) = match self.returns(other) {
                    true => (with(&effective, other), used.clone()),
                    // An operation without effect need not have happened.
                    false if then == state => continue,
                    false => (effective.clone(), with(&used, other)),
                };
                steps.push(((then, effective), used));
            }
        }
        steps
    }

    /// Adds a configuration, with every read that fits it.
    fn visit(
        &self,
        (state, mut effective): Place<A::State>,
        used: Numbers,
        seen: &mut Configurations<A::State>,
        work: &mut Vec<(Place<A::State>, Numbers)>,
    ) {
        let mut states = Vec::new();
        for &read in &self.under_way {
            let action = &self.actions[read as usize];
            if action.is_read() && effective.binary_search(&read).is_err() {
                states.clear();
                action.apply(&state, &mut states);
                if !states.is_empty() {
                    effective = with(&effective, read);
                }
            }
        }
        if seen.insert((state.clone(), effective.clone()), used.clone()) {
            work.push(((state, effective), used));
        }
    }
}
/// How many of a story's last operations before its break are shown.
const TOLD: usize = 60;

/// The last operations that were called up to this time, in lines, for a violation.
pub(super) fn told<T: Display>(operations: &[&T], called_us: impl Fn(&T) -> u64, until_us: u64) -> String {
    let mut story: Vec<&T> = operations.to_vec();
    story.retain(|operation| called_us(operation) <= until_us);
    story.sort_by_key(|operation| called_us(operation));
    let last = &story[story.len().saturating_sub(TOLD)..];
    last.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n  ")
}
