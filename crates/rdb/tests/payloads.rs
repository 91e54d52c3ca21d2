//! Payloads that Redis made, payloads of a model, and damaged ones.

use proptest::prelude::*;
use sidle_rdb::{Dumped, Element, Pair, RestoreError, Restored, SlicedKind, Slices, Text, WRITTEN_VERSION};
use std::collections::BTreeSet;

const LONGEST: u64 = 1 << 20;

fn restore(payload: &[u8], most_bytes: u64) -> Result<Restored<'_>, RestoreError> {
    sidle_rdb::restore(payload, most_bytes)
}

/// The payload of a string.
fn dump(value: &[u8]) -> Vec<u8> {
    sidle_rdb::dump(Dumped::String(value)).parts().concat()
}

/// The payload of what was read, in either form.
fn dump_again(value: &Restored<'_>, is_small: bool) -> Vec<u8> {
    match value {
        Restored::String(value) => dump(value),
        Restored::Hash(pairs) => {
            let pairs: Vec<Pair<'_>> =
                pairs.iter().map(|(field, value)| (field.as_ref(), value.as_ref())).collect();
            sidle_rdb::dump(Dumped::Hash { pairs: &pairs, is_small }).parts().concat()
        }
        Restored::Set(members) => {
            let members: Vec<&[u8]> = members.iter().map(|member| member.as_ref()).collect();
            sidle_rdb::dump(Dumped::Set { members: &members, is_intset: is_small }).parts().concat()
        }
        Restored::SortedSet(members) => {
            let members: Vec<(&[u8], f64)> =
                members.iter().map(|(member, score)| (member.as_ref(), *score)).collect();
            sidle_rdb::dump(Dumped::SortedSet { members: &members, is_small }).parts().concat()
        }
        Restored::List(items) => {
            let items: Vec<&[u8]> = items.iter().map(|item| item.as_ref()).collect();
            sidle_rdb::dump(Dumped::List(&items)).parts().concat()
        }
    }
}

fn string(value: Restored<'_>) -> Vec<u8> {
    match value {
        Restored::String(value) => value.into_owned(),
        other => panic!("no string: {other:?}"),
    }
}

/// The value of a payload that is read in slices, its checksum so many bytes at a time; none if it is not.
fn in_slices(
    payload: &[u8],
    most_bytes: u64,
    checked_bytes: usize,
) -> Option<Result<Restored<'_>, RestoreError>> {
    let mut slices = Slices::begin(payload, most_bytes)?;
    let mut read = || {
        while !slices.check(payload, checked_bytes)? {}
        let mut elements = Vec::new();
        while let Some((at, element)) = slices.read(payload)? {
            // Numbers that are none are not the same.
            assert_eq!(format!("{:?}", slices.read_again(payload, at)?), format!("{element:?}"));
            elements.push(element);
        }
        Ok((slices.kind(), elements))
    };
    Some(read().map(|(kind, elements)| whole(kind, elements)))
}

fn whole(kind: SlicedKind, elements: Vec<Element<'_>>) -> Restored<'_> {
    let (mut pairs, mut texts, mut scored) = (Vec::new(), Vec::new(), Vec::new());
    for element in elements {
        match element {
            Element::Pair(field, value) => pairs.push((field, value)),
            Element::Member(member) => texts.push(member),
            Element::Items(items) => texts.extend(items),
            Element::Scored(member, score) => scored.push((member, score)),
        }
    }
    match kind {
        SlicedKind::Hash => Restored::Hash(pairs),
        SlicedKind::Set => Restored::Set(texts),
        SlicedKind::List => Restored::List(texts),
        SlicedKind::SortedSet => Restored::SortedSet(scored),
    }
}

fn bytes_of(value: &Restored<'_>) -> usize {
    match value {
        Restored::String(value) => value.len(),
        Restored::Hash(pairs) => pairs.iter().map(|(field, value)| field.len() + value.len()).sum(),
        Restored::SortedSet(members) => members.iter().map(|(member, _)| member.len()).sum(),
        Restored::Set(members) | Restored::List(members) => members.iter().map(|member| member.len()).sum(),
    }
}

/// The checksum bit by bit, by its definition.
fn crc64(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0, |crc, &byte| {
        (0..8).fold(crc ^ u64::from(byte), |crc, _| {
            (crc >> 1) ^ if crc & 1 == 1 { 0x95ac_9329_ac4b_c9b5 } else { 0 }
        })
    })
}

/// A payload of this body, with a right footer.
fn payload(body: &[u8], version: u16) -> Vec<u8> {
    let mut payload = [body, &version.to_le_bytes()].concat();
    payload.extend(crc64(&payload).to_le_bytes());
    payload
}

