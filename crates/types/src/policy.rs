//! How much a migration may load its two nodes.

use serde::{Deserialize, Serialize};
use std::fmt;

/// How much a migration may load its two nodes. Every protocol supports every policy, and the policy may
/// change while the migration runs. Source: NetMigrate's third challenge (a migration's rate against its
/// impact).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum MigrationPolicy {
    /// Yields to clients: a share of a node's processor while its workers are behind schedule.
    #[default]
    Adaptive,
    /// The same, with a limit of bytes per second.
    Rate {
        /// Bytes of records per second.
        bytes_per_s: u64,
    },
    /// As slowly as possible to end this long after the policy was set, whatever the cost to clients.
    Deadline {
        /// Milliseconds.
        ms: u64,
    },
    /// As fast as keeps the 99th percentile of requests' waits for a worker, on both nodes, within this.
    SloP99 {
        /// Microseconds.
        us: u64,
    },
}

/// What [`MigrationPolicy::of_words`] refuses.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "'{0}' is no policy: give ADAPTIVE, RATE <bytes a second>, DEADLINE <milliseconds> or SLO-P99 <microseconds>, \
     each number at least 1"
)]
pub struct ParsePolicyError(String);

impl MigrationPolicy {
    /// Parses a command's words, case-insensitively: `ADAPTIVE`, `RATE <bytes a second>`, `DEADLINE
    /// <milliseconds>`, `SLO-P99 <microseconds>`.
    ///
    /// # Errors
    /// If they are no policy, or the number is 0 or invalid.
    pub fn of_words(words: &[&str]) -> Result<MigrationPolicy, ParsePolicyError> {
        let refused = || ParsePolicyError(words.join(" "));
        let number = |text: &str| text.parse().ok().filter(|&number: &u64| number > 0).ok_or_else(refused);
        let name = words.first().map(|word| word.to_ascii_lowercase()).unwrap_or_default();
        match (name.as_str(), &words[words.len().min(1)..]) {
            ("adaptive", []) => Ok(MigrationPolicy::Adaptive),
            ("rate", [text]) => Ok(MigrationPolicy::Rate { bytes_per_s: number(text)? }),
            ("deadline", [text]) => Ok(MigrationPolicy::Deadline { ms: number(text)? }),
            ("slo-p99", [text]) => Ok(MigrationPolicy::SloP99 { us: number(text)? }),
            _ => Err(refused()),
        }
    }

    /// The words that [`MigrationPolicy::of_words`] parses to it.
    pub fn words(self) -> Vec<String> {
        let (name, number) = match self {
            MigrationPolicy::Adaptive => return vec!["ADAPTIVE".to_owned()],
            MigrationPolicy::Rate { bytes_per_s } => ("RATE", bytes_per_s),
            MigrationPolicy::Deadline { ms } => ("DEADLINE", ms),
            MigrationPolicy::SloP99 { us } => ("SLO-P99", us),
        };
        vec![name.to_owned(), number.to_string()]
    }
}

impl fmt::Display for MigrationPolicy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            MigrationPolicy::Adaptive => f.write_str("adaptive"),
            MigrationPolicy::Rate { bytes_per_s } => {
                write!(f, "at most {:.1} MB/s", *bytes_per_s as f64 / 1e6)
            }
            MigrationPolicy::Deadline { ms } => write!(f, "within {:.1} s", *ms as f64 / 1e3),
            MigrationPolicy::SloP99 { us } => write!(f, "p99 within {us} us"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_go_there_and_back() {
        for policy in [
            MigrationPolicy::Adaptive,
            MigrationPolicy::Rate { bytes_per_s: 50_000_000 },
            MigrationPolicy::Deadline { ms: 2_500 },
            MigrationPolicy::SloP99 { us: 800 },
        ] {
            let words = policy.words();
            let words: Vec<&str> = words.iter().map(String::as_str).collect();
            assert_eq!(MigrationPolicy::of_words(&words), Ok(policy));
        }
        assert_eq!(MigrationPolicy::of_words(&["slo-p99", "7"]), Ok(MigrationPolicy::SloP99 { us: 7 }));
    }

    #[test]
    fn other_words_are_refused() {
        let cases: [&[&str]; 7] = [
            &[],
            &["fast"],
            &["rate"],
            &["rate", "0"],
            &["rate", "-1"],
            &["rate", "1", "2"],
            &["adaptive", "1"],
        ];
        for words in cases {
            let error = MigrationPolicy::of_words(words).unwrap_err().to_string();
            assert!(error.contains(&format!("'{}' is no policy", words.join(" "))), "{error}");
        }
    }
}
