//! One register, two nodes, a client: migrations back and forth under random interleavings of everything.
//!
//! One writer sets 1, 2, 3, ... to one key, each after the answer to the last; several readers read it. So
//! every read must return at least what was acknowledged before it began, and at most what was begun before
//! it ended. The model's nodes keep their invariants (M1 to M3, M5 to M9); M4, the client's, is under test.

use crate::config::Config;
use crate::script::{bulk, requests};
use crate::{Class, ConnectionId, Core, Destination, Event, Input, Outcome, Reason};
use sidle_resp::Reply;
use sidle_testbed::Random;
use sidle_testbed::fixtures::{address, map, range, running};
use sidle_types::{Fault, HashedKey, MonotonicUs};
use std::collections::{BTreeMap, VecDeque};

const KEY: &[u8] = b"register";
const READERS: u64 = 3;
/// Token of the writer; readers have 1 to [`READERS`].
const WRITER: u64 = 0;
const STEPS: usize = 1500;
const SEEDS: u64 = 400;

/// The model nodes' forms of answers.
#[derive(Clone, Copy)]
struct Manners {
    /// `+EMPTY <migration>`, not `+EMPTY`.
    empty_names_migration: bool,
    /// A node announces a new map before it answers by it, not some time after.
    pushes_first: bool,
}

#[derive(Clone, Copy, PartialEq)]
enum Move {
    /// The map shows it; the source is not frozen, the target parks.
    Begun,
    /// The source is frozen, the target serves.
    Active,
    /// The record is at the target.
    Arrived,
}

struct Wire {
    connection: ConnectionId,
    node: u8,
    requests: VecDeque<Vec<Vec<u8>>>,
    replies: VecDeque<Vec<u8>>,
}

/// The cluster: nodes 1 and 2.
struct World {
    random: Random,
    /// One chance in so many, at its turn, that the migration advances.
    haste: u64,
    manners: Manners,
    owner: u8,
    epoch: u64,
    moves: u64,
    moving: Option<Move>,
    values: BTreeMap<u8, u64>,
    /// By the connection's index.
    wires: BTreeMap<usize, Wire>,
    now: MonotonicUs,
    begun: u64,
    acknowledged: u64,
    /// For each open read, what was acknowledged when it began.
    reads: BTreeMap<u64, u64>,
    is_writing: bool,
    violations: Vec<String>,
    completed_reads: u64,
}

impl World {
    fn map_json(&self) -> String {
        let everything = range(0, u64::MAX);
        let source = 3 - self.owner;
        let running = running(self.moves, everything, source, self.owner, self.moves + 1);
        let migrations = if self.moving.is_some() { vec![running] } else { vec![] };
        let mut map =
            serde_json::to_value(map(self.moves + 1, 2, &[(0, self.owner, self.moves + 1)], migrations));
        let map = map.as_mut().expect("a map is JSON");
        map["epoch"] = self.epoch.into();
        map.to_string()
    }

    /// The migration's next step.
    fn advance(&mut self) {
        self.moving = match self.moving {
            None => {
                self.moves += 1;
                self.owner = 3 - self.owner;
                self.values.remove(&self.owner);
                self.announce();
                Some(Move::Begun)
            }
            Some(Move::Begun) => Some(Move::Active),
            Some(Move::Active) => {
                if let Some(&frozen) = self.values.get(&(3 - self.owner)) {
                    self.values.entry(self.owner).or_insert(frozen);
                }
                Some(Move::Arrived)
            }
            Some(Move::Arrived) => {
                self.values.remove(&(3 - self.owner));
                self.moving = None;
                self.announce();
                None
            }
        };
    }

    fn announce(&mut self) {
        self.epoch += 1;
        if self.manners.pushes_first {
            let push = format!(">2\r\n+sidle-map\r\n:{}\r\n", self.epoch).into_bytes();
            self.wires.values_mut().for_each(|wire| wire.replies.push_back(push.clone()));
        }
    }

