//! A transaction that is being committed: the requests to its keys' owners, and what comes of them.
//!
//! The [`Coordinator`] decides what is asked; here it gets words, and replies their meaning. Each request
//! goes to the owner of its key.
//!
//! Ownership: whoever commits: a program's task, the simulator's client, a node.

use crate::coordinator::{Answer, Coordinator, Lost, Outcome, Part, Request, Vote};
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
    /// Whether it may wait for other transactions to end. One that does not may not be behind one that does:
    /// it may be what ends them.
    pub waits: bool,
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

/// The commands at these places, by the owners of their keys; or the place of one whose keys have several.
fn by_owner(
    commands: &[TransactionCommand],
    places: impl IntoIterator<Item = usize>,
    owner: impl Fn(Position) -> Option<usize>,
) -> Result<Vec<Vec<usize>>, usize> {
    let mut by_owner: BTreeMap<Option<usize>, Vec<usize>> = BTreeMap::new();
    for place in places {
        let mut owners = commands[place].key_bytes().map(|key| owner(Position::of_key(key)));
        let first = owners.next().expect("a command of a transaction has a key");
        if owners.any(|other| other != first) {
            return Err(place);
        }
        by_owner.entry(first).or_default().push(place);
    }
    Ok(by_owner.into_values().collect())
}

