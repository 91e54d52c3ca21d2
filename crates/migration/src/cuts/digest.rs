//! What the target tells clients of the cuts: how much there is to tell, and how much it may cost.
//!
//! Clients that know what is given go to its owner at once. What they know only saves trips (M26), so that
//! all of this may be lost: positions that nobody has read in time, and news that nobody could afford.
//!
//! Ownership: written by the target machine; workers read it and account for what they send.

use sidle_types::Position;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// How many of the last positions that were given out of turn are kept.
const KEPT: u64 = 8192;
/// Clients are sent at most the bytes that moved divided by this.
const BYTES_FRACTION: u64 = 100;

/// What the cuts of a migration gave, for clients: see the module's header.
#[derive(Debug, Default)]
pub struct GivenDigest {
    /// How often there was news.
    round: AtomicU64,
    cut: AtomicU64,
    /// Positions given out of turn, in a ring.
    kept: OnceLock<Box<[AtomicU64]>>,
    /// How many there were so far.
    count: AtomicU64,
    /// Whether a worker wants to be told of news.
    is_wanted: AtomicBool,
    moved_bytes: AtomicU64,
    sent_bytes: AtomicU64,
}

impl GivenDigest {
    /// Changes when there is news, at most every few milliseconds.
    pub fn round(&self) -> u64 {
        self.round.load(Ordering::Acquire)
    }

    /// The number of the last cut that gave something.
    pub fn cut(&self) -> u64 {
        self.cut.load(Ordering::Acquire)
    }

    /// How many positions were given out of turn so far.
    pub fn count(&self) -> u64 {
        self.count.load(Ordering::Acquire)
    }

    /// The positions given out of turn from this count to that, at most so many: the last ones of those that
    /// are kept.
    pub fn positions(&self, from: u64, to: u64, most: usize) -> Vec<Position> {
        let Some(kept) = self.kept.get() else { return Vec::new() };
        let first = from.max(to.saturating_sub(KEPT.min(most as u64)));
        let at = |count: u64| Position(kept[(count % KEPT) as usize].load(Ordering::Relaxed));
        (first..to).map(at).collect()
    }

    /// The worker wants to be woken when there is news.
    pub fn want(&self) {
        // Mostly it is set, and other workers read it.
        if !self.is_wanted.load(Ordering::Relaxed) {
            self.is_wanted.store(true, Ordering::Release);
        }
    }

    /// Accounts for bytes that clients are to be sent, if so many may be sent.
    pub fn spend(&self, bytes: u64) -> bool {
        let most = self.moved_bytes.load(Ordering::Relaxed) / BYTES_FRACTION;
        let spent = |sent: u64| sent.checked_add(bytes).filter(|&sum| sum <= most);
        self.sent_bytes.fetch_update(Ordering::Relaxed, Ordering::Relaxed, spent).is_ok()
    }

    /// Accounts for bytes that a client is sent in any case.
    pub fn overspend(&self, bytes: u64) {
        self.sent_bytes.fetch_add(bytes, Ordering::Relaxed);
    }

    /// A cut gave these positions out of turn.
    pub(crate) fn gave(&self, out_of_turn: &[Position]) {
        self.cut.fetch_add(1, Ordering::Release);
        if out_of_turn.is_empty() {
            return;
        }
        let kept = self.kept.get_or_init(|| (0..KEPT).map(|_| AtomicU64::new(0)).collect());
        let count = self.count.load(Ordering::Relaxed);
        for (count, position) in (count..).zip(out_of_turn) {
            kept[(count % KEPT) as usize].store(position.0, Ordering::Relaxed);
        }
        self.count.store(count + out_of_turn.len() as u64, Ordering::Release);
    }

    /// There is news: so many bytes have moved by now. Returns whether a worker wants to know.
    pub(crate) fn announce(&self, moved_bytes: u64) -> bool {
        self.moved_bytes.store(moved_bytes, Ordering::Relaxed);
        self.round.fetch_add(1, Ordering::Release);
        self.is_wanted.swap(false, Ordering::AcqRel)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn positions(numbers: std::ops::Range<u64>) -> Vec<Position> {
        numbers.map(Position).collect()
    }

    #[test]
    fn the_last_positions_are_kept() {
        let digest = GivenDigest::default();
        assert_eq!(digest.positions(0, 0, 10), []);
        digest.gave(&positions(0..5));
        digest.gave(&[]);
        digest.gave(&positions(5..8));
        assert_eq!((digest.cut(), digest.count()), (3, 8));
        assert_eq!(digest.positions(0, 8, 100), positions(0..8));
        assert_eq!(digest.positions(6, 8, 100), positions(6..8));
        assert_eq!(digest.positions(0, 8, 3), positions(5..8), "the last ones");
        for first in (8..20_000).step_by(8) {
            digest.gave(&positions(first..first + 8));
        }
        assert_eq!(digest.positions(0, 20_000, usize::MAX), positions(20_000 - KEPT..20_000));
    }

    #[test]
    fn no_more_is_sent_than_a_hundredth_of_what_moved() {
        let digest = GivenDigest::default();
        assert!(!digest.spend(1));
        digest.announce(10_000);
        assert!(digest.spend(60) && !digest.spend(41) && digest.spend(40) && !digest.spend(1));
        digest.overspend(50);
        digest.announce(15_000);
        assert!(!digest.spend(1) && digest.spend(0));
        digest.announce(15_100);
        assert!(digest.spend(1) && !digest.spend(u64::MAX));
    }

    #[test]
    fn who_wants_to_know_is_told_once() {
        let digest = GivenDigest::default();
        assert!(!digest.announce(0));
        digest.want();
        assert!(digest.announce(0) && !digest.announce(0));
        assert_eq!(digest.round(), 3);
    }
}
