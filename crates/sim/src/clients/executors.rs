//! Clients without the library that change texts by MULTI and EXEC, whichever nodes have these
//! (`CLIENT CAPA cross-slot`), some only if they are as they were read: WATCH.

use super::caller::{Caller, Heard, hear_for_one};
use crate::network::{Signal, StreamId};
use crate::workload::{Draft, History, Ledgers, Place, Records, text_key, text_of, tokens_of};
use crate::world::{Actor, World};
use sidle_history::list_append::{Fate, Step};
use sidle_resp::Value;
use sidle_testbed::Random;
use std::collections::BTreeMap;

/// The settings of these clients.
#[derive(Clone, Debug)]
pub struct ExecutorsSetup {
    /// What they change.
    pub ledgers: Ledgers,
    /// How many of them there are.
    pub rows: usize,
    /// The longest pause between two transactions of one of them.
    pub think_us: u64,
    /// The longest pause between what it reads and EXEC.
    pub doubt_us: u64,
    /// How many nodes there are.
    pub nodes: usize,
}

/// The first words of an error of EXEC that has had no effect.
const REFUSALS: [&str; 9] = [
    "EXECABORT",
    "TRYAGAIN",
    "CLUSTERDOWN",
    "LOADING",
    "OOM",
    "MISCONF",
    "NOREPLICAS",
    "MOVED",
    "SIDLESPLIT",
];

/// What one of them does.
enum Does {
    /// Nothing before this instant.
    Rests(u64),
    /// Waits for WATCH.
    Watches(Draft),
    /// Waits for what it reads, one text after the other.
    Reads(Draft, Vec<Value>),
    /// Has read it, and goes on then.
    Doubts(u64, Draft, Vec<Value>),
    /// Waits for EXEC.
    Executes(Draft, Vec<Value>, Place),
}

/// One of them, with the connection of its transactions and another one for what it reads.
struct Row {
    does: Does,
    lines: [Caller; 2],
}

const TRANSACTIONS: usize = 0;
const READS: usize = 1;

/// The clients.
pub struct Executors {
    number: usize,
    setup: ExecutorsSetup,
    random: Random,
    rows: Vec<Row>,
    is_stopped: bool,
    /// How often each thing was met.
    pub met: BTreeMap<&'static str, u64>,
}

impl Executors {
    /// The clients, together one actor of the simulation.
    pub fn new(number: usize, setup: ExecutorsSetup, random: Random) -> Executors {
        let line = || Caller::new(Actor::Client(number), setup.nodes);
        let row = |_| Row { does: Does::Rests(0), lines: [line(), line()] };
        let rows = (0..setup.rows).map(row).collect();
        Executors { number, setup, random, rows, is_stopped: false, met: BTreeMap::new() }
    }

    /// Begins nothing from now on.
    pub fn stop(&mut self) {
        self.is_stopped = true;
    }

    /// What was acknowledged is lost: everything under way counts as never answered.
    pub fn lose(&mut self) {
        self.is_stopped = true;
        self.rows.iter_mut().for_each(|row| row.does = Does::Rests(0));
    }

    /// What is under way, in words.
    pub fn under_way(&self) -> Vec<String> {
        let executes = |row: &Row| match &row.does {
            Does::Executes(draft, ..) => Some(format!("the EXEC of {draft:?}")),
            Does::Watches(draft) | Does::Reads(draft, _) => Some(format!("what {draft:?} reads")),
            Does::Rests(_) | Does::Doubts(..) => None,
        };
        self.rows.iter().filter_map(executes).collect()
    }

    fn meet(&mut self, what: &'static str) {
        *self.met.entry(what).or_default() += 1;
    }

    /// They have a turn.
    pub fn turn(&mut self, world: &mut World, history: &mut History) -> Result<(), String> {
        let now_us = world.now_us;
        for number in 0..self.rows.len() {
            if self.rows[number].does.next_us().is_none_or(|at_us| at_us > now_us) {
                continue;
            }
            let does = std::mem::replace(&mut self.rows[number].does, Does::Rests(0));
            self.rows[number].does = match does {
                Does::Rests(_) | Does::Doubts(..) if self.is_stopped => Does::Rests(now_us),
                Does::Rests(_) if history.transactions.is_full() => Does::Rests(u64::MAX),
                Does::Rests(_) => self.begin(number, world, history)?,
                Does::Doubts(_, draft, read) => self.execute(number, draft, read, world, history)?,
                waits => waits,
            };
        }
        self.schedule(world);
        Ok(())
    }

