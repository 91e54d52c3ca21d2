//! A client without the library. It believes a redirect until the next one, asks nodes at random, and
//! pipelines requests, in pieces or as plain lines. It may delay a double read's request to the source, and
//! hangs up at random. It changes and reads groups by transactions, too.

use super::resp_stream::{Received, RespStream};
use super::wires::Ended;
use crate::host::Host;
use crate::network::{Side, Signal, StreamId};
use crate::process::{host_at, host_of};
use crate::workload::{Asked, History, Turn, Workload};
use crate::world::{Actor, HostId, World};
use sidle_client_core::{Class, Effect};
use sidle_cluster::HostPort;
use sidle_history::Operation;
use sidle_resp::{RequestWriter, Value};
use sidle_testbed::Random;
use sidle_types::{MigrationId, Slot};
use std::collections::{BTreeMap, VecDeque};

/// The settings of such a client.
#[derive(Clone, Debug)]
pub struct BareSetup {
    /// Whether it gets `EMPTY`, and then asks the source.
    pub is_aware: bool,
    /// How many requests it has under way at once.
    pub depth: usize,
    /// The longest pause between two bursts.
    pub think_us: u64,
    /// The longest delay before it asks a source, and between two pieces of a request.
    pub slowness_us: u64,
    /// How many of a thousand bursts end with hanging up.
    pub hangs_up_permille: u64,
}

/// The wait after an answer that means "not now".
const WAIT_US: u64 = 2_000;
/// The longest request that is sent as a plain line.
const INLINE_BYTES: usize = 10_000;
/// How often it asks before giving up.
const TRIES: u32 = 2_000;

/// The purpose of an answer on a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Awaits {
    /// The greeting, or ASKING.
    Nothing,
    /// A queued command of this operation, or its MULTI.
    Queued(u64),
    /// The operation with this number.
    Answer(u64),
    /// Its value at the source.
    Frozen(u64),
}

struct UnderWay {
    asked: Asked,
    tries: u32,
    /// The latest try is a transaction.
    is_transaction: bool,
    /// Asks again then, after this answer.
    again: Option<(u64, Next)>,
}

/// An operation's next step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Next {
    /// Asks the node that it believes to be the owner.
    Ask,
    /// Asks this node once, as redirected.
    Asking(HostId),
    /// Asks this node for its frozen value in the migration.
    Frozen(HostId, MigrationId),
}

impl UnderWay {
    /// The requests of its next try. Every second operation on a group is tried as a transaction first, then
    /// in turns.
    fn requests(&mut self, number: u64, next: Next) -> Vec<Vec<String>> {
        let is_its_turn = number.is_multiple_of(2) && self.tries % 2 == 1;
        let commands =
            if is_its_turn && matches!(next, Next::Ask) { self.asked.as_transaction() } else { None };
        self.is_transaction = commands.is_some();
        match (next, commands) {
            (Next::Frozen(_, id), _) => {
                let key = self.asked.key().unwrap_or_default().to_owned();
                vec![vec!["SIDLE.FROZEN".to_owned(), id.to_string(), "GET".to_owned(), key]]
            }
            (_, Some(commands)) => {
                let [multi, exec] = ["MULTI", "EXEC"].map(|name| vec![vec![name.to_owned()]]);
                [multi, commands, exec].concat()
            }
            (_, None) => vec![self.asked.words.clone()],
        }
    }
}

/// Writes a request, as a plain line or as clients do. None needs quotes.
fn write_request(words: &[String], is_inline: bool, bytes: &mut Vec<u8>) {
    if is_inline {
        return bytes.extend_from_slice(format!("{}\r\n", words.join(" ")).as_bytes());
    }
    let words: Vec<&[u8]> = words.iter().map(String::as_bytes).collect();
    RequestWriter::new(bytes).request(&words);
}

/// Whether a transaction had no effect, and the same may be tried by one command.
fn is_discarded(reply: &Value) -> bool {
    let Value::Error(text) = reply else { return false };
    ["EXECABORT", "SIDLESPLIT", "CROSSSLOT"].contains(&text.split(' ').next().unwrap_or_default())
}

/// A client without the library.
pub struct Bare {
    number: usize,
    setup: BareSetup,
    random: Random,
    lines: BTreeMap<StreamId, (RespStream, VecDeque<Awaits>)>,
    /// The redirects' owners, by slot.
    owners: BTreeMap<Slot, HostId>,
    under_way: BTreeMap<u64, UnderWay>,
    asked: u64,
    next_us: u64,
    is_stopped: bool,
    /// Operations that were answered.
    pub answered: u64,
    /// Redirects of each kind: MOVED, ASK.
    pub redirects: [u64; 2],
    /// How many answers reported that a value had not arrived.
    pub empties: u64,
    /// How many transactions were executed.
    pub executed: u64,
}

