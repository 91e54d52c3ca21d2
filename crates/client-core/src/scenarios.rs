//! The core against scripted nodes, on time that the script moves: every order of answers, and everything that can change
//! underneath an operation.

use crate::config::Config;
use crate::sample::{address, map, range, requests, running};
use crate::{Awareness, Class, ConnectionId, Core, Destination, Event, Input, Outcome, Token};
use sidle_cluster::TabletMap;
use sidle_resp::Reply;
use sidle_types::{HashedKey, MonotonicUs, Position};
use std::collections::{BTreeMap, BTreeSet, VecDeque};

/// One node of the script: what it was sent and has not answered.
#[derive(Default)]
struct Scripted {
    connection: Option<ConnectionId>,
    asked: VecDeque<String>,
}

/// A core, and nodes 1, 2, ... that greet and hand out `map` by themselves and leave all else to the script.
struct Script {
    core: Core,
    now: MonotonicUs,
    map: TabletMap,
    nodes: BTreeMap<u8, Scripted>,
    down: BTreeSet<u8>,
    ended: Vec<(Token, String)>,
}

fn print(outcome: Outcome<'_>) -> String {
    match outcome {
        Outcome::Reply(Reply::Bulk(bytes)) => String::from_utf8_lossy(bytes).into_owned(),
        Outcome::Reply(Reply::Null) => "null".to_owned(),
        Outcome::Reply(Reply::Error(text)) => format!("-{}", String::from_utf8_lossy(text)),
        Outcome::Reply(other) => format!("{:?}", other.to_value()),
        Outcome::Failed(failure) => format!("{:?} {:?}", failure.reason, failure.effect),
    }
}

fn bulk(text: &str) -> String {
    format!("${}\r\n{text}\r\n", text.len())
}

const EMPTY: &str = "+EMPTY\r\n";
const DONE: &str = "-SIDLEDONE migration 1 is over, ask the owner\r\n";
const NOT_FROZEN: &str = "-SIDLENOTFROZEN migration 1\r\n";

impl Script {
    fn new(map: TabletMap) -> Script {
        Script::with(map, |_| {})
    }

    fn with(map: TabletMap, change: impl FnOnce(&mut Config)) -> Script {
        let mut config = Config::new(vec![address(1)]);
        change(&mut config);
        let mut script = Script {
            core: Core::new(config),
            now: MonotonicUs(1_000_000_000),
            map,
            nodes: BTreeMap::new(),
            down: BTreeSet::new(),
            ended: Vec::new(),
        };
        script.pass(0);
        script
    }

    fn node_of(&self, connection: ConnectionId) -> u8 {
        let host = self.core.address_of(connection).host();
        host.rsplit('.').next().unwrap().parse().unwrap()
    }

