//! INFO's figures against known work: each must add up.

#![allow(clippy::disallowed_methods)] // a test reads the clock

mod support;

use sidle_resp::Value;
use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::{Duration, Instant};
use support::{Client, Node, NodeOptions, StopWhenDropped, TestCluster, eventually};

/// INFO's lines by name.
struct Info(BTreeMap<String, String>);

impl Info {
    fn of(client: &mut Client) -> Info {
        let reply = client.request(&["INFO", "everything"]);
        let text = String::from_utf8_lossy(reply.as_bytes().expect("a text")).into_owned();
        let lines = text.lines().filter_map(|line| line.split_once(':'));
        Info(lines.map(|(name, value)| (name.to_owned(), value.to_owned())).collect())
    }

    fn text(&self, name: &str) -> &str {
        self.0.get(name).unwrap_or_else(|| panic!("INFO has no {name}"))
    }

    fn number(&self, name: &str) -> u64 {
        self.text(name).parse().unwrap_or_else(|_| panic!("{name} is no number: {}", self.text(name)))
    }

    fn decimal(&self, name: &str) -> f64 {
        let text = self.text(name).trim_end_matches('%');
        text.parse().unwrap_or_else(|_| panic!("{name} is no number: {text}"))
    }
}

fn raw(node: &Node) -> TcpStream {
    let stream = TcpStream::connect(node.address()).expect("the node is ready");
    stream.set_read_timeout(Some(support::PATIENCE)).expect("a timeout can be set");
    stream
}

fn exchange(stream: &mut TcpStream, request: &[u8], reply: &[u8]) {
    stream.write_all(request).expect("the node takes it");
    let mut received = vec![0; reply.len()];
    stream.read_exact(&mut received).expect("the node answers");
    assert_eq!(received.escape_ascii().to_string(), reply.escape_ascii().to_string());
}

#[test]
fn connections_bytes_and_errors_are_counted_exactly() {
    let started = Instant::now();
    let node = Node::start(&NodeOptions::default());
    let mut client = node.client();
    let before = Info::of(&mut client);
    let own = Info::of(&mut client);
    // One INFO's own share of the figures; its length may differ by the digits of its figures.
    let request_bytes = own.number("total_net_input_bytes") - before.number("total_net_input_bytes");
    let reply_bytes = own.number("total_net_output_bytes") - before.number("total_net_output_bytes");

    const CONNECTIONS: u64 = 7;
    let value = vec![b'v'; 3_000];
    let set = [b"*3\r\n$3\r\nSET\r\n$1\r\nk\r\n$3000\r\n", &value[..], b"\r\n"].concat();
    let get = [b"$3000\r\n", &value[..], b"\r\n"].concat();
    let mut streams: Vec<TcpStream> = (0..CONNECTIONS).map(|_| raw(&node)).collect();
    let (mut sent, mut received) = (0, 0);
    for stream in &mut streams {
        for (request, reply) in [
            (&set[..], &b"+OK\r\n"[..]),
            (b"GET k\r\n", &get),
            (b"INCR k\r\n", b"-ERR value is not an integer or out of range\r\n"),
            (b"NOTHING\r\n", b"-ERR unknown command 'NOTHING', with args beginning with: \r\n"),
        ] {
            exchange(stream, request, reply);
            (sent, received) = (sent + request.len() as u64, received + reply.len() as u64);
        }
    }
    let now = Info::of(&mut client);
    let grown = |name: &str| now.number(name) - own.number(name);
    assert_eq!(grown("total_net_input_bytes"), sent + request_bytes);
    let output = grown("total_net_output_bytes");
    assert!(output.abs_diff(received + reply_bytes) < 2_000, "{output}, {received} + {reply_bytes}");
    assert_eq!(grown("total_connections_received"), CONNECTIONS);
    assert_eq!(now.number("connected_clients"), CONNECTIONS + 1);
    assert_eq!(grown("total_error_replies"), 2 * CONNECTIONS);
    assert_eq!(grown("total_commands_processed"), 3 * CONNECTIONS + 1, "what is unknown is no command");
    assert_eq!((grown("keyspace_hits"), grown("keyspace_misses")), (CONNECTIONS, 0));

    let address = node.address();
    assert_eq!(now.text("tcp_port"), address.rsplit_once(':').expect("host:port").1);
    assert_eq!(now.number("process_id"), u64::from(node.process_id()));
    assert_eq!(now.text("uptime_in_days"), "0");
    eventually("seconds pass", || {
        let uptime = Info::of(&mut client).number("uptime_in_seconds");
        assert!(uptime <= started.elapsed().as_secs(), "{uptime}");
        (uptime >= 1).then_some(())
    });
    drop(streams);
    eventually("they are gone", || (Info::of(&mut client).number("connected_clients") == 1).then_some(()));
    assert_eq!(
        Info::of(&mut client).number("total_connections_received"),
        now.number("total_connections_received")
    );
}

