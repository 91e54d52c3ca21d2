//! The store: opening, loading, committing.
//!
//! # Invariants
//! 1. A commit is on disk, whole, when [`RedbMetaStore::commit`] returns without an error. Two-phase commits:
//!    a damaged store is refused, never rolled back to an earlier map, whose ownership epochs have been given
//!    since (M1).
//! 2. What is there is never taken for a new store, however damaged, foreign or empty it is. A new store
//!    appears under its name only when it is whole.
//! 3. Nothing is built on bytes of an earlier incarnation, or from before a failed commit: opening copies
//!    what it reads, makes sure of the copy, and puts it in the original's place once every byte of it is
//!    synced. What a process reads back may stand in the system's memory and nowhere else: after a sync that
//!    failed the system may take what it could not write for written, and the next sync succeeds without it.
//!    So nothing hangs on which pages a repair trusts.
//! 4. After a failed commit the store is opened anew before the next one, because redb refuses everything
//!    after an input or output error.
//!
//! 5. A commit goes to the file that the next start opens, or is refused: a file that was removed while it is
//!    open takes every write and is gone with the process. A store that has gone is written anew, from what
//!    is to be committed; one that somebody put in its place is left alone.
//!
//! The metadata is two JSON texts, each after its CRC32C (redb checks its pages only after a crash): the
//! migrations that are over, which most commits leave as they are and do not write again, and all the rest.
//! The version of the format is written beside them. The first version had everything in the one text; it is
//! read, and written anew by the next commit.
//!
//! # Ownership
//! The control thread of the process that runs the coordinator. redb locks a file against other processes.

use crate::medium::{FileMedium, Medium, Whereabouts};
use crc32c::crc32c;
use redb::{Database, Durability, ReadableDatabase, TableDefinition, TableError};
use serde::Serialize;
use serde::de::DeserializeOwned;
use sidle_cluster::{MetaError, MetaStore, Metadata, MigrationRecord, Place};
use std::collections::VecDeque;
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::sync::Arc;

const TABLE: TableDefinition<'_, &str, &[u8]> = TableDefinition::new("sidle coordinator");
const FORMAT_KEY: &str = "format";
const METADATA_KEY: &str = "metadata";
const HISTORY_KEY: &str = "history";

/// The version of what is stored; one that is not known is refused.
const FORMAT: &[u8] = b"2";
/// The version before, which had no history apart.
const FORMAT_WITHOUT_HISTORY: &[u8] = b"1";

/// How much of the store is kept in memory: all of it, as a rule.
const CACHE_BYTES: usize = 1 << 20;

/// A metadata store in one redb database.
#[derive(Debug)]
pub struct RedbMetaStore<M: Medium = FileMedium> {
    medium: M,
    /// `None` after a failed commit, until the store is opened anew.
    database: Option<Database>,
    /// What was committed last of the migrations that are over; `None` when that is not known.
    history: Option<History>,
}

/// Migrations that are over.
type History = VecDeque<Arc<MigrationRecord>>;

impl RedbMetaStore {
    /// Opens the store in this file, or creates it where there is no such file. Its folder must be there.
    pub fn open(path: &Path) -> Result<RedbMetaStore, MetaError> {
        RedbMetaStore::open_on(FileMedium::new(path))
    }
}

impl<M: Medium> RedbMetaStore<M> {
    /// Opens the store on this medium, or creates it where there is none.
    pub fn open_on(medium: M) -> Result<RedbMetaStore<M>, MetaError> {
        let database = open_or_create(&medium)?;
        Ok(RedbMetaStore { medium, database: Some(database), history: None })
    }

    fn database(&mut self) -> Result<&Database, MetaError> {
        match self.database {
            Some(ref database) => Ok(database),
            // It was there, and a store that has gone is not made anew.
            None => Ok(self.database.insert(open_present(&self.medium)?)),
        }
    }
}

impl<M: Medium> MetaStore for RedbMetaStore<M> {
    fn load(&mut self) -> Result<Option<Metadata>, MetaError> {
        let name = self.medium.name();
        read_metadata(&name, self.database()?)
    }

