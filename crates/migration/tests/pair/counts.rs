//! The target counts the keys that have not arrived, each once, whatever happens to the messages.

use crate::model::Op;
use crate::net::Faults;
use crate::protocols::{for_protocols_that, serves_while_it_fills};
use crate::world::{Pair, Setup, key};
use sidle_migration::{ImportPhase, ProtocolChoices};
use sidle_wire::Lane;

const RECORDS: u64 = 5_000;

/// How many keys the target counts while it serves and fills.
fn counted(pair: &Pair) -> u64 {
    let view = pair.import.as_ref().unwrap();
    assert_eq!(view.phase(), ImportPhase::Serving, "the records must still be arriving");
    view.missing_keys() + pair.target.store.len()
}

/// So slow that the records arrive for seconds.
fn slow(protocol: ProtocolChoices) -> Setup {
    let mut setup = Setup::of(protocol);
    setup.tuning.max_bytes_per_s = Some(100_000);
    setup
}

fn set(n: u64) -> Op {
    Op::Set(key(n), b"new".to_vec(), None)
}

#[test]
fn keys_count_once_whatever_is_lost() {
    for_protocols_that(serves_while_it_fills, |protocol| {
        let mut pair = Pair::in_the_middle(slow(protocol), RECORDS, 100);
        assert_eq!(counted(&pair), RECORDS);
        for n in 0..100 {
            // Overwritten blindly, created, deleted, changed.
            pair.client(set(n));
            pair.client(set(RECORDS + n));
            pair.client(Op::Del(key(200 + n)));
            pair.client(Op::Append(key(400 + n), b"!".to_vec()));
        }
        // Written twice before the source was asked about it.
        pair.client(set(7));
        pair.pump();
        for _ in 0..3 {
            pair.net.cut(pair.now.0, Lane::Priority, &mut pair.rng);
            pair.run_us(5_000);
        }
        pair.run_us(400_000);
        assert_eq!(counted(&pair), RECORDS + 100 - 100);
        pair.client(Op::Del(key(0)));
        pair.client(Op::Del(key(RECORDS)));
        pair.run_us(5_000);
        assert_eq!(counted(&pair), RECORDS - 2);
        pair.ends_well();
    });
}

#[test]
fn answers_that_come_twice_or_late_count_once() {
    for_protocols_that(serves_while_it_fills, |protocol| {
        let faults = Faults { to_target_us: (100, 30_000), linger_per_mille: 300, ..Faults::NONE };
        let mut pair = Pair::in_the_middle(Setup { faults, ..slow(protocol) }, RECORDS, 100);
        for n in 0..100 {
            pair.client(set(n));
            pair.run_us(500);
            if n % 20 == 0 {
                pair.net.cut(pair.now.0, Lane::Priority, &mut pair.rng);
            }
        }
        pair.run_us(400_000);
        assert_eq!(counted(&pair), RECORDS);
        pair.ends_well();
    });
}
