//! How much of a node's processor time bulk work may take.
//!
//! - While the workers have nothing to do, or are in time and the mover has a core to itself, all that the
//!   mover can use.
//! - While they serve, and in time, a part of one core: what the system would let a mover run in one go a
//!   worker on the same core would have to wait for.
//! - While they are late, a share of what the node's threads use, and a small part of wall time in any case:
//!   on a machine that others keep busy the migration ends all the same, and it is what relieves an
//!   overloaded node.
//!
//! Realises: Rocksteady 2.3.1 (pulls and replay at the lowest priority, so that client requests keep their
//! latency). There a scheduler in the same process decides; a node cannot give its threads such priorities:
//! the system's lowest ones starve on a busy machine, and with them whoever waits for a priority pull.
//!
//! Ownership: a governor.

use crate::cpu_account::{CpuAccount, NS_PER_US};
use sidle_types::MonotonicUs;

/// For how long workers count as busy after one was late.
pub(crate) const BUSY_US: u64 = 20_000;
/// What it may owe: spent in quiet times, or by work that cannot wait.
pub(crate) const DEBT_US: u64 = 2_000;
/// What is earned of the processor time that the node's threads use while workers are late, in thousandths.
/// It says how long a migration lasts on a busy machine, and hardly what it costs in sum: a slow one asks
/// both ends for longer.
pub(crate) const LATE_PERMILLE: u64 = 400;
/// What is earned of wall time in any case, in thousandths.
pub(crate) const LEAST_PERMILLE: u64 = 30;
/// What is earned of wall time while workers serve in time, in thousandths.
pub(crate) const SERVING_PERMILLE: u64 = 180;
/// Workers serve when all threads but the mover use more than this of a core, in thousandths.
pub(crate) const IDLE_PERMILLE: u64 = 50;
/// The mover has a core to itself when, beside what all others use, more than this of a core is idle, in
/// thousandths. More than one: who wakes up on another core must find one.
pub(crate) const SPARE_PERMILLE: u64 = 1_250;
/// Over how long a time it is judged whether they do.
pub(crate) const IDLE_WINDOW_US: u64 = 10_000;

/// How often the workers are asked for a sign of life while something moves.
const PROBE_US: u64 = 2_000;
/// The same while they are later than that: it lasts for some time then, and asking costs them and the mover
/// what they lack.
const LATE_PROBE_US: u64 = 8_000;
const _: () =
    assert!(2 * LATE_PROBE_US < BUSY_US, "late workers count as busy until they have been asked again");

/// How long after the workers gave their last sign of life, so late, they are to be asked for the next.
pub const fn probe_after_us(worker_lag_us: u64) -> u64 {
    if worker_lag_us > PROBE_US { LATE_PROBE_US } else { PROBE_US }
}

/// What a mover measures of its node.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Load {
    /// How late the slowest worker is with its loop.
    pub worker_lag_us: u64,
    /// Processor time that the mover has used so far.
    pub mover_cpu_us: u64,
    /// Processor time that the whole node has used so far.
    pub node_cpu_us: u64,
    /// What of the cores that the node may use nobody but the mover uses, in thousandths of a core, as far as
    /// that is known.
    pub spare_permille: u64,
}

/// Says how much of its node's processor time a mover earns.
#[derive(Debug)]
pub(crate) struct CpuShare {
    lag_limit_us: u64,
    busy_until: MonotonicUs,
    is_serving: bool,
    /// The last measurement.
    measured: Option<(MonotonicUs, Load)>,
    /// The one from which on it is judged whether workers serve.
    window: (MonotonicUs, Load),
    account: CpuAccount,
}

impl CpuShare {
    /// Workers that are later than `lag_limit_us` are busy.
    pub(crate) fn new(lag_limit_us: u64) -> CpuShare {
        CpuShare {
            lag_limit_us,
            busy_until: MonotonicUs(0),
            // Until it is known.
            is_serving: true,
            measured: None,
            window: (MonotonicUs(0), Load::default()),
            account: CpuAccount::new(DEBT_US),
        }
    }

