//! The kinds of answers, for requests that are not judged further.

use sidle_node::UNKNOWN;
use sidle_resp::Value;

/// What an answer must be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Status,
    Integer,
    IntegerOrNull,
    Text,
    /// A text of the coordinator; or, from a node long cut off from it, that there was no answer.
    Told,
    TextOrNull,
    StatusOrNull,
    /// A double.
    Score,
    ScoreOrNull,
    Array,
    Map,
    /// An error, always.
    Error,
    /// A text or an integer, or an error that the value is no number.
    Number,
    /// Anything.
    Any,
}

impl Kind {
    /// Whether the answer is of this kind. Always allowed: no memory, a log that cannot be written or in
    /// which nothing becomes safe, a split slot, a value of another type, a type that some node may not know,
    /// and an unknown outcome at another node or the coordinator.
    pub(super) fn check(self, reply: &Value) -> Result<(), String> {
        let fits = match (self, reply) {
            (Kind::Error, Value::Error(_)) | (Kind::Any, _) => true,
            (Kind::Number, Value::Error(text)) if text.starts_with("ERR value is not ") => true,
            (_, Value::Error(text)) => {
                let code = text.split(' ').next().unwrap_or_default();
                let down = ["CLUSTERDOWN", "LOADING"];
                let allowed =
                    ["OOM", "MISCONF", "NOREPLICAS", "CROSSSLOT", "SIDLESPLIT", "WRONGTYPE", UNKNOWN];
                down.contains(&code)
                    || allowed.contains(&code)
                    || text.starts_with("ERR some nodes of this cluster do not know this type")
            }
            (Kind::Status | Kind::StatusOrNull, Value::Simple(_)) => true,
            (Kind::Integer | Kind::IntegerOrNull | Kind::Number, Value::Integer(_)) => true,
            (
                Kind::Text | Kind::Told | Kind::TextOrNull | Kind::Number,
                Value::Bulk(_) | Value::Verbatim { .. },
            ) => true,
            (Kind::Score | Kind::ScoreOrNull, Value::Double(_)) => true,
            (
                Kind::StatusOrNull | Kind::IntegerOrNull | Kind::TextOrNull | Kind::ScoreOrNull,
                Value::Null,
            ) => true,
            (Kind::Array, Value::Array(_) | Value::Set(_)) | (Kind::Map, Value::Map(_)) => true,
            _ => false,
        };
        if fits { Ok(()) } else { Err(format!("the answer should be {self:?} and is {reply:?}")) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_coordinator_tells_may_have_no_answer() {
        let none = Value::Error(format!("{UNKNOWN} {}", sidle_cluster::Refusal::NoAnswer));
        assert_eq!(Kind::Told.check(&none), Ok(()));
        assert!(Kind::Told.check(&Value::Error("ERR syntax error".to_owned())).is_err());
        assert!(Kind::Told.check(&Value::Null).is_err());
    }
}
