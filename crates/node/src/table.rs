//! The types of a node's table of all commands.

use crate::call::{Call, CommandResult};
use crate::keyspace::NodeKeyspace;
use sidle_commands::Executor;
use sidle_resp::ReplyWriter;

pub use crate::commands::commands;
pub use sidle_commands::{Access, CommandFlags, CommandId, Docs, KeySpec};

/// The node as the executor of commands.
#[derive(Clone, Copy, Debug)]
pub enum NodeExecutor {}

impl Executor for NodeExecutor {
    type Keyspace<'g> = NodeKeyspace<'g>;
    type Reply<'g> = ReplyWriter<'g>;
    type OwnCall<'g> = Call<'g>;
    type OwnResult = CommandResult;
}

/// A command's description.
pub type CommandSpec = sidle_commands::CommandSpec<NodeExecutor>;
/// A resolved command.
pub type Found = sidle_commands::Found<NodeExecutor>;
