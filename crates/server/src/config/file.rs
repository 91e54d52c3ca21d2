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
        /// The system's error.
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
        /// What is wrong, and which values work.
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
    /// Each with the values that it takes.
    pub(super) settings: &'static [(&'static str, &'static str)],
}

impl Known {
    /// The setting's names.
    pub(super) fn keys(&self) -> impl Iterator<Item = &'static str> {
        self.settings.iter().map(|(key, _)| *key)
    }

    /// The values that a setting takes.
    fn allowed(section: &str, key: &str) -> Option<&'static str> {
        let known = KNOWN.iter().find(|known| known.section == section)?;
        known.settings.iter().find(|(known, _)| *known == key).map(|(_, allowed)| *allowed)
    }
}

/// Every setting there is, in the order of the example file.
pub(super) const KNOWN: [Known; 7] = [
    Known {
        section: "node",
        settings: &[
            ("dir", "a path in quotes, or \"auto\""),
            ("join", "\"HOST:PORT\", or \"\" to join nobody"),
            ("metadata", "\"etcd://HOST:PORT/NAME\", or \"\" for a file in `dir`"),
            ("cpu_list", "numbers of processors in quotes, such as \"0-3,8\", or \"auto\""),
            ("workers", "a whole number from 1 to 512, or \"auto\""),
            ("movers", "a whole number from 1 to 64"),
        ],
    },
    Known {
        section: "network",
        settings: &[
            ("bind", "an IP address in quotes, such as \"127.0.0.1\""),
            ("port", "a whole number from 0 to 65535"),
            ("bus_port", "a whole number from 0 to 65535, or \"auto\""),
            ("advertise", "a host name or an address in quotes, or \"auto\""),
            ("backlog", "a whole number from 0 to 4294967295"),
        ],
    },
    Known {
        section: "memory",
        settings: &[("max_memory", "a size such as \"4gb\", or \"auto\""), ("preallocate", "true or false")],
    },
    Known {
        section: "durability",
        settings: &[
            ("mode", "\"none\", \"disk\", or \"replicated=R\", R from 1 to 8"),
            ("fsync", "\"everysec\" or \"always\""),
            ("least_copies", "a whole number"),
            ("takeover_after", "\"off\", or a time such as \"5s\", from \"1s\" to \"24h\""),
            ("file", "a size such as \"64mb\""),
            ("clean_above", "a size such as \"256mb\""),
            ("clean_percent", "a whole number of percent"),
        ],
    },
    Known {
        section: "security",
        settings: &[
            ("password", "a text in quotes; \"\" for no password"),
            ("users_file", "a path in quotes; \"\" for none"),
            ("protected_mode", "true or false"),
            ("cluster_secret_file", "a path in quotes; \"\" for none"),
            ("debug_commands", "true or false"),
        ],
    },
    Known {
        section: "limits",
        settings: &[
            ("max_clients", "a whole number, at least 1"),
            ("query_buffer", "a size such as \"1gb\""),
            ("arguments", "a whole number from 1 to 4294967295"),
            ("value", "a size such as \"512mb\""),
            ("output_buffer", "a size such as \"1gb\"; 0 for no limit"),
            ("client_memory", "a size such as \"1gb\", 0 for no limit, or \"auto\""),
            ("idle_timeout", "a whole number of seconds; 0 for never"),
            ("password_timeout", "a whole number of seconds; 0 for no limit"),
        ],
    },
    Known { section: "log", settings: &[("level", "\"error\", \"warn\", \"info\", \"debug\" or \"trace\"")] },
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
        let what = setting.and_then(|at| at.refusal(text)).unwrap_or_else(|| error.message().to_owned());
        malformed(error.span(), what)
    })
}

