//! COMMAND and its subcommands: what client libraries read before they route requests.

use super::arguments::{describe_arguments, has_arguments};
use crate::admission::access_to;
use crate::call::{Call, CommandResult, Flow, ReplyError};
use crate::request::commands_within;
use crate::table::{CommandFlags, CommandSpec};
use crate::table::{Found, commands};
use sidle_commands::glob;
use sidle_commands::reply_help;
use sidle_resp::ReplyWriter;

const FLAGS: CommandFlags = CommandFlags::LOADING
    .with(CommandFlags::STALE)
    .with(CommandFlags::CONNECTION)
    .with(CommandFlags::WITHOUT_LEASE)
    .with(CommandFlags::FOR_OPERATORS);
const ANY_ORDER: &[&str] = &["nondeterministic_output_order"];
const ALL: &str = "O(N) where N is the number of commands";

pub(super) const COMMANDS: &[CommandSpec] = &[CommandSpec::new("command", -1, FLAGS, command)
    .with_subcommands(SUBCOMMANDS)
    .docs("server", "2.8.13", ALL, "Describes every command.")
    .tips(ANY_ORDER)];

const SUBCOMMANDS: &[CommandSpec] = &[
    CommandSpec::new("command|count", 2, FLAGS, count).docs(
        "server",
        "2.8.13",
        "O(1)",
        "Returns how many commands there are.",
    ),
    CommandSpec::new("command|docs", -2, FLAGS, docs)
        .docs("server", "7.0.0", ALL, "Documents commands.")
        .tips(ANY_ORDER),
    CommandSpec::new("command|getkeys", -4, FLAGS, getkeys).docs(
        "server",
        "2.8.13",
        "O(N) where N is the number of arguments",
        "Returns the keys of a request.",
    ),
    CommandSpec::new("command|getkeysandflags", -4, FLAGS, getkeysandflags).docs(
        "server",
        "7.0.0",
        "O(N) where N is the number of arguments",
        "Returns the keys of a request, each with what is done to it.",
    ),
    CommandSpec::new("command|info", -2, FLAGS, info)
        .docs("server", "2.8.13", ALL, "Describes some commands.")
        .tips(ANY_ORDER),
    CommandSpec::new("command|list", -2, FLAGS, list)
        .docs("server", "7.0.0", ALL, "Returns the names of commands.")
        .tips(ANY_ORDER),
    CommandSpec::new("command|help", 2, FLAGS, help).docs(
        "server",
        "5.0.0",
        "O(1)",
        "Lists the subcommands.",
    ),
];

fn command(call: &mut Call<'_>) -> CommandResult {
    let all = commands().top_level();
    call.reply.array(all.len());
    all.iter().for_each(|found| describe(&mut call.reply, *found));
    Ok(Flow::Done)
}

fn count(call: &mut Call<'_>) -> CommandResult {
    call.reply.integer(commands().top_level().len() as i64);
    Ok(Flow::Done)
}

fn info(call: &mut Call<'_>) -> CommandResult {
    let names = &call.args[2..];
    if names.is_empty() {
        return command(call);
    }
    call.reply.array(names.len());
    for name in names {
        match commands().find_full_name(name) {
            Some(found) => describe(&mut call.reply, found),
            None => call.reply.null(),
        }
    }
    Ok(Flow::Done)
}

/// One command's ten facts, in Redis 7's order.
fn describe(reply: &mut ReplyWriter<'_>, found: Found) {
    let spec = found.spec;
    reply.array(10);
    reply.bulk(spec.name.as_bytes());
    reply.integer(spec.arity.into());
    reply_words(reply, spec.flags.names());
    // Of keys that are counted, Redis says nothing there.
    let [first, last, step] = match spec.keys.count_at {
        at if at != 0 && spec.keys.first > at => [0; 3],
        _ => [spec.keys.first.into(), spec.keys.last.into(), spec.keys.step.into()],
    };
    [first, last, step].into_iter().for_each(|number| reply.integer(number));
    reply_words(reply, spec.flags.categories());
    reply.set(spec.docs.tips.len());
    spec.docs.tips.iter().for_each(|tip| reply.bulk(tip.as_bytes()));
    describe_keys(reply, spec);
    let subcommands = commands().subcommands(found);
    if subcommands.is_empty() {
        reply.set(0);
    } else {
        reply.array(subcommands.len());
        subcommands.iter().for_each(|child| describe(reply, *child));
    }
}