    /// A node answers, or parks and returns `None`.
    fn execute(&mut self, node: u8, request: &[Vec<u8>]) -> Option<Vec<u8>> {
        let is_owner = node == self.owner;
        let words: Vec<&[u8]> = request.iter().map(Vec::as_slice).collect();
        Some(match words[..] {
            [b"HELLO", ..] => b"%0\r\n".to_vec(),
            [b"CLIENT", ..] | [b"ASKING"] => b"+OK\r\n".to_vec(),
            [b"SIDLE.MAP"] => bulk(&self.map_json()).into_bytes(),
            [b"SIDLE.FROZEN", id, ..] => {
                let is_this = id == self.moves.to_string().as_bytes();
                match self.moving {
                    Some(Move::Active | Move::Arrived) if is_this && !is_owner => self.value(node),
                    Some(Move::Begun) if is_this => b"-SIDLENOTFROZEN\r\n".to_vec(),
                    _ => b"-SIDLEDONE\r\n".to_vec(),
                }
            }
            _ if !is_owner => format!("-MOVED 1 10.0.0.{}:7000\r\n", self.owner).into_bytes(),
            _ if self.moving == Some(Move::Begun) => return None,
            [b"GET", _] if self.moving == Some(Move::Active) && !self.values.contains_key(&node) => {
                if self.manners.empty_names_migration {
                    format!("+EMPTY {}\r\n", self.moves).into_bytes()
                } else {
                    b"+EMPTY\r\n".to_vec()
                }
            }
            [b"GET", _] => self.value(node),
            [b"SET", _, value] => {
                let value = std::str::from_utf8(value).expect("digits").parse().expect("digits");
                self.values.insert(node, value);
                b"+OK\r\n".to_vec()
            }
            _ => panic!("the client asked {words:?}"),
        })
    }

    fn value(&self, node: u8) -> Vec<u8> {
        self.values.get(&node).map_or(b"_\r\n".to_vec(), |value| bulk(&value.to_string()).into_bytes())
    }

    fn completed(&mut self, token: u64, outcome: Outcome<'_>) {
        if token == WRITER {
            self.is_writing = false;
            match outcome {
                Outcome::Reply(Reply::Simple(b"OK")) => self.acknowledged = self.begun,
                Outcome::Failed(failure) => assert_ne!(failure.reason, Reason::TooManyTries),
                Outcome::Reply(other) => panic!("{other:?}"),
            }
            return;
        }
        let least = self.reads.remove(&token).expect("a read ends once");
        let read = match outcome {
            Outcome::Reply(Reply::Null) => 0,
            Outcome::Reply(Reply::Bulk(digits)) => std::str::from_utf8(digits).unwrap().parse().unwrap(),
            Outcome::Failed(_) => return,
            Outcome::Reply(other) => panic!("{other:?}"),
        };
        self.completed_reads += 1;
        if read < least || read > self.begun {
            self.violations
                .push(format!("read {read}, but {least} was acknowledged before and {} begun", self.begun));
        }
    }

    fn settle(&mut self, core: &mut Core) {
        loop {
            if let Some(event) = core.poll_event() {
                match event {
                    Event::Connect { connection, address } => {
                        let node = address.host().as_bytes()[7] - b'0';
                        let (requests, replies) = (VecDeque::new(), VecDeque::new());
                        self.wires.insert(connection.index(), Wire { connection, node, requests, replies });
                        core.handle(
                            self.now,
                            Input::Connected(connection),
                            &mut |token, outcome: Outcome<'_>| self.completed(token, outcome),
                        );
                    }
                    Event::Close(connection) => {
                        self.wires.retain(|_, wire| wire.connection != connection);
                    }
                    Event::MapChanged(_) | Event::Trouble { .. } => {}
                }
                continue;
            }
            let Some(connection) = core.poll_transmit() else { return };
            let mut bytes = Vec::new();
            core.take_output(connection, &mut bytes);
            let wire = self.wires.get_mut(&connection.index()).expect("connected");
            assert_eq!(wire.connection, connection);
            wire.requests.extend(requests(&bytes));
        }
    }

