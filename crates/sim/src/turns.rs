//! When each actor has its next turn: looked at for every event, so in lists by number.

use crate::world::{Actor, HostId, Thread};

/// How many threads a machine may have.
const THREADS: usize = 32;
/// Where a machine's workers and movers begin among its threads.
const WORKERS: usize = 2;
const MOVERS: usize = 16;

/// The next turn of each actor that has one, in microseconds.
#[derive(Debug, Default)]
pub(crate) struct Turns {
    /// By machine and thread.
    threads: Vec<[Option<u64>; THREADS]>,
    clients: Vec<Option<u64>>,
    weather: Option<u64>,
}

impl Turns {
    /// When the actor has its next turn.
    pub(crate) fn of(&mut self, actor: Actor) -> &mut Option<u64> {
        match actor {
            Actor::Thread(HostId(host), thread) => &mut grown(&mut self.threads, host)[place_of(thread)],
            Actor::Client(number) => grown(&mut self.clients, number),
            Actor::Weather => &mut self.weather,
        }
    }

    /// No thread of this machine has a turn any more.
    pub(crate) fn forget(&mut self, HostId(host): HostId) {
        *grown(&mut self.threads, host) = Default::default();
    }
}

fn place_of(thread: Thread) -> usize {
    let place = match thread {
        Thread::Control => 0,
        Thread::Cleaner => 1,
        Thread::Worker(index) => WORKERS + index,
        Thread::Mover(index) => MOVERS + index,
    };
    assert!(matches!(thread, Thread::Mover(_)) || place < MOVERS, "a machine has at most 14 workers");
    place
}

fn grown<T: Default>(list: &mut Vec<T>, index: usize) -> &mut T {
    if list.len() <= index {
        list.resize_with(index + 1, T::default);
    }
    &mut list[index]
}
