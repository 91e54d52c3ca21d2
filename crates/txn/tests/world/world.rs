//! The world: virtual time, a network, moves, deaths, and the judge.

use crate::client::{Draft, called};
use crate::node::{Commands, Node, Prepared, Value, key_named};
use sidle_history::list_append::{Fate, Step, Transaction, check};
use sidle_testbed::{Random, TimeQueue};
use sidle_txn::{
    Age, Answer, Coordinator, Locks, Lost, Outcome, Request, State, Status, TransactionId, Vote,
};
use sidle_types::{MonotonicUs, WallMs};
use std::collections::{BTreeMap, BTreeSet};

/// How many keys there are.
pub(crate) const KEYS: u64 = 5;
/// How many nodes.
const NODES: usize = 3;
/// How many clients.
const CLIENTS: u64 = 4;
/// When nothing new begins any more.
const ENDS_US: u64 = 6_000_000;
/// When everything must be over: what is kept for minutes included.
const OVER_US: u64 = ENDS_US + 1_200_000_000;
/// A part waits so long at most.
const WAITS_US: u64 = 2_000_000;
/// How often a node looks for transactions whose coordinator is gone.
const LOOK_US: u64 = 300_000;

/// What the seeds have met.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Met {
    pub(crate) committed: u64,
    pub(crate) committed_over_parts: u64,
    pub(crate) locked: u64,
    pub(crate) waited: u64,
    pub(crate) changed: u64,
    pub(crate) refused: u64,
    pub(crate) unknown: u64,
    pub(crate) died: u64,
    pub(crate) late: u64,
    pub(crate) helped: u64,
    pub(crate) helped_commits: u64,
    pub(crate) moved_while_locked: u64,
    pub(crate) replies_found: u64,
}

impl Met {
    pub(crate) fn add(&mut self, more: Met) {
        self.committed += more.committed;
        self.committed_over_parts += more.committed_over_parts;
        self.locked += more.locked;
        self.waited += more.waited;
        self.changed += more.changed;
        self.refused += more.refused;
        self.unknown += more.unknown;
        self.died += more.died;
        self.late += more.late;
        self.helped += more.helped;
        self.helped_commits += more.helped_commits;
        self.moved_while_locked += more.moved_while_locked;
        self.replies_found += more.replies_found;
    }
}

/// A coordinator, a client's or a node's, and what it has sent.
struct Actor {
    coordinator: Coordinator,
    /// Of a client's: its commands, whose it is, and where it stands in the history.
    commands: Vec<Commands>,
    number: Option<(u64, usize)>,
    /// Of a node's: which node.
    at: Option<usize>,
    /// Requests without an answer, by the number of the message.
    open: BTreeMap<u64, Request>,
    last_message: u64,
    wakes_at: Option<u64>,
}

enum Event {
    /// A client begins another transaction.
    Begin {
        client: u64,
    },
    /// A client reads the next key of its draft, or a key alone.
    Read {
        client: u64,
    },
    /// A request arrives at whoever owned its key when it was sent.
    Arrives {
        message: Message,
        node: usize,
    },
    /// An answer arrives.
    Answered {
        actor: u64,
        message: u64,
        answer: Reply,
    },
    /// Whoever sent it waits no longer.
    Missing {
        actor: u64,
        message: u64,
    },
    /// An actor's timer.
    Wakes {
        actor: u64,
    },
    /// A node looks for transactions to help.
    Looks {
        node: usize,
    },
    Crashes {
        node: usize,
    },
    Starts {
        node: usize,
    },
    Moves,
}

/// A request under way: it arrives whatever has become of whoever sent it.
struct Message {
    actor: u64,
    number: u64,
    request: Request,
    id: TransactionId,
    key: u64,
    commands: Option<Commands>,
    /// How long it may wait for others at its node.
    waits_until: u64,
}

enum Reply {
    Vote(usize, Option<Vote>),
    Status(usize, Vec<u8>),
    Done(usize, bool),
}

