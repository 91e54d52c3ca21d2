//! One simulation: everything in a plan, from beginning to end.

use crate::checks::{self, Answers, Checks, LOSSES, Losses, Violation};
use crate::clients::{Manners, Operator, Other, OtherSetup, Session, SessionSetup};
use crate::host::Host;
use crate::nemesis::{Nemesis, Struck};
use crate::network::{Network, Place, Port, Side, StreamId};
use crate::plan::Plan;
use crate::story::Story;
use crate::summary::{Failure, Summary};
use crate::turns::code_of;
use crate::workload::{History, Removal, Workload};
use crate::world::{Actor, Event, Fact, HostId, Thread, World};
use sidle_client_core::Awareness;
use sidle_history::Writer;
use sidle_testbed::Random;
use std::io::Write;

/// Once the faults have stopped, every request and every migration must be over within this.
const LIVENESS_US: u64 = 120_000_000;
/// How long reading everything back may take.
const READ_BACK_US: u64 = 60_000_000;
/// The longest time until both ends of a connection know that it is broken.
const HEARING_US: u64 = 15_000_000;
/// How long nodes may take to decide what clients have left behind.
const HELPED_US: u64 = 15_000_000;
/// How long the cleanup may take.
const REST_US: u64 = 5_000_000;
/// How many times everything is deleted if memory is short.
const ROOM_ROUNDS: usize = 5;
/// How long the reader that reads back waits for an answer.
const READER_TIMEOUT_US: u64 = 30_000_000;
/// How many rows the reader that reads back has.
const READER_ROWS: usize = 16;
/// This many events at one instant mean a machine that does not settle.
const EVENTS_AT_ONE_INSTANT: u64 = 200_000;

/// One simulation.
pub struct Simulation {
    pub(crate) world: World,
    pub(crate) hosts: Vec<Host>,
    pub(crate) sessions: Vec<Session>,
    operator: Operator,
    reader: Session,
    pub(crate) others: Vec<Other>,
    nemesis: Nemesis,
    workload: Workload,
    safety_us: u64,
    is_tight: bool,
    losses: Losses,
    answers: Answers,
    pub(crate) history: History,
    pub(crate) summary: Summary,
    /// The number of events at this instant.
    at_once: (u64, u64),
}

impl Simulation {
    /// A plan's simulation, before any event. `seed`: draws what the plan leaves open.
    pub fn new(seed: u64, plan: Plan, story: Story) -> Simulation {
        let mut random = Random::new(seed);
        let is_fair = plan.nemesis.rest_us == 0 && !plan.is_tight && plan.replacements.is_empty();
        let mut world = World::new(random.fork(), plan.pace, Network::new(plan.links), story);
        world.checks = Checks::new(is_fair);
        let hosts = (plan.hosts.into_iter().enumerate())
            .map(|(number, setup)| Host::start(HostId(number), setup, &mut world))
            .collect();
        for (number, us) in plan.slow_readers {
            world.network.slow_down(Place::Client(number), us);
        }
        let sessions: Vec<Session> = (plan.sessions.into_iter().enumerate())
            .map(|(number, setup)| Session::new(number, setup, random.fork()))
            .collect();
        let manners = Manners::new(Random::new(!seed));
        let manners = if plan.operator.splits_groups { manners.without_policies() } else { manners };
        let operator = Operator::new(sessions.len(), plan.operator, random.fork(), manners);
        let reader = SessionSetup {
            awareness: Awareness::Sidle,
            rows: READER_ROWS,
            think_us: 0,
            connections_per_node: 1,
            digests: true,
            runs_once: false,
            timeout_us: READER_TIMEOUT_US,
            seed: HostId(0),
        };
        let reader = Session::new(sessions.len() + 1, reader, random.fork());
        let first = sessions.len() + 2;
        let mut later = Random::new(seed ^ 0x1157_5000_0000_0000);
        let others: Vec<Other> = (plan.others.into_iter().enumerate())
            .map(|(index, setup)| {
                // Later kinds have streams of their own: the rest of a simulation draws as without them.
                let is_later = matches!(
                    setup,
                    OtherSetup::Consumers(_)
                        | OtherSetup::Comparers(_)
                        | OtherSetup::Committers(_)
                        | OtherSetup::Executors(_)
                );
                let random = if is_later { later.fork() } else { random.fork() };
                Other::new(first + index, setup, random, &mut world)
            })
            .collect();
        for number in (0..=sessions.len()).chain(first..first + others.len()) {
            world.turn_at(Actor::Client(number), 0);
        }
        // A process that is replaced dies, too.
        let coordinator_lives = plan.nemesis.deaths == 0 && plan.replacements.is_empty();
        let first_us = plan.replacements.iter().map(|(at_us, _)| *at_us);
        world.turn_at(Actor::Nemesis, first_us.chain([plan.nemesis.starts_us]).min().unwrap_or(0));
        Simulation {
            nemesis: Nemesis::new(plan.nemesis, plan.replacements, random.fork()),
            world,
            hosts,
            sessions,
            operator,
            reader,
            others,
            workload: plan.workload,
            safety_us: plan.safety_us,
            is_tight: plan.is_tight,
            losses: Losses::new(coordinator_lives),
            answers: Answers::default(),
            history: History::default(),
            summary: Summary::default(),
            at_once: (0, 0),
        }
    }

