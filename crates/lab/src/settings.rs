//! What all runs of a lab have in common, and what `lab.json` says of them.

use crate::cell::Cell;
use crate::program::Program;
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

/// The machine of a lab.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LabMachine {
    /// Processors.
    pub cores: u32,
    /// What kind they are, as the machine says.
    pub processor: String,
    /// Bytes of memory.
    pub memory_bytes: u64,
    /// The operating system and its version.
    pub system: String,
    /// Why there are no processor quotas; `null` where there are.
    pub no_quotas: Option<String>,
}

impl LabMachine {
    /// This machine.
    pub fn this() -> LabMachine {
        LabMachine {
            cores: sidle_bench::machine::cores(),
            processor: sidle_bench::machine::processor(),
            memory_bytes: sidle_bench::machine::memory_bytes().unwrap_or(0),
            system: sidle_bench::machine::system(),
            no_quotas: sidle_bench::quota::Quotas::new().err(),
        }
    }
}

/// `lab.json`: the matrix, what it ran on and with.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LabFile {
    /// The file's own version.
    pub format: u32,
    /// What it was measured with.
    pub sidle: Program,
    /// What it ran on.
    pub machine: LabMachine,
    /// What all runs have in common.
    pub settings: Settings,
    /// Runs of each cell.
    pub repeat: u32,
    /// What was measured.
    pub cells: Vec<Cell>,
}

impl LabFile {
    /// The present version of the file.
    pub const FORMAT: u32 = 3;

    /// A lab on this machine.
    pub fn new(sidle: Program, settings: Settings, repeat: u32, cells: Vec<Cell>) -> LabFile {
        LabFile { format: LabFile::FORMAT, sidle, machine: LabMachine::this(), settings, repeat, cells }
    }

    /// Goes on with an earlier lab: its cells stay, new ones come behind them.
    ///
    /// # Errors
    /// What differs, when the runs of the two could not be compared.
    pub fn extend(self, new: &LabFile) -> Result<LabFile, String> {
        let (old_settings, new_settings) = (fields(&self.settings), fields(&new.settings));
        let mut differences: Vec<String> = Vec::new();
        for (name, was) in &old_settings {
            let now = new_settings.get(name).unwrap_or(&serde_json::Value::Null);
            if was != now {
                differences.push(format!("{name} was {was}, now {now}"));
            }
        }
        if self.machine != new.machine {
            differences.push("it was another machine, or this one was set up in another way".to_owned());
        }
        if (self.format, &self.sidle) != (new.format, &new.sidle) {
            differences.push(format!("it was sidle {}, now {}", self.sidle, new.sidle));
        }
        if !differences.is_empty() {
            return Err(differences.join("; "));
        }
        let mut cells = self.cells;
        cells.extend(new.cells.iter().filter(|cell| !cells.contains(cell)).cloned().collect::<Vec<_>>());
        Ok(LabFile { cells, repeat: self.repeat.max(new.repeat), ..new.clone() })
    }
}

fn fields(settings: &Settings) -> serde_json::Map<String, serde_json::Value> {
    match serde_json::to_value(settings) {
        Ok(serde_json::Value::Object(fields)) => fields,
        _ => Default::default(),
    }
}
