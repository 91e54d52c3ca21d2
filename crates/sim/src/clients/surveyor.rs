//! The surveyor: keeps keys that no other client uses, scans nodes with SCAN, and in some simulations flushes
//! nodes.

use super::resp_stream::{Received, RespStream};
use super::wires::{Ended, Wires};
use crate::checks::{Holder, Ownership, Scan};
use crate::host::Host;
use crate::network::{Side, Signal, StreamId};
use crate::process::client_address;
use crate::workload::{History, Removal, TAG, Workload};
use crate::world::{Actor, HostId, World};
use sidle_client_core::{Awareness, Class, Config, Destination};
use sidle_history::{Datum, Op, Operation, Outcome};
use sidle_resp::Value;
use sidle_testbed::Random;
use sidle_types::{HashedKey, MonotonicUs};
use std::collections::BTreeSet;

/// A surveyor's settings.
#[derive(Clone, Copy, Debug)]
pub struct SurveyorSetup {
    /// How many keys it keeps.
    pub keys: u64,
    /// The longest pause between two requests.
    pub think_us: u64,
    /// How many of a thousand rounds flush a node instead of scanning it.
    pub flushes_permille: u64,
    /// How many flushes at most: every flush is a write to every key.
    pub flushes: u64,
    /// How many nodes there are.
    pub nodes: usize,
}

/// How long it waits for a key to be set.
const TIMEOUT_US: u64 = 5_000_000;

/// The use of its connection.
enum Round {
    Scanning { scan: Scan, found: BTreeSet<String> },
    Flushing(Flush),
}

/// A requested flush: the keys that it may remove, each with its holder then.
struct Flush {
    call_us: u64,
    /// Registers, each with its record unless more becomes known.
    records: Vec<Operation>,
    holders: Vec<Option<Holder>>,
    /// All others that are judged.
    others: Vec<(String, Option<Holder>)>,
}

/// What a flush did to a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Effect {
    /// It removed the key at one instant between call and return: the node asked owned it throughout.
    Removed,
    /// Another node owned it throughout.
    LeftAlone,
    /// Its owner changed, or nobody answered.
    Unknown,
}

/// The surveyor.
pub struct Surveyor {
    number: usize,
    setup: SurveyorSetup,
    random: Random,
    wires: Wires,
    /// Keys still to be set, and the one that is being set.
    unset: Vec<String>,
    setting: Option<String>,
    /// Whether a process died while it was set.
    is_in_doubt: bool,
    /// Keys that certainly exist.
    kept: BTreeSet<String>,
    line: Option<(RespStream, Round)>,
    next_us: u64,
    is_stopped: bool,
    /// Keys that whole scans had to return.
    pub judged: u64,
    /// Requested flushes.
    pub flushes: u64,
    /// How often a flush had each effect on a register.
    met: [u64; 3],
}

impl Surveyor {
    /// The surveyor, as the client with this number.
    pub fn new(number: usize, setup: SurveyorSetup, random: Random) -> Surveyor {
        let seeds = (0..setup.nodes).map(|host| client_address(HostId(host))).collect();
        let config =
            Config { awareness: Awareness::Plain, operation_timeout_us: TIMEOUT_US, ..Config::new(seeds) };
        let name = |number: u64| match number.is_multiple_of(2) {
            true => format!("s{number}"),
            false => format!("s{TAG}{number}"),
        };
        Surveyor {
            number,
            setup,
            random,
            wires: Wires::new(Actor::Client(number), config),
            unset: (0..setup.keys).map(name).collect(),
            setting: None,
            is_in_doubt: false,
            kept: BTreeSet::new(),
            line: None,
            next_us: 0,
            is_stopped: false,
            judged: 0,
            flushes: 0,
            met: [0; 3],
        }
    }

    /// How many flushes certainly removed a register, certainly left it alone, or may have done either.
    pub fn flushed_registers(&self) -> [(&'static str, u64); 3] {
        let names =
            ["flushed registers", "registers of others at a flush", "registers that a flush may have met"];
        std::array::from_fn(|effect| (names[effect], self.met[effect]))
    }

    /// Begins nothing from now on.
    pub fn stop(&mut self) {
        self.is_stopped = true;
    }

    /// What is under way, in words.
    pub fn under_way(&self) -> Option<&'static str> {
        match (&self.line, &self.setting) {
            (Some((_, Round::Scanning { .. })), _) => Some("a walk over a node"),
            (Some((_, Round::Flushing(_))), _) => Some("a flush"),
            (None, Some(_)) => Some("a key that is kept is set"),
            (None, None) => None,
        }
    }

