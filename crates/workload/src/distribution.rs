//! The choice of an operation's record.

use crate::{Random, Scatter, Zipfian};

/// How popular the records are.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Distribution {
    /// Zipfian with this skew, the popular records scattered over all of them.
    Zipf(f64),
    /// Every record as likely as the others.
    Uniform,
    /// Zipfian with skew 0.99; the records loaded last, with the highest numbers, are the most popular.
    Latest,
}

/// What [`Distribution`]'s parser refuses.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("'{0}' is not a distribution: give zipf:THETA with THETA between 0 and 1, uniform or latest")]
pub struct ParseDistributionError(String);

impl std::str::FromStr for Distribution {
    type Err = ParseDistributionError;

    fn from_str(text: &str) -> Result<Distribution, ParseDistributionError> {
        let refused = || ParseDistributionError(text.to_owned());
        match text {
            "uniform" => Ok(Distribution::Uniform),
            "latest" => Ok(Distribution::Latest),
            "zipf" => Ok(Distribution::Zipf(0.99)),
            _ => {
                let theta = text.strip_prefix("zipf:").and_then(|theta| theta.parse().ok());
                theta.filter(|&theta| theta > 0.0 && theta < 1.0).map(Distribution::Zipf).ok_or_else(refused)
            }
        }
    }
}

impl std::fmt::Display for Distribution {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Distribution::Zipf(theta) => write!(f, "zipf:{theta}"),
            Distribution::Uniform => f.write_str("uniform"),
            Distribution::Latest => f.write_str("latest"),
        }
    }
}

/// Draws records by a distribution. All choosers of a run agree on the popular records.
#[derive(Clone, Debug)]
pub struct Chooser {
    count: u64,
    kind: Kind,
}

#[derive(Clone, Debug)]
enum Kind {
    Zipf(Zipfian, Scatter),
    Uniform,
    Latest(Zipfian),
}

impl Chooser {
    /// Draws from `0..count`; the run's seed decides which records are popular.
    ///
    /// # Panics
    ///
    /// If the count is 0.
    pub fn new(distribution: Distribution, count: u64, seed: u64) -> Chooser {
        assert!(count > 0, "there are no records to choose from");
        let kind = match distribution {
            Distribution::Zipf(theta) => Kind::Zipf(Zipfian::new(count, theta), Scatter::new(count, seed)),
            Distribution::Uniform => Kind::Uniform,
            Distribution::Latest => Kind::Latest(Zipfian::new(count, 0.99)),
        };
        Chooser { count, kind }
    }

    /// The next record.
    #[inline]
    pub fn next(&self, random: &mut Random) -> u64 {
        match &self.kind {
            Kind::Zipf(zipfian, scatter) => scatter.place(zipfian.next(random)),
            Kind::Uniform => random.below(self.count),
            Kind::Latest(zipfian) => self.count - 1 - zipfian.next(random),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_parse_and_print_back() {
        for name in ["zipf:0.99", "zipf:0.01", "uniform", "latest"] {
            assert_eq!(name.parse::<Distribution>().unwrap().to_string(), name);
        }
        for bad in ["", "zipf:", "zipf:0", "zipf:1", "zipf:nan", "zipf:-1", "gauss"] {
            assert!(bad.parse::<Distribution>().is_err(), "{bad}");
        }
    }

    #[test]
    fn the_same_seed_makes_the_same_records_popular() {
        let favourite = |seed, stream| {
            let chooser = Chooser::new(Distribution::Zipf(0.99), 10_000, seed);
            let mut random = Random::new(7, stream);
            let mut counts = vec![0u32; 10_000];
            for _ in 0..20_000 {
                counts[chooser.next(&mut random) as usize] += 1;
            }
            counts.iter().enumerate().max_by_key(|&(_, count)| count).map(|(record, _)| record).unwrap()
        };
        assert_eq!(favourite(1, 1), favourite(1, 2));
        assert_ne!(favourite(1, 1), favourite(2, 1));
    }

    #[test]
    fn latest_prefers_the_last_record() {
        let chooser = Chooser::new(Distribution::Latest, 1000, 1);
        let mut random = Random::new(7, 1);
        let draws: Vec<u64> = (0..10_000).map(|_| chooser.next(&mut random)).collect();
        assert!(draws.iter().all(|&record| record < 1000));
        let last = draws.iter().filter(|&&record| record == 999).count();
        assert!((1000..1700).contains(&last), "{last}");
    }

    #[test]
    fn uniform_reaches_every_record_evenly() {
        let chooser = Chooser::new(Distribution::Uniform, 100, 1);
        let mut random = Random::new(7, 1);
        let mut counts = [0u32; 100];
        for _ in 0..100_000 {
            counts[chooser.next(&mut random) as usize] += 1;
        }
        assert!(counts.iter().all(|&count| (850..1150).contains(&count)), "{counts:?}");
    }
}
