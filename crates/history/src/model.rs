//! The sequential specification of one key.
//!
//! A state is a few words, whatever the value's length. Short texts are kept as they are; long ones as a
//! length and two polynomial hashes that an append can extend. Two different long texts collide with a chance
//! of about 2^-100.

use crate::{Datum, Op};

const SHORT_BYTES: usize = 24;
const PRIME: u64 = (1 << 61) - 1;
const BASES: [u64; 2] = [0x0a6f_1d3c_59b7_2e85, 0x1b39_84f0_6c2d_e713];

/// A key's value, or its absence.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) enum State {
    Absent,
    Present(Text),
}

impl State {
    /// The value's length in bytes; an absent key has 0.
    pub(crate) const fn length(self) -> u64 {
        match self {
            State::Absent => 0,
            State::Present(text) => text.length,
        }
    }

    /// Whether `whole` may start with this value: exact only if both are short.
    pub(crate) fn may_begin(self, whole: State) -> bool {
        match (self, whole) {
            (State::Present(head), State::Present(whole)) if head.is_short() && whole.is_short() => {
                whole.short_bytes().starts_with(&head.short_bytes()[..head.length as usize])
            }
            _ => true,
        }
    }

    /// The value as a number, if it is one.
    pub(crate) fn integer(self) -> Option<i64> {
        match self {
            State::Absent => None,
            State::Present(text) => text.integer(),
        }
    }
}

/// A text in fixed space. Equal texts have equal representations.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct Text {
    length: u64,
    /// Up to [`SHORT_BYTES`] bytes padded with zeros, or the two hashes.
    words: [u64; 3],
}

/// A number below 2^124 modulo [`PRIME`], a Mersenne prime: the high bits are added to the low ones.
const fn reduce(number: u128) -> u64 {
    let folded = (number as u64 & PRIME) + (number >> 61) as u64;
    let folded = (folded & PRIME) + (folded >> 61);
    if folded >= PRIME { folded - PRIME } else { folded }
}

const fn multiply(a: u64, b: u64) -> u64 {
    reduce(a as u128 * b as u128)
}

/// Bytes per step of [`hash`]: each step depends on the last.
const STEP: usize = 8;

/// The powers of a base below a step's factor, highest first, and that factor.
const fn powers(base: u64) -> ([u64; STEP], u64) {
    let mut powers = [1; STEP];
    let mut place = STEP - 1;
    while place > 0 {
        powers[place - 1] = multiply(powers[place], base);
        place -= 1;
    }
    (powers, multiply(powers[0], base))
}

const POWERS: [([u64; STEP], u64); 2] = [powers(BASES[0]), powers(BASES[1])];

/// The polynomials of the bytes, each counted from 1, at both bases.
fn hash(bytes: &[u8]) -> [u64; 2] {
    let value = |byte: u8, power: u64| (u128::from(byte) + 1) * u128::from(power);
    let (steps, rest) = bytes.as_chunks::<STEP>();
    let mut hashes = [0; 2];
    for step in steps {
        for (hash, (powers, next)) in hashes.iter_mut().zip(&POWERS) {
            let sum: u128 = step.iter().zip(powers).map(|(&byte, &power)| value(byte, power)).sum();
            *hash = reduce(u128::from(*hash) * u128::from(*next) + sum);
        }
    }
    for &byte in rest {
        for (hash, base) in hashes.iter_mut().zip(BASES) {
            *hash = reduce(u128::from(*hash) * u128::from(base) + value(byte, 1));
        }
    }
    hashes
}

fn power(base: u64, mut exponent: u64) -> u64 {
    let (mut result, mut square) = (1, base % PRIME);
    while exponent > 0 {
        if exponent & 1 == 1 {
            result = multiply(result, square);
        }
        square = multiply(square, square);
        exponent >>= 1;
    }
    result
}

impl Text {
    pub(crate) fn new(bytes: &[u8]) -> Text {
        if bytes.len() <= SHORT_BYTES {
            return Text::short(bytes);
        }
        let [first, second] = hash(bytes);
        Text { length: bytes.len() as u64, words: [first, second, 0] }
    }

    pub(crate) fn of_datum(datum: &Datum) -> Text {
        match datum {
            Datum::Null => Text::short(b""),
            Datum::Integer(number) => Text::of_integer(*number),
            Datum::Text(text) => Text::new(text.as_bytes()),
        }
    }

