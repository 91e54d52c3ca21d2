//! A transaction that is being committed: the requests to its keys' owners, and what comes of them.
//!
//! The [`Coordinator`] decides what is asked; here it gets words, and replies their meaning. Each request
//! goes to the owner of its key.
//!
//! Ownership: whoever commits: a program's task, the simulator's client, a node.

use crate::coordinator::{Answer, Coordinator, Outcome, Part, Request};
use crate::entry::{Age, keys_of};
use crate::replies::{answer_to, replies_of};
use crate::{Check, TransactionId};
use sidle_resp::Value;
use sidle_types::{MonotonicUs, Position, WallMs};
use std::collections::{BTreeMap, BTreeSet};

/// A command of a transaction.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TransactionCommand {
    /// Its words, name first.
    pub words: Vec<Vec<u8>>,
    /// Which of them are keys; at least one.
    pub keys: Vec<usize>,
    /// Of one that has run before, by itself: the reply that it is to have still.
    pub check: Option<Check>,
}

impl TransactionCommand {
    fn key_bytes(&self) -> impl Iterator<Item = &[u8]> {
        self.keys.iter().map(|&key| &*self.words[key])
    }
}

/// One attempt to commit a transaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Attempt {
    /// Its name, which no other attempt has.
    pub id: TransactionId,
    /// When the first attempt began. A transaction that is tried again keeps it.
    pub age: Age,
    /// When this one begins, by the wall clock.
    pub issued: WallMs,
    /// Whether an error of a command is its reply, as in EXEC; otherwise it ends the transaction.
    pub keeps_errors: bool,
}

/// A request to be sent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CommitRequest {
    /// Its number, for its reply.
    pub number: u64,
    /// The key whose owner it goes to.
    pub key: Vec<u8>,
    /// Its words.
    pub words: Vec<Vec<u8>>,
}

/// What became of a request.
#[derive(Clone, Debug, PartialEq)]
pub enum Ended {
    /// It was answered.
    Reply(Value),
    /// No node has looked at it, nor will.
    NotRun,
    /// No answer came, and whether a node has looked at it is unknown.
    Lost,
}

/// The keys of one command have several owners.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SeveralOwners {
    /// The command's place.
    pub command: usize,
}

/// A transaction that is being committed.
#[derive(Debug)]
pub struct Committing {
    coordinator: Coordinator,
    attempt: Attempt,
    /// Of each part, its commands, by their places.
    parts: Vec<Vec<usize>>,
    commands: Vec<TransactionCommand>,
    /// The list of all keys.
    list: Vec<u8>,
    last: u64,
    open: BTreeMap<u64, Request>,
}

impl Committing {
    /// Begins to commit. `owner` names the owner of a position, as far as it is known.
    ///
    /// # Errors
    /// A command whose keys have several owners.
    ///
    /// # Panics
    /// Without a command, or if one has no key.
    pub fn begin(
        now: MonotonicUs,
        attempt: Attempt,
        commands: Vec<TransactionCommand>,
        owner: impl Fn(Position) -> Option<usize>,
    ) -> Result<Committing, SeveralOwners> {
        let mut by_owner: BTreeMap<Option<usize>, Vec<usize>> = BTreeMap::new();
        for (place, command) in commands.iter().enumerate() {
            let mut owners = command.key_bytes().map(|key| owner(Position::of_key(key)));
            let first = owners.next().expect("a command of a transaction has a key");
            if owners.any(|other| other != first) {
                return Err(SeveralOwners { command: place });
            }
            by_owner.entry(first).or_default().push(place);
        }
        let (mut parts, mut keys) = (Vec::new(), Vec::<Box<[u8]>>::new());
        for commands_of_part in by_owner.values() {
            let of_part = commands_of_part.iter().flat_map(|&place| commands[place].key_bytes());
            // The node keeps a part's replies at the first key by this order.
            let of_part: BTreeSet<(Position, &[u8])> =
                of_part.map(|key| (Position::of_key(key), key)).collect();
            parts.push(Part { keys: keys.len()..keys.len() + of_part.len() });
            keys.extend(of_part.into_iter().map(|(_, key)| key.into()));
        }
        let is_alone = parts.len() == 1;
        let listed = if is_alone { 1 } else { keys.len() };
        let list = keys_of(keys[..listed].iter().map(|key| &**key));
        let coordinator = Coordinator::begin(now, attempt.id, keys, parts);
        let parts = by_owner.into_values().collect();
        let (last, open) = (0, BTreeMap::new());
        Ok(Committing { coordinator, attempt, parts, commands, list, last, open })
    }

    /// Goes on with a transaction in place of whoever began it: at `key`, which knows its first key.
    pub fn in_place_of(id: TransactionId, key: &[u8], first: &[u8]) -> Committing {
        Committing {
            coordinator: Coordinator::in_place_of(id, key, first),
            attempt: Attempt { id, age: Age::default(), issued: WallMs(0), keeps_errors: false },
            parts: Vec::new(),
            commands: Vec::new(),
            list: Vec::new(),
            last: 0,
            open: BTreeMap::new(),
        }
    }

