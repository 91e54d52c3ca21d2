//! Atomic changes of several keys: other threads see all of one or nothing.
//!
//! First memory is taken for all of them, or nothing happens. Then the records are written, beside readers.
//! Then the entries are published, while the slots' readers wait briefly (X1 in `slot_lock`).

use crate::address::Address;
use crate::config::OutOfMemory;
use crate::data::Entry;
use crate::discard::{clear_within, note_cleared};
use crate::large::publish::{LargePut, admit_growth};
use crate::log::LogHead;
use crate::record::Draft;
use crate::segment::Purpose;
use crate::store::Store;
use crate::writer::{Leave, SlotGuard};
use sidle_outline::{Chunks, Outline};
use sidle_types::{HashedKey, Position, PositionRange, Slot, ValueKind, Version, WallMs};
use std::collections::BTreeSet;

/// The index bytes of a new key without a request for room: a bucket, and one for the old array as its table
/// grows.
const INDEX_BYTES_PER_KEY: u64 = 128;

/// The most bytes of records that a change which frees memory may take of the cleaner's reserve.
const FREEING_BYTES_MAX: usize = 4 << 10;

/// One key's change among several.
#[derive(Clone, Copy, Debug)]
pub enum Change<'p> {
    /// It gets a value of this type, with a deadline or none.
    Put(ValueKind, &'p [u8], Option<WallMs>),
    /// It gets this state of a large collection of this type, with a deadline or none. The outline is a new
    /// collection, or was made from that of the key, or of a key that loses it by the same changes, wherever
    /// in their order.
    PutLarge(ValueKind, &'p Outline, Option<WallMs>),
    /// It is removed, as by [`SlotGuard::remove`].
    Remove(Leave),
}

/// The locks of several slots, for a change of several keys in one step. Readers continue.
#[derive(Debug)]
pub struct SlotGuards<'s> {
    guards: Vec<SlotGuard<'s>>,
}

impl<'s> SlotGuards<'s> {
    /// Locks several slots.
    ///
    /// # Panics
    /// When the slots are not strictly ascending: the order prevents a deadlock of two writers.
    pub fn lock(store: &'s Store, sorted_unique: &[Slot]) -> SlotGuards<'s> {
        assert!(sorted_unique.is_sorted_by(|a, b| a < b), "slots are locked in ascending order, each once");
        SlotGuards { guards: sorted_unique.iter().map(|&slot| store.lock_slot(slot)).collect() }
    }

    /// The lock of one of the slots.
    ///
    /// # Panics
    /// When it is not locked here.
    pub fn slot(&self, slot: Slot) -> &SlotGuard<'s> {
        let index = self.guards.binary_search_by_key(&slot, |guard| guard.slot());
        &self.guards[index.expect("one of the slots that were locked")]
    }

    /// The entry of a key of one of the slots.
    ///
    /// # Panics
    /// When its slot is not locked here.
    pub fn get(&self, key: HashedKey<'_>) -> Entry<'_> {
        self.slot(key.slot()).get(key)
    }

    /// Makes all changes in one step, several for one key in order; none of them without memory for all. Only
    /// here are related words published together, so that no reader sees half of a change. Readers wait from
    /// the publication until the locks are released, not while values are copied. Returns how many values it
    /// ended whose deadline was before `now`: nobody else counts them.
    ///
    /// # Panics
    /// When a key's slot is not locked here.
    pub fn publish<'p>(
        &self,
        head: &mut LogHead,
        now: WallMs,
        changes: impl Iterator<Item = (HashedKey<'p>, Change<'p>)>,
    ) -> Result<usize, OutOfMemory> {
        self.publish_over(&[], head, now, changes)
    }