fn reply_words(reply: &mut ReplyWriter<'_>, words: impl Iterator<Item = &'static str> + Clone) {
    reply.set(words.clone().count());
    words.for_each(|word| reply.simple(word));
}

/// Redis 7's key specifications. Commands here have one at most, with a first index and a step or a count, or
/// two: of the first key, and of the others, or of one that an option names.
fn describe_keys(reply: &mut ReplyWriter<'_>, spec: &CommandSpec) {
    let keys = spec.keys;
    let first = i64::from(keys.first);
    if first == 0 {
        reply.set(0);
        return;
    }
    if let Some(last_access) = keys.last_access {
        reply.set(2);
        let others = if keys.last < 0 { -1 } else { i64::from(keys.last) - first - 1 };
        describe_key_range(reply, keys.access, first, KeyRange::To(0), keys.step);
        match keys.count_at {
            _ if keys.optional.is_some() => describe_optional_key(reply, last_access),
            0 => describe_key_range(reply, last_access, first + 1, KeyRange::To(others), keys.step),
            at => describe_key_range(reply, last_access, at.into(), KeyRange::Counted, keys.step),
        }
        return;
    }
    reply.set(1);
    if keys.count_at != 0 {
        return describe_key_range(reply, keys.access, keys.count_at.into(), KeyRange::Counted, keys.step);
    }
    // Counted from the first key; the command's own description counts from its name.
    let last = if keys.last < 0 { keys.last.into() } else { i64::from(keys.last) - first };
    describe_key_range(reply, keys.access, first, KeyRange::To(last), keys.step);
}

/// A key that some option names: where that stands is not said.
fn describe_optional_key(reply: &mut ReplyWriter<'_>, access: &'static [&'static str]) {
    reply.map(3);
    reply.bulk(b"flags");
    reply_words(reply, access.iter().copied());
    for name in [&b"begin_search"[..], b"find_keys"] {
        reply.bulk(name);
        reply.map(2);
        reply.bulk(b"type");
        reply.bulk(b"unknown");
        reply.bulk(b"spec");
        reply.map(0);
    }
}

/// Where the keys end that begin somewhere.
enum KeyRange {
    /// At an index counted from there, or from the end.
    To(i64),
    /// A number stands there, and so many keys behind it.
    Counted,
}

fn describe_key_range(
    reply: &mut ReplyWriter<'_>,
    access: &'static [&'static str],
    first: i64,
    range: KeyRange,
    step: u8,
) {
    reply.map(3);
    reply.bulk(b"flags");
    reply_words(reply, access.iter().copied());
    reply.bulk(b"begin_search");
    reply.map(2);
    reply.bulk(b"type");
    reply.bulk(b"index");
    reply.bulk(b"spec");
    reply.map(1);
    reply.bulk(b"index");
    reply.integer(first);
    reply.bulk(b"find_keys");
    let (kind, numbers) = match range {
        KeyRange::To(last) => ("range", [("lastkey", last), ("keystep", step.into()), ("limit", 0)]),
        KeyRange::Counted => ("keynum", [("keynumidx", 0), ("firstkey", 1), ("keystep", step.into())]),
    };
    reply.map(2);
    reply.bulk(b"type");
    reply.bulk(kind.as_bytes());
    reply.bulk(b"spec");
    reply.map(numbers.len());
    for (name, number) in numbers {
        reply.bulk(name.as_bytes());
        reply.integer(number);
    }
}

fn docs(call: &mut Call<'_>) -> CommandResult {
    let found: Vec<Found> = match &call.args[2..] {
        [] => commands().top_level().to_vec(),
        names => names.iter().filter_map(|name| commands().find_full_name(name)).collect(),
    };
    call.reply.map(found.len());
    found.iter().for_each(|found| document(&mut call.reply, *found));
    Ok(Flow::Done)
}

fn document(reply: &mut ReplyWriter<'_>, found: Found) {
    let docs = found.spec.docs;
    let subcommands = commands().subcommands(found);
    reply.bulk(found.spec.name.as_bytes());
    let has_arguments = has_arguments(found.spec.name);
    let others = usize::from(!subcommands.is_empty()) + usize::from(has_arguments);
    reply.map(4 + others + 3 * usize::from(docs.deprecated.is_some()));
    for (title, text) in [
        ("summary", docs.summary),
        ("since", docs.since),
        ("group", docs.group),
        ("complexity", docs.complexity),
    ] {
        reply.bulk(title.as_bytes());
        reply.bulk(text.as_bytes());
    }
    if let Some((since, instead)) = docs.deprecated {
        reply.bulk(b"doc_flags");
        reply_words(reply, ["deprecated"].into_iter());
        reply.bulk(b"deprecated_since");
        reply.bulk(since.as_bytes());
        reply.bulk(b"replaced_by");
        reply.bulk(instead.as_bytes());
    }
    if has_arguments {
        reply.bulk(b"arguments");
        describe_arguments(reply, found.spec.name);
    }
    if !subcommands.is_empty() {
        reply.bulk(b"subcommands");
        reply.map(subcommands.len());
        subcommands.iter().for_each(|child| document(reply, *child));
    }
}