    fn of_integer(number: i64) -> Text {
        Text::short(itoa::Buffer::new().format(number).as_bytes())
    }

    pub(crate) const fn state(self) -> State {
        State::Present(self)
    }

    fn short(bytes: &[u8]) -> Text {
        let mut padded = [0; SHORT_BYTES];
        padded[..bytes.len()].copy_from_slice(bytes);
        let mut words = [0; 3];
        for (word, chunk) in words.iter_mut().zip(padded.chunks_exact(8)) {
            *word = u64::from_le_bytes(chunk.try_into().expect("chunks of eight"));
        }
        Text { length: bytes.len() as u64, words }
    }

    fn is_short(&self) -> bool {
        self.length <= SHORT_BYTES as u64
    }

    fn short_bytes(&self) -> [u8; SHORT_BYTES] {
        let mut bytes = [0; SHORT_BYTES];
        for (chunk, word) in bytes.chunks_exact_mut(8).zip(self.words) {
            chunk.copy_from_slice(&word.to_le_bytes());
        }
        bytes
    }

    /// The polynomials of the text.
    fn hashes(&self) -> [u64; 2] {
        if self.is_short() {
            hash(&self.short_bytes()[..self.length as usize])
        } else {
            [self.words[0], self.words[1]]
        }
    }

    fn append(self, tail: &Text) -> Text {
        let length = self.length + tail.length;
        if length <= SHORT_BYTES as u64 {
            let (mut joined, tail_bytes) = (self.short_bytes(), tail.short_bytes());
            let at = self.length as usize;
            joined[at..length as usize].copy_from_slice(&tail_bytes[..tail.length as usize]);
            return Text::short(&joined[..length as usize]);
        }
        let (head, tail_hashes) = (self.hashes(), tail.hashes());
        let joined = |i: usize| (multiply(head[i], power(BASES[i], tail.length)) + tail_hashes[i]) % PRIME;
        Text { length, words: [joined(0), joined(1), 0] }
    }

    /// The integer, by Redis's rule: decimal, no sign but a minus, no leading zeros, 64 bits.
    fn integer(&self) -> Option<i64> {
        if !self.is_short() {
            return None;
        }
        let bytes = self.short_bytes();
        let text = &bytes[..self.length as usize];
        let digits = text.strip_prefix(b"-").unwrap_or(text);
        let is_canonical = match digits {
            [] => false,
            [b'0', ..] => text == b"0",
            digits => digits.iter().all(u8::is_ascii_digit),
        };
        is_canonical.then(|| std::str::from_utf8(text).ok()?.parse().ok()).flatten()
    }
}

/// An operation's reply.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Reply {
    Done,
    Integer(i64),
    Value(State),
    /// An error; the state stays.
    Refused,
}

impl Reply {
    /// The reply in the record of a successful operation.
    pub(crate) fn claimed(op: Op, result: &Datum) -> Reply {
        match (op, result) {
            (Op::Set | Op::Flush, _) => Reply::Done,
            (Op::Get | Op::GetSet | Op::GetDel, Datum::Null) => Reply::Value(State::Absent),
            (Op::Get | Op::GetSet | Op::GetDel, value) => Reply::Value(Text::of_datum(value).state()),
            (_, Datum::Integer(number)) => Reply::Integer(*number),
            (_, Datum::Null | Datum::Text(_)) => Reply::Refused,
        }
    }
}

/// An operation with its argument, ready to apply.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Action {
    pub(crate) op: Op,
    pub(crate) text: Text,
    delta: i64,
}

impl Action {
    pub(crate) fn new(op: Op, arg: &Datum) -> Action {
        let delta = if let Datum::Integer(number) = arg { *number } else { 0 };
        Action { op, text: Text::of_datum(arg), delta }
    }

    /// The action without its reply, which nobody received: equal effects make equal actions.
    pub(crate) fn without_reply(mut self) -> Action {
        self.op = match self.op {
            Op::GetSet => Op::Set,
            Op::GetDel | Op::Flush => Op::Del,
            op => op,
        };
        self
    }

    /// Whether two actions have the same effect and reply in every state.
    pub(crate) fn does_the_same(&self, other: &Action) -> bool {
        (self.op, self.text, self.delta) == (other.op, other.text, other.delta)
    }

    /// Whether its effect depends on the state.
    pub(crate) const fn is_relative(&self) -> bool {
        matches!(self.op, Op::SetNx | Op::Append | Op::IncrBy)
    }

