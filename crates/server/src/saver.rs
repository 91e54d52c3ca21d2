//! The saver's thread: writes all keys of this node into an RDB file when SAVE or BGSAVE asks for it.
//!
//! The file is written aside, synced, and renamed; then its name is synced. So under its name there is a
//! whole file at any time, the one of before or the new one. What a killed save left is removed at the start.

use crate::clock::Clock;
use crate::thread;
use sidle_node::{NodeParts, REDIS_VERSION, SavedKeys, SavingStep};
use sidle_rdb::FileWriter;
use std::fs::{self, File, OpenOptions};
use std::io::{self, BufWriter, ErrorKind, Seek, SeekFrom, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::thread::JoinHandle;
use std::time::Duration;

/// What is gathered before it is written.
const BUFFER_BYTES: usize = 256 << 10;
/// So much is written before it is synced: the durable log's syncs do not queue behind gigabytes.
const SYNC_BYTES: u64 = 8 << 20;
/// How long to rest while the next keys still arrive.
const ARRIVAL_REST: Duration = Duration::from_millis(20);
/// After so many rests without a key the save fails: the node that has the next ones may be down.
const MOST_RESTS: u32 = 3000;
/// Only the node's user may read it, as its durable log.
const MODE: u32 = 0o600;

/// The running saver; it gives up what it saves, and ends, when it is dropped.
pub(crate) struct SaverThread {
    parts: NodeParts,
    thread: Option<JoinHandle<()>>,
}

impl SaverThread {
    /// Starts the thread.
    pub(crate) fn start(parts: NodeParts, clock: Clock) -> io::Result<SaverThread> {
        let saver = Saver { parts: parts.clone(), clock };
        let thread = thread::start("saver".to_owned(), move || {
            thread::lower_priority();
            saver.run();
        })?;
        Ok(SaverThread { parts, thread: Some(thread) })
    }
}

impl Drop for SaverThread {
    fn drop(&mut self) {
        self.parts.shared.saves.stop();
        if let Some(thread) = self.thread.take() {
            // A panic would have ended the process.
            let _ = thread.join();
        }
    }
}

/// Why there is no new file.
#[derive(Debug, thiserror::Error)]
enum SaveError {
    #[error("the file {path} cannot be written: {error}")]
    Refused { path: PathBuf, error: io::Error },
    #[error("the node has not joined its cluster yet, and owns nothing")]
    NotJoined,
    #[error("keys of this node still arrive by migration {0}, and none came for a minute")]
    Awaited(u64),
    #[error("keys of this node are being taken over from a dead one, for a minute now")]
    TakingOver,
    #[error("the node is being stopped")]
    Stopped,
}

struct Saver {
    parts: NodeParts,
    clock: Clock,
}

impl Saver {
    fn run(mut self) {
        let (path, aside) = self.paths();
        remove_leftover(&aside);
        let shared = self.parts.shared.clone();
        while shared.saves.await_next() {
            self.clock.follow_wall_clock();
            let outcome = self.save(&path, &aside);
            match &outcome {
                Ok(bytes) => tracing::info!("saved all keys to {}: {bytes} bytes", path.display()),
                Err(error) => {
                    tracing::error!("the save failed: {error}");
                    remove_leftover(&aside);
                }
            }
            self.clock.follow_wall_clock();
            let now = self.clock.wall(self.clock.mono());
            shared.saves.end(outcome.map(|_| ()).map_err(|error| error.to_string()), now);
        }
    }

    /// The file, and where it is written before it has its name.
    fn paths(&self) -> (PathBuf, PathBuf) {
        let config = &self.parts.shared.config;
        let (folder, name) = (PathBuf::from(config.value("dir")), config.value("dbfilename"));
        (folder.join(&name), folder.join(format!("{name}.part")))
    }

    /// Returns how many bytes the file has.
    fn save(&self, path: &Path, aside: &Path) -> Result<u64, SaveError> {
        if !self.parts.published.table().is_joined() {
            return Err(SaveError::NotJoined);
        }
        let refused = |error| SaveError::Refused { path: aside.to_owned(), error };
        let file = OpenOptions::new().write(true).create(true).truncate(true).mode(MODE).open(aside);
        let output = Synced::of(file.map_err(refused)?);
        let now = self.clock.wall(self.clock.mono());
        let described = [
            ("redis-ver", REDIS_VERSION),
            ("redis-bits", "64"),
            ("ctime", &(now.0 / 1000).to_string()),
            ("used-mem", &self.parts.store.used_bytes().to_string()),
        ];
        let mut file =
            FileWriter::new(BufWriter::with_capacity(BUFFER_BYTES, output), &described).map_err(refused)?;
        self.write_keys(&mut file, refused)?;
        let end = |file: FileWriter<BufWriter<Synced>>| -> io::Result<u64> {
            let mut output = file.end()?.into_inner().map_err(io::IntoInnerError::into_error)?;
            let bytes = output.file.stream_position()?;
            // It was longer where it went back.
            output.file.set_len(bytes)?;
            output.file.sync_all()?;
            Ok(bytes)
        };
        let bytes = end(file).map_err(refused)?;
        publish(aside, path).map_err(|error| SaveError::Refused { path: path.to_owned(), error })?;
        Ok(bytes)
    }

    fn write_keys(
        &self,
        file: &mut FileWriter<BufWriter<Synced>>,
        refused: impl Fn(io::Error) -> SaveError,
    ) -> Result<(), SaveError> {
        let mut keys = SavedKeys::of(&self.parts);
        let mut rests = 0;
        loop {
            if self.parts.shared.saves.is_over() {
                return Err(SaveError::Stopped);
            }
            let now = self.clock.wall(self.clock.mono());
            match keys.step(now, file).map_err(&refused)? {
                SavingStep::Wrote => rests = 0,
                SavingStep::Awaits(migration) if rests == MOST_RESTS => {
                    return Err(SaveError::Awaited(migration.0));
                }
                SavingStep::AwaitsTakeover if rests == MOST_RESTS => return Err(SaveError::TakingOver),
                SavingStep::Awaits(_) | SavingStep::AwaitsTakeover => {
                    rests += 1;
                    std::thread::sleep(ARRIVAL_REST);
                }
                SavingStep::End => return Ok(()),
            }
        }
    }
}

/// Gives a whole file its name.
fn publish(aside: &Path, path: &Path) -> io::Result<()> {
    fs::rename(aside, path)?;
    match path.parent() {
        Some(folder) => File::open(folder)?.sync_all(),
        None => Ok(()),
    }
}

fn remove_leftover(aside: &Path) {
    if let Err(error) = fs::remove_file(aside)
        && error.kind() != ErrorKind::NotFound
    {
        tracing::warn!("what is left of a save, {}, cannot be removed: {error}", aside.display());
    }
}

/// A file that is synced all along.
#[derive(Debug)]
struct Synced {
    file: File,
    unsynced: u64,
}

impl Synced {
    fn of(file: File) -> Synced {
        Synced { file, unsynced: 0 }
    }
}

impl Write for Synced {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let written = self.file.write(bytes)?;
        self.unsynced += written as u64;
        if self.unsynced >= SYNC_BYTES {
            self.file.sync_data()?;
            self.unsynced = 0;
        }
        Ok(written)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.flush()
    }
}

