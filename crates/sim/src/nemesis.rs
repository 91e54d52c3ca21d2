//! Faults and their times: machines die and pause, links are cut, connections break, the disk fails.

use crate::disk::{Disk, DiskMood};
use crate::durable::LogDisk;
use crate::host::Host;
use crate::network::{Place, Port, StreamId};
use crate::process::{host_of, node_id};
use crate::world::{Actor, Fact, HostId, World};
use sidle_cluster::Metadata;
use sidle_cluster::timing::SUSPECTED_AFTER_US;
use sidle_testbed::Random;
use sidle_types::MigrationId;
use std::collections::BTreeSet;

/// The interval of the checks whether the coordinator's process waits for its disk.
const AMBUSH_LOOKS_US: u64 = 500;

/// The wait before a process that did not start is started again, at least and at most.
const RESTART_US: (u64, u64) = (100_000, 5_000_000);

/// The longest delay of a fault that follows a migration's step.
const FOLLOWS_US: u64 = 3_000;

/// The rates of faults.
#[derive(Clone, Copy, Debug)]
pub struct NemesisSetup {
    /// The earliest time of the first fault.
    pub starts_us: u64,
    /// The longest pause between two faults; 0: for ever.
    pub rest_us: u64,
    /// The relative weight of each kind of fault.
    pub breaks: u64,
    /// Links that are cut, in one direction or both.
    pub cuts: u64,
    /// Machines that pause.
    pub pauses: u64,
    /// Processes that die.
    pub deaths: u64,
    /// The coordinator's disk.
    pub disks: u64,
    /// The longest duration of a fault.
    pub lasts_us: u64,
    /// Nothing lasts longer; one in eight may last much longer than most.
    pub longest_us: u64,
    /// How many of a thousand migration steps and waiting commands are followed immediately by a fault.
    pub follows_permille: u64,
    /// For scripted plans: how many of a thousand deaths last so long that the node may be forgotten, and may
    /// restart on an older copy of its data directory.
    pub absences_permille: u64,
    /// For scripted plans: how many of a thousand migrations lose their target when they begin to run.
    pub targets_permille: u64,
    /// For worlds of takeovers: how many of a thousand migrations lose one of their nodes for long while they
    /// run.
    pub ends_permille: u64,
    /// Where links are cut and processes die: of how many of a thousand migrations that begin to run the
    /// source is cut off from the coordinator at that moment, and the target dies. So the target comes back
    /// before the source knows that it is to give the range up.
    pub lonely_permille: u64,
}

impl NemesisSetup {
    /// Draws the rates of faults in a simulation of this length: none in some, one kind only in others, all
    /// kinds in the rest.
    pub fn draw(random: &mut Random, safety_us: u64) -> NemesisSetup {
        let mut kinds = [0; 5];
        match random.below(4) {
            0 => {}
            1 => kinds[random.index(kinds.len())] = 1,
            _ => kinds.iter_mut().for_each(|kind| *kind = random.below(4)),
        }
        if !random.one_in(3) {
            // Deaths make the rest harder to judge: lost keys may or may not reappear.
            kinds[3] = 0;
        }
        let is_fair = kinds.iter().sum::<u64>() == 0;
        let rest_us = random.magnitude(safety_us / 50, safety_us / 2);
        NemesisSetup {
            starts_us: if random.one_in(8) { 0 } else { random.below(safety_us / 4) },
            rest_us: if is_fair { 0 } else { rest_us },
            breaks: kinds[0],
            cuts: kinds[1],
            pauses: kinds[2],
            deaths: kinds[3],
            disks: kinds[4],
            lasts_us: random.magnitude(1_000, 2 * rest_us),
            longest_us: u64::MAX,
            follows_permille: if random.one_in(2) { 0 } else { random.below(200) },
            absences_permille: 0,
            targets_permille: 0,
            ends_permille: 0,
            lonely_permille: LONELY_SOURCES_PERMILLE,
        }
    }
}

/// The longest delay before a target dies whose migration begins to run: before its source knows of it, or
/// right after.
const TARGET_US: u64 = 2_000;

/// How many of a thousand migrations lose both at once, unless the plan is about these.
const LONELY_SOURCES_PERMILLE: u64 = 150;

/// Where connections break: of how many of a thousand freezes one of the source's breaks at that moment, as
/// the activation is on its way.
const BREAKS_AT_FREEZE_PERMILLE: u64 = 200;

