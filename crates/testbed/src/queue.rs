//! Planned events on virtual time, earliest first.

use std::collections::BTreeMap;

/// Events with their times; those of one instant in the order they were pushed.
///
/// Times are whole numbers in the owner's unit. The queue's present is the time of the last event taken;
/// nothing is planned before it.
#[derive(Debug)]
pub struct TimeQueue<E> {
    now: u64,
    /// By time, then by the order of pushes.
    planned: BTreeMap<(u64, u64), E>,
    last: u64,
}

impl<E> Default for TimeQueue<E> {
    fn default() -> TimeQueue<E> {
        TimeQueue { now: 0, planned: BTreeMap::new(), last: 0 }
    }
}

impl<E> TimeQueue<E> {
    /// The time of the last event taken.
    pub fn now(&self) -> u64 {
        self.now
    }

    /// When the next event is due.
    pub fn next_at(&self) -> Option<u64> {
        self.planned.first_key_value().map(|(&(at, _), _)| at)
    }

    /// Plans an event; one in the past happens now.
    pub fn push(&mut self, at: u64, event: E) {
        self.last += 1;
        self.planned.insert((at.max(self.now), self.last), event);
    }

    /// Takes the next event and advances to its time.
    pub fn pop(&mut self) -> Option<E> {
        self.pop_due(u64::MAX)
    }

    /// Takes the next event if it is due by `now`.
    pub fn pop_due(&mut self, now: u64) -> Option<E> {
        let next = self.planned.first_entry().filter(|next| next.key().0 <= now)?;
        self.now = next.key().0;
        Some(next.remove())
    }

    /// Keeps the events that `keep` accepts; it is called in the order of their times.
    pub fn retain(&mut self, mut keep: impl FnMut(&E) -> bool) {
        self.planned.retain(|_, event| keep(event));
    }

    /// Removes every event.
    pub fn clear(&mut self) {
        self.planned.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn queue(events: &[(u64, char)]) -> TimeQueue<char> {
        let mut queue = TimeQueue::default();
        events.iter().for_each(|&(at, event)| queue.push(at, event));
        queue
    }

    #[test]
    fn events_come_in_the_order_of_time_then_of_planning() {
        let mut queue = queue(&[(30, 'c'), (10, 'a'), (30, 'd'), (20, 'b'), (u64::MAX, 'e')]);
        assert_eq!((queue.next_at(), queue.pop(), queue.now()), (Some(10), Some('a'), 10));
        queue.push(5, 'x');
        assert_eq!((queue.pop(), queue.now()), (Some('x'), 10), "no event is in the past");
        let rest: Vec<char> = std::iter::from_fn(|| queue.pop()).collect();
        assert_eq!(rest, ['b', 'c', 'd', 'e']);
        assert_eq!((queue.next_at(), queue.now()), (None, u64::MAX));
    }

    #[test]
    fn what_is_not_due_stays() {
        let mut queue = queue(&[(2, 'b'), (1, 'a')]);
        assert_eq!([1, 1, 2].map(|now| queue.pop_due(now)), [Some('a'), None, Some('b')]);
    }

    #[test]
    fn retain_asks_in_order_and_keeps_it() {
        let mut queue = queue(&[(3, 'd'), (1, 'a'), (3, 'e'), (2, 'c'), (1, 'b')]);
        let mut asked = String::new();
        queue.retain(|&event| {
            asked.push(event);
            event != 'c' && event != 'd'
        });
        assert_eq!(asked, "abcde");
        assert_eq!(std::iter::from_fn(|| queue.pop()).collect::<String>(), "abe");
        queue.push(9, 'f');
        queue.clear();
        assert_eq!(queue.pop(), None);
    }
}
