//! An operation on the lists of a set.

use super::removal::Removal;
use sidle_resp::Value;
use sidle_testbed::Random;
use std::fmt;

/// How many lists a set has.
pub const LISTS: usize = 2;

/// An end of a list.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum End {
    /// The first item's.
    Left,
    /// The last item's.
    Right,
}

impl End {
    /// One of both.
    pub fn draw(random: &mut Random) -> End {
        if random.one_in(3) { End::Right } else { End::Left }
    }

    /// The option's name.
    pub fn word(self) -> &'static str {
        match self {
            End::Left => "LEFT",
            End::Right => "RIGHT",
        }
    }
}

/// An operation on the lists of a set, by their numbers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ListOp {
    /// Adds the item at this end.
    Push(usize, End, String),
    /// Takes the item at this end of the first of these lists that has one.
    Pop(Vec<usize>, End),
    /// Takes an item from one list and adds it to another.
    Move([usize; 2], [End; 2]),
    /// Adds the item and takes it again, in one step.
    Through(usize, End, String),
    /// All items.
    Look(usize),
    /// Removes all: a flush, a deletion or a death.
    Clear(usize),
}

/// What was answered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Said {
    /// That it was done.
    Done,
    /// An item of this list.
    Item(usize, String),
    /// There was none.
    Nothing,
    /// All items.
    Items(Vec<String>),
}

/// A recorded operation on lists. Without an answer its fate is unknown.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ListOperation {
    /// The client.
    pub client: u64,
    /// The set.
    pub set: u64,
    /// The operation.
    pub op: ListOp,
    /// When it was called, or the first instant at which it can have found what it found.
    pub call_us: u64,
    /// When it was answered, and what.
    pub answer: Option<(u64, Said)>,
    /// Without an answer: when nobody was left who could do it, if that is known.
    pub over_us: Option<u64>,
}

impl ListOperation {
    /// One that was called.
    pub fn begun(client: u64, set: u64, op: ListOp, call_us: u64) -> ListOperation {
        ListOperation { client, set, op, call_us, answer: None, over_us: None }
    }

    /// A removal of everything.
    pub(crate) fn cleared(client: u64, key: &str, removal: Removal) -> ListOperation {
        let (set, list) = place_of(key);
        let answer = removal.removed_us().map(|us| (us, Said::Done));
        let over_us = removal.return_us;
        let begun = ListOperation::begun(client, set, ListOp::Clear(list), removal.call_us);
        ListOperation { answer, over_us, ..begun }
    }

    /// Answered with this at that time; a fault if no node may say so.
    pub fn answered(mut self, now_us: u64, reply: Value) -> Result<ListOperation, String> {
        if let (ListOp::Through(list, end, _), Value::Array(parts)) = (&self.op, &reply)
            && let [Value::Error(_), popped] = &parts[..]
        {
            // Its push was refused.
            self.op = ListOp::Pop(vec![*list], *end);
            return self.answered(now_us, popped.clone());
        }
        let said = match (&self.op, reply) {
            (ListOp::Push(..) | ListOp::Clear(_), Value::Integer(_)) => Ok(Said::Done),
            (ListOp::Pop(..) | ListOp::Move(..), Value::Null) => Ok(Said::Nothing),
            (ListOp::Pop(lists, _), Value::Bulk(item)) => Ok(Said::Item(lists[0], text(item)?)),
            (ListOp::Move([from, _], _), Value::Bulk(item)) => Ok(Said::Item(*from, text(item)?)),
            (ListOp::Pop(..), Value::Array(parts)) => popped(parts),
            (ListOp::Look(_), Value::Array(items)) => {
                items.into_iter().map(bulk).collect::<Result<_, _>>().map(Said::Items)
            }
            (ListOp::Through(_, _, own), Value::Array(parts)) => match &parts[..] {
                [Value::Integer(_), Value::Bulk(item)] if item == own.as_bytes() => Ok(Said::Done),
                other => Err(format!("{other:?}")),
            },
            (_, other) => Err(format!("{other:?}")),
        };
        let said = said.map_err(|what| format!("{self} was answered {what}"))?;
        self.answer = Some((now_us, said));
        Ok(self)
    }
}

