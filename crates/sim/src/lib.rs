//! The whole cluster in one thread, on virtual time, drawn from one seed.
//!
//! The simulator drives the server's objects (workers, movers, control threads, the coordinator, the client
//! library's core) through the server's calls. It surrounds them with a simulated network, simulated disks,
//! drifting clocks, and threads with turns at random. Everything depends only on the seed: a run that fails
//! fails again.
//!
//! A run has two phases. In the first, faults occur. In the second none do, and every request and every
//! migration must end within a bound; then everything is read back.

pub mod checks;
pub mod clients;
pub mod clock;
pub mod disk;
pub mod durable;
pub mod host;
pub mod ledger;
pub mod link;
mod met;
pub mod nemesis;
pub mod network;
pub mod plan;
pub mod process;
pub mod simulation;
pub mod story;
pub mod summary;
mod turns;
pub mod workload;
pub mod world;

pub use plan::Plan;
pub use simulation::Simulation;
pub use story::Story;
pub use summary::{Failure, Summary};

use sidle_types::{Fault, World};

/// Runs one seed's simulation, with a fault put back if one is named. A machine's own failed assertion is a
/// failure like any other.
pub fn run(seed: u64, drawn: Drawn, story: Story) -> Result<Summary, Failure> {
    run_and_record(seed, drawn, story).0
}

/// What a seed's simulation is to be.
#[derive(Clone, Copy, Debug, Default)]
pub struct Drawn {
    /// A fault that is put back.
    pub fault: Option<Fault>,
    /// What is simulated. If not given, the world that can show the fault; without a fault, any.
    pub world: Option<World>,
}

/// Does the same, and also returns the simulation with its clients' records.
pub fn run_and_record(
    seed: u64,
    Drawn { fault, world }: Drawn,
    story: Story,
) -> (Result<Summary, Failure>, Simulation) {
    let _in_effect = fault.map(Fault::put_back);
    let plan = match world.or(fault.map(|fault| fault.about().world)) {
        None => Plan::draw(seed),
        Some(World::Cluster) => Plan::of_cluster(seed),
        Some(World::DurableLog) => Plan::of_durable_log(seed),
        Some(World::CopiedLogs) => Plan::of_copied_logs(seed),
        Some(World::Takeovers) => Plan::of_takeovers(seed),
        Some(World::LonelySources) => Plan::of_lonely_sources(seed),
    };
    let mut simulation = Simulation::new(seed, plan, story);
    let run = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| simulation.run()));
    let result = run.unwrap_or_else(|panic| {
        let what = panic.downcast_ref::<String>().cloned();
        let what = what.or_else(|| panic.downcast_ref::<&str>().map(|text| (*text).to_owned()));
        Err(Failure { at_us: 0, violation: checks::Violation::new("assertion", what.unwrap_or_default()) })
    });
    (result, simulation)
}
