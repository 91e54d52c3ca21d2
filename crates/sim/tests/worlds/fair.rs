//! Simulations without faults: what their machines do, and what the judges excuse.

use sidle_sim::{Plan, Simulation, Story};

/// The seed's plan, without faults.
fn fair(seed: u64) -> Plan {
    let mut plan = Plan::of_cluster(seed);
    plan.nemesis.rest_us = 0;
    plan.replacements.clear();
    plan
}

#[test]
fn workers_tick_however_often_they_are_woken_meanwhile() {
    for seed in 1..6 {
        let plan = fair(seed);
        let workers: Vec<_> = plan.hosts.iter().map(|host| (u64::from(host.workers), host.tick_us)).collect();
        let summary = Simulation::new(seed, plan, Story::silent()).run().unwrap();
        let ticks = |(workers, tick_us)| workers * (summary.simulated_us / tick_us - 1);
        let due: u64 = workers.into_iter().map(ticks).sum();
        let ticked = summary.met["ticks"];
        assert!(due > 0 && ticked >= due, "seed {seed}: {ticked} of {due}");
    }
}

/// Seeds in which a command waits long under a bound. In one it waits for its key's turn, as nothing is
/// pulled ahead; in two for everything, at workers that nothing wakes in between.
#[test]
fn commands_wait_for_their_keys_turns_as_long_as_a_bound_makes_them() {
    for (seed, bytes_per_s, tick_us) in
        [(93, 10_000, 2_000_000), (81, 10_000, 20_000_000), (99, 10_000, 20_000_000)]
    {
        let mut plan = fair(seed);
        // Large values would take longer under the bound than the simulation lasts.
        plan.workload.large_permille = 0;
        for host in &mut plan.hosts {
            (host.max_bytes_per_s, host.tick_us) = (Some(bytes_per_s), tick_us);
        }
        let run = Simulation::new(seed, plan, Story::silent()).run();
        assert_eq!(run.err(), None, "seed {seed}");
    }
}
