//! A ceiling on how fast bulk pulls bring bytes: a token bucket.
//!
//! Ownership: a governor of a target machine.

use sidle_types::MonotonicUs;

/// At most this long is saved up, so that no burst follows a pause.
pub(crate) const SAVED_US: u64 = 10_000;

const US_PER_S: u64 = 1_000_000;

/// A token bucket over bytes.
#[derive(Debug)]
pub(crate) struct RateLimit {
    bytes_per_s: u64,
    /// Bytes that pulls may ask for; negative after a reply that exceeded its pull.
    tokens: i64,
    filled_at: MonotonicUs,
}

impl RateLimit {
    pub(crate) fn new(bytes_per_s: u64) -> RateLimit {
        RateLimit { bytes_per_s: bytes_per_s.max(1), tokens: 0, filled_at: MonotonicUs(0) }
    }

    /// Changes the rate.
    pub(crate) fn change(&mut self, now: MonotonicUs, bytes_per_s: u64) {
        self.fill(now);
        self.bytes_per_s = bytes_per_s.max(1);
    }

    /// When a pull may be sent: now, or later.
    pub(crate) fn ready_at(&mut self, now: MonotonicUs) -> MonotonicUs {
        self.fill(now);
        if self.tokens >= 0 {
            return now;
        }
        let lacking = self.tokens.unsigned_abs();
        now.plus_us((lacking.saturating_mul(US_PER_S)).div_ceil(self.bytes_per_s).max(1))
    }

    /// A pull for this many bytes was sent.
    pub(crate) fn spend(&mut self, now: MonotonicUs, bytes: u64) {
        self.fill(now);
        self.tokens -= bytes as i64;
    }

    /// A reply of this many bytes arrived to a pull for `asked`.
    pub(crate) fn arrived(&mut self, asked: u64, bytes: u64) {
        self.tokens += asked as i64 - bytes as i64;
    }

    fn fill(&mut self, now: MonotonicUs) {
        let elapsed = now.since(self.filled_at);
        let earned = (u128::from(elapsed) * u128::from(self.bytes_per_s) / u128::from(US_PER_S)) as u64;
        if earned == 0 {
            return;
        }
        self.filled_at = now;
        let most = (self.bytes_per_s / (US_PER_S / SAVED_US)) as i64;
        self.tokens = self.tokens.saturating_add(i64::try_from(earned).unwrap_or(i64::MAX)).min(most);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PULL: u64 = 64 << 10;

    #[test]
    fn ready_at_keeps_the_ceiling() {
        let ceiling = 50 << 20;
        let mut limit = RateLimit::new(ceiling);
        let (mut now, mut bytes) = (MonotonicUs(0), 0);
        while now.0 < 2 * US_PER_S {
            let ready = limit.ready_at(now);
            if ready > now {
                now = ready;
                continue;
            }
            limit.spend(now, PULL);
            now = now.plus_us(50);
            limit.arrived(PULL, PULL);
            bytes += PULL;
        }
        let rate = bytes / 2;
        assert!(rate.abs_diff(ceiling) < ceiling / 20, "{rate} against {ceiling}");
    }

    #[test]
    fn arrived_charges_what_a_large_record_brought() {
        let mut limit = RateLimit::new(1 << 20);
        limit.spend(MonotonicUs(0), PULL);
        limit.arrived(PULL, 10 << 20);
        let wait = limit.ready_at(MonotonicUs(20)).0;
        assert!((9_000_000..11_000_000).contains(&wait), "{wait}");
    }
}
