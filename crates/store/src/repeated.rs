//! What a durable log has more than once.
//!
//! What is still needed of the oldest file is written again, and then the file goes. A process that dies in
//! between leaves records twice. The next one would find both needed when it cleans their files, and write
//! both again: so they would stay twice for ever. Hence a recovery notes where those are that it has found
//! already. Of several that are equal all but one are noted, whatever the sequence in which they are read.

use std::collections::BTreeMap;
use std::ops::Range;

/// Where they are, by file: bytes, of which several records may be one range.
pub type Repeated = BTreeMap<u64, Vec<Range<usize>>>;

/// Notes a record.
pub(crate) fn note(repeated: &mut Repeated, file: u64, place: Range<usize>) {
    let of_file = repeated.entry(file).or_default();
    match of_file.last_mut().filter(|last| last.end == place.start) {
        Some(last) => last.end = place.end,
        None => of_file.push(place),
    }
}

/// Adds what another part has noted.
pub(crate) fn add(repeated: &mut Repeated, other: Repeated) {
    for (file, places) in other {
        repeated.entry(file).or_default().extend(places);
    }
}
