//! An operation on a key with a time to live: every command that sets, removes or returns a key's end.

use sidle_history::{Datum, Outcome};

/// The effect on a key's end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NewEnd {
    /// It has none afterwards.
    Never,
    /// It stays as it was.
    AsBefore,
    /// This many milliseconds from now on.
    In(u64),
    /// At this time of the wall clock, in milliseconds.
    At(u64),
}

/// Which keys a SET writes to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum When {
    /// All.
    Always,
    /// Those that are absent (NX).
    Absent,
    /// Those that are present (XX).
    Present,
}

/// Which keys an EXPIRE changes, by the end that they have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Condition {
    /// All.
    Always,
    /// Those without one (NX).
    Endless,
    /// Those with one (XX).
    Ending,
    /// Those that it makes last longer (GT); a key without an end lasts longest.
    Later,
    /// Those that it makes last shorter (LT).
    Earlier,
}

/// An operation on a key with a time to live.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TimedOp {
    /// The value, or null.
    Get,
    /// 1 when the key is there, otherwise 0.
    Exists,
    /// What is left, in milliseconds; -1 without an end, -2 without a key.
    PTtl,
    /// The end in milliseconds of the wall clock; -1 without an end, -2 without a key.
    PExpireTime,
    /// Sets the value.
    Set {
        /// The value.
        value: String,
        /// The effect on the end.
        end: NewEnd,
        /// Which keys it writes to.
        when: When,
        /// The answer is the old value.
        returns_old: bool,
    },
    /// Sets the end; answers 1 when it did, otherwise 0.
    Expire(NewEnd, Condition),
    /// Takes the end away; answers 1 when there was one, otherwise 0.
    Persist,
    /// The value, or null; sets the end.
    GetEx(NewEnd),
    /// Removes the key; answers 1 when there was one, otherwise 0.
    Del,
    /// Removes the key; answers the old value, or null.
    GetDel,
    /// Removes the key and answers nothing: a flush, or a death.
    Clear {
        /// Whether it certainly happened.
        is_certain: bool,
    },
}

/// One operation of one client on a key with a time to live.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TimedOperation {
    /// The client's number.
    pub client: u64,
    /// The key.
    pub key: String,
    /// What it asked for.
    pub op: TimedOp,
    /// The answer.
    pub result: Datum,
    /// When it was called.
    pub call_us: u64,
    /// When the answer arrived; `None` if none did.
    pub return_us: Option<u64>,
    /// What is known about its effect.
    pub outcome: Outcome,
}

impl TimedOperation {
    /// An operation that has not been answered.
    pub fn begun(client: u64, key: String, op: TimedOp, call_us: u64) -> TimedOperation {
        let (result, return_us, outcome) = (Datum::Null, None, Outcome::Unknown);
        TimedOperation { client, key, op, result, call_us, return_us, outcome }
    }
}

impl TimedOperation {
    /// A line of a history file; it contains the operation as its request.
    pub fn line(&self) -> String {
        let TimedOperation { client, key, op, call_us, .. } = self;
        // Neither keys nor requests contain anything that JSON escapes.
        let quoted = |text: &str| format!("{text:?}");
        let mut words = words(op, key);
        let arg = match words.split_off(2).join(" ").as_str() {
            "" => "null".to_owned(),
            text => quoted(text),
        };
        let (op, key) = (quoted(&words[0].to_lowercase()), quoted(key));
        let result = match &self.result {
            Datum::Null => "null".to_owned(),
            Datum::Integer(number) => number.to_string(),
            Datum::Text(text) => quoted(text),
        };
        let return_ns = self.return_us.map_or("null".to_owned(), |us| (us * 1000).to_string());
        let outcome = match self.outcome {
            Outcome::Ok => "ok",
            Outcome::None => "none",
            Outcome::Unknown => "unknown",
        };
        format!(
            "{{\"client\":{client},\"op\":{op},\"key\":{key},\"arg\":{arg},\"result\":{result},\
             \"call_ns\":{},\"return_ns\":{return_ns},\"outcome\":\"{outcome}\"}}",
            call_us * 1000
        )
    }
}

impl std::fmt::Display for TimedOperation {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let TimedOperation { client, op, result, call_us, .. } = self;
        match (self.outcome, self.return_us) {
            (Outcome::Ok, Some(return_us)) => {
                write!(f, "client {client} {op:?} -> {result}  [{call_us} us .. {return_us} us]")
            }
            (Outcome::None, _) => write!(f, "client {client} {op:?} refused  [{call_us} us ..]"),
            _ => write!(f, "client {client} {op:?} unknown  [{call_us} us .. ?]"),
        }
    }
}

/// The request: whole seconds are given in seconds.
pub(super) fn words(op: &TimedOp, key: &str) -> Vec<String> {
    let options = |end: &NewEnd| match end {
        NewEnd::Never | NewEnd::AsBefore => Vec::new(),
        NewEnd::In(ms) if ms.is_multiple_of(1_000) => vec!["EX".to_owned(), (ms / 1_000).to_string()],
        NewEnd::In(ms) => vec!["PX".to_owned(), ms.to_string()],
        NewEnd::At(ms) if ms.is_multiple_of(1_000) => vec!["EXAT".to_owned(), (ms / 1_000).to_string()],
        NewEnd::At(ms) => vec!["PXAT".to_owned(), ms.to_string()],
    };
    let mut words = vec![String::new(), key.to_owned()];
    words[0] = match op {
        TimedOp::Get => "GET",
        TimedOp::Exists => "EXISTS",
        TimedOp::PTtl => "PTTL",
        TimedOp::PExpireTime => "PEXPIRETIME",
        TimedOp::Set { value, end, when, returns_old } => {
            words.push(value.clone());
            words.extend(options(end));
            words.extend((*end == NewEnd::AsBefore).then(|| "KEEPTTL".to_owned()));
            match when {
                When::Always => {}
                When::Absent => words.push("NX".to_owned()),
                When::Present => words.push("XX".to_owned()),
            }
            words.extend(returns_old.then(|| "GET".to_owned()));
            "SET"
        }
        TimedOp::Expire(end, condition) => {
            let option = options(end);
            words.extend(option.last().cloned());
            match condition {
                Condition::Always => {}
                Condition::Endless => words.push("NX".to_owned()),
                Condition::Ending => words.push("XX".to_owned()),
                Condition::Later => words.push("GT".to_owned()),
                Condition::Earlier => words.push("LT".to_owned()),
            }
            match option.first().map(String::as_str) {
                Some("EX") => "EXPIRE",
                Some("EXAT") => "EXPIREAT",
                Some("PXAT") => "PEXPIREAT",
                _ => "PEXPIRE",
            }
        }
        TimedOp::Persist => "PERSIST",
        TimedOp::GetEx(end) => {
            words.extend(options(end));
            words.extend((*end == NewEnd::Never).then(|| "PERSIST".to_owned()));
            "GETEX"
        }
        TimedOp::GetDel => "GETDEL",
        TimedOp::Del | TimedOp::Clear { .. } => "DEL",
    }
    .to_owned();
    words
}
