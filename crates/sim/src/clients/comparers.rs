//! Clients that change a key only if it is as they have read it: WATCH, GET, and later a transaction.

use super::caller::{Caller, Heard, hear_for_one};
use crate::network::{Signal, StreamId};
use crate::workload::{Asked, Exchange, Exchanged, History, Turn, Workload};
use crate::world::{Actor, World};
use sidle_client_core::Effect;
use sidle_history::Operation;
use sidle_resp::Value;
use sidle_testbed::Random;

/// The settings of these clients.
#[derive(Clone, Debug)]
pub struct ComparersSetup {
    /// What they change.
    pub of: Exchanged,
    /// How many of them there are.
    pub rows: usize,
    /// The longest pause between two exchanges of one of them.
    pub think_us: u64,
    /// The longest pause between what it reads and its transaction.
    pub doubt_us: u64,
    /// How many nodes there are.
    pub nodes: usize,
}

/// What one of them does.
enum Does {
    /// Nothing before this instant.
    Rests(u64),
    /// Asks for the value from then on.
    Begins(u64, Exchange),
    /// Waits for the value.
    Reads(Exchange),
    /// Has read it, and goes on then.
    Doubts(u64, Exchange),
    /// Waits for EXEC.
    Writes(Exchange),
}

struct Row {
    caller: Caller,
    does: Does,
}

/// The clients.
pub struct Comparers {
    number: usize,
    setup: ComparersSetup,
    random: Random,
    rows: Vec<Row>,
    asked: u64,
    is_stopped: bool,
    /// How many transactions ran.
    pub exchanged: u64,
    /// How many did not, since the key had changed or ended, or its range had moved.
    pub refused: u64,
}

impl Comparers {
    /// The clients, together one actor of the simulation.
    pub fn new(number: usize, setup: ComparersSetup, random: Random) -> Comparers {
        let row = |_| Row { caller: Caller::new(Actor::Client(number), setup.nodes), does: Does::Rests(0) };
        let rows = (0..setup.rows).map(row).collect();
        let (asked, is_stopped, exchanged, refused) = (0, false, 0, 0);
        Comparers { number, setup, random, rows, asked, is_stopped, exchanged, refused }
    }

    /// What they change.
    pub fn of(&self) -> Exchanged {
        self.setup.of
    }

    /// Begins nothing from now on.
    pub fn stop(&mut self) {
        self.is_stopped = true;
    }

    /// What is under way, in words.
    pub fn under_way(&self) -> Vec<String> {
        let exchanges = self.rows.iter().filter_map(|row| row.does.exchange());
        exchanges.map(|exchange| format!("an exchange of {}", exchange.key())).collect()
    }

    /// The records of what is under way.
    pub fn open_records(&self) -> impl Iterator<Item = &Operation> {
        let asked = self.rows.iter().filter_map(|row| match &row.does {
            Does::Reads(exchange) => Some(&exchange.read),
            Does::Writes(exchange) => Some(&exchange.write),
            Does::Rests(_) | Does::Begins(..) | Does::Doubts(..) => None,
        });
        asked.flat_map(Asked::open_records)
    }

    /// They have a turn.
    pub fn turn(&mut self, workload: &Workload, world: &mut World) {
        for number in 0..self.rows.len() {
            let row = &mut self.rows[number];
            let is_due = row.does.next_us().is_some_and(|at_us| at_us <= world.now_us);
            if !is_due {
                continue;
            }
            row.does = match std::mem::replace(&mut row.does, Does::Rests(0)) {
                Does::Rests(at_us) if self.is_stopped => Does::Rests(at_us),
                Does::Rests(_) => {
                    let turn = Turn { client: self.number as u64, serial: self.asked, now_us: world.now_us };
                    self.asked += 1;
                    row.read(Exchange::draw(self.setup.of, workload, &mut self.random, turn), world)
                }
                Does::Begins(_, exchange) => row.read(exchange, world),
                Does::Doubts(_, exchange) => row.write(exchange, world),
                does @ (Does::Reads(_) | Does::Writes(_)) => does,
            };
        }
        self.schedule(world);
    }

    /// Something arrived.
    pub fn hear(
        &mut self,
        stream: StreamId,
        signal: Signal,
        world: &mut World,
        history: &mut History,
    ) -> Result<(), String> {
        let callers = self.rows.iter_mut().map(|row| &mut row.caller);
        let heard = hear_for_one(callers, (stream, signal), &mut self.random, world)?;
        let Some((number, heard)) = heard else { return Ok(()) };
        let does = std::mem::replace(&mut self.rows[number].does, Does::Rests(0));
        let rests = Does::Rests(world.now_us + 1 + self.random.below(self.setup.think_us + 1));
        self.rows[number].does = match (does, heard) {
            (does, Heard::Nothing) => does,
            (Does::Reads(exchange), Heard::Answers(answers)) => {
                self.has_read(number, exchange, &answers, world, history)?
            }
            (Does::Writes(exchange), Heard::Answers(answers)) => {
                self.has_written(number, exchange, &answers, world, history)?;
                rests
            }
            (Does::Writes(exchange), Heard::Gone) => {
                exchange.has_failed(Effect::Unknown, world.now_us, history)?;
                rests
            }
            (_, Heard::Answers(_) | Heard::Gone) => rests,
        };
        self.schedule(world);
        Ok(())
    }

