//! A core against scripted nodes, on time that the script moves.

use crate::config::Config;
use crate::{Class, ConnectionId, Core, Destination, Event, Input, Outcome, Token};
use sidle_cluster::TabletMap;
use sidle_resp::{Args, Limits, Parsed, Reply, RequestParser};
use sidle_testbed::fixtures::{address, map, range, running};
use sidle_types::{HashedKey, MonotonicUs};
use std::collections::{BTreeMap, BTreeSet, VecDeque};

/// One connection of the script: requests sent on it and not answered.
pub(crate) struct Line {
    pub(crate) connection: ConnectionId,
    pub(crate) node: u8,
    pub(crate) asked: VecDeque<String>,
}

/// A core, and nodes 1, 2, ... that greet and send `map` by themselves and leave the rest to the script.
pub(crate) struct Script {
    pub(crate) core: Core,
    pub(crate) now: MonotonicUs,
    pub(crate) map: TabletMap,
    /// By the connection's index.
    pub(crate) lines: BTreeMap<usize, Line>,
    /// Connections that the core requested and that are not open.
    pub(crate) dialled: Vec<(ConnectionId, u8)>,
    /// Whether they open at once, or when the test decides.
    pub(crate) answers_calls: bool,
    /// Nodes that refuse connections.
    pub(crate) down: BTreeSet<u8>,
    /// Connections that were subscribed.
    pub(crate) subscribed: BTreeSet<usize>,
    pub(crate) maps_asked_for: u32,
    pub(crate) ended: Vec<(Token, String)>,
}

fn print(outcome: Outcome<'_>) -> String {
    match outcome {
        Outcome::Reply(Reply::Bulk(text) | Reply::Simple(text)) => String::from_utf8_lossy(text).into_owned(),
        Outcome::Reply(Reply::Null) => "null".to_owned(),
        Outcome::Reply(Reply::Error(text)) => format!("-{}", String::from_utf8_lossy(text)),
        Outcome::Reply(other) => format!("{:?}", other.to_value()),
        Outcome::Failed(failure) => format!("{:?} {:?}", failure.reason, failure.effect),
    }
}

pub(crate) fn bulk(text: &str) -> String {
    format!("${}\r\n{text}\r\n", text.len())
}

/// The requests in a client's bytes.
pub(crate) fn requests(bytes: &[u8]) -> Vec<Vec<Vec<u8>>> {
    let mut parser = RequestParser::new(Limits::default());
    let (mut args, mut at, mut found) = (Args::new(), 0, Vec::new());
    while let Ok(Parsed::Complete { consumed }) = parser.parse(&bytes[at..], &mut args) {
        found.push(args.iter(&bytes[at..]).map(<[u8]>::to_vec).collect());
        at += consumed;
    }
    assert_eq!(at, bytes.len(), "only whole requests are sent");
    found
}

impl Script {
    pub(crate) fn new(map: TabletMap) -> Script {
        Script::with(map, |_| {})
    }

    pub(crate) fn with(map: TabletMap, change: impl FnOnce(&mut Config)) -> Script {
        let mut config = Config::new(vec![address(1)]);
        change(&mut config);
        let mut script = Script {
            core: Core::new(config),
            now: MonotonicUs(1_000_000_000),
            map,
            lines: BTreeMap::new(),
            dialled: Vec::new(),
            answers_calls: true,
            down: BTreeSet::new(),
            subscribed: BTreeSet::new(),
            maps_asked_for: 0,
            ended: Vec::new(),
        };
        script.pass(0);
        script
    }

    pub(crate) fn handle(&mut self, input: Input) {
        let ended = &mut self.ended;
        let mut done = |token, outcome: Outcome<'_>| ended.push((token, print(outcome)));
        self.core.handle(self.now, input, &mut done);
    }

    /// Lets the time pass, with all that follows.
    pub(crate) fn pass(&mut self, us: u64) {
        let until = self.now.plus_us(us);
        self.settle();
        while let Some(at) = self.core.poll_timeout().filter(|&at| at <= until) {
            self.now = self.now.max(at);
            self.handle(Input::Tick);
            self.settle();
        }
        self.now = until;
    }

    /// Connects, delivers and greets until nothing is left to do.
    pub(crate) fn settle(&mut self) {
        loop {
            self.events();
            let mut is_idle = true;
            while self.transmit().is_some() {
                is_idle = false;
            }
            for index in self.lines.keys().copied().collect::<Vec<_>>() {
                is_idle &= !self.greet(index);
            }
            if is_idle {
                return;
            }
        }
    }

    /// Takes the core's output of one connection: its node, and the requests.
    pub(crate) fn transmit(&mut self) -> Option<(u8, Vec<String>)> {
        let connection = self.core.poll_transmit()?;
        let mut bytes = Vec::new();
        self.core.take_output(connection, &mut bytes);
        let line = self.lines.get_mut(&connection.index()).expect("only live connections are written to");
        assert_eq!(line.connection, connection);
        let text = |words: Vec<Vec<u8>>| String::from_utf8_lossy(&words.join(&b' ')).into_owned();
        let asked: Vec<String> = requests(&bytes).into_iter().map(text).collect();
        line.asked.extend(asked.iter().cloned());
        if asked.iter().any(|request| request.starts_with("CLIENT CAPA") && request.ends_with("sidle-given"))
        {
            self.subscribed.insert(connection.index());
        }
        Some((line.node, asked))
    }

