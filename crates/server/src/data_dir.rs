//! The data directory: the node's identity, and the lock that keeps a second process out.

use rustix::rand::{GetRandomFlags, getrandom};
use serde::{Deserialize, Serialize};
use sidle_cluster::ClusterId;
use sidle_cluster::limits::MAX_NUMBER;
use sidle_types::NodeId;
use std::fs::{self, DirBuilder, File, TryLockError};
use std::io::{self, Write};
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

mod keep;
mod known_log;

use keep::FileKey;
pub(crate) use keep::Kept;
use known_log::KnownLog;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Why the data directory cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum DataDirError {
    /// Another process has it.
    #[error(
        "the data directory {} is in use by another running node: give each node its own with --dir",
        .0.display()
    )]
    InUse(PathBuf),
    /// The system refused.
    #[error("cannot use {}: {error}. Choose a data directory that can be written with --dir", path.display())]
    Refused {
        /// The file or folder.
        path: PathBuf,
        /// The system's error.
        error: io::Error,
    },
    /// A coordinator's record in it has a version that this program does not read.
    #[error(
        "{} is the record of a cluster as development versions of Sidle 0.1.0 kept it, in a redb database, which \
         this version does not read: start the version that wrote it. To start a new cluster, without the old \
         one's data, start all nodes with empty data directories",
        .0.display()
    )]
    OldRecord(PathBuf),
    /// The record of a cluster lies there, and the identity of the node that coordinates it does not.
    #[error(
        "{} is missing: it is the identity of the node that coordinates the cluster whose record, {METADATA_FILE}, \
         lies beside it. Put it back. To start a new cluster, without the old one's data, start all nodes with \
         empty data directories",
        .0.display()
    )]
    IdentityMissing(PathBuf),
    /// The map of a cluster lies there, and the identity of its member does not.
    #[error(
        "{} is missing: it is the identity of a member of the cluster whose map, {LAST_MAP_FILE}, lies beside it. Put \
         it back, or start the node with --join HOST:PORT to be a new member. To start a new cluster, start the node \
         with an empty data directory",
        .0.display()
    )]
    MemberIdentityMissing(PathBuf),
    /// It was changed while the node runs.
    #[error("{} {what}", path.display())]
    Disturbed {
        /// The file or folder.
        path: PathBuf,
        /// What happened, and how to mend it.
        what: &'static str,
    },
    /// A file in it is not what this version writes.
    #[error(
        "{} cannot be understood ({why}). If the node should start anew, with a new identity, move the file away",
        path.display()
    )]
    Malformed {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        why: String,
    },
}

/// The node's identity, kept across restarts.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
// Operators edit it, so an unknown word in it is refused, as in a file of configuration.
#[serde(deny_unknown_fields)]
pub(crate) struct Identity {
    /// The node's name for all its incarnations.
    pub(crate) node: NodeId,
    /// How often it was started: its incarnation's number.
    pub(crate) starts: u64,
    /// The cluster that the node belongs to, once it belongs to one.
    pub(crate) cluster: Option<ClusterId>,
    /// The bus addresses where the cluster can be found again, the coordinator's first; empty on the node
    /// that runs the coordinator.
    pub(crate) found_at: Vec<String>,
    /// Its durable log, if the last start had one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) log: Option<KnownLog>,
}

/// Whether a file has to be on disk before the program goes on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Sync {
    /// It has to be.
    Now,
    /// The system writes it out at its own time.
    Later,
}

/// A locked data directory. The lock ends with the value, or the process.
#[derive(Debug)]
pub(crate) struct DataDir {
    path: PathBuf,
    lock: Mutex<File>,
    /// The identity's file, as last written.
    identity_file: Mutex<Option<FileKey>>,
    /// The folders made by this start, the innermost first, until the node is to be kept.
    made: Mutex<Vec<PathBuf>>,
}

const LOCK_FILE: &str = "sidle.lock";
const IDENTITY_FILE: &str = "node.json";
const LAST_MAP_FILE: &str = "last-map.json";
const LOG_FOLDER: &str = "durable-log";
const LOG_BACKUPS_FOLDER: &str = "log-backups";
const FETCHED_LOGS_FOLDER: &str = "fetched-logs";
/// The coordinator's record, on the node that runs it.
const METADATA_FILE: &str = "coordinator.meta";
/// The database of development versions' records.
const OLD_METADATA_FILE: &str = "coordinator.redb";
/// The cluster's secret, on every node.
pub(crate) const SECRET_FILE: &str = "cluster.secret";

