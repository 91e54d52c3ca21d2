//! The totals over all seeds.

use sidle_sim::Summary;
use std::collections::BTreeMap;
use std::time::Duration;

/// The totals over all seeds.
#[derive(Default)]
pub(crate) struct Totals {
    /// How many were run.
    pub(crate) seeds: u64,
    /// Those that failed.
    pub(crate) failed: Vec<u64>,
    simulated_us: u64,
    operations: u64,
    migrations: u64,
    troubles: u64,
    deaths: u64,
    undecided: usize,
    /// How long simulations with each number of nodes took, and how long they lasted on their own clocks.
    by_nodes: BTreeMap<usize, (Duration, u64)>,
    /// How often each thing was met, and in how many seeds.
    met: BTreeMap<&'static str, (u64, u64)>,
}

impl Totals {
    /// Adds a run and the time that it took.
    pub(crate) fn add(&mut self, summary: &Summary, took: Duration) {
        let (all, simulated_us) = self.by_nodes.entry(summary.nodes).or_default();
        *all += took;
        *simulated_us += summary.simulated_us;
        self.simulated_us += summary.simulated_us;
        self.operations += summary.answered;
        self.migrations += summary.migrations;
        self.troubles += summary.troubles;
        self.deaths += summary.deaths;
        self.undecided += summary.undecided;
        for (&what, &times) in summary.met.iter().filter(|(_, times)| **times > 0) {
            let (sum, seeds) = self.met.entry(what).or_default();
            *sum += times;
            *seeds += 1;
        }
    }

    /// Prints how often each thing was met.
    pub(crate) fn print_met(&self) {
        self.met.iter().for_each(|(what, (sum, seeds))| println!("{what}: {sum} in {seeds} seeds"));
    }

    /// Prints the sums. `took`: the time for all of them, on this many parallel threads.
    pub(crate) fn print(&self, took: Duration, threads: usize) {
        let seconds = took.as_secs_f64();
        let all_threads: Duration = self.by_nodes.values().map(|(took, _)| *took).sum();
        for (nodes, (took, simulated_us)) in &self.by_nodes {
            let speed = *simulated_us as f64 / 1e6 / took.as_secs_f64();
            // As if these had used all threads alone.
            let together = speed * all_threads.as_secs_f64() / seconds;
            println!(
                "{nodes} nodes: {speed:.0} simulated seconds a second on one thread, {together:.0} on {threads}"
            );
        }
        println!(
            "{} seeds in {seconds:.1} s ({:.1} a second, {:.0} simulated seconds a second): {} operations answered, {} migrations \
             begun, {} troubles, {} deaths, {} keys undecided, {} seeds failed",
            self.seeds,
            self.seeds as f64 / seconds,
            self.simulated_us as f64 / 1e6 / seconds,
            self.operations,
            self.migrations,
            self.troubles,
            self.deaths,
            self.undecided,
            self.failed.len(),
        );
    }
}
