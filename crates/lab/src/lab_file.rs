//! The contents of `lab.json`: the matrix, the machine and the program.

use crate::cell::Cell;
use crate::program::Program;
use crate::settings::Settings;
use serde::{Deserialize, Serialize};

/// The machine of a lab.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LabMachine {
    /// Processors.
    pub cores: u32,
    /// Their kind, as reported by the machine.
    pub processor: String,
    /// Bytes of memory.
    pub memory_bytes: u64,
    /// The operating system and its version.
    pub system: String,
    /// Why there are no processor quotas; `null` if there are.
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

/// `lab.json`: the matrix, the machine and the program.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LabFile {
    /// The file's own version.
    pub format: u32,
    /// The measuring program.
    pub sidle: Program,
    /// The machine.
    pub machine: LabMachine,
    /// The common settings of all runs.
    pub settings: Settings,
    /// Runs of each cell.
    pub repeat: u32,
    /// The measured cells.
    pub cells: Vec<Cell>,
}

impl LabFile {
    /// The present version of the file.
    pub const FORMAT: u32 = 3;

    /// A lab on this machine.
    pub fn new(sidle: Program, settings: Settings, repeat: u32, cells: Vec<Cell>) -> LabFile {
        LabFile { format: LabFile::FORMAT, sidle, machine: LabMachine::this(), settings, repeat, cells }
    }

    /// Continues an earlier lab: its cells stay, new ones are appended.
    ///
    /// # Errors
    /// The difference, if the runs of the two could not be compared.
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
