//! A connection of a client without the library that asks one thing at a time, and follows redirects.

use super::resp_stream::{Received, RespStream};
use crate::network::{Side, Signal, StreamId};
use crate::process::host_at;
use crate::world::{Actor, HostId, World};
use sidle_cluster::HostPort;
use sidle_resp::{RequestWriter, Value};
use sidle_testbed::Random;

/// The wait after an answer that means "not now".
const WAIT_US: u64 = 2_000;

/// What has arrived for it.
pub(super) enum Heard {
    /// Nothing that ends its wait.
    Nothing,
    /// The answers to all that was asked.
    Answers(Vec<Value>),
    /// The connection is gone, and the answers with it.
    Gone,
}

/// An arrival over a connection of one of these: whose it is, and what that has heard. A connection that
/// none of them has any more is closed.
pub(super) fn hear_for_one<'c>(
    callers: impl Iterator<Item = &'c mut Caller>,
    (stream, signal): (StreamId, Signal),
    random: &mut Random,
    world: &mut World,
) -> Result<Option<(usize, Heard)>, String> {
    let Some((number, caller)) = callers.enumerate().find(|(_, caller)| caller.has(stream)) else {
        world.close(stream, Side::Opener);
        return Ok(None);
    };
    let heard = caller.hear(signal, world)?;
    if matches!(heard, Heard::Gone) {
        caller.try_another(random);
    }
    Ok(Some((number, heard)))
}

/// A connection that is opened again when it is needed.
pub(super) struct Caller {
    me: Actor,
    nodes: usize,
    host: HostId,
    /// The next request follows an ASK.
    is_sent_on: bool,
    line: Option<RespStream>,
    /// How many answers to come mean nothing: to the greeting, or to ASKING.
    ignored: usize,
    awaited: usize,
    answers: Vec<Value>,
}

impl Caller {
    /// Connected to nobody yet.
    pub(super) fn new(me: Actor, nodes: usize) -> Caller {
        let (line, answers) = (None, Vec::new());
        Caller { me, nodes, host: HostId(0), is_sent_on: false, line, ignored: 0, awaited: 0, answers }
    }

    /// Whether this is its connection.
    fn has(&self, stream: StreamId) -> bool {
        self.line.as_ref().is_some_and(|line| line.stream == stream)
    }

    /// Its connection, if it has one.
    pub(super) fn stream(&self) -> Option<StreamId> {
        self.line.as_ref().map(|line| line.stream)
    }

    /// Asks this, all at once. Nothing else is under way.
    pub(super) fn ask(&mut self, requests: &[Vec<String>], world: &mut World) {
        let (host, me) = (self.host, self.me);
        let mut bytes = Vec::new();
        if self.line.is_none() {
            self.ignored = 1;
            bytes.extend_from_slice(b"HELLO 3\r\n");
        }
        if std::mem::take(&mut self.is_sent_on) {
            self.ignored += 1;
            bytes.extend_from_slice(b"ASKING\r\n");
        }
        for words in requests {
            let words: Vec<&[u8]> = words.iter().map(String::as_bytes).collect();
            RequestWriter::new(&mut bytes).request(&words);
        }
        self.awaited = requests.len();
        self.answers.clear();
        let line = self.line.get_or_insert_with(|| RespStream::to(host, me, world));
        line.say(world.now_us, bytes);
        line.pump(world);
    }

    /// An arrival over its connection.
    fn hear(&mut self, signal: Signal, world: &mut World) -> Result<Heard, String> {
        let Some(line) = &mut self.line else { return Ok(Heard::Nothing) };
        let replies = match line.hear(signal)? {
            Received::Replies(replies) => replies,
            Received::Gone => {
                self.hang_up(world);
                return Ok(Heard::Gone);
            }
        };
        line.pump(world);
        for reply in replies {
            if self.ignored > 0 {
                self.ignored -= 1;
            } else if self.awaited == self.answers.len() {
                return Err(format!("node {} answered what was not asked: {reply:?}", self.host.0));
            } else {
                self.answers.push(reply);
            }
        }
        if self.awaited == 0 || self.answers.len() < self.awaited {
            return Ok(Heard::Nothing);
        }
        self.awaited = 0;
        Ok(Heard::Answers(std::mem::take(&mut self.answers)))
    }

    /// Closes its connection.
    pub(super) fn hang_up(&mut self, world: &mut World) {
        if let Some(line) = self.line.take() {
            world.close(line.stream, Side::Opener);
        }
        (self.ignored, self.awaited) = (0, 0);
    }

    /// Follows an error that sends it elsewhere or means "not now": after which wait to ask again.
    pub(super) fn follow(&mut self, error: &str, random: &mut Random, world: &mut World) -> Option<u64> {
        let mut words = error.split(' ');
        let code = words.next().unwrap_or_default();
        let to = words.nth(1).and_then(|word| word.parse::<HostPort>().ok()).map(|to| host_at(&to));
        let (host, wait_us) = match (code, to) {
            ("MOVED" | "ASK", Some(to)) => (to, 0),
            ("CLUSTERDOWN" | "TRYAGAIN" | "LOADING", _) => (HostId(random.index(self.nodes)), WAIT_US),
            _ => return None,
        };
        self.is_sent_on = code == "ASK";
        if host != self.host {
            self.hang_up(world);
            self.host = host;
        }
        Some(wait_us)
    }

    /// Asks another node from now on, after its connection is gone.
    fn try_another(&mut self, random: &mut Random) {
        self.host = HostId(random.index(self.nodes));
    }
}
