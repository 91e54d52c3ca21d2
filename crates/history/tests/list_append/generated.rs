//! Random histories, right ones and others.

use sidle_history::list_append::{Fate, Step, Transaction};
use sidle_testbed::Random;

/// How many lists there are.
pub(crate) const KEYS: u64 = 2;

/// Transactions that took place one after the other, each at an instant of its interval, and a read of all in
/// the end. At most `most` of them.
pub(crate) fn right(random: &mut Random, most: u64) -> Vec<Transaction> {
    let mut lists = vec![Vec::new(); KEYS as usize];
    let (mut history, mut last_token) = (Vec::new(), 0);
    for number in 0..random.between(2, most) {
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
pub(crate) fn falsify(random: &mut Random, history: &mut [Transaction]) {
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
