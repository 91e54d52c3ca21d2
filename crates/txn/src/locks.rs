//! What transactions have at a key: its votes for them, their outcomes, and refusals.

use crate::TransactionId;
use crate::codec;
use crate::entry::{Age, Entry, Keys, State};
use sidle_types::{WallMs, fault};

/// So long a transaction's coordinator asks for its outcome. Then it reports that it does not know it.
pub const LIFE_MS: u64 = 60_000;
/// So long a refusal is kept, and an outcome that nodes decided (X13). A request to prepare
/// is refused that was issued longer than [`LIFE_MS`] ago; clocks are less than a minute apart.
pub const KEPT_MS: u64 = 5 * LIFE_MS;
/// What is undecided for so long is decided by the nodes (X9).
pub const HELP_AFTER_MS: u64 = 1_000;

/// Why a key does not vote for a transaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NotVoted {
    /// Another one has locked it, and this one is younger: it gives way, so that nobody waits in a circle
    /// (wait-die; Rosenkrantz, Stearns and Lewis, "System level concurrency control").
    Locked(TransactionId),
    /// Another one has locked it, which is younger: this one may wait for its end.
    Waits(TransactionId),
    /// It has refused this one before.
    Refused,
    /// It has voted for it before: a request that came twice.
    Twice,
}

/// A decision that cannot be one: it is against the key's vote, or against another decision (X3).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Contradiction(pub State);

/// What a key reports of a transaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Status<'v> {
    /// It knows nothing of it.
    None,
    /// It has voted for it.
    Prepared(Entry<'v>),
    /// It is applied here.
    Committed(Entry<'v>),
    /// It will not vote for it.
    Refused,
}

/// What transactions have at a key.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Locks<'v> {
    entries: Vec<Entry<'v>>,
}

impl<'v> Locks<'v> {
    /// Reads the value beside a key; nothing if it is damaged or of a later layout.
    pub fn read(value: &'v [u8]) -> Option<Locks<'v>> {
        codec::read(value).map(|entries| Locks { entries })
    }

    /// The value beside the key; nothing if there is nothing to keep.
    pub fn value(&self) -> Option<Vec<u8>> {
        (!self.entries.is_empty()).then(|| codec::write(&self.entries))
    }

    /// Until when the value is kept, if nothing else ends it.
    pub fn kept_until(&self) -> Option<WallMs> {
        let is_over = |entry: &Entry<'_>| matches!(entry.state, State::Settled | State::Refused);
        let is_timed = self.entries.iter().all(is_over) && !self.entries.is_empty();
        self.entries.iter().map(|entry| entry.at).max().filter(|_| is_timed)
    }

    /// What each transaction has.
    pub fn entries(&self) -> &[Entry<'v>] {
        &self.entries
    }

    /// The transaction for which commands wait that read the key, or write it (X4).
    pub fn awaited(&self, writes: bool) -> Option<TransactionId> {
        if !writes && fault!(ReadsIgnoreLocks) {
            return None;
        }
        self.holders(writes).next().map(|entry| entry.id)
    }

    /// Those that have locked the key, and hinder who reads it, or writes it.
    fn holders(&self, writes: bool) -> impl Iterator<Item = Entry<'v>> + Clone {
        self.entries
            .iter()
            .copied()
            .filter(move |entry| entry.state == State::Exclusive || writes && entry.state == State::Shared)
    }

    fn place(&self, id: TransactionId) -> Option<usize> {
        self.entries.iter().position(|entry| entry.id == id)
    }

    /// Whether the key may vote for a transaction of this age that reads or writes it.
    pub fn may_vote(&self, id: TransactionId, age: Age, writes: bool) -> Result<(), NotVoted> {
        match self.place(id).map(|place| self.entries[place].state) {
            Some(State::Refused) if !fault!(PreparedAfterRefusal) => return Err(NotVoted::Refused),
            None | Some(State::Refused) => {}
            Some(_) => return Err(NotVoted::Twice),
        }
        if fault!(LockedTwice) {
            return Ok(());
        }
        // X14: of the same age, the lower id counts as older.
        let is_older = |other: &Entry<'_>| (other.age, other.id) < (age, id);
        let mut holders = self.holders(writes);
        match (holders.clone().find(is_older), holders.next()) {
            (Some(older), _) => Err(NotVoted::Locked(older.id)),
            (None, Some(younger)) => Err(NotVoted::Waits(younger.id)),
            (None, None) => Ok(()),
        }
    }

