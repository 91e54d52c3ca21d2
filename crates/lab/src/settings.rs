//! What all runs of a lab have in common.

use serde::{Deserialize, Serialize};

/// A node with less could not have its share cut to 40 %.
const LEAST_NODE_CPU: f64 = sidle_bench::quota::LEAST_SHARE / 0.4;

/// What all runs have in common.
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
    /// What draws are made from: each round adds one.
    pub seed: u64,
    /// The processors that a node at 100 % has, where there are quotas.
    pub node_cpu: f64,
    /// On what machines, if on modelled ones.
    #[serde(default)]
    pub modelled: Option<OnModel>,
}

/// Modelled machines in place of this one.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct OnModel {
    /// What `sidle-lab demo --modelled` takes: a name, or a file.
    pub machines: String,
    /// How many of the records are in memory and stand for the others.
    pub sample: u64,
}

impl Settings {
    /// The processors that a node at 100 % has by default: two nodes together leave three fifths of the
    /// machine to the clients, so that nobody can borrow and the clients are not what limits the load.
    pub fn default_node_cpu() -> f64 {
        (f64::from(sidle_bench::machine::cores()) / 5.0).max(LEAST_NODE_CPU)
    }

    /// The seed of a round (from 1): the same for all cells, another for each repeat.
    pub const fn seed_of(&self, repeat: u32) -> u64 {
        self.seed.wrapping_add(repeat as u64 - 1)
    }
}
