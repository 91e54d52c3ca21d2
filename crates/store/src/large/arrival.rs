//! A large collection that arrives from another node, chunk by chunk.
//!
//! Its chunks lie where they will stay, under an outline in a cell of its own: the cleaner and the accounts
//! know them as those of any collection. Until all of it has arrived no key has it. Then a head makes it a
//! key's value, in one step, whatever its length. What changed at the other node since can be brought later,
//! if nobody reads the collection meanwhile: a copy that is nobody's yet.
//!
//! K1 and K5 hold as for any change. A step under the slot's lock handles a few chunks (L1 to L3 as for
//! [`LargePut`]).

use crate::address::Address;
use crate::config::OutOfMemory;
use crate::large::patch::{Item, Parts, PatchHead};
use crate::large::publish::{LargePut, head_draft, head_value};
use crate::large::registry::Collections;
use crate::log::{Log, LogHead};
use crate::replay::{ReplayError, Replayed};
use crate::segment::Purpose;
use crate::store::Store;
use crate::writer::SlotGuard;
use sidle_outline::{Chunk, CollectionId, Order, Outline};
use sidle_types::{HashedKey, Position, PositionRange, ValueKind, Version, WallMs, fault};
use std::sync::Arc;

/// How many chunks are written or removed under one hold of the slot's lock.
const CHUNKS_PER_LOCK: usize = 32;

const MALFORMED: ReplayError = ReplayError::Patch("it is malformed");

/// A collection that arrives. Dropped before it is [finished](Self::finish), it leaves nothing behind, unless
/// a key had it before.
pub struct Arrival {
    log: Arc<Log>,
    collections: Arc<Collections>,
    key: Box<[u8]>,
    kind: ValueKind,
    encoding: u8,
    expires_at: Option<WallMs>,
    /// None before its first chunk.
    id: Option<CollectionId>,
    /// That of its next chunks and its head.
    version: Version,
    /// Whether a key has it.
    is_entry: bool,
}

/// Identifies a collection that arrived, for a later patch of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Arrived {
    key: Box<[u8]>,
    id: CollectionId,
}

/// Where the next item applies.
struct Cursor {
    order: Order,
    /// The first label that is not dealt with.
    label: u64,
}

impl Arrival {
    /// Begins with the first part of a patch since nothing. Applies nothing yet. The collection is to be as
    /// of this version.
    pub fn begin(store: &Store, first: &[u8], version: Version) -> Result<Arrival, ReplayError> {
        let (Some(head), _) = Parts::parse(first).ok_or(MALFORMED)? else { return Err(MALFORMED) };
        let PatchHead { kind, encoding, expires_at, key } = head;
        let (log, collections) = (Arc::clone(&store.data.log), Arc::clone(&store.data.collections));
        let (key, id, is_entry) = (key.into(), None, false);
        Ok(Arrival { log, collections, key, kind, encoding, expires_at, id, version, is_entry })
    }

    /// The same of what arrived before, to be patched where it is; none if the key's value is another one by
    /// now.
    pub fn again(store: &Store, arrived: &Arrived, version: Version) -> Option<Arrival> {
        let guard = store.pin();
        let record = guard.get(HashedKey::new(&arrived.key)).value()?;
        let outline = guard.outline(record).filter(|outline| outline.id() == Some(arrived.id))?;
        Some(Arrival {
            log: Arc::clone(&store.data.log),
            collections: Arc::clone(&store.data.collections),
            key: arrived.key.clone(),
            kind: record.kind(),
            encoding: outline.encoding(),
            expires_at: record.expires_at(),
            id: Some(arrived.id),
            version,
            is_entry: true,
        })
    }

    /// A further patch of it begins, to this version.
    pub fn goes_on_to(&mut self, version: Version) {
        assert!(version >= self.version, "a collection's versions only grow");
        self.version = version;
    }

