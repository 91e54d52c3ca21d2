//! The compared measures: one number of each run, taken from its report.
//!
//! Runs of a noisy machine are compared by ratios within each run (throughput during the move by that
//! before it), so that a slow minute slows both alike.

use serde::Serialize;
use sidle_bench::report::{ByKind, MeanLatency, NodeLatencies, Percentiles, Report};
use sidle_bench::timeline::Part;

/// Which of two values is better.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Better {
    /// The larger.
    Higher,
    /// The smaller.
    Lower,
}

/// A figure's unit: its form for people, and its name in JSON.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Unit {
    /// A ratio: two digits after the point.
    Ratio,
    /// A share, shown in percent.
    #[serde(rename = "share")]
    Percent,
    /// Seconds.
    Seconds,
    /// Milliseconds.
    #[serde(rename = "milliseconds")]
    Millis,
    /// Bytes.
    Bytes,
    /// Microseconds.
    #[serde(rename = "microseconds")]
    Micros,
    /// Nanoseconds.
    #[serde(rename = "nanoseconds")]
    Nanos,
    /// Operations per second.
    #[serde(rename = "operations/s")]
    Rate,
}

/// One number of a run.
#[derive(Clone, Copy)]
pub struct Measure {
    /// Its name in the lab.
    pub key: &'static str,
    /// For people.
    pub title: &'static str,
    /// Which is better.
    pub better: Better,
    /// Its unit.
    pub unit: Unit,
    /// The number, if the run has it.
    pub of: fn(&Report) -> Option<f64>,
}

impl std::fmt::Debug for Measure {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.key)
    }
}

const fn measure(
    key: &'static str,
    title: &'static str,
    better: Better,
    unit: Unit,
    of: fn(&Report) -> Option<f64>,
) -> Measure {
    Measure { key, title, better, unit, of }
}

/// The table of winners, in its order.
pub const MEASURES: [Measure; 24] = [
    measure("during", "throughput during the move / before", Better::Higher, Unit::Ratio, during),
    measure("first", "the same in the first tenth of the move", Better::Higher, Unit::Ratio, |report| {
        part_of_move(report, 0.0, 0.1)
    }),
    measure("last", "the same in the last tenth of the move", Better::Higher, Unit::Ratio, |report| {
        part_of_move(report, 0.9, 1.0)
    }),
    measure("worst", "the worst 100 ms of the move / before", Better::Higher, Unit::Ratio, |report| {
        ratio(report.throughput.during_worst_window, report.throughput.before)
    }),
    measure("after", "throughput after the move / before", Better::Higher, Unit::Ratio, |report| {
        ratio(report.throughput.after, report.throughput.before)
    }),
    measure("cost", "seconds of the load before that the move cost", Better::Lower, Unit::Seconds, cost),
    measure(
        "p50",
        "median latency of reads, or transactions, during the move / before",
        Better::Lower,
        Unit::Ratio,
        |report| percentile(report, |p| p.p50),
    ),
    measure(
        "p99",
        "99th percentile of reads, or transactions, during the move / before",
        Better::Lower,
        Unit::Ratio,
        |report| percentile(report, |p| p.p99),
    ),
    measure(
        "p999",
        "99.9th percentile of reads, or transactions, during the move / before",
        Better::Lower,
        Unit::Ratio,
        |report| percentile(report, |p| p.p999),
    ),
    measure(
        "after_p50",
        "median latency of reads, or transactions, after the move / before",
        Better::Lower,
        Unit::Ratio,
        |report| by_before(report, &report.latency_us.after, |p| p.p50),
    ),
    measure(
        "after_p99",
        "99th percentile of reads, or transactions, after the move / before",
        Better::Lower,
        Unit::Ratio,
        |report| by_before(report, &report.latency_us.after, |p| p.p99),
    ),
    measure(
        "read_gap",
        "longest time without a read of a moving key",
        Better::Lower,
        Unit::Millis,
        |report| report.longest_gap_ms.reads,
    ),
    measure(
        "write_gap",
        "longest time without a write of a moving key",
        Better::Lower,
        Unit::Millis,
        |report| report.longest_gap_ms.writes,
    ),
    measure(
        "transaction_gap",
        "longest time without a transaction that is committed",
        Better::Lower,
        Unit::Millis,
        |report| report.longest_gap_ms.transactions,
    ),
    measure(
        "tried_again",
        "transactions tried again during the move / committed",
        Better::Lower,
        Unit::Percent,
        |report| report.tried_again?.during,
    ),
    measure("seconds", "duration of the move", Better::Lower, Unit::Seconds, |report| report.seconds),
    measure(
        "relief",
        "time until the target served half of its load",
        Better::Lower,
        Unit::Millis,
        |report| report.relief_ms,
    ),
    measure("cut_p50", "median time of a cut", Better::Lower, Unit::Millis, |report| {
        report.cuts.map(|cuts| cuts.p50_ms)
    }),
    measure("cut_p999", "99.9th percentile of a cut's time", Better::Lower, Unit::Millis, |report| {
        report.cuts.map(|cuts| cuts.p999_ms)
    }),
    measure("digest", "bytes of digests / bytes moved", Better::Lower, Unit::Percent, |report| {
        let bytes = report.cuts.map(|cuts| cuts.digest_bytes as f64);
        ratio(bytes, report.bytes_moved.map(|bytes| bytes as f64))
    }),
    measure(
        "extra_client",
        "extra bytes at the clients / bytes moved",
        Better::Lower,
        Unit::Percent,
        |report| ratio(extra_client_bytes(report), report.bytes_moved.map(|bytes| bytes as f64)),
    ),
    measure(
        "extra_server",
        "extra bytes between the nodes / bytes moved",
        Better::Lower,
        Unit::Percent,
        |report| {
            ratio(
                report.extra_bytes.server_side.map(|bytes| bytes as f64),
                report.bytes_moved.map(|bytes| bytes as f64),
            )
        },
    ),
    measure("tracking", "most memory of one client for MCR and SPH", Better::Lower, Unit::Bytes, |report| {
        let most = report.timeline.iter().filter_map(|point| point.tracking_bytes).max();
        let most = most.filter(|_| is_tracked(report));
        most.map(|bytes| bytes as f64)
    }),
    measure("lookup", "look-up in MCR and SPH", Better::Lower, Unit::Nanos, |report| {
        report.client.mcr_sph_lookup_ns.filter(|_| is_tracked(report))
    }),
];

