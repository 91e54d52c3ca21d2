//! How well runs determine a ratio of medians: by the bootstrap (Efron, 1979), with no assumption about the
//! runs' distribution.

use sidle_bench::spread::Spread;
use sidle_workload::Random;

/// The interval is the middle 95 % of this many ratios of resampled runs.
const RESAMPLES: usize = 2000;
const LEFT_OUT: usize = RESAMPLES / 40;
/// Fewer runs than this on a side, resampled, do not show how far others would lie apart.
const RUNS_MIN: usize = 5;
/// Equal runs give equal intervals.
const SEED: u64 = 1;

/// The interval of the ratio of two sides' medians with a confidence of 95 %; none with fewer than five
/// runs on a side, or if medians are 0. Non-numbers are left out.
pub(super) fn ratio_interval(a: &[f64], b: &[f64]) -> Option<[f64; 2]> {
    let [a, b] = [a, b].map(|side| side.iter().copied().filter(|it| it.is_finite()).collect::<Vec<_>>());
    if a.len().min(b.len()) < RUNS_MIN {
        return None;
    }
    let mut random = Random::new(SEED, 0);
    let mut resampled = |side: &[f64]| {
        let drawn = (0..side.len()).map(|_| side[random.below(side.len() as u64) as usize]);
        Spread::of(drawn).map_or(0.0, |spread| spread.median)
    };
    let mut ratios: Vec<f64> = (0..RESAMPLES).map(|_| resampled(&a) / resampled(&b)).collect();
    ratios.sort_by(f64::total_cmp);
    let interval = [ratios[LEFT_OUT], ratios[RESAMPLES - 1 - LEFT_OUT]];
    interval.iter().all(|end| end.is_normal()).then_some(interval)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// This many runs of two kinds: from one figure upwards, and from another downwards.
    fn runs(count: usize, near: f64, far: f64) -> Vec<f64> {
        (0..count)
            .map(|run| if run % 2 == 0 { near + 0.001 * run as f64 } else { far - 0.001 * run as f64 })
            .collect()
    }

    #[test]
    fn an_interval_holds_the_ratio_and_more_runs_make_it_narrower() {
        let width = |count| {
            let [low, high] =
                ratio_interval(&runs(count, 1.9, 2.1), &runs(count, 0.9, 1.1)).expect("enough runs");
            assert!(low < 2.0 && high > 2.0, "{low} .. {high} with {count} runs");
            high - low
        };
        let (few, many) = (width(8), width(80));
        assert!(many < few, "{many} and {few}");
    }

    #[test]
    fn an_interval_leaves_out_a_fortieth_at_either_end() {
        // The median of nine numbers drawn from 1 to 9 is 3 to 7 in 96 % of cases, and 2 to 8 in nearly all.
        let numbers: Vec<f64> = (1..=9).map(f64::from).collect();
        let [low, high] = ratio_interval(&numbers, &[1.0; 9]).expect("enough runs");
        assert!((2.0..=3.0).contains(&low) && (7.0..=8.0).contains(&high), "{low} .. {high}");
    }

    #[test]
    fn a_median_between_two_kinds_of_runs_is_hardly_known() {
        let [low, high] = ratio_interval(&runs(48, 1.0, 5.0), &runs(48, 3.0, 3.2)).expect("enough runs");
        assert!(low < 0.5 && high > 1.2, "{low} .. {high}");
    }

    #[test]
    fn few_runs_and_nothing_have_no_interval() {
        assert_eq!(ratio_interval(&runs(4, 1.0, 1.0), &runs(48, 1.0, 1.0)), None);
        assert_eq!(ratio_interval(&[1.0, 1.0, 1.0, 1.0, f64::NAN], &runs(48, 1.0, 1.0)), None);
        assert_eq!(ratio_interval(&[0.0; 9], &[1.0; 9]), None);
        assert_eq!(ratio_interval(&[1.0; 9], &[0.0; 9]), None);
        assert_eq!(ratio_interval(&[3.0; 9], &[2.0; 9]), Some([1.5, 1.5]), "runs that are all the same");
    }
}
