//! SLOWLOG and LATENCY: slow commands, and the distribution of durations.

use crate::call::{Call, CommandResult, Flow, ReplyError};
use crate::observe::{Distribution, extremes, graph};
use crate::table::{CommandFlags, CommandSpec};
use crate::table::{Found, commands};
use sidle_commands::parse_i64;
use sidle_commands::reply_help;
use std::fmt::Write;

const HELP: CommandFlags = CommandFlags::LOADING.with(CommandFlags::STALE).with(CommandFlags::WITHOUT_LEASE);
const SLOWLOG: CommandFlags = HELP.with(CommandFlags::ADMIN);
const LATENCY: CommandFlags = SLOWLOG.with(CommandFlags::NOSCRIPT);
const VARIES: &[&str] = &["nondeterministic_output", "request_policy:all_nodes", "response_policy:special"];

pub(super) const COMMANDS: &[CommandSpec] = &[
    CommandSpec::container("slowlog", CommandFlags::NONE, SLOWLOG_SUBCOMMANDS).docs(
        "server",
        "2.2.12",
        "Depends on subcommand",
        "Lists slow commands.",
    ),
    CommandSpec::container("latency", CommandFlags::NONE, LATENCY_SUBCOMMANDS).docs(
        "server",
        "2.8.13",
        "Depends on subcommand",
        "Lists latency spikes.",
    ),
];

const SLOWLOG_SUBCOMMANDS: &[CommandSpec] = &[
    CommandSpec::new("slowlog|get", -2, SLOWLOG, slowlog_get)
        .docs("server", "2.2.12", "O(1)", "Returns the latest slow commands.")
        .tips(&["request_policy:all_nodes", "nondeterministic_output"]),
    CommandSpec::new("slowlog|len", 2, SLOWLOG, slowlog_len)
        .docs("server", "2.2.12", "O(1)", "Returns how many slow commands are kept.")
        .tips(&["request_policy:all_nodes", "response_policy:agg_sum", "nondeterministic_output"]),
    CommandSpec::new("slowlog|reset", 2, SLOWLOG, slowlog_reset)
        .docs("server", "2.2.12", "O(1)", "Forgets slow commands.")
        .tips(&["request_policy:all_nodes", "response_policy:all_succeeded"]),
    CommandSpec::new("slowlog|help", 2, HELP, slowlog_help).docs(
        "server",
        "6.2.0",
        "O(1)",
        "Lists the subcommands.",
    ),
];

const LATENCY_SUBCOMMANDS: &[CommandSpec] = &[
    CommandSpec::new("latency|latest", 2, LATENCY, latency_latest)
        .docs("server", "2.8.13", "O(1)", "Returns the latest latency spike of each kind.")
        .tips(VARIES),
    CommandSpec::new("latency|history", 3, LATENCY, latency_history)
        .docs("server", "2.8.13", "O(1)", "Returns the latency spikes of one kind.")
        .tips(VARIES),
    CommandSpec::new("latency|graph", 3, LATENCY, latency_graph)
        .docs("server", "2.8.13", "O(1)", "Draws the latency spikes of one kind.")
        .tips(VARIES),
    CommandSpec::new("latency|histogram", -2, LATENCY, latency_histogram)
        .docs("server", "7.0.0", "O(1)", "Returns how commands' durations are distributed.")
        .tips(VARIES),
    CommandSpec::new("latency|reset", -2, LATENCY, latency_reset)
        .docs("server", "2.8.13", "O(1)", "Forgets latency spikes.")
        .tips(&["request_policy:all_nodes", "response_policy:all_succeeded"]),
    CommandSpec::new("latency|doctor", 2, LATENCY, latency_doctor)
        .docs("server", "2.8.13", "O(1)", "Describes the latency spikes in words.")
        .tips(VARIES),
    CommandSpec::new("latency|help", 2, HELP, latency_help).docs(
        "server",
        "2.8.13",
        "O(1)",
        "Lists the subcommands.",
    ),
];

/// What SLOWLOG GET returns without a number.
const DEFAULT_ENTRIES: usize = 10;

fn slowlog_get(call: &mut Call<'_>) -> CommandResult {
    let most = match call.args[2..] {
        [] => DEFAULT_ENTRIES,
        [count] => match parse_i64(count) {
            Some(-1) => usize::MAX,
            Some(count) if count >= 0 => usize::try_from(count).unwrap_or(usize::MAX),
            _ => return Err(ReplyError::text("ERR count should be greater than or equal to -1")),
        },
        _ => return Err(ReplyError::wrong_subcommand(call.args)),
    };
    let entries = call.shared.slow_log.latest(most);
    call.reply.array(entries.len());
    for entry in entries {
        call.reply.array(6);
        call.reply.integer(entry.id as i64);
        call.reply.integer(entry.at_seconds as i64);
        call.reply.integer(entry.microseconds as i64);
        call.reply.array(entry.arguments.len());
        entry.arguments.iter().for_each(|argument| call.reply.bulk(argument));
        call.reply.bulk(entry.address.as_bytes());
        call.reply.bulk(entry.name.as_bytes());
    }
    Ok(Flow::Done)
}

fn slowlog_len(call: &mut Call<'_>) -> CommandResult {
    call.reply.integer(call.shared.slow_log.len() as i64);
    Ok(Flow::Done)
}

fn slowlog_reset(call: &mut Call<'_>) -> CommandResult {
    call.shared.slow_log.reset();
    call.reply.ok();
    Ok(Flow::Done)
}

