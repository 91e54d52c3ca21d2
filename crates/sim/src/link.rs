//! The links between places: each has a latency and a bandwidth of its own, in each direction, and some are
//! slow.
//!
//! All connections over a link share its bandwidth: a packet leaves after those before it. A link is drawn
//! from its two ends alone, so it is the same whenever it is first used.

use crate::network::Place;
use sidle_testbed::{Quality, Random, Way};
use std::collections::BTreeMap;

/// The settings for drawing links.
#[derive(Clone, Copy, Debug)]
pub struct LinksSetup {
    /// Their common base.
    pub typical: Quality,
    /// How many of a thousand are slow.
    pub slow_permille: u64,
    /// The seed for drawing them.
    pub seed: u64,
}

/// The largest factor by which a link is better or worse than the typical one.
pub const SPREAD: u64 = 4;
/// The factor by which a slow link's bandwidth is less, at least and at most.
const SLOWER: (u64, u64) = (10, 100);
/// The largest factor by which a slow link's latency is longer.
const FARTHER: u64 = 8;
/// Every link's minimum throughput per millisecond.
const LEAST_BYTES_PER_MS: u64 = 200;

#[derive(Clone, Copy, Debug)]
struct Link {
    way: Way,
    is_slow: bool,
}

/// All links.
pub struct Links {
    setup: LinksSetup,
    links: BTreeMap<(Place, Place), Link>,
    /// Packets that went over slow links.
    pub over_slow: u64,
}

impl Links {
    /// The links of a network.
    pub fn new(setup: LinksSetup) -> Links {
        Links { setup, links: BTreeMap::new(), over_slow: 0 }
    }

    /// How long a packet of this size takes if sent now; the link counts it as sent.
    pub fn send_us(&mut self, from: Place, to: Place, bytes: usize, now_us: u64, random: &mut Random) -> u64 {
        let setup = self.setup;
        let link = self.links.entry((from, to)).or_insert_with(|| Link::draw(&setup, from, to));
        self.over_slow += u64::from(link.is_slow && bytes > 0);
        link.way.segment_us(bytes, now_us, random)
    }

    /// The throughput per millisecond of the slowest link between machines that was used.
    pub fn slowest_bytes_per_ms(&self) -> Option<u64> {
        let is_between_machines =
            |(from, to): &(Place, Place)| matches!((from, to), (Place::Host(_), Place::Host(_)));
        let between = self.links.iter().filter(|(ends, _)| is_between_machines(ends));
        between.map(|(_, link)| link.way.quality.bytes_per_ms).min()
    }
}

impl Link {
    fn draw(setup: &LinksSetup, from: Place, to: Place) -> Link {
        let mut random = Random::new(setup.seed ^ number(from) << 32 ^ number(to));
        let Quality { latency_us, jitter_us, bytes_per_ms, .. } = setup.typical;
        let mut around = |typical: u64| random.magnitude((typical / SPREAD).max(1), typical * SPREAD);
        let mut quality = Quality {
            latency_us: around(latency_us),
            jitter_us: around(jitter_us),
            bytes_per_ms: around(bytes_per_ms),
            ..setup.typical
        };
        let is_slow = random.permille(setup.slow_permille);
        if is_slow {
            quality.bytes_per_ms /= random.magnitude(SLOWER.0, SLOWER.1);
            quality.latency_us *= random.between(1, FARTHER);
        }
        quality.bytes_per_ms = quality.bytes_per_ms.max(LEAST_BYTES_PER_MS);
        Link { way: Way::new(quality), is_slow }
    }
}

/// A unique number for the place.
fn number(place: Place) -> u64 {
    match place {
        Place::Host(host) => 2 * host.0 as u64 + 1,
        Place::Client(client) => 2 * client as u64 + 2,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::world::HostId;

    const A: Place = Place::Host(HostId(0));
    const B: Place = Place::Host(HostId(1));
    const C: Place = Place::Client(0);

    fn setup(slow_permille: u64) -> LinksSetup {
        let typical =
            Quality { latency_us: 100, jitter_us: 10, bytes_per_ms: 10_000, ..Quality::sound(0, 0) };
        LinksSetup { typical, slow_permille, seed: 5 }
    }

    #[test]
    fn every_link_is_drawn_by_itself_whatever_is_used_first() {
        let pairs = [(A, B), (B, A), (A, C), (C, A), (B, C), (C, B)];
        let draw = |(from, to)| Link::draw(&setup(0), from, to).way.quality;
        let qualities = pairs.map(draw);
        for (index, quality) in qualities.iter().enumerate() {
            assert!(!qualities[index + 1..].contains(quality), "two links are alike: {quality:?}");
            assert_eq!(*quality, draw(pairs[index]));
        }
    }

    #[test]
    fn slowest_is_the_slowest_between_machines_that_was_used() {
        let mut links = Links::new(setup(0));
        assert_eq!(links.slowest_bytes_per_ms(), None);
        let quality = |from, to| Link::draw(&setup(0), from, to).way.quality.bytes_per_ms;
        let slowest = quality(A, B).min(quality(B, A));
        let clients = (0..).map(Place::Client);
        let slower =
            clients.into_iter().find(|client| quality(A, *client) < slowest).expect("some are slower");
        let mut random = Random::new(1);
        for (from, to) in [(A, slower), (A, B), (B, A)] {
            links.send_us(from, to, 1, 0, &mut random);
        }
        assert_eq!(links.slowest_bytes_per_ms(), Some(slowest));
    }

    #[test]
    fn slow_links_are_slow() {
        for seed in 0..100 {
            let fast = Link::draw(&LinksSetup { seed, ..setup(0) }, A, B).way.quality;
            let slow = Link::draw(&LinksSetup { seed, ..setup(1000) }, A, B).way.quality;
            assert!(slow.bytes_per_ms <= (fast.bytes_per_ms / SLOWER.0).max(LEAST_BYTES_PER_MS));
            assert!(slow.bytes_per_ms >= LEAST_BYTES_PER_MS && slow.latency_us >= fast.latency_us);
        }
    }
}
