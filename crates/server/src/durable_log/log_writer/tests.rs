//! Files that cannot be synced, and lose what was written to them since the last sync.

use super::super::recover::Reader;
use super::*;
use crate::data_dir::random_node_id;
use sidle_node::{Config, Loading, ProcessFacts};
use sidle_store::{LogHead, StoreConfig};
use sidle_types::{CommitNumber, HashedKey};
use std::collections::BTreeMap;
use std::fs::File;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::sync::Mutex;
use std::sync::atomic::AtomicUsize;
use std::time::Instant;

const PATIENCE: Duration = Duration::from_secs(60);

/// A disk on which some syncs fail, by their number: of the file only what was synced before is left, and the
/// next sync succeeds, as on a kernel that drops what it cannot write.
fn failing(fails: fn(usize) -> bool) -> super::super::folder::SyncCall {
    let (calls, synced) = (AtomicUsize::new(0), Mutex::new(BTreeMap::<u64, u64>::new()));
    Arc::new(move |file: &File| {
        let facts = file.metadata()?;
        let mut synced = synced.lock().expect("no sync panics");
        if fails(calls.fetch_add(1, Ordering::Relaxed)) {
            file.set_len(synced.get(&facts.ino()).map_or(0, |length| facts.len().min(*length)))?;
            return Err(io::Error::other("the disk is broken"));
        }
        synced.insert(facts.ino(), facts.len());
        Ok(())
    })
}

fn store() -> Arc<Store> {
    let config = StoreConfig {
        memory_bytes: 8 << 20,
        segment_bytes: 64 << 10,
        is_durable: true,
        ..StoreConfig::default()
    };
    Arc::new(Store::new(config).expect("a valid configuration"))
}

pub(in crate::durable_log) fn recovered(path: &Path, store: &Store) -> Resumed {
    let (stop, loading) = (AtomicBool::new(false), Loading::default());
    let reader = Reader { path, store, salvages: false, threads: 2, stop: &stop, progress: &loading };
    reader.recover().expect("the log is whole")
}

pub(in crate::durable_log) fn setup(store: &Arc<Store>, fsync: &str) -> LogWriterSetup {
    let clock = Clock::start();
    let process = ProcessFacts {
        node: random_node_id().expect("random bytes"),
        run_id: random_node_id().expect("random bytes"),
        started_at: clock.wall(clock.mono()),
        process_id: 1,
        port: 1,
        system: String::new(),
        executable: String::new(),
        config_file: String::new(),
    };
    let config = Config::default();
    config.apply(vec![("appendfsync", fsync.to_owned())]);
    let settings = Settings {
        syncs: Syncs::Always,
        file_bytes: 64 << 10,
        least_bytes: 256 << 10,
        share_percent: 200,
        judged_bytes: 64 << 10,
    };
    LogWriterSetup {
        store: Arc::clone(store),
        shared: Arc::new(NodeShared::new(config, 1, process)),
        wake: Box::new(|| ()),
        requests: Arc::default(),
        reports: None,
        settings,
        clock,
    }
}

fn put(store: &Store, head: &mut LogHead, name: &str, value: &[u8]) -> CommitNumber {
    let key = HashedKey::new(name.as_bytes());
    store.lock_slot(key.slot()).put(head, key, &[value], None).expect("there is room");
    store.commits().expect("it is durable").latest_of(key.slot())
}

/// Writes keys until this time is over, each acknowledged; then everything is there again. Returns whether
/// writes were refused meanwhile.
fn loses_nothing(fsync: &str, time: Duration, fails: fn(usize) -> bool) -> bool {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let (first, mut was_refused) = (store(), false);
    let mut resumed = recovered(folder.path(), &first);
    resumed.folder.sync_with(failing(fails));
    let setup = setup(&first, fsync);
    let (requests, shared) = (Arc::clone(&setup.requests), Arc::clone(&setup.shared));
    let thread = LogWriterThread::start(setup, resumed).expect("threads start");
    let (mut head, mut keys, began) = (first.log_head(), 0, Instant::now());
    let commits = first.commits().expect("it is durable");
    while began.elapsed() < time || keys < 100 {
        let (name, value) = (format!("key {}", keys % 1000), format!("{keys:>1000}"));
        let commit = put(&first, &mut head, &name, value.as_bytes());
        keys += 1;
        while commits.safe() < commit {
            requests.ask();
            was_refused |= shared.durability.fails();
            assert!(began.elapsed() < PATIENCE, "nothing is acknowledged any more");
            std::thread::yield_now();
        }
    }
    drop(thread);
    let again = store();
    let resumed = recovered(folder.path(), &again);
    assert_eq!(again.len(), first.len());
    for key in 0..again.len() {
        let name = format!("key {key}");
        let (was, is) = (first.pin(), again.pin());
        let key = HashedKey::new(name.as_bytes());
        let value = |record: Option<sidle_store::Record<'_>>| record.map(|record| record.value().to_vec());
        assert_eq!(value(is.get(key).value()), value(was.get(key).value()), "{name}");
    }
    // Nothing is left that a further start would have to judge.
    let third = store();
    assert_eq!(recovered(folder.path(), &third).last, resumed.last);
    was_refused
}

#[test]
fn what_could_not_be_synced_is_in_the_next_file() {
    let once_in_a_while = |sync| sync % 7 == 5;
    assert!(!loses_nothing("always", Duration::from_millis(500), once_in_a_while));
    loses_nothing("everysec", Duration::from_millis(3500), |sync| sync % 3 == 1);
}