pub(crate) struct World {
    random: Random,
    queue: TimeQueue<Event>,
    nodes: Vec<Node>,
    owners: Vec<usize>,
    actors: BTreeMap<u64, Actor>,
    drafts: BTreeMap<u64, Draft>,
    history: Vec<Transaction>,
    last_actor: u64,
    last_token: u64,
    /// Per mille of messages that are lost; other trouble in proportion.
    trouble: u64,
    /// Whether what clients send takes long, so that nodes help while they go on.
    slow_clients: bool,
    /// Of clients whose last transaction gave way: its age.
    ages: BTreeMap<u64, Age>,
    /// Transactions that nodes help, so that one node does not begin twice.
    helped: BTreeSet<(usize, TransactionId)>,
    met: Met,
}

impl World {
    pub(crate) fn new(seed: u64) -> World {
        let mut random = Random::new(seed);
        let mut nodes: Vec<Node> = (0..NODES).map(|_| Node::new(&mut random)).collect();
        let owners: Vec<usize> = (0..KEYS).map(|_| random.index(NODES)).collect();
        for (key, &owner) in owners.iter().enumerate() {
            nodes[owner].keys.insert(key as u64, Value::default());
        }
        let mut queue = TimeQueue::default();
        (0..CLIENTS).for_each(|client| queue.push(random.below(100_000), Event::Begin { client }));
        (0..NODES).for_each(|node| queue.push(random.below(LOOK_US), Event::Looks { node }));
        let trouble = [0, 5, 30, 100][random.index(4)];
        let slow_clients = random.one_in(3);
        if trouble > 0 {
            queue.push(random.below(5_000_000), Event::Crashes { node: random.index(NODES) });
        }
        queue.push(random.below(1_000_000), Event::Moves);
        World {
            random,
            queue,
            nodes,
            owners,
            actors: BTreeMap::new(),
            drafts: BTreeMap::new(),
            history: Vec::new(),
            last_actor: 0,
            last_token: 0,
            trouble,
            slow_clients,
            ages: BTreeMap::new(),
            helped: BTreeSet::new(),
            met: Met::default(),
        }
    }

    fn is_ending(&self) -> bool {
        self.queue.now() >= ENDS_US
    }

    fn happens(&mut self, in_proportion: u64) -> bool {
        !self.is_ending() && self.random.permille(self.trouble * in_proportion / 10)
    }

    pub(crate) fn run(mut self) -> Met {
        while let Some(event) = self.queue.pop_due(OVER_US) {
            self.take(event);
        }
        self.judge();
        self.met
    }

    fn take(&mut self, event: Event) {
        match event {
            Event::Begin { client } => self.begin(client),
            Event::Read { client } => self.read(client),
            Event::Arrives { message, node } => self.arrive(message, node),
            Event::Answered { actor, message, answer } => self.answer(actor, message, answer),
            Event::Missing { actor, message } => self.miss(actor, message),
            Event::Wakes { actor } => self.wake(actor),
            Event::Looks { node } => self.look(node),
            Event::Crashes { node } => self.crash(node),
            Event::Starts { node } => self.nodes[node].is_up = true,
            Event::Moves => self.move_key(),
        }
    }

    fn begin(&mut self, client: u64) {
        if self.is_ending() {
            return;
        }
        let draft = Draft::new(&mut self.random, self.history.len(), &mut self.last_token);
        self.history.push(called(self.queue.now(), Vec::new()));
        self.drafts.insert(client, draft);
        self.queue.push(self.queue.now(), Event::Read { client });
    }

    /// Reads a key, which is a transaction of its own as well.
    fn read(&mut self, client: u64) {
        let Some(mut draft) = self.drafts.remove(&client) else { return };
        let key = draft.keys[draft.read.len()];
        let at = self.queue.now();
        let node = &mut self.nodes[self.owners[key as usize]];
        let (now, is_up) = (node.now(at), node.is_up);
        if let Some(tokens) = is_up.then(|| node.read(key, now)).flatten() {
            let fate = Fate::Committed(at + 1);
            self.history.push(Transaction {
                call: at,
                fate,
                steps: vec![Step::Read { key, tokens: tokens.clone() }],
            });
            draft.read.push(tokens);
        } else if self.is_ending() {
            self.history[draft.number].fate = Fate::Aborted;
            return;
        }
        if draft.read.len() < draft.keys.len() {
            self.drafts.insert(client, draft);
            let pause = self.random.magnitude(50, 2_000);
            return self.queue.push(at + pause, Event::Read { client });
        }
        self.commit(client, draft);
        let pause = self.random.magnitude(500, 500_000);
        self.queue.push(at + pause, Event::Begin { client });
    }

