//! Reading `sidle.toml` with errors that name the setting, the line and the nearest known setting.

use super::Config;
use serde::Deserialize;
use std::ops::Range;
use std::path::PathBuf;
use toml::Spanned;
use toml::de::{DeTable, DeValue};

/// Why settings were refused.
#[derive(Debug, thiserror::Error)]
pub enum ConfigError {
    /// The file could not be read.
    #[error("cannot read {}: {error}", path.display())]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// What the system said.
        error: std::io::Error,
    },
    /// The file is not TOML, or a value has the wrong type.
    #[error("{origin}, line {line}: {what}")]
    Malformed {
        /// The file.
        origin: String,
        /// Counted from 1.
        line: usize,
        /// What is wrong with it.
        what: String,
    },
    /// A setting that does not exist.
    #[error("{origin}, line {line}: unknown setting '{key}'{}", suggestion(nearest))]
    Unknown {
        /// The file.
        origin: String,
        /// Counted from 1.
        line: usize,
        /// The setting as written, with its section.
        key: String,
        /// The most similar setting that exists.
        nearest: Option<String>,
    },
    /// A value that cannot work.
    #[error("setting '{setting}': {why}")]
    Invalid {
        /// The setting without its section, as the flag is called.
        setting: &'static str,
        /// What is wrong and what would do.
        why: String,
    },
}

fn suggestion(nearest: &Option<String>) -> String {
    match nearest {
        Some(nearest) => format!(": did you mean '{nearest}'?"),
        None => "; `sidle server --print-config` lists all settings".to_owned(),
    }
}

/// The settings of one section.
pub(super) struct Known {
    pub(super) section: &'static str,
    pub(super) keys: &'static [&'static str],
}

/// Every setting there is, in the order of the example file.
pub(super) const KNOWN: [Known; 6] = [
    Known { section: "node", keys: &["dir", "join", "cpu_list", "workers", "movers"] },
    Known { section: "network", keys: &["bind", "port", "bus_port", "advertise", "backlog"] },
    Known { section: "memory", keys: &["max_memory", "preallocate"] },
    Known { section: "security", keys: &["password", "cluster_secret_file"] },
    Known {
        section: "limits",
        keys: &[
            "max_clients",
            "query_buffer",
            "arguments",
            "value",
            "output_buffer",
            "client_memory",
            "idle_timeout",
            "password_timeout",
        ],
    },
    Known { section: "log", keys: &["level"] },
];

pub(super) fn parse(text: &str, origin: &str) -> Result<Config, ConfigError> {
    let malformed = |span: Option<Range<usize>>, what: String| ConfigError::Malformed {
        origin: origin.to_owned(),
        line: line_of(text, span.map_or(0, |span| span.start)),
        what,
    };
    let table = DeTable::parse(text).map_err(|error| malformed(error.span(), error.message().to_owned()))?;
    refuse_unknown(text, origin, table.get_ref())?;
    let deserializer = toml::Deserializer::parse(text)
        .map_err(|error| malformed(error.span(), error.message().to_owned()))?;
    Config::deserialize(deserializer).map_err(|error| {
        let setting = error.span().and_then(|span| setting_at(table.get_ref(), &span));
        let what = match setting {
            Some(setting) => format!("setting '{setting}': {}", error.message()),
            None => error.message().to_owned(),
        };
        malformed(error.span(), what)
    })
}

fn refuse_unknown(text: &str, origin: &str, table: &DeTable<'_>) -> Result<(), ConfigError> {
    let unknown = |span: Range<usize>, key: String| {
        let nearest = nearest(&key);
        ConfigError::Unknown { origin: origin.to_owned(), line: line_of(text, span.start), key, nearest }
    };
    for (section, value) in table {
        let name: &str = section.get_ref();
        let known = KNOWN.iter().find(|known| known.section == name);
        let (Some(known), DeValue::Table(keys)) = (known, value.get_ref()) else {
            return Err(unknown(section.span(), name.to_owned()));
        };
        for key in keys.keys() {
            let key_name: &str = key.get_ref();
            if !known.keys.contains(&key_name) {
                return Err(unknown(key.span(), format!("{name}.{key_name}")));
            }
        }
    }
    Ok(())
}

