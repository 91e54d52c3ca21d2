//! A value too large for one slice: a large collection, or a long string.
//!
//! Each slice is read under a guard of its own, and belongs to the same state as the one before if the
//! versions still are the same. If not, the file goes back to where the value begins. What changes all the
//! time is read under one guard in the end: nobody waits for that, but what is freed is reused only then.

use sidle_collections::{members_in_chunk, strings_in_chunk};
use sidle_outline::{Large, Order, Outline};
use sidle_rdb::{Begun, Checkpoint, FileWriter};
use sidle_store::{Guard, Record, Store};
use sidle_types::{HashedKey, ValueKind, Version, WallMs};
use std::io::{Error, Result, Seek, Write};

/// How much of a value is copied under one guard: well under a millisecond.
const SLICE_BYTES: usize = 256 << 10;
/// How often a value may change before it is read under one guard.
const TRIES: u32 = 4;

/// A value that is being written.
pub(super) struct LongValue {
    key: Vec<u8>,
    /// Where it begins in the file.
    before: Checkpoint,
    tries: u32,
    /// What is written of it.
    written: Option<Written>,
    slice: Slice,
}

#[derive(Clone, Copy, Debug)]
struct Written {
    identity: Identity,
    /// Where the rest begins: a byte, or a label.
    at: u64,
    /// How many elements, or bytes, are missing.
    left: u64,
}

/// Tells two states of a key apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Identity {
    record: Version,
    state: Version,
}

/// A part of a value: bytes of a string, or whole chunks.
#[derive(Debug, Default)]
struct Slice {
    bytes: Vec<u8>,
    /// Where each chunk ends.
    ends: Vec<usize>,
}

/// A state of a key, under a guard.
struct State<'g> {
    guard: &'g Guard<'g>,
    record: Record<'g>,
    outline: Option<Outline>,
    identity: Identity,
}

impl LongValue {
    pub(super) fn new(key: Vec<u8>, before: Checkpoint) -> LongValue {
        LongValue { key, before, tries: 0, written: None, slice: Slice::default() }
    }

    /// Writes the next slice. Returns whether the value is written, or is none any more.
    pub(super) fn step<W: Write + Seek>(
        &mut self,
        store: &Store,
        now: WallMs,
        file: &mut FileWriter<W>,
    ) -> Result<bool> {
        if self.tries == TRIES {
            return self.write_under_one_guard(store, now, file).map(|()| true);
        }
        let guard = store.pin();
        let Some(state) = State::of(&guard, &self.key, now) else {
            drop(guard);
            file.go_back(&self.before)?;
            return Ok(true);
        };
        let begins = match self.written {
            Some(written) if written.identity == state.identity => None,
            Some(_) => {
                drop(state);
                drop(guard);
                (self.tries, self.written) = (self.tries + 1, None);
                file.go_back(&self.before)?;
                return Ok(false);
            }
            None => Some((state.begun(), state.record.expires_at())),
        };
        let (identity, kind) = (state.identity, state.record.kind());
        let at = self.written.map_or_else(|| state.start(), |written| written.at);
        let next = state.copy(at, &mut self.slice);
        // What follows may wait for the disk.
        drop(state);
        drop(guard);
        let mut left = self.written.map_or(0, |written| written.left);
        if let Some((begun, expires_at)) = begins {
            file.begin(&self.key, expires_at.map(|at| at.0), begun)?;
            left = count_of(begun);
        }
        left = self.slice.write(kind, left, file)?;
        self.written = next.map(|at| Written { identity, at, left });
        check_end(next, left)
    }

    fn write_under_one_guard<W: Write + Seek>(
        &mut self,
        store: &Store,
        now: WallMs,
        file: &mut FileWriter<W>,
    ) -> Result<()> {
        let guard = store.pin();
        let Some(state) = State::of(&guard, &self.key, now) else { return Ok(()) };
        file.begin(&self.key, state.record.expires_at().map(|at| at.0), state.begun())?;
        let (mut left, mut next) = (count_of(state.begun()), Some(state.start()));
        while let Some(at) = next {
            next = state.copy(at, &mut self.slice);
            left = self.slice.write(state.record.kind(), left, file)?;
        }
        check_end(next, left).map(|_| ())
    }
}

/// Whether the end is reached; there nothing may be missing.
fn check_end(next: Option<u64>, left: u64) -> Result<bool> {
    match (next, left) {
        (None, 0) => Ok(true),
        (None, _) => Err(Error::other(format!("a collection has {left} elements less than it counts"))),
        (Some(_), _) => Ok(false),
    }
}

