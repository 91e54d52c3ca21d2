//! A node: keys, what transactions have at them, and transactions that it decides in place of their clients.

use crate::world::KEYS;
use sidle_testbed::Random;
use sidle_txn::{
    Age, Entry, KEPT_MS, LIFE_MS, Locks, Lost, NotVoted, State, Status, TransactionId, Vote, keys_of,
};
use sidle_types::WallMs;
use std::collections::BTreeMap;

/// A key's list of tokens, and the value beside it.
#[derive(Clone, Debug, Default)]
pub(crate) struct Value {
    pub(crate) tokens: Vec<u64>,
    pub(crate) locks: Option<Vec<u8>>,
}

/// What a part is to do.
#[derive(Clone, Debug)]
pub(crate) struct Commands {
    pub(crate) id: TransactionId,
    /// By the client's clock.
    pub(crate) issued: WallMs,
    pub(crate) age: Age,
    pub(crate) is_alone: bool,
    /// The first key of all, and the list where a key of this part is that.
    pub(crate) first: u64,
    pub(crate) list: Vec<u64>,
    /// Of each key, what was read there, and the token that is to be appended.
    pub(crate) steps: Vec<(u64, Vec<u64>, Option<u64>)>,
}

/// What becomes of a part.
#[derive(Debug)]
pub(crate) enum Prepared {
    Voted(Vote),
    /// It waits for younger transactions.
    Waits,
    /// A key is another node's.
    NotRun,
}

/// What is kept of a key's answer.
#[derive(Clone, Debug)]
pub(crate) struct Reported {
    pub(crate) value: Vec<u8>,
}

#[derive(Debug)]
pub(crate) struct Node {
    pub(crate) is_up: bool,
    /// How far its clock is ahead.
    pub(crate) ahead_ms: u64,
    pub(crate) keys: BTreeMap<u64, Value>,
}

/// The name of a key.
pub(crate) fn name(key: u64) -> Vec<u8> {
    format!("key{key}").into_bytes()
}

/// The key of a name.
pub(crate) fn key_named(name: &[u8]) -> u64 {
    (0..KEYS).find(|&key| self::name(key) == name).expect("one of the world's keys")
}

impl Node {
    pub(crate) fn new(random: &mut Random) -> Node {
        Node { is_up: true, ahead_ms: random.below(30_000), keys: BTreeMap::new() }
    }

    pub(crate) fn now(&self, now_us: u64) -> WallMs {
        WallMs(1_000_000_000 + now_us / 1_000 + self.ahead_ms)
    }

