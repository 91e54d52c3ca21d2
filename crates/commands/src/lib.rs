//! The Redis commands over keys: their static descriptions, and their effects on a key space.
//!
//! A command sees a [`Keyspace`] and a [`Reply`]. Locks, versions, tombstones, memory and migrations belong
//! to the [`Executor`], which knows a command's keys before it runs. So the consequences of every write are
//! in one place, and no command can omit them.
//!
//! | file | what |
//! |---|---|
//! | `spec`, `key_spec`, `table` | arity, flags, access, documentation; where keys are; from a name to its command |
//! | `keyspace`, `reply`, `call` | what a command is given |
//! | `families/` | the commands |
//! | `overlay` | a key space whose writes are private until all are published |
//! | `number`, `float80`, `strtod`, `natural` | numbers as Redis reads and writes them |
//! | `scan_options`, `draws` | what walks are asked for; drawing by lot |
//! | `restoring/` | RESTORE over many turns |
//! | `subsequence` | what two strings have in common |
//!
//! Commands about a node, its connections and its cluster are the executor's own ([`Run::Own`]) and share the
//! table.

mod blocking;
mod call;
mod draws;
mod families;
mod float80;
mod key_spec;
mod keyspace;
mod natural;
mod number;
mod overlay;
mod reply;
mod reply_error;
mod restoring;
mod scan_options;
mod spec;
mod strtod;
mod subsequence;
mod table;

pub use blocking::Blocking;
pub use call::{Call, Executor, OverKeys, Own, Progress, Run};
pub use families::{encoding_of, families, memory_usage, with_dumped};
pub use key_spec::{KeySpec, OptionalKey, Within};
pub use keyspace::{Content, Keyspace, OutOfMemory, Value, Values};
pub use number::{Decimal, parse_i32, parse_i64};
pub use overlay::{Change, Overlay, Underlay};
pub use reply::{Reply, reply_help};
pub use reply_error::ReplyError;
pub use restoring::{Restoring, StepSizes};
pub use scan_options::{ScanOptions, kind_named};
pub use sidle_types::glob;
pub use spec::{Access, CommandFlags, CommandSpec, Docs, OfRequest, Split};
pub use table::{CommandId, CommandTable, Found};
