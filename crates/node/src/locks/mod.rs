//! What transactions have at this node's keys: `SIDLE.TX`, and who waits for it.
//!
//! Each is a value beside its key ([`sidle_txn::Locks`]), changed under the lock of its slot and published
//! in one step with what else changes. So nobody sees a transaction applied that still has locked its keys.
//!
//! | file | what |
//! |---|---|
//! | `beside` | the value beside a key: read, and to be published |
//! | `waits` | whether a command is to wait for a transaction |
//! | `claims` | parts that wait, which younger ones do not pass over |
//! | `flush` | a FLUSHALL waits for votes, and keeps outcomes |
//! | `means`, `run` | what these commands are run with; one of them |
//! | `request` | a part that is to be prepared, as a request has it |
//! | `prepare` | a part is prepared, or committed at once |
//! | `look` | what a key is, for WATCH and the EXEC behind it |
//! | `decide` | what a key is told of a transaction, or asked |
//! | `own_requests` | the requests of a transaction that this node commits, or decides |
//! | `list` | what is locked, for operators |
//! | `help` | transactions decided in place of coordinators that are gone |
//! | `execs`, `over_nodes` | EXEC and WATCH over keys of several nodes: what connections asked for; it is done |
//! | `pieces` | their commands, one for each key where these have several owners |

mod beside;
mod claims;
mod decide;
mod execs;
mod flush;
mod help;
mod list;
mod look;
mod means;
mod over_nodes;
mod own_requests;
mod pieces;
mod prepare;
mod request;
mod run;
mod waits;

pub(crate) use claims::{Claims, WholeClaim};
pub(crate) use execs::{Execs, Executed, Failed, keep_states, write_replies};
pub(crate) use flush::{awaits_any, claim_everything, keys_at, remove_at};
pub(crate) use help::Helpers;
pub(crate) use list::list;
pub(crate) use means::Means;
pub(crate) use over_nodes::OverNodes;
pub(crate) use request::COMMANDS_AT;
pub(crate) use run::run;
pub(crate) use waits::awaits_transaction;