fn restored(body: &[u8]) -> Result<Vec<u8>, RestoreError> {
    restore(&payload(body, 10), LONGEST).map(string)
}

/// DUMP's replies of Redis 7.0.15, and the values.
const OF_REDIS: &[(&[u8], &str, usize)] = &[
    (b"\x00\x05hello\n\x00cr\xdfve4 \n", "hello", 1),
    (b"\x00\xc0\x0c\n\x00<*\xf8Q\\\x04\xbc\xd5", "12", 1),
    (b"\x00\xc2p\x11\x01\x00\n\x00\x01\xa4\x08\xfe\x950\x95\xa5", "70000", 1),
    (b"\x00\xc3\t\x1e\x01aa\xe0\x11\x00\x01aa\n\x00Es|\xbb+d{\xbb", "a", 30),
    (b"\x00\xc3\x0b@Z\x03abca\xe0K\x02\x01bc\n\x00#\x806\xf9\xe2\xd0\xc7\x80", "abc", 30),
    (b"\x00\xc3\x0cA,\x01xx\xe0\xff\x00\xe0\x17\x00\x01xx\n\x00\xf03\x19Z\x8bf\r\x84", "x", 300),
    (
        b"\x00\xc3\"@R\x06hello h\xe0&\x05\x03 and\xa04\tagain worl`\x11\x01lo\n\x00\x86\x1cL\x87\xf5\x1b\x1b\x00",
        "hello hello hello hello hello hello hello hello hello  and hello again world hello",
        1,
    ),
];

#[test]
fn restore_reads_what_redis_wrote() {
    for (payload, unit, count) in OF_REDIS {
        let value = restore(payload, LONGEST);
        assert_eq!(string(value.unwrap()), unit.repeat(*count).as_bytes(), "{}", payload.escape_ascii());
    }
}

#[test]
fn dump_writes_what_redis_writes() {
    for (payload, unit, count) in OF_REDIS.iter().filter(|(payload, ..)| payload[1] != 0xc3) {
        assert_eq!(dump(unit.repeat(*count).as_bytes()), *payload);
    }
}

const SMALL_HASH: &[u8] =
    b"\x10\x0c\x0c\x00\x00\x00\x02\x00\x81a\x02\x01\x01\xff\n\x00\x84\xa6\x93\xe8\xaa\x17\xe4\xdb";

#[test]
fn hashes_are_read_and_written() {
    let hash = restore(SMALL_HASH, LONGEST).unwrap();
    assert_eq!(hash, Restored::Hash(vec![(b"a"[..].into(), b"1"[..].into())]));
    assert_eq!(dump_again(&hash, true), SMALL_HASH);
    let plain = payload(b"\x04\x01\x01a\xc0\x01", 10);
    assert_eq!(restore(&plain, LONGEST).unwrap(), hash);
    assert_eq!(dump_again(&hash, false), plain);
}

#[test]
fn sets_are_read_and_written() {
    let set = restore(b"\x02\x02\x01a\xc0\x01\n\x00\xce8~\x02\x9c\xe1>r", LONGEST).unwrap();
    assert_eq!(set, Restored::Set(vec![b"a"[..].into(), b"1"[..].into()]));
    assert_eq!(dump_again(&set, true), dump_again(&set, false));
    let listpack = payload(b"\x14\x0c\x0c\x00\x00\x00\x02\x00\x81a\x02\x01\x01\xff", 11);
    assert_eq!(restore(&listpack, LONGEST).unwrap(), set);
    let intset = payload(b"\x0b\x0c\x02\x00\x00\x00\x02\x00\x00\x00\x01\x00\x02\x00", 10);
    let numbers = restore(&intset, LONGEST).unwrap();
    assert_eq!(numbers, Restored::Set(vec![b"1"[..].into(), b"2"[..].into()]));
    assert_eq!(dump_again(&numbers, true), intset);
    for (body, error) in [
        (&b"\x02\x00"[..], RestoreError::Damaged),
        (b"\x02\x02\x01a\x01a", RestoreError::Damaged),
        (b"\x02\x02\x01a", RestoreError::Truncated),
        (b"\x0b\x08\x02\x00\x00\x00\x00\x00\x00\x00", RestoreError::Damaged),
    ] {
        assert_eq!(restore(&payload(body, 10), LONGEST), Err(error), "{}", body.escape_ascii());
    }
}

