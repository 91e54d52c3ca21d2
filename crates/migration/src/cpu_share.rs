//! How much of a node's processor time bulk work may take while its workers are busy.
//!
//! While workers answer in time nothing is held back. Once they are late, every microsecond that the node's threads
//! run earns the mover a share of one, and bulk work waits while the mover has spent more than it earned. What is
//! saved up is a short burst at most, so that a worker that shares the mover's core waits for no longer. A small share
//! of wall time is earned in any case: on a machine that others keep busy the migration ends all the same, and it is
//! what relieves an overloaded node.
//!
//! Realises: Rocksteady 2.3.1 (pulls and replay at the lowest priority, so that client requests keep their latency).
//! There a scheduler in the same process decides; a node cannot give its threads such priorities: the system's lowest
//! ones starve on a busy machine, and with them whoever waits for a priority pull.
//!
//! Ownership: a source or target machine, on its mover.

use sidle_types::MonotonicUs;

/// For how long workers count as busy after one was late.
pub(crate) const BUSY_US: u64 = 20_000;
/// What a mover may save up and then spend at once.
pub(crate) const BURST_US: u64 = 300;
/// What it may owe: spent in quiet times, or by work that cannot wait.
pub(crate) const DEBT_US: u64 = 2_000;
/// How soon a mover that waits looks again.
pub(crate) const REST_US: u64 = 1_000;
/// What is earned of wall time in any case, in thousandths.
pub(crate) const LEAST_PERMILLE: u64 = 30;

const NS_PER_US: i64 = 1_000;

/// What a mover measures of its node.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Load {
    /// How late the slowest worker is with its loop.
    pub worker_lag_us: u64,
    /// Processor time that the mover has used so far.
    pub mover_cpu_us: u64,
    /// Processor time that the whole node has used so far.
    pub node_cpu_us: u64,
}

/// An account of processor time.
#[derive(Debug)]
pub(crate) struct CpuShare {
    lag_limit_us: u64,
    busy_until: MonotonicUs,
    measured: Option<(MonotonicUs, Load)>,
    /// What may be spent, in nanoseconds; negative: owed.
    balance_ns: i64,
}

impl CpuShare {
    /// Workers that are later than `lag_limit_us` are busy.
    pub(crate) fn new(lag_limit_us: u64) -> CpuShare {
        CpuShare { lag_limit_us, busy_until: MonotonicUs(0), measured: None, balance_ns: 0 }
    }

    /// Takes in what was measured; what was spent since the last time earns this share of itself.
    pub(crate) fn measured(&mut self, now: MonotonicUs, load: Load, permille: u64) {
        if load.worker_lag_us > self.lag_limit_us {
            self.busy_until = now.plus_us(BUSY_US);
        }
        if let Some((at, before)) = self.measured {
            let node_us = load.node_cpu_us.saturating_sub(before.node_cpu_us);
            let mover_us = load.mover_cpu_us.saturating_sub(before.mover_cpu_us);
            // Thousandths of microseconds are nanoseconds.
            let earned_ns = (node_us * permille).max(now.since(at) * LEAST_PERMILLE);
            let balance_ns = self.balance_ns + earned_ns as i64 - mover_us as i64 * NS_PER_US;
            self.balance_ns = balance_ns.clamp(-(DEBT_US as i64) * NS_PER_US, BURST_US as i64 * NS_PER_US);
        }
        self.measured = Some((now, load));
    }

    /// When bulk work may go on: now, or later.
    pub(crate) fn ready_at(&self, now: MonotonicUs) -> MonotonicUs {
        if now >= self.busy_until || self.balance_ns >= 0 { now } else { now.plus_us(REST_US) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIMIT_US: u64 = 1_000;

    /// A mover that works whenever it may, in pieces of 100 us, beside workers that use the rest of the node's
    /// `node_permille` of one core; returns its share of wall time in thousandths.
    fn share_of_wall(lag_us: u64, node_permille: u64, permille: u64) -> u64 {
        let mut share = CpuShare::new(LIMIT_US);
        let (mut mover_us, mut others_us) = (0, 0);
        let end = 2_000_000;
        let mut now = MonotonicUs(1);
        while now.0 < end {
            let others = 100 * node_permille / 1000;
            let load =
                Load { worker_lag_us: lag_us, mover_cpu_us: mover_us, node_cpu_us: mover_us + others_us };
            share.measured(now, load, permille);
            if share.ready_at(now) <= now {
                mover_us += 100;
            }
            others_us += others;
            now = now.plus_us(100);
        }
        mover_us * 1000 / end
    }

    #[test]
    fn nothing_is_held_back_while_workers_are_in_time() {
        assert!(share_of_wall(LIMIT_US, 1000, 100) > 990);
    }

    #[test]
    fn busy_workers_keep_their_share() {
        // A fifth of the whole is a quarter of what the others use.
        let share = share_of_wall(LIMIT_US + 1, 1000, 200);
        assert!((230..270).contains(&share), "{share} thousandths");
        let share = share_of_wall(LIMIT_US + 1, 400, 100);
        assert!((40..50).contains(&share), "{share} thousandths");
    }

    #[test]
    fn a_little_is_earned_where_others_take_everything() {
        let share = share_of_wall(LIMIT_US + 1, 10, 100);
        assert!((LEAST_PERMILLE - 3..LEAST_PERMILLE + 5).contains(&share), "{share} thousandths");
    }

    #[test]
    fn a_burst_is_bounded_however_long_was_saved() {
        let mut share = CpuShare::new(LIMIT_US);
        let at = |us: u64, mover_cpu_us: u64| {
            (MonotonicUs(us), Load { worker_lag_us: LIMIT_US + 1, mover_cpu_us, node_cpu_us: us })
        };
        let (now, load) = at(1, 0);
        share.measured(now, load, 500);
        let (now, load) = at(1_000_000, 0);
        share.measured(now, load, 500);
        assert_eq!(share.ready_at(now), now);
        let (now, load) = at(1_000_010, BURST_US + 10);
        share.measured(now, load, 500);
        assert_eq!(share.ready_at(now), now.plus_us(REST_US));
    }

    #[test]
    fn quiet_times_end_soon_and_leave_little_debt() {
        let mut share = CpuShare::new(LIMIT_US);
        let load = |worker_lag_us, us| Load { worker_lag_us, mover_cpu_us: us, node_cpu_us: us };
        share.measured(MonotonicUs(1), load(0, 0), 100);
        share.measured(MonotonicUs(1_000_000), load(0, 999_999), 100);
        let busy = MonotonicUs(1_000_100);
        share.measured(busy, load(LIMIT_US + 1, 999_999), 100);
        assert!(share.ready_at(busy) > busy, "what quiet times took is owed");
        let paid = busy.plus_us(DEBT_US * 1000 / LEAST_PERMILLE);
        share.measured(paid, load(LIMIT_US + 1, 999_999), 100);
        assert_eq!(share.ready_at(paid), paid, "but only so much of it");
    }
}
