//! The Redis commands over keys: what is known of each before it runs, and what it does to a key space.
//!
//! A command sees a [`Keyspace`] and a [`Reply`], and nothing of locks, versions, tombstones, memory or
//! migrations: those are the [`Executor`]'s, who knows a command's keys before it runs. So whatever has to
//! follow every write is in one place, and no command can forget it.
//!
//! | file | what |
//! |---|---|
//! | `spec`, `table` | arity, flags, keys, access, documentation; from a name to its command |
//! | `keyspace`, `reply`, `call` | what a command is given |
//! | `families/` | the commands |
//! | `overlay` | a key space that keeps its writes to itself until somebody publishes all of them |
//! | `number`, `float80`, `natural`, `glob` | numbers and patterns as Redis reads and writes them |
//!
//! Commands about a node, its connections and its cluster are not here: they are the executor's own
//! ([`Run::Own`]), and stand in the same table.

mod call;
mod families;
mod float80;
pub mod glob;
mod keyspace;
mod natural;
mod number;
mod overlay;
mod reply;
mod reply_error;
mod spec;
mod table;

pub use call::{Call, Executor, OverKeys, Own, Run};
pub use families::families;
pub use keyspace::{Keyspace, OutOfMemory, Value, Values};
pub use number::{Decimal, parse_i64};
pub use overlay::{Change, Overlay, Underlay};
pub use reply::{Reply, reply_help};
pub use reply_error::ReplyError;
pub use spec::{Access, CommandFlags, CommandSpec, Docs, KeySpec, Split};
pub use table::{CommandId, CommandTable, Found};
