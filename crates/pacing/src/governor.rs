//! When bulk work may go on: the only module that applies a migration's policy.
//!
//! Each end has its own governor, which sees its own node's load. The target's decides when the next pull is
//! sent, the source's when it is answered. The slower of the two sets the rate.
//!
//! Ownership: a source or target machine, on its mover.

use crate::cpu_share::{CpuShare, Load};
use crate::rate_limit::RateLimit;
use crate::slo::Slo;
use sidle_types::{MigrationPolicy, MonotonicUs};

/// This part of the time to a deadline is kept in reserve, in thousandths: estimates err, and finishing takes
/// time, too.
const DEADLINE_RESERVE_PERMILLE: u64 = 100;
/// The least rate of the last part of a migration with a deadline.
const DEADLINE_LEAST_BYTES_PER_S: u64 = 1 << 20;

/// Whether bulk work yields to clients' commands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pace {
    /// It takes a share of the processor while workers are behind schedule (Rocksteady, 2.3.1).
    YieldsToClients,
    /// It takes all it can: no client is served in the range until it is done.
    Full,
}

/// The node operator's limits for any migration.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// The most bytes per second that bulk pulls may bring under any policy; `None` for no limit.
    pub max_bytes_per_s: Option<u64>,
    /// Bulk work is held to a share of the processor while workers are further behind schedule than this.
    pub worker_lag_limit_us: u64,
}

/// Holds bulk work back according to a policy.
#[derive(Debug)]
pub struct Governor {
    pace: Pace,
    share: CpuShare,
    policy: Policy,
    /// The operator's limit for any migration.
    ceiling: Option<RateLimit>,
}

/// A policy with its state.
#[derive(Debug)]
enum Policy {
    Adaptive,
    Rate(RateLimit),
    Deadline { at: MonotonicUs, limit: RateLimit },
    Slo(Slo),
}

impl Governor {
    /// The governor of a migration with this policy and its protocol's pace.
    pub fn new(now: MonotonicUs, pace: Pace, policy: MigrationPolicy, limits: Limits) -> Governor {
        let mut governor = Governor {
            pace,
            share: CpuShare::new(limits.worker_lag_limit_us),
            policy: Policy::Adaptive,
            ceiling: limits.max_bytes_per_s.map(RateLimit::new),
        };
        governor.follow(now, policy);
        governor
    }

    /// Changes the policy.
    pub fn follow(&mut self, now: MonotonicUs, policy: MigrationPolicy) {
        self.policy = match policy {
            MigrationPolicy::Adaptive => Policy::Adaptive,
            MigrationPolicy::Rate { bytes_per_s } => Policy::Rate(RateLimit::new(bytes_per_s)),
            MigrationPolicy::Deadline { ms } => {
                let at = now.plus_us(ms.saturating_mul(1_000 - DEADLINE_RESERVE_PERMILLE));
                Policy::Deadline { at, limit: RateLimit::new(DEADLINE_LEAST_BYTES_PER_S) }
            }
            MigrationPolicy::SloP99 { us } => Policy::Slo(Slo::new(us)),
        };
    }

    /// No client is served until bulk work is done: from now on it takes all it can under any policy.
    pub fn hurry(&mut self) {
        (self.pace, self.policy) = (Pace::Full, Policy::Adaptive);
    }

    /// Takes a measurement of the node's load.
    pub fn measured(&mut self, now: MonotonicUs, load: Load) {
        self.share.measured(now, load);
        if let Policy::Slo(slo) = &mut self.policy {
            slo.measured(now, load);
        }
    }

    /// When the node's clients leave room, if the protocol yields to them.
    fn has_room_at(&self, now: MonotonicUs) -> MonotonicUs {
        match self.pace {
            Pace::YieldsToClients => self.share.ready_at(now),
            Pace::Full => now,
        }
    }

    /// When the source may answer the next pull: now, or later. The target decides how many bytes move.
    pub fn may_answer_at(&self, now: MonotonicUs) -> MonotonicUs {
        match &self.policy {
            Policy::Adaptive | Policy::Rate(_) => self.has_room_at(now),
            Policy::Deadline { .. } => now,
            Policy::Slo(slo) => slo.ready_at(now),
        }
    }

    /// When the target may send the next pull: now, or later. `left_bytes`: about how many are missing.
    pub fn may_pull_at(&mut self, now: MonotonicUs, left_bytes: u64) -> MonotonicUs {
        let has_room_at = self.has_room_at(now);
        let allowed_at = self.ceiling.as_mut().map_or(now, |ceiling| ceiling.ready_at(now));
        let by_policy_at = match &mut self.policy {
            Policy::Adaptive => has_room_at,
            Policy::Rate(limit) => has_room_at.max(limit.ready_at(now)),
            Policy::Deadline { at, .. } if *at <= now => now,
            Policy::Deadline { at, limit } => {
                let needed = u128::from(left_bytes) * 1_000_000 / u128::from(at.since(now).max(1));
                let needed = u64::try_from(needed).unwrap_or(u64::MAX);
                limit.change(now, needed.max(DEADLINE_LEAST_BYTES_PER_S));
                limit.ready_at(now)
            }
            Policy::Slo(slo) => slo.ready_at(now),
        };
        by_policy_at.max(allowed_at)
    }

