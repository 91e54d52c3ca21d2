//! The operator: asks for migrations, cancels some, and never waits for one to end before the next.

use super::manner::Manners;
use super::wires::{Ended, Wires};
use crate::network::{Signal, StreamId};
use crate::process::{client_address, host_of};
use crate::workload::{TAG, inside_a_group, keep_whole};
use crate::world::{Actor, HostId, World};
use sidle_client_core::{Awareness, Class, Config, Destination};
use sidle_cluster::{TabletMap, Upgraded};
use sidle_resp::Value;
use sidle_testbed::Random;
use sidle_types::{MonotonicUs, Position, PositionRange, ProtocolVersion, Slot};

/// An operator's settings.
#[derive(Clone, Copy, Debug)]
pub struct OperatorSetup {
    /// The longest pause between two requests.
    pub rest_us: u64,
    /// How many of a thousand migrations are cancelled at their start; half as many are later.
    pub cancel_permille: u64,
    /// How many of a thousand moves are undone as soon as possible.
    pub return_permille: u64,
    /// How many of a thousand ranges are moved in two parts, one right after the other, which then waits for
    /// the first.
    pub hurry_permille: u64,
    /// How many of a thousand times it forgets a member without tablets, if there is one and faults still
    /// occur: first those whose process is gone.
    pub forgets_permille: u64,
    /// For scripted plans: it cuts groups' slots, and moves without a policy: a part of a command that waits
    /// long at another node ends as unknown.
    pub splits_groups: bool,
    /// When it asks for the cluster's version to be raised.
    pub upgrades: UpgradesSetup,
    /// The seed for when it has dead nodes taken over; none: never.
    pub takes_over: Option<u64>,
    /// How many nodes there are.
    pub nodes: usize,
}

/// When an operator asks for the cluster's version to be raised.
#[derive(Clone, Copy, Debug, Default)]
pub struct UpgradesSetup {
    /// After how many of a thousand requests; 0: never.
    pub permille: u64,
    /// The seed for that.
    pub seed: u64,
}

/// The longest wait for an answer: longer than a preparation may take.
const TIMEOUT_US: u64 = 45_000_000;

/// The longest pause before it asks for a return, and how many refusals make it give up.
const RETURN_US: u64 = 50_000;
const RETURN_TRIES: u32 = 20;

/// The longest pause between the two parts of a range.
const HURRY_US: u64 = 2_000;

const SET: &str = "SIDLE.MIGRATE SET";
const CANCEL: &str = "SIDLE.MIGRATE CANCEL";
const FORGET: &str = "SIDLE.FORGET";
const UPGRADE: &str = "SIDLE.UPGRADE";
const TAKE_OVER: &str = "SIDLE.TAKEOVER";
/// The longest pause before it asks for a takeover again.
const TAKE_OVER_US: u64 = 1_000_000;
/// The longest wait after another request before it asks for an upgrade: that request is under way then.
const UPGRADE_US: u64 = 20_000;

/// When to raise the cluster's version. Its draws do not affect the rest.
struct Upgrades {
    permille: u64,
    random: Random,
    is_due: bool,
}

/// The operator.
pub struct Operator {
    number: usize,
    setup: OperatorSetup,
    random: Random,
    manners: Manners,
    /// The counter for the last request for a move.
    protocol: &'static str,
    wires: Wires,
    /// The request without an answer.
    asked: Option<String>,
    next_us: u64,
    is_stopped: bool,
    /// Migrations that were started.
    pub started: u64,
    /// Requests that were refused.
    pub refused: u64,
    /// Requests that ended without an answer.
    pub untold: u64,
    last_started: i64,
    /// Whether it cancels the migration that it has just started.
    regrets: bool,
    /// Whether it changes the policy of the migration that it has just started.
    hurries: bool,
    /// The range to move right after the last.
    rest: Option<PositionRange>,
    /// The last move's range and source.
    last_move: Option<(PositionRange, HostId)>,
    /// The range to return to its source at once, and how many tries are left.
    back: Option<(PositionRange, HostId, u32)>,
    upgrades: Upgrades,
    /// Draws of takeovers.
    takes_over: Option<Random>,
}

