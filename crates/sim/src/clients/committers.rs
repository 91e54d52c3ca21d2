//! Clients that run transactions over keys of several nodes, as the library does, and single commands on the
//! same keys.
//!
//! Some stop in the middle of a commit for ever: the nodes then end it. Some only pause there, and go on when
//! the nodes may have ended it.

use super::wires::{Ended, Wires, now};
use crate::clock::WALL_START_MS;
use crate::network::{Signal, StreamId};
use crate::process::client_address;
use crate::workload::{
    Draft, History, Ledgers, Place, account_key, balance_of, text_key, text_of, tokens_of,
};
use crate::world::{Actor, HostId, World};
use sidle_client_core::{Awareness, Class, Config, Destination, Effect};
use sidle_history::list_append::{Fate, Step};
use sidle_resp::Value;
use sidle_testbed::Random;
use sidle_txn::{Age, Attempt, Committing, Lost, Outcome, TransactionId};
use sidle_types::{HashedKey, WallMs};
use std::collections::BTreeMap;

/// The settings of these clients.
#[derive(Clone, Debug)]
pub struct CommittersSetup {
    /// What they change.
    pub ledgers: Ledgers,
    /// How many of them there are.
    pub rows: usize,
    /// The longest pause between two transactions of one of them.
    pub think_us: u64,
    /// The longest pause between what it reads and its commit.
    pub doubt_us: u64,
    /// How many of a thousand commits stop in the middle.
    pub stops_permille: u64,
    /// How many of a thousand pause in the middle.
    pub pauses_permille: u64,
    /// How many of a thousand lose a connection in the middle.
    pub breaks_permille: u64,
    /// Whether they are aware of migrations.
    pub awareness: Awareness,
    /// How long they wait for an answer.
    pub timeout_us: u64,
    /// The node that they ask first.
    pub seed: HostId,
}

/// How often one is tried at its age.
const TRIES: u32 = 8;
/// The longest pause in the middle of a commit: much longer than nodes wait until they help.
const PAUSE_US: (u64, u64) = (1_000, 5_000_000);
/// How many texts are read one after the other, at most.
const WALK: u64 = 6;

/// What befalls a commit when so many requests of it have ended.
#[derive(Clone, Copy)]
struct Fortune {
    after: u64,
    what: Befalls,
}

#[derive(Clone, Copy)]
enum Befalls {
    Stop,
    Pause(u64),
    Break,
}

/// A transaction in the making.
struct Making {
    draft: Draft,
    age: Age,
    tries: u32,
}

/// What one of them does.
enum Does {
    /// Nothing before this instant.
    Rests(u64),
    /// Begins it, again, then.
    Begins(u64, Making),
    /// Waits for what it reads first.
    Reads(Making, Vec<Option<Value>>),
    /// Has read it, and commits then.
    Doubts(u64, Making, Vec<Value>),
    /// Commits.
    Commits(Box<Commit>),
    /// Waits for the answer to a single command; of a read, the text, and how many it reads behind that.
    Single(Place, Option<(u64, u64)>),
    /// Reads an account in the end.
    Looks(u64),
}

struct Commit {
    making: Making,
    read: Vec<Value>,
    place: Place,
    committing: Committing,
    is_over_nodes: bool,
    ended: u64,
    fortune: Option<Fortune>,
    /// What came while it pauses.
    inbox: Vec<(u64, Ended)>,
    paused_until_us: u64,
    is_reported: bool,
}

struct Row {
    does: Does,
    /// Answers to what it asked before count no more.
    life: u64,
}

/// Where an answer belongs.
#[derive(Clone, Copy)]
struct Call {
    row: usize,
    life: u64,
    number: u64,
}

/// What is to be read in the end.
#[derive(Clone, Copy)]
enum Look {
    Text(u64),
    Account(u64),
}