#[test]
fn lists_are_read_and_written() {
    let of_redis: &[u8] =
        b"\x12\x01\x02\x0c\x0c\x00\x00\x00\x02\x00\x81a\x02\x01\x01\xff\n\x00\x94\x96+#\xac\x17\xaa\x85";
    let list = restore(of_redis, LONGEST).unwrap();
    assert_eq!(list, Restored::List(vec![b"a"[..].into(), b"1"[..].into()]));
    assert_eq!(dump_again(&list, true), of_redis);
    let ziplist = b"\x10\x10\x00\x00\x00\x0d\x00\x00\x00\x02\x00\x00\x01a\x03\xf2\xff";
    for body in [
        &b"\x01\x02\x01a\xc0\x01"[..],
        b"\x12\x02\x01\x01a\x02\x09\x09\x00\x00\x00\x01\x00\x01\x01\xff",
        &[&b"\x0a"[..], ziplist].concat(),
        &[&b"\x0e\x01"[..], ziplist].concat(),
    ] {
        assert_eq!(restore(&payload(body, 10), LONGEST).as_ref(), Ok(&list), "{}", body.escape_ascii());
    }
    for (body, error) in [
        (&b"\x01\x00"[..], RestoreError::Damaged),
        (b"\x12\x00", RestoreError::Damaged),
        (b"\x12\x01\x03\x01a", RestoreError::Damaged),
        (b"\x0e\x02\x0b\x0b\x00\x00\x00\x0a\x00\x00\x00\x00\x00\xff", RestoreError::Truncated),
    ] {
        assert_eq!(restore(&payload(body, 10), LONGEST), Err(error), "{}", body.escape_ascii());
    }
    let many: Vec<Vec<u8>> = (0..3_000).map(|number| format!("item {number}").into_bytes()).collect();
    let many = Restored::List(many.into_iter().map(Text::from).collect());
    let written = dump_again(&many, true);
    assert_eq!(restore(&written, LONGEST).unwrap(), many);
    // Several parts.
    assert!(written[1] > 2);
}

#[test]
fn sorted_sets_are_read_and_written() {
    let of_redis: &[u8] =
        b"\x11\x0c\x0c\x00\x00\x00\x02\x00\x81a\x02\x01\x01\xff\n\x00\xa8\x05\xce\xb8\xd7\xa93\x02";
    let set = restore(of_redis, LONGEST).unwrap();
    assert_eq!(set, Restored::SortedSet(vec![(b"a"[..].into(), 1.0)]));
    assert_eq!(dump_again(&set, true), of_redis);
    let plain = payload(b"\x05\x01\x01a\x00\x00\x00\x00\x00\x00\xf0\x3f", 10);
    assert_eq!(dump_again(&set, false), plain);
    for body in [&plain[..plain.len() - 10], b"\x03\x01\x01a\x011"] {
        assert_eq!(restore(&payload(body, 10), LONGEST).as_ref(), Ok(&set), "{}", body.escape_ascii());
    }
    for (body, error) in [
        (&b"\x05\x00"[..], RestoreError::Damaged),
        (b"\x03\x01\x01a\xfd", RestoreError::Damaged),
        (b"\x05\x01\x01a\x00\x00\x00\x00\x00\x00\xf8\x7f", RestoreError::Damaged),
        (b"\x05\x01\x01a\x00", RestoreError::Truncated),
        (b"\x03\x02\x01a\x011\x01a\x012", RestoreError::Damaged),
    ] {
        assert_eq!(restore(&payload(body, 10), LONGEST), Err(error), "{}", body.escape_ascii());
    }
}

#[test]
fn hashes_that_are_wrong_are_refused() {
    for (body, error) in [
        (&b"\x04"[..], RestoreError::Truncated),
        // Without a field, with half of one, with one twice.
        (b"\x04\x00", RestoreError::Damaged),
        (b"\x04\x01\x01a", RestoreError::Truncated),
        (b"\x04\x02\x01a\x01b\x01a\x01c", RestoreError::Damaged),
        (b"\x04\x81\xff\xff\xff\xff\xff\xff\xff\xff\x01a\x01b", RestoreError::Truncated),
        (b"\x10\x07\x07\x00\x00\x00\x00\x00\xff", RestoreError::Damaged),
        (b"\x10\x0a\x0a\x00\x00\x00\x01\x00\x81a\x02\xff", RestoreError::Damaged),
        (b"\x10\x03abc", RestoreError::Truncated),
    ] {
        assert_eq!(restore(&payload(body, 10), LONGEST), Err(error), "{}", body.escape_ascii());
    }
    // A few bytes that would become many, more than once.
    let long = [b"\xc3", &long_length(5)[..], &long_length(264), b"\x00x\xe0\xfe\x00"].concat();
    let body = [b"\x04\x01", &long[..], &long[..]].concat();
    assert_eq!(restore(&payload(&body, 10), 527).map(|_| ()), Err(RestoreError::TooLong));
}

