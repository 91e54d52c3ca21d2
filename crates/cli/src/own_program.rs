//! This program's file, from which nodes and runs are started.

use crate::exit::Failure;
use std::path::{Path, PathBuf};

/// This program's path.
///
/// # Errors
/// The system does not report it, or the file has gone since the program was started.
pub fn own_program() -> Result<PathBuf, Failure> {
    let path = std::env::current_exe().map_err(|error| {
        Failure::refused(format!(
            "the system does not say where this program is, to start nodes from: {error}"
        ))
    })?;
    there(&path)?;
    Ok(path)
}

fn there(path: &Path) -> Result<(), Failure> {
    if path.is_file() {
        return Ok(());
    }
    // The kernel appends a word to the name of a removed file.
    let path = path.display().to_string();
    let path = path.strip_suffix(" (deleted)").unwrap_or(&path);
    Err(Failure::refused(format!(
        "{path} is not the file any more that this program was started from, and nodes are started from it: start \
         the program again"
    )))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_without_its_file_says_so() {
        there(&own_program().expect("a test is a file")).expect("it is there");
        let failure = there(Path::new("/nowhere/sidle (deleted)")).expect_err("there is no such file");
        assert!(failure.message.starts_with("/nowhere/sidle is not the file"), "{}", failure.message);
    }
}
