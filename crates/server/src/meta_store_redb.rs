//! The cluster's metadata in a redb file: the embedded [`MetaStore`] of the first node's process.
//!
//! # Invariants
//! 1. A commit is on disk, whole, when [`RedbMetaStore::commit`] returns without an error. Two-phase commits: a damaged
//!    file is refused, never rolled back to an earlier map, whose ownership epochs have been given since (M1).
//! 2. A file that is there is never taken for a new store, however damaged, foreign or empty it is. A new store appears
//!    under its name only when it is whole.
//! 3. After a failed commit the file is opened anew before the next one, because redb refuses everything after an
//!    input or output error.
//!
//! The metadata is one JSON text under one key, after its CRC32C (redb checks its pages only after a crash), in the format
//! whose version is written beside it.
//!
//! # Ownership
//! The control thread of the process that runs the coordinator. redb locks the file against other processes.

use crc32c::crc32c;
use redb::{Database, Durability, ReadableDatabase, TableDefinition, TableError};
use sidle_cluster::{MetaError, MetaStore, Metadata};
use std::fs::{self, File, TryLockError};
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};

const TABLE: TableDefinition<'_, &str, &[u8]> = TableDefinition::new("sidle coordinator");
const FORMAT_KEY: &str = "format";
const METADATA_KEY: &str = "metadata";

/// The version of what is stored; one that is not known is refused.
const FORMAT: &[u8] = b"1";

/// A metadata store in one redb file.
#[derive(Debug)]
pub(crate) struct RedbMetaStore {
    path: PathBuf,
    /// `None` after a failed commit, until the file is opened anew.
    database: Option<Database>,
}

impl RedbMetaStore {
    /// Opens the store in this file, or creates it where there is no such file. Its folder must be there.
    pub(crate) fn open(path: &Path) -> Result<RedbMetaStore, MetaError> {
        let present = path.try_exists().map_err(|error| refused(path, &error))?;
        let database = if present { open_file(path)? } else { create_file(path)? };
        Ok(RedbMetaStore { path: path.to_owned(), database: Some(database) })
    }

    fn database(&mut self) -> Result<&Database, MetaError> {
        match self.database {
            Some(ref database) => Ok(database),
            None => Ok(self.database.insert(open_file(&self.path)?)),
        }
    }
}

impl MetaStore for RedbMetaStore {
    fn load(&mut self) -> Result<Option<Metadata>, MetaError> {
        let path = self.path.clone();
        read_metadata(&path, self.database()?)
    }

    fn commit(&mut self, metadata: &Metadata) -> Result<(), MetaError> {
        let text = serde_json::to_vec(metadata).expect("metadata has string keys only");
        let path = self.path.clone();
        let database = self.database()?;
        let written = guarded(&path, || write_metadata(database, Some(&text)));
        if written.is_err() {
            self.database = None;
        }
        written
    }
}

/// Opens a file that is there, and checks that it is one of ours.
fn open_file(path: &Path) -> Result<Database, MetaError> {
    // redb gives a file without content a new header; that it was ours once cannot be told from it.
    let length = fs::metadata(path).map_err(|error| refused(path, &error))?.len();
    if length == 0 {
        return Err(damaged(path, &"it is empty"));
    }
    let in_use = File::open(path).map_err(|error| refused(path, &error))?.try_lock();
    if matches!(in_use, Err(TryLockError::WouldBlock)) {
        return Err(used_elsewhere(path));
    }
    // Opening writes to the file, so that it is done to a copy first: what cannot be used stays as it was found.
    let copy = path.with_extension("redb.check");
    fs::copy(path, &copy).map_err(|error| refused(&copy, &error))?;
    let examined = open_checked(&copy, path).map(drop);
    fs::remove_file(&copy).map_err(|error| refused(&copy, &error))?;
    examined?;
    open_checked(path, path)
}

/// Opens a file, repairs what redb keeps in it for itself before that can fail a commit, and checks that the metadata is
/// ours and can be read. Errors name `original`.
fn open_checked(file: &Path, original: &Path) -> Result<Database, MetaError> {
    let database = guarded(original, || {
        let mut database = Database::open(file)?;
        database.check_integrity()?;
        Ok(database)
    })?;
    check(original, &database)?;
    Ok(database)
}

/// Whether the database is ours and can be read.
fn check(path: &Path, database: &Database) -> Result<(), MetaError> {
    match guarded(path, || read_key(database, FORMAT_KEY))?.as_deref() {
        Some(FORMAT) => read_metadata(path, database).map(|_| ()),
        Some(other) => Err(MetaError(format!(
            "{} has format {}, and this version of sidle reads format {}: start the version that wrote it",
            path.display(),
            String::from_utf8_lossy(other),
            String::from_utf8_lossy(FORMAT)
        ))),
        None => Err(damaged(path, &"it is a redb file of another program")),
    }
}

