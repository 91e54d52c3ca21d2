//! Connections not yet proven: which have a place, and which make way.

use std::collections::VecDeque;
use std::net::{IpAddr, Ipv6Addr};

/// A connection's origin, for counting: an IPv4 address, or the network of an IPv6
/// address, since one machine may have all of that.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Source(IpAddr);

/// The network part of an IPv6 address.
const NETWORK_MASK: u128 = !0 << 64;

impl Source {
    /// An address's source.
    pub(super) fn of(address: IpAddr) -> Source {
        match address.to_canonical() {
            IpAddr::V6(v6) if !v6.is_loopback() => {
                Source(Ipv6Addr::from_bits(v6.to_bits() & NETWORK_MASK).into())
            }
            other => Source(other),
        }
    }
}

/// The waiting connections, the oldest first, each with a value that is handed back if it makes way.
#[derive(Debug)]
pub(super) struct Waiting<T> {
    total_max: usize,
    per_source_max: usize,
    queue: VecDeque<(u64, Source, T)>,
    last_ticket: u64,
}

impl<T> Waiting<T> {
    /// This many places in total, and this many for one source.
    pub(super) fn new(total_max: usize, per_source_max: usize) -> Waiting<T> {
        Waiting { total_max, per_source_max, queue: VecDeque::new(), last_ticket: 0 }
    }

    /// Gives the newcomer a place. If its source has all of its places, the source's oldest makes way. If
    /// instead all places are taken, the oldest of the source with the most makes way.
    pub(super) fn admit(&mut self, source: Source, value: T) -> (u64, Option<T>) {
        let crowded = if self.count(source) >= self.per_source_max {
            Some(source)
        } else if self.queue.len() >= self.total_max {
            // Of several with equally many, that of the oldest.
            let sources = self.queue.iter().rev().map(|&(_, source, _)| source);
            sources.max_by_key(|&source| self.count(source))
        } else {
            None
        };
        let oldest = crowded.and_then(|source| self.queue.iter().position(|entry| entry.1 == source));
        let evicted = oldest.and_then(|at| self.queue.remove(at)).map(|(_, _, value)| value);
        self.last_ticket += 1;
        self.queue.push_back((self.last_ticket, source, value));
        (self.last_ticket, evicted)
    }

    /// Gives a place back; does nothing if it was taken away before.
    pub(super) fn leave(&mut self, ticket: u64) {
        self.queue.retain(|entry| entry.0 != ticket);
    }

    fn count(&self, source: Source) -> usize {
        self.queue.iter().filter(|entry| entry.1 == source).count()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn source(number: u8) -> Source {
        Source::of(IpAddr::from([10, 0, 0, number]))
    }

    #[test]
    fn one_source_only_drives_out_its_own() {
        let mut waiting = Waiting::new(8, 3);
        let (genuine, _) = waiting.admit(source(1), "genuine");
        for round in 0..100 {
            let (_, evicted) = waiting.admit(source(2), "stranger");
            assert_eq!(evicted, (round >= 3).then_some("stranger"));
        }
        assert_eq!(waiting.queue.len(), 4);
        waiting.leave(genuine);
        assert_eq!(waiting.queue.len(), 3);
    }

    #[test]
    fn when_all_is_full_the_oldest_of_the_most_crowded_makes_way() {
        let mut waiting = Waiting::new(4, 3);
        waiting.admit(source(1), "genuine");
        for name in ["first", "second", "third"] {
            waiting.admit(source(2), name);
        }
        assert_eq!(waiting.admit(source(3), "other").1, Some("first"));
        assert_eq!(waiting.admit(source(4), "other").1, Some("second"));
        assert_eq!(waiting.queue.len(), 4);
        assert_eq!(waiting.admit(source(5), "other").1, Some("genuine"), "one each: the oldest");
    }

    #[test]
    fn tickets_given_back_twice_do_no_harm() {
        let mut waiting = Waiting::new(1, 1);
        let (first, _) = waiting.admit(source(1), 1);
        let (_, evicted) = waiting.admit(source(1), 2);
        assert_eq!(evicted, Some(1));
        waiting.leave(first);
        waiting.leave(first);
        assert_eq!(waiting.count(source(1)), 1);
    }

    #[test]
    fn an_ipv6_network_is_one_source() {
        let of = |text: &str| Source::of(text.parse().unwrap());
        assert_eq!(of("2001:db8::1"), of("2001:db8::ffff:1"));
        assert_ne!(of("2001:db8::1"), of("2001:db8:0:1::1"));
        assert_eq!(of("::ffff:10.0.0.1"), source(1));
        assert_ne!(of("::1"), of("::2"));
    }
}
