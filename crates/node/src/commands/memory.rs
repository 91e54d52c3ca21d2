//! MEMORY and its subcommands: what the log, its index, the clients and the process take.

use super::info::human;
use super::memory_doctor::Figures;
use crate::call::{Call, CommandResult, Flow};
use crate::shared::Gauges;
use crate::table::{CommandFlags, CommandSpec};
use sidle_commands::{memory_usage, reply_help};
use sidle_resp::ReplyWriter;
use std::fmt::Write;

const FLAGS: CommandFlags = CommandFlags::FOR_OPERATORS.with(CommandFlags::WITHOUT_LEASE);
const HELP: CommandFlags = FLAGS.with(CommandFlags::LOADING).with(CommandFlags::STALE);
const VARIES: &[&str] = &["nondeterministic_output", "request_policy:all_shards", "response_policy:special"];

pub(super) const COMMANDS: &[CommandSpec] = &[CommandSpec::container(
    "memory",
    CommandFlags::NONE,
    SUBCOMMANDS,
)
.docs("server", "4.0.0", "Depends on subcommand", "Reports the use of memory.")];

const SUBCOMMANDS: &[CommandSpec] = &[
    memory_usage(),
    CommandSpec::new("memory|stats", 2, FLAGS, stats)
        .docs("server", "4.0.0", "O(1)", "Returns what takes how much memory.")
        .tips(VARIES),
    CommandSpec::new("memory|doctor", 2, FLAGS, doctor)
        .docs(
            "server",
            "4.0.0",
            "O(N) where N is the number of connections",
            "Says in words what stands out in the use of memory.",
        )
        .tips(VARIES),
    CommandSpec::new("memory|malloc-stats", 2, FLAGS, malloc_stats)
        .docs("server", "4.0.0", "O(1)", "Describes the log's use of its memory.")
        .tips(VARIES),
    CommandSpec::new("memory|purge", 2, FLAGS, purge)
        .docs(
            "server",
            "4.0.0",
            "O(N) where N is the number of free segments of the log",
            "Returns the pages of the log's free segments to the system.",
        )
        .tips(&["request_policy:all_shards", "response_policy:all_succeeded"]),
    CommandSpec::new("memory|help", 2, HELP, help).docs("server", "4.0.0", "O(1)", "Lists the subcommands."),
];

/// PURGE returns so many bytes in one turn: less than a millisecond's work.
const PURGED_AT_ONCE: u64 = 16 << 20;

/// One figure of MEMORY STATS.
enum Figure {
    Count(i64),
    Share(f64),
}

impl Figure {
    fn is_finite(&self) -> bool {
        match self {
            Figure::Count(_) => true,
            Figure::Share(share) => share.is_finite(),
        }
    }
}

fn ratio(part: u64, whole: u64) -> Figure {
    Figure::Share(part as f64 / whole as f64)
}

fn percent(part: u64, whole: u64) -> Figure {
    Figure::Share(part as f64 * 100.0 / whole as f64)
}

fn bytes(bytes: u64) -> Figure {
    Figure::Count(bytes as i64)
}

fn difference(more: u64, less: u64) -> Figure {
    Figure::Count(more as i64 - less as i64)
}

