//! The bank's report.

use super::books::{Books, Closed};
use crate::demo::DemoOptions;
use crate::load::Totals;
use crate::policy::PolicyWord;
use crate::report::Interval;
use crate::transactions::{Moved, PartFigures, Tally, part_in_words, window_in_words};
use crate::words::{bytes, count, counted};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fmt::Write;

/// A day at the bank, as `sidle demo --workload bank` writes it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct BankReport {
    /// `bank`.
    pub workload: String,
    /// How the data moved.
    pub protocol: String,
    /// The bound on the move's load on the nodes.
    pub policy: Option<PolicyWord>,
    /// Accounts.
    pub accounts: u64,
    /// Records beside them, which only move.
    pub records: u64,
    /// Clients that transfer.
    pub clients: u32,
    /// The most transfers that each has under way.
    pub outstanding: u32,
    /// How popular the accounts are.
    pub distribution: String,
    /// The seed of every draw.
    pub seed: u64,
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
    /// Transfers per second in the worst window of 100 ms while data moved.
    pub during_worst_window: Option<f64>,
    /// What all accounts had at first.
    pub sum: i64,
    /// How often they were summed up.
    pub sums: u64,
    /// How often that was another sum.
    pub wrong_sums: u64,
    /// How often a sum could not be made.
    pub failed_sums: u64,
    /// What all accounts had at the end.
    pub sum_at_the_end: i64,
    /// Committed transfers that were missing afterwards.
    pub lost_transfers: u64,
    /// Records whose last acknowledged write was missing afterwards.
    pub lost_writes: u64,
    /// Transfers that ended in an error, by its text.
    pub errors: BTreeMap<String, u64>,
    /// Transfers that were committed in each window of 100 ms.
    pub timeline: Vec<u64>,
}

/// The report of a day.
pub(crate) fn of(
    options: &DemoOptions,
    books: &Books,
    tally: &Tally,
    moved: &Moved,
    closed: &Closed,
    back: &Totals,
) -> BankReport {
    let [before, during, after] = tally.figures(moved);
    let sums = books.sums();
    BankReport {
        workload: "bank".to_owned(),
        protocol: options.protocol.clone(),
        policy: Some(options.policy),
        accounts: books.accounts().len() as u64,
        records: options.records,
        clients: options.clients,
        outstanding: options.outstanding,
        distribution: options.distribution.to_string(),
        seed: options.seed,
        migration: moved.interval,
        records_moved: moved.records,
        bytes_moved: moved.bytes,
        before,
        during,
        after,
        during_worst_window: tally.worst_during(moved),
        sum: books.total(),
        sums: sums.count,
        wrong_sums: sums.wrong,
        failed_sums: sums.failed,
        sum_at_the_end: closed.sum,
        lost_transfers: closed.lost,
        lost_writes: options.records.saturating_sub(back.reads).max(back.wrong_values()),
        errors: tally.errors.clone(),
        timeline: tally.timeline(moved).iter().map(|window| window.latencies.count()).collect(),
    }
}

impl BankReport {
    /// Whether no money was made or lost, nor anything else.
    pub fn is_correct(&self) -> bool {
        let wrong = self.wrong_sums + self.lost_transfers + self.lost_writes;
        wrong == 0 && self.sum == self.sum_at_the_end
    }

    /// Transactions that were tried again, or failed, because data moved.
    pub fn aborted_by_the_move(&self) -> u64 {
        [self.before, self.during, self.after].iter().map(|part| part.conflicts.moved).sum()
    }
}

/// A report in some lines.
pub fn bank_summary(report: &BankReport) -> String {
    let mut text = String::new();
    let mut line = |label: &str, words: String| {
        writeln!(text, "{label:<18} {words}").expect("a text takes all");
    };
    let (accounts, records) = (counted(report.accounts, "account"), counted(report.records, "record"));
    line("bank", format!("{accounts}, {} as clients, beside {records}", count(u64::from(report.clients))));
    let seconds = (report.migration.to_ms - report.migration.from_ms) / 1e3;
    let moved = bytes(report.bytes_moved as f64);
    line("moved", format!("{moved} by the protocol {} in {seconds:.2} s", report.protocol));
    line("transfers before", part_in_words(&report.before));
    line("          during", part_in_words(&report.during));
    if let Some(worst) = report.during_worst_window {
        line("", window_in_words(worst));
    }
    line("          after", part_in_words(&report.after));
    line("aborts by the move", count(report.aborted_by_the_move()));
    let sums = counted(report.sums, "time");
    let wrong =
        if report.wrong_sums == 0 { "always".to_owned() } else { format!("{} times not", report.wrong_sums) };
    line("sum", format!("{} at first, counted {sums}: {wrong} the same", count(report.sum.max(0) as u64)));
    line("sum at the end", count(report.sum_at_the_end.max(0) as u64));
    line("lost transfers", count(report.lost_transfers));
    line("lost writes", format!("{} (every record read back)", count(report.lost_writes)));
    let errors: Vec<String> =
        report.errors.iter().map(|(what, number)| format!("{} {what}", count(*number))).collect();
    line("errors", if errors.is_empty() { "none".to_owned() } else { errors.join("; ") });
    text
}
