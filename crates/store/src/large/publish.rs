//! Writing a large collection's new state.
//!
//! In the order of the calls: what it takes is known before anything is written; chunks and head are
//! appended; the cell names them; the index names the head.

use crate::address::Address;
use crate::config::{MAX_COLLECTION_BYTES, OutOfMemory};
use crate::data::Data;
use crate::interest::Touch;
use crate::large::chunk::{ChunkName, address_of, record_bytes, records_bytes};
use crate::large::registry::{Collections, Published};
use crate::log::LogHead;
use crate::record::{CHUNK_KEY_BYTES, Draft, HEAD_VALUE_BYTES, Record, RecordKind};
use crate::segment::Purpose;
use crate::slot_table::SlotTable;
use crate::writer::SlotGuard;
use sidle_outline::{CollectionId, Order, Outline, Place};
use sidle_types::{HashedKey, Slot, ValueKind, Version, WallMs};
use smallvec::SmallVec;

/// A change of one key that makes its value this state of a large collection.
pub(crate) struct LargePut<'p> {
    key: HashedKey<'p>,
    kind: ValueKind,
    outline: Outline,
    expires_at: Option<WallMs>,
    /// Whether the key gets a new head.
    has_head: bool,
    /// Of a collection that arrives from another node: the version of its chunks there.
    arrives_as: Option<Version>,
    /// The sizes of its records, in the order that they are appended in: the chunks', the head's.
    sizes: SmallVec<[usize; 4]>,
    /// What was appended.
    appended: Option<Appended>,
}

/// The records of a new state.
struct Appended {
    id: CollectionId,
    version: Version,
    /// The new chunks' addresses.
    chunks: Vec<u64>,
    head: Option<Address>,
}

/// The value of a head.
pub(crate) fn head_value(encoding: u8, id: CollectionId) -> [u8; HEAD_VALUE_BYTES] {
    let mut value = [encoding; HEAD_VALUE_BYTES];
    value[1..].copy_from_slice(&id.0.to_le_bytes());
    value
}

pub(crate) fn head_draft<'a>(
    key: HashedKey<'a>,
    kind: ValueKind,
    value: &'a [&'a [u8]],
    version: Version,
    expires_at: Option<WallMs>,
) -> Draft<'a> {
    Draft { key: key.bytes(), value, version, expires_at, kind: RecordKind::Head(kind) }
}

