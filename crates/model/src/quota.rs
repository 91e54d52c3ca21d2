//! Quotas of groups of threads: Linux's CFS bandwidth control, as of 6.18.
//!
//! A group's pool is filled to its budget at each period's start; nothing is carried over. Threads do not
//! spend from the pool: each core has its own allowance, and refills it from the pool when it is found used
//! up. So a core may hoard what another one lacks: it keeps what it has left, period after period. It returns
//! only what exceeds a millisecond, and only when the group's last thread leaves it.
//!
//! Use is known only when it is accounted (see [`processors`](crate::processors)). A core that then owes more
//! than the pool has is *stopped* for the group. Each period begins with payments to the stopped cores, in
//! the order they were stopped, of their debts and 1 ns more; a paid core resumes. Debts belong to a core:
//! one that owes three budgets is stopped for three periods. The group runs on elsewhere, if any budget is
//! left.
//!
//! Left out: bursts, groups within groups, and the sleep of an unused group's period timer, which has no
//! effect since it restarts in phase.

use std::collections::VecDeque;

/// A core's allowance is refilled up to this, if the pool has it: `kernel.sched_cfs_bandwidth_slice_us`.
const SLICE_NS: i64 = 5_000_000;
/// What a core keeps when the group's last thread leaves it.
const KEPT_NS: i64 = 1_000_000;
/// Stopped cores are paid from returned time after this delay, unless the next period is near.
const SLACK_NS: u64 = 5_000_000;
const NEAR_NS: u64 = 2_000_000;

/// A processor share for all threads of a group together.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Quota {
    /// Processor time in each period.
    pub(crate) budget_ns: u64,
    /// The period.
    pub(crate) period_ns: u64,
    /// When the first period ends. The kernel draws it, so that not all groups' periods begin at once.
    pub(crate) first_ns: u64,
}

/// A core's part of a group's budget.
#[derive(Clone, Copy, Debug, Default)]
struct Allowance {
    left_ns: i64,
    is_stopped: bool,
}

/// The budget of one group.
#[derive(Debug)]
pub(crate) struct Bandwidth {
    quota: Quota,
    pool_ns: i64,
    next_period_ns: u64,
    /// When stopped cores are paid from returned time.
    slack_ns: Option<u64>,
    cores: Vec<Allowance>,
    /// In the order they were stopped.
    stopped: VecDeque<usize>,
}

impl Bandwidth {
    /// A full pool, for this many cores with empty allowances.
    pub(crate) fn new(quota: Quota, cores: usize) -> Bandwidth {
        Bandwidth {
            quota,
            pool_ns: quota.budget_ns as i64,
            next_period_ns: quota.first_ns,
            slack_ns: None,
            cores: vec![Allowance::default(); cores],
            stopped: VecDeque::new(),
        }
    }

    /// Starts the periods that are due.
    pub(crate) fn advance(&mut self, now_ns: u64) {
        loop {
            let slack_ns = self.slack_ns.unwrap_or(u64::MAX);
            if self.next_period_ns.min(slack_ns) > now_ns {
                return;
            }
            if slack_ns < self.next_period_ns {
                self.slack_ns = None;
                if self.next_period_ns - slack_ns >= NEAR_NS && self.pool_ns > SLICE_NS {
                    self.pay();
                }
                continue;
            }
            self.pool_ns = self.quota.budget_ns as i64;
            self.pay();
            let passed = 1 + if self.stopped.is_empty() {
                (now_ns - self.next_period_ns) / self.quota.period_ns
            } else {
                0
            };
            self.next_period_ns += passed * self.quota.period_ns;
        }
    }

    /// Pays the debts of stopped cores while the pool lasts.
    fn pay(&mut self) {
        while let Some(&core) = self.stopped.front()
            && self.pool_ns > 0
        {
            let allowance = &mut self.cores[core];
            let paid_ns = (1 - allowance.left_ns).min(self.pool_ns);
            self.pool_ns -= paid_ns;
            allowance.left_ns += paid_ns;
            if allowance.left_ns <= 0 {
                return;
            }
            allowance.is_stopped = false;
            self.stopped.pop_front();
        }
    }

    /// Accounts the group's use of a core since the last time; returns whether it may continue.
    pub(crate) fn spend(&mut self, core: usize, used_ns: u64) -> bool {
        let allowance = &mut self.cores[core];
        allowance.left_ns -= used_ns as i64;
        if allowance.left_ns <= 0 && !allowance.is_stopped {
            let taken_ns = (SLICE_NS - allowance.left_ns).min(self.pool_ns);
            self.pool_ns -= taken_ns;
            allowance.left_ns += taken_ns;
        }
        allowance.left_ns > 0
    }

    /// Stops a core without allowance; returns whether the group is throttled on it.
    pub(crate) fn stop(&mut self, core: usize) -> bool {
        let allowance = &mut self.cores[core];
        if allowance.left_ns <= 0 && !allowance.is_stopped {
            allowance.is_stopped = true;
            self.stopped.push_back(core);
        }
        allowance.is_stopped
    }

