//! How a range is moved, and how hard that may press on the nodes, as flags.

use clap::Args;
use sidle_migration::PROTOCOLS;
use sidle_types::MigrationPolicy;

/// One of the policies, or none.
#[derive(Debug, Args)]
#[group(id = "policy", multiple = false)]
pub(crate) struct PolicyArguments {
    /// Move no faster than this
    #[arg(long, value_name = "MB/S", value_parser = bytes_per_s)]
    rate: Option<u64>,
    /// Move just fast enough to end so soon, whatever clients feel of it
    #[arg(long, value_name = "SECONDS", value_parser = milliseconds)]
    deadline: Option<u64>,
    /// Move as fast as lets 99 of 100 requests wait no longer than this for a worker
    #[arg(long, value_name = "MICROSECONDS", value_parser = clap::value_parser!(u64).range(1..))]
    slo_p99: Option<u64>,
}

impl PolicyArguments {
    /// The policy asked for, if one was.
    pub(crate) fn policy(&self) -> Option<MigrationPolicy> {
        let rate = self.rate.map(|bytes_per_s| MigrationPolicy::Rate { bytes_per_s });
        let deadline = self.deadline.map(|ms| MigrationPolicy::Deadline { ms });
        let slo_p99 = self.slo_p99.map(|us| MigrationPolicy::SloP99 { us });
        rate.or(deadline).or(slo_p99)
    }
}

/// A policy in the words of SIDLE.MIGRATE SET.
pub(crate) fn policy_words(text: &str) -> Result<MigrationPolicy, String> {
    let words: Vec<&str> = text.split_whitespace().collect();
    MigrationPolicy::of_words(&words).map_err(|error| error.to_string())
}

/// The help of `--protocol`, with what there is.
pub(crate) fn protocol_help() -> String {
    let names: Vec<&str> = PROTOCOLS.iter().map(|protocol| protocol.name).collect();
    format!("How to move: {}. Options that change single choices may follow", names.join(", "))
}

fn bytes_per_s(text: &str) -> Result<u64, String> {
    scaled(text, 1e6, "give megabytes a second, such as 50")
}

fn milliseconds(text: &str) -> Result<u64, String> {
    scaled(text, 1e3, "give seconds, such as 30 or 2.5")
}

/// A positive number times `unit`, at least 1.
fn scaled(text: &str, unit: f64, help: &str) -> Result<u64, String> {
    match text.parse::<f64>() {
        Ok(number) if number * unit >= 1.0 && number * unit < 1e18 => Ok((number * unit) as u64),
        _ => Err(help.to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_scaled_and_bad_ones_refused() {
        assert_eq!(bytes_per_s("50"), Ok(50_000_000));
        assert_eq!(bytes_per_s("0.5"), Ok(500_000));
        assert_eq!(milliseconds("2.5"), Ok(2_500));
        for bad in ["", "fast", "0", "-1", "nan", "inf", "1e300"] {
            assert!(bytes_per_s(bad).is_err() && milliseconds(bad).is_err(), "{bad}");
        }
    }
}