    /// What every client recorded.
    pub fn history(&self) -> &History {
        &self.history
    }

    /// Runs it to its end.
    pub fn run(&mut self) -> Result<Summary, Failure> {
        let result = self.phases();
        self.summary.digest = self.world.story.digest();
        self.summary.simulated_us = self.world.now_us;
        self.summary.nodes = self.hosts.len();
        self.summary.operations = self.history.operations();
        self.summary.answered = self.sessions.iter().map(|session| session.answered).sum();
        self.summary.migrations = self.operator.started;
        self.summary.troubles = self.nemesis.troubles;
        self.count_what_was_met();
        match result {
            Ok(()) => Ok(self.summary.clone()),
            Err(violation) => Err(Failure { at_us: self.world.now_us, violation }),
        }
    }

    /// The history in the format of history files: the registers, and the keys with a time to live.
    pub fn write_history(&self, registers: &mut dyn Write, timed: &mut dyn Write) -> std::io::Result<()> {
        let mut writer = Writer::new(registers);
        self.history.registers.iter().try_for_each(|operation| writer.write(operation))?;
        writer.finish()?;
        self.history.timed.iter().try_for_each(|operation| writeln!(timed, "{}", operation.line()))
    }

    fn phases(&mut self) -> Result<(), Violation> {
        while self.world.next_at_us().is_some_and(|at_us| at_us < self.safety_us) {
            self.step()?;
        }
        self.world.tell(|| "from now on nothing goes wrong".to_owned());
        self.sessions.iter_mut().for_each(Session::stop);
        self.others.iter_mut().for_each(Other::stop);
        self.operator.stop();
        self.nemesis.clear_up(&mut self.hosts, &mut self.world);
        self.losses.births(&self.hosts, self.world.now_us, &mut self.history.registers);
        if self.is_tight {
            self.make_room()?;
        }
        self.until(
            "every node serves, and every request and every migration is over",
            LIVENESS_US,
            Simulation::is_calm,
        )?;
        self.end_transactions()?;
        self.world.tell(|| "everything is read back".to_owned());
        let read_from = self.history.lengths();
        self.reader.read_back(self.workload.all_keys().chain(self.workload.all_other_keys()).collect());
        self.world.turn_at(Actor::Client(self.sessions.len() + 1), 0);
        self.until("every key is read back", READ_BACK_US, |simulation| simulation.reader.is_done())?;
        if let Some(lost) = self.history.unanswered(read_from) {
            let what = format!("a read failed though nothing is wrong: {lost}");
            return Err(Violation::new("liveness", what));
        }
        self.until("every node has heard of its broken connections", HEARING_US, |simulation| {
            simulation.world.network.is_whole()
        })?;
        let rest_until_us = self.world.now_us + REST_US;
        while self.world.next_at_us().is_some_and(|at_us| at_us < rest_until_us) {
            self.step()?;
        }
        // A worker may just have closed a connection that it had not forwarded over for long.
        self.until("every node has heard of its closed connections", HEARING_US, |simulation| {
            simulation.world.network.is_whole()
        })?;
        let World { checks, network, now_us, .. } = &mut self.world;
        checks.at_rest(&self.hosts, (network, *now_us), (self.operator.started, self.operator.untold))?;
        let cancellers = self.others.iter().filter_map(|other| match other {
            Other::Canceller(canceller) => Some(&canceller.told),
            _ => None,
        });
        cancellers.flatten().try_for_each(|told| checks.canceller_was_told(*told))?;
        self.summary.undecided = self.answers.finish(&self.history.registers)?;
        self.summary.undecided += checks::check_deadlines(&self.history.timed)?;
        self.summary.undecided += checks::check_lists(&self.history.lists)?;
        self.summary.undecided += checks::check_members(&self.history.members)?;
        self.summary.undecided += checks::check_names(&self.history.names)?;
        if !self.history.transactions.is_cut {
            checks::check_transactions(&self.history.transactions)?;
        }
        Ok(())
    }

