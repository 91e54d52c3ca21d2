//! `sidle demo --workload bank`: transfers between accounts on two nodes, half of the data moved under them,
//! and the sum of all accounts, which never changes.
//!
//! A transfer is a transaction over three keys: two accounts, and how many transfers its client has had
//! committed. The auditor sums all accounts up in transactions, from begin to end. The records are only there
//! to move: they are read back afterwards.

mod auditor;
mod books;
mod course;
mod report;
mod tally;
mod teller;

pub use report::{BankReport, PartFigures, bank_summary};

use crate::control::{Control, PATIENCE_UNDER_LOAD, started_migration};
use crate::demo::{DemoError, DemoOptions, NodePair, loaded_world};
use crate::load::{LOAD_TICK, read_back};
use crate::terminal::Terminal;
use crate::words::counted;
use books::Books;
use sidle_client::{Client, Error};
use std::future::Future;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use tally::Tally;

/// The accounts unless their number is given.
pub const ACCOUNTS: u64 = 1_000;
/// The most: one transaction sums them up.
pub const MAX_ACCOUNTS: u64 = 10_000;

/// Runs the demonstration and returns its report.
///
/// # Errors
/// A node did not start, or the move failed; the load could not be made.
pub fn run(
    options: &DemoOptions,
    accounts: u64,
    terminal: &Terminal,
    stop: &AtomicBool,
) -> Result<BankReport, DemoError> {
    let nodes = NodePair::start(options)?;
    let (source, target) = (nodes.source.address(), nodes.target.address());
    terminal.say(&format!("two nodes: {source} (source) and {target} (target)"));
    let mut control = Control::connect(&source, None)?.with_patience(PATIENCE_UNDER_LOAD)?;
    give_some(&mut control, &target)?;
    let world = loaded_world(options, &nodes, terminal, stop)?;
    let books = Arc::new(Books::new(accounts, &source));
    on_runtime(books.open())?;
    let opened = counted(accounts, "account");
    terminal.say(&format!("{opened} with {} together", crate::words::count(books.total() as u64)));
    let (tally, moved) = std::thread::scope(|scope| {
        let tellers: Vec<_> = (0..options.threads)
            .map(|thread| {
                let books = Arc::clone(&books);
                scope.spawn(move || on_runtime(teller::work(books, options, thread)))
            })
            .collect();
        let auditor = scope.spawn(|| on_runtime(auditor::work(&books)));
        let moved = course::follow(&books, options, &target, control, terminal, stop);
        books.end();
        let mut tally = Tally::default();
        for teller in tellers {
            tally.add(teller.join().expect("a teller does not panic")?);
        }
        auditor.join().expect("the auditor does not panic")?;
        moved.map(|moved| (tally, moved))
    })?;
    if stop.load(Ordering::Relaxed) {
        return Err(DemoError::Interrupted);
    }
    let closed = on_runtime(books.close(&tally))?;
    let back = read_back(&world, terminal.progress("reading back", options.records))?;
    if stop.load(Ordering::Relaxed) {
        return Err(DemoError::Interrupted);
    }
    Ok(report::of(options, &books, &tally, &moved, &closed, &back))
}

/// Has the target own a quarter of all slots from the first, so that transactions span both nodes.
fn give_some(control: &mut Control, target: &str) -> Result<(), DemoError> {
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

/// A client of the bank.
async fn client(node: &str) -> Result<Client, DemoError> {
    Client::connect(&[node]).await.map_err(|error| lost(&error))
}

fn lost(error: &Error) -> DemoError {
    DemoError::Node(error.to_string())
}

/// Runs this on a runtime of this thread's own.
fn on_runtime<T>(future: impl Future<Output = Result<T, DemoError>>) -> Result<T, DemoError> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    tokio::task::LocalSet::new().block_on(&runtime, future)
}
