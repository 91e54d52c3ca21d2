//! What replies mean for a transaction's coordinator.

use crate::coordinator::{Answer, Lost, Request, Vote};
use crate::locks::{Locks, Status};
use crate::{Check, TransactionId};
use sidle_resp::{ParsedReply, ReplyLimits, ReplyParser, ReplyWriter, RespVersion, Value};

/// The check of a reply that a node sent in RESP3, as all connections of a client speak it.
pub fn check_of(reply: &Value) -> Check {
    Check::of(&bytes_of(reply))
}

fn bytes_of(reply: &Value) -> Vec<u8> {
    let mut bytes = Vec::new();
    reply.write(&mut ReplyWriter::new(&mut bytes, RespVersion::Resp3));
    bytes
}

/// The replies of a part, if these bytes are such.
pub(crate) fn replies_of(bytes: &[u8]) -> Option<Vec<Value>> {
    let mut parser = ReplyParser::new(ReplyLimits::default());
    match parser.parse(bytes) {
        Ok(ParsedReply::Complete { frame, consumed }) if consumed == bytes.len() => {
            match frame.reply.to_value() {
                Value::Array(replies) => Some(replies),
                _ => None,
            }
        }
        _ => None,
    }
}

/// Has the coordinator take the reply to a request.
pub(crate) fn answer_to(id: TransactionId, request: Request, reply: &Value, take: impl FnOnce(Answer<'_>)) {
    match (request, reply) {
        (Request::Prepare(part), Value::Array(_)) => {
            take(Answer::Vote(part, Vote::Yes(bytes_of(reply))));
        }
        (Request::Prepare(part), Value::Error(text)) => match lost(text) {
            Some(lost) => take(Answer::Vote(part, Vote::No(lost))),
            None => take(Answer::Missing(request)),
        },
        (Request::Resolve(key), Value::Null) => take(Answer::Status(key, Status::Refused)),
        (Request::Resolve(key), Value::Bulk(bytes)) => match Locks::read(bytes) {
            Some(locks) => take(Answer::Status(key, locks.look(id))),
            None => take(Answer::Missing(request)),
        },
        (Request::Decide { key, .. }, Value::Error(text)) if text.starts_with("SIDLECONTRADICTED ") => {
            take(Answer::Contradicted(key));
        }
        (Request::Decide { key, .. } | Request::Forget(key) | Request::Settle(key), Value::Simple(_)) => {
            take(Answer::Done(key));
        }
        (request, _) => take(Answer::Missing(request)),
    }
}

/// Why a part has not voted; none if it may have.
fn lost(text: &str) -> Option<Lost> {
    let (code, rest) = text.split_once(' ').unwrap_or((text, ""));
    Some(match code {
        "SIDLELOCKED" => {
            let id = rest.split(' ').next().unwrap_or_default();
            Lost::Locked(TransactionId::parse(id.as_bytes()).unwrap_or(TransactionId(0)))
        }
        "SIDLECHANGED" => Lost::Changed,
        "SIDLEREFUSED" => Lost::Refused,
        "SIDLELATE" => Lost::Late,
        // The second of a slot that is split, where the client knows only slots.
        "CROSSSLOT" | "SIDLESPLIT" => Lost::Parted,
        // The request came twice, or was forwarded and lost.
        "SIDLETWICE" | "SIDLEUNKNOWN" => return None,
        _ => Lost::Failed(text.as_bytes().to_vec()),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_of_a_part_say_whether_it_may_have_voted() {
        let id = TransactionId(7);
        for (text, expected) in [
            (format!("SIDLELOCKED {id} has locked one of the keys"), Some(Lost::Locked(id))),
            ("SIDLECHANGED 'get' has another reply".to_owned(), Some(Lost::Changed)),
            ("SIDLEREFUSED a node has decided".to_owned(), Some(Lost::Refused)),
            ("CROSSSLOT keys of several nodes".to_owned(), Some(Lost::Parted)),
            ("SIDLESPLIT keys of one slot, on several nodes".to_owned(), Some(Lost::Parted)),
            ("SIDLETWICE it was prepared before".to_owned(), None),
            ("SIDLEUNKNOWN whether it was done".to_owned(), None),
            ("WRONGTYPE of a command".to_owned(), Some(Lost::Failed(b"WRONGTYPE of a command".to_vec()))),
        ] {
            assert_eq!(lost(&text), expected, "{text}");
        }
    }

    #[test]
    fn replies_are_read_as_they_are_written_and_nothing_else_is() {
        let replies = vec![Value::Integer(1), Value::Null, Value::Bulk(b"x".to_vec()), Value::Double(0.5)];
        let bytes = bytes_of(&Value::Array(replies.clone()));
        assert_eq!(replies_of(&bytes), Some(replies));
        for wrong in [&b""[..], b":1\r\n", b"*1\r\n", b"*0\r\n:1\r\n"] {
            assert_eq!(replies_of(wrong), None);
        }
    }
}