    /// The same of a change that frees memory, or replaces what is there, and that found none: its records
    /// may take some of the cleaner's reserve, so that one piece of that stays. They are 4 KiB at most.
    ///
    /// # Panics
    /// When a key's slot is not locked here.
    pub fn publish_freeing<'p>(
        &self,
        head: &mut LogHead,
        now: WallMs,
        changes: impl Iterator<Item = (HashedKey<'p>, Change<'p>)>,
    ) -> Result<usize, OutOfMemory> {
        self.publish_for(Purpose::Freeing, &[], head, now, changes)
    }

    /// The same, after everything in these ranges was removed, in the same step; readers wait for that too.
    ///
    /// # Panics
    /// When a slot of the ranges is not locked here, and has entries; or when a key's is not.
    pub fn publish_over<'p>(
        &self,
        cleared: &[PositionRange],
        head: &mut LogHead,
        now: WallMs,
        changes: impl Iterator<Item = (HashedKey<'p>, Change<'p>)>,
    ) -> Result<usize, OutOfMemory> {
        self.publish_for(Purpose::Value, cleared, head, now, changes)
    }

    fn publish_for<'p>(
        &self,
        purpose: Purpose,
        cleared: &[PositionRange],
        head: &mut LogHead,
        now: WallMs,
        changes: impl Iterator<Item = (HashedKey<'p>, Change<'p>)>,
    ) -> Result<usize, OutOfMemory> {
        let mut steps: Vec<Step<'_, 'p>> = Vec::with_capacity(changes.size_hint().0);
        for (key, change) in changes {
            let keeps_head = || {
                let is_cleared = cleared.iter().any(|range| range.contains(key.position()));
                !is_cleared && steps.iter().all(|earlier| earlier.key.bytes() != key.bytes())
            };
            let step = Step::new(self.slot(key.slot()), key, change, keeps_head);
            steps.push(step);
        }
        leave_out_repeated_removals(&mut steps, cleared);
        match purpose {
            Purpose::Freeing => prepare_freeing(&steps, head)?,
            _ => prepare(&steps, head)?,
        }
        head.hold_back();
        for (guard, range) in
            self.guards.iter().flat_map(|guard| cleared.iter().map(move |range| (guard, range)))
        {
            note_cleared(guard, *range, head);
        }
        steps.iter_mut().for_each(|step| step.append(head));
        // U1, U2: walks look at no lock.
        head.log_whole_change(self.guards.iter().map(SlotGuard::slot));
        self.guards.iter().for_each(|guard| guard.table().lock.make_exclusive());
        // Before any old head goes: a collection that another key takes over is not doomed with it.
        let large = steps.iter_mut().filter_map(|step| Some((step.slot, step.large.as_mut()?)));
        large.for_each(|(slot, put)| put.enter(slot, |other| self.slot(other).table()));
        for range in cleared {
            self.guards.iter().for_each(|guard| clear_within(guard, *range));
        }
        let ended = steps.iter().filter_map(|step| step.publish(head));
        let expired = ended.filter(|&deadline| deadline < now).count();
        head.all_published();
        Ok(expired)
    }
}

impl Chunks for SlotGuards<'_> {
    /// As that of a [`Guard`](crate::Guard); one slot at least is locked.
    fn bytes_at(&self, address: u64) -> &[u8] {
        self.guards[0].bytes_at(address)
    }
}

impl SlotGuards<'_> {
    /// After a publication: look-ups continue, and the locks stay.
    pub fn let_readers_in(&self) {
        self.guards.iter().for_each(|guard| guard.table().lock.let_readers_in());
    }
}

/// Of a key whose entry is a tombstone the durable log has a removal, and keeps it as long as that stays.
/// Another one would stay as long. It is needed only behind what the same change does to the key.
fn leave_out_repeated_removals(steps: &mut [Step<'_, '_>], cleared: &[PositionRange]) {
    if !steps.iter().any(|step| step.is_repeated) {
        return;
    }
    let puts = steps.iter().filter(|step| !matches!(step.change, Change::Remove(_)));
    let put: BTreeSet<Position> = puts.map(|step| step.key.position()).collect();
    for step in steps.iter_mut().filter(|step| step.is_repeated) {
        let position = step.key.position();
        step.is_repeated = !put.contains(&position) && !cleared.iter().any(|range| range.contains(position));
    }
}

/// Ensures memory for these changes.
fn prepare(steps: &[Step<'_, '_>], head: &mut LogHead) -> Result<(), OutOfMemory> {
    let Some(data) = steps.first().map(|step| step.slot.data()) else { return Ok(()) };
    for step in steps {
        step.slot.check(head, step.key);
    }
    let with_record = || steps.iter().filter(|step| !step.sizes().is_empty());
    let has_entry = |step: &Step<'_, '_>| step.slot.find(step.key).is_some();
    with_record().try_for_each(|step| step.slot.admit(|| has_entry(step)))?;
    // A few keys' index pieces need no request.
    let index_bytes = |keys: usize| keys as u64 * INDEX_BYTES_PER_KEY;
    let large = steps.iter().filter_map(|step| step.large.as_ref());
    if large.clone().any(LargePut::is_too_long) {
        return Err(OutOfMemory);
    }
    let outlines: u64 = large.map(|put| put.growth(&data.collections)).sum();
    admit_growth(data, outlines)?;
    let beside = match index_bytes(steps.len()) + outlines {
        few if few < data.log.segments.segment_bytes() => 0,
        _ => index_bytes(with_record().filter(|step| !has_entry(step)).count()) + outlines,
    };
    head.prepare(Purpose::Value, with_record().flat_map(Step::sizes).copied(), beside)
}