/// The key and the item of an answer that names both.
fn popped(parts: Vec<Value>) -> Result<Said, String> {
    let [key, item] = <[Value; 2]>::try_from(parts).map_err(|parts| format!("{parts:?}"))?;
    let item = match item {
        // BLMPOP's.
        Value::Array(mut items) if items.len() == 1 => items.remove(0),
        item => item,
    };
    Ok(Said::Item(place_of(&bulk(key)?).1, bulk(item)?))
}

fn bulk(value: Value) -> Result<String, String> {
    match value {
        Value::Bulk(bytes) => text(bytes),
        other => Err(format!("{other:?}")),
    }
}

fn text(bytes: Vec<u8>) -> Result<String, String> {
    String::from_utf8(bytes).map_err(|error| error.to_string())
}

impl fmt::Display for ListOperation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "client {} {:?}", self.client, self.op)?;
        match &self.answer {
            Some((return_us, said)) => write!(f, " -> {said:?}  [{} us .. {return_us} us]", self.call_us),
            None => write!(f, " unknown  [{} us .. ?]", self.call_us),
        }
    }
}

/// The key of a set's list.
pub(crate) fn key(set: u64, list: usize) -> String {
    format!("l{{g{set}}}{list}")
}

/// The set and the list of a key.
pub(super) fn place_of(key: &str) -> (u64, usize) {
    let place = key.strip_prefix("l{g").and_then(|rest| rest.split_once('}'));
    let numbers = place.and_then(|(set, list)| Some((set.parse().ok()?, list.parse().ok()?)));
    numbers.expect("a list's key")
}

/// The request of an operation that does not wait, and is one command on its first list.
pub(crate) fn words(record: &ListOperation) -> Vec<String> {
    let key = |list: usize| key(record.set, list);
    let side = |end: End| if end == End::Left { 'L' } else { 'R' };
    match &record.op {
        ListOp::Push(list, end, item) | ListOp::Through(list, end, item) => {
            vec![format!("{}PUSH", side(*end)), key(*list), item.clone()]
        }
        ListOp::Pop(lists, end) => vec![format!("{}POP", side(*end)), key(lists[0])],
        ListOp::Move([from, to], ends) => {
            let mut words = vec!["LMOVE".to_owned(), key(*from), key(*to)];
            words.extend(ends.map(|end| end.word().to_owned()));
            words
        }
        ListOp::Look(list) => ["LRANGE", &key(*list), "0", "-1"].map(str::to_owned).to_vec(),
        ListOp::Clear(list) => vec!["DEL".to_owned(), key(*list)],
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_name_the_list_and_the_item() {
        let bulk = |text: &str| Value::Bulk(text.as_bytes().to_vec());
        let answered = |op: ListOp, reply| {
            let record = ListOperation::begun(1, 0, op, 5).answered(9, reply);
            record.map(|record| record.answer.map(|(_, said)| said))
        };
        let pop = || ListOp::Pop(vec![0, 1], End::Left);
        let item = Ok(Some(Said::Item(1, "a".to_owned())));
        assert_eq!(answered(pop(), Value::Array(vec![bulk("l{g0}1"), bulk("a")])), item);
        let of_several = Value::Array(vec![bulk("l{g0}1"), Value::Array(vec![bulk("a")])]);
        assert_eq!(answered(pop(), of_several), item);
        assert_eq!(answered(pop(), Value::Null), Ok(Some(Said::Nothing)));
        let through = || ListOp::Through(0, End::Left, "a".to_owned());
        assert_eq!(
            answered(through(), Value::Array(vec![Value::Integer(1), bulk("a")])),
            Ok(Some(Said::Done))
        );
        assert!(answered(through(), Value::Array(vec![Value::Integer(1), Value::Null])).is_err());
    }
}
