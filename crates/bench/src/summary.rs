//! A report in a few lines of text.

use crate::cpu_lists::CpuLists;
use crate::policy::PolicyWord;
use crate::report::{ByKind, Disturbance, Machine, Report, WINDOW_MS};
use crate::words::{bytes, count, counted, micros, rate};
use std::fmt::Write;

const NOT_MEASURED: &str = "not measured";

fn figure<T>(value: Option<T>, show: impl Fn(T) -> String) -> String {
    value.map_or_else(|| NOT_MEASURED.to_owned(), show)
}

/// Operations per second as the report has them before and after a move.
fn median_rate(median: f64) -> String {
    format!("{} (the median window of {WINDOW_MS} ms)", rate(median))
}

fn change(before: Option<f64>, now: Option<f64>) -> String {
    match (before, now) {
        (Some(before), Some(now)) if before > 0.0 => format!(" ({:+.1} %)", (now / before - 1.0) * 100.0),
        _ => String::new(),
    }
}

fn latency(part: &ByKind) -> String {
    let kind = |name: &str, percentiles: Option<crate::report::Percentiles>| {
        percentiles.map(|p| {
            format!(
                "{name} p50 {} p99 {} p99.9 {} max {}",
                micros(p.p50),
                micros(p.p99),
                micros(p.p999),
                micros(p.max)
            )
        })
    };
    let kinds: Vec<String> =
        [kind("reads", part.reads), kind("writes", part.writes)].into_iter().flatten().collect();
    if kinds.is_empty() { NOT_MEASURED.to_owned() } else { kinds.join("; ") }
}

fn host(disturbance: &Disturbance) -> String {
    let stolen = disturbance.stolen.map(|share| format!("took {:.1} % of the processors", share * 100.0));
    let still = disturbance.longest_still_ms.map(|ms| match ms > 0.0 {
        true => format!("let the machine stand still for {ms:.0} ms at most"),
        false => "never let the machine stand still".to_owned(),
    });
    let said: Vec<String> = [stolen, still].into_iter().flatten().collect();
    match (said.is_empty(), disturbance.is_much()) {
        (true, _) => NOT_MEASURED.to_owned(),
        (_, false) => said.join(", "),
        (_, true) => said.join(", ") + ": these figures say more of it than of the nodes",
    }
}

fn machine(machine: &Machine) -> String {
    let lists = machine.cpu_lists.clone().map(|lists| format!(" ({})", CpuLists(lists)));
    let (cores, place) = (counted(machine.cores, "processor"), lists.unwrap_or_default());
    let Some(limits) = &machine.cpu_limits else {
        return format!("{cores}, shared by nodes and clients{place}");
    };
    let limits: Vec<String> =
        limits.iter().map(|(name, share)| format!("{name} {:.0} %", share * 100.0)).collect();
    format!(
        "{cores}{place}; quotas: {} (a process that used its share up stalls: see the latencies)",
        limits.join(", ")
    )
}

