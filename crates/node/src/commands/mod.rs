//! The Redis commands, a file for each family.

use crate::spec::CommandSpec;

mod ping;

/// Every family's commands.
pub(crate) const GROUPS: &[&[CommandSpec]] = &[ping::COMMANDS];
