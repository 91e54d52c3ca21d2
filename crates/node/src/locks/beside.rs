//! The value beside a key.

use crate::keyspace::Together;
use sidle_commands::{Change, Content, ReplyError, Underlay, Value};
use sidle_txn::Locks;
use sidle_types::{HashedKey, ValueKind, WallMs};

const DAMAGED: ReplyError =
    ReplyError::text("ERR what transactions have at this key is of a later version: see `sidle upgrade`");

/// What transactions have at a key whose slot is locked, `beside` being the key of that.
pub(super) fn read<'g>(
    together: &'g Together<'_>,
    beside: HashedKey<'_>,
    now: WallMs,
) -> Result<Locks<'g>, ReplyError> {
    let Some(value) = together.get(beside) else { return Ok(Locks::default()) };
    let mut locks = of_value(&value).ok_or(DAMAGED)?;
    locks.drop_old(now);
    Ok(locks)
}

/// What transactions have at a key, if it can be read.
pub(super) fn of_value<'v>(value: &Value<'v>) -> Option<Locks<'v>> {
    match value.content {
        Content::Whole(bytes) if value.kind == ValueKind::Locks => Locks::read(bytes),
        _ => None,
    }
}

/// The change that has this beside the key: `bytes` is its value, if it has one.
pub(super) fn change<'g>(locks: &Locks<'_>, bytes: Option<&'g [u8]>) -> Change<'g> {
    match bytes {
        None => Change::Remove,
        Some(bytes) => {
            let (kind, content) = (ValueKind::Locks, Content::Whole(bytes));
            Change::Put(Value { kind, content, expires_at: locks.kept_until() })
        }
    }
}
