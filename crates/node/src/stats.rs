//! Counters. Each worker writes its own, so no counter is contended; readers add them up.

use crate::observe::Latencies;
use sidle_commands::CommandId;
use std::borrow::Cow;
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Mutex, PoisonError};

/// A counter with one writer and any number of readers.
#[derive(Debug, Default)]
pub struct Counter(AtomicU64);

impl Counter {
    /// Adds; only the owning worker may.
    #[inline]
    pub fn add(&self, amount: u64) {
        // One writer: a plain load and store suffice, without the locked instruction.
        self.0.store(self.0.load(Relaxed).wrapping_add(amount), Relaxed);
    }

    /// The sum so far.
    #[inline]
    pub fn read(&self) -> u64 {
        self.0.load(Relaxed)
    }

    /// Replaces the count, for a figure that rises and falls; only the owning worker may.
    #[inline]
    pub fn set(&self, value: u64) {
        self.0.store(value, Relaxed);
    }

    /// Restarts from 0 (CONFIG RESETSTAT). An addition at the same moment may survive.
    pub fn reset(&self) {
        self.0.store(0, Relaxed);
    }
}

/// The counters of each command.
#[derive(Debug, Default)]
pub struct CommandCounters {
    /// Executed.
    pub calls: Counter,
    /// Time spent, in nanoseconds, where the driver measures it.
    pub nanoseconds: Counter,
    pub(crate) latencies: Latencies,
    /// Refused before they ran: arity, authentication, redirection.
    pub rejected: Counter,
    /// Answered with an error.
    pub failed: Counter,
}

impl CommandCounters {
    /// Counts calls of this duration each; `tracks`: in the distribution too.
    #[inline]
    pub(crate) fn took(&self, ns: u64, calls: u64, tracks: bool) {
        self.nanoseconds.add(ns * calls);
        if tracks {
            self.latencies.add(ns, calls);
        }
    }
}

/// How many kinds of error are distinguished; further ones are counted in the totals only.
const ERROR_KINDS: usize = 128;

/// A worker's counters of transactions over several nodes.
#[derive(Debug, Default)]
pub struct TransactionStats {
    /// Those that this node's connections asked for, and that were committed.
    pub committed: Counter,
    /// Votes against one, because of another one.
    pub conflicts: Counter,
    /// Parts that waited for younger transactions to end.
    pub waited: Counter,
    /// How long they did, in milliseconds; of a part that nobody looked at again it is not known.
    pub waited_ms: Counter,
    /// Those that this node began to decide in place of coordinators that are gone.
    pub helped: Counter,
}

impl TransactionStats {
    fn reset(&self) {
        let TransactionStats { committed, conflicts, waited, waited_ms, helped } = self;
        [committed, conflicts, waited, waited_ms, helped].iter().for_each(|counter| counter.reset());
    }
}

/// One worker's counters.
#[derive(Debug)]
pub struct WorkerStats {
    commands: Box<[CommandCounters]>,
    /// Reads that found a value.
    pub hits: Counter,
    /// Reads that did not.
    pub misses: Counter,
    /// Keys removed because they expired.
    pub expired: Counter,
    /// Bytes received from clients.
    pub bytes_in: Counter,
    /// Bytes sent to clients.
    pub bytes_out: Counter,
    /// Commands that wait for a migration or its mover; it rises and falls.
    pub parked: Counter,
    /// Requests forwarded to the owners of their keys.
    pub forwarded: Counter,
    /// Bytes sent to clients about what cuts gave.
    pub digest_bytes: Counter,
    /// Transactions over several nodes.
    pub transactions: TransactionStats,
    /// Error replies.
    pub errors: Counter,
    errors_by_code: Mutex<BTreeMap<String, u64>>,
}

impl WorkerStats {
    /// Zero counters for so many commands.
    pub(crate) fn new(commands: usize) -> WorkerStats {
        let mut counters = Vec::new();
        counters.resize_with(commands, CommandCounters::default);
        WorkerStats {
            commands: counters.into(),
            hits: Counter::default(),
            misses: Counter::default(),
            expired: Counter::default(),
            bytes_in: Counter::default(),
            bytes_out: Counter::default(),
            parked: Counter::default(),
            forwarded: Counter::default(),
            digest_bytes: Counter::default(),
            transactions: TransactionStats::default(),
            errors: Counter::default(),
            errors_by_code: Mutex::default(),
        }
    }

    /// One command's counters.
    #[inline]
    pub fn command(&self, id: CommandId) -> &CommandCounters {
        &self.commands[id.0 as usize]
    }

    /// Counts an error reply by its code.
    pub fn count_error(&self, code: Cow<'_, str>) {
        self.errors.add(1);
        let mut kinds = self.errors_by_code.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(count) = kinds.get_mut(code.as_ref()) {
            *count += 1;
        } else if kinds.len() < ERROR_KINDS {
            kinds.insert(code.into_owned(), 1);
        }
    }

    /// Adds this worker's error counts to a sum.
    pub fn add_errors_to(&self, sum: &mut BTreeMap<String, u64>) {
        let kinds = self.errors_by_code.lock().unwrap_or_else(PoisonError::into_inner);
        for (code, count) in kinds.iter() {
            *sum.entry(code.clone()).or_default() += count;
        }
    }

    /// Restarts all counters from 0 (CONFIG RESETSTAT).
    pub fn reset(&self) {
        for command in &self.commands {
            command.calls.reset();
            command.nanoseconds.reset();
            command.latencies.reset();
            command.rejected.reset();
            command.failed.reset();
        }
        for counter in [
            &self.hits,
            &self.misses,
            &self.expired,
            &self.bytes_in,
            &self.bytes_out,
            &self.forwarded,
            &self.errors,
        ] {
            counter.reset();
        }
        self.transactions.reset();
        self.errors_by_code.lock().unwrap_or_else(PoisonError::into_inner).clear();
    }
}
