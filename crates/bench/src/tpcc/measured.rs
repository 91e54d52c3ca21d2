//! A report of TPC-C in the form that all loads have: what the laboratory compares.

use super::report::TpccReport;
use super::{Transactions, rows_of};
use crate::report::{ByKind, Gap, Latency, Load, Report, Throughput, TimelinePoint, TriedAgain, WINDOW_MS};
use crate::transactions::PartFigures;
use sidle_tpcc::Scale;

/// The name of a load of TPC-C: `tpcc`, `tpcc-new-orders-scattered`.
pub fn tpcc_name(transactions: Transactions, is_scattered: bool) -> &'static str {
    match (transactions, is_scattered) {
        (Transactions::Standard, false) => "tpcc",
        (Transactions::Standard, true) => "tpcc-scattered",
        (Transactions::NewOrder, false) => "tpcc-new-orders",
        (Transactions::NewOrder, true) => "tpcc-new-orders-scattered",
    }
}

impl TpccReport {
    /// As a load's report. A wrong sum is a wrong value, a condition that does not hold a lost write.
    pub fn measured(&self) -> Report {
        let TpccReport { warehouses, customers, items, .. } = *self;
        let scale = Scale { warehouses, customers, items, ..Scale::full(1) };
        let seconds = (self.migration.to_ms - self.migration.from_ms) / 1e3;
        Report {
            protocol: Some(self.protocol.clone()),
            policy: self.policy,
            movers_on_workers: self.movers_on_workers,
            workload: tpcc_name(self.transactions, self.scattered).to_owned(),
            records: rows_of(scale),
            seed: self.seed,
            machine: self.machine.clone(),
            load: Load {
                kind: "closed".to_owned(),
                client: "sidle".to_owned(),
                clients: self.clients,
                tracking: true,
                outstanding: self.outstanding,
                distribution: "uniform".to_owned(),
                ..Load::default()
            },
            records_moved: Some(self.records_moved),
            bytes_moved: Some(self.bytes_moved),
            seconds: Some(seconds),
            mb_per_s: Some(self.bytes_moved as f64 / 1e6 / seconds.max(1e-6)),
            migration: Some(self.migration),
            throughput: self.throughput(),
            latency_us: Latency {
                before: latency(&self.before),
                during: latency(&self.during),
                after: latency(&self.after),
            },
            longest_gap_ms: Gap { transactions: self.longest_gap_ms, ..Gap::default() },
            errors: self.errors.clone(),
            wrong_values: self.wrong_audits,
            lost_writes: Some(self.violations.len() as u64),
            tried_again: Some(TriedAgain {
                before: tried_again(&self.before),
                during: tried_again(&self.during),
                after: tried_again(&self.after),
            }),
            timeline: self.points(),
            ..Report::default()
        }
    }

    fn throughput(&self) -> Throughput {
        let window_ms = WINDOW_MS as f64;
        let whole = self.timeline.len().saturating_sub(1);
        let from = ((self.migration.from_ms / window_ms) as usize).min(whole);
        let to = ((self.migration.to_ms / window_ms).ceil() as usize).clamp(from, whole);
        // The first window of the load has the clients' start.
        let median = |from: usize, to: usize| {
            let mut windows: Vec<u64> =
                self.timeline.get(from..to)?.iter().map(|window| window.committed).collect();
            windows.sort_unstable();
            windows.get(windows.len() / 2).map(|&committed| committed as f64 * 1e3 / window_ms)
        };
        Throughput {
            before: median(1.min(from), from),
            during: Some(self.during.committed_per_s),
            during_worst_window: self.during_worst_window,
            after: median(to, whole),
        }
    }

    fn points(&self) -> Vec<TimelinePoint> {
        let windows = self.timeline.iter().enumerate().map(|(index, window)| TimelinePoint {
            at_ms: index as u64 * WINDOW_MS,
            operations: window.committed,
            p50: window.p50,
            p99: window.p99,
            tried_again: Some(window.conflicts),
            ..TimelinePoint::default()
        });
        windows.collect()
    }
}

fn latency(part: &PartFigures) -> ByKind {
    ByKind { transactions: part.latency_us, ..ByKind::default() }
}

/// `None` where nothing was committed.
fn tried_again(part: &PartFigures) -> Option<f64> {
    (part.committed > 0).then(|| part.conflicts.sum() as f64 / part.committed as f64)
}

#[cfg(test)]
mod tests {
    use super::super::report::TpccWindow;
    use super::*;
    use crate::report::Interval;
    use crate::transactions::Conflicts;

    #[test]
    fn a_load_of_transactions_has_the_figures_of_any_load() {
        let window = |committed| TpccWindow { committed, conflicts: 1, p50: Some(900.0), p99: None };
        let conflicts = Conflicts { locked: 3, late: 1, ..Conflicts::default() };
        let report = TpccReport {
            warehouses: 2,
            customers: 30,
            items: 1_000,
            scattered: true,
            transactions: Transactions::NewOrder,
            migration: Interval { from_ms: 310.0, to_ms: 590.0 },
            during: PartFigures { committed: 8, committed_per_s: 28.0, conflicts, ..PartFigures::default() },
            longest_gap_ms: Some(12.0),
            violations: vec!["3.3.2.2 of warehouse 1".to_owned()],
            timeline: [1, 20, 22, 9, 2, 3, 30, 32, 34, 1].map(window).to_vec(),
            ..TpccReport::default()
        };
        let measured = report.measured();
        assert_eq!(measured.workload, "tpcc-new-orders-scattered");
        assert_eq!(measured.throughput.before, Some(220.0), "whole windows but the first");
        assert_eq!(measured.throughput.after, Some(320.0), "the last window is not whole");
        assert_eq!(measured.throughput.during, Some(28.0));
        let tried_again = measured.tried_again.unwrap();
        assert_eq!((tried_again.before, tried_again.during), (None, Some(0.5)));
        assert_eq!((measured.longest_gap_ms.transactions, measured.lost_writes), (Some(12.0), Some(1)));
        assert_eq!((measured.timeline[6].operations, measured.timeline[6].tried_again), (30, Some(1)));
        assert_eq!(measured.records, rows_of(Scale::reduced(2, 10)));
        assert!(!measured.is_correct());
    }
}
