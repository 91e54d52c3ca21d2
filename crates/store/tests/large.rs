//! Large collections: what is published, found, replaced and freed, in a single thread.

#![expect(clippy::unwrap_used, reason = "tests")]

use sidle_outline::{Chunk, Large, Order, Outline};
use sidle_store::{
    Assembly, Change, CleanOutcome, Entry, Leave, LogHead, Packed, RecordBatch, SlotGuards, Store,
    StoreConfig,
};
use sidle_types::{HashedKey, Position, PositionRange, ValueKind, Version, WallMs};

fn store_of(memory_bytes: u64) -> Store {
    Store::new(StoreConfig {
        memory_bytes,
        segment_bytes: 16 << 10,
        huge_pages: false,
        ..StoreConfig::default()
    })
    .unwrap()
}

fn store() -> Store {
    store_of(8 << 20)
}

fn elements(label: u64, stamp: u64, bytes: usize) -> Vec<u8> {
    (0..bytes).map(|at| (label * 31 + stamp * 7 + at as u64) as u8).collect()
}

/// A collection of its own with chunks of these labels.
fn collection(labels: impl Iterator<Item = u64>, stamp: u64, bytes: usize) -> Outline {
    let mut outline = Outline::new(3);
    labels.for_each(|label| outline.put(Order::Main, Chunk::new(label, 1, &elements(label, stamp, bytes))));
    outline
}

fn put(store: &Store, head: &mut LogHead, key: &[u8], outline: Outline) -> Version {
    let key = HashedKey::new(key);
    store.lock_slot(key.slot()).put_large(head, key, ValueKind::List, outline, None).unwrap()
}

/// Changes a key's collection.
fn patch(store: &Store, head: &mut LogHead, key: &[u8], change: impl FnOnce(&mut Outline)) -> Version {
    let key = HashedKey::new(key);
    let slot = store.lock_slot(key.slot());
    let record = slot.get(key).value().unwrap();
    let mut outline = slot.outline(record);
    change(&mut outline);
    slot.put_large(head, key, record.kind(), outline, record.expires_at()).unwrap()
}

/// A key's chunks: label, and elements.
fn chunks(store: &Store, key: &[u8]) -> Option<Vec<(u64, Vec<u8>)>> {
    let guard = store.pin();
    let (_, outline) = guard.get_whole(HashedKey::new(key));
    let outline = outline?;
    let large = Large::new(&outline, &guard);
    Some(large.iter_from(Order::Main, 0).map(|(chunk, bytes)| (chunk.label, bytes.to_vec())).collect())
}

fn expected(labels: impl Iterator<Item = u64>, stamp: u64, bytes: usize) -> Option<Vec<(u64, Vec<u8>)>> {
    Some(labels.map(|label| (label, elements(label, stamp, bytes))).collect())
}

fn clean(store: &Store) {
    let mut cleaner = store.cleaner();
    while cleaner.step(64 << 10) == CleanOutcome::Progress {}
}

#[test]
fn a_collection_is_put_found_patched_and_removed() {
    let store = store();
    let mut head = store.log_head();
    let first = put(&store, &mut head, b"k", collection(0..100, 1, 50));
    assert_eq!(chunks(&store, b"k"), expected(0..100, 1, 50));
    store.check_accounting().unwrap();
    let before = store.memory();
    let second = patch(&store, &mut head, b"k", |outline| {
        outline.put(Order::Main, Chunk::new(7, 2, &elements(7, 2, 60)));
        outline.remove(Order::Main, 8);
        outline.put(Order::ByMember, Chunk::new(8, 2, b"member"));
    });
    assert!(second > first);
    let after = store.memory();
    let written = after.log_live as i64 - before.log_live as i64;
    let record = |bytes: i64| (20 + 17 + bytes + 7) / 8 * 8;
    assert_eq!(written, record(60) + record(6) - 2 * record(50), "the head is not written anew");
    let mut now = expected(0..100, 1, 50).unwrap();
    now[7].1 = elements(7, 2, 60);
    now.remove(8);
    assert_eq!(chunks(&store, b"k").unwrap(), now);
    {
        let guard = store.pin();
        let (entry, outline) = guard.get_whole(HashedKey::new(b"k"));
        let record = entry.value().unwrap();
        assert!(record.is_large() && record.collection() == outline.as_ref().unwrap().id());
        assert_eq!((record.kind(), record.version()), (ValueKind::List, first));
        assert_eq!(guard.version_of(record), Some(second));
        assert_eq!((outline.as_ref().unwrap().len(), outline.unwrap().encoding()), (100, 3));
    }
    store.check_accounting().unwrap();
    let key = HashedKey::new(b"k");
    assert!(store.lock_slot(key.slot()).remove(&mut head, key, Leave::Nothing).unwrap());
    assert_eq!(store.memory().log_live, 0);
    assert!(matches!(store.pin().get(key), Entry::Absent));
    store.check_accounting().unwrap();
    let index = store.memory().index;
    clean(&store);
    assert!(store.memory().index < index, "the outline's memory is freed");
    store.check_accounting().unwrap();
    assert!(put(&store, &mut head, b"k", collection(0..3, 1, 50)) > second);
}