/// How a disk fails.
fn draw_mood(random: &mut Random) -> DiskMood {
    match random.below(4) {
        0 => DiskMood::Full { writes: random.magnitude(1, 64) - 1 },
        1 => DiskMood::FailsAfterWriting,
        2 => DiskMood::ForgetsWrites { syncs: random.magnitude(1, 16) - 1 },
        _ => DiskMood::Slow { sync_us: random.magnitude(100, 1_000_000) },
    }
}

/// The longest time that a node whose log has copies stays away.
const ABSENT_US: u64 = 12_000_000;

/// Starts a machine's process. If others have taken over what its node had, an operator moves its log away
/// before.
fn begin(hosts: &mut [Host], host: HostId, world: &mut World) -> bool {
    let possible = hosts[0].disk.as_ref().map(Disk::possible).unwrap_or_default();
    let log = hosts[host.0].log.as_ref().map(LogDisk::name);
    let is_taken = |data: &Metadata| {
        let its_log = data.copies_of(node_id(host)).map(|copies| copies.log);
        its_log == log && data.taken_over(node_id(host)).is_some()
    };
    if !possible.is_empty() && possible.iter().all(is_taken) {
        hosts[host.0].begin_anew(world);
    }
    hosts[host.0].begin_life(world)
}

/// An event that the simulation must handle at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Struck {
    /// Nothing.
    Nothing,
    /// A client's connection must break.
    Client,
    /// This machine's process must die; whether its machine stays up.
    Death(HostId, bool),
}

/// The source of faults.
pub struct Nemesis {
    setup: NemesisSetup,
    random: Random,
    /// Draws of the disks of durable logs.
    log_random: Random,
    /// Draws of the disks of their copies.
    copies_random: Random,
    /// Draws of nodes with copies that stay away for long.
    absent_random: Random,
    /// Machines whose processes end since others have taken their logs over.
    deposed: BTreeSet<HostId>,
    /// When links work again.
    heal_us: Option<u64>,
    /// When the disk works again.
    mend_us: Option<u64>,
    /// Until then the coordinator's process dies as soon as it waits for its disk; whether its machine stays
    /// up.
    ambush: Option<(u64, bool)>,
    /// The last migration that was seen to run.
    last_run: MigrationId,
    /// Processes that will die, and when: targets, and those that were started on an older copy.
    doomed: Vec<(u64, HostId)>,
    /// Those of them that stay away for long.
    buried: BTreeSet<HostId>,
    /// Machines without a process whose data directory is an older copy.
    copied: BTreeSet<HostId>,
    /// Machines without a process, and when they start again.
    pub restarts: Vec<(u64, HostId)>,
    /// When to replace each process with one of this build, if it still is of an earlier program.
    replacements: Vec<(u64, HostId)>,
    next_us: u64,
    is_over: bool,
    /// How many faults occurred.
    pub troubles: u64,
}

impl Nemesis {
    /// The source of these faults. `replacements`: which programs to replace with this build's, and when.
    pub fn new(setup: NemesisSetup, replacements: Vec<(u64, HostId)>, random: Random) -> Nemesis {
        // Beside what the other faults draw.
        let log_random = Random::new(random.clone().draw() ^ 0x106_d15c_0000_0000);
        let copies_random = Random::new(random.clone().draw() ^ 0xc0_91ed_15c0_0000);
        let absent_random = Random::new(random.clone().draw() ^ 0xab_5e47_0000_0000);
        Nemesis {
            setup,
            random,
            log_random,
            copies_random,
            absent_random,
            deposed: BTreeSet::new(),
            heal_us: None,
            mend_us: None,
            ambush: None,
            last_run: MigrationId(0),
            doomed: Vec::new(),
            buried: BTreeSet::new(),
            copied: BTreeSet::new(),
            restarts: Vec::new(),
            replacements,
            next_us: 0,
            is_over: setup.rest_us == 0,
            troubles: 0,
        }
    }

    /// No faults from now on, and those in effect end.
    pub fn clear_up(&mut self, hosts: &mut [Host], world: &mut World) {
        self.is_over = true;
        self.mend(hosts, world);
        self.heal_us = None;
        self.ambush = None;
        self.doomed.retain(|(_, host)| self.deposed.contains(host));
        self.copied.clear();
        self.replacements.clear();
        world.heal();
        for host in hosts.iter_mut() {
            host.wake_up(world);
            // As the refusal advised, or will: a cluster that knows no process of it may speak a later
            // version.
            if host.is_older_copy || host.is_old() && !host.is_joined() {
                host.end_life(true, world);
                assert!(host.begin_life(world), "nothing is wrong any more");
            }
        }
        for (_, host) in std::mem::take(&mut self.restarts) {
            assert!(begin(hosts, host, world), "nothing is wrong any more");
        }
    }

