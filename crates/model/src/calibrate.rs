//! What work costs on the present machine.
//!
//! The state machines' share is timed in a model that runs a migration: it makes the calls that the server and the load generator
//! make, on a store that does not fit into the caches. What the system's calls take is measured over the loopback interface.

#![allow(clippy::disallowed_methods)] // it measures: clocks, sockets, a thread

mod calls;

use crate::costs::Costs;
use crate::course::{Course, ModelError, Plan};
use crate::machines::Machines;
use crate::stopwatch::{ClockNs, Stopwatch};
use calls::Calls;
use rustix::time::{ClockId, clock_gettime};
use sidle_types::MigrationPolicy;
use sidle_workload::{Distribution, Workload};
use std::io;

/// Records of the model that is timed: more than the caches hold.
const RECORDS: u64 = 1_000_000;
/// How long its load lasts before and after the move.
const MARGIN_NS: u64 = 200_000_000;

/// Why nothing could be measured.
#[derive(Debug, thiserror::Error)]
pub enum CalibrationError {
    /// The system refused something.
    #[error("the system calls cannot be measured: {0}")]
    Io(#[from] io::Error),
    /// The timed model failed.
    #[error(transparent)]
    Model(#[from] ModelError),
}

/// What work costs here, for keys and values of these sizes. Takes a few seconds on an otherwise idle machine.
///
/// # Errors
/// [`CalibrationError`] says what could not be measured.
pub fn costs(key_bytes: usize, value_bytes: usize) -> Result<Costs, CalibrationError> {
    let calls = Calls::measure()?;
    let watch = timed_model(key_bytes, value_bytes)?;
    Ok(Costs {
        poll_ns: calls.poll_ns,
        sleep_ns: calls.sleep_ns,
        read_ns: calls.read_ns,
        write_ns: calls.write_ns,
        copy_ns_per_kib: calls.copy_ns_per_kib,
        get_ns: watch.get.mean_ns(),
        set_ns: watch.set.mean_ns(),
        ask_get_ns: watch.ask_get.mean_ns() + watch.answer.mean_ns(),
        ask_set_ns: watch.ask_set.mean_ns() + watch.answer.mean_ns(),
        pack_ns_per_kib: watch.pack.ns_per_kib(),
        replay_ns_per_kib: watch.replay.ns_per_kib(),
        message_ns: watch.message.mean_ns(),
    })
}

fn timed_model(key_bytes: usize, value_bytes: usize) -> Result<Stopwatch, ModelError> {
    // What the model is charged matters little: the code does the same, a little sooner or later.
    let costs = Costs {
        poll_ns: 500,
        sleep_ns: 2000,
        read_ns: 1000,
        write_ns: 5000,
        copy_ns_per_kib: 200,
        get_ns: 700,
        set_ns: 900,
        ask_get_ns: 900,
        ask_set_ns: 1000,
        pack_ns_per_kib: 700,
        replay_ns_per_kib: 1000,
        message_ns: 1000,
    };
    let plan = Plan {
        machines: Machines::two_cores(1.0, 1.0),
        costs,
        protocol: "fulva".to_owned(),
        policy: MigrationPolicy::Adaptive,
        records: RECORDS,
        sample: RECORDS,
        key_bytes,
        value_bytes,
        workload: Workload::with_write_ratio(20.0),
        distribution: Distribution::Zipf(0.99),
        clients: 64,
        tracking: true,
        margin_ns: MARGIN_NS,
        seed: 1,
    };
    let mut course = Course::new(&plan, Stopwatch::by(monotonic_ns as ClockNs))?;
    course.go(&mut |_| true)?;
    Ok(course.model.watch)
}

fn ns(clock: ClockId) -> u64 {
    let time = clock_gettime(clock);
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

fn monotonic_ns() -> u64 {
    ns(ClockId::Monotonic)
}

fn thread_cpu_ns() -> u64 {
    ns(ClockId::ThreadCPUTime)
}