fn count_of(begun: Begun) -> u64 {
    let (Begun::String(count)
    | Begun::Hash(count)
    | Begun::Set(count)
    | Begun::List(count)
    | Begun::SortedSet(count)) = begun;
    count
}

impl<'g> State<'g> {
    /// A key's state, if it has a value.
    fn of(guard: &'g Guard<'g>, key: &[u8], now: WallMs) -> Option<State<'g>> {
        let key = HashedKey::new(key);
        loop {
            let before = guard.version_of(guard.get(key).value()?);
            let (entry, outline) = guard.get_whole(key);
            let is_saved = |record: &Record<'_>| !record.is_expired(now) && record.kind().is_shown();
            let record = entry.value().filter(is_saved)?;
            // Versions grow, so the outline between two equal ones is of that version.
            if let Some(state) = guard.version_of(record).filter(|&after| before == Some(after)) {
                let identity = Identity { record: record.version(), state };
                return Some(State { guard, record, outline, identity });
            }
        }
    }

    fn begun(&self) -> Begun {
        let count = self.outline.as_ref().map_or(self.record.value().len() as u64, Outline::len);
        match self.record.kind() {
            ValueKind::String | ValueKind::Completions | ValueKind::Locks => Begun::String(count),
            ValueKind::Hash => Begun::Hash(count),
            ValueKind::Set => Begun::Set(count),
            ValueKind::List => Begun::List(count),
            ValueKind::SortedSet => Begun::SortedSet(count),
        }
    }

    /// Sorted sets are written from their end.
    fn is_backwards(&self) -> bool {
        self.record.kind() == ValueKind::SortedSet
    }

    fn start(&self) -> u64 {
        if self.is_backwards() { u64::MAX } else { 0 }
    }

    /// Copies what follows a place. Returns where the rest begins.
    fn copy(&self, at: u64, slice: &mut Slice) -> Option<u64> {
        slice.bytes.clear();
        slice.ends.clear();
        let Some(outline) = &self.outline else {
            let value = self.record.value();
            let (start, end) = (at as usize, value.len().min(at as usize + SLICE_BYTES));
            slice.bytes.extend_from_slice(&value[start..end]);
            return (end < value.len()).then_some(end as u64);
        };
        let large = Large::new(outline, self.guard);
        match self.is_backwards() {
            true => slice.take(large.iter_back_from(Order::Main, at), |label| label.checked_sub(1)),
            false => slice.take(large.iter_from(Order::Main, at), |label| label.checked_add(1)),
        }
    }
}

impl Slice {
    /// Copies chunks until it is full. Returns where the rest begins, by the label before it.
    fn take<'b>(
        &mut self,
        chunks: impl Iterator<Item = (&'b sidle_outline::Chunk, &'b [u8])>,
        beside: impl Fn(u64) -> Option<u64>,
    ) -> Option<u64> {
        let mut chunks = chunks.peekable();
        while let Some((chunk, bytes)) = chunks.next() {
            self.bytes.extend_from_slice(bytes);
            self.ends.push(self.bytes.len());
            if self.bytes.len() >= SLICE_BYTES {
                return chunks.peek().and(beside(chunk.label));
            }
        }
        None
    }

    /// Writes it, with so many elements or bytes missing before; how many still are.
    fn write<W: Write>(&self, kind: ValueKind, left: u64, file: &mut FileWriter<W>) -> Result<u64> {
        if kind == ValueKind::String {
            file.bytes(&self.bytes)?;
            return Ok(left - self.bytes.len() as u64);
        }
        let mut strings = 0;
        let mut start = 0;
        for &end in &self.ends {
            let chunk = &self.bytes[start..end];
            start = end;
            if kind == ValueKind::SortedSet {
                let members: Vec<(&[u8], f64)> = members_in_chunk(chunk).collect();
                for (member, score) in members.into_iter().rev() {
                    file.text(member)?;
                    file.score(score)?;
                    strings += 1;
                }
            } else {
                for text in strings_in_chunk(chunk) {
                    file.text(text)?;
                    strings += 1;
                }
            }
        }
        let elements = if kind == ValueKind::Hash { strings / 2 } else { strings };
        left.checked_sub(elements)
            .ok_or_else(|| Error::other("a collection has more elements than it counts"))
    }
}