fn stats(call: &mut Call<'_>) -> CommandResult {
    let (memory, keys) = (call.store.memory(), call.key_count());
    let used = memory.log_used + memory.index;
    let (live, pages) = (memory.log_live + memory.index, used + call.store.idle_bytes());
    let gauges = &call.shared.gauges;
    let (peak, resident) = (gauges.note_used(used), Gauges::read(&gauges.resident_bytes));
    let waiting = call.store.commits().map_or(0, |commits| commits.buffered_bytes());
    let figures = [
        ("peak.allocated", bytes(peak)),
        ("total.allocated", bytes(used)),
        ("clients.normal", bytes(call.shared.clients.memory_bytes())),
        ("aof.buffer", bytes(waiting)),
        ("overhead.total", bytes(used.saturating_sub(memory.log_live))),
        ("keys.count", bytes(keys)),
        ("keys.bytes-per-key", bytes(used.checked_div(keys).unwrap_or(0))),
        ("dataset.bytes", bytes(memory.log_live)),
        ("dataset.percentage", percent(memory.log_live, used)),
        ("peak.percentage", percent(used, peak)),
        ("allocator.allocated", bytes(live)),
        ("allocator.active", bytes(used)),
        ("allocator.resident", bytes(pages)),
        ("allocator-fragmentation.ratio", ratio(used, live)),
        ("allocator-fragmentation.bytes", difference(used, live)),
        ("allocator-rss.ratio", ratio(pages, used)),
        ("allocator-rss.bytes", difference(pages, used)),
        ("rss-overhead.ratio", ratio(resident, pages)),
        ("rss-overhead.bytes", difference(resident, pages)),
        ("fragmentation", ratio(resident, used)),
        ("fragmentation.bytes", difference(resident, used)),
    ];
    // Nothing is a share of nothing.
    let figures: Vec<(&str, Figure)> = figures.into_iter().filter(|(_, figure)| figure.is_finite()).collect();
    let reply = &mut call.reply;
    reply.map(figures.len() + usize::from(keys > 0));
    figures.into_iter().for_each(|figure| reply_figure(reply, figure));
    if keys > 0 {
        reply.bulk(b"db.0");
        reply.map(1);
        reply_figure(reply, ("overhead.hashtable.main", bytes(memory.index)));
    }
    Ok(Flow::Done)
}

fn reply_figure(reply: &mut ReplyWriter<'_>, (name, figure): (&str, Figure)) {
    reply.bulk(name.as_bytes());
    match figure {
        Figure::Count(count) => reply.integer(count),
        Figure::Share(share) => reply.double(share),
    }
}

fn doctor(call: &mut Call<'_>) -> CommandResult {
    let report = Figures::of(call).report();
    call.reply.verbatim(*b"txt", report.as_bytes());
    Ok(Flow::Done)
}

fn malloc_stats(call: &mut Call<'_>) -> CommandResult {
    let memory = call.store.memory();
    let used = memory.log_used + memory.index;
    let mut text =
        String::from("The log's memory, beside which the program has an allocator without figures.\n");
    for (name, bytes) in [
        ("limit", memory.limit),
        ("log", memory.log_used),
        ("log, live", memory.log_live),
        ("log, dead", memory.log_used.saturating_sub(memory.log_live)),
        ("index", memory.index),
        ("left below the limit", memory.limit.saturating_sub(used)),
        ("room for values", memory.room()),
        ("pages of free segments", call.store.idle_bytes()),
        ("of them for MEMORY PURGE", call.store.purgeable_bytes()),
    ] {
        writeln!(text, "{name}: {bytes} ({})", human(bytes)).expect("writing to a string cannot fail");
    }
    call.reply.verbatim(*b"txt", text.as_bytes());
    Ok(Flow::Done)
}

/// In turns, so that the other connections of its worker need not wait; at once in a transaction.
fn purge(call: &mut Call<'_>) -> CommandResult {
    while call.store.purge(PURGED_AT_ONCE) {
        if !call.is_locked {
            return Ok(Flow::GoesOn);
        }
    }
    call.reply.ok();
    Ok(Flow::Done)
}

fn help(call: &mut Call<'_>) -> CommandResult {
    reply_help(
        &mut call.reply,
        "MEMORY",
        &[
            "DOCTOR",
            "    Say what stands out in the use of memory.",
            "MALLOC-STATS",
            "    Describe the log's use of its memory.",
            "PURGE",
            "    Return the pages of the log's free segments to the system.",
            "STATS",
            "    Return what takes how much memory.",
            "USAGE <key> [SAMPLES <count>]",
            "    Estimate how many bytes a key and its value take.",
        ],
    );
    Ok(Flow::Done)
}
