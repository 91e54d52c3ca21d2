//! What happens when: events in the order of their times, those of one instant in the order in which they
//! were planned.

use std::cmp::Ordering;
use std::collections::BinaryHeap;

#[derive(Debug)]
struct Planned<E> {
    at_ns: u64,
    number: u64,
    event: E,
}

/// The earliest is the greatest: a heap gives that first.
impl<E> Ord for Planned<E> {
    fn cmp(&self, other: &Planned<E>) -> Ordering {
        (other.at_ns, other.number).cmp(&(self.at_ns, self.number))
    }
}

impl<E> PartialOrd for Planned<E> {
    fn partial_cmp(&self, other: &Planned<E>) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl<E> PartialEq for Planned<E> {
    fn eq(&self, other: &Planned<E>) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl<E> Eq for Planned<E> {}

/// Events to come. Times are nanoseconds from the start of the model.
#[derive(Debug)]
pub(crate) struct Agenda<E> {
    now_ns: u64,
    planned: BinaryHeap<Planned<E>>,
    last: u64,
}

impl<E> Default for Agenda<E> {
    fn default() -> Agenda<E> {
        Agenda { now_ns: 0, planned: BinaryHeap::new(), last: 0 }
    }
}

impl<E> Agenda<E> {
    /// The time of the event that was taken last.
    pub(crate) fn now_ns(&self) -> u64 {
        self.now_ns
    }

    /// Plans an event; what should have been before now happens now.
    pub(crate) fn at(&mut self, at_ns: u64, event: E) {
        self.last += 1;
        self.planned.push(Planned { at_ns: at_ns.max(self.now_ns), number: self.last, event });
    }

    /// The next event, at whose time it then is.
    pub(crate) fn next(&mut self) -> Option<E> {
        let planned = self.planned.pop()?;
        self.now_ns = planned.at_ns;
        Some(planned.event)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_come_in_the_order_of_time_then_of_planning() {
        let mut agenda = Agenda::default();
        for (at_ns, event) in [(30, 'c'), (10, 'a'), (30, 'd'), (20, 'b')] {
            agenda.at(at_ns, event);
        }
        assert_eq!((agenda.next(), agenda.now_ns()), (Some('a'), 10));
        agenda.at(5, 'x');
        assert_eq!((agenda.next(), agenda.now_ns()), (Some('x'), 10), "nothing happens in the past");
        let rest: Vec<char> = std::iter::from_fn(|| agenda.next()).collect();
        assert_eq!(rest, ['b', 'c', 'd']);
        assert_eq!(agenda.now_ns(), 30);
    }
}