    /// A migration takes a step, or a command waits for one: sometimes a fault follows at that very moment.
    pub fn follow(&mut self, facts: &[Fact], hosts: &[Host], world: &mut World) {
        if !self.is_over && facts.contains(&Fact::Committed) {
            self.aim(hosts, world);
        }
        for fact in facts {
            if let Fact::Deposed(host) = *fact
                && self.deposed.insert(host)
            {
                self.doomed.push((world.now_us, host));
                world.turn_at(Actor::Nemesis, world.now_us);
            }
            if let Fact::Frozen(host, _) = *fact
                && !self.is_over
                && self.setup.breaks > 0
                && self.random.permille(BREAKS_AT_FREEZE_PERMILLE)
            {
                self.troubles += 1;
                let streams = world.network.streams_at(Place::Host(host));
                self.break_one_between_nodes(&streams, world);
            }
            if !self.is_over && self.random.permille(self.setup.follows_permille) {
                // An earlier fault stays scheduled.
                self.next_us = self.next_us.min(world.now_us + self.random.magnitude(1, FOLLOWS_US));
                world.turn_at(Actor::Nemesis, self.next_us);
            }
        }
    }

    /// Decides whether the targets of migrations that have just begun to run will die. The coordinator's
    /// machine is exempt.
    fn aim(&mut self, hosts: &[Host], world: &mut World) {
        let seat = hosts[0].process.as_ref().and_then(|process| process.control.seat.as_ref());
        let running = seat.into_iter().flat_map(|seat| seat.coordinator.map().migrations());
        for record in running.filter(|record| record.id > self.last_run).collect::<Vec<_>>() {
            self.last_run = record.id;
            let (source, target) = (host_of(record.source), host_of(record.target));
            self.bury(source, target, world);
            if target == HostId(0) {
                continue;
            }
            let NemesisSetup { cuts, deaths, targets_permille, lonely_permille, .. } = self.setup;
            let may_be_lonely = cuts > 0 && deaths > 0 && source != HostId(0);
            let is_lonely = may_be_lonely && self.random.permille(lonely_permille);
            if is_lonely {
                self.cut_off_from_coordinator(source, world);
            }
            if is_lonely || targets_permille > 0 && self.random.permille(targets_permille) {
                let at_us = world.now_us + self.random.magnitude(1, TARGET_US) - 1;
                self.doomed.push((at_us, target));
                world.turn_at(Actor::Nemesis, at_us);
            }
        }
    }

    /// One of the nodes of a migration dies for long, sometimes. The coordinator's machine is exempt.
    fn bury(&mut self, source: HostId, target: HostId, world: &mut World) {
        let permille = self.setup.ends_permille;
        if permille == 0 || !self.absent_random.permille(permille) {
            return;
        }
        let end = if self.absent_random.one_in(3) { target } else { source };
        if end != HostId(0) {
            let at_us = world.now_us + self.absent_random.magnitude(1, TARGET_US) - 1;
            self.doomed.push((at_us, end));
            self.buried.insert(end);
            world.turn_at(Actor::Nemesis, at_us);
        }
    }

    /// A machine and the coordinator's do not reach each other for a while.
    fn cut_off_from_coordinator(&mut self, host: HostId, world: &mut World) {
        self.troubles += 1;
        world.tell(|| format!("node {} is cut off from the coordinator", host.0));
        let (host, coordinator) = (Place::Host(host), Place::Host(HostId(0)));
        world.network.cut(host, coordinator);
        world.network.cut(coordinator, host);
        let heal_us = world.now_us + self.random.magnitude(TARGET_US, 4 * SUSPECTED_AFTER_US);
        self.heal_us = Some(self.heal_us.unwrap_or(0).max(heal_us));
    }

