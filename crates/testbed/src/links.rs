//! Links between two ends: opened, cut, held back, opened again; and the messages in flight.

use crate::queue::TimeQueue;
use crate::random::Random;
use crate::way::{Quality, Way};
use std::collections::BTreeMap;

/// An end of a link.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Side {
    /// The end that opened it.
    Opener,
    /// The end that accepted it.
    Acceptor,
}

impl Side {
    /// Both ends.
    pub const BOTH: [Side; 2] = [Side::Opener, Side::Acceptor];

    /// The other end.
    pub const fn other(self) -> Side {
        match self {
            Side::Opener => Side::Acceptor,
            Side::Acceptor => Side::Opener,
        }
    }
}

/// An event at an end of a link `K`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Arrival<K, M> {
    /// The link is open.
    Opened(K),
    /// It could not be opened.
    Refused(K),
    /// This end detects that the link is closed.
    Closed(K, Side),
    /// This end receives a message.
    Message(K, Side, M),
}

/// The fate of an arrived event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fate {
    /// It is received.
    Arrives,
    /// It is held back until everything is [released](Links::release).
    Waits,
    /// It is dropped.
    IsLost,
}

#[derive(Clone, Copy, Debug)]
struct Link {
    is_open: bool,
    /// Indexed by the receiving end.
    ways: [Way; 2],
}

/// Links by name. A cut link may be opened again.
#[derive(Debug)]
pub struct Links<K, M> {
    links: BTreeMap<K, Link>,
    under_way: TimeQueue<Arrival<K, M>>,
    held: Vec<Arrival<K, M>>,
}

impl<K, M> Default for Links<K, M> {
    fn default() -> Links<K, M> {
        Links { links: BTreeMap::new(), under_way: TimeQueue::default(), held: Vec::new() }
    }
}

impl<K: Copy + Ord, M: Clone> Links<K, M> {
    /// Opens a link, usable from `at_us` on. `ways`: the quality to its opener and to its acceptor.
    ///
    /// # Panics
    /// If a link of this name exists.
    pub fn open(&mut self, link: K, ways: [Quality; 2], at_us: u64) {
        let before = self.links.insert(link, Link { is_open: false, ways: ways.map(Way::new) });
        assert!(before.is_none(), "a link is opened twice");
        self.under_way.push(at_us, Arrival::Opened(link));
    }

    /// Creates a link that is open from the start.
    pub fn establish(&mut self, link: K, ways: [Quality; 2]) {
        self.links.insert(link, Link { is_open: true, ways: ways.map(Way::new) });
    }

    /// The opener learns at `at_us` that this link was refused.
    pub fn refuse(&mut self, link: K, at_us: u64) {
        self.under_way.push(at_us, Arrival::Refused(link));
    }

    /// Whether a link is open.
    pub fn is_open(&self, link: K) -> bool {
        self.links.get(&link).is_some_and(|link| link.is_open)
    }

    /// The open links.
    pub fn open_links(&self) -> impl Iterator<Item = K> {
        self.links.iter().filter(|(_, link)| link.is_open).map(|(&link, _)| link)
    }

    /// Sets the quality of the direction to an end, if the link exists.
    pub fn set_quality(&mut self, link: K, to: Side, quality: Quality) {
        if let Some(link) = self.links.get_mut(&link) {
            link.ways[to as usize].quality = quality;
        }
    }

    /// Sends a message of `bytes` bytes to an end; returns whether it is in flight. Messages over a closed
    /// link are lost.
    pub fn send(
        &mut self,
        link: K,
        to: Side,
        message: M,
        bytes: usize,
        now_us: u64,
        random: &mut Random,
    ) -> bool {
        let Some(Link { is_open: true, ways }) = self.links.get_mut(&link) else { return false };
        let mut is_under_way = false;
        for at_us in ways[to as usize].datagram_at_us(bytes, now_us, random) {
            is_under_way = true;
            self.under_way.push(at_us, Arrival::Message(link, to, message.clone()));
        }
        is_under_way
    }

    /// Cuts a link; returns whether it existed. Of its messages in flight, held back or not, this many per
    /// thousand still arrive. Each end detects the cut at its time, by [`Side`], or never.
    pub fn cut(
        &mut self,
        link: K,
        learns_at_us: [Option<u64>; 2],
        lingering_permille: u64,
        random: &mut Random,
    ) -> bool {
        if self.links.remove(&link).is_none() {
            return false;
        }
        let mut stays = |arrival: &Arrival<K, M>| match arrival {
            Arrival::Opened(of) => *of != link,
            Arrival::Message(of, ..) => *of != link || random.permille(lingering_permille),
            Arrival::Refused(_) | Arrival::Closed(..) => true,
        };
        self.under_way.retain(&mut stays);
        self.held.retain(&mut stays);
        for side in Side::BOTH {
            if let Some(at_us) = learns_at_us[side as usize] {
                self.under_way.push(at_us, Arrival::Closed(link, side));
            }
        }
        true
    }

    /// When the next event arrives.
    pub fn next_at_us(&self) -> Option<u64> {
        self.under_way.next_at()
    }

