//! The verdict on small histories of transactions, beside that of trying every order.

use crate::generated::{KEYS, falsify, right};
use sidle_history::list_append::{Fate, Step, Transaction, check};
use sidle_testbed::Random;

/// Whether the transactions can have taken place in this order.
fn explains(order: &[usize], history: &[Transaction]) -> bool {
    let mut lists = vec![Vec::new(); KEYS as usize];
    order.iter().all(|&number| {
        history[number].steps.iter().all(|step| match step {
            Step::Append { key, token } => {
                lists[*key as usize].push(*token);
                true
            }
            Step::Read { key, tokens } => lists[*key as usize] == *tokens,
        })
    })
}

/// Whether any order explains all: one that has everybody behind those who had returned before.
fn is_explained(order: &mut Vec<usize>, history: &[Transaction]) -> bool {
    if (0..history.len()).all(|number| order.contains(&number) || history[number].fate == Fate::Unknown)
        && explains(order, history)
    {
        return true;
    }
    for next in 0..history.len() {
        let had_returned = |other: usize| match history[other].fate {
            Fate::Committed(at) => at < history[next].call,
            Fate::Aborted | Fate::Unknown => false,
        };
        let is_early = (0..history.len()).any(|other| had_returned(other) && !order.contains(&other));
        if order.contains(&next) || is_early {
            continue;
        }
        order.push(next);
        let is_explained = explains(order, history) && is_explained(order, history);
        order.pop();
        if is_explained {
            return true;
        }
    }
    false
}

#[test]
fn agrees_with_trying_every_order() {
    let (mut explained, mut not) = (0, 0);
    for seed in 0..6_000 {
        let mut random = Random::new(seed);
        let mut history = right(&mut random, 5);
        assert_eq!(check(&history), Ok(()), "seed {seed}: {history:#?}");
        falsify(&mut random, &mut history);
        let verdict = check(&history);
        let is_explained = is_explained(&mut Vec::new(), &history);
        assert_eq!(verdict.is_ok(), is_explained, "seed {seed}: {verdict:?} of {history:#?}");
        explained += u32::from(is_explained);
        not += u32::from(!is_explained);
    }
    println!("{explained} can be explained, {not} cannot");
    assert!(explained > 1_000 && not > 500, "{explained} can be explained, {not} cannot");
}