impl Upgrades {
    /// Whether the next request is an upgrade.
    fn draw(&mut self) -> bool {
        self.is_due = self.permille > 0 && self.random.permille(self.permille);
        self.is_due
    }

    fn answered(&mut self, ended: &Ended) {
        let Ended::Reply(Value::Bulk(json)) = ended else { return };
        let told: Upgraded = serde_json::from_slice(json).expect("what was done");
        if told.version == ProtocolVersion::CURRENT {
            // Rarely again.
            self.permille /= 8;
        }
    }
}

/// The longest wait before it cancels: most migrations do not run by then.
const REGRET_US: u64 = 2_000;

impl Operator {
    /// The operator, as the client with this number.
    pub fn new(number: usize, setup: OperatorSetup, random: Random, manners: Manners) -> Operator {
        let config = Config {
            awareness: Awareness::Plain,
            operation_timeout_us: TIMEOUT_US,
            ..Config::new((0..setup.nodes).map(|host| client_address(HostId(host))).collect())
        };
        let UpgradesSetup { permille, seed } = setup.upgrades;
        let upgrades = Upgrades { permille, random: Random::new(seed), is_due: false };
        Operator {
            number,
            setup,
            random,
            manners,
            protocol: "",
            wires: Wires::new(Actor::Client(number), config),
            asked: None,
            next_us: 0,
            is_stopped: false,
            started: 0,
            refused: 0,
            untold: 0,
            last_started: 0,
            regrets: false,
            hurries: false,
            rest: None,
            last_move: None,
            back: None,
            upgrades,
            takes_over: setup.takes_over.map(Random::new),
        }
    }

    /// Asks for nothing from now on.
    pub fn stop(&mut self) {
        self.is_stopped = true;
    }

    /// What is under way, in words.
    pub fn under_way(&self) -> Option<&str> {
        self.asked.as_deref()
    }

    /// Something arrived.
    pub fn hear(&mut self, stream: StreamId, signal: Signal, world: &mut World) {
        self.wires.hear(stream, signal, world);
        self.go_on(world);
    }

    /// It has a turn. `map`: the cluster's map, if anybody knows it. `gone`: machines without a process.
    pub fn turn(&mut self, map: Option<&TabletMap>, gone: &[HostId], world: &mut World) {
        self.wires.tick(world);
        if self.asked.is_none() && self.next_us <= world.now_us && !self.is_stopped {
            let request = self.draw(map, gone);
            let words: Vec<&[u8]> = request.split(' ').map(str::as_bytes).collect();
            let now = MonotonicUs(world.now_us);
            let admitted = self.wires.core.submit(now, 0, Class::Write, Destination::Any, &words);
            admitted.expect("one operation is not many");
            world.tell(|| format!("the operator asks {request}"));
            self.asked = Some(request);
        }
        self.go_on(world);
    }

