//! A dead node's ranges, from the copy of its log that this node keeps.
//!
//! The copy is read into a scratch store, with what it has in these ranges only, by the same rules as a start
//! reads a log. Nothing in its folder is changed. From there the values enter the live store as those of an
//! import do: they get versions of their own, and the live store's commits have them.
//!
//! If the scratch store cannot hold all of it, the ranges are halved, and their parts taken one by one. Each
//! takes another reading of the copy.
//!
//! | file | what |
//! |---|---|
//! | `moving` | from the scratch store to the live one |
//! | `halves` | where ranges are cut |
//! | `error` | why nothing was taken over |

mod error;
mod halves;
mod moving;
#[cfg(test)]
mod tests;

use super::recover::Reader;
pub(crate) use error::TakeOverError;
use halves::halves;
use moving::Moving;
pub(crate) use moving::clear;
use sidle_node::TakingOver;
use sidle_store::{LogHead, Store, StoreConfig};
use sidle_types::{ImportId, LogId, PositionRange};
use std::path::Path;
use std::sync::atomic::AtomicBool;

/// So often ranges are halved, at most.
const HALVED_AT_MOST: u32 = 8;
/// Each thread that reads has a head for values and one for tombstones.
const HEADS_PER_THREAD: usize = 2;
/// The recovery's own.
const MORE_HEADS: usize = 2;

/// What is taken over, and where to.
pub(crate) struct TakeOver<'t> {
    /// The folder of the copy.
    pub(crate) path: &'t Path,
    /// The log that it is of.
    pub(crate) log: LogId,
    /// These are not served, unless what is there is kept, and nobody else writes to them. They do not
    /// overlap.
    pub(crate) ranges: &'t [PositionRange],
    /// Whether what the live store has there is kept, and wins. Then the ranges are served meanwhile, as
    /// those of an import are.
    pub(crate) keeps: bool,
    /// Of one range, that of an import which goes on here, its target having died: as which one the copy has
    /// notes of it, and as which one it is noted here.
    pub(crate) imports: Option<[ImportId; 2]>,
    /// The store that serves other ranges meanwhile.
    pub(crate) live: &'t Store,
    /// A head of it, for this thread.
    pub(crate) head: LogHead,
    /// The limit of the scratch store.
    pub(crate) memory_bytes: u64,
    /// How many threads read.
    pub(crate) threads: usize,
    /// Set when it is given up.
    pub(crate) stop: &'t AtomicBool,
    /// How far it is.
    pub(crate) progress: &'t TakingOver,
}

/// What was taken over.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct TakenOver {
    /// Records of the copy that were read: those of keys in the ranges, and chunks.
    pub(crate) records: u64,
    /// Bytes of values that entered the live store.
    pub(crate) bytes: u64,
    /// Keys that did.
    pub(crate) keys: u64,
}

/// Puts what the copy has in the ranges into the live store, in place of what that has there unless that is
/// kept. After an error it has nothing there that was not kept; the call may be repeated, also if the process
/// died in it.
pub(crate) fn take_over(setup: TakeOver<'_>) -> Result<TakenOver, TakeOverError> {
    let TakeOver { path, log, ranges, keeps, imports, live, head, memory_bytes, threads, stop, progress } =
        setup;
    let succeeded = imports.zip(ranges.first().copied());
    let copy = KeptCopy { path, log, succeeded, memory_bytes, threads: threads.max(1), stop, progress };
    let mut moving = Moving::new((live, head), stop, keeps, progress);
    // An earlier call may have been interrupted.
    moving.clear(ranges);
    let taken = copy.take_parts(ranges, &mut moving);
    match &taken {
        Ok(TakenOver { records, bytes, keys }) => {
            tracing::info!("took over {keys} keys, {bytes} bytes, from {records} records of log {log}");
        }
        Err(_) => moving.clear(ranges),
    }
    taken
}

/// A copy that is read.
struct KeptCopy<'c> {
    path: &'c Path,
    log: LogId,
    /// Which import goes on, and its range.
    succeeded: Option<([ImportId; 2], PositionRange)>,
    memory_bytes: u64,
    threads: usize,
    stop: &'c AtomicBool,
    progress: &'c TakingOver,
}

impl KeptCopy<'_> {
    /// Takes the ranges over, in as many parts as it needs.
    fn take_parts(
        &self,
        ranges: &[PositionRange],
        moving: &mut Moving<'_>,
    ) -> Result<TakenOver, TakeOverError> {
        let mut taken = TakenOver::default();
        let mut left = vec![(ranges.to_vec(), 0)];
        while let Some((part, halved)) = left.pop() {
            match self.take_part(&part, moving) {
                Ok(records) => taken.records += records,
                Err(error @ TakeOverError::TooMuch { .. }) => {
                    let [first, second] = halves(&part).filter(|_| halved < HALVED_AT_MOST).ok_or(error)?;
                    tracing::info!("memory is scarce: the copy of log {} is read again, in parts", self.log);
                    left.extend([(second, halved + 1), (first, halved + 1)]);
                }
                Err(error) => return Err(error),
            }
        }
        Ok(TakenOver { bytes: moving.bytes(), keys: moving.keys(), ..taken })
    }

    /// Takes some ranges over; returns how many records were read for that.
    fn take_part(&self, ranges: &[PositionRange], moving: &mut Moving<'_>) -> Result<u64, TakeOverError> {
        let heads = HEADS_PER_THREAD * self.threads + MORE_HEADS;
        let config = StoreConfig {
            memory_bytes: self.memory_bytes,
            huge_pages: false,
            warm_segments: 0,
            ..StoreConfig::default()
        };
        let scratch = Store::new(config.for_heads(heads.try_into().unwrap_or(u16::MAX)))?;
        let reader = Reader {
            path: self.path,
            store: &scratch,
            salvages: false,
            threads: self.threads,
            stop: self.stop,
            progress: self.progress,
        };
        let recovered = reader.read_copy(self.log, ranges)?;
        match self.succeeded {
            None => moving.take_in(&scratch, ranges, false)?,
            Some(([of, id], range)) => {
                let noted = scratch.noted_import(of);
                moving.note_succession(id, range, &noted);
                moving.take_in(&scratch, &noted.answered_in(ranges), noted.needs_tombstones())?;
            }
        }
        Ok(recovered.records)
    }
}
