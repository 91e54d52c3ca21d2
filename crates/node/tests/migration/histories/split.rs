//! Clients that know whole slots only, on the keys of one slot that is split and joined meanwhile. Each asks
//! the node shown as the slot's owner, for single keys and for several at once.

use super::draw::{Asked, Draw, KEYS, TAG, datum, is_failure};
use super::nemesis::Nemesis;
use super::{SEEDS_OF_EACH, is_seen};
use crate::common::by_cuts;
use sidle_history::{CheckOptions, Datum, Op, Operation, Outcome, Report, check};
use sidle_migration::PROTOCOLS;
use sidle_node::testing::{ClientKey, ClusterSetup, TestCluster};
use sidle_resp::Value;
use sidle_types::Fault;

/// The number of clients, and of each one's operations.
const CLIENTS: u64 = 4;
const OPERATIONS: u64 = 200;

/// What a client waits for.
enum UnderWay {
    /// The answer to an operation on one key.
    One(Asked),
    /// The answer to an operation on several keys: a record for each.
    Several { records: Vec<Operation>, words: Vec<String> },
}

struct Client {
    number: u64,
    to: Vec<ClientKey>,
    /// The slot's owner, as shown to the client.
    owner: usize,
    under_way: Option<UnderWay>,
    wake_us: u64,
    left: u64,
}

impl Client {
    fn new(cluster: &mut TestCluster, number: u64) -> Client {
        let to: Vec<ClientKey> = (0..2).map(|node| cluster.connect(node, number as usize % 2)).collect();
        if number.is_multiple_of(2) {
            to.iter().for_each(|&to| drop(cluster.ask(to, "HELLO 3")));
        }
        Client { number, to, owner: 0, under_way: None, wake_us: 0, left: OPERATIONS }
    }

    fn is_over(&self) -> bool {
        self.left == 0 && self.under_way.is_none()
    }

    fn step_requests(&mut self, cluster: &mut TestCluster, draw: &mut Draw) {
        let now_us = cluster.now().mono.0;
        if self.under_way.is_some() || self.left == 0 || self.wake_us > now_us {
            return;
        }
        self.left -= 1;
        let under_way = match draw.below(3) {
            0 => self.several(draw, now_us),
            _ => UnderWay::One(on_the_slot(self.number, self.left, now_us, draw)),
        };
        self.send(cluster, &under_way);
        self.under_way = Some(under_way);
    }

    fn several(&self, draw: &mut Draw, now_us: u64) -> UnderWay {
        let is_write = draw.below(2) == 0;
        let mut words = vec![if is_write { "MSET" } else { "MGET" }.to_owned()];
        let mut records = Vec::new();
        for number in (KEYS..2 * KEYS).step_by(2).filter(|_| draw.below(3) == 0).collect::<Vec<_>>() {
            let key = format!("{TAG}{number}");
            words.push(key.clone());
            let (op, arg) = match is_write {
                true => (Op::Set, Datum::Integer((self.number * 10_000 + self.left * 20 + number) as i64)),
                false => (Op::Get, Datum::Null),
            };
            if let Datum::Integer(value) = arg {
                words.push(value.to_string());
            }
            records.push(Operation::begun(self.number, op, key, arg, now_us * 1000));
        }
        match records.is_empty() {
            true => UnderWay::One(on_the_slot(self.number, self.left, now_us, draw)),
            false => UnderWay::Several { records, words },
        }
    }

    fn send(&self, cluster: &mut TestCluster, under_way: &UnderWay) {
        let words = match under_way {
            UnderWay::One(asked) => &asked.words,
            UnderWay::Several { words, .. } => words,
        };
        cluster.send(self.to[self.owner], &words.join(" "));
    }