#[test]
fn memory_adds_up() {
    let node = Node::start(&NodeOptions::default().flag("--max-memory", "64mb"));
    let mut client = node.client();
    const KEYS: u64 = 10_000;
    let value = "v".repeat(1_000);
    for first in (0..KEYS).step_by(1_000) {
        let set = |n: u64| vec!["SET".to_owned(), format!("key:{n:08}"), value.clone()];
        client.pipeline(&(first..first + 1_000).map(set).collect::<Vec<_>>());
    }
    // 12 bytes of name and 20 of record, rounded up to 8.
    let live = KEYS * (1_000 + 12 + 20_u64).next_multiple_of(8);
    let info = Info::of(&mut client);
    assert_eq!(info.number("used_memory_log_live"), live);
    assert_eq!(info.number("used_memory_dataset"), live);
    let (log, index) = (info.number("used_memory_log"), info.number("used_memory_index"));
    assert!((live..live + (8 << 20)).contains(&log), "{log}");
    assert!((12 * KEYS..64 * KEYS + (1 << 20)).contains(&index), "{index}");
    let used = info.number("used_memory");
    assert_eq!(used, log + index);
    assert_eq!(info.number("used_memory_overhead"), used - live);
    let near = |name: &str, expected: f64| {
        let shown = info.decimal(name);
        assert!((shown - expected).abs() <= 0.006, "{name}: {shown}, {expected}");
    };
    near("used_memory_dataset_perc", live as f64 * 100.0 / used as f64);
    near("used_memory_peak_perc", used as f64 * 100.0 / info.number("used_memory_peak") as f64);
    let resident = info.number("used_memory_rss");
    near("mem_fragmentation_ratio", resident as f64 / used as f64);
    assert_eq!(info.text("mem_fragmentation_bytes"), (resident as i64 - used as i64).to_string());
    eventually("the resident memory is what the system counts", || {
        let status = std::fs::read_to_string(format!("/proc/{}/status", node.process_id())).expect("it runs");
        let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).expect("the kernel counts it");
        let kibibytes: u64 = line.trim().trim_end_matches("kB").trim().parse().expect("a number");
        let shown = Info::of(&mut client).number("used_memory_rss");
        (shown.abs_diff(kibibytes << 10) < 8 << 20 && shown > live).then_some(())
    });
}

/// At an even pace the recent rates equal those since its start, within the differences of samples.
#[test]
fn rates_are_those_of_the_work() {
    let node = Node::start(&NodeOptions::default());
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let _stop = StopWhenDropped(&stop);
            let mut stream = raw(&node);
            let (request, reply) = (b"GET nothing\r\n".repeat(100), b"$-1\r\n".repeat(100));
            while !stop.load(Relaxed) {
                exchange(&mut stream, &request, &reply);
                std::thread::sleep(Duration::from_millis(5));
            }
        });
        let _stop = StopWhenDropped(&stop);
        let mut client = node.client();
        let (begun, before) = (Instant::now(), Info::of(&mut client));
        eventually("the rates settle", || {
            let now = Info::of(&mut client);
            let seconds = begun.elapsed().as_secs_f64();
            let is_near = |shown: f64, total: &str, unit: f64| {
                let rate = (now.number(total) - before.number(total)) as f64 / seconds / unit;
                rate > 1.0 && (rate / 2.0..rate * 2.0).contains(&shown)
            };
            let are_near = is_near(now.decimal("instantaneous_ops_per_sec"), "total_commands_processed", 1.0)
                && is_near(now.decimal("instantaneous_input_kbps"), "total_net_input_bytes", 1024.0)
                && is_near(now.decimal("instantaneous_output_kbps"), "total_net_output_bytes", 1024.0);
            std::thread::sleep(Duration::from_millis(100));
            (seconds > 2.0 && are_near).then_some(())
        });
        stop.store(true, Relaxed);
        eventually("they end with it", || {
            std::thread::sleep(Duration::from_millis(200));
            (Info::of(&mut client).number("instantaneous_ops_per_sec") < 200).then_some(())
        });
    });
}

#[test]
fn what_a_migration_cost_is_counted_at_both_ends() {
    let cluster = TestCluster::start(2);
    const KEYS: u64 = 5_000;
    let mut source = cluster.client(0);
    for first in (0..KEYS).step_by(1_000) {
        let set = |n: u64| vec!["SET".to_owned(), format!("key:{n}"), "v".repeat(100)];
        let replies = source.pipeline(&(first..first + 1_000).map(set).collect::<Vec<_>>());
        assert!(replies.iter().all(|reply| *reply == Value::Simple("OK".into())));
    }
    let id = cluster.start_migration("0-16383", 1);
    let status = cluster.wait_for_migration(id);
    assert_eq!((&status["state"], status["records_moved"].as_u64()), (&"done".into(), Some(KEYS)));
    let [at_source, at_target] = [0, 1].map(|index| Info::of(&mut cluster.client(index)));
    assert_eq!(at_target.number("migration_records_moved"), KEYS);
    assert!(at_target.number("migration_pulls") > 0);
    assert!(at_source.number("migration_bytes_sent") > KEYS * 100, "the values went over the network");
    assert!((1..KEYS * 100).contains(&at_target.number("migration_bytes_sent")), "and requests for them");
    // No reads or writes came meanwhile.
    for name in ["migration_records_present", "migration_samp_pulls", "migration_priority_pulls"] {
        assert_eq!(at_target.number(name), 0, "{name}");
    }
    for name in ["pulls", "samp_pulls", "priority_pulls", "records_moved", "records_present"] {
        assert_eq!(at_source.number(&format!("migration_{name}")), 0, "{name}");
    }
}
