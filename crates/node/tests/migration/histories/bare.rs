//! Sessions driven by hand, one request at a time, without a map. They ask the source of a double read long
//! after the target. A client library does not, so they reach other orders of events.

use super::draw::{Asked, Draw, datum, is_failure};
use sidle_history::{Datum, Operation};
use sidle_node::testing::{ClientKey, TestCluster};
use sidle_resp::Value;
use sidle_types::MigrationId;

/// An operation's stage.
enum Stage {
    /// No request is open.
    Idle,
    /// The requests travel to this node: one, or two, of which the first is ASKING.
    Sent { node: usize, requests: Vec<String> },
    /// This node has them; the answer to ASKING is still outstanding.
    WaitingToAsk { node: usize },
    /// This node has the request.
    Waiting { node: usize },
    /// The source has the request for its frozen value.
    WaitingForFrozen { node: usize },
    /// The answer travels back.
    Answered { result: Datum },
    /// An error travels back, with the possible effect.
    Failed { record: Box<Operation> },
}

pub(super) struct BareSession {
    number: u64,
    is_aware: bool,
    to: Vec<ClientKey>,
    /// The node believed to own everything.
    owner: usize,
    stage: Stage,
    wake_us: u64,
    asked: Option<Asked>,
    left: u64,
}

impl BareSession {
    pub(super) fn new(cluster: &mut TestCluster, number: u64, operations: u64) -> BareSession {
        let is_aware = number.is_multiple_of(2);
        let worker = number as usize % 2;
        let connect = |node| match is_aware {
            true => cluster.connect_aware(node, worker),
            false => cluster.connect(node, worker),
        };
        BareSession {
            number,
            is_aware,
            to: (0..2).map(connect).collect(),
            owner: 0,
            stage: Stage::Idle,
            wake_us: 0,
            asked: None,
            left: operations,
        }
    }

    fn request(&self) -> String {
        self.asked.as_ref().expect("an operation is under way").words.join(" ")
    }

    fn send(&mut self, node: usize, requests: Vec<String>, now_us: u64, draw: &mut Draw) {
        self.stage = Stage::Sent { node, requests };
        self.wake_us = now_us + draw.travel_us();
    }

    fn send_to_owner(&mut self, now_us: u64, draw: &mut Draw) {
        let request = self.request();
        self.send(self.owner, vec![request], now_us, draw);
    }

    /// Begins an operation, or passes a request to its node, if due.
    pub(super) fn step_requests(&mut self, cluster: &mut TestCluster, draw: &mut Draw) {
        let now_us = cluster.now().mono.0;
        if self.wake_us > now_us {
            return;
        }
        match &self.stage {
            Stage::Idle if self.left > 0 => {
                self.asked = Some(draw.operation(self.number, self.left, now_us));
                self.left -= 1;
                self.send_to_owner(now_us, draw);
            }
            Stage::Sent { node, requests } => {
                let node = *node;
                requests.iter().for_each(|request| cluster.send(self.to[node], request));
                self.stage = match requests.first().map(String::as_str) {
                    Some("ASKING") => Stage::WaitingToAsk { node },
                    Some(request) if request.starts_with("SIDLE.FROZEN") => Stage::WaitingForFrozen { node },
                    _ => Stage::Waiting { node },
                };
            }
            _ => {}
        }
    }