    /// Lets the time pass, and whatever follows from it happen.
    fn pass(&mut self, us: u64) {
        let until = self.now.plus_us(us);
        loop {
            self.settle();
            match self.core.poll_timeout() {
                Some(at) if at <= until => {
                    self.now = self.now.max(at);
                    let ended = &mut self.ended;
                    self.core.handle(self.now, Input::Tick, &mut |token, outcome: Outcome<'_>| {
                        ended.push((token, print(outcome)))
                    });
                }
                _ => break,
            }
        }
        self.now = until;
    }

    /// Connects, delivers and greets until nothing is left to do.
    fn settle(&mut self) {
        loop {
            let mut idle = true;
            while let Some(event) = self.core.poll_event() {
                idle = false;
                match event {
                    Event::Connect { connection, .. } => {
                        let number = self.node_of(connection);
                        let input = if self.down.contains(&number) {
                            Input::Disconnected(connection)
                        } else {
                            let node = Scripted { connection: Some(connection), asked: VecDeque::new() };
                            self.nodes.insert(number, node);
                            Input::Connected(connection)
                        };
                        self.handle(input);
                    }
                    Event::Close(connection) => {
                        let number = self.node_of(connection);
                        self.nodes.remove(&number);
                    }
                    Event::MapChanged(_) | Event::Trouble { .. } => {}
                }
            }
            while let Some(connection) = self.core.poll_transmit() {
                idle = false;
                let mut bytes = Vec::new();
                self.core.take_output(connection, &mut bytes);
                let number = self.node_of(connection);
                let node = self.nodes.get_mut(&number).expect("only live connections are written to");
                assert_eq!(node.connection, Some(connection));
                node.asked.extend(requests(&bytes));
            }
            for number in self.nodes.keys().copied().collect::<Vec<_>>() {
                idle &= !self.greet(number);
            }
            if idle {
                return;
            }
        }
    }

    /// Answers what a node answers by itself, as long as that is what it was asked first.
    fn greet(&mut self, number: u8) -> bool {
        let reply = match self.nodes[&number].asked.front().map(String::as_str) {
            Some("HELLO 3") => "%1\r\n+proto\r\n:3\r\n".to_owned(),
            Some("CLIENT CAPA sidle") | Some("ASKING") => "+OK\r\n".to_owned(),
            Some("SIDLE.MAP") => bulk(&serde_json::to_string(&self.map).unwrap()),
            _ => return false,
        };
        self.deliver(number, &reply);
        self.nodes.get_mut(&number).map(|node| node.asked.pop_front());
        true
    }

    fn handle(&mut self, input: Input) {
        let ended = &mut self.ended;
        let mut done = |token, outcome: Outcome<'_>| ended.push((token, print(outcome)));
        self.core.handle(self.now, input, &mut done);
    }

    fn deliver(&mut self, number: u8, bytes: &str) {
        let connection = self.nodes[&number].connection.expect("connected");
        let ended = &mut self.ended;
        let mut done = |token, outcome: Outcome<'_>| ended.push((token, print(outcome)));
        let consumed = self.core.received(self.now, connection, bytes.as_bytes(), &mut done);
        assert_eq!(consumed, bytes.len());
    }

    /// A node answers the first request that it owes an answer to.
    fn answer(&mut self, number: u8, bytes: &str) {
        let asked = self.nodes.get_mut(&number).expect("connected").asked.pop_front();
        assert!(asked.is_some(), "node {number} was asked nothing that it could answer {bytes:?} to");
        self.deliver(number, bytes);
        self.settle();
    }

    /// A node says something of its own accord.
    fn push(&mut self, number: u8, bytes: &str) {
        self.deliver(number, bytes);
        self.settle();
    }

    fn cut(&mut self, number: u8) {
        let connection = self.nodes.remove(&number).and_then(|node| node.connection).expect("connected");
        self.handle(Input::Disconnected(connection));
        self.settle();
    }

    fn get(&mut self, token: Token, key: &str) {
        self.core.get(self.now, token, HashedKey::new(key.as_bytes())).unwrap();
        self.settle();
    }

    fn write(&mut self, token: Token, args: &[&str]) {
        let args: Vec<&[u8]> = args.iter().map(|arg| arg.as_bytes()).collect();
        let key = Destination::Key(HashedKey::new(args[1]));
        self.core.submit(self.now, token, Class::Write, key, &args).unwrap();
        self.settle();
    }

    /// What a node owes an answer to, but for a map, which it gives by itself when its turn comes.
    fn asked(&self, number: u8) -> Vec<&str> {
        let asked =
            self.nodes.get(&number).into_iter().flat_map(|node| node.asked.iter().map(String::as_str));
        asked.filter(|&request| request != "SIDLE.MAP").collect()
    }

    fn ended(&mut self) -> Vec<(Token, String)> {
        std::mem::take(&mut self.ended)
    }
}

/// Node 1 gives everything to node 2.
fn moving() -> TabletMap {
    map(2, 2, &[(0, 2, 2)], vec![running(1, range(0, u64::MAX), 1, 2, 2)])
}

/// Node `owner` of two has everything and nothing moves.
fn still(epoch: u64, owner: u8) -> TabletMap {
    map(epoch, 2, &[(0, owner, epoch)], vec![])
}

fn ended(token: Token, outcome: &str) -> Vec<(Token, String)> {
    vec![(token, outcome.to_owned())]
}