#[test]
fn a_reader_keeps_what_it_has_found() {
    let store = store();
    let mut head = store.log_head();
    put(&store, &mut head, b"k", collection(0..100, 1, 50));
    let guard = store.pin();
    let outline = guard.get_whole(HashedKey::new(b"k")).1.unwrap();
    for stamp in 2..40 {
        patch(&store, &mut head, b"k", |outline| {
            for label in 0..100 {
                outline.put(Order::Main, Chunk::new(label, 1, &elements(label, stamp, 50)));
            }
        });
    }
    store
        .lock_slot(HashedKey::new(b"k").slot())
        .remove(&mut head, HashedKey::new(b"k"), Leave::Nothing)
        .unwrap();
    clean(&store);
    let large = Large::new(&outline, &guard);
    let seen = large.iter_from(Order::Main, 0).map(|(chunk, bytes)| (chunk.label, bytes.to_vec()));
    assert!(seen.eq(expected(0..100, 1, 50).unwrap()));
    drop(guard);
    store.check_accounting().unwrap();
}

#[test]
fn a_value_of_any_kind_replaces_a_collection_and_is_replaced_by_one() {
    let store = store();
    let mut head = store.log_head();
    let key = HashedKey::new(b"k");
    let put_string = |head: &mut LogHead| {
        store.lock_slot(key.slot()).put(head, key, &[b"string"], Some(WallMs(9))).unwrap();
    };
    put_string(&mut head);
    put(&store, &mut head, b"k", collection(0..100, 1, 50));
    store.check_accounting().unwrap();
    let first = store.pin().get(key).value().unwrap().collection();
    put(&store, &mut head, b"k", collection(0..9, 2, 50));
    assert_ne!(store.pin().get(key).value().unwrap().collection(), first);
    assert_eq!(chunks(&store, b"k"), expected(0..9, 2, 50));
    store.check_accounting().unwrap();
    put_string(&mut head);
    assert_eq!(store.pin().get(key).value().unwrap().value(), b"string");
    assert_eq!(chunks(&store, b"k"), None);
    store.check_accounting().unwrap();
    clean(&store);
    store.check_accounting().unwrap();
}

