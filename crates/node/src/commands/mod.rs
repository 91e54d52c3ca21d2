//! The node's own commands, a file for each family: about the node, its connections and its cluster.

use crate::table::{CommandSpec, NodeExecutor};
use sidle_commands::{CommandTable, families};
use std::sync::LazyLock;

mod acl;
mod arguments;
mod client;
mod client_kill;
mod client_pause;
mod cluster;
mod config;
mod connection;
mod debug;
mod function;
mod heat;
mod info;
mod introspect;
mod memory;
mod memory_doctor;
mod monitor;
mod observe;
mod persistence;
mod server;
mod sidle;
mod slot_stats;
mod transaction;
mod transactions;
mod walk;

/// Every family's commands.
const GROUPS: &[&[CommandSpec]] = &[
    walk::COMMANDS,
    connection::COMMANDS,
    client::COMMANDS,
    introspect::COMMANDS,
    acl::COMMANDS,
    config::COMMANDS,
    info::COMMANDS,
    memory::COMMANDS,
    server::COMMANDS,
    persistence::COMMANDS,
    debug::COMMANDS,
    function::COMMANDS,
    transaction::COMMANDS,
    observe::COMMANDS,
    monitor::COMMANDS,
    heat::COMMANDS,
    cluster::COMMANDS,
    sidle::COMMANDS,
    transactions::COMMANDS,
];

/// The table of all commands, those over keys and the node's own; built on first use.
pub fn commands() -> &'static CommandTable<NodeExecutor> {
    static TABLE: LazyLock<CommandTable<NodeExecutor>> =
        LazyLock::new(|| CommandTable::new(families().into_iter().chain(GROUPS.iter().copied())));
    &TABLE
}

#[cfg(test)]
mod tests {
    use super::commands;
    use crate::table::{Access, CommandFlags};
    use std::collections::BTreeSet;

    /// They name no keys, and their replies show something of the data or of what became of it.
    const NEED_THE_LEASE: &[&str] = &[
        "bgrewriteaof",
        "bgsave",
        "cluster|countkeysinslot",
        "cluster|getkeysinslot",
        "dbsize",
        "debug",
        "discard",
        "flushall",
        "flushdb",
        "function|flush",
        "keys",
        "monitor",
        "multi",
        "randomkey",
        "save",
        "scan",
        "sidle.frozen",
        "unwatch",
        "wait",
        "waitaof",
    ];

    /// A new command is of one kind or of the other; and what names keys needs the lease.
    #[test]
    fn what_is_answered_without_a_lease_shows_nothing_of_the_data() {
        let mut need = BTreeSet::new();
        for found in commands().all().iter().filter(|found| found.spec.subcommands.is_empty()) {
            let is_keyless = matches!(found.spec.access, Access::NoKeys);
            let is_free = found.spec.flags.contains(CommandFlags::WITHOUT_LEASE);
            assert!(is_keyless || !is_free, "{}", found.spec.name);
            if is_keyless && !is_free {
                need.insert(found.spec.name);
            }
        }
        assert_eq!(need, NEED_THE_LEASE.iter().copied().collect());
    }
}