    /// Everything that transactions change is read back, and nothing stays locked.
    fn end_transactions(&mut self) -> Result<(), Violation> {
        if !self.history.transactions.is_cut {
            self.others.iter_mut().for_each(Other::read_back);
        }
        let first = self.sessions.len() + 2;
        (first..first + self.others.len()).for_each(|number| self.world.turn_at(Actor::Client(number), 0));
        self.until("what transactions change is read back", READ_BACK_US, |simulation| {
            simulation.others.iter().all(|other| other.under_way().is_empty())
        })?;
        // What a log has lost may be the first key's, without which nobody ends the others.
        let is_over = |simulation: &Simulation| {
            simulation.history.transactions.is_cut || checks::left_undecided(&simulation.hosts).is_none()
        };
        self.until("every transaction is decided", HELPED_US, is_over).map_err(|violation| {
            let left = checks::left_undecided(&self.hosts).unwrap_or_default();
            Violation::new(violation.check, format!("{}: {left}", violation.what))
        })?;
        self.world.meet("transactions that nodes ended", checks::settled(&self.hosts));
        Ok(())
    }

    fn is_calm(&self) -> bool {
        self.sessions.iter().all(Session::is_done)
            && self.others.iter().all(|other| other.under_way().is_empty())
            && self.operator.under_way().is_none()
            && self.unfinished_migrations() == 0
            && self.is_whole()
            // Until the coordinator's data is written, it receives nothing.
            && !self.hosts[0].is_writing(&self.world)
    }

    /// Deletes keys until every migration has memory.
    fn make_room(&mut self) -> Result<(), Violation> {
        for _ in 0..ROOM_ROUNDS {
            if self.is_calm() {
                return Ok(());
            }
            self.world.tell(|| "every key is deleted to make room".to_owned());
            self.reader.delete({
                let keys = self.workload.all_keys().chain(self.workload.all_collections());
                keys.chain(self.workload.all_names()).chain(self.workload.all_noise_keys()).collect()
            });
            self.world.turn_at(Actor::Client(self.sessions.len() + 1), 0);
            self.until("every key is deleted", READ_BACK_US, |simulation| simulation.reader.is_done())?;
            let rest_until_us = self.world.now_us + REST_US;
            while self.world.next_at_us().is_some_and(|at_us| at_us < rest_until_us) {
                self.step()?;
            }
        }
        Ok(())
    }

    fn unfinished_migrations(&self) -> usize {
        let seat = self.hosts[0].process.as_ref().and_then(|process| process.control.seat.as_ref());
        match seat {
            Some(seat) => seat.coordinator.data().unfinished().count(),
            None => 1,
        }
    }

    /// Whether every node is a member and uses the coordinator's map.
    fn is_whole(&self) -> bool {
        let seat = self.hosts[0].process.as_ref().and_then(|process| process.control.seat.as_ref());
        let Some(map) = seat.map(|seat| seat.coordinator.map()) else { return false };
        map.nodes().len() == self.hosts.len()
            && self.hosts.iter().all(|host| {
                host.process.as_ref().is_some_and(|process| {
                    process.workers.iter().all(|worker| {
                        let ranges = worker.worker.ranges();
                        ranges.is_joined() && ranges.map().epoch() == map.epoch()
                    })
                })
            })
    }

