//! The Redis commands, a file for each family.

use crate::spec::CommandSpec;

mod counter;
mod entry;
mod expire_option;
mod expiry;
mod get;
mod keys;
mod modify;
mod ping;
mod set;

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
];
