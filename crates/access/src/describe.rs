//! The rules that make a selector again, as Redis 7.0 finds them from what is allowed.
//!
//! It takes the categories that fit best first, and then names the commands that are still otherwise. Redis
//! names those in the order of a random hash table; here they stand in the catalogue's.

use crate::catalogue::{CATEGORIES, Catalogue, Categories, CommandIndex};
use crate::selector::{KeyPattern, Selector};

impl KeyPattern {
    fn write(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(match (self.reads, self.writes) {
            (true, true) => b"~",
            (true, false) => b"%R~",
            _ => b"%W~",
        });
        out.extend_from_slice(&self.pattern);
    }
}

fn joined(parts: impl Iterator<Item = Vec<u8>>) -> Vec<u8> {
    parts.collect::<Vec<_>>().join(&b' ')
}

/// The rules of its keys.
pub(crate) fn keys(selector: &Selector) -> Vec<u8> {
    if selector.has_all_keys {
        return b"~*".to_vec();
    }
    joined(selector.keys.iter().map(|pattern| {
        let mut rule = Vec::new();
        pattern.write(&mut rule);
        rule
    }))
}

/// The rules of its channels.
pub(crate) fn channels(selector: &Selector) -> Vec<u8> {
    if selector.has_all_channels {
        return b"&*".to_vec();
    }
    joined(selector.channels.iter().map(|pattern| [b"&", pattern.as_slice()].concat()))
}

/// All of its rules.
pub(crate) fn all(selector: &Selector, catalogue: &Catalogue) -> Vec<u8> {
    let reset: &[u8] = if selector.has_all_channels { b"" } else { b"resetchannels" };
    let parts = [keys(selector), reset.to_vec(), channels(selector), commands(selector, catalogue)];
    joined(parts.into_iter().filter(|part| !part.is_empty()))
}

/// The rules of its commands.
pub(crate) fn commands(selector: &Selector, catalogue: &Catalogue) -> Vec<u8> {
    let adds = !selector.has_later_commands;
    let (start, sign): (&[u8], u8) = if adds { (b"-@all", b'+') } else { (b"+@all", b'-') };
    let mut rules = vec![start.to_vec()];
    let mut made = Selector::default();
    made.apply(catalogue, start).expect("it is a rule");
    // What is yet to be explained.
    let mut left = selector.clone();
    let mut applied = [false; CATEGORIES.len()];
    while let Some(best) = best_fit(&left, catalogue, adds, &applied) {
        applied[best] = true;
        let category = Categories::at(best);
        made.set_all_of(catalogue, category, adds);
        left.set_all_of(catalogue, category, !adds);
        rules.push([&[sign, b'@'], CATEGORIES[best].as_bytes()].concat());
    }
    for command in catalogue.all().filter(|command| !catalogue.listed(*command).is_subcommand) {
        name(selector, &mut made, catalogue, command, &mut rules);
        let subcommands = catalogue.listed(command).subcommands.clone();
        subcommands.for_each(|at| name(selector, &mut made, catalogue, CommandIndex(at), &mut rules));
        if !selector.has(command) {
            for argument in selector.first_arguments.get(&command).into_iter().flatten() {
                let own = catalogue.listed(command).name.as_bytes();
                rules.push([b"+", own, b"|", argument].concat());
            }
        }
    }
    joined(rules.into_iter())
}

/// Names a command if it is not as the rules so far make it.
fn name(
    selector: &Selector,
    made: &mut Selector,
    catalogue: &Catalogue,
    command: CommandIndex,
    rules: &mut Vec<Vec<u8>>,
) {
    let allowed = selector.has(command);
    if allowed != made.has(command) {
        let sign: &[u8] = if allowed { b"+" } else { b"-" };
        rules.push([sign, catalogue.listed(command).name.as_bytes()].concat());
        made.set(catalogue, command, allowed);
    }
}

/// The category with the fewest commands that would become wrong, and of these the most that become right.
fn best_fit(
    left: &Selector,
    catalogue: &Catalogue,
    adds: bool,
    applied: &[bool; CATEGORIES.len()],
) -> Option<usize> {
    let mut best: Option<(usize, usize, usize)> = None;
    for number in (0..CATEGORIES.len()).filter(|&number| !applied[number]) {
        let (mut same, mut other) = (0, 0);
        for command in catalogue.all() {
            if catalogue.listed(command).categories.touches(Categories::at(number)) {
                if left.has(command) == adds { same += 1 } else { other += 1 }
            }
        }
        let is_better = best.is_none_or(|(_, least_other, most_same)| {
            other < least_other || other == least_other && same > most_same
        });
        if same > other && is_better {
            best = Some((number, other, same));
        }
    }
    best.map(|(number, ..)| number)
}
