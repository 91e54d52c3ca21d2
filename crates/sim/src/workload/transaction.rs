//! A change or a read of a group as a transaction: a command for each key.

use sidle_resp::Value;

/// The commands of such a transaction; `None` for what is on one key.
pub(super) fn as_transaction(words: &[String]) -> Option<Vec<Vec<String>>> {
    let (name, step) = match words[0].as_str() {
        "MSET" => ("SET", 2),
        "MGET" => ("GET", 1),
        "DEL" => ("DEL", 1),
        _ => return None,
    };
    let command = |arguments: &[String]| [&[name.to_owned()], arguments].concat();
    Some(words[1..].chunks(step).map(command).collect())
}

/// What EXEC answered, as the answer to the command that the transaction stands for.
pub(super) fn answer_of_all(words: &[String], reply: Value) -> Value {
    match (words[0].as_str(), reply) {
        ("MSET", Value::Array(each)) if each.iter().all(|one| *one == Value::Simple("OK".to_owned())) => {
            Value::Simple("OK".to_owned())
        }
        ("DEL", Value::Array(each)) if each.iter().all(|one| matches!(one, Value::Integer(_))) => {
            Value::Integer(each.len() as i64)
        }
        (_, reply) => reply,
    }
}
