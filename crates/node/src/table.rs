//! What the table of all commands that a node has is made of.

use crate::call::{Call, CommandResult};
use crate::keyspace::NodeKeyspace;
use sidle_commands::Executor;
use sidle_resp::ReplyWriter;

pub use crate::commands::commands;
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
