//! What a coordinator sends, one request at a time.

use sidle_txn::{
    Age, Answer, Coordinator, Entry, Keys, LIFE_MS, Locks, Lost, NotVoted, Outcome, Part, Request, State,
    TransactionId, Vote, keys_of,
};
use sidle_types::{MonotonicUs, WallMs};
use std::collections::BTreeMap;

const ID: TransactionId = TransactionId(7);
const NOW: WallMs = WallMs(1_000_000);
const START: MonotonicUs = MonotonicUs(0);
const FIRST: &[u8] = b"a";
const OTHER: &[u8] = b"b";

/// The values beside the keys, and how often each was applied.
#[derive(Default)]
struct Store {
    values: BTreeMap<Vec<u8>, Vec<u8>>,
    applied: BTreeMap<Vec<u8>, usize>,
}

impl Store {
    fn prepare(&mut self, key: &[u8]) -> Vote {
        let list = keys_of([FIRST, OTHER]);
        let keys = if key == FIRST { Keys(&list) } else { Keys::default() };
        let state = State::Exclusive;
        let age = Age(NOW);
        let entry = Entry { id: ID, state, age, at: NOW, first: FIRST, keys, effect: b"new", reply: b"ok" };
        let value = self.values.remove(key).unwrap_or_default();
        let mut locks = Locks::read(&value).unwrap_or_default();
        if locks.may_vote(ID, Age(NOW), true).is_err() {
            self.values.insert(key.to_vec(), value);
            return Vote::No(Lost::Refused);
        }
        locks.vote(entry);
        self.values.insert(key.to_vec(), locks.value().expect("it has voted"));
        Vote::Yes(b"ok".to_vec())
    }

    /// Carries a request out, and reports the answer.
    fn carry_out(&mut self, to: &mut Coordinator, request: Request) {
        let place = match request {
            Request::Prepare(part) => {
                let vote = self.prepare([FIRST, OTHER][part]);
                return to.handle(START, Answer::Vote(part, vote));
            }
            Request::Resolve(key)
            | Request::Decide { key, .. }
            | Request::Forget(key)
            | Request::Settle(key) => key,
        };
        let key = to.key(place).to_vec();
        let value = self.values.remove(&key).unwrap_or_default();
        let mut locks = Locks::read(&value).unwrap_or_default();
        match request {
            Request::Resolve(_) => to.handle(START, Answer::Status(place, locks.resolve(ID, NOW))),
            Request::Decide { commits, .. } => {
                let answer = match locks.decide(ID, commits, NOW) {
                    Ok(applied) => {
                        *self.applied.entry(key.clone()).or_default() += usize::from(applied.is_some());
                        Answer::Done(place)
                    }
                    Err(_) => Answer::Contradicted(place),
                };
                to.handle(START, answer);
            }
            Request::Forget(_) => {
                locks.forget(ID);
                to.handle(START, Answer::Done(place));
            }
            Request::Settle(_) => {
                locks.settle(ID, NOW);
                to.handle(START, Answer::Done(place));
            }
            Request::Prepare(_) => unreachable!("it was carried out"),
        }
        if let Some(value) = locks.value() {
            self.values.insert(key, value);
        }
    }

    /// Carries out whatever a coordinator sends, until it is over; what became of its transaction.
    fn finish(&mut self, coordinator: &mut Coordinator) -> Option<Outcome> {
        while let Some(request) = coordinator.poll_request() {
            self.carry_out(coordinator, request);
        }
        assert!(coordinator.is_over(), "nothing more is sent");
        assert!(!coordinator.is_contradicted(), "X3: a key was told two decisions");
        coordinator.poll_outcome()
    }

    fn states(&self) -> Vec<State> {
        let locks = self.values.values().map(|value| Locks::read(value).expect("it is whole"));
        locks.flat_map(|locks| locks.entries().iter().map(|entry| entry.state).collect::<Vec<_>>()).collect()
    }
}

fn begin() -> Coordinator {
    let keys = vec![FIRST.into(), OTHER.into()];
    Coordinator::begin(START, ID, keys, vec![Part { keys: 0..1 }, Part { keys: 1..2 }])
}

/// Sends nothing: what it would have sent is lost.
fn requests(coordinator: &mut Coordinator) -> Vec<Request> {
    std::iter::from_fn(|| coordinator.poll_request()).collect()
}

