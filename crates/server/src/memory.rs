//! The memory for the node's data: the amount in the settings, checked before any is taken.

use crate::config::{Config, DurabilityMode, Size};
use crate::process;
use sidle_store::{StoreConfig, StoreError};
use sidle_types::words::counted;

/// The memory assumed of a machine that does not report it.
const ASSUMED_MACHINE_BYTES: u64 = 2 << 30;
/// What a node that takes all of its memory at startup leaves of the machine's free memory: for its
/// threads, connections, and what else runs there.
const SPARED_BYTES: u64 = 64 << 20;

/// Memory that a node cannot have. The message names the setting to change.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum MemoryError {
    /// Too little for the threads that write.
    #[error(
        "{} of memory is too little for {threads}: set --max-memory (`[memory] max_memory`) to at least {least}, \
         or start fewer --workers",
        with_unit(*asked)
    )]
    TooLittle {
        /// What was asked for.
        asked: Size,
        /// The threads that write.
        threads: String,
        /// The least that works.
        least: Size,
    },
    /// Too much for addresses.
    #[error(
        "{} of memory is too much: set --max-memory (`[memory] max_memory`) to at most {most}",
        with_unit(*asked)
    )]
    TooMuch {
        /// What was asked for.
        asked: Size,
        /// The most that works.
        most: Size,
    },
    /// It is to be taken at startup, and is not free.
    #[error(
        "--preallocate takes all of {} at the start, and this machine has less: set --max-memory (`[memory] \
         max_memory`) to at most {most}, or leave --preallocate out",
        with_unit(*asked)
    )]
    NotThere {
        /// What was asked for.
        asked: Size,
        /// The most that is free.
        most: Size,
    },
}

/// A size in a sentence, where bare digits would say nothing.
fn with_unit(size: Size) -> String {
    let text = size.to_string();
    if text.ends_with(|last: char| last.is_ascii_digit()) { counted(size.0, "byte") } else { text }
}

/// How the store is built.
///
/// # Errors
/// The amount in the settings is not available.
pub(crate) fn store_config(config: &Config) -> Result<StoreConfig, MemoryError> {
    let half_of_machine = || Size(process::machine_memory_bytes().unwrap_or(ASSUMED_MACHINE_BYTES) / 2);
    let memory_bytes = config.memory.max_memory.unwrap_or_else(half_of_machine).0;
    let heads = config.worker_count() as u16 + config.node.movers as u16;
    let store = StoreConfig {
        preallocate: config.memory.preallocate,
        is_durable: config.durability.mode != DurabilityMode::None,
        ..StoreConfig::with_memory(memory_bytes).for_heads(heads)
    };
    let threads =
        format!("{} and {}", counted(config.worker_count(), "worker"), counted(config.node.movers, "mover"));
    check(&store, threads, process::available_memory_bytes())?;
    Ok(store)
}

/// `available_bytes`: the machine's free memory; `None` if it is not reported.
fn check(store: &StoreConfig, threads: String, available_bytes: Option<u64>) -> Result<(), MemoryError> {
    let asked = Size(store.memory_bytes);
    let most_there = available_bytes.unwrap_or(u64::MAX).saturating_sub(SPARED_BYTES);
    match store.validate() {
        Err(StoreError::MemoryBytes { least, .. }) if asked.0 < least => {
            Err(MemoryError::TooLittle { asked, threads, least: Size(least) })
        }
        _ if store.preallocate && asked.0 > most_there => {
            // In whole MiB, which read better.
            Err(MemoryError::NotThere { asked, most: Size(most_there >> 20 << 20) })
        }
        Err(StoreError::MemoryBytes { most, .. }) => Err(MemoryError::TooMuch { asked, most: Size(most) }),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn checked(memory_bytes: u64, preallocate: bool) -> Result<(), String> {
        let store = StoreConfig { preallocate, ..StoreConfig::with_memory(memory_bytes).for_heads(3) };
        check(&store, "2 workers and 1 mover".into(), Some(4 << 30)).map_err(|error| error.to_string())
    }

    /// The size that follows these words.
    fn size_after(text: &str, words: &str) -> u64 {
        let rest = &text[text.find(words).unwrap_or_else(|| panic!("{words}: {text}")) + words.len()..];
        let size = rest.split([',', ' ']).next().expect("a size");
        size.parse::<Size>().expect("a size").0
    }

    #[test]
    fn too_little_is_refused_with_what_to_set() {
        let refused = checked(1 << 10, false).unwrap_err();
        assert!(refused.starts_with("1kb of memory is too little for 2 workers and 1 mover"), "{refused}");
        for (bytes, told) in [(1, "1 byte of memory is "), (1001, "1,001 bytes of memory is ")] {
            let refused = checked(bytes, false).unwrap_err();
            assert!(refused.starts_with(told), "{refused}");
        }
        let least = size_after(&refused, "--max-memory (`[memory] max_memory`) to at least ");
        assert_eq!((checked(least, false), checked(least - 1, false).is_err()), (Ok(()), true));
    }

    #[test]
    fn too_much_is_refused_with_the_largest_that_fits() {
        let refused = checked(u64::MAX, false).unwrap_err();
        assert_eq!(checked(size_after(&refused, "to at most "), false), Ok(()));
        for absurd in [1 << 40, u64::MAX] {
            let refused = checked(absurd, true).unwrap_err();
            let most = size_after(&refused, "to at most ");
            assert_eq!((most, checked(most, true)), ((4 << 30) - SPARED_BYTES, Ok(())), "{refused}");
        }
        assert_eq!(checked(100 << 30, false), Ok(()), "it is taken as data comes");
    }
}
