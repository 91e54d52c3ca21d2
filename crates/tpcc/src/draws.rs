//! Random numbers and names (clauses 2.1.6, 4.3.2).

/// Draws from a seed. The sequence is part of the generator: it stays the same on every machine.
#[derive(Clone, Debug)]
pub struct Draws {
    state: u64,
    /// The constants of [`nurand`](Self::nurand), for last names, customers and items (clause 2.1.6.1).
    constants: [u32; 3],
}

const SYLLABLES: [&str; 10] =
    ["BAR", "OUGHT", "ABLE", "PRI", "PRES", "ESE", "ANTI", "CALLY", "ATION", "EING"];
const LETTERS: &[u8] = b"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789";

/// What a non-uniform number is for.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Of {
    LastName,
    Customer,
    Item,
}

impl Draws {
    /// From this seed. `run`: the constants differ between what loads a database and what runs on it.
    pub fn new(seed: u64, run: bool) -> Draws {
        let mut draws = Draws { state: seed, constants: [0; 3] };
        // Clause 2.1.6.1: the constants of the load and the run are 65 to 119 apart, but not 96 or 112.
        draws.constants = [if run { 100 + 85 } else { 100 }, 17, 1_234];
        draws
    }

    /// SplitMix64 (Steele, Lea and Flood, "Fast splittable pseudorandom number generators").
    fn next(&mut self) -> u64 {
        self.state = self.state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.state;
        z = (z ^ z >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ z >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ z >> 31
    }

    /// Any number from `low` to `high`, both included.
    pub fn between(&mut self, low: u32, high: u32) -> u32 {
        low + (self.next() % (u64::from(high - low) + 1)) as u32
    }

    /// Whether something happens that does in so many of a hundred cases.
    pub(crate) fn percent(&mut self, percent: u32) -> bool {
        self.between(1, 100) <= percent
    }

    /// NURand (clause 2.1.6), from `low` to `high`. `a` is a power of two less one, by the range's size: with
    /// fewer customers or items than the specification has, it shrinks with them.
    pub(crate) fn nurand(&mut self, of: Of, low: u32, high: u32) -> u32 {
        let (a, constant) = match of {
            Of::LastName => (255, self.constants[0]),
            Of::Customer => (1_023, self.constants[1]),
            Of::Item => (8_191, self.constants[2]),
        };
        let size = high - low + 1;
        let full = match of {
            Of::LastName => 1_000,
            Of::Customer => 3_000,
            Of::Item => 100_000,
        };
        let a = if size >= full { a } else { ((a + 1) * size / full).next_power_of_two() - 1 };
        ((self.between(0, a) | self.between(low, high)) + constant) % size + low
    }

    /// The last name with this number, 0 to 999 (clause 4.3.2.3).
    pub(crate) fn last_name(number: u32) -> String {
        [number / 100, number / 10 % 10, number % 10].map(|digit| SYLLABLES[digit as usize]).concat()
    }

    /// Letters and digits, `low` to `high` of them (clause 4.3.2.2).
    pub(crate) fn text(&mut self, low: u32, high: u32) -> Vec<u8> {
        (0..self.between(low, high))
            .map(|_| LETTERS[self.between(0, LETTERS.len() as u32 - 1) as usize])
            .collect()
    }

    /// The same, with "ORIGINAL" in it in one of ten cases (clauses 4.3.3.1).
    pub(crate) fn original_or_not(&mut self) -> Vec<u8> {
        let mut text = self.text(26, 50);
        if self.percent(10) {
            let at = self.between(0, text.len() as u32 - 8) as usize;
            text[at..at + 8].copy_from_slice(b"ORIGINAL");
        }
        text
    }

    /// All numbers from 1 to `last`, in a random order.
    pub(crate) fn shuffled(&mut self, last: u32) -> Vec<u32> {
        let mut all: Vec<u32> = (1..=last).collect();
        for place in (1..all.len()).rev() {
            all.swap(place, self.between(0, place as u32) as usize);
        }
        all
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_made_of_three_syllables() {
        assert_eq!(Draws::last_name(371), "PRICALLYOUGHT", "the specification's example");
        assert_eq!(Draws::last_name(40), "BARPRESBAR", "the specification's example");
    }

    #[test]
    fn draws_stay_within_their_bounds_and_reach_them() {
        let mut draws = Draws::new(1, true);
        for (of, low, high) in [(Of::LastName, 0, 999), (Of::Customer, 1, 30), (Of::Item, 1, 500)] {
            let drawn: Vec<u32> = (0..200_000).map(|_| draws.nurand(of, low, high)).collect();
            assert!(drawn.iter().all(|number| (low..=high).contains(number)), "{of:?}");
            assert!(drawn.contains(&low) && drawn.contains(&high), "{of:?}");
        }
        let mut all = draws.shuffled(50);
        assert_ne!(all, (1..=50).collect::<Vec<_>>());
        all.sort_unstable();
        assert_eq!(all, (1..=50).collect::<Vec<_>>());
    }

    #[test]
    fn some_are_drawn_far_more_often() {
        let mut draws = Draws::new(1, true);
        let mut counts = vec![0_u32; 3_001];
        (0..300_000).for_each(|_| counts[draws.nurand(Of::Customer, 1, 3_000) as usize] += 1);
        counts.sort_unstable();
        let most: u32 = counts.iter().rev().take(300).sum();
        assert!(most > 60_000, "the hottest tenth has {most} of 300000, and not a tenth of them");
    }
}