    /// Takes in what was measured.
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
        // Thousandths of microseconds are nanoseconds.
        let earned_ns = if now < self.busy_until {
            (node_us * LATE_PERMILLE).max(wall_us * LEAST_PERMILLE)
        } else if self.is_serving && load.spare_permille < SPARE_PERMILLE {
            wall_us * SERVING_PERMILLE
        } else {
            // What nobody else wants costs nothing, nor does what was owed matter to anybody now.
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

    /// A mover that works whenever it may, in pieces of 100 us, beside workers that use the rest of the
    /// node's `node_permille` of one core; returns its share of wall time in thousandths.
    fn share_of_wall(lag_us: u64, node_permille: u64) -> u64 {
        share_of_wall_beside(lag_us, node_permille, 0)
    }

    /// The same, where so much of the machine's cores is left to it.
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

    /// What a share of the whole is where the others use so much, in thousandths of a core.
    fn late_share_beside(others_permille: u64) -> u64 {
        others_permille * LATE_PERMILLE / (1000 - LATE_PERMILLE)
    }

    #[test]
    fn nothing_is_held_back_while_workers_are_idle() {
        assert!(share_of_wall(0, 0) > 980);
        assert!(share_of_wall(0, IDLE_PERMILLE - 10) > 980);
    }

    #[test]
    fn workers_that_serve_in_time_keep_most_of_their_core() {
        let share = share_of_wall(LIMIT_US, 200);
        assert!(share.abs_diff(SERVING_PERMILLE) < 20, "{share} thousandths");
    }

    #[test]
    fn a_mover_with_a_core_to_itself_is_not_held_back_until_workers_are_late() {
        assert!(share_of_wall_beside(LIMIT_US, 1000, SPARE_PERMILLE) > 980);
        let share = share_of_wall_beside(LIMIT_US, 1000, SPARE_PERMILLE - 1);
        assert!(share.abs_diff(SERVING_PERMILLE) < 20, "{share} thousandths");
        let share = share_of_wall_beside(LIMIT_US + 1, 1000, 8_000);
        assert!(share.abs_diff(late_share_beside(1000)) < 20, "{share} thousandths: the lag decides");
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
        assert_eq!(share.ready_at(now), now, "nobody wants it back, and nothing would ever be earned");
    }

    #[test]
    fn late_workers_are_asked_less_often() {
        assert_eq!(probe_after_us(LIMIT_US), PROBE_US);
        assert!(probe_after_us(PROBE_US + 1) > probe_after_us(PROBE_US));
    }

    #[test]
    fn busy_workers_keep_their_share() {
        for others in [1000, 400] {
            let share = share_of_wall(LIMIT_US + 1, others);
            assert!(share.abs_diff(late_share_beside(others)) < 20, "{share} thousandths beside {others}");
        }
    }

    #[test]
    fn a_little_is_earned_where_others_take_everything() {
        let share = share_of_wall(LIMIT_US + 1, 10);
        // What it then uses is use of the node's, and earns a share again.
        let most = LEAST_PERMILLE * 1000 / (1000 - LATE_PERMILLE);
        assert!((LEAST_PERMILLE..=most).contains(&share), "{share} thousandths");
    }

    #[test]
    fn what_cannot_wait_is_owed_but_only_so_much_of_it() {
        let mut share = CpuShare::new(LIMIT_US);
        let load = |us| Load {
            worker_lag_us: LIMIT_US + 1,
            mover_cpu_us: us,
            node_cpu_us: 2 * us,
            spare_permille: 0,
        };
        share.measured(MonotonicUs(1), load(0));
        let late = MonotonicUs(1_000_000);
        share.measured(late, load(999_999));
        assert!(share.ready_at(late) > late);
        let paid = late.plus_us((DEBT_US + RESUME_US + 1) * 1000 / LEAST_PERMILLE);
        share.measured(paid, load(999_999));
        assert_eq!(share.ready_at(paid), paid);
    }
}
