//! A transaction, until it is over at all of its keys.
//!
//! It is asked by whoever began it, and by nodes in place of one that is gone (X9). The two differ in where
//! they begin, with parts to be prepared or with keys to be asked, and in how they end: whoever began it asks
//! no more, and has it forgotten; a node has it settled (X13).
//!
//! A node that asks the keys one after the other may meet one that had it applied and has forgotten it. So it
//! asks the first key again when it knows all others: if that is still prepared, nobody has committed the
//! transaction before (X12).
//!
//! Requests are sent by the caller, those to one node in one message. It reports what becomes of each.

use crate::TransactionId;
use crate::entry::Keys;
use crate::locks::{LIFE_MS, Status};
use crate::retries::Retries;
use sidle_types::{MonotonicUs, fault};
use std::collections::VecDeque;
use std::ops::Range;

/// A transaction that is to commit, and is not applied at all of its keys for so long, is reported all the
/// same: the others are locked until they have applied it (X4), wherever their nodes have gone.
const REPORTED_AFTER_US: u64 = 2_000_000;

/// Keys that one node prepares together, with their commands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Part {
    /// Which of the transaction's keys. The replies are kept at the first.
    pub keys: Range<usize>,
}

/// What is to be sent. Keys and parts are named by their places.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Request {
    /// To prepare a part; if it is the only one, to commit it at once.
    Prepare(usize),
    /// Whether a key has voted; if not, it refuses from now on.
    Resolve(usize),
    /// The decision, to a key.
    Decide {
        /// Which key.
        key: usize,
        /// Whether it is to commit.
        commits: bool,
    },
    /// That the transaction is applied everywhere, and nobody asks for its outcome any more.
    Forget(usize),
    /// That the transaction is applied everywhere.
    Settle(usize),
}

/// How a part has voted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Vote {
    /// For the transaction; with the replies to its commands.
    Yes(Vec<u8>),
    /// Against it.
    No(Lost),
}

/// Why a transaction does not commit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Lost {
    /// Another transaction has locked one of its keys.
    Locked(TransactionId),
    /// What it had read does not hold any more.
    Changed,
    /// One of its commands failed: the error.
    Failed(Vec<u8>),
    /// A node decided it, since an answer was missing for too long.
    Refused,
    /// A part could not be prepared in time.
    Late,
    /// The keys of a part are several nodes' by now.
    Parted,
}

/// What became of a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Answer<'a> {
    /// The vote of a part.
    Vote(usize, Vote),
    /// Whoever received a part has not looked at it.
    NotRun(usize),
    /// What a key knows.
    Status(usize, Status<'a>),
    /// A key has done what was requested.
    Done(usize),
    /// A key was told a decision that is against what it has.
    Contradicted(usize),
    /// No answer has come, and whether one will is unknown.
    Missing(Request),
}

/// What became of a transaction.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// It is applied at all of its keys, or will be at those that have not answered for long: they are locked
    /// until then. The replies of each part.
    Committed(Vec<Vec<u8>>),
    /// It has no effect.
    Aborted(Lost),
    /// Whether it has an effect was not learned in time. The nodes decide it.
    Unknown,
}

/// What the coordinator knows of a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Known {
    /// Its answer is awaited, which comes but for lost connections: to prepare its part, or to free it.
    Asked,
    /// It is to be asked, later.
    Unasked,
    /// Its vote is not known, and it has been asked for it.
    Lost,
    /// It has voted for the transaction.
    Voted,
    /// It will not vote for it.
    Refused,
    /// The transaction is applied there.
    Applied,
    /// Nothing more is to be done there.
    Over,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    Voting,
    Deciding { commits: bool },
    Forgetting,
    Over,
}