/// The clients.
pub struct Committers {
    number: usize,
    setup: CommittersSetup,
    random: Random,
    wires: Wires,
    rows: Vec<Row>,
    calls: BTreeMap<u64, Call>,
    last_call: u64,
    is_stopped: bool,
    looks: Vec<Look>,
    is_reading_back: bool,
    /// How often each thing was met.
    pub met: BTreeMap<&'static str, u64>,
}

impl Committers {
    /// The clients, together one actor of the simulation.
    pub fn new(number: usize, setup: CommittersSetup, random: Random) -> Committers {
        let config = Config {
            awareness: setup.awareness,
            operation_timeout_us: setup.timeout_us,
            ..Config::new(vec![client_address(setup.seed)])
        };
        let wires = Wires::new(Actor::Client(number), config);
        let rows = (0..setup.rows).map(|_| Row { does: Does::Rests(0), life: 0 }).collect();
        Committers {
            number,
            setup,
            random,
            wires,
            rows,
            calls: BTreeMap::new(),
            last_call: 0,
            is_stopped: false,
            looks: Vec::new(),
            is_reading_back: false,
            met: BTreeMap::new(),
        }
    }

    /// Begins nothing from now on.
    pub fn stop(&mut self) {
        self.is_stopped = true;
    }

    /// What was acknowledged is lost: everything under way counts as never answered.
    pub fn lose(&mut self) {
        self.is_stopped = true;
        for row in &mut self.rows {
            (row.does, row.life) = (Does::Rests(0), row.life + 1);
        }
    }

    /// From now on they read everything, then are done.
    pub fn read_back(&mut self) {
        self.is_reading_back = true;
        self.looks = (0..self.setup.ledgers.texts).map(Look::Text).collect();
        self.looks.extend((0..self.setup.ledgers.accounts).map(Look::Account));
        let rows = self.rows.iter_mut().filter(|row| matches!(row.does, Does::Rests(_)));
        rows.for_each(|row| row.does = Does::Rests(0));
    }

    /// What is under way, in words; what waits to be read back, too.
    pub fn under_way(&self) -> Vec<String> {
        let rows = self.rows.iter().filter_map(|row| match &row.does {
            Does::Rests(_) | Does::Begins(..) | Does::Doubts(..) => None,
            Does::Reads(making, _) => Some(format!("what {:?} reads", making.draft)),
            Does::Commits(commit) => Some(format!("the commit of {:?}", commit.making.draft)),
            Does::Single(..) => Some("a command on a text".to_owned()),
            Does::Looks(account) => Some(format!("what account {account} has")),
        });
        let looks = (!self.looks.is_empty()).then(|| format!("{} keys to be read back", self.looks.len()));
        rows.chain(looks).collect()
    }

    /// They have a turn.
    pub fn turn(&mut self, world: &mut World, history: &mut History) -> Result<(), String> {
        self.wires.tick(world);
        for row in 0..self.rows.len() {
            self.turn_of(row, world, history)?;
        }
        self.go_on(world, history)
    }

    /// Something arrived.
    pub fn hear(
        &mut self,
        stream: StreamId,
        signal: Signal,
        world: &mut World,
        history: &mut History,
    ) -> Result<(), String> {
        self.wires.hear(stream, signal, world);
        self.go_on(world, history)
    }

    fn meet(&mut self, what: &'static str) {
        *self.met.entry(what).or_default() += 1;
    }

    fn turn_of(&mut self, row: usize, world: &mut World, history: &mut History) -> Result<(), String> {
        let now_us = world.now_us;
        let is_due = self.rows[row].does.next_us(now_us).is_some_and(|at_us| at_us <= now_us);
        if !is_due {
            return Ok(());
        }
        let does = std::mem::replace(&mut self.rows[row].does, Does::Rests(0));
        let does = match does {
            Does::Rests(_) if !self.looks.is_empty() => self.look(row, world, history),
            Does::Rests(_) | Does::Begins(..) | Does::Doubts(..) if self.is_stopped => Does::Rests(now_us),
            Does::Rests(_) if history.transactions.is_full() => Does::Rests(u64::MAX),
            Does::Rests(_) if self.random.one_in(4) => self.single(row, world, history),
            Does::Rests(_) => {
                let draft = Draft::draw(self.setup.ledgers, &mut self.random, &mut history.transactions);
                let age = Age(wall(now_us));
                self.read_first(row, Making { draft, age, tries: 1 }, world)
            }
            Does::Begins(_, making) => self.read_first(row, making, world),
            Does::Doubts(_, making, read) => self.commit(row, making, read, world, history)?,
            Does::Commits(commit) => self.course(row, commit, world, history)?,
            waits @ (Does::Reads(..) | Does::Single(..) | Does::Looks(_)) => waits,
        };
        self.rows[row].does = does;
        Ok(())
    }