/// The ratios' bases, and the signs of the machine's speed: of no use to find a winner.
pub const ABSOLUTE: [Measure; 2] = [
    measure("before", "throughput before the move", Better::Higher, Unit::Rate, |report| {
        report.throughput.before
    }),
    measure(
        "before_p99",
        "99th percentile of reads, or transactions, before the move",
        Better::Lower,
        Unit::Micros,
        |report| reads(&report.latency_us.before, |p| p.p99),
    ),
];

/// The measure with this name.
///
/// # Panics
/// If there is none.
pub fn named(key: &str) -> &'static Measure {
    MEASURES.iter().find(|measure| measure.key == key).expect("a measure of the list")
}

/// Whether the clients could use their knowledge: the protocol's source answers, so that reads can ask
/// both nodes.
pub fn is_tracked(report: &Report) -> bool {
    report.double_reads.unwrap_or(0) > 0
}

fn ratio(a: Option<f64>, b: Option<f64>) -> Option<f64> {
    let (a, b) = (a?, b?);
    (b > 0.0).then(|| a / b)
}

/// Throughput during the move, relative to before it.
pub fn during(report: &Report) -> Option<f64> {
    ratio(report.throughput.during, report.throughput.before)
}

/// The operations lost compared with an instant move, in seconds of the
/// throughput before: how a slow, gentle move compares with a fast, disturbing one.
fn cost(report: &Report) -> Option<f64> {
    let missed = report.throughput.after? - report.throughput.during?;
    Some(ratio(Some(missed), report.throughput.before)? * report.seconds?)
}

/// Throughput in a part of the move (0 is its start, 1 its end), relative to before it; at least one window.
fn part_of_move(report: &Report, from: f64, to: f64) -> Option<f64> {
    let move_ = report.migration?;
    let window_ms = sidle_bench::report::WINDOW_MS as f64;
    let at = |share: f64| (move_.from_ms + (move_.to_ms - move_.from_ms) * share) / window_ms;
    let (first, last) =
        (at(from).floor() as usize, (at(to).ceil() as usize).max(at(from).floor() as usize + 1));
    let windows = report.timeline.get(first..last.min(report.timeline.len()))?;
    let operations: u64 = windows.iter().map(|point| point.operations).sum();
    let rate = operations as f64 * 1000.0 / window_ms / windows.len().max(1) as f64;
    ratio(Some(rate), report.throughput.before)
}

fn percentile(report: &Report, of: fn(&Percentiles) -> f64) -> Option<f64> {
    by_before(report, &report.latency_us.during, of)
}

