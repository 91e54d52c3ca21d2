//! CONFIG GET and SET: Redis's parameter names, as far as they mean something here or tools ask for them.

use crate::glob;
use std::collections::BTreeMap;
use std::sync::{PoisonError, RwLock, RwLockReadGuard};

/// What a parameter's value may be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    /// Any text.
    Text,
    /// `yes` or `no`.
    Flag,
    /// A number in these bounds.
    Number(i64, i64),
    /// A number of bytes; `1k`, `1mb` and the like are understood.
    Bytes(i64, i64),
    /// One of these words.
    Word(&'static [&'static str]),
}

#[derive(Clone, Copy, Debug)]
struct Parameter {
    name: &'static str,
    kind: Kind,
    default: &'static str,
    /// May be changed while the node runs.
    mutable: bool,
}

const fn mutable(name: &'static str, kind: Kind, default: &'static str) -> Parameter {
    Parameter { name, kind, default, mutable: true }
}

const fn fixed(name: &'static str, kind: Kind, default: &'static str) -> Parameter {
    Parameter { name, kind, default, mutable: false }
}

const LARGEST: i64 = i64::MAX;
const POLICIES: &[&str] = &["noeviction"];

/// In alphabetical order.
const PARAMETERS: &[Parameter] = &[
    fixed("aclfile", Kind::Text, ""),
    fixed("appendfilename", Kind::Text, "appendonly.aof"),
    fixed("appendfsync", Kind::Word(&["everysec"]), "everysec"),
    fixed("appendonly", Kind::Flag, "no"),
    fixed("bind", Kind::Text, "127.0.0.1"),
    fixed("cluster-enabled", Kind::Flag, "yes"),
    mutable("cluster-node-timeout", Kind::Number(0, LARGEST), "15000"),
    mutable("cluster-require-full-coverage", Kind::Flag, "yes"),
    fixed("databases", Kind::Number(1, 1), "1"),
    fixed("dir", Kind::Text, ""),
    fixed("io-threads", Kind::Number(1, 1024), "1"),
    mutable("latency-monitor-threshold", Kind::Number(0, LARGEST), "0"),
    mutable("latency-tracking", Kind::Flag, "no"),
    mutable("lazyfree-lazy-user-flush", Kind::Flag, "no"),
    mutable("maxclients", Kind::Number(1, u32::MAX as i64), "10000"),
    fixed("maxmemory", Kind::Bytes(0, LARGEST), "0"),
    mutable("maxmemory-policy", Kind::Word(POLICIES), "noeviction"),
    fixed("port", Kind::Number(0, 65535), "6379"),
    fixed("proto-max-bulk-len", Kind::Bytes(1024 * 1024, LARGEST), "536870912"),
    mutable("requirepass", Kind::Text, ""),
    fixed("save", Kind::Text, ""),
    mutable("slowlog-log-slower-than", Kind::Number(-1, LARGEST), "10000"),
    mutable("slowlog-max-len", Kind::Number(0, LARGEST), "128"),
    mutable("tcp-keepalive", Kind::Number(0, i32::MAX as i64), "300"),
    mutable("timeout", Kind::Number(0, i32::MAX as i64), "0"),
];

/// Why CONFIG SET refused.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ConfigError {
    /// No parameter of this name.
    Unknown,
    /// Not while the node runs.
    Immutable,
    /// The value does not fit; the text says how.
    Invalid(String),
}

/// The node's configuration as Redis clients see it.
#[derive(Debug)]
pub struct Config {
    values: RwLock<BTreeMap<&'static str, String>>,
}

