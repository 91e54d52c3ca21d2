//! The Redis commands, a file for each family.

use crate::call::Call;
use crate::spec::CommandSpec;

mod cluster;
mod counter;
mod entry;
mod expire_option;
mod expiry;
mod get;
mod keys;
mod modify;
mod ping;
mod set;
mod sidle;

pub(crate) use entry::live;

/// Every family's commands.
pub(crate) const GROUPS: &[&[CommandSpec]] = &[
    get::COMMANDS,
    set::COMMANDS,
    modify::COMMANDS,
    counter::COMMANDS,
    keys::COMMANDS,
    expiry::COMMANDS,
    ping::COMMANDS,
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
