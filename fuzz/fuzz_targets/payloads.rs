//! Any bytes, as payloads of DUMP with and without a right footer: nothing panics, what is read is within the
//! limit, and it is the same after another DUMP, in either form, and read in slices.

#![no_main]

use crc::{CRC_64_REDIS, Crc};
use libfuzzer_sys::fuzz_target;
use sidle_rdb::{
    Dumped, Element, Pair, RestoreError, Restored, SlicedKind, Slices, WRITTEN_VERSION, dump, restore,
};

const LONGEST_BYTES: u64 = 1 << 16;

static CRC64: Crc<u64> = Crc::<u64>::new(&CRC_64_REDIS);

/// The value of a payload; whatever was read is written and read again.
fn checked(payload: &[u8]) -> Result<(), RestoreError> {
    let value = restore(payload, LONGEST_BYTES)?;
    let pairs: Vec<Pair<'_>> = match &value {
        Restored::Hash(pairs) => pairs.iter().map(|(field, value)| (&field[..], &value[..])).collect(),
        _ => Vec::new(),
    };
    let members: Vec<&[u8]> = match &value {
        Restored::Set(members) | Restored::List(members) => {
            members.iter().map(|member| &member[..]).collect()
        }
        _ => Vec::new(),
    };
    let scored: Vec<(&[u8], f64)> = match &value {
        Restored::SortedSet(members) => members.iter().map(|(member, score)| (&member[..], *score)).collect(),
        _ => Vec::new(),
    };
    for is_small in [true, false] {
        let (dumped, bytes) = match &value {
            Restored::String(value) => (Dumped::String(value), value.len()),
            Restored::Hash(_) => {
                let bytes = pairs.iter().map(|(field, value)| field.len() + value.len()).sum();
                (Dumped::Hash { pairs: &pairs, is_small }, bytes)
            }
            Restored::SortedSet(_) => {
                let bytes = scored.iter().map(|(member, _)| member.len()).sum();
                (Dumped::SortedSet { members: &scored, is_small }, bytes)
            }
            Restored::List(_) => (Dumped::List(&members), members.iter().map(|member| member.len()).sum()),
            Restored::Set(_) => {
                let bytes = members.iter().map(|member| member.len()).sum();
                (Dumped::Set { members: &members, is_intset: is_small }, bytes)
            }
        };
        assert!(bytes as u64 <= LONGEST_BYTES);
        let again = dump(dumped).parts().concat();
        // A listpack is longer than what is in it.
        let mut again = restore(&again, 16 * LONGEST_BYTES).expect("it was written here");
        let mut value = value.clone();
        // An intset has an order of its own, and a sorted set is written from the highest score on.
        for read in [&mut again, &mut value] {
            match read {
                Restored::Set(members) => members.sort(),
                Restored::SortedSet(members) => members.sort_by(|one, other| one.0.cmp(&other.0)),
                _ => {}
            }
        }
        assert_eq!(again, value);
    }
    Ok(())
}

/// The same payload in slices: the same elements, or an error with the same reply.
fn check_slices(payload: &[u8]) {
    let Some(mut slices) = Slices::begin(payload, LONGEST_BYTES) else { return };
    let (mut pairs, mut texts, mut scored) = (Vec::new(), Vec::new(), Vec::new());
    let mut read = || {
        while !slices.check(payload, 100)? {}
        while let Some((at, element)) = slices.read(payload)? {
            assert_eq!(slices.read_again(payload, at)?.bytes(), element.bytes());
            match element {
                Element::Pair(field, value) => pairs.push((field, value)),
                Element::Member(member) => texts.push(member),
                Element::Items(items) => texts.extend(items),
                Element::Scored(member, score) => scored.push((member, score)),
            }
        }
        Ok::<SlicedKind, RestoreError>(slices.kind())
    };
    match (read(), restore(payload, LONGEST_BYTES)) {
        (Ok(kind), Ok(value)) => {
            let in_slices = match kind {
                SlicedKind::Hash => Restored::Hash(pairs),
                SlicedKind::Set => Restored::Set(texts),
                SlicedKind::List => Restored::List(texts),
                SlicedKind::SortedSet => Restored::SortedSet(scored),
            };
            assert_eq!(in_slices, value);
        }
        // A name that is there twice, and a score that is no number, are seen by who puts them.
        (Ok(_), Err(error)) => assert_eq!(error, RestoreError::Damaged),
        (Err(error), Err(at_once)) => {
            for told_apart in [RestoreError::Footer, RestoreError::TooLong] {
                assert_eq!(error == told_apart, at_once == told_apart, "{error}, {at_once}");
            }
        }
        (Err(error), Ok(_)) => panic!("{error}"),
    }
}

fuzz_target!(|body: &[u8]| {
    let _ = checked(body);
    check_slices(body);

    let mut payload = [body, &WRITTEN_VERSION.to_le_bytes()].concat();
    payload.extend(CRC64.checksum(&payload).to_le_bytes());
    assert_ne!(checked(&payload), Err(RestoreError::Footer), "its footer is right");
    check_slices(&payload);

    let string = dump(Dumped::String(body)).parts().concat();
    assert_eq!(restore(&string, u64::MAX).expect("it was written here"), Restored::String(body.into()));
});
