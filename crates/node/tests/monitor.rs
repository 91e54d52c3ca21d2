//! MONITOR: which commands are shown, to whom, and how.

use sidle_node::Now;
use sidle_node::testing::{SoloNode, TestClient, Waits};
use sidle_resp::Value;

fn error(text: &str) -> Value {
    Value::Error(text.to_owned())
}

fn ok() -> Value {
    Value::Simple("OK".into())
}

/// A node, a connection that monitors it, and another one.
struct Watched {
    node: SoloNode,
    monitor: TestClient,
    client: TestClient,
}

impl Watched {
    fn new() -> Watched {
        let mut node = SoloNode::new();
        let (mut monitor, client) = (node.connect(), node.connect());
        assert_eq!(node.ask(&mut monitor, "MONITOR"), ok());
        Watched { node, monitor, client }
    }

    fn ask(&mut self, request: &str) -> Value {
        self.node.ask(&mut self.client, request)
    }

    /// What the monitor was shown since the last call: the words of each line.
    fn shown(&mut self) -> Vec<String> {
        shown_to(&mut self.node, &mut self.monitor)
    }

    /// Each request, and what is shown of it.
    fn check(&mut self, cases: &[(&str, &[&str])]) {
        for (request, lines) in cases {
            let reply = self.ask(request);
            assert_eq!(self.shown(), *lines, "{request}: {reply:?}");
        }
    }
}

fn lines(node: &mut SoloNode, monitor: &mut TestClient) -> Vec<String> {
    monitor.push(&node.worker);
    std::iter::from_fn(|| monitor.receive())
        .map(|line| match line {
            Value::Simple(line) => line,
            other => panic!("no line: {other:?}"),
        })
        .collect()
}

fn shown_to(node: &mut SoloNode, monitor: &mut TestClient) -> Vec<String> {
    let words = |line: &String| line.split_once("] ").expect("a client, and words").1.to_owned();
    lines(node, monitor).iter().map(words).collect()
}

