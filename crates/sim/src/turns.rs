//! When each actor has its next turn: looked at for every event, so in lists by number.

use crate::queue::{THREADS, number_of};
use crate::world::{Actor, HostId};

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

    /// No thread of this machine has a turn any more.
    pub(crate) fn forget(&mut self, HostId(host): HostId) {
        *grown(&mut self.threads, host) = Default::default();
    }
}

fn grown<T: Default>(list: &mut Vec<T>, index: usize) -> &mut T {
    if list.len() <= index {
        list.resize_with(index + 1, T::default);
    }
    &mut list[index]
}
