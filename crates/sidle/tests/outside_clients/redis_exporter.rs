//! `redis_exporter` reads a node's figures, and walks all of its keys, as with `--check-keys`.

use crate::support::{Node, NodeOptions, eventually};
use crate::{Program, Running};
use sidle_resp::Value;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::process::Stdio;

/// Its name in Debian.
const PROGRAM: &str = "prometheus-redis-exporter";

/// The exporter's answer to one scrape.
fn scrape(address: &str) -> Option<String> {
    let mut stream = TcpStream::connect(address).ok()?;
    stream.set_read_timeout(Some(crate::support::PATIENCE)).ok()?;
    write!(stream, "GET /metrics HTTP/1.0\r\nHost: {address}\r\n\r\n").ok()?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer).expect("a scrape comes to its end");
    answer.starts_with("HTTP/1.0 200").then_some(answer)
}

#[test]
fn redis_exporter_scrapes_a_node_and_its_keys() {
    let Some(exporter) = Program::find("SIDLE_TEST_REDIS_EXPORTER", PROGRAM, &["--version"]) else { return };
    let node = Node::start(&NodeOptions::default());
    let mut client = node.client();
    let requests: Vec<Vec<String>> = (0..5_000)
        .map(|n| vec!["SET".into(), format!("key:{n}"), "x".repeat(1 + n % 100)])
        .chain([vec!["EXPIRE".into(), "key:1".into(), "1000".into()]])
        .collect();
    assert!(client.pipeline(&requests).iter().all(|reply| !matches!(reply, Value::Error(_))));
    // It does not report which port the system chose for it.
    let free = TcpListener::bind("127.0.0.1:0").and_then(|free| free.local_addr()).expect("a free port");
    let (free, address) = (free.to_string(), format!("redis://{}", node.address()));
    let mut command = std::process::Command::new(&exporter.path);
    command.args(["--redis.addr", &address, "--web.listen-address", &free]);
    command.args(["--check-keys", "key:2*", "--count-keys", "key:*", "--check-single-keys", "key:1"]);
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    let _running = Running(command.spawn().expect("it started before"));
    let answer = eventually("the exporter answers", || scrape(&free));
    let figures: Vec<&str> = answer.lines().filter(|line| !line.starts_with('#')).collect();
    for figure in [
        "redis_up 1",
        "redis_exporter_last_scrape_error{err=\"\"} 0",
        "redis_db_keys{db=\"db0\"} 5000",
        "redis_db_keys_expiring{db=\"db0\"} 1",
        "redis_keys_count{db=\"db0\",key=\"key:*\"} 5000",
        "redis_key_size{db=\"db0\",key=\"key:1\"} 2",
        "redis_key_size{db=\"db0\",key=\"key:2345\"} 46",
        "redis_commands_total{cmd=\"set\"} 5000",
        "redis_cluster_slots_ok 16384",
    ] {
        assert!(figures.contains(&figure), "{figure} is not in:\n{answer}");
    }
    // Two, twenty to 29, 200 to 299, and 2000 to 2999.
    let sizes =
        figures.iter().filter(|line| line.starts_with("redis_key_size{db=\"db0\",key=\"key:2")).count();
    assert_eq!(sizes, 1_111);
}