/// The report's main figures, one a line.
pub fn summary(report: &Report) -> String {
    let mut text = String::new();
    let mut line = |name: &str, value: String| {
        writeln!(text, "{name:<18} {value}").expect("writing to a string cannot fail");
    };
    let load = &report.load;
    line(
        "load",
        format!(
            "{}, {}, {} of {} + {} bytes, {} with {} under way, {}",
            report.workload,
            load.distribution,
            counted(report.records, "record"),
            load.key_bytes,
            report.value_bytes,
            counted(load.clients, &format!("{} client", load.client)),
            counted(load.outstanding, "operation"),
            if load.separate_clients {
                "each learning for itself"
            } else {
                "learning together on each thread"
            }
        ),
    );
    line(
        "loop",
        match load.rate {
            Some(asked) => format!("open at {}: latency counts from when an operation was due", rate(asked)),
            None => "closed: peak throughput; the latencies are those of a saturated machine".to_owned(),
        },
    );
    if report.movers_on_workers {
        line("nodes", "move data on the threads that serve clients".to_owned());
    }
    let through = &report.throughput;
    if report.migration.is_some() {
        let policy = report.policy.filter(|&policy| policy != PolicyWord::default());
        let policy = policy.map_or_else(String::new, |policy| format!(", {}", policy.title()));
        line(
            "moved",
            format!(
                "{}, {} in {}, {} by {}{}",
                figure(report.records_moved, |n| counted(n, "record")),
                figure(report.bytes_moved, |n| bytes(n as f64)),
                figure(report.seconds, |s| format!("{s:.2} s")),
                figure(report.mb_per_s, |n| format!("{n:.1} MB/s")),
                report.protocol.as_deref().unwrap_or("an unnamed protocol"),
                policy,
            ),
        );
        line("throughput before", figure(through.before, median_rate));
        let during = figure(through.during, |mean| format!("{} mean", rate(mean)));
        line("           during", during + &change(through.before, through.during));
        line(
            "     worst 100 ms",
            figure(through.during_worst_window, rate) + &change(through.before, through.during_worst_window),
        );
        line(
            "            after",
            figure(through.after, median_rate) + &change(through.before, through.after),
        );
        line("latency before", latency(&report.latency_us.before));
        line("        during", latency(&report.latency_us.during));
        line("         after", latency(&report.latency_us.after));
        let millis = |value: Option<f64>| figure(value, |ms| format!("{ms:.2} ms"));
        line(
            "longest gap",
            format!(
                "{} without a read, {} without a write (one prober, moving keys)",
                millis(report.longest_gap_ms.reads),
                millis(report.longest_gap_ms.writes)
            ),
        );
        line("write pause", format!("{} (whole load, moving keys)", millis(report.write_pause_ms)));
        line(
            "reads",
            format!(
                "{} asked both nodes, {} the target only, {} the source only",
                figure(report.double_reads, count),
                figure(report.single_target_reads, count),
                figure(report.single_source_reads, count)
            ),
        );
        line(
            "pulls",
            format!(
                "{} for an operation that waited, {} of sampled records",
                figure(report.priority_pulls, count),
                figure(report.samp_pulls, count)
            ),
        );
        line(
            "extra bytes",
            format!(
                "{} at the clients, {} between the nodes",
                figure(report.extra_bytes.client_side, |n| bytes(n as f64)),
                figure(report.extra_bytes.server_side, |n| bytes(n as f64))
            ),
        );
    } else {
        line("throughput", figure(through.before, median_rate));
        line("latency", latency(&report.latency_us.before));
    }
    let cpu = |seconds: Option<f64>| figure(seconds, |s| format!("{s:.2} s"));
    line(
        "processor time",
        format!(
            "source {}, target {}, clients {}",
            cpu(report.cpu_seconds.source),
            cpu(report.cpu_seconds.target),
            cpu(report.cpu_seconds.clients)
        ),
    );
    line("machine", machine(&report.machine));
    if let Some(disturbance) = &report.machine.disturbance {
        line("its host", host(disturbance));
    }
    let errors: Vec<String> =
        report.errors.iter().map(|(kind, number)| format!("{kind} {}", count(*number))).collect();
    line("errors", if errors.is_empty() { "none".to_owned() } else { errors.join(", ") });
    line("wrong values", count(report.wrong_values));
    line(
        "lost writes",
        figure(report.lost_writes, |n| format!("{} (every acknowledged write read back)", count(n))),
    );
    for (name, why) in &report.unmeasured {
        line("not measured", format!("{name}: {why}"));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::{Interval, Throughput};

    #[test]
    fn a_host_that_disturbed_a_run_is_named() {
        let said = |stolen, longest_still_ms| {
            host(&Disturbance { stolen, longest_still_ms, still_ms: longest_still_ms })
        };
        assert_eq!(said(None, None), NOT_MEASURED);
        assert_eq!(
            said(Some(0.012), Some(0.0)),
            "took 1.2 % of the processors, never let the machine stand still"
        );
        assert_eq!(
            said(Some(0.012), Some(51.0)),
            "took 1.2 % of the processors, let the machine stand still for 51 ms at most: these figures say more of it than of the nodes"
        );
        assert!(said(Some(0.11), None).ends_with("than of the nodes"));
    }

    #[test]
    fn throughput_says_whether_it_is_a_median_or_a_mean() {
        let through = Throughput { before: Some(41_234.4), during: Some(50_000.0), ..Throughput::default() };
        let mut report = Report { throughput: through, ..Report::default() };
        let text = summary(&report);
        assert!(text.contains("throughput         41,234/s (the median window of 100 ms)\n"), "{text}");
        report.migration = Some(Interval::default());
        let text = summary(&report);
        assert!(text.contains("throughput before  41,234/s (the median window of 100 ms)\n"), "{text}");
        assert!(text.contains("           during  50,000/s mean (+21.3 %)\n"), "{text}");
    }

    #[test]
    fn one_of_a_thing_is_no_plural() {
        let mut report = Report { records: 1, ..Report::default() };
        (report.load.client, report.load.clients, report.load.outstanding) = ("plain".into(), 1, 1);
        report.machine.cores = 1;
        let text = summary(&report);
        for one in ["1 record of", "1 plain client with 1 operation under way", "1 processor, shared"] {
            assert!(text.contains(one), "{one}: {text}");
        }
    }

    #[test]
    fn what_was_not_measured_is_said() {
        let mut report = Report { migration: Some(Interval::default()), ..Report::default() };
        report.say_unmeasured("samp_pulls", "the nodes do not tell");
        let text = summary(&report);
        assert!(text.contains("not measured       samp_pulls: the nodes do not tell"), "{text}");
        assert!(text.contains("throughput before  not measured"), "{text}");
    }
}
