//! A key's state as eight bytes, or none (`SIDLE.TX LOOK`): told to a WATCH, compared for an EXEC.

use super::means::Means;
use super::waits::awaits_transaction;
use crate::call::{CommandResult, Flow};
use crate::key_state::{KeyState, state_of};
use crate::request::Request;
use sidle_commands::ReplyError;
use sidle_resp::{ReplyWriter, RespVersion, Value};
use sidle_txn::{Check, TransactionCommand};

/// The command, by which parts of transactions have it, too.
pub(super) const LOOK: &str = "sidle.tx|look";

/// Replies with a state.
pub(super) fn write(state: KeyState, reply: &mut ReplyWriter<'_>) {
    match state {
        Some(state) => reply.bulk(&state.to_le_bytes()),
        None => reply.bulk(b""),
    }
}

/// The state in a reply.
pub(super) fn read(reply: &Value) -> Result<KeyState, ReplyError> {
    match reply.as_bytes() {
        Some([]) => Ok(None),
        Some(bytes) if bytes.len() == 8 => Ok(bytes.try_into().ok().map(u64::from_le_bytes)),
        _ => Err(ReplyError::text("ERR a node did not tell what a watched key is: see `sidle upgrade`")),
    }
}

/// Looks at a key. Of one that is to be in this state still the reply is compared, and not sent.
pub(super) fn command(key: &[u8], state: Option<KeyState>) -> TransactionCommand {
    let words = vec![b"SIDLE.TX".to_vec(), b"LOOK".to_vec(), key.to_vec()];
    let check = state.map(|state| {
        let mut reply = Vec::new();
        write(state, &mut ReplyWriter::new(&mut reply, RespVersion::Resp3));
        Check::of(&reply)
    });
    TransactionCommand { words, keys: vec![2], check }
}

/// Carries the command out, where it comes alone.
pub(super) fn look(
    means: Means<'_>,
    request: Request<'_>,
    version: RespVersion,
    out: &mut Vec<u8>,
) -> CommandResult {
    let key = request.keys[0];
    let slot = means.store.lock_slot(key.slot());
    let who = (means.holds, means.worker);
    if means.is_held(request.keys) || awaits_transaction(means.store, who, request.keys, false) {
        return Ok(Flow::Held);
    }
    write(state_of(&slot, key, means.scene.now), &mut ReplyWriter::new(out, version));
    Ok(Flow::Done)
}