    /// Its key.
    pub fn key(&self) -> HashedKey<'_> {
        HashedKey::new(&self.key)
    }

    /// The position of its key.
    pub fn position(&self) -> Position {
        self.key().position()
    }

    /// Whether a key has it already.
    pub fn is_entry(&self) -> bool {
        self.is_entry
    }

    /// Identifies it once a key has it; none if it has no chunk.
    pub fn arrived(&self) -> Option<Arrived> {
        Some(Arrived { key: self.key.clone(), id: self.id? })
    }

    /// Applies a part of a patch. After an error it may be applied in part; applying it again is safe.
    pub fn apply(&mut self, store: &Store, head: &mut LogHead, part: &[u8]) -> Result<(), ReplayError> {
        assert!(Arc::ptr_eq(&self.log, &store.data.log), "it arrives in another store");
        let (patch_head, mut items) = Parts::parse(part).ok_or(MALFORMED)?;
        if let Some(new) = patch_head {
            if (new.key, new.kind) != (&*self.key, self.kind) {
                return Err(ReplayError::Patch("it is of another key"));
            }
            (self.encoding, self.expires_at) = (new.encoding, new.expires_at);
        }
        let mut cursor = Cursor { order: Order::Main, label: 0 };
        while !items.is_empty() {
            (cursor, items) = self.apply_some(store, head, cursor, items)?;
        }
        Ok(())
    }

    /// Applies some items under one hold of the lock; returns where to continue.
    fn apply_some<'b>(
        &mut self,
        store: &Store,
        head: &mut LogHead,
        mut cursor: Cursor,
        mut items: Parts<'b>,
    ) -> Result<(Cursor, Parts<'b>), ReplayError> {
        let slot = store.lock_slot(self.key().slot());
        let mut outline = match self.id {
            Some(id) => self.collections.read(id, |state| state.outline.clone()).ok_or(ReplayError::Gone)?,
            None => Outline::new(self.encoding),
        };
        let mut left = CHUNKS_PER_LOCK;
        while left > 0 && !items.is_empty() {
            let before = items;
            let item = items.item().ok_or(MALFORMED)?;
            if !apply_item(&mut outline, &mut cursor, item, &mut left)? {
                items = before;
                break;
            }
        }
        if outline.is_changed() {
            self.write(&slot, head, outline)?;
        }
        Ok((cursor, items))
    }

    fn write(
        &mut self,
        slot: &SlotGuard<'_>,
        head: &mut LogHead,
        outline: Outline,
    ) -> Result<(), OutOfMemory> {
        slot.admit(|| false)?;
        let mut put = LargePut::arriving(HashedKey::new(&self.key), self.kind, outline, self.version);
        put.carry_out(slot, head)?;
        head.all_published();
        self.id = put.id();
        Ok(())
    }

    /// Makes it the key's value, if that has no entry; or what it is patched to. M5 as for
    /// [`Store::replay`]. If it arrived while it changed, it may be without chunks: then no key gets it.
    pub fn finish(
        &mut self,
        store: &Store,
        head: &mut LogHead,
        within: PositionRange,
    ) -> Result<Replayed, ReplayError> {
        let key = HashedKey::new(&self.key);
        if !within.contains(key.position()) {
            return Err(ReplayError::OutsideRange(key.position()));
        }
        let Some(id) = self.id else { return Ok(Replayed::default()) };
        let slot = store.lock_slot(key.slot());
        let found = slot.find(key);
        let is_it = found
            .is_some_and(|(_, word)| !word.kind().is_tombstone && slot.record(word).collection() == Some(id));
        if self.is_entry && !is_it {
            return Err(ReplayError::Gone);
        }
        if !self.is_entry && found.is_some() {
            return Ok(Replayed { inserted: 0, present: 1 });
        }
        slot.admit(|| self.is_entry)?;
        let value = head_value(self.encoding, id);
        let value: &[&[u8]] = &[&value];
        let is_empty = self.collections.read(id, |state| state.outline.is_empty());
        if !self.is_entry && is_empty != Some(false) {
            return Ok(Replayed::default());
        }
        let version = slot.version_of_arrival(self.version);
        let draft = head_draft(key, self.kind, value, version, self.expires_at);
        let address = head.append(&draft, Purpose::Value)?;
        head.log_change(std::iter::once(slot.slot()));
        let encoding = self.encoding;
        let chunk_bytes = self.collections.change(id, |state| {
            (state.head, state.packed_crc) = (Some(address), None);
            state.version = state.version.max(version);
            state.outline.set_encoding(encoding);
            state.chunk_bytes
        });
        if self.is_entry {
            slot.publish(key, &draft, address);
            return Ok(Replayed { inserted: 0, present: 1 });
        }
        slot.table().count_bytes(chunk_bytes as i64);
        slot.enter(key.hash(), self.record(&slot, address), address);
        self.is_entry = true;
        Ok(Replayed { inserted: 1, present: 0 })
    }

    fn record<'g>(&self, slot: &'g SlotGuard<'_>, address: Address) -> crate::record::Record<'g> {
        slot.data().log.record(address, slot.pinned())
    }
}

/// Applies an item to the outline; whether all of it was applied.
fn apply_item(
    outline: &mut Outline,
    cursor: &mut Cursor,
    item: Item<'_>,
    left: &mut usize,
) -> Result<bool, ReplayError> {
    let (label, has_chunk) = match item {
        Item::From(order, label) => {
            *cursor = Cursor { order, label };
            return Ok(true);
        }
        Item::Held(label) | Item::Chunk { label, .. } => (label, true),
        Item::NoneUpTo(label) => (label, false),
    };
    if label < cursor.label {
        return Err(ReplayError::Patch("its labels are out of order"));
    }
    if !remove_up_to(outline, cursor, label, has_chunk, left) {
        return Ok(false);
    }
    match item {
        Item::Chunk { label, elements, bytes } => {
            *left = left.saturating_sub(1);
            outline.put(cursor.order, Chunk::new(label, elements, bytes));
        }
        Item::Held(label) if outline.sequence(cursor.order).labelled(label).is_none() => {
            return Err(ReplayError::Patch("a chunk that is not held"));
        }
        Item::Held(_) | Item::NoneUpTo(_) | Item::From(..) => {}
    }
    cursor.label = label.saturating_add(1);
    Ok(true)
}

/// Removes chunks from the cursor on, before a label, or with it too; whether all of them are removed.
fn remove_up_to(
    outline: &mut Outline,
    cursor: &Cursor,
    label: u64,
    is_before: bool,
    left: &mut usize,
) -> bool {
    if fault!(PatchKeepsWhatIsGone) {
        return true;
    }
    let is_gone = |gone: &u64| if is_before { *gone < label } else { *gone <= label };
    let labels = outline.sequence(cursor.order).iter_from(cursor.label).map(|chunk| chunk.label);
    let gone: Vec<u64> = labels.take_while(is_gone).take(*left + 1).collect();
    let (is_all, removed) = (gone.len() <= *left, gone.len().min(*left));
    *left -= removed;
    for &label in &gone[..removed] {
        outline.remove(cursor.order, label);
    }
    is_all
}

impl Drop for Arrival {
    fn drop(&mut self) {
        if let Some(id) = self.id.filter(|_| !self.is_entry) {
            self.collections.abandon(id);
        }
    }
}

impl std::fmt::Debug for Arrival {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let mut f = f.debug_struct("Arrival");
        f.field("id", &self.id).field("version", &self.version).finish_non_exhaustive()
    }
}
