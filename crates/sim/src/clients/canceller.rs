//! The canceller: cancels some migrations, each in a state chosen beforehand.
//!
//! It sees each commit of the coordinator at its instant. So its request, which still has to travel, meets
//! every state, even those that last only a few messages, and that no operator could target.

use super::resp_stream::{Received, RespStream};
use crate::host::Host;
use crate::network::{Signal, StreamId};
use crate::world::{Actor, HostId, World};
use sidle_cluster::{MigrationRecord, MigrationState};
use sidle_resp::Value;
use sidle_testbed::Random;
use sidle_types::MigrationId;
use std::collections::{BTreeMap, VecDeque};

/// A canceller's settings.
#[derive(Clone, Copy, Debug)]
pub struct CancellerSetup {
    /// How many of a thousand migrations it cancels.
    pub permille: u64,
    /// The node that it asks.
    pub host: HostId,
}

/// A migration's phase, for cancelling.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Phase {
    /// It waits for another.
    Queued,
    /// The source counts.
    Preparing,
    /// The target makes room; only its answer is missing.
    Prepared,
    /// The target owns the range: cancelling is no longer possible, unless it is given bit by bit.
    Running,
}

impl Phase {
    /// Its phase; `None` once it is over.
    pub fn of(record: &MigrationRecord) -> Option<Phase> {
        match record.state {
            MigrationState::Queued => Some(Phase::Queued),
            MigrationState::Preparing if record.partitions.is_empty() => Some(Phase::Preparing),
            MigrationState::Preparing => Some(Phase::Prepared),
            MigrationState::Running => Some(Phase::Running),
            MigrationState::Done | MigrationState::Cancelled | MigrationState::Failed { .. } => None,
        }
    }

    /// The counter for a cancel request in this phase.
    pub fn met(self) -> &'static str {
        match self {
            Phase::Queued => "cancelled while queued",
            Phase::Preparing => "cancelled while the source counts",
            Phase::Prepared => "cancelled while the target makes room",
            Phase::Running => "cancelled too late",
        }
    }
}

/// A migration's result for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Told {
    /// The migration.
    pub migration: MigrationId,
    /// Whether it is cancelled, or cannot be any more.
    pub is_cancelled: bool,
}

/// The longest wait after a migration has reached the chosen state; mostly none.
const LATER_US: u64 = 5_000;

/// The same of a range that is given bit by bit, once it runs.
const GIVEN_LATER_US: u64 = 200_000;

/// The canceller.
pub struct Canceller {
    number: usize,
    setup: CancellerSetup,
    random: Random,
    line: Option<RespStream>,
    /// Its requests over the connection without an answer.
    asked: VecDeque<MigrationId>,
    /// The phase to cancel each migration in, if any.
    chosen: BTreeMap<MigrationId, Option<Phase>>,
    is_stopped: bool,
    /// The results it received.
    pub told: Vec<Told>,
}

impl Canceller {
    /// The canceller, as the client with this number.
    pub fn new(number: usize, setup: CancellerSetup, random: Random) -> Canceller {
        let (asked, chosen) = (VecDeque::new(), BTreeMap::new());
        Canceller { number, setup, random, line: None, asked, chosen, is_stopped: false, told: Vec::new() }
    }

    /// Asks for nothing from now on.
    pub fn stop(&mut self) {
        self.is_stopped = true;
    }

    /// What is under way, in words.
    pub fn under_way(&self) -> Option<&'static str> {
        (!self.asked.is_empty()).then_some("a migration is cancelled")
    }

    /// It has a turn.
    pub fn turn(&mut self, world: &mut World) {
        if self.line.is_none() && !self.is_stopped {
            self.line = Some(RespStream::to(self.setup.host, Actor::Client(self.number), world));
        }
        self.pump(world);
    }

    /// The coordinator has committed something.
    pub fn look(&mut self, hosts: &[Host], world: &mut World) {
        let seat = hosts[0].process.as_ref().and_then(|process| process.control.seat.as_ref());
        let Some(seat) = seat.filter(|_| !self.is_stopped) else { return };
        for record in seat.coordinator.data().unfinished() {
            let random = &mut self.random;
            let chosen = self.chosen.entry(record.id).or_insert_with(|| {
                let phases = [Phase::Preparing, Phase::Prepared, Phase::Running];
                let is_queued = Phase::of(record) == Some(Phase::Queued) && random.one_in(2);
                let phase = if is_queued { Phase::Queued } else { phases[random.index(phases.len())] };
                random.permille(self.setup.permille).then_some(phase)
            });
            // If the chosen phase has passed, it is cancelled in the next.
            let is_due = chosen.is_some_and(|chosen| Phase::of(record).is_some_and(|phase| phase >= chosen));
            let Some(line) = self.line.as_mut().filter(|_| is_due) else { continue };
            *chosen = None;
            // What is given bit by bit turns back, mostly once something was given.
            let is_given = record.kept_by_source && Phase::of(record) == Some(Phase::Running);
            let later_us = match is_given {
                true => random.magnitude(1, GIVEN_LATER_US) - 1,
                false if random.one_in(4) => random.magnitude(1, LATER_US),
                false => 0,
            };
            world.tell(|| format!("migration {} is to be cancelled, {}", record.id, record.state));
            let request = format!("SIDLE.MIGRATE CANCEL {}\r\n", record.id);
            line.say(world.now_us + later_us, request.into_bytes());
            self.asked.push_back(record.id);
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
                self.asked.clear();
                world.turn_at(Actor::Client(self.number), world.now_us + self.random.magnitude(1, LATER_US));
            }
            Received::Replies(replies) => {
                for reply in replies {
                    let asked =
                        self.asked.pop_front().ok_or("a client that asked for nothing was answered")?;
                    self.take(asked, &reply)?;
                }
                self.pump(world);
            }
        }
        Ok(())
    }

    fn take(&mut self, migration: MigrationId, reply: &Value) -> Result<(), String> {
        match reply {
            Value::Simple(text) if text == "OK" => self.told.push(Told { migration, is_cancelled: true }),
            Value::Error(text) if text.contains("cannot be cancelled") => {
                self.told.push(Told { migration, is_cancelled: false });
            }
            // It turns back, unless it is over before.
            Value::Integer(_) => {}
            // The coordinator is unreachable or cannot write, or the migration is over.
            Value::Error(_) => {}
            _ => return Err(format!("who cancels migration {migration} is answered {reply:?}")),
        }
        Ok(())
    }

    fn pump(&mut self, world: &mut World) {
        if let Some(at_us) = self.line.as_mut().and_then(|line| line.pump(world)) {
            world.turn_at(Actor::Client(self.number), at_us);
        }
    }
}
