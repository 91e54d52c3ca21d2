//! The core against scripted nodes, on time that the script moves: every order of answers, and everything
//! that can change underneath an operation.

mod moves;
mod reads;
mod routing;
mod trouble;

use crate::config::Config;
use crate::sample::requests;
use crate::{Awareness, Class, ConnectionId, Core, Destination, Event, Input, Outcome, Token};
use sidle_cluster::TabletMap;
use sidle_resp::Reply;
use sidle_testbed::fixtures::{address, map, range, running};
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