fn read_metadata(path: &Path, database: &Database) -> Result<Option<Metadata>, MetaError> {
    let Some(stored) = guarded(path, || read_key(database, METADATA_KEY))? else { return Ok(None) };
    let Some((checksum, text)) = stored.split_first_chunk() else {
        return Err(damaged(path, &"it is cut short"));
    };
    if u32::from_le_bytes(*checksum) != crc32c(text) {
        return Err(damaged(path, &"its checksum is wrong"));
    }
    serde_json::from_slice(text).map(Some).map_err(|error| damaged(path, &error))
}

/// Makes a new store under another name, then gives it its own, so that a crash leaves a whole file or none.
fn create_file(path: &Path) -> Result<Database, MetaError> {
    let fresh = path.with_extension("redb.new");
    let folder = path.parent().unwrap_or(Path::new("."));
    match fs::remove_file(&fresh) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(refused(&fresh, &error)),
        _ => {}
    }
    let database = guarded(&fresh, || Ok(Database::create(&fresh)?))?;
    guarded(&fresh, || write_metadata(&database, None))?;
    fs::rename(&fresh, path).map_err(|error| refused(path, &error))?;
    File::open(folder).and_then(|folder| folder.sync_all()).map_err(|error| refused(folder, &error))?;
    Ok(database)
}

fn read_key(database: &Database, key: &str) -> Result<Option<Vec<u8>>, redb::Error> {
    let transaction = database.begin_read()?;
    let table = match transaction.open_table(TABLE) {
        Err(TableError::TableDoesNotExist(_)) => return Ok(None),
        table => table?,
    };
    let value = table.get(key)?;
    Ok(value.map(|value| value.value().to_vec()))
}

/// Writes the format, and the metadata if there is any, in one transaction.
fn write_metadata(database: &Database, text: Option<&[u8]>) -> Result<(), redb::Error> {
    let mut transaction = database.begin_write()?;
    transaction.set_durability(Durability::Immediate)?;
    transaction.set_two_phase_commit(true);
    {
        let mut table = transaction.open_table(TABLE)?;
        table.insert(FORMAT_KEY, FORMAT)?;
        if let Some(text) = text {
            let checksum = crc32c(text).to_le_bytes();
            table.insert(METADATA_KEY, [&checksum[..], text].concat().as_slice())?;
        }
    }
    transaction.commit()?;
    Ok(())
}

/// Runs a step on the database. Damage makes redb return an error or, deep inside, panic; both are told the same way.
fn guarded<T>(path: &Path, step: impl FnOnce() -> Result<T, redb::Error>) -> Result<T, MetaError> {
    match catch_unwind(AssertUnwindSafe(step)) {
        Ok(Ok(value)) => Ok(value),
        Ok(Err(redb::Error::DatabaseAlreadyOpen)) => Err(used_elsewhere(path)),
        Ok(Err(redb::Error::Io(error))) if !tells_of_damage(error.kind()) => Err(refused(path, &error)),
        Ok(Err(error)) => Err(damaged(path, &error)),
        Err(_) => Err(damaged(path, &"it breaks the database's own checks")),
    }
}

/// Whether the error is the file's and not the system's.
fn tells_of_damage(kind: io::ErrorKind) -> bool {
    matches!(kind, io::ErrorKind::InvalidData | io::ErrorKind::UnexpectedEof)
}

fn refused(path: &Path, error: &io::Error) -> MetaError {
    MetaError(format!(
        "cannot use {}: {error}. Check the disk and the file's owner, then start again",
        path.display()
    ))
}

fn used_elsewhere(path: &Path) -> MetaError {
    MetaError(format!(
        "{} is in use by another process: two coordinators cannot share a data directory, stop the other one",
        path.display()
    ))
}

fn damaged(path: &Path, why: &dyn std::fmt::Display) -> MetaError {
    MetaError(format!(
        "{} is not readable cluster metadata ({why}). It was not overwritten. Put a copy of it back, taken while \
         this node was stopped and since the last change of the cluster. Without one, stop all nodes and start them \
         with empty data directories: a new cluster, without the old one's data",
        path.display()
    ))
}

#[cfg(test)]
mod tests {
    use super::*;
    use sidle_cluster::{ClusterId, HostPort, Incarnation, NodeInfo, TabletMap};
    use sidle_types::{MigrationId, NodeId};

    fn metadata(next: u64) -> Metadata {
        let first = NodeInfo {
            id: NodeId::from_bytes([7; 20]),
            incarnation: Incarnation(3),
            client_addr: HostPort::new("::1", 7000).unwrap(),
            bus_addr: HostPort::new("::1", 17000).unwrap(),
        };
        let new = Metadata::new(ClusterId::from_bits(9), TabletMap::founded_by(first));
        Metadata { next_migration: MigrationId(next), ..new }
    }

    fn stored(path: &Path, next: u64) {
        let mut store = RedbMetaStore::open(path).unwrap();
        store.commit(&metadata(next)).unwrap();
    }

