//! One node from its clients' side: requests in pieces and in heaps, malformed and oversized ones, too many
//! clients.

#![allow(clippy::disallowed_methods)] // a test reads files

mod support;

use sidle_resp::Value;
use support::{Client, Node, NodeOptions, bulk, eventually};

fn ok() -> Value {
    Value::Simple("OK".into())
}

fn pong() -> Value {
    Value::Simple("PONG".into())
}

#[test]
fn ping_inline_and_as_an_array() {
    let node = Node::start(&NodeOptions::default());
    let mut client = node.client();
    client.send_raw(b"PING\r\n");
    assert_eq!(client.reply(), pong());
    client.send_raw(b"  ping   \"a b\"\n");
    assert_eq!(client.reply(), bulk("a b"));
    assert_eq!(client.request(&["PING"]), pong());
}

#[test]
fn pipeline_cut_at_every_byte_changes_nothing() {
    let node = Node::start(&NodeOptions::default());
    let pipeline: &[u8] = b"*3\r\n$3\r\nSET\r\n$1\r\na\r\n$5\r\nv\r\nal\r\nPING\r\n*2\r\n$3\r\nGET\r\n$1\r\na\r\n*0\r\n\r\n*1\r\n$4\r\nPING\r\n";
    for cut in 0..=pipeline.len() {
        let mut client = node.client();
        client.send_raw(&pipeline[..cut]);
        // Usually long enough for the node to receive the pieces apart; the outcome must be the same either
        // way.
        std::thread::sleep(std::time::Duration::from_micros(300));
        client.send_raw(&pipeline[cut..]);
        let replies = [client.reply(), client.reply(), client.reply(), client.reply()];
        assert_eq!(replies, [ok(), pong(), bulk("v\r\nal"), pong()], "cut at {cut}");
    }
}

#[test]
fn one_byte_at_a_time() {
    let node = Node::start(&NodeOptions::default());
    let mut client = node.client();
    for byte in b"*3\r\n$3\r\nSET\r\n$1\r\nb\r\n$2\r\nxy\r\n\r\nGET b\r\n" {
        client.send_raw(&[*byte]);
    }
    assert_eq!([client.reply(), client.reply()], [ok(), bulk("xy")]);
}

#[test]
fn deep_pipeline_is_answered_in_order() {
    let node = Node::start(&NodeOptions::default());
    let mut client = node.client();
    let requests: Vec<Vec<String>> = (0..20_000).map(|n| vec!["PING".into(), n.to_string()]).collect();
    for (n, reply) in client.pipeline(&requests).into_iter().enumerate() {
        assert_eq!(reply, bulk(&n.to_string()));
    }
}

#[test]
fn large_values_travel_both_ways() {
    let node = Node::start(&NodeOptions::default());
    let mut client = node.client();
    for length in [16_000, 16_384, 65_536, 100_000, 5_000_000] {
        let value: String = (0..length).map(|n| char::from(b'a' + (n % 23) as u8)).collect();
        assert_eq!(client.request(&["SET", "large", &value]), ok());
        assert_eq!(client.request(&["GET", "large"]), bulk(&value), "{length} bytes");
    }
    assert_eq!(client.request(&["PING"]), pong());
}

#[test]
fn replies_that_nobody_reads_stop_the_reading_of_requests() {
    let node = Node::start(&NodeOptions::default());
    let mut client = node.client();
    assert_eq!(client.request(&["SET", "v", &"x".repeat(1 << 20)]), ok());
    let requests: Vec<Vec<String>> = (0..200).map(|_| vec!["GET".into(), "v".into()]).collect();
    let replies = client.pipeline(&requests);
    assert!(replies.iter().all(|reply| reply.as_bytes().is_some_and(|bytes| bytes.len() == 1 << 20)));
}

#[test]
fn client_that_leaves_too_much_unread_is_closed() {
    let node = Node::start(&NodeOptions::default().flag("--max-output-buffer", "100kb"));
    let mut client = node.client();
    assert_eq!(client.request(&["SET", "v", &"x".repeat(20 << 20)]), ok());
    client.send(&["GET", "v"]);
    eventually("the node closes the connection", || node.log().contains("unread").then_some(()));
    assert!(client.read_to_end().len() < 20 << 20);
}

#[test]
fn malformed_requests_get_redis_errors_and_are_closed() {
    let node = Node::start(&NodeOptions::default());
    let cases: &[(&[u8], &str)] = &[
        (b"*1\r\n#4\r\nPING\r\n", "-ERR Protocol error: expected '$', got '#'\r\n"),
        (b"*abc\r\n", "-ERR Protocol error: invalid multibulk length\r\n"),
        (b"*1\r\n$abc\r\n", "-ERR Protocol error: invalid bulk length\r\n"),
        (b"*1\r\n$-5\r\n", "-ERR Protocol error: invalid bulk length\r\n"),
        (b"*1\r\n$600000000\r\n", "-ERR Protocol error: invalid bulk length\r\n"),
        (b"SET \"a\r\n", "-ERR Protocol error: unbalanced quotes in request\r\n"),
    ];
    for (request, error) in cases {
        let mut client = node.client();
        client.send_raw(b"PING\r\n");
        client.send_raw(request);
        let all = client.read_to_end();
        assert_eq!(String::from_utf8_lossy(&all), format!("+PONG\r\n{error}"), "{request:?}");
    }
    assert_eq!(node.client().request(&["PING"]), pong());
}