/// A transaction until it is over.
#[derive(Debug)]
pub struct Coordinator {
    id: TransactionId,
    keys: Vec<Box<[u8]>>,
    parts: Vec<Part>,
    /// Of each key that has something of the transaction.
    known: Vec<Known>,
    replies: Vec<Vec<u8>>,
    stage: Stage,
    why: Option<Lost>,
    to_send: VecDeque<Request>,
    /// Not answered, to be sent again.
    again: Vec<Request>,
    retries: Retries,
    /// When whoever began it asks no more; a node asks for ever.
    until: Option<MonotonicUs>,
    outcome: Option<Outcome>,
    is_reported: bool,
    /// When it was seen that it is to commit.
    decided_at: Option<MonotonicUs>,
    /// Whether a node has asked the first key for the list.
    first_look: bool,
    is_contradicted: bool,
}

impl Coordinator {
    /// Begins a transaction. The parts have all keys in order, each one's first key in front; the first key
    /// of all has the list.
    ///
    /// # Panics
    /// If the parts do not have each key once.
    pub fn begin(now: MonotonicUs, id: TransactionId, keys: Vec<Box<[u8]>>, parts: Vec<Part>) -> Coordinator {
        let ends = parts.iter().fold(0, |begin, part| {
            assert!(part.keys.start == begin && part.keys.end > begin, "each key is in one part");
            part.keys.end
        });
        assert_eq!(ends, keys.len(), "each key is in one part");
        // A part that is alone is committed at once, and its first key knows of all.
        let known = if parts.len() == 1 { 1 } else { keys.len() };
        let until = Some(now.plus_us(LIFE_MS * 1_000));
        let mut begun = Coordinator::new(id, keys, vec![Known::Asked; known], until);
        begun.to_send.extend((0..parts.len()).map(Request::Prepare));
        begun.replies = vec![Vec::new(); parts.len()];
        begun.parts = parts;
        begun
    }

    /// Goes on with a transaction in place of whoever began it: at `key`, which knows its first key.
    pub fn in_place_of(id: TransactionId, key: &[u8], first: &[u8]) -> Coordinator {
        let mut keys: Vec<Box<[u8]>> = vec![first.into()];
        if key != first {
            keys.push(key.into());
        }
        let known = vec![Known::Unasked; keys.len()];
        let mut helper = Coordinator::new(id, keys, known, None);
        if fault!(HelperAbortsUnasked) {
            helper.known[0] = Known::Refused;
            helper.advance();
        } else {
            helper.ask(0);
        }
        helper
    }

    fn new(
        id: TransactionId,
        keys: Vec<Box<[u8]>>,
        known: Vec<Known>,
        until: Option<MonotonicUs>,
    ) -> Coordinator {
        Coordinator {
            id,
            keys,
            parts: Vec::new(),
            known,
            replies: Vec::new(),
            stage: Stage::Voting,
            why: None,
            to_send: VecDeque::new(),
            again: Vec::new(),
            retries: Retries::new(),
            until,
            outcome: None,
            is_reported: false,
            decided_at: None,
            first_look: false,
            is_contradicted: false,
        }
    }

    /// Whether a node helps, in place of whoever began it.
    pub const fn is_helper(&self) -> bool {
        self.until.is_none()
    }

    /// Whether a key was told a decision that is against what it has: never, unless somebody speaks the
    /// protocol wrongly (X3).
    pub const fn is_contradicted(&self) -> bool {
        self.is_contradicted
    }

    /// The transaction.
    pub const fn id(&self) -> TransactionId {
        self.id
    }

    /// The key at this place.
    pub fn key(&self, place: usize) -> &[u8] {
        &self.keys[place]
    }

    /// All keys, in the order of their places.
    pub fn keys(&self) -> impl Iterator<Item = &[u8]> {
        self.keys.iter().map(|key| &**key)
    }

    /// The first key of a part.
    pub fn first_of(&self, part: usize) -> &[u8] {
        &self.keys[self.parts[part].keys.start]
    }