    /// The next request.
    pub fn poll_request(&mut self) -> Option<CommitRequest> {
        let request = self.coordinator.poll_request()?;
        self.last += 1;
        let number = self.last;
        self.open.insert(number, request);
        let (key, words) = self.words_of(request);
        Some(CommitRequest { number, key, words })
    }

    /// Takes the end of a request.
    pub fn handle(&mut self, now: MonotonicUs, number: u64, ended: &Ended) {
        let Some(request) = self.open.remove(&number) else { return };
        let id = self.coordinator.id();
        match (ended, request) {
            (Ended::Reply(reply), request) => {
                answer_to(id, request, reply, |answer| self.coordinator.handle(now, answer));
            }
            (Ended::NotRun, Request::Prepare(part)) => {
                self.coordinator.handle(now, Answer::NotRun(part));
            }
            (Ended::NotRun | Ended::Lost, request) => {
                self.coordinator.handle(now, Answer::Missing(request));
            }
        }
    }

    /// Lets the time pass.
    pub fn handle_time(&mut self, now: MonotonicUs) {
        self.coordinator.handle_time(now);
    }

    /// When it has something to do though no reply came.
    pub fn poll_timeout(&self) -> Option<MonotonicUs> {
        self.coordinator.poll_timeout()
    }

    /// What became of the transaction, once.
    pub fn poll_outcome(&mut self) -> Option<Outcome> {
        self.coordinator.poll_outcome()
    }

    /// Whether nothing is to be sent any more. That may be after its outcome.
    pub fn is_over(&self) -> bool {
        self.coordinator.is_over()
    }

    /// Whether a key was told a decision against what it has: never, unless somebody speaks wrongly (X3).
    pub fn is_contradicted(&self) -> bool {
        self.coordinator.is_contradicted()
    }

    /// The replies to the commands without a check, in their order, from those of the parts.
    pub fn replies(&self, parts: &[Vec<u8>]) -> Option<Vec<Value>> {
        let mut replies: BTreeMap<usize, Value> = BTreeMap::new();
        for (commands, bytes) in self.parts.iter().zip(parts) {
            let of_part = replies_of(bytes)?;
            let replied = commands.iter().filter(|&&place| self.commands[place].check.is_none());
            replies.extend(replied.copied().zip(of_part));
        }
        Some(replies.into_values().collect())
    }

    fn words_of(&self, request: Request) -> (Vec<u8>, Vec<Vec<u8>>) {
        let id = self.attempt.id.to_string();
        let of_key = |key: usize, words: &[&str]| {
            let key = self.coordinator.key(key).to_vec();
            let mut all = vec![b"SIDLE.TX".to_vec(), words[0].into(), key.clone(), id.clone().into_bytes()];
            all.extend(words[1..].iter().map(|word| word.as_bytes().to_vec()));
            (key, all)
        };
        match request {
            Request::Prepare(part) => self.words_of_part(part),
            Request::Resolve(key) => of_key(key, &["RESOLVE"]),
            Request::Decide { key, commits: true } => of_key(key, &["DECIDE", "COMMIT"]),
            Request::Decide { key, commits: false } => of_key(key, &["DECIDE", "ABORT"]),
            Request::Forget(key) => of_key(key, &["FORGET"]),
            Request::Settle(key) => of_key(key, &["SETTLE"]),
        }
    }

    fn words_of_part(&self, part: usize) -> (Vec<u8>, Vec<Vec<u8>>) {
        let Attempt { id, age, issued, keeps_errors } = self.attempt;
        let marks = u64::from(self.coordinator.is_alone()) | u64::from(keeps_errors) << 1;
        let commands = || self.parts[part].iter().map(|&place| &self.commands[place]);
        let keys: BTreeSet<&[u8]> = commands().flat_map(TransactionCommand::key_bytes).collect();
        let list = if part == 0 { self.list.clone() } else { Vec::new() };
        let numbers = [age.0.0, issued.0, marks].map(|number| number.to_string().into_bytes());
        let mut words = vec![b"SIDLE.TX".to_vec(), b"PREPARE".to_vec(), id.to_string().into_bytes()];
        words.extend(numbers);
        words.extend([self.coordinator.key(0).to_vec(), list, keys.len().to_string().into_bytes()]);
        for command in commands() {
            words.push(command.check.map_or(Vec::new(), |check| check.bytes().to_vec()));
            words.push(command.words.len().to_string().into_bytes());
            words.extend(command.words.iter().cloned());
        }
        let key = commands().next().and_then(|command| command.key_bytes().next());
        (key.expect("a part has a command").to_vec(), words)
    }
}