    fn commit(&mut self, client: u64, draft: Draft) {
        let (number, at) = (draft.number, self.queue.now());
        self.history[number].steps = draft.steps();
        let id = TransactionId(u128::from(self.random.draw()));
        let issued = WallMs(1_000_000_000 + at / 1_000);
        // One that gave way comes back at its age.
        let age = self.ages.remove(&client).unwrap_or(Age(issued));
        let owners = self.owners.clone();
        let (coordinator, commands) =
            draft.commit(MonotonicUs(at), issued, age, id, |key| owners[key as usize]);
        self.add(coordinator, commands, Some((client, number)), None);
    }

    fn add(
        &mut self,
        coordinator: Coordinator,
        commands: Vec<Commands>,
        number: Option<(u64, usize)>,
        at: Option<usize>,
    ) {
        self.last_actor += 1;
        let actor = Actor {
            coordinator,
            commands,
            number,
            at,
            open: BTreeMap::new(),
            last_message: 0,
            wakes_at: None,
        };
        self.actors.insert(self.last_actor, actor);
        self.go_on(self.last_actor);
    }

    /// Sends what a coordinator has to send, and takes what has become of its transaction.
    fn go_on(&mut self, number: u64) {
        let now = self.queue.now();
        let Some(mut actor) = self.actors.remove(&number) else { return };
        while let Some(request) = actor.coordinator.poll_request() {
            self.send(number, &mut actor, request);
        }
        assert!(!actor.coordinator.is_contradicted(), "X3: a key was told two decisions");
        if let Some(outcome) = actor.coordinator.poll_outcome() {
            self.note(&actor, outcome);
        }
        if actor.coordinator.is_over() {
            if let Some(node) = actor.at {
                self.helped.remove(&(node, actor.coordinator.id()));
            }
            return;
        }
        if let Some(at) = actor.coordinator.poll_timeout()
            && actor.wakes_at.is_none_or(|known| known > at.0 || known <= now)
        {
            actor.wakes_at = Some(at.0);
            self.queue.push(at.0, Event::Wakes { actor: number });
        }
        // Its client dies.
        if actor.number.is_some() && self.happens(2) {
            self.met.died += 1;
            return;
        }
        self.actors.insert(number, actor);
    }

    fn send(&mut self, number: u64, actor: &mut Actor, request: Request) {
        let now = self.queue.now();
        actor.last_message += 1;
        let message = actor.last_message;
        actor.open.insert(message, request);
        let commands = match request {
            Request::Prepare(part) => Some(actor.commands[part].clone()),
            _ => None,
        };
        let key = match request {
            Request::Prepare(part) => actor.commands[part].steps[0].0,
            Request::Resolve(key)
            | Request::Decide { key, .. }
            | Request::Forget(key)
            | Request::Settle(key) => key_named(actor.coordinator.key(key)),
        };
        let node = self.owners[key as usize];
        let is_slow = self.slow_clients && actor.at.is_none();
        let slowest = if is_slow { 3_000_000 } else { 5_000 };
        let mut delay = self.random.magnitude(50, slowest);
        if self.happens(10) {
            // Mostly later than anybody waits for.
            delay = self.random.magnitude(100_000, 400_000_000);
            self.met.late += 1;
        }
        if !self.happens(10) {
            let id = actor.coordinator.id();
            let waits_until = now + delay + WAITS_US;
            let message = Message { actor: number, number: message, request, id, key, commands, waits_until };
            self.queue.push(now + delay, Event::Arrives { message, node });
        }
        let patience = self.random.between(10 * slowest, 20 * slowest);
        self.queue.push(now + patience, Event::Missing { actor: number, message });
    }