fn committed() -> Option<Outcome> {
    Some(Outcome::Committed(vec![b"ok".to_vec(); 2]))
}

#[test]
fn it_commits_at_two_nodes_and_leaves_nothing() {
    let (mut store, mut coordinator) = (Store::default(), begin());
    assert_eq!(store.finish(&mut coordinator), committed());
    assert_eq!(store.states(), []);
    assert_eq!(store.applied.values().collect::<Vec<_>>(), [&1, &1]);
}

#[test]
fn the_first_key_forgets_last() {
    let (mut store, mut coordinator) = (Store::default(), begin());
    let mut sent = Vec::new();
    while let Some(request) = coordinator.poll_request() {
        sent.push(request);
        store.carry_out(&mut coordinator, request);
    }
    assert_eq!(sent[sent.len() - 2..], [Request::Forget(1), Request::Forget(0)]);
}

#[test]
fn a_lost_vote_is_asked_for_and_no_part_is_sent_twice() {
    let (mut store, mut coordinator) = (Store::default(), begin());
    assert_eq!(requests(&mut coordinator), [Request::Prepare(0), Request::Prepare(1)]);
    // It has voted, and its answer is lost: so are the replies, which are kept there.
    store.prepare(FIRST);
    coordinator.handle(START, Answer::Missing(Request::Prepare(0)));
    store.carry_out(&mut coordinator, Request::Prepare(1));
    assert_eq!(store.finish(&mut coordinator), committed());
}

#[test]
fn a_part_that_never_came_is_refused_for_good() {
    let (mut store, mut coordinator) = (Store::default(), begin());
    requests(&mut coordinator);
    store.carry_out(&mut coordinator, Request::Prepare(0));
    coordinator.handle(START, Answer::Missing(Request::Prepare(1)));
    assert_eq!(store.finish(&mut coordinator), Some(Outcome::Aborted(Lost::Refused)));
    assert_eq!(store.states(), [State::Refused]);
    // It comes late.
    assert_eq!(store.prepare(OTHER), Vote::No(Lost::Refused));
}

#[test]
fn a_vote_against_frees_the_others() {
    let (mut store, mut coordinator) = (Store::default(), begin());
    requests(&mut coordinator);
    coordinator.handle(START, Answer::Vote(1, Vote::No(Lost::Changed)));
    assert_eq!(coordinator.poll_outcome(), None, "the other part is under way");
    store.carry_out(&mut coordinator, Request::Prepare(0));
    assert_eq!(store.finish(&mut coordinator), Some(Outcome::Aborted(Lost::Changed)));
    assert_eq!(store.states(), []);
}

#[test]
fn nodes_commit_what_all_keys_voted_for() {
    let (mut store, mut coordinator) = (Store::default(), begin());
    for request in requests(&mut coordinator) {
        store.carry_out(&mut coordinator, request);
    }
    // The client dies. Its decision reached one key.
    store.carry_out(&mut coordinator, Request::Decide { key: 1, commits: true });
    let mut helper = Coordinator::in_place_of(ID, FIRST, FIRST);
    assert!(matches!(store.finish(&mut helper), Some(Outcome::Committed(_))));
    assert_eq!(store.states(), [State::Settled, State::Settled]);
    assert_eq!(store.applied.values().collect::<Vec<_>>(), [&1, &1]);
    // It was not dead after all: it finds what became of its transaction.
    let mut back = begin();
    requests(&mut back);
    (0..2).for_each(|part| back.handle(START, Answer::Missing(Request::Prepare(part))));
    assert_eq!(store.finish(&mut back), committed());
}

#[test]
fn nodes_abort_what_a_key_has_not_voted_for() {
    let (mut store, mut coordinator) = (Store::default(), begin());
    requests(&mut coordinator);
    store.prepare(OTHER);
    let mut helper = Coordinator::in_place_of(ID, OTHER, FIRST);
    assert_eq!(store.finish(&mut helper), Some(Outcome::Aborted(Lost::Refused)));
    // The other key is free. The first one keeps that it refused, since its part may be under way.
    assert_eq!(store.states(), [State::Refused]);
    assert_eq!(store.prepare(FIRST), Vote::No(Lost::Refused));
}

