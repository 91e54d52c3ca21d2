//! What is to happen, soonest first: looked at for every event, so each takes two words.

use crate::network::{Side, StreamId};
use crate::world::{Actor, Event, HostId, Thread};
use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// Events with their times; those of one instant in the order in which they were arranged.
#[derive(Debug, Default)]
pub(crate) struct Queue {
    /// Microseconds in the upper half, then a number for each arrangement, then the event's code.
    heap: BinaryHeap<Reverse<u128>>,
    arranged: u32,
}

impl Queue {
    /// Arranges an event.
    pub(crate) fn push(&mut self, at_us: u64, event: Event) {
        self.arranged += 1;
        let entry = u128::from(at_us) << 64 | u128::from(self.arranged) << 32 | u128::from(code_of(event));
        self.heap.push(Reverse(entry));
    }

    /// The next event, and when it is due.
    pub(crate) fn pop(&mut self) -> Option<(u64, Event)> {
        let Reverse(entry) = self.heap.pop()?;
        Some(((entry >> 64) as u64, event_of(entry as u32)))
    }

    /// When the next event is due.
    pub(crate) fn next_at_us(&self) -> Option<u64> {
        self.heap.peek().map(|Reverse(entry)| (entry >> 64) as u64)
    }
}

/// How many bits say of what kind an event is.
const KIND_BITS: u32 = 3;
const WEATHER: u32 = 0;
const CLIENT: u32 = 1;
const THREAD: u32 = 2;
const KNOCK: u32 = 3;
/// And the next one, for the two ends.
const ARRIVAL: u32 = 4;
/// How many threads a machine may have.
pub(crate) const THREADS: usize = 32;
/// Where a machine's workers and movers begin among its threads.
const WORKERS: usize = 2;
const MOVERS: usize = 16;

/// An event as a number, another for each.
pub(crate) fn code_of(event: Event) -> u32 {
    let (kind, number) = match event {
        Event::Turn(Actor::Nemesis) => (WEATHER, 0),
        Event::Turn(Actor::Client(number)) => (CLIENT, number as u64),
        Event::Turn(Actor::Thread(HostId(host), thread)) => {
            (THREAD, (host * THREADS + number_of(thread)) as u64)
        }
        Event::Knock(StreamId(number)) => (KNOCK, number),
        Event::Arrival(StreamId(number), side) => (ARRIVAL + side as u32, number),
    };
    assert!(number < 1 << (u32::BITS - KIND_BITS), "a simulation has fewer connections");
    (number as u32) << KIND_BITS | kind
}

fn event_of(code: u32) -> Event {
    let (kind, number) = (code & ((1 << KIND_BITS) - 1), (code >> KIND_BITS) as usize);
    let stream = StreamId(number as u64);
    match kind {
        WEATHER => Event::Turn(Actor::Nemesis),
        CLIENT => Event::Turn(Actor::Client(number)),
        THREAD => Event::Turn(Actor::Thread(HostId(number / THREADS), thread_of(number % THREADS))),
        KNOCK => Event::Knock(stream),
        ARRIVAL => Event::Arrival(stream, Side::Opener),
        _ => Event::Arrival(stream, Side::Acceptor),
    }
}

/// A thread's number on its machine, below [`THREADS`].
pub(crate) fn number_of(thread: Thread) -> usize {
    let number = match thread {
        Thread::Control => 0,
        Thread::Cleaner => 1,
        Thread::Worker(index) => WORKERS + index,
        Thread::Mover(index) => MOVERS + index,
    };
    assert!(matches!(thread, Thread::Mover(_)) || number < MOVERS, "a machine has at most 14 workers");
    number
}

fn thread_of(number: usize) -> Thread {
    match number {
        0 => Thread::Control,
        1 => Thread::Cleaner,
        WORKERS..MOVERS => Thread::Worker(number - WORKERS),
        _ => Thread::Mover(number - MOVERS),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_event_is_what_it_was() {
        let threads = [Thread::Control, Thread::Cleaner, Thread::Worker(3), Thread::Mover(1)];
        let turns = threads.map(|thread| Event::Turn(Actor::Thread(HostId(6), thread)));
        let stream = StreamId(1_234_567);
        let others = [
            Event::Turn(Actor::Nemesis),
            Event::Turn(Actor::Client(17)),
            Event::Knock(stream),
            Event::Arrival(stream, Side::Opener),
            Event::Arrival(stream, Side::Acceptor),
        ];
        for event in turns.into_iter().chain(others) {
            assert_eq!(event_of(code_of(event)), event);
        }
    }

    #[test]
    fn what_is_due_first_comes_first_and_what_was_arranged_first_of_one_instant() {
        let mut queue = Queue::default();
        let client = |number| Event::Turn(Actor::Client(number));
        for (at_us, number) in [(7, 9), (5, 8), (7, 1), (u64::MAX, 2)] {
            queue.push(at_us, client(number));
        }
        assert_eq!(queue.next_at_us(), Some(5));
        let order: Vec<(u64, Event)> = std::iter::from_fn(|| queue.pop()).collect();
        assert_eq!(order, [(5, client(8)), (7, client(9)), (7, client(1)), (u64::MAX, client(2))]);
        assert_eq!(queue.next_at_us(), None);
    }
}