    fn until(
        &mut self,
        what: &str,
        limit_us: u64,
        holds: impl Fn(&Simulation) -> bool,
    ) -> Result<(), Violation> {
        let limit_us = self.world.now_us + limit_us;
        while !holds(self) {
            if self.world.next_at_us().is_none_or(|at_us| at_us > limit_us) {
                return Err(Violation::new(
                    "liveness",
                    format!("it never came to pass that {what}: {}", self.under_way()),
                ));
            }
            self.step()?;
        }
        Ok(())
    }

    fn under_way(&self) -> String {
        let sessions = self.sessions.iter().chain([&self.reader]);
        let mut lines: Vec<String> = sessions.flat_map(Session::under_way).collect();
        lines.extend(self.others.iter().flat_map(Other::under_way));
        lines.extend(self.operator.under_way().map(str::to_owned));
        lines.push(format!("{} migrations", self.unfinished_migrations()));
        lines.extend(self.hosts.iter().enumerate().filter_map(|(number, host)| {
            let commits = host.process.as_ref()?.parts.store.commits()?;
            let (open, safe) = (commits.open().0, commits.safe().0);
            Some(format!("node {number}: commit {open} is open, and {safe} safe"))
        }));
        lines.join("; ")
    }

    /// Processes the next event.
    fn step(&mut self) -> Result<(), Violation> {
        let Some(event) = self.world.next_event() else { return Ok(()) };
        self.summary.events += 1;
        self.note(event)?;
        match event {
            Event::Turn(Actor::Thread(host, thread)) => self.thread_turn(host, thread),
            Event::Turn(Actor::Client(number)) => self.client_turn(number)?,
            Event::Turn(Actor::Nemesis) => self.weather_turn(),
            Event::Knock(id) => self.knock(id),
            Event::Arrival(id, side) => {
                while let Some((actor, signal)) = self.world.receive(id, side) {
                    self.deliver(actor, id, side, signal)?;
                }
            }
        }
        let sessions = || self.sessions.iter().chain([&self.reader]);
        let under_way = || sessions().flat_map(Session::open_records).chain(self.losses.under_way());
        let under_way = || under_way().chain(self.others.iter().flat_map(Other::open_records));
        self.answers.hear(&self.history.registers, under_way)?;
        if self.world.facts.is_empty() {
            return Ok(());
        }
        let facts = std::mem::take(&mut self.world.facts);
        self.count_votes_that_moved(&facts);
        self.nemesis.follow(&facts, &self.hosts, &mut self.world);
        if facts.contains(&Fact::Committed) {
            self.others.iter_mut().for_each(|other| other.look(&self.hosts, &mut self.world));
        }
        let World { checks, network, now_us, .. } = &mut self.world;
        checks.observe(&self.hosts, (network, *now_us), &facts)
    }

    fn count_votes_that_moved(&mut self, facts: &[Fact]) {
        for fact in facts {
            let Fact::Activated(host) = *fact else { continue };
            let Some(process) = &self.hosts[host.0].process else { continue };
            let imports = process.control.control.imports();
            let votes = imports.map(|view| checks::votes_in(&process.parts.store, view.range())).sum();
            self.world.meet("votes that moved", votes);
        }
    }

    fn note(&mut self, event: Event) -> Result<(), Violation> {
        let now_us = self.world.now_us;
        self.world.story.note(now_us << 20 ^ code_of(event));
        self.at_once = if self.at_once.0 == now_us { (now_us, self.at_once.1 + 1) } else { (now_us, 1) };
        if self.at_once.1 > EVENTS_AT_ONE_INSTANT {
            return Err(Violation::new("liveness", format!("time stands still at {event:?}")));
        }
        Ok(())
    }

    fn thread_turn(&mut self, host: HostId, thread: Thread) {
        let machine = &mut self.hosts[host.0];
        if machine.paused_until_us > self.world.now_us {
            self.world.turn_at(Actor::Thread(host, thread), machine.paused_until_us);
        } else if let Some(process) = &mut machine.process {
            process.turn(thread, &mut self.world);
        }
    }

