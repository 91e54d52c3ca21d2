//! INFO: the node in figures, under the names that Redis gives them, since exporters and clients look for those.
//!
//! Only what is known is told. A figure that cannot be anything else here (no replicas, nothing saved) is told too
//! where tools rely on it.

use crate::call::{Call, CommandResult, Flow};
use crate::shared::{Gauges, REDIS_VERSION};
use crate::spec::{CommandFlags, CommandSpec};
use crate::table::commands;
use std::collections::BTreeMap;
use std::fmt::{Display, Write};

pub(super) const COMMANDS: &[CommandSpec] = &[CommandSpec::new(
    "info",
    -1,
    CommandFlags::LOADING.with(CommandFlags::STALE).with(CommandFlags::DANGEROUS),
    info,
)
.docs("server", "1.0.0", "O(1)", "Tells of the node, by sections.")
.tips(&["nondeterministic_output", "request_policy:all_shards", "response_policy:special"])];

/// One section: what it is asked for by, whether INFO without arguments tells it, and what writes it.
struct Section {
    name: &'static str,
    by_default: bool,
    write: fn(&Call<'_>, &mut Lines),
}

/// In the order in which they are told.
const SECTIONS: &[Section] = &[
    Section { name: "Server", by_default: true, write: server },
    Section { name: "Clients", by_default: true, write: clients },
    Section { name: "Memory", by_default: true, write: memory },
    Section { name: "Persistence", by_default: true, write: persistence },
    Section { name: "Stats", by_default: true, write: stats },
    Section { name: "Replication", by_default: true, write: replication },
    Section { name: "CPU", by_default: true, write: cpu },
    Section { name: "Commandstats", by_default: false, write: command_stats },
    Section { name: "Errorstats", by_default: true, write: error_stats },
    Section { name: "Cluster", by_default: true, write: cluster },
    Section { name: "Migration", by_default: true, write: migration },
    Section { name: "Keyspace", by_default: true, write: keyspace },
];

/// The lines of the reply.
struct Lines {
    text: String,
}

impl Lines {
    fn heading(&mut self, name: &str) {
        if !self.text.is_empty() {
            self.text.push_str("\r\n");
        }
        write!(self.text, "# {name}\r\n").expect("writing to a string cannot fail");
    }

    fn add(&mut self, name: impl Display, value: impl Display) {
        write!(self.text, "{name}:{value}\r\n").expect("writing to a string cannot fail");
    }