    fn commit(&mut self, metadata: &Metadata) -> Result<(), MetaError> {
        if self.keep(metadata)? == Place::WrittenAnew {
            return Ok(());
        }
        let rest = Metadata { history: History::new(), ..metadata.clone() };
        let mut texts = vec![(METADATA_KEY, text_of(&rest))];
        if self.history.as_ref() != Some(&metadata.history) {
            texts.push((HISTORY_KEY, text_of(&metadata.history)));
        }
        let name = self.medium.name();
        let database = self.database()?;
        let written = guarded(&name, || write(database, &texts));
        match written {
            Ok(()) => self.history = Some(metadata.history.clone()),
            Err(_) => (self.database, self.history) = (None, None),
        }
        written
    }

    fn keep(&mut self, metadata: &Metadata) -> Result<Place, MetaError> {
        let name = self.medium.name();
        match self.medium.whereabouts() {
            Ok(Whereabouts::InPlace) => Ok(Place::Kept),
            Ok(Whereabouts::Gone) => self.write_anew(metadata).map(|()| Place::WrittenAnew),
            Ok(Whereabouts::Replaced) => Err(MetaError(format!(
                "{name} is not the file any more that this coordinator writes: somebody has put another in \
                 its place. Move that away while the node runs, and the record is written anew; until then \
                 the cluster is not changed"
            ))),
            Err(error) => Err(MetaError(format!(
                "{name} cannot be looked for: {error}. Until it can, the cluster is not changed"
            ))),
        }
    }
}

impl<M: Medium> RedbMetaStore<M> {
    /// Writes a store with this metadata where there is none any more.
    fn write_anew(&mut self, metadata: &Metadata) -> Result<(), MetaError> {
        (self.database, self.history) = (None, None);
        let rest = Metadata { history: History::new(), ..metadata.clone() };
        let texts = [(METADATA_KEY, text_of(&rest)), (HISTORY_KEY, text_of(&metadata.history))];
        let written =
            self.medium.restore().map_err(|error| refused(&self.medium.name(), &error)).and_then(|()| {
                replace(&self.medium, &[], |name, database| guarded(name, || write(database, &texts)))
            });
        let gone = |error| {
            let name = self.medium.name();
            MetaError(format!(
                "{name} has gone, with the record of the cluster, and cannot be written anew: {error}. \
                 Until it can, the cluster is not changed; do not stop this node"
            ))
        };
        self.database = Some(written.map_err(gone)?);
        self.history = Some(metadata.history.clone());
        Ok(())
    }
}

fn open_or_create<M: Medium>(medium: &M) -> Result<Database, MetaError> {
    match content(medium)? {
        Some(content) => replace(medium, &content, check),
        None => replace(medium, &[], |name, database| guarded(name, || write(database, &[]))),
    }
}

fn open_present<M: Medium>(medium: &M) -> Result<Database, MetaError> {
    match content(medium)? {
        Some(content) => replace(medium, &content, check),
        None => Err(damaged(&medium.name(), &"it has gone")),
    }
}

fn content<M: Medium>(medium: &M) -> Result<Option<Vec<u8>>, MetaError> {
    let name = medium.name();
    match medium.content() {
        // redb would give it a new header; that it was ours once cannot be told from it.
        Ok(Some(content)) if content.is_empty() => Err(damaged(&name, &"it is empty")),
        Err(error) if error.kind() == io::ErrorKind::WouldBlock => Err(used_elsewhere(&name)),
        content => content.map_err(|error| refused(&name, &error)),
    }
}

/// Puts a database with this content in the place of what is there, if `make_sure` finds nothing wrong with
/// it. What cannot be used stays as it was found.
fn replace<M: Medium>(
    medium: &M,
    content: &[u8],
    make_sure: impl FnOnce(&str, &Database) -> Result<(), MetaError>,
) -> Result<Database, MetaError> {
    let name = medium.name();
    let replaced = lay(medium, &name, content).and_then(|database| {
        make_sure(&name, &database)?;
        medium.publish().map_err(|error| refused(&name, &error))?;
        Ok(database)
    });
    if replaced.is_err() {
        // The reason counts; what is left here is in nobody's way.
        let _ = medium.discard();
    }
    replaced
}

