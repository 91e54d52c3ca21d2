//! How much of the machine's cores is left to a mover.
//!
//! Ownership: a mover, which reads the clocks.

/// The measuring window: the kernel counts idle time in hundredths of a second, for all cores together.
pub const SPARE_WINDOW_US: u64 = 50_000;
/// A longer interval was a pause without a migration: its idle time is no guide to the present.
pub const SPARE_REST_US: u64 = 4 * SPARE_WINDOW_US;

/// Processor time so far, in microseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CpuUsed {
    /// When it was measured.
    pub at_us: u64,
    /// Idle time of all cores of the machine.
    pub idle_us: u64,
    /// The mover's.
    pub mover_us: u64,
    /// The whole node's.
    pub node_us: u64,
}

/// How much of the machine's cores is left to a mover, in thousandths of a core; 0 if unknown.
#[derive(Debug, Default)]
pub struct SpareCores {
    last: Option<CpuUsed>,
    permille: u64,
}

impl SpareCores {
    /// Whether a measurement is due: a window is over.
    pub fn is_due(&self, now_us: u64) -> bool {
        self.last.is_none_or(|last| now_us.saturating_sub(last.at_us) >= SPARE_WINDOW_US)
    }

    /// Takes a measurement, if there is one, and the number of cores that the node may use.
    pub fn measured(&mut self, now: Option<CpuUsed>, cores: u64) {
        self.permille = match (self.last, now) {
            (Some(last), Some(now)) => spare_permille(last, now, cores),
            _ => 0,
        };
        self.last = now;
    }

    /// The result of the last window.
    pub fn permille(&self) -> u64 {
        self.permille
    }
}

/// Idle time plus the mover's, but at most what the rest of the node leaves of its cores.
fn spare_permille(before: CpuUsed, now: CpuUsed, cores: u64) -> u64 {
    let wall_us = now.at_us.saturating_sub(before.at_us).max(1);
    if wall_us > SPARE_REST_US {
        return 0;
    }
    let permille = |us: u64, earlier_us: u64| us.saturating_sub(earlier_us) * 1000 / wall_us;
    let mover = permille(now.mover_us, before.mover_us);
    let others = permille(now.node_us, before.node_us).saturating_sub(mover);
    let unused = permille(now.idle_us, before.idle_us) + mover;
    unused.min((cores * 1000).saturating_sub(others))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_movers_own_use_counts_as_spare() {
        let before = CpuUsed::default();
        let now = CpuUsed { at_us: 100_000, idle_us: 50_000, mover_us: 80_000, node_us: 180_000 };
        assert_eq!(spare_permille(before, now, 8), 1_300, "half a core is idle, and the mover uses 0.8");
        assert_eq!(
            spare_permille(before, now, 2),
            1_000,
            "the workers use one of the two that the node may use"
        );
        assert_eq!(spare_permille(before, now, 1), 0);
        let after_a_rest = CpuUsed { at_us: SPARE_REST_US + 1, idle_us: 8 * SPARE_REST_US, ..now };
        assert_eq!(spare_permille(before, after_a_rest, 8), 0, "most of it was before the migration");
    }

    #[test]
    fn permille_is_known_after_a_window_with_measurements() {
        let mut spare = SpareCores::default();
        let idle = |at_us| Some(CpuUsed { at_us, idle_us: 2 * at_us, ..CpuUsed::default() });
        assert!(spare.is_due(0));
        spare.measured(idle(0), 4);
        assert_eq!(spare.permille(), 0, "there is nothing to compare with");
        assert!(!spare.is_due(SPARE_WINDOW_US - 1) && spare.is_due(SPARE_WINDOW_US));
        spare.measured(idle(SPARE_WINDOW_US), 4);
        assert_eq!(spare.permille(), 2_000);
        spare.measured(None, 4);
        assert_eq!(spare.permille(), 0);
        assert!(spare.is_due(SPARE_WINDOW_US + 1), "it tries again");
    }
}
