//! CLIENT PAUSE on a node process with several workers.

#![allow(clippy::disallowed_methods)] // tests run processes and read clocks

mod support;

use sidle_resp::Value;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};
use support::{Node, NodeOptions, eventually};

fn ok() -> Value {
    Value::Simple("OK".into())
}

fn blocked(node: &Node) -> u64 {
    let info = node.client().request(&["INFO", "clients"]);
    let info = String::from_utf8_lossy(info.as_bytes().expect("a text")).into_owned();
    let line = info.lines().find_map(|line| line.strip_prefix("blocked_clients:"));
    line.expect("a figure").parse().expect("a number")
}

/// Writers of all workers write as fast as they can. Between the reply to PAUSE and UNPAUSE nothing changes.
#[test]
fn nothing_is_written_behind_its_reply() {
    const WRITERS: usize = 6;
    let node = Node::start(&NodeOptions::default().flag("--workers", "3"));
    let is_over = Arc::new(AtomicBool::new(false));
    let writers: Vec<_> = (0..WRITERS)
        .map(|number| {
            let (mut client, is_over) = (node.client(), Arc::clone(&is_over));
            thread::spawn(move || {
                let counter = format!("counter:{number}");
                let mut count = 0;
                while !is_over.load(Ordering::Relaxed) {
                    count += 1;
                    assert_eq!(client.request(&["INCR", &counter]), Value::Integer(count));
                }
            })
        })
        .collect();
    let (mut operator, mut reader) = (node.client(), node.client());
    let counters: Vec<String> = (0..WRITERS).map(|number| format!("counter:{number}")).collect();
    let mut values =
        || -> Vec<Value> { counters.iter().map(|counter| reader.request(&["GET", counter])).collect() };
    for _ in 0..30 {
        assert_eq!(operator.request(&["CLIENT", "PAUSE", "60000", "WRITE"]), ok());
        let before = values();
        thread::sleep(Duration::from_millis(5));
        assert_eq!(values(), before);
        assert_eq!(operator.request(&["CLIENT", "UNPAUSE"]), ok());
        eventually("they write on", || (values() != before).then_some(()));
    }
    is_over.store(true, Ordering::Relaxed);
    writers.into_iter().for_each(|writer| writer.join().expect("it ran"));
}

#[test]
fn a_pause_of_everything_ends_by_itself() {
    let node = Node::start(&NodeOptions::default().flag("--workers", "2"));
    let mut clients: Vec<_> = (0..4).map(|_| node.client()).collect();
    let mut operator = node.client();
    let began = Instant::now();
    assert_eq!(operator.request(&["CLIENT", "PAUSE", "400"]), ok());
    clients.iter_mut().for_each(|client| client.send(&["SET", "key", "1"]));
    for client in &mut clients {
        assert_eq!(client.try_reply(), Some(ok()));
    }
    let took = began.elapsed();
    assert!(took >= Duration::from_millis(390), "{took:?}");
    assert!(took < Duration::from_secs(5), "{took:?}");
    // A new connection can end one.
    assert_eq!(operator.request(&["CLIENT", "PAUSE", "600000", "ALL"]), ok());
    clients[0].send(&["PING"]);
    assert_eq!(node.client().request(&["CLIENT", "UNPAUSE"]), ok());
    assert_eq!(clients[0].try_reply(), Some(Value::Simple("PONG".into())));
}

#[test]
fn a_client_that_leaves_takes_its_command_with_it() {
    let node = Node::start(&NodeOptions::default());
    let mut operator = node.client();
    assert_eq!(operator.request(&["CLIENT", "PAUSE", "60000", "WRITE"]), ok());
    let mut client = node.client();
    client.send(&["SET", "key", "1"]);
    eventually("it waits", || (blocked(&node) == 1).then_some(()));
    drop(client);
    eventually("it is forgotten", || (blocked(&node) == 0).then_some(()));
    assert_eq!(operator.request(&["CLIENT", "UNPAUSE"]), ok());
    assert_eq!(operator.request(&["GET", "key"]), Value::Null);
}
