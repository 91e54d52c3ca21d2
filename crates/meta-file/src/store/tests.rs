use super::*;
use sidle_cluster::{
    ClusterId, Incarnation, KnownStart, MigrationRecord, MigrationState, StartNumber, TabletMap,
};
use sidle_testbed::fixtures::{node_info, running};
use sidle_types::{MigrationId, PositionRange, ProtocolVersion, Speaks};
use std::fs;
use std::path::PathBuf;
use std::sync::Arc;
use tempfile::TempDir;

fn metadata(next: u64) -> Metadata {
    let new = Metadata::new(ClusterId::from_bits(9), TabletMap::founded_by(node_info(7)));
    let (node, speaks) = (node_info(7).id, Some(Speaks::THIS_BUILD));
    let log_since = None;
    let starts =
        vec![KnownStart { node, incarnation: Incarnation(1), start: StartNumber(8), speaks, log_since }];
    let history = (0..next).filter(|id| id.is_multiple_of(5)).map(|id| Arc::new(ended(id))).collect();
    Metadata { next_migration: MigrationId(next), history, starts, ..new }
}

fn ended(id: u64) -> MigrationRecord {
    MigrationRecord { state: MigrationState::Cancelled, ..running(id, PositionRange::ALL, 7, 7, 0) }
}

/// A folder, and the store's path in it.
fn place() -> (TempDir, PathBuf) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("coordinator.meta");
    (folder, path)
}

fn stored(path: &Path, next: u64) {
    let mut store = FileMetaStore::open(path).unwrap();
    store.commit(&metadata(next)).unwrap();
}

fn loaded(path: &Path) -> Option<Metadata> {
    FileMetaStore::open(path).unwrap().load().unwrap()
}

fn open_error(path: &Path) -> String {
    let outcome = FileMetaStore::open(path).and_then(|mut store| store.load());
    outcome.unwrap_err().to_string()
}

/// Asserts that a file with this content is refused with these words, and is left unchanged.
fn assert_refused(content: &[u8], words: &str) {
    let (folder, path) = place();
    fs::write(&path, content).unwrap();
    let error = open_error(&path);
    assert!(error.contains("coordinator.meta is ") && error.contains(words), "{words}: {error}");
    assert!(error.contains("It was not overwritten"), "{error}");
    assert!(fs::read(&path).unwrap() == content, "{words}: the file is as it was");
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1, "nothing else is left behind");
}

#[test]
fn what_is_committed_is_loaded() {
    let (folder, path) = place();
    let mut store = FileMetaStore::open(&path).unwrap();
    assert_eq!(store.load().unwrap(), None);
    for next in 1..=20 {
        store.commit(&metadata(next)).unwrap();
        assert_eq!(store.load().unwrap(), Some(metadata(next)));
    }
    drop(store);
    assert_eq!(loaded(&path), Some(metadata(20)));
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1, "nothing else is left behind");
}

#[test]
fn a_copy_taken_after_a_commit_opens_as_after_a_crash() {
    let (folder, path) = place();
    let mut store = FileMetaStore::open(&path).unwrap();
    for next in 1..=5 {
        store.commit(&metadata(next)).unwrap();
        let copy = folder.path().join("copy.meta");
        fs::copy(&path, &copy).unwrap();
        assert_eq!(loaded(&copy), Some(metadata(next)));
    }
}

#[test]
fn a_file_aside_from_a_crash_does_no_harm() {
    let (_folder, path) = place();
    let aside = path.with_extension("meta.new");
    fs::write(&aside, b"half").unwrap();
    stored(&path, 3);
    fs::write(&aside, "longer than what is written ".repeat(1000)).unwrap();
    stored(&path, 4);
    assert_eq!(loaded(&path), Some(metadata(4)));
    assert!(!aside.exists());
}

#[test]
fn a_second_process_is_refused() {
    let (_folder, path) = place();
    let mut store = FileMetaStore::open(&path).unwrap();
    assert!(open_error(&path).contains("in use by another process"));
    store.commit(&metadata(1)).unwrap();
    assert!(open_error(&path).contains("in use by another process"), "the new file is locked, too");
    assert_eq!(store.load().unwrap(), Some(metadata(1)));
}