    /// Whether it may still be committed or aborted.
    pub fn is_open(&self) -> bool {
        self.stage == Stage::Voting
    }

    /// Has a part be several from now on, with these of its keys, each in order: nobody has looked at it, and
    /// its keys have several owners. The first of them is in its place, the others are behind all parts.
    ///
    /// # Panics
    /// If they do not have the part's keys, its first key in front, or if some node may have looked at it.
    pub fn divide(&mut self, part: usize, keys: Vec<Vec<Box<[u8]>>>) {
        // Until now nobody knew of the other keys of one that was alone.
        self.known.resize(self.keys.len(), Known::Asked);
        let whole = self.parts[part].keys.clone();
        assert!(
            self.is_open() && self.known[whole.clone()].iter().all(|&known| known == Known::Asked),
            "X11: a part of {} is divided that a node may have looked at",
            self.id
        );
        assert!(*keys[0][0] == *self.keys[whole.start], "the first key stays where it is");
        let mut begin = whole.start;
        for (number, keys) in keys.into_iter().enumerate() {
            let range = begin..begin + keys.len();
            begin = range.end;
            self.keys[range.clone()].clone_from_slice(&keys);
            let place = if number == 0 { part } else { self.parts.len() };
            match number {
                0 => self.parts[part].keys = range,
                _ => self.parts.push(Part { keys: range }),
            }
            self.to_send.push_back(Request::Prepare(place));
        }
        assert_eq!(begin, whole.end, "each key is in one part");
        self.replies.resize(self.parts.len(), Vec::new());
    }

    /// Whether its only part is to be committed at once.
    pub fn is_alone(&self) -> bool {
        self.parts.len() == 1
    }

    /// The next request.
    pub fn poll_request(&mut self) -> Option<Request> {
        self.to_send.pop_front()
    }

    /// What became of the transaction, once.
    pub fn poll_outcome(&mut self) -> Option<Outcome> {
        self.outcome.take()
    }

    /// When it has something to do though no answer came.
    pub fn poll_timeout(&self) -> Option<MonotonicUs> {
        let reports_at = self.decided_at.filter(|_| !self.is_reported);
        let reports_at = reports_at.map(|decided| decided.plus_us(REPORTED_AFTER_US));
        let due = [self.retries.at(), self.until, reports_at].into_iter().flatten().min();
        due.filter(|_| !self.is_over())
    }

    /// Whether nothing is to be sent any more.
    pub fn is_over(&self) -> bool {
        self.stage == Stage::Over
    }

    /// Lets the time pass.
    pub fn handle_time(&mut self, now: MonotonicUs) {
        if self.is_over() {
            return;
        }
        if self.until.is_some_and(|until| until <= now) {
            return self.give_up();
        }
        if self.stage == (Stage::Deciding { commits: true }) {
            let decided = *self.decided_at.get_or_insert(now);
            if now.since(decided) >= REPORTED_AFTER_US {
                self.report(Outcome::Committed(self.replies.clone()));
            }
        }
        if self.retries.is_over(now) {
            self.to_send.extend(std::mem::take(&mut self.again));
        }
    }

    /// Takes what became of a request.
    pub fn handle(&mut self, now: MonotonicUs, answer: Answer<'_>) {
        match answer {
            Answer::Vote(part, vote) => self.take_vote(part, vote),
            Answer::NotRun(part) => self.send_again(now, Request::Prepare(part)),
            Answer::Status(key, status) => self.take_status(now, key, status),
            Answer::Done(key) => self.take_done(key),
            Answer::Contradicted(key) => {
                // Whoever helps may meet a key that applied it, forgot it, and has refused it since.
                self.is_contradicted |=
                    !(self.is_helper() && self.stage == Stage::Deciding { commits: true });
                self.take_done(key);
            }
            Answer::Missing(Request::Prepare(part)) if fault!(PartSentTwice) => {
                self.send_again(now, Request::Prepare(part));
            }
            Answer::Missing(Request::Prepare(part)) => {
                // X11.
                for key in self.places_of(part) {
                    self.ask(key);
                }
            }
            Answer::Missing(request) => self.send_again(now, request),
        }
        self.advance();
    }

