//! The report of TPC-C during a move.

use super::store::Store;
use super::terminals::Done;
use super::{TpccOptions, Transactions};
use crate::demo::DemoOptions;
use crate::policy::PolicyWord;
use crate::report::{Interval, Machine, Percentiles};
use crate::timeline::Part;
use crate::transactions::{Moved, OfPart, PartFigures, part_in_words, window_in_words};
use crate::words::{bytes, count, counted, micros};
use serde::{Deserialize, Serialize};
use sidle_tpcc::{Kind, Placement};
use std::collections::BTreeMap;
use std::fmt::Write;

/// TPC-C during a move, as `sidle demo --workload tpcc` writes it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TpccReport {
    /// `tpcc`.
    pub workload: String,
    /// How the data moved.
    pub protocol: String,
    /// The bound on the move's load on the nodes.
    pub policy: Option<PolicyWord>,
    /// Warehouses.
    pub warehouses: u32,
    /// Customers of a district, of ten a warehouse.
    pub customers: u32,
    /// Items.
    pub items: u32,
    /// Whether each row has a slot of its own; otherwise each warehouse has one.
    pub scattered: bool,
    /// Which transactions there are.
    pub transactions: Transactions,
    /// Clients, each with a terminal or several.
    pub clients: u32,
    /// Terminals of each.
    pub outstanding: u32,
    /// The seed of every draw.
    pub seed: u64,
    /// Whether the nodes moved data on the serving threads.
    pub movers_on_workers: bool,
    /// The run's surroundings.
    pub machine: Machine,
    /// When the move took place, in milliseconds from the start of the load.
    pub migration: Interval,
    /// Records that moved.
    pub records_moved: u64,
    /// Their bytes.
    pub bytes_moved: u64,
    /// Before the move.
    pub before: PartFigures,
    /// While data moved.
    pub during: PartFigures,
    /// After it.
    pub after: PartFigures,
    /// Transactions per second in the worst window of 100 ms while data moved.
    pub during_worst_window: Option<f64>,
    /// The longest time without a commit while data moved, in milliseconds.
    pub longest_gap_ms: Option<f64>,
    /// By kind.
    pub kinds: BTreeMap<String, KindFigures>,
    /// New orders that their terminal took back, as one of a hundred is to be.
    pub rolled_back: u64,
    /// How often the sums of a warehouse were looked at.
    pub audits: u64,
    /// How often they were wrong.
    pub wrong_audits: u64,
    /// How often they could not be looked at.
    pub failed_audits: u64,
    /// Conditions of clause 3.3.2 that do not hold at the end, the first of each warehouse.
    pub violations: Vec<String>,
    /// Transactions that ended in an error, by its text.
    pub errors: BTreeMap<String, u64>,
    /// The run in windows of 100 ms.
    pub timeline: Vec<TpccWindow>,
}

/// A window of 100 ms.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TpccWindow {
    /// Transactions that were committed in it.
    pub committed: u64,
    /// How often one was tried again.
    pub conflicts: u64,
    /// Their median latency in microseconds; `null` if none was committed.
    pub p50: Option<f64>,
    /// 99 of 100 took at most this.
    pub p99: Option<f64>,
}

impl TpccWindow {
    fn of(window: &OfPart) -> TpccWindow {
        let latency = window.latencies.percentiles();
        TpccWindow {
            committed: window.latencies.count(),
            conflicts: window.conflicts.sum(),
            p50: latency.map(|latency| latency.p50),
            p99: latency.map(|latency| latency.p99),
        }
    }
}

/// Transactions of a kind.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct KindFigures {
    /// Per minute before the move.
    pub before_per_minute: f64,
    /// While data moved.
    pub during_per_minute: f64,
    /// After it.
    pub after_per_minute: f64,
    /// How long they took while data moved, with all their attempts.
    pub during_latency_us: Option<Percentiles>,
}

