//! Hard cases of SCAN: keys whose hashes crowd one cursor, ownership split inside one, a walk that continues
//! at another node.

use proptest::prelude::*;
use sidle_cluster::{Tablet, TabletMap};
use sidle_node::RangeTable;
use sidle_node::testing::{SoloNode, TestClient, node_info};
use sidle_resp::Value;
use sidle_types::{HashedKey, KeyHash, MapEpoch, Position, PositionRange, ScanCursor, Slot, TabletEpoch};
use std::collections::BTreeSet;
use std::sync::{Arc, LazyLock};

type Key = Vec<u8>;

/// The crowded stretches: the first two, two adjacent ones in one slot, and the last two, which share a
/// cursor.
const CROWDED: [u64; 6] = [0, 1, 0x1234 << 39 | 77, 0x1234 << 39 | 78, (1 << 53) - 2, (1 << 53) - 1];
const KEYS_EACH: usize = 40;

/// The one key of eight bytes with this hash: XXH3 turns eight bytes into eight others, and every step is
/// invertible.
fn key_with_hash(hash: KeyHash) -> [u8; 8] {
    const FACTOR: u64 = 0x9FB2_1C65_1E98_DF25;
    const FLIPPED: u64 = u64::from_le_bytes([0x7c, 0x01, 0x81, 0x2c, 0xf7, 0x21, 0xad, 0x1c])
        ^ u64::from_le_bytes([0xde, 0xd4, 0x6d, 0xe9, 0x83, 0x90, 0x97, 0xdb]);
    // Newton's iteration: each step doubles the number of correct low bits.
    let inverse =
        (0..6).fold(1u64, |inverse, _| inverse.wrapping_mul(2u64.wrapping_sub(FACTOR.wrapping_mul(inverse))));
    let mut word = hash.0;
    word ^= word >> 28 ^ word >> 56;
    word = word.wrapping_mul(inverse);
    word ^= (word >> 35) + 8;
    word = word.wrapping_mul(inverse);
    // Its 64th power is the identity, so 63 more applications invert it.
    for _ in 0..63 {
        word ^= word.rotate_left(49) ^ word.rotate_left(24);
    }
    let input = word ^ FLIPPED;
    let mut key = [0; 8];
    key[..4].copy_from_slice(&((input >> 32) as u32).to_le_bytes());
    key[4..].copy_from_slice(&(input as u32).to_le_bytes());
    key
}

/// Keys that crowd a stretch. Of all hashes in it one in 16384 belongs to a key of its slot.
fn crowd(stretch: u64) -> Vec<Key> {
    let slot = Slot::new((stretch >> 39) as u16).expect("a slot");
    let hashes = (0..1u64 << 25).map(|low| KeyHash(stretch << 25 | low));
    let keys = hashes.map(key_with_hash).filter(|key| Slot::of_key(key) == slot).map(|key| key.to_vec());
    keys.take(KEYS_EACH).collect()
}

static CROWDS: LazyLock<Vec<Vec<Key>>> = LazyLock::new(|| CROWDED.map(crowd).to_vec());

fn position(key: &Key) -> Position {
    HashedKey::new(key).position()
}

/// A node with these keys, and a connection to it.
fn node_with(keys: &[Key]) -> (SoloNode, TestClient) {
    let mut node = SoloNode::new();
    let mut client = node.connect();
    for key in keys {
        client.send(&[b"SET", key, b"v"]);
        while client.serve(&mut node.worker, node.now) {}
        assert_eq!(client.receive(), Some(Value::Simple("OK".into())));
    }
    (node, client)
}

/// Gives every other one of the ranges between these boundaries to node 1, and the rest to node 2; this node
/// acts as node `number`.
fn split(node: &SoloNode, number: u8, epoch: u64, boundaries: &BTreeSet<Position>, flip: bool) {
    let mut firsts: Vec<Position> = boundaries.iter().copied().collect();
    firsts.insert(0, Position::FIRST);
    firsts.dedup();
    let lasts = firsts[1..].iter().filter_map(|first| first.previous()).chain([Position::LAST]);
    let owner = |index: usize| node_info(if index.is_multiple_of(2) != flip { 1 } else { 2 }).id;
    let tablets = firsts.iter().zip(lasts).enumerate().map(|(index, (&first, last))| Tablet {
        range: PositionRange::new(first, last).expect("in order"),
        owner: owner(index),
        epoch: TabletEpoch(epoch),
    });
    let nodes = vec![node_info(1), node_info(2)];
    let map = TabletMap::new(MapEpoch(epoch), nodes, tablets.collect(), Vec::new()).expect("a sound map");
    let table = RangeTable::new(node_info(number).id, Arc::new(map), &[], &[]);
    let _ticket = node.parts.published.publish(Arc::new(table));
}

/// One step of a walk: the next cursor, and the keys.
fn step(
    node: &mut SoloNode,
    client: &mut TestClient,
    cursor: ScanCursor,
    count: usize,
) -> (ScanCursor, Vec<Key>) {
    let (cursor, count) = (cursor.0.to_string(), count.to_string());
    client.send(&[b"SCAN", cursor.as_bytes(), b"COUNT", count.as_bytes()]);
    while client.serve(&mut node.worker, node.now) {}
    let Some(Value::Array(reply)) = client.receive() else { panic!("SCAN answers with an array") };
    let [Value::Bulk(next), Value::Array(keys)] = &reply[..] else { panic!("a cursor and keys") };
    let next: u64 = std::str::from_utf8(next).expect("digits").parse().expect("a number");
    assert!(next < 1 << 53, "{next} is more than a double holds");
    let bulks = keys.iter().map(|key| match key {
        Value::Bulk(key) => key.clone(),
        other => panic!("no key: {other:?}"),
    });
    (ScanCursor(next), bulks.collect())
}