    /// The group's last thread has left a core.
    pub(crate) fn leave(&mut self, core: usize, now_ns: u64) {
        let slack_ns = self.cores[core].left_ns - KEPT_NS;
        if slack_ns <= 0 {
            return;
        }
        self.cores[core].left_ns = KEPT_NS;
        self.pool_ns += slack_ns;
        let is_worth_it = self.pool_ns > SLICE_NS && !self.stopped.is_empty();
        if is_worth_it && self.slack_ns.is_none() && self.next_period_ns - now_ns >= SLACK_NS + NEAR_NS {
            self.slack_ns = Some(now_ns + SLACK_NS);
        }
    }

    /// Whether the group is throttled on a core.
    pub(crate) fn is_stopped(&self, core: usize) -> bool {
        self.cores[core].is_stopped
    }

    /// When a stopped core may resume.
    pub(crate) fn next_ns(&self) -> Option<u64> {
        let slack_ns = self.slack_ns.unwrap_or(u64::MAX);
        (!self.stopped.is_empty()).then(|| self.next_period_ns.min(slack_ns))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;

    fn two_cores(budget_ms: u64, period_ms: u64) -> Bandwidth {
        let quota = Quota { budget_ns: budget_ms * MS, period_ns: period_ms * MS, first_ns: period_ms * MS };
        Bandwidth::new(quota, 2)
    }

    #[test]
    fn nothing_of_the_pool_is_carried_over() {
        let mut bandwidth = two_cores(2, 10);
        bandwidth.advance(95 * MS);
        assert_eq!((bandwidth.pool_ns, bandwidth.next_period_ns), (2 * MS as i64, 100 * MS));
    }

    #[test]
    fn a_core_hoards_what_another_lacks_and_keeps_it_over_periods() {
        let mut bandwidth = two_cores(2, 10);
        assert!(bandwidth.spend(0, 1), "it took all of the pool");
        bandwidth.leave(0, 1);
        bandwidth.pool_ns = 0;
        assert!(!bandwidth.spend(1, 1) && bandwidth.stop(1));
        bandwidth.advance(10 * MS);
        assert!(!bandwidth.is_stopped(1));
        assert!(bandwidth.spend(1, 2 * MS - 10) && bandwidth.pool_ns == 0);
        assert!(bandwidth.spend(0, MS - 1), "a millisecond of it is from the last period");
        assert!(!bandwidth.spend(0, 1));
    }

    #[test]
    fn a_core_takes_a_slice_at_most() {
        let mut bandwidth = two_cores(20, 100);
        assert!(bandwidth.spend(0, 3 * MS));
        assert_eq!((bandwidth.cores[0].left_ns, bandwidth.pool_ns), (SLICE_NS, 12 * MS as i64));
    }

    #[test]
    fn cores_are_paid_in_the_order_in_which_they_were_stopped() {
        let mut bandwidth = two_cores(2, 10);
        assert!(!bandwidth.spend(1, 5 * MS) && bandwidth.stop(1), "it owes 3 ms");
        assert!(!bandwidth.spend(0, MS) && bandwidth.stop(0), "it owes 1 ms");
        bandwidth.advance(10 * MS);
        assert_eq!([0, 1].map(|core| bandwidth.cores[core].left_ns), [-1, -1].map(|ms| ms * MS as i64));
        assert!(bandwidth.is_stopped(0) && bandwidth.is_stopped(1));
        assert_eq!(bandwidth.next_ns(), Some(20 * MS));
        bandwidth.advance(20 * MS);
        assert!(!bandwidth.is_stopped(1) && bandwidth.is_stopped(0), "2 ns are missing");
        assert_eq!([0, 1].map(|core| bandwidth.cores[core].left_ns), [-1, 1]);
        bandwidth.advance(30 * MS);
        assert_eq!((bandwidth.cores[0].left_ns, bandwidth.pool_ns), (1, 2 * MS as i64 - 2));
        assert_eq!(bandwidth.next_ns(), None);
    }

    /// Core 1 is stopped, core 0 has most of a slice, and the pool has what was returned elsewhere.
    fn one_stopped() -> Bandwidth {
        let mut bandwidth = two_cores(10, 100);
        assert!(bandwidth.spend(0, 1) && bandwidth.spend(1, 1));
        assert!(!bandwidth.spend(1, 5 * MS) && bandwidth.stop(1));
        bandwidth.pool_ns += 2 * MS as i64;
        bandwidth
    }

    #[test]
    fn returned_time_is_paid_out_after_a_delay() {
        let mut bandwidth = one_stopped();
        bandwidth.leave(0, 20 * MS);
        assert_eq!(bandwidth.cores[0].left_ns, KEPT_NS);
        assert_eq!(bandwidth.next_ns(), Some(25 * MS));
        bandwidth.advance(25 * MS);
        assert!(!bandwidth.is_stopped(1));
        assert_eq!(bandwidth.next_ns(), None);
    }

    #[test]
    fn time_returned_shortly_before_a_period_waits_for_it() {
        let mut bandwidth = one_stopped();
        bandwidth.leave(0, 94 * MS);
        assert_eq!(bandwidth.next_ns(), Some(100 * MS));
    }
}