    fn events(&mut self) {
        while let Some(event) = self.core.poll_event() {
            match event {
                Event::Connect { connection, address } => {
                    assert_eq!(*self.core.address_of(connection), address);
                    let node = address.host().rsplit('.').next().unwrap().parse().unwrap();
                    self.dialled.push((connection, node));
                    if self.answers_calls {
                        self.answer_call(0);
                    }
                }
                Event::Close(connection) => {
                    self.lines.remove(&connection.index());
                }
                Event::MapChanged(_) | Event::Trouble { .. } => {}
            }
        }
    }

    pub(crate) fn answer_call(&mut self, which: usize) {
        let (connection, node) = self.dialled.remove(which);
        if self.down.contains(&node) {
            return self.handle(Input::Disconnected(connection));
        }
        self.lines.insert(connection.index(), Line { connection, node, asked: VecDeque::new() });
        self.handle(Input::Connected(connection));
    }

    /// A node gives its automatic answer, if that is next.
    fn greet(&mut self, index: usize) -> bool {
        let reply = match self.lines.get(&index).and_then(|line| line.asked.front()).map(String::as_str) {
            Some("HELLO 3") => "%1\r\n+proto\r\n:3\r\n".to_owned(),
            Some("CLIENT CAPA sidle sidle-4" | "CLIENT CAPA sidle sidle-4 sidle-given")
            | Some("CLIENT CAPA sidle-given" | "ASKING") => "+OK\r\n".to_owned(),
            Some("SIDLE.MAP") => {
                self.maps_asked_for += 1;
                bulk(&serde_json::to_string(&self.map).unwrap())
            }
            _ => return false,
        };
        self.lines.get_mut(&index).unwrap().asked.pop_front();
        self.deliver(index, &reply);
        true
    }

    /// Bytes arrive over a connection.
    pub(crate) fn deliver(&mut self, index: usize, bytes: &str) {
        self.deliver_bytes(index, bytes.as_bytes());
    }

    /// The same, of bytes that are no text.
    pub(crate) fn deliver_bytes(&mut self, index: usize, bytes: &[u8]) {
        let connection = self.lines[&index].connection;
        let ended = &mut self.ended;
        let mut done = |token, outcome: Outcome<'_>| ended.push((token, print(outcome)));
        let consumed = self.core.received(self.now, connection, bytes, &mut done);
        assert_eq!(consumed, bytes.len());
    }

    /// A connection answers so many requests with this each, all in one read.
    pub(crate) fn answer_on(&mut self, index: usize, times: usize, reply: &str) {
        let line = self.lines.get_mut(&index).expect("connected");
        assert!(line.asked.drain(..times).all(|request| request != "ASKING"));
        self.deliver(index, &reply.repeat(times));
        self.settle();
    }

    /// A node answers, over its one connection, the oldest open request.
    pub(crate) fn answer(&mut self, node: u8, reply: &str) {
        self.answer_on(self.line_to(node), 1, reply);
    }

    /// A node pushes bytes over its one connection.
    pub(crate) fn push_bytes(&mut self, node: u8, bytes: &[u8]) {
        self.deliver_bytes(self.line_to(node), bytes);
        self.settle();
    }

    /// A node pushes a message over its one connection.
    pub(crate) fn push(&mut self, node: u8, bytes: &str) {
        self.deliver(self.line_to(node), bytes);
        self.settle();
    }

    /// A connection breaks.
    pub(crate) fn cut(&mut self, index: usize) {
        let line = self.lines.remove(&index).expect("connected");
        self.subscribed.remove(&index);
        self.handle(Input::Disconnected(line.connection));
        self.settle();
    }

    pub(crate) fn get(&mut self, token: Token, key: &str) {
        self.core.get(self.now, token, HashedKey::new(key.as_bytes())).unwrap();
        self.settle();
    }

    pub(crate) fn write(&mut self, token: Token, args: &[&str]) {
        let args: Vec<&[u8]> = args.iter().map(|arg| arg.as_bytes()).collect();
        let key = Destination::Key(HashedKey::new(args[1]));
        self.core.submit(self.now, token, Class::Write, key, &args).unwrap();
        self.settle();
    }

    /// The connections to a node.
    pub(crate) fn to(&self, node: u8) -> Vec<usize> {
        self.lines.iter().filter(|(_, line)| line.node == node).map(|(&index, _)| index).collect()
    }

    /// The only connection to a node.
    pub(crate) fn line_to(&self, node: u8) -> usize {
        let [index] = self.to(node)[..] else { panic!("node {node} has another number of connections") };
        index
    }

    /// The open requests of each connection to a node, in the order of their indices.
    pub(crate) fn asked_by_line(&self, node: u8) -> Vec<Vec<&str>> {
        let lines = self.lines.values().filter(|line| line.node == node);
        lines.map(|line| line.asked.iter().map(String::as_str).collect()).collect()
    }

    /// A node's open requests, except for a map, which it sends by itself in turn.
    pub(crate) fn asked(&self, node: u8) -> Vec<&str> {
        self.asked_by_line(node).concat().into_iter().filter(|&request| request != "SIDLE.MAP").collect()
    }

    pub(crate) fn ended(&mut self) -> Vec<(Token, String)> {
        std::mem::take(&mut self.ended)
    }
}

/// Node `owner` of two owns everything and nothing moves.
pub(crate) fn still(epoch: u64, owner: u8) -> TabletMap {
    map(epoch, 2, &[(0, owner, epoch)], vec![])
}

/// Node 1 gives everything to node 2.
pub(crate) fn moving() -> TabletMap {
    map(2, 2, &[(0, 2, 2)], vec![running(1, range(0, u64::MAX), 1, 2, 2)])
}