    /// A number of bytes, and again as people read it.
    fn add_bytes(&mut self, name: &str, bytes: u64) {
        self.add(name, bytes);
        self.add(format_args!("{name}_human"), human(bytes));
    }
}

fn info(call: &mut Call<'_>) -> CommandResult {
    let asked = &call.args[1..];
    let is = |word: &[u8], name: &str| word.eq_ignore_ascii_case(name.as_bytes());
    let everything = asked.iter().any(|word| is(word, "all") || is(word, "everything"));
    let defaults = asked.is_empty() || asked.iter().any(|word| is(word, "default"));
    let mut lines = Lines { text: String::new() };
    for section in SECTIONS {
        let named = asked.iter().any(|word| is(word, section.name));
        if everything || named || defaults && section.by_default {
            lines.heading(section.name);
            (section.write)(call, &mut lines);
        }
    }
    call.reply.verbatim(*b"txt", lines.text.as_bytes());
    Ok(Flow::Done)
}

/// 1536 is `1.50K`.
fn human(bytes: u64) -> String {
    const UNITS: [(u64, char); 4] = [(1 << 40, 'T'), (1 << 30, 'G'), (1 << 20, 'M'), (1 << 10, 'K')];
    match UNITS.iter().find(|(size, _)| bytes >= *size) {
        Some((size, unit)) => format!("{:.2}{unit}", bytes as f64 / *size as f64),
        None => format!("{bytes}B"),
    }
}

fn server(call: &Call<'_>, lines: &mut Lines) {
    let process = &call.shared.process;
    let uptime_seconds = call.now.0.saturating_sub(process.started_at.0) / 1000;
    lines.add("redis_version", REDIS_VERSION);
    lines.add("sidle_version", env!("CARGO_PKG_VERSION"));
    lines.add("redis_mode", "cluster");
    lines.add("os", &process.system);
    lines.add("arch_bits", usize::BITS);
    lines.add("process_id", process.process_id);
    lines.add("run_id", process.run_id);
    lines.add("tcp_port", process.port);
    lines.add("server_time_usec", call.now.0 * 1000);
    lines.add("uptime_in_seconds", uptime_seconds);
    lines.add("uptime_in_days", uptime_seconds / 86_400);
    lines.add("executable", &process.executable);
    lines.add("config_file", &process.config_file);
    lines.add("worker_threads", call.shared.workers.len());
}

fn clients(call: &Call<'_>, lines: &mut Lines) {
    lines.add("connected_clients", call.shared.clients.len());
    lines.add("cluster_connections", 0);
    lines.add("maxclients", call.shared.config.value("maxclients"));
    lines.add("blocked_clients", 0);
    lines.add("tracking_clients", 0);
}

fn memory(call: &Call<'_>, lines: &mut Lines) {
    let memory = call.store.memory();
    let gauges = &call.shared.gauges;
    let used = memory.log_used + memory.index;
    lines.add_bytes("used_memory", used);
    lines.add_bytes("used_memory_rss", Gauges::read(&gauges.resident_bytes));
    lines.add("used_memory_dataset", memory.log_live);
    lines.add("used_memory_log", memory.log_used);
    lines.add("used_memory_log_live", memory.log_live);
    lines.add("used_memory_index", memory.index);
    lines.add_bytes("total_system_memory", Gauges::read(&gauges.system_memory_bytes));
    lines.add_bytes("maxmemory", memory.limit);
    lines.add("maxmemory_policy", call.shared.config.value("maxmemory-policy"));
}

fn persistence(_: &Call<'_>, lines: &mut Lines) {
    lines.add("loading", 0);
    lines.add("async_loading", 0);
    lines.add("rdb_bgsave_in_progress", 0);
    lines.add("aof_enabled", 0);
    lines.add("aof_rewrite_in_progress", 0);
}

fn stats(call: &Call<'_>, lines: &mut Lines) {
    let shared = call.shared;
    let gauges = &shared.gauges;
    let kilobytes = |gauge| format!("{:.2}", Gauges::read(gauge) as f64 / 1024.0);
    let processed: u64 =
        commands().all().iter().map(|found| shared.sum(|worker| worker.command(found.id).calls.read())).sum();
    lines.add("total_connections_received", shared.clients.total());
    lines.add("total_commands_processed", processed);
    lines.add("instantaneous_ops_per_sec", Gauges::read(&gauges.operations_per_second));
    lines.add("total_net_input_bytes", shared.sum(|worker| worker.bytes_in.read()));
    lines.add("total_net_output_bytes", shared.sum(|worker| worker.bytes_out.read()));
    lines.add("instantaneous_input_kbps", kilobytes(&gauges.input_bytes_per_second));
    lines.add("instantaneous_output_kbps", kilobytes(&gauges.output_bytes_per_second));
    lines.add("rejected_connections", 0);
    lines.add("expired_keys", shared.sum(|worker| worker.expired.read()));
    lines.add("forwarded_requests", shared.sum(|worker| worker.forwarded.read()));
    lines.add("evicted_keys", 0);
    lines.add("keyspace_hits", shared.sum(|worker| worker.hits.read()));
    lines.add("keyspace_misses", shared.sum(|worker| worker.misses.read()));
    lines.add("total_error_replies", shared.sum(|worker| worker.errors.read()));
}

fn replication(call: &Call<'_>, lines: &mut Lines) {
    lines.add("role", "master");
    lines.add("connected_slaves", 0);
    lines.add("master_failover_state", "no-failover");
    lines.add("master_replid", call.shared.process.run_id);
    lines.add("master_repl_offset", 0);
}

fn cpu(call: &Call<'_>, lines: &mut Lines) {
    let seconds = |gauge| {
        let us = Gauges::read(gauge);
        format!("{}.{:06}", us / 1_000_000, us % 1_000_000)
    };
    lines.add("used_cpu_sys", seconds(&call.shared.gauges.cpu_system_us));
    lines.add("used_cpu_user", seconds(&call.shared.gauges.cpu_user_us));
}

fn command_stats(call: &Call<'_>, lines: &mut Lines) {
    for found in commands().all() {
        let sum = |read: fn(&crate::stats::CommandCounters) -> u64| {
            call.shared.sum(|worker| read(worker.command(found.id)))
        };
        let (calls, rejected) =
            (sum(|counters| counters.calls.read()), sum(|counters| counters.rejected.read()));
        if calls + rejected == 0 {
            continue;
        }
        let us = sum(|counters| counters.microseconds.read());
        let failed = sum(|counters| counters.failed.read());
        lines.add(
            format_args!("cmdstat_{}", found.spec.name),
            format_args!(
                "calls={calls},usec={us},usec_per_call={:.2},rejected_calls={rejected},failed_calls={failed}",
                us as f64 / calls.max(1) as f64
            ),
        );
    }
}

fn error_stats(call: &Call<'_>, lines: &mut Lines) {
    let mut errors = BTreeMap::new();
    call.shared.workers.iter().for_each(|worker| worker.add_errors_to(&mut errors));
    for (code, count) in errors {
        lines.add(format_args!("errorstat_{code}"), format_args!("count={count}"));
    }
}

fn cluster(_: &Call<'_>, lines: &mut Lines) {
    lines.add("cluster_enabled", 1);
}

/// What migrations cost this node since it started.
fn migration(call: &Call<'_>, lines: &mut Lines) {
    let totals = &call.shared.gauges.migration;
    for (name, sum) in [
        ("pulls", &totals.pulls),
        ("samp_pulls", &totals.samp_pulls),
        ("priority_pulls", &totals.priority_pulls),
        ("records_moved", &totals.records_moved),
        ("records_present", &totals.records_present),
        ("bytes_sent", &totals.bytes_sent),
    ] {
        lines.add(format_args!("migration_{name}"), Gauges::read(sum));
    }
}

fn keyspace(call: &Call<'_>, lines: &mut Lines) {
    let keys = call.key_count();
    if keys > 0 {
        let expires = call.store.expiring_len().min(keys);
        lines.add("db0", format_args!("keys={keys},expires={expires},avg_ttl=0"));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn human_rounds_as_redis_does() {
        for (bytes, text) in [
            (0, "0B"),
            (1023, "1023B"),
            (1024, "1.00K"),
            (1536, "1.50K"),
            (1 << 20, "1.00M"),
            (3 << 40, "3.00T"),
        ] {
            assert_eq!(human(bytes), text);
        }
    }
}
