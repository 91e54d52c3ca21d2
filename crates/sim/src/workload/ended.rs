//! The result of an operation, added to the history.

use super::asked::{Asked, Purpose, Shape};
use super::drafts::Records;
use super::groups;
use super::list_operation::ListOperation;
use super::members_operation::MembersOperation;
use super::name_operation::{NameOperation, is_no_such_key};
use super::removal::Removal;
use super::timed_operation::{TimedOp, TimedOperation};
use super::{lists, members, names};
use crate::clients::Ended;
use sidle_client_core::Effect;
use sidle_history::{Datum, Operation, Outcome};
use sidle_resp::Value;

/// A run's records.
#[derive(Clone, Debug, Default)]
pub struct History {
    /// Operations on registers.
    pub registers: Vec<Operation>,
    /// Operations on keys with a time to live.
    pub timed: Vec<TimedOperation>,
    /// Operations on lists.
    pub lists: Vec<ListOperation>,
    /// Operations on sorted sets and sets.
    pub members: Vec<MembersOperation>,
    /// Operations on names.
    pub names: Vec<NameOperation>,
    /// Transactions over keys of several nodes.
    pub transactions: Records,
    /// How many of those on registers were on groups, and answered.
    pub groups: u64,
    /// Answered operations that are not judged.
    pub noise: u64,
    /// Errors for lack of memory.
    pub out_of_memory: u64,
    /// Errors because the durable log could not be written.
    pub misconfigured: u64,
}

impl History {
    /// Counts what was refused for want of room.
    fn note_refusal(&mut self, reply: &Value) {
        self.out_of_memory += u64::from(is_out_of_memory(reply));
        self.misconfigured += u64::from(is_misconfigured(reply));
    }

    /// An operation on lists ended. What was refused leaves no record.
    pub fn end_lists(&mut self, record: ListOperation, ended: Ended, now_us: u64) -> Result<(), String> {
        match ended {
            Ended::Failed(Effect::None) => {}
            Ended::Failed(_) => self.lists.push(record),
            Ended::Reply(reply) if is_unknown(&reply) => self.lists.push(record),
            Ended::Reply(reply @ Value::Error(_)) => {
                self.note_refusal(&reply);
            }
            Ended::Reply(reply) => self.lists.push(record.answered(now_us, reply)?),
        }
        Ok(())
    }

    /// An operation on members ended. What was refused leaves no record.
    fn end_members(&mut self, record: MembersOperation, ended: Ended, now_us: u64) -> Result<(), String> {
        match ended {
            Ended::Failed(Effect::None) => {}
            Ended::Failed(_) => self.members.push(record),
            Ended::Reply(reply) if is_unknown(&reply) => self.members.push(record),
            Ended::Reply(reply @ Value::Error(_)) => {
                self.note_refusal(&reply);
            }
            Ended::Reply(reply) => self.members.push(record.answered(now_us, reply)?),
        }
        Ok(())
    }

    /// An operation on names ended. What was refused leaves no record.
    fn end_names(&mut self, record: NameOperation, ended: Ended, now_us: u64) -> Result<(), String> {
        match ended {
            Ended::Failed(Effect::None) => {}
            Ended::Failed(_) => self.names.push(record),
            Ended::Reply(reply) if is_unknown(&reply) => self.names.push(record),
            Ended::Reply(reply @ Value::Error(_)) if !is_no_such_key(&reply) => {
                self.note_refusal(&reply);
            }
            Ended::Reply(reply) => self.names.push(record.answered(now_us, reply)?),
        }
        Ok(())
    }

