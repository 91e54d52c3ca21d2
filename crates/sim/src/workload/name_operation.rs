//! An operation on the names of a set: keys between which values move.

use super::removal::Removal;
use sidle_resp::Value;
use std::fmt;

/// How many names a set has.
pub const NAMES: usize = 3;

/// An operation on the names of a set, by their numbers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NameOp {
    /// Gives the name a value.
    Set(usize, String),
    /// The value of a name.
    Get(usize),
    /// The values of all names, at one instant.
    Look,
    /// Gives the first name's value to the second one, whatever that had.
    Rename([usize; 2]),
    /// The same, if the second one has none.
    RenameNx([usize; 2]),
    /// Gives the second name the value of the first one, too. `replaces`: even if the second one has one.
    Copy {
        /// From this name to that.
        names: [usize; 2],
        /// Whether the second name may have a value.
        replaces: bool,
    },
    /// Removes the value of a name.
    Delete(usize),
    /// Removes it and answers nothing: a flush or a death.
    Clear(usize),
}

/// What was answered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NameSaid {
    /// That it was done.
    Done,
    /// That it was not done.
    NotDone,
    /// That the name to take from has no value.
    NoSuchKey,
    /// A value of each name that was asked for.
    Values(Vec<Option<String>>),
}

/// A recorded operation on names. Without an answer its fate is unknown.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NameOperation {
    /// The client.
    pub client: u64,
    /// The set.
    pub set: u64,
    /// The operation.
    pub op: NameOp,
    /// When it was called.
    pub call_us: u64,
    /// When it was answered, and what.
    pub answer: Option<(u64, NameSaid)>,
}

impl NameOperation {
    /// One that was called.
    pub fn begun(client: u64, set: u64, op: NameOp, call_us: u64) -> NameOperation {
        NameOperation { client, set, op, call_us, answer: None }
    }

    /// An unknown fate, or a removal that is certain from its return on.
    pub(crate) fn cleared(client: u64, key: &str, removal: Removal) -> NameOperation {
        let (set, name) = place_of(key);
        let answer = removal.removed_us().map(|us| (us, NameSaid::Done));
        NameOperation { answer, ..NameOperation::begun(client, set, NameOp::Clear(name), removal.call_us) }
    }

    /// Answered with this at that time; a fault if no node may say so.
    pub fn answered(mut self, now_us: u64, reply: Value) -> Result<NameOperation, String> {
        let said = match (&self.op, reply) {
            (NameOp::Set(..), Value::Simple(_)) => Ok(NameSaid::Done),
            (NameOp::Rename(_), Value::Simple(_)) => Ok(NameSaid::Done),
            (NameOp::Rename(_) | NameOp::RenameNx(_), reply) if is_no_such_key(&reply) => {
                Ok(NameSaid::NoSuchKey)
            }
            (NameOp::RenameNx(_) | NameOp::Copy { .. } | NameOp::Delete(_), Value::Integer(done)) => {
                Ok(if done == 1 { NameSaid::Done } else { NameSaid::NotDone })
            }
            (NameOp::Get(_), value) => found(value).map(|value| NameSaid::Values(vec![value])),
            (NameOp::Look, Value::Array(values)) if values.len() == NAMES => {
                values.into_iter().map(found).collect::<Result<_, _>>().map(NameSaid::Values)
            }
            (_, other) => Err(format!("{other:?}")),
        };
        let said = said.map_err(|what| format!("{self} was answered {what}"))?;
        self.answer = Some((now_us, said));
        Ok(self)
    }
}

/// Whether the answer is that the key to rename is absent: no refusal, but a result.
pub(super) fn is_no_such_key(reply: &Value) -> bool {
    matches!(reply, Value::Error(text) if text == "ERR no such key")
}

fn found(value: Value) -> Result<Option<String>, String> {
    match value {
        Value::Null => Ok(None),
        Value::Bulk(bytes) => String::from_utf8(bytes).map(Some).map_err(|error| error.to_string()),
        other => Err(format!("{other:?}")),
    }
}

impl fmt::Display for NameOperation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "client {} {:?}", self.client, self.op)?;
        match &self.answer {
            Some((return_us, said)) => write!(f, " -> {said:?}  [{} us .. {return_us} us]", self.call_us),
            None => write!(f, " unknown  [{} us .. ?]", self.call_us),
        }
    }
}

/// The key of a set's name.
pub(super) fn key(set: u64, name: usize) -> String {
    format!("r{{g{set}}}{name}")
}

/// The set and the name of a key.
pub(super) fn place_of(key: &str) -> (u64, usize) {
    let place = key.strip_prefix("r{g").and_then(|rest| rest.split_once('}'));
    let numbers = place.and_then(|(set, name)| Some((set.parse().ok()?, name.parse().ok()?)));
    numbers.expect("a name's key")
}

/// The request of an operation.
pub(super) fn words(record: &NameOperation) -> Vec<String> {
    let key = |name: usize| key(record.set, name);
    let words = match &record.op {
        NameOp::Set(name, value) => ["SET".to_owned(), key(*name), value.clone()].to_vec(),
        NameOp::Get(name) => ["GET".to_owned(), key(*name)].to_vec(),
        NameOp::Look => std::iter::once("MGET".to_owned()).chain((0..NAMES).map(key)).collect(),
        NameOp::Rename([from, to]) => ["RENAME".to_owned(), key(*from), key(*to)].to_vec(),
        NameOp::RenameNx([from, to]) => ["RENAMENX".to_owned(), key(*from), key(*to)].to_vec(),
        NameOp::Copy { names: [from, to], .. } => ["COPY".to_owned(), key(*from), key(*to)].to_vec(),
        NameOp::Delete(name) | NameOp::Clear(name) => ["DEL".to_owned(), key(*name)].to_vec(),
    };
    let replaces = matches!(record.op, NameOp::Copy { replaces: true, .. });
    words.into_iter().chain(replaces.then(|| "REPLACE".to_owned())).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_absent_key_is_an_answer_to_a_rename() {
        let answered = |op: NameOp, reply| {
            let record = NameOperation::begun(1, 0, op, 5).answered(9, reply);
            record.map(|record| record.answer.map(|(_, said)| said))
        };
        let absent = || Value::Error("ERR no such key".to_owned());
        assert_eq!(answered(NameOp::Rename([0, 1]), absent()), Ok(Some(NameSaid::NoSuchKey)));
        assert_eq!(answered(NameOp::RenameNx([0, 1]), Value::Integer(0)), Ok(Some(NameSaid::NotDone)));
        let copy = NameOp::Copy { names: [0, 1], replaces: false };
        assert!(answered(copy, absent()).is_err());
        let all = Value::Array(vec![Value::Null, Value::Bulk(b"a".to_vec()), Value::Null]);
        let values = NameSaid::Values(vec![None, Some("a".to_owned()), None]);
        assert_eq!(answered(NameOp::Look, all), Ok(Some(values)));
    }

    #[test]
    fn a_copy_that_replaces_says_so() {
        let of = |replaces| {
            let copy = NameOp::Copy { names: [0, 2], replaces };
            words(&NameOperation::begun(1, 1, copy, 5)).join(" ")
        };
        assert_eq!(of(false), "COPY r{g1}0 r{g1}2");
        assert_eq!(of(true), "COPY r{g1}0 r{g1}2 REPLACE");
        assert_eq!(place_of("r{g1}2"), (1, 2));
    }
}