impl<'p> LargePut<'p> {
    /// Prepares the put. `keeps_head`: whether the key's head, if it is of the same collection, is still its
    /// entry when this is published.
    ///
    /// # Panics
    /// When the outline is empty, of a string, or of a state that its collection has no more.
    pub(crate) fn new(
        slot: &SlotGuard<'_>,
        key: HashedKey<'p>,
        kind: ValueKind,
        outline: Outline,
        expires_at: Option<WallMs>,
        keeps_head: bool,
    ) -> LargePut<'p> {
        assert!(kind != ValueKind::String, "a string is never in chunks");
        assert!(!outline.is_empty(), "no key has an empty collection");
        let collections = &slot.data().collections;
        if let Some(id) = outline.id() {
            let generation = collections.read(id, |state| state.outline.generation());
            assert!(generation == Some(outline.generation()), "K5: it was made from another state");
        }
        let stays = |record: &Record<'_>| {
            record.collection().is_some_and(|id| outline.id() == Some(id))
                && record.kind() == kind
                && record.expires_at() == expires_at
                && record.head_encoding() == outline.encoding()
        };
        let found = slot.find(key).filter(|(_, word)| !word.kind().is_tombstone);
        let has_head = !(keeps_head && found.is_some_and(|(_, word)| stays(&slot.record(word))));
        let mut sizes: SmallVec<[usize; 4]> =
            outline.new_chunks().map(|(_, chunk)| record_bytes(chunk)).collect();
        if has_head {
            let value: &[&[u8]] = &[&[0; HEAD_VALUE_BYTES]];
            sizes.push(head_draft(key, kind, value, Version(0), expires_at).shape().total_bytes());
        }
        LargePut { key, kind, outline, expires_at, has_head, arrives_as: None, sizes, appended: None }
    }

    /// Prepares a change of a collection that arrives from another node, where it had this version. Its key's
    /// entry stays as it is.
    pub(crate) fn arriving(
        key: HashedKey<'p>,
        kind: ValueKind,
        outline: Outline,
        version: Version,
    ) -> LargePut<'p> {
        let sizes = outline.new_chunks().map(|(_, chunk)| record_bytes(chunk)).collect();
        let (expires_at, has_head, arrives_as) = (None, false, Some(version));
        LargePut { key, kind, outline, expires_at, has_head, arrives_as, sizes, appended: None }
    }

    /// The collection, once its records are written.
    pub(crate) fn id(&self) -> Option<CollectionId> {
        self.appended.as_ref().map(|appended| appended.id)
    }

    /// The sizes of its records, in the order that they are appended in.
    pub(crate) fn sizes(&self) -> &[usize] {
        &self.sizes
    }

    /// Whether the collection is so long that it could not be packed.
    pub(crate) fn is_too_long(&self) -> bool {
        self.outline.sequence(Order::Main).bytes() > MAX_COLLECTION_BYTES
    }

    /// How many more bytes the outline takes than the published one.
    pub(crate) fn growth(&self, collections: &Collections) -> u64 {
        let published =
            self.outline.id().and_then(|id| collections.read(id, |state| state.outline.memory_bytes()));
        self.outline.memory_bytes().saturating_sub(published.unwrap_or(0))
    }

    /// Writes its records into reserved room.
    pub(crate) fn append(&mut self, slot: &SlotGuard<'_>, head: &mut LogHead) {
        let data = slot.data();
        // Higher than those of its chunks, too, which may come from another slot.
        let before = self.outline.id().and_then(|id| data.collections.read(id, |state| state.version));
        let version = match self.arrives_as {
            Some(version) => slot.version_of_arrival(version),
            None => slot.next_version().max(Version(before.map_or(0, |before| before.0 + 1))),
        };
        slot.table().raise_version(version.0);
        let id = self.outline.id().unwrap_or_else(|| data.collections.reserve(&data.log.segments));
        let append = |head: &mut LogHead, draft: &Draft<'_>| {
            head.append(draft, Purpose::Value).expect("there is room for all")
        };
        let mut chunks = Vec::new();
        for (order, chunk) in self.outline.new_chunks() {
            let Place::New(elements) = &chunk.place else { unreachable!("a new chunk is not in the log") };
            let key: [u8; CHUNK_KEY_BYTES] = ChunkName { id, order, label: chunk.label }.to_key();
            let (value, kind): (&[&[u8]], _) = (&[elements], RecordKind::Chunk(self.kind));
            let draft = Draft { key: &key, value, version, expires_at: None, kind };
            chunks.push(append(head, &draft).offset());
        }
        head.note(|log| self.each_removed(id, version, |draft| draft.append_to(log)));
        let value = head_value(self.outline.encoding(), id);
        let head = self
            .has_head
            .then(|| append(head, &head_draft(self.key, self.kind, &[&value], version, self.expires_at)));
        self.appended = Some(Appended { id, version, chunks, head });
    }

    /// Passes what the durable log is to know of each label that has no chunk any more to `f`.
    fn each_removed(&self, id: CollectionId, version: Version, mut f: impl FnMut(&Draft<'_>)) {
        for order in Order::ALL {
            let sequence = self.outline.sequence(order);
            for chunk in self.outline.replaced_chunks() {
                if sequence.labelled(chunk.label).is_none() {
                    let key = ChunkName { id, order, label: chunk.label }.to_key();
                    f(&Draft { key: &key, value: &[], version, expires_at: None, kind: RecordKind::NoChunk });
                }
            }
        }
    }

    /// Writes the change, under the lock of one slot, and makes it the state of its cell. The caller
    /// publishes a head that it has, and notes that all is published. Without memory nothing has changed.
    pub(crate) fn carry_out(&mut self, slot: &SlotGuard<'_>, head: &mut LogHead) -> Result<(), OutOfMemory> {
        let data = slot.data();
        let growth = self.growth(&data.collections);
        admit_growth(data, growth)?;
        let beside = if growth < data.log.segments.segment_bytes() { 0 } else { growth };
        head.prepare(Purpose::Value, self.sizes().iter().copied(), beside)?;
        head.hold_back();
        self.append(slot, head);
        head.log_whole_change(std::iter::once(slot.slot()));
        self.enter(slot, |other| panic!("K1: the collection's key is in slot {}", other.number()));
        Ok(())
    }

    /// Makes the state that of its cell. `table_of` gives the table of another slot that is locked as well.
    pub(crate) fn enter<'t>(
        &mut self,
        slot: &'t SlotGuard<'_>,
        table_of: impl FnOnce(Slot) -> &'t SlotTable,
    ) {
        let data = slot.data();
        let Appended { id, version, chunks, head } = self.appended.as_ref().expect("it was appended");
        let mut outline = std::mem::take(&mut self.outline);
        let is_new = outline.id().is_none();
        let added = records_bytes(outline.new_chunks().map(|(_, chunk)| chunk));
        let replaced = outline.replaced_chunks().to_vec();
        let memory = outline.memory_bytes() as i64;
        outline.publish(*id, outline.generation() + 1, version.0, chunks);
        if is_new {
            assert!(head.is_some() || self.arrives_as.is_some(), "a new collection has a new head");
            let state = Published {
                outline,
                slot: slot.slot(),
                head: *head,
                version: *version,
                chunk_bytes: added,
                packed_crc: None,
            };
            data.collections.enter(*id, state);
            slot.table().count_bytes(if head.is_some() { added as i64 } else { 0 });
            data.log.segments.index_grew(memory);
            return;
        }
        let removed = records_bytes(replaced.iter());
        let made_from = outline.generation() - 1;
        let before = data.collections.change(*id, |state| {
            assert!(state.outline.generation() == made_from, "K5: it was made from another state");
            let before = (state.slot, state.chunk_bytes, state.head.is_some());
            let outline = std::mem::replace(&mut state.outline, outline);
            state.slot = slot.slot();
            state.head = head.or(state.head);
            state.version = state.version.max(*version);
            state.packed_crc = None;
            state.chunk_bytes = state.chunk_bytes + added - removed;
            (before, outline)
        });
        let ((old_slot, old_bytes, is_counted), old) = before;
        data.log.segments.index_grew(memory - old.memory_bytes() as i64);
        if old_slot != slot.slot() {
            assert!(self.has_head, "K1: a taken over collection has a new head");
            table_of(old_slot).count_bytes(-(old_bytes as i64));
            slot.table().count_bytes(old_bytes as i64);
        }
        // K4: a collection that gets its first head brings all of its chunks.
        let brought = if is_counted { 0 } else { old_bytes as i64 };
        let has_key = is_counted || head.is_some();
        slot.table().count_bytes(if has_key { brought + added as i64 - removed as i64 } else { 0 });
        for chunk in &replaced {
            data.log.bury_chunk(address_of(chunk).expect("it was published"), record_bytes(chunk));
        }
    }

    /// Makes the head the key's entry, or reports the change of the collection. Returns the deadline of the
    /// value that it ends.
    pub(crate) fn publish(&self, slot: &SlotGuard<'_>, head_log: &mut LogHead) -> Option<WallMs> {
        let Appended { id, version, head, .. } = self.appended.as_ref().expect("it was appended");
        let Some(address) = *head else {
            slot.touch(|| self.key.position(), Touch::Put);
            return None;
        };
        // Only the length of the value matters.
        let value = head_value(0, *id);
        let value: &[&[u8]] = &[&value];
        let draft = head_draft(self.key, self.kind, value, *version, self.expires_at);
        if slot.publish(self.key, &draft, address) {
            head_log.made_entry(self.key.position());
        }
        slot.take_replaced_deadline()
    }

    /// The version that the key got.
    pub(crate) fn version(&self) -> Version {
        self.appended.as_ref().map_or(Version(0), |appended| appended.version)
    }
}

