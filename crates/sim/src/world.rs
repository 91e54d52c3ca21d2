//! What everything in a simulation shares: the time, what is to happen, chance, the network, the story.

use crate::checks::Checks;
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
    /// The control thread, with the coordinator where that is.
    Control,
    /// A serving thread.
    Worker(usize),
    /// A migration thread.
    Mover(usize),
    /// The cleaner's thread.
    Cleaner,
}

/// Whoever has turns.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Actor {
    /// A thread on a machine.
    Thread(HostId, Thread),
    /// A client, by number.
    Client(usize),
    /// Whoever lets things go wrong.
    Nemesis,
}

/// What happens next.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Event {
    /// A turn of an actor.
    Turn(Actor),
    /// A connection reaches the machine that it was opened to.
    Knock(StreamId),
    /// Something reaches this end of a connection.
    Arrival(StreamId, Side),
}

/// How fast threads get their turns.
#[derive(Clone, Copy, Debug)]
pub struct Pace {
    /// How long a thread usually takes to get its turn, at most.
    pub turn_us: u64,
    /// How long it takes when the machine is busy, at most.
    pub stall_us: u64,
    /// How often that is, of a thousand turns.
    pub stalls_permille: u64,
}

/// Something that a checker wants to know at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fact {
    /// A worker has taken a new range table.
    TableTaken(HostId),
    /// An import serves.
    Activated(HostId),
    /// The control told a mover that this migration's range is frozen.
    Frozen(HostId, sidle_types::MigrationId),
    /// The control told a mover to release this migration's range.
    Released(HostId, sidle_types::MigrationId),
    /// The coordinator's metadata has changed, there to stay.
    Committed,
    /// A mover has replayed.
    Replayed(HostId),
    /// A command waits: no checker looks, but trouble may come of it.
    Parked(HostId),
}

impl Fact {
    /// The machine that it is about.
    pub fn host(self) -> HostId {
        match self {
            Fact::TableTaken(host)
            | Fact::Activated(host)
            | Fact::Frozen(host, _)
            | Fact::Released(host, _)
            | Fact::Replayed(host)
            | Fact::Parked(host) => host,
            // The coordinator's machine is the first.
            Fact::Committed => HostId(0),
        }
    }
}

/// What everything in a simulation shares.
pub struct World {
    /// The simulation's time, from 0.
    pub now_us: u64,
    /// Chance.
    pub random: Random,
    /// What connects machines and clients.
    pub network: Network,
    /// What happened.
    pub story: Story,
    /// What checkers have not looked at yet.
    pub facts: Vec<Fact>,
    /// Whoever looks at everything from outside.
    pub checks: Checks,
    /// How often each thing was met that simulations are there to meet.
    pub met: BTreeMap<&'static str, u64>,
    pace: Pace,
    queue: TimeQueue<Event>,
    /// The next turn of each actor that has one.
    turns: Turns,
}

impl World {
    /// A world in which nothing has happened.
    pub fn new(random: Random, pace: Pace, network: Network, story: Story) -> World {
        World {
            now_us: 0,
            random,
            network,
            story,
            facts: Vec::new(),
            checks: Checks::default(),
            met: BTreeMap::new(),
            pace,
            queue: TimeQueue::default(),
            turns: Turns::default(),
        }
    }

    /// The next event, at whose time it then is; `None` when nothing will ever happen again.
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

    /// When the next event is due, turns that were moved included.
    pub fn next_at_us(&self) -> Option<u64> {
        self.queue.next_at()
    }

    /// Lets something happen then.
    pub fn schedule(&mut self, at_us: u64, event: Event) {
        self.queue.push(at_us.max(self.now_us), event);
    }

    /// Gives an actor a turn then, unless it has one before: this one is lost then, and who still wants it
    /// has to ask again in that turn.
    pub fn turn_at(&mut self, actor: Actor, at_us: u64) {
        let at_us = at_us.max(self.now_us);
        let turn = self.turns.of(actor);
        if turn.is_none_or(|earlier| earlier > at_us) {
            *turn = Some(at_us);
            self.schedule(at_us, Event::Turn(actor));
        }
    }

    /// Wakes a thread: it has its turn as soon as its machine gets round to it.
    pub fn wake(&mut self, host: HostId, thread: Thread) {
        let delay_us = if self.random.permille(self.pace.stalls_permille) {
            self.random.magnitude(1, self.pace.stall_us)
        } else {
            self.random.between(0, self.pace.turn_us)
        };
        self.turn_at(Actor::Thread(host, thread), self.now_us + delay_us);
    }

    /// Takes away the turns of all threads of a machine: its process is gone.
    pub fn forget_turns(&mut self, host: HostId) {
        self.turns.forget(host);
    }

    /// Counts a thing that was met.
    pub fn meet(&mut self, what: &'static str, times: u64) {
        *self.met.entry(what).or_default() += times;
    }

    /// Tells a line of the story.
    pub fn tell(&mut self, line: impl FnOnce() -> String) {
        self.story.tell(self.now_us, line);
    }
}