#[test]
fn a_client_that_follows_migrations_connects_to_nodes_before_it_needs_them() {
    let owned_by_first = || map(1, 2, &[(0, 1, 1)], vec![]);
    let connected = |script: &Script| -> Vec<u8> { script.nodes.keys().copied().collect() };
    assert_eq!(connected(&Script::new(owned_by_first())), [1, 2]);
    let plain = Script::with(owned_by_first(), |config| config.awareness = Awareness::Plain);
    assert_eq!(connected(&plain), [1]);
}

#[test]
fn owned_keys_go_to_their_owner_alone() {
    let mut script = Script::new(map(1, 2, &[(0, 1, 1), (1 << 63, 2, 1)], vec![]));
    for (token, key) in (0..).zip(["a", "b", "c", "d", "e", "f"]) {
        let owner = if Position::of_key(key.as_bytes()) < Position(1 << 63) { 1 } else { 2 };
        script.get(token, key);
        assert_eq!(script.asked(owner), [format!("GET {key}")]);
        assert!(script.asked(3 - owner).is_empty());
        script.answer(owner, &bulk("v"));
        assert_eq!(script.ended(), ended(token, "v"));
    }
    assert_eq!(script.core.outstanding(), 0);
    assert_eq!(script.core.counters().double_reads, 0);
}

#[test]
fn operations_before_the_first_map_wait_for_it() {
    let mut script = Script::new(still(1, 1));
    let mut early = Core::new(Config::new(vec![address(1)]));
    early.get(script.now, 5, HashedKey::new(b"k")).unwrap();
    script.core = early;
    script.nodes.clear();
    script.pass(0);
    assert_eq!(script.asked(1), ["GET k"]);
    script.answer(1, "_\r\n");
    assert_eq!(script.ended(), ended(5, "null"));
}