    fn rest(&mut self, world: &World) -> Does {
        Does::Rests(world.now_us + 1 + self.random.below(self.setup.think_us + 1))
    }

    fn ask(&mut self, row: usize, number: u64, key: &str, words: Option<&[Vec<u8>]>, world: &World) {
        self.last_call += 1;
        let token = self.last_call;
        self.calls.insert(token, Call { row, life: self.rows[row].life, number });
        let (now, key) = (now(world), HashedKey::new(key.as_bytes()));
        let admitted = match words {
            None => self.wires.core.get(now, token, key),
            Some(words) => {
                let words: Vec<&[u8]> = words.iter().map(Vec::as_slice).collect();
                self.wires.core.submit(now, token, Class::Write, Destination::Key(key), &words)
            }
        };
        admitted.expect("a few operations are not many");
    }

    fn read_first(&mut self, row: usize, making: Making, world: &World) -> Does {
        let keys = making.draft.read_first();
        self.rows[row].life += 1;
        for (place, key) in keys.iter().enumerate() {
            self.ask(row, place as u64, key, None, world);
        }
        match keys.len() {
            0 => Does::Doubts(world.now_us, making, Vec::new()),
            count => Does::Reads(making, vec![None; count]),
        }
    }

    /// A command on a text, by itself.
    fn single(&mut self, row: usize, world: &World, history: &mut History) -> Does {
        let key = self.random.below(self.setup.ledgers.texts);
        self.rows[row].life += 1;
        let records = &mut history.transactions;
        if self.random.one_in(2) {
            // One right behind the other may see a transaction at one key and not at the next.
            let walk = self.random.below(WALK);
            return self.read(row, (key, walk), world, history);
        }
        let token = records.next_token();
        let place = records.begin_steps(vec![Step::Append { key, token }], world.now_us);
        let words = ["APPEND".to_owned(), text_key(key), text_of(token)].map(String::into_bytes);
        self.ask(row, 0, &text_key(key), Some(&words), world);
        Does::Single(place, None)
    }

    fn read(&mut self, row: usize, (key, walk): (u64, u64), world: &World, history: &mut History) -> Does {
        let place = history.transactions.begin_steps(Vec::new(), world.now_us);
        self.ask(row, 0, &text_key(key), None, world);
        Does::Single(place, Some((key, walk)))
    }

    fn look(&mut self, row: usize, world: &World, history: &mut History) -> Does {
        self.rows[row].life += 1;
        match self.looks.pop().expect("something is to be read back") {
            Look::Text(key) => self.read(row, (key, 0), world, history),
            Look::Account(account) => {
                self.ask(row, 0, &account_key(account), None, world);
                Does::Looks(account)
            }
        }
    }

