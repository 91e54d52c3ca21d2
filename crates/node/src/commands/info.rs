//! INFO: the node's figures, under Redis's names for exporters and clients.
//!
//! Only measurements are shown. [`FACTS`] are the exception: constants that clients or tools read.

use super::cluster::coordinator_fields;
use super::commands;
use crate::call::{Call, CommandResult, Flow};
use crate::observe::percentiles;
use crate::pause::Paused;
use crate::shared::{Gauges, REDIS_VERSION};
use crate::table::{CommandFlags, CommandSpec};
use sidle_types::NodeId;
use std::collections::BTreeMap;
use std::fmt::{Display, Write};
use std::sync::atomic::Ordering::Relaxed;

pub(super) const COMMANDS: &[CommandSpec] = &[CommandSpec::new(
    "info",
    -1,
    CommandFlags::LOADING
        .with(CommandFlags::STALE)
        .with(CommandFlags::DANGEROUS)
        .with(CommandFlags::WITHOUT_LEASE)
        .with(CommandFlags::FOR_OPERATORS),
    info,
)
.docs("server", "1.0.0", "O(1)", "Returns facts about the node, by sections.")
.tips(&["nondeterministic_output", "request_policy:all_shards", "response_policy:special"])];

/// One section: its name, whether INFO without arguments shows it, and its writer.
struct Section {
    name: &'static str,
    by_default: bool,
    write: fn(&Call<'_>, &mut Channels),
}

/// In the order of the reply.
const SECTIONS: &[Section] = &[
    Section { name: "Server", by_default: true, write: server },
    Section { name: "Clients", by_default: true, write: clients },
    Section { name: "Memory", by_default: true, write: memory },
    Section { name: "Persistence", by_default: true, write: persistence },
    Section { name: "Stats", by_default: true, write: stats },
    Section { name: "Replication", by_default: true, write: facts },
    Section { name: "CPU", by_default: true, write: cpu },
    Section { name: "Commandstats", by_default: false, write: command_stats },
    Section { name: "Errorstats", by_default: true, write: error_stats },
    Section { name: "Latencystats", by_default: false, write: latency_stats },
    Section { name: "Cluster", by_default: true, write: cluster },
    Section { name: "Migration", by_default: true, write: migration },
    Section { name: "Keyspace", by_default: true, write: keyspace },
];

/// Lines that never change, each with its readers.
const FACTS: &[(&str, &str, &str)] = &[
    // Clients choose their routing by it.
    ("Server", "redis_mode", "cluster"),
    ("Cluster", "cluster_enabled", "1"),
    ("Persistence", "async_loading", "0"),
    // A full node refuses writes; dashboards show that it evicts nothing.
    ("Stats", "evicted_keys", "0"),
    // Topology refreshes of Lettuce and others read these. No node has replicas.
    ("Replication", "role", "master"),
    ("Replication", "connected_slaves", "0"),
    ("Replication", "master_repl_offset", "0"),
];

/// The lines of the reply.
struct Channels {
    text: String,
}

impl Channels {
    fn heading(&mut self, name: &str) {
        if !self.text.is_empty() {
            self.text.push_str("\r\n");
        }
        write!(self.text, "# {name}\r\n").expect("writing to a string cannot fail");
    }

    fn add(&mut self, name: impl Display, value: impl Display) {
        write!(self.text, "{name}:{value}\r\n").expect("writing to a string cannot fail");
    }