/// The keys of these commands. The node keeps a part's replies at the first key by this order.
fn keys_in_order(commands: &[TransactionCommand], places: &[usize]) -> Vec<Box<[u8]>> {
    let keys = places.iter().flat_map(|&place| commands[place].key_bytes());
    let keys: BTreeSet<(Position, &[u8])> = keys.map(|key| (Position::of_key(key), key)).collect();
    keys.into_iter().map(|(_, key)| key.into()).collect()
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
        let places = 0..commands.len();
        let by_owner = by_owner(&commands, places, owner).map_err(|command| SeveralOwners { command })?;
        let (mut parts, mut keys) = (Vec::new(), Vec::<Box<[u8]>>::new());
        for commands_of_part in &by_owner {
            let of_part = keys_in_order(&commands, commands_of_part);
            parts.push(Part { keys: keys.len()..keys.len() + of_part.len() });
            keys.extend(of_part);
        }
        let is_alone = parts.len() == 1;
        let listed = if is_alone { 1 } else { keys.len() };
        let list = keys_of(keys[..listed].iter().map(|key| &**key));
        let coordinator = Coordinator::begin(now, attempt.id, keys, parts);
        let (last, open) = (0, BTreeMap::new());
        Ok(Committing { coordinator, attempt, parts: by_owner, commands, list, last, open })
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
        let waits = matches!(request, Request::Prepare(_));
        Some(CommitRequest { number, key, words, waits })
    }

    /// Takes the end of a request. `owner` names the owner of a position, as far as it is known.
    pub fn handle(
        &mut self,
        now: MonotonicUs,
        number: u64,
        ended: &Ended,
        owner: impl Fn(Position) -> Option<usize>,
    ) {
        let Some(request) = self.open.remove(&number) else { return };
        let id = self.coordinator.id();
        match (ended, request) {
            (Ended::Reply(reply), request) => {
                let mut parted = None;
                answer_to(id, request, reply, |answer| match answer {
                    Answer::Vote(part, Vote::No(Lost::Parted)) => parted = Some(part),
                    answer => self.coordinator.handle(now, answer),
                });
                parted.into_iter().for_each(|part| self.divide(now, part, &owner));
            }
            (Ended::NotRun, Request::Prepare(part)) => {
                self.coordinator.handle(now, Answer::NotRun(part));
            }
            (Ended::NotRun | Ended::Lost, request) => {
                self.coordinator.handle(now, Answer::Missing(request));
            }
        }
    }

    /// The keys of a part are several nodes' by now: nobody has looked at it, and each gets its own part.
    fn divide(&mut self, now: MonotonicUs, part: usize, owner: impl Fn(Position) -> Option<usize>) {
        let places = self.parts[part].iter().copied();
        let by_owner = by_owner(&self.commands, places, owner).ok().filter(|_| self.coordinator.is_open());
        let Some(mut by_owner) = by_owner else {
            // No node can prepare a command whose keys are not its own. Or it is aborted anyhow.
            return self.coordinator.handle(now, Answer::Vote(part, Vote::No(Lost::Parted)));
        };
        if by_owner.len() == 1 {
            // The owners are not known here yet.
            return self.coordinator.handle(now, Answer::NotRun(part));
        }
        let first = self.coordinator.first_of(part);
        let has_first = |commands: &Vec<usize>| {
            commands.iter().any(|&place| self.commands[place].key_bytes().any(|key| key == first))
        };
        let place = by_owner.iter().position(has_first).expect("a part's first key is one of its commands'");
        by_owner.swap(0, place);
        let keys = by_owner.iter().map(|commands| keys_in_order(&self.commands, commands)).collect();
        self.coordinator.divide(part, keys);
        self.list = keys_of(self.coordinator.keys());
        let mut by_owner = by_owner.into_iter();
        self.parts[part] = by_owner.next().expect("there are several");
        self.parts.extend(by_owner);
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

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: MonotonicUs = MonotonicUs(1_000);

    fn command(words: &[&str]) -> TransactionCommand {
        let words = words.iter().map(|word| word.as_bytes().to_vec()).collect();
        TransactionCommand { words, keys: vec![1], check: None }
    }

    /// Two increments of keys that one node has at first.
    fn begun() -> Committing {
        let attempt =
            Attempt { id: TransactionId(7), age: Age::default(), issued: WallMs(5), keeps_errors: false };
        let commands = vec![command(&["INCR", "a"]), command(&["INCR", "b"]), command(&["GET", "c"])];
        Committing::begin(NOW, attempt, commands, |_| Some(0)).expect("each command has one key")
    }

    fn requests(committing: &mut Committing) -> Vec<CommitRequest> {
        std::iter::from_fn(|| committing.poll_request()).collect()
    }

    fn refuse_whole(committing: &mut Committing, owner: impl Fn(Position) -> Option<usize>) {
        let whole = requests(committing);
        assert_eq!((whole.len(), &whole[0].words[5][..]), (1, &b"1"[..]), "it is the only part");
        let text = "CROSSSLOT Keys in request don't hash to the same slot".to_owned();
        committing.handle(NOW, whole[0].number, &Ended::Reply(Value::Error(text)), owner);
    }

    #[test]
    fn a_part_whose_keys_were_parted_is_divided_and_commits() {
        let mut committing = begun();
        let b = Position::of_key(b"b");
        let owner = |position| Some(usize::from(position == b));
        refuse_whole(&mut committing, owner);
        let parts = requests(&mut committing);
        assert_eq!(parts.len(), 2);
        let keys: BTreeSet<&[u8]> = parts.iter().map(|part| &part.key[..]).collect();
        assert!(keys.contains(&b"b"[..]));
        let first = &parts[0].words[6];
        for part in &parts {
            assert_eq!((&part.words[5][..], &part.words[6]), (&b"0"[..], first), "one of several");
        }
        let listed: BTreeSet<&[u8]> = crate::Keys(&parts[0].words[7]).iter().collect();
        assert_eq!(listed, BTreeSet::from([&b"a"[..], b"b", b"c"]), "the first part has the list of all");
        assert!(parts[1].words[7].is_empty());
        for part in &parts {
            let replies = match &part.key[..] {
                b"b" => vec![Value::Integer(2)],
                _ => vec![Value::Integer(1), Value::Null],
            };
            committing.handle(NOW, part.number, &Ended::Reply(Value::Array(replies)), owner);
        }
        let decisions = requests(&mut committing);
        assert_eq!(decisions.len(), 3, "each key is told");
        for decision in decisions {
            committing.handle(NOW, decision.number, &Ended::Reply(Value::Simple("OK".into())), owner);
        }
        let Some(Outcome::Committed(parts)) = committing.poll_outcome() else {
            panic!("it is not committed")
        };
        let replies = vec![Value::Integer(1), Value::Integer(2), Value::Null];
        assert_eq!(committing.replies(&parts), Some(replies), "in the order of the commands");
    }

    #[test]
    fn a_parted_part_whose_owners_are_not_known_yet_is_sent_again() {
        let mut committing = begun();
        refuse_whole(&mut committing, |_| Some(0));
        assert!(requests(&mut committing).is_empty(), "not at once");
        let later = committing.poll_timeout().expect("it is to be sent again");
        committing.handle_time(later);
        refuse_whole(&mut committing, |_| Some(0));
    }

    #[test]
    fn a_command_whose_keys_were_parted_aborts() {
        let attempt =
            Attempt { id: TransactionId(7), age: Age::default(), issued: WallMs(5), keeps_errors: false };
        let mut both = command(&["MSET", "a", "1", "b", "2"]);
        both.keys = vec![1, 3];
        let begun = Committing::begin(NOW, attempt, vec![both], |_| Some(0));
        let mut committing = begun.expect("its keys have one owner");
        let b = Position::of_key(b"b");
        refuse_whole(&mut committing, |position| Some(usize::from(position == b)));
        assert_eq!(committing.poll_outcome(), Some(Outcome::Aborted(Lost::Parted)));
        assert!(committing.is_over());
    }
}
