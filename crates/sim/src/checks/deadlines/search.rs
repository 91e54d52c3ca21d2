//! The search for an order: operations take effect as late as possible, which is when one of them returns
//! (Lowe, "Testing for linearizability").
//!
//! A configuration is a state with the operations under way that have taken effect in it. Two rules keep the
//! configurations few:
//! - a read that fits the state takes effect at once, since it does not affect the others;
//! - of two configurations with the same state and the same operations that will return, the one with fewer
//!   of unknown fate represents both, since those need never take effect.

use super::model::{Action, State};
use crate::workload::TimedOperation;
use sidle_history::Outcome;
use std::collections::{BTreeMap, BTreeSet};

/// A search's result.
pub(super) enum Found<'h> {
    /// Some order explains every operation.
    Order,
    /// Too many possible orders; nothing is claimed.
    GaveUp,
    /// No order explains this operation; the possible states of the key, in words.
    Stuck { at: &'h TimedOperation, states: String },
}

/// Operations by number, in order.
type Numbers = Vec<u32>;

/// A state, and those that have taken effect in it and will return.
type Place = (State, Numbers);

/// Configurations: for each place the smallest sets of operations of unknown fate that lead to it.
#[derive(Default)]
struct Configurations {
    places: BTreeMap<Place, Vec<Numbers>>,
}

impl Configurations {
    /// Adds it unless another represents it.
    fn insert(&mut self, place: Place, used: Numbers) -> bool {
        let sets = self.places.entry(place).or_default();
        if sets.iter().any(|fewer| is_subset(fewer, &used)) {
            return false;
        }
        sets.retain(|more| !is_subset(&used, more));
        sets.push(used);
        true
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

struct Search<'h> {
    actions: Vec<Action<'h>>,
    /// Operations that were called and have not returned; those of unknown fate for ever.
    under_way: BTreeSet<u32>,
    /// How many configurations may still be tried.
    left: usize,
}

/// Searches for an order that explains the operations of one key, which starts absent.
pub(super) fn search<'h>(operations: &'h [&'h TimedOperation], limit: usize) -> Found<'h> {
    let actions: Vec<Action<'h>> =
        (0..operations.len()).map(|number| Action::new(operations, number)).collect();
    // Within one instant all calls precede all returns.
    let mut events: Vec<(u64, bool, u32)> = Vec::new();
    for (action, number) in actions.iter().zip(0..) {
        let operation = action.operation;
        match (operation.outcome, operation.return_us) {
            (Outcome::None, _) => {}
            (Outcome::Ok, Some(return_us)) => {
                events.extend([(operation.call_us, false, number), (return_us, true, number)]);
            }
            _ if action.is_read() => {}
            _ => events.push((operation.call_us, false, number)),
        }
    }
    events.sort_unstable();
    let mut search = Search { actions, under_way: BTreeSet::new(), left: limit };
    let mut now = Configurations::default();
    now.insert((None, Numbers::new()), Numbers::new());
    for (_, is_return, number) in events {
        if !is_return {
            search.under_way.insert(number);
            continue;
        }
        let Some(mut next) = search.until_effect(&now, number) else { return Found::GaveUp };
        if next.places.is_empty() {
            let states = now.places.keys().map(|(state, _)| state).collect::<BTreeSet<_>>();
            return Found::Stuck { at: operations[number as usize], states: format!("{states:?}") };
        }
        search.under_way.remove(&number);
        for number in next.take_common() {
            search.under_way.remove(&number);
        }
        now = next;
    }
    Found::Order
}

impl Search<'_> {
    fn returns(&self, number: u32) -> bool {
        self.actions[number as usize].operation.outcome == Outcome::Ok
    }

    /// Lets operations take effect until this one has; `None` when that takes too many configurations.
    fn until_effect(&mut self, from: &Configurations, number: u32) -> Option<Configurations> {
        let mut reached = Configurations::default();
        let mut seen = Configurations::default();
        let mut work: Vec<(Place, Numbers)> = Vec::new();
        for (place, sets) in &from.places {
            for used in sets {
                self.visit(place.clone(), used.clone(), &mut seen, &mut work);
            }
        }
        let mut states = Vec::new();
        while let Some(((state, effective), used)) = work.pop() {
            if let Ok(at) = effective.binary_search(&number) {
                let mut rest = effective;
                rest.remove(at);
                reached.insert((state, rest), used);
                continue;
            }
            self.left = self.left.checked_sub(1)?;
            let mut is_removal_tried = false;
            for &other in &self.under_way {
                let has_taken = effective.binary_search(&other).is_ok() || used.binary_search(&other).is_ok();
                let action = &self.actions[other as usize];
                if has_taken || (action.is_read() && other != number) {
                    continue;
                }
                if action.is_lost_removal() && std::mem::replace(&mut is_removal_tried, true) {
                    // Of identical ones any will do.
                    continue;
                }
                states.clear();
                action.apply(state, &mut states);
                for &then in &states {
                    let (effective, used) = match self.returns(other) {
                        true => (with(&effective, other), used.clone()),
                        // An operation without effect need not have happened.
                        false if then == state => continue,
                        false => (effective.clone(), with(&used, other)),
                    };
                    self.visit((then, effective), used, &mut seen, &mut work);
                }
            }
        }
        Some(reached)
    }

    /// Adds a configuration, with every read that fits it.
    fn visit(
        &self,
        (state, mut effective): Place,
        used: Numbers,
        seen: &mut Configurations,
        work: &mut Vec<(Place, Numbers)>,
    ) {
        let mut states = Vec::new();
        for &read in &self.under_way {
            let action = &self.actions[read as usize];
            if action.is_read() && effective.binary_search(&read).is_err() {
                states.clear();
                action.apply(state, &mut states);
                if !states.is_empty() {
                    effective = with(&effective, read);
                }
            }
        }
        if seen.insert((state, effective.clone()), used.clone()) {
            work.push(((state, effective), used));
        }
    }
}
