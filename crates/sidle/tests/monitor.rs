//! MONITOR on a node process with several workers.

#![allow(clippy::disallowed_methods)] // tests run processes and read clocks

mod support;

use sidle_resp::Value;
use std::thread;
use support::{Client, Node, NodeOptions, eventually};

fn ok() -> Value {
    Value::Simple("OK".into())
}

fn line(monitor: &mut Client) -> String {
    match monitor.try_reply() {
        Some(Value::Simple(line)) => line,
        other => panic!("no line: {other:?}"),
    }
}

#[test]
fn clients_of_all_workers_are_shown_each_in_order() {
    const CLIENTS: usize = 6;
    const COMMANDS: usize = 500;
    let node = Node::start(&NodeOptions::default().flag("--workers", "3"));
    let mut monitor = node.client();
    assert_eq!(monitor.request(&["MONITOR"]), ok());
    let clients: Vec<_> = (0..CLIENTS)
        .map(|_| {
            let mut client = node.client();
            thread::spawn(move || {
                let own = client.request(&["CLIENT", "ID"]);
                for number in 0..COMMANDS {
                    let value = format!("{own:?} {number}");
                    assert_eq!(client.request(&["SET", "key", &value]), ok());
                }
            })
        })
        .collect();
    let mut next = std::collections::BTreeMap::<String, usize>::new();
    let mut seen = 0;
    while seen < CLIENTS * COMMANDS {
        let line = line(&mut monitor);
        let (head, words) = line.split_once("] ").expect("a client, and words");
        let Some(value) = words.strip_prefix(r#""SET" "key" "#) else { continue };
        let address = head.split_once("[0 ").expect("an address").1;
        let number = value.trim_end_matches('"').rsplit_once(' ').expect("a number").1;
        let expected = next.entry(address.to_owned()).or_default();
        assert_eq!(number.parse::<usize>().expect("a number"), *expected, "{line}");
        *expected += 1;
        seen += 1;
    }
    assert_eq!(next.len(), CLIENTS);
    clients.into_iter().for_each(|client| client.join().expect("it ran"));
}

#[test]
fn a_monitor_that_does_not_read_is_closed() {
    let node = Node::start(&NodeOptions::default());
    let (mut monitor, mut client) = (node.client(), node.client());
    // It bounds what is unread, too.
    assert_eq!(client.request(&["CONFIG", "SET", "maxmemory-clients", "2mb"]), ok());
    assert_eq!(monitor.request(&["MONITOR"]), ok());
    let value = "x".repeat(100_000);
    eventually("the monitor is closed", || {
        assert_eq!(client.request(&["SET", "key", &value]), ok());
        let list = client.request(&["CLIENT", "LIST"]);
        let list = String::from_utf8_lossy(list.as_bytes().expect("a text")).into_owned();
        (!list.contains("flags=O")).then_some(())
    });
    let info = client.request(&["INFO", "stats"]);
    let info = String::from_utf8_lossy(info.as_bytes().expect("a text")).into_owned();
    let closed = ["client_output_buffer_limit_disconnections:1\r\n", "evicted_clients:1\r\n"];
    assert!(closed.iter().any(|line| info.contains(line)), "{info}");
    // What it had been sent before it can still read, and then it finds the end.
    monitor.read_to_end();
}

#[test]
fn a_monitor_is_not_closed_for_its_silence() {
    let node = Node::start(&NodeOptions::default());
    let (mut monitor, mut client) = (node.client(), node.client());
    assert_eq!(monitor.request(&["MONITOR"]), ok());
    assert_eq!(client.request(&["CONFIG", "SET", "timeout", "1"]), ok());
    thread::sleep(std::time::Duration::from_millis(3_500));
    assert_eq!(node.client().request(&["PING"]), Value::Simple("PONG".into()));
    assert!(line(&mut monitor).ends_with(r#""PING""#));
    monitor.send(&["QUIT"]);
    let last: Vec<Value> = std::iter::from_fn(|| monitor.try_reply()).collect();
    assert_eq!(last[0], ok());
}
