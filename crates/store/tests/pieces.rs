//! The records of one position, packed in pieces and assembled elsewhere.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use sidle_store::{
    Assembly, BatchError, Entry, Image, LogHead, Packed, ReplayError, Replayed, Store, StoreConfig,
};
use sidle_types::{HashedKey, Position, PositionRange, WallMs};

fn store(memory_bytes: u64) -> (Store, LogHead) {
    let config = StoreConfig { memory_bytes, segment_bytes: 64 << 10, ..StoreConfig::default() };
    let store = Store::new(config).unwrap();
    let head = store.log_head();
    (store, head)
}

fn put(store: &Store, head: &mut LogHead, key: &[u8], value: &[u8], expires_at: Option<WallMs>) {
    let key = HashedKey::new(key);
    store.lock_slot(key.slot()).put(head, key, &[value], expires_at).unwrap();
}

fn value(bytes: usize) -> Vec<u8> {
    (0..bytes).map(|n| (n % 251) as u8).collect()
}

/// All pieces of a position, of at most so many bytes each, and their image.
fn pieces(store: &Store, position: Position, most: usize) -> (Image, Vec<Vec<u8>>) {
    let (mut pieces, mut arrived) = (Vec::new(), 0);
    loop {
        let mut piece = Vec::new();
        let (image, offset) = store.pack_piece(position, |_| arrived, most, &mut piece).unwrap();
        assert_eq!(offset, arrived);
        assert!(piece.len() <= most && !piece.is_empty());
        arrived += piece.len();
        pieces.push(piece);
        if arrived == image.bytes {
            return (image, pieces);
        }
    }
}

fn put_together(store: &Store, (image, pieces): &(Image, Vec<Vec<u8>>)) -> Assembly {
    let mut assembly = Assembly::begin(store, image.bytes).unwrap();
    for piece in pieces {
        assert!(!assembly.is_whole());
        assembly.append(piece);
    }
    assert!(assembly.is_whole());
    assembly
}

#[test]
fn a_record_in_pieces_is_the_record() {
    for (bytes, most) in [(1, 1), (1_000, 7), (1_000, 5_000), (300_000, 4_096), (2_000_000, 700_000)] {
        for expires_at in [None, Some(WallMs(77))] {
            let ((source, mut source_head), (target, mut head)) = (store(16 << 20), store(16 << 20));
            put(&source, &mut source_head, b"key", &value(bytes), expires_at);
            let key = HashedKey::new(b"key");
            let position = key.position();
            let cut = pieces(&source, position, most);
            let assembly = put_together(&target, &cut);
            assert_eq!(assembly.key().unwrap().bytes(), b"key");
            let replayed = assembly.replay(&target, &mut head, PositionRange::ALL);
            assert_eq!(replayed, Ok(Replayed { inserted: 1, present: 0 }));
            let found = |store: &Store| {
                let guard = store.pin();
                let record = guard.get(key).value().unwrap();
                (record.value().to_vec(), record.expires_at(), record.version())
            };
            assert_eq!(found(&target), found(&source));
            assert_eq!(found(&target).0, value(bytes));
            let again = put_together(&target, &cut).replay(&target, &mut head, PositionRange::ALL);
            assert_eq!(again, Ok(Replayed { inserted: 0, present: 1 }));
            target.check_accounting().unwrap();
            // It is removed like any large record.
            put(&target, &mut head, b"key", b"small", None);
            target.check_accounting().unwrap();
        }
    }
}

/// Found by search: both have the same position.
const TWINS: [&[u8]; 2] = [b"{t}2649a1b", b"{t}383230d"];

/// No piece of them has a key, and those without an entry are inserted.
#[test]
fn two_keys_of_one_position_come_together() {
    let position = Position::of_key(TWINS[0]);
    assert_eq!(position, Position::of_key(TWINS[1]));
    for written_here in [None, Some(0), Some(1)] {
        let ((source, mut source_head), (target, mut head)) = (store(16 << 20), store(16 << 20));
        TWINS.iter().for_each(|twin| put(&source, &mut source_head, twin, &value(100_000), None));
        let (image, cut) = pieces(&source, position, 30_000);
        let mut assembly = Assembly::begin(&target, image.bytes).unwrap();
        for piece in &cut {
            assembly.append(piece);
            assert!(assembly.key().is_none(), "{} bytes of two keys' have arrived", assembly.arrived());
        }
        if let Some(twin) = written_here {
            put(&target, &mut head, TWINS[twin], b"here", None);
        }
        let present = u32::from(written_here.is_some());
        let replayed = assembly.replay(&target, &mut head, PositionRange::ALL);
        assert_eq!(replayed, Ok(Replayed { inserted: 2 - present, present }));
        for (index, twin) in TWINS.into_iter().enumerate() {
            let expected = if written_here == Some(index) { b"here".to_vec() } else { value(100_000) };
            let guard = target.pin();
            assert_eq!(guard.get(HashedKey::new(twin)).value().unwrap().value(), expected);
        }
        target.check_accounting().unwrap();
    }
}

#[test]
fn a_value_that_grew_outside_its_record_is_cut_as_it_travels() {
    let ((source, mut source_head), (target, mut head)) = (store(16 << 20), store(16 << 20));
    put(&source, &mut source_head, b"key", &value(100_000), None);
    let key = HashedKey::new(b"key");
    for _ in 0..3 {
        source.lock_slot(key.slot()).extend(&mut source_head, key, &[&value(50_001)]).unwrap();
    }
    assert!(source.pin().get(key).value().unwrap().packed_bytes() > 250_003);
    for most in [1_000, 99_999] {
        let cut = pieces(&source, key.position(), most);
        let mut whole = Vec::new();
        source.pack(key, &mut whole);
        assert_eq!(cut.1.concat(), whole);
    }
    let assembly = put_together(&target, &pieces(&source, key.position(), 10_000));
    assembly.replay(&target, &mut head, PositionRange::ALL).unwrap();
    assert_eq!(target.pin().get(key).value().unwrap().value().len(), 250_003);
}

