//! MULTI, EXEC and WATCH on one node: what concurrent clients see, and the limits. Replies as such are
//! compared with Redis's in `sidle/tests/redis_differential`.

use sidle_cluster::TabletMap;
use sidle_node::testing::{SoloNode, TestClient, node_info, parts};
use sidle_node::{NodeParts, Now, RangeTable, Worker, WorkerIndex, connect};
use sidle_resp::Value;
use sidle_types::{MonotonicUs, WallMs};
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, Barrier};

const NOW: Now =
    Now { mono: MonotonicUs(1_000_000), wall: WallMs(1_700_000_000_000), wall_micros: 0, reading_ns: 0 };
const ACCOUNTS: usize = 8;
const BALANCE: i64 = 100;

fn ok() -> Value {
    Value::Simple("OK".into())
}

fn queued() -> Value {
    Value::Simple("QUEUED".into())
}

fn error(text: &str) -> Value {
    Value::Error(text.into())
}

/// One thread of a node, with a client.
struct Thread {
    worker: Worker,
    client: TestClient,
}

impl Thread {
    fn ask(&mut self, request: &str) -> Value {
        let args: Vec<&[u8]> = request.split(' ').map(str::as_bytes).collect();
        self.client.send(&args);
        loop {
            self.client.serve(&mut self.worker, NOW);
            if let Some(reply) = self.client.receive() {
                return reply;
            }
            self.worker.turn();
            while let Some(ticket) = self.worker.poll_woken() {
                self.client.wake(ticket);
            }
        }
    }

    /// A transaction of these commands; its reply.
    fn all(&mut self, requests: &[String]) -> Value {
        assert_eq!(self.ask("MULTI"), ok());
        for request in requests {
            assert_eq!(self.ask(request), queued(), "{request}");
        }
        self.ask("EXEC")
    }
}

/// A node that owns everything, with so many workers.
fn threads(count: u16) -> (NodeParts, Vec<Thread>) {
    let info = node_info(1);
    let parts = parts(&info, count, 64 << 20);
    let map = Arc::new(TabletMap::founded_by(info.clone()));
    let _ticket = parts.published.publish(Arc::new(RangeTable::new(info.id, map, &[], &[])));
    let (ports, _) = connect(count, 1);
    let threads = ports.into_iter().enumerate().map(|(index, port)| Thread {
        worker: Worker::new(&parts, WorkerIndex(index as u16), port, index as u64 + 1),
        client: TestClient::connect(&parts.shared, NOW),
    });
    let threads = threads.collect();
    (parts, threads)
}

fn integer(value: &Value) -> i64 {
    match value {
        Value::Integer(number) => *number,
        other => String::from_utf8_lossy(other.as_bytes().expect("a number")).parse().expect("a number"),
    }
}

fn elements(reply: &Value) -> &[Value] {
    let Value::Array(elements) = reply else { panic!("{reply:?} is no array") };
    elements
}

/// Transfers between accounts, in one slot or in many: every reader sees the same sum.
fn transfers_keep_the_sum(account: fn(usize) -> String) {
    const TRANSFERS: usize = 4_000;
    let (_parts, threads) = threads(4);
    let mut threads = threads.into_iter();
    let mut next = || threads.next().expect("a thread");
    let (first, second, mut by_mget, mut by_exec) = (next(), next(), next(), next());
    let names: Vec<String> = (0..ACCOUNTS).map(account).collect();
    for name in &names {
        by_mget.ask(&format!("SET {name} {BALANCE}"));
    }
    let running = AtomicUsize::new(2);
    std::thread::scope(|scope| {
        for (number, mut thread) in [first, second].into_iter().enumerate() {
            let (names, running) = (&names, &running);
            scope.spawn(move || {
                for round in 0..TRANSFERS {
                    let (from, to) = ((round + number) % ACCOUNTS, (round * 3 + 1) % ACCOUNTS);
                    let amount = round % 7;
                    let moved = [
                        format!("DECRBY {} {amount}", names[from]),
                        format!("INCRBY {} {amount}", names[to]),
                    ];
                    assert_eq!(elements(&thread.all(&moved)).len(), 2);
                }
                running.fetch_sub(1, Relaxed);
            });
        }
        let total = ACCOUNTS as i64 * BALANCE;
        let gets: Vec<String> = names.iter().map(|name| format!("GET {name}")).collect();
        let mget = format!("MGET {}", names.join(" "));
        let running = &running;
        scope.spawn(move || {
            while running.load(Relaxed) > 0 {
                assert_eq!(elements(&by_mget.ask(&mget)).iter().map(integer).sum::<i64>(), total);
            }
        });
        scope.spawn(move || {
            while running.load(Relaxed) > 0 {
                assert_eq!(elements(&by_exec.all(&gets)).iter().map(integer).sum::<i64>(), total);
            }
        });
    });
}

