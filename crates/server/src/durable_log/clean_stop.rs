//! Where the log ended when the node was stopped: `clean-stop.json`, beside the log's folder.
//!
//! A start whose log ends there still waits for none of its copies (Y14 of `sidle-log-copies`). The file lies
//! outside the folder, so that an older state of the folder, put back alone, does not bring its own along.

use super::folder::Folder;
use serde::{Deserialize, Serialize};
use sidle_types::LogId;
use sidle_wire::Place;
use std::io;
use std::path::{Path, PathBuf};

const NAME: &str = "clean-stop.json";

#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Kept {
    log: String,
    file: u64,
    bytes: u64,
}

/// The file.
#[derive(Clone, Debug)]
pub(crate) struct CleanStop {
    folder: PathBuf,
}

impl CleanStop {
    /// That of the log in this folder.
    pub(crate) fn of(log: &Path) -> CleanStop {
        CleanStop { folder: log.parent().unwrap_or(Path::new(".")).to_owned() }
    }

    /// Where the last stop closed this log. One that cannot be read is as none.
    pub(super) fn read(&self, log: LogId) -> Option<Place> {
        let bytes = std::fs::read(self.folder.join(NAME)).ok()?;
        let kept: Kept = serde_json::from_slice(&bytes).ok()?;
        (kept.log == log.to_string()).then_some(Place { file: kept.file, at: kept.bytes })
    }

    /// This log is closed here, and synced.
    pub(super) fn keep(&self, log: LogId, (file, bytes): (u64, u64)) {
        let kept = Kept { log: log.to_string(), file, bytes };
        let json = serde_json::to_vec_pretty(&kept).expect("it is plain data");
        let result = Folder::open(&self.folder).and_then(|folder| folder.keep(NAME, &json));
        if let Err(error) = result {
            tracing::warn!("{NAME} cannot be written, and the next start may wait for copies: {error}");
        }
    }

    /// The log goes on.
    pub(super) fn forget(&self) -> io::Result<()> {
        match std::fs::remove_file(self.folder.join(NAME)) {
            Ok(()) => Folder::open(&self.folder)?.sync_names(),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
            Err(error) => Err(error),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_of_its_log_only_and_gone_once_forgotten() {
        let folder = tempfile::tempdir().unwrap();
        let stop = CleanStop::of(&folder.path().join("durable-log"));
        let (log, end) = (LogId([7; 16]), Place { file: 3, at: 96 });
        stop.forget().unwrap();
        assert_eq!(stop.read(log), None);
        stop.keep(log, (3, 96));
        assert_eq!((stop.read(log), stop.read(LogId([8; 16]))), (Some(end), None));
        stop.forget().unwrap();
        assert_eq!(stop.read(log), None);
        std::fs::write(folder.path().join(NAME), "{").unwrap();
        assert_eq!(stop.read(log), None);
    }
}