    /// A flush or a death removed this key, which is no register, or may have.
    pub(crate) fn clear(&mut self, client: u64, key: String, removal: Removal) {
        let Removal { call_us, return_us, is_certain } = removal;
        if lists::is_name(&key) {
            self.lists.push(ListOperation::cleared(client, &key, removal));
        } else if members::is_name(&key) {
            self.members.push(MembersOperation::cleared(client, key, removal));
        } else if names::is_name(&key) {
            self.names.push(NameOperation::cleared(client, &key, removal));
        } else {
            let op = TimedOp::Clear { is_certain };
            let outcome = if return_us.is_some() { Outcome::Ok } else { Outcome::Unknown };
            let record = TimedOperation::begun(client, key, op, call_us);
            self.timed.push(TimedOperation { return_us, outcome, ..record });
        }
    }

    /// How many operations were recorded.
    pub fn operations(&self) -> u64 {
        self.lengths().iter().sum::<usize>() as u64 + self.noise
    }

    /// How many records of each kind there are.
    pub(crate) fn lengths(&self) -> [usize; 5] {
        let judged = [self.timed.len(), self.lists.len(), self.members.len(), self.names.len()];
        [self.registers.len(), judged[0], judged[1], judged[2], judged[3]]
    }

    /// An operation recorded since then that was not answered, if there is one.
    pub(crate) fn unanswered(&self, [registers, timed, lists, members, names]: [usize; 5]) -> Option<String> {
        let is_lost = |outcome: Outcome| outcome != Outcome::Ok;
        let register = self.registers[registers..].iter().find(|record| is_lost(record.outcome));
        let timed = || self.timed[timed..].iter().find(|record| is_lost(record.outcome));
        let list = || self.lists[lists..].iter().find(|record| record.answer.is_none());
        let members = || self.members[members..].iter().find(|record| record.answer.is_none());
        let name = || self.names[names..].iter().find(|record| record.answer.is_none());
        (register.map(ToString::to_string))
            .or_else(|| timed().map(ToString::to_string))
            .or_else(|| list().map(ToString::to_string))
            .or_else(|| members().map(ToString::to_string))
            .or_else(|| name().map(ToString::to_string))
    }
}

impl Asked {
    /// It ended: what is known now is added to the history. An impossible answer is a fault.
    pub fn end(self, now_us: u64, ended: Ended, history: &mut History) -> Result<(), String> {
        match (self.purpose, ended) {
            (_, Ended::Failed(Effect::Done)) => {
                return Err(format!("{:?} was done without an answer", self.words));
            }
            (Purpose::Registers(mut records, _), Ended::Failed(Effect::None)) => {
                records.iter_mut().for_each(|record| record.outcome = Outcome::None);
                history.registers.extend(records);
            }
            (Purpose::Registers(records, _), Ended::Failed(_)) => history.registers.extend(records),
            (Purpose::Registers(records, shape), Ended::Reply(reply)) => {
                history.note_refusal(&reply);
                history.registers.extend(answered(records, shape, now_us, reply, &self.words)?);
            }
            (Purpose::Group(record), ended) => end_group(record, ended, now_us, &self.words, history)?,
            (Purpose::Lists(record), ended) => history.end_lists(*record, ended, now_us)?,
            (Purpose::Members(record), ended) => history.end_members(*record, ended, now_us)?,
            (Purpose::Names(record), ended) => history.end_names(*record, ended, now_us)?,
            (Purpose::Timed(mut record), ended) => {
                let is_lost = matches!(&ended, Ended::Reply(reply) if is_unknown(reply) || is_down(reply));
                record.outcome = match ended {
                    Ended::Reply(ref reply) if is_unknown(reply) => Outcome::Unknown,
                    Ended::Failed(Effect::None) | Ended::Reply(Value::Error(_)) => Outcome::None,
                    Ended::Failed(_) => Outcome::Unknown,
                    Ended::Reply(_) => Outcome::Ok,
                };
                if let Ended::Reply(reply) = ended {
                    history.note_refusal(&reply);
                    if !matches!(reply, Value::Error(_)) {
                        (record.result, record.return_us) = (datum(reply)?, Some(now_us));
                    } else if !is_refused_for_now(&reply) && !is_lost {
                        return Err(format!("{:?} was answered {reply:?}", self.words));
                    }
                }
                history.timed.push(*record);
            }
            (Purpose::Noise(kind), Ended::Reply(reply)) => {
                history.noise += 1;
                history.note_refusal(&reply);
                kind.check(&reply).map_err(|what| format!("{:?}: {what}", self.words))?;
            }
            (Purpose::Noise(_), Ended::Failed(_)) => {}
        }
        Ok(())
    }
}