    fn step_replies(&mut self, cluster: &mut TestCluster, draw: &mut Draw, history: &mut Vec<Operation>) {
        let Some(reply) = cluster.client(self.to[self.owner]).receive() else { return };
        let now_us = cluster.now().mono.0;
        let under_way = self.under_way.take().expect("only what was asked is answered");
        match reply {
            Value::Error(text) if text.starts_with("MOVED ") => {
                self.owner = usize::from(text.ends_with(":7002"));
                self.send(cluster, &under_way);
                self.under_way = Some(under_way);
                return;
            }
            Value::Error(text) => {
                assert!(is_failure(&text), "{text}");
                match under_way {
                    UnderWay::One(asked) => history.push(asked.failed(&text)),
                    UnderWay::Several { records, .. } => {
                        let is_unknown = text.starts_with(sidle_node::UNKNOWN);
                        let outcome = if is_unknown { Outcome::Unknown } else { Outcome::None };
                        history.extend(records.into_iter().map(|record| Operation { outcome, ..record }));
                    }
                }
            }
            reply => match under_way {
                UnderWay::One(asked) => history.push(asked.answered(now_us, datum(reply))),
                UnderWay::Several { records, .. } => {
                    let results: Vec<Datum> = match reply {
                        Value::Array(replies) => replies.into_iter().map(datum).collect(),
                        other => vec![datum(other); records.len()],
                    };
                    assert_eq!(results.len(), records.len());
                    history.extend(records.into_iter().zip(results).map(|(record, result)| Operation {
                        result,
                        return_ns: Some(now_us * 1000),
                        outcome: Outcome::Ok,
                        ..record
                    }));
                }
            },
        }
        self.wake_us = now_us + draw.span_us(100);
    }
}

/// An operation on one key of the slot.
fn on_the_slot(client: u64, serial: u64, now_us: u64, draw: &mut Draw) -> Asked {
    loop {
        let asked = draw.operation(client, serial, now_us);
        if asked.operation.key.starts_with(TAG) {
            return asked;
        }
    }
}

/// One seed; returns the verdict, and how many requests were forwarded.
fn run(protocol: &'static str, seed: u64) -> (Report, u64) {
    let mut draw = Draw::new(seed);
    let mut cluster = TestCluster::new(ClusterSetup::default());
    let mut clients: Vec<Client> = (0..CLIENTS).map(|number| Client::new(&mut cluster, number)).collect();
    let mut nemesis = Nemesis::of_the_slot(&mut cluster, protocol);
    let mut history = Vec::new();
    let limit_us = cluster.now().mono.0 + 60_000_000;
    while !clients.iter().all(Client::is_over) {
        assert!(cluster.now().mono.0 < limit_us, "seed {seed}: some operation never ends");
        clients.iter_mut().for_each(|client| client.step_requests(&mut cluster, &mut draw));
        cluster.settle();
        clients.iter_mut().for_each(|client| client.step_replies(&mut cluster, &mut draw, &mut history));
        nemesis.step(&mut cluster, &mut draw);
        match draw.below(400) {
            0 => cluster.network.cut_forwarding(),
            1 => cluster.network.hold_forwarded = true,
            _ => {}
        }
        let idle = clients.iter().filter(|client| client.under_way.is_none() && client.left > 0);
        let wakes = idle.map(|client| client.wake_us).chain([nemesis.next_us]);
        let next_us = wakes.min().expect("the nemesis always changes");
        cluster.advance(next_us);
    }
    let forwarded = cluster.nodes.iter().map(|node| node.parts.shared.sum(|worker| worker.forwarded.read()));
    let forwarded = forwarded.sum();
    cluster.network.release();
    cluster.network.is_cut = false;
    cluster.run_for(1_000_000);
    for node in &cluster.nodes {
        let left: Vec<_> = node.workers.iter().flat_map(|worker| worker.in_hand()).collect();
        assert!(left.is_empty(), "seed {seed}: {left:?}");
    }
    (check(&history, CheckOptions::default()), forwarded)
}

#[test]
fn split_slots_are_linearizable_for_clients_that_know_whole_slots() {
    for protocol in PROTOCOLS {
        let (mut forwarded, mut answered, mut unknown) = (0, 0, 0);
        for seed in 0..SEEDS_OF_EACH {
            let (report, of_seed) = run(protocol.name, seed);
            assert!(report.is_linearizable(), "{}, seed {seed}: {report}", protocol.name);
            forwarded += of_seed;
            unknown += report.unknown;
            answered += report.operations - report.unknown - report.refused;
        }
        let counts =
            format!("{}: {forwarded} forwarded, {answered} answered, {unknown} unknown", protocol.name);
        // A source that serves what it has not given forwards less.
        let least = if by_cuts(protocol) { 30 } else { 50 };
        assert!(forwarded > least * SEEDS_OF_EACH && unknown > 10, "{counts}");
        assert!(answered > CLIENTS * OPERATIONS * SEEDS_OF_EACH / 2, "{counts}");
    }
}

#[test]
fn the_judge_sees_what_forwarding_may_not_do() {
    for fault in [Fault::ForwardedWithoutOwnershipCheck, Fault::LostWriteIsForwardedAgain] {
        assert!(is_seen(fault, |seed| run("fulva", seed).0), "{fault:?}");
    }
}
