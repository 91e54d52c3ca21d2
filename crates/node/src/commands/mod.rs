//! The Redis commands, a file for each family.

use crate::call::Call;
use crate::spec::CommandSpec;

mod client;
mod client_kill;
mod cluster;
mod config;
mod connection;
mod counter;
mod entry;
mod expire_option;
mod expiry;
mod get;
mod info;
mod introspect;
mod keys;
mod modify;
mod object;
mod observe;
mod server;
mod set;
mod sidle;
mod transaction;
mod walk;

pub(crate) use entry::live;
pub(crate) use transaction::{NOT_EXECUTED, aborted};

/// Every family's commands.
pub(crate) const GROUPS: &[&[CommandSpec]] = &[
    get::COMMANDS,
    set::COMMANDS,
    modify::COMMANDS,
    counter::COMMANDS,
    keys::COMMANDS,
    expiry::COMMANDS,
    walk::COMMANDS,
    object::COMMANDS,
    connection::COMMANDS,
    client::COMMANDS,
    introspect::COMMANDS,
    config::COMMANDS,
    info::COMMANDS,
    server::COMMANDS,
    transaction::COMMANDS,
    observe::COMMANDS,
    cluster::COMMANDS,
    sidle::COMMANDS,
];

/// Replies with a container's help, as Redis words it.
fn reply_help(call: &mut Call<'_>, command: &str, lines: &[&str]) {
    let first = format!("{command} <subcommand> [<arg> [value] [opt] ...]. Subcommands are:");
    let last = ["HELP", "    Prints this help."];
    call.reply.array(lines.len() + 1 + last.len());
    call.reply.simple(&first);
    lines.iter().chain(&last).for_each(|line| call.reply.simple(line));
}