    /// The next event that has arrived by now and is received.
    pub fn receive(&mut self, now_us: u64, fate: impl Fn(&Arrival<K, M>) -> Fate) -> Option<Arrival<K, M>> {
        loop {
            let arrival = self.under_way.pop_due(now_us)?;
            match fate(&arrival) {
                Fate::Arrives => {}
                Fate::Waits => {
                    self.held.push(arrival);
                    continue;
                }
                Fate::IsLost => continue,
            }
            if let Arrival::Opened(link) = &arrival
                && let Some(link) = self.links.get_mut(link)
            {
                link.is_open = true;
            }
            return Some(arrival);
        }
    }

    /// Releases everything that was held back: it arrives now.
    pub fn release(&mut self, now_us: u64) {
        for arrival in std::mem::take(&mut self.held) {
            self.under_way.push(now_us, arrival);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use Arrival::{Closed, Message, Opened, Refused};
    use Side::{Acceptor, Opener};

    const SOUND: [Quality; 2] = [Quality::sound(10, 10); 2];

    /// A link 1 that is open since 5, and the test's random numbers.
    fn standing(ways: [Quality; 2]) -> (Links<u8, u64>, Random) {
        let mut links = Links::default();
        links.open(1, ways, 5);
        assert!(!links.is_open(1));
        assert_eq!(all(&mut links, 5), [Opened(1)]);
        (links, Random::new(3))
    }

    fn all(links: &mut Links<u8, u64>, now_us: u64) -> Vec<Arrival<u8, u64>> {
        std::iter::from_fn(|| links.receive(now_us, |_| Fate::Arrives)).collect()
    }

    #[test]
    fn messages_go_both_ways_over_an_open_link() {
        let (mut links, mut random) = standing(SOUND);
        assert!(
            links.send(1, Acceptor, 7, 0, 20, &mut random) && links.send(1, Opener, 8, 0, 21, &mut random)
        );
        assert!(!links.send(2, Opener, 9, 0, 21, &mut random), "no such link");
        links.refuse(2, 22);
        assert_eq!(links.next_at_us(), Some(22));
        assert_eq!(all(&mut links, 30), [Refused(2), Message(1, Acceptor, 7)]);
        assert_eq!(all(&mut links, 31), [Message(1, Opener, 8)]);
    }

    #[test]
    fn a_cut_loses_messages_and_each_end_detects_it_at_its_time() {
        let (mut links, mut random) = standing(SOUND);
        links.establish(2, SOUND);
        for link in [1, 2] {
            links.send(link, Acceptor, 7, 0, 20, &mut random);
        }
        assert!(links.cut(1, [Some(25), Some(40)], 0, &mut random));
        assert!(!links.cut(1, [Some(25), Some(40)], 0, &mut random), "it is cut already");
        assert!(!links.send(1, Acceptor, 8, 0, 20, &mut random));
        assert_eq!(all(&mut links, 39), [Closed(1, Opener), Message(2, Acceptor, 7)]);
        assert_eq!(all(&mut links, 40), [Closed(1, Acceptor)]);
        assert!(links.open_links().eq([2]));
    }

    #[test]
    fn a_lingering_message_arrives_after_the_link_reopens() {
        let (mut links, mut random) = standing([Quality::sound(100, 100); 2]);
        links.send(1, Acceptor, 7, 0, 20, &mut random);
        links.cut(1, [None; 2], 1000, &mut random);
        links.open(1, SOUND, 30);
        assert_eq!(all(&mut links, 30), [Opened(1)]);
        links.send(1, Acceptor, 8, 0, 30, &mut random);
        assert_eq!(all(&mut links, 200), [Message(1, Acceptor, 8), Message(1, Acceptor, 7)]);
    }

    #[test]
    fn a_link_cut_while_opening_never_opens() {
        let (mut links, mut random) = (Links::default(), Random::new(1));
        links.open(1, SOUND, 5);
        links.cut(1, [None; 2], 1000, &mut random);
        assert_eq!(all(&mut links, 99), []);
    }

    #[test]
    fn held_messages_arrive_on_release_unless_their_link_is_cut() {
        let (mut links, mut random) = standing(SOUND);
        links.establish(2, SOUND);
        let fate = |arrival: &_| match arrival {
            Message(_, Opener, _) => Fate::IsLost,
            _ => Fate::Waits,
        };
        for (link, to) in [(1, Acceptor), (2, Acceptor), (2, Opener)] {
            links.send(link, to, 7, 0, 20, &mut random);
        }
        assert_eq!(links.receive(30, fate), None);
        assert_eq!(all(&mut links, 99), []);
        links.cut(1, [None; 2], 0, &mut random);
        links.release(50);
        assert_eq!(all(&mut links, 50), [Message(2, Acceptor, 7)]);
    }

    #[test]
    fn a_bad_way_loses_duplicates_and_reorders_whole_messages() {
        let bad = Quality {
            lost_permille: 200,
            doubled_permille: 200,
            is_ordered: false,
            ..Quality::sound(1, 999)
        };
        let (mut links, mut random) = standing(SOUND);
        links.set_quality(1, Opener, bad);
        let sent =
            (0..500).filter(|&number| links.send(1, Opener, number, 1, 10 * number, &mut random)).count();
        let came = all(&mut links, u64::MAX);
        assert!(sent < 450 && came.len() > sent, "{sent} {}", came.len());
        let numbers =
            came.iter().map(|arrival| if let Message(1, Opener, number) = arrival { *number } else { 0 });
        assert!(!numbers.is_sorted());
    }
}