    /// WATCH and GET were answered.
    fn has_read(
        &mut self,
        number: usize,
        mut exchange: Exchange,
        answers: &[Value],
        world: &mut World,
        history: &mut History,
    ) -> Result<Does, String> {
        let now_us = world.now_us;
        let error = answers.iter().find_map(|answer| match answer {
            Value::Error(error) => Some(error),
            _ => None,
        });
        if let Some(error) = error {
            let wait_us = self.rows[number].caller.follow(error, &mut self.random, world);
            return match wait_us {
                Some(wait_us) => Ok(Does::Begins(now_us + wait_us, exchange)),
                // Another node has the key, in a slot that is split: WATCH is not forwarded. Or
                // a node without memory takes no more of them.
                None if error.starts_with("SIDLESPLIT ") || error.starts_with("OOM ") => {
                    Ok(Does::Rests(now_us + 1 + self.random.below(self.setup.think_us + 1)))
                }
                None => Err(format!("WATCH and GET of {} were answered {error}", exchange.key())),
            };
        }
        let [_, _, value] = answers else { return Err(format!("three answers were due, not {answers:?}")) };
        exchange.has_read(value.clone(), now_us, history)?;
        let doubt_us = match self.random.one_in(2) {
            true => self.random.below(self.setup.doubt_us),
            false => self.random.magnitude(1, self.setup.doubt_us),
        };
        Ok(Does::Doubts(now_us + doubt_us, exchange))
    }

    /// MULTI, SET and EXEC were answered.
    fn has_written(
        &mut self,
        number: usize,
        exchange: Exchange,
        answers: &[Value],
        world: &mut World,
        history: &mut History,
    ) -> Result<(), String> {
        let now_us = world.now_us;
        let key = exchange.key();
        world.tell(|| format!("client {} has its exchange of {key}: {answers:?}", self.number));
        for answer in answers {
            if let Value::Error(error) = answer {
                self.rows[number].caller.follow(error, &mut self.random, world);
            }
        }
        match answers.last() {
            Some(Value::Array(each)) if matches!(&each[..], [Value::Simple(ok)] if ok == "OK") => {
                self.exchanged += 1;
                exchange.has_run(now_us, history)
            }
            Some(Value::Null) => {
                self.refused += 1;
                exchange.has_failed(Effect::None, now_us, history)
            }
            Some(Value::Error(error)) if error.starts_with(sidle_node::UNKNOWN) => {
                exchange.has_failed(Effect::Unknown, now_us, history)
            }
            Some(Value::Error(_)) => exchange.has_failed(Effect::None, now_us, history),
            // Its SET was refused for lack of memory.
            Some(Value::Array(each)) if matches!(each[..], [Value::Error(_)]) => {
                exchange.has_failed(Effect::None, now_us, history)
            }
            other => Err(format!("EXEC of SET {key} was answered {other:?}")),
        }
    }

    fn schedule(&self, world: &mut World) {
        let due = |row: &Row| match row.does {
            Does::Rests(_) if self.is_stopped => None,
            _ => row.does.next_us(),
        };
        if let Some(at_us) = self.rows.iter().filter_map(due).min() {
            world.turn_at(Actor::Client(self.number), at_us.max(world.now_us + 1));
        }
    }
}

impl Does {
    fn exchange(&self) -> Option<&Exchange> {
        match self {
            Does::Rests(_) => None,
            Does::Begins(_, exchange)
            | Does::Reads(exchange)
            | Does::Doubts(_, exchange)
            | Does::Writes(exchange) => Some(exchange),
        }
    }

    fn next_us(&self) -> Option<u64> {
        match self {
            Does::Rests(at_us) | Does::Begins(at_us, _) | Does::Doubts(at_us, _) => Some(*at_us),
            Does::Reads(_) | Does::Writes(_) => None,
        }
    }
}

impl Row {
    fn read(&mut self, mut exchange: Exchange, world: &mut World) -> Does {
        exchange.read.call(world.now_us);
        let watch = words(&["WATCH", exchange.key()]);
        self.caller.ask(&[words(&["UNWATCH"]), watch, exchange.read.words.clone()], world);
        Does::Reads(exchange)
    }

    fn write(&mut self, mut exchange: Exchange, world: &mut World) -> Does {
        exchange.write.call(world.now_us);
        self.caller.ask(&[words(&["MULTI"]), exchange.write.words.clone(), words(&["EXEC"])], world);
        Does::Writes(exchange)
    }
}

fn words(words: &[&str]) -> Vec<String> {
    words.iter().map(|&word| word.to_owned()).collect()
}
