//! The checkers detect faults that are put back into whole machines.

use sidle_sim::{Plan, Simulation, Story};
use sidle_types::Fault;

/// The checks of clients' answers.
const OF_CLIENTS: [&str; 3] = ["acknowledged", "linearizability", "deadlines"];

/// The first of these seeds that fails with the fault, and the violation.
fn first_failure(fault: Option<Fault>, seeds: std::ops::Range<u64>) -> Option<(u64, &'static str)> {
    let _in_effect = fault.map(Fault::put_back);
    seeds.into_iter().find_map(|seed| {
        let mut simulation = Simulation::new(seed, Plan::of_cluster(seed), Story::silent());
        Some((seed, simulation.run().err()?.violation.check))
    })
}

#[test]
fn progress_before_replay_is_seen_before_the_replay() {
    let (_, check) = first_failure(Some(Fault::ProgressBeforeReplay), 1..30).unwrap();
    assert_eq!(check, "progress (M7)");
}

#[test]
fn what_replay_overwrites_comes_back_to_the_clients() {
    let (_, check) = first_failure(Some(Fault::ReplayOverwrites), 1..60).unwrap();
    assert!(OF_CLIENTS.contains(&check), "{check}");
}

#[test]
fn what_was_removed_without_a_tombstone_comes_back_to_the_clients() {
    let (_, check) = first_failure(Some(Fault::NoTombstones), 1..60).unwrap();
    assert!(OF_CLIENTS.contains(&check), "{check}");
}

#[test]
fn sound_machines_pass() {
    assert_eq!(first_failure(None, 1..20), None);
}
