//! One recorded operation, and the rules of a well-formed record.

use serde::{Deserialize, Serialize};

/// The kind of an operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Op {
    /// The value, or null.
    Get,
    /// Sets the value unconditionally; answers `"OK"`.
    Set,
    /// Sets the value if the key is absent; answers 1 when it did, otherwise 0.
    SetNx,
    /// Sets the value; answers the old one, or null.
    GetSet,
    /// Removes the key; answers the old value, or null.
    GetDel,
    /// Removes the key; answers 1 when there was one, otherwise 0.
    Del,
    /// Removes the key with all others of a node; answers `"OK"`, whether it existed or not.
    Flush,
    /// Adds to the integer (an absent key counts as 0); answers the sum.
    IncrBy,
    /// Appends to the value (an absent key counts as empty); answers the new length in bytes.
    Append,
    /// The value's length in bytes, 0 when the key is absent.
    StrLen,
    /// 1 when the key is there, otherwise 0.
    Exists,
}

impl Op {
    /// Whether the operation never changes anything.
    pub const fn is_read(self) -> bool {
        matches!(self, Op::Get | Op::StrLen | Op::Exists)
    }

    /// The operation's name as the file writes it.
    pub const fn name(self) -> &'static str {
        match self {
            Op::Get => "get",
            Op::Set => "set",
            Op::SetNx => "setnx",
            Op::GetSet => "getset",
            Op::GetDel => "getdel",
            Op::Del => "del",
            Op::Flush => "flush",
            Op::IncrBy => "incrby",
            Op::Append => "append",
            Op::StrLen => "strlen",
            Op::Exists => "exists",
        }
    }
}

/// An argument or a result. An integer and its decimal text are the same value, as they are in Redis.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Datum {
    /// Nothing: no argument, or an absent key.
    #[default]
    Null,
    /// A number.
    Integer(i64),
    /// A string.
    Text(String),
}

impl From<&str> for Datum {
    fn from(text: &str) -> Datum {
        Datum::Text(text.to_owned())
    }
}

impl From<i64> for Datum {
    fn from(number: i64) -> Datum {
        Datum::Integer(number)
    }
}

impl std::fmt::Display for Datum {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Datum::Null => f.write_str("null"),
            Datum::Integer(number) => number.fmt(f),
            Datum::Text(text) if text.chars().count() > 48 => {
                write!(f, "\"{}...\"", text.chars().take(45).collect::<String>().escape_debug())
            }
            Datum::Text(text) => write!(f, "\"{}\"", text.escape_debug()),
        }
    }
}

/// What is known about an operation's effect.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Outcome {
    /// It happened between call and return, with this result.
    Ok,
    /// It had no effect for certain: it was refused.
    None,
    /// It may have happened, may yet happen at any later time, or never: a timeout, a cut connection.
    Unknown,
}

/// One operation of one client: a line of a history file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Operation {
    /// The client's number, unique within the run.
    pub client: u64,
    /// The operation.
    pub op: Op,
    /// The key.
    pub key: String,
    /// The argument; null where the operation has none.
    #[serde(default)]
    pub arg: Datum,
    /// The result; null means absent, or that there was none.
    #[serde(default)]
    pub result: Datum,
    /// When it was called, on the run's one monotonic clock.
    pub call_ns: u64,
    /// When the result arrived, on the same clock; null if none did.
    pub return_ns: Option<u64>,
    /// What is known about its effect.
    pub outcome: Outcome,
}

/// What [`Operation::validate`] refuses.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Invalid {
    /// The return lies before the call.
    #[error("return_ns {return_ns} lies before call_ns {call_ns}")]
    ReturnsBeforeCall {
        /// The call.
        call_ns: u64,
        /// The return.
        return_ns: u64,
    },
    /// An operation that succeeded must have returned.
    #[error("outcome \"ok\" needs a return_ns")]
    OkWithoutReturn,
    /// An operation whose fate is unknown has no answer.
    #[error("outcome \"unknown\" needs null for result and return_ns")]
    UnknownWithAnswer,
    /// The operation cannot have this argument.
    #[error("{op} cannot have the arg {arg}: it takes {takes}")]
    Argument {
        /// The operation.
        op: &'static str,
        /// The recorded argument.
        arg: Datum,
        /// What the operation takes.
        takes: &'static str,
    },
    /// The operation cannot have this result.
    #[error("{op} cannot have the result {result}: it answers {answers}")]
    Result {
        /// The operation.
        op: &'static str,
        /// The recorded result.
        result: Datum,
        /// What the operation answers.
        answers: &'static str,
    },
}

impl Operation {
    /// An operation that was called and has not returned: its fate is unknown until its record is completed.
    pub fn begun(client: u64, op: Op, key: impl Into<String>, arg: Datum, call_ns: u64) -> Operation {
        let (key, result, return_ns, outcome) = (key.into(), Datum::Null, None, Outcome::Unknown);
        Operation { client, op, key, arg, result, call_ns, return_ns, outcome }
    }

