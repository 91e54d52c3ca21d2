//! How fast bulk pulls may go.
//!
//! A token bucket over the bytes that pulls bring. It starts without a rate of its own, so an idle target takes what
//! the network and the mover give. When workers are later with their loops than the limit, the rate becomes half of
//! what really arrived in the last window and halves again while they stay late, down to a floor; when they keep up, it
//! grows until it no longer binds. Sampled and priority pulls are not paced: somebody waits for them.
//!
//! Realises: Rocksteady 2.3.1 (pulls and replay at the lowest priority, so that client requests keep their latency).
//! There a scheduler in the same process decides; here it is the measured lag of the workers.
//!
//! Ownership: the target machine, on its mover.

use sidle_types::MonotonicUs;

/// The floor unless another is set. On a saturated machine workers are always late, whatever the mover does; the
/// migration that is to relieve it must end all the same. It takes about a tenth of a core at each end.
pub const RATE_BYTES_PER_S_MIN: u64 = 80 << 20;
/// A rate above this binds nothing any more and is forgotten.
pub const RATE_BYTES_PER_S_FREE: u64 = 16 << 30;
/// Arrivals are measured, and the rate changes, once in so long.
pub const PACER_WINDOW_US: u64 = 10_000;

const US_PER_S: u64 = 1_000_000;

/// A token bucket that backs off when workers lag.
#[derive(Debug)]
pub struct Pacer {
    max_bytes_per_s: Option<u64>,
    min_bytes_per_s: u64,
    lag_limit_us: u64,
    /// Set while workers have been lagging.
    backed_off: Option<u64>,
    /// Bytes that may be asked for; negative after a reply that was larger than its pull asked for.
    tokens: i64,
    filled_at: MonotonicUs,
    window_start: MonotonicUs,
    window_bytes: u64,
    arrived_bytes_per_s: u64,
    changed_at: MonotonicUs,
}

impl Pacer {
    /// A pacer with an optional fixed ceiling, that backs off above this lag, down to the floor `min_bytes_per_s`.
    pub fn new(max_bytes_per_s: Option<u64>, min_bytes_per_s: u64, lag_limit_us: u64) -> Pacer {
        Pacer {
            max_bytes_per_s: max_bytes_per_s.map(|rate| rate.max(1)),
            min_bytes_per_s: min_bytes_per_s.max(1),
            lag_limit_us,
            backed_off: None,
            tokens: 0,
            filled_at: MonotonicUs(0),
            window_start: MonotonicUs(0),
            window_bytes: 0,
            arrived_bytes_per_s: 0,
            changed_at: MonotonicUs(0),
        }
    }

    /// The rate that binds now, if one does.
    pub fn rate_bytes_per_s(&self) -> Option<u64> {
        match (self.backed_off, self.max_bytes_per_s) {
            (Some(rate), Some(max)) => Some(rate.min(max)),
            (rate, max) => rate.or(max),
        }
    }

    /// When a pull may be sent: now, or later.
    pub fn ready_at(&mut self, now: MonotonicUs) -> MonotonicUs {
        let Some(rate) = self.rate_bytes_per_s() else { return now };
        self.fill(now, rate);
        if self.tokens >= 0 {
            return now;
        }
        let lacking = self.tokens.unsigned_abs();
        now.plus_us((lacking.saturating_mul(US_PER_S)).div_ceil(rate).max(1))
    }

    /// A pull for this many bytes was sent.
    pub fn spend(&mut self, now: MonotonicUs, bytes: u64) {
        if let Some(rate) = self.rate_bytes_per_s() {
            self.fill(now, rate);
            self.tokens -= bytes as i64;
        }
    }

    /// A reply of this many bytes arrived to a pull that asked for `asked`.
    pub fn arrived(&mut self, now: MonotonicUs, asked: u64, bytes: u64) {
        if self.rate_bytes_per_s().is_some() {
            self.tokens += asked as i64 - bytes as i64;
        }
        self.window_bytes += bytes;
        let elapsed = now.since(self.window_start);
        if elapsed >= PACER_WINDOW_US {
            self.arrived_bytes_per_s = self.window_bytes.saturating_mul(US_PER_S) / elapsed;
            self.window_start = now;
            self.window_bytes = 0;
        }
    }

