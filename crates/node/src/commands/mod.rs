//! The node's own commands, a file for each family: about the node, its connections and its cluster.

use crate::table::CommandSpec;

mod client;
mod client_kill;
mod cluster;
mod config;
mod connection;
mod info;
mod introspect;
mod observe;
mod server;
mod sidle;
mod transaction;
mod walk;

pub(crate) use transaction::{NOT_EXECUTED, aborted};

/// Every family's commands.
pub(crate) const GROUPS: &[&[CommandSpec]] = &[
    walk::COMMANDS,
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