    /// It has a turn: ends what is due, and causes a fault.
    pub fn turn(&mut self, hosts: &mut [Host], world: &mut World) -> Struck {
        let now_us = world.now_us;
        if self.heal_us.is_some_and(|at_us| at_us <= now_us) {
            self.heal_us = None;
            world.tell(|| "every link works".to_owned());
            world.heal();
        }
        if self.mend_us.is_some_and(|at_us| at_us <= now_us) {
            self.mend(hosts, world);
        }
        let due: Vec<HostId> =
            self.restarts.extract_if(.., |(at_us, _)| *at_us <= now_us).map(|(_, host)| host).collect();
        for host in due {
            if self.copied.remove(&host) {
                // Until an operator has read its refusal, and fixes it.
                hosts[host.0].is_older_copy = true;
                self.doomed.push((now_us + self.random.magnitude(RESTART_US.0, RESTART_US.1), host));
            }
            if !begin(hosts, host, world) {
                self.restarts.push((now_us + self.random.magnitude(RESTART_US.0, RESTART_US.1), host));
            }
        }
        let mut struck = Struck::Nothing;
        if !self.is_over && self.next_us <= now_us {
            self.next_us = now_us + self.random.below(self.setup.rest_us);
            self.troubles += 1;
            struck = self.strike(hosts, world);
        }
        let is_due = |(at_us, _): &(u64, HostId)| *at_us <= now_us;
        if let Some(index) = self.doomed.iter().position(is_due).filter(|_| struck == Struck::Nothing) {
            let (_, host) = self.doomed.swap_remove(index);
            self.deposed.remove(&host);
            if hosts[host.0].process.is_some() {
                let mut restarts_us = now_us + self.random.magnitude(1, RESTART_US.1);
                if self.buried.remove(&host) {
                    restarts_us += self.absent_random.between(2 * SUSPECTED_AFTER_US, ABSENT_US);
                }
                let tells = self.random.one_in(2);
                struck = self.kill(host, tells, restarts_us);
            }
        }
        if let Some((until_us, tells)) = self.ambush {
            if hosts[0].is_writing(world) && struck == Struck::Nothing {
                let restarts_us = now_us + self.random.magnitude(1, RESTART_US.1);
                struck = self.kill(HostId(0), tells, restarts_us);
            }
            if struck != Struck::Nothing || until_us <= now_us {
                self.ambush = None;
            }
        }
        if struck == Struck::Nothing {
            struck = self.replace_one(hosts, now_us);
        }
        self.arrange(world);
        struck
    }

    /// Stops one process of an earlier program when it is due; it restarts with this build's program.
    fn replace_one(&mut self, hosts: &[Host], now_us: u64) -> Struck {
        let is_due = |(at_us, _): &(u64, HostId)| *at_us <= now_us;
        while let Some(index) = self.replacements.iter().position(is_due) {
            let (_, host) = self.replacements.swap_remove(index);
            if hosts[host.0].is_old() {
                let restarts_us = now_us + self.random.magnitude(1, RESTART_US.1);
                return self.kill(host, true, restarts_us);
            }
        }
        Struck::Nothing
    }

    fn arrange(&self, world: &mut World) {
        let restarts =
            self.restarts.iter().chain(&self.doomed).chain(&self.replacements).map(|(at_us, _)| *at_us);
        let next = (!self.is_over).then_some(self.next_us);
        let ambush = self.ambush.map(|_| world.now_us + AMBUSH_LOOKS_US);
        if let Some(at_us) = restarts.chain(self.heal_us).chain(self.mend_us).chain(ambush).chain(next).min()
        {
            world.turn_at(Actor::Nemesis, at_us);
        }
    }

    fn mend(&mut self, hosts: &[Host], world: &World) {
        self.mend_us = None;
        if let Some(disk) = &hosts[0].disk {
            disk.set_mood(DiskMood::Good);
        }
        hosts.iter().filter_map(|host| host.log.as_ref()).for_each(|log| log.set_mood(DiskMood::Good));
        world.copies.iter().for_each(|copies| copies.set_mood(DiskMood::Good));
    }

    fn strike(&mut self, hosts: &mut [Host], world: &mut World) -> Struck {
        let NemesisSetup { breaks, cuts, pauses, deaths, disks, lasts_us, longest_us, .. } = self.setup;
        let lasts_us = match self.random.one_in(8) {
            // Long enough for a node to be suspected.
            true => self.random.between(SUSPECTED_AFTER_US, 4 * SUSPECTED_AFTER_US),
            false => self.random.magnitude(1, lasts_us),
        };
        let lasts_us = lasts_us.min(longest_us);
        let until_us = world.now_us + lasts_us;
        let mut drawn = self.random.below(breaks + cuts + pauses + deaths + disks);
        let mut is = |share: u64| {
            let hit = drawn < share;
            drawn = drawn.wrapping_sub(share);
            hit
        };
        if is(breaks) {
            return self.break_something(world);
        }
        if is(cuts) {
            self.cut(hosts.len(), world);
            self.heal_us = Some(self.heal_us.unwrap_or(0).max(until_us));
            return Struck::Nothing;
        }
        if is(pauses) {
            let host = self.random.index(hosts.len());
            world.tell(|| format!("node {host} stands still for {lasts_us} us"));
            hosts[host].pause(lasts_us, world);
            return Struck::Nothing;
        }
        if is(deaths) {
            // If its disk fails, the coordinator's machine is the one to target.
            let is_coordinator = disks > 0 && self.random.one_in(2);
            let host = if is_coordinator { HostId(0) } else { HostId(self.random.index(hosts.len())) };
            if hosts[host.0].process.is_none() {
                return Struck::Nothing;
            }
            if is_coordinator && self.random.one_in(2) {
                let mended_us = until_us + self.random.below(lasts_us);
                self.disk_fails(hosts, mended_us, world);
            }
            let tells = self.random.one_in(2);
            let is_long = hosts[host.0].keeps_copies() && host != HostId(0) && self.absent_random.one_in(2);
            let longer_us =
                if is_long { self.absent_random.between(SUSPECTED_AFTER_US, ABSENT_US) } else { 0 };
            return self.kill(host, tells, until_us + longer_us);
        }
        self.disk_fails(hosts, until_us, world);
        if deaths > 0 && self.random.one_in(2) {
            self.ambush = Some((until_us, self.random.one_in(2)));
        }
        Struck::Nothing
    }

