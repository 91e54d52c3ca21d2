//! Random runs: whatever is lost, cut or delayed, each copy that counts has everything that is safe.

use crate::world::{Syncing, World};

/// One run; returns how many commits became safe, and how many changes were decided.
pub(crate) fn run(seed: u64) -> (u64, u64) {
    let syncing = [Syncing::Nobody, Syncing::Copies, Syncing::All][seed as usize / 3 % 3];
    let syncs = syncing != Syncing::Nobody;
    let nodes = 2 + seed as usize % 3;
    let mut world = World::new(seed, nodes, 1 + seed as usize / 2 % 2, syncing);
    let troubles = seed % 5;
    for _ in 0..400 {
        match world.random(24) {
            0..=4 => world.random_commit(),
            5..=9 => {
                world.follow_events(troubles > 0 && seed.is_multiple_of(7));
                world.transmit();
            }
            10..=16 => {
                let wired = world.wired();
                if !wired.is_empty() {
                    let id = wired[world.random(wired.len())];
                    let dies = troubles > 1 && world.random(60) == 0;
                    let dies_after = dies.then(|| world.random(4));
                    world.deliver(id, dies_after);
                    world.answer(id);
                }
            }
            17 | 18 => drop(world.decide()),
            19 | 20 => drop(world.learn()),
            21 => {
                let us = world.random(200_000) as u64;
                world.pass_time(us);
            }
            22 => trouble(&mut world, troubles, syncs),
            _ => {
                let number = world.random(nodes);
                world.restart(number);
                world.introduce();
            }
        }
        world.check();
    }
    (0..nodes).for_each(|number| world.restart(number));
    for _ in 0..4 {
        // Also what was left out again and again.
        world.pass_time(30_000_000);
        world.introduce();
        world.settle();
    }
    world.random_commit();
    world.settle();
    world.check();
    let last = world.safe.0;
    assert!(!world.record.backups.is_empty(), "nobody has a copy");
    let first = world.nodes.iter().take(world.record.backups.len()).map(|node| node.id);
    assert!(first.eq(world.record.backups.iter().copied()), "copies are elsewhere: {:?}", world.record);
    world.random_commit();
    world.settle();
    assert!(world.safe.0 > last, "nothing becomes safe any more");
    (world.safe.0, world.record.epoch)
}

fn trouble(world: &mut World, troubles: u64, syncs: bool) {
    let wired = world.wired();
    if troubles == 0 || wired.is_empty() {
        return;
    }
    let id = wired[world.random(wired.len())];
    match world.random(3 + troubles as usize) {
        0 | 1 => world.cut(id),
        2 => world.kill(id),
        // Where copies are not synced, one that lost its power may lack the end.
        3 if syncs => world.cut_power(id),
        4 => world.cut_power_of_writer(false),
        5 => {
            world.stop_writer();
            world.start_stopped();
            if world.random(2) == 0 {
                world.settle();
                world.random_commit();
                world.settle();
                world.check();
                world.cut_power_of_writer(true);
            }
        }
        _ => world.restart_writer(),
    }
}

#[test]
fn each_copy_that_counts_has_everything_that_is_safe() {
    let (mut commits, mut changes) = (0, 0);
    for seed in 0..1_500 {
        let (more, decided) = run(seed);
        commits += more;
        changes += decided;
    }
    assert!(commits > 50_000 && changes > 3_000, "{commits} commits, {changes} changes");
}
