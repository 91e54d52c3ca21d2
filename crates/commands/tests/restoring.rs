//! RESTORE in one go and in slices, of payloads that anybody may have made: the replies are the same, and so
//! is what the key has then.

mod toy;

use bumpalo::Bump;
use proptest::prelude::*;
use proptest::test_runner::TestRunner;
use sidle_collections::Limits;
use sidle_commands::{CommandTable, Progress, StepSizes, encoding_of, families};
use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use toy::{Log, Map, Plain, Space, Toy, request, run, step};
use typed_arena::Arena;

const SORTED_SET_TEXTS: u8 = 3;
const SET: u8 = 2;
const LIST: u8 = 1;
const HASH: u8 = 4;
const SORTED_SET: u8 = 5;
const LIST_QUICKLIST_2: u8 = 18;

/// The checksum bit by bit, by its definition.
fn crc64(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0, |crc, &byte| {
        (0..8).fold(crc ^ u64::from(byte), |crc, _| {
            (crc >> 1) ^ if crc & 1 == 1 { 0x95ac_9329_ac4b_c9b5 } else { 0 }
        })
    })
}

fn push_length(bytes: &mut Vec<u8>, length: usize) {
    bytes.push(0x80);
    bytes.extend((length as u32).to_be_bytes());
}

/// Writes a string: as it is, as an integer if it is a short one, or compressed.
fn push(bytes: &mut Vec<u8>, text: &[u8], is_plain: bool) {
    let number = str::from_utf8(text).ok().and_then(|text| text.parse::<i8>().ok());
    if is_plain {
        push_length(bytes, text.len());
        bytes.extend(text);
    } else if let Some(number) = number.filter(|number| number.to_string().as_bytes() == text) {
        bytes.extend([0xc0, number as u8]);
    } else {
        bytes.push(0xc3);
        push_length(bytes, text.len() + text.len().div_ceil(32));
        push_length(bytes, text.len());
        for literal in text.chunks(32) {
            bytes.push(literal.len() as u8 - 1);
            bytes.extend(literal);
        }
    }
}

/// A member, a field or an item of this number.
fn name(number: u16) -> Vec<u8> {
    match number % 4 {
        0 => number.to_string().into_bytes(),
        1 => format!("name {number}").into_bytes(),
        2 => {
            format!("a name that takes more than a chunk does, and begins as others do {number}").into_bytes()
        }
        _ => format!("{number}{}", "x".repeat(usize::from(number % 30))).into_bytes(),
    }
}

const SCORES: [f64; 9] = [0.0, -0.0, 1.0, -1.0, 0.5, 1e300, f64::INFINITY, f64::NEG_INFINITY, -7.0];

/// What a payload is made of: the form, how many elements it promises beyond those that it has, numbers of
/// names with those of values or scores, and whether the names are written plain.
#[derive(Clone, Debug)]
struct Payload {
    form: u8,
    promised: usize,
    elements: Vec<(u16, u8, bool)>,
    /// The index of an element that comes once more.
    twice: Option<prop::sample::Index>,
    /// That of a score that is no number.
    no_number: Option<prop::sample::Index>,
    damage: Damage,
}

#[derive(Clone, Debug)]
enum Damage {
    None,
    /// So much of the value is left.
    Cut(prop::sample::Index),
    /// A byte of the value is another.
    Other(prop::sample::Index),
    /// Something stands behind the value.
    Behind,
    /// A byte of the payload is another, and the checksum is wrong.
    Checksum(prop::sample::Index),
    /// The version is one to come.
    Version,
}

impl Payload {
    fn bytes(&self) -> Vec<u8> {
        let mut elements = self.elements.clone();
        if let Some(twice) = self.twice.filter(|_| !elements.is_empty()) {
            elements.push(elements[twice.index(elements.len())]);
        }
        let mut bytes = vec![self.form];
        push_length(&mut bytes, elements.len() + self.promised);
        let no_number = self.no_number.map(|index| index.index(elements.len().max(1)));
        for (at, (number, other, is_plain)) in elements.iter().enumerate() {
            if self.form == LIST_QUICKLIST_2 {
                bytes.push(1);
            }
            push(&mut bytes, &name(*number), *is_plain);
            let score = SCORES[usize::from(*other) % SCORES.len()];
            let score = if Some(at) == no_number { f64::NAN } else { score };
            match self.form {
                HASH => push(&mut bytes, &name(u16::from(*other)), !is_plain),
                SORTED_SET => bytes.extend(score.to_le_bytes()),
                SORTED_SET_TEXTS => {
                    let text = score.to_string();
                    bytes.push(text.len().min(250) as u8);
                    bytes.extend(text.bytes().take(250));
                }
                _ => {}
            }
        }
        let mut version = 10u16;
        match &self.damage {
            Damage::Cut(index) => bytes.truncate(1 + index.index(bytes.len())),
            Damage::Other(index) => {
                let at = 1 + index.index(bytes.len() - 1);
                bytes[at] ^= 0x11;
            }
            Damage::Behind => bytes.push(7),
            Damage::Version => version = 99,
            Damage::None | Damage::Checksum(_) => {}
        }
        bytes.extend(version.to_le_bytes());
        bytes.extend(crc64(&bytes).to_le_bytes());
        if let Damage::Checksum(index) = &self.damage {
            let at = index.index(bytes.len());
            bytes[at] ^= 4;
        }
        bytes
    }
}

