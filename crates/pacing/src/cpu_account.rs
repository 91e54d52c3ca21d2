//! An account of a mover's processor time: time earns, work spends. Work waits while more is spent than
//! earned.
//!
//! Waiting work resumes once a burst is saved up, not at the first positive balance. Waking a mover costs
//! about as much as packing some kilobytes: waking for each of the smallest pieces would spend all earnings.
//!
//! Ownership: a governor, through the policy that sets the earnings.

use sidle_types::MonotonicUs;

/// The most that may be saved up and then spent at once.
pub(crate) const BURST_US: u64 = 200;
/// What must be saved up before waiting work resumes.
pub(crate) const RESUME_US: u64 = 100;
/// The bounds of a waiting mover's next check: earnings change with the load.
pub(crate) const REST_US_MIN: u64 = 1_000;
pub(crate) const REST_US_MAX: u64 = 10_000;

pub(crate) const NS_PER_US: u64 = 1_000;

#[derive(Debug)]
pub(crate) struct CpuAccount {
    /// The most debt, in nanoseconds: spent in quiet times, or by work that cannot wait.
    debt_ns: i64,
    /// The balance in nanoseconds; negative: owed.
    balance_ns: i64,
    /// Whether the balance was spent and is not yet saved up again.
    is_resting: bool,
    /// Recent earnings, in thousandths of wall time.
    permille: u64,
    /// Earnings since the last check, and over how long.
    recent: (u64, u64),
}

impl CpuAccount {
    /// An empty account that takes debts up to `debt_us`.
    pub(crate) fn new(debt_us: u64) -> CpuAccount {
        CpuAccount {
            debt_ns: (debt_us * NS_PER_US) as i64,
            balance_ns: 0,
            is_resting: false,
            permille: 0,
            recent: (0, 0),
        }
    }

    /// Adds what was earned and subtracts what was spent in `wall_us`.
    pub(crate) fn settle(&mut self, wall_us: u64, earned_ns: u64, spent_us: u64) {
        self.recent = (self.recent.0 + earned_ns, self.recent.1 + wall_us);
        if self.recent.1 >= REST_US_MIN {
            // Nanoseconds per microsecond are thousandths.
            self.permille = self.recent.0 / self.recent.1;
            self.recent = (0, 0);
        }
        let balance_ns = self.balance_ns + earned_ns as i64 - (spent_us * NS_PER_US) as i64;
        self.balance_ns = balance_ns.clamp(-self.debt_ns, (BURST_US * NS_PER_US) as i64);
        let needed_ns = if self.is_resting { (RESUME_US * NS_PER_US) as i64 } else { 0 };
        self.is_resting = self.balance_ns < needed_ns;
    }

    /// Cancels the debt.
    pub(crate) fn forget_debts(&mut self) {
        (self.balance_ns, self.is_resting) = (self.balance_ns.max(0), false);
    }

    /// When work may go on: now, or later.
    pub(crate) fn ready_at(&self, now: MonotonicUs) -> MonotonicUs {
        if !self.is_resting {
            return now;
        }
        let missing_ns = ((RESUME_US * NS_PER_US) as i64 - self.balance_ns).max(0) as u64;
        // Microseconds times thousandths are nanoseconds.
        now.plus_us((missing_ns / self.permille.max(1)).clamp(REST_US_MIN, REST_US_MAX))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const DEBT_US: u64 = 2_000;

    #[test]
    fn a_burst_is_bounded_however_long_was_saved() {
        let mut account = CpuAccount::new(DEBT_US);
        account.settle(1_000_000, 1_000_000_000, 0);
        assert_eq!(account.ready_at(MonotonicUs(5)), MonotonicUs(5));
        account.settle(10, 0, BURST_US + 10);
        assert!(account.ready_at(MonotonicUs(5)) > MonotonicUs(5));
    }

    #[test]
    fn debts_are_bounded() {
        let mut account = CpuAccount::new(DEBT_US);
        account.settle(1_000_000, 0, 999_999);
        account.settle(1, (DEBT_US + RESUME_US) * NS_PER_US, 0);
        assert_eq!(account.ready_at(MonotonicUs(5)), MonotonicUs(5));
    }

    #[test]
    fn waiting_work_resumes_with_a_burst() {
        let mut account = CpuAccount::new(DEBT_US);
        let now = MonotonicUs(0);
        account.settle(1_000, 100 * 1_000, 101);
        assert_eq!(account.ready_at(now), MonotonicUs(1_010), "101 us are missing, at a tenth of a core");
        account.settle(1_000, 100 * 1_000, 0);
        assert_eq!(account.ready_at(now), MonotonicUs(REST_US_MIN), "a positive balance, but no burst");
        account.settle(1_000, 100 * 1_000, 0);
        assert_eq!(account.ready_at(now), now);
        account.settle(0, 0, 150);
        assert_eq!(account.ready_at(now), now, "resumed work may spend all of it");
    }

    #[test]
    fn a_mover_wakes_for_bursts_and_not_for_each_piece() {
        let (mut account, mut now, mut spent_us, mut wakes) =
            (CpuAccount::new(DEBT_US), MonotonicUs(0), 0, 0);
        while now.0 < 1_000_000 {
            // Packs pieces of 30 us while it may.
            let mut piece_us = 0;
            while account.ready_at(now) <= now {
                now = now.plus_us(30);
                piece_us += 30;
                account.settle(30, 30 * 40, 30);
            }
            spent_us += piece_us;
            wakes += 1;
            let ready = account.ready_at(now);
            account.settle(ready.since(now), ready.since(now) * 40, 0);
            now = ready;
        }
        assert!(
            (38_000..42_000).contains(&spent_us),
            "{spent_us} us of a second at a twenty-fifth of a core"
        );
        assert!(wakes < 500, "{wakes} wakes for {} pieces", spent_us / 30);
    }

    #[test]
    fn a_long_wait_is_checked_again() {
        let mut account = CpuAccount::new(DEBT_US);
        account.settle(1_000, 0, 1_000_000);
        assert_eq!(account.ready_at(MonotonicUs(0)), MonotonicUs(REST_US_MAX));
        account.forget_debts();
        assert_eq!(account.ready_at(MonotonicUs(0)), MonotonicUs(0));
    }
}