impl Bare {
    /// The client with this number.
    pub fn new(number: usize, setup: BareSetup, random: Random) -> Bare {
        Bare {
            number,
            setup,
            random,
            lines: BTreeMap::new(),
            owners: BTreeMap::new(),
            under_way: BTreeMap::new(),
            asked: 0,
            next_us: 0,
            is_stopped: false,
            answered: 0,
            redirects: [0; 2],
            empties: 0,
            executed: 0,
        }
    }

    /// Begins nothing from now on.
    pub fn stop(&mut self) {
        self.is_stopped = true;
    }

    /// What is under way, in words.
    pub fn under_way(&self) -> Vec<String> {
        self.under_way.values().map(|operation| operation.asked.words.join(" ")).collect()
    }

    /// The records of what is under way.
    pub fn open_records(&self) -> impl Iterator<Item = &Operation> {
        self.under_way.values().flat_map(|operation| operation.asked.open_records())
    }

    /// One of its connections.
    pub fn any_stream(&self, world: &mut World) -> Option<StreamId> {
        let count = self.lines.len();
        let index = (count > 0).then(|| world.random.index(count))?;
        self.lines.keys().nth(index).copied()
    }

    /// It has a turn.
    pub fn turn(
        &mut self,
        workload: &Workload,
        hosts: &[Host],
        world: &mut World,
        history: &mut History,
    ) -> Result<(), String> {
        if !self.is_stopped && self.next_us <= world.now_us {
            self.next_us = world.now_us + self.random.below(self.setup.think_us + 1);
            let burst = self.random.between(1, self.setup.depth as u64);
            for _ in 0..burst {
                if self.under_way.len() < self.setup.depth {
                    self.begin(workload, hosts, world);
                }
            }
            if self.random.permille(self.setup.hangs_up_permille)
                && let Some(stream) = self.any_stream(world)
            {
                world.tell(|| format!("client {} hangs up", self.number));
                world.close(stream, Side::Opener);
                self.lost(stream, world, history)?;
            }
        }
        let due: Vec<(u64, Next)> = (self.under_way.iter())
            .filter_map(|(&number, operation)| operation.again.map(|(at_us, next)| (number, at_us, next)))
            .filter(|&(_, at_us, _)| at_us <= world.now_us)
            .map(|(number, _, next)| (number, next))
            .collect();
        for (number, next) in due {
            self.ask(number, next, hosts, world);
        }
        self.pump(world);
        Ok(())
    }

    fn begin(&mut self, workload: &Workload, hosts: &[Host], world: &mut World) {
        let turn = Turn { client: self.number as u64, serial: self.asked, now_us: world.now_us };
        let asked = workload.draw(&mut self.random, turn);
        self.asked += 1;
        world.tell(|| format!("client {} asks {:.90}", self.number, asked.words.join(" ")));
        let number = self.asked;
        self.under_way.insert(number, UnderWay { asked, tries: 0, is_transaction: false, again: None });
        self.ask(number, Next::Ask, hosts, world);
    }

    /// Sends the request of an operation.
    fn ask(&mut self, number: u64, next: Next, hosts: &[Host], world: &mut World) {
        let Some(operation) = self.under_way.get_mut(&number) else { return };
        operation.again = None;
        operation.tries += 1;
        let slot = operation.asked.key().map(|key| Slot::of_key(key.as_bytes()));
        let known = slot.and_then(|slot| self.owners.get(&slot)).copied();
        let anywhere = HostId(self.random.index(hosts.len()));
        let requests = operation.requests(number, next);
        let host = match next {
            Next::Ask if self.random.one_in(8) => anywhere,
            Next::Ask => known.unwrap_or(anywhere),
            Next::Asking(host) | Next::Frozen(host, _) => host,
        };
        let mut bytes = Vec::new();
        let mut awaits = Vec::new();
        if matches!(next, Next::Asking(_)) {
            bytes.extend_from_slice(b"ASKING\r\n");
            awaits.push(Awaits::Nothing);
        }
        awaits.extend(requests[1..].iter().map(|_| Awaits::Queued(number)));
        awaits.push(if matches!(next, Next::Frozen(..)) {
            Awaits::Frozen(number)
        } else {
            Awaits::Answer(number)
        });
        let length: usize = requests.iter().flatten().map(String::len).sum();
        let is_inline = self.random.one_in(4) && length < INLINE_BYTES;
        requests.iter().for_each(|words| write_request(words, is_inline, &mut bytes));
        let stream = self.line_to(host, world);
        let (line, awaited) = self.lines.get_mut(&stream).expect("it was just opened");
        awaited.extend(awaits);
        let cut = if self.random.one_in(4) { self.random.index(bytes.len()) } else { 0 };
        let rest = bytes.split_off(cut);
        let later_us = self.random.below(self.setup.slowness_us + 1);
        line.say(world.now_us, bytes);
        line.say(world.now_us + if cut > 0 { later_us } else { 0 }, rest);
    }

