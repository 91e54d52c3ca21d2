//! Seeded random migrations: one seed draws the data, the commands, the faults and their order. Every answer
//! is the model's, and at the end the target's content is, too.

use crate::model::{Bytes, Op};
use crate::net::{End, Faults};
use crate::protocols::{for_every_protocol, for_protocols};
use crate::workers::FrozenRead;
use crate::world::{Outcome, Pair, Setup, key};
use sidle_migration::{OnMissing, ProtocolChoices, Tuning};
use sidle_testbed::Random;
use sidle_types::{HashedKey, Position, PositionRange, ProtocolVersion, Slot, WallMs};

/// An opted-in client's read that the target has not answered.
struct OptedRead {
    key: Bytes,
    /// The source's answer, if any.
    source: Option<FrozenRead>,
    /// The model's answer at the instant of the target's "not here yet".
    target: Option<Option<Bytes>>,
}

const KEYS: u64 = 400;

fn draw_range(rng: &mut Random) -> PositionRange {
    let slots =
        |first, last| PositionRange::of_slots(Slot::new(first).unwrap(), Slot::new(last).unwrap()).unwrap();
    match rng.below(4) {
        0 => PositionRange::ALL,
        1 => slots(0, 8191),
        2 => slots(5_000, 5_000 + rng.below(11_000) as u16),
        // Cut inside slots, so that some slots are at both nodes.
        _ => {
            let cut = Position::of_key(&key(rng.below(KEYS)));
            PositionRange::new(cut, Position::LAST).unwrap()
        }
    }
}

fn draw_faults(rng: &mut Random) -> Faults {
    match rng.below(3) {
        0 => Faults::NONE,
        1 => Faults { lose_per_mille: 0, reorder: false, ..Faults::EVERYTHING },
        _ => Faults::EVERYTHING,
    }
}

fn draw_value(rng: &mut Random) -> Bytes {
    let bytes = match rng.below(20) {
        0 => rng.between(4_000, 30_000),
        1..5 => rng.between(200, 2_000),
        _ => rng.between(0, 100),
    };
    let salt = rng.draw();
    (0..bytes).map(|n| (salt >> (n % 8 * 8)) as u8).collect()
}

fn draw_op(pair: &mut Pair) -> Op {
    let wall = pair.wall.0;
    let rng = &mut pair.rng;
    // Skewed: half of the commands go to a tenth of the keys; some keys never existed.
    let n = if rng.permille(500) { rng.below(KEYS / 10) } else { rng.below(KEYS + 20) };
    let key = key(n);
    match rng.below(20) {
        0..8 => Op::Get(key),
        8..13 => {
            let value = draw_value(rng);
            let expires_at = rng.permille(150).then(|| WallMs(wall + rng.between(1, 40)));
            Op::Set(key, value, expires_at)
        }
        13..16 => Op::Del(key),
        16..18 => Op::Append(key, b"+".to_vec()),
        _ => Op::SetNx(key, draw_value(rng)),
    }
}

/// Continues a read: with one half of a double read, both in any order, or with a retry. Returns whether it
/// is over.
fn advance(pair: &mut Pair, read: &mut OptedRead) -> bool {
    let reads_twice = pair.spec.protocol.missing == OnMissing::SaysNotHereYet;
    let source_first = pair.rng.permille(500);
    if reads_twice && read.source.is_none() && (source_first || read.target.is_some()) {
        read.source = Some(pair.read_frozen(&read.key));
    } else if read.target.is_none() {
        match pair.read_at_target(&read.key) {
            // The source still owns it, or again neither knows that it does.
            Some(Outcome::Redirected) => {
                pair.ask_at(End::Source, Op::Get(read.key.clone()));
                return true;
            }
            // Any other answer of the target is final, and was compared with the model.
            Some(_) => return true,
            None if reads_twice => read.target = Some(pair.model.value(&read.key, pair.wall).cloned()),
            None => return false,
        }
    }
    let (Some(source), Some(at_target)) = (&read.source, &read.target) else { return false };
    if let FrozenRead::Value(value) = source {
        // M4: the target answered "not here yet" to this attempt and the source is frozen for this migration.
        assert_eq!(value, at_target, "a frozen value that was not the newest: {:?}", read.key);
    }
    true
}

/// The source's clients write until the range may be frozen, and a little longer.
fn write_while_it_is_copied(pair: &mut Pair, rng: &mut Random) {
    let writes = rng.between(0, 300);
    let flush_at = rng.permille(200).then(|| rng.below(writes + 1));
    let mut longer = rng.below(30);
    for n in 0.. {
        assert!(n < 1_000_000, "the copy never catches up");
        let is_done = n >= writes && pair.is_caught_up();
        longer -= u64::from(is_done && longer > 0);
        if is_done && longer == 0 {
            return;
        }
        if flush_at == Some(n) {
            pair.ask_at(End::Source, Op::Flush);
        }
        if n < writes || is_done {
            let op = draw_op(pair);
            let outcome = pair.ask_at(End::Source, op);
            assert!(
                matches!(outcome, Outcome::Answered(_)),
                "the source serves, and nobody sees a copy: {outcome:?}"
            );
        }
        if rng.permille(50) {
            pair.wall.0 += rng.below(5);
            pair.expire(End::Source, &key(rng.below(KEYS)));
        }
        (0..rng.below(4)).for_each(|_| {
            pair.step();
        });
    }
}

