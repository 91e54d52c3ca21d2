//! Clients that break the rules: some never read their answers, some send invalid requests.

use super::resp_stream::{Received, RespStream};
use crate::network::{Place, Signal, StreamId};
use crate::world::{Actor, HostId, World};
use sidle_resp::Value;
use sidle_testbed::Random;

/// What is wrong with a client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Misbehaviour {
    /// It asks and never reads.
    NeverReads,
    /// It sends invalid requests.
    Babbles,
}

/// The settings of such a client.
#[derive(Clone, Copy, Debug)]
pub struct MisbehavingSetup {
    /// What is wrong with it.
    pub misbehaviour: Misbehaviour,
    /// The longest pause between two attempts.
    pub think_us: u64,
    /// How many nodes there are.
    pub nodes: usize,
}

/// So long that it reads only once.
const NEVER_US: u64 = 1 << 50;
/// How many requests a client that never reads sends at once, and in all.
const REQUESTS: (u64, u64) = (200, 4_000);

/// Invalid requests, each of a different kind.
const NO_REQUESTS: &[&[u8]] = &[
    b"*x\r\n",
    b"*99999999999\r\n",
    b"*1\r\n:5\r\n",
    b"*2\r\n$3\r\nGET\r\n$x\r\n",
    b"*1\r\n$-1\r\n",
    b"GET \"k1\r\n",
    b"GET 'k1'k2\r\n",
];

/// A client that breaks the rules.
pub struct Misbehaving {
    number: usize,
    setup: MisbehavingSetup,
    random: Random,
    line: Option<RespStream>,
    /// How many of its valid requests have no answer.
    good: u64,
    /// Whether it has received an error for its invalid request.
    is_told: bool,
    next_us: u64,
    asked: u64,
    is_stopped: bool,
    /// How often it was disconnected.
    pub sent_away: u64,
}

impl Misbehaving {
    /// The client with this number.
    pub fn new(number: usize, setup: MisbehavingSetup, random: Random, world: &mut World) -> Misbehaving {
        if setup.misbehaviour == Misbehaviour::NeverReads {
            world.network.slow_down(Place::Client(number), NEVER_US);
        }
        Misbehaving {
            number,
            setup,
            random,
            line: None,
            good: 0,
            is_told: false,
            next_us: 0,
            asked: 0,
            is_stopped: false,
            sent_away: 0,
        }
    }

    /// Begins nothing from now on.
    pub fn stop(&mut self) {
        self.is_stopped = true;
    }

    /// What it waits for: to be disconnected.
    pub fn under_way(&self) -> Option<&'static str> {
        let waits = self.setup.misbehaviour == Misbehaviour::Babbles && self.line.is_some();
        waits.then_some("a client that makes no sense is sent away")
    }

    /// It has a turn.
    pub fn turn(&mut self, world: &mut World) {
        let me = Actor::Client(self.number);
        if !self.is_stopped && self.next_us <= world.now_us {
            self.next_us = world.now_us + 1 + self.random.below(self.setup.think_us + 1);
            let host = HostId(self.random.index(self.setup.nodes));
            match self.setup.misbehaviour {
                Misbehaviour::NeverReads if self.asked < REQUESTS.1 => {
                    self.asked += REQUESTS.0;
                    let line = self.line.get_or_insert_with(|| RespStream::to(host, me, world));
                    let request = b"*2\r\n$4\r\nKEYS\r\n$1\r\n*\r\n*1\r\n$4\r\nINFO\r\n";
                    line.say(0, request.repeat(REQUESTS.0 as usize / 2));
                }
                Misbehaviour::Babbles if self.line.is_none() => {
                    let mut line = RespStream::to(host, me, world);
                    self.good = self.random.below(4);
                    self.is_told = false;
                    line.say(0, b"PING\r\n".repeat(self.good as usize));
                    line.say(0, NO_REQUESTS[self.random.index(NO_REQUESTS.len())].to_vec());
                    self.line = Some(line);
                }
                _ => {}
            }
        }
        self.pump(world);
    }

    /// Something arrived.
    pub fn hear(&mut self, stream: StreamId, signal: Signal, world: &mut World) -> Result<(), String> {
        let Some(heard) = RespStream::hear_only(&mut self.line, stream, signal, world)? else {
            return Ok(());
        };
        match heard {
            Received::Gone => {
                self.sent_away += u64::from(self.is_told);
            }
            Received::Replies(replies) if self.setup.misbehaviour == Misbehaviour::Babbles => {
                for reply in replies {
                    self.take(reply)?;
                }
            }
            Received::Replies(_) => {}
        }
        self.pump(world);
        Ok(())
    }

    fn take(&mut self, reply: Value) -> Result<(), String> {
        match (&reply, self.good) {
            (Value::Simple(text), 1..) if text == "PONG" => self.good -= 1,
            (Value::Error(text), 1..) if text.starts_with("LOADING ") => self.good -= 1,
            (Value::Error(text), 0) if text.starts_with("ERR Protocol error") && !self.is_told => {
                self.is_told = true;
            }
            _ => return Err(format!("a client that makes no sense was answered {reply:?}")),
        }
        Ok(())
    }

    fn pump(&mut self, world: &mut World) {
        let unsaid_us = self.line.as_mut().and_then(|line| line.pump(world));
        let begins_us = (!self.is_stopped).then_some(self.next_us);
        if let Some(at_us) = unsaid_us.into_iter().chain(begins_us).min() {
            world.turn_at(Actor::Client(self.number), at_us);
        }
    }
}
