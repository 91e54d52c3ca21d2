//! A key's collection that a command changes.

use super::Done;
use crate::call::{Call, Executor};
use crate::keyspace::{Keyspace, Value};
use crate::reply::Reply;
use crate::reply_error::ReplyError;
use sidle_collections::{Collection, Draft, Kind};
use sidle_types::WallMs;

/// A key, and the collection that it had.
pub(super) struct Changed<'g, K> {
    key: usize,
    pub(super) old: Option<Collection<'g, K>>,
    expires_at: Option<WallMs>,
}

impl<'g, K: Kind> Changed<'g, K> {
    pub(super) fn of<E: Executor>(call: &mut Call<'g, E>, key: usize) -> Result<Changed<'g, K>, ReplyError> {
        let value = call.keyspace.get(key);
        let expires_at = value.and_then(|value| value.expires_at);
        Ok(Changed { key, old: value.map(Value::collection).transpose()?, expires_at })
    }

    /// The collection, to make about so many changes to it.
    pub(super) fn draft(&self, changes: usize) -> K::Draft<'g> {
        Draft::of(self.old, changes)
    }

    /// Removes the key: nothing is left of the collection.
    pub(super) fn remove<E: Executor>(self, call: &mut Call<'g, E>) -> Done {
        Ok(call.keyspace.remove(self.key)?)
    }

    /// Sets the key to what became of the collection; it keeps its expiry.
    pub(super) fn write<E: Executor>(self, call: &mut Call<'g, E>, draft: &K::Draft<'_>) -> Done {
        if draft.is_empty() {
            return self.remove(call);
        }
        call.put_collection(self.key, draft, self.expires_at)
    }
}

/// Removes those of the request's names that the first key's collection has; replies with how many.
pub(super) fn remove_named<'g, K: Kind, E: Executor>(
    call: &mut Call<'g, E>,
    remove: fn(&mut K::Draft<'g>, &[u8]) -> bool,
) -> Done {
    let changed = Changed::<K>::of(call, 0)?;
    let mut removed = 0;
    if changed.old.is_some() {
        let names = &call.args[2..];
        let mut draft = changed.draft(names.len());
        removed = names.iter().filter(|name| remove(&mut draft, name)).count();
        if removed > 0 {
            changed.write(call, &draft)?;
        }
    }
    call.reply.integer(removed as i64);
    Ok(())
}

/// Sets a key to a new collection, whatever it had; replies with how many elements that has.
pub(super) fn store<'b, D: Draft<'b>, E: Executor>(call: &mut Call<'_, E>, key: usize, draft: &D) -> Done {
    if !draft.is_empty() {
        call.put_collection(key, draft, None)?;
    } else if call.keyspace.get(key).is_some() {
        call.keyspace.remove(key)?;
    }
    call.reply.integer(draft.len() as i64);
    Ok(())
}