    /// Checks that a real run can produce the record, whether or not the store is correct.
    pub fn validate(&self) -> Result<(), Invalid> {
        if let Some(return_ns) = self.return_ns.filter(|&return_ns| return_ns < self.call_ns) {
            return Err(Invalid::ReturnsBeforeCall { call_ns: self.call_ns, return_ns });
        }
        self.validate_arg()?;
        match self.outcome {
            Outcome::Ok if self.return_ns.is_none() => Err(Invalid::OkWithoutReturn),
            Outcome::Ok => self.validate_result(),
            Outcome::Unknown if self.return_ns.is_some() || self.result != Datum::Null => {
                Err(Invalid::UnknownWithAnswer)
            }
            Outcome::Unknown | Outcome::None => Ok(()),
        }
    }

    fn validate_arg(&self) -> Result<(), Invalid> {
        let (fits, takes) = match self.op {
            Op::Set | Op::SetNx | Op::GetSet | Op::Append => {
                (self.arg != Datum::Null, "a string or an integer")
            }
            Op::IncrBy => (matches!(self.arg, Datum::Integer(_)), "an integer"),
            Op::Get | Op::GetDel | Op::Del | Op::Flush | Op::StrLen | Op::Exists => {
                (self.arg == Datum::Null, "none")
            }
        };
        if fits {
            return Ok(());
        }
        Err(Invalid::Argument { op: self.op.name(), arg: self.arg.clone(), takes })
    }

    fn validate_result(&self) -> Result<(), Invalid> {
        let (fits, answers) = match self.op {
            Op::Get | Op::GetSet | Op::GetDel => (true, ""),
            Op::Set | Op::Flush => (self.result == Datum::from("OK"), "\"OK\""),
            Op::SetNx | Op::Del | Op::Exists => (matches!(self.result, Datum::Integer(0 | 1)), "0 or 1"),
            Op::IncrBy | Op::Append | Op::StrLen => (matches!(self.result, Datum::Integer(_)), "an integer"),
        };
        if fits {
            return Ok(());
        }
        Err(Invalid::Result { op: self.op.name(), result: self.result.clone(), answers })
    }
}

impl std::fmt::Display for Operation {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "client {} {}", self.client, self.op.name())?;
        if self.arg != Datum::Null {
            write!(f, " {}", self.arg)?;
        }
        match (self.outcome, self.return_ns) {
            (Outcome::Ok, Some(return_ns)) => {
                write!(f, " -> {}  [{} ns .. {return_ns} ns]", self.result, self.call_ns)
            }
            (Outcome::None, _) => write!(f, " refused  [{} ns ..]", self.call_ns),
            _ => write!(f, " unknown  [{} ns .. ?]", self.call_ns),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(line: &str) -> Operation {
        serde_json::from_str(line).unwrap()
    }

    #[test]
    fn the_documented_line_parses_and_prints_back() {
        let line = r#"{"client":7,"op":"set","key":"k","arg":"v","result":"OK","call_ns":123,"return_ns":456,"outcome":"ok"}"#;
        let operation = parse(line);
        assert_eq!(operation.validate(), Ok(()));
        assert_eq!(serde_json::to_string(&operation).unwrap(), line);
    }

    #[test]
    fn integers_and_nulls_keep_their_kind() {
        let line = r#"{"client":1,"op":"incrby","key":"k","arg":-5,"result":null,"call_ns":1,"return_ns":null,"outcome":"unknown"}"#;
        let operation = parse(line);
        assert_eq!(operation.validate(), Ok(()));
        assert_eq!(
            (&operation.arg, &operation.result, operation.return_ns),
            (&Datum::Integer(-5), &Datum::Null, None)
        );
        assert_eq!(serde_json::to_string(&operation).unwrap(), line);
    }

    #[test]
    fn validate_refuses_each_impossible_record() {
        let good = Operation {
            client: 1,
            op: Op::Set,
            key: "k".into(),
            arg: "v".into(),
            result: "OK".into(),
            call_ns: 5,
            return_ns: Some(6),
            outcome: Outcome::Ok,
        };
        let cases = [
            (Operation { return_ns: Some(4), ..good.clone() }, "return_ns 4 lies before call_ns 5"),
            (Operation { return_ns: None, ..good.clone() }, "outcome \"ok\" needs a return_ns"),
            (
                Operation { outcome: Outcome::Unknown, ..good.clone() },
                "outcome \"unknown\" needs null for result and return_ns",
            ),
            (
                Operation { arg: Datum::Null, ..good.clone() },
                "set cannot have the arg null: it takes a string or an integer",
            ),
            (
                Operation { op: Op::IncrBy, ..good.clone() },
                "incrby cannot have the arg \"v\": it takes an integer",
            ),
            (
                Operation { op: Op::Exists, arg: Datum::Null, result: 2.into(), ..good.clone() },
                "exists cannot have the result 2: it answers 0 or 1",
            ),
        ];
        for (operation, message) in cases {
            assert_eq!(operation.validate().unwrap_err().to_string(), message);
        }
    }
}