enum Step {
    Target(&'static str),
    Source(&'static str),
    CutTarget,
    CutSource,
}
use Step::{CutSource, CutTarget, Source, Target};

/// A double read under every order of answers: what ends it, or nothing if it goes on.
#[test]
fn double_read_table() {
    const VALUE: &str = "$3\r\nold\r\n";
    const NEW: &str = "$3\r\nnew\r\n";
    for (name, steps, outcome) in [
        ("source first, then empty", &[Source(VALUE), Target(EMPTY)][..], Some("old")),
        ("empty, then source", &[Target(EMPTY), Source(VALUE)], Some("old")),
        ("absent at the source", &[Source("_\r\n"), Target(EMPTY)], Some("null")),
        ("empty, then absent at the source", &[Target(EMPTY), Source("_\r\n")], Some("null")),
        ("target value first", &[Target(NEW)], Some("new")),
        ("target value after the source's", &[Source(VALUE), Target(NEW)], Some("new")),
        ("absent at the target", &[Source(VALUE), Target("_\r\n")], Some("null")),
        ("empty string is a value", &[Source(VALUE), Target("$0\r\n\r\n")], Some("")),
        ("the value EMPTY is a value", &[Source(VALUE), Target("$5\r\nEMPTY\r\n")], Some("EMPTY")),
        ("source alone is not enough", &[Source(VALUE)], None),
        ("empty alone is not enough", &[Target(EMPTY)], None),
        ("done, then the target's value", &[Source(DONE), Target(NEW)], Some("new")),
        ("empty and done", &[Target(EMPTY), Source(DONE)], None),
        ("done and empty", &[Source(DONE), Target(EMPTY)], None),
        ("empty and not frozen", &[Target(EMPTY), Source(NOT_FROZEN)], None),
        ("not frozen and empty", &[Source(NOT_FROZEN), Target(EMPTY)], None),
        ("empty, source cut", &[Target(EMPTY), CutSource], None),
        ("source cut, target value", &[CutSource, Target(NEW)], Some("new")),
        ("source cut, empty", &[CutSource, Target(EMPTY)], None),
        ("source value, target cut", &[Source(VALUE), CutTarget], None),
        ("empty of this migration", &[Source(VALUE), Target("+EMPTY 1\r\n")], Some("old")),
        ("empty of another migration", &[Source(VALUE), Target("+EMPTY 3\r\n")], None),
        ("error of the target", &[Source(VALUE), Target("-ERR no\r\n")], Some("-ERR no")),
        ("error of the source", &[Source("-ERR no\r\n"), Target(EMPTY)], None),
        ("moved", &[Source(VALUE), Target("-MOVED 1 10.0.0.2:7000\r\n")], None),
        ("loading", &[Source(VALUE), Target("-LOADING\r\n")], None),
    ] {
        let mut script = Script::new(moving());
        script.get(1, "k");
        assert_eq!(script.asked(2), ["GET k"]);
        assert_eq!(script.asked(1), ["SIDLE.FROZEN 1 GET k"]);
        for step in steps {
            match *step {
                Target(reply) => script.answer(2, reply),
                Source(reply) => script.answer(1, reply),
                CutTarget => script.cut(2),
                CutSource => script.cut(1),
            }
        }
        let expected: Vec<_> = outcome.iter().map(|outcome| (1, outcome.to_string())).collect();
        assert_eq!(script.ended(), expected, "{name}");
        assert_eq!(script.core.outstanding(), usize::from(outcome.is_none()), "{name}");
    }
}

/// Whatever a double read went through, another attempt ends it.
#[test]
fn every_undecided_read_ends_with_the_next_attempt() {
    for steps in [
        [Target(EMPTY), Source(DONE)],
        [Target(EMPTY), Source(NOT_FROZEN)],
        [Target(EMPTY), CutSource],
        [Source("$3\r\nold\r\n"), CutTarget],
        [Source("$3\r\nold\r\n"), Target("-MOVED 1 10.0.0.2:7000\r\n")],
        [Source("$3\r\nold\r\n"), Target("-LOADING\r\n")],
        [Source("$3\r\nold\r\n"), Target("+EMPTY 3\r\n")],
    ] {
        let mut script = Script::new(moving());
        script.get(1, "k");
        // From now on the migration is over.
        script.map = still(3, 2);
        for step in steps {
            match step {
                Target(reply) => script.answer(2, reply),
                Source(reply) => script.answer(1, reply),
                CutTarget => script.cut(2),
                CutSource => script.cut(1),
            }
        }
        script.pass(100_000);
        while !script.asked(2).is_empty() {
            script.answer(2, &bulk("new"));
        }
        assert_eq!(script.ended(), ended(1, "new"));
        assert!(script.core.counters().retries > 0);
    }
}

#[test]
fn answers_of_an_attempt_given_up_do_not_count() {
    let mut script = Script::new(moving());
    script.get(1, "k");
    script.answer(2, "-MOVED 1 10.0.0.2:7000\r\n");
    // The first attempt's source value arrives when the second attempt has heard "not here yet".
    script.answer(2, EMPTY);
    script.answer(1, &bulk("stale"));
    assert!(script.ended().is_empty());
    script.pass(50_000);
    script.answer(2, EMPTY);
    script.answer(1, &bulk("old"));
    assert_eq!(script.ended(), ended(1, "old"));
}

#[test]
fn what_the_target_answered_is_read_there_alone() {
    let mut script = Script::new(moving());
    script.get(1, "k");
    script.answer(2, &bulk("v"));
    script.answer(1, &bulk("v"));
    script.write(2, &["SET", "w", "1"]);
    assert_eq!(script.asked(2), ["SET w 1"]);
    script.answer(2, "+OK\r\n");
    script.write(3, &["SET", "full", "1"]);
    script.answer(2, "-OOM command not allowed\r\n");
    for (key, is_single) in [("k", true), ("w", true), ("full", false), ("other", false)] {
        script.get(4, key);
        assert_eq!(script.asked(1).is_empty(), is_single, "{key}");
        script.answer(2, &bulk("v"));
        if !is_single {
            script.answer(1, &bulk("v"));
        }
    }
    let counters = script.core.counters();
    assert_eq!((counters.double_reads, counters.single_target_reads), (3, 2));
    assert!(script.core.sph_bytes() > 0);
}

#[test]
fn a_wrong_entry_costs_a_second_trip_and_nothing_else() {
    let mut script = Script::new(moving());
    script.get(1, "k");
    script.answer(2, &bulk("v"));
    script.answer(1, &bulk("v"));
    script.get(2, "k");
    assert!(script.asked(1).is_empty());
    // As if another key of the same position were there, and this one not.
    script.answer(2, EMPTY);
    assert_eq!(script.asked(1), ["SIDLE.FROZEN 1 GET k"]);
    script.answer(1, &bulk("old"));
    assert_eq!(script.ended(), [(1, "v".to_owned()), (2, "old".to_owned())]);
    assert_eq!(script.core.counters().single_source_reads, 1);
}

#[test]
fn progress_saves_the_second_request() {
    let mut script = Script::new(moving());
    let attribute = |text: &str| format!("|1\r\n+sidle-progress\r\n*2\r\n:1\r\n{}", bulk(text));
    script.write(1, &["SET", "x", "1"]);
    script.answer(2, &(attribute("0x8000000000000000") + "+OK\r\n"));
    for (token, key) in (2..).zip(["a", "b", "c", "d", "e", "f"]) {
        script.get(token, key);
        let has_arrived = Position::of_key(key.as_bytes()) < Position(1 << 63);
        assert_eq!(script.asked(1).is_empty(), has_arrived, "{key}");
        script.answer(2, &bulk("v"));
        if !has_arrived {
            script.answer(1, &bulk("v"));
        }
    }
    script.write(8, &["SET", "x", "1"]);
    script.answer(2, &(attribute("done") + "+OK\r\n"));
    script.get(9, "anything");
    assert!(script.asked(1).is_empty());
    script.answer(2, &bulk("v"));
    assert_eq!(script.core.counters().progress_reports, 2);
}

#[test]
fn progress_of_an_unknown_migration_or_shape_is_ignored() {
    let mut script = Script::new(moving());
    for attribute in [
        "|1\r\n+sidle-progress\r\n*2\r\n:9\r\n+done\r\n",
        "|1\r\n+sidle-progress\r\n*3\r\n:1\r\n+done\r\n+done\r\n",
        "|1\r\n+sidle-progress\r\n*2\r\n:1\r\n:5\r\n",
        "|1\r\n+sidle-progress\r\n*2\r\n:1\r\n+nonsense\r\n",
        "|1\r\n+sidle-progress\r\n*1\r\n:1\r\n",
        "|1\r\n+sidle-progress\r\n+done\r\n",
        "|1\r\n+key-popularity\r\n:1\r\n",
    ] {
        script.write(1, &["SET", "x", "1"]);
        script.answer(2, &format!("{attribute}+OK\r\n"));
        script.get(2, "y");
        assert_eq!(script.asked(1).len(), 1, "{attribute:?}");
        script.answer(1, &bulk("v"));
        script.answer(2, EMPTY);
    }
}

/// A to B, then B to A: what was learnt of the first move is not believed in the second.
#[test]
fn there_and_back_forgets() {
    let mut script = Script::new(moving());
    script.get(1, "k");
    script.answer(2, &bulk("v"));
    script.answer(1, &bulk("v"));
    script.map = map(4, 2, &[(0, 1, 4)], vec![running(2, range(0, u64::MAX), 2, 1, 4)]);
    script.push(2, ">2\r\n+sidle-map\r\n:4\r\n");
    assert_eq!(script.core.map().unwrap().epoch().0, 4);
    script.get(2, "k");
    assert_eq!((script.asked(1), script.asked(2)), (vec!["GET k"], vec!["SIDLE.FROZEN 2 GET k"]));
}

/// A to B ends and B to C begins while a read of the first move is under way.
#[test]
fn a_chain_of_moves_underneath_a_read() {
    let mut script = Script::new(map(2, 3, &[(0, 2, 2)], vec![running(1, range(0, u64::MAX), 1, 2, 2)]));
    script.get(1, "k");
    script.map = map(4, 3, &[(0, 3, 4)], vec![running(2, range(0, u64::MAX), 2, 3, 4)]);
    script.answer(1, DONE);
    script.answer(2, "-MOVED 1 10.0.0.3:7000\r\n");
    script.pass(10_000);
    assert_eq!(script.asked(3), ["GET k"], "the redirect is followed");
    script.answer(3, EMPTY);
    script.pass(10_000);
    assert_eq!((script.asked(2), script.asked(3)), (vec!["SIDLE.FROZEN 2 GET k"], vec!["GET k"]));
    script.answer(2, &bulk("v"));
    script.answer(3, EMPTY);
    assert_eq!(script.ended(), ended(1, "v"));
}

/// The range went to B, back to A and again to B within one read: the source's early answer is of the first move, the
/// target's of the third.
#[test]
fn a_source_value_older_than_the_targets_migration_is_not_taken() {
    let mut script = Script::new(moving());
    script.get(1, "k");
    script.answer(1, &bulk("stale"));
    script.map = map(6, 2, &[(0, 2, 6)], vec![running(3, range(0, u64::MAX), 1, 2, 6)]);
    // The node announces the map before it answers by it; the client has not got the map yet.
    let connection = script.nodes[&2].connection.unwrap();
    let bytes = format!(">2\r\n+sidle-map\r\n:6\r\n{EMPTY}");
    script.nodes.get_mut(&2).unwrap().asked.pop_front();
    let mut outcomes = 0;
    script.core.received(script.now, connection, bytes.as_bytes(), &mut |_, _: Outcome<'_>| outcomes += 1);
    assert_eq!(outcomes, 0);
    script.pass(10_000);
    assert_eq!((script.asked(1), script.asked(2)), (vec!["SIDLE.FROZEN 3 GET k"], vec!["GET k"]));
}

#[test]
fn a_new_map_that_keeps_the_migration_keeps_the_read() {
    let mut script = Script::new(moving());
    script.get(1, "k");
    script.map = map(3, 3, &[(0, 2, 2)], vec![running(1, range(0, u64::MAX), 1, 2, 2)]);
    script.answer(1, &bulk("old"));
    script.push(2, ">2\r\n+sidle-map\r\n:3\r\n");
    script.answer(2, EMPTY);
    // The map was asked for on the same connection, before the answer: it comes behind it.
    script.settle();
    script.pass(10_000);
    while script.ended.is_empty() {
        script.answer(2, EMPTY);
        script.answer(1, &bulk("old"));
    }
    assert_eq!(script.ended(), ended(1, "old"));
}

#[test]
fn empty_without_a_known_migration_waits_for_the_map() {
    let mut script = Script::new(still(1, 2));
    script.get(1, "k");
    script.map = moving();
    script.answer(2, EMPTY);
    script.pass(10_000);
    assert_eq!((script.asked(1), script.asked(2)), (vec!["SIDLE.FROZEN 1 GET k"], vec!["GET k"]));
    script.answer(1, &bulk("old"));
    script.answer(2, EMPTY);
    assert_eq!(script.ended(), ended(1, "old"));
}

#[test]
fn moved_is_followed_and_the_map_asked_for() {
    let mut script = Script::new(still(1, 1));
    script.write(1, &["INCR", "k"]);
    script.map = still(2, 2);
    script.answer(1, "-MOVED 1 10.0.0.2:7000\r\n");
    assert_eq!(script.asked(2), ["INCR k"]);
    script.answer(2, ":1\r\n");
    assert_eq!(script.ended(), ended(1, "Integer(1)"));
    script.pass(2_000);
    script.write(2, &["INCR", "k"]);
    assert_eq!(script.asked(2), ["INCR k"], "by the new map");
}

#[test]
fn ask_is_followed_with_asking_for_one_request() {
    let mut script = Script::new(still(1, 1));
    script.write(1, &["INCR", "k"]);
    script.answer(1, "-ASK 1 10.0.0.2:7000\r\n");
    // ASKING was answered by the script itself.
    assert_eq!(script.asked(2), ["INCR k"]);
    script.answer(2, ":1\r\n");
    assert_eq!(script.ended(), ended(1, "Integer(1)"));
    script.write(2, &["INCR", "k"]);
    assert_eq!(script.asked(1), ["INCR k"]);
}

#[test]
fn redirects_in_a_circle_end() {
    let mut script = Script::new(still(1, 1));
    script.core.config.operation_timeout_us = u64::MAX / 2;
    script.write(1, &["SET", "k", "v"]);
    for _ in 0..500 {
        for (node, other) in [(1, 2), (2, 1)] {
            if !script.asked(node).is_empty() {
                script.answer(node, &format!("-MOVED 1 10.0.0.{other}:7000\r\n"));
            }
        }
        script.pass(60_000);
    }
    assert_eq!(script.ended(), ended(1, "TooManyTries None"));
}

#[test]
fn a_cut_connection_leaves_writes_unknown_and_reads_retried() {
    let mut script = Script::new(still(1, 1));
    script.write(1, &["SET", "k", "v"]);
    script.get(2, "k");
    let key = Destination::Key(HashedKey::new(b"k"));
    script.core.submit(script.now, 3, Class::Read, key, &[b"STRLEN", b"k"]).unwrap();
    script.settle();
    // Accepted, but still in the client when the connection is cut: it had no effect.
    script.core.submit(script.now, 4, Class::Write, key, &[b"INCR", b"k"]).unwrap();
    script.cut(1);
    assert_eq!(script.ended(), ended(1, "ConnectionLost Unknown"));
    script.pass(10_000);
    let mut asked = script.asked(1);
    asked.sort_unstable();
    assert_eq!(asked, ["GET k", "INCR k", "STRLEN k"]);
}

#[test]
fn timeouts_say_what_became_of_the_effect() {
    let mut script = Script::new(still(1, 1));
    script.write(1, &["SET", "k", "v"]);
    script.get(2, "k");
    script.down.insert(1);
    script.pass(Config::OPERATION_TIMEOUT_US);
    let mut outcomes = script.ended();
    outcomes.sort_unstable();
    assert_eq!(outcomes, [(1, "TimedOut Unknown".to_owned()), (2, "TimedOut None".to_owned())]);
    // The node had been silent since: its connection was given up, and what is new never leaves.
    script.write(3, &["SET", "k", "v"]);
    script.pass(Config::OPERATION_TIMEOUT_US);
    assert_eq!(script.ended(), ended(3, "TimedOut None"));
    script.down.clear();
    script.pass(1_000_000);
    script.write(4, &["SET", "k", "v"]);
    script.answer(1, "+OK\r\n");
    assert_eq!(script.ended(), ended(4, "Simple(\"OK\")"));
}

#[test]
fn a_late_answer_to_a_timed_out_operation_belongs_to_nobody() {
    let mut script = Script::new(still(1, 1));
    script.get(1, "slow");
    script.pass(Config::OPERATION_TIMEOUT_US / 2);
    script.get(2, "next");
    script.push(1, ">2\r\n+sidle-map\r\n:1\r\n");
    script.pass(Config::OPERATION_TIMEOUT_US / 2);
    assert_eq!(script.ended(), ended(1, "TimedOut None"));
    script.get(3, "third");
    script.answer(1, &bulk("slow"));
    script.answer(1, &bulk("next"));
    script.answer(1, &bulk("third"));
    assert_eq!(script.ended(), [(2, "next".to_owned()), (3, "third".to_owned())]);
}

#[test]
fn an_owner_that_is_gone_is_looked_for_in_a_newer_map() {
    let mut script = Script::new(map(1, 2, &[(0, 1, 1), (1, 2, 1)], vec![]));
    script.get(1, "warm up both");
    script.answer(2, "_\r\n");
    script.ended();
    script.map = still(2, 1);
    script.down.insert(2);
    script.cut(2);
    script.get(2, "k");
    script.pass(50_000);
    assert_eq!(script.asked(1), ["GET k"]);
}

#[test]
fn garbage_closes_the_connection_and_the_read_goes_on() {
    let mut script = Script::new(still(1, 1));
    script.get(1, "k");
    script.answer(1, "nonsense\r\n");
    script.pass(10_000);
    assert_eq!(script.asked(1), ["GET k"]);
    script.answer(1, &bulk("v"));
    assert_eq!(script.ended(), ended(1, "v"));
    script.push(1, "+unasked\r\n");
    script.pass(10_000);
    script.get(2, "k");
    script.answer(1, &bulk("v"));
    assert_eq!(script.ended(), ended(2, "v"));
}

#[test]
fn more_than_the_limit_is_refused() {
    let mut script = Script::with(still(1, 1), |config| config.max_outstanding = 2);
    script.get(1, "a");
    script.get(2, "b");
    assert!(script.core.get(script.now, 3, HashedKey::new(b"c")).is_err());
    script.answer(1, "_\r\n");
    script.get(3, "c");
    assert_eq!(script.core.outstanding(), 2);
}

#[test]
fn bytes_beyond_one_request_and_reply_are_counted() {
    let mut script = Script::new(moving());
    script.write(0, &["SET", "w", "1"]);
    script.answer(2, "+OK\r\n");
    let before = script.core.counters();
    script.get(1, "k");
    script.answer(1, &bulk("old"));
    script.answer(2, EMPTY);
    let after = script.core.counters();
    let frozen = "*4\r\n$12\r\nSIDLE.FROZEN\r\n$1\r\n1\r\n$3\r\nGET\r\n$1\r\nk\r\n".len() as u64;
    assert_eq!(after.extra_request_bytes - before.extra_request_bytes, frozen);
    assert_eq!(after.extra_reply_bytes - before.extra_reply_bytes, EMPTY.len() as u64);
    script.get(2, "k");
    script.answer(1, &bulk("old"));
    script.answer(2, &bulk("new"));
    let last = script.core.counters();
    assert_eq!(last.extra_reply_bytes - after.extra_reply_bytes, bulk("old").len() as u64);
}

#[test]
fn a_plain_client_follows_redirects_and_never_reads_twice() {
    let mut script = Script::with(moving(), |config| config.awareness = Awareness::Plain);
    assert_eq!(script.asked(1), ["CLUSTER SLOTS"]);
    let id = "0".repeat(39);
    script
        .answer(1, &format!("*1\r\n*3\r\n:0\r\n:16383\r\n*3\r\n$8\r\n10.0.0.2\r\n:7000\r\n$40\r\n{id}2\r\n"));
    script.get(1, "k");
    assert_eq!(script.asked(2), ["GET k"]);
    assert!(script.asked(1).is_empty());
    script.answer(2, "-MOVED 1 10.0.0.1:7000\r\n");
    script.answer(1, &bulk("v"));
    assert_eq!(script.ended(), ended(1, "v"));
}

#[cfg(feature = "bug-switches")]
fn with_bug(name: &str) -> Script {
    let bugs = crate::Bugs::with(name).expect("a fault's name");
    Script::with(moving(), |config| config.bugs = bugs.into())
}

/// The named fault is visible: a source value is returned although the target has a newer one.
#[cfg(feature = "bug-switches")]
#[test]
fn bug_source_value_without_target_answer_returns_what_is_stale() {
    let mut script = with_bug("source-value-without-target-answer");
    script.get(1, "k");
    script.answer(1, &bulk("stale"));
    assert_eq!(script.ended(), ended(1, "stale"));
    script.answer(2, &bulk("new"));
    assert_eq!(script.core.outstanding(), 0);
}

/// The named fault is visible: between the two answers the range may have gone back and come again.
#[cfg(feature = "bug-switches")]
#[test]
fn bug_source_value_of_other_migration_returns_what_is_stale() {
    let mut script = with_bug("source-value-of-other-migration");
    script.get(1, "k");
    script.answer(1, &bulk("stale"));
    script.answer(2, "+EMPTY 3\r\n");
    assert_eq!(script.ended(), ended(1, "stale"));
}

/// The named fault is visible: a write goes out again though it may have run.
#[cfg(feature = "bug-switches")]
#[test]
fn bug_lost_write_sent_again_may_run_twice() {
    let mut script = with_bug("lost-write-sent-again");
    script.write(1, &["INCR", "k"]);
    script.cut(2);
    script.pass(1_000_000);
    assert_eq!((script.ended(), script.asked(2)), (vec![], vec!["INCR k"]));
}
