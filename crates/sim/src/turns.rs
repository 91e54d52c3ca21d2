//! Each actor's next turn: read for every event, so in lists by number.

use crate::network::StreamId;
use crate::world::{Actor, Event, HostId, Thread};

/// How many threads a machine may have.
const THREADS: usize = 32;
/// The first number of a machine's workers and movers among its threads.
const WORKERS: usize = 2;
const MOVERS: usize = 16;
/// Those of the threads around its log.
const LOG_WRITER: usize = THREADS - 1;
const COPIES: usize = THREADS - 2;
const BACKUPS: usize = THREADS - 3;
const TAKEOVERS: usize = THREADS - 4;

/// The next turn of each actor that has one, in microseconds.
#[derive(Debug, Default)]
pub(crate) struct Turns {
    /// By machine and thread.
    threads: Vec<[Option<u64>; THREADS]>,
    clients: Vec<Option<u64>>,
    nemesis: Option<u64>,
}

impl Turns {
    /// When the actor has its next turn.
    pub(crate) fn of(&mut self, actor: Actor) -> &mut Option<u64> {
        match actor {
            Actor::Thread(HostId(host), thread) => &mut grown(&mut self.threads, host)[number_of(thread)],
            Actor::Client(number) => grown(&mut self.clients, number),
            Actor::Nemesis => &mut self.nemesis,
        }
    }

    /// Removes the turns of all threads of this machine.
    pub(crate) fn forget(&mut self, HostId(host): HostId) {
        *grown(&mut self.threads, host) = Default::default();
    }
}

/// An event as a unique number.
pub(crate) fn code_of(event: Event) -> u64 {
    let (kind, number) = match event {
        Event::Turn(Actor::Nemesis) => (0, 0),
        Event::Turn(Actor::Client(number)) => (1, number as u64),
        Event::Turn(Actor::Thread(HostId(host), thread)) => (2, (host * THREADS + number_of(thread)) as u64),
        Event::Knock(StreamId(number)) => (3, number),
        Event::Arrival(StreamId(number), side) => (4 + side as u64, number),
    };
    number << 3 | kind
}

/// A thread's number on its machine, below [`THREADS`].
fn number_of(thread: Thread) -> usize {
    let number = match thread {
        Thread::Control => 0,
        Thread::Cleaner => 1,
        Thread::Worker(index) => WORKERS + index,
        Thread::Mover(index) => MOVERS + index,
        Thread::LogWriter => return LOG_WRITER,
        Thread::Copies => return COPIES,
        Thread::Backups => return BACKUPS,
        Thread::Takeovers => return TAKEOVERS,
    };
    assert!(matches!(thread, Thread::Mover(_)) || number < MOVERS, "a machine has at most 14 workers");
    number
}

fn grown<T: Default>(list: &mut Vec<T>, index: usize) -> &mut T {
    if list.len() <= index {
        list.resize_with(index + 1, T::default);
    }
    &mut list[index]
}