#[test]
fn writes_are_refused_while_no_file_can_be_synced_and_go_on_afterwards() {
    assert!(loses_nothing("always", Duration::from_millis(500), |sync| (10..15).contains(&sync)));
}

/// A folder with a log of several files, whose writer has ended; and how many keys it has.
fn several_files() -> (tempfile::TempDir, u64) {
    let folder = tempfile::tempdir().expect("a temporary folder");
    // A new path, as of a node's first start.
    let path = folder.path().join("durable-log");
    for start in 0..4 {
        let store = store();
        let resumed = recovered(&path, &store);
        store.commits().expect("it is durable").resume(resumed.last, true);
        let thread = LogWriterThread::start(setup(&store, "always"), resumed).expect("threads start");
        put(&store, &mut store.log_head(), &format!("key {start}"), b"value");
        drop(thread);
    }
    (folder, 4)
}

/// What a start finds: the number of keys, or why it is refused.
fn found(folder: &tempfile::TempDir, salvages: bool) -> Result<u64, String> {
    let (path, store) = (folder.path().join("durable-log"), store());
    let (stop, loading) = (AtomicBool::new(false), Loading::default());
    let reader = Reader { path: &path, store: &store, salvages, threads: 2, stop: &stop, progress: &loading };
    reader.recover().map(|_| store.len()).map_err(|error| error.to_string())
}

fn file(folder: &tempfile::TempDir, number: u64) -> std::path::PathBuf {
    folder.path().join("durable-log").join(sidle_log_files::file_name(number))
}

#[test]
fn a_file_that_is_missing_at_either_end_is_refused_and_salvaged_when_asked() {
    for number in [1, 2, 4] {
        let (folder, keys) = several_files();
        std::fs::remove_file(file(&folder, number)).expect("it is there");
        let why = found(&folder, false).expect_err("a file is missing");
        assert!(why.contains("is missing") && why.contains("--salvage"), "{why}");
        assert_eq!(found(&folder, true), Ok(keys - 1), "file {number}");
        assert_eq!(found(&folder, false), Ok(keys - 1), "it is whole again");
    }
}

#[test]
fn a_file_without_its_head_is_refused_and_salvaged_when_asked() {
    for (number, bytes, left) in [(2, 0, 3), (4, 0, 3), (4, 63, 3), (2, 64, 3)] {
        let (folder, _) = several_files();
        std::fs::File::options().write(true).open(file(&folder, number)).unwrap().set_len(bytes).unwrap();
        assert!(found(&folder, false).is_err(), "file {number} of {bytes} bytes");
        assert_eq!(found(&folder, true), Ok(left), "file {number} of {bytes} bytes");
        assert_eq!(found(&folder, false), Ok(left), "it is whole again");
    }
    let (folder, keys) = several_files();
    let mut bytes = std::fs::read(file(&folder, 2)).unwrap();
    bytes[20] ^= 1;
    std::fs::write(file(&folder, 2), bytes).unwrap();
    assert!(found(&folder, false).is_err());
    assert_eq!(found(&folder, true), Ok(keys), "its blocks check");
    assert!(file(&folder, 2).with_extension("damaged").exists(), "it is kept");
    assert_eq!(found(&folder, false), Ok(keys));
}

#[test]
fn a_log_without_a_record_of_its_files_gets_one() {
    let (folder, keys) = several_files();
    let record = folder.path().join("durable-log/files");
    std::fs::remove_file(&record).expect("it is there");
    assert_eq!(found(&folder, false), Ok(keys));
    assert!(record.exists());
    std::fs::write(&record, "nonsense").expect("it is written");
    assert!(found(&folder, false).expect_err("it is damaged").contains("`files`"));
    assert_eq!(found(&folder, true), Ok(keys));
    assert_eq!(found(&folder, false), Ok(keys));
}

#[test]
fn only_its_user_may_read_a_log() {
    use std::os::unix::fs::PermissionsExt;
    let (folder, _) = several_files();
    let path = folder.path().join("durable-log");
    let mode = |path: &Path| std::fs::metadata(path).expect("it is there").permissions().mode() & 0o777;
    assert_eq!(mode(&path), 0o700);
    for entry in std::fs::read_dir(&path).expect("it is there") {
        let path = entry.expect("it is there").path();
        assert_eq!(mode(&path), 0o600, "{}", path.display());
    }
}

#[test]
fn writes_are_refused_while_a_file_is_not_in_its_place() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let (path, aside) = (folder.path().join("durable-log"), folder.path().join("aside"));
    let store = store();
    let setup = setup(&store, "always");
    let shared = Arc::clone(&setup.shared);
    let resumed = recovered(&path, &store);
    let thread = LogWriterThread::start(setup, resumed).expect("threads start");
    let commits = store.commits().expect("it is durable");
    let commit = put(&store, &mut store.log_head(), "key", b"value");
    let until = |what: &str, is: &dyn Fn() -> bool| {
        let began = Instant::now();
        while !is() {
            assert!(began.elapsed() < PATIENCE, "{what}");
            std::thread::sleep(Duration::from_millis(10));
        }
    };
    until("it is written", &|| commits.safe() >= commit);
    std::fs::rename(&path, &aside).expect("it is moved");
    until("the log is missed", &|| shared.durability.fails());
    let why = shared.durability.failure().expect("it fails");
    assert!(why.contains("was moved or removed"), "{why}");
    std::fs::rename(&aside, &path).expect("it is moved back");
    until("the log is found again", &|| !shared.durability.fails());
    drop(thread);
}