    /// The keys of a part that have something of the transaction.
    fn places_of(&self, part: usize) -> Range<usize> {
        let keys = self.parts[part].keys.clone();
        keys.start..keys.end.min(self.known.len())
    }

    fn send_again(&mut self, now: MonotonicUs, request: Request) {
        if !self.is_over() && !self.again.contains(&request) {
            self.again.push(request);
            self.retries.note(now);
        }
    }

    fn take_vote(&mut self, part: usize, vote: Vote) {
        let keys = self.places_of(part);
        if self.known[keys.start] != Known::Asked {
            return;
        }
        let known = match vote {
            Vote::Yes(reply) => {
                self.replies[part] = reply;
                if self.is_alone() { Known::Applied } else { Known::Voted }
            }
            Vote::No(why) => {
                self.why.get_or_insert(why);
                Known::Refused
            }
        };
        self.known[keys].fill(known);
    }

    fn ask(&mut self, key: usize) {
        self.known[key] = Known::Lost;
        self.to_send.push_back(Request::Resolve(key));
    }

    fn take_status(&mut self, now: MonotonicUs, key: usize, status: Status<'_>) {
        let is_awaited = matches!(self.stage, Stage::Voting | Stage::Deciding { commits: false });
        if self.known[key] != Known::Lost || !is_awaited {
            return;
        }
        self.known[key] = match status {
            Status::Prepared(entry) | Status::Committed(entry) => {
                if let Some(part) = self.parts.iter().position(|part| part.keys.start == key) {
                    self.replies[part] = entry.reply.to_vec();
                }
                if key == 0 {
                    self.take_list(entry.keys);
                }
                if matches!(status, Status::Prepared(_)) { Known::Voted } else { Known::Applied }
            }
            Status::Refused if fault!(HelperCommitsWithoutVote) && self.is_helper() => Known::Voted,
            Status::Refused => {
                self.why.get_or_insert(Lost::Refused);
                Known::Refused
            }
            Status::None => return self.send_again(now, Request::Resolve(key)),
        };
        if self.is_helper() && key == 0 && self.known[0] == Known::Voted && !self.first_look {
            self.first_look = true;
            (1..self.known.len()).for_each(|key| self.ask(key));
            if self.known.len() > 1 && !fault!(FirstKeyIsAskedFirst) {
                self.known[0] = Known::Unasked;
            }
        }
    }

    /// The keys that the first key has the list of.
    fn take_list(&mut self, list: Keys<'_>) {
        for key in list.iter().filter(|_| self.until.is_none()) {
            if !self.keys.iter().any(|known| &**known == key) {
                self.keys.push(key.into());
                self.known.push(Known::Unasked);
            }
        }
    }

    fn take_done(&mut self, key: usize) {
        self.known[key] = match (self.stage, self.known[key]) {
            (Stage::Deciding { commits: true }, _) => Known::Applied,
            (Stage::Deciding { commits: false } | Stage::Forgetting, _) => Known::Over,
            (Stage::Voting | Stage::Over, known) => known,
        };
    }

    fn has(&self, known: Known) -> bool {
        self.known.contains(&known)
    }

    fn advance(&mut self) {
        if self.stage == Stage::Voting {
            self.vote();
        }
        if self.stage == (Stage::Deciding { commits: false }) {
            self.release();
        }
        if self.stage == (Stage::Deciding { commits: true })
            && self.known.iter().all(|&known| known == Known::Applied)
        {
            self.report(Outcome::Committed(self.replies.clone()));
            self.stage = Stage::Forgetting;
            self.forget_others();
        }
        if self.stage == Stage::Forgetting {
            self.forget_first();
        }
    }