    /// How late the slowest worker is.
    pub fn worker_lag(&mut self, now: MonotonicUs, lag_us: u64) {
        if now.since(self.changed_at) < PACER_WINDOW_US {
            return;
        }
        self.changed_at = now;
        if lag_us > self.lag_limit_us {
            let current = self.backed_off.unwrap_or(self.arrived_bytes_per_s);
            if self.rate_bytes_per_s().is_none() {
                (self.tokens, self.filled_at) = (0, now);
            }
            self.backed_off = Some((current / 2).max(self.min_bytes_per_s));
        } else if let Some(rate) = self.backed_off {
            let faster = rate + rate / 8;
            self.backed_off = (faster < RATE_BYTES_PER_S_FREE).then_some(faster);
        }
    }

    fn fill(&mut self, now: MonotonicUs, rate: u64) {
        let elapsed = now.since(self.filled_at);
        let earned = (u128::from(elapsed) * u128::from(rate) / u128::from(US_PER_S)) as u64;
        if earned == 0 {
            return;
        }
        self.filled_at = now;
        // No more than a window's worth is saved up, so that a pause is not followed by a burst.
        let most = (rate / (US_PER_S / PACER_WINDOW_US)) as i64;
        self.tokens = self.tokens.saturating_add(i64::try_from(earned).unwrap_or(i64::MAX)).min(most);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PULL: u64 = 64 << 10;
    const FLOOR: u64 = 4 << 20;

    /// Pulls as fast as the pacer lets it for this long; returns bytes per second.
    fn run(pacer: &mut Pacer, from_us: u64, us: u64, lag_us: u64) -> u64 {
        let (mut now, end) = (MonotonicUs(from_us), from_us + us);
        let mut bytes = 0;
        while now.0 < end {
            let ready = pacer.ready_at(now);
            if ready > now {
                now = ready;
                continue;
            }
            pacer.spend(now, PULL);
            now = now.plus_us(50);
            pacer.arrived(now, PULL, PULL);
            pacer.worker_lag(now, lag_us);
            bytes += PULL;
        }
        bytes * US_PER_S / us
    }

    #[test]
    fn ready_at_is_now_without_a_ceiling_or_lag() {
        let mut pacer = Pacer::new(None, FLOOR, 1_000);
        run(&mut pacer, 0, 1_000_000, 0);
        assert_eq!(pacer.ready_at(MonotonicUs(2_000_000)), MonotonicUs(2_000_000));
        assert_eq!(pacer.rate_bytes_per_s(), None);
    }

    #[test]
    fn ready_at_keeps_the_ceiling() {
        let ceiling = 50 << 20;
        let rate = run(&mut Pacer::new(Some(ceiling), FLOOR, 1_000), 0, 2_000_000, 0);
        assert!(rate.abs_diff(ceiling) < ceiling / 20, "{rate} against {ceiling}");
    }

    #[test]
    fn worker_lag_backs_off_and_recovers() {
        let mut pacer = Pacer::new(None, FLOOR, 1_000);
        let free = run(&mut pacer, 0, 1_000_000, 0);
        let lagging = run(&mut pacer, 1_000_000, 1_000_000, 5_000);
        assert!(lagging < free / 10, "{lagging} while lagging, {free} before");
        assert!(pacer.rate_bytes_per_s().is_some_and(|rate| rate >= FLOOR));
        let recovered = run(&mut pacer, 2_000_000, 3_000_000, 0);
        assert!(recovered > free / 2, "{recovered} after, {free} before");
    }

    #[test]
    fn arrived_charges_what_a_large_record_brought() {
        let mut pacer = Pacer::new(Some(1 << 20), FLOOR, 1_000);
        pacer.spend(MonotonicUs(0), PULL);
        pacer.arrived(MonotonicUs(10), PULL, 10 << 20);
        let wait = pacer.ready_at(MonotonicUs(20)).0;
        assert!((9_000_000..11_000_000).contains(&wait), "{wait}");
    }
}
