//! The figures of several runs of one cell together.

use serde::Serialize;

/// The median of several runs, and their range.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Spread {
    /// The median; of an even number of runs the mean of the two in the middle.
    pub median: f64,
    /// The least.
    pub min: f64,
    /// The most.
    pub max: f64,
    /// How many runs.
    pub runs: usize,
}

impl Spread {
    /// The spread of some figures; `None` of none. Non-numbers are left out.
    pub fn of(values: impl IntoIterator<Item = f64>) -> Option<Spread> {
        let mut values: Vec<f64> = values.into_iter().filter(|value| value.is_finite()).collect();
        values.sort_by(f64::total_cmp);
        let (&min, &max) = (values.first()?, values.last()?);
        let middle = values.len() / 2;
        let median = match values.len() % 2 {
            0 => (values[middle - 1] + values[middle]) / 2.0,
            _ => values[middle],
        };
        Some(Spread { median, min, max, runs: values.len() })
    }

    /// Whether the two ranges overlap: if so, it is unknown which is larger.
    pub fn overlaps(&self, other: &Spread) -> bool {
        self.min <= other.max && other.min <= self.max
    }

    /// All three, multiplied.
    pub fn scaled(self, by: f64) -> Spread {
        Spread { median: self.median * by, min: self.min * by, max: self.max * by, ..self }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn medians_and_ranges() {
        let spread = Spread::of([3.0, 1.0, f64::NAN, 2.0]).unwrap();
        assert_eq!(spread, Spread { median: 2.0, min: 1.0, max: 3.0, runs: 3 });
        assert_eq!(Spread::of([1.0, 2.0]).unwrap().median, 1.5);
        assert_eq!(Spread::of([]), None);
        assert!(spread.overlaps(&Spread::of([3.0, 9.0]).unwrap()));
        assert!(!spread.overlaps(&Spread::of([3.1]).unwrap()));
    }
}