/// A new data directory is open to its owner only.
const FOLDER_MODE: u32 = 0o700;

impl DataDir {
    /// Creates the directory where it is missing, and locks it.
    pub(crate) fn open(path: &Path) -> Result<DataDir, DataDirError> {
        let made = create_folder(path).map_err(refused(path))?;
        let lock_path = path.join(LOCK_FILE);
        ensure_is_file(&lock_path).map_err(refused(&lock_path))?;
        let lock = File::create(&lock_path).map_err(refused(&lock_path))?;
        match lock.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => return Err(DataDirError::InUse(path.to_owned())),
            Err(TryLockError::Error(error)) => return Err(refused(&lock_path)(error)),
        }
        let (lock, identity_file) = (Mutex::new(lock), Mutex::new(None));
        let dir = DataDir { path: full_path(path), lock, identity_file, made: Mutex::new(made) };
        let old_record = dir.path.join(OLD_METADATA_FILE);
        if old_record.exists() && !dir.metadata_path().exists() {
            return Err(DataDirError::OldRecord(old_record));
        }
        let identity = dir.path.join(IDENTITY_FILE);
        if dir.metadata_path().exists() && !identity.exists() {
            return Err(DataDirError::IdentityMissing(identity));
        }
        Ok(dir)
    }

    /// Refuses to found a cluster in what is left of a member's directory: clients of its cluster would come
    /// here.
    pub(crate) fn check_for_a_founder(&self) -> Result<(), DataDirError> {
        let identity = self.path.join(IDENTITY_FILE);
        match self.last_map_path().exists() && !identity.exists() {
            true => Err(DataDirError::MemberIdentityMissing(identity)),
            false => Ok(()),
        }
    }

    /// The node has started: its new folders stay. A start that is refused before removes
    /// every folder that it made.
    pub(crate) fn keep_folder(&self) {
        locked(&self.made).clear();
    }

    /// The folder of the durable log.
    pub(crate) fn log_path(&self) -> PathBuf {
        self.path.join(LOG_FOLDER)
    }

    /// The folder of the copies of other nodes' durable logs.
    pub(crate) fn log_backups_path(&self) -> PathBuf {
        self.path.join(LOG_BACKUPS_FOLDER)
    }

    /// The folder of copies that are fetched from other nodes, while what their logs had is taken over.
    pub(crate) fn fetched_logs_path(&self) -> PathBuf {
        self.path.join(FETCHED_LOGS_FOLDER)
    }

    /// The file of the cluster's metadata, on the coordinator's node.
    pub(crate) fn metadata_path(&self) -> PathBuf {
        self.path.join(METADATA_FILE)
    }

    /// The file of the last tablet map that the node used.
    pub(crate) fn last_map_path(&self) -> PathBuf {
        self.path.join(LAST_MAP_FILE)
    }

    /// The file of the cluster's secret.
    pub(crate) fn secret_path(&self) -> PathBuf {
        self.path.join(SECRET_FILE)
    }

    /// Loads the node's identity, or draws one, and counts this start. The new count is on disk when this
    /// returns, so that no two incarnations share a number.
    pub(crate) fn begin_life(&self) -> Result<Identity, DataDirError> {
        let path = self.path.join(IDENTITY_FILE);
        let mut identity: Identity = match read_file(&path) {
            Ok(text) => serde_json::from_slice(&text)
                .map_err(|error| DataDirError::Malformed { path: path.clone(), why: error.to_string() })?,
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                let node = random_node_id().map_err(refused(&path))?;
                Identity { node, starts: 0, cluster: None, found_at: Vec::new(), log: None }
            }
            Err(error) => return Err(refused(&path)(error)),
        };
        if identity.starts >= MAX_NUMBER {
            let why = format!(
                "'starts' is {}, and no node was started that often: set it to the node's last incarnation, \
                 which `sidle status` shows",
                identity.starts
            );
            return Err(DataDirError::Malformed { path, why });
        }
        identity.count_start();
        self.save(&identity)?;
        Ok(identity)
    }

    /// Replaces the identity on disk, whole or not at all.
    pub(crate) fn save(&self, identity: &Identity) -> Result<(), DataDirError> {
        let text = serde_json::to_vec_pretty(identity).expect("an identity is plain data");
        let key = self.replace(&self.path.join(IDENTITY_FILE), &text, Sync::Now)?;
        *locked(&self.identity_file) = Some(key);
        Ok(())
    }

    /// The identity's file, as last written.
    fn known_file(&self) -> Option<FileKey> {
        *locked(&self.identity_file)
    }

    /// Replaces a file of the directory: written aside and renamed. With a sync it is whole, or as before
    /// after any failure. Without one, a failure of the system may leave it damaged.
    pub(crate) fn replace(&self, path: &Path, text: &[u8], sync: Sync) -> Result<FileKey, DataDirError> {
        let fresh = path.with_extension("json.new");
        let write = || -> io::Result<FileKey> {
            let mut file = File::create(&fresh)?;
            file.write_all(text)?;
            if sync == Sync::Now {
                file.sync_all()?;
            }
            let key = FileKey::of(&file.metadata()?);
            fs::rename(&fresh, path)?;
            if sync == Sync::Now {
                File::open(&self.path)?.sync_all()?;
            }
            Ok(key)
        };
        write().map_err(refused(path))
    }
}