/// Opens a copy, and repairs what redb keeps in it for itself before that can fail a commit.
fn lay<M: Medium>(medium: &M, name: &str, content: &[u8]) -> Result<Database, MetaError> {
    let backend = medium.lay(content).map_err(|error| refused(name, &error))?;
    guarded(name, || {
        let mut database = Database::builder().set_cache_size(CACHE_BYTES).create_with_backend(backend)?;
        if !content.is_empty() {
            database.check_integrity()?;
        }
        Ok(database)
    })
}

/// Whether the database is ours and can be read.
fn check(name: &str, database: &Database) -> Result<(), MetaError> {
    match guarded(name, || read_key(database, FORMAT_KEY))?.as_deref() {
        Some(FORMAT | FORMAT_WITHOUT_HISTORY) => read_metadata(name, database).map(|_| ()),
        Some(other) => Err(MetaError(format!(
            "{name} has format {}, and this version of sidle reads format {}: start the version that wrote it",
            String::from_utf8_lossy(other),
            String::from_utf8_lossy(FORMAT)
        ))),
        None => Err(damaged(name, &"it is a redb file of another program")),
    }
}

fn read_metadata(name: &str, database: &Database) -> Result<Option<Metadata>, MetaError> {
    let Some(metadata) = read_text::<Metadata>(name, database, METADATA_KEY)? else { return Ok(None) };
    let format = guarded(name, || read_key(database, FORMAT_KEY))?;
    if format.as_deref() == Some(FORMAT_WITHOUT_HISTORY) {
        return Ok(Some(metadata));
    }
    match read_text(name, database, HISTORY_KEY)? {
        Some(history) => Ok(Some(Metadata { history, ..metadata })),
        None => Err(damaged(name, &"its list of past migrations is missing")),
    }
}

/// What a JSON text says, if it is there.
fn read_text<T: DeserializeOwned>(
    name: &str,
    database: &Database,
    key: &str,
) -> Result<Option<T>, MetaError> {
    let Some(stored) = guarded(name, || read_key(database, key))? else { return Ok(None) };
    let Some((checksum, text)) = stored.split_first_chunk() else {
        return Err(damaged(name, &"it is cut short"));
    };
    if u32::from_le_bytes(*checksum) != crc32c(text) {
        return Err(damaged(name, &"its checksum is wrong"));
    }
    serde_json::from_slice(text).map(Some).map_err(|error| damaged(name, &error))
}

