//! An exchange: a key is read, and written only if nothing has changed it since (WATCH).
//!
//! A transaction that ran is one change from what was read to what was written. So its record is that of a
//! SET that answered what was read; for a key with a time to live, of one before the end of what was read.

use super::asked::{Asked, Purpose};
use super::ended::History;
use super::registers::{self, record, value};
use super::timed_operation::{NewEnd, TimedOp, TimedOperation, When};
use super::{Turn, Workload, timed};
use crate::clients::Ended;
use sidle_client_core::{Class, Effect};
use sidle_history::Op;
use sidle_resp::Value;
use sidle_testbed::Random;

/// How many keys with a time to live are exchanged: few, so that most are there.
const TIMED_KEYS: u64 = 4;

/// The keys that are exchanged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Exchanged {
    /// Registers.
    Registers,
    /// Keys with a time to live.
    Timed,
}

/// The two requests of an exchange, with their records.
#[derive(Clone, Debug)]
pub struct Exchange {
    /// The GET.
    pub read: Asked,
    /// The SET within the transaction.
    pub write: Asked,
    /// What the GET answered.
    found: Value,
}

impl Exchange {
    /// An exchange of some key.
    pub fn draw(of: Exchanged, workload: &Workload, random: &mut Random, turn: Turn) -> Exchange {
        let (read, write) = match of {
            Exchanged::Registers => draw_register(workload, random, turn),
            Exchanged::Timed => draw_timed(workload, random, turn),
        };
        Exchange { read, write, found: Value::Null }
    }

    /// The key.
    pub fn key(&self) -> &str {
        &self.read.words[1]
    }

    /// The GET was answered.
    pub fn has_read(&mut self, value: Value, now_us: u64, history: &mut History) -> Result<(), String> {
        self.found = value.clone();
        self.read.clone().end(now_us, Ended::Reply(value), history)
    }

    /// The transaction ran.
    pub fn has_run(self, now_us: u64, history: &mut History) -> Result<(), String> {
        self.write.end(now_us, Ended::Reply(self.found), history)
    }

    /// The transaction did not run, or it is not known whether it did.
    pub fn has_failed(self, effect: Effect, now_us: u64, history: &mut History) -> Result<(), String> {
        self.write.end(now_us, Ended::Failed(effect), history)
    }
}

fn draw_register(workload: &Workload, random: &mut Random, turn: Turn) -> (Asked, Asked) {
    let number = workload.number(random, workload.keys);
    let new = value(workload, random, number.is_multiple_of(2), turn, 0).whole();
    let Turn { client, now_us, .. } = turn;
    let read = registers::read_back(client, workload.key(number), now_us);
    let record = record(client, Op::GetSet, workload.key(number), new, now_us);
    (read, registers::one("SET", Class::Write, record))
}

/// What is written ends, so that the next exchange of the key may find it over.
fn draw_timed(workload: &Workload, random: &mut Random, turn: Turn) -> (Asked, Asked) {
    let key = workload.timed_key(random.below(workload.timed_keys.min(TIMED_KEYS)));
    let end = NewEnd::In(random.magnitude(1, workload.life_ms.max(1)));
    let Turn { client, serial, now_us } = turn;
    let read = timed::read_back(client, key.clone(), now_us);
    let set = |returns_old| {
        let value = format!("{client}.{serial}");
        TimedOp::Set { value, end, when: When::Always, returns_old }
    };
    let sent = timed::asked(TimedOperation::begun(client, key.clone(), set(false), now_us));
    let record = TimedOperation::begun(client, key, set(true), now_us);
    (read, Asked { purpose: Purpose::Timed(Box::new(record)), ..sent })
}
