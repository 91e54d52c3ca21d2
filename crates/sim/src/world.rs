//! The shared state of a simulation: the time, pending events, randomness, the network, the story.

use crate::checks::Checks;
use crate::durable::CopyDisks;
use crate::network::{Network, Side, StreamId};
use crate::story::Story;
use crate::turns::Turns;
use sidle_testbed::{Random, TimeQueue};
use std::collections::BTreeMap;

/// A machine, by number; the first one runs the coordinator.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct HostId(pub usize);

/// A thread of a node's process.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Thread {
    /// The control thread, with the coordinator on its machine.
    Control,
    /// A serving thread.
    Worker(usize),
    /// A migration thread.
    Mover(usize),
    /// The cleaner's thread.
    Cleaner,
    /// The thread that makes the durable log's commits.
    LogWriter,
    /// The thread that has the copies of that log follow it.
    Copies,
    /// The thread that keeps the copies of other nodes' logs.
    Backups,
    /// The thread that takes over what dead nodes had.
    Takeovers,
}

/// An entity with turns.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Actor {
    /// A thread on a machine.
    Thread(HostId, Thread),
    /// A client, by number.
    Client(usize),
    /// The source of faults.
    Nemesis,
}

/// An event.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Event {
    /// A turn of an actor.
    Turn(Actor),
    /// A connection reaches its destination machine.
    Knock(StreamId),
    /// Something reaches this end of a connection.
    Arrival(StreamId, Side),
}

/// The speed of threads' turns.
#[derive(Clone, Copy, Debug)]
pub struct Pace {
    /// The longest usual wait of a thread for its turn.
    pub turn_us: u64,
    /// The longest wait when the machine is busy.
    pub stall_us: u64,
    /// How many of a thousand turns that affects.
    pub stalls_permille: u64,
}

/// A fact that a checker needs at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fact {
    /// A worker has taken a new range table.
    TableTaken(HostId),
    /// An import serves.
    Activated(HostId),
    /// The control notified a mover that this migration's range is frozen.
    Frozen(HostId, sidle_types::MigrationId),
    /// The control made a mover release this migration's range.
    Released(HostId, sidle_types::MigrationId),
    /// The coordinator's metadata has changed for good.
    Committed,
    /// A mover has replayed.
    Replayed(HostId),
    /// A mover has taken in a cut: a position may have a new owner.
    Given(HostId),
    /// A command waits: no checker uses it, but a fault may follow.
    Parked(HostId),
    /// A commit of the durable log is safe: the same.
    Safe(HostId),
    /// A process has found that its log is another's by now: it ends.
    Deposed(HostId),
}

impl Fact {
    /// Its machine.
    pub fn host(self) -> HostId {
        match self {
            Fact::TableTaken(host)
            | Fact::Activated(host)
            | Fact::Frozen(host, _)
            | Fact::Released(host, _)
            | Fact::Replayed(host)
            | Fact::Given(host)
            | Fact::Parked(host)
            | Fact::Safe(host)
            | Fact::Deposed(host) => host,
            // The coordinator's machine is the first.
            Fact::Committed => HostId(0),
        }
    }
}

/// The shared state of a simulation.
pub struct World {
    /// The simulation's time, from 0.
    pub now_us: u64,
    /// The randomness.
    pub random: Random,
    /// Connects machines and clients.
    pub network: Network,
    /// The events so far.
    pub story: Story,
    /// Facts that checkers have not handled yet.
    pub facts: Vec<Fact>,
    /// The checkers, outside the cluster.
    pub checks: Checks,
    /// The copies of logs on each machine.
    pub copies: Vec<CopyDisks>,
    /// How often each situation was met that simulations exist for.
    pub met: BTreeMap<&'static str, u64>,
    pace: Pace,
    queue: TimeQueue<Event>,
    /// The next turn of each actor that has one.
    turns: Turns,
    /// Threads that have no turn before then.
    held_up: BTreeMap<Actor, u64>,
}

impl World {
    /// A world before any event.
    pub fn new(random: Random, pace: Pace, network: Network, story: Story) -> World {
        World {
            now_us: 0,
            random,
            network,
            story,
            facts: Vec::new(),
            checks: Checks::default(),
            copies: Vec::new(),
            met: BTreeMap::new(),
            pace,
            queue: TimeQueue::default(),
            turns: Turns::default(),
            held_up: BTreeMap::new(),
        }
    }

    /// The next event, and moves the time to it; `None` if there will never be one again.
    pub fn next_event(&mut self) -> Option<Event> {
        loop {
            let event = self.queue.pop()?;
            let at_us = self.queue.now();
            if let Event::Turn(actor) = event {
                let turn = self.turns.of(actor);
                if *turn != Some(at_us) {
                    // It was given an earlier turn since.
                    continue;
                }
                *turn = None;
            }
            self.now_us = at_us;
            return Some(event);
        }
    }

    /// When the next event is due, including moved turns.
    pub fn next_at_us(&self) -> Option<u64> {
        self.queue.next_at()
    }

    /// Schedules an event.
    pub fn schedule(&mut self, at_us: u64, event: Event) {
        self.queue.push(at_us.max(self.now_us), event);
    }

    /// Gives an actor a turn at this time, unless it has an earlier one: then this one is dropped, and must
    /// be requested again in that turn.
    pub fn turn_at(&mut self, actor: Actor, at_us: u64) {
        let at_us = at_us.max(self.now_us).max(self.held_up_until(actor));
        let turn = self.turns.of(actor);
        if turn.is_none_or(|earlier| earlier > at_us) {
            *turn = Some(at_us);
            self.schedule(at_us, Event::Turn(actor));
        }
    }

    /// Wakes a thread: it has a turn as soon as its machine can give one.
    pub fn wake(&mut self, host: HostId, thread: Thread) {
        let delay_us = if self.random.permille(self.pace.stalls_permille) {
            self.random.magnitude(1, self.pace.stall_us)
        } else {
            self.random.between(0, self.pace.turn_us)
        };
        self.turn_at(Actor::Thread(host, thread), self.now_us + delay_us);
    }

    /// A thread has no turn for so long: its machine runs something else.
    pub fn hold_up(&mut self, host: HostId, thread: Thread, us: u64) {
        let actor = Actor::Thread(host, thread);
        let until_us = self.now_us + us;
        self.held_up.insert(actor, until_us);
        *self.turns.of(actor) = None;
        self.turn_at(actor, until_us);
    }

    fn held_up_until(&mut self, actor: Actor) -> u64 {
        match self.held_up.get(&actor).copied() {
            Some(until_us) if until_us <= self.now_us => {
                self.held_up.remove(&actor);
                0
            }
            until_us => until_us.unwrap_or(0),
        }
    }

    /// Removes the turns of all threads of a machine: its process is gone.
    pub fn forget_turns(&mut self, host: HostId) {
        self.held_up.retain(|actor, _| !matches!(actor, Actor::Thread(of, _) if *of == host));
        self.turns.forget(host);
    }

    /// Counts a met situation.
    pub fn meet(&mut self, what: &'static str, times: u64) {
        *self.met.entry(what).or_default() += times;
    }

    /// Adds a line to the story.
    pub fn tell(&mut self, line: impl FnOnce() -> String) {
        self.story.tell(self.now_us, line);
    }
}
