//! `sidle demo --workload tpcc`: TPC-C on two nodes, half of the data moved under it.
//!
//! Terminals run the standard mix, or new orders only, each transaction over whatever nodes its rows are on.
//! An auditor looks all the time whether a warehouse has taken what its districts have (clause 3.3.2.1), in a
//! transaction. At the end all four conditions of clause 3.3.2 are checked, of every warehouse.

mod auditor;
mod load;
mod measured;
mod report;
mod store;
mod terminals;

pub use measured::tpcc_name;
pub use report::{KindFigures, TpccReport, TpccWindow, tpcc_summary};

use crate::control::{Control, PATIENCE_UNDER_LOAD};
use crate::demo::{DemoError, DemoOptions, Limits, NodePair};
use crate::outcome::machine;
use crate::terminal::Terminal;
use crate::transactions::{Shown, follow, give_some, on_runtime};
use crate::words::{count, counted};
use serde::{Deserialize, Serialize};
use sidle_tpcc::{Keys, Scale};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use store::Store;
use terminals::Done;

/// The most warehouses.
pub const MAX_WAREHOUSES: u32 = 1_000;

/// Which transactions there are.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Transactions {
    /// All five, in the standard mix (clause 5.2.3).
    #[default]
    Standard,
    /// New orders only, as the published code of Fulva runs them.
    NewOrder,
}

/// What is particular to TPC-C.
#[derive(Clone, Copy, Debug)]
pub struct TpccOptions {
    /// How many of everything there are.
    pub scale: Scale,
    /// Where rows lie.
    pub keys: Keys,
    /// Which transactions there are.
    pub transactions: Transactions,
}

/// About how many rows a database has at first.
pub fn rows_of(scale: Scale) -> u64 {
    let Scale { warehouses, districts, customers, items } = scale;
    // A customer, the name, the last order; an order, its lines; three of ten are new.
    let of_district = 4 + u64::from(customers) * 53 / 10;
    u64::from(warehouses) * (2 + 2 * u64::from(items) + u64::from(districts) * of_district)
}

/// Runs the demonstration and returns its report.
///
/// # Errors
/// A node did not start, or the move failed; the load could not be made.
pub fn run(
    options: &DemoOptions,
    tpcc: TpccOptions,
    terminal: &Terminal,
    stop: &AtomicBool,
) -> Result<TpccReport, DemoError> {
    let mut limits = Limits::new(options);
    let nodes = NodePair::start(options)?;
    let (source, target) = (nodes.source.address(), nodes.target.address());
    terminal.say(&format!("two nodes: {source} (source) and {target} (target)"));
    let mut control = Control::connect(&source, None)?.with_patience(PATIENCE_UNDER_LOAD)?;
    give_some(&mut control, &target)?;
    let store = Arc::new(Store::new(tpcc, &source));
    let progress = terminal.progress("loading", u64::from(tpcc.scale.warehouses));
    let rows = on_runtime(load::fill(&store, options.seed, progress, stop))?;
    if stop.load(Ordering::Relaxed) {
        return Err(DemoError::Interrupted);
    }
    let warehouses = counted(u64::from(tpcc.scale.warehouses), "warehouse");
    terminal.say(&format!("{warehouses} with {} rows", count(rows)));
    let cpu_limits = limits.apply(options, &nodes, terminal)?;
    let end = AtomicBool::new(false);
    let (done, moved, disturbance) = std::thread::scope(|scope| {
        let host = scope.spawn(|| crate::host::watch(&end));
        let threads: Vec<_> = (0..options.threads)
            .map(|thread| {
                let store = Arc::clone(&store);
                scope.spawn(move || on_runtime(terminals::work(store, options, thread)))
            })
            .collect();
        let auditor = scope.spawn(|| on_runtime(auditor::work(&store)));
        let shown = Shown { unit: "transactions", holds: &|| store.audits_in_words() };
        let moved = follow(&store.day, shown, options, (&target, control), terminal, stop);
        store.day.end();
        end.store(true, Ordering::Relaxed);
        let disturbance = host.join().expect("the watcher does not panic");
        let mut done = Done::default();
        for thread in threads {
            done.add(thread.join().expect("a terminal does not panic")?);
        }
        auditor.join().expect("the auditor does not panic")?;
        moved.map(|moved| (done, moved, disturbance))
    })?;
    if stop.load(Ordering::Relaxed) {
        return Err(DemoError::Interrupted);
    }
    drop(limits);
    let progress = terminal.progress("checking", u64::from(tpcc.scale.warehouses));
    let violations = load::check(&store, progress)?;
    let machine = machine(disturbance, cpu_limits, options.cpu_lists.clone().map(|lists| lists.0));
    Ok(report::of(options, &store, &done, &moved, (machine, violations)))
}