#[test]
fn endless_line_is_refused() {
    let node = Node::start(&NodeOptions::default());
    let mut client = node.client();
    // The node may close before all of it is sent.
    client.try_send_raw(&vec![b'a'; 128 << 10]);
    let all = client.read_to_end();
    assert_eq!(String::from_utf8_lossy(&all), "-ERR Protocol error: too big inline request\r\n");
}

#[test]
fn limits_of_the_settings_hold() {
    let options = NodeOptions::default().flag("--max-value", "1mb").flag("--max-arguments", "100");
    let node = Node::start(&options);
    let mut client = node.client();
    client.send_raw(b"*1\r\n$1048577\r\n");
    assert_eq!(client.read_to_end(), b"-ERR Protocol error: invalid bulk length\r\n");
    let mut client = node.client();
    client.send_raw(b"*101\r\n");
    assert_eq!(client.read_to_end(), b"-ERR Protocol error: invalid multibulk length\r\n");
}

#[test]
fn one_client_too_many_is_refused_until_another_leaves() {
    let node = Node::start(&NodeOptions::default().flag("--max-clients", "3"));
    let mut clients: Vec<Client> = (0..3).map(|_| node.client()).collect();
    for client in &mut clients {
        assert_eq!(client.request(&["PING"]), pong());
    }
    assert_eq!(node.client().read_to_end(), b"-ERR max number of clients reached\r\n");
    clients.pop();
    eventually("a place is free again", || {
        let reply = node.client().try_request(&["PING"])?;
        (reply == pong()).then_some(())
    });
}

#[test]
fn password_is_asked_for() {
    let node = Node::start(&NodeOptions::default().flag("--password", "secret"));
    let mut client = node.client();
    let refused = client.request(&["GET", "a"]);
    assert_eq!(refused, Value::Error("NOAUTH Authentication required.".into()));
    assert!(
        matches!(client.request(&["AUTH", "wrong"]), Value::Error(text) if text.starts_with("WRONGPASS"))
    );
    assert_eq!(client.request(&["AUTH", "secret"]), ok());
    assert_eq!(client.request(&["GET", "a"]), Value::Null);
    let mut stranger = node.client();
    stranger.send_raw(b"*11\r\n");
    let all = stranger.read_to_end();
    assert_eq!(String::from_utf8_lossy(&all), "-ERR Protocol error: unauthenticated multibulk length\r\n");
}

#[test]
fn quit_is_answered_and_closes() {
    let node = Node::start(&NodeOptions::default());
    let mut client = node.client();
    client.send_raw(b"PING\r\nQUIT\r\nPING\r\n");
    assert_eq!(client.read_to_end(), b"+PONG\r\n+OK\r\n");
}

#[test]
fn client_reply_modes_drop_replies() {
    let node = Node::start(&NodeOptions::default());
    let mut client = node.client();
    client.send_raw(
        b"CLIENT REPLY OFF\r\nPING\r\nPING\r\nCLIENT REPLY ON\r\nCLIENT REPLY SKIP\r\nPING\r\nPING last\r\n",
    );
    assert_eq!([client.reply(), client.reply()], [ok(), bulk("last")]);
}

#[test]
fn idle_connections_cost_little() {
    let node = Node::start(&NodeOptions::default());
    let resident = || {
        let text =
            std::fs::read_to_string(format!("/proc/{}/statm", node.process_id())).expect("Linux tells");
        let pages: u64 = text.split(' ').nth(1).and_then(|pages| pages.parse().ok()).expect("a number");
        pages * rustix::param::page_size() as u64
    };
    // The first requests and the cleaner's start touch memory of their own.
    assert_eq!(node.client().request(&["SET", "a", "b"]), ok());
    std::thread::sleep(std::time::Duration::from_millis(500));
    let before = resident();
    let clients: Vec<Client> = (0..800).map(|_| node.client()).collect();
    let mut clients: Vec<Client> = clients
        .into_iter()
        .map(|mut client| {
            assert_eq!(client.request(&["PING"]), pong());
            client
        })
        .collect();
    let each = resident().saturating_sub(before) / clients.len() as u64;
    // Redis keeps a reply buffer of 16 KiB for each.
    assert!(each < 12 << 10, "an idle connection takes {each} bytes");
    assert_eq!(clients[0].request(&["PING"]), pong());
}

#[test]
fn more_clients_are_let_in_when_the_setting_changes() {
    let node = Node::start(&NodeOptions::default().flag("--max-clients", "1"));
    let mut first = node.client();
    assert_eq!(first.request(&["PING"]), pong());
    assert_eq!(node.client().read_to_end(), b"-ERR max number of clients reached\r\n");
    assert_eq!(first.request(&["CONFIG", "SET", "maxclients", "2"]), ok());
    assert_eq!(node.client().request(&["PING"]), pong());
}