    fn commit(
        &mut self,
        row: usize,
        making: Making,
        read: Vec<Value>,
        world: &mut World,
        history: &mut History,
    ) -> Result<Does, String> {
        let id = TransactionId(u128::from(self.random.draw()) << 64 | u128::from(self.random.draw()));
        let attempt = Attempt { id, age: making.age, issued: wall(world.now_us), keeps_errors: false };
        let commands = making.draft.commands(&read);
        let core = &self.wires.core;
        let owners: Vec<Option<usize>> = (commands.iter())
            .map(|command| core.owner_at(HashedKey::new(&command.words[1]).position()))
            .collect();
        let is_over_nodes = owners.iter().any(|owner| *owner != owners[0]);
        let committing = Committing::begin(now(world), attempt, commands, |at| core.owner_at(at));
        let committing = committing.expect("each of its commands has one key");
        let place = history.transactions.begin(&making.draft, &read, world.now_us)?;
        world.tell(|| format!("client {} commits {:?} as {id}", self.number, making.draft));
        let fortune = self.fortune();
        let commit = Commit {
            making,
            read,
            place,
            committing,
            is_over_nodes,
            ended: 0,
            fortune,
            inbox: Vec::new(),
            paused_until_us: 0,
            is_reported: false,
        };
        self.rows[row].life += 1;
        self.course(row, Box::new(commit), world, history)
    }

    fn fortune(&mut self) -> Option<Fortune> {
        let CommittersSetup { stops_permille, pauses_permille, breaks_permille, .. } = self.setup;
        let drawn = self.random.below(1000);
        let what = match drawn {
            _ if drawn < stops_permille => Befalls::Stop,
            _ if drawn < stops_permille + pauses_permille => {
                Befalls::Pause(self.random.magnitude(PAUSE_US.0, PAUSE_US.1))
            }
            _ if drawn < stops_permille + pauses_permille + breaks_permille => Befalls::Break,
            _ => return None,
        };
        Some(Fortune { after: self.random.below(12), what })
    }

    /// A commit goes on: what came is taken in, and what is to be sent is sent.
    fn course(
        &mut self,
        row: usize,
        mut commit: Box<Commit>,
        world: &mut World,
        history: &mut History,
    ) -> Result<Does, String> {
        let now_us = world.now_us;
        if commit.paused_until_us > now_us {
            return Ok(Does::Commits(commit));
        }
        let mut inbox = std::mem::take(&mut commit.inbox).into_iter();
        for (number, ended) in inbox.by_ref() {
            commit.ended += 1;
            let owner = |at| self.wires.core.owner_at(at);
            commit.committing.handle(now(world), number, &ended_with(ended), owner);
            if self.befalls(&mut commit, world) {
                return Ok(self.rest(world));
            }
            if commit.paused_until_us > now_us {
                break;
            }
        }
        commit.inbox = inbox.collect();
        commit.committing.handle_time(now(world));
        if self.befalls(&mut commit, world) {
            return Ok(self.rest(world));
        }
        // One that pauses has sent what it had in hand.
        while let Some(request) = commit.committing.poll_request() {
            let key = String::from_utf8_lossy(&request.key).into_owned();
            self.ask(row, request.number, &key, Some(&request.words), world);
        }
        let outcome = commit.committing.poll_outcome();
        if let Some(outcome) = outcome {
            commit.is_reported = true;
            self.report(&commit, outcome, world, history)?;
        }
        if commit.committing.is_contradicted() {
            return Err(format!("a key contradicts the decision of {:?}", commit.making.draft));
        }
        if !commit.committing.is_over() {
            return Ok(Does::Commits(commit));
        }
        Ok(self.after(*commit, world, history))
    }

    /// What befalls a commit now; whether its client stops for ever.
    fn befalls(&mut self, commit: &mut Commit, world: &mut World) -> bool {
        let Some(Fortune { what, .. }) = commit.fortune.take_if(|fortune| fortune.after <= commit.ended)
        else {
            return false;
        };
        match what {
            Befalls::Stop => {
                world.tell(|| {
                    format!("client {} stops in the middle of {:?}", self.number, commit.making.draft)
                });
                self.meet("clients that stopped in a commit");
                true
            }
            Befalls::Pause(us) => {
                commit.paused_until_us = world.now_us + us;
                self.meet("clients that paused in a commit");
                false
            }
            Befalls::Break => {
                if let Some(id) = self.wires.any_stream(world) {
                    let mut heard_us = || self.random.magnitude(1, 100_000);
                    let heard_us = [heard_us(), heard_us()];
                    world.break_off(id, heard_us);
                }
                false
            }
        }
    }