    /// Reads and changes what transactions have at a key.
    pub(crate) fn with_locks<T>(
        &mut self,
        key: u64,
        now: WallMs,
        change: impl FnOnce(&mut Locks<'_>) -> T,
    ) -> T {
        let value = self.keys.get_mut(&key).expect("it is this node's");
        let bytes = value.locks.take();
        let mut locks = match &bytes {
            Some(bytes) => Locks::read(bytes).expect("it was written by a node"),
            None => Locks::default(),
        };
        locks.drop_old(now);
        let done = change(&mut locks);
        if let Some(until) = locks.kept_until() {
            assert!(until.0 <= now.0 + KEPT_MS + 60_000, "what is settled is kept for minutes");
        }
        let bytes = locks.value();
        if let Some(bytes) = &bytes {
            assert_eq!(Locks::read(bytes).as_ref(), Some(&locks), "it is read as it is written");
        }
        value.locks = bytes;
        done
    }

    /// The list, if no transaction keeps readers away.
    pub(crate) fn read(&mut self, key: u64, now: WallMs) -> Option<Vec<u64>> {
        let awaited = self.with_locks(key, now, |locks| locks.awaited(false));
        awaited.is_none().then(|| self.keys[&key].tokens.clone())
    }

    /// Prepares a part, all of it or nothing.
    pub(crate) fn prepare(&mut self, part: &Commands, now: WallMs, may_wait: bool) -> Prepared {
        if part.steps.iter().any(|(key, ..)| !self.keys.contains_key(key)) {
            return Prepared::NotRun;
        }
        // X13: its refusal may be gone.
        if part.issued.0 + 2 * LIFE_MS < now.0 {
            return Prepared::Voted(Vote::No(Lost::Late));
        }
        for &(key, ref read, token) in &part.steps {
            match self.with_locks(key, now, |locks| locks.may_vote(part.id, part.age, token.is_some())) {
                Ok(()) => {}
                Err(NotVoted::Waits(_)) if may_wait => return Prepared::Waits,
                Err(NotVoted::Locked(other) | NotVoted::Waits(other)) => {
                    return Prepared::Voted(Vote::No(Lost::Locked(other)));
                }
                Err(NotVoted::Refused | NotVoted::Twice) => return Prepared::Voted(Vote::No(Lost::Refused)),
            }
            if self.keys[&key].tokens != *read {
                return Prepared::Voted(Vote::No(Lost::Changed));
            }
        }
        self.keep(part, now);
        Prepared::Voted(Vote::Yes(reply_to(part)))
    }

    fn keep(&mut self, part: &Commands, now: WallMs) {
        let list: Vec<Vec<u8>> = part.list.iter().map(|&key| name(key)).collect();
        let list = keys_of(list.iter().map(Vec::as_slice));
        let (first, reply) = (name(part.first), reply_to(part));
        for (place, &(key, _, token)) in part.steps.iter().enumerate() {
            let effect = token.map(u64::to_le_bytes);
            let effect = effect.as_ref().map_or(&[][..], |bytes| bytes);
            let state = match token {
                _ if part.is_alone => State::Committed,
                Some(_) => State::Exclusive,
                None => State::Shared,
            };
            let keys = if key == part.first { sidle_txn::Keys(&list) } else { sidle_txn::Keys::default() };
            let reply = if place == 0 { &reply[..] } else { &[] };
            let (id, age) = (part.id, part.age);
            let entry = Entry { id, state, age, at: now, first: &first, keys, effect, reply };
            if part.is_alone {
                self.apply(key, effect);
            }
            if !part.is_alone || key == part.first {
                let entry = Entry { effect: if part.is_alone { &[] } else { effect }, ..entry };
                self.vote(key, entry, now);
            }
        }
    }

    fn vote(&mut self, key: u64, entry: Entry<'_>, now: WallMs) {
        let value = self.keys.get_mut(&key).expect("it is this node's");
        let bytes = value.locks.take();
        let mut locks = bytes.as_deref().and_then(Locks::read).unwrap_or_default();
        locks.drop_old(now);
        locks.vote(entry);
        value.locks = locks.value();
    }

    fn apply(&mut self, key: u64, effect: &[u8]) {
        if let Ok(token) = effect.try_into() {
            self.keys.get_mut(&key).expect("it is this node's").tokens.push(u64::from_le_bytes(token));
        }
    }

    /// Carries out a decision; whether it contradicts what the key has.
    pub(crate) fn decide(&mut self, key: u64, id: TransactionId, commits: bool, now: WallMs) -> bool {
        let decided = self.with_locks(key, now, |locks| {
            locks.decide(id, commits, now).map(|applied| applied.map(|entry| entry.effect.to_vec()))
        });
        match decided {
            Ok(Some(effect)) => self.apply(key, &effect),
            Ok(None) => {}
            Err(_) => return true,
        }
        false
    }

    /// What the key answers for good, with the value in which it is found.
    pub(crate) fn resolve(&mut self, key: u64, id: TransactionId, now: WallMs) -> Reported {
        let status = self.with_locks(key, now, |locks| match locks.resolve(id, now) {
            Status::Prepared(entry) | Status::Committed(entry) => {
                let mut only = Locks::default();
                only.vote(Entry {
                    state: if entry.state == State::Settled { State::Committed } else { entry.state },
                    ..entry
                });
                only.value()
            }
            Status::Refused | Status::None => None,
        });
        Reported { value: status.unwrap_or_default() }
    }
}

/// The replies to a part's commands.
fn reply_to(part: &Commands) -> Vec<u8> {
    part.steps.iter().map(|&(key, ..)| key as u8).collect()
}
