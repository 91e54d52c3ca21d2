//! One direction of a link: its delays, losses and duplicates.
//!
//! A way carries two kinds of traffic. *Segments* belong to a byte stream: a lost one is retransmitted, so it
//! is delayed. *Datagrams* arrive once, twice or never, and overtake each other unless the way is ordered.

use crate::random::Random;

/// The quality of a way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Quality {
    /// The least delay.
    pub latency_us: u64,
    /// The most delay beyond that.
    pub jitter_us: u64,
    /// Bandwidth in bytes per millisecond.
    pub bytes_per_ms: u64,
    /// How many per thousand are lost.
    pub lost_permille: u64,
    /// How many datagrams per thousand arrive twice.
    pub doubled_permille: u64,
    /// Whether datagrams arrive in the order they were sent.
    pub is_ordered: bool,
}

impl Quality {
    /// A way with this least and most delay for any size; everything arrives once and in order.
    pub const fn sound(least_us: u64, most_us: u64) -> Quality {
        Quality {
            latency_us: least_us,
            jitter_us: most_us - least_us,
            bytes_per_ms: u64::MAX,
            lost_permille: 0,
            doubled_permille: 0,
            is_ordered: true,
        }
    }

    /// The same quality with other delays.
    pub const fn within(self, least_us: u64, most_us: u64) -> Quality {
        Quality { latency_us: least_us, jitter_us: most_us - least_us, ..self }
    }
}

/// The least and the most time until a lost segment is retransmitted.
const RETRANSMIT_US: (u64, u64) = (1_000, 200_000);

/// One direction of a link. All traffic shares its bandwidth: it leaves after everything sent before it.
#[derive(Clone, Copy, Debug)]
pub struct Way {
    /// Its quality.
    pub quality: Quality,
    /// When everything sent before has left.
    free_us: u64,
    /// When the last ordered datagram arrives.
    last_us: u64,
}

impl Way {
    /// An idle way.
    pub const fn new(quality: Quality) -> Way {
        Way { quality, free_us: 0, last_us: 0 }
    }

    /// The delay of a segment of `bytes` bytes sent now.
    pub fn segment_us(&mut self, bytes: usize, now_us: u64, random: &mut Random) -> u64 {
        let mut us = self.leave_us(bytes, now_us) - now_us + self.travel_us(random);
        if random.permille(self.quality.lost_permille) {
            us += random.magnitude(RETRANSMIT_US.0, RETRANSMIT_US.1);
        }
        us
    }

    /// When a datagram of `bytes` bytes sent now arrives: once, twice or never.
    pub fn datagram_at_us(
        &mut self,
        bytes: usize,
        now_us: u64,
        random: &mut Random,
    ) -> impl Iterator<Item = u64> + use<> {
        let copies = match random.permille(self.quality.lost_permille) {
            true => 0,
            false if random.permille(self.quality.doubled_permille) => 2,
            false => 1,
        };
        let mut arrivals = [None; 2];
        for arrival in &mut arrivals[..copies] {
            let mut at_us = self.leave_us(bytes, now_us) + self.travel_us(random);
            if self.quality.is_ordered {
                at_us = at_us.max(self.last_us);
                self.last_us = at_us;
            }
            *arrival = Some(at_us);
        }
        arrivals.into_iter().flatten()
    }

    /// When `bytes` bytes sent now have left.
    fn leave_us(&mut self, bytes: usize, now_us: u64) -> u64 {
        self.free_us = self.free_us.max(now_us) + bytes as u64 * 1000 / self.quality.bytes_per_ms;
        self.free_us
    }

    fn travel_us(&self, random: &mut Random) -> u64 {
        self.quality.latency_us + random.between(0, self.quality.jitter_us)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const BAD: Quality = Quality {
        bytes_per_ms: 10_000,
        lost_permille: 200,
        doubled_permille: 300,
        is_ordered: false,
        ..Quality::sound(50, 60_000)
    };

    /// The arrival times of a thousand datagrams, sent one a millisecond.
    fn datagrams(quality: Quality) -> Vec<Vec<u64>> {
        let (mut way, mut random) = (Way::new(quality), Random::new(7));
        (0..1000).map(|ms| way.datagram_at_us(100, ms * 1000, &mut random).collect()).collect()
    }

    #[test]
    fn traffic_waits_for_earlier_traffic() {
        let mut way = Way::new(Quality { bytes_per_ms: 1_000, ..Quality::sound(30, 30) });
        let mut random = Random::new(1);
        let mut segment = |now_us| way.segment_us(5_000, now_us, &mut random);
        assert_eq!([segment(0), segment(0), segment(1_000), segment(50_000)], [5_030, 10_030, 14_030, 5_030]);
    }

    #[test]
    fn lost_segments_are_delayed_but_arrive() {
        let (mut way, mut random) = (Way::new(BAD), Random::new(3));
        let took: Vec<u64> = (0..1000).map(|ms| way.segment_us(1, ms * 1000, &mut random)).collect();
        assert!(took.iter().any(|&us| us > 60_050), "some were retransmitted");
        assert!(took.iter().all(|&us| us <= 60_050 + RETRANSMIT_US.1));
    }

    #[test]
    fn datagrams_are_lost_doubled_and_overtaken_as_often_as_asked() {
        let arrivals = datagrams(BAD);
        let with = |copies| arrivals.iter().filter(|at| at.len() == copies).count();
        assert!((150..250).contains(&with(0)), "{} are lost", with(0));
        assert!((180..300).contains(&with(2)), "{} arrive twice", with(2));
        let overtaken = arrivals.concat().windows(2).filter(|pair| pair[1] < pair[0]).count();
        assert!(overtaken > 200, "{overtaken}");
    }

    #[test]
    fn an_ordered_way_keeps_the_order() {
        let arrivals = datagrams(Quality { is_ordered: true, ..BAD }).concat();
        assert!(arrivals.is_sorted());
        let sound = datagrams(Quality::sound(50, 50).within(20, 400)).concat();
        assert!(sound.len() == 1000 && sound.is_sorted());
    }
}