    fn rest(&mut self, world: &World) -> Does {
        Does::Rests(world.now_us + 1 + self.random.below(self.setup.think_us + 1))
    }

    fn begin(&mut self, number: usize, world: &mut World, history: &mut History) -> Result<Does, String> {
        let draft = loop {
            match Draft::draw(self.setup.ledgers, &mut self.random, &mut history.transactions) {
                // Redis's EXEC applies what is left where one of its commands fails.
                Draft::Transfer(..) => {}
                Draft::Read(keys) if keys.iter().all(|(_, token)| token.is_none()) => {}
                draft => break draft,
            }
        };
        let watched = match &draft {
            Draft::Read(_) => draft.read_first(),
            Draft::Within(_) | Draft::Sum(_) | Draft::Transfer(..) => Vec::new(),
        };
        if watched.is_empty() {
            return self.execute(number, draft, Vec::new(), world, history);
        }
        let watch = ["WATCH".to_owned()].into_iter().chain(watched).collect();
        self.rows[number].lines[TRANSACTIONS].ask(&[capable(), words(&["UNWATCH"]), watch], world);
        Ok(Does::Watches(draft))
    }

    fn execute(
        &mut self,
        number: usize,
        draft: Draft,
        read: Vec<Value>,
        world: &mut World,
        history: &mut History,
    ) -> Result<Does, String> {
        let place = match &draft {
            Draft::Sum(_) => Place::Nowhere,
            _ => history.transactions.begin(&draft, &read, world.now_us)?,
        };
        world.tell(|| format!("client {} executes {draft:?}", self.number));
        let mut requests = vec![capable()];
        if !matches!(draft, Draft::Read(_)) {
            // It may have watched something and given it up.
            requests.push(words(&["UNWATCH"]));
        }
        requests.push(words(&["MULTI"]));
        requests.extend(commands(&draft));
        requests.push(words(&["EXEC"]));
        self.rows[number].lines[TRANSACTIONS].ask(&requests, world);
        Ok(Does::Executes(draft, read, place))
    }

    /// Something arrived.
    pub fn hear(
        &mut self,
        stream: StreamId,
        signal: Signal,
        world: &mut World,
        history: &mut History,
    ) -> Result<(), String> {
        let lines = self.rows.iter_mut().flat_map(|row| &mut row.lines);
        let heard = hear_for_one(lines, (stream, signal), &mut self.random, world)?;
        let Some((line, heard)) = heard else { return Ok(()) };
        let (number, line) = (line / 2, line % 2);
        let does = std::mem::replace(&mut self.rows[number].does, Does::Rests(0));
        self.rows[number].does = match (does, line, heard) {
            (does, _, Heard::Nothing) => does,
            (Does::Watches(draft), TRANSACTIONS, Heard::Answers(answers)) => match answers.last() {
                Some(Value::Simple(ok)) if ok == "OK" => self.read(number, draft, Vec::new(), world),
                _ => self.rest(world),
            },
            (Does::Reads(draft, mut read), READS, Heard::Answers(mut answers)) => match answers.pop() {
                Some(Value::Error(error)) => {
                    let wait_us = self.rows[number].lines[READS].follow(&error, &mut self.random, world);
                    match wait_us {
                        Some(0) => self.read(number, draft, read, world),
                        _ => self.rest(world),
                    }
                }
                Some(value) => {
                    read.push(value);
                    self.read(number, draft, read, world)
                }
                None => self.rest(world),
            },
            (Does::Executes(draft, read, place), TRANSACTIONS, Heard::Answers(answers)) => {
                self.executed((&draft, &read), place, answers.last(), world, &mut history.transactions)?;
                self.rest(world)
            }
            // Of an EXEC nobody knows more. A WATCH is gone with its connection.
            (_, TRANSACTIONS, Heard::Gone) => self.rest(world),
            (Does::Reads(..), READS, Heard::Gone) => self.rest(world),
            // It was given up.
            (does, _, _) => does,
        };
        self.schedule(world);
        Ok(())
    }

    /// Reads the next text, if there is another one to be read.
    fn read(&mut self, number: usize, draft: Draft, read: Vec<Value>, world: &mut World) -> Does {
        match draft.read_first().get(read.len()) {
            Some(key) => {
                self.rows[number].lines[READS].ask(&[words(&["GET", key])], world);
                Does::Reads(draft, read)
            }
            None => {
                let doubt_us = self.random.magnitude(1, self.setup.doubt_us);
                Does::Doubts(world.now_us + doubt_us, draft, read)
            }
        }
    }