fn by_before(report: &Report, part: &ByKind, of: fn(&Percentiles) -> f64) -> Option<f64> {
    ratio(reads(part, of), reads(&report.latency_us.before, of))
}

fn reads(part: &ByKind, of: fn(&Percentiles) -> f64) -> Option<f64> {
    part.reads.as_ref().or(part.transactions.as_ref()).map(of)
}

/// The clients' excess bytes while data moved: greetings, and maps before the move, are
/// not the protocol's. A report without a timeline counts the whole run's.
fn extra_client_bytes(report: &Report) -> Option<f64> {
    let from = (report.migration?.from_ms / sidle_bench::report::WINDOW_MS as f64) as usize;
    let points = report.timeline.get(from..).unwrap_or_default();
    let sum: Option<u64> = points.iter().map(|point| point.extra_bytes).sum();
    sum.filter(|_| !points.is_empty()).or(report.extra_bytes.client_side).map(|bytes| bytes as f64)
}

/// The mean latency of one kind of operation answered by one node, relative to the same kind at the source
/// before the move.
pub fn by_node(report: &Report, is_target: bool, is_write: bool, part: Part) -> Option<f64> {
    let by_node = report.mean_latency_by_node_us.as_ref()?;
    let kind = |latencies: &NodeLatencies, is_target: bool| -> Option<MeanLatency> {
        let node = if is_target { latencies.target } else { latencies.source };
        if is_write { node.writes } else { node.reads }
    };
    let before = kind(&by_node.before, false)?.mean;
    let latencies = match part {
        Part::Before => &by_node.before,
        Part::During => &by_node.during,
        Part::After => &by_node.after,
    };
    ratio(Some(kind(latencies, is_target)?.mean), Some(before))
}

impl Unit {
    /// A figure in its form for people.
    pub fn show(self, value: f64) -> String {
        match self {
            Unit::Ratio if value >= 99.5 => format!("{value:.0}"),
            Unit::Ratio if value >= 9.95 => format!("{value:.1}"),
            Unit::Ratio => format!("{value:.2}"),
            Unit::Percent => format!("{:.1} %", value * 100.0),
            Unit::Seconds => format!("{value:.2} s"),
            Unit::Millis => format!("{value:.1} ms"),
            Unit::Bytes => sidle_bench::words::bytes(value),
            Unit::Micros => sidle_bench::words::micros(value),
            Unit::Nanos => format!("{value:.0} ns"),
            Unit::Rate => sidle_bench::words::rate(value),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use sidle_bench::report::{Interval, Latency, Throughput, TimelinePoint};

    fn report() -> Report {
        let point = |(index, operations): (usize, u64)| TimelinePoint {
            at_ms: index as u64 * 100,
            operations,
            extra_bytes: Some(10),
            ..TimelinePoint::default()
        };
        let reads =
            |p50| ByKind { reads: Some(Percentiles { p50, ..Percentiles::default() }), ..ByKind::default() };
        Report {
            migration: Some(Interval { from_ms: 200.0, to_ms: 1190.0 }),
            bytes_moved: Some(200),
            throughput: Throughput {
                before: Some(1000.0),
                during: Some(900.0),
                after: Some(1500.0),
                ..Throughput::default()
            },
            seconds: Some(2.0),
            latency_us: Latency { before: reads(20.0), during: reads(10.0), after: reads(0.0) },
            timeline: [100, 100, 50, 90, 90, 90, 90, 90, 90, 90, 90, 130, 160]
                .into_iter()
                .enumerate()
                .map(point)
                .collect(),
            ..Report::default()
        }
    }

    #[test]
    fn a_run_is_measured_against_what_was_before_the_move() {
        let of = |key: &str| (named(key).of)(&report());
        assert_eq!(of("during"), Some(0.9));
        assert_eq!(of("first"), Some(0.5), "the first window of ten");
        assert_eq!(of("cost"), Some(1.2), "600 operations a second for two seconds");
        assert_eq!(of("last"), Some(1.1), "90 and 130 in 200 ms");
        assert_eq!(of("p50"), Some(0.5));
        assert_eq!(of("extra_client"), Some(110.0 / 200.0), "from the move's start on");
        assert_eq!(of("worst"), None, "not measured");
        assert_eq!(of("write_gap"), None);
    }

    #[test]
    fn figures_read_well() {
        assert_eq!(Unit::Ratio.show(1.418), "1.42");
        assert_eq!(Unit::Ratio.show(123.4), "123");
        assert_eq!(Unit::Percent.show(0.0455), "4.5 %");
        assert_eq!(Unit::Nanos.show(17.6), "18 ns");
    }
}
