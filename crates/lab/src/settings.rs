//! The common settings of all runs of a lab.

use serde::{Deserialize, Serialize};
use sidle_bench::tpcc::rows_of;
use sidle_tpcc::Scale;

/// A node with less could not have its share cut to 40 %.
const LEAST_NODE_CPU: f64 = sidle_bench::quota::LEAST_SHARE / 0.4;

/// The common settings of all runs.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Settings {
    /// Records loaded, half of which move.
    pub records: u64,
    /// How long the load lasts before the move, and again after it.
    pub seconds: u64,
    /// Clients.
    pub clients: u32,
    /// Operations per second of an open loop; a closed loop has none.
    pub rate: Option<f64>,
    /// Bytes of each key.
    pub key_bytes: usize,
    /// The seed of draws: each round adds one.
    pub seed: u64,
    /// The processors that a node at 100 % has, if there are quotas.
    pub node_cpu: f64,
    /// The size of TPC-C's database, where a cell has that.
    #[serde(default)]
    pub database: Database,
    /// The modelled machines, if any.
    #[serde(default)]
    pub modelled: Option<OnModel>,
}

/// The size of TPC-C's database.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Database {
    /// Warehouses.
    pub warehouses: u32,
    /// How many of the specification's customers and items there are, in percent.
    pub scale_percent: u32,
}

impl Database {
    /// Unless it is chosen.
    pub const DEFAULT: Database = Database { warehouses: 4, scale_percent: 10 };

    /// About how many rows it has.
    pub fn rows(self) -> u64 {
        rows_of(Scale::reduced(self.warehouses, self.scale_percent * 10))
    }
}

impl Default for Database {
    fn default() -> Database {
        Database::DEFAULT
    }
}

/// Modelled machines in place of this one.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct OnModel {
    /// The value of `sidle-lab demo --modelled`: a name, or a file.
    pub machines: String,
    /// How many of the records are in memory and stand for the others.
    pub sample: u64,
}

impl Settings {
    /// The default processors of a node at 100 %: two nodes together leave three fifths of the
    /// machine to the clients, so that none can borrow and the clients do not limit the load.
    pub fn default_node_cpu() -> f64 {
        (f64::from(sidle_bench::machine::cores()) / 5.0).max(LEAST_NODE_CPU)
    }

    /// The seed of a round (from 1): the same for all cells, another for each repeat.
    pub const fn seed_of(&self, repeat: u32) -> u64 {
        self.seed.wrapping_add(repeat as u64 - 1)
    }
}
