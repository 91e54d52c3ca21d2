//! The measuring program: runs of two builds cannot be compared.

use serde::{Deserialize, Serialize};
use std::fmt;
use std::path::Path;
use xxhash_rust::xxh3::xxh3_64;

/// A build of the program whose `demo` is one run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Program {
    /// Its version.
    version: String,
    /// The XXH3 of its file, in hexadecimal digits.
    build: String,
}

impl Program {
    /// The one in this file, with this program's version.
    ///
    /// # Errors
    /// The file cannot be read.
    pub fn at(path: &Path) -> std::io::Result<Program> {
        let build = format!("{:016x}", xxh3_64(&std::fs::read(path)?));
        Ok(Program { version: env!("CARGO_PKG_VERSION").to_owned(), build })
    }
}

impl fmt::Display for Program {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} (build {})", self.version, self.build)
    }
}