#[test]
fn transfers_within_a_slot_keep_the_sum() {
    transfers_keep_the_sum(|number| format!("{{a}}{number}"));
}

#[test]
fn transfers_between_slots_keep_the_sum() {
    transfers_keep_the_sum(|number| format!("a{number}"));
}

/// An increment of an unwatched read would be lost; of a watched one it is retried.
#[test]
fn counters_by_watch_lose_nothing() {
    const INCREMENTS: i64 = 2_000;
    let (_parts, mut threads) = threads(2);
    let (lost, start) = (AtomicUsize::new(0), Barrier::new(2));
    std::thread::scope(|scope| {
        for thread in &mut threads {
            let (lost, start) = (&lost, &start);
            scope.spawn(move || {
                start.wait();
                for _ in 0..INCREMENTS {
                    loop {
                        assert_eq!(thread.ask("WATCH n"), ok());
                        let read = thread.ask("GET n");
                        let value = if read == Value::Null { 0 } else { integer(&read) };
                        // With one processor they would hardly meet.
                        std::thread::yield_now();
                        match thread.all(&[format!("SET n {}", value + 1)]) {
                            Value::Null => lost.fetch_add(1, Relaxed),
                            reply => {
                                assert_eq!(elements(&reply), [ok()]);
                                break;
                            }
                        };
                    }
                }
            });
        }
    });
    assert_eq!(integer(&threads[0].ask("GET n")), 2 * INCREMENTS);
    assert!(lost.load(Relaxed) > 0, "the two never met");
}

#[test]
fn without_memory_nothing_of_a_transaction_happens() {
    let mut node = SoloNode::with_memory(16 << 20);
    let mut client = node.connect();
    let value = "v".repeat(1 << 20);
    assert_eq!(node.ask(&mut client, "SET small 1"), ok());
    assert_eq!(node.ask(&mut client, "MULTI"), ok());
    assert_eq!(node.ask(&mut client, "INCR small"), queued());
    assert_eq!(node.ask(&mut client, "CONFIG SET maxclients 77"), queued());
    for number in 0..20 {
        assert_eq!(node.ask(&mut client, &format!("SET big{number} {value}")), queued());
    }
    let oom =
        "EXECABORT Transaction discarded because of: OOM command not allowed when used memory > 'maxmemory'.";
    assert_eq!(node.ask(&mut client, "EXEC"), error(oom));
    assert_eq!(node.ask(&mut client, "GET small"), Value::Bulk(b"1".to_vec()));
    assert_eq!(node.ask(&mut client, "DBSIZE"), Value::Integer(1));
    let config = node.ask(&mut client, "CONFIG GET maxclients");
    assert_ne!(elements(&config)[1], Value::Bulk(b"77".to_vec()));
    assert_eq!(node.ask(&mut client, "EXEC"), error("ERR EXEC without MULTI"));
}