/// The report of a run.
pub(super) fn of(
    options: &DemoOptions,
    store: &Store,
    done: &Done,
    moved: &Moved,
    (machine, violations): (Machine, Vec<String>),
) -> TpccReport {
    let TpccOptions { scale, keys, transactions } = store.options;
    let [before, during, after] = done.tally.figures(moved);
    let minutes = moved.lengths_ms().map(|ms| ms.max(1e-3) / 60e3);
    let kinds = done.kinds.iter().map(|(kind, parts)| {
        let per_minute = |part: Part| parts[part as usize].count() as f64 / minutes[part as usize];
        let figures = KindFigures {
            before_per_minute: per_minute(Part::Before),
            during_per_minute: per_minute(Part::During),
            after_per_minute: per_minute(Part::After),
            during_latency_us: parts[Part::During as usize].percentiles(),
        };
        (kind.name().to_owned(), figures)
    });
    let audits = store.audits();
    TpccReport {
        workload: "tpcc".to_owned(),
        protocol: options.protocol.clone(),
        policy: Some(options.policy),
        warehouses: scale.warehouses,
        customers: scale.customers,
        items: scale.items,
        scattered: keys.0 == Placement::Scattered,
        transactions,
        clients: options.clients,
        outstanding: options.outstanding,
        seed: options.seed,
        movers_on_workers: !options.offloading,
        machine,
        migration: moved.interval,
        records_moved: moved.records,
        bytes_moved: moved.bytes,
        before,
        during,
        after,
        during_worst_window: done.tally.worst_during(moved),
        longest_gap_ms: Some(store.day.longest_gap_ms()),
        kinds: kinds.collect(),
        rolled_back: done.rolled_back,
        audits: audits.count,
        wrong_audits: audits.wrong,
        failed_audits: audits.failed,
        violations,
        errors: done.tally.errors.clone(),
        timeline: done.tally.timeline(moved).iter().map(TpccWindow::of).collect(),
    }
}

impl TpccReport {
    /// Whether all that is to hold has held.
    pub fn is_correct(&self) -> bool {
        self.wrong_audits == 0 && self.violations.is_empty() && self.errors.is_empty()
    }

    /// Transactions that were tried again because data moved.
    pub fn aborted_by_the_move(&self) -> u64 {
        [self.before, self.during, self.after].iter().map(|part| part.conflicts.moved).sum()
    }
}

/// A report in some lines.
pub fn tpcc_summary(report: &TpccReport) -> String {
    let mut text = String::new();
    let mut line = |label: &str, words: String| {
        writeln!(text, "{label:<18} {words}").expect("a text takes all");
    };
    let terminals = u64::from(report.clients) * u64::from(report.outstanding);
    let warehouses = counted(u64::from(report.warehouses), "warehouse");
    line("tpcc", format!("{warehouses}, {}", counted(terminals, "terminal")));
    let seconds = (report.migration.to_ms - report.migration.from_ms) / 1e3;
    let moved = bytes(report.bytes_moved as f64);
    line("moved", format!("{moved} by the protocol {} in {seconds:.2} s", report.protocol));
    line("all before", part_in_words(&report.before));
    line("    during", part_in_words(&report.during));
    if let Some(worst) = report.during_worst_window {
        line("", window_in_words(worst));
    }
    line("    after", part_in_words(&report.after));
    if let Some(ms) = report.longest_gap_ms {
        line("longest gap", format!("{ms:.1} ms without a commit while data moved"));
    }
    for (kind, _) in Kind::MIX {
        let Some(figures) = report.kinds.get(kind.name()) else { continue };
        let [before, during, after] =
            [figures.before_per_minute, figures.during_per_minute, figures.after_per_minute]
                .map(|per_minute| count(per_minute as u64));
        let p99 = figures
            .during_latency_us
            .map_or_else(String::new, |latency| format!("; p99 during the move {}", micros(latency.p99)));
        line(kind.name(), format!("{before}/min before, {during} during, {after} after{p99}"));
    }
    line("taken back", count(report.rolled_back));
    line("aborts by the move", count(report.aborted_by_the_move()));
    let wrong = if report.wrong_audits == 0 {
        "always right".to_owned()
    } else {
        count(report.wrong_audits) + " WRONG"
    };
    line("sums", format!("looked at {}: {wrong}", counted(report.audits, "time")));
    let violations = match &report.violations[..] {
        [] => "3.3.2.1 to 3.3.2.4 hold of every warehouse".to_owned(),
        violations => violations.join("; "),
    };
    line("conditions", violations);
    let errors: Vec<String> =
        report.errors.iter().map(|(what, number)| format!("{} {what}", count(*number))).collect();
    line("errors", if errors.is_empty() { "none".to_owned() } else { errors.join("; ") });
    text
}
