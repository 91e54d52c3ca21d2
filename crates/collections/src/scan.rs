//! Walking over a collection in steps, while it changes: HSCAN and its like.
//!
//! A cursor is a hash, and elements are returned in the order of their hashes. An element that is there
//! throughout is returned, whatever is added, removed or moved to another node meanwhile.

use sidle_types::KeyHash;

/// The next elements of a walk, and the cursor of the next step: 0 at its end.
///
/// `elements`: all of the collection, each with the bytes that identify it. About `count` are returned: with
/// those of equal hashes.
pub fn scan<'b, T>(
    elements: impl Iterator<Item = (&'b [u8], T)>,
    cursor: u64,
    count: usize,
) -> (u64, Vec<T>) {
    let hashed = elements.map(|(id, element)| (KeyHash::of_key(id).0, element));
    let mut left: Vec<(u64, T)> = hashed.filter(|(hash, _)| *hash >= cursor).collect();
    let count = count.max(1);
    if left.len() <= count {
        return (0, left.into_iter().map(|(_, element)| element).collect());
    }
    let (_, &mut (last, _), _) = left.select_nth_unstable_by_key(count - 1, |(hash, _)| *hash);
    let next = left.iter().map(|(hash, _)| *hash).filter(|hash| *hash > last).min().unwrap_or(0);
    left.retain(|(hash, _)| *hash <= last);
    (next, left.into_iter().map(|(_, element)| element).collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn what_stays_is_returned_once() {
        let names: Vec<String> = (0..1_000).map(|number| format!("element {number}")).collect();
        for count in [1, 7, 999, 1_000, 5_000] {
            let (mut cursor, mut seen, mut steps) = (0, BTreeSet::new(), 0);
            loop {
                // A third comes and goes.
                let there = names.iter().enumerate().filter(|(number, _)| number % 3 != 0 || steps % 2 == 0);
                let (next, found) =
                    scan(there.map(|(number, name)| (name.as_bytes(), number)), cursor, count);
                assert!(found.len() <= count);
                for number in found {
                    assert!(seen.insert(number), "{number} is returned twice");
                }
                steps += 1;
                cursor = next;
                if cursor == 0 {
                    break;
                }
            }
            assert!((0..1_000).filter(|number| number % 3 != 0).all(|number| seen.contains(&number)));
        }
    }
}
