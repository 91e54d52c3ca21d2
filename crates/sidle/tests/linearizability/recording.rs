//! The state that all clients of one run share, and the record of each.

use sidle_client::Effect;
use sidle_history::{Datum, Op, Operation, Outcome};
use sidle_resp::Value;
use sidle_workload::Random;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Instant;

/// Keys in slots of their own, and as many in the split slot. Half of each hold numbers.
const KEYS: u64 = 32;

/// One run: its clock, its keys, its counts.
#[derive(Debug)]
pub(crate) struct Run {
    began: Instant,
    seed: u64,
    keys: Vec<String>,
    is_over: AtomicBool,
    operations: AtomicU64,
    /// Completed migrations of each range.
    pub(crate) migrations: [AtomicU64; 2],
    /// MOVED and ASK answers to plain connections.
    pub(crate) moved: AtomicU64,
    pub(crate) asked: AtomicU64,
    /// Double reads of aware clients, and how many of them took the source's value.
    pub(crate) double_reads: AtomicU64,
    pub(crate) source_values: AtomicU64,
}

/// Ends the run when dropped, in a panic too.
pub(crate) struct StopGuard<'r>(&'r Run);

impl Drop for StopGuard<'_> {
    fn drop(&mut self) {
        self.0.is_over.store(true, Ordering::Relaxed);
    }
}

impl Run {
    pub(crate) fn new(tag: &str, seed: u64) -> Run {
        let spread = (0..KEYS).map(|number| format!("key{number}"));
        let tagged = (0..KEYS).map(|number| format!("{tag}key{number}"));
        Run {
            began: Instant::now(),
            seed,
            keys: spread.chain(tagged).collect(),
            is_over: AtomicBool::new(false),
            operations: AtomicU64::new(0),
            migrations: Default::default(),
            moved: AtomicU64::new(0),
            asked: AtomicU64::new(0),
            double_reads: AtomicU64::new(0),
            source_values: AtomicU64::new(0),
        }
    }

    /// Nanoseconds on the run's one clock.
    pub(crate) fn now_ns(&self) -> u64 {
        self.began.elapsed().as_nanos() as u64
    }

    pub(crate) fn is_over(&self) -> bool {
        self.is_over.load(Ordering::Relaxed)
    }

    pub(crate) fn stop_when_dropped(&self) -> StopGuard<'_> {
        StopGuard(self)
    }

    pub(crate) fn random(&self, client: u64) -> Random {
        Random::new(self.seed, client)
    }

    pub(crate) fn has_enough(&self, migrations: u64, operations: u64) -> bool {
        self.operations.load(Ordering::Relaxed) >= operations
            && self.migrations.iter().all(|count| count.load(Ordering::Relaxed) >= migrations)
    }
}

/// An operation without an answer yet, and the words of its request.
pub(crate) struct Asked {
    pub(crate) operation: Operation,
    pub(crate) words: Vec<String>,
}

/// The requests and answers of one client, one operation at a time.
pub(crate) struct Recorder<'r> {
    run: &'r Run,
    client: u64,
    serial: u64,
    random: Random,
    pub(crate) history: Vec<Operation>,
}

impl<'r> Recorder<'r> {
    pub(crate) fn new(run: &'r Run, client: u64) -> Recorder<'r> {
        Recorder { run, client, serial: 0, random: run.random(client), history: Vec::new() }
    }

    /// The next operation, called now; `None` once the run is over. Every value is written once.
    pub(crate) fn next(&mut self) -> Option<Asked> {
        if self.run.is_over() {
            return None;
        }
        self.serial += 1;
        let number = self.random.below(2 * KEYS);
        let is_number = number.is_multiple_of(2);
        let key = self.run.keys[number as usize].clone();
        let value = match is_number {
            true => Datum::Integer((self.client * 1_000_000 + self.serial) as i64),
            false => Datum::Text(format!("{}.{}", self.client, self.serial)),
        };
        let (op, arg, name) = match self.random.below(12) {
            0..4 => (Op::Get, Datum::Null, "GET"),
            4 => (Op::Set, value, "SET"),
            5 | 6 if is_number => (Op::IncrBy, Datum::Integer(3), "INCRBY"),
            5 => (Op::Append, value, "APPEND"),
            6 => (Op::GetSet, value, "GETSET"),
            7 => (Op::Del, Datum::Null, "DEL"),
            8 => (Op::SetNx, value, "SETNX"),
            9 => (Op::GetDel, Datum::Null, "GETDEL"),
            10 => (Op::StrLen, Datum::Null, "STRLEN"),
            _ => (Op::Exists, Datum::Null, "EXISTS"),
        };
        let mut words = vec![name.to_owned(), key.clone()];
        match &arg {
            Datum::Null => {}
            Datum::Integer(number) => words.push(number.to_string()),
            Datum::Text(text) => words.push(text.clone()),
        }
        Some(Asked { operation: begun(self.run, self.client, op, key, arg), words })
    }

    /// True once in this many times.
    pub(crate) fn draws_one_in(&mut self, times: u64) -> bool {
        self.random.below(times) == 0
    }

    pub(crate) fn answered(&mut self, asked: Asked, answer: Result<Value, Effect>) {
        self.run.operations.fetch_add(1, Ordering::Relaxed);
        self.history.push(ended(self.run, asked.operation, answer));
    }
}

/// The record of an operation called now.
pub(crate) fn begun(run: &Run, client: u64, op: Op, key: String, arg: Datum) -> Operation {
    Operation::begun(client, op, key, arg, run.now_ns())
}

/// The record of an operation answered now.
///
/// # Panics
/// If the answer is an error: every operation of these tests suits its key.
pub(crate) fn ended(run: &Run, operation: Operation, answer: Result<Value, Effect>) -> Operation {
    let return_ns = Some(run.now_ns());
    let result = match answer {
        Ok(Value::Null) => Datum::Null,
        Ok(Value::Integer(number)) => Datum::Integer(number),
        Ok(Value::Simple(text)) => Datum::Text(text),
        Ok(Value::Bulk(bytes)) => Datum::Text(String::from_utf8(bytes).expect("only text was written")),
        Ok(other) => panic!("{operation} was answered {other:?}"),
        Err(Effect::None) => return Operation { outcome: Outcome::None, ..operation },
        Err(Effect::Unknown) => return operation,
        Err(Effect::Done) => panic!("{operation} was answered something that it never is"),
    };
    Operation { result, return_ns, outcome: Outcome::Ok, ..operation }
}