    /// A node carries a request out, or, where the key is not its own, answers nothing of use.
    fn arrive(&mut self, message: Message, at: usize) {
        let Message { actor, number, request, id, key, ref commands, waits_until } = message;
        let may_wait = self.queue.now() < waits_until;
        let node = &mut self.nodes[at];
        let now = node.now(self.queue.now());
        if !node.is_up {
            return;
        }
        let is_own = node.keys.contains_key(&key);
        let answer = match request {
            Request::Prepare(part) => {
                let commands = commands.as_ref().expect("a part has commands");
                match node.prepare(commands, now, may_wait) {
                    Prepared::Voted(vote) => Reply::Vote(part, Some(vote)),
                    Prepared::NotRun => Reply::Vote(part, None),
                    Prepared::Waits => {
                        self.met.waited += 1;
                        let again = self.queue.now() + 1_000;
                        return self.queue.push(again, Event::Arrives { message, node: at });
                    }
                }
            }
            _ if !is_own => return,
            Request::Resolve(place) => Reply::Status(place, node.resolve(key, id, now).value),
            Request::Decide { key: place, commits } => {
                let is_contradicted = node.decide(key, id, commits, now);
                Reply::Done(place, is_contradicted)
            }
            Request::Forget(place) => {
                node.with_locks(key, now, |locks| locks.forget(id));
                Reply::Done(place, false)
            }
            Request::Settle(place) => {
                node.with_locks(key, now, |locks| locks.settle(id, now));
                Reply::Done(place, false)
            }
        };
        if !self.happens(10) {
            let delay = self.random.magnitude(50, 5_000);
            let event = Event::Answered { actor, message: number, answer };
            self.queue.push(self.queue.now() + delay, event);
        }
    }

    fn answer(&mut self, number: u64, message: u64, reply: Reply) {
        let now = MonotonicUs(self.queue.now());
        let Some(actor) = self.actors.get_mut(&number) else { return };
        if actor.open.remove(&message).is_none() {
            // Nobody waits for it any more.
            return;
        }
        let answer = match &reply {
            Reply::Vote(part, Some(vote)) => Answer::Vote(*part, vote.clone()),
            Reply::Vote(part, None) => {
                // Its keys lie at several nodes now: a client begins anew.
                let steps = &actor.commands[*part].steps;
                let owner = self.owners[steps[0].0 as usize];
                if steps.iter().all(|&(key, ..)| self.owners[key as usize] == owner) {
                    Answer::NotRun(*part)
                } else {
                    Answer::Vote(*part, Vote::No(Lost::Late))
                }
            }
            Reply::Status(place, value) => {
                let locks =
                    if value.is_empty() { Locks::default() } else { Locks::read(value).expect("whole") };
                let status = locks.entries().first().map_or(Status::Refused, |entry| match entry.state {
                    State::Committed => Status::Committed(*entry),
                    _ => Status::Prepared(*entry),
                });
                if let Status::Committed(entry) | Status::Prepared(entry) = status
                    && !entry.reply.is_empty()
                    && actor.at.is_none()
                {
                    self.met.replies_found += 1;
                }
                actor.coordinator.handle(now, Answer::Status(*place, status));
                return self.go_on(number);
            }
            Reply::Done(place, true) => Answer::Contradicted(*place),
            Reply::Done(place, false) => Answer::Done(*place),
        };
        actor.coordinator.handle(now, answer);
        self.go_on(number);
    }

    fn miss(&mut self, number: u64, message: u64) {
        let now = MonotonicUs(self.queue.now());
        let Some(actor) = self.actors.get_mut(&number) else { return };
        if let Some(request) = actor.open.remove(&message) {
            actor.coordinator.handle(now, Answer::Missing(request));
            self.go_on(number);
        }
    }

    fn wake(&mut self, number: u64) {
        if let Some(actor) = self.actors.get_mut(&number) {
            actor.wakes_at = None;
            actor.coordinator.handle_time(MonotonicUs(self.queue.now()));
            self.go_on(number);
        }
    }

