//! The table of all commands that a node has: those over keys, and its own.

use crate::call::{Call, CommandResult};
use crate::keyspace::NodeKeyspace;
use sidle_commands::{CommandTable, Executor, families};
use sidle_resp::ReplyWriter;
use std::sync::LazyLock;

pub use sidle_commands::{Access, CommandFlags, CommandId, Docs, KeySpec};

/// The node as the one who runs commands.
#[derive(Clone, Copy, Debug)]
pub enum NodeExecutor {}

impl Executor for NodeExecutor {
    type Keyspace<'g> = NodeKeyspace<'g>;
    type Reply<'g> = ReplyWriter<'g>;
    type OwnCall<'g> = Call<'g>;
    type OwnResult = CommandResult;
}

/// What is known of a command.
pub type CommandSpec = sidle_commands::CommandSpec<NodeExecutor>;
/// A command that was found.
pub type Found = sidle_commands::Found<NodeExecutor>;

/// The table, built on first use.
pub fn commands() -> &'static CommandTable<NodeExecutor> {
    static TABLE: LazyLock<CommandTable<NodeExecutor>> = LazyLock::new(|| {
        CommandTable::new(families().into_iter().chain(crate::commands::GROUPS.iter().copied()))
    });
    &TABLE
}
