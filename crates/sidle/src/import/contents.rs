//! What a file has: it is read to its end, and its checksum is right.

use super::{ImportArguments, display, open, unreadable};
use serde_json::{Value as Json, json};
use sidle_bench::words::{bytes, counted};
use sidle_cli::exit::Failure;
use sidle_rdb::FileValue;
use std::collections::BTreeMap;
use std::fmt;

/// Keys are so many from one showing of the progress to the next.
pub(super) const SHOWN_EVERY: u64 = 1 << 10;

/// What a file has.
#[derive(Debug)]
pub(super) struct Contents {
    version: u16,
    pub(super) file_bytes: u64,
    /// Functions, and data of modules beside keys.
    passed_over: u64,
    databases: BTreeMap<u64, Database>,
}

#[derive(Debug, Default)]
struct Database {
    keys: u64,
    with_deadline: u64,
    /// Keys of types that Sidle does not have.
    unknown: BTreeMap<&'static str, u64>,
}

/// Reads and checks the whole file.
pub(super) fn of(arguments: &ImportArguments) -> Result<Contents, Failure> {
    let (mut reader, file_bytes) = open(arguments)?;
    let line = display(arguments);
    let mut databases: BTreeMap<u64, Database> = BTreeMap::new();
    let mut keys = 0_u64;
    while let Some(key) = reader.next_key().map_err(unreadable(arguments))? {
        let database = databases.entry(key.database).or_default();
        database.keys += 1;
        database.with_deadline += u64::from(key.expires_at_ms.is_some());
        if let FileValue::Other(name) = key.value {
            *database.unknown.entry(name).or_default() += 1;
        }
        keys += 1;
        if keys.is_multiple_of(SHOWN_EVERY) {
            let part = reader.bytes_read() as f64 / file_bytes.max(1) as f64;
            line.show("checking the file", part, &counted(keys, "key"));
        }
    }
    let (version, passed_over) = (reader.version(), reader.passed_over());
    Ok(Contents { version, file_bytes, passed_over, databases })
}

impl Contents {
    /// The database to import.
    pub(super) fn database(&self, wanted: Option<u64>) -> Result<u64, Failure> {
        let there: Vec<u64> = self.databases.keys().copied().collect();
        let named = || there.iter().map(u64::to_string).collect::<Vec<_>>().join(", ");
        match (wanted, &there[..]) {
            (Some(wanted), _) if self.databases.contains_key(&wanted) => Ok(wanted),
            (Some(wanted), []) => Ok(wanted),
            (Some(wanted), _) => Err(Failure::refused(format!(
                "the file has no keys in database {wanted}: it has {}",
                named()
            ))),
            (None, []) => Ok(0),
            (None, &[one]) => Ok(one),
            (None, _) => Err(Failure::refused(format!(
                "the file has keys in the databases {}, and a cluster has one: choose with --database",
                named()
            ))),
        }
    }

    pub(super) fn keys_of(&self, database: u64) -> u64 {
        self.databases.get(&database).map_or(0, |database| database.keys)
    }

    /// Nothing is left behind unless that was asked for.
    pub(super) fn ensure_known(&self, database: u64, skip_unknown: bool) -> Result<(), Failure> {
        let unknown = self.databases.get(&database).map(Database::unknown_text).unwrap_or_default();
        match unknown.is_empty() || skip_unknown {
            true => Ok(()),
            false => Err(Failure::refused(format!(
                "the file has {unknown}, which Sidle does not have: --skip-unknown imports the rest"
            ))),
        }
    }

    pub(super) fn json(&self) -> Json {
        let databases = self.databases.iter().map(|(number, database)| {
            json!({
                "database": number, "keys": database.keys, "with_deadline": database.with_deadline,
                "unknown": database.unknown,
            })
        });
        json!({
            "version": self.version, "file_bytes": self.file_bytes, "passed_over": self.passed_over,
            "databases": databases.collect::<Vec<_>>(),
        })
    }
}

impl Database {
    fn unknown_text(&self) -> String {
        let texts = self.unknown.iter().map(|(name, &count)| match count {
            1 => format!("1 {name}"),
            _ => format!("{count} of type {name}"),
        });
        texts.collect::<Vec<_>>().join(", ")
    }
}

impl fmt::Display for Contents {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "version {}, {}", self.version, bytes(self.file_bytes as f64))?;
        for (number, database) in &self.databases {
            let (keys, deadlines) = (counted(database.keys, "key"), database.with_deadline);
            write!(f, "; database {number}: {keys}, {deadlines} with a deadline")?;
            if !database.unknown.is_empty() {
                write!(f, ", among them {}, which Sidle does not have", database.unknown_text())?;
            }
        }
        if self.passed_over > 0 {
            write!(f, "; {} of functions or modules beside keys", counted(self.passed_over, "piece"))?;
        }
        Ok(())
    }
}
