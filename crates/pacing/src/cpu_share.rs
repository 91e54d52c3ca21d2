//! How much of a node's processor time bulk work may take.
//!
//! - While the workers are idle, or on time while the mover has a core to itself: all that the mover can use.
//! - While they serve on time: a part of one core. A worker on the mover's core has to wait for the mover's
//!   time slice.
//! - While they are behind schedule: a share of what the node's threads use, and in any case a small part of
//!   wall time. So a migration ends even on a machine kept busy by others: it is what relieves an overloaded
//!   node.
//!
//! Realises: Rocksteady 2.3.1 (pulls and replay at the lowest priority, so that client requests keep their
//! latency). There a scheduler in the same process decides. A node cannot give its threads such priorities:
//! the system's lowest ones starve on a busy machine, and with them clients that wait for a priority pull.
//!
//! Ownership: a governor.

use crate::cpu_account::{CpuAccount, NS_PER_US};
use sidle_types::MonotonicUs;

/// How long workers count as busy after one was behind schedule.
pub(crate) const BUSY_US: u64 = 20_000;
/// The most debt: spent in quiet times, or by work that cannot wait.
pub(crate) const DEBT_US: u64 = 2_000;
/// Earnings while workers are behind schedule, in thousandths of the processor time of the node's threads. It
/// determines how long a migration takes on a busy machine, and hardly its total cost: a slow one costs both
/// ends longer.
pub(crate) const BEHIND_PERMILLE: u64 = 400;
/// The least earnings, in thousandths of wall time.
pub(crate) const LEAST_PERMILLE: u64 = 30;
/// Earnings while workers serve on time, in thousandths of wall time.
pub(crate) const SERVING_PERMILLE: u64 = 180;
/// Workers serve when all threads but the mover use more than this of a core, in thousandths.
pub(crate) const IDLE_PERMILLE: u64 = 50;
/// The mover has a core to itself when more than this of a core is idle, in thousandths. More than one, so
/// that a thread that wakes on another core finds one free.
pub(crate) const SPARE_PERMILLE: u64 = 1_250;
/// The window for deciding whether workers serve.
pub(crate) const IDLE_WINDOW_US: u64 = 10_000;

/// How often the workers are probed during a migration.
const PROBE_US: u64 = 2_000;
/// The interval while they are further behind than that: the state lasts for some time, and probes cost time
/// that they and the mover lack.
const BEHIND_PROBE_US: u64 = 8_000;
const _: () = assert!(2 * BEHIND_PROBE_US < BUSY_US, "busy workers count as busy until the next probe");

/// How long after a probe that measured this lag the next one is due.
pub const fn probe_after_us(worker_lag_us: u64) -> u64 {
    if worker_lag_us > PROBE_US { BEHIND_PROBE_US } else { PROBE_US }
}

/// A mover's measurements of its node.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Load {
    /// How far the slowest worker's loop is behind schedule.
    pub worker_lag_us: u64,
    /// Processor time that the mover has used so far.
    pub mover_cpu_us: u64,
    /// Processor time that the whole node has used so far.
    pub node_cpu_us: u64,
    /// Cores that the node may use and only the mover uses, in thousandths of a core; 0 if unknown.
    pub spare_permille: u64,
}

/// Determines how much of its node's processor time a mover earns.
#[derive(Debug)]
pub(crate) struct CpuShare {
    lag_limit_us: u64,
    busy_until: MonotonicUs,
    is_serving: bool,
    /// The last measurement.
    measured: Option<(MonotonicUs, Load)>,
    /// Start of the window for deciding whether workers serve.
    window: (MonotonicUs, Load),
    account: CpuAccount,
}

impl CpuShare {
    /// Workers that are further behind than `lag_limit_us` are busy.
    pub(crate) fn new(lag_limit_us: u64) -> CpuShare {
        CpuShare {
            lag_limit_us,
            busy_until: MonotonicUs(0),
            // Until measured.
            is_serving: true,
            measured: None,
            window: (MonotonicUs(0), Load::default()),
            account: CpuAccount::new(DEBT_US),
        }
    }

    /// Takes a measurement.
    pub(crate) fn measured(&mut self, now: MonotonicUs, load: Load) {
        if load.worker_lag_us > self.lag_limit_us {
            self.busy_until = now.plus_us(BUSY_US);
        }
        let Some((at, before)) = self.measured.replace((now, load)) else {
            self.window = (now, load);
            return;
        };
        self.judge(now, load);
        let (node_us, mover_us) = load.since(before);
        let wall_us = now.since(at);
        // Microseconds times thousandths are nanoseconds.
        let earned_ns = if now < self.busy_until {
            (node_us * BEHIND_PERMILLE).max(wall_us * LEAST_PERMILLE)
        } else if self.is_serving && load.spare_permille < SPARE_PERMILLE {
            wall_us * SERVING_PERMILLE
        } else {
            // Idle cores cost nothing, and past debts no longer harm anybody.
            self.account.forget_debts();
            mover_us * NS_PER_US
        };
        self.account.settle(wall_us, earned_ns, mover_us);
    }

    fn judge(&mut self, now: MonotonicUs, load: Load) {
        let (since, before) = self.window;
        let wall_us = now.since(since);
        if wall_us < IDLE_WINDOW_US {
            return;
        }
        let (node_us, mover_us) = load.since(before);
        self.is_serving = node_us.saturating_sub(mover_us) * 1000 > wall_us * IDLE_PERMILLE;
        self.window = (now, load);
    }