#[test]
fn restore_refuses_footers_that_are_wrong() {
    let right = dump(b"hello");
    assert!(restore(&right, LONGEST).is_ok());
    for cut in 0..right.len() {
        assert_eq!(restore(&right[..cut], LONGEST), Err(RestoreError::Footer));
    }
    for version in 0..=11 {
        assert!(restore(&payload(b"\x00\x01a", version), LONGEST).is_ok(), "{version}");
    }
    for version in [12, 80, 0x0b00, u16::MAX] {
        assert_eq!(restore(&payload(b"\x00\x01a", version), LONGEST), Err(RestoreError::Footer), "{version}");
    }
}

#[test]
fn restore_refuses_values_that_are_wrong() {
    for (body, error) in [
        (&b""[..], RestoreError::Truncated),
        (b"\x00", RestoreError::Truncated),
        (b"\x00\x05abcd", RestoreError::Truncated),
        (b"\x00\x03abcd", RestoreError::GoesOn),
        (b"\x00\x81\xff\xff\xff\xff\xff\xff\xff\xffabcd", RestoreError::Truncated),
        (b"\x00\x80\x00\x00", RestoreError::Truncated),
        (b"\x00\xc0", RestoreError::Truncated),
        (b"\x00\xc2\x00\x00\x00", RestoreError::Truncated),
        (b"\x00\x82", RestoreError::UnknownLength(0x82)),
        (b"\x00\xc4", RestoreError::UnknownEncoding(4)),
        (b"\x00\xff", RestoreError::UnknownEncoding(63)),
        (b"\x00\xc3\xc0\x01\x01", RestoreError::UnknownLength(0xc0)),
        (b"\x00\xc3\x02\x05\x00a", RestoreError::Compression),
        (b"\x00\xc3\x03\x01\x00a", RestoreError::Truncated),
        (b"\x00\xc3\x02\x80\xff\xff\xff\xff\x00a", RestoreError::TooLong),
        (b"\x00\xc3\x02\x80\x00\x0f\xff\xff\x00a", RestoreError::Compression),
        (b"\x07", RestoreError::OtherType("module's value")),
        (b"\x0f", RestoreError::OtherType("stream")),
        (b"\x08", RestoreError::UnknownType(8)),
        (b"\xfe", RestoreError::UnknownType(254)),
    ] {
        assert_eq!(restored(body), Err(error), "{}", body.escape_ascii());
    }
    assert_eq!(restore(&payload(b"\x00\x03abc", 10), 2), Err(RestoreError::TooLong));
}

/// Part of a compressed string.
#[derive(Clone, Debug)]
enum Run {
    AsIs(Vec<u8>),
    /// How many bytes of the distance that is possible, and the length.
    Repeat(u16, u16),
}

fn run() -> impl Strategy<Value = Run> {
    prop_oneof![
        prop::collection::vec(any::<u8>(), 1..=32).prop_map(Run::AsIs),
        (any::<u16>(), 3..=264u16).prop_map(|(distance, length)| Run::Repeat(distance, length)),
    ]
}

/// The compressed bytes of these runs, and what they stand for, byte by byte.
fn compressed(runs: &[Run]) -> (Vec<u8>, Vec<u8>) {
    let (mut packed, mut value): (Vec<u8>, Vec<u8>) = Default::default();
    for run in runs {
        match run {
            Run::AsIs(bytes) => {
                packed.push(bytes.len() as u8 - 1);
                packed.extend(bytes);
                value.extend(bytes);
            }
            Run::Repeat(..) if value.is_empty() => {}
            Run::Repeat(distance, length) => {
                let distance = usize::from(*distance) % value.len().min(1 << 13);
                let (high, low) = ((distance >> 8) as u8, distance as u8);
                match length - 2 {
                    short @ ..7 => packed.push((short as u8) << 5 | high),
                    long => packed.extend([7 << 5 | high, (long - 7) as u8]),
                }
                packed.push(low);
                (0..*length).for_each(|_| value.push(value[value.len() - distance - 1]));
            }
        }
    }
    (packed, value)
}

fn long_length(bytes: usize) -> Vec<u8> {
    [&[0x80][..], &(bytes as u32).to_be_bytes()].concat()
}