    /// Takes in a node's answers; returns the operation if it has ended.
    pub(super) fn step_replies(&mut self, cluster: &mut TestCluster, draw: &mut Draw) -> Option<Operation> {
        let now_us = cluster.now().mono.0;
        match &self.stage {
            Stage::WaitingToAsk { node } => {
                if let Some(reply) = cluster.client(self.to[*node]).receive() {
                    assert_eq!(reply, Value::Simple("OK".into()));
                    self.stage = Stage::Waiting { node: *node };
                    return self.step_replies(cluster, draw);
                }
            }
            Stage::Waiting { node } => {
                if let Some(reply) = cluster.client(self.to[*node]).receive() {
                    self.reply(cluster, *node, draw, reply);
                }
            }
            Stage::WaitingForFrozen { node } => match cluster.client(self.to[*node]).receive() {
                None => {}
                Some(Value::Error(text)) => {
                    assert!(text.starts_with("SIDLEDONE ") || text.starts_with("SIDLENOTFROZEN "), "{text}");
                    self.send_to_owner(now_us, draw);
                }
                Some(reply) => self.answered(now_us, draw, reply),
            },
            Stage::Answered { result } if self.wake_us <= now_us => {
                let ended = self.asked.take().map(|asked| asked.answered(now_us, result.clone()));
                self.stage = Stage::Idle;
                self.wake_us = now_us + draw.span_us(100);
                return ended;
            }
            Stage::Failed { record } if self.wake_us <= now_us => {
                let record = *record.clone();
                self.asked = None;
                self.stage = Stage::Idle;
                self.wake_us = now_us + draw.span_us(100);
                return Some(record);
            }
            Stage::Idle | Stage::Sent { .. } | Stage::Answered { .. } | Stage::Failed { .. } => {}
        }
        None
    }

    fn reply(&mut self, cluster: &TestCluster, node: usize, draw: &mut Draw, reply: Value) {
        let now_us = cluster.now().mono.0;
        match reply {
            Value::Error(text) if text.starts_with("MOVED ") => {
                self.owner = usize::from(text.ends_with(":7002"));
                self.send_to_owner(now_us, draw);
            }
            Value::Error(text) if text.starts_with("ASK ") => {
                let there = usize::from(text.ends_with(":7002"));
                let requests = vec!["ASKING".to_owned(), self.request()];
                self.send(there, requests, now_us, draw);
            }
            Value::Error(text) if is_failure(&text) => {
                assert!(!self.is_aware, "requests of aware clients are not forwarded");
                let asked = self.asked.as_ref().expect("an operation is under way");
                self.stage = Stage::Failed { record: Box::new(asked.failed(&text)) };
                self.wake_us = now_us + draw.travel_us();
            }
            Value::Error(text) if text.starts_with("SIDLERETRY ") => {
                assert!(self.is_aware, "only aware clients are asked to retry");
                self.send_to_owner(now_us, draw);
            }
            Value::Simple(text) if text.starts_with("EMPTY ") => {
                assert!(self.is_aware, "only aware clients receive EMPTY");
                let id = text["EMPTY ".len()..].parse().map(MigrationId).expect("EMPTY names its migration");
                let map = cluster.nodes[node].workers[0].ranges().map();
                // The map may be newer than the answer: then the owner is asked again.
                match map.migration(id) {
                    Some(record) => {
                        let source = usize::from(record.source == cluster.nodes[1].info.id);
                        let key = &self.asked.as_ref().expect("an operation is under way").operation.key;
                        let request = format!("SIDLE.FROZEN {id} GET {key}");
                        self.send(source, vec![request], now_us, draw);
                    }
                    None => self.send_to_owner(now_us, draw),
                }
            }
            reply => self.answered(now_us, draw, reply),
        }
    }

    fn answered(&mut self, now_us: u64, draw: &mut Draw, reply: Value) {
        self.stage = Stage::Answered { result: datum(reply) };
        self.wake_us = now_us + draw.travel_us();
    }

    /// When it next acts by itself.
    pub(super) fn wake_us(&self) -> Option<u64> {
        match self.stage {
            Stage::Idle if self.left == 0 => None,
            Stage::Idle | Stage::Sent { .. } | Stage::Answered { .. } | Stage::Failed { .. } => {
                Some(self.wake_us)
            }
            Stage::WaitingToAsk { .. } | Stage::Waiting { .. } | Stage::WaitingForFrozen { .. } => None,
        }
    }

    pub(super) fn is_over(&self) -> bool {
        self.left == 0 && matches!(self.stage, Stage::Idle)
    }
}
