//! What one transaction has at a key.

use crate::TransactionId;
use crate::bytes::{put_bytes, take_bytes};
use sidle_types::WallMs;

/// What a transaction has at a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    /// The key has voted for it, and is locked: the transaction has read it.
    Shared,
    /// The key has voted for it, and is locked: the transaction is to write it.
    Exclusive,
    /// It was committed, and is applied here.
    Committed,
    /// The same, and it is applied at all of its keys. The nodes have seen to that.
    Settled,
    /// The key did not vote in time, and will not vote for it.
    Refused,
}

impl State {
    /// Whether it is a vote that waits for its decision.
    pub const fn is_prepared(self) -> bool {
        matches!(self, State::Shared | State::Exclusive)
    }
}

/// The keys of a transaction, as its first key keeps them: each with its length (4 bytes) before it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Keys<'v>(pub &'v [u8]);

impl<'v> Keys<'v> {
    /// Each of them, the first one first.
    pub fn iter(self) -> impl Iterator<Item = &'v [u8]> {
        let mut rest = self.0;
        std::iter::from_fn(move || take_bytes(&mut rest))
    }

    /// Whether these bytes are a list of keys.
    pub fn is_whole(self) -> bool {
        let mut rest = self.0;
        while take_bytes(&mut rest).is_some() {}
        rest.is_empty()
    }
}

/// A list of keys.
pub fn keys_of<'k>(keys: impl IntoIterator<Item = &'k [u8]>) -> Vec<u8> {
    let mut list = Vec::new();
    keys.into_iter().for_each(|key| put_bytes(&mut list, key));
    list
}

/// How old a transaction is: when its first attempt began, by its client's clock. One that is tried again
/// keeps it, so that it is the oldest in the end.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Age(pub WallMs);

/// What one transaction has at a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Entry<'v> {
    /// The transaction.
    pub id: TransactionId,
    /// What it has.
    pub state: State,
    /// Its age, for which it waits or does not.
    pub age: Age,
    /// By the node's clock: since when; of what is settled or refused, until when it is kept.
    pub at: WallMs,
    /// Its first key, which has the list of all.
    pub first: &'v [u8],
    /// The list of its keys. Only its first key has it.
    pub keys: Keys<'v>,
    /// What is to be written here if it commits; nothing where it only reads.
    pub effect: &'v [u8],
    /// The replies to the commands of its part. Only the part's first key has them.
    pub reply: &'v [u8],
}