/// Continues a walk from a cursor to the end, or for so many steps; returns its cursor.
fn walk(
    (node, client): (&mut SoloNode, &mut TestClient),
    from: ScanCursor,
    count: usize,
    steps: usize,
    found: &mut Vec<Key>,
) -> ScanCursor {
    let mut cursor = from;
    for _ in 0..steps {
        let (next, keys) = step(node, client, cursor, count);
        assert!(next == ScanCursor::START || next > cursor, "no progress at {cursor:?}");
        found.extend(keys);
        cursor = next;
        if cursor == ScanCursor::START {
            break;
        }
    }
    cursor
}

#[test]
fn hashes_can_be_chosen() {
    for hash in [0, 1, u64::MAX, 0x0123_4567_89ab_cdef] {
        assert_eq!(KeyHash::of_key(&key_with_hash(KeyHash(hash))), KeyHash(hash));
    }
    for (stretch, keys) in CROWDED.iter().zip(CROWDS.iter()) {
        assert_eq!(keys.len(), KEYS_EACH);
        assert!(keys.iter().all(|key| position(key).0 >> 11 == *stretch));
    }
}

#[test]
fn a_stretch_is_returned_whole_whatever_the_count() {
    let (mut node, mut client) = node_with(&CROWDS[2..4].concat());
    let (next, keys) = step(&mut node, &mut client, ScanCursor::START, 1);
    assert_eq!((next, keys.len()), (ScanCursor(CROWDED[3] + 1), KEYS_EACH));
    let (next, keys) = step(&mut node, &mut client, next, 1);
    assert_eq!(keys.iter().collect::<BTreeSet<_>>(), CROWDS[3].iter().collect());
    assert_eq!(next, ScanCursor::START, "nothing follows them");
}

#[test]
fn a_cursor_behind_all_others_ends_the_walk() {
    let (mut node, mut client) = node_with(&CROWDS[5]);
    for cursor in [1 << 53, u64::MAX] {
        assert_eq!(step(&mut node, &mut client, ScanCursor(cursor), 10), (ScanCursor::START, Vec::new()));
    }
    let (_, keys) = step(&mut node, &mut client, ScanCursor((1 << 53) - 1), 1);
    assert_eq!(keys.len(), KEYS_EACH);
}

/// Some of the crowds' keys, and others everywhere.
fn some_keys() -> impl Strategy<Value = Vec<Key>> {
    let crowded = proptest::collection::vec(0..KEYS_EACH, CROWDED.len());
    (crowded, 0..200usize).prop_map(|(sizes, scattered)| {
        let crowds = CROWDS.iter().zip(sizes).flat_map(|(keys, size)| keys[..size].iter().cloned());
        crowds.chain((0..scattered).map(|index| format!("key{index}").into_bytes())).collect()
    })
}

/// Boundaries between tablets, most of them inside a crowd.
fn some_boundaries() -> impl Strategy<Value = BTreeSet<Position>> {
    let inside = (0..CROWDED.len(), 0..KEYS_EACH, 0..2u64)
        .prop_map(|(crowd, key, more)| Position(position(&CROWDS[crowd][key]).0.saturating_add(more)));
    let anywhere = any::<u64>().prop_map(Position);
    proptest::collection::btree_set(prop_oneof![4 => inside, 1 => anywhere], 0..12)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn a_walk_over_split_stretches_ends_and_misses_nothing(
        keys in some_keys(),
        boundaries in some_boundaries(),
        count in prop_oneof![1..60usize, Just(usize::MAX >> 1)],
    ) {
        let (mut node, mut client) = node_with(&keys);
        for (number, flip) in [(1, false), (1, true)] {
            let epoch = 2 + u64::from(flip);
            split(&node, number, epoch, &boundaries, flip);
            let owned: BTreeSet<Key> = keys
                .iter()
                .filter(|key| {
                    let before = boundaries.range(..=position(key)).filter(|first| first.0 > 0).count();
                    before.is_multiple_of(2) != flip
                })
                .cloned()
                .collect();
            let mut found = Vec::new();
            // Sparse tables take some more replies than there are keys.
            let most = 2 * keys.len() + 1000;
            let end = walk((&mut node, &mut client), ScanCursor::START, count, most, &mut found);
            prop_assert_eq!(end, ScanCursor::START, "the walk does not end");
            prop_assert_eq!(found.len(), owned.len(), "a key was returned twice without changes");
            prop_assert_eq!(found.into_iter().collect::<BTreeSet<Key>>(), owned);
        }
    }

    #[test]
    fn a_walk_goes_on_at_another_node(
        keys in some_keys(),
        boundaries in some_boundaries(),
        count in 1..30usize,
        steps in 1..40usize,
    ) {
        let (mut first, mut client) = node_with(&keys);
        let (mut second, mut other) = node_with(&keys);
        let mut found = Vec::new();
        let cursor = walk((&mut first, &mut client), ScanCursor::START, count, steps, &mut found);
        // Whatever the map changes meanwhile, the second node owns everything in the end.
        split(&second, 2, 2, &boundaries, false);
        step(&mut second, &mut other, cursor, count);
        split(&second, 1, 3, &BTreeSet::new(), false);
        if cursor != ScanCursor::START {
            let end = walk((&mut second, &mut other), cursor, count, 10_000, &mut found);
            prop_assert_eq!(end, ScanCursor::START, "the walk does not end");
        }
        let all: BTreeSet<Key> = keys.into_iter().collect();
        prop_assert_eq!(found.into_iter().collect::<BTreeSet<Key>>(), all);
    }
}
