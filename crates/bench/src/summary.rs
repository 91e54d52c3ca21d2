//! A report in a few lines of text.

use crate::cpu_lists::CpuLists;
use crate::failures;
use crate::figures;
use crate::policy::PolicyWord;
use crate::report::{ByKind, CutFigures, Disturbance, KillFigures, Machine, Report, WINDOW_MS};
use crate::words::{bytes, count, counted, micros, rate};
use std::fmt::{Display, Write};

const NOT_MEASURED: &str = "not measured";

fn figure<T>(value: Option<T>, show: impl Fn(T) -> String) -> String {
    value.map_or_else(|| NOT_MEASURED.to_owned(), show)
}

/// Operations per second in the report's form, before and after a move.
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

/// What the machine's host did, and a warning if that was much.
pub(crate) fn host(disturbance: &Disturbance) -> String {
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

/// A summary's lines, each with its name.
#[derive(Default)]
struct Lines(String);

impl Lines {
    fn line(&mut self, name: &str, value: impl Display) {
        writeln!(self.0, "{name:<18} {value}").expect("writing to a string cannot fail");
    }
}

/// The report's main figures, one a line.
pub fn summary(report: &Report) -> String {
    let mut lines = Lines::default();
    how_it_was_made(&mut lines, report);
    match (&report.kill, report.migration) {
        (Some(kill), _) => the_kill(&mut lines, report, kill),
        (None, Some(_)) => the_move(&mut lines, report),
        (None, None) => {
            lines.line("throughput", figure(report.throughput.before, median_rate));
            lines.line("latency", latency(&report.latency_us.before));
        }
    }
    the_machine(&mut lines, report);
    what_went_wrong(&mut lines, report);
    // Nodes that count pulls count cuts too: there were none to measure.
    let has_none = |name: &str| name == "cuts" && report.samp_pulls.is_some();
    for (name, why) in report.unmeasured.iter().filter(|(name, _)| !has_none(name)) {
        lines.line("not measured", format!("{}: {why}", figures::in_words(name)));
    }
    lines.0
}

fn how_it_was_made(lines: &mut Lines, report: &Report) {
    let load = &report.load;
    let learning = match load.separate_clients {
        true => "each learning of the cluster for itself",
        false => "those of a thread sharing what they learn of the cluster",
    };
    lines.line(
        "load",
        format!(
            "{}, {}, {} of {} + {} bytes, {} with {} under way, {learning}",
            report.workload,
            load.distribution,
            counted(report.records, "record"),
            load.key_bytes,
            report.value_bytes,
            counted(load.clients, &format!("{} client", load.client)),
            counted(load.outstanding, "operation"),
        ),
    );
    lines.line(
        "loop",
        match load.rate {
            Some(asked) => format!("open at {}: latency counts from when an operation was due", rate(asked)),
            None => "closed: peak throughput; the latencies are those of a saturated machine".to_owned(),
        },
    );
    if report.movers_on_workers {
        lines.line("nodes", "move data on the threads that serve clients");
    }
}

fn the_move(lines: &mut Lines, report: &Report) {
    let policy = report.policy.filter(|&policy| policy != PolicyWord::default());
    lines.line(
        "moved",
        format!(
            "{}, {} in {}, {} by {}{}",
            figure(report.records_moved, |n| counted(n, "record")),
            figure(report.bytes_moved, |n| bytes(n as f64)),
            figure(report.seconds, |s| format!("{s:.2} s")),
            figure(report.mb_per_s, |n| format!("{n:.1} MB/s")),
            report.protocol.as_ref().map_or_else(
                || "an unnamed protocol".to_owned(),
                |protocol| format!("the protocol {protocol}")
            ),
            policy.map_or_else(String::new, |policy| format!(", {}", policy.title())),
        ),
    );
    what_clients_felt(lines, report);
    lines.line(
        "reads",
        format!(
            "{} asked both nodes, {} the target only, {} the source only",
            figure(report.double_reads, count),
            figure(report.single_target_reads, count),
            figure(report.single_source_reads, count)
        ),
    );
    lines.line(
        "relief",
        figure(report.relief_ms, |ms| {
            format!("after {ms:.0} ms the target answered half of what it answers after the move")
        }),
    );
    if let Some(cuts) = report.cuts {
        let CutFigures { number, p50_ms, p999_ms, .. } = cuts;
        let times = format!("at most {p50_ms:.1} ms (median) to {p999_ms:.1} ms (p99.9) in transit");
        lines.line("cuts", format!("{}, {times}", count(number)));
    }
    lines.line(
        "pulls",
        format!(
            "{} for keys that an operation waited for, {} for keys in demand, before their turn",
            figure(report.priority_pulls, count),
            figure(report.samp_pulls, count)
        ),
    );
    lines.line(
        "extra bytes",
        format!(
            "{} at the clients, {} between the nodes",
            figure(report.extra_bytes.client_side, |n| bytes(n as f64)),
            figure(report.extra_bytes.server_side, |n| bytes(n as f64))
        ),
    );
}

fn the_kill(lines: &mut Lines, report: &Report, kill: &KillFigures) {
    let seconds = |ms: f64| format!("{:.2} s", ms / 1000.0);
    let protocol = report.protocol.as_ref();
    let of = protocol.map_or_else(String::new, |protocol| format!(" of a move by the protocol {protocol}"));
    let victim = if kill.victim == "node" { "a node with half of the data" } else { &kill.victim };
    lines.line("killed", format!("{victim}{of}, {} after the start", seconds(kill.at_ms)));
    lines.line("taken over", format!("{} after the kill", seconds(kill.taken_over_ms)));
    let end = kill.migration_end.as_ref().map_or_else(String::new, |end| format!("; the move is {end}"));
    lines.line(
        "recovered",
        format!(
            "{} after the kill, {} from copies of its log{end}",
            seconds(kill.recovered_ms),
            bytes(kill.recovered_bytes as f64)
        ),
    );
    if report.load.rate.is_none() {
        let note = "of a closed loop all soon wait for the dead node: with --rate the others' keys go on";
        lines.line("clients", note);
    }
    what_clients_felt(lines, report);
}

/// Before the move, during it and after it.
fn what_clients_felt(lines: &mut Lines, report: &Report) {
    let through = &report.throughput;
    lines.line("throughput before", figure(through.before, median_rate));
    let since_before = |now: Option<f64>| change(through.before, now);
    let during = figure(through.during, |mean| format!("{} mean", rate(mean)));
    lines.line("           during", during + &since_before(through.during));
    let worst = figure(through.during_worst_window, rate);
    lines.line("     worst 100 ms", worst + &since_before(through.during_worst_window));
    lines.line("            after", figure(through.after, median_rate) + &since_before(through.after));
    lines.line("latency before", latency(&report.latency_us.before));
    lines.line("        during", latency(&report.latency_us.during));
    lines.line("         after", latency(&report.latency_us.after));
    let millis = |value: Option<f64>| figure(value, |ms| format!("{ms:.2} ms"));
    let keys = if report.kill.is_some() { "keys of the dead node" } else { "moving keys" };
    lines.line(
        "longest gap",
        format!(
            "{} without a read, {} without a write (one prober, {keys})",
            millis(report.longest_gap_ms.reads),
            millis(report.longest_gap_ms.writes)
        ),
    );
    lines.line("write pause", format!("{} (whole load, {keys})", millis(report.write_pause_ms)));
}

fn the_machine(lines: &mut Lines, report: &Report) {
    let cpu = |seconds: Option<f64>| figure(seconds, |s| format!("{s:.2} s"));
    let used = report.cpu_seconds;
    let nodes = report
        .migration
        .filter(|_| report.kill.is_none())
        .map_or_else(String::new, |_| format!("source {}, target {}, ", cpu(used.source), cpu(used.target)));
    lines.line("processor time", format!("{nodes}clients {}", cpu(used.clients)));
    lines.line("machine", machine(&report.machine));
    if let Some(disturbance) = &report.machine.disturbance {
        lines.line("its host", host(disturbance));
    }
}

fn what_went_wrong(lines: &mut Lines, report: &Report) {
    let errors = failures::in_words(&report.errors);
    lines.line("errors", if errors.is_empty() { "none" } else { &errors });
    lines.line("wrong values", count(report.wrong_values));
    lines.line(
        "lost writes",
        figure(report.lost_writes, |n| format!("{} (every acknowledged write read back)", count(n))),
    );
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
    fn a_run_without_a_move_has_no_figures_of_one() {
        let mut report = Report::default();
        figures::explain_absent(&mut report);
        let text = summary(&report);
        for of_a_move in ["source", "target", "move", "pulls", "both nodes"] {
            assert!(!text.contains(of_a_move), "{text}");
        }
    }

    #[test]
    fn a_kill_has_its_own_figures_and_no_others() {
        let kill = KillFigures {
            victim: "target".into(),
            at_ms: 5_000.0,
            taken_over_ms: 1_100.0,
            recovered_ms: 1_900.0,
            recovered_bytes: 1 << 20,
            migration_end: Some("done".into()),
        };
        let (migration, protocol) = (Some(Interval::default()), Some("fulva".into()));
        let mut report = Report { kill: Some(kill), migration, protocol, ..Report::default() };
        figures::explain_absent(&mut report);
        let text = summary(&report);
        assert!(text.contains("target of a move by the protocol fulva, 5.00 s after the start"), "{text}");
        assert!(text.contains("recovered          1.90 s after the kill"), "{text}");
        assert!(text.contains("the move is done") && text.contains("keys of the dead node"), "{text}");
        for of_a_move in ["moving keys", "pulls", "asked both nodes", "relief", "source "] {
            assert!(!text.contains(of_a_move), "{of_a_move}: {text}");
        }
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
    fn cuts_of_a_protocol_that_has_none_are_not_missed() {
        let mut report = Report { migration: Some(Interval::default()), ..Report::default() };
        figures::explain_absent(&mut report);
        let unknown = "not measured       cuts (cuts): ";
        assert!(summary(&report).contains(unknown), "the nodes did not answer");
        report.samp_pulls = Some(0);
        assert!(!summary(&report).contains(unknown));
    }

    #[test]
    fn what_was_not_measured_is_said() {
        let mut report = Report { migration: Some(Interval::default()), ..Report::default() };
        report.say_unmeasured("samp_pulls", "the nodes do not tell");
        let text = summary(&report);
        assert!(
            text.contains("not measured       pulls of keys in demand (samp_pulls): the nodes do not tell"),
            "{text}"
        );
        assert!(text.contains("throughput before  not measured"), "{text}");
    }
}