    /// A number of bytes, also human-readable.
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
    let mut lines = Channels { text: String::new() };
    for section in SECTIONS {
        let named = asked.iter().any(|word| is(word, section.name));
        if everything || named || defaults && section.by_default {
            lines.heading(section.name);
            (section.write)(call, &mut lines);
            for (_, name, value) in FACTS.iter().filter(|(of, _, _)| *of == section.name) {
                lines.add(name, value);
            }
        }
    }
    call.reply.verbatim(*b"txt", lines.text.as_bytes());
    Ok(Flow::Done)
}

fn cluster(call: &Call<'_>, lines: &mut Channels) {
    for (name, value) in coordinator_fields(call) {
        lines.add(name, value);
    }
}

/// 1536 is `1.50K`.
pub(super) fn human(bytes: u64) -> String {
    const UNITS: [(u64, char); 4] = [(1 << 40, 'T'), (1 << 30, 'G'), (1 << 20, 'M'), (1 << 10, 'K')];
    match UNITS.iter().find(|(size, _)| bytes >= *size) {
        Some((size, unit)) => format!("{:.2}{unit}", bytes as f64 / *size as f64),
        None => format!("{bytes}B"),
    }
}

fn server(call: &Call<'_>, lines: &mut Channels) {
    let process = &call.shared.process;
    let uptime_seconds = call.now.0.saturating_sub(process.started_at.0) / 1000;
    lines.add("redis_version", REDIS_VERSION);
    lines.add("sidle_version", env!("CARGO_PKG_VERSION"));
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

fn clients(call: &Call<'_>, lines: &mut Channels) {
    lines.add("connected_clients", call.shared.clients.len());
    lines.add("maxclients", call.shared.config.value("maxclients"));
    let [input, output] = call.shared.clients.recent_max_bytes();
    lines.add("client_recent_max_input_buffer", input);
    lines.add("client_recent_max_output_buffer", output);
    lines.add("blocked_clients", call.shared.sum(|worker| worker.parked.read()));
    let pause = call.shared.pause.at(call.mono);
    let actions = match pause {
        None => "none",
        Some((Paused::Writes, _)) => "write",
        Some((Paused::All, _)) => "all",
    };
    let left_us = pause.map_or(0, |(_, until)| until.since(call.mono));
    lines.add("paused_reason", if pause.is_some() { "client_pause" } else { "none" });
    lines.add("paused_actions", actions);
    lines.add("paused_timeout_milliseconds", left_us.div_ceil(1000));
}

fn memory(call: &Call<'_>, lines: &mut Channels) {
    let memory = call.store.memory();
    let gauges = &call.shared.gauges;
    let used = memory.log_used + memory.index;
    lines.add_bytes("used_memory", used);
    let peak = gauges.note_used(used);
    let resident = Gauges::read(&gauges.resident_bytes);
    let percent = |part: u64, whole: u64| format!("{:.2}%", part as f64 * 100.0 / whole.max(1) as f64);
    lines.add_bytes("used_memory_rss", resident);
    lines.add_bytes("used_memory_peak", peak);
    lines.add("used_memory_peak_perc", percent(used, peak));
    lines.add("used_memory_overhead", used.saturating_sub(memory.log_live));
    lines.add("used_memory_dataset", memory.log_live);
    lines.add("used_memory_dataset_perc", percent(memory.log_live, used));
    lines.add("used_memory_log", memory.log_used);
    lines.add("used_memory_log_live", memory.log_live);
    lines.add("used_memory_index", memory.index);
    lines.add_bytes("total_system_memory", Gauges::read(&gauges.system_memory_bytes));
    lines.add_bytes("maxmemory", memory.limit);
    lines.add("mem_aof_buffer", call.store.commits().map_or(0, |commits| commits.buffered_bytes()));
    lines.add("mem_clients_normal", call.shared.clients.memory_bytes());
    lines.add("maxmemory_clients", call.shared.config.client_bytes().unwrap_or(0));
    lines.add("maxmemory_policy", call.shared.config.value("maxmemory-policy"));
    if used > 0 {
        lines.add("mem_fragmentation_ratio", format_args!("{:.2}", resident as f64 / used as f64));
        lines.add("mem_fragmentation_bytes", resident as i64 - used as i64);
    }
    allocator(call, memory.log_live + memory.index, used, lines);
}

/// The log with its index, as what allocates: the same as in MEMORY STATS.
fn allocator(call: &Call<'_>, live: u64, used: u64, lines: &mut Channels) {
    let pages = used + call.store.idle_bytes();
    let resident = Gauges::read(&call.shared.gauges.resident_bytes);
    lines.add("allocator_allocated", live);
    lines.add("allocator_active", used);
    lines.add("allocator_resident", pages);
    for (name, more, less) in
        [("allocator_frag", used, live), ("allocator_rss", pages, used), ("rss_overhead", resident, pages)]
    {
        if less > 0 {
            lines.add(format_args!("{name}_ratio"), format_args!("{:.2}", more as f64 / less as f64));
            lines.add(format_args!("{name}_bytes"), more as i64 - less as i64);
        }
    }
}

fn stats(call: &Call<'_>, lines: &mut Channels) {
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
    lines.add("rejected_connections", Gauges::read(&shared.clients.totals.rejected));
    lines.add("expired_keys", shared.sum(|worker| worker.expired.read()));
    lines.add("forwarded_requests", shared.sum(|worker| worker.forwarded.read()));
    lines.add("sidle_keys_of_transactions", call.store.locks_len());
    lines.add("sidle_transactions_waiting", shared.claims.len());
    lines.add("sidle_transactions_in_doubt", shared.helped.load(Relaxed));
    lines.add("sidle_transactions_helped", shared.sum(|worker| worker.transactions.helped.read()));
    lines.add("sidle_transactions_committed", shared.sum(|worker| worker.transactions.committed.read()));
    lines.add("sidle_transactions_conflicts", shared.sum(|worker| worker.transactions.conflicts.read()));
    lines.add("sidle_transactions_waited", shared.sum(|worker| worker.transactions.waited.read()));
    lines.add("sidle_transactions_waited_ms", shared.sum(|worker| worker.transactions.waited_ms.read()));
    lines.add("evicted_clients", Gauges::read(&shared.clients.totals.evicted));
    lines.add("client_query_buffer_limit_disconnections", Gauges::read(&shared.clients.totals.query_limit));
    lines.add("client_output_buffer_limit_disconnections", Gauges::read(&shared.clients.totals.output_limit));
    lines.add("keyspace_hits", shared.sum(|worker| worker.hits.read()));
    lines.add("keyspace_misses", shared.sum(|worker| worker.misses.read()));
    lines.add("total_error_replies", shared.sum(|worker| worker.errors.read()));
}

/// A section of facts only.
fn facts(_: &Call<'_>, _: &mut Channels) {}

fn persistence(call: &Call<'_>, lines: &mut Channels) {
    let (durability, loading) = (&call.shared.durability, call.shared.loading.progress());
    // ioredis and others wait until it is 0.
    lines.add("loading", u8::from(loading.is_some()));
    if let Some(progress) = loading {
        lines.add("loading_start_time", progress.since_seconds);
        lines.add("loading_total_bytes", progress.total_bytes);
        lines.add("loading_loaded_bytes", progress.loaded_bytes);
        lines.add("loading_loaded_perc", format_args!("{:.2}", progress.percent()));
        lines.add("loading_eta_seconds", progress.left_seconds(call.now.0 / 1000));
    }
    if let Some(waits) = call.shared.loading.waits() {
        lines.add("sidle_log_waits_since", waits.since_seconds);
        lines.add("sidle_log_waits_for", waits.names());
    }
    saves(call, lines);
    let is_on = durability.is_on.load(Relaxed);
    lines.add("aof_enabled", u8::from(is_on));
    if is_on {
        let status = if durability.is_hindered() { "err" } else { "ok" };
        lines.add("aof_last_write_status", status);
        lines.add("aof_current_size", durability.file_bytes.load(Relaxed));
        lines.add("sidle_log_files", durability.files.load(Relaxed));
        lines.add("sidle_log_last_sync_time", durability.synced_at_seconds.load(Relaxed));
        if let Some(commits) = call.store.commits() {
            lines.add("sidle_log_commits_safe", commits.safe().0);
            lines.add("sidle_log_commits_synced", durability.synced().0);
            lines.add("sidle_log_buffered_bytes", commits.buffered_bytes());
        }
        lines.add("sidle_log_recovered_values", durability.recovered_values.load(Relaxed));
        let at: Vec<String> = durability.copies_at().iter().map(NodeId::to_string).collect();
        lines.add("sidle_log_copies", at.len());
        lines.add("sidle_log_copies_at", at.join(","));
        lines.add("sidle_taken_over_bytes", call.shared.taking_over.put_in_all());
    }
}

/// What backup tools look at.
fn saves(call: &Call<'_>, lines: &mut Channels) {
    let shown = call.shared.saves.shown(call.now);
    let seconds = |ms: Option<u64>| ms.map_or(-1, |ms| (ms / 1000) as i64);
    let saved_at = shown.saved_at.unwrap_or(call.shared.process.started_at);
    lines.add("rdb_bgsave_in_progress", u8::from(shown.runs_ms.is_some()));
    lines.add("rdb_last_save_time", saved_at.0 / 1000);
    lines.add("rdb_last_bgsave_status", if shown.last_failed { "err" } else { "ok" });
    lines.add("rdb_last_bgsave_time_sec", seconds(shown.took_ms));
    lines.add("rdb_current_bgsave_time_sec", seconds(shown.runs_ms));
    lines.add("rdb_saves", shown.succeeded);
}

fn cpu(call: &Call<'_>, lines: &mut Channels) {
    let seconds = |gauge| {
        let us = Gauges::read(gauge);
        format!("{}.{:06}", us / 1_000_000, us % 1_000_000)
    };
    lines.add("used_cpu_sys", seconds(&call.shared.gauges.cpu_system_us));
    lines.add("used_cpu_user", seconds(&call.shared.gauges.cpu_user_us));
}

fn command_stats(call: &Call<'_>, lines: &mut Channels) {
    for found in commands().all() {
        let sum = |read: fn(&crate::stats::CommandCounters) -> u64| {
            call.shared.sum(|worker| read(worker.command(found.id)))
        };
        let (calls, rejected) =
            (sum(|counters| counters.calls.read()), sum(|counters| counters.rejected.read()));
        if calls + rejected == 0 {
            continue;
        }
        let us = sum(|counters| counters.nanoseconds.read()) / 1000;
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

fn error_stats(call: &Call<'_>, lines: &mut Channels) {
    let mut errors = BTreeMap::new();
    call.shared.workers.iter().for_each(|worker| worker.add_errors_to(&mut errors));
    for (code, count) in errors {
        lines.add(format_args!("errorstat_{code}"), format_args!("count={count}"));
    }
}

fn latency_stats(call: &Call<'_>, lines: &mut Channels) {
    let percents = percentiles(&call.shared.config.value("latency-tracking-info-percentiles"));
    let percents = percents.unwrap_or_default();
    for found in commands().all().iter().filter(|_| !percents.is_empty()) {
        if let Some(durations) = call.shared.distribution(found.id) {
            let shown = percents.iter().map(|&percent| {
                format!("p{percent}={:.3}", durations.percentile_ns(percent) as f64 / 1000.0)
            });
            let shown: Vec<String> = shown.collect();
            lines.add(format_args!("latency_percentiles_usec_{}", found.spec.name), shown.join(","));
        }
    }
}

/// The cost of migrations since this node started.
fn migration(call: &Call<'_>, lines: &mut Channels) {
    let totals = &call.shared.gauges.migration;
    for (name, sum) in [
        ("pulls", &totals.pulls),
        ("samp_pulls", &totals.samp_pulls),
        ("priority_pulls", &totals.priority_pulls),
        ("pieces", &totals.pieces),
        ("records_moved", &totals.records_moved),
        ("records_present", &totals.records_present),
        ("bytes_sent", &totals.bytes_sent),
        ("hinted", &totals.hinted),
        ("collections", &totals.collections),
        ("collections_ahead", &totals.collections_ahead),
        ("patch_bytes", &totals.patch_bytes),
    ] {
        lines.add(format_args!("migration_{name}"), Gauges::read(sum));
    }
    lines.add("migration_digest_bytes", call.shared.sum(|worker| worker.digest_bytes.read()));
    let times = totals.cut_times.read();
    lines.add("migration_cuts", times.cuts());
    for (name, percent) in [("p50", 50.0), ("p99_9", 99.9)] {
        if let Some(us) = times.percentile_us(percent) {
            lines.add(format_args!("migration_cut_usec_{name}"), us);
        }
    }
}

fn keyspace(call: &Call<'_>, lines: &mut Channels) {
    let keys = call.key_count();
    if keys > 0 {
        // Completions end by themselves; votes do not.
        let hidden = call.store.hidden_len().saturating_sub(call.store.locks_len());
        let expires = call.store.expiring_len().saturating_sub(hidden).min(keys);
        lines.add("db0", format_args!("keys={keys},expires={expires}"));
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