/// See [`SlotGuard::put_large`].
pub(crate) fn put(
    slot: &SlotGuard<'_>,
    head_log: &mut LogHead,
    mut put: LargePut<'_>,
) -> Result<Version, OutOfMemory> {
    if put.is_too_long() {
        return Err(OutOfMemory);
    }
    slot.admit(|| slot.find(put.key).is_some())?;
    put.carry_out(slot, head_log)?;
    put.publish(slot, head_log);
    head_log.all_published();
    Ok(put.version())
}

/// Whether an outline may take so many bytes more: while the index uses the cleaner's reserve, none.
pub(crate) fn admit_growth(data: &Data, bytes: u64) -> Result<(), OutOfMemory> {
    match bytes != 0 && data.log.segments.is_overdrawn() {
        true => Err(OutOfMemory),
        false => Ok(()),
    }
}

/// Writes a head with another deadline; returns the new version.
pub(crate) fn set_deadline(
    slot: &SlotGuard<'_>,
    head_log: &mut LogHead,
    key: HashedKey<'_>,
    old: Record<'_>,
    expires_at: Option<WallMs>,
) -> Result<Version, OutOfMemory> {
    let version = slot.next_version();
    let value = &[old.value()];
    let draft = head_draft(key, old.kind(), value, version, expires_at);
    let address = head_log.append(&draft, Purpose::Value)?;
    head_log.log_change(std::iter::once(slot.slot()));
    let id = old.collection().expect("a head names its collection");
    slot.data().collections.change(id, |state| {
        (state.head, state.version, state.packed_crc) = (Some(address), version, None);
    });
    slot.publish(key, &draft, address);
    Ok(version)
}