    fn step(&mut self, core: &mut Core) {
        let at = match self.wires.len() as u64 {
            0 => 0,
            count => self.random.below(count) as usize,
        };
        let at = self.wires.keys().nth(at).copied().unwrap_or(0);
        match self.random.below(100) {
            0..40 => {
                let Some(wire) = self.wires.get_mut(&at) else { return };
                let node = wire.node;
                let Some(request) = wire.requests.pop_front() else { return };
                let reply = self.execute(node, &request);
                let wire = self.wires.get_mut(&at).expect("it was just there");
                match reply {
                    Some(reply) => wire.replies.push_back(reply),
                    None => wire.requests.push_front(request),
                }
            }
            40..80 => {
                let Some(wire) = self.wires.get_mut(&at) else { return };
                let Some(reply) = wire.replies.pop_front() else { return };
                let (connection, now) = (wire.connection, self.now);
                let mut done = |token, outcome: Outcome<'_>| self.completed(token, outcome);
                core.received(now, connection, &reply, &mut done);
            }
            80..86 => {
                // In some runs migrations pause for long, in others they follow each other closely.
                if self.random.below(self.haste) == 0 {
                    self.advance();
                }
            }
            86..93 => {
                let token = self.random.below(READERS + 1);
                if token == WRITER {
                    if !self.is_writing {
                        self.is_writing = true;
                        self.begun += 1;
                        let value = self.begun.to_string();
                        let to = Destination::Key(HashedKey::new(KEY));
                        let args: [&[u8]; 3] = [b"SET", KEY, value.as_bytes()];
                        core.submit(self.now, WRITER, Class::Write, to, &args).expect("not busy");
                    }
                } else if !self.reads.contains_key(&token) {
                    self.reads.insert(token, self.acknowledged);
                    core.get(self.now, token, HashedKey::new(KEY)).expect("not busy");
                }
            }
            93 => {
                // Requests that were sent and not executed are lost with the connection.
                let Some(connection) = self.wires.remove(&at).map(|wire| wire.connection) else { return };
                let now = self.now;
                let mut done = |token, outcome: Outcome<'_>| self.completed(token, outcome);
                core.handle(now, Input::Disconnected(connection), &mut done);
            }
            _ => {
                self.now = self.now.plus_us(700);
                let now = self.now;
                let mut done = |token, outcome: Outcome<'_>| self.completed(token, outcome);
                core.handle(now, Input::Tick, &mut done);
            }
        }
    }
}

/// Runs one seed; returns the error, the number of ended reads, and how many took the source's value.
fn play(seed: u64, manners: Manners, connections_per_node: usize) -> (Vec<String>, u64, u64) {
    let config = Config { connections_per_node, ..Config::new(vec![address(1), address(2)]) };
    let mut core = Core::new(config);
    let mut world = World {
        random: Random::new(seed),
        haste: 1 + seed % 8,
        manners,
        owner: 1,
        epoch: 1,
        moves: 0,
        moving: None,
        values: BTreeMap::new(),
        wires: BTreeMap::new(),
        now: MonotonicUs(1_000_000),
        begun: 0,
        acknowledged: 0,
        reads: BTreeMap::new(),
        is_writing: false,
        violations: Vec::new(),
        completed_reads: 0,
    };
    core.handle(world.now, Input::Tick, &mut |_, _: Outcome<'_>| {});
    for _ in 0..STEPS {
        world.settle(&mut core);
        world.step(&mut core);
    }
    (world.violations, world.completed_reads, core.counters().source_values)
}

fn play_all(manners: Manners, connections_per_node: usize) {
    let (mut reads, mut source_values) = (0, 0);
    for seed in 0..SEEDS {
        let (violations, completed, from_source) = play(seed, manners, connections_per_node);
        assert!(violations.is_empty(), "seed {seed}: {violations:?}");
        reads += completed;
        source_values += from_source;
    }
    // The model proves nothing unless these cases occur.
    assert!(reads > 10 * SEEDS && source_values > SEEDS, "{reads} reads, {source_values} from the source");
}

#[test]
fn reads_are_never_stale_when_empty_names_its_migration() {
    play_all(Manners { empty_names_migration: true, pushes_first: false }, 1);
}

#[test]
fn reads_on_several_connections_are_never_stale() {
    for pushes_first in [false, true] {
        play_all(Manners { empty_names_migration: true, pushes_first }, 2);
    }
}

#[test]
fn reads_are_never_stale_when_maps_are_announced_first() {
    play_all(Manners { empty_names_migration: false, pushes_first: true }, 1);
}

/// Whether the model finds the fault within so many seeds.
fn is_found(fault: Fault, seeds: u64) -> bool {
    let _in_effect = fault.put_back();
    let manners = Manners { empty_names_migration: true, pushes_first: true };
    (0..seeds).any(|seed| !play(seed, manners, 1).0.is_empty())
}

#[test]
fn faults_are_found() {
    assert!(is_found(Fault::SourceValueWithoutTargetAnswer, SEEDS));
    // The range has to move there, back and there again between the two answers to one read.
    assert!(is_found(Fault::SourceValueOfOtherMigration, 3 * SEEDS));
}
