//! Any bytes, as payloads of DUMP with and without a right footer: nothing panics, what is read is within the
//! limit, and it is the same after another DUMP.

#![no_main]

use crc::{CRC_64_REDIS, Crc};
use libfuzzer_sys::fuzz_target;
use sidle_rdb::{RestoreError, WRITTEN_VERSION, dump, restore};

const LONGEST_BYTES: u64 = 1 << 16;

static CRC64: Crc<u64> = Crc::<u64>::new(&CRC_64_REDIS);

/// The value of a payload; whatever was read is written and read again.
fn checked(payload: &[u8]) -> Result<(), RestoreError> {
    let value = restore(payload, LONGEST_BYTES)?;
    assert!(value.len() as u64 <= LONGEST_BYTES);
    let again = dump(&value).parts().concat();
    assert_eq!(restore(&again, LONGEST_BYTES).expect("it was written here"), value);
    Ok(())
}

fuzz_target!(|body: &[u8]| {
    let _ = checked(body);

    let mut payload = [body, &WRITTEN_VERSION.to_le_bytes()].concat();
    payload.extend(CRC64.checksum(&payload).to_le_bytes());
    assert_ne!(checked(&payload), Err(RestoreError::Footer), "its footer is right");

    assert_eq!(restore(&dump(body).parts().concat(), u64::MAX).expect("it was written here"), body);
});