    fn note(&mut self, actor: &Actor, outcome: Outcome) {
        let Some((client, number)) = actor.number else {
            self.met.helped += 1;
            self.met.helped_commits += u64::from(matches!(outcome, Outcome::Committed(_)));
            return;
        };
        self.history[number].fate = match outcome {
            Outcome::Committed(replies) => {
                for (part, reply) in replies.iter().enumerate() {
                    let keys = actor.commands[part].steps.iter().map(|&(key, ..)| key as u8);
                    assert_eq!(*reply, keys.collect::<Vec<u8>>(), "the replies of a part are its own");
                }
                self.met.committed += 1;
                self.met.committed_over_parts += u64::from(replies.len() > 1);
                Fate::Committed(self.queue.now())
            }
            Outcome::Aborted(why) => {
                match why {
                    Lost::Locked(_) => {
                        self.ages.insert(client, actor.commands[0].age);
                        self.met.locked += 1;
                    }
                    Lost::Changed => self.met.changed += 1,
                    Lost::Refused => self.met.refused += 1,
                    Lost::Failed(_) | Lost::Late | Lost::Parted => {}
                }
                Fate::Aborted
            }
            Outcome::Unknown => {
                self.met.unknown += 1;
                Fate::Unknown
            }
        };
    }

    /// X9: a node goes on with what lies at its keys for long.
    fn look(&mut self, at: usize) {
        // In the end only what takes minutes is left.
        let pause = if self.queue.now() > ENDS_US + 120_000_000 { 100 * LOOK_US } else { LOOK_US };
        self.queue.push(self.queue.now() + pause, Event::Looks { node: at });
        let node = &mut self.nodes[at];
        if !node.is_up {
            return;
        }
        let now = node.now(self.queue.now());
        let mut helpers = Vec::new();
        for key in node.keys.keys().copied().collect::<Vec<_>>() {
            let name = crate::node::name(key);
            node.with_locks(key, now, |locks| {
                for entry in locks.in_need_of_help(&name, now) {
                    helpers.push((entry.id, Coordinator::in_place_of(entry.id, &name, entry.first)));
                }
            });
        }
        for (id, helper) in helpers {
            if self.helped.insert((at, id)) {
                self.add(helper, Vec::new(), None, Some(at));
            }
        }
    }

    fn crash(&mut self, at: usize) {
        if self.is_ending() || !self.nodes[at].is_up {
            return;
        }
        self.nodes[at].is_up = false;
        self.actors.retain(|_, actor| actor.at != Some(at));
        self.helped.retain(|&(node, _)| node != at);
        let now = self.queue.now();
        let longest = if self.random.one_in(10) { 90_000_000 } else { 4_000_000 };
        let away = self.random.magnitude(10_000, longest);
        self.queue.push(now + away, Event::Starts { node: at });
        let pause = self.random.magnitude(100_000, 4_000_000);
        let again = now + away.min(4_000_000) + pause;
        self.queue.push(again, Event::Crashes { node: self.random.index(NODES) });
    }

    /// A key moves to another node, with all that transactions have there (X7).
    fn move_key(&mut self) {
        if self.is_ending() {
            return;
        }
        let pause = self.random.magnitude(1_000, 2_000_000);
        self.queue.push(self.queue.now() + pause, Event::Moves);
        let (key, to) = (self.random.below(KEYS), self.random.index(NODES));
        let from = self.owners[key as usize];
        if from == to || !self.nodes[from].is_up || !self.nodes[to].is_up {
            return;
        }
        let value = self.nodes[from].keys.remove(&key).expect("it is this node's");
        if let Some(locks) = &value.locks {
            let locks = Locks::read(locks).expect("whole");
            self.met.moved_while_locked += u64::from(locks.awaited(true).is_some());
        }
        self.nodes[to].keys.insert(key, value);
        self.owners[key as usize] = to;
    }

    /// Nothing is left, and all that was read can be explained.
    fn judge(&mut self) {
        let mut steps = Vec::new();
        let at = OVER_US;
        for node in 0..NODES {
            let now = self.nodes[node].now(at);
            for key in self.nodes[node].keys.keys().copied().collect::<Vec<_>>() {
                self.nodes[node].with_locks(key, now, |locks| {
                    assert_eq!(locks.entries(), [], "key {key} keeps what is over");
                });
                let tokens = self.nodes[node].keys[&key].tokens.clone();
                steps.push(Step::Read { key, tokens });
            }
        }
        assert!(self.actors.is_empty(), "a coordinator goes on for ever");
        self.history.push(Transaction { call: at, fate: Fate::Committed(at + 1), steps });
        if let Err(violation) = check(&self.history) {
            panic!("{violation}");
        }
    }
}