    /// Votes for a transaction, or has it committed at once.
    ///
    /// # Panics
    /// If it may not.
    pub fn vote(&mut self, entry: Entry<'v>) {
        let may = self.may_vote(entry.id, entry.age, entry.state == State::Exclusive);
        assert_eq!(may, Ok(()), "a vote for {} that may not be", entry.id);
        assert!(
            entry.state.is_prepared() || entry.state == State::Committed,
            "a vote is for what may be committed"
        );
        self.entries.retain(|other| other.id != entry.id);
        self.entries.push(entry);
        self.check();
    }

    /// X1.
    fn check(&self) {
        let count = |of: fn(State) -> bool| self.entries.iter().filter(|entry| of(entry.state)).count();
        let (holders, writers) = (count(State::is_prepared), count(|state| state == State::Exclusive));
        assert!(
            writers == 0 || holders == 1 || fault!(LockedTwice),
            "X1: {writers} of {holders} transactions that have locked a key are to write it"
        );
    }

    /// Carries a decision out; what is to be written, if the transaction is committed now.
    pub fn decide(
        &mut self,
        id: TransactionId,
        commits: bool,
        now: WallMs,
    ) -> Result<Option<Entry<'v>>, Contradiction> {
        let Some(place) = self.place(id) else {
            // It was carried out, and forgotten.
            return Ok(None);
        };
        let entry = self.entries[place];
        match (entry.state, commits) {
            (State::Shared | State::Exclusive, true) => {
                if fault!(OutcomeIsNotKept) {
                    self.entries.remove(place);
                } else {
                    self.entries[place] = Entry { state: State::Committed, at: now, effect: &[], ..entry };
                }
                Ok(Some(entry))
            }
            (State::Shared | State::Exclusive, false) => {
                self.entries.remove(place);
                Ok(None)
            }
            (State::Committed | State::Settled, true) | (State::Refused, false) => Ok(None),
            (state @ (State::Committed | State::Settled), false) | (state @ State::Refused, true) => {
                Err(Contradiction(state))
            }
        }
    }

    /// What the key knows of a transaction, which may change.
    pub fn look(&self, id: TransactionId) -> Status<'v> {
        let Some(place) = self.place(id) else { return Status::None };
        let entry = self.entries[place];
        match entry.state {
            State::Shared | State::Exclusive => Status::Prepared(entry),
            State::Committed | State::Settled => Status::Committed(entry),
            State::Refused => Status::Refused,
        }
    }

    /// What the key says of a transaction for good: if it has not voted, it refuses from now on (X3).
    pub fn resolve(&mut self, id: TransactionId, now: WallMs) -> Status<'v> {
        match self.look(id) {
            Status::None => {
                let at = WallMs(now.0.saturating_add(KEPT_MS));
                let (first, keys) = (&[][..], Keys::default());
                let age = Age::default();
                let refused =
                    Entry { id, state: State::Refused, age, at, first, keys, effect: &[], reply: &[] };
                if !fault!(RefusalIsNotKept) {
                    self.entries.push(refused);
                }
                Status::Refused
            }
            known => known,
        }
    }

    /// The transaction is applied at all of its keys, and its coordinator asks no more (X12).
    pub fn forget(&mut self, id: TransactionId) {
        self.entries
            .retain(|entry| entry.id != id || !matches!(entry.state, State::Committed | State::Settled));
    }

    /// The transaction is applied at all of its keys, and its coordinator may still ask (X13).
    pub fn settle(&mut self, id: TransactionId, now: WallMs) {
        if let Some(place) = self.place(id)
            && self.entries[place].state == State::Committed
        {
            let at = WallMs(now.0.saturating_add(KEPT_MS));
            self.entries[place] = Entry { state: State::Settled, at, ..self.entries[place] };
        }
    }

    /// Drops what is kept no longer.
    pub fn drop_old(&mut self, now: WallMs) {
        self.entries
            .retain(|entry| !matches!(entry.state, State::Settled | State::Refused) || entry.at > now);
    }

    /// The transactions that the nodes are to decide, or to carry out everywhere (X9).
    pub fn in_need_of_help(&self, key: &[u8], now: WallMs) -> impl Iterator<Item = Entry<'v>> {
        let is_old = move |entry: &Entry<'v>| entry.at.0.saturating_add(HELP_AFTER_MS) <= now.0;
        self.entries.iter().copied().filter(move |entry| match entry.state {
            State::Shared | State::Exclusive => is_old(entry),
            // Whoever decided it is gone, and may not have told all.
            State::Committed => entry.first == key && is_old(entry),
            State::Settled | State::Refused => false,
        })
    }
}
