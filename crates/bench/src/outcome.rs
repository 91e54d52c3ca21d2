//! From what a load measured to a report.

use crate::load::{Measured, Pacing, Plan, Totals};
use crate::report::{Interval, Load, Machine, Report};

/// What the outside of a load adds to its report.
#[derive(Clone, Debug, Default)]
pub struct Setting {
    /// Shares of a processor by process.
    pub cpu_limits: Option<std::collections::BTreeMap<String, f64>>,
    /// When in the timeline something moved.
    pub migration: Option<Interval>,
}

/// The report of a measured load; what only a migration's driver knows is still to be filled in.
pub fn report(plan: &Plan, measured: &Measured, setting: Setting) -> Report {
    let Measured { timeline, totals, .. } = measured;
    let (throughput, latency_us) = timeline.parts(setting.migration);
    let moves = setting.migration.is_some();
    let mut disturbance = measured.disturbance;
    if setting.cpu_limits.as_ref().is_some_and(|limits| limits.contains_key("clients")) {
        // Whoever watches for stand-stills is one of them, and waits for the quota.
        (disturbance.longest_still_ms, disturbance.still_ms) = (None, None);
    }
    let mut report = Report {
        workload: plan.workload.name().to_owned(),
        records: plan.records,
        value_bytes: plan.values.value_bytes() as u64,
        seed: plan.seed,
        machine: Machine {
            cores: crate::machine::cores(),
            cpu_limits: setting.cpu_limits,
            disturbance: Some(disturbance),
        },
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
        mean_latency_by_node_us: setting.migration.map(|migration| timeline.by_node(migration)),
        timeline: timeline.points(moves, true),
        ..Report::default()
    };
    if disturbance.longest_still_ms.is_none() {
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
        } else {
            report.say_unmeasured("client.mcr_sph_lookup_ns", "nothing was looked up while something moved");
        }
    }
    report
}

/// Counts errors and wrong values of a phase in.
pub fn add_totals(report: &mut Report, totals: &Totals) {
    for (kind, number) in &totals.errors {
        *report.errors.entry(kind.clone()).or_default() += number;
    }
    report.wrong_values += totals.wrong_values();
}
