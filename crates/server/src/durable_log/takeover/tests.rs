//! What a node has taken over is what the dead one had, also after the new owner's restart.

use super::super::log_writer::LogWriterThread;
use super::super::log_writer::tests::{recovered, setup};
use super::super::requests::LogRequests;
use super::*;
use sidle_node::TakingOver;
use sidle_node::testing::{SoloNode, TestClient, TestLog};
use sidle_store::WholeDiscard;
use sidle_types::{HashedKey, Position, WallMs};
use std::collections::BTreeMap;
use std::fs;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

const PATIENCE: Duration = Duration::from_secs(60);
const MEMORY_BYTES: u64 = 64 << 20;

/// The first half of all positions, in two ranges of which one is short.
fn taken() -> [PositionRange; 2] {
    let range = |first, last| PositionRange::new(Position(first), Position(last)).expect("in order");
    let (cut, middle) = (u64::MAX / 7, u64::MAX / 2);
    [range(cut + 1, middle), range(0, cut)]
}

fn is_taken(key: &[u8]) -> bool {
    taken().iter().any(|range| range.contains(HashedKey::new(key).position()))
}

/// A node with a durable log that is written.
struct Node {
    solo: SoloNode,
    client: TestClient,
    requests: Arc<LogRequests>,
    writer: Option<LogWriterThread>,
    folder: tempfile::TempDir,
    log: LogId,
}

impl Node {
    fn new() -> Node {
        Node::with_memory(MEMORY_BYTES)
    }

    fn with_memory(bytes: u64) -> Node {
        Node::start(tempfile::tempdir().expect("a temporary folder"), bytes)
    }

    fn start(folder: tempfile::TempDir, bytes: u64) -> Node {
        let solo = SoloNode::recovered(bytes, &TestLog::default());
        solo.parts.shared.config.apply(vec![("enable-debug-command", "yes".to_owned())]);
        let store = &solo.parts.store;
        let resumed = recovered(&folder.path().join("log"), store);
        store.commits().expect("it is durable").resume(resumed.last, true);
        let (log, setup) = (resumed.log, setup(store, "always"));
        let requests = Arc::clone(&setup.requests);
        let writer = Some(LogWriterThread::start(setup, resumed).expect("threads start"));
        let client = solo.connect();
        Node { solo, client, requests, writer, folder, log }
    }

    /// What it acknowledged is in its log, and no more is written.
    fn die(&mut self) {
        self.writer = None;
    }

    fn restart(mut self) -> Node {
        self.die();
        Node::start(self.folder, MEMORY_BYTES)
    }

    fn path(&self) -> PathBuf {
        self.folder.path().join("log")
    }

    fn store(&self) -> &Arc<Store> {
        &self.solo.parts.store
    }

    fn ask(&mut self, request: &str) -> String {
        let reply = format!("{:?}", self.solo.ask(&mut self.client, request));
        assert!(!reply.contains("ERR"), "{request:.40}: {reply}");
        reply
    }

    /// Ends a commit.
    fn commit(&self) {
        let (commits, began) = (self.store().commits().expect("it is durable"), Instant::now());
        let commit = commits.newest();
        while commits.safe() < commit {
            assert!(began.elapsed() < PATIENCE, "nothing is committed any more");
            self.requests.ask();
            std::thread::yield_now();
        }
    }

    fn flush(&self) {
        let mut flush = WholeDiscard::begin(self.store());
        let mut next = Some(Position::FIRST);
        while let Some(from) = next {
            next = flush.discard(from, Position::LAST, 100, &mut Vec::new());
        }
    }

    /// What clients see of each key: its type, its value and its deadline.
    fn content(&mut self, is_asked: fn(&[u8]) -> bool) -> BTreeMap<String, [String; 3]> {
        let mut keys = Vec::new();
        let mut next = Some(Position::FIRST);
        while let Some(from) = next {
            next = self.store().visit(from, Position::LAST, 1000, &mut |record| {
                keys.push(String::from_utf8_lossy(record.key()).into_owned());
            });
        }
        let asked = keys.into_iter().filter(|key| is_asked(key.as_bytes()));
        let all: Vec<String> = asked.collect();
        all.into_iter()
            .map(|key| {
                let seen = ["TYPE", "DEBUG DIGEST-VALUE", "PEXPIRETIME"];
                let seen = seen.map(|command| self.ask(&format!("{command} {key}")));
                (key, seen)
            })
            .collect()
    }