    /// The keys that it keeps.
    pub fn kept(&self) -> impl Iterator<Item = String> + use<> {
        self.kept.clone().into_iter()
    }

    /// The keys that it will keep.
    pub fn unset(&self) -> impl Iterator<Item = String> + use<> {
        self.unset.clone().into_iter()
    }

    /// A process died: keys at risk may be gone from now on, and so may the one being set; those in doubt may
    /// go later, if they were set.
    pub fn lose(&mut self, at_risk: &[String], in_doubt: &[String]) {
        self.is_in_doubt = self.setting.is_some();
        at_risk.iter().for_each(|key| {
            self.kept.remove(key);
        });
        self.unset.retain(|key| !in_doubt.contains(key));
    }

    /// It has a turn.
    pub fn turn(&mut self, workload: &Workload, hosts: &[Host], world: &mut World) -> Result<(), String> {
        self.wires.tick(world);
        if self.next_us <= world.now_us && !self.is_stopped {
            self.next_us = world.now_us + 1 + self.random.below(self.setup.think_us + 1);
            let is_flushing = matches!(self.line, Some((_, Round::Flushing(_))));
            if self.setting.is_none()
                && !is_flushing
                && let Some(key) = self.unset.pop()
            {
                let words: [&[u8]; 3] = [b"SET", key.as_bytes(), b"kept"];
                let to = Destination::Key(HashedKey::new(key.as_bytes()));
                let admitted = self.wires.core.submit(MonotonicUs(world.now_us), 0, Class::Write, to, &words);
                admitted.expect("one operation is not many");
                self.setting = Some(key);
            }
            if self.line.is_none() {
                self.begin(workload, hosts, world);
            }
        }
        self.go_on(world);
        Ok(())
    }

    fn begin(&mut self, workload: &Workload, hosts: &[Host], world: &mut World) {
        // Every second flush is for an importing node.
        let takes_in =
            |host: &Host| host.process.as_ref().is_some_and(|process| process.imports().next().is_some());
        let may_flush = self.flushes < self.setup.flushes && self.setting.is_none();
        let target = hosts.iter().position(takes_in).filter(|_| may_flush && self.random.one_in(2));
        let host = HostId(target.unwrap_or_else(|| self.random.index(self.setup.nodes)));
        let mut line = RespStream::to(host, Actor::Client(self.number), world);
        let round = if may_flush && (target.is_some() || self.random.permille(self.setup.flushes_permille)) {
            self.flushes += 1;
            world.tell(|| format!("the surveyor flushes node {}", host.0));
            self.kept.clear();
            let ownership = Ownership::of(hosts, host);
            world.checks.flush(host);
            line.say(0, b"FLUSHALL\r\n".to_vec());
            let (client, now_ns) = (self.number as u64, world.now_us * 1000);
            let removal = |key: String| Operation::begun(client, Op::Flush, key, Datum::Null, now_ns);
            let others = workload.all_other_keys().map(|key| {
                let holder = ownership.holder(&key);
                (key, holder)
            });
            Round::Flushing(Flush {
                call_us: world.now_us,
                records: workload.all_keys().map(removal).collect(),
                holders: workload.all_keys().map(|key| ownership.holder(&key)).collect(),
                others: others.collect(),
            })
        } else {
            line.say(0, self.scan_request("0"));
            Round::Scanning { scan: Scan::begin(hosts, host, &self.kept), found: BTreeSet::new() }
        };
        self.line = Some((line, round));
    }

