//! An operation on a sorted set, or on a set: that is one whose scores are all 0, and which has no order.

use super::removal::Removal;
use sidle_resp::Value;
use std::fmt;

/// How many members a key may have.
pub const MEMBERS: usize = 8;

/// An operation on the members of a key, by their numbers; these are in the order of the members' names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum MembersOp {
    /// Gives each of these its score (ZADD, SADD); answers how many are new.
    Add(Vec<(usize, i64)>),
    /// Adds to a member's score (ZINCRBY), which is 0 before it is there; answers the score.
    Increment(usize, i64),
    /// Removes these (ZREM, SREM); answers how many were there.
    Remove(Vec<usize>),
    /// Takes the member that comes first (ZPOPMIN), of a set any (SPOP).
    Pop,
    /// How many members come before this one (ZRANK).
    Rank(usize),
    /// A member's score (ZSCORE), or whether it is there (SISMEMBER).
    Score(usize),
    /// How many there are (ZCARD, SCARD).
    Count,
    /// All of them (ZRANGE WITHSCORES, SMEMBERS).
    Look,
    /// Removes all; answers whether there were any, or nothing: a flush, or a death.
    Clear,
}

/// What was answered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Shown {
    /// That it was done.
    Done,
    /// Nothing: no key, or no member.
    Nothing,
    /// A number, or a score.
    Number(i64),
    /// A member, with its score.
    Member(usize, i64),
    /// All members with their scores, in their order.
    All(Vec<(usize, i64)>),
}

/// A recorded operation on members. Without an answer its fate is unknown.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MembersOperation {
    /// The client.
    pub client: u64,
    /// The key.
    pub key: String,
    /// The operation.
    pub op: MembersOp,
    /// When it was called.
    pub call_us: u64,
    /// When it was answered, and what.
    pub answer: Option<(u64, Shown)>,
    /// Without an answer: when it can happen no more, if that is known.
    pub over_us: Option<u64>,
}

impl MembersOperation {
    /// One that was called.
    pub fn begun(client: u64, key: String, op: MembersOp, call_us: u64) -> MembersOperation {
        MembersOperation { client, key, op, call_us, answer: None, over_us: None }
    }

    /// A removal of everything.
    pub(crate) fn cleared(client: u64, key: String, removal: Removal) -> MembersOperation {
        let answer = removal.removed_us().map(|us| (us, Shown::Done));
        let over_us = removal.return_us;
        MembersOperation {
            answer,
            over_us,
            ..MembersOperation::begun(client, key, MembersOp::Clear, removal.call_us)
        }
    }

    /// Whether it is on a sorted set.
    pub fn is_sorted(&self) -> bool {
        is_sorted(&self.key)
    }

    /// Answered with this at that time; a fault if no node may say so.
    pub fn answered(mut self, now_us: u64, reply: Value) -> Result<MembersOperation, String> {
        let found = self.found(reply).map_err(|what| format!("{self} was answered {what}"))?;
        self.answer = Some((now_us, found));
        Ok(self)
    }

    fn found(&self, reply: Value) -> Result<Shown, String> {
        match (&self.op, reply) {
            (MembersOp::Pop | MembersOp::Rank(_) | MembersOp::Score(_), Value::Null) => Ok(Shown::Nothing),
            (MembersOp::Increment(..), reply) => score(&reply).map(Shown::Number),
            (MembersOp::Score(_), reply) if self.is_sorted() => score(&reply).map(Shown::Number),
            (MembersOp::Pop, Value::Bulk(name)) => Ok(Shown::Member(number_of(&name)?, 0)),
            (MembersOp::Pop, Value::Array(parts)) => match &with_scores(parts)?[..] {
                [] => Ok(Shown::Nothing),
                [(member, score)] => Ok(Shown::Member(*member, *score)),
                several => Err(format!("{several:?}")),
            },
            (MembersOp::Look, Value::Array(parts)) if self.is_sorted() => with_scores(parts).map(Shown::All),
            (MembersOp::Look, Value::Array(members) | Value::Set(members)) => {
                let member = |value: &Value| Ok((member(value)?, 0));
                let mut all: Vec<(usize, i64)> = members.iter().map(member).collect::<Result<_, String>>()?;
                all.sort_unstable();
                Ok(Shown::All(all))
            }
            (MembersOp::Pop | MembersOp::Look, other) => Err(format!("{other:?}")),
            (_, Value::Integer(number)) => Ok(Shown::Number(number)),
            (_, other) => Err(format!("{other:?}")),
        }
    }
}

/// Members and scores, in turn or in pairs.
fn with_scores(parts: Vec<Value>) -> Result<Vec<(usize, i64)>, String> {
    let pair = |part| match part {
        Value::Array(pair) => pair,
        part => vec![part],
    };
    let flat: Vec<Value> = parts.into_iter().flat_map(pair).collect();
    let pairs = flat.chunks(2).map(|pair| match pair {
        [name, points] => Ok((member(name)?, score(points)?)),
        other => Err(format!("{other:?}")),
    });
    pairs.collect()
}

