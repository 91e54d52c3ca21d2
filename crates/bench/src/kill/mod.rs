//! `sidle demo --kill`: three nodes with copies of their logs, a load, and one of them killed under it.
//!
//! The node that dies has what the load reads and writes: all of it as a migration's source, half of it
//! otherwise. The coordinator's node lives, has nothing of its own at first, and keeps copies.

mod course;
mod trio;
mod victim;

use crate::demo::{DemoError, DemoOptions, check_loaded, plan_of};
use crate::figures::explain_absent;
use crate::load::{Measured, ProbeGaps, Totals, World, load_records, read_back, run_workload};
use crate::outcome::{Setting, note_read_back, report};
use crate::report::{KillFigures, Report};
use crate::terminal::Terminal;
use course::{Course, Recovered};
use std::sync::atomic::AtomicBool;
use trio::Trio;
pub use victim::Victim;

/// Runs the demonstration and returns its report.
///
/// # Errors
/// A node did not start, or was not taken over; the load could not be made.
pub fn run(
    options: &DemoOptions,
    victim: Victim,
    terminal: &Terminal,
    stop: &AtomicBool,
) -> Result<Report, DemoError> {
    let mut nodes = Trio::start(options, victim, terminal)?;
    let world = World::new(plan_of(options, &nodes.addresses())?, stop, None);
    let loaded = load_records(&world, terminal.progress("loading", options.records))?;
    check_loaded(&world, &loaded)?;
    nodes.wait_for_copies()?;

    let gaps = ProbeGaps::default();
    let mut course = Course::new(&world, options, victim, &mut nodes, &gaps, terminal)?;
    let measured = run_workload(&world, Some(&gaps), |tick, timeline| course.tick(tick, timeline))?;
    let recovered = course.finish()?;
    if world.is_stopping() {
        return Err(DemoError::Interrupted);
    }
    let back = read_back(&world, terminal.progress("reading back", options.records))?;
    if world.is_stopping() {
        return Err(DemoError::Interrupted);
    }
    Ok(finished(options, victim, &world, &measured, recovered, &back))
}

fn finished(
    options: &DemoOptions,
    victim: Victim,
    world: &World<'_>,
    measured: &Measured,
    recovered: Recovered,
    back: &Totals,
) -> Report {
    let setting = Setting { migration: Some(recovered.interval), ..Setting::default() };
    let mut report = report(&world.plan, measured, setting);
    if victim.moves() {
        report.protocol = Some(options.protocol.clone());
        report.policy = Some(options.policy);
    }
    let since_kill = |at_ms: f64| at_ms - recovered.interval.from_ms;
    report.kill = Some(KillFigures {
        victim: victim.name().to_owned(),
        at_ms: recovered.interval.from_ms,
        taken_over_ms: since_kill(recovered.taken_over_ms),
        recovered_ms: since_kill(recovered.interval.to_ms),
        recovered_bytes: recovered.bytes,
        migration_end: recovered.migration_end,
    });
    // What was measured of a move is of this one's middle.
    report.mean_latency_by_node_us = None;
    report.relief_ms = None;
    report.longest_gap_ms = recovered.gaps;
    report.write_pause_ms = recovered.write_pause_ms;
    note_read_back(&mut report, back);
    report.cpu_seconds.clients = recovered.clients_cpu_seconds;
    explain_absent(&mut report);
    report
}
