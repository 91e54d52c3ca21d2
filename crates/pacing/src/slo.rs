//! Keeps a latency objective: bulk work takes the processor share that leaves the workers on time.
//!
//! The node's probes sample how long a request that arrives now waits for its worker. A probe sees what a
//! request sees: if one sample in a hundred is above the objective, so is the 99th percentile. Then the share
//! falls by a factor; otherwise it grows by a step (additive increase, multiplicative decrease). So the
//! migration finds the fastest pace that keeps the objective, and follows the load.
//!
//! Ownership: a governor.

use crate::cpu_account::CpuAccount;
use crate::cpu_share::Load;
use sidle_types::MonotonicUs;

/// How often the share is adjusted.
const WINDOW_US: u64 = 100_000;
/// Probes closer together than this are one and the same.
const SAMPLE_US: u64 = 500;
/// One in this many samples of a window may be above the objective.
const ABOVE_ONE_IN: u64 = 100;
/// The initial share of wall time, in thousandths.
const FIRST_PERMILLE: u64 = 100;
/// The least: a migration always ends.
const LEAST_PERMILLE: u64 = 10;
/// The most: all of a core.
const MOST_PERMILLE: u64 = 1_000;
/// How much the share grows in a window that kept the objective, in thousandths of wall time.
const STEP_PERMILLE: u64 = 20;
/// The most debt, in microseconds of processor time.
const DEBT_US: u64 = 5_000;

/// Determines how much processor time the objective leaves.
#[derive(Debug)]
pub(crate) struct Slo {
    objective_us: u64,
    permille: u64,
    window_since: MonotonicUs,
    sampled_at: MonotonicUs,
    samples: u64,
    above: u64,
    measured: Option<(MonotonicUs, Load)>,
    account: CpuAccount,
}

impl Slo {
    pub(crate) fn new(objective_us: u64) -> Slo {
        Slo {
            objective_us,
            permille: FIRST_PERMILLE,
            window_since: MonotonicUs(0),
            sampled_at: MonotonicUs(0),
            samples: 0,
            above: 0,
            measured: None,
            account: CpuAccount::new(DEBT_US),
        }
    }

    /// Takes a measurement.
    pub(crate) fn measured(&mut self, now: MonotonicUs, load: Load) {
        if now.since(self.sampled_at) >= SAMPLE_US {
            self.sampled_at = now;
            self.samples += 1;
            self.above += u64::from(load.worker_lag_us > self.objective_us);
        }
        if now.since(self.window_since) >= WINDOW_US {
            self.judge(now);
        }
        let Some((at, before)) = self.measured.replace((now, load)) else { return };
        let used_us = load.mover_cpu_us.saturating_sub(before.mover_cpu_us);
        let wall_us = now.since(at);
        // Microseconds times thousandths are nanoseconds.
        self.account.settle(wall_us, wall_us * self.permille, used_us);
    }

    fn judge(&mut self, now: MonotonicUs) {
        self.permille = if self.above * ABOVE_ONE_IN > self.samples {
            (self.permille * 7 / 10).max(LEAST_PERMILLE)
        } else {
            (self.permille + STEP_PERMILLE).min(MOST_PERMILLE)
        };
        (self.window_since, self.samples, self.above) = (now, 0, 0);
    }

    /// When bulk work may go on: now, or later.
    pub(crate) fn ready_at(&self, now: MonotonicUs) -> MonotonicUs {
        self.account.ready_at(now)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Simulates a node whose lag grows with the mover's use: 100 us + 20 us per hundredth of a core. Returns
    /// the mover's share in thousandths and how often the objective was broken, over the second half.
    fn settles_at(objective_us: u64) -> (u64, f64) {
        let mut slo = Slo::new(objective_us);
        let (mut now, mut mover_cpu_us, mut counted, mut above, mut samples) = (MonotonicUs(1), 0, 0, 0, 0);
        let mut recent = 0.0_f64;
        let end = 20_000_000;
        while now.0 < end {
            let lag_us = 100.0 + recent * 2_000.0;
            let load =
                Load { worker_lag_us: lag_us as u64, mover_cpu_us, node_cpu_us: now.0, spare_permille: 0 };
            slo.measured(now, load);
            let works = slo.ready_at(now) <= now;
            recent = recent * 0.98 + if works { 0.02 } else { 0.0 };
            mover_cpu_us += if works { 200 } else { 0 };
            now = now.plus_us(200);
            if now.0 > end / 2 {
                samples += 1;
                counted += u64::from(works);
                above += u64::from(lag_us as u64 > objective_us);
            }
        }
        (counted * 1_000 / samples, above as f64 / samples as f64)
    }

    #[test]
    fn the_share_follows_what_the_objective_leaves_room_for() {
        let (tight, _) = settles_at(300);
        let (loose, _) = settles_at(1_200);
        assert!((20..180).contains(&tight), "{tight} thousandths");
        assert!((350..700).contains(&loose), "{loose} thousandths");
    }

    #[test]
    fn the_objective_is_kept_most_of_the_time() {
        let (_, broken) = settles_at(1_200);
        assert!(broken < 0.15, "broken {broken:.2} of the time");
    }
}
