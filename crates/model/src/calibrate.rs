//! The cost of work on this machine.
//!
//! The state machines' share is timed in a model that runs a migration. It makes the calls of the server and
//! the load generator, on a store larger than the caches. System calls are measured over the loopback
//! interface. A real load and three real moves give the rest: the runtime, waking up, cold caches, and
//! threads that disturb each other. The model is charged this much more processor time, at either end.
//! - One move is not held back: its cost is charged by the byte.
//! - In the others nodes keep asking for records by name. What both cost beyond that is charged to movers'
//!   resumptions after a sleep.
//! - Control threads are charged per task: long moves have many. What they cost in the short move beyond that
//!   is charged to the coordinator's decisions, equally many in each move.
//! - After a move two nodes and the clients share the cores, so a request costs more than on one node with
//!   its own core. That is charged to requests served on a core that others have just used.
//!
//! A virtual machine's speed changes by tens of percent in a minute. So real measurements alternate, and
//! their medians are of the same minute.

#![allow(clippy::disallowed_methods)] // it measures: clocks, sockets, a thread

mod calls;
mod real_costs;

use crate::costs::Costs;
use crate::course::{Course, ModelError, Plan, Taken};
use crate::machines::Machines;
use crate::stopwatch::{ClockNs, Stopwatch};
use calls::Calls;
use real_costs::RealCosts;
use rustix::time::{ClockId, clock_gettime};
use sidle_bench::demo::{DemoError, DemoOptions};
use sidle_bench::machine::own_thread_cpu_ns as thread_cpu_ns;
use sidle_bench::policy::PolicyWord;
use sidle_bench::terminal::Terminal;
use sidle_types::MigrationPolicy;
use sidle_workload::{Distribution, Workload};
use std::io;
use std::sync::atomic::AtomicBool;

/// Records of the timed model: more than the caches hold.
const RECORDS: u64 = 1_000_000;
/// How long its load runs before and after the move.
const MARGIN_NS: u64 = 200_000_000;
/// Records of the real load, and of the model compared with it.
const REAL_RECORDS: u64 = 1_000_000;
/// How long the compared model's load runs.
const COMPARED_NS: u64 = 500_000_000;
/// The part of a processor that each node of the real load may use, where it can be limited: like a lab on
/// two cores.
const NODE_SHARE: f64 = 0.4;
/// Its protocols by name: records move when requested, in batches or singly, with many sleeps between. And
/// the one that moves all at once.
const BY_NAME: [&str; 2] = ["rocksteady", "zephyr"];
const IN_ONE_GO: &str = "stop-and-copy";
/// The initial charge of a control thread for each task.
const CONTROL_NS: u64 = 50_000;
/// The initial charge of the coordinator for a decision.
const COMMIT_NS: u64 = 150_000;
/// How often each is measured: disturbances of the machine last some seconds.
const MEASUREMENTS: usize = 5;
/// How often the model is compared: the cost of requests changes how many of them arrive together.
const COMPARISONS: usize = 3;

/// The most that resuming bulk work costs, whatever a move took: where movers hardly sleep, resumptions do
/// not explain their time.
const RESUME_NS_MAX: u64 = 500_000;
/// If the share of requests on shared cores grows by less than this, they do not explain the requests' higher
/// cost.
const LEAST_SHARED: f64 = 0.2;

