//! An operation under way, and the purpose of its answer.

use super::kind::Kind;
use super::list_operation::ListOperation;
use super::members_operation::MembersOperation;
use super::name_operation::NameOperation;
use super::timed_operation::TimedOperation;
use super::transaction;
use sidle_client_core::Class;
use sidle_history::Operation;
use sidle_resp::Value;

/// How an answer completes the records of registers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Shape {
    /// It is the result of the one record.
    One,
    /// It is an array with a result for each record.
    Each,
    /// It is the result of every record.
    All,
    /// It says that every record was done; what else it says is not judged.
    Done,
}

/// An answer's purpose.
#[derive(Clone, Debug)]
pub(super) enum Purpose {
    /// One record for each key, and how the answer completes them.
    Registers(Vec<Operation>, Shape),
    /// The record of a group.
    Group(Operation),
    /// The record of lists.
    Lists(Box<ListOperation>),
    /// The record of a sorted set or a set.
    Members(Box<MembersOperation>),
    /// The record of names.
    Names(Box<NameOperation>),
    /// The record of a key with a time to live.
    Timed(Box<TimedOperation>),
    /// Only to be of the right kind.
    Noise(Kind),
}

/// Where a request goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Order {
    /// To the owner of the key, which is the word with this number.
    Key(usize),
    /// To any node.
    Any,
}

/// An operation without an answer yet.
#[derive(Clone, Debug)]
pub struct Asked {
    /// The request's words.
    pub words: Vec<String>,
    /// What it may do.
    pub class: Class,
    /// Where it goes.
    pub order: Order,
    pub(super) purpose: Purpose,
}

impl Asked {
    /// The key that decides where it goes, if one does.
    pub fn key(&self) -> Option<&str> {
        match self.order {
            Order::Key(index) => Some(&self.words[index]),
            Order::Any => None,
        }
    }

    /// Whether it writes registers.
    pub fn is_write_of_registers(&self) -> bool {
        self.class == Class::Write && matches!(self.purpose, Purpose::Registers(..))
    }

    /// The commands of a transaction that does the same, if it is on a group.
    pub fn as_transaction(&self) -> Option<Vec<Vec<String>>> {
        match &self.purpose {
            Purpose::Group(_) => transaction::as_transaction(&self.words),
            _ => None,
        }
    }

    /// What its EXEC answered, as an answer to this request.
    pub fn answer_of_all(&self, reply: Value) -> Value {
        transaction::answer_of_all(&self.words, reply)
    }

    /// The registers' records that its answer completes.
    pub fn open_records(&self) -> &[Operation] {
        match &self.purpose {
            Purpose::Registers(records, _) => records,
            Purpose::Group(record) => std::slice::from_ref(record),
            Purpose::Lists(_)
            | Purpose::Members(_)
            | Purpose::Names(_)
            | Purpose::Timed(_)
            | Purpose::Noise(_) => &[],
        }
    }

    /// It is asked only now.
    pub(crate) fn call(&mut self, now_us: u64) {
        match &mut self.purpose {
            Purpose::Registers(records, _) => {
                records.iter_mut().for_each(|record| record.call_ns = now_us * 1000);
            }
            Purpose::Group(record) => record.call_ns = now_us * 1000,
            Purpose::Lists(record) => record.call_us = now_us,
            Purpose::Members(record) => record.call_us = now_us,
            Purpose::Names(record) => record.call_us = now_us,
            Purpose::Timed(record) => record.call_us = now_us,
            Purpose::Noise(_) => {}
        }
    }
}