/// The setting whose value stands at `span`.
fn setting_at(table: &DeTable<'_>, span: &Range<usize>) -> Option<String> {
    let covers =
        |value: &Spanned<DeValue<'_>>| value.span().start <= span.start && span.end <= value.span().end;
    table.iter().find_map(|(section, value)| {
        let DeValue::Table(keys) = value.get_ref() else { return None };
        let (key, _) = keys.iter().find(|(_, value)| covers(value))?;
        Some(format!("{}.{}", section.get_ref(), key.get_ref()))
    })
}

fn line_of(text: &str, offset: usize) -> usize {
    text.bytes().take(offset).filter(|&byte| byte == b'\n').count() + 1
}

/// The known setting or section most like `key`, if any is like it at all. A key without its section, and a
/// setting under the wrong section, are found too.
fn nearest(key: &str) -> Option<String> {
    let bare = key.rsplit('.').next().unwrap_or(key);
    let full_names = KNOWN.iter().flat_map(|known| {
        known.keys.iter().map(move |name| {
            let full = format!("{}.{name}", known.section);
            let distance = edit_distance(key, &full).min(edit_distance(bare, name));
            (distance, full)
        })
    });
    let sections = KNOWN.iter().map(|known| (edit_distance(key, known.section), known.section.to_owned()));
    let (distance, name) = full_names.chain(sections).min_by_key(|(distance, _)| *distance)?;
    (distance <= 1 + bare.len() / 3).then_some(name)
}

/// Levenshtein's distance over bytes; names are ASCII.
fn edit_distance(left: &str, right: &str) -> usize {
    let mut row: Vec<usize> = (0..=right.len()).collect();
    for (i, a) in left.bytes().enumerate() {
        let mut diagonal = row[0];
        row[0] = i + 1;
        for (j, b) in right.bytes().enumerate() {
            let replaced = diagonal + usize::from(a != b);
            diagonal = row[j + 1];
            row[j + 1] = replaced.min(diagonal + 1).min(row[j] + 1);
        }
    }
    row[right.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refusal(text: &str) -> String {
        parse(text, "sidle.toml").unwrap_err().to_string()
    }

    #[test]
    fn unknown_key_names_key_line_and_nearest() {
        let refused = refusal("[network]\nbind = \"127.0.0.1\"\nprot = 1\n");
        assert_eq!(
            refused,
            "sidle.toml, line 3: unknown setting 'network.prot': did you mean 'network.port'?"
        );
    }

    #[test]
    fn key_in_the_wrong_section_is_pointed_to_the_right_one() {
        assert!(refusal("[node]\nport = 1\n").ends_with("did you mean 'network.port'?"));
        assert!(refusal("max_memory = 1\n").ends_with("did you mean 'memory.max_memory'?"));
        assert!(refusal("[nodes]\n").ends_with("did you mean 'node'?"));
    }

    #[test]
    fn key_like_nothing_points_to_the_list() {
        assert!(refusal("[node]\nappendfsync = 1\n").ends_with("--print-config` lists all settings"));
    }

    #[test]
    fn wrong_type_names_setting_and_line() {
        let refused = refusal("\n[network]\nport = \"many\"\n");
        assert!(refused.starts_with("sidle.toml, line 3: setting 'network.port': "), "{refused}");
        let refused = refusal("[memory]\nmax_memory = \"4xb\"\n");
        assert!(refused.contains("line 2") && refused.contains("'4xb' is not a size"), "{refused}");
        let refused = refusal("[network]\nport = 70000\n");
        assert!(refused.contains("network.port"), "{refused}");
    }

    #[test]
    fn broken_toml_names_the_line() {
        assert!(refusal("[node]\ndir = \n").starts_with("sidle.toml, line 2: "));
    }

    #[test]
    fn values_override_defaults() {
        let config = parse("[memory]\nmax_memory = \"64mb\"\n[node]\nworkers = 3\n", "t").unwrap();
        assert_eq!(config.memory.max_memory, super::super::Auto::Value(super::super::Size(64 << 20)));
        assert_eq!(config.worker_count(), 3);
    }
}