#[test]
fn what_is_large_ends_a_scan_and_is_not_packed_at_once() {
    let (store, mut head) = store(16 << 20);
    (0..50).for_each(|n: u32| put(&store, &mut head, &n.to_le_bytes(), &value(100), None));
    put(&store, &mut head, b"large", &value(50_000), None);
    let large = HashedKey::new(b"large");
    let mut batch = Vec::new();
    let end = store.scan_to_large(Position::FIRST, Position::LAST, usize::MAX, 10_000, &mut batch);
    assert_eq!((end.next, end.is_large), (Some(large.position()), true));
    assert!(batch.len() < 50 * 200);
    let packed = batch.len();
    let end = store.scan_to_large(large.position(), Position::LAST, usize::MAX, 10_000, &mut batch);
    assert_eq!((end.next, end.is_large, end.records), (Some(large.position()), true, 0));
    assert_eq!(batch.len(), packed);
    let after = large.position().next().unwrap();
    let end = store.scan_to_large(after, Position::LAST, usize::MAX, 10_000, &mut batch);
    assert_eq!((end.next, end.is_large), (None, false));
    assert_eq!(store.pack_unless_large(large, 10_000, &mut Vec::new()), Packed::Large);
    assert_eq!(store.pack_unless_large(large, 100_000, &mut Vec::new()), Packed::Whole);
    assert_eq!(store.pack_unless_large(HashedKey::new(b"no"), 10_000, &mut Vec::new()), Packed::Absent);
    let nothing = store.pack_piece(after, |_| 0, 100, &mut Vec::new());
    assert_eq!(nothing, None);
}

/// Every write at a position, and every removal, makes a new image of it.
#[test]
fn an_image_differs_from_every_other_one() {
    let (store, mut head) = store(16 << 20);
    let key = HashedKey::new(b"key");
    let image =
        |store: &Store| store.pack_piece(key.position(), |_| 0, 1, &mut Vec::new()).map(|(image, _)| image);
    let mut seen = Vec::new();
    for deadline in [None, Some(WallMs(5)), None, None] {
        put(&store, &mut head, b"key", b"value", deadline);
        seen.push(image(&store).unwrap());
        store.lock_slot(key.slot()).set_deadline(&mut head, key, Some(WallMs(9))).unwrap();
        seen.push(image(&store).unwrap());
        store.lock_slot(key.slot()).remove(&mut head, key, sidle_store::Leave::Nothing).unwrap();
        assert_eq!(image(&store), None);
    }
    for (at, image) in seen.iter().enumerate() {
        assert!(!seen[..at].contains(image), "{image:?}");
    }
}

#[test]
fn what_does_not_hold_together_is_not_inserted() {
    let (source, mut source_head) = store(16 << 20);
    put(&source, &mut source_head, b"key", &value(10_000), None);
    let key = HashedKey::new(b"key");
    let (target, mut head) = store(4 << 20);
    let used = || target.memory().log_used;
    let before = used();
    let (image, mut cut) = pieces(&source, key.position(), 1_000);
    let elsewhere = PositionRange::only(Position::FIRST);
    let outside = put_together(&target, &(image, cut.clone())).replay(&target, &mut head, elsewhere);
    assert_eq!(outside, Err(ReplayError::OutsideRange(key.position())));
    cut[5][10] ^= 1;
    let corrupt = put_together(&target, &(image, cut));
    let result = corrupt.replay(&target, &mut head, PositionRange::ALL);
    assert!(matches!(result, Err(ReplayError::Corrupt(BatchError::Record { at: 0, .. }))));
    let mut half = Assembly::begin(&target, 10_000).unwrap();
    half.append(&[7; 100]);
    assert!(half.key().is_none(), "bytes of several records have no key");
    target.check_accounting().unwrap();
    drop(half);
    assert!(Assembly::begin(&target, 8 << 20).is_err(), "there is no memory for so much");
    assert!(matches!(target.pin().get(key), Entry::Absent));
    assert_eq!(used(), before, "all memory is freed");
    target.check_accounting().unwrap();
}

/// The checksum is carried on piece by piece, wherever the pieces end: in the header, the key, the padding.
#[test]
fn a_damaged_byte_is_found_wherever_the_pieces_end() {
    let (source, mut source_head) = store(16 << 20);
    put(&source, &mut source_head, b"key", &value(70), Some(WallMs(77)));
    let key = HashedKey::new(b"key");
    for most in [1, 3, 8, 19, 20, 21, 64, 1_000] {
        let (image, cut) = pieces(&source, key.position(), most);
        let whole = cut.concat();
        for at in 0..image.bytes {
            let (target, mut head) = store(4 << 20);
            let mut damaged = whole.clone();
            damaged[at] ^= 1;
            let cut = damaged.chunks(most).map(<[u8]>::to_vec).collect();
            let result = put_together(&target, &(image, cut)).replay(&target, &mut head, PositionRange::ALL);
            assert!(
                matches!(result, Err(ReplayError::Corrupt(_))),
                "byte {at} of pieces of {most}: {result:?}"
            );
            assert_eq!(target.len(), 0);
        }
        let (target, mut head) = store(4 << 20);
        let whole = put_together(&target, &(image, cut));
        assert!(whole.replay(&target, &mut head, PositionRange::ALL).is_ok(), "pieces of {most}");
    }
}
