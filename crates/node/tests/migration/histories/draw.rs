//! One seed's draws: numbers, and operations on few keys.

use sidle_history::{Datum, Op, Operation, Outcome};
use sidle_node::testing::LATENCY_US;
use sidle_testbed::Random;

/// Keys with their own slots, and as many that share the slot of [`TAG`].
pub(super) const KEYS: u64 = 16;
/// The hash tag whose slot is split.
pub(super) const TAG: &str = "{tag}";

/// One seed's numbers.
pub(super) struct Draw {
    random: Random,
    /// Drawn times are multiples of this. Coarse, since faults need events at the very same instant; or 1, so
    /// that almost none coincide.
    grain_us: u64,
}

impl Draw {
    pub(super) fn new(seed: u64) -> Draw {
        Draw { random: Random::new(seed), grain_us: if seed.is_multiple_of(2) { LATENCY_US / 2 } else { 1 } }
    }

    pub(super) fn below(&mut self, bound: u64) -> u64 {
        self.random.below(bound)
    }

    /// How long a message travels: mostly briefly, sometimes longer than a whole migration.
    pub(super) fn travel_us(&mut self) -> u64 {
        match self.below(12) {
            0 => 200 + self.span_us(2_000),
            1 | 2 => 60 + self.span_us(300),
            _ => self.span_us(60),
        }
    }

    /// A time below `bound_us`.
    pub(super) fn span_us(&mut self, bound_us: u64) -> u64 {
        self.below(bound_us.div_ceil(self.grain_us)) * self.grain_us
    }

    /// A client's next operation, called now. Half of the keys hold numbers, half of them texts; every value
    /// is written once.
    pub(super) fn operation(&mut self, client: u64, serial: u64, now_us: u64) -> Asked {
        let number = self.below(2 * KEYS);
        let is_number = number.is_multiple_of(2);
        let key = match number / 2 * 2 < KEYS {
            true => format!("key{number}"),
            false => format!("{TAG}{number}"),
        };
        let text = || Datum::Text(format!("{client}.{serial}"));
        let value = if is_number { Datum::Integer((client * 10_000 + serial) as i64) } else { text() };
        let (op, arg, name) = match self.below(10) {
            0..4 => (Op::Get, Datum::Null, "GET"),
            4 => (Op::Set, value, "SET"),
            5 | 6 if is_number => (Op::IncrBy, Datum::Integer(3), "INCRBY"),
            5 => (Op::Append, value, "APPEND"),
            6 => (Op::GetSet, value, "GETSET"),
            7 => (Op::Del, Datum::Null, "DEL"),
            8 => (Op::SetNx, value, "SETNX"),
            _ => match self.below(3) {
                0 => (Op::GetDel, Datum::Null, "GETDEL"),
                1 => (Op::StrLen, Datum::Null, "STRLEN"),
                _ => (Op::Exists, Datum::Null, "EXISTS"),
            },
        };
        let mut words = vec![name.to_owned(), key.clone()];
        match &arg {
            Datum::Null => {}
            Datum::Integer(number) => words.push(number.to_string()),
            Datum::Text(text) => words.push(text.clone()),
        }
        Asked { operation: Operation::begun(client, op, key, arg, now_us * 1000), words }
    }
}

/// An unanswered operation, and the words of its request.
#[derive(Clone)]
pub(super) struct Asked {
    pub(super) operation: Operation,
    pub(super) words: Vec<String>,
}

impl Asked {
    /// The record of the operation with this answer, received now.
    pub(super) fn answered(&self, now_us: u64, result: Datum) -> Operation {
        let return_ns = Some(now_us * 1000);
        Operation { result, return_ns, outcome: Outcome::Ok, ..self.operation.clone() }
    }

    /// The record of the operation that ended in this error, for which [`is_failure`] is true.
    pub(super) fn failed(&self, text: &str) -> Operation {
        match text.starts_with(sidle_node::UNKNOWN) {
            true => self.operation.clone(),
            false => self.refused(),
        }
    }

    /// The record of the operation, refused: it had no effect.
    pub(super) fn refused(&self) -> Operation {
        Operation { outcome: Outcome::None, ..self.operation.clone() }
    }
}

/// Whether an error reports that another node was unreachable, or did not answer.
pub(super) fn is_failure(text: &str) -> bool {
    text.starts_with(sidle_node::UNKNOWN) || text.starts_with("CLUSTERDOWN ")
}

/// A reply in a record's form.
///
/// # Panics
/// If it is an error, or no answer of any of the operations.
pub(super) fn datum(reply: sidle_resp::Value) -> Datum {
    use sidle_resp::Value;
    match reply {
        Value::Null => Datum::Null,
        Value::Integer(number) => Datum::Integer(number),
        Value::Simple(text) => Datum::Text(text),
        Value::Bulk(bytes) => Datum::Text(String::from_utf8(bytes).expect("only text was written")),
        other => panic!("an operation was answered {other:?}"),
    }
}