    /// Decides if all is known that the decision needs (X3).
    fn vote(&mut self) {
        let is_open = [Known::Asked, Known::Unasked, Known::Lost].into_iter().any(|known| self.has(known));
        if self.is_helper() {
            let others = &self.known[1..];
            let are_known = !others.iter().any(|known| matches!(known, Known::Unasked | Known::Lost));
            if self.has(Known::Applied) {
                self.decide(true);
            } else if self.known[0] == Known::Refused {
                self.decide(false);
            } else if self.known[0] == Known::Unasked && are_known {
                self.ask(0);
            } else if !is_open {
                self.decide(!self.has(Known::Refused));
            }
        } else if self.has(Known::Refused) && !self.has(Known::Asked) {
            assert!(!self.has(Known::Applied), "X3: {} is applied, and was refused", self.id);
            self.decide(false);
        } else if !is_open {
            self.decide(true);
        }
    }

    fn report(&mut self, outcome: Outcome) {
        if !self.is_reported {
            self.is_reported = true;
            self.outcome = Some(outcome);
        }
    }

    fn decide(&mut self, commits: bool) {
        self.stage = Stage::Deciding { commits };
        if !commits {
            return self.report(Outcome::Aborted(self.why.clone().unwrap_or(Lost::Refused)));
        }
        for key in 0..self.known.len() {
            match self.known[key] {
                Known::Applied => {}
                // It was applied there, forgotten, and refused since.
                Known::Refused => self.known[key] = Known::Applied,
                _ => self.to_send.push_back(Request::Decide { key, commits }),
            }
        }
    }

    /// Frees the keys that have voted for what is aborted. Where the vote is lost, the key is asked first.
    fn release(&mut self) {
        for key in 0..self.known.len() {
            match self.known[key] {
                Known::Refused => self.known[key] = Known::Over,
                Known::Unasked => self.ask(key),
                Known::Voted => {
                    self.known[key] = Known::Asked;
                    self.to_send.push_back(Request::Decide { key, commits: false });
                }
                _ => {}
            }
        }
        if self.known.iter().all(|&known| known == Known::Over) {
            self.stage = Stage::Over;
        }
    }

    fn forgetting(&self, key: usize) -> Request {
        if self.until.is_some() || fault!(SettledIsForgotten) {
            Request::Forget(key)
        } else {
            Request::Settle(key)
        }
    }

    /// X12: the first key keeps the outcome for longest.
    fn forget_others(&mut self) {
        let from = usize::from(!fault!(FirstKeyForgetsFirst));
        for key in from..self.known.len() {
            self.to_send.push_back(self.forgetting(key));
        }
    }

    fn forget_first(&mut self) {
        if self.known.iter().all(|&known| known == Known::Over) {
            self.stage = Stage::Over;
            return;
        }
        let request = self.forgetting(0);
        let is_last = self.known[1..].iter().all(|&known| known == Known::Over);
        if is_last && self.known[0] == Known::Applied {
            self.known[0] = Known::Asked;
            self.to_send.push_back(request);
        }
    }

    /// Whoever began it asks no more.
    fn give_up(&mut self) {
        let waits = |part: &usize| self.again.contains(&Request::Prepare(*part));
        for part in (0..self.parts.len()).filter(waits).collect::<Vec<_>>() {
            // Nobody has looked at it, and it is not sent again.
            let keys = self.places_of(part);
            self.known[keys].fill(Known::Refused);
            self.why.get_or_insert(Lost::Late);
        }
        self.advance();
        match self.stage {
            Stage::Deciding { commits: true } => self.report(Outcome::Committed(self.replies.clone())),
            Stage::Voting => self.report(Outcome::Unknown),
            Stage::Deciding { commits: false } | Stage::Forgetting | Stage::Over => {}
        }
        self.stage = Stage::Over;
        self.to_send.clear();
        self.again.clear();
    }
}
