//! A machine's load on its threads during moves, as reported to its movers.

use sidle_migration::Load;
use sidle_testbed::Random;

/// The interval between reports to a mover.
pub(super) const EVERY_US: u64 = 2_000;
/// The lateness of a busy machine's workers.
const LATE_US: u64 = 3_000;
/// The cores that a serving machine's threads use, in thousandths.
const USED_PERMILLE: u64 = 1_900;
/// The spare cores if there are any, and how much a mover has used before that is known.
const ROOM_PERMILLE: u64 = 6_000;
const KNOWN_AFTER_US: u64 = 2_000;

/// A machine's load on its threads during moves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pressure {
    /// No load worth a report.
    None,
    /// The workers are always late.
    Late,
    /// They serve, without delay.
    Serving,
    /// They serve, and there are spare cores; it takes a while until that is known.
    Room,
}

impl Pressure {
    pub(crate) fn draw(random: &mut Random) -> Pressure {
        match random.below(6) {
            0 | 1 => Pressure::Late,
            2 => Pressure::Serving,
            3 => Pressure::Room,
            _ => Pressure::None,
        }
    }

    /// The report for a mover that has used this much.
    pub(super) fn load(self, now_us: u64, mover_cpu_us: u64) -> Option<Load> {
        let node_cpu_us = now_us / 1000 * USED_PERMILLE + mover_cpu_us;
        let serving = Load { worker_lag_us: 0, mover_cpu_us, node_cpu_us, spare_permille: 0 };
        match self {
            Pressure::None => None,
            Pressure::Late => Some(Load { worker_lag_us: LATE_US, ..serving }),
            Pressure::Room if mover_cpu_us > KNOWN_AFTER_US => {
                Some(Load { spare_permille: ROOM_PERMILLE, ..serving })
            }
            Pressure::Serving | Pressure::Room => Some(serving),
        }
    }
}
