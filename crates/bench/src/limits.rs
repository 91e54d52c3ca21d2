//! The largest load: checks before any of the machine's resources are taken.
//!
//! Each refusal names the largest size that fits. The memory needed is known only roughly; a load that passes
//! may still be slow, but takes no more than the machine has.

use crate::words::counted;
use sidle_workload::{KeyFormat, ValueFormat};

/// A record's number has 48 bits in its values.
pub const MAX_RECORDS: u64 = 1 << 48;
/// The longest key. A load is about values; longer keys show nothing more.
pub const MAX_KEY_BYTES: usize = 64 << 10;
/// The longest value that a node takes.
pub const MAX_VALUE_BYTES: usize = 512 << 20;
/// The longest part of a run: thirty days.
pub const MAX_SECONDS: u64 = 30 * 86_400;
/// The most clients, and the most operations that each has under way.
pub const MAX_CLIENTS: u32 = 10_000;
/// The most threads.
pub const MAX_THREADS: u32 = 512;

/// The fewest records that make a move meaningful.
pub const LEAST_MOVED: u64 = 1000;

/// The share of the available memory that a load takes at most.
const MEMORY_SHARE: f64 = 0.6;
/// This program's memory for each record: which writes of it were sent and acknowledged.
const LEDGER_BYTES: u64 = 8;
/// The memory of an operation under way beside its key and value.
const OPERATION_BYTES: u64 = 256;
/// How many copies of a key and its value are in this program's memory while under way: written, sent,
/// read, checked.
const COPIES: u64 = 4;

/// A node's memory beside its records.
const NODE_BYTES: u64 = 256 << 20;

/// A load by its sizes.
#[derive(Clone, Copy, Debug)]
pub struct LoadSize {
    /// Records.
    pub records: u64,
    /// Bytes of each key.
    pub key_bytes: usize,
    /// Bytes of each value.
    pub value_bytes: usize,
    /// The most operations under way, over all clients.
    pub underway: u64,
}

/// How much of the machine a load may take; `u64::MAX` if the machine does not report its memory.
pub fn memory_budget_bytes() -> u64 {
    crate::machine::available_memory_bytes().map_or(u64::MAX, |bytes| (bytes as f64 * MEMORY_SHARE) as u64)
}

impl LoadSize {
    /// Bytes of a record in a node, roughly.
    fn record_bytes(&self) -> u64 {
        (self.key_bytes as u64).saturating_add(self.value_bytes as u64).saturating_add(64)
    }

    /// Memory that a node needs for all records: the log at three quarters full, the index, some room.
    pub fn node_memory_bytes(&self) -> u64 {
        NODE_BYTES.saturating_add(self.records.saturating_mul(self.record_bytes()).saturating_mul(3) / 2)
    }

    /// The most records that two nodes can hold in `budget_bytes` of memory.
    pub fn most_records(&self, budget_bytes: u64) -> u64 {
        memory_for_records(budget_bytes) / self.record_bytes()
    }

    /// Checks this program's own needs and those of two nodes of this machine, against `budget_bytes` of
    /// memory.
    ///
    /// # Errors
    /// What does not fit, and the largest that does.
    pub fn check_with_nodes(&self, budget_bytes: u64) -> Result<(), String> {
        // First the numbers' own bounds, then what fits.
        self.check(u64::MAX)?;
        let fit = self.most_records(budget_bytes);
        if fit < LEAST_MOVED {
            let beside = 64 + self.key_bytes as u64;
            let value_fit = (memory_for_records(budget_bytes) / LEAST_MOVED).saturating_sub(beside);
            return Err(format!(
                "{LEAST_MOVED} records with values of {} bytes do not fit into this machine's memory: at most \
                 {value_fit} bytes do",
                self.value_bytes
            ));
        }
        if self.records > fit {
            return Err(too_many(self.records, fit));
        }
        self.check(budget_bytes)
    }

    /// Checks a load on modelled machines, with `sample` records in memory, against `budget_bytes` of
    /// it.
    ///
    /// # Errors
    /// What does not fit, and the largest that does.
    pub fn check_modelled(&self, sample: u64, budget_bytes: u64) -> Result<(), String> {
        // The other records take no memory, and operations are under way only in the model.
        LoadSize { underway: 1, ..*self }.check(u64::MAX)?;
        let fit = budget_bytes / 2 / self.record_bytes();
        if sample.min(self.records) > fit {
            return Err(format!(
                "a sample of {sample} records is too large: at most {fit} fit into this machine's memory"
            ));
        }
        Ok(())
    }

