//! LATENCY's spikes: the latest long durations of each kind of event.

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// The most kept of each kind, as in Redis.
const KEPT: usize = 160;

/// A spike: its second, and its milliseconds.
pub(crate) type Spike = (u64, u64);

/// The latest spikes of every kind. The lock is taken only for those, and for LATENCY.
#[derive(Debug, Default)]
pub(crate) struct Spikes(Mutex<BTreeMap<&'static str, Event>>);

#[derive(Debug, Default)]
struct Event {
    oldest_first: VecDeque<Spike>,
    longest_ms: u64,
}

/// A kind's values in LATENCY LATEST.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Latest {
    pub(crate) event: &'static str,
    pub(crate) spike: Spike,
    pub(crate) longest_ms: u64,
}

/// A command's kind of event.
pub(crate) fn event_of(is_fast: bool) -> &'static str {
    if is_fast { "fast-command" } else { "command" }
}

impl Spikes {
    /// Enters a spike. Of each second the longest is kept.
    pub(crate) fn enter(&self, event: &'static str, (second, ms): Spike) {
        let mut events = self.events();
        let event = events.entry(event).or_default();
        event.longest_ms = event.longest_ms.max(ms);
        match event.oldest_first.back_mut() {
            Some((last, longest)) if *last == second => *longest = ms.max(*longest),
            _ => event.oldest_first.push_back((second, ms)),
        }
        if event.oldest_first.len() > KEPT {
            event.oldest_first.pop_front();
        }
    }

    /// The latest of every kind.
    pub(crate) fn latest(&self) -> Vec<Latest> {
        let events = self.events();
        let latest = events.iter().filter_map(|(name, event)| {
            let spike = *event.oldest_first.back()?;
            Some(Latest { event: name, spike, longest_ms: event.longest_ms })
        });
        latest.collect()
    }

    /// The kept spikes of one kind, oldest first.
    pub(crate) fn history(&self, event: &[u8]) -> Vec<Spike> {
        let events = self.events();
        let event = std::str::from_utf8(event).ok().and_then(|name| events.get(name));
        event.map(|event| event.oldest_first.iter().copied().collect()).unwrap_or_default()
    }

    /// Drops these kinds' spikes, or all where none is named; returns how many kinds had any.
    pub(crate) fn reset(&self, named: &[&[u8]]) -> usize {
        let mut events = self.events();
        let before = events.len();
        events.retain(|name, _| !named.is_empty() && !named.contains(&name.as_bytes()));
        before - events.len()
    }

    fn events(&self) -> MutexGuard<'_, BTreeMap<&'static str, Event>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_longest_of_a_second_and_the_latest_seconds_are_kept() {
        let spikes = Spikes::default();
        for ms in [12, 15, 11] {
            spikes.enter("command", (7, ms));
        }
        spikes.enter("command", (8, 10));
        spikes.enter("fast-command", (8, 20));
        assert_eq!(spikes.history(b"command"), [(7, 15), (8, 10)]);
        assert_eq!(spikes.history(b"nothing"), []);
        let latest = |event, spike, longest_ms| Latest { event, spike, longest_ms };
        assert_eq!(spikes.latest(), [latest("command", (8, 10), 15), latest("fast-command", (8, 20), 20)]);
        assert_eq!(spikes.reset(&[b"nothing", b"command"]), 1);
        assert_eq!(spikes.reset(&[]), 1);
        assert_eq!(spikes.latest(), []);
        (0..200).for_each(|second| spikes.enter("command", (second, 1)));
        assert_eq!(spikes.history(b"command").len(), KEPT);
        assert_eq!(spikes.history(b"command")[0], (40, 1));
    }
}
