//! One command over keys in execution: what it is given, and who runs it.

use crate::keyspace::{Keyspace, Value, Values};
use crate::reply::Reply;
use crate::reply_error::ReplyError;
use sidle_types::WallMs;
use std::fmt::Debug;

/// Who runs commands: takes the locks of their keys, lends them a key space, publishes what they wrote, and
/// sees to all that follows a write.
pub trait Executor: Copy + Debug + 'static {
    /// What its commands see of the data.
    type Keyspace<'g>: Keyspace<'g>;
    /// What they answer with.
    type Reply<'g>: Reply;
    /// What its own commands work with, which are not about keys but about itself.
    type OwnCall<'g>;
    /// How its own commands end.
    type OwnResult;
}

/// What runs a command.
#[derive(Clone, Copy, Debug)]
pub enum Run<E: Executor> {
    /// It is about keys.
    OverKeys(OverKeys<E>),
    /// It is the executor's own.
    Own(Own<E>),
}

/// Runs a command over keys.
pub type OverKeys<E> = for<'c, 'g> fn(&'c mut Call<'g, E>) -> Result<(), ReplyError>;
/// Runs a command of the executor's own.
pub type Own<E> = for<'c, 'g> fn(&'c mut <E as Executor>::OwnCall<'g>) -> <E as Executor>::OwnResult;

/// What a command over keys works with. Who owns its keys has been decided, and whatever a migration still
/// had to bring is here.
pub struct Call<'g, E: Executor> {
    /// The whole request, name first.
    pub args: &'g [&'g [u8]],
    /// The keys among `args`, in the order of [`KeySpec::indices`](crate::KeySpec::indices).
    pub keyspace: E::Keyspace<'g>,
    /// The wall clock, which decides expiry.
    pub now: WallMs,
    /// Where the reply goes. Nothing may be written before an error is returned.
    pub reply: E::Reply<'g>,
}

impl<'g, E: Executor> Call<'g, E> {
    /// The value of a key that the client asked for; counted.
    #[inline]
    pub(crate) fn look_up(&mut self, key: usize) -> Option<Value<'g>> {
        let value = self.keyspace.get(key);
        self.count_look_up(value.is_some());
        value
    }

    /// The values of all keys as they are at one moment; counted.
    pub(crate) fn look_up_all(&mut self) -> Values<'g> {
        let values = self.keyspace.get_all();
        let hits = values.iter().flatten().count();
        self.keyspace.count_look_ups(hits, values.len() - hits);
        values
    }

    /// Counts a look-up of what the client asked for.
    #[inline]
    pub(crate) fn count_look_up(&mut self, is_found: bool) {
        self.keyspace.count_look_ups(is_found.into(), (!is_found).into());
    }

    /// Answers with a value, or with null when there is none.
    #[inline(always)]
    pub(crate) fn reply_value(&mut self, value: Option<Value<'_>>) {
        match value {
            Some(value) => self.reply.bulk(value.bytes),
            None => self.reply.null(),
        }
    }
}
