//! The demonstrations of transactions: their flags, and what is printed and written of them.

use crate::conclusion::first_of;
use crate::exit::Failure;
use crate::load::Business;
use crate::numbers::from_to;
use crate::output::OutputFile;
use clap::Args;
use serde::Serialize;
use sidle_bench::bank::{ACCOUNTS, MAX_ACCOUNTS};
use sidle_bench::demo::DemoOptions;
use sidle_bench::tpcc::{MAX_WAREHOUSES, TpccOptions, Transactions, rows_of};
use sidle_tpcc::{Keys, Placement, Scale};

/// Warehouses unless their number is given.
const WAREHOUSES: u32 = 4;
/// The share of the specification's customers and items unless it is given.
const SCALE_PERCENT: u32 = 10;
/// What is left for rows that are added, and for what a row has beside its bytes.
const SPARE_ROWS: u64 = 1_000_000;
/// A row's key and value, as an upper mean.
const ROW_BYTES: (usize, usize) = (24, 300);

/// Flags of the bank and of TPC-C.
#[derive(Debug, Args)]
pub struct TransactionsArguments {
    /// How many accounts the bank has [default: 1000]
    #[arg(long, value_name = "NUMBER", value_parser = from_to::<u64>(2, MAX_ACCOUNTS))]
    accounts: Option<u64>,
    /// How many warehouses TPC-C has [default: 4]
    #[arg(long, value_name = "NUMBER", value_parser = from_to::<u32>(1, u64::from(MAX_WAREHOUSES)))]
    warehouses: Option<u32>,
    /// How many of the customers and items that TPC-C asks for [default: 10]
    #[arg(long, value_name = "PERCENT", value_parser = from_to::<u32>(1, 100))]
    scale: Option<u32>,
    /// Give each of TPC-C's rows a slot of its own, so that nearly every transaction is over both nodes;
    /// otherwise each warehouse has one
    #[arg(long)]
    scattered: bool,
    /// Run TPC-C's new orders only, as Fulva's published code; otherwise the standard mix
    #[arg(long)]
    new_orders: bool,
}

impl TransactionsArguments {
    /// How many accounts the bank has.
    pub(crate) fn accounts(&self) -> u64 {
        self.accounts.unwrap_or(ACCOUNTS)
    }

    /// What is particular to TPC-C.
    pub(crate) fn tpcc(&self) -> TpccOptions {
        let warehouses = self.warehouses.unwrap_or(WAREHOUSES);
        let scale = Scale::reduced(warehouses, self.scale.unwrap_or(SCALE_PERCENT) * 10);
        let keys = Keys(if self.scattered { Placement::Scattered } else { Placement::Warehouse });
        let transactions = if self.new_orders { Transactions::NewOrder } else { Transactions::Standard };
        TpccOptions { scale, keys, transactions }
    }

    /// Refuses what only another workload has.
    pub(crate) fn ensure_of(&self, business: &Business) -> Result<(), Failure> {
        let of_tpcc = [
            ("--warehouses", self.warehouses.is_some()),
            ("--scale", self.scale.is_some()),
            ("--scattered", self.scattered),
            ("--new-orders", self.new_orders),
        ];
        let given = of_tpcc.iter().find(|(_, is_given)| *is_given);
        match (business, given) {
            (Business::Tpcc, _) | (_, None) => {}
            (_, Some((flag, _))) => {
                let text = format!("only TPC-C has {flag}: add --workload tpcc");
                return Err(Failure::wrong_line(text));
            }
        }
        match business {
            Business::Bank => Ok(()),
            _ if self.accounts.is_some() => {
                Err(Failure::wrong_line("only the bank has --accounts: add --workload bank"))
            }
            _ => Ok(()),
        }
    }

    /// Has the nodes take the memory that TPC-C needs.
    pub(crate) fn size_for_tpcc(&self, options: &mut DemoOptions) {
        options.records = rows_of(self.tpcc().scale) + SPARE_ROWS;
        (options.key_bytes, options.value_bytes) = ROW_BYTES;
    }
}

/// Writes a report, with its summary before it, and says what is wrong with it, if anything is.
pub(crate) fn conclude(
    is_quiet: bool,
    file: OutputFile,
    report: &impl Serialize,
    (summary, verdict): (String, Result<(), Failure>),
) -> Result<(), Failure> {
    if !is_quiet {
        print!("{summary}");
    }
    let text = serde_json::to_string_pretty(report).expect("a report is plain data");
    let name = file.path().display().to_string();
    let written = file.write(&(text + "\n"));
    if written.is_ok() && !is_quiet {
        println!("{:<18} {name}", "report");
    }
    first_of([verdict, written])
}
