//! A client: it reads some keys one by one, and then has a transaction append to some of them, if none has
//! changed meanwhile.

use crate::node::{Commands, name};
use crate::world::KEYS;
use sidle_history::list_append::{Fate, Step, Transaction};
use sidle_testbed::Random;
use sidle_txn::{Age, Coordinator, Part, TransactionId};
use sidle_types::{MonotonicUs, WallMs};

/// A transaction in the making.
#[derive(Debug)]
pub(crate) struct Draft {
    /// Where it stands in the history.
    pub(crate) number: usize,
    pub(crate) keys: Vec<u64>,
    pub(crate) tokens: Vec<Option<u64>>,
    pub(crate) read: Vec<Vec<u64>>,
}

impl Draft {
    pub(crate) fn new(random: &mut Random, number: usize, last_token: &mut u64) -> Draft {
        let mut keys: Vec<u64> = (0..KEYS).collect();
        let count = 1 + random.index(3);
        (0..count).for_each(|place| keys.swap(place, place + random.index(KEYS as usize - place)));
        keys.truncate(count);
        let mut tokens: Vec<Option<u64>> = Vec::new();
        let reads_only = random.one_in(6);
        for _ in &keys {
            *last_token += 1;
            tokens.push((!reads_only && !random.one_in(3)).then_some(*last_token));
        }
        Draft { number, keys, tokens, read: Vec::new() }
    }

    /// What it does, for the history.
    pub(crate) fn steps(&self) -> Vec<Step> {
        let mut steps = Vec::new();
        for ((&key, token), read) in self.keys.iter().zip(&self.tokens).zip(&self.read) {
            steps.push(Step::Read { key, tokens: read.clone() });
            steps.extend(token.map(|token| Step::Append { key, token }));
        }
        steps
    }

    /// Begins to commit it, with a part for each node.
    pub(crate) fn commit(
        mut self,
        now: MonotonicUs,
        issued: WallMs,
        age: Age,
        id: TransactionId,
        owner: impl Fn(u64) -> usize,
    ) -> (Coordinator, Vec<Commands>) {
        let mut steps: Vec<(u64, Vec<u64>, Option<u64>)> = Vec::new();
        for (place, &key) in self.keys.iter().enumerate() {
            steps.push((key, std::mem::take(&mut self.read[place]), self.tokens[place]));
        }
        steps.sort_by_key(|&(key, ..)| (owner(key), key));
        let keys = steps.iter().map(|&(key, ..)| name(key).into()).collect();
        let first = steps[0].0;
        let all: Vec<u64> = steps.iter().map(|&(key, ..)| key).collect();
        let (mut parts, mut commands) = (Vec::new(), Vec::new());
        for steps in steps.chunk_by(|(one, ..), (other, ..)| owner(*one) == owner(*other)) {
            let begin = parts.last().map_or(0, |part: &Part| part.keys.end);
            parts.push(Part { keys: begin..begin + steps.len() });
            commands.push((begin, steps.to_vec()));
        }
        let is_alone = parts.len() == 1;
        let list = if is_alone { vec![first] } else { all };
        let commands = commands.into_iter().map(|(begin, steps)| Commands {
            id,
            issued,
            age,
            is_alone,
            first,
            list: if begin == 0 { list.clone() } else { Vec::new() },
            steps,
        });
        (Coordinator::begin(now, id, keys, parts), commands.collect())
    }
}

/// A transaction whose fate nobody knows yet.
pub(crate) fn called(call: u64, steps: Vec<Step>) -> Transaction {
    Transaction { call, fate: Fate::Unknown, steps }
}
