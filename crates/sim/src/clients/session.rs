//! A client that runs one operation after the other, in a few parallel rows.

use super::wires::{Ended, Wires};
use crate::clock::WALL_START_MS;
use crate::network::{Signal, StreamId};
use crate::process::client_address;
use crate::workload::{Asked, History, Turn, Workload};
use crate::world::{Actor, HostId, World};
use sidle_client_core::{Awareness, Class, Config, Counters, Destination, OnceRequests};
use sidle_testbed::Random;
use sidle_types::{HashedKey, MonotonicUs, Slot, WallMs};

/// A client's settings.
#[derive(Clone, Debug)]
pub struct SessionSetup {
    /// Whether it is aware of migrations.
    pub awareness: Awareness,
    /// How many operations it has under way at once.
    pub rows: usize,
    /// The longest pause between two operations of a row.
    pub think_us: u64,
    /// How long it waits for an answer.
    pub timeout_us: u64,
    /// How many connections it has to each node.
    pub connections_per_node: usize,
    /// Whether it has targets push what cuts gave.
    pub digests: bool,
    /// Whether it has its writes of registers run once.
    pub runs_once: bool,
    /// The node that it asks first.
    pub seed: HostId,
}

struct Row {
    asked: Option<Asked>,
    /// Its number, if it is to run once.
    once: Option<u64>,
    next_us: u64,
}

/// A client's task.
enum Work {
    /// Draw operations until it is stopped.
    Draw,
    /// Read these keys, the last first.
    ReadBack(Vec<String>),
    /// Delete these keys.
    Delete(Vec<String>),
    /// Nothing more.
    Stop,
}

/// A client.
pub struct Session {
    number: usize,
    setup: SessionSetup,
    random: Random,
    wires: Wires,
    rows: Vec<Row>,
    work: Work,
    asked: u64,
    /// Operations that were answered.
    pub answered: u64,
    once: OnceRequests,
    /// Operations that were to run once.
    pub asked_once: u64,
}

impl Session {
    /// The client with this number.
    pub fn new(number: usize, setup: SessionSetup, random: Random) -> Session {
        let me = Actor::Client(number);
        let config = Config {
            awareness: setup.awareness,
            operation_timeout_us: setup.timeout_us,
            connections_per_node: setup.connections_per_node,
            digests: setup.digests,
            ..Config::new(vec![client_address(setup.seed)])
        };
        let rows = (0..setup.rows).map(|_| Row { asked: None, once: None, next_us: 0 }).collect();
        let wires = Wires::new(me, config);
        let once = OnceRequests::new(number as u128);
        let (work, asked, answered) = (Work::Draw, 0, 0);
        Session { number, setup, random, wires, rows, work, once, asked, answered, asked_once: 0 }
    }

    /// Begins nothing from now on.
    pub fn stop(&mut self) {
        self.work = Work::Stop;
    }

    /// From now on it reads these keys, then is done.
    pub fn read_back(&mut self, keys: Vec<String>) {
        self.work = Work::ReadBack(keys);
    }

    /// From now on it deletes these keys, then is done.
    pub fn delete(&mut self, keys: Vec<String>) {
        self.work = Work::Delete(keys);
    }

    /// Whether nothing is under way and there is nothing to begin.
    pub fn is_done(&self) -> bool {
        !self.has_work() && self.rows.iter().all(|row| row.asked.is_none())
    }

    fn has_work(&self) -> bool {
        match &self.work {
            Work::Draw => true,
            Work::ReadBack(keys) | Work::Delete(keys) => !keys.is_empty(),
            Work::Stop => false,
        }
    }

    /// What its core counted.
    pub fn counters(&self) -> Counters {
        self.wires.core.counters()
    }

    /// What is under way, in words.
    pub fn under_way(&self) -> Vec<String> {
        self.rows.iter().filter_map(|row| row.asked.as_ref()).map(|asked| asked.words.join(" ")).collect()
    }

    /// The records of what is under way.
    pub fn open_records(&self) -> impl Iterator<Item = &sidle_history::Operation> {
        self.rows.iter().filter_map(|row| row.asked.as_ref()).flat_map(Asked::open_records)
    }