/// The same, if need be from the cleaner's reserve: for few bytes. What new keys need of the index comes from
/// there as well.
fn prepare_freeing(steps: &[Step<'_, '_>], head: &mut LogHead) -> Result<(), OutOfMemory> {
    steps.iter().for_each(|step| step.slot.check(head, step.key));
    let sizes = || steps.iter().flat_map(Step::sizes).copied();
    if steps.iter().any(|step| step.large.is_some()) || sizes().sum::<usize>() > FREEING_BYTES_MAX {
        return Err(OutOfMemory);
    }
    let is_new = |step: &&Step<'_, '_>| !step.sizes().is_empty() && step.slot.find(step.key).is_none();
    let new_keys = steps.iter().filter(is_new).count() as u64;
    head.prepare(Purpose::Freeing, sizes(), new_keys * INDEX_BYTES_PER_KEY)
}

/// One key's part of a change.
struct Step<'g, 'p> {
    slot: &'g SlotGuard<'g>,
    key: HashedKey<'p>,
    change: Change<'p>,
    /// The length of the record that must be written before this is published; 0: none.
    bytes: usize,
    /// That record.
    written: Option<(Version, Address)>,
    /// Instead of it, what a large collection needs.
    large: Option<LargePut<'p>>,
    /// Whether it removes what has a tombstone, which is to stay.
    is_repeated: bool,
}

impl<'g, 'p> Step<'g, 'p> {
    fn new(
        slot: &'g SlotGuard<'g>,
        key: HashedKey<'p>,
        change: Change<'p>,
        keeps_head: impl FnOnce() -> bool,
    ) -> Step<'g, 'p> {
        let mut step = Step { slot, key, change, bytes: 0, written: None, large: None, is_repeated: false };
        let needs_record = match change {
            Change::Put(..) => true,
            Change::PutLarge(kind, outline, expires_at) => {
                let keeps_head = keeps_head();
                let put = LargePut::new(slot, key, kind, outline.clone(), expires_at, keeps_head);
                step.large = Some(put);
                false
            }
            Change::Remove(Leave::Nothing) => false,
            // An existing entry can always be removed, with or without memory.
            Change::Remove(Leave::Tombstone) => {
                let found = slot.find(key);
                step.is_repeated = found.is_some_and(|(_, word)| word.kind().is_tombstone);
                found.is_none()
            }
        };
        if needs_record {
            step.bytes = step.drafted(Version(0), |draft| draft.shape().total_bytes());
        }
        step
    }

    /// The lengths of the records that must be written before this is published.
    fn sizes(&self) -> &[usize] {
        match &self.large {
            Some(put) => put.sizes(),
            None if self.bytes == 0 => &[],
            None => std::slice::from_ref(&self.bytes),
        }
    }

    /// Passes the draft of the record to `f`.
    #[inline]
    fn drafted<T>(&self, version: Version, f: impl FnOnce(&Draft<'_>) -> T) -> T {
        match self.change {
            Change::Put(kind, value, expires_at) => {
                f(&Draft::value(self.key.bytes(), kind, &[value], version, expires_at))
            }
            Change::Remove(_) => f(&Draft::tombstone(self.key.bytes(), version)),
            Change::PutLarge(..) => unreachable!("a large collection is written as such"),
        }
    }

    /// Writes the records into reserved room, and notes a removal.
    fn append(&mut self, head: &mut LogHead) {
        if let Some(put) = &mut self.large {
            put.append(self.slot, head);
        } else if self.bytes != 0 {
            let version = self.slot.next_version();
            self.slot.table().raise_version(version.0);
            let address = self.drafted(version, |draft| head.append(draft, Purpose::Value));
            self.written = Some((version, address.expect("there is room for all")));
        } else if !self.is_repeated {
            head.note(|log| {
                Draft::tombstone(self.key.bytes(), self.slot.given_version()).append_to(log);
            });
        }
    }

    /// Makes the record the key's entry, or removes the entry. Returns the deadline of the value that it
    /// ends.
    fn publish(&self, head: &mut LogHead) -> Option<WallMs> {
        if let Some(put) = &self.large {
            return put.publish(self.slot, head);
        }
        match (self.written, self.change) {
            (Some((version, address)), _) => {
                let is_new = self.drafted(version, |draft| self.slot.publish(self.key, draft, address));
                if is_new {
                    head.made_entry(self.key.position());
                }
                self.slot.take_replaced_deadline()
            }
            // Nothing is left, or a tombstone of an existing entry.
            (None, Change::Remove(leave)) => {
                let found = self.slot.find(self.key);
                let deadline = found.and_then(|(_, word)| self.slot.deadline_of(word));
                let removed = self.slot.remove_found(head, self.key, leave, found);
                removed.expect("this removal takes no memory that may be missing");
                deadline
            }
            (None, Change::Put(..) | Change::PutLarge(..)) => unreachable!("a value has a record"),
        }
    }
}
