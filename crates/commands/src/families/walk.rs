//! Walking over a collection in steps: HSCAN, SSCAN, ZSCAN.

use super::Done;
use crate::call::{Call, Executor};
use crate::reply::Reply;
use crate::scan_options::ScanOptions;
use sidle_collections::{Collection, Kind};

/// Takes the next elements of a collection from a cursor, about so many; returns the next cursor, too.
pub(super) type Step<'g, K, T> = fn(Collection<'g, K>, u64, usize) -> (u64, Vec<(&'g [u8], T)>);

/// Replies with some of a collection's elements, and with where to go on.
///
/// An element is a name, and what is known of it; `with`: what follows the name in the reply.
pub(super) fn walk<'g, K: Kind, E: Executor, T>(
    call: &mut Call<'g, E>,
    step: Step<'g, K, T>,
    with: Option<fn(&mut E::Reply<'g>, T)>,
) -> Done {
    let cursor = ScanOptions::cursor(call.args[2])?;
    let (next, found) = match call.look_up_as::<K>(0)? {
        None => (0, Vec::new()),
        Some(collection) => {
            let options = ScanOptions::parse(&call.args[3..])?;
            // Redis returns a small one whole.
            let count = if collection.encoding().is_small() { usize::MAX } else { options.count };
            let (next, mut found) = step(collection, cursor, count);
            found.retain(|(name, _)| options.wants(name));
            (next, found)
        }
    };
    call.reply.array(2);
    call.reply.bulk(next.to_string().as_bytes());
    call.reply.array(found.len() * if with.is_some() { 2 } else { 1 });
    for (name, known) in found {
        call.reply.bulk(name);
        if let Some(with) = with {
            with(&mut call.reply, known);
        }
    }
    Ok(())
}