#[test]
fn a_transaction_has_the_limit_of_a_request_and_is_counted() {
    let mut node = SoloNode::new();
    let mut client = node.connect();
    assert_eq!(node.ask(&mut client, "MULTI"), ok());
    assert_eq!(node.ask(&mut client, "SET a 1"), queued());
    let mut other = node.connect();
    let list = node.ask(&mut other, "CLIENT LIST");
    let list = String::from_utf8_lossy(list.as_bytes().expect("text")).into_owned();
    assert!(list.lines().any(|line| line.contains("flags=x ") && line.contains(" multi=1 ")), "{list}");
    assert!(!list.contains("multi-mem=0 multi"), "{list}");
    node.parts
        .shared
        .config
        .apply(vec![("proto-max-bulk-len", "2048".into()), ("client-query-buffer-limit", "4096".into())]);
    let long = format!("SET a {}", "v".repeat(2000));
    let mut replies = (0..3).map(|_| node.ask(&mut client, &long)).collect::<Vec<_>>();
    let refused =
        "ERR the commands of this transaction are longer than client-query-buffer-limit: queue less at once";
    assert!(replies.contains(&error(refused)), "{replies:?}");
    replies.retain(|reply| *reply != queued() && *reply != error(refused));
    assert!(replies.is_empty(), "{replies:?}");
    assert_eq!(
        node.ask(&mut client, "EXEC"),
        error("EXECABORT Transaction discarded because of previous errors.")
    );
    assert_eq!(node.ask(&mut client, "EXISTS a"), Value::Integer(0));
    let list = node.ask(&mut client, "CLIENT LIST");
    let list = String::from_utf8_lossy(list.as_bytes().expect("text")).into_owned();
    assert!(list.lines().all(|line| line.contains(" multi=-1 ") && line.contains(" multi-mem=0 ")), "{list}");
}

#[test]
fn what_cannot_run_in_a_transaction_is_refused_when_queued() {
    let mut node = SoloNode::new();
    let mut client = node.connect();
    for request in ["SIDLE.STATUS", "SIDLE.MIGRATE STATUS", "SHUTDOWN NOSAVE"] {
        assert_eq!(node.ask(&mut client, "MULTI"), ok());
        assert_eq!(
            node.ask(&mut client, request),
            error("ERR Command not allowed inside a transaction"),
            "{request}"
        );
        assert!(matches!(node.ask(&mut client, "EXEC"), Value::Error(text) if text.starts_with("EXECABORT")));
    }
}

/// A connection that goes takes its watch with it, and leaves nothing behind.
#[test]
fn a_watch_ends_with_its_connection() {
    let mut node = SoloNode::new();
    let mut client = node.connect();
    assert_eq!(node.ask(&mut client, "WATCH a {a}b c"), ok());
    let mut other = node.connect();
    assert_eq!(node.ask(&mut other, "WATCH a"), ok());
    drop(client);
    assert_eq!(node.ask(&mut other, "SET {a}b 1"), ok());
    assert_eq!(node.ask(&mut other, "MULTI"), ok());
    assert_eq!(node.ask(&mut other, "EXEC"), Value::Array(vec![]));
    assert_eq!(node.ask(&mut other, "MEMORY USAGE nothing"), Value::Null);
}

/// While the durable log cannot be written, transactions that write are refused; none stays open, and what
/// only reads is served.
#[test]
fn no_transaction_stays_open_while_the_log_fails() {
    let mut node = SoloNode::new();
    let mut client = node.connect();
    assert_eq!(node.ask(&mut client, "SET k 1"), ok());
    node.parts.shared.durability.set_failure(Some("the disk is full"));
    let misconf = "MISCONF Errors writing to the durable log: the disk is full";
    for (queue, executed) in [
        ("SET k 2", error(&format!("EXECABORT Transaction discarded because of: {misconf}"))),
        ("GET k", Value::Array(vec![Value::Bulk("1".into())])),
        ("NOTHING", error("EXECABORT Transaction discarded because of previous errors.")),
    ] {
        assert_eq!(node.ask(&mut client, "MULTI"), ok());
        node.ask(&mut client, queue);
        assert_eq!(node.ask(&mut client, "EXEC"), executed, "{queue}");
        assert_eq!(node.ask(&mut client, "GET k"), Value::Bulk("1".into()), "{queue}: it has ended");
    }
    assert_eq!(node.ask(&mut client, "SET k 2"), error(misconf));
    node.parts.shared.durability.set_failure(None);
    assert_eq!(node.ask(&mut client, "SET k 2"), ok());
}