impl Seek for Synced {
    fn seek(&mut self, to: SeekFrom) -> io::Result<u64> {
        self.file.seek(to)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use sidle_cluster::{HostPort, TabletMap};
    use sidle_node::{Config, CurrentTable, NodeShared, ProcessFacts, RangeTable};
    use sidle_store::{Store, StoreConfig};
    use sidle_testbed::fixtures::node_info_at;
    use sidle_types::WallMs;
    use std::sync::Arc;

    /// The saver of a node without keys, which has joined its cluster or not.
    fn saver(folder: &Path, is_joined: bool) -> Saver {
        let info = node_info_at(1, HostPort::new("127.0.0.1", 7000).expect("it works"));
        let process = ProcessFacts {
            node: info.id,
            run_id: info.id,
            started_at: WallMs(0),
            process_id: 1,
            port: 7000,
            system: "test".to_owned(),
            executable: "sidle".to_owned(),
            config_file: String::new(),
        };
        let config = Config::default();
        config.apply(vec![("dir", folder.display().to_string())]);
        let table = match is_joined {
            true => RangeTable::new(info.id, Arc::new(TabletMap::founded_by(info)), &[], &[]),
            false => RangeTable::before_joining(info),
        };
        let parts = NodeParts {
            store: Arc::new(Store::new(StoreConfig::with_memory(64 << 20)).expect("it works")),
            shared: Arc::new(NodeShared::new(config, 1, process)),
            published: Arc::new(CurrentTable::new(1, Arc::new(table))),
        };
        Saver { parts, clock: Clock::start() }
    }

    fn save(saver: &Saver) -> Result<u64, String> {
        let (path, aside) = saver.paths();
        saver.save(&path, &aside).map_err(|error| error.to_string())
    }

    #[test]
    fn a_file_takes_the_place_of_the_former_one_and_of_what_a_killed_save_left() {
        let folder = tempfile::tempdir().unwrap();
        let (path, aside) = (folder.path().join("dump.rdb"), folder.path().join("dump.rdb.part"));
        fs::write(&path, "former").unwrap();
        fs::write(&aside, vec![7; 100_000]).unwrap();
        let bytes = save(&saver(folder.path(), true)).unwrap();
        let file = fs::read(&path).unwrap();
        assert!(file.starts_with(b"REDIS0010") && file.len() as u64 == bytes);
        assert!(!aside.exists());
    }

    #[test]
    fn a_missing_folder_is_an_error_with_its_name() {
        let folder = tempfile::tempdir().unwrap();
        let missing = folder.path().join("missing");
        let error = save(&saver(&missing, true)).unwrap_err();
        assert!(error.contains("missing/dump.rdb.part cannot be written: "), "{error}");
    }

    #[test]
    fn a_node_that_owns_nothing_yet_keeps_the_former_file() {
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join("dump.rdb"), "former").unwrap();
        let error = save(&saver(folder.path(), false)).unwrap_err();
        assert!(error.contains("has not joined"), "{error}");
        assert_eq!(fs::read(folder.path().join("dump.rdb")).unwrap(), b"former");
    }

    #[test]
    fn a_full_disk_is_an_error() {
        let folder = tempfile::tempdir().unwrap();
        // Every write to it fails as on a full disk.
        std::os::unix::fs::symlink("/dev/full", folder.path().join("dump.rdb.part")).unwrap();
        let error = save(&saver(folder.path(), true)).unwrap_err();
        assert!(error.contains("cannot be written: "), "{error}");
        let (path, aside) = saver(folder.path(), true).paths();
        remove_leftover(&aside);
        assert!(!path.exists() && !aside.exists());
    }

    #[test]
    fn a_node_that_ends_gives_the_save_up() {
        let folder = tempfile::tempdir().unwrap();
        let saver = saver(folder.path(), true);
        saver.parts.shared.saves.stop();
        assert_eq!(save(&saver).unwrap_err(), "the node is being stopped");
    }
}
