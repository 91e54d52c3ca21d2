//! Files that cannot be synced, and lose what was written to them since the last sync.

use super::super::recover::Reader;
use super::*;
use crate::data_dir::random_node_id;
use sidle_node::{Config, Loading, ProcessFacts};
use sidle_store::{LogHead, StoreConfig};
use sidle_types::HashedKey;
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

fn recovered(path: &Path, store: &Store) -> Resumed {
    let (stop, loading) = (AtomicBool::new(false), Loading::default());
    let reader = Reader { path, store, salvages: false, threads: 2, stop: &stop, loading: &loading };
    reader.recover().expect("the log is whole")
}

fn setup(store: &Arc<Store>, fsync: &str) -> LogWriterSetup {
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
    let settings =
        Settings { syncs: Syncs::Always, file_bytes: 64 << 10, least_bytes: 256 << 10, share_percent: 200 };
    LogWriterSetup {
        store: Arc::clone(store),
        shared: Arc::new(NodeShared::new(config, 1, process)),
        wake: Box::new(|| ()),
        requests: Arc::default(),
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