    fn go_on(&mut self, world: &mut World) {
        let mut timeout_us = self.wires.pump(world);
        for (_, ended) in self.wires.take_ended() {
            world.tell(|| format!("the operator has {:?}: {ended:?}", self.asked));
            let asked = self.asked.take().unwrap_or_default();
            if asked == UPGRADE {
                self.next_us = world.now_us + self.upgrades.random.below(self.setup.rest_us);
                self.upgrades.answered(&ended);
                timeout_us = self.wires.pump(world);
                continue;
            }
            if asked.starts_with(TAKE_OVER) {
                self.has_asked_for_takeover(&ended, world);
                timeout_us = self.wires.pump(world);
                continue;
            }
            self.next_us = world.now_us + self.random.below(self.setup.rest_us);
            match ended {
                // It can be turned again.
                Ended::Reply(Value::Integer(id)) if asked.starts_with(CANCEL) => self.last_started = id,
                Ended::Reply(Value::Integer(id)) => {
                    self.started += 1;
                    world.meet(self.protocol, 1);
                    self.last_started = id;
                    self.regrets = self.random.permille(self.setup.cancel_permille);
                    let returns = self.random.permille(self.setup.return_permille);
                    let back = self.last_move.take().filter(|_| returns);
                    self.back = back.map(|(range, from)| (range, from, RETURN_TRIES));
                    if returns {
                        self.next_us = world.now_us + self.random.magnitude(1, RETURN_US);
                    }
                    if self.rest.is_some() {
                        self.next_us = world.now_us + self.random.magnitude(1, HURRY_US);
                    }
                    if let Some(later_us) = self.manners.changes_its_mind() {
                        self.hurries = true;
                        self.next_us = world.now_us + later_us;
                    }
                    if self.regrets {
                        self.next_us = world.now_us + self.random.magnitude(1, REGRET_US) - 1;
                    }
                }
                Ended::Reply(Value::Error(why)) => {
                    self.refused += 1;
                    // What could not be written down may come to pass all the same.
                    self.untold += u64::from(why.starts_with("SIDLEUNKNOWN"));
                    self.rest = None;
                    // It may not be over yet.
                    self.back =
                        self.back.and_then(|(range, to, tries)| Some((range, to, tries.checked_sub(1)?)));
                    if self.back.is_some() {
                        self.next_us = world.now_us + self.random.magnitude(1, RETURN_US);
                    }
                }
                Ended::Reply(Value::Simple(_)) if asked.starts_with(SET) => world.meet("policies changed", 1),
                Ended::Reply(Value::Simple(_)) if asked.starts_with(FORGET) => world.meet("forgotten", 1),
                Ended::Failed(_) => self.untold += 1,
                Ended::Reply(_) => {}
            }
            let is_free = !self.regrets && !self.hurries && self.back.is_none() && self.rest.is_none();
            if is_free && self.upgrades.draw() {
                self.next_us = world.now_us + self.upgrades.random.magnitude(1, UPGRADE_US);
            }
            timeout_us = self.wires.pump(world);
        }
        let next_us = (self.asked.is_none() && !self.is_stopped).then_some(self.next_us);
        if let Some(at_us) = next_us.into_iter().chain(timeout_us).min() {
            world.turn_at(Actor::Client(self.number), at_us);
        }
    }

    fn has_asked_for_takeover(&mut self, ended: &Ended, world: &mut World) {
        let is_begun = matches!(ended, Ended::Reply(Value::Integer(ranges)) if *ranges > 0);
        world.meet("takeovers", u64::from(is_begun));
        let rest_us = self.takes_over.as_mut().map_or(0, |random| random.magnitude(1, TAKE_OVER_US));
        self.next_us = world.now_us + rest_us;
    }

    fn draw(&mut self, map: Option<&TabletMap>, gone: &[HostId]) -> String {
        if std::mem::take(&mut self.upgrades.is_due) {
            return UPGRADE.to_owned();
        }
        if let Some(dead) = map.and_then(|map| self.dead_owner(map, gone)) {
            return format!("{TAKE_OVER} {}", client_address(dead));
        }
        let forgets = self.setup.forgets_permille > 0 && self.random.permille(self.setup.forgets_permille);
        if let Some(idle) = map.filter(|_| forgets).and_then(|map| self.idle_member(map, gone)) {
            return format!("{FORGET} {}", client_address(idle));
        }
        let is_cancelled =
            std::mem::take(&mut self.regrets) || self.random.permille(self.setup.cancel_permille / 2);
        if is_cancelled && self.last_started > 0 {
            return format!("{CANCEL} {}", self.last_started);
        }
        if std::mem::take(&mut self.hurries) {
            let policy = self.manners.policy().words().join(" ");
            return format!("{SET} {} {policy}", self.last_started);
        }
        if let Some((range, to, _)) = self.back {
            return self.start(range, to);
        }
        let (range, is_part) = match (self.rest.take(), map) {
            (Some(rest), _) => (rest, true),
            // Sometimes a range that no single node owns.
            (None, Some(map)) if !self.random.one_in(12) => self.part_of(map),
            _ => (PositionRange::ALL, false),
        };
        let from = map.map(|map| host_of(map.owner_of(range.first())));
        let others = self.setup.nodes - 1;
        let to = match from {
            Some(from) if is_part && others > 0 => {
                (from.0 + 1 + self.random.index(others)) % self.setup.nodes
            }
            _ => self.random.index(self.setup.nodes),
        };
        self.last_move = from.map(|from| (range, from));
        self.start(range, HostId(to))
    }