    /// The limits that count bytes.
    fn limits(&mut self) -> impl Iterator<Item = &mut RateLimit> {
        let of_policy = match &mut self.policy {
            Policy::Rate(limit) | Policy::Deadline { limit, .. } => Some(limit),
            Policy::Adaptive | Policy::Slo(_) => None,
        };
        of_policy.into_iter().chain(&mut self.ceiling)
    }

    /// The target sent a pull for this many bytes.
    pub fn asked(&mut self, now: MonotonicUs, bytes: u64) {
        self.limits().for_each(|limit| limit.spend(now, bytes));
    }

    /// A reply of this many bytes arrived to a pull for `asked`.
    pub fn arrived(&mut self, asked: u64, bytes: u64) {
        self.limits().for_each(|limit| limit.arrived(asked, bytes));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn governor(now: MonotonicUs, policy: MigrationPolicy) -> Governor {
        let limits = Limits { max_bytes_per_s: None, worker_lag_limit_us: 500 };
        Governor::new(now, Pace::YieldsToClients, policy, limits)
    }

    const PULL: u64 = 64 << 10;
    const MIB: u64 = 1 << 20;

    /// Moves `total` bytes beside workers with this lag, each pull taking `pull_us` of the mover's time.
    /// Returns when the last byte arrived, or the time limit.
    fn moved_at(policy: MigrationPolicy, total: u64, lag_us: u64, pull_us: u64, until_us: u64) -> u64 {
        let mut now = MonotonicUs(1);
        let mut governor = governor(now, policy);
        let (mut moved, mut mover_cpu_us, mut others_us) = (0, 0, 0);
        while moved < total && now.0 < until_us {
            let load = Load {
                worker_lag_us: lag_us,
                mover_cpu_us,
                node_cpu_us: mover_cpu_us + others_us,
                spare_permille: 0,
            };
            governor.measured(now, load);
            let ready = governor.may_pull_at(now, total - moved);
            if ready > now {
                others_us += 100;
                now = now.plus_us(100);
                continue;
            }
            governor.asked(now, PULL);
            now = now.plus_us(pull_us);
            mover_cpu_us += pull_us;
            governor.arrived(PULL, PULL);
            moved += PULL;
        }
        now.0
    }

    #[test]
    fn a_deadline_is_met_and_used_under_any_load() {
        let deadline = MigrationPolicy::Deadline { ms: 2_000 };
        for lag_us in [0, 10_000] {
            let us = moved_at(deadline, 200 * MIB, lag_us, 200, 10_000_000);
            assert!((1_600_000..2_000_000).contains(&us), "{us} us with a lag of {lag_us} us");
        }
    }

    #[test]
    fn an_impossible_deadline_runs_at_full_speed() {
        // 3,200 pulls of 1 ms each.
        let us = moved_at(MigrationPolicy::Deadline { ms: 500 }, 200 * MIB, 10_000, 1_000, 10_000_000);
        assert!((3_200_000..3_300_000).contains(&us), "{us} us");
    }

    #[test]
    fn a_rate_is_a_ceiling_and_busy_workers_go_first() {
        let rate = MigrationPolicy::Rate { bytes_per_s: 50 * MIB };
        let idle = moved_at(rate, 100 * MIB, 0, 100, 20_000_000);
        assert!((1_900_000..2_200_000).contains(&idle), "{idle} us");
        let busy = moved_at(rate, 100 * MIB, 10_000, 2_000, 60_000_000);
        assert!(busy > 2 * idle, "{busy} us beside busy workers, {idle} us beside idle ones");
    }

    #[test]
    fn an_objective_that_is_broken_slows_down_and_one_that_is_kept_does_not() {
        let slo = MigrationPolicy::SloP99 { us: 1_000 };
        let kept = moved_at(slo, 200 * MIB, 300, 200, 60_000_000);
        // 0.64 s of work at a hundredth of a core.
        let broken = moved_at(slo, 200 * MIB, 3_000, 200, 100_000_000);
        assert!(broken > 10 * kept, "{broken} us with the objective broken, {kept} us with it kept");
        assert!((60_000_000..70_000_000).contains(&broken), "it makes progress: {broken} us");
    }

    #[test]
    fn a_policy_may_change_while_it_runs() {
        let mut governor = governor(MonotonicUs(1), MigrationPolicy::Rate { bytes_per_s: 1 });
        governor.asked(MonotonicUs(1), PULL);
        assert!(governor.may_pull_at(MonotonicUs(2), PULL) > MonotonicUs(1_000_000));
        governor.follow(MonotonicUs(3), MigrationPolicy::Deadline { ms: 1 });
        assert_eq!(governor.may_pull_at(MonotonicUs(2_000), PULL), MonotonicUs(2_000));
    }
}
