//! Counts and bounds against a plain map, for random streams of every kind.

use sidle_heat::{Hot, SpaceSaving, Summary, TRACKED, Usage};
use sidle_testbed::Random;
use sidle_types::Position;
use std::collections::BTreeMap;

/// A stream's truth beside what was counted.
#[derive(Default)]
struct Counted {
    table: SpaceSaving,
    truth: BTreeMap<Position, u64>,
}

impl Counted {
    fn add(&mut self, position: Position, amount: u64) {
        let usage = Usage { operations: amount, ..Usage::default() };
        self.table.add(position, &position.0.to_le_bytes(), amount, usage);
        *self.truth.entry(position).or_default() += amount;
    }

    /// Positions drawn with a skew: mostly few, sometimes any of `keys`.
    fn random(random: &mut Random, keys: u64, length: usize) -> Counted {
        let mut counted = Counted::default();
        for _ in 0..length {
            let key = random.magnitude(1, keys);
            // Many share a chain.
            let position = Position(key << (8 * random.between(0, 1)));
            let amount = [1, 1, 64, random.below(1000)][random.index(4)];
            counted.add(position, amount);
        }
        counted
    }
}

/// S1, and the order.
fn check(summary: &Summary, truth: &BTreeMap<Position, u64>) {
    let listed: BTreeMap<Position, &Hot> = summary.hottest().iter().map(|hot| (hot.position, hot)).collect();
    assert_eq!(listed.len(), summary.hottest().len(), "each position once");
    for (position, &count) in truth {
        match listed.get(position) {
            Some(hot) => {
                assert!((hot.at_least()..=hot.count).contains(&count), "{position}: {hot:?}, {count}");
                assert!(hot.usage.operations <= count, "{position}: {hot:?}, {count}");
                assert_eq!(hot.key.bytes(), position.0.to_le_bytes());
            }
            None => assert!(count <= summary.absent(), "{position}: {count}, {}", summary.absent()),
        }
    }
    assert_eq!(summary.total().operations, truth.values().sum::<u64>());
    assert!(summary.hottest().is_sorted_by(|one, next| one.at_least() >= next.at_least()));
}

#[test]
fn what_a_table_lists_is_within_its_bounds() {
    for seed in 0..60 {
        let mut random = Random::new(seed);
        let keys = [10, 250, 300, 5_000, 1 << 40][random.index(5)];
        let length = random.magnitude(1, 30_000) as usize;
        let Counted { mut table, truth } = Counted::random(&mut random, keys, length);
        let summary = table.summary();
        check(&summary, &truth);
        // S2
        let counts: u64 = summary.hottest().iter().map(|hot| hot.count).sum();
        assert_eq!(counts, table.total().operations);
        // What has more than its share of everything is there.
        let share = counts / TRACKED as u64;
        let is_listed = |position| summary.hottest().iter().any(|hot| hot.position == position);
        assert!(truth.iter().all(|(&position, &count)| count <= share || is_listed(position)), "seed {seed}");
        table.clear();
        assert_eq!(table.summary(), Summary::default());
    }
}

#[test]
fn few_positions_are_counted_exactly() {
    let mut counted = Counted::default();
    (0..10_000_u64).for_each(|number| counted.add(Position(number % TRACKED as u64), number));
    let summary = counted.table.summary();
    assert_eq!(summary.absent(), 0);
    assert!(summary.hottest().iter().all(|hot| hot.error == 0));
    check(&summary, &counted.truth);
}

#[test]
fn merged_and_shortened_summaries_keep_their_bounds() {
    for seed in 0..40 {
        let mut random = Random::new(seed);
        let mut truth: BTreeMap<Position, u64> = BTreeMap::new();
        let mut parts = Vec::new();
        for _ in 0..random.between(1, 6) {
            let keys = random.magnitude(10, 10_000);
            let length = random.magnitude(1, 10_000) as usize;
            let part = Counted::random(&mut random, keys, length);
            part.truth.iter().for_each(|(&position, &count)| *truth.entry(position).or_default() += count);
            let mut summary = part.table.summary();
            summary.shorten([32, 128, TRACKED][random.index(3)]);
            check(&summary, &part.truth);
            parts.push(summary);
        }
        let mut merged = Summary::merged(&parts);
        check(&merged, &truth);
        // In any order, and in steps.
        parts.reverse();
        let stepwise = parts.iter().fold(Summary::default(), |sum, part| Summary::merged([&sum, part]));
        assert_eq!(stepwise, merged);
        merged.shorten(40);
        assert!(merged.hottest().len() <= 40);
        check(&merged, &truth);
    }
}
