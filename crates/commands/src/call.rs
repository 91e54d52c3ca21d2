//! A running command over keys: its inputs and its executor.

use crate::blocking::Blocking;
use crate::keyspace::{Keyspace, Value, Values};
use crate::number::parse_i64;
use crate::reply::Reply;
use crate::reply_error::ReplyError;
use crate::restoring::{Restoring, StepSizes, TOO_LONG};
use sidle_collections::{Collection, Draft, Finished, Kind};
use sidle_outline::Order;
use sidle_types::{ValueKind, WallMs};
use std::fmt::Debug;

/// Runs commands: it locks their keys, lends them a key space, publishes their writes, and handles all that
/// follows a write.
pub trait Executor: Copy + Debug + 'static {
    /// Its commands' view of the data.
    type Keyspace<'g>: Keyspace<'g>;
    /// Their replies.
    type Reply<'g>: Reply;
    /// The context of its own commands, which concern the executor and no keys.
    type OwnCall<'g>;
    /// The result of its own commands.
    type OwnResult;
}

/// The function that runs a command.
#[derive(Clone, Copy, Debug)]
pub enum Run<E: Executor> {
    /// A command over keys.
    OverKeys(OverKeys<E>),
    /// A command of the executor's own.
    Own(Own<E>),
}

/// Runs a command over keys.
pub type OverKeys<E> = for<'c, 'g> fn(&'c mut Call<'g, E>) -> Result<(), ReplyError>;
/// Runs a command of the executor's own.
pub type Own<E> = for<'c, 'g> fn(&'c mut <E as Executor>::OwnCall<'g>) -> <E as Executor>::OwnResult;

/// The context of a command over keys. Ownership of its keys is checked, and records that a migration still
/// had to bring are here.
pub struct Call<'g, E: Executor> {
    /// The whole request, name first.
    pub args: &'g [&'g [u8]],
    /// The keys among `args`, in the order of [`KeySpec::indices`](crate::KeySpec::indices).
    pub keyspace: E::Keyspace<'g>,
    /// The wall clock, which decides expiry.
    pub now: WallMs,
    /// The reply. A command that returns an error must not have written to it.
    pub reply: E::Reply<'g>,
    /// Whether it may wait; and, after it ran, whether it does.
    pub blocking: Blocking,
    /// The progress of a command that goes on; none if it has to run in one go.
    pub progress: Option<Progress<'g>>,
}

/// The progress of a command that goes on.
#[derive(Debug)]
pub struct Progress<'g> {
    /// Of a RESTORE that has begun.
    pub restoring: &'g mut Option<Box<Restoring>>,
    /// How much it does in one step.
    pub sizes: StepSizes,
}

impl<'g, E: Executor> Call<'g, E> {
    /// The value of a key that the client requested; counted as a look-up.
    #[inline]
    pub(crate) fn look_up(&mut self, key: usize) -> Option<Value<'g>> {
        let value = self.keyspace.get(key);
        self.count_look_up(value.is_some());
        value
    }

    /// The value of a key that the client requested, if it is a string; counted as a look-up.
    #[inline]
    pub(crate) fn look_up_string(&mut self, key: usize) -> Result<Option<Value<'g>>, ReplyError> {
        self.look_up(key).map(|value| value.of_kind(ValueKind::String)).transpose()
    }

    /// The collection of a key that the client requested, if it is one of this type; counted as a look-up.
    pub(crate) fn look_up_as<K: Kind>(
        &mut self,
        key: usize,
    ) -> Result<Option<Collection<'g, K>>, ReplyError> {
        self.look_up(key).map(Value::collection).transpose()
    }

    /// The value of a key, if it is a string.
    #[inline]
    pub(crate) fn string(&mut self, key: usize) -> Result<Option<Value<'g>>, ReplyError> {
        self.keyspace.get(key).map(|value| value.of_kind(ValueKind::String)).transpose()
    }

    /// A snapshot of all keys' values; counted as look-ups.
    pub(crate) fn look_up_all(&mut self) -> Values<'g> {
        let values = self.keyspace.get_all();
        let hits = values.iter().flatten().count();
        self.keyspace.count_look_ups(hits, values.len() - hits);
        values
    }

    /// Counts a look-up for the client.
    #[inline]
    pub(crate) fn count_look_up(&mut self, is_found: bool) {
        self.keyspace.count_look_ups(is_found.into(), (!is_found).into());
    }

    /// The number of keys that the argument with this index gives. `too_many`: the error if there are fewer.
    pub(crate) fn counted_keys(&self, count_at: usize, too_many: ReplyError) -> Result<usize, ReplyError> {
        let count = parse_i64(self.args[count_at]).filter(|count| *count > 0);
        let count = count.ok_or(ReplyError::text("ERR numkeys should be greater than 0"))?;
        if self.keyspace.is_empty() {
            return Err(too_many);
        }
        Ok(count as usize)
    }

    /// The command found nothing: whether it waits. If not, it is to reply so.
    pub(crate) fn waits(&mut self, at_most_ms: u64) -> bool {
        let waits = !matches!(self.blocking, Blocking::No | Blocking::Over);
        if waits {
            self.blocking = Blocking::Waits(at_most_ms);
        }
        waits
    }

    /// A count that is not negative.
    pub(crate) fn positive(&self, text: &[u8]) -> Result<usize, ReplyError> {
        let count = parse_i64(text).filter(|count| *count >= 0);
        let count = count.ok_or(ReplyError::text("ERR value is out of range, must be positive"))?;
        Ok(usize::try_from(count).unwrap_or(usize::MAX))
    }

    /// Whether a collection may be written: all nodes know them.
    pub(crate) fn check_collections(&self) -> Result<(), ReplyError> {
        match self.keyspace.takes_collections() {
            true => Ok(()),
            false => Err(ReplyError::text(
                "ERR some nodes of this cluster do not know this type yet: restart them with the new program, \
                 then run SIDLE.UPGRADE",
            )),
        }
    }

    /// Sets a key's value to a collection.
    pub(crate) fn put_collection<'b, D: Draft<'b>>(
        &mut self,
        key: usize,
        draft: &D,
        expires_at: Option<WallMs>,
    ) -> Result<(), ReplyError> {
        self.check_collections()?;
        let finished = draft.finish(&self.keyspace.collection_limits());
        let bytes = match &finished {
            Finished::Packed(bytes) => bytes.len() as u64,
            // So long it is where it travels in one piece.
            Finished::Large(outline) => outline.sequence(Order::Main).bytes(),
        };
        if bytes > self.keyspace.longest_value_bytes() {
            return Err(ReplyError::text(TOO_LONG));
        }
        match finished {
            Finished::Packed(bytes) => self.keyspace.put(key, D::Of::VALUE_KIND, &[&bytes], expires_at)?,
            Finished::Large(outline) => {
                self.keyspace.put_large(key, D::Of::VALUE_KIND, outline, expires_at)?;
            }
        }
        Ok(())
    }

    /// Replies with a string, or with null if there is none.
    #[inline(always)]
    pub(crate) fn reply_value(&mut self, value: Option<Value<'_>>) {
        match value {
            Some(value) => self.reply.bulk(value.bytes()),
            None => self.reply.null(),
        }
    }
}
