//! From a load's measurements to a report.

use crate::failures::explained;
use crate::load::{Measured, Pacing, Plan, Totals};
use crate::report::{Disturbance, Interval, Load, Machine, Report};
use crate::words::{count, counted};
use std::collections::BTreeMap;

/// A report's parts from outside the load.
#[derive(Clone, Debug, Default)]
pub struct Setting {
    /// Shares of a processor by process.
    pub cpu_limits: Option<BTreeMap<String, f64>>,
    /// The processors of restricted processes.
    pub cpu_lists: Option<BTreeMap<String, String>>,
    /// The move's interval in the timeline.
    pub migration: Option<Interval>,
}

/// The report of a measured load; a migration's driver fills in the rest.
pub fn report(plan: &Plan, measured: &Measured, setting: Setting) -> Report {
    let Measured { timeline, totals, .. } = measured;
    let (throughput, latency_us) = timeline.parts(setting.migration);
    let moves = setting.migration.is_some();
    let machine = machine(measured.disturbance, setting.cpu_limits, setting.cpu_lists);
    let is_watched = machine.disturbance.is_some_and(|seen| seen.longest_still_ms.is_some());
    let mut report = Report {
        workload: plan.workload.name().to_owned(),
        records: plan.records,
        value_bytes: plan.values.value_bytes() as u64,
        seed: plan.seed,
        machine,
        load: Load {
            kind: if matches!(plan.pacing, Pacing::Open(_)) { "open" } else { "closed" }.to_owned(),
            rate: if let Pacing::Open(rate) = plan.pacing { Some(rate) } else { None },
            client: plan.client.name().to_owned(),
            clients: plan.clients,
            separate_clients: plan.separate_clients,
            tracking: plan.tracking,
            outstanding: plan.outstanding,
            threads: plan.threads,
            key_bytes: plan.keys.key_bytes() as u64,
            distribution: plan.distribution.to_string(),
        },
        migration: setting.migration,
        throughput,
        latency_us,
        mean_latency_by_node_us: moves.then(|| timeline.by_node()),
        relief_ms: setting.migration.and_then(|migration| timeline.relief_ms(migration)),
        timeline: timeline.points(moves, true),
        ..Report::default()
    };
    if !is_watched {
        let why = "it takes the right to raise a thread's priority (root), and clients without a quota";
        report.say_unmeasured("machine.disturbance.longest_still_ms", why);
    }
    add_totals(&mut report, totals);
    report.extra_bytes.client_side = Some(totals.extra_bytes);
    if moves {
        report.double_reads = Some(totals.double_reads);
        report.single_target_reads = Some(totals.single_target_reads);
        report.single_source_reads = Some(totals.single_source_reads);
        report.client.sph_bytes_max = Some(totals.sph_bytes_max);
        if totals.lookups > 0 {
            report.client.mcr_sph_lookup_ns = Some(totals.lookups_ns as f64 / totals.lookups as f64);
        }
    }
    report
}

/// A run's surroundings.
pub(crate) fn machine(
    disturbance: Disturbance,
    cpu_limits: Option<BTreeMap<String, f64>>,
    cpu_lists: Option<BTreeMap<String, String>>,
) -> Machine {
    let disturbance = Some(believed(disturbance, cpu_limits.as_ref()));
    Machine { cores: crate::machine::cores(), cpu_limits, cpu_lists, disturbance }
}

/// The trusted part of the host's disturbance: the watcher runs among the clients, and waits for their
/// quota too.
fn believed(mut seen: Disturbance, cpu_limits: Option<&BTreeMap<String, f64>>) -> Disturbance {
    if cpu_limits.is_some_and(|limits| limits.contains_key("clients")) {
        (seen.longest_still_ms, seen.still_ms) = (None, None);
    }
    seen
}

/// Takes in what reading every record back has shown: records whose last acknowledged write is missing, with
/// anything in its place.
pub fn note_read_back(report: &mut Report, back: &Totals) {
    report.lost_writes = Some(back.wrong_values());
    if back.reads < report.records {
        report.lost_writes = report.lost_writes.filter(|&lost| lost > 0);
        let (read, records) = (count(back.reads), counted(report.records, "record"));
        let what = format!("only {read} of {records} could be read back");
        report.say_unmeasured("lost_writes", &explained(&what, &back.errors, &back.troubles));
    }
    add_totals(report, &Totals { wrong: Default::default(), ..back.clone() });
}

/// Adds a phase's errors and wrong values.
pub fn add_totals(report: &mut Report, totals: &Totals) {
    for (kind, number) in &totals.errors {
        *report.errors.entry(kind.clone()).or_default() += number;
    }
    report.wrong_values += totals.wrong_values();
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stand_stills_are_believed_unless_the_clients_have_a_quota() {
        let seen = Disturbance { longest_still_ms: Some(3.0), still_ms: Some(5.0), ..Disturbance::default() };
        let limits = |names: &[&str]| names.iter().map(|&name| (name.to_owned(), 0.4)).collect();
        assert_eq!(believed(seen, None), seen);
        assert_eq!(believed(seen, Some(&limits(&["source", "target"]))), seen);
        let believed = believed(seen, Some(&limits(&["source", "clients"])));
        assert_eq!((believed.longest_still_ms, believed.still_ms), (None, None));
        assert_eq!(believed.stolen, seen.stolen);
    }
}
