//! The files of the node's log, as its copies are sent.

use sidle_log_files::file_name;
use sidle_node::ReadLog;
use sidle_wire::Place;
use std::collections::BTreeMap;
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::PathBuf;

/// The newest files stay open: one of them may be begun again under its number, and what was announced of the
/// former one is read of that.
const NEWEST: usize = 2;
/// So many older ones are open.
const OLDER: usize = 4;

/// The files.
pub(super) struct OwnLog {
    path: PathBuf,
    /// As the log's writer began them.
    newest: BTreeMap<u64, Option<File>>,
    older: BTreeMap<u64, File>,
    /// The last file of earlier processes: nobody begins it again.
    before: u64,
}

impl OwnLog {
    /// The files in this folder, the last of which this start found.
    pub(super) fn new(path: PathBuf, before: u64) -> OwnLog {
        OwnLog { path, newest: BTreeMap::new(), older: BTreeMap::new(), before }
    }

    /// The log's writer has begun this file, perhaps again. Without a handle it cannot be read.
    pub(super) fn begun(&mut self, number: u64, file: Option<File>) {
        self.newest.insert(number, file);
        while self.newest.len() > NEWEST {
            self.newest.pop_first();
        }
    }

    /// A file is gone.
    pub(super) fn removed(&mut self, number: u64) {
        self.older.retain(|&other, _| other > number);
    }

    fn file(&mut self, number: u64) -> Option<&File> {
        if let Some(file) = self.newest.get(&number) {
            return file.as_ref();
        }
        // A file is never begun again once another one follows it.
        let is_settled =
            number <= self.before || self.newest.keys().next().is_some_and(|&first| number < first);
        if !is_settled {
            return None;
        }
        if !self.older.contains_key(&number) {
            let file = File::open(self.path.join(file_name(number))).ok()?;
            if self.older.len() >= OLDER {
                self.older.pop_first();
            }
            self.older.insert(number, file);
        }
        self.older.get(&number)
    }
}

impl ReadLog for OwnLog {
    fn read(&mut self, at: Place, bytes: u64) -> Option<Vec<u8>> {
        let file = self.file(at.file)?;
        let mut read = vec![0; usize::try_from(bytes).ok()?];
        file.read_exact_at(&mut read, at.at).ok()?;
        Some(read)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn begin(path: &std::path::Path, number: u64, bytes: &[u8]) -> Option<File> {
        let name = path.join(file_name(number));
        let _ = std::fs::remove_file(&name);
        std::fs::write(&name, bytes).unwrap();
        Some(File::open(name).unwrap())
    }

    #[test]
    fn a_file_that_is_begun_again_is_read_as_it_was_announced() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path();
        let mut log = OwnLog::new(path.to_owned(), 1);
        begin(path, 1, b"old");
        let read = |log: &mut OwnLog, file| log.read(Place { file, at: 0 }, 3);
        assert_eq!(read(&mut log, 1), Some(b"old".to_vec()));
        assert_eq!(read(&mut log, 2), None, "nobody has begun it");
        log.begun(2, begin(path, 2, b"one"));
        let again = begin(path, 2, b"two");
        assert_eq!(read(&mut log, 2), Some(b"one".to_vec()), "the writer has not reported the other");
        log.begun(2, again);
        assert_eq!(read(&mut log, 2), Some(b"two".to_vec()));
        log.begun(3, None);
        assert_eq!(read(&mut log, 3), None, "there is no handle of it");
        log.begun(4, begin(path, 4, b"fou"));
        log.begun(5, begin(path, 5, b"fiv"));
        assert_eq!(read(&mut log, 2), Some(b"two".to_vec()), "its number is settled");
        std::fs::remove_file(path.join(file_name(2))).unwrap();
        assert_eq!(read(&mut log, 2), Some(b"two".to_vec()), "it is open");
        log.removed(2);
        assert_eq!(read(&mut log, 2), None);
        assert_eq!(log.read(Place { file: 5, at: 1 }, 3), None, "it is shorter");
    }
}