/// One random migration.
pub(crate) fn run(seed: u64, tuning: Tuning, protocol: ProtocolChoices) {
    let mut rng = Random::new(seed);
    let range = draw_range(&mut rng);
    let mut tuning = tuning;
    if rng.permille(600) {
        tuning.max_bytes_per_s = Some(rng.between(200_000, 20_000_000));
    }
    // Drawn from a separate stream, so that the rest of a seed stays the same.
    let mut pieces_rng = Random::new(seed ^ 0x91ec_e500);
    if pieces_rng.permille(600) {
        tuning.piece_bytes = pieces_rng.between(100, 5_000) as u32;
    }
    let faults = draw_faults(&mut rng);
    let setup = Setup {
        seed: rng.draw(),
        range,
        faults,
        tuning,
        protocol,
        version: if seed.is_multiple_of(3) && protocol.needs() == ProtocolVersion::PREVIOUS {
            ProtocolVersion::PREVIOUS
        } else {
            ProtocolVersion::CURRENT
        },
        source_bytes: 8 << 20,
        target_bytes: 8 << 20,
    };
    let mut pair = Pair::new(setup);
    pair.sampled_percent = [0, 1, 30][rng.below(3) as usize];
    for _ in 0..rng.below(KEYS * 2) {
        let op = draw_op(&mut pair);
        pair.ask_at(End::Source, op);
    }
    // Mostly what the commands go to; some of it is not there, or of another range.
    pair.hot = (0..KEYS / 10).map(|n| HashedKey::new(&key(n)).position()).collect();
    pair.prepare();
    if rng.permille(500) {
        pair.run_us(rng.below(20_000));
    }
    // In an earlier version some protocols copy nothing ahead.
    if pair.spec.protocol.copies_in_preparation() {
        write_while_it_is_copied(&mut pair, &mut rng);
    }
    pair.commit();
    let ops = rng.between(50, 2_000);
    let flush_at = rng.permille(100).then(|| rng.below(ops));
    let mut reads: Vec<OptedRead> = Vec::new();
    for n in 0..ops {
        (0..rng.below(3)).for_each(|_| {
            pair.step();
        });
        if rng.permille(50) {
            pair.wall.0 += rng.below(5);
            let expired = key(rng.below(KEYS));
            pair.expire(if rng.permille(500) { End::Source } else { End::Target }, &expired);
        }
        pair.before_replay = vec![draw_op(&mut pair)];
        if flush_at == Some(n) {
            pair.ask_at(End::Target, Op::Flush);
        }
        let op = draw_op(&mut pair);
        match op {
            Op::Get(key) if rng.permille(500) && range.contains(HashedKey::new(&key).position()) => {
                reads.push(OptedRead { key, source: None, target: None });
            }
            op => {
                let outcome = pair.ask(op);
                assert_ne!(outcome, Outcome::OutOfMemory, "there is room");
            }
        }
        reads.retain_mut(|read| !advance(&mut pair, read));
    }
    pair.before_replay.clear();
    pair.run_to_end();
    pair.check_end();
    pair.check_no_breach();
}

#[test]
fn seeded_migrations_end_as_the_model_does() {
    for_every_protocol(|protocol| (0..300).for_each(|seed| run(seed, Tuning::default(), protocol)));
}

/// Every kind of choice, with values that no protocol has by default.
const WITH_OPTIONS: [&str; 21] = [
    "fulva,sampling=off,partitions=3",
    "fulva,missing=wait,priority-keys=2",
    "fulva,serves=complete",
    "fulva,hot-first=on",
    "fulva,hot-first=on,sampling=off,priority-pulls=0",
    "rocksteady,hot-first=on",
    "zephyr,hot-first=on,missing=wait",
    "rocksteady,missing=wait",
    "rocksteady,missing=frozen,sampling=2",
    "rocksteady,priority-pulls=0,pull-bytes=16384",
    "zephyr,missing=100,priority-keys=4,priority-pulls=2",
    "stop-and-copy,serves=at-once,pace=yield",
    "source-driven,rounds=1,few=0,partitions=1",
    "source-driven,rounds=1000,few=100000,pull-bytes=16384,pace=full",
    "rocksteady,ownership=source",
    "fulva,ownership=source",
    "zephyr,ownership=source,few=0,rounds=2",
    "handoff,uncovered=source,cut-bytes=1",
    "handoff,uncovered=target",
    "handoff,uncovered=load,out-of-turn=2,cut-period=500,cut-bytes=4000",
    "handoff,uncovered=load,out-of-turn=1,cut-period=100000,partitions=2",
];

#[test]
fn seeded_migrations_with_options_end_as_the_model_does() {
    for_protocols(&WITH_OPTIONS, |protocol| {
        (1_000..1_050).for_each(|seed| run(seed, Tuning::default(), protocol));
    });
}