#[test]
fn a_deadline_and_an_encoding_are_written_with_the_head() {
    let store = store();
    let mut head = store.log_head();
    let key = HashedKey::new(b"k");
    put(&store, &mut head, b"k", collection(0..100, 1, 50));
    let id = store.pin().get(key).value().unwrap().collection();
    store.lock_slot(key.slot()).set_deadline(&mut head, key, Some(WallMs(100))).unwrap();
    let record_of = |check: &dyn Fn(sidle_store::Record<'_>)| check(store.pin().get(key).value().unwrap());
    record_of(&|record| assert_eq!((record.collection(), record.expires_at()), (id, Some(WallMs(100)))));
    assert_eq!(store.expiring_len(), 1);
    patch(&store, &mut head, b"k", |outline| {
        outline.set_encoding(4);
        outline.remove(Order::Main, 5);
    });
    record_of(&|record| assert_eq!((record.collection(), record.expires_at()), (id, Some(WallMs(100)))));
    assert_eq!(store.pin().get_whole(key).1.unwrap().encoding(), 4);
    store.check_accounting().unwrap();
    let slot = store.lock_slot(key.slot());
    let outline = slot.outline(slot.get(key).value().unwrap());
    slot.put_large(&mut head, key, ValueKind::List, outline, None).unwrap();
    drop(slot);
    record_of(&|record| assert_eq!((record.collection(), record.expires_at()), (id, None)));
    assert_eq!((store.expiring_len(), chunks(&store, b"k").unwrap().len()), (0, 99));
    store.check_accounting().unwrap();
}

#[test]
#[should_panic(expected = "K5")]
fn what_was_made_from_another_state_is_not_published() {
    let store = store();
    let mut head = store.log_head();
    put(&store, &mut head, b"k", collection(0..100, 1, 50));
    let old = store.pin().get_whole(HashedKey::new(b"k")).1.unwrap();
    patch(&store, &mut head, b"k", |outline| assert!(outline.remove(Order::Main, 5)));
    put(&store, &mut head, b"k", old);
}

#[test]
#[should_panic(expected = "only strings grow")]
fn a_collection_is_not_extended() {
    let store = store();
    let mut head = store.log_head();
    put(&store, &mut head, b"k", collection(0..100, 1, 50));
    let key = HashedKey::new(b"k");
    let _ = store.lock_slot(key.slot()).extend(&mut head, key, &[b"more"]);
}

/// Chunks that are too large for a segment have runs of their own.
#[test]
fn chunks_of_any_size_are_kept_and_freed() {
    let store = store();
    let mut head = store.log_head();
    let sizes = [1, 4_000, 5_000, 100_000, 3, 1_000_000, 16_000];
    let mut outline = Outline::new(0);
    for (label, &bytes) in sizes.iter().enumerate() {
        outline.put(Order::Main, Chunk::new(label as u64, 1, &elements(label as u64, 0, bytes)));
    }
    put(&store, &mut head, b"k", outline);
    let all = |stamp: u64| {
        let sizes = sizes.iter().enumerate().map(|(label, &bytes)| (label as u64, bytes));
        Some(sizes.map(|(label, bytes)| (label, elements(label, stamp, bytes))).collect::<Vec<_>>())
    };
    assert_eq!(chunks(&store, b"k"), all(0));
    store.check_accounting().unwrap();
    for stamp in 1..20 {
        patch(&store, &mut head, b"k", |outline| {
            for (label, &bytes) in sizes.iter().enumerate() {
                let elements = elements(label as u64, stamp, bytes);
                outline.put(Order::Main, Chunk::new(label as u64, 1, &elements));
            }
        });
        clean(&store);
        assert_eq!(chunks(&store, b"k"), all(stamp));
        store.check_accounting().unwrap();
    }
    assert_eq!(store.discard(Position::FIRST, Position::LAST, 100), None);
    clean(&store);
    store.check_accounting().unwrap();
    assert_eq!(store.memory().log_live, 0);
}

#[test]
fn nothing_happens_without_memory_for_all_of_it() {
    let store = store_of(1 << 20);
    let mut head = store.log_head();
    put(&store, &mut head, b"k", collection(0..100, 1, 50));
    let index = store.memory().index;
    let key = HashedKey::new(b"k");
    {
        let slot = store.lock_slot(key.slot());
        let large = collection(0..10_000, 2, 200);
        assert!(slot.put_large(&mut head, key, ValueKind::Set, large, None).is_err());
        let mut more = slot.outline(slot.get(key).value().unwrap());
        for label in 0..10_000 {
            more.put(Order::Main, Chunk::new(label, 1, &elements(label, 2, 200)));
        }
        assert!(slot.put_large(&mut head, key, ValueKind::List, more, None).is_err());
    }
    assert_eq!((chunks(&store, b"k"), store.memory().index), (expected(0..100, 1, 50), index));
    store.check_accounting().unwrap();
}

#[test]
fn a_full_store_strikes_a_collection_out_and_frees_it() {
    let store = store_of(1 << 20);
    let mut head = store.log_head();
    let mut count = 0u32;
    loop {
        let name = count.to_le_bytes();
        let key = HashedKey::new(&name);
        let outline = collection(0..20, 1, 100);
        if store.lock_slot(key.slot()).put_large(&mut head, key, ValueKind::Hash, outline, None).is_err() {
            break;
        }
        count += 1;
    }
    assert!(count > 100, "{count}");
    for number in 0..count {
        let name = number.to_le_bytes();
        let key = HashedKey::new(&name);
        assert!(store.lock_slot(key.slot()).remove(&mut head, key, Leave::Tombstone).unwrap());
        if number % 50 == 0 {
            store.check_accounting().unwrap();
        }
    }
    assert_eq!(store.tombstones_in(PositionRange::ALL), u64::from(count));
    clean(&store);
    store.check_accounting().unwrap();
    assert!(store.memory().log_live < 40 * u64::from(count));
    put(&store, &mut head, b"k", collection(0..1000, 1, 100));
    assert_eq!(chunks(&store, b"k"), expected(0..1000, 1, 100));
}

/// The chunks of live collections move, those of doomed ones do not, and all counts stay right.
#[test]
fn the_cleaner_moves_chunks_and_heads() {
    let store = store_of(2 << 20);
    let mut head = store.log_head();
    let names: Vec<Vec<u8>> = (0..20u32).map(|number| number.to_le_bytes().to_vec()).collect();
    for name in &names {
        put(&store, &mut head, name, collection(0..100, 0, 300));
    }
    let mut stamps = vec![[0u64; 100]; names.len()];
    for round in 1..6_000u64 {
        let number = (round * 7 % 20) as usize;
        let labels = [round * 13 % 100, round * 17 % 100, round * 29 % 100];
        patch(&store, &mut head, &names[number], |outline| {
            for label in labels {
                outline.put(Order::Main, Chunk::new(label, 1, &elements(label, round, 300)));
                stamps[number][label as usize] = round;
            }
        });
        if round % 3 == 0 {
            store.cleaner().step(4 << 10);
        }
        if round % 500 == 0 {
            let gone = HashedKey::new(&names[number]);
            store.lock_slot(gone.slot()).remove(&mut head, gone, Leave::Nothing).unwrap();
            put(&store, &mut head, &names[number], collection(0..100, 0, 300));
            stamps[number] = [0; 100];
            head = store.log_head();
            store.check_accounting().unwrap();
        }
    }
    for (name, stamps) in names.iter().zip(stamps) {
        let all = (0..100).map(|label| (label, elements(label, stamps[label as usize], 300)));
        assert!(chunks(&store, name).unwrap().into_iter().eq(all));
    }
    store.check_accounting().unwrap();
}

/// Publishes changes together, some of them of outlines.
fn publish(store: &Store, head: &mut LogHead, changes: &[(&[u8], Change<'_>)]) -> bool {
    let mut slots: Vec<_> = changes.iter().map(|(key, _)| HashedKey::new(key).slot()).collect();
    slots.sort_unstable();
    slots.dedup();
    let changes = changes.iter().map(|(key, change)| (HashedKey::new(key), *change));
    SlotGuards::lock(store, &slots).publish(head, WallMs(0), changes).is_ok()
}

fn outline_of(store: &Store, key: &[u8]) -> Outline {
    store.pin().get_whole(HashedKey::new(key)).1.unwrap()
}

#[test]
fn a_collection_is_renamed_whatever_the_order_of_the_changes() {
    // In two slots and in one.
    for names in [[b"a".as_slice(), b"b"], [b"{t}a", b"{t}b"]] {
        for is_removed_first in [false, true] {
            for had_value in 0..3 {
                let store = store();
                let mut head = store.log_head();
                let [from, to] = names;
                put(&store, &mut head, from, collection(0..50, 1, 100));
                match had_value {
                    0 => {}
                    1 => drop(put(&store, &mut head, to, collection(0..70, 2, 100))),
                    _ => {
                        let key = HashedKey::new(to);
                        store.lock_slot(key.slot()).put(&mut head, key, &[b"string"], None).unwrap();
                    }
                }
                let id = outline_of(&store, from).id();
                let mut outline = outline_of(&store, from);
                outline.put(Order::Main, Chunk::new(7, 1, &elements(7, 5, 30)));
                let mut changes: Vec<(&[u8], Change<'_>)> = vec![
                    (to, Change::PutLarge(ValueKind::List, &outline, Some(WallMs(9)))),
                    (from, Change::Remove(Leave::Nothing)),
                ];
                if is_removed_first {
                    changes.reverse();
                }
                assert!(publish(&store, &mut head, &changes));
                let mut now = expected(0..50, 1, 100).unwrap();
                now[7].1 = elements(7, 5, 30);
                assert_eq!((chunks(&store, from), chunks(&store, to)), (None, Some(now)));
                assert_eq!(outline_of(&store, to).id(), id, "its chunks stay where they are");
                store.check_accounting().unwrap();
                patch(&store, &mut head, to, |outline| assert!(outline.remove(Order::Main, 3)));
                clean(&store);
                assert_eq!(chunks(&store, to).unwrap().len(), 49);
                store.check_accounting().unwrap();
                let key = HashedKey::new(to);
                store.lock_slot(key.slot()).remove(&mut head, key, Leave::Nothing).unwrap();
                clean(&store);
                assert_eq!(store.memory().log_live, 0);
                store.check_accounting().unwrap();
            }
        }
    }
}

/// Two keys change their collections in one step: neither is doomed.
#[test]
fn two_keys_exchange_their_collections() {
    let store = store();
    let mut head = store.log_head();
    put(&store, &mut head, b"a", collection(0..50, 1, 100));
    put(&store, &mut head, b"b", collection(0..60, 2, 100));
    let (a, b) = (outline_of(&store, b"a"), outline_of(&store, b"b"));
    let changes: [(&[u8], Change<'_>); 2] = [
        (b"a", Change::PutLarge(ValueKind::List, &b, None)),
        (b"b", Change::PutLarge(ValueKind::List, &a, None)),
    ];
    assert!(publish(&store, &mut head, &changes));
    assert_eq!(chunks(&store, b"a"), expected(0..60, 2, 100));
    assert_eq!(chunks(&store, b"b"), expected(0..50, 1, 100));
    store.check_accounting().unwrap();
}

/// Changes of one key in order: each earlier one is as if it had been published before.
#[test]
fn several_changes_of_one_key_leave_the_last_one() {
    let store = store();
    let mut head = store.log_head();
    let (one, two) = (collection(0..50, 1, 100), collection(0..60, 2, 100));
    fn put_large(outline: &Outline) -> Change<'_> {
        Change::PutLarge(ValueKind::List, outline, None)
    }
    let (put_string, remove) = (Change::Put(ValueKind::String, b"s", None), Change::Remove(Leave::Tombstone));
    assert!(publish(&store, &mut head, &[(b"k", put_large(&one)), (b"k", put_large(&two))]));
    assert_eq!(chunks(&store, b"k"), expected(0..60, 2, 100));
    store.check_accounting().unwrap();
    for before in [put_string, remove] {
        let own = outline_of(&store, b"k");
        assert!(publish(&store, &mut head, &[(b"k", before), (b"k", put_large(&own))]));
        assert_eq!(chunks(&store, b"k"), expected(0..60, 2, 100));
        assert_eq!(outline_of(&store, b"k").id(), own.id());
        store.check_accounting().unwrap();
    }
    assert!(publish(&store, &mut head, &[(b"k", put_large(&one)), (b"k", put_string)]));
    assert_eq!(chunks(&store, b"k"), None);
    store.check_accounting().unwrap();
    assert!(publish(&store, &mut head, &[(b"k", put_large(&one)), (b"k", remove)]));
    store.check_accounting().unwrap();
    clean(&store);
    store.check_accounting().unwrap();
    assert_eq!((store.len(), store.tombstones_in(PositionRange::ALL)), (0, 1));
}

#[test]
fn a_flush_within_a_change_dooms_what_it_clears_and_keeps_what_is_put() {
    let store = store();
    let mut head = store.log_head();
    for name in [b"a".as_slice(), b"b", b"c"] {
        put(&store, &mut head, name, collection(0..50, 1, 100));
    }
    let (new, own) = (collection(0..9, 2, 100), outline_of(&store, b"b"));
    let slots: Vec<_> = sidle_types::Slot::all().collect();
    let changes = [
        (HashedKey::new(b"a"), Change::PutLarge(ValueKind::Set, &new, None)),
        (HashedKey::new(b"b"), Change::PutLarge(ValueKind::List, &own, None)),
    ];
    let locks = SlotGuards::lock(&store, &slots);
    locks.publish_over(&[PositionRange::ALL], &mut head, WallMs(0), changes.into_iter()).unwrap();
    drop(locks);
    assert_eq!((chunks(&store, b"a"), chunks(&store, b"c")), (expected(0..9, 2, 100), None));
    assert_eq!(chunks(&store, b"b"), expected(0..50, 1, 100));
    store.check_accounting().unwrap();
}

#[test]
fn a_change_of_several_keys_needs_memory_for_all_of_it() {
    let store = store_of(1 << 20);
    let mut head = store.log_head();
    put(&store, &mut head, b"a", collection(0..50, 1, 100));
    let before = store.memory();
    let mut own = outline_of(&store, b"a");
    own.put(Order::Main, Chunk::new(3, 1, b"changed"));
    let large = collection(0..20_000, 2, 50);
    let changes: [(&[u8], Change<'_>); 3] = [
        (b"a", Change::PutLarge(ValueKind::List, &own, None)),
        (b"b", Change::PutLarge(ValueKind::List, &large, None)),
        (b"c", Change::Put(ValueKind::String, b"small", None)),
    ];
    assert!(!publish(&store, &mut head, &changes));
    assert_eq!((chunks(&store, b"a"), store.len()), (expected(0..50, 1, 100), 1));
    assert_eq!((store.memory().log_live, store.memory().index), (before.log_live, before.index));
    store.check_accounting().unwrap();
    assert!(publish(&store, &mut head, &[changes[0], changes[2]]));
    store.check_accounting().unwrap();
}

/// What a key's collection is, packed: the encoding, the number of elements, the elements.
fn packed_value(store: &Store, key: &[u8]) -> Vec<u8> {
    let outline = outline_of(store, key);
    let mut value = vec![outline.encoding()];
    value.extend_from_slice(&(outline.len() as u32).to_le_bytes());
    chunks(store, key).unwrap().iter().for_each(|(_, elements)| value.extend_from_slice(elements));
    value
}

#[test]
fn a_collection_travels_as_a_packed_one() {
    let (source, target) = (store(), store());
    let (mut head, mut target_head) = (source.log_head(), target.log_head());
    put(&source, &mut head, b"k", collection((0..100).map(|label| label * 3), 1, 77));
    let version = patch(&source, &mut head, b"k", |outline| {
        outline.put(Order::Main, Chunk::new(30, 4, b"four"));
        outline.put(Order::ByMember, Chunk::new(30, 4, b"is not sent"));
    });
    let key = HashedKey::new(b"k");
    let deadline = source.lock_slot(key.slot()).set_deadline(&mut head, key, Some(WallMs(9))).unwrap();
    assert!(deadline > version);
    let mut batch = Vec::new();
    assert!(source.pack(key, &mut batch));
    assert_eq!(batch.len(), source.packed_bytes_at(key.position()));
    let mut scanned = Vec::new();
    let end = source.scan(Position::FIRST, Position::LAST, 1 << 20, &mut scanned);
    assert_eq!((end.records, &scanned), (1, &batch));
    assert_eq!(source.pack_unless_large(key, batch.len() - 1, &mut Vec::new()), Packed::Large);
    let end =
        source.scan_to_large(Position::FIRST, Position::LAST, 1 << 20, batch.len() - 1, &mut Vec::new());
    assert!(end.is_large);
    let parsed = RecordBatch::parse(&batch).unwrap();
    target.replay(&mut target_head, &parsed, PositionRange::ALL).unwrap();
    let guard = target.pin();
    let record = guard.get(key).value().unwrap();
    assert!(!record.is_large());
    assert_eq!((record.kind(), record.version()), (ValueKind::List, deadline));
    assert_eq!((record.value(), record.expires_at()), (&packed_value(&source, b"k")[..], Some(WallMs(9))));
    drop(guard);
    target.check_accounting().unwrap();
}

#[test]
fn a_collection_in_pieces_is_the_packed_one_and_a_change_makes_another_image() {
    let source = store();
    let mut head = source.log_head();
    let key = HashedKey::new(b"k");
    put(&source, &mut head, b"k", collection(0..300, 1, 100));
    let mut images = Vec::new();
    for round in 0..4 {
        let mut whole = Vec::new();
        source.pack(key, &mut whole);
        for most in [1 + 13 * round as usize, 1_000, 29_999, 1 << 20] {
            let (mut pieces, mut image) = (Vec::new(), None);
            while image.is_none_or(|image: sidle_store::Image| pieces.len() < image.bytes) {
                let offset = pieces.len();
                let (now, from) = source.pack_piece(key.position(), |_| offset, most, &mut pieces).unwrap();
                assert!(from == offset && pieces.len() <= offset + most && image.is_none_or(|i| i == now));
                image = Some(now);
                clean(&source);
            }
            assert!(pieces == whole, "in pieces of {most}");
            images.extend(image);
        }
        let target = store();
        let mut assembly = Assembly::begin(&target, whole.len()).unwrap();
        whole.chunks(5_000).for_each(|piece| assembly.append(piece));
        assembly.replay(&target, &mut target.log_head(), PositionRange::ALL).unwrap();
        assert_eq!(target.pin().get(key).value().unwrap().value(), packed_value(&source, b"k"));
        if round == 2 {
            source.lock_slot(key.slot()).set_deadline(&mut head, key, Some(WallMs(9))).unwrap();
        } else {
            // As long as before.
            patch(&source, &mut head, b"k", |outline| {
                outline.put(Order::Main, Chunk::new(7, 1, &elements(7, round + 3, 100)));
            });
        }
    }
    images.dedup();
    assert_eq!(images.len(), 4, "one for each state: {images:?}");
}

/// Of a position with a large collection and another key's string, all travels together.
#[test]
fn keys_that_share_a_position_are_packed_together() {
    let twins: [&[u8]; 2] = [b"{t}2649a1b", b"{t}383230d"];
    let source = store();
    let mut head = source.log_head();
    put(&source, &mut head, twins[0], collection(0..30, 1, 100));
    let other = HashedKey::new(twins[1]);
    source.lock_slot(other.slot()).put(&mut head, other, &[b"string"], None).unwrap();
    let mut scanned = Vec::new();
    source.scan(Position::FIRST, Position::LAST, 1 << 20, &mut scanned);
    let mut pieces = Vec::new();
    while pieces.len() < scanned.len() {
        let offset = pieces.len();
        source.pack_piece(other.position(), |_| offset, 111, &mut pieces).unwrap();
    }
    assert!(pieces == scanned);
    assert_eq!(RecordBatch::parse(&pieces).unwrap().len(), 2);
}

#[test]
fn a_collection_that_could_not_be_sent_is_refused() {
    let store = Store::new(StoreConfig { huge_pages: false, ..StoreConfig::with_memory(2 << 30) }).unwrap();
    let mut head = store.log_head();
    let key = HashedKey::new(b"k");
    // Chunks that share their bytes.
    let chunk = Chunk::new(0, 1, &vec![0; 1 << 20]);
    let mut outline = Outline::new(0);
    let most = sidle_store::MAX_COLLECTION_BYTES;
    for label in 0..=most >> 20 {
        outline.put(Order::Main, Chunk { label, ..chunk.clone() });
    }
    assert!(outline.bytes() > most);
    let slot = store.lock_slot(key.slot());
    assert!(slot.put_large(&mut head, key, ValueKind::List, outline.clone(), None).is_err());
    drop(slot);
    assert!(!publish(&store, &mut head, &[(b"k", Change::PutLarge(ValueKind::List, &outline, None))]));
    assert_eq!((store.len(), store.memory().log_used, store.memory().index), (0, 0, 0));
}

/// A count that looks into collections is of one moment, too.
#[test]
fn collections_are_counted_at_one_moment() {
    let store = store();
    let mut head = store.log_head();
    put(&store, &mut head, b"a", collection(0..50, 1, 100));
    put(&store, &mut head, b"b", collection(0..70, 1, 100));
    let keys = [b"a", b"b", b"c"].map(|name| HashedKey::new(name));
    let elements = || {
        let guard = store.pin();
        let lens = keys.map(|key| guard.get_whole(key).1.map_or(0, |outline| outline.len()));
        lens.iter().sum::<u64>()
    };
    assert_eq!(store.at_one_moment(elements), 120);
    let guard = store.pin();
    let together = guard.get_whole_together(&keys);
    let lens: Vec<u64> = together.iter().flat_map(|(_, outline)| outline).map(Outline::len).collect();
    assert_eq!((together.len(), lens), (3, vec![50, 70]));
}

/// Removes everything that is expired.
struct All;

impl sidle_store::Expiring for All {
    fn leave(&mut self, _: Position) -> Option<Leave> {
        Some(Leave::Nothing)
    }

    fn removed(&mut self, _: Position) {}
}

#[test]
fn an_expired_collection_is_found_by_position_and_by_segment() {
    for by_segment in [false, true] {
        let store = store();
        let mut head = store.log_head();
        for number in 0..20u64 {
            let name = number.to_le_bytes();
            let key = HashedKey::new(&name);
            let (slot, outline) = (store.lock_slot(key.slot()), collection(0..60, 1, 100));
            slot.put_large(&mut head, key, ValueKind::Set, outline, Some(WallMs(number))).unwrap();
        }
        drop(head);
        let mut head = store.log_head();
        if by_segment {
            while store.expire_segment(&mut head, WallMs(10), &mut All).is_some() {}
        } else {
            assert_eq!(store.expire(&mut head, Position::FIRST, WallMs(10), 100, &mut All).removed, 10);
        }
        assert_eq!(store.len(), 10);
        store.check_accounting().unwrap();
        clean(&store);
        store.check_accounting().unwrap();
    }
}

#[test]
fn walks_and_draws_give_the_head() {
    let store = store();
    let mut head = store.log_head();
    put(&store, &mut head, b"k", collection(0..500, 1, 100));
    let mut visited = Vec::new();
    let next = store.visit(Position::FIRST, Position::LAST, 1000, &mut |record| {
        visited.push((record.key().to_vec(), record.is_large(), record.kind()));
    });
    assert_eq!((next, visited), (None, vec![(b"k".to_vec(), true, ValueKind::List)]));
    assert!(store.pin().random_record(7).unwrap().is_large());
    assert_eq!((store.len(), store.shown_in_slot(HashedKey::new(b"k").slot())), (1, 1));
    let live = store.bytes_in(PositionRange::ALL);
    assert!(live > 50_000 && live == store.memory().log_live, "a range's bytes are those of its elements");
}

/// To end a collection takes no more time the longer it is: nothing of it is visited before the cleaner is.
#[test]
fn what_a_removed_collection_takes_is_freed_by_the_cleaner_in_slices() {
    let store = store();
    let mut head = store.log_head();
    put(&store, &mut head, b"k", collection(0..10_000, 1, 100));
    let (key, before) = (HashedKey::new(b"k"), store.memory());
    store.lock_slot(key.slot()).remove(&mut head, key, Leave::Nothing).unwrap();
    assert_eq!((store.memory().log_live, store.memory().index), (0, before.index));
    let mut slices = 0;
    while store.cleaner().step(1 << 10) == CleanOutcome::Progress && store.memory().index > 0 {
        let index = store.memory().index;
        store.check_accounting().unwrap();
        slices += u64::from(index < before.index);
        if slices > 30 {
            break;
        }
    }
    assert!(slices > 30, "{slices} slices");
    clean(&store);
    drop(head);
    store.check_accounting().unwrap();
    assert!(store.memory().index < before.index / 5);
}