    fn line_to(&mut self, host: HostId, world: &mut World) -> StreamId {
        if let Some(&stream) = self.lines.iter().find(|(_, (line, _))| line.host == host).map(|(id, _)| id) {
            return stream;
        }
        let mut line = RespStream::to(host, Actor::Client(self.number), world);
        let mut awaited = VecDeque::from([Awaits::Nothing]);
        let mut greeting = b"HELLO 3\r\n".to_vec();
        if self.setup.is_aware {
            greeting.extend_from_slice(b"CLIENT CAPA sidle\r\n");
            awaited.push_back(Awaits::Nothing);
        }
        line.say(0, greeting);
        let stream = line.stream;
        self.lines.insert(stream, (line, awaited));
        stream
    }

    /// Something arrived.
    pub fn hear(
        &mut self,
        stream: StreamId,
        signal: Signal,
        hosts: &[Host],
        world: &mut World,
        history: &mut History,
    ) -> Result<(), String> {
        let Some((line, _)) = self.lines.get_mut(&stream) else {
            world.close(stream, Side::Opener);
            return Ok(());
        };
        match line.hear(signal)? {
            Received::Gone => {
                world.close(stream, Side::Opener);
                self.lost(stream, world, history)?;
            }
            Received::Replies(replies) => {
                for reply in replies {
                    self.take(stream, reply, hosts, world, history)?;
                }
            }
        }
        self.pump(world);
        Ok(())
    }

    fn take(
        &mut self,
        stream: StreamId,
        reply: Value,
        hosts: &[Host],
        world: &mut World,
        history: &mut History,
    ) -> Result<(), String> {
        let Some((line, awaited)) = self.lines.get_mut(&stream) else { return Ok(()) };
        let from = line.host;
        let now_us = world.now_us;
        let later_us = now_us + 1 + self.random.below(self.setup.slowness_us + 1);
        let (number, is_frozen) = match awaited.pop_front() {
            None => return Err(format!("node {} answered what was not asked: {reply:?}", from.0)),
            Some(Awaits::Nothing) => return Ok(()),
            Some(Awaits::Queued(number)) => return self.take_queued(number, &reply, now_us),
            Some(Awaits::Answer(number)) => (number, false),
            Some(Awaits::Frozen(number)) => (number, true),
        };
        let Some(operation) = self.under_way.get(&number) else { return Ok(()) };
        self.executed += u64::from(operation.is_transaction && matches!(reply, Value::Array(_)));
        let reply = if operation.is_transaction { operation.asked.answer_of_all(reply) } else { reply };
        let had_no_effect = operation.is_transaction && is_discarded(&reply);
        let (key, class) =
            (operation.asked.key().map(|key| Slot::of_key(key.as_bytes())), operation.asked.class);
        let next = match &reply {
            Value::Error(_) if had_no_effect => Some((now_us + WAIT_US, Next::Ask)),
            Value::Error(text) => self.redirected(text, key, is_frozen, now_us, later_us)?,
            Value::Simple(text) if text.starts_with("EMPTY ") && class == Class::Get => {
                Some((later_us, self.not_here_yet(text, &hosts[from.0])?))
            }
            _ => None,
        };
        let Some(operation) = self.under_way.get_mut(&number) else { return Ok(()) };
        match next {
            Some(_) if operation.tries >= TRIES => {
                self.end(number, Ended::Failed(Effect::None), world, history)
            }
            Some((at_us, next)) if at_us <= now_us => {
                self.ask(number, next, hosts, world);
                Ok(())
            }
            Some(again) => {
                operation.again = Some(again);
                Ok(())
            }
            None => {
                self.answered += 1;
                self.end(number, Ended::Reply(reply), world, history)
            }
        }
    }

    /// A command of a transaction was queued, or refused: then so is EXEC.
    fn take_queued(&mut self, number: u64, reply: &Value, now_us: u64) -> Result<(), String> {
        let Some(operation) = self.under_way.get(&number) else { return Ok(()) };
        let slot = operation.asked.key().map(|key| Slot::of_key(key.as_bytes()));
        match reply {
            Value::Simple(text) if text == "QUEUED" || text == "OK" => Ok(()),
            Value::Error(text) => self.redirected(text, slot, false, now_us, now_us).map(drop),
            other => Err(format!("a command was not queued: {other:?}")),
        }
    }