#[test]
fn what_ran_is_shown_and_what_was_refused_is_not() {
    Watched::new().check(&[
        ("SET a 1", &[r#""SET" "a" "1""#]),
        ("geT a", &[r#""geT" "a""#]),
        ("LPUSH a 1", &[r#""LPUSH" "a" "1""#]),
        ("GET", &[]),
        ("NOSUCH a", &[]),
        ("PING", &[r#""PING""#]),
        ("CLIENT ID", &[r#""CLIENT" "ID""#]),
        ("INFO server", &[r#""INFO" "server""#]),
        // For administrators.
        ("CLIENT LIST", &[]),
        ("CONFIG GET port", &[]),
        ("CONFIG SET requirepass secret", &[]),
        ("SLOWLOG LEN", &[]),
        // Passwords.
        ("AUTH secret", &[r#""AUTH" "(redacted)""#]),
        ("AUTH default wrong", &[r#""AUTH" "(redacted)" "(redacted)""#]),
        ("HELLO 2 AUTH default secret", &[r#""HELLO" "2" "AUTH" "(redacted)" "(redacted)""#]),
        ("MSET a 1 b 2", &[r#""MSET" "a" "1" "b" "2""#]),
        ("DBSIZE", &[r#""DBSIZE""#]),
        ("RESET", &[r#""RESET""#]),
    ]);
}

#[test]
fn a_line_has_time_database_and_address() {
    let mut watched = Watched::new();
    watched.node.now = Now { wall_micros: 42, ..watched.node.now };
    watched.ask("KEYS *");
    let Watched { node, monitor, .. } = &mut watched;
    assert_eq!(lines(node, monitor), [r#"1700000000.000042 [0 127.0.0.1:1] "KEYS" "*""#]);
}

#[test]
fn commands_of_a_transaction_are_shown_when_they_run() {
    let mut watched = Watched::new();
    watched.check(&[
        ("MULTI", &[r#""MULTI""#]),
        ("SET a 1", &[]),
        ("CONFIG GET port", &[]),
        ("LPUSH a 1", &[]),
        ("EXEC", &[r#""SET" "a" "1""#, r#""LPUSH" "a" "1""#, r#""EXEC""#]),
        ("MULTI", &[r#""MULTI""#]),
        ("NOSUCH", &[]),
        ("SET a 2", &[]),
        ("EXEC", &[r#""EXEC""#]),
        ("MULTI", &[r#""MULTI""#]),
        ("DISCARD", &[r#""DISCARD""#]),
        ("WATCH a", &[r#""WATCH" "a""#]),
        ("SET a 3", &[r#""SET" "a" "3""#]),
        ("MULTI", &[r#""MULTI""#]),
        ("SET a 4", &[]),
        // A watched key has changed: nothing of it runs.
        ("EXEC", &[r#""EXEC""#]),
    ]);
    assert_eq!(watched.ask("GET a"), Value::Bulk(b"3".to_vec()));
}

#[test]
fn what_waits_is_shown_once_when_it_began_to() {
    let mut watched = Watched::new();
    watched.client.send(&[b"BLPOP", b"list", b"0"]);
    let Watched { node, monitor, client } = &mut watched;
    client.serve(&mut node.worker, node.now);
    assert!(matches!(client.waits, Waits::Parked(_)));
    assert_eq!(shown_to(node, monitor), [r#""BLPOP" "list" "0""#]);
    let mut pusher = node.connect();
    pusher.send(&[b"RPUSH", b"list", b"x"]);
    for _ in 0..4 {
        node.worker.turn();
        while let Some(ticket) = node.worker.poll_woken() {
            client.wake(ticket);
            pusher.wake(ticket);
        }
        client.serve(&mut node.worker, node.now);
        pusher.serve(&mut node.worker, node.now);
    }
    assert!(client.receive().is_some());
    assert_eq!(pusher.receive(), Some(Value::Integer(1)));
    assert_eq!(shown_to(node, monitor), [r#""RPUSH" "list" "x""#]);
}

#[test]
fn a_monitor_is_shown_its_own_commands_behind_their_replies() {
    let mut watched = Watched::new();
    let Watched { node, monitor, .. } = &mut watched;
    assert_eq!(node.ask(monitor, "PING"), Value::Simple("PONG".into()));
    assert_eq!(shown_to(node, monitor), [r#""PING""#]);
    // For Redis it is a replica, which may not touch the data.
    for request in ["GET a", "SET a 1", "DBSIZE"] {
        assert_eq!(node.ask(monitor, request), error("ERR Replica can't interact with the keyspace"));
    }
    assert_eq!(shown_to(node, monitor), [""; 0]);
}

#[test]
fn monitor_is_refused_in_a_transaction_and_silent_when_repeated() {
    let mut watched = Watched::new();
    watched.check(&[("MULTI", &[r#""MULTI""#]), ("MONITOR", &[])]);
    assert_eq!(
        watched.ask("EXEC"),
        Value::Array(vec![error("ERR MONITOR isn't allowed for DENY BLOCKING client")])
    );
    let Watched { node, monitor, .. } = &mut watched;
    monitor.send(&[b"MONITOR"]);
    monitor.serve(&mut node.worker, node.now);
    assert_eq!(shown_to(node, monitor), [r#""EXEC""#]);
}

#[test]
fn reset_and_the_end_of_the_connection_end_it() {
    let mut watched = Watched::new();
    let Watched { node, monitor, client } = &mut watched;
    let mut other = node.connect();
    assert_eq!(node.ask(&mut other, "MONITOR"), ok());
    let flags = |node: &mut SoloNode, client: &mut TestClient| {
        let Value::Bulk(list) = node.ask(client, "CLIENT LIST") else { panic!("no text") };
        let list = String::from_utf8(list).expect("a text");
        list.lines().map(|line| line.contains(" flags=O ")).collect::<Vec<_>>()
    };
    assert_eq!(flags(node, client), [true, false, true]);
    assert_eq!(node.ask(monitor, "RESET"), Value::Simple("RESET".into()));
    assert_eq!(flags(node, client), [false, false, true]);
    node.ask(client, "SET a 1");
    assert_eq!(node.ask(monitor, "GET a"), Value::Bulk(b"1".to_vec()), "it is a client again");
    assert_eq!(shown_to(node, monitor), [""; 0]);
    assert_eq!(shown_to(node, &mut other), [r#""RESET""#, r#""SET" "a" "1""#, r#""GET" "a""#]);
    drop(other);
    node.ask(client, "SET a 1");
}

#[test]
fn it_works_in_resp3_and_without_replies() {
    let mut watched = Watched::new();
    let Watched { node, monitor, client } = &mut watched;
    assert!(matches!(node.ask(monitor, "HELLO 3"), Value::Map(_)));
    node.ask(client, "SET a 1");
    assert_eq!(shown_to(node, monitor), [r#""HELLO" "3""#, r#""SET" "a" "1""#]);
    monitor.send(&[b"CLIENT", b"REPLY", b"OFF"]);
    monitor.serve(&mut node.worker, node.now);
    node.ask(client, "SET a 1");
    assert_eq!(shown_to(node, monitor), [""; 0]);
}

#[test]
fn a_monitor_that_takes_nothing_is_closed() {
    let mut watched = Watched::new();
    watched.node.parts.shared.config.set_own_output_bytes(10_000);
    let held = |watched: &mut Watched| {
        let Value::Bulk(list) = watched.ask("CLIENT LIST") else { panic!("no text") };
        let list = String::from_utf8(list).expect("a text");
        let line = list.lines().find(|line| line.contains("flags=O")).expect("it is listed");
        let omem = line.split(' ').find_map(|word| word.strip_prefix("omem=")).expect("a field");
        omem.parse::<u64>().expect("a number")
    };
    for _ in 0..10 {
        watched.ask("PING");
    }
    assert!((400..10_000).contains(&held(&mut watched)));
    for _ in 0..1_000 {
        watched.ask("PING");
    }
    assert_eq!(held(&mut watched), 0, "it gets no more");
    watched.monitor.push(&watched.node.worker);
    assert!(matches!(watched.monitor.waits, Waits::Closed));
}

#[test]
fn a_line_longer_than_a_reply_may_be_closes_the_monitor() {
    let mut watched = Watched::new();
    watched.node.parts.shared.config.set_own_output_bytes(10_000);
    watched.ask(&format!("SET a {}", "x".repeat(10_000)));
    watched.monitor.push(&watched.node.worker);
    assert!(matches!(watched.monitor.waits, Waits::Closed));
}

#[test]
fn all_monitors_see_one_order() {
    let mut watched = Watched::new();
    let mut second = watched.node.connect();
    assert_eq!(watched.node.ask(&mut second, "MONITOR"), ok());
    let mut clients: Vec<TestClient> = (0..3).map(|_| watched.node.connect()).collect();
    for number in 0..30 {
        watched.node.ask(&mut clients[number % 3], &format!("SET {} {number}", number % 3));
    }
    let (first, other) = (watched.shown(), shown_to(&mut watched.node, &mut second));
    assert_eq!(first.len(), 30);
    assert_eq!(first, other);
}
