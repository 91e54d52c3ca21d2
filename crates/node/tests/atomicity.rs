//! The effect of one command over several keys on concurrent readers.
//!
//! Redis runs one command at a time, so nobody sees half of one. Here commands over several keys lock their
//! slots, and readers wait while such a change is published. FLUSHALL alone works in steps, so that a node
//! with many keys serves others meanwhile, and shows them. Its case *expects* torn replies, and fails without
//! any.

#![expect(clippy::disallowed_methods, reason = "races need threads, and their search a clock")]

use sidle_cluster::TabletMap;
use sidle_node::testing::{TestClient, node_info, parts};
use sidle_node::{NodeParts, Now, RangeTable, Worker, WorkerIndex, connect};
use sidle_resp::Value;
use sidle_types::{MonotonicUs, WallMs};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::{Duration, Instant};

const KEYS: usize = 20;
/// How long to wait for a torn reply. One appears within milliseconds if both threads have a processor.
const PATIENCE: Duration = Duration::from_secs(60);
/// How many whole replies show that a command is atomic.
const WHOLE_REPLIES: u64 = 200_000;
const NOW: Now =
    Now { mono: MonotonicUs(1_000_000), wall: WallMs(1_700_000_000_000), wall_micros: 0, reading_ns: 0 };

/// The expected replies to concurrent readers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Expected {
    /// Some show half of a command, which works in steps.
    Torn,
    /// None does.
    Whole,
}

/// One writer's alternating commands, one reader's command, and the form of a whole reply.
struct Case {
    writes: [Vec<String>; 2],
    read: Vec<String>,
    is_whole: fn(&Value) -> bool,
    expected: Expected,
}

fn key(number: usize) -> String {
    format!("{{t}}{number}")
}

/// The command with all keys, each followed by `value` if there is one.
fn over_keys(command: &str, value: Option<&str>) -> Vec<String> {
    let pairs = (0..KEYS).flat_map(|number| [Some(key(number)), value.map(str::to_owned)]).flatten();
    [command.to_owned()].into_iter().chain(pairs).collect()
}

/// The same with a slot for each key.
fn spread(request: Vec<String>) -> Vec<String> {
    request.into_iter().map(|word| word.replace("{t}", "t")).collect()
}

fn one_value(reply: &Value) -> bool {
    let Value::Array(values) = reply else { panic!("MGET answered {reply:?}") };
    assert_eq!(values.len(), KEYS);
    values.iter().all(|value| *value == values[0])
}

fn all_or_none(reply: &Value) -> bool {
    matches!(reply, Value::Integer(0)) || *reply == Value::Integer(KEYS as i64)
}

/// One thread of a node.
struct Thread {
    worker: Worker,
    client: TestClient,
}

impl Thread {
    fn ask(&mut self, request: &[String]) -> Value {
        let args: Vec<&[u8]> = request.iter().map(|arg| arg.as_bytes()).collect();
        self.client.send(&args);
        loop {
            self.client.serve(&mut self.worker, NOW);
            if let Some(reply) = self.client.receive() {
                return reply;
            }
            // FLUSHALL takes several turns.
            self.worker.turn();
            while let Some(ticket) = self.worker.poll_woken() {
                self.client.wake(ticket);
            }
        }
    }
}

/// A node with two workers that owns everything.
fn two_threads() -> (NodeParts, [Thread; 2]) {
    let info = node_info(1);
    let parts = parts(&info, 2, 64 << 20);
    let map = Arc::new(TabletMap::founded_by(info.clone()));
    let _ticket = parts.published.publish(Arc::new(RangeTable::new(info.id, map, &[], &[])));
    let (mut ports, _) = connect(2, 1);
    let mut thread = |index| Thread {
        worker: Worker::new(&parts, WorkerIndex(index), ports.remove(0), u64::from(index) + 1),
        client: TestClient::connect(&parts.shared, NOW),
    };
    let threads = [thread(0), thread(1)];
    (parts, threads)
}

fn judge(case: &Case) {
    judge_from(case, &[]);
}