    /// The next step after this error of an operation on this slot; `None` if it is the answer.
    fn redirected(
        &mut self,
        text: &str,
        slot: Option<Slot>,
        is_frozen: bool,
        now_us: u64,
        later_us: u64,
    ) -> Result<Option<(u64, Next)>, String> {
        let mut words = text.split(' ');
        let code = words.next().unwrap_or_default();
        let to = words.nth(1).and_then(|word| word.parse::<HostPort>().ok()).map(|to| host_at(&to));
        Ok(match (code, to) {
            ("MOVED", Some(to)) => {
                self.redirects[0] += 1;
                self.owners.extend(slot.map(|slot| (slot, to)));
                Some((now_us, Next::Ask))
            }
            ("ASK", Some(to)) => {
                self.redirects[1] += 1;
                Some((now_us, Next::Asking(to)))
            }
            ("CLUSTERDOWN" | "TRYAGAIN" | "LOADING", _) => {
                // The redirect that led here may be outdated.
                slot.map(|slot| self.owners.remove(&slot));
                Some((now_us + WAIT_US, Next::Ask))
            }
            ("SIDLERETRY", _) if self.setup.is_aware => {
                let after_us = text.split(' ').nth(1).and_then(|word| word.parse::<u64>().ok());
                let after_us = after_us.ok_or_else(|| format!("{text} does not say when"))?;
                Some((later_us + after_us, Next::Ask))
            }
            ("SIDLEDONE" | "SIDLENOTFROZEN", _) if is_frozen => Some((later_us, Next::Ask)),
            _ => None,
        })
    }

    /// Where a GET asks after this host has answered `EMPTY`: the source of the named migration.
    fn not_here_yet(&mut self, text: &str, from: &Host) -> Result<Next, String> {
        if !self.setup.is_aware {
            return Err(format!("a client that knows nothing of migrations received {text}"));
        }
        self.empties += 1;
        let id = text["EMPTY ".len()..].parse().map(MigrationId);
        let id = id.map_err(|_| format!("{text} names no migration"))?;
        let map = from.process.as_ref().map(|process| process.map());
        let source = map.and_then(|map| map.migration(id)).map(|record| host_of(record.source));
        Ok(source.map_or(Next::Ask, |source| Next::Frozen(source, id)))
    }

    /// A connection is gone, and with it its outstanding answers.
    fn lost(&mut self, stream: StreamId, world: &mut World, history: &mut History) -> Result<(), String> {
        let Some((_, awaited)) = self.lines.remove(&stream) else { return Ok(()) };
        for awaits in awaited {
            match awaits {
                Awaits::Nothing | Awaits::Queued(_) => {}
                Awaits::Frozen(number) => {
                    if let Some(operation) = self.under_way.get_mut(&number) {
                        operation.again = Some((world.now_us + WAIT_US, Next::Ask));
                    }
                }
                Awaits::Answer(number) => {
                    let Some(operation) = self.under_way.get_mut(&number) else { continue };
                    let is_write = operation.asked.class == Class::Write;
                    if is_write || operation.tries >= TRIES {
                        let effect = if is_write { Effect::Unknown } else { Effect::None };
                        self.end(number, Ended::Failed(effect), world, history)?;
                    } else {
                        if let Some(key) = operation.asked.key() {
                            self.owners.remove(&Slot::of_key(key.as_bytes()));
                        }
                        operation.again = Some((world.now_us + WAIT_US, Next::Ask));
                    }
                }
            }
        }
        Ok(())
    }

    fn end(
        &mut self,
        number: u64,
        ended: Ended,
        world: &mut World,
        history: &mut History,
    ) -> Result<(), String> {
        let Some(operation) = self.under_way.remove(&number) else { return Ok(()) };
        world.tell(|| {
            let asked = operation.asked.words.join(" ");
            format!("client {} has {asked:.90}: {:.90}", self.number, format!("{ended:?}"))
        });
        world.story.note(world.now_us << 8 ^ u64::from(matches!(ended, Ended::Reply(_))));
        operation.asked.end(world.now_us, ended, history)
    }

    /// Sends what is due, and schedules its next turn.
    fn pump(&mut self, world: &mut World) {
        let unsaid: Vec<u64> = self.lines.values_mut().filter_map(|(line, _)| line.pump(world)).collect();
        let again = self.under_way.values().filter_map(|operation| operation.again.map(|(at_us, _)| at_us));
        let begins = (!self.is_stopped).then_some(self.next_us);
        if let Some(at_us) = unsaid.into_iter().chain(again).chain(begins).min() {
            world.turn_at(Actor::Client(self.number), at_us);
        }
    }
}