    /// When bulk work may go on: now, or later.
    pub(crate) fn ready_at(&self, now: MonotonicUs) -> MonotonicUs {
        self.account.ready_at(now)
    }
}

impl Load {
    /// What the whole node and its mover have used since an earlier measurement.
    fn since(self, before: Load) -> (u64, u64) {
        let node_us = self.node_cpu_us.saturating_sub(before.node_cpu_us);
        (node_us, self.mover_cpu_us.saturating_sub(before.mover_cpu_us))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cpu_account::RESUME_US;

    const LIMIT_US: u64 = 1_000;

    /// Runs a mover that works whenever it may, in pieces of 100 us. The workers use the rest of the node's
    /// `node_permille` of one core. Returns the mover's share of wall time in thousandths.
    fn share_of_wall(lag_us: u64, node_permille: u64) -> u64 {
        share_of_wall_beside(lag_us, node_permille, 0)
    }

    /// The same with this much of the machine's cores spare.
    fn share_of_wall_beside(lag_us: u64, node_permille: u64, spare_permille: u64) -> u64 {
        let mut share = CpuShare::new(LIMIT_US);
        let (mut mover_us, mut others_us) = (0, 0);
        let end = 2_000_000;
        let mut now = MonotonicUs(1);
        while now.0 < end {
            let others = 100 * node_permille / 1000;
            let node_cpu_us = mover_us + others_us;
            let load = Load { worker_lag_us: lag_us, mover_cpu_us: mover_us, node_cpu_us, spare_permille };
            share.measured(now, load);
            if share.ready_at(now) <= now {
                mover_us += 100;
            }
            others_us += others;
            now = now.plus_us(100);
        }
        mover_us * 1000 / end
    }

    /// The share of the whole where the others use this much, in thousandths of a core.
    fn behind_share_beside(others_permille: u64) -> u64 {
        others_permille * BEHIND_PERMILLE / (1000 - BEHIND_PERMILLE)
    }

    #[test]
    fn nothing_is_held_back_while_workers_are_idle() {
        assert!(share_of_wall(0, 0) > 980);
        assert!(share_of_wall(0, IDLE_PERMILLE - 10) > 980);
    }

    #[test]
    fn workers_on_time_keep_most_of_their_core() {
        let share = share_of_wall(LIMIT_US, 200);
        assert!(share.abs_diff(SERVING_PERMILLE) < 20, "{share} thousandths");
    }

    #[test]
    fn a_mover_with_a_core_to_itself_is_held_back_only_by_lag() {
        assert!(share_of_wall_beside(LIMIT_US, 1000, SPARE_PERMILLE) > 980);
        let share = share_of_wall_beside(LIMIT_US, 1000, SPARE_PERMILLE - 1);
        assert!(share.abs_diff(SERVING_PERMILLE) < 20, "{share} thousandths");
        let share = share_of_wall_beside(LIMIT_US + 1, 1000, 8_000);
        assert!(share.abs_diff(behind_share_beside(1000)) < 20, "{share} thousandths: the lag decides");
    }

    #[test]
    fn debts_are_forgotten_when_a_core_becomes_free() {
        let mut share = CpuShare::new(LIMIT_US);
        let load = |mover_cpu_us, spare_permille| Load {
            mover_cpu_us,
            node_cpu_us: 1_000_000 + 2 * mover_cpu_us,
            spare_permille,
            ..Load::default()
        };
        share.measured(MonotonicUs(1), load(0, 0));
        let now = MonotonicUs(1_001);
        share.measured(now, load(1_000, 0));
        assert!(share.ready_at(now) > now, "it used all of a core where workers serve");
        let now = MonotonicUs(2_001);
        share.measured(now, load(1_000, SPARE_PERMILLE));
        assert_eq!(share.ready_at(now), now, "the debt is forgotten: a spare core earns nothing to pay it");
    }

    #[test]
    fn workers_behind_schedule_are_probed_less_often() {
        assert_eq!(probe_after_us(LIMIT_US), PROBE_US);
        assert!(probe_after_us(PROBE_US + 1) > probe_after_us(PROBE_US));
    }

    #[test]
    fn busy_workers_keep_their_share() {
        for others in [1000, 400] {
            let share = share_of_wall(LIMIT_US + 1, others);
            assert!(share.abs_diff(behind_share_beside(others)) < 20, "{share} thousandths beside {others}");
        }
    }

    #[test]
    fn a_little_is_earned_on_a_saturated_machine() {
        let share = share_of_wall(LIMIT_US + 1, 10);
        // Its own use counts as the node's, and earns a share again.
        let most = LEAST_PERMILLE * 1000 / (1000 - BEHIND_PERMILLE);
        assert!((LEAST_PERMILLE..=most).contains(&share), "{share} thousandths");
    }

    #[test]
    fn urgent_work_is_owed_within_the_debt_limit() {
        let mut share = CpuShare::new(LIMIT_US);
        let load = |us| Load {
            worker_lag_us: LIMIT_US + 1,
            mover_cpu_us: us,
            node_cpu_us: 2 * us,
            spare_permille: 0,
        };
        share.measured(MonotonicUs(1), load(0));
        let start = MonotonicUs(1_000_000);
        share.measured(start, load(999_999));
        assert!(share.ready_at(start) > start);
        let paid = start.plus_us((DEBT_US + RESUME_US + 1) * 1000 / LEAST_PERMILLE);
        share.measured(paid, load(999_999));
        assert_eq!(share.ready_at(paid), paid);
    }
}