/// Why the calibration failed.
#[derive(Debug, thiserror::Error)]
pub enum CalibrationError {
    /// A system call failed.
    #[error("the system calls cannot be measured: {0}")]
    Io(#[from] io::Error),
    /// The timed model failed.
    #[error(transparent)]
    Model(#[from] ModelError),
    /// The real load failed.
    #[error("no load can be made to measure what a request takes: {0}")]
    Load(#[from] DemoError),
}

/// Measures costs on this machine for keys and values of these options' sizes. Takes two minutes on an
/// otherwise idle machine.
///
/// # Errors
/// [`CalibrationError`]: what could not be measured.
pub fn costs(
    options: &DemoOptions,
    terminal: &Terminal,
    stop: &AtomicBool,
) -> Result<Costs, CalibrationError> {
    let by_name = BY_NAME.map(|protocol| load(options, protocol));
    let in_one_go = load(options, IN_ONE_GO);
    let measure = |load: &DemoOptions| real_costs::measure(load, NODE_SHARE, terminal, stop);
    let mut calls = Vec::new();
    let [real @ .., real_in_one_go] = real_costs::medians(MEASUREMENTS, || {
        calls.push(Calls::measure()?);
        let [some, each] = &by_name;
        Ok([measure(some)?, measure(each)?, measure(&in_one_go)?])
    })?;
    let calls = Calls::medians(&calls);
    let micros =
        |of: fn(&RealCosts) -> f64| [&real[0], &real[1], &real_in_one_go].map(|costs| of(costs) / 1000.0);
    let mean =
        |of: fn(&RealCosts) -> f64| [&real[0], &real[1], &real_in_one_go].map(of).iter().sum::<f64>() / 3.0;
    let (noise, after_by_before) = (mean(|costs| costs.noise), mean(|costs| costs.after_by_before));
    let ([node, ..], [client, ..]) = (micros(|costs| costs.node_ns), micros(|costs| costs.client_ns));
    let (pack, replay) = (micros(|costs| costs.pack_ns_per_kib), micros(|costs| costs.replay_ns_per_kib));
    terminal.say(&format!(
        "a request takes {node:.1} us at the node and {client:.1} us at its client; moving a KiB takes {:.1} us at the source and {:.1} us at \
         the target ({}), {:.1} and {:.1} us ({}), in one go {:.1} and {:.1} us; giving it back {:.1} us; after a move a request takes {after_by_before:.2} of before; windows of 100 ms differ by {:.0} %",
        pack[0],
        replay[0],
        BY_NAME[0],
        pack[1],
        replay[1],
        BY_NAME[1],
        pack[2],
        replay[2],
        real[0].release_ns_per_kib / 1000.0,
        noise * 100.0,
    ));
    let watch = timed_model(&by_name[0])?;
    let mut costs = Costs {
        poll_ns: calls.poll_ns,
        sleep_ns: calls.waking.sleep_ns,
        wake_ns: calls.waking.wake_ns,
        core_sleep_ns: calls.waking.core_sleep_ns,
        wake_core_ns: calls.waking.wake_core_ns,
        core_latency_ns: calls.waking.core_latency_ns,
        read_ns: calls.read_ns,
        write_ns: calls.write_ns,
        copy_ns_per_kib: calls.copy_ns_per_kib,
        get_ns: watch.get.mean_ns(),
        set_ns: watch.set.mean_ns(),
        shared_ns: 0,
        ask_get_ns: watch.ask_get.mean_ns() + watch.answer.mean_ns(),
        ask_set_ns: watch.ask_set.mean_ns() + watch.answer.mean_ns(),
        pack_ns_per_kib: watch.pack.ns_per_kib(),
        pick_ns_per_kib: watch.pick.ns_per_kib(),
        replay_ns_per_kib: watch.replay.ns_per_kib(),
        message_ns: watch.message.mean_ns(),
        control_ns: CONTROL_NS,
        commit_ns: COMMIT_NS,
        bulk_resume_ns: 0,
        release_ns: watch.release.mean_ns(),
        noise_thousandths: (noise * 1000.0).round() as u64,
    };
    for _ in 0..COMPARISONS {
        costs = fitted_in_one_go(&in_one_go, costs, real_in_one_go)?;
        costs = fitted(&by_name, costs, real, after_by_before)?;
    }
    Ok(costs)
}

/// A real load and move: the demonstration's, with fewer records.
fn load(options: &DemoOptions, protocol: &str) -> DemoOptions {
    DemoOptions {
        records: REAL_RECORDS,
        workload: Workload::with_write_ratio(5.0),
        distribution: Distribution::Zipf(0.99),
        clients: 64,
        protocol: protocol.to_owned(),
        policy: PolicyWord(MigrationPolicy::Adaptive),
        tracking: true,
        ..options.clone()
    }
}

/// A model of it.
fn plan(load: &DemoOptions, machines: Machines, costs: Costs) -> Plan {
    Plan {
        machines,
        costs,
        protocol: load.protocol.clone(),
        policy: load.policy.0,
        records: load.records,
        sample: load.records,
        key_bytes: load.key_bytes,
        value_bytes: load.value_bytes,
        workload: load.workload.clone(),
        distribution: load.distribution,
        clients: load.clients,
        rate: None,
        tracking: load.tracking,
        before_ns: MARGIN_NS,
        after_ns: MARGIN_NS,
        seed: load.seed,
    }
}

/// The cost of the real load and move in a model.
fn modelled(load: &DemoOptions, costs: Costs, real: RealCosts) -> Result<Taken, ModelError> {
    let share = real.node_share.unwrap_or(1.0);
    let mut machines = Machines::two_cores(share, share);
    // Half a second's noise would be attributed to costs.
    machines.noisy = false;
    if real.node_share.is_none() {
        (machines.source.quota, machines.target.quota) = (None, None);
    }
    let plan = Plan { before_ns: COMPARED_NS, ..plan(load, machines, costs) };
    Course::new(&plan, Stopwatch::default())?.taken(real_costs::MARGIN.as_nanos() as u64)
}

/// A cost plus what the model lacks, or minus its excess.
fn more(cost_ns: u64, lacks_ns: f64) -> u64 {
    (cost_ns as f64 + lacks_ns).max(0.0) as u64
}

/// Costs that give a single-batch move the real processor time.
fn fitted_in_one_go(load: &DemoOptions, costs: Costs, real: RealCosts) -> Result<Costs, ModelError> {
    let taken = modelled(load, costs, real)?;
    Ok(Costs {
        pack_ns_per_kib: more(costs.pack_ns_per_kib, real.pack_ns_per_kib - taken.pack_ns_per_kib),
        replay_ns_per_kib: more(costs.replay_ns_per_kib, real.replay_ns_per_kib - taken.replay_ns_per_kib),
        commit_ns: more(costs.commit_ns, (real.control_ns - taken.control_ns) / taken.commits.max(1.0)),
        ..costs
    })
}

/// Costs that give requests, and moves by name, the real processor time; the moves are fitted together.
fn fitted(
    loads: &[DemoOptions; 2],
    costs: Costs,
    real: [RealCosts; 2],
    after_by_before: f64,
) -> Result<Costs, ModelError> {
    let taken = [modelled(&loads[0], costs, real[0])?, modelled(&loads[1], costs, real[1])?];
    let mean = |lacks: &dyn Fn(&RealCosts, &Taken) -> f64| {
        (lacks(&real[0], &taken[0]) + lacks(&real[1], &taken[1])) / 2.0
    };
    let node_lacks_ns = mean(&|real, taken| real.node_ns - taken.node_ns);
    let worker_lacks_ns = mean(&|_, taken| after_by_before * taken.workers_ns[0] - taken.workers_ns[1]);
    let [shared, shared_after] = [0, 1].map(|part| (taken[0].shared[part] + taken[1].shared[part]) / 2.0);
    // The higher cost of requests after a move is attributed to shared cores.
    let more_shared = (shared_after - shared).max(LEAST_SHARED);
    let shared_ns = more(costs.shared_ns, worker_lacks_ns / more_shared);
    let request_lacks_ns = node_lacks_ns - shared * (shared_ns as f64 - costs.shared_ns as f64);
    let client_lacks_ns = mean(&|real, taken| real.client_ns - taken.client_ns);
    let kib_lacks_ns = mean(&|real, taken| {
        real.pack_ns_per_kib + real.replay_ns_per_kib - taken.pack_ns_per_kib - taken.replay_ns_per_kib
    });
    let release_lacks_ns = mean(&|real, taken| real.release_ns_per_kib - taken.release_ns_per_kib);
    let resumptions_per_kib = mean(&|_, taken| taken.resumptions_per_kib).max(f64::MIN_POSITIVE);
    let releases_per_kib = mean(&|_, taken| taken.releases_per_kib).max(f64::MIN_POSITIVE);
    let control_lacks_ns = mean(&|real, taken| real.control_ns - taken.control_ns);
    let control_turns = mean(&|_, taken| taken.control_turns).max(1.0);
    Ok(Costs {
        control_ns: more(costs.control_ns, control_lacks_ns / control_turns),
        get_ns: more(costs.get_ns, request_lacks_ns),
        set_ns: more(costs.set_ns, request_lacks_ns),
        shared_ns,
        ask_get_ns: more(costs.ask_get_ns, client_lacks_ns),
        ask_set_ns: more(costs.ask_set_ns, client_lacks_ns),
        bulk_resume_ns: more(costs.bulk_resume_ns, kib_lacks_ns / resumptions_per_kib).min(RESUME_NS_MAX),
        release_ns: more(costs.release_ns, release_lacks_ns / releases_per_kib),
        ..costs
    })
}

/// Times the real code in a model of the load.
fn timed_model(load: &DemoOptions) -> Result<Stopwatch, ModelError> {
    // The model's charges matter little: they only shift when the code runs.
    let costs = Costs {
        poll_ns: 500,
        sleep_ns: 2000,
        wake_ns: 0,
        core_sleep_ns: 0,
        wake_core_ns: 0,
        core_latency_ns: 0,
        read_ns: 1000,
        write_ns: 5000,
        copy_ns_per_kib: 200,
        get_ns: 700,
        set_ns: 900,
        shared_ns: 0,
        ask_get_ns: 900,
        ask_set_ns: 1000,
        pack_ns_per_kib: 700,
        pick_ns_per_kib: 3000,
        replay_ns_per_kib: 1000,
        message_ns: 1000,
        control_ns: CONTROL_NS,
        commit_ns: COMMIT_NS,
        bulk_resume_ns: 0,
        release_ns: 50_000,
        noise_thousandths: 0,
    };
    let plan = Plan {
        records: RECORDS,
        sample: RECORDS,
        // Enough reads and writes for a mean.
        workload: Workload::with_write_ratio(20.0),
        ..plan(load, Machines::two_cores(1.0, 1.0), costs)
    };
    let mut course = Course::new(&plan, Stopwatch::by(monotonic_ns as ClockNs))?;
    course.go(&mut |_| true)?;
    Ok(course.model.watch)
}

fn monotonic_ns() -> u64 {
    let time = clock_gettime(ClockId::Monotonic);
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}