    fn report(
        &mut self,
        commit: &Commit,
        outcome: Outcome,
        world: &mut World,
        history: &mut History,
    ) -> Result<(), String> {
        let draft = &commit.making.draft;
        world.tell(|| format!("client {} has {draft:?}: {outcome:?}", self.number));
        let records = &mut history.transactions;
        match outcome {
            Outcome::Committed(parts) => {
                let replies = commit.committing.replies(&parts);
                let replies = replies.ok_or_else(|| format!("the replies of {draft:?} cannot be read"))?;
                records.commit((draft, commit.place), (&commit.read, &replies), world.now_us)?;
                self.meet(match (commit.is_over_nodes, draft) {
                    (true, Draft::Transfer(..)) => "transfers between nodes",
                    (true, _) => "transactions over nodes",
                    (false, _) => "transactions at one node",
                });
                if commit.making.tries > 1 {
                    self.meet("transactions tried again");
                }
            }
            Outcome::Aborted(why) => {
                records.end(commit.place, Fate::Aborted);
                self.meet(match why {
                    Lost::Locked(_) => "transactions that gave way",
                    Lost::Changed => "transactions of what had changed",
                    Lost::Failed(_) => "transactions that failed",
                    Lost::Refused => "transactions refused",
                    Lost::Late => "transactions too late",
                    Lost::Parted => "transactions whose part was parted",
                });
                if let Lost::Failed(error) = why {
                    check_failure(&error)?;
                }
            }
            Outcome::Unknown => self.meet("transactions of unknown fate"),
        }
        Ok(())
    }

    /// What follows a commit that is over.
    fn after(&mut self, commit: Commit, world: &World, history: &mut History) -> Does {
        let Commit { making: Making { draft, age, tries }, place, .. } = commit;
        let fate = match place {
            Place::Text(number) => history.transactions.texts[number].fate,
            Place::Transfer(number) => history.transactions.transfers[number].fate,
            Place::Nowhere => Fate::Unknown,
        };
        if fate != Fate::Aborted || tries >= TRIES {
            return self.rest(world);
        }
        let draft = draft.again(&mut history.transactions);
        let at_us = world.now_us + self.random.magnitude(1_000, 50_000);
        Does::Begins(at_us, Making { draft, age, tries: tries + 1 })
    }

    /// Takes in what ended, sends what is pending, and schedules the next turn.
    fn go_on(&mut self, world: &mut World, history: &mut History) -> Result<(), String> {
        let mut timeout_us = self.wires.pump(world);
        loop {
            let ended = self.wires.take_ended();
            if ended.is_empty() {
                break;
            }
            for (token, ended) in ended {
                let call = self.calls.remove(&token).expect("an operation ends once");
                if self.rows[call.row].life == call.life {
                    self.take(call, ended, world, history)?;
                }
            }
            timeout_us = self.wires.pump(world);
        }
        let now_us = world.now_us;
        let is_idle =
            |does: &Does| self.is_stopped && self.looks.is_empty() && !matches!(does, Does::Commits(_));
        let rows = self.rows.iter().filter(|row| !is_idle(&row.does));
        let due = rows.filter_map(|row| row.does.next_us(now_us)).filter(|at_us| *at_us < u64::MAX);
        if let Some(at_us) = due.map(|at_us| at_us.max(now_us + 1)).chain(timeout_us).min() {
            world.turn_at(Actor::Client(self.number), at_us);
        }
        Ok(())
    }