/// All scores are whole.
fn score(value: &Value) -> Result<i64, String> {
    match value {
        Value::Double(score) if score.fract() == 0.0 => Ok(*score as i64),
        Value::Bulk(text) => {
            let text = std::str::from_utf8(text).map_err(|error| error.to_string())?;
            text.parse().map_err(|_| format!("the score {text}"))
        }
        other => Err(format!("{other:?}")),
    }
}

fn member(value: &Value) -> Result<usize, String> {
    match value {
        Value::Bulk(name) => number_of(name),
        other => Err(format!("{other:?}")),
    }
}

fn number_of(name: &[u8]) -> Result<usize, String> {
    let number = (0..MEMBERS).find(|&number| name_of(number).as_bytes() == name);
    number.ok_or_else(|| format!("the member {}", String::from_utf8_lossy(name)))
}

fn name_of(member: usize) -> String {
    format!("member{member}")
}

/// Whether a key of members is a sorted set.
pub(super) fn is_sorted(key: &str) -> bool {
    key.starts_with('z')
}

/// The request.
pub(super) fn words(record: &MembersOperation) -> Vec<String> {
    let is_sorted = record.is_sorted();
    let either = |sorted: &'static str, set: &'static str| if is_sorted { sorted } else { set };
    let mut rest = Vec::new();
    let name = match &record.op {
        MembersOp::Add(members) => {
            for (member, score) in members {
                rest.extend(is_sorted.then(|| score.to_string()));
                rest.push(name_of(*member));
            }
            either("ZADD", "SADD")
        }
        MembersOp::Increment(member, by) => {
            rest.extend([by.to_string(), name_of(*member)]);
            "ZINCRBY"
        }
        MembersOp::Remove(members) => {
            rest.extend(members.iter().map(|member| name_of(*member)));
            either("ZREM", "SREM")
        }
        MembersOp::Pop => either("ZPOPMIN", "SPOP"),
        MembersOp::Rank(member) => {
            rest.push(name_of(*member));
            "ZRANK"
        }
        MembersOp::Score(member) => {
            rest.push(name_of(*member));
            either("ZSCORE", "SISMEMBER")
        }
        MembersOp::Count => either("ZCARD", "SCARD"),
        MembersOp::Look if is_sorted => {
            rest.extend(["0", "-1", "WITHSCORES"].map(str::to_owned));
            "ZRANGE"
        }
        MembersOp::Look => "SMEMBERS",
        MembersOp::Clear => "DEL",
    };
    [name.to_owned(), record.key.clone()].into_iter().chain(rest).collect()
}

impl fmt::Display for MembersOperation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "client {} {:?}", self.client, self.op)?;
        match &self.answer {
            Some((return_us, found)) => write!(f, " -> {found:?}  [{} us .. {return_us} us]", self.call_us),
            None => write!(f, " unknown  [{} us .. ?]", self.call_us),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answered(key: &str, op: MembersOp, reply: Value) -> Result<Shown, String> {
        let record = MembersOperation::begun(1, key.to_owned(), op, 5).answered(9, reply)?;
        Ok(record.answer.map(|(_, found)| found).expect("it was answered"))
    }

    #[test]
    fn members_come_with_their_scores_in_either_protocol() {
        let name = |number| Value::Bulk(name_of(number).into_bytes());
        let all = Ok(Shown::All(vec![(2, 5), (1, 7)]));
        let nested = [(2, 5.0), (1, 7.0)]
            .map(|(member, score)| Value::Array(vec![name(member), Value::Double(score)]));
        assert_eq!(answered("z1", MembersOp::Look, Value::Array(nested.to_vec())), all);
        let flat = vec![name(2), Value::Bulk(b"5".to_vec()), name(1), Value::Bulk(b"7".to_vec())];
        assert_eq!(answered("z1", MembersOp::Look, Value::Array(flat)), all);
        let set = Value::Set(vec![name(3), name(0)]);
        assert_eq!(answered("m1", MembersOp::Look, set), Ok(Shown::All(vec![(0, 0), (3, 0)])));
        assert_eq!(answered("z1", MembersOp::Pop, Value::Array(Vec::new())), Ok(Shown::Nothing));
        assert!(answered("m1", MembersOp::Pop, Value::Bulk(b"nobody".to_vec())).is_err());
        assert!(answered("z1", MembersOp::Score(1), Value::Double(0.5)).is_err());
    }

    #[test]
    fn a_request_names_members_and_scores() {
        let of = |key: &str, op| words(&MembersOperation::begun(1, key.to_owned(), op, 5)).join(" ");
        assert_eq!(of("z1", MembersOp::Add(vec![(2, 5), (0, 1)])), "ZADD z1 5 member2 1 member0");
        assert_eq!(of("m1", MembersOp::Add(vec![(2, 0)])), "SADD m1 member2");
        assert_eq!(of("z1", MembersOp::Increment(3, -2)), "ZINCRBY z1 -2 member3");
        assert_eq!(of("m1", MembersOp::Score(1)), "SISMEMBER m1 member1");
        assert_eq!(of("z1", MembersOp::Look), "ZRANGE z1 0 -1 WITHSCORES");
    }
}