/// A node asks the first key, then the client commits and has the other key forget it, and then the node asks
/// that.
#[test]
fn a_node_asks_the_first_key_again() {
    let (mut store, mut coordinator) = (Store::default(), begin());
    for request in requests(&mut coordinator) {
        store.carry_out(&mut coordinator, request);
    }
    let mut helper = Coordinator::in_place_of(ID, FIRST, FIRST);
    let look = helper.poll_request().expect("it asks the first key");
    store.carry_out(&mut helper, look);
    for request in requests(&mut coordinator) {
        store.carry_out(&mut coordinator, request);
    }
    let forget = coordinator.poll_request().expect("all keys have it applied");
    assert_eq!(forget, Request::Forget(1));
    store.carry_out(&mut coordinator, forget);
    assert!(matches!(store.finish(&mut helper), Some(Outcome::Committed(_))));
    assert_eq!(store.applied.values().collect::<Vec<_>>(), [&1, &1]);
}

#[test]
fn whoever_began_it_gives_up_in_the_end() {
    let mut coordinator = begin();
    requests(&mut coordinator);
    coordinator.handle(START, Answer::NotRun(0));
    assert!(coordinator.poll_timeout().is_some_and(|at| at.0 < 1_000_000), "a part is sent again soon");
    let end = START.plus_us(LIFE_MS * 1_000);
    coordinator.handle_time(end);
    assert_eq!(coordinator.poll_outcome(), Some(Outcome::Unknown));
    assert!(coordinator.is_over());
    assert_eq!(coordinator.poll_timeout(), None);
}

#[test]
fn one_part_is_committed_at_once() {
    let part = Part { keys: 0..2 };
    let keys = vec![FIRST.into(), OTHER.into()];
    let mut coordinator = Coordinator::begin(START, ID, keys, vec![part]);
    assert!(coordinator.is_alone());
    assert_eq!(requests(&mut coordinator), [Request::Prepare(0)]);
    coordinator.handle(START, Answer::Vote(0, Vote::Yes(b"ok".to_vec())));
    assert_eq!(coordinator.poll_outcome(), Some(Outcome::Committed(vec![b"ok".to_vec()])));
    assert_eq!(requests(&mut coordinator), [Request::Forget(0)], "only its first key has something of it");
    coordinator.handle(START, Answer::Done(0));
    assert!(coordinator.is_over());
}

pub(crate) fn a_forgotten_key_is_asked() {
    a_node_asks_the_first_key_again();
}

/// X14, with readers: one that writes waits only if all of them are younger.
#[test]
fn older_ones_wait_and_younger_ones_give_way() {
    let age = |ms| Age(WallMs(ms));
    let entry = |id, ms, state| {
        let (first, keys) = (FIRST, Keys::default());
        Entry { id: TransactionId(id), state, age: age(ms), at: NOW, first, keys, effect: b"", reply: b"" }
    };
    let mut locks = Locks::default();
    locks.vote(entry(1, 20, State::Shared));
    locks.vote(entry(2, 30, State::Shared));
    let of = |ms, writes| locks.may_vote(TransactionId(9), age(ms), writes);
    assert_eq!(of(10, true), Err(NotVoted::Waits(TransactionId(1))));
    assert_eq!(of(25, true), Err(NotVoted::Locked(TransactionId(1))), "one of them is older");
    assert_eq!(of(40, false), Ok(()), "readers do not hinder each other");
    let mut locks = Locks::default();
    locks.vote(entry(5, 20, State::Exclusive));
    let of = |id, ms| locks.may_vote(TransactionId(id), age(ms), false);
    assert_eq!(of(9, 10), Err(NotVoted::Waits(TransactionId(5))));
    assert_eq!(of(9, 20), Err(NotVoted::Locked(TransactionId(5))), "of one age, by the lower id");
    assert_eq!(of(4, 20), Err(NotVoted::Waits(TransactionId(5))));
}

/// Damaged values are no locks.
#[test]
fn values_are_read_whole_or_not_at_all() {
    let mut store = Store::default();
    store.prepare(FIRST);
    let value = &store.values[FIRST];
    assert!(Locks::read(value).is_some());
    for length in 0..value.len() {
        let read = Locks::read(&value[..length]);
        assert!(read.is_none_or(|locks| locks.entries().is_empty()), "{length} of {} bytes", value.len());
    }
    let mut of_later_layout = value.clone();
    of_later_layout[0] += 1;
    assert_eq!(Locks::read(&of_later_layout), None);
    let mut of_later_state = value.clone();
    of_later_state[17] = 99;
    assert_eq!(Locks::read(&of_later_state), None);
}
