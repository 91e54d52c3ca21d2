//! The figures of a report by their names in the JSON: their meaning in words, and why one without a reason
//! of its own is `null`.

use crate::report::Report;

/// A figure's name, its meaning, and the default reason for its absence.
type Figure = (&'static str, &'static str, &'static str);

const NO_READ: &str = "no read was answered";
const NO_WRITE: &str = "no write was answered";
const TOO_SHORT: &str = "no whole window of 100 ms lies there";
const NOT_TOLD: &str = "the system does not tell it";

/// The figures of every run.
const OF_EVERY_RUN: [Figure; 9] = [
    ("throughput.before", "throughput", TOO_SHORT),
    ("latency_us.before.reads", "latency of reads", NO_READ),
    ("latency_us.before.writes", "latency of writes", NO_WRITE),
    ("lost_writes", "lost writes", "nothing was read back"),
    ("extra_bytes.client_side", "extra bytes at the clients", "the clients did not count them"),
    ("cpu_seconds.clients", "processor time of the clients", NOT_TOLD),
    ("machine.disturbance.stolen", "what the host took of the processors", NOT_TOLD),
    ("machine.disturbance.longest_still_ms", "the longest stand-still of the machine", NOT_TOLD),
    ("machine.disturbance.still_ms", "all stand-stills of the machine", "as `longest_still_ms`"),
];

/// The figures of a move only: where nothing moved, they are `null` for that reason.
const OF_A_MOVE: [Figure; 27] = [
    ("records_moved", "records that moved", "the coordinator did not tell it"),
    ("bytes_moved", "bytes that moved", "the coordinator did not tell it"),
    ("seconds", "how long the move took", "its end was not seen"),
    ("mb_per_s", "the rate of the move", "its end was not seen"),
    ("throughput.during", "throughput during the move", TOO_SHORT),
    ("throughput.during_worst_window", "the worst window during the move", TOO_SHORT),
    ("throughput.after", "throughput after the move", TOO_SHORT),
    ("latency_us.during.reads", "latency of reads during the move", NO_READ),
    ("latency_us.during.writes", "latency of writes during the move", NO_WRITE),
    ("latency_us.after.reads", "latency of reads after the move", NO_READ),
    ("latency_us.after.writes", "latency of writes after the move", NO_WRITE),
    ("mean_latency_by_node_us", "mean latencies by node", "answers were not told apart by node"),
    ("longest_gap_ms.reads", "the longest time without a read", "the prober had no two answers to reads"),
    ("longest_gap_ms.writes", "the longest time without a write", "the prober had no two answers to writes"),
    (
        "write_pause_ms",
        "the longest time without a write of the whole load",
        "the load had no two answers to writes",
    ),
    ("extra_bytes.server_side", "extra bytes between the nodes", "the nodes do not tell it"),
    ("double_reads", "reads that asked both nodes", "the clients did not count them"),
    ("single_target_reads", "reads that asked the target only", "the clients did not count them"),
    ("single_source_reads", "reads that asked the source only", "the clients did not count them"),
    ("priority_pulls", "pulls that an operation waited for", "the nodes do not tell it"),
    ("samp_pulls", "pulls of keys in demand", "the nodes do not tell it"),
    (
        "relief_ms",
        "time until the target answered half of what it answers after the move",
        "it never did while it was measured",
    ),
    ("cuts", "cuts", "nothing was given by cuts, or the nodes do not tell it"),
    (
        "client.mcr_sph_lookup_ns",
        "time to decide which nodes to ask",
        "nothing was looked up while something moved",
    ),
    ("client.sph_bytes_max", "memory to know what has moved", "the clients did not count it"),
    ("cpu_seconds.source", "processor time of the source", NOT_TOLD),
    ("cpu_seconds.target", "processor time of the target", NOT_TOLD),
];

/// What the figures of a move begin with that are a kill's, too.
const WITH_A_KILL: [&str; 4] = ["throughput", "latency_us", "longest_gap_ms", "write_pause_ms"];

/// A figure in words, with its name in the JSON; the name alone if there are no words for it.
pub fn in_words(name: &str) -> String {
    let mut known = OF_EVERY_RUN.iter().chain(&OF_A_MOVE);
    known
        .find(|(figure, ..)| *figure == name)
        .map_or_else(|| name.to_owned(), |(_, words, _)| format!("{words} ({name})"))
}

/// Gives every `null` figure a reason, unless it has one or is a move's and nothing moved.
pub fn explain_absent(report: &mut Report) {
    let json = serde_json::to_value(&*report).expect("a report is plain data");
    let of_a_move = report.migration.map(|_| OF_A_MOVE.iter());
    // Beside a kill a migration's own figures say little.
    let is_told = |name: &str| report.kill.is_none() || WITH_A_KILL.iter().any(|of| name.starts_with(of));
    let of_a_move: Vec<&Figure> =
        of_a_move.into_iter().flatten().filter(|(name, ..)| is_told(name)).collect();
    for (name, _, why) in OF_EVERY_RUN.iter().chain(of_a_move) {
        let is_null =
            json.pointer(&format!("/{}", name.replace('.', "/"))).is_some_and(serde_json::Value::is_null);
        let is_explained = report.unmeasured.keys().any(|known| {
            name.strip_prefix(known.as_str()).is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
        });
        if is_null && !is_explained {
            report.say_unmeasured(name, why);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::{Disturbance, Interval};
    use serde_json::Value;

    /// Fields that may be `null` and are no figures: they show the request.
    const NO_FIGURES: [&str; 8] = [
        "kill",
        "protocol",
        "policy",
        "modelled",
        "machine.cpu_limits",
        "machine.cpu_lists",
        "load.rate",
        "migration",
    ];

    fn nulls(value: &Value, path: &str, found: &mut Vec<String>) {
        match value {
            Value::Null => found.push(path.to_owned()),
            Value::Object(members) => members.iter().for_each(|(name, member)| {
                let dot = if path.is_empty() { "" } else { "." };
                nulls(member, &format!("{path}{dot}{name}"), found);
            }),
            _ => {}
        }
    }

    #[test]
    fn every_figure_that_is_missing_says_why() {
        let mut report = Report { migration: Some(Interval::default()), ..Report::default() };
        report.machine.disturbance = Some(Disturbance::default());
        let mut found = Vec::new();
        nulls(&serde_json::to_value(&report).unwrap(), "", &mut found);
        explain_absent(&mut report);
        found.retain(|name| !NO_FIGURES.contains(&name.as_str()));
        let explained: Vec<&String> = report.unmeasured.keys().collect();
        found.sort();
        assert_eq!(explained, found.iter().collect::<Vec<_>>());
        for name in found {
            assert!(in_words(&name).ends_with(&format!(" ({name})")), "{name}");
        }
    }

    #[test]
    fn a_reason_that_was_given_stays_and_figures_of_no_move_need_none() {
        let mut report = Report::default();
        report.say_unmeasured("throughput", "no operation succeeded");
        report.say_unmeasured("lost_writes", "only 1 of 2 records could be read back");
        explain_absent(&mut report);
        assert_eq!(report.unmeasured["lost_writes"], "only 1 of 2 records could be read back");
        for none in ["throughput.before", "samp_pulls", "cpu_seconds.source", "machine.disturbance.stolen"] {
            assert!(!report.unmeasured.contains_key(none), "{none}");
        }
        assert_eq!(report.unmeasured["latency_us.before.reads"], NO_READ);
    }
}