    fn kill(&mut self, host: HostId, tells: bool, mut until_us: u64) -> Struck {
        let absences = self.setup.absences_permille;
        if absences > 0 && host != HostId(0) && self.random.permille(absences) {
            until_us += self.random.between(SUSPECTED_AFTER_US, 4 * SUSPECTED_AFTER_US);
            if self.random.one_in(2) {
                self.copied.insert(host);
            }
        }
        self.restarts.push((until_us, host));
        Struck::Death(host, tells)
    }

    fn disk_fails(&mut self, hosts: &[Host], until_us: u64, world: &mut World) {
        let mood = draw_mood(&mut self.random);
        world.tell(|| format!("the disk: {mood:?}"));
        if let Some(disk) = &hosts[0].disk {
            disk.set_mood(mood);
        }
        self.log_disk_fails(hosts, world);
        self.mend_us = Some(until_us);
    }

    /// The disk of a durable log fails too, if there are any, and that of a node's copies of others' logs.
    fn log_disk_fails(&mut self, hosts: &[Host], world: &mut World) {
        let host = self.log_random.index(hosts.len());
        if let Some(log) = &hosts[host].log {
            let mood = draw_mood(&mut self.log_random);
            world.tell(|| format!("the disk of node {host}'s log: {mood:?}"));
            world.meet("failures of a log's disk", 1);
            log.set_mood(mood);
        }
        let host = self.copies_random.index(hosts.len());
        if hosts[host].keeps_copies() {
            let mood = draw_mood(&mut self.copies_random);
            world.tell(|| format!("the disk of node {host}'s copies: {mood:?}"));
            world.copies[host].set_mood(mood);
        }
    }

    /// A connection breaks: mostly one between nodes.
    fn break_something(&mut self, world: &mut World) -> Struck {
        if self.random.one_in(3) {
            return Struck::Client;
        }
        let streams = world.network.streams();
        self.break_one_between_nodes(&streams, world);
        Struck::Nothing
    }

    /// One of these connections breaks, if any is between nodes.
    fn break_one_between_nodes(&mut self, streams: &[StreamId], world: &mut World) {
        let is_between_nodes = |id: &&StreamId| world.network.port(**id) == Some(Port::Bus);
        let between: Vec<_> = streams.iter().filter(is_between_nodes).copied().collect();
        if !between.is_empty() {
            let id = between[self.random.index(between.len())];
            let heard_us = [self.random.magnitude(1, 1_000_000), self.random.magnitude(1, 1_000_000)];
            world.tell(|| {
                format!("a connection between nodes breaks; its ends hear of it after {heard_us:?} us")
            });
            world.break_off(id, heard_us);
        }
    }

    /// Some machines are cut off from others, in one direction or both; sometimes from clients, too.
    fn cut(&mut self, nodes: usize, world: &mut World) {
        let side: Vec<bool> = (0..nodes).map(|_| self.random.one_in(2)).collect();
        let is_one_way = self.random.one_in(2);
        world.tell(|| format!("links between {side:?} are cut, one way only: {is_one_way}"));
        for from in 0..nodes {
            for to in 0..nodes {
                if side[from] && !side[to] {
                    world.network.cut(Place::Host(HostId(from)), Place::Host(HostId(to)));
                    if !is_one_way {
                        world.network.cut(Place::Host(HostId(to)), Place::Host(HostId(from)));
                    }
                }
            }
        }
    }
}