    /// A member without a process that owns something, sometimes.
    fn dead_owner(&mut self, map: &TabletMap, gone: &[HostId]) -> Option<HostId> {
        let random = self.takes_over.as_mut()?;
        let owns = |host: &HostId| map.tablets().iter().any(|tablet| host_of(tablet.owner) == *host);
        let dead = gone.iter().copied().filter(|host| *host != HostId(0)).find(owns)?;
        (!random.one_in(4)).then_some(dead)
    }

    /// A member without tablets: one that is gone, sometimes any.
    fn idle_member(&mut self, map: &TabletMap, gone: &[HostId]) -> Option<HostId> {
        let owns = |host: HostId| map.tablets().iter().any(|tablet| host_of(tablet.owner) == host);
        let members = map.nodes().iter().map(|node| host_of(node.id));
        let idle: Vec<HostId> = members.filter(|&host| host != HostId(0) && !owns(host)).collect();
        let first = idle.iter().copied().find(|host| gone.contains(host));
        let is_drawn = !idle.is_empty() && self.random.one_in(20);
        first.or_else(|| is_drawn.then(|| idle[self.random.index(idle.len())]))
    }

    fn start(&mut self, range: PositionRange, to: HostId) -> String {
        let manner = self.manners.draw();
        self.protocol = manner.protocol.name;
        let (first, last, to) = (range.first(), range.last(), client_address(to));
        format!("SIDLE.MIGRATE START POSITIONS {first}-{last} TO {to}{}", manner.words)
    }

    /// A range of one node, and whether it is the first of two parts.
    fn part_of(&mut self, map: &TabletMap) -> (PositionRange, bool) {
        let range = self.owned_range(map);
        let (first, last) = (range.first(), range.last());
        let middle = self.place(Position(last.0 - (last.0 - first.0) / 2));
        let is_inside = first < middle && middle <= last;
        if !self.random.permille(self.setup.hurry_permille) || !is_inside {
            return (range, false);
        }
        let parts = [(first, Position(middle.0 - 1)), (middle, last)];
        let [one, other] = parts.map(|(first, last)| PositionRange::new(first, last).expect("in order"));
        self.rest = Some(other);
        (one, true)
    }

    /// Adjacent tablets of one owner, whole or cut somewhere.
    fn owned_range(&mut self, map: &TabletMap) -> PositionRange {
        let tablets = map.tablets();
        let first = self.random.index(tablets.len());
        let mut last = first;
        while last + 1 < tablets.len()
            && tablets[last + 1].owner == tablets[first].owner
            && !self.random.one_in(4)
        {
            last += 1;
        }
        let (first, last) = (tablets[first].range.first(), tablets[last].range.last());
        let cut = self.cut();
        let cut = self.place(cut);
        let is_inside = first < cut && cut <= last;
        let (first, last) = match self.random.below(5) {
            0 | 1 if is_inside => (first, Position(cut.0 - 1)),
            2 | 3 if is_inside => (cut, last),
            _ => (first, last),
        };
        PositionRange::new(first, last).expect("in order")
    }

    /// Where to cut instead: beside groups, or inside one of them.
    fn place(&mut self, cut: Position) -> Position {
        match self.setup.splits_groups {
            true => inside_a_group(&mut self.random),
            false => keep_whole(cut),
        }
    }

    /// A place to cut at: the middle of the slot that many keys share, one of its ends, any slot's beginning,
    /// any position.
    fn cut(&mut self) -> Position {
        let tagged = Slot::of_key(TAG.as_bytes());
        match self.random.below(5) {
            0 => Position(Position::first_of(tagged).0 + (1 << (Position::HASH_BITS - 1))),
            1 => Position::first_of(tagged),
            2 => Position(Position::last_of(tagged).0 + 1),
            3 => Position::first_of(Slot::new(self.random.below(16_384) as u16).expect("a slot's number")),
            _ => Position(self.random.draw()),
        }
    }
}
