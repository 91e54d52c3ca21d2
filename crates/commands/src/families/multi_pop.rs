//! Elements of the first of several keys that has some: LMPOP, ZMPOP.

use super::Done;
use super::changed::Changed;
use crate::call::{Call, Executor};
use crate::number::parse_i64;
use crate::reply::Reply;
use crate::reply_error::ReplyError;
use sidle_collections::Kind;

/// Removes elements of the first key that has some; replies with its name and with them.
///
/// `end`: the end that a word names. `pop`: removes so many at an end. `reply`: replies with them.
pub(super) fn pop_first<'g, K: Kind, E: Executor, S, T>(
    call: &mut Call<'g, E>,
    end: fn(&[u8]) -> Result<S, ReplyError>,
    pop: impl FnOnce(&mut Call<'g, E>, Changed<'g, K>, S, usize) -> Result<Vec<T>, ReplyError>,
    reply: fn(&mut Call<'g, E>, &[T]),
) -> Done {
    let keys = call.counted_keys(1, ReplyError::Syntax)?;
    let (end, count) = match call.args[2 + keys..] {
        [word] => (end(word)?, 1),
        [word, option, count] => {
            let end = end(word)?;
            if !option.eq_ignore_ascii_case(b"count") {
                return Err(ReplyError::Syntax);
            }
            let count = parse_i64(count).filter(|count| *count > 0);
            let count = count.ok_or(ReplyError::text("ERR count should be greater than 0"))?;
            (end, usize::try_from(count).unwrap_or(usize::MAX))
        }
        _ => return Err(ReplyError::Syntax),
    };
    for key in 0..keys {
        let changed = Changed::of(call, key)?;
        if changed.old.is_some() {
            let popped = pop(call, changed, end, count)?;
            call.reply.array(2);
            call.reply.bulk(call.args[2 + key]);
            reply(call, &popped);
            return Ok(());
        }
    }
    call.reply.null_array();
    Ok(())
}
