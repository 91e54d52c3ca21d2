//! What clients ask for: drawn operations, each with the records that its answer completes.

use crate::random::Random;
use sidle_client_core::Class;
use sidle_history::{Datum, Op, Operation, Outcome};
use sidle_resp::Value;

/// The hash tag whose slot ranges are split in.
pub const TAG: &str = "{tag}";
/// How long a value may be that does not fit one pull: several of the smallest pulls.
const LARGE_BYTES: (u64, u64) = (20_000, 200_000);

/// What a workload is made of.
#[derive(Clone, Debug)]
pub struct Workload {
    /// How many keys there are. Half of them share the slot of [`TAG`].
    pub keys: u64,
    /// So many of a thousand operations are on the first few keys.
    pub hot_permille: u64,
    /// So many of a thousand operations write.
    pub writes_permille: u64,
    /// So many of a thousand operations are on several keys.
    pub multi_permille: u64,
    /// So many of a thousand written values are large.
    pub large_permille: u64,
}

/// How many keys are hot.
const HOT_KEYS: u64 = 3;
/// The most keys of one operation.
const MULTI_KEYS: u64 = 5;

/// How an answer completes the records.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shape {
    /// It is the result of the one record.
    One,
    /// It is an array with a result for each record.
    Each,
    /// It is the result of every record.
    All,
}

/// An operation without an answer yet.
#[derive(Clone, Debug)]
pub struct Asked {
    /// What to say to the node.
    pub words: Vec<String>,
    /// What it may do.
    pub class: Class,
    /// What becomes known with its answer: one record for each key.
    pub records: Vec<Operation>,
    shape: Shape,
}

impl Workload {
    /// The key with this number. Even numbers hold integers, odd ones texts; every second pair shares a slot.
    pub fn key(number: u64) -> String {
        if number / 2 % 2 == 0 { format!("k{number}") } else { format!("{TAG}{number}") }
    }

    /// All keys.
    pub fn all_keys(&self) -> impl Iterator<Item = String> + use<> {
        (0..self.keys + 3).map(Workload::key)
    }

    fn number(&self, random: &mut Random) -> u64 {
        let hot = random.permille(self.hot_permille);
        random.below(if hot { self.keys.min(HOT_KEYS) } else { self.keys })
    }

    /// The next operation of a client; every value is written once. `serial`: how many the client asked before.
    pub fn draw(&self, random: &mut Random, client: u64, serial: u64, now_us: u64) -> Asked {
        if random.permille(self.multi_permille) {
            return self.draw_multi(random, client, serial, now_us);
        }
        let number = self.number(random);
        let is_number = number % 2 == 0;
        let value = self.value(random, is_number, client, serial, 0);
        let (op, arg, name) = if random.permille(self.writes_permille) {
            match random.below(8) {
                0 | 1 => (Op::Set, value, "SET"),
                2 | 3 if is_number => (Op::IncrBy, Datum::Integer(random.between(1, 5) as i64), "INCRBY"),
                2 | 3 => (Op::Append, short(value), "APPEND"),
                4 => (Op::GetSet, value, "GETSET"),
                5 => (Op::Del, Datum::Null, "DEL"),
                6 => (Op::SetNx, value, "SETNX"),
                _ => (Op::GetDel, Datum::Null, "GETDEL"),
            }
        } else {
            match random.below(8) {
                0 => (Op::StrLen, Datum::Null, "STRLEN"),
                1 => (Op::Exists, Datum::Null, "EXISTS"),
                _ => (Op::Get, Datum::Null, "GET"),
            }
        };
        let record = record(client, op, Workload::key(number), arg.clone(), now_us);
        let class = match op {
            Op::Get => Class::Get,
            op if op.is_read() => Class::Read,
            _ => Class::Write,
        };
        let mut words = vec![name.to_owned(), record.key.clone()];
        words.extend(word(&arg));
        Asked { words, class, records: vec![record], shape: Shape::One }
    }