impl Drop for DataDir {
    /// Closing the file is not enough: a child process being started still holds it, until it runs
    /// its program.
    fn drop(&mut self) {
        let made = std::mem::take(&mut *locked(&self.made));
        if let Some((folder, parents)) = made.split_first() {
            // While the lock is held: what is in there was made by this start.
            let _ = fs::remove_dir_all(folder);
            for parent in parents {
                // Another program may have put something there.
                let _ = fs::remove_dir(parent);
            }
        }
        let _ = locked(&self.lock).unlock();
    }
}

/// The lock's content; a panic elsewhere leaves it whole.
fn locked<T>(guarded: &Mutex<T>) -> MutexGuard<'_, T> {
    guarded.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The path by which every process of this machine finds the directory: absolute, without links.
pub(crate) fn full_path(path: &Path) -> PathBuf {
    path.canonicalize().unwrap_or_else(|_| path.to_owned())
}

/// Makes the folder if it is missing, and returns what was made: the folder, its parent and so on.
fn create_folder(path: &Path) -> io::Result<Vec<PathBuf>> {
    if path.is_dir() {
        return Ok(Vec::new());
    }
    let is_missing = |folder: &&Path| !folder.as_os_str().is_empty() && !folder.exists();
    let made = path.ancestors().take_while(is_missing).map(Path::to_owned).collect();
    if let Some(parent) = path.parent() {
        fs::create_dir_all(parent)?;
    }
    DirBuilder::new().mode(FOLDER_MODE).create(path)?;
    Ok(made)
}

