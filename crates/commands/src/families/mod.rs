//! The commands, one file for each family; and what several of those for collections share:
//!
//! | file | what |
//! |---|---|
//! | `blocking` | how long a command waits |
//! | `changed` | a key's collection that a command changes |
//! | `indices` | indices that count from either end |
//! | `lot` | elements drawn by lot |
//! | `multi_pop` | elements of the first of several keys |
//! | `walk` | walking in steps |

use crate::call::Executor;
use crate::spec::CommandSpec;

mod bits;
mod blocking;
mod changed;
mod counter;
mod dump;
mod expire_option;
mod expiry;
mod get;
mod hash;
mod indices;
mod keys;
mod lcs;
mod lists;
mod lot;
mod modify;
mod multi_pop;
mod object;
mod rename;
mod set;
mod sets;
mod sort;
mod sort_pattern;
mod sorted_sets;
mod walk;

pub use dump::with_dumped;
pub use object::{encoding_of, memory_usage};

/// Every family's commands.
pub fn families<E: Executor>() -> [&'static [CommandSpec<E>]; 22] {
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
        sort::commands(),
        hash::of_fields(),
        hash::of_wholes(),
        sets::commands(),
        lists::at_ends(),
        lists::anywhere(),
        lists::that_wait(),
        sorted_sets::of_members(),
        sorted_sets::of_ranges(),
        sorted_sets::of_several(),
        sorted_sets::that_wait(),
    ]
}

/// The result of a command over keys: its reply is written, or it had no effect.
type Done = Result<(), crate::reply_error::ReplyError>;
