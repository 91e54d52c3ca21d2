//! Requests that are to run once, though they are sent again when an answer is lost: `SIDLE.ONCE`.
//!
//! A node keeps the replies that a client may still need in one *completion key* of each slot. Which key that
//! is, the client decides: a name of its own, with a hash tag for the slot.

use sidle_types::{Slot, WallMs};
use std::collections::BTreeSet;
use std::sync::OnceLock;

/// The command.
const NAME: &str = "SIDLE.ONCE";

/// Numbers a client's requests that are to run once, and knows which of them are open.
#[derive(Clone, Debug)]
pub struct OnceRequests {
    /// Differs from every other client's.
    client: u128,
    last: u64,
    open: BTreeSet<u64>,
}

impl OnceRequests {
    /// The requests of a client of this name, which no other client has or had.
    pub fn new(client: u128) -> OnceRequests {
        OnceRequests { client, last: 0, open: BTreeSet::new() }
    }

    /// The words of a command that is to run once, for keys in this slot, and its number. They stay the same
    /// however often they are sent. The request is open until its number [ends](Self::end).
    pub fn begin(&mut self, slot: Slot, issued: WallMs, args: &[&[u8]]) -> (u64, Vec<Vec<u8>>) {
        self.last += 1;
        let number = self.last;
        self.open.insert(number);
        let lowest = self.open.first().copied().unwrap_or(number);
        let head = [NAME.to_owned(), completion_key(slot, self.client)];
        let numbers = [number, lowest, issued.0].map(|number| number.to_string());
        let mut words: Vec<Vec<u8>> = head.into_iter().chain(numbers).map(String::into_bytes).collect();
        words.extend(args.iter().map(|arg| arg.to_vec()));
        (number, words)
    }

    /// Its reply is there, or is not waited for any more: it is not sent again.
    pub fn end(&mut self, number: u64) {
        self.open.remove(&number);
    }
}

/// A client's completion key in a slot.
pub fn completion_key(slot: Slot, client: u128) -> String {
    format!("sidle.once{{{}}}{client:032x}", tag_of(slot))
}

/// The smallest number that, written out, hashes to the slot.
fn tag_of(slot: Slot) -> u32 {
    static TAGS: OnceLock<Vec<u32>> = OnceLock::new();
    let tags = TAGS.get_or_init(|| {
        let mut tags = vec![None; Slot::all().len()];
        let mut left = tags.len();
        for number in 0u32.. {
            let place: &mut Option<u32> = &mut tags[Slot::of_key(number.to_string().as_bytes()).index()];
            if place.is_none() {
                *place = Some(number);
                left -= 1;
            }
            if left == 0 {
                break;
            }
        }
        tags.into_iter().flatten().collect()
    });
    tags[slot.index()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_completion_key_is_in_its_slot_and_of_its_client() {
        for slot in Slot::all() {
            assert_eq!(Slot::of_key(completion_key(slot, 7).as_bytes()), slot);
        }
        assert_ne!(completion_key(Slot::LAST, 7), completion_key(Slot::LAST, 8));
    }

    #[test]
    fn the_lowest_open_request_is_named_until_it_ends() {
        let mut requests = OnceRequests::new(1);
        let begin = |requests: &mut OnceRequests| {
            let (number, words) = requests.begin(Slot::LAST, WallMs(5), &[b"INCR", b"k"]);
            let words: Vec<String> = words.into_iter().map(|word| String::from_utf8(word).unwrap()).collect();
            assert_eq!(
                (words[0].as_str(), &words[4..]),
                ("SIDLE.ONCE", &["5", "INCR", "k"].map(str::to_owned)[..])
            );
            assert_eq!(words[2], number.to_string());
            (number, words[3].parse::<u64>().unwrap())
        };
        assert_eq!(begin(&mut requests), (1, 1));
        assert_eq!(begin(&mut requests), (2, 1));
        requests.end(1);
        assert_eq!(begin(&mut requests), (3, 2));
        requests.end(2);
        requests.end(3);
        assert_eq!(begin(&mut requests), (4, 4));
    }
}
