//! `sidle demo --workload bank`: transfers between accounts on two nodes, half of the data moved under them,
//! and the sum of all accounts, which never changes.
//!
//! A transfer is a transaction over three keys: two accounts, and how many transfers its client has had
//! committed. The auditor sums all accounts up in transactions, from begin to end. The records are only there
//! to move: they are read back afterwards.

mod auditor;
mod books;
mod report;
mod teller;

pub use report::{BankReport, bank_summary};

use crate::control::{Control, PATIENCE_UNDER_LOAD};
use crate::demo::{DemoError, DemoOptions, NodePair, loaded_world};
use crate::load::read_back;
use crate::terminal::Terminal;
use crate::transactions::{Shown, Tally, follow, give_some, on_runtime};
use crate::words::counted;
use books::Books;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

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
        let shown = Shown { unit: "transfers", holds: &|| books.sum_in_words() };
        let moved = follow(&books.day, shown, options, (&target, control), terminal, stop);
        books.day.end();
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
