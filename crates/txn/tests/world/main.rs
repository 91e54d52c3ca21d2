//! Transactions in a small world: nodes with keys that move, clients that die, messages that are lost or very
//! late. One seed draws everything. What happened is judged for strict serializability.

mod client;
mod named_faults;
mod node;
mod scripted;
mod world;

use world::{Met, World};

fn run(seed: u64) -> Met {
    World::new(seed).run()
}

/// Seeds of the usual test.
const SEEDS: u64 = 200;

#[test]
fn transactions_are_strictly_serializable() {
    let mut met = Met::default();
    for seed in 0..SEEDS {
        met.add(run(seed));
    }
    println!("{met:?}");
    // Otherwise the seeds show less than this test claims.
    assert!(met.committed > 20_000 && met.committed_over_parts > 10_000, "{met:?}");
    assert!(
        met.locked > 2_000 && met.waited > 10_000 && met.changed > 1_000 && met.refused > 1_000,
        "{met:?}"
    );
    assert!(met.unknown > 2 && met.died > 500 && met.late > 2_000, "{met:?}");
    assert!(met.helped > 500 && met.helped_commits > 300, "{met:?}");
    assert!(met.moved_while_locked > 300 && met.replies_found > 500, "{met:?}");
}

#[test]
fn the_same_seed_does_the_same() {
    for seed in [1, 2, 3] {
        assert_eq!(run(seed), run(seed));
    }
}