    /// MGET or MSET of keys that share a slot.
    fn draw_multi(&self, random: &mut Random, client: u64, serial: u64, now_us: u64) -> Asked {
        let mut numbers: Vec<u64> =
            (0..random.between(1, MULTI_KEYS)).map(|_| self.number(random) | 2).collect();
        numbers.sort_unstable();
        numbers.dedup();
        let is_write = random.permille(self.writes_permille);
        let mut words = vec![if is_write { "MSET" } else { "MGET" }.to_owned()];
        let mut records = Vec::new();
        for (place, number) in numbers.into_iter().enumerate() {
            let key = Workload::key(number);
            words.push(key.clone());
            let (op, arg) = match is_write {
                true => (Op::Set, short(self.value(random, number % 2 == 0, client, serial, place))),
                false => (Op::Get, Datum::Null),
            };
            words.extend(word(&arg));
            records.push(record(client, op, key, arg, now_us));
        }
        let (class, shape) = if is_write { (Class::Write, Shape::All) } else { (Class::Read, Shape::Each) };
        Asked { words, class, records, shape }
    }

    fn value(&self, random: &mut Random, is_number: bool, client: u64, serial: u64, place: usize) -> Datum {
        if is_number {
            return Datum::Integer((client * 1_000_000_000 + serial * 100 + place as u64 * 10) as i64);
        }
        let mut text = format!("{client}.{serial}.{place}");
        if random.permille(self.large_permille) {
            let bytes = random.between(LARGE_BYTES.0, LARGE_BYTES.1) as usize;
            text.extend(std::iter::repeat_n('x', bytes));
        }
        Datum::Text(text)
    }
}

/// A GET that reads a key back.
pub fn read_back(client: u64, key: String, now_us: u64) -> Asked {
    let words = vec!["GET".to_owned(), key.clone()];
    let records = vec![record(client, Op::Get, key, Datum::Null, now_us)];
    Asked { words, class: Class::Get, records, shape: Shape::One }
}

/// Large values are set, not appended to each other.
fn short(value: Datum) -> Datum {
    match value {
        Datum::Text(text) => Datum::Text(text.trim_end_matches('x').to_owned()),
        other => other,
    }
}

fn record(client: u64, op: Op, key: String, arg: Datum, now_us: u64) -> Operation {
    Operation {
        client,
        op,
        key,
        arg,
        result: Datum::Null,
        call_ns: now_us * 1000,
        return_ns: None,
        outcome: Outcome::Unknown,
    }
}

fn word(arg: &Datum) -> Option<String> {
    match arg {
        Datum::Null => None,
        Datum::Integer(number) => Some(number.to_string()),
        Datum::Text(text) => Some(text.clone()),
    }
}

impl Asked {
    /// The key that decides where it goes.
    pub fn key(&self) -> &str {
        &self.words[1]
    }

    /// The records with the answer that came now, or what cannot be an answer.
    pub fn answered(mut self, now_us: u64, reply: Value) -> Result<Vec<Operation>, String> {
        if let Value::Error(text) = &reply {
            // What is refused had no effect. Half of an MSET may have found room.
            let is_half = text.starts_with("OOM") && self.records.len() > 1;
            return Ok(if is_half { self.records } else { self.refused() });
        }
        let results = match (self.shape, reply) {
            (Shape::One, reply) => vec![datum(reply)?],
            (Shape::Each, Value::Array(replies)) => {
                replies.into_iter().map(datum).collect::<Result<_, _>>()?
            }
            (Shape::Each, other) => return Err(format!("{:?} was answered {other:?}", self.words)),
            (Shape::All, reply) => vec![datum(reply)?; self.records.len()],
        };
        if results.len() != self.records.len() {
            return Err(format!("{:?} was answered with {} values", self.words, results.len()));
        }
        for (record, result) in self.records.iter_mut().zip(results) {
            (record.result, record.return_ns, record.outcome) = (result, Some(now_us * 1000), Outcome::Ok);
        }
        Ok(self.records)
    }

    /// The records of an operation that had no effect.
    pub fn refused(mut self) -> Vec<Operation> {
        self.records.iter_mut().for_each(|record| record.outcome = Outcome::None);
        self.records
    }

    /// The records of an operation whose fate is unknown.
    pub fn unknown(self) -> Vec<Operation> {
        self.records
    }
}

fn datum(reply: Value) -> Result<Datum, String> {
    match reply {
        Value::Null => Ok(Datum::Null),
        Value::Integer(number) => Ok(Datum::Integer(number)),
        Value::Simple(text) => Ok(Datum::Text(text)),
        Value::Bulk(bytes) => match String::from_utf8(bytes) {
            Ok(text) => Ok(Datum::Text(text)),
            Err(error) => Err(format!("only text was written, and {error} came back")),
        },
        other => Err(format!("an operation was answered {other:?}")),
    }
}
