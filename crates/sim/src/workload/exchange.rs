//! An exchange: a register is read, and written only if nothing has changed it since (WATCH).

use super::registers::{record, value, word};
use super::{Turn, Workload};
use sidle_history::{Datum, Op, Operation};
use sidle_testbed::Random;

/// The two records of an exchange.
#[derive(Clone, Debug)]
pub struct Exchange {
    /// The GET.
    pub read: Operation,
    /// The transaction. One that ran answers, by its condition, what was read.
    pub write: Operation,
}

impl Exchange {
    /// An exchange of some register.
    pub fn draw(workload: &Workload, random: &mut Random, turn: Turn) -> Exchange {
        let number = workload.number(random, workload.keys);
        let new = value(workload, random, number.is_multiple_of(2), turn, 0).whole();
        let key = || workload.key(number);
        let Turn { client, now_us, .. } = turn;
        Exchange {
            read: record(client, Op::Get, key(), Datum::Null, now_us),
            write: record(client, Op::GetSet, key(), new, now_us),
        }
    }

    /// The value to be written.
    pub fn value(&self) -> String {
        word(&self.write.arg).unwrap_or_default()
    }
}