impl Default for Config {
    fn default() -> Config {
        let values = PARAMETERS.iter().map(|parameter| (parameter.name, parameter.default.to_owned()));
        Config { values: RwLock::new(values.collect()) }
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

    /// Checks a change without making it, and returns the value in the form in which it will be told.
    ///
    /// # Errors
    /// There is no such parameter, it cannot change now, or not to this.
    pub fn check(&self, name: &[u8], value: &[u8]) -> Result<String, ConfigError> {
        let parameter = parameter(name).ok_or(ConfigError::Unknown)?;
        if !parameter.mutable {
            return Err(ConfigError::Immutable);
        }
        parameter.kind.canonical(value).map_err(ConfigError::Invalid)
    }

    /// Sets several parameters at once.
    ///
    /// # Panics
    /// On a name that [`Config::check`] would refuse.
    pub fn apply(&self, changes: Vec<(&'static str, String)>) {
        let mut values = self.values.write().unwrap_or_else(PoisonError::into_inner);
        for (name, value) in changes {
            assert!(values.insert(name, value).is_some(), "no parameter is named {name}");
        }
    }

    /// Sets any parameter, those that are fixed while the node runs included: for start-up.
    ///
    /// # Errors
    /// There is no such parameter, or the value does not fit.
    pub fn preset(&self, name: &str, value: &str) -> Result<(), ConfigError> {
        let parameter = parameter(name.as_bytes()).ok_or(ConfigError::Unknown)?;
        let value = parameter.kind.canonical(value.as_bytes()).map_err(ConfigError::Invalid)?;
        self.apply(vec![(parameter.name, value)]);
        Ok(())
    }

    fn values(&self) -> RwLockReadGuard<'_, BTreeMap<&'static str, String>> {
        self.values.read().unwrap_or_else(PoisonError::into_inner)
    }
}

fn parameter(name: &[u8]) -> Option<&'static Parameter> {
    PARAMETERS.iter().find(|parameter| parameter.name.as_bytes().eq_ignore_ascii_case(name))
}

impl Kind {
    fn canonical(self, value: &[u8]) -> Result<String, String> {
        let text = || String::from_utf8_lossy(value).into_owned();
        match self {
            Kind::Text => Ok(text()),
            Kind::Flag => match value.to_ascii_lowercase().as_slice() {
                b"yes" => Ok("yes".into()),
                b"no" => Ok("no".into()),
                _ => Err("argument must be 'yes' or 'no'".into()),
            },
            Kind::Number(least, most) => match crate::number::parse_i64(value) {
                None => Err("argument couldn't be parsed into an integer".into()),
                Some(number) => within(number, least, most),
            },
            Kind::Bytes(least, most) => match parse_bytes(value) {
                None => Err("argument must be a memory value".into()),
                Some(number) => within(number, least, most),
            },
            Kind::Word(words) => {
                match words.iter().find(|word| word.as_bytes().eq_ignore_ascii_case(value)) {
                    Some(word) => Ok((*word).into()),
                    None => Err(format!("argument(s) must be one of the following: {}", words.join(", "))),
                }
            }
        }
    }
}

fn within(number: i64, least: i64, most: i64) -> Result<String, String> {
    if (least..=most).contains(&number) {
        Ok(number.to_string())
    } else {
        Err(format!("argument must be between {least} and {most} inclusive"))
    }
}

/// A number of bytes with a unit: k, m and g are powers of 1000, kb, mb and gb of 1024.
fn parse_bytes(value: &[u8]) -> Option<i64> {
    let digits = value.iter().take_while(|byte| byte.is_ascii_digit()).count();
    let unit: i64 = match value[digits..].to_ascii_lowercase().as_slice() {
        b"" | b"b" => 1,
        b"k" => 1000,
        b"kb" => 1 << 10,
        b"m" => 1_000_000,
        b"mb" => 1 << 20,
        b"g" => 1_000_000_000,
        b"gb" => 1 << 30,
        _ => return None,
    };
    crate::number::parse_i64(&value[..digits])?.checked_mul(unit)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parameters_are_sorted_and_their_defaults_are_valid() {
        assert!(PARAMETERS.windows(2).all(|pair| pair[0].name < pair[1].name));
        for parameter in PARAMETERS {
            assert_eq!(
                parameter.kind.canonical(parameter.default.as_bytes()),
                Ok(parameter.default.to_owned())
            );
        }
    }

    #[test]
    fn check_refuses_what_does_not_fit() {
        let config = Config::default();
        assert_eq!(config.check(b"nothing", b"1"), Err(ConfigError::Unknown));
        assert_eq!(config.check(b"port", b"1"), Err(ConfigError::Immutable));
        assert!(matches!(config.check(b"timeout", b"x"), Err(ConfigError::Invalid(_))));
        assert!(matches!(config.check(b"timeout", b"-1"), Err(ConfigError::Invalid(_))));
        assert_eq!(config.check(b"TIMEOUT", b"7"), Ok("7".to_owned()));
        assert_eq!(parse_bytes(b"2kb"), Some(2048));
        assert_eq!(parse_bytes(b"2k"), Some(2000));
        assert_eq!(parse_bytes(b"k"), None);
    }

    #[test]
    fn apply_changes_what_is_told() {
        let config = Config::default();
        config.apply(vec![("timeout", "7".into()), ("requirepass", "secret".into())]);
        assert_eq!(config.matching(b"timeo*"), [("timeout", "7".to_owned())]);
        assert_eq!(config.password().as_deref(), Some("secret"));
    }
}