/// Either of two that found no store may create it.
#[test]
fn only_one_of_two_processes_creates_the_store() {
    let (_folder, path) = place();
    let (mut first, mut second) = (FileMedium::new(&path), FileMedium::new(&path));
    assert!(first.read().unwrap().is_none() && second.read().unwrap().is_none());
    first.create_aside().unwrap();
    assert_eq!(second.create_aside().unwrap_err().kind(), io::ErrorKind::WouldBlock);
    first.write_aside(&encode(Some(&metadata(1)))).unwrap();
    first.rename_aside().unwrap();
    assert_eq!(second.create_aside().unwrap_err().kind(), io::ErrorKind::WouldBlock);
    assert_eq!(second.read().unwrap_err().kind(), io::ErrorKind::WouldBlock);
    drop((first, second));
    assert_eq!(loaded(&path), Some(metadata(1)));
}

/// A process that found no store, because another was just creating it, gives up; the other goes on.
#[test]
fn who_has_the_store_waits_for_one_who_gives_up() {
    let (_folder, path) = place();
    let mut owner = FileMetaStore::open(&path).unwrap();
    let held = fs::File::create(path.with_extension("meta.new")).unwrap();
    held.lock().unwrap();
    std::thread::scope(|scope| {
        scope.spawn(|| owner.commit(&metadata(7)).unwrap());
        std::thread::sleep(std::time::Duration::from_millis(20));
        held.unlock().unwrap();
    });
    drop(owner);
    assert_eq!(loaded(&path), Some(metadata(7)));
}

/// Several processes at once, repeatedly: one at a time has the store, and no commit is lost.
#[test]
fn processes_that_take_turns_lose_nothing() {
    let (_folder, path) = place();
    let commits = std::sync::atomic::AtomicU64::new(0);
    std::thread::scope(|scope| {
        for _process in 0..4 {
            scope.spawn(|| {
                let mut turns = 0;
                while turns < 10 {
                    let Ok(mut store) = FileMetaStore::open(&path) else {
                        std::thread::yield_now();
                        continue;
                    };
                    let next = store.load().unwrap().map_or(1, |found| found.next_migration.0 + 1);
                    store.commit(&metadata(next)).unwrap();
                    commits.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
                    turns += 1;
                }
            });
        }
    });
    assert_eq!(loaded(&path), Some(metadata(commits.into_inner())));
}

#[test]
fn foreign_and_truncated_files_are_refused_and_left_alone() {
    let whole = encode(Some(&metadata(5)));
    assert_refused(b"", "it is empty");
    for content in [&b"not metadata"[..], &b"not metadata ".repeat(100_000), &vec![0; whole.len()]] {
        assert_refused(content, "it does not begin as such");
    }
    for length in 1..whole.len() {
        let (folder, path) = place();
        fs::write(&path, &whole[..length]).unwrap();
        let error = open_error(&path);
        assert!(error.contains("is not readable cluster metadata"), "cut at {length}: {error}");
        assert!(fs::read(&path).unwrap() == whole[..length], "cut at {length}: the file is as it was");
        drop(folder);
    }
    let mut longer = whole.clone();
    longer.push(b' ');
    assert_refused(&longer, "its checksum is wrong");
}

#[test]
fn a_damaged_byte_is_refused() {
    let whole = encode(Some(&metadata(5)));
    for at in 0..whole.len() {
        for change in [0x55, 0x01] {
            let mut content = whole.clone();
            content[at] ^= change;
            assert!(decode(&content).is_err(), "byte {at} does not matter");
        }
    }
}

#[test]
fn other_versions_are_refused_by_their_names() {
    let newer = encode(Some(&metadata(5)));
    let newer = String::from_utf8(newer).unwrap().replacen("sidle-coordinator 1 ", "sidle-coordinator 2 ", 1);
    assert_refused(newer.as_bytes(), "is format 2, which this version of sidle does not read");
    assert_refused(newer.as_bytes(), "Start the version that wrote it");
    let redb = [&b"redb\x1a\x0a\xa9\x0d\x0a"[..], &[0; 4096]].concat();
    assert_refused(&redb, "is a redb database, of a development version of Sidle 0.1.0");
}