fn latency_latest(call: &mut Call<'_>) -> CommandResult {
    let latest = call.shared.spikes.latest();
    call.reply.array(latest.len());
    for kind in latest {
        call.reply.array(4);
        call.reply.bulk(kind.event.as_bytes());
        call.reply.integer(kind.spike.0 as i64);
        call.reply.integer(kind.spike.1 as i64);
        call.reply.integer(kind.longest_ms as i64);
    }
    Ok(Flow::Done)
}

fn latency_history(call: &mut Call<'_>) -> CommandResult {
    let spikes = call.shared.spikes.history(call.args[2]);
    call.reply.array(spikes.len());
    for (second, ms) in spikes {
        call.reply.array(2);
        call.reply.integer(second as i64);
        call.reply.integer(ms as i64);
    }
    Ok(Flow::Done)
}

fn latency_graph(call: &mut Call<'_>) -> CommandResult {
    let event = call.args[2];
    let spikes = call.shared.spikes.history(event);
    let latest = call.shared.spikes.latest();
    let Some(kind) = latest.into_iter().find(|kind| kind.event.as_bytes() == event) else {
        return Err(ReplyError::owned([b"ERR No samples available for event '", event, b"'"].concat()));
    };
    let (lowest, highest) = extremes(&spikes);
    let text = format!(
        "{} - high {highest} ms, low {lowest} ms (all time high {} ms)\n{}\n{}",
        kind.event,
        kind.longest_ms,
        "-".repeat(80),
        graph(&spikes, call.now.0 / 1000)
    );
    call.reply.verbatim(*b"txt", text.as_bytes());
    Ok(Flow::Done)
}

fn latency_reset(call: &mut Call<'_>) -> CommandResult {
    let kinds = call.shared.spikes.reset(&call.args[2..]);
    call.reply.integer(kinds as i64);
    Ok(Flow::Done)
}

fn latency_histogram(call: &mut Call<'_>) -> CommandResult {
    let mut asked: Vec<Found> = Vec::new();
    match &call.args[2..] {
        [] => asked.extend(commands().all()),
        names => {
            for found in names.iter().filter_map(|name| commands().find_full_name(name)) {
                asked.push(found);
                asked.extend(commands().subcommands(found));
            }
        }
    }
    let shown: Vec<(Found, Distribution)> =
        asked.into_iter().filter_map(|found| Some((found, call.shared.distribution(found.id)?))).collect();
    call.reply.map(shown.len());
    for (found, durations) in shown {
        let steps = durations.steps();
        call.reply.bulk(found.spec.name.as_bytes());
        call.reply.map(2);
        call.reply.bulk(b"calls");
        call.reply.integer(durations.calls() as i64);
        call.reply.bulk(b"histogram_usec");
        call.reply.map(steps.len());
        for (microseconds, calls) in steps {
            call.reply.integer(microseconds as i64);
            call.reply.integer(calls as i64);
        }
    }
    Ok(Flow::Done)
}

fn latency_doctor(call: &mut Call<'_>) -> CommandResult {
    let mut text = String::new();
    let Some(threshold_ms) = call.shared.config.thresholds().spike_ms() else {
        text.push_str(
            "No latency spikes are noted. CONFIG SET latency-monitor-threshold MILLISECONDS has them noted.",
        );
        call.reply.verbatim(*b"txt", text.as_bytes());
        return Ok(Flow::Done);
    };
    let latest = call.shared.spikes.latest();
    if latest.is_empty() {
        text = format!("No command has taken {threshold_ms} ms or more since recording began.");
    }
    for kind in latest {
        let spikes = call.shared.spikes.history(kind.event.as_bytes());
        let mean_ms = spikes.iter().map(|(_, ms)| ms).sum::<u64>() / (spikes.len().max(1) as u64);
        let (event, count, longest_ms) = (kind.event, spikes.len(), kind.longest_ms);
        let ago = (call.now.0 / 1000).saturating_sub(kind.spike.0);
        writeln!(
            text,
            "{event}: seconds with spikes {count}, {mean_ms} ms in the mean, {longest_ms} ms at worst, the latest \
             {ago} s ago. SLOWLOG GET names the commands."
        )
        .expect("writing to a string cannot fail");
    }
    call.reply.verbatim(*b"txt", text.as_bytes());
    Ok(Flow::Done)
}

fn slowlog_help(call: &mut Call<'_>) -> CommandResult {
    reply_help(
        &mut call.reply,
        "SLOWLOG",
        &[
            "GET [<count>]",
            "    Return the latest slow commands (10; -1: all that are kept). Each is given as",
            "    its id, when it ended, its microseconds, its arguments, its client's address and name.",
            "LEN",
            "    Return how many are kept.",
            "RESET",
            "    Forget them.",
        ],
    );
    Ok(Flow::Done)
}

fn latency_help(call: &mut Call<'_>) -> CommandResult {
    reply_help(
        &mut call.reply,
        "LATENCY",
        &[
            "DOCTOR",
            "    Describe the latency spikes in words.",
            "GRAPH <event>",
            "    Draw the latency spikes of one kind.",
            "HISTOGRAM [<command> ...]",
            "    Return how many calls took less than 1, 2, 4, ... microseconds, for each command.",
            "HISTORY <event>",
            "    Return the latency spikes of one kind: when, and how many milliseconds.",
            "LATEST",
            "    Return the latest latency spike of each kind, and the longest.",
            "RESET [<event> ...]",
            "    Forget spikes, of these kinds or all.",
        ],
    );
    Ok(Flow::Done)
}