/// An operation on a group ended; an answer without information on it leaves no record.
fn end_group(
    mut record: Operation,
    ended: Ended,
    now_us: u64,
    words: &[String],
    history: &mut History,
) -> Result<(), String> {
    match ended {
        Ended::Failed(Effect::None) => record.outcome = Outcome::None,
        Ended::Failed(_) => {}
        Ended::Reply(reply) => {
            history.groups += 1;
            history.note_refusal(&reply);
            if let Value::Error(_) = reply {
                // A refused operation had no effect.
                record.outcome = if is_unknown(&reply) { Outcome::Unknown } else { Outcome::None };
            } else {
                let said = groups::result(record.op, reply).map_err(|what| format!("{words:?}: {what}"))?;
                let Some(result) = said else { return Ok(()) };
                (record.result, record.return_ns, record.outcome) =
                    (result, Some(now_us * 1000), Outcome::Ok);
            }
        }
    }
    history.registers.push(record);
    Ok(())
}

/// A write that another node may have executed, in whole or in part.
fn is_unknown(reply: &Value) -> bool {
    matches!(reply, Value::Error(text) if text.starts_with(sidle_node::UNKNOWN))
}

/// Another node is unreachable, or reads its durable log.
fn is_down(reply: &Value) -> bool {
    matches!(reply, Value::Error(text) if text.starts_with("CLUSTERDOWN ") || text.starts_with("LOADING "))
}

fn is_out_of_memory(reply: &Value) -> bool {
    matches!(reply, Value::Error(text) if text.starts_with("OOM "))
}

/// The durable log cannot be written at the moment, or nothing in it becomes safe.
pub(crate) fn is_misconfigured(reply: &Value) -> bool {
    matches!(reply, Value::Error(text) if text.starts_with("MISCONF ") || text.starts_with("NOREPLICAS "))
}

/// A write had no effect because there was no room for it.
fn is_refused_for_now(reply: &Value) -> bool {
    is_out_of_memory(reply) || is_misconfigured(reply)
}

/// The records with this answer, or why it is impossible.
fn answered(
    mut records: Vec<Operation>,
    shape: Shape,
    now_us: u64,
    reply: Value,
    words: &[String],
) -> Result<Vec<Operation>, String> {
    if is_unknown(&reply) {
        return Ok(records);
    }
    if let Value::Error(_) = &reply {
        // A refused operation had no effect.
        records.iter_mut().for_each(|record| record.outcome = Outcome::None);
        return Ok(records);
    }
    let results = match (shape, reply) {
        (Shape::One, reply) => vec![datum(reply)?],
        (Shape::Each, Value::Array(replies)) => replies.into_iter().map(datum).collect::<Result<_, _>>()?,
        (Shape::Each, other) => return Err(format!("{words:?} was answered {other:?}")),
        (Shape::All, reply) => vec![datum(reply)?; records.len()],
        (Shape::Done, Value::Integer(_)) => vec![Datum::from("OK"); records.len()],
        (Shape::Done, other) => return Err(format!("{words:?} was answered {other:?}")),
    };
    if results.len() != records.len() {
        return Err(format!("{words:?} was answered with {} values", results.len()));
    }
    for (record, result) in records.iter_mut().zip(results) {
        (record.result, record.return_ns, record.outcome) = (result, Some(now_us * 1000), Outcome::Ok);
    }
    Ok(records)
}

/// A result of a register.
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