    /// All bytes of its log, by file.
    fn files(&self) -> BTreeMap<PathBuf, Vec<u8>> {
        let entries = fs::read_dir(self.path()).expect("it is there");
        let paths = entries.map(|entry| entry.expect("it is there").path());
        paths.map(|path| (path.clone(), fs::read(path).expect("it is a file"))).collect()
    }

    /// Its first or last file.
    fn file(&self, is_last: bool) -> PathBuf {
        let mut files: Vec<PathBuf> = self.files().into_keys().collect();
        files.retain(|path| path.extension().is_some_and(|extension| extension == "log"));
        if is_last { files.pop().expect("there is one") } else { files.swap_remove(0) }
    }
}

/// Has a node take the ranges over from one that died.
struct Taking<'t> {
    path: PathBuf,
    log: LogId,
    live: &'t Store,
    memory_bytes: u64,
    stop: AtomicBool,
    progress: TakingOver,
}

impl<'t> Taking<'t> {
    fn new(dead: &Node, live: &'t Store, memory_bytes: u64) -> Taking<'t> {
        let (stop, progress) = (AtomicBool::new(false), TakingOver::default());
        progress.begin(dead.log, None);
        Taking { path: dead.path(), log: dead.log, live, memory_bytes, stop, progress }
    }

    fn read_bytes(&self) -> u64 {
        self.progress.progress().expect("it has begun").read_bytes
    }

    fn run(&self) -> Result<TakenOver, TakeOverError> {
        self.run_for(&taken())
    }

    fn run_for(&self, ranges: &[PositionRange]) -> Result<TakenOver, TakeOverError> {
        take_over(TakeOver {
            path: &self.path,
            log: self.log,
            ranges,
            keeps: false,
            imports: None,
            live: self.live,
            head: self.live.log_head(),
            memory_bytes: self.memory_bytes,
            threads: 2,
            stop: &self.stop,
            progress: &self.progress,
        })
    }
}

/// Words for a request: this one with the numbers below `count`.
fn words(count: usize, word: impl Fn(usize) -> String) -> String {
    (0..count).map(word).collect::<Vec<_>>().join(" ")
}

/// Collections of all types with so many elements each.
fn write_collections(node: &mut Node, name: &str, count: usize) {
    for key in 0..6 {
        let value = "v".repeat(40);
        node.ask(&format!("HSET {name}:h:{key} {}", words(count, |at| format!("field{at} {value}{at}"))));
        node.ask(&format!("RPUSH {name}:l:{key} {}", words(count, |at| format!("{value}{at}"))));
        node.ask(&format!("SADD {name}:s:{key} {}", words(count, |at| format!("{value}{at}"))));
        node.ask(&format!("ZADD {name}:z:{key} {}", words(count, |at| format!("{at} {value}{at}"))));
        node.commit();
        node.ask(&format!("HDEL {name}:h:{key} field1 field{}", count / 2));
        node.ask(&format!("HSET {name}:h:{key} field2 changed"));
        node.ask(&format!("LPOP {name}:l:{key}"));
        node.ask(&format!("RPUSH {name}:l:{key} more"));
        node.ask(&format!("SREM {name}:s:{key} {value}0"));
        node.ask(&format!("ZADD {name}:z:{key} 0.5 {value}{}", count - 1));
        node.commit();
    }
    node.ask(&format!("DEL {name}:h:0"));
    node.ask(&format!("RENAME {name}:l:1 {name}:renamed"));
    node.ask(&format!("PEXPIREAT {name}:z:2 1900000000000"));
    node.ask(&format!("SET {name}:s:3 replaced"));
    node.commit();
}

/// Strings that are written, overwritten, removed, flushed, and expire.
fn write_strings(node: &mut Node) {
    for key in 0..100 {
        node.ask(&format!("SET flushed:{key} x"));
        node.ask(&format!("SET s:{key} flushed"));
    }
    node.commit();
    node.flush();
    node.commit();
    for key in 0..300 {
        node.ask(&format!("SET s:{key} first"));
    }
    node.commit();
    for key in 0..300 {
        match key % 6 {
            0 => node.ask(&format!("SET s:{key} second")),
            1 => node.ask(&format!("DEL s:{key}")),
            2 => node.ask(&format!("PEXPIREAT s:{key} 1800000000000")),
            3 => node.ask(&format!("PEXPIREAT s:{key} 1700000000100")),
            _ => continue,
        };
    }
    node.commit();
    for key in 0..6 {
        node.ask(&format!("SET big:{key} {}", "b".repeat(300 << 10)));
        node.ask(&format!("RPUSH long:{key} small {} last", "e".repeat(300 << 10)));
        node.commit();
    }
}

/// A node that has written everything there is, and died. Its log's end is torn.
fn dead_node() -> Node {
    let mut dead = Node::new();
    write_strings(&mut dead);
    write_collections(&mut dead, "small", 4);
    write_collections(&mut dead, "some", 200);
    write_collections(&mut dead, "many", 8000);
    dead.die();
    // Some of the keys are past their deadlines.
    dead.solo.now.wall = WallMs(1_700_000_001_000);
    let last = dead.file(true);
    let torn = [fs::read(&last).expect("it is there"), vec![7; 100]].concat();
    fs::write(last, torn).expect("it is written");
    dead
}

/// Writes other keys until this is set; returns what they have then.
fn write_others(store: &Store, ends: &AtomicBool) -> BTreeMap<String, Vec<u8>> {
    let (mut head, mut written) = (store.log_head(), BTreeMap::new());
    for round in 0_u64.. {
        let name = format!("live:{}", round % 500);
        let key = HashedKey::new(name.as_bytes());
        if is_taken(name.as_bytes()) {
            continue;
        }
        let value = format!("{round:>100}").into_bytes();
        store.lock_slot(key.slot()).put(&mut head, key, &[&value], None).expect("there is room");
        written.insert(name, value);
        if ends.load(Ordering::Relaxed) && round > 1000 {
            break;
        }
        std::thread::sleep(Duration::from_micros(20));
    }
    written
}

#[test]
fn the_new_owner_has_what_the_dead_node_had_also_after_a_restart() {
    let mut dead = dead_node();
    let files = dead.files();
    let mut live = Node::new();
    live.solo.now = dead.solo.now;
    let (ends, store) = (AtomicBool::new(false), Arc::clone(live.store()));
    let (took, written) = std::thread::scope(|scope| {
        let others = scope.spawn(|| write_others(&store, &ends));
        let taking = Taking::new(&dead, &store, MEMORY_BYTES);
        let took = taking.run();
        let progress = taking.progress.progress().expect("it has begun");
        assert!(progress.read_bytes > 1 << 20 && progress.read_bytes <= progress.copy_bytes, "{progress:?}");
        assert!(progress.found_bytes > 1 << 20 && progress.put_bytes > 1 << 20, "{progress:?}");
        ends.store(true, Ordering::Relaxed);
        (took.expect("it is whole"), others.join().expect("it writes"))
    });
    assert_eq!(dead.files(), files, "nothing of the copy is changed");
    let was = dead.content(is_taken);
    assert!(was.len() > 150, "{}", was.len());
    assert_eq!(live.content(is_taken), was);
    assert_eq!(took.keys, was.len() as u64);
    assert!(took.bytes > 1 << 20 && took.records > took.keys);
    let others = live.content(|key| !is_taken(key));
    assert_eq!(others.keys().collect::<Vec<_>>(), written.keys().collect::<Vec<_>>());
    // It goes on with what it has.
    let requests =
        ["HSET many:h:{} new field", "RPUSH many:l:{} new", "ZADD many:z:{} 9 new", "DEL some:s:{}"];
    for request in requests {
        let keys = (4..6).map(|key| request.replace("{}", &key.to_string()));
        let is_taken =
            |request: &String| request.split(' ').nth(1).is_some_and(|key| is_taken(key.as_bytes()));
        let requests: Vec<String> = keys.filter(is_taken).collect();
        requests.iter().for_each(|request| {
            live.ask(request);
            dead.ask(request);
        });
    }
    let was = dead.content(is_taken);
    assert_eq!(live.content(is_taken), was);
    let now = live.solo.now;
    let mut again = live.restart();
    again.solo.now = now;
    assert_eq!(again.content(is_taken), was);
    for (name, value) in written {
        let (guard, key) = (again.store().pin(), HashedKey::new(name.as_bytes()));
        assert_eq!(guard.get(key).value().map(|record| record.value().to_vec()), Some(value), "{name}");
    }
}

#[test]
fn a_damaged_copy_is_refused_and_its_file_named() {
    let mut dead = Node::new();
    write_strings(&mut dead);
    dead.die();
    let (live, path) = (Node::new(), dead.file(false));
    let whole = fs::read(&path).expect("it is there");
    let mut damaged = whole.clone();
    damaged[150] ^= 1;
    fs::write(&path, damaged).expect("it is written");
    let files = dead.files();
    let taking = Taking::new(&dead, live.store(), MEMORY_BYTES);
    let why = taking.run().expect_err("it is damaged").to_string();
    let name = path.file_name().and_then(|name| name.to_str()).expect("it has a name");
    assert!(why.contains(name) && why.contains("damaged at byte 64"), "{why}");
    assert_eq!(dead.files(), files);
    assert!(live.store().is_empty());
    fs::remove_file(&path).expect("it is there");
    assert!(taking.run().expect_err("a file is missing").to_string().contains("is missing"));
    fs::write(&path, whole).expect("it is written");
    let mut other = Taking::new(&dead, live.store(), MEMORY_BYTES);
    other.log = LogId([7; 16]);
    assert!(other.run().expect_err("another log").to_string().contains("another log"));
    assert!(taking.run().expect("it is whole").keys > 0);
}

#[test]
fn what_the_scratch_store_cannot_hold_comes_in_parts_and_again_after_a_call_that_was_given_up() {
    let mut dead = Node::new();
    for key in 0..12_000 {
        dead.ask(&format!("SET k:{key} {}", "v".repeat(1_000)));
    }
    write_collections(&mut dead, "some", 200);
    dead.die();
    let mut live = Node::new();
    let store = Arc::clone(live.store());
    let taking = Taking::new(&dead, &store, 3 << 20);
    taking.stop.store(true, Ordering::Relaxed);
    assert!(matches!(taking.run(), Err(TakeOverError::Stopped)));
    assert!(store.is_empty());
    taking.stop.store(false, Ordering::Relaxed);
    let given_up = std::thread::scope(|scope| {
        let call = scope.spawn(|| taking.run());
        while store.len() < 1000 && !call.is_finished() {
            std::thread::yield_now();
        }
        taking.stop.store(true, Ordering::Relaxed);
        call.join().expect("it ends")
    });
    assert!(matches!(given_up, Err(TakeOverError::Stopped)), "{given_up:?}");
    assert!(store.is_empty());
    taking.stop.store(false, Ordering::Relaxed);
    taking.run().expect("it is whole");
    // As if a process had died at its end.
    let before = taking.read_bytes();
    let took = taking.run().expect("it is whole");
    let read = taking.read_bytes() - before;
    let bytes: usize = dead.files().values().map(Vec::len).sum();
    assert!(read > 3 * bytes as u64, "{read} of {bytes}: it came in parts");
    let was = dead.content(is_taken);
    assert_eq!(live.content(is_taken), was);
    assert_eq!(took.keys, was.len() as u64);
    assert_eq!(live.restart().content(is_taken), was);
}

#[test]
fn without_room_nothing_is_left_of_what_was_put_in() {
    let mut dead = Node::new();
    for key in 0..24_000 {
        dead.ask(&format!("SET k:{key} {}", "v".repeat(1_000)));
    }
    dead.die();
    let mut live = Node::with_memory(8 << 20);
    live.ask("SET live:0 value");
    live.ask("SET live:1 value");
    let before = live.content(|key| !is_taken(key));
    let store = Arc::clone(live.store());
    for memory_bytes in [MEMORY_BYTES, 3 << 20] {
        let why = Taking::new(&dead, &store, memory_bytes).run().expect_err("it does not fit");
        assert!(matches!(why, TakeOverError::NoMemory { needed, free } if needed > free), "{why}");
        assert_eq!(taken().map(|range| store.len_in(range)), [0, 0]);
        assert_eq!(live.content(|key| !is_taken(key)), before);
    }
    let why = Taking::new(&dead, &store, 16 << 10).run().expect_err("no store is so small");
    assert!(matches!(why, TakeOverError::Scratch(_)), "{why}");
    // What fits is taken.
    let took = Taking::new(&dead, &store, 3 << 20).run_for(&taken()[1..]).expect("it fits");
    assert_eq!(took.keys, store.len_in(taken()[1]));
    assert!(took.keys > 2_000, "{took:?}");
}
