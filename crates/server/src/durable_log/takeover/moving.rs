//! From a scratch store into the live one, while the log writer and the cleaner keep up.

use super::error::TakeOverError;
use crate::config::Size;
use sidle_node::TakingOver;
use sidle_store::{LogHead, MoveIn, Moved, NotedImport, ReplayError, Store};
use sidle_types::{ImportId, PositionRange};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

/// So many entries are removed at a time.
const REMOVED_TOGETHER: usize = 1024;
/// So many bytes may wait for the log writer.
const BUFFERED_BYTES: u64 = 8 << 20;
/// Between two looks at what waits for the log writer.
const REST: Duration = Duration::from_millis(1);
/// How often a slice is put in before there is no room for it, and the rest in between.
const TRIES: u32 = 20;
const TRY_REST: Duration = Duration::from_millis(5);
/// What is made room for between two tries.
const ROOM_BYTES: usize = 512 << 10;

/// What puts values into the live store.
pub(super) struct Moving<'m> {
    live: &'m Store,
    head: LogHead,
    stop: &'m AtomicBool,
    /// What the live store has is kept.
    keeps: bool,
    progress: &'m TakingOver,
    bytes: u64,
    keys: u64,
}

impl<'m> Moving<'m> {
    pub(super) fn new(
        (live, head): (&'m Store, LogHead),
        stop: &'m AtomicBool,
        keeps: bool,
        progress: &'m TakingOver,
    ) -> Moving<'m> {
        Moving { live, head, stop, keeps, progress, bytes: 0, keys: 0 }
    }

    /// How many bytes of values were put in.
    pub(super) fn bytes(&self) -> u64 {
        self.bytes
    }

    /// How many keys were.
    pub(super) fn keys(&self) -> u64 {
        self.keys
    }

    /// Removes what the live store has in these ranges, unless it is kept.
    pub(super) fn clear(&self, ranges: &[PositionRange]) {
        if self.keeps {
            return;
        }
        clear(self.live, ranges);
    }

    /// An import goes on here as far as it was noted.
    pub(super) fn note_succession(&self, id: ImportId, range: PositionRange, noted: &NotedImport) {
        self.live.note_succession(id, range, noted);
    }

    /// Puts in what the scratch store has in these ranges, its tombstones too if they are needed.
    pub(super) fn take_in(
        &mut self,
        from: &Store,
        ranges: &[PositionRange],
        needs_tombstones: bool,
    ) -> Result<(), TakeOverError> {
        let memory = from.memory();
        let needed = memory.log_live + memory.index;
        let free = self.live.memory().room();
        // Some of what is kept may be the same.
        if needed > free && !self.keeps {
            return Err(TakeOverError::NoMemory { needed: Size(needed), free: Size(free) });
        }
        self.progress.note_found(memory.log_live);
        for &range in ranges {
            let mut moving = MoveIn::new(range).and_tombstones(needs_tombstones);
            while self.step(&mut moving, from, needed)? == Moved::Slice {
                self.progress.note_put(self.bytes + moving.bytes());
            }
            self.keys += moving.keys();
            self.bytes += moving.bytes();
        }
        Ok(())
    }

    /// Moves a slice, as soon as there is room for it.
    fn step(&mut self, moving: &mut MoveIn, from: &Store, needed: u64) -> Result<Moved, TakeOverError> {
        for _ in 0..TRIES {
            self.let_commits_catch_up()?;
            match moving.step(from, self.live, &mut self.head) {
                Ok(moved) => return Ok(moved),
                Err(ReplayError::OutOfMemory(_)) => {
                    if !self.live.make_room(ROOM_BYTES) {
                        thread::sleep(TRY_REST);
                    }
                }
                Err(error) => return Err(TakeOverError::NotTaken(error)),
            }
        }
        let left = needed.saturating_sub(self.bytes + moving.bytes());
        Err(TakeOverError::NoMemory { needed: Size(left), free: Size(self.live.memory().room()) })
    }

    /// Waits while too much waits for the log writer.
    fn let_commits_catch_up(&self) -> Result<(), TakeOverError> {
        let is_behind =
            || self.live.commits().is_some_and(|commits| commits.buffered_bytes() > BUFFERED_BYTES);
        loop {
            if self.stop.load(Ordering::Relaxed) {
                return Err(TakeOverError::Stopped);
            }
            if !is_behind() {
                return Ok(());
            }
            thread::sleep(REST);
        }
    }
}

/// Removes what a store has in these ranges.
pub(crate) fn clear(store: &Store, ranges: &[PositionRange]) {
    for range in ranges {
        let mut next = Some(range.first());
        while let Some(from) = next {
            next = store.discard(from, range.last(), REMOVED_TOGETHER);
        }
    }
}
