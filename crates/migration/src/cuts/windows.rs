//! How far ahead of what is given a partition is copied and its changes are marked.
//!
//! M28: a window is copied only behind the barrier from which every worker marks its changes there.

use crate::MigrationSpec;
use sidle_types::{Position, PositionRange};

/// How far each partition goes: its first position behind, or `None` if there is none.
pub(crate) type Ahead = Vec<Option<Position>>;

/// A window is not widened beyond this share of its partition.
const LEAST_WINDOWS: u64 = 4;

/// The windows of all partitions.
#[derive(Debug)]
pub(crate) struct Windows {
    partitions: Vec<PositionRange>,
    /// By partition: how many positions. Partitions hold about equally many records; where they lie denser
    /// than on average, the window holds more.
    width: Vec<u64>,
}

impl Windows {
    /// Windows that hold about so many bytes, all of them together.
    pub(crate) fn new(spec: &MigrationSpec, bytes: u64) -> Windows {
        let width = |partition: &PositionRange| {
            if spec.bytes <= bytes {
                return u64::MAX;
            }
            let positions = partition.last().0 - partition.first().0;
            let share = u128::from(positions) * u128::from(bytes) / u128::from(spec.bytes);
            (share as u64).max(1)
        };
        Windows { width: spec.partitions.iter().map(width).collect(), partitions: spec.partitions.clone() }
    }

    /// The windows at the beginning.
    pub(crate) fn first(&self) -> Ahead {
        self.partitions.iter().enumerate().map(|(index, bounds)| self.after(index, bounds.first())).collect()
    }

    /// The windows behind these cursors.
    pub(crate) fn ahead_of(&self, cursors: &Ahead) -> Ahead {
        let after = |(index, next): (usize, &Option<Position>)| next.and_then(|next| self.after(index, next));
        cursors.iter().enumerate().map(after).collect()
    }

    /// The partition's window was copied before its turn came: the next ones are twice as wide.
    pub(crate) fn widen(&mut self, partition: usize) {
        let bounds = self.partitions[partition];
        let most = (bounds.last().0 - bounds.first().0) / LEAST_WINDOWS;
        let width = &mut self.width[partition];
        *width = width.saturating_mul(2).min(most).max(*width);
    }

    fn after(&self, partition: usize, next: Position) -> Option<Position> {
        let end = next.0.checked_add(self.width[partition]).map(Position);
        end.filter(|&end| end <= self.partitions[partition].last())
    }
}