    /// EXEC was answered.
    fn executed(
        &mut self,
        (draft, read): (&Draft, &[Value]),
        place: Place,
        answer: Option<&Value>,
        world: &mut World,
        records: &mut Records,
    ) -> Result<(), String> {
        world.tell(|| format!("client {} has its EXEC of {draft:?}: {answer:?}", self.number));
        let is_watched = matches!(draft, Draft::Read(_));
        match answer {
            Some(Value::Array(replies)) => {
                ran(draft, read, replies, place, records)?;
                records.end(place, Fate::Committed(world.now_us));
                self.meet(if is_watched { "EXECs of what was watched" } else { "EXECs of texts" });
                Ok(())
            }
            Some(Value::Null) if is_watched => {
                records.end(place, Fate::Aborted);
                self.meet("EXECs of what had changed");
                Ok(())
            }
            Some(Value::Error(error)) if error.starts_with(sidle_node::UNKNOWN) => {
                self.meet("EXECs of unknown fate");
                Ok(())
            }
            Some(Value::Error(error)) if REFUSALS.iter().any(|code| error.starts_with(code)) => {
                records.end(place, Fate::Aborted);
                self.meet("EXECs refused");
                Ok(())
            }
            other => Err(format!("EXEC of {draft:?} was answered {other:?}")),
        }
    }

    fn schedule(&self, world: &mut World) {
        let due = |row: &Row| row.does.next_us().filter(|at_us| !self.is_stopped && *at_us < u64::MAX);
        if let Some(at_us) = self.rows.iter().filter_map(due).min() {
            world.turn_at(Actor::Client(self.number), at_us.max(world.now_us + 1));
        }
    }
}

impl Does {
    fn next_us(&self) -> Option<u64> {
        match self {
            Does::Rests(at_us) | Does::Doubts(at_us, ..) => Some(*at_us),
            Does::Watches(_) | Does::Reads(..) | Does::Executes(..) => None,
        }
    }
}

/// The commands between MULTI and EXEC.
fn commands(draft: &Draft) -> Vec<Vec<String>> {
    let append = |key: u64, token: u64| words(&["APPEND", &text_key(key), &text_of(token)]);
    match draft {
        Draft::Read(keys) => keys.iter().filter_map(|&(key, token)| Some(append(key, token?))).collect(),
        Draft::Within(keys) => {
            let each = |&(key, token): &(u64, u64)| [append(key, token), words(&["GET", &text_key(key)])];
            keys.iter().flat_map(each).collect()
        }
        Draft::Sum(_) | Draft::Transfer(..) => {
            draft.read_first().iter().map(|key| words(&["GET", key])).collect()
        }
    }
}

/// What a transaction has done, by the replies to its commands: one that failed has done nothing.
fn ran(
    draft: &Draft,
    read: &[Value],
    replies: &[Value],
    place: Place,
    records: &mut Records,
) -> Result<(), String> {
    if replies.len() != commands(draft).len() {
        return Err(format!("EXEC of {draft:?} has the replies {replies:?}"));
    }
    let has_failed = |reply: &Value| matches!(reply, Value::Error(_));
    let mut steps = Vec::new();
    match draft {
        Draft::Read(keys) => {
            for (&(key, _), reply) in keys.iter().zip(read) {
                steps.push(Step::Read { key, tokens: tokens_of(reply)? });
            }
            let appended = keys.iter().filter_map(|&(key, token)| Some((key, token?))).zip(replies);
            steps.extend(
                appended
                    .filter(|(_, reply)| !has_failed(reply))
                    .map(|((key, token), _)| Step::Append { key, token }),
            );
        }
        Draft::Within(keys) => {
            for (&(key, token), replies) in keys.iter().zip(replies.chunks(2)) {
                if !has_failed(&replies[0]) {
                    steps.push(Step::Append { key, token });
                }
                if !has_failed(&replies[1]) {
                    steps.push(Step::Read { key, tokens: tokens_of(&replies[1])? });
                }
            }
        }
        Draft::Sum(_) | Draft::Transfer(..) if replies.iter().any(has_failed) => return Ok(()),
        Draft::Sum(_) | Draft::Transfer(..) => return records.commit((draft, place), (replies, &[]), 0),
    }
    if let Place::Text(number) = place {
        records.texts[number].steps = steps;
    }
    Ok(())
}

fn capable() -> Vec<String> {
    words(&["CLIENT", "CAPA", "cross-slot"])
}

fn words(words: &[&str]) -> Vec<String> {
    words.iter().map(|&word| word.to_owned()).collect()
}
