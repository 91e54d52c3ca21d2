//! The real metadata store on the simulated disk: after any disk fault it loads the last commit, or one that
//! was in progress.

use sidle_cluster::{ClusterId, Incarnation, MetaStore, Metadata, NodeInfo, TabletMap};
use sidle_sim::disk::{Disk, DiskMood};
use sidle_sim::ledger::Ledger;
use sidle_sim::{Drawn, Story, run};
use sidle_testbed::Random;
use sidle_testbed::fixtures::node_info;
use sidle_types::MigrationId;

fn metadata(next: u64) -> Metadata {
    let first = NodeInfo { incarnation: Incarnation(next), ..node_info(7) };
    let new = Metadata::new(ClusterId::from_bits(9), TabletMap::founded_by(first));
    Metadata { next_migration: MigrationId(next), ..new }
}

fn mood(random: &mut Random) -> DiskMood {
    match random.below(6) {
        0 => DiskMood::Full { writes: random.below(40) },
        1 => DiskMood::FailsAfterWriting,
        2 => DiskMood::ForgetsWrites { syncs: random.below(6) },
        3 => DiskMood::Slow { sync_us: 1_000 },
        _ => DiskMood::Good,
    }
}

/// The monitored store asserts that it never loads uncommitted data.
#[test]
fn a_crash_anywhere_leaves_the_old_or_the_new_metadata() {
    let (mut failed_opens, mut failed_commits) = (0, 0);
    for seed in 0..60 {
        let mut random = Random::new(seed);
        let disk = Disk::new(10, random.fork());
        let mut next = 0;
        for _life in 0..6 {
            disk.set_mood(mood(&mut random));
            if let Ok(mut store) = Ledger::open(&disk).and_then(|mut store| store.load().map(|_| store)) {
                for _commit in 0..random.below(8) {
                    if random.one_in(2) {
                        disk.settle();
                    }
                    next += 1;
                    if random.one_in(3) {
                        disk.set_mood(mood(&mut random));
                    }
                    failed_commits += u32::from(store.commit(&metadata(next)).is_err());
                }
                disk.crash(random.one_in(2), &mut random);
            } else {
                failed_opens += 1;
                disk.settle();
            }
        }
        disk.set_mood(DiskMood::Good);
        let mut store = Ledger::open(&disk).expect("the disk is sound");
        store.load().expect("the disk is sound");
    }
    assert!(failed_opens > 10 && failed_commits > 10, "{failed_opens} {failed_commits}");
}

/// After a failed commit the process reads back pages that are not on the disk, and never will be: no later
/// sync writes them.
#[test]
fn what_a_failed_sync_forgot_is_not_built_on() {
    for seed in 0..40 {
        let mut random = Random::new(seed);
        let disk = Disk::new(10, random.fork());
        let mut store = Ledger::open(&disk).unwrap();
        store.load().unwrap();
        store.commit(&metadata(1)).unwrap();
        disk.settle();
        disk.set_mood(DiskMood::ForgetsWrites { syncs: random.below(2) });
        store.commit(&metadata(2)).unwrap_err();
        disk.set_mood(DiskMood::Good);
        if random.one_in(2) {
            disk.crash(false, &mut random);
            store = Ledger::open(&disk).unwrap();
            store.load().unwrap();
        }
        store.commit(&metadata(3)).unwrap();
        disk.settle();
        disk.crash(true, &mut random);
        let mut store = Ledger::open(&disk).unwrap();
        assert_eq!(store.load().unwrap(), Some(metadata(3)));
    }
}

#[test]
fn a_seed_with_the_real_store_under_it_is_the_same_every_time() {
    for seed in 1..6 {
        let once = run(seed, Drawn::default(), Story::silent()).unwrap();
        let again = run(seed, Drawn::default(), Story::silent()).unwrap();
        assert_eq!(once, again);
    }
}