    /// What an increment adds.
    pub(crate) const fn added(&self) -> i64 {
        self.delta
    }

    /// The reply and the next state.
    pub(crate) fn apply(&self, state: State) -> (Reply, State) {
        let there = i64::from(state != State::Absent);
        match self.op {
            Op::Get => (Reply::Value(state), state),
            Op::Set => (Reply::Done, self.text.state()),
            Op::SetNx if there == 1 => (Reply::Integer(0), state),
            Op::SetNx => (Reply::Integer(1), self.text.state()),
            Op::GetSet => (Reply::Value(state), self.text.state()),
            Op::GetDel => (Reply::Value(state), State::Absent),
            Op::Del => (Reply::Integer(there), State::Absent),
            Op::Flush => (Reply::Done, State::Absent),
            Op::Exists => (Reply::Integer(there), state),
            Op::StrLen => (Reply::Integer(state.length() as i64), state),
            Op::Append => {
                let next = match state {
                    State::Absent => self.text,
                    State::Present(text) => text.append(&self.text),
                };
                (Reply::Integer(next.length as i64), State::Present(next))
            }
            Op::IncrBy => {
                let old = match state {
                    State::Absent => Some(0),
                    State::Present(text) => text.integer(),
                };
                match old.and_then(|old| old.checked_add(self.delta)) {
                    Some(sum) => (Reply::Integer(sum), State::Present(Text::of_integer(sum))),
                    None => (Reply::Refused, state),
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn state(text: &str) -> State {
        Text::new(text.as_bytes()).state()
    }

    #[test]
    fn hash_is_the_polynomial_of_the_bytes() {
        let bytes: Vec<u8> = (0..=255).rev().collect();
        for length in 0..bytes.len() {
            let one_by_one = BASES.map(|base| {
                bytes[..length].iter().fold(0, |hash, &byte| {
                    (u128::from(hash) * u128::from(base) + u128::from(byte) + 1).rem_euclid(u128::from(PRIME))
                        as u64
                })
            });
            assert_eq!(hash(&bytes[..length]), one_by_one, "{length} bytes");
        }
    }

    #[test]
    fn multiply_is_the_product_modulo_the_prime() {
        let numbers = [0, 1, 2, 1 << 60, PRIME / 3, PRIME - 2, PRIME - 1];
        for (a, b) in numbers.iter().flat_map(|&a| numbers.map(|b| (a, b))) {
            let product = u128::from(a) * u128::from(b) % u128::from(PRIME);
            assert_eq!(u128::from(multiply(a, b)), product, "{a} * {b}");
        }
    }

    #[test]
    fn append_equals_the_whole_text_at_every_split() {
        let whole: String = (0..70u8).map(|i| char::from(b'a' + i % 26)).collect();
        for length in [3, 23, 24, 25, 40, 70] {
            for split in 0..=length {
                let tail = Action::new(Op::Append, &Datum::from(&whole[split..length]));
                let (reply, next) = tail.apply(state(&whole[..split]));
                assert_eq!((reply, next), (Reply::Integer(length as i64), state(&whole[..length])));
            }
        }
    }

    #[test]
    fn increment_follows_redis_integers() {
        let cases = [
            ("5", Some(12)),
            ("0", Some(7)),
            ("-7", Some(0)),
            ("-10", Some(-3)),
            ("-9223372036854775808", Some(i64::MIN + 7)),
            ("9223372036854775808", None),
            ("05", None),
            ("-05", None),
            ("-0", None),
            ("-", None),
            ("+5", None),
            ("5 ", None),
            ("", None),
            ("x", None),
        ];
        for (old, sum) in cases {
            let (reply, next) = Action::new(Op::IncrBy, &7.into()).apply(state(old));
            match sum {
                Some(sum) => assert_eq!((reply, next), (Reply::Integer(sum), state(&sum.to_string()))),
                None => assert_eq!((reply, next), (Reply::Refused, state(old)), "{old}"),
            }
        }
        let top = i64::MAX.to_string();
        assert_eq!(Action::new(Op::IncrBy, &1.into()).apply(state(&top)), (Reply::Refused, state(&top)));
    }

    #[test]
    fn digits_joined_by_append_are_an_integer() {
        let (_, joined) = Action::new(Op::Append, &"2".into()).apply(state("-4"));
        assert_eq!(Action::new(Op::IncrBy, &1.into()).apply(joined).0, Reply::Integer(-41));
    }
}
