//! The verdict on small histories of transactions, beside that of trying every order.

use sidle_history::list_append::{Fate, Step, Transaction, check};
use sidle_testbed::Random;

const KEYS: u64 = 2;

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

/// Transactions that took place one after the other, each at an instant of its interval, and a read of all in
/// the end.
fn right(random: &mut Random) -> Vec<Transaction> {
    let mut lists = vec![Vec::new(); KEYS as usize];
    let (mut history, mut last_token) = (Vec::new(), 0);
    for number in 0..2 + random.below(4) {
        let at = 10 * number;
        let mut steps = Vec::new();
        for _ in 0..1 + random.below(3) {
            let key = random.below(KEYS);
            if random.one_in(2) {
                steps.push(Step::Read { key, tokens: lists[key as usize].clone() });
            } else {
                last_token += 1;
                lists[key as usize].push(last_token);
                steps.push(Step::Append { key, token: last_token });
            }
        }
        let (call, end) = (at.saturating_sub(random.below(25)), at + random.below(25));
        let is_unknown = random.one_in(6);
        let fate = if is_unknown { Fate::Unknown } else { Fate::Committed(end) };
        if is_unknown {
            // Nobody has seen what it read.
            steps.retain(|step| matches!(step, Step::Append { .. }));
        }
        history.push(Transaction { call, fate, steps });
    }
    let read = |key: u64| Step::Read { key, tokens: lists[key as usize].clone() };
    let steps = (0..KEYS).map(read).collect();
    history.push(Transaction { call: 1_000, fate: Fate::Committed(1_001), steps });
    history
}

/// Makes one read show something else, or one transaction return earlier or be called later.
fn falsify(random: &mut Random, history: &mut [Transaction]) {
    let number = random.index(history.len() - 1);
    let transaction = &mut history[number];
    match random.below(3) {
        0 => {
            let reads = transaction.steps.iter_mut().filter_map(|step| match step {
                Step::Read { tokens, .. } => Some(tokens),
                Step::Append { .. } => None,
            });
            if let Some(tokens) = reads.last() {
                tokens.pop();
            }
        }
        1 => transaction.call += 20,
        _ => {
            if let Fate::Committed(at) = &mut transaction.fate {
                *at = at.saturating_sub(20);
            }
        }
    }
    if let Fate::Committed(at) = transaction.fate {
        transaction.call = transaction.call.min(at);
    }
}

#[test]
fn agrees_with_trying_every_order() {
    let (mut explained, mut not) = (0, 0);
    for seed in 0..6_000 {
        let mut random = Random::new(seed);
        let mut history = right(&mut random);
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