/// The same after these requests.
fn judge_from(case: &Case, first: &[&str]) {
    let (_parts, [mut writer, mut reader]) = two_threads();
    for request in first {
        let words: Vec<String> = request.split(' ').map(str::to_owned).collect();
        assert!(!matches!(writer.ask(&words), Value::Error(_)), "{request}");
    }
    let stop = AtomicBool::new(false);
    let torn = std::thread::scope(|scope| {
        scope.spawn(|| {
            while !stop.load(Relaxed) {
                case.writes.iter().for_each(|write| assert!(!matches!(writer.ask(write), Value::Error(_))));
            }
        });
        let deadline = Instant::now() + PATIENCE;
        let replies = match case.expected {
            Expected::Torn => u64::MAX,
            Expected::Whole => WHOLE_REPLIES,
        };
        let torn = (0..replies)
            .take_while(|_| Instant::now() < deadline)
            .map(|_| reader.ask(&case.read))
            .find(|reply| !(case.is_whole)(reply));
        stop.store(true, Relaxed);
        torn
    });
    match (case.expected, torn) {
        (Expected::Torn, Some(_)) | (Expected::Whole, None) => {}
        (Expected::Torn, None) => panic!("nothing is torn any more: expect whole replies from now on"),
        (Expected::Whole, Some(reply)) => panic!("half of a command was seen: {reply:?}"),
    }
}

#[test]
fn mset_beside_mget() {
    judge(&Case {
        writes: [over_keys("MSET", Some("1")), over_keys("MSET", Some("2"))],
        read: over_keys("MGET", None),
        is_whole: one_value,
        expected: Expected::Whole,
    });
}

#[test]
fn del_of_several_beside_mget() {
    judge(&Case {
        writes: [over_keys("MSET", Some("1")), over_keys("DEL", None)],
        read: over_keys("MGET", None),
        is_whole: one_value,
        expected: Expected::Whole,
    });
}

#[test]
fn unlink_of_several_beside_exists() {
    judge(&Case {
        writes: [over_keys("MSET", Some("1")), over_keys("UNLINK", None)],
        read: over_keys("EXISTS", None),
        is_whole: all_or_none,
        expected: Expected::Whole,
    });
}

#[test]
fn msetnx_beside_touch() {
    judge(&Case {
        writes: [over_keys("MSETNX", Some("1")), over_keys("DEL", None)],
        read: over_keys("TOUCH", None),
        is_whole: all_or_none,
        expected: Expected::Whole,
    });
}

#[test]
fn mset_beside_dbsize() {
    judge(&Case {
        writes: [over_keys("MSET", Some("1")), over_keys("DEL", None)],
        read: vec!["DBSIZE".to_owned()],
        is_whole: all_or_none,
        expected: Expected::Whole,
    });
}

#[test]
fn mset_of_several_slots_beside_mget() {
    judge(&Case {
        writes: [spread(over_keys("MSET", Some("1"))), spread(over_keys("MSET", Some("2")))],
        read: spread(over_keys("MGET", None)),
        is_whole: one_value,
        expected: Expected::Whole,
    });
}

#[test]
fn del_of_several_slots_beside_dbsize() {
    judge(&Case {
        writes: [spread(over_keys("MSET", Some("1"))), spread(over_keys("DEL", None))],
        read: vec!["DBSIZE".to_owned()],
        is_whole: all_or_none,
        expected: Expected::Whole,
    });
}

/// A value that goes to and fro between two keys.
fn to_and_fro(names: [&str; 2], read: &str, is_whole: fn(&Value) -> bool) {
    let words = |words: &[&str]| words.iter().map(|&word| word.to_owned()).collect::<Vec<_>>();
    let [one, other] = names;
    let case = Case {
        writes: [words(&["RENAME", one, other]), words(&["RENAMENX", other, one])],
        read: words(&[read, one, other]),
        is_whole,
        expected: Expected::Whole,
    };
    judge_from(&case, &[&format!("SET {one} value")]);
}

fn one_of_two(reply: &Value) -> bool {
    let Value::Array(values) = reply else { panic!("MGET answered {reply:?}") };
    values.iter().filter(|value| **value == Value::Null).count() == 1
}

#[test]
fn rename_beside_mget() {
    to_and_fro(["{t}1", "{t}2"], "MGET", one_of_two);
}

#[test]
fn rename_to_another_slot_beside_mget() {
    to_and_fro(["t1", "t2"], "MGET", one_of_two);
}

#[test]
fn rename_beside_exists() {
    to_and_fro(["t1", "t2"], "EXISTS", |reply| *reply == Value::Integer(1));
}

#[test]
fn flushall_beside_mget() {
    judge(&Case {
        writes: [spread(over_keys("MSET", Some("1"))), vec!["FLUSHALL".to_owned()]],
        read: spread(over_keys("MGET", None)),
        is_whole: one_value,
        expected: Expected::Torn,
    });
}
