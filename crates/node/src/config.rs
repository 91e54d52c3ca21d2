//! CONFIG GET and SET: Redis's parameter names, as far as they mean something here or tools ask for them.
//!
//! All but the password are settled when the node starts. CONFIG SET refuses to change what it could only pretend to
//! change.

use crate::glob;
use crate::observe::Thresholds;
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{PoisonError, RwLock, RwLockReadGuard};

#[derive(Clone, Copy, Debug)]
struct Parameter {
    name: &'static str,
    default: &'static str,
    /// May be changed while the node runs.
    is_mutable: bool,
}

const fn settled(name: &'static str, default: &'static str) -> Parameter {
    Parameter { name, default, is_mutable: false }
}

const fn mutable(name: &'static str, default: &'static str) -> Parameter {
    Parameter { name, default, is_mutable: true }
}

/// In alphabetical order.
const PARAMETERS: &[Parameter] = &[
    settled("aclfile", ""),
    settled("appendonly", "no"),
    settled("bind", "127.0.0.1"),
    settled("cluster-enabled", "yes"),
    settled("cluster-require-full-coverage", "no"),
    settled("databases", "1"),
    settled("dir", ""),
    settled("io-threads", "1"),
    mutable("latency-monitor-threshold", "0"),
    mutable("latency-tracking", "yes"),
    mutable("latency-tracking-info-percentiles", "50 99 99.9"),
    mutable("maxclients", "10000"),
    settled("maxmemory", "0"),
    settled("maxmemory-policy", "noeviction"),
    settled("port", "6379"),
    settled("proto-max-bulk-len", "536870912"),
    mutable("requirepass", ""),
    settled("save", ""),
    mutable("slowlog-log-slower-than", "10000"),
    mutable("slowlog-max-len", "128"),
    settled("tcp-keepalive", "0"),
    settled("timeout", "0"),
];

/// Why CONFIG SET refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ConfigError {
    /// No parameter of this name.
    Unknown,
    /// Not while the node runs.
    Immutable,
}

/// The node's configuration as Redis clients see it.
#[derive(Debug)]
pub struct Config {
    values: RwLock<BTreeMap<&'static str, String>>,
    /// `proto-max-bulk-len` as a number, for commands that must not look it up.
    longest_value_bytes: AtomicU64,
    thresholds: Thresholds,
}

/// The longest value that a node keeps, whatever is configured: what Redis has by default.
const LONGEST_VALUE_BYTES: u64 = sidle_store::MAX_VALUE_BYTES as u64;

impl Default for Config {
    fn default() -> Config {
        let values = PARAMETERS.iter().map(|parameter| (parameter.name, parameter.default.to_owned()));
        Config {
            values: RwLock::new(values.collect()),
            longest_value_bytes: AtomicU64::new(LONGEST_VALUE_BYTES),
            thresholds: Thresholds::default(),
        }
    }
}

impl Config {
    /// The parameter's value; empty when there is no such parameter.
    pub fn value(&self, name: &str) -> String {
        self.values().get(name).cloned().unwrap_or_default()
    }

    /// The password that clients must give; `None` when they need none.
    pub fn password(&self) -> Option<String> {
        Some(self.value("requirepass")).filter(|password| !password.is_empty())
    }

    /// How long a value may become.
    #[inline]
    pub fn longest_value_bytes(&self) -> u64 {
        self.longest_value_bytes.load(Relaxed)
    }

    /// From when on a command is noted.
    #[inline]
    pub(crate) fn thresholds(&self) -> &Thresholds {
        &self.thresholds
    }

    /// All parameters whose names match the glob, by name.
    pub fn matching(&self, pattern: &[u8]) -> Vec<(&'static str, String)> {
        let matches = |(name, value): (&&'static str, &String)| {
            glob::matches_ignore_case(pattern, name.as_bytes()).then(|| (*name, value.clone()))
        };
        self.values().iter().filter_map(matches).collect()
    }

    /// The parameter's proper name.
    pub fn name_of(name: &[u8]) -> Option<&'static str> {
        parameter(name).map(|parameter| parameter.name)
    }

    /// The proper name of a parameter that may be changed while the node runs.
    ///
    /// # Errors
    /// There is no such parameter, or it is settled.
    pub fn changeable(name: &[u8]) -> Result<&'static str, ConfigError> {
        match parameter(name) {
            None => Err(ConfigError::Unknown),
            Some(parameter) if parameter.is_mutable => Ok(parameter.name),
            Some(_) => Err(ConfigError::Immutable),
        }
    }

    /// Why a changeable parameter cannot have this value, in Redis's words.
    pub fn objection(name: &str, value: &[u8]) -> Option<&'static str> {
        if name != "maxclients" {
            return Thresholds::objection(name, value);
        }
        match crate::number::parse_i64(value) {
            None => Some("argument couldn't be parsed into an integer"),
            Some(1..=0xFFFF_FFFF) => None,
            Some(_) => Some("argument must be between 1 and 4294967295 inclusive"),
        }
    }

    /// Sets several parameters at once, at the start those that are settled afterwards too.
    ///
    /// # Panics
    /// On a name that is none.
    pub fn apply(&self, changes: Vec<(&'static str, String)>) {
        let mut values = self.values.write().unwrap_or_else(PoisonError::into_inner);
        for (name, value) in changes {
            self.thresholds.apply(name, &value);
            if name == "proto-max-bulk-len" {
                let bytes = value.parse().unwrap_or(LONGEST_VALUE_BYTES).min(LONGEST_VALUE_BYTES);
                self.longest_value_bytes.store(bytes, Relaxed);
            }
            assert!(values.insert(name, value).is_some(), "no parameter is named {name}");
        }
    }

    fn values(&self) -> RwLockReadGuard<'_, BTreeMap<&'static str, String>> {
        self.values.read().unwrap_or_else(PoisonError::into_inner)
    }
}

fn parameter(name: &[u8]) -> Option<&'static Parameter> {
    PARAMETERS.iter().find(|parameter| parameter.name.as_bytes().eq_ignore_ascii_case(name))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parameters_are_sorted() {
        assert!(PARAMETERS.windows(2).all(|pair| pair[0].name < pair[1].name));
    }

    #[test]
    fn changeable_refuses_what_is_settled() {
        assert_eq!(Config::changeable(b"nothing"), Err(ConfigError::Unknown));
        assert_eq!(Config::changeable(b"port"), Err(ConfigError::Immutable));
        assert_eq!(Config::changeable(b"RequirePass"), Ok("requirepass"));
    }

    #[test]
    fn objection_to_what_is_no_number_of_clients() {
        assert_eq!(Config::objection("maxclients", b"100"), None);
        assert!(Config::objection("maxclients", b"many").is_some_and(|why| why.contains("integer")));
        assert!(Config::objection("maxclients", b"0").is_some_and(|why| why.contains("between")));
        assert_eq!(Config::objection("requirepass", b"many"), None);
    }

    #[test]
    fn apply_changes_what_is_told() {
        let config = Config::default();
        config.apply(vec![("timeout", "7".into()), ("requirepass", "secret".into())]);
        assert_eq!(config.matching(b"timeo*"), [("timeout", "7".to_owned())]);
        assert_eq!(config.password().as_deref(), Some("secret"));
        config.apply(vec![("proto-max-bulk-len", "2097152".into())]);
        assert_eq!(config.longest_value_bytes(), 2 << 20);
    }
}
