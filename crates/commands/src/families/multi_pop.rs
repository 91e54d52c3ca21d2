//! Elements of the first of several keys that has some: LMPOP, ZMPOP, and commands that wait for one.

use super::Done;
use super::blocking::timeout_ms;
use super::changed::Changed;
use crate::blocking::Blocking;
use crate::call::{Call, Executor};
use crate::number::parse_i64;
use crate::reply::Reply;
use crate::reply_error::ReplyError;
use sidle_collections::Kind;

/// The first of the request's first keys that has such a collection, with its number.
pub(super) fn first<'g, K: Kind, E: Executor>(
    call: &mut Call<'g, E>,
    keys: usize,
) -> Result<Option<(usize, Changed<'g, K>)>, ReplyError> {
    if call.blocking == Blocking::Behind {
        return Ok(None);
    }
    for key in 0..keys {
        match Changed::of(call, key) {
            Ok(changed) if changed.old.is_some() => return Ok(Some((key, changed))),
            Err(error) if !(error == ReplyError::WrongType && call.blocking.has_waited()) => {
                return Err(error);
            }
            _ => {}
        }
    }
    Ok(None)
}

/// Removes one element of the first key that has some, or waits for it; all arguments but the last are keys.
/// `take`: removes it from the key with this name, and replies.
pub(super) fn take_first<'g, K: Kind, E: Executor>(
    call: &mut Call<'g, E>,
    take: impl FnOnce(&mut Call<'g, E>, &'g [u8], Changed<'g, K>) -> Done,
) -> Done {
    let (keys, timeout) = (call.args.len() - 2, call.args[call.args.len() - 1]);
    let at_most_ms = timeout_ms(call, timeout)?;
    if let Some((key, changed)) = first(call, keys)? {
        return take(call, call.args[1 + key], changed);
    }
    if !call.waits(at_most_ms) {
        call.reply.null_array();
    }
    Ok(())
}

/// Removes elements of the first key that has some; replies with its name and with them. With a timeout as
/// its first argument it may wait for them.
///
/// `end`: the end that a word names. `pop`: removes so many at an end. `reply`: replies with them.
pub(super) fn pop_first<'g, K: Kind, E: Executor, S, T>(
    call: &mut Call<'g, E>,
    timeout: Option<&'g [u8]>,
    end: fn(&[u8]) -> Result<S, ReplyError>,
    pop: impl FnOnce(&mut Call<'g, E>, Changed<'g, K>, S, usize) -> Result<Vec<T>, ReplyError>,
    reply: fn(&mut Call<'g, E>, &[T]),
) -> Done {
    let count_at = 1 + usize::from(timeout.is_some());
    let keys = call.counted_keys(count_at, ReplyError::Syntax)?;
    let names = count_at + 1;
    let [word, ref options @ ..] = call.args[names + keys..] else { return Err(ReplyError::Syntax) };
    let (end, count) = (end(word)?, count_of(options)?);
    let at_most_ms = timeout.map(|word| timeout_ms(call, word)).transpose()?;
    if let Some((key, changed)) = first(call, keys)? {
        let popped = pop(call, changed, end, count)?;
        call.reply.array(2);
        call.reply.bulk(call.args[names + key]);
        reply(call, &popped);
    } else if !at_most_ms.is_some_and(|ms| call.waits(ms)) {
        call.reply.null_array();
    }
    Ok(())
}

/// How many elements are removed; the count is refused before what stands behind it, as in Redis.
fn count_of(options: &[&[u8]]) -> Result<usize, ReplyError> {
    let [option, count, rest @ ..] = options else {
        return if options.is_empty() { Ok(1) } else { Err(ReplyError::Syntax) };
    };
    if !option.eq_ignore_ascii_case(b"count") {
        return Err(ReplyError::Syntax);
    }
    let count = parse_i64(count).filter(|count| *count > 0);
    let count = count.ok_or(ReplyError::text("ERR count should be greater than 0"))?;
    if !rest.is_empty() {
        return Err(ReplyError::Syntax);
    }
    Ok(usize::try_from(count).unwrap_or(usize::MAX))
}