    fn client_turn(&mut self, number: usize) -> Result<(), Violation> {
        let Simulation { world, sessions, operator, reader, others, workload, history, hosts, .. } = self;
        let operators = sessions.len();
        let result = match sessions.get_mut(number) {
            Some(session) => session.turn(workload, world, history),
            None if number == operators => {
                let map = hosts.iter().find_map(|host| host.process.as_ref()).map(|process| &**process.map());
                let is_gone = |host: &usize| hosts[*host].process.is_none();
                let gone: Vec<HostId> = (0..hosts.len()).filter(is_gone).map(HostId).collect();
                operator.turn(map, &gone, world);
                Ok(())
            }
            None if number == operators + 1 => reader.turn(workload, world, history),
            None => others[number - operators - 2].turn(workload, hosts, world, history),
        };
        result.map_err(|what| Violation::new("replies", what))
    }

    fn weather_turn(&mut self) {
        let struck = self.nemesis.turn(&mut self.hosts, &mut self.world);
        self.losses.births(&self.hosts, self.world.now_us, &mut self.history.registers);
        match struck {
            Struck::Nothing => {}
            Struck::Client => {
                let number = self.world.random.index(self.sessions.len());
                if let Some(id) = self.sessions[number].any_stream(&mut self.world) {
                    self.world.tell(|| format!("a connection of client {number} breaks"));
                    let heard_us =
                        [self.world.random.magnitude(1, 100_000), self.world.random.magnitude(1, 100_000)];
                    self.world.break_off(id, heard_us);
                }
            }
            Struck::Death(host, tells) => self.death(host, tells),
        }
    }

    /// A process dies. Keys that only it had may be gone from now on, and no others.
    fn death(&mut self, host: HostId, tells: bool) {
        self.world.tell(|| format!("the process of node {} dies", host.0));
        self.summary.deaths += 1;
        if !self.hosts[host.0].log_survives(!tells, &mut self.world) {
            self.lose(host);
        }
        self.hosts[host.0].end_life(tells, &mut self.world);
    }

    /// What was only in the memory of a process that dies is lost.
    fn lose(&mut self, host: HostId) {
        for other in &mut self.others {
            if let Other::Surveyor(surveyor) = other {
                let at_risk = self.losses.at_risk(&self.hosts, host, surveyor.kept());
                let in_doubt = self.losses.in_doubt(&self.hosts, host, surveyor.unset());
                surveyor.lose(&at_risk, &in_doubt);
            }
        }
        if !self.history.transactions.is_cut {
            self.history.transactions.is_cut = true;
            self.others.iter_mut().for_each(Other::lose);
            if let Err(violation) = checks::check_transactions(&self.history.transactions) {
                self.world.checks.note(violation);
            }
        }
        let now_us = self.world.now_us;
        let at_risk = self.losses.at_risk(&self.hosts, host, self.workload.all_other_keys());
        at_risk.into_iter().for_each(|key| self.history.clear(LOSSES, key, Removal::by_death(now_us)));
        let keys = self.workload.all_keys();
        self.losses.death(&self.hosts, host, keys, now_us, &mut self.history.registers);
    }

    fn knock(&mut self, id: StreamId) {
        if !self.world.gets_through(id) {
            return;
        }
        let Some(Place::Host(host)) = self.world.network.place(id, Side::Acceptor) else { return };
        let port = self.world.network.port(id).unwrap_or(Port::Clients);
        match &self.hosts[host.0].process {
            Some(process) => {
                let thread = process.accept(port, &mut self.world);
                self.world.accept(id, Actor::Thread(host, thread));
            }
            None => self.world.refuse(id),
        }
    }

    fn deliver(
        &mut self,
        actor: Actor,
        id: StreamId,
        side: Side,
        signal: crate::network::Signal,
    ) -> Result<(), Violation> {
        let Simulation { world, sessions, operator, reader, others, history, hosts, .. } = self;
        let operators = sessions.len();
        let result = match actor {
            Actor::Thread(host, thread) => {
                if let Some(process) = &mut hosts[host.0].process {
                    process.deliver(thread, id, side, signal, world);
                }
                Ok(())
            }
            Actor::Client(number) => match sessions.get_mut(number) {
                Some(session) => session.hear(id, signal, world, history),
                None if number == operators => {
                    operator.hear(id, signal, world);
                    Ok(())
                }
                None if number == operators + 1 => reader.hear(id, signal, world, history),
                None => others[number - operators - 2].hear(id, signal, hosts, world, history),
            },
            Actor::Nemesis => Ok(()),
        };
        result.map_err(|what| Violation::new("replies", what))
    }
}