/// A JSON text, after four bytes for its checksum.
fn text_of(value: &impl Serialize) -> Vec<u8> {
    let mut text = vec![0; 4];
    serde_json::to_writer(&mut text, value).expect("it has string keys only, and memory takes it");
    let checksum = crc32c(&text[4..]).to_le_bytes();
    text[..4].copy_from_slice(&checksum);
    text
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

/// Writes the format and these texts, each with its checksum, in one transaction.
fn write(database: &Database, texts: &[(&str, Vec<u8>)]) -> Result<(), redb::Error> {
    let mut transaction = database.begin_write()?;
    transaction.set_durability(Durability::Immediate)?;
    transaction.set_two_phase_commit(true);
    {
        let mut table = transaction.open_table(TABLE)?;
        table.insert(FORMAT_KEY, FORMAT)?;
        for (key, text) in texts {
            table.insert(*key, text.as_slice())?;
        }
    }
    transaction.commit()?;
    Ok(())
}

/// Runs a step on the database. Damage makes redb return an error or, deep inside, panic; both are told the
/// same way.
fn guarded<T>(name: &str, step: impl FnOnce() -> Result<T, redb::Error>) -> Result<T, MetaError> {
    match catch_unwind(AssertUnwindSafe(step)) {
        Ok(Ok(value)) => Ok(value),
        Ok(Err(redb::Error::DatabaseAlreadyOpen)) => Err(used_elsewhere(name)),
        Ok(Err(redb::Error::Io(error))) if !tells_of_damage(error.kind()) => Err(refused(name, &error)),
        Ok(Err(error)) => Err(damaged(name, &error)),
        Err(_) => Err(damaged(name, &"it breaks the database's own checks")),
    }
}

/// Whether the error is the file's and not the system's.
fn tells_of_damage(kind: io::ErrorKind) -> bool {
    matches!(kind, io::ErrorKind::InvalidData | io::ErrorKind::UnexpectedEof)
}

fn refused(name: &str, error: &io::Error) -> MetaError {
    MetaError(format!("cannot use {name}: {error}. Check the disk and the file's owner, then start again"))
}

fn used_elsewhere(name: &str) -> MetaError {
    MetaError(format!(
        "{name} is in use by another process: two coordinators cannot share a data directory, stop the other one"
    ))
}

fn damaged(name: &str, why: &dyn std::fmt::Display) -> MetaError {
    MetaError(format!(
        "{name} is not readable cluster metadata ({why}). It was not overwritten. Put a copy of it back, taken while \
         this node was stopped and since the last change of the cluster. Without one, stop all nodes and start them \
         with empty data directories: a new cluster, without the old one's data"
    ))
}

#[cfg(test)]
mod tests {
    use super::*;
    use sidle_cluster::{
        ClusterId, HostPort, Incarnation, MigrationCounters, MigrationState, NodeInfo, RequestKey, TabletMap,
    };
    use sidle_types::{MapEpoch, MigrationId, MigrationPolicy, NodeId, PositionRange, TabletEpoch};
    use std::fs;

    fn metadata(next: u64) -> Metadata {
        let first = NodeInfo {
            id: NodeId::from_bytes([7; 20]),
            incarnation: Incarnation(3),
            client_addr: HostPort::new("::1", 7000).unwrap(),
            bus_addr: HostPort::new("::1", 17000).unwrap(),
        };
        let new = Metadata::new(ClusterId::from_bits(9), TabletMap::founded_by(first));
        // Every fifth commit ends a migration.
        let history = (0..next).filter(|id| id.is_multiple_of(5)).map(|id| Arc::new(ended(id))).collect();
        Metadata { next_migration: MigrationId(next), history, ..new }
    }

    fn ended(id: u64) -> MigrationRecord {
        let node = NodeId::from_bytes([7; 20]);
        MigrationRecord {
            id: MigrationId(id),
            protocol: "fulva".to_owned(),
            frozen_reads: true,
            range: PositionRange::ALL,
            policy: MigrationPolicy::default(),
            source: node,
            source_incarnation: Incarnation(1),
            target: node,
            target_incarnation: Incarnation(1),
            epoch: TabletEpoch(0),
            map_epoch: MapEpoch(0),
            partitions: Vec::new(),
            state: MigrationState::Cancelled,
            counters: MigrationCounters::default(),
            requested_by: RequestKey { node, incarnation: Incarnation(1), number: id },
        }
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
    fn a_store_of_the_first_format_is_read_and_written_anew() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("coordinator.redb");
        let database = Database::create(&path).unwrap();
        write(&database, &[(METADATA_KEY, text_of(&metadata(11)))]).unwrap();
        set_format(&database, FORMAT_WITHOUT_HISTORY);
        drop(database);
        let mut store = RedbMetaStore::open(&path).unwrap();
        assert_eq!(store.load().unwrap(), Some(metadata(11)));
        store.commit(&metadata(12)).unwrap();
        drop(store);
        assert_eq!(RedbMetaStore::open(&path).unwrap().load().unwrap(), Some(metadata(12)));
    }

    #[test]
    fn a_store_without_its_history_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("coordinator.redb");
        let database = Database::create(&path).unwrap();
        write(&database, &[(METADATA_KEY, text_of(&metadata(11)))]).unwrap();
        drop(database);
        assert!(open_error(&path).contains("past migrations is missing"));
    }

    fn set_format(database: &Database, format: &[u8]) {
        let transaction = database.begin_write().unwrap();
        transaction.open_table(TABLE).unwrap().insert(FORMAT_KEY, format).unwrap();
        transaction.commit().unwrap();
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
    fn a_store_that_was_removed_is_written_anew_by_the_next_commit() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("data/coordinator.redb");
        fs::create_dir(folder.path().join("data")).unwrap();
        let mut store = RedbMetaStore::open(&path).unwrap();
        store.commit(&metadata(5)).unwrap();
        assert_eq!(store.keep(&metadata(5)), Ok(Place::Kept));
        fs::remove_file(&path).unwrap();
        store.commit(&metadata(6)).unwrap();
        assert_eq!(store.load().unwrap(), Some(metadata(6)));
        // And the whole folder, without a change of the cluster.
        fs::remove_dir_all(folder.path().join("data")).unwrap();
        assert_eq!(store.keep(&metadata(6)), Ok(Place::WrittenAnew));
        assert_eq!(store.keep(&metadata(6)), Ok(Place::Kept));
        assert!(open_error(&path).contains("in use by another process"), "the new file is locked, too");
        store.commit(&metadata(7)).unwrap();
        drop(store);
        assert_eq!(RedbMetaStore::open(&path).unwrap().load().unwrap(), Some(metadata(7)));
    }

    #[test]
    fn a_file_in_the_place_of_the_store_is_left_alone() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("coordinator.redb");
        let mut store = RedbMetaStore::open(&path).unwrap();
        store.commit(&metadata(5)).unwrap();
        let copy = folder.path().join("copy.redb");
        fs::copy(&path, &copy).unwrap();
        fs::rename(&copy, &path).unwrap();
        let before = fs::read(&path).unwrap();
        let error = store.commit(&metadata(6)).unwrap_err().to_string();
        assert!(error.contains("somebody has put another in its place"), "{error}");
        assert!(fs::read(&path).unwrap() == before);
        fs::rename(&path, &copy).unwrap();
        store.commit(&metadata(7)).unwrap();
        drop(store);
        assert_eq!(RedbMetaStore::open(&path).unwrap().load().unwrap(), Some(metadata(7)));
    }

    #[test]
    fn a_store_is_not_written_anew_where_it_would_be_forgotten() {
        let above = tempfile::tempdir().unwrap();
        let folder = above.path().join("data");
        fs::create_dir(&folder).unwrap();
        let path = folder.join("coordinator.redb");
        let mut store = RedbMetaStore::open(&path).unwrap();
        store.commit(&metadata(5)).unwrap();
        fs::remove_dir_all(&folder).unwrap();
        fs::write(&folder, "in the way").unwrap();
        let error = store.commit(&metadata(6)).unwrap_err().to_string();
        assert!(error.contains("the cluster is not changed"), "{error}");
        fs::remove_file(&folder).unwrap();
        // Another file system in its place, as when a volume is not mounted.
        let Ok(elsewhere) = tempfile::tempdir_in("/dev/shm") else { return };
        let device = |path: &Path| std::os::unix::fs::MetadataExt::dev(&fs::metadata(path).unwrap());
        if device(elsewhere.path()) == device(above.path()) {
            return;
        }
        std::os::unix::fs::symlink(elsewhere.path(), &folder).unwrap();
        let error = store.commit(&metadata(6)).unwrap_err().to_string();
        assert!(error.contains("is a volume not mounted?"), "{error}");
        assert_eq!(fs::read_dir(elsewhere.path()).unwrap().count(), 0);
        fs::remove_file(&folder).unwrap();
        store.commit(&metadata(7)).unwrap();
        assert_eq!(store.load().unwrap(), Some(metadata(7)));
    }

    #[test]
    fn a_database_of_another_program_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("coordinator.redb");
        drop(Database::create(&path).unwrap());
        assert!(open_error(&path).contains("another program"));
        let newer = folder.path().join("newer.redb");
        let database = Database::create(&newer).unwrap();
        set_format(&database, b"3");
        drop(database);
        assert!(open_error(&newer).contains("start the version that wrote it"));
    }

    #[test]
    fn metadata_that_breaks_an_invariant_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("coordinator.redb");
        drop(RedbMetaStore::open(&path).unwrap());
        let database = Database::open(&path).unwrap();
        let text = serde_json::to_string(&metadata(5)).unwrap();
        let text = text.replace("0xffffffffffffffff", "0xfffffffffffffffe");
        let whole: serde_json::Value = serde_json::from_str(&text).unwrap();
        write(&database, &[(METADATA_KEY, text_of(&whole)), (HISTORY_KEY, text_of(&History::new()))])
            .unwrap();
        drop(database);
        assert!(open_error(&path).contains("gap or overlap"));
    }
}