proptest! {
    #[test]
    fn restore_returns_what_was_dumped(
        value in prop_oneof![
            prop::collection::vec(any::<u8>(), 0..200),
            prop::collection::vec(any::<u8>(), 16_300..16_500),
            any::<i64>().prop_map(|number| number.to_string().into_bytes()),
            (-40_000..40_000i32).prop_map(|number| number.to_string().into_bytes()),
        ],
    ) {
        let written = dump(&value);
        prop_assert_eq!(&written, &payload(&written[..written.len() - 10], WRITTEN_VERSION));
        prop_assert_eq!(string(restore(&written, LONGEST).unwrap()), value);
    }

    #[test]
    fn restore_reads_compressed_strings(runs in prop::collection::vec(run(), 0..60)) {
        let (packed, value) = compressed(&runs);
        let body = [&b"\x00\xc3"[..], &long_length(packed.len()), &long_length(value.len()), &packed].concat();
        prop_assert_eq!(restored(&body), Ok(value));
    }

    #[test]
    fn restore_sees_a_changed_bit(value in prop::collection::vec(any::<u8>(), 0..40), bit in any::<usize>()) {
        let mut written = dump(&value);
        let bit = bit % (written.len() * 8);
        written[bit / 8] ^= 1 << (bit % 8);
        prop_assert_eq!(restore(&written, LONGEST), Err(RestoreError::Footer));
    }

    /// In slices the same elements are read; whether one is there twice, or a score no number, who reads has
    /// to see.
    #[test]
    fn slices_are_of_what_restore_reads(
        form in prop::sample::select(vec![1u8, 2, 3, 4, 5, 18]),
        count in 1..12u8,
        rest in prop::collection::vec(prop_oneof![0..12u8, 0xc0..=0xc3u8, any::<u8>()], 0..80),
        most_bytes in prop_oneof![0..40u64, Just(LONGEST)],
        checked_bytes in 1..100usize,
        is_wrong in prop::bool::weighted(0.1),
    ) {
        let mut payload = payload(&[&[form, count][..], &rest].concat(), 10);
        payload[0] ^= u8::from(is_wrong) << 7;
        let Some(slices) = in_slices(&payload, most_bytes, checked_bytes) else {
            prop_assert!(is_wrong);
            return Ok(());
        };
        match (slices, restore(&payload, most_bytes)) {
            (Ok(slices), Ok(at_once)) => prop_assert_eq!(slices, at_once),
            (Ok(_), Err(error)) => prop_assert_eq!(error, RestoreError::Damaged),
            (Err(error), Err(at_once)) => {
                // Those have replies of their own.
                for told_apart in [RestoreError::Footer, RestoreError::TooLong] {
                    prop_assert_eq!(error == told_apart, at_once == told_apart, "{} {}", error, at_once);
                }
            }
            (Err(error), Ok(_)) => prop_assert!(false, "{error}"),
        }
    }

    /// Whatever stands before a right footer, nothing panics, and what is read can be written and read again.
    #[test]
    fn restore_survives_any_body(
        kind in prop_oneof![Just(0u8), prop::sample::select(vec![1u8, 2, 3, 4, 5, 10, 12, 14, 17, 18, 9, 11, 13, 16, 20]), any::<u8>()],
        first in prop_oneof![Just(0xc3u8), any::<u8>()],
        rest in prop::collection::vec(prop_oneof![0..40u8, any::<u8>()], 0..60),
    ) {
        let body = [&[kind, first][..], &rest].concat();
        let payload = payload(&body, 10);
        if let Ok(value) = restore(&payload, LONGEST) {
            prop_assert!(bytes_of(&value) as u64 <= LONGEST);
            for is_small in [true, false] {
                let written = dump_again(&value, is_small);
                let again = restore(&written, 16 * LONGEST).unwrap();
                match (&value, again) {
                    // An intset has an order of its own.
                    (Restored::Set(members), Restored::Set(again)) => {
                        let sorted = |members: &[Text<'_>]| {
                            members.iter().map(|member| member.to_vec()).collect::<BTreeSet<_>>()
                        };
                        prop_assert_eq!(sorted(members), sorted(&again));
                    }
                    // Members are written from the highest score on.
                    (Restored::SortedSet(members), Restored::SortedSet(again)) => {
                        let sorted = |members: &[(Text<'_>, f64)]| {
                            let shown = |(name, score): &(Text<'_>, f64)| (name.to_vec(), score.to_bits());
                            members.iter().map(shown).collect::<BTreeSet<_>>()
                        };
                        prop_assert_eq!(sorted(members), sorted(&again));
                    }
                    (value, again) => prop_assert_eq!(value, &again),
                }
            }
        }
    }
}