const NO_KEYS: ReplyError = ReplyError::text("ERR The command has no key arguments");

/// The command of a request, and the indices of its keys.
fn keys_of(request: &[&[u8]]) -> Result<(Found, Vec<usize>), ReplyError> {
    let found = match commands().resolve(request) {
        Ok(found) => found,
        Err(ReplyError::WrongArity(name)) => {
            let has_keys =
                commands().find_full_name(name.as_bytes()).is_some_and(|found| found.spec.keys.first != 0);
            if !has_keys {
                return Err(NO_KEYS);
            }
            return Err(ReplyError::text("ERR Invalid number of arguments specified for command"));
        }
        Err(_) => return Err(ReplyError::text("ERR Invalid command specified")),
    };
    let mut indices: Vec<usize> = found.spec.keys.indices(request).collect();
    for within in commands_within(found, request) {
        indices.extend(within.found.spec.keys.indices(within.words).map(|index| within.at + index));
    }
    if indices.is_empty() {
        return Err(NO_KEYS);
    }
    Ok((found, indices))
}

fn getkeys(call: &mut Call<'_>) -> CommandResult {
    let request = &call.args[2..];
    let (_, indices) = keys_of(request)?;
    call.reply.array(indices.len());
    indices.into_iter().for_each(|index| call.reply.bulk(request[index]));
    Ok(Flow::Done)
}

fn getkeysandflags(call: &mut Call<'_>) -> CommandResult {
    let request = &call.args[2..];
    let (found, indices) = keys_of(request)?;
    call.reply.array(indices.len());
    for index in indices {
        call.reply.array(2);
        call.reply.bulk(request[index]);
        reply_words(&mut call.reply, access_to(found.spec, request, index).iter().copied());
    }
    Ok(Flow::Done)
}

fn list(call: &mut Call<'_>) -> CommandResult {
    let names: Vec<&'static str> = match call.args[2..] {
        [] => commands().all().iter().map(|found| found.spec.name).collect(),
        [filter, by, value] if filter.eq_ignore_ascii_case(b"filterby") => filtered(by, value)?,
        _ => return Err(ReplyError::Syntax),
    };
    call.reply.array(names.len());
    names.iter().for_each(|name| call.reply.bulk(name.as_bytes()));
    Ok(Flow::Done)
}

fn filtered(by: &[u8], value: &[u8]) -> Result<Vec<&'static str>, ReplyError> {
    let all = || commands().all().iter().map(|found| found.spec);
    match by.to_ascii_lowercase().as_slice() {
        b"module" => Ok(Vec::new()),
        b"aclcat" => {
            let in_category = |spec: &&CommandSpec| {
                spec.flags.categories().any(|name| name.as_bytes()[1..].eq_ignore_ascii_case(value))
            };
            Ok(all().filter(in_category).map(|spec| spec.name).collect())
        }
        b"pattern" => {
            let matches = |name: &&str| glob::matches_ignore_case(value, name.as_bytes());
            Ok(all().map(|spec| spec.name).filter(matches).collect())
        }
        _ => Err(ReplyError::Syntax),
    }
}

fn help(call: &mut Call<'_>) -> CommandResult {
    reply_help(
        &mut call.reply,
        "COMMAND",
        &[
            "(no subcommand)",
            "    Describe every command.",
            "COUNT",
            "    Return how many commands there are.",
            "DOCS [<command> ...]",
            "    Document commands.",
            "GETKEYS <command> <arg> ...",
            "    Return the keys of a request.",
            "GETKEYSANDFLAGS <command> <arg> ...",
            "    Return the keys of a request, each with what is done to it.",
            "INFO [<command> ...]",
            "    Describe commands.",
            "LIST [FILTERBY (MODULE <name>|ACLCAT <category>|PATTERN <pattern>)]",
            "    Return the names of commands.",
        ],
    );
    Ok(Flow::Done)
}
