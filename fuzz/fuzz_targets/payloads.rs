//! Any bytes, as payloads of DUMP with and without a right footer: nothing panics, what is read is within the
//! limit, and it is the same after another DUMP, in either form.

#![no_main]

use crc::{CRC_64_REDIS, Crc};
use libfuzzer_sys::fuzz_target;
use sidle_rdb::{Dumped, Pair, RestoreError, Restored, WRITTEN_VERSION, dump, restore};

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
            Restored::List(_) => {
                (Dumped::List(&members), members.iter().map(|member| member.len()).sum())
            }
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

fuzz_target!(|body: &[u8]| {
    let _ = checked(body);

    let mut payload = [body, &WRITTEN_VERSION.to_le_bytes()].concat();
    payload.extend(CRC64.checksum(&payload).to_le_bytes());
    assert_ne!(checked(&payload), Err(RestoreError::Footer), "its footer is right");

    let string = dump(Dumped::String(body)).parts().concat();
    assert_eq!(restore(&string, u64::MAX).expect("it was written here"), Restored::String(body.into()));
});
