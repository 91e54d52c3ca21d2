//! What a machine's threads have to bear while something moves, as its movers are told.

use sidle_migration::Load;
use sidle_testbed::Random;

/// How often a mover is told.
pub(super) const EVERY_US: u64 = 2_000;
/// How late the workers of a busy machine are.
const LATE_US: u64 = 3_000;
/// What the threads of a machine that serves use of its cores, in thousandths.
const USED_PERMILLE: u64 = 1_900;
/// What is left where there is room, and how much a mover has used before that is known.
const ROOM_PERMILLE: u64 = 6_000;
const KNOWN_AFTER_US: u64 = 2_000;

/// What a machine's threads have to bear while something moves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pressure {
    /// Nothing that is worth telling.
    None,
    /// The workers are always late.
    Late,
    /// They serve, and in time.
    Serving,
    /// They serve, and there are more cores than they use; it takes a while until that is known.
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

    /// What a mover that has used so much is told.
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