    /// One of its connections, if it has any.
    pub fn any_stream(&self, world: &mut World) -> Option<StreamId> {
        self.wires.any_stream(world)
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

    /// It has a turn: begins what is due.
    pub fn turn(
        &mut self,
        workload: &Workload,
        world: &mut World,
        history: &mut History,
    ) -> Result<(), String> {
        self.wires.tick(world);
        for row in 0..self.rows.len() {
            if self.rows[row].asked.is_none() && self.rows[row].next_us <= world.now_us {
                self.begin(row, workload, world);
            }
        }
        self.go_on(world, history)
    }

    fn begin(&mut self, row: usize, workload: &Workload, world: &mut World) {
        let now_us = world.now_us;
        let client = self.number as u64;
        let asked = match &mut self.work {
            Work::Stop => return,
            Work::Draw => workload.draw(&mut self.random, Turn { client, serial: self.asked, now_us }),
            Work::ReadBack(keys) => match keys.pop() {
                Some(key) => Workload::read_back(client, key, now_us),
                None => return,
            },
            Work::Delete(keys) => match keys.pop() {
                Some(key) => Workload::delete(client, key, now_us),
                None => return,
            },
        };
        self.asked += 1;
        let (words, class) = self.words(row, &asked, now_us);
        let words: Vec<&[u8]> = words.iter().map(|word| &word[..]).collect();
        let (now, token) = (MonotonicUs(now_us), row as u64);
        let core = &mut self.wires.core;
        let key = asked.key().map(|key| HashedKey::new(key.as_bytes()));
        let admitted = match (class, key) {
            (Class::Get, Some(key)) => core.get(now, token, key),
            (class, Some(key)) => core.submit(now, token, class, Destination::Key(key), &words),
            (class, None) => core.submit(now, token, class, Destination::Any, &words),
        };
        admitted.expect("a few operations are not many");
        world.tell(|| format!("client {client} asks {}", brief(&asked.words.join(" "))));
        self.rows[row].asked = Some(asked);
    }

    /// The words of a request, and how it is sent.
    fn words(&mut self, row: usize, asked: &Asked, now_us: u64) -> (Vec<Vec<u8>>, Class) {
        let words: Vec<Vec<u8>> = asked.words.iter().map(|word| word.clone().into_bytes()).collect();
        let key = asked.key().filter(|_| self.setup.runs_once && asked.is_write_of_registers());
        let Some(key) = key else { return (words, asked.class) };
        let (slot, issued) = (Slot::of_key(key.as_bytes()), WallMs(WALL_START_MS + now_us / 1000));
        let words: Vec<&[u8]> = words.iter().map(|word| &word[..]).collect();
        let (number, words) = self.once.begin(slot, issued, &words);
        self.rows[row].once = Some(number);
        self.asked_once += 1;
        (words, Class::Once { may_have_run: false })
    }

    /// Takes in what ended, sends what is pending, and schedules its next turn.
    fn go_on(&mut self, world: &mut World, history: &mut History) -> Result<(), String> {
        let mut timeout_us = self.wires.pump(world);
        for (token, ended) in self.wires.take_ended() {
            self.end(token as usize, ended, world, history)?;
            timeout_us = self.wires.pump(world);
        }
        let has_work = self.has_work();
        let idle = self.rows.iter().filter(|row| row.asked.is_none() && has_work).map(|row| row.next_us);
        if let Some(at_us) = idle.chain(timeout_us).min() {
            world.turn_at(Actor::Client(self.number), at_us);
        }
        Ok(())
    }

    fn end(
        &mut self,
        row: usize,
        ended: Ended,
        world: &mut World,
        history: &mut History,
    ) -> Result<(), String> {
        let row = &mut self.rows[row];
        let asked = row.asked.take().expect("an operation ends once");
        row.once.take().into_iter().for_each(|number| self.once.end(number));
        row.next_us = world.now_us + self.random.below(self.setup.think_us + 1);
        let client = self.number;
        world.tell(|| {
            format!("client {client} has {}: {}", brief(&asked.words.join(" ")), brief(&format!("{ended:?}")))
        });
        self.answered += u64::from(matches!(ended, Ended::Reply(_)));
        world.story.note(world.now_us << 8 ^ u64::from(matches!(ended, Ended::Reply(_))));
        asked.end(world.now_us, ended, history)
    }
}

/// The beginning of a long text.
fn brief(text: &str) -> String {
    match text.char_indices().nth(90) {
        Some((end, _)) => format!("{}... ({} bytes)", &text[..end], text.len()),
        None => text.to_owned(),
    }
}
