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
