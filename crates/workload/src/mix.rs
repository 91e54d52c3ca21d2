//! The operation mix: YCSB's core workloads by letter, or any share of writes.

use crate::{Chooser, Random};

/// A share of writes, with its name in reports.
#[derive(Clone, Debug, PartialEq)]
pub struct Workload {
    name: String,
    /// Writes in 2^32 operations.
    writes: u64,
}

/// What [`Workload`]'s parser refuses.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("'{0}' is not a workload: give a (50 % writes), b (5 %) or c (none)")]
pub struct ParseWorkloadError(String);

impl Workload {
    /// Reads and writes with this share of writes, in percent.
    ///
    /// # Panics
    ///
    /// If the share does not lie between 0 and 100.
    pub fn with_write_ratio(percent: f64) -> Workload {
        assert!((0.0..=100.0).contains(&percent), "a share lies between 0 and 100 %");
        Workload::named(format!("{percent}% writes"), percent)
    }

    fn named(name: impl Into<String>, percent: f64) -> Workload {
        Workload { name: name.into(), writes: (percent / 100.0 * (1u64 << 32) as f64).round() as u64 }
    }

    /// The workload's name: `ycsb-b`, `30% writes`.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Whether it never writes.
    pub const fn is_read_only(&self) -> bool {
        self.writes == 0
    }
}

impl std::str::FromStr for Workload {
    type Err = ParseWorkloadError;

    fn from_str(text: &str) -> Result<Workload, ParseWorkloadError> {
        match text.strip_prefix("ycsb-").unwrap_or(text) {
            "a" | "A" => Ok(Workload::named("ycsb-a", 50.0)),
            "b" | "B" => Ok(Workload::named("ycsb-b", 5.0)),
            "c" | "C" => Ok(Workload::named("ycsb-c", 0.0)),
            _ => Err(ParseWorkloadError(text.to_owned())),
        }
    }
}

/// One operation to be done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Draw {
    /// A write of the record, otherwise a read.
    pub write: bool,
    /// Which record.
    pub record: u64,
}

/// The endless operations of one client.
#[derive(Clone, Debug)]
pub struct OperationStream {
    random: Random,
    chooser: Chooser,
    writes: u64,
}

impl OperationStream {
    /// The stream of client number `client` in a run.
    pub fn new(workload: &Workload, chooser: Chooser, seed: u64, client: u64) -> OperationStream {
        OperationStream { random: Random::new(seed, client), chooser, writes: workload.writes }
    }

    /// The next operation.
    #[inline]
    pub fn draw(&mut self) -> Draw {
        let write = self.random.next_u64() >> 32 < self.writes;
        Draw { write, record: self.chooser.next(&mut self.random) }
    }

    /// Another record from the same distribution, for a write that found its record claimed.
    #[inline]
    pub fn another_record(&mut self) -> u64 {
        self.chooser.next(&mut self.random)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Distribution;

    fn share(workload: &Workload) -> f64 {
        let chooser = Chooser::new(Distribution::Uniform, 10, 1);
        let mut stream = OperationStream::new(workload, chooser, 1, 1);
        (0..100_000).filter(|_| stream.draw().write).count() as f64 / 1000.0
    }

    #[test]
    fn letters_have_their_share_of_writes() {
        for (name, percent) in [("a", 50.0), ("b", 5.0), ("c", 0.0), ("ycsb-b", 5.0)] {
            let workload: Workload = name.parse().unwrap();
            assert!((share(&workload) - percent).abs() < 0.6, "{name}");
        }
        assert!("d".parse::<Workload>().is_err());
    }

    #[test]
    fn any_share_of_writes() {
        for percent in [0.0, 5.0, 10.0, 20.0, 30.0, 100.0] {
            let workload = Workload::with_write_ratio(percent);
            assert!((share(&workload) - percent).abs() < 0.6, "{percent}");
        }
        assert_eq!(Workload::with_write_ratio(30.0).name(), "30% writes");
        assert!(Workload::with_write_ratio(0.0).is_read_only());
    }

    #[test]
    fn a_stream_repeats_with_its_seed() {
        let draws = |client| {
            let chooser = Chooser::new(Distribution::Zipf(0.99), 1000, 4);
            let mut stream = OperationStream::new(&"a".parse().unwrap(), chooser, 4, client);
            (0..50).map(|_| stream.draw()).collect::<Vec<_>>()
        };
        assert_eq!(draws(1), draws(1));
        assert_ne!(draws(1), draws(2));
    }
}