    fn scan_request(&mut self, cursor: &str) -> Vec<u8> {
        let count = self.random.magnitude(1, 500);
        match self.random.below(3) {
            0 => format!("SCAN {cursor} COUNT {count}\r\n"),
            1 => format!("SCAN {cursor} MATCH s* COUNT {count}\r\n"),
            _ => format!("SCAN {cursor} MATCH *[0-9] COUNT {count} TYPE string\r\n"),
        }
        .into_bytes()
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
        let is_line = self.line.as_ref().is_some_and(|(line, _)| line.stream == stream);
        if !is_line {
            self.wires.hear(stream, signal, world);
            self.go_on(world);
            return Ok(());
        }
        let Some((mut line, mut round)) = self.line.take() else { return Ok(()) };
        let replies = match line.hear(signal)? {
            Received::Replies(replies) => replies,
            Received::Gone => {
                world.close(stream, Side::Opener);
                if let Round::Flushing(flush) = round {
                    self.flushed(flush, None, line.host, hosts, history);
                }
                self.go_on(world);
                return Ok(());
            }
        };
        for reply in replies {
            match round {
                Round::Flushing(flush) => {
                    if reply == Value::Simple("OK".to_owned()) {
                        self.flushed(flush, Some(world.now_us), line.host, hosts, history);
                    } else if is_refusal(&reply) {
                        world.meet("flushes refused", 1);
                    } else {
                        return Err(format!("FLUSHALL was answered {reply:?}"));
                    }
                    world.close(stream, Side::Opener);
                    self.go_on(world);
                    return Ok(());
                }
                // It has no keys yet.
                Round::Scanning { .. } if is_refusal(&reply) => {
                    world.close(stream, Side::Opener);
                    self.go_on(world);
                    return Ok(());
                }
                Round::Scanning { ref scan, ref mut found } => {
                    let Some((cursor, keys)) = scanned(&reply) else {
                        return Err(format!("SCAN was answered {reply:?}"));
                    };
                    found.extend(keys);
                    if cursor == "0" {
                        scan.end(hosts, &self.kept, found).map_err(|violation| violation.to_string())?;
                        self.judged += scan.expected() as u64;
                        world.close(stream, Side::Opener);
                        self.go_on(world);
                        return Ok(());
                    }
                    let later_us = world.now_us + self.random.below(self.setup.think_us + 1);
                    line.say(later_us, self.scan_request(&cursor));
                }
            }
        }
        self.line = Some((line, round));
        self.go_on(world);
        Ok(())
    }

    /// The records of a flush under way.
    pub fn open_records(&self) -> &[Operation] {
        match &self.line {
            Some((_, Round::Flushing(flush))) => &flush.records,
            _ => &[],
        }
    }

    /// A flush was answered, or its connection is gone.
    fn flushed(
        &mut self,
        flush: Flush,
        return_us: Option<u64>,
        host: HostId,
        hosts: &[Host],
        history: &mut History,
    ) {
        if return_us.is_none() {
            // It may still happen.
            self.unset.clear();
            self.kept.clear();
        }
        let ownership = Ownership::of(hosts, host);
        let effect = |key: &str, before: Option<Holder>| {
            let held = before.filter(|_| return_us.is_some() && ownership.holder(key) == before);
            held.map_or(Effect::Unknown, |holder| match holder.is_self {
                true => Effect::Removed,
                false => Effect::LeftAlone,
            })
        };
        for (mut record, before) in flush.records.into_iter().zip(flush.holders) {
            let effect = effect(&record.key, before);
            self.met[effect as usize] += 1;
            if effect == Effect::Removed {
                record.result = "OK".into();
                record.return_ns = return_us.map(|us| us * 1000);
                record.outcome = Outcome::Ok;
            }
            if effect != Effect::LeftAlone {
                history.registers.push(record);
            }
        }
        for (key, before) in flush.others {
            let effect = effect(&key, before);
            if effect != Effect::LeftAlone {
                let is_certain = effect == Effect::Removed;
                let removal = Removal { call_us: flush.call_us, return_us, is_certain };
                history.clear(self.number as u64, key, removal);
            }
        }
    }

    fn go_on(&mut self, world: &mut World) {
        let mut timeout_us = self.wires.pump(world);
        for (_, ended) in self.wires.take_ended() {
            let set = self.setting.take();
            let is_set = ended == Ended::Reply(Value::Simple("OK".to_owned()));
            let is_kept = is_set && !std::mem::take(&mut self.is_in_doubt);
            self.kept.extend(set.filter(|_| is_kept));
            timeout_us = self.wires.pump(world);
        }
        let unsaid_us = self.line.as_mut().and_then(|(line, _)| line.pump(world));
        let begins_us = (!self.is_stopped).then_some(self.next_us);
        if let Some(at_us) = [timeout_us, unsaid_us, begins_us].into_iter().flatten().min() {
            world.turn_at(Actor::Client(self.number), at_us);
        }
    }
}

/// Whether a node refused to flush, because it owns a range without the data, reads its durable log, or
/// cannot write it, or make it safe: then it flushed nothing.
fn is_refusal(reply: &Value) -> bool {
    let codes = ["CLUSTERDOWN ", "MISCONF ", "NOREPLICAS ", "LOADING "];
    matches!(reply, Value::Error(why) if codes.iter().any(|code| why.starts_with(code)))
}

/// The cursor and the keys of an answer to SCAN.
fn scanned(reply: &Value) -> Option<(String, Vec<String>)> {
    let text = |value: &Value| String::from_utf8(value.as_bytes()?.to_vec()).ok();
    match reply {
        Value::Array(parts) => match parts.as_slice() {
            [cursor, Value::Array(keys)] => {
                Some((text(cursor)?, keys.iter().map(text).collect::<Option<_>>()?))
            }
            _ => None,
        },
        _ => None,
    }
}