/// A file of [`metadata`] in whose body this was put in place of that.
fn with_body(what: &str, instead: &str) -> Vec<u8> {
    with_changes(&[(what, instead)])
}

fn with_changes(changes: &[(&str, &str)]) -> Vec<u8> {
    let whole = String::from_utf8(encode(Some(&metadata(6)))).unwrap();
    let mut body = whole.split_once('\n').unwrap().1.to_owned();
    for (what, instead) in changes {
        assert!(body.contains(what), "{body}");
        body = body.replace(what, instead);
    }
    let checked = format!("{}\n{body}", body.len());
    format!("sidle-coordinator 1 {:08x} {checked}", crc32c::crc32c(checked.as_bytes())).into_bytes()
}

#[test]
fn metadata_that_breaks_an_invariant_is_refused() {
    assert_refused(&with_body("0xffffffffffffffff", "0xfffffffffffffffe"), "gap or overlap");
}

#[test]
fn the_record_of_a_cluster_that_speaks_another_version_is_refused() {
    let later = with_body(r#","version":4"#, r#","version":5,"unheard_of":{}"#);
    assert_refused(&later, "is the record of a cluster that speaks version 5, which this version of sidle");
    assert_refused(&later, "Start the version that wrote it");
    assert_refused(&with_body(r#","version":4"#, r#","version":2"#), "that speaks version 2");
}

/// In no version that is spoken here does anybody write that. The next commit would lose it.
#[test]
fn what_is_not_known_here_is_refused_wherever_it_stands_and_is_not_called_damaged() {
    for (what, instead) in [
        (r#""client_addr""#, r#""unheard_of":1,"client_addr""#),
        (r#""cluster""#, r#""unheard_of":1,"cluster""#),
        (r#""start":8"#, r#""start":8,"unheard_of":1"#),
        (r#""lowest":3"#, r#""lowest":3,"unheard_of":1"#),
    ] {
        let content = with_body(what, instead);
        assert_refused(&content, "is of a program that writes more into it, which this version of sidle");
        assert_refused(&content, "Start the version that wrote it");
    }
}

#[test]
fn every_version_that_is_spoken_here_is_read_and_no_other() {
    let Speaks { lowest, highest } = Speaks::THIS_BUILD;
    for version in lowest.0 - 1..=highest.0 + 1 {
        let named = format!(r#","version":{version}"#);
        // Who speaks the unsaid version does not name it.
        let named = if ProtocolVersion(version).is_unsaid() { "" } else { &named };
        let read = decode(&with_body(r#","version":4"#, named));
        let read = read.map(|metadata| metadata.map(|metadata| metadata.map.version()));
        match Speaks::THIS_BUILD.includes(ProtocolVersion(version)) {
            true => assert_eq!(read, Ok(Some(ProtocolVersion(version)))),
            false => assert!(matches!(read, Err(Unreadable::OtherVersion(_))), "{version}: {read:?}"),
        }
    }
}

/// It was written before any version was.
#[test]
fn the_record_of_a_cluster_that_names_no_version_is_read_and_written_as_it_was() {
    let (_folder, path) = place();
    let content = with_changes(&[(r#","version":4"#, ""), (r#","speaks":{"lowest":3,"highest":4}"#, "")]);
    fs::write(&path, &content).unwrap();
    let found = loaded(&path).expect("it is there");
    assert_eq!(found.map.version(), ProtocolVersion::PREVIOUS);
    FileMetaStore::open(&path).unwrap().commit(&found).unwrap();
    assert!(fs::read(&path).unwrap() == content);
}

#[test]
fn a_store_that_was_removed_is_written_anew_by_the_next_commit() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("data/coordinator.meta");
    fs::create_dir(folder.path().join("data")).unwrap();
    let mut store = FileMetaStore::open(&path).unwrap();
    store.commit(&metadata(5)).unwrap();
    assert_eq!(store.keep(&metadata(5)), Ok(Place::Kept));
    fs::remove_file(&path).unwrap();
    store.commit(&metadata(6)).unwrap();
    assert_eq!(store.load().unwrap(), Some(metadata(6)));
    // The whole folder, too, without a change of the cluster.
    fs::remove_dir_all(folder.path().join("data")).unwrap();
    assert_eq!(store.keep(&metadata(6)), Ok(Place::WrittenAnew));
    assert_eq!(store.keep(&metadata(6)), Ok(Place::Kept));
    assert!(open_error(&path).contains("in use by another process"), "the new file is locked, too");
    store.commit(&metadata(7)).unwrap();
    drop(store);
    assert_eq!(loaded(&path), Some(metadata(7)));
}

#[test]
fn a_file_in_the_place_of_the_store_is_left_alone() {
    let (folder, path) = place();
    let mut store = FileMetaStore::open(&path).unwrap();
    store.commit(&metadata(5)).unwrap();
    let copy = folder.path().join("copy.meta");
    fs::copy(&path, &copy).unwrap();
    fs::rename(&copy, &path).unwrap();
    let before = fs::read(&path).unwrap();
    let error = store.commit(&metadata(6)).unwrap_err().to_string();
    assert!(error.contains("somebody has put another in its place"), "{error}");
    assert!(fs::read(&path).unwrap() == before);
    fs::rename(&path, &copy).unwrap();
    store.commit(&metadata(7)).unwrap();
    drop(store);
    assert_eq!(loaded(&path), Some(metadata(7)));
}

#[test]
fn a_store_is_not_written_anew_where_it_would_be_forgotten() {
    let above = tempfile::tempdir().unwrap();
    let folder = above.path().join("data");
    fs::create_dir(&folder).unwrap();
    let path = folder.join("coordinator.meta");
    let mut store = FileMetaStore::open(&path).unwrap();
    store.commit(&metadata(5)).unwrap();
    fs::remove_dir_all(&folder).unwrap();
    fs::write(&folder, "in the way").unwrap();
    let error = store.commit(&metadata(6)).unwrap_err().to_string();
    assert!(error.contains("the cluster is not changed"), "{error}");
    fs::remove_file(&folder).unwrap();
    // Another file system in its place, like an unmounted volume.
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

/// A medium whose steps fail from a number on, like a full or broken disk.
#[derive(Debug)]
struct Failing {
    file: FileMedium,
    steps_left: usize,
}

impl Failing {
    fn step(&mut self) -> io::Result<&mut FileMedium> {
        if self.steps_left == 0 {
            return Err(io::ErrorKind::StorageFull.into());
        }
        self.steps_left -= 1;
        Ok(&mut self.file)
    }
}

impl Medium for Failing {
    fn name(&self) -> String {
        self.file.name()
    }
    fn read(&mut self) -> io::Result<Option<Vec<u8>>> {
        self.file.read()
    }
    fn create_aside(&mut self) -> io::Result<()> {
        self.step()?.create_aside()
    }
    fn write_aside(&mut self, content: &[u8]) -> io::Result<()> {
        // What fits is written.
        if self.steps_left == 0 {
            self.file.write_aside(&content[..content.len() / 2])?;
        }
        self.step()?.write_aside(content)
    }
    fn sync_aside(&mut self) -> io::Result<()> {
        self.step()?.sync_aside()
    }
    fn rename_aside(&mut self) -> io::Result<()> {
        self.step()?.rename_aside()
    }
    fn sync_name(&mut self) -> io::Result<()> {
        self.step()?.sync_name()
    }
    fn discard_aside(&mut self) -> io::Result<()> {
        self.file.discard_aside()
    }
    fn whereabouts(&self) -> io::Result<Whereabouts> {
        self.file.whereabouts()
    }
    fn restore(&mut self) -> io::Result<()> {
        self.file.restore()
    }
}

#[test]
fn a_commit_that_fails_leaves_the_old_or_the_new_and_the_next_one_succeeds() {
    for steps_left in 0..5 {
        let (folder, path) = place();
        stored(&path, 5);
        let medium = Failing { file: FileMedium::new(&path), steps_left: 5 };
        let mut store = FileMetaStore::open_on(medium).unwrap();
        store.medium.steps_left = steps_left;
        let error = store.commit(&metadata(6)).unwrap_err().to_string();
        assert!(error.contains("cannot use") && error.contains("Check the disk"), "{error}");
        let found = decode(&fs::read(&path).unwrap()).unwrap();
        // Without the last step the new store has the name, but is not durable.
        assert_eq!(found, Some(metadata(if steps_left < 4 { 5 } else { 6 })));
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1, "nothing is left aside");
        assert!(open_error(&path).contains("in use by another process"));
        store.load().unwrap_err();
        store.medium.steps_left = usize::MAX;
        assert_eq!(store.load().unwrap(), found);
        store.commit(&metadata(7)).unwrap();
        drop(store);
        assert_eq!(loaded(&path), Some(metadata(7)));
    }
}

#[test]
fn an_opening_that_fails_leaves_what_is_there() {
    for steps_left in 0..5 {
        let (folder, path) = place();
        let medium = Failing { file: FileMedium::new(&path), steps_left };
        FileMetaStore::open_on(medium).unwrap_err();
        stored(&path, 5);
        FileMetaStore::open_on(Failing { file: FileMedium::new(&path), steps_left }).unwrap_err();
        assert_eq!(loaded(&path), Some(metadata(5)));
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1, "nothing is left aside");
    }
}

/// A medium with a page cache: what a process reads, and what survives a system crash. After a failed sync,
/// earlier writes in the cache never reach the disk.
#[derive(Debug, Default)]
struct Cached {
    shown: Option<Vec<u8>>,
    on_disk: Option<Vec<u8>>,
    aside: Vec<u8>,
    /// Whether the bytes of the file aside, later of the store, were synced since they were written.
    is_synced: bool,
}

impl Medium for Cached {
    fn name(&self) -> String {
        "a store".to_owned()
    }
    fn read(&mut self) -> io::Result<Option<Vec<u8>>> {
        Ok(self.shown.clone())
    }
    fn create_aside(&mut self) -> io::Result<()> {
        (self.aside, self.is_synced) = (Vec::new(), false);
        Ok(())
    }
    fn write_aside(&mut self, content: &[u8]) -> io::Result<()> {
        self.aside = content.to_vec();
        Ok(())
    }
    fn sync_aside(&mut self) -> io::Result<()> {
        self.is_synced = true;
        Ok(())
    }
    fn rename_aside(&mut self) -> io::Result<()> {
        self.shown = Some(std::mem::take(&mut self.aside));
        Ok(())
    }
    fn sync_name(&mut self) -> io::Result<()> {
        if self.is_synced {
            self.on_disk = self.shown.clone();
        }
        Ok(())
    }
    fn discard_aside(&mut self) -> io::Result<()> {
        Ok(())
    }
    fn whereabouts(&self) -> io::Result<Whereabouts> {
        Ok(Whereabouts::InPlace)
    }
    fn restore(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Invariant 3. A process is killed after a failed commit. Its bytes can be read, but would be lost with the
/// machine, though the cluster has acted on them.
#[test]
fn opening_makes_what_it_reads_durable() {
    let [earlier, later] = [5, 6].map(|next| encode(Some(&metadata(next))));
    let medium = Cached { shown: Some(later.clone()), on_disk: Some(earlier), ..Cached::default() };
    let mut store = FileMetaStore::open_on(medium).unwrap();
    assert!(store.medium.on_disk.as_ref() == Some(&later), "opening writes it anew");
    assert_eq!(store.load().unwrap(), Some(metadata(6)));
    // A store that opening creates survives a crash, too.
    let store = FileMetaStore::open_on(Cached::default()).unwrap();
    assert!(store.medium.on_disk == Some(encode(None)));
}