    fn open_error(path: &Path) -> String {
        let outcome = RedbMetaStore::open(path).and_then(|mut store| store.load());
        outcome.unwrap_err().to_string()
    }

    #[test]
    fn what_is_committed_is_loaded() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("coordinator.redb");
        let mut store = RedbMetaStore::open(&path).unwrap();
        assert_eq!(store.load().unwrap(), None);
        for next in 1..=20 {
            store.commit(&metadata(next)).unwrap();
            assert_eq!(store.load().unwrap(), Some(metadata(next)));
        }
        drop(store);
        assert_eq!(RedbMetaStore::open(&path).unwrap().load().unwrap(), Some(metadata(20)));
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1, "nothing else is left behind");
    }

    #[test]
    fn a_copy_taken_after_a_commit_opens_as_after_a_crash() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("coordinator.redb");
        let mut store = RedbMetaStore::open(&path).unwrap();
        for next in 1..=5 {
            store.commit(&metadata(next)).unwrap();
            let copy = folder.path().join("copy.redb");
            fs::copy(&path, &copy).unwrap();
            assert_eq!(RedbMetaStore::open(&copy).unwrap().load().unwrap(), Some(metadata(next)));
        }
    }

    #[test]
    fn a_store_that_crashed_while_it_was_created_is_created() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("coordinator.redb");
        fs::write(path.with_extension("redb.new"), b"half").unwrap();
        stored(&path, 3);
        assert_eq!(RedbMetaStore::open(&path).unwrap().load().unwrap(), Some(metadata(3)));
    }

    #[test]
    fn a_second_process_is_told() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("coordinator.redb");
        let _held = RedbMetaStore::open(&path).unwrap();
        assert!(open_error(&path).contains("in use by another process"));
    }

    #[test]
    fn foreign_and_truncated_files_are_refused_and_left_alone() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("coordinator.redb");
        stored(&path, 5);
        let whole = fs::read(&path).unwrap();
        let mut cases: Vec<(String, Vec<u8>)> = vec![
            ("text".into(), b"not a database".to_vec()),
            ("much text".into(), b"not a database ".repeat(100_000)),
            ("zeroes".into(), vec![0; whole.len()]),
        ];
        for length in [0, 1, 8, 100, 319, 320, 512, 4095, 4096, 8192, whole.len() / 2, whole.len() - 1] {
            cases.push((format!("cut at {length}"), whole[..length].to_vec()));
        }
        for (name, content) in cases {
            let path = folder.path().join("damaged.redb");
            fs::write(&path, &content).unwrap();
            let error = open_error(&path);
            assert!(error.contains("damaged.redb is not readable cluster metadata"), "{name}: {error}");
            assert!(error.contains("It was not overwritten"), "{name}: {error}");
            assert!(fs::read(&path).unwrap() == content, "{name}: the file is as it was");
        }
    }

    #[test]
    fn a_damaged_byte_is_refused_or_harmless() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("coordinator.redb");
        stored(&path, 4);
        stored(&path, 5);
        let whole = fs::read(&path).unwrap();
        let used: Vec<usize> = (0..whole.len()).filter(|&at| whole[at] != 0).collect();
        for at in used.iter().copied().step_by(used.len() / 24) {
            let mut content = whole.clone();
            content[at] ^= 0x55;
            let path = folder.path().join("damaged.redb");
            fs::write(&path, &content).unwrap();
            match RedbMetaStore::open(&path).and_then(|mut store| store.load()) {
                Ok(loaded) => assert_eq!(loaded, Some(metadata(5)), "byte {at} brings an earlier state back"),
                Err(error) => {
                    assert!(error.to_string().contains("damaged.redb"), "{error}");
                    assert!(fs::read(&path).unwrap() == content, "byte {at}: {error}");
                }
            }
        }
    }

    #[test]
    fn a_database_of_another_program_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("coordinator.redb");
        drop(Database::create(&path).unwrap());
        assert!(open_error(&path).contains("another program"));
        let newer = folder.path().join("newer.redb");
        let database = Database::create(&newer).unwrap();
        let transaction = database.begin_write().unwrap();
        transaction.open_table(TABLE).unwrap().insert(FORMAT_KEY, b"2".as_slice()).unwrap();
        transaction.commit().unwrap();
        drop(database);
        assert!(open_error(&newer).contains("start the version that wrote it"));
    }

    #[test]
    fn metadata_that_breaks_an_invariant_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("coordinator.redb");
        drop(RedbMetaStore::open(&path).unwrap());
        let database = Database::open(&path).unwrap();
        let text =
            serde_json::to_string(&metadata(5)).unwrap().replace("0xffffffffffffffff", "0xfffffffffffffffe");
        write_metadata(&database, Some(text.as_bytes())).unwrap();
        drop(database);
        assert!(open_error(&path).contains("gap or overlap"));
    }
}