    fn take(
        &mut self,
        call: Call,
        ended: Ended,
        world: &mut World,
        history: &mut History,
    ) -> Result<(), String> {
        let does = std::mem::replace(&mut self.rows[call.row].does, Does::Rests(0));
        let records = &mut history.transactions;
        let does = match does {
            Does::Reads(making, mut read) => match reply_of(ended) {
                Some(reply) => {
                    read[call.number as usize] = Some(reply);
                    if read.iter().any(Option::is_none) {
                        Does::Reads(making, read)
                    } else {
                        let doubt_us = self.random.magnitude(1, self.setup.doubt_us);
                        Does::Doubts(world.now_us + doubt_us, making, read.into_iter().flatten().collect())
                    }
                }
                None => self.rest(world),
            },
            Does::Commits(mut commit) => {
                commit.inbox.push((call.number, ended));
                self.course(call.row, commit, world, history)?
            }
            Does::Single(place, Some((key, walk))) => {
                let reply = reply_of(ended);
                if self.is_reading_back && reply.is_none() {
                    self.looks.push(Look::Text(key));
                }
                match (reply, place) {
                    (Some(reply), Place::Text(number)) => {
                        records.texts[number].steps = vec![Step::Read { key, tokens: tokens_of(&reply)? }];
                        records.end(place, Fate::Committed(world.now_us));
                    }
                    _ => records.end(place, Fate::Aborted),
                }
                match walk {
                    1.. if !self.is_stopped => {
                        let next = (key + 1) % self.setup.ledgers.texts;
                        self.read(call.row, (next, walk - 1), world, history)
                    }
                    _ => self.rest(world),
                }
            }
            Does::Single(place, None) => {
                records.end(place, fate_of(&ended, world.now_us));
                self.rest(world)
            }
            Does::Looks(account) => {
                match reply_of(ended) {
                    Some(reply) => _ = records.left.insert(account, balance_of(&reply)?),
                    None => self.looks.push(Look::Account(account)),
                }
                self.rest(world)
            }
            other @ (Does::Rests(_) | Does::Begins(..) | Does::Doubts(..)) => other,
        };
        self.rows[call.row].does = does;
        Ok(())
    }
}

impl Does {
    /// When it goes on though nothing arrives.
    fn next_us(&self, now_us: u64) -> Option<u64> {
        match self {
            Does::Rests(at_us) | Does::Begins(at_us, _) | Does::Doubts(at_us, ..) => Some(*at_us),
            Does::Commits(commit) if commit.paused_until_us > now_us => Some(commit.paused_until_us),
            Does::Commits(commit) if !commit.inbox.is_empty() => Some(now_us),
            Does::Commits(commit) => commit.committing.poll_timeout().map(|at| at.0),
            Does::Reads(..) | Does::Single(..) | Does::Looks(_) => None,
        }
    }
}

fn wall(now_us: u64) -> WallMs {
    WallMs(WALL_START_MS + now_us / 1000)
}

/// What a read was answered, unless with an error.
fn reply_of(ended: Ended) -> Option<Value> {
    match ended {
        Ended::Reply(Value::Error(_)) | Ended::Failed(_) => None,
        Ended::Reply(reply) => Some(reply),
    }
}

/// What became of a single write.
fn fate_of(ended: &Ended, now_us: u64) -> Fate {
    match ended {
        Ended::Failed(Effect::None) => Fate::Aborted,
        Ended::Failed(_) => Fate::Unknown,
        Ended::Reply(Value::Error(text)) if text.starts_with(sidle_node::UNKNOWN) => Fate::Unknown,
        Ended::Reply(Value::Error(_)) => Fate::Aborted,
        Ended::Reply(_) => Fate::Committed(now_us),
    }
}

/// As the library has it.
fn ended_with(ended: Ended) -> sidle_txn::Ended {
    match ended {
        Ended::Reply(reply) => sidle_txn::Ended::Reply(reply),
        Ended::Failed(Effect::None) => sidle_txn::Ended::NotRun,
        Ended::Failed(_) => sidle_txn::Ended::Lost,
    }
}

/// Whether a transaction may fail so.
fn check_failure(error: &[u8]) -> Result<(), String> {
    let text = String::from_utf8_lossy(error);
    let code = text.split(' ').next().unwrap_or_default();
    match code {
        "OOM" | "MISCONF" | "NOREPLICAS" | "CLUSTERDOWN" | "LOADING" => Ok(()),
        _ => Err(format!("a part was answered {text}")),
    }
}
