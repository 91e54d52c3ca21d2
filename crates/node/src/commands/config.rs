//! CONFIG and its subcommands.

use crate::call::{Call, CommandResult, Flow, ReplyError};
use crate::config::{Changing, Config, ConfigError};
use crate::table::{CommandFlags, CommandSpec};
use sidle_commands::reply_help;
use std::collections::BTreeMap;

const HELP: CommandFlags = CommandFlags::LOADING.with(CommandFlags::STALE).with(CommandFlags::WITHOUT_LEASE);
const ADMIN: CommandFlags = HELP.with(CommandFlags::ADMIN).with(CommandFlags::NOSCRIPT);

pub(super) const COMMANDS: &[CommandSpec] = &[CommandSpec::container(
    "config",
    CommandFlags::NONE,
    SUBCOMMANDS,
)
.docs("server", "2.0.0", "Depends on subcommand", "Shows and changes the configuration.")];

const SUBCOMMANDS: &[CommandSpec] = &[
    CommandSpec::new("config|get", -3, ADMIN, get).docs(
        "server",
        "2.0.0",
        "O(N) where N is the number of parameters",
        "Returns parameters' values.",
    ),
    CommandSpec::new("config|set", -4, ADMIN, set)
        .docs(
            "server",
            "2.0.0",
            "O(N) where N is the number of parameters",
            "Changes parameters, all or none.",
        )
        .tips(&["request_policy:all_nodes", "response_policy:all_succeeded"]),
    CommandSpec::new("config|rewrite", 2, ADMIN, rewrite).docs(
        "server",
        "2.8.0",
        "O(1)",
        "Refused: the file of settings is only read.",
    ),
    CommandSpec::new("config|resetstat", 2, ADMIN, resetstat).docs(
        "server",
        "2.0.0",
        "O(1)",
        "Resets the counters that INFO and CLUSTER SLOT-STATS show.",
    ),
    CommandSpec::new("config|help", 2, HELP, help).docs("server", "5.0.0", "O(1)", "Lists the subcommands."),
];

fn get(call: &mut Call<'_>) -> CommandResult {
    let mut found: BTreeMap<Vec<u8>, String> = BTreeMap::new();
    for &pattern in &call.args[2..] {
        let is_name = !pattern.iter().any(|byte| b"*?[".contains(byte));
        match Config::name_of(pattern) {
            // A name is returned in the letters of the request.
            Some(name) if is_name => {
                found.insert(pattern.to_vec(), call.shared.config.value(name));
            }
            _ => found.extend(
                call.shared.config.matching(pattern).into_iter().map(|(name, value)| (name.into(), value)),
            ),
        }
    }
    call.reply.map(found.len());
    for (name, value) in found {
        call.reply.bulk(&name);
        call.reply.bulk(value.as_bytes());
    }
    Ok(Flow::Done)
}

fn set(call: &mut Call<'_>) -> CommandResult {
    if !call.args.len().is_multiple_of(2) {
        return Err(ReplyError::Syntax);
    }
    // As in Redis all names are looked at before a value is.
    let mut named: Vec<(&'static str, Changing, &[u8])> = Vec::new();
    for pair in call.args[2..].chunks_exact(2) {
        let (name, value) = (pair[0], pair[1]);
        let (proper_name, changing) = match Config::changeable(name) {
            Ok(found) => found,
            Err(ConfigError::Unknown) => return Err(unknown(name)),
            Err(ConfigError::Immutable) => return Err(failed(name, "can't set immutable config")),
            Err(ConfigError::Protected) => return Err(failed(name, "can't set protected config")),
        };
        if named.iter().any(|(other, ..)| *other == proper_name) {
            return Err(failed(name, "duplicate parameter"));
        }
        named.push((proper_name, changing, value));
    }
    for (pair, (proper_name, _, value)) in call.args[2..].chunks_exact(2).zip(&named) {
        if let Some(why) = call.shared.config.objection(proper_name, value) {
            return Err(failed(pair[0], &why));
        }
    }
    let free = named.into_iter().filter(|(_, changing, _)| *changing == Changing::Free);
    let text = |value| String::from_utf8_lossy(value).into_owned();
    let changes: Vec<_> = free.map(|(name, _, value)| (name, text(value))).collect();
    let password = changes.iter().find(|(name, _)| *name == "requirepass").map(|(_, value)| value.clone());
    call.shared.config.apply(changes);
    if let Some(password) = password {
        call.shared.access.set_password(password.as_bytes());
        call.shared.access.keep_up(call.session);
    }
    call.reply.ok();
    Ok(Flow::Done)
}

fn unknown(name: &[u8]) -> ReplyError {
    ReplyError::owned([b"ERR Unknown option or number of arguments for CONFIG SET - '", name, b"'"].concat())
}

fn failed(name: &[u8], why: &str) -> ReplyError {
    let parts: [&[u8]; 4] =
        [b"ERR CONFIG SET failed (possibly related to argument '", name, b"') - ", why.as_bytes()];
    ReplyError::owned(parts.concat())
}

fn resetstat(call: &mut Call<'_>) -> CommandResult {
    call.shared.workers.iter().for_each(|worker| worker.reset());
    call.shared.clients.totals.reset();
    call.shared.heat.slots().reset();
    call.reply.ok();
    Ok(Flow::Done)
}

/// What CONFIG SET changed is forgotten with the process.
fn rewrite(call: &mut Call<'_>) -> CommandResult {
    let file = &call.shared.process.config_file;
    if file.is_empty() {
        return Err(ReplyError::text("ERR The server is running without a config file"));
    }
    Err(ReplyError::owned(format!("ERR Rewriting config file: {file} is only read; change it by hand")))
}

fn help(call: &mut Call<'_>) -> CommandResult {
    reply_help(
        &mut call.reply,
        "CONFIG",
        &[
            "GET <pattern> ...",
            "    Return the parameters whose names match, with their values.",
            "RESETSTAT",
            "    Reset the counters that INFO and CLUSTER SLOT-STATS show.",
            "REWRITE",
            "    Refused: the file of settings is only read.",
            "SET <parameter> <value> ...",
            "    Change parameters, all or none.",
        ],
    );
    Ok(Flow::Done)
}