    /// Checks this program's own needs, against `budget_bytes` of memory.
    ///
    /// # Errors
    /// What does not fit, and the largest that does.
    pub fn check(&self, budget_bytes: u64) -> Result<(), String> {
        let LoadSize { records, key_bytes, value_bytes, underway } = *self;
        let fit = MAX_RECORDS.min(budget_bytes / 2 / LEDGER_BYTES);
        if records > fit {
            return Err(too_many(records, fit));
        }
        if key_bytes > MAX_KEY_BYTES {
            return Err(format!("keys of {key_bytes} bytes are too long: at most {MAX_KEY_BYTES}"));
        }
        if value_bytes > MAX_VALUE_BYTES {
            return Err(format!("values of {value_bytes} bytes are too long: at most {MAX_VALUE_BYTES}"));
        }
        KeyFormat::new(key_bytes, records).map_err(|error| error.to_string())?;
        ValueFormat::new(value_bytes).map_err(|error| error.to_string())?;
        let left = budget_bytes - records * LEDGER_BYTES;
        let each = |value_bytes: u64| OPERATION_BYTES + COPIES * (key_bytes as u64 + value_bytes);
        if each(value_bytes as u64).saturating_mul(underway) <= left {
            return Ok(());
        }
        let underway_fit = left / each(value_bytes as u64);
        let value_fit = (left / underway.max(1)).saturating_sub(each(0)) / COPIES;
        let operations = counted(underway, "operation");
        Err(format!(
            "{operations} under way with values of {value_bytes} bytes do not fit into this machine's memory: at \
             most {underway_fit} operations (clients times outstanding), or values of {value_fit} bytes"
        ))
    }
}

/// The part of the memory that each of two nodes has for records.
fn memory_for_records(budget_bytes: u64) -> u64 {
    (budget_bytes / 2).saturating_sub(NODE_BYTES) / 3 * 2
}

fn too_many(records: u64, fit: u64) -> String {
    format!("{records} records are too many: at most {fit} fit into this machine's memory")
}

#[cfg(test)]
mod tests {
    use super::*;

    const USUAL: LoadSize = LoadSize { records: 1_000_000, key_bytes: 30, value_bytes: 100, underway: 64 };

    #[test]
    fn the_usual_fits_and_what_does_not_is_told_with_the_largest_that_does() {
        let budget = 1 << 30;
        assert_eq!(USUAL.check(budget), Ok(()));
        assert_eq!(USUAL.check(u64::MAX), Ok(()));
        for (size, largest) in [
            (LoadSize { records: u64::MAX, ..USUAL }, "67108864"),
            (LoadSize { key_bytes: usize::MAX, ..USUAL }, "65536"),
            (LoadSize { key_bytes: 0, ..USUAL }, "at least 3"),
            (LoadSize { value_bytes: 0, ..USUAL }, "at least 32"),
            (LoadSize { value_bytes: 999_999_999_999, ..USUAL }, "536870912"),
            (LoadSize { value_bytes: 512 << 20, ..USUAL }, "values of 4162"),
            (LoadSize { underway: u64::MAX, ..USUAL }, "at most 13"),
        ] {
            let error = size.check(budget).unwrap_err();
            assert!(error.contains(largest), "{error}");
        }
    }

    #[test]
    fn the_largest_that_is_named_fits() {
        let number_after = |text: &str, word: &str| -> u64 {
            let rest = &text[text.find(word).expect("the word") + word.len()..];
            rest.split(|c: char| !c.is_ascii_digit()).next().expect("digits").parse().expect("a number")
        };
        for budget in [1u64 << 24, 1 << 30, 1 << 34] {
            let error = LoadSize { records: u64::MAX, ..USUAL }.check(budget).unwrap_err();
            let records = number_after(&error, "at most ");
            assert_eq!(LoadSize { records, underway: 1, ..USUAL }.check(budget), Ok(()));
            if budget > 1 << 29 {
                let error = LoadSize { records: MAX_RECORDS, ..USUAL }.check_with_nodes(budget).unwrap_err();
                let records = number_after(&error, "at most ");
                assert_eq!(LoadSize { records, ..USUAL }.check_with_nodes(budget), Ok(()));
                let more = LoadSize { records: records + 1, ..USUAL }.check_with_nodes(budget);
                assert_eq!(more, Err(too_many(records + 1, records)));
            }
            let large = LoadSize { records: 1000, value_bytes: 512 << 20, underway: 100, ..USUAL };
            let error = large.check(budget).unwrap_err();
            let value_bytes = number_after(&error, "or values of ") as usize;
            assert_eq!(LoadSize { value_bytes, ..large }.check(budget), Ok(()));
        }
    }
}
