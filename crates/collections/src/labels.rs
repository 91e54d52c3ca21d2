//! Labels of chunks that stand in an order of their own.

/// Which labels are given out, and how far from each other.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Labels {
    /// The lowest.
    pub(crate) first: u64,
    /// The highest.
    pub(crate) last: u64,
    /// How far from each other chunks at the ends are.
    pub(crate) step: u64,
    /// How far from each other chunks are, after they have given way to new ones, if that is possible.
    pub(crate) fair: u64,
}

impl Labels {
    /// All labels: 2^31 chunks fit between the first one and either end.
    pub(crate) const ALL: Labels = Labels { first: 0, last: u64::MAX, step: 1 << 32, fair: 1 << 16 };

    /// That of the first chunk.
    pub(crate) fn middle(self) -> u64 {
        self.first + (self.last - self.first) / 2 + 1
    }

    /// So many labels between two that are taken, or beyond one that is the lowest or the highest that is;
    /// none if they do not fit.
    pub(crate) fn between(self, low: Option<u64>, high: Option<u64>, count: usize) -> Option<Vec<u64>> {
        let steps = 1..=count as u64;
        match (low, high) {
            (None, None) => self.around_middle(count),
            (Some(low), None) => {
                let label = |number: u64| low.checked_add(number.checked_mul(self.step)?);
                steps.map(|number| label(number).filter(|label| *label <= self.last)).collect()
            }
            (None, Some(high)) => {
                let label = |number: u64| high.checked_sub(number.checked_mul(self.step)?);
                steps.rev().map(|number| label(number).filter(|label| *label >= self.first)).collect()
            }
            (Some(low), Some(high)) if high - low > count as u64 => {
                let part = |number: u64| u128::from(high - low) * u128::from(number) / (count as u128 + 1);
                Some(steps.map(|number| low + part(number) as u64).collect())
            }
            (Some(_), Some(_)) => None,
        }
    }

    /// So many labels for the chunks between two that stay, and how far from each other they are.
    pub(crate) fn spread(self, low: Option<u64>, high: Option<u64>, count: usize) -> (Vec<u64>, u64) {
        if low.is_none()
            && high.is_none()
            && let Some(labels) = self.around_middle(count)
        {
            return (labels, self.step);
        }
        // The places in front of the first label and behind the last one count as taken.
        let low = low.map_or(i128::from(self.first) - 1, i128::from);
        let high = high.map_or(i128::from(self.last) + 1, i128::from);
        let spacing = (high - low) / (count as i128 + 1);
        ((1..=count as i128).map(|number| (low + spacing * number) as u64).collect(), spacing as u64)
    }

    /// So many labels as far from each other as those at the ends.
    fn around_middle(self, count: usize) -> Option<Vec<u64>> {
        let before = (count as u64 / 2).checked_mul(self.step)?;
        let start = self.middle().checked_sub(before).filter(|start| *start >= self.first)?;
        let label = |number: u64| start.checked_add(number.checked_mul(self.step)?);
        (0..count as u64).map(|number| label(number).filter(|label| *label <= self.last)).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FEW: Labels = Labels { first: 10, last: 99, step: 8, fair: 2 };

    #[test]
    fn labels_start_in_the_middle_and_go_outwards() {
        assert_eq!(Labels::ALL.middle(), 1 << 63);
        assert_eq!(Labels::ALL.between(Some(1 << 63), None, 1), Some(vec![(1 << 63) + (1 << 32)]));
        assert_eq!(FEW.between(Some(55), None, 3), Some(vec![63, 71, 79]));
        assert_eq!(FEW.between(None, Some(55), 2), Some(vec![39, 47]));
        assert_eq!(FEW.between(Some(92), None, 1), None);
        assert_eq!(FEW.between(None, Some(17), 1), None);
        assert_eq!(FEW.between(None, None, 3), Some(vec![47, 55, 63]));
    }

    #[test]
    fn labels_between_two_are_in_the_middle() {
        assert_eq!(FEW.between(Some(20), Some(30), 1), Some(vec![25]));
        assert_eq!(FEW.between(Some(20), Some(22), 1), Some(vec![21]));
        assert_eq!(FEW.between(Some(20), Some(23), 2), Some(vec![21, 22]));
        assert_eq!(FEW.between(Some(20), Some(21), 1), None);
        assert_eq!(Labels::ALL.between(Some(0), Some(u64::MAX), 1), Some(vec![u64::MAX / 2]));
    }

    #[test]
    fn labels_are_spread_where_there_is_room() {
        assert_eq!(FEW.spread(Some(20), Some(30), 4), (vec![22, 24, 26, 28], 2));
        assert_eq!(FEW.spread(None, Some(20), 4).0, [11, 13, 15, 17]);
        assert_eq!(FEW.spread(Some(90), None, 4).0, [92, 94, 96, 98]);
        // All of them: from the middle, or as far from each other as they can be.
        assert_eq!(FEW.spread(None, None, 2), (vec![47, 55], 8));
        assert_eq!(FEW.spread(None, None, 29).1, 3);
        assert_eq!(Labels::ALL.spread(None, None, 3).0[1], 1 << 63);
    }
}
