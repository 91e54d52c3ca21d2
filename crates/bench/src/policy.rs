//! A migration's policy in one word: `adaptive`, `rate=50`, `deadline=2.5`, `slo-p99=800`.

use serde::{Deserialize, Serialize};
use sidle_types::MigrationPolicy;

/// A policy as a word for command lines, reports and file names: megabytes a second, seconds,
/// or microseconds follow the kind.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct PolicyWord(pub MigrationPolicy);

impl PolicyWord {
    /// For people: `at most 50 MB/s`.
    pub fn title(self) -> String {
        match self.0 {
            MigrationPolicy::Adaptive => "adaptive".to_owned(),
            MigrationPolicy::Rate { .. } => format!("at most {} MB/s", self.number()),
            MigrationPolicy::Deadline { .. } => format!("within {} s", self.number()),
            MigrationPolicy::SloP99 { .. } => format!("99th percentile of waits within {} us", self.number()),
        }
    }

    /// In the unit of its kind.
    fn number(self) -> f64 {
        match self.0 {
            MigrationPolicy::Adaptive => 0.0,
            MigrationPolicy::Rate { bytes_per_s } => bytes_per_s as f64 / 1e6,
            MigrationPolicy::Deadline { ms } => ms as f64 / 1e3,
            MigrationPolicy::SloP99 { us } => us as f64,
        }
    }
}

impl std::fmt::Display for PolicyWord {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let kind = match self.0 {
            MigrationPolicy::Adaptive => return f.write_str("adaptive"),
            MigrationPolicy::Rate { .. } => "rate",
            MigrationPolicy::Deadline { .. } => "deadline",
            MigrationPolicy::SloP99 { .. } => "slo-p99",
        };
        write!(f, "{kind}={}", self.number())
    }
}

impl std::str::FromStr for PolicyWord {
    type Err = String;

    fn from_str(text: &str) -> Result<PolicyWord, String> {
        let (kind, number) = text.split_once('=').unwrap_or((text, ""));
        Ok(PolicyWord(match kind {
            "adaptive" if text == kind => MigrationPolicy::Adaptive,
            "rate" => MigrationPolicy::Rate {
                bytes_per_s: scaled(
                    number,
                    1e6,
                    "give megabytes a second, such as 50, from 0.000001 to 1e12",
                )?,
            },
            "deadline" => MigrationPolicy::Deadline {
                ms: scaled(number, 1e3, "give seconds, such as 30 or 2.5, from 0.001 to 1e15")?,
            },
            "slo-p99" => MigrationPolicy::SloP99 {
                us: scaled(number, 1.0, "give microseconds, such as 800, from 1 to 1e18")?,
            },
            _ => {
                return Err(format!(
                    "'{text}' is no policy: give adaptive, rate=MB/S, deadline=SECONDS or slo-p99=MICROSECONDS"
                ));
            }
        }))
    }
}

/// A number times `unit`, from 1 to 10^18.
fn scaled(text: &str, unit: f64, help: &str) -> Result<u64, String> {
    match text.parse::<f64>() {
        Ok(number) if number * unit >= 1.0 && number * unit <= 1e18 => Ok((number * unit).round() as u64),
        _ => Err(help.to_owned()),
    }
}

impl TryFrom<String> for PolicyWord {
    type Error = String;

    fn try_from(text: String) -> Result<PolicyWord, String> {
        text.parse()
    }
}

impl From<PolicyWord> for String {
    fn from(policy: PolicyWord) -> String {
        policy.to_string()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_go_there_and_back() {
        for (word, policy) in [
            ("adaptive", MigrationPolicy::Adaptive),
            ("rate=50", MigrationPolicy::Rate { bytes_per_s: 50_000_000 }),
            ("rate=0.345678", MigrationPolicy::Rate { bytes_per_s: 345_678 }),
            ("deadline=2.5", MigrationPolicy::Deadline { ms: 2_500 }),
            ("slo-p99=800", MigrationPolicy::SloP99 { us: 800 }),
        ] {
            assert_eq!(word.parse(), Ok(PolicyWord(policy)));
            assert_eq!(PolicyWord(policy).to_string(), word);
        }
    }

    #[test]
    fn other_words_are_refused_with_what_would_do() {
        for bad in ["", "fast", "0", "-1", "nan", "inf", "1e300"] {
            for (kind, help) in [
                ("rate", "give megabytes a second"),
                ("deadline", "give seconds"),
                ("slo-p99", "give microseconds"),
            ] {
                let error = format!("{kind}={bad}").parse::<PolicyWord>().unwrap_err();
                assert!(error.starts_with(help), "{kind}={bad}: {error}");
                let most = error.rsplit(' ').next().expect("it ends with the most");
                assert!(format!("{kind}={most}").parse::<PolicyWord>().is_ok(), "{error}");
                assert!(format!("{kind}={most}0").parse::<PolicyWord>().is_err(), "{error}");
            }
        }
        for bad in ["", "fast", "rate 50", "adaptive=1", "RATE=5"] {
            let error = bad.parse::<PolicyWord>().unwrap_err();
            assert!(error.starts_with(&format!("'{bad}' is no policy")), "{error}");
        }
    }
}
