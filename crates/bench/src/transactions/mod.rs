//! What demonstrations of transactions have in common: clients that commit one after the other on two nodes,
//! half of the data moved under them, and something that holds all the time.
//!
//! | file | what |
//! |---|---|
//! | `day` | what all threads of a run share |
//! | `course` | before, the move, after; the live line |
//! | `tally` | what clients have counted |
//! | `figures` | the parts of a run, in reports |

mod course;
mod day;
mod figures;
mod tally;

pub(crate) use course::{Moved, Shown, follow};
pub(crate) use day::Day;
pub use figures::PartFigures;
pub(crate) use figures::{part_in_words, window_in_words};
pub use tally::Conflicts;
pub(crate) use tally::{OfPart, Tally};

use crate::control::{Control, started_migration};
use crate::demo::DemoError;
use crate::load::LOAD_TICK;
use sidle_client::{Client, Error, TransactPolicy};
use std::future::Future;
use std::time::Duration;

/// A transaction that cannot commit for so long is an error.
const PATIENCE: Duration = Duration::from_secs(30);

/// How often a transaction is tried.
pub(crate) fn policy() -> TransactPolicy {
    TransactPolicy { patience: PATIENCE, ..TransactPolicy::default() }
}

/// Has the target own a quarter of all slots from the first, so that transactions span both nodes.
pub(crate) fn give_some(control: &mut Control, target: &str) -> Result<(), DemoError> {
    let reply = control.call(&["SIDLE.MIGRATE", "START", "SLOTS", "8192-12287", "TO", target])?;
    let failed = || DemoError::Migration("the target did not get its first slots".to_owned());
    let id = started_migration(&reply).ok_or_else(failed)?;
    loop {
        match control.await_end(id, LOAD_TICK)?.state.as_str() {
            "done" => return Ok(()),
            "failed" | "cancelled" => return Err(failed()),
            _ => {}
        }
    }
}

/// A client with connections of its own.
pub(crate) async fn client(node: &str) -> Result<Client, DemoError> {
    Client::connect(&[node]).await.map_err(|error| lost(&error))
}

pub(crate) fn lost(error: &Error) -> DemoError {
    DemoError::Node(error.to_string())
}

/// Runs this on a runtime of this thread's own.
pub(crate) fn on_runtime<T>(future: impl Future<Output = Result<T, DemoError>>) -> Result<T, DemoError> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    tokio::task::LocalSet::new().block_on(&runtime, future)
}
