//! The commands, one file for each family.

use crate::call::Executor;
use crate::spec::CommandSpec;

mod bits;
mod counter;
mod dump;
mod expire_option;
mod expiry;
mod get;
mod hash;
mod keys;
mod lcs;
mod lists;
mod modify;
mod object;
mod rename;
mod set;
mod sets;

pub use object::encoding_of;

/// Every family's commands.
pub fn families<E: Executor>() -> [&'static [CommandSpec<E>]; 16] {
    [
        get::commands(),
        set::commands(),
        modify::commands(),
        bits::commands(),
        counter::commands(),
        keys::commands(),
        expiry::commands(),
        object::commands(),
        dump::commands(),
        rename::commands(),
        lcs::commands(),
        hash::of_fields(),
        hash::of_wholes(),
        sets::commands(),
        lists::at_ends(),
        lists::anywhere(),
    ]
}

/// The result of a command over keys: its reply is written, or it had no effect.
type Done = Result<(), crate::reply_error::ReplyError>;