fn payload() -> impl Strategy<Value = Payload> {
    let form = prop::sample::select(vec![
        HASH,
        SET,
        LIST,
        LIST_QUICKLIST_2,
        SORTED_SET,
        SORTED_SET,
        SORTED_SET,
        SORTED_SET_TEXTS,
    ]);
    let several = prop::collection::btree_map(0u16..2000, (any::<u8>(), prop::bool::weighted(0.8)), 0..120);
    let elements = (several, any::<bool>(), 1u8..=9).prop_map(|(elements, is_mixed, scores)| {
        let mut elements: Vec<(u16, u8, bool)> = elements
            .into_iter()
            .map(|(number, (other, is_plain))| (number, other % scores, is_plain))
            .collect();
        match is_mixed {
            true => elements.sort_by_key(|(number, ..)| number.wrapping_mul(40_503)),
            // As DUMP writes a sorted set.
            false => elements.sort_by(|(one, one_score, _), (other, other_score, _)| {
                let of = |score: &u8| SCORES[usize::from(*score)];
                let by_score = of(other_score).partial_cmp(&of(one_score)).expect("numbers");
                by_score.then_with(|| name(*other).cmp(&name(*one)))
            }),
        }
        elements
    });
    let damage = prop_oneof![
        6 => Just(Damage::None),
        1 => any::<prop::sample::Index>().prop_map(Damage::Cut),
        1 => any::<prop::sample::Index>().prop_map(Damage::Other),
        1 => Just(Damage::Behind),
        1 => any::<prop::sample::Index>().prop_map(Damage::Checksum),
        1 => Just(Damage::Version),
    ];
    let rarely = || prop::option::weighted(0.15, any::<prop::sample::Index>());
    let promised = prop_oneof![9 => Just(0usize), 1 => 1usize..1000];
    (form, promised, elements, rarely(), rarely(), damage).prop_map(
        |(form, promised, elements, twice, no_number, damage)| Payload {
            form,
            promised,
            elements,
            twice,
            no_number,
            damage,
        },
    )
}

fn sizes() -> impl Strategy<Value = StepSizes> {
    (0usize..2000, 1usize..3000, 4usize..40, 1usize..1500, 1usize..300).prop_map(
        |(sliced_bytes, checked_bytes, elements, bytes, compared_bytes)| StepSizes {
            sliced_bytes,
            checked_bytes,
            elements,
            bytes,
            compared_bytes,
        },
    )
}

fn limits() -> impl Strategy<Value = Limits> {
    (0u64..=4, 0u64..80, 0u64..130, 0u64..80, 32usize..2000, 16usize..200).prop_map(
        |(entries, hash_value_bytes, zset_entries, zset_value_bytes, packed_bytes, chunk_bytes)| Limits {
            hash_entries: entries,
            hash_value_bytes,
            intset_entries: entries,
            zset_entries,
            zset_value_bytes,
            packed_bytes,
            chunk_bytes,
        },
    )
}

/// What RESTORE replies, what DUMP replies then, and the encoding; and in how many steps.
type Restored = (String, String, Option<&'static str>);

fn restored(payload: &[u8], limits: Limits, sizes: Option<StepSizes>) -> (Restored, usize) {
    let table: CommandTable<Toy> = CommandTable::new(families().into_iter());
    let (arena, outlines) = (Bump::new(), Arena::new());
    let log = Log::new(&arena, &outlines);
    let (map, random) = (RefCell::new(Map::new()), Cell::new(0));
    let restore = request(&table, vec![b"restore", b"k", b"0", payload]);
    let dump = request(&table, vec![b"dump", b"k"]);
    let space = |keys| Space::Plain(Plain { map: &map, log: &log, limits, random: &random, keys });
    let mut progress = sizes.map(|sizes| Progress { restoring: arena.alloc(None), sizes });
    let mut steps = 1;
    let reply = loop {
        // Every other step finds no memory at first.
        log.is_out_of_memory.set(steps % 2 == 0);
        let (mut reply, mut left) = step(&restore, space(&restore.keys), progress);
        if log.is_out_of_memory.take() && reply.as_ref().is_some_and(|reply| reply.starts_with("OOM ")) {
            (reply, left) = step(&restore, space(&restore.keys), left);
        }
        if let Some(reply) = reply {
            break reply;
        }
        assert!(map.borrow().is_empty(), "it is seen before it is whole");
        (progress, steps) = (left, steps + 1);
        assert!(steps < 10_000, "it has no end");
    };
    let dumped = run(&dump, space(&dump.keys));
    let encoding = map.borrow().values().next().map(|value| encoding_of(*value));
    ((reply, dumped, encoding), steps)
}

#[test]
fn in_slices_it_is_as_in_one_go() {
    let (whole, refused) = (RefCell::new(BTreeMap::new()), Cell::new(0));
    let mut runner = TestRunner::new(ProptestConfig {
        cases: 3_000,
        failure_persistence: None,
        ..ProptestConfig::default()
    });
    let run = runner.run(&(payload(), sizes(), limits()), |(payload, sizes, limits)| {
        let bytes = payload.bytes();
        let (in_one_go, _) = restored(&bytes, limits, None);
        let (in_slices, steps) = restored(&bytes, limits, Some(sizes));
        let is_whole = in_one_go.2.is_some();
        prop_assert_eq!(in_slices, in_one_go);
        if is_whole && steps >= 6 {
            *whole.borrow_mut().entry(payload.form).or_insert(0) += 1;
        }
        refused.set(refused.get() + usize::from(!is_whole && steps >= 4));
        Ok(())
    });
    run.unwrap_or_else(|error| panic!("{error}"));
    let whole = whole.into_inner();
    assert!(whole.len() == 6 && whole.values().all(|cases| *cases >= 5), "of each form: {whole:?}");
    assert!(refused.get() >= 50, "{} were refused late", refused.get());
}