/// Refuses anything but a file: opening a pipe would wait for another program to open its other end.
fn ensure_is_file(path: &Path) -> io::Result<()> {
    match fs::metadata(path) {
        Ok(found) if !found.is_file() => Err(io::Error::new(
            io::ErrorKind::InvalidInput,
            "this is no regular file: remove it, or put the node's own file in its place",
        )),
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}

/// Reads a file of the data directory, whole.
pub(crate) fn read_file(path: &Path) -> io::Result<Vec<u8>> {
    ensure_is_file(path)?;
    fs::read(path)
}

fn refused(path: &Path) -> impl FnOnce(io::Error) -> DataDirError {
    move |error| DataDirError::Refused { path: path.to_owned(), error }
}

/// Bytes from the operating system's generator.
pub(crate) fn random_bytes<const N: usize>() -> io::Result<[u8; N]> {
    let mut bytes = [0; N];
    let mut filled = 0;
    while filled < N {
        filled += getrandom(&mut bytes[filled..], GetRandomFlags::empty())?;
    }
    Ok(bytes)
}

/// The name of a new node, or of a run.
pub(crate) fn random_node_id() -> io::Result<NodeId> {
    random_bytes().map(NodeId::from_bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn identity_survives_and_counts_lives() {
        let folder = tempfile::tempdir().unwrap();
        let dir = DataDir::open(&folder.path().join("a/b")).unwrap();
        dir.keep_folder();
        let first = dir.begin_life().unwrap();
        assert_eq!(first.starts, 1);
        dir.save(&Identity { found_at: vec!["h:1".into()], ..first.clone() }).unwrap();
        drop(dir);
        let dir = DataDir::open(&folder.path().join("a/b")).unwrap();
        let second = dir.begin_life().unwrap();
        assert_eq!((second.node, second.starts, second.found_at.len()), (first.node, 2, 1));
    }

    #[test]
    fn a_start_that_is_refused_leaves_nothing_that_it_has_made() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a/b");
        let dir = DataDir::open(&path).unwrap();
        dir.begin_life().unwrap();
        drop(dir);
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0);
        // A folder that was there before stays, with its content.
        fs::create_dir_all(&path).unwrap();
        fs::write(path.join("mine"), "x").unwrap();
        drop(DataDir::open(&path).unwrap());
        assert!(path.join("mine").exists());
    }

    #[test]
    fn open_refuses_a_directory_in_use() {
        let folder = tempfile::tempdir().unwrap();
        let _held = DataDir::open(folder.path()).unwrap();
        assert!(matches!(DataDir::open(folder.path()), Err(DataDirError::InUse(_))));
    }

    #[test]
    fn open_refuses_the_record_of_a_version_that_had_a_database() {
        let folder = tempfile::tempdir().unwrap();
        let old = folder.path().join(OLD_METADATA_FILE);
        fs::write(&old, "a database").unwrap();
        let refused = DataDir::open(folder.path()).unwrap_err().to_string();
        assert!(refused.contains("coordinator.redb is the record of a cluster"), "{refused}");
        assert!(refused.contains("development versions of Sidle 0.1.0"), "{refused}");
        assert_eq!(fs::read(&old).unwrap(), b"a database");
        assert!(!folder.path().join(METADATA_FILE).exists());
        // One left beside a record of this version does no harm.
        fs::write(folder.path().join(METADATA_FILE), "a record").unwrap();
        fs::write(folder.path().join(IDENTITY_FILE), "its node's").unwrap();
        DataDir::open(folder.path()).unwrap();
    }

    #[test]
    fn what_is_left_of_a_members_directory_founds_no_cluster() {
        let folder = tempfile::tempdir().unwrap();
        let dir = DataDir::open(folder.path()).unwrap();
        dir.check_for_a_founder().unwrap();
        fs::write(dir.last_map_path(), "{}").unwrap();
        let refused = dir.check_for_a_founder();
        assert!(matches!(refused, Err(DataDirError::MemberIdentityMissing(_))), "{refused:?}");
        dir.begin_life().unwrap();
        dir.check_for_a_founder().unwrap();
    }

    #[test]
    fn a_record_without_its_nodes_identity_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join(METADATA_FILE), "a record").unwrap();
        for _ in 0..2 {
            let refused = DataDir::open(folder.path()).unwrap_err().to_string();
            assert!(refused.contains("node.json is missing: it is the identity"), "{refused}");
        }
        assert!(!folder.path().join(IDENTITY_FILE).exists(), "no other is drawn");
    }

    #[test]
    fn the_lock_ends_with_the_value_whoever_else_has_the_file() {
        let folder = tempfile::tempdir().unwrap();
        let dir = DataDir::open(folder.path()).unwrap();
        let _as_a_child_has_it = locked(&dir.lock).try_clone().unwrap();
        drop(dir);
        DataDir::open(folder.path()).unwrap();
    }

    #[test]
    fn begin_life_refuses_a_file_it_does_not_understand() {
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join(IDENTITY_FILE), "{}").unwrap();
        let dir = DataDir::open(folder.path()).unwrap();
        let refused = dir.begin_life().unwrap_err().to_string();
        assert!(refused.contains("node.json"), "{refused}");
    }

    #[test]
    fn begin_life_refuses_a_count_that_no_restarts_explain() {
        let folder = tempfile::tempdir().unwrap();
        let dir = DataDir::open(folder.path()).unwrap();
        let identity = dir.begin_life().unwrap();
        for starts in [u64::MAX, 1 << 63, MAX_NUMBER] {
            dir.save(&Identity { starts, ..identity.clone() }).unwrap();
            let refused = dir.begin_life().unwrap_err().to_string();
            assert!(refused.contains("'starts' is") && refused.contains("sidle status"), "{refused}");
        }
        dir.save(&Identity { starts: MAX_NUMBER - 1, ..identity }).unwrap();
        assert_eq!(dir.begin_life().unwrap().starts, MAX_NUMBER);
    }

    #[test]
    fn what_is_no_file_is_refused_and_not_waited_for() {
        for name in [LOCK_FILE, IDENTITY_FILE] {
            let folder = tempfile::tempdir().unwrap();
            let made = std::process::Command::new("mkfifo").arg(folder.path().join(name)).status().unwrap();
            assert!(made.success());
            let began = DataDir::open(folder.path()).and_then(|dir| dir.begin_life());
            let refused = began.unwrap_err().to_string();
            assert!(refused.contains(name) && refused.contains("no regular file"), "{refused}");
        }
    }
}