/// Where a setting, given without its section, stands in a file.
pub(super) fn line_of_setting(text: &str, setting: &str) -> Option<usize> {
    let table = DeTable::parse(text).ok()?;
    table.get_ref().values().find_map(|section| {
        let DeValue::Table(keys) = section.get_ref() else { return None };
        let (key, _) = keys.iter().find(|(key, _)| key.get_ref().as_ref() == setting)?;
        Some(line_of(text, key.span().start))
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
        let Some(known) = known else { return Err(unknown(section.span(), name.to_owned())) };
        let DeValue::Table(keys) = value.get_ref() else {
            return Err(ConfigError::Malformed {
                origin: origin.to_owned(),
                line: line_of(text, section.span().start),
                what: format!(
                    "'{name}' is a section: give it a line of its own, [{name}], and its settings below"
                ),
            });
        };
        for key in keys.keys() {
            let key_name: &str = key.get_ref();
            if !known.keys().any(|known| known == key_name) {
                return Err(unknown(key.span(), format!("{name}.{key_name}")));
            }
        }
    }
    Ok(())
}

/// A setting in a file.
struct SettingAt {
    section: String,
    key: String,
    /// Where its value stands.
    value: Range<usize>,
}

impl SettingAt {
    /// What is wrong with its value, and which values work. The value is shown unless it may be a secret.
    fn refusal(&self, text: &str) -> Option<String> {
        let SettingAt { section, key, value } = self;
        let allowed = Known::allowed(section, key)?;
        let written =
            text.get(value.clone()).filter(|written| section != "security" && !written.contains('\n'));
        let written = written.map_or_else(String::new, |written| format!(" = {written}"));
        Some(format!("setting '{section}.{key}'{written}: give {allowed}"))
    }
}

/// The setting whose value stands at `span`.
fn setting_at(table: &DeTable<'_>, span: &Range<usize>) -> Option<SettingAt> {
    let covers =
        |value: &Spanned<DeValue<'_>>| value.span().start <= span.start && span.end <= value.span().end;
    table.iter().find_map(|(section, value)| {
        let DeValue::Table(keys) = value.get_ref() else { return None };
        let (key, value) = keys.iter().find(|(_, value)| covers(value))?;
        let (section, key) = (section.get_ref().to_string(), key.get_ref().to_string());
        Some(SettingAt { section, key, value: value.span() })
    })
}

fn line_of(text: &str, offset: usize) -> usize {
    text.bytes().take(offset).filter(|&byte| byte == b'\n').count() + 1
}

/// The known setting or section most similar to `key`, if any. A key without its section, and a
/// setting under the wrong section, are found too.
fn nearest(key: &str) -> Option<String> {
    let bare = key.rsplit('.').next().unwrap_or(key);
    let full_names = KNOWN.iter().flat_map(|known| {
        known.keys().map(move |name| {
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
    fn a_wrong_value_names_line_and_setting_and_what_would_do() {
        for (text, told) in [
            (
                "[network]\nport = \"many\"",
                "2: setting 'network.port' = \"many\": give a whole number from 0 to 65535",
            ),
            (
                "[network]\n\nport = 70000",
                "3: setting 'network.port' = 70000: give a whole number from 0 to 65535",
            ),
            (
                "[memory]\nmax_memory = \"4xb\"",
                "2: setting 'memory.max_memory' = \"4xb\": give a size such as \"4gb\"",
            ),
            (
                "[memory]\npreallocate = \"yes\"",
                "2: setting 'memory.preallocate' = \"yes\": give true or false",
            ),
            (
                "[node]\nworkers = 1.5",
                "2: setting 'node.workers' = 1.5: give a whole number from 1 to 512, or \"auto\"",
            ),
            ("[log]\nlevel = \"loud\"", "2: setting 'log.level' = \"loud\": give \"error\", \"warn\","),
            ("[security]\npassword = 12345", "2: setting 'security.password': give a text in quotes"),
            ("node = 5", "1: 'node' is a section: give it a line of its own, [node], and its settings below"),
        ] {
            let refused = refusal(text);
            assert!(refused.starts_with(&format!("sidle.toml, line {told}")), "{refused}");
        }
    }

    #[test]
    fn no_setting_is_refused_in_the_words_of_the_library() {
        for known in KNOWN {
            for key in known.keys() {
                for wrong in ["{}", "[[1]]", "1979-05-27", "-1.5"] {
                    let refused = refusal(&format!("[{}]\n{key} = {wrong}\n", known.section));
                    let named = format!("sidle.toml, line 2: setting '{}.{key}'", known.section);
                    assert!(refused.starts_with(&named) && refused.contains(": give "), "{refused}");
                }
            }
        }
    }

    /// The first numbers in the words for what is allowed, if it is a range of whole numbers.
    fn range_in(allowed: &str) -> Option<(u64, u64)> {
        let (least, rest) = allowed.strip_prefix("a whole number from ")?.split_once(" to ")?;
        let most = rest.split(|c: char| !c.is_ascii_digit()).next()?;
        Some((least.parse().ok()?, most.parse().ok()?))
    }

    /// A refusal names the values that would do: up to both ends of the range, and none beyond.
    #[test]
    fn the_ranges_that_are_named_are_those_that_are_taken() {
        let mut ranges = 0;
        for Known { section, settings } in KNOWN {
            for (key, (least, most)) in
                settings.iter().filter_map(|(key, allowed)| Some((key, range_in(allowed)?)))
            {
                // By itself it would lie above the port.
                let beside = if *key == "port" { "bus_port = 7\n" } else { "" };
                let is_taken = |value: i128| {
                    let text = format!("[{section}]\n{beside}{key} = {value}\n");
                    parse(&text, "sidle.toml").and_then(|config| config.validate()).is_ok()
                };
                let (least, most) = (i128::from(least), i128::from(most));
                let taken = [least - 1, least, most, most + 1].map(is_taken);
                assert_eq!(taken, [false, true, true, false], "{section}.{key}: from {least} to {most}");
                ranges += 1;
            }
        }
        assert_eq!(ranges, 6);
    }

    #[test]
    fn a_setting_is_found_again() {
        assert_eq!(line_of_setting("[node]\n\nworkers = 0\n", "workers"), Some(3));
        assert_eq!(line_of_setting("[node]\nmovers = 1\n", "workers"), None);
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
