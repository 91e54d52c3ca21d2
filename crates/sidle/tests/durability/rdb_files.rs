//! SAVE and BGSAVE: the file that they write is read by `sidle import` and by a redis-server, and is whole
//! at any time.

use super::loading::{KEYS, fill};
use super::saving::{error, ok};
use super::support::redis::RedisServer;
use super::support::{Client, Node, NodeOptions, StopWhenDropped, eventually};
use super::{durable, info, number, text};
use sidle_resp::Value;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};

/// Elements of a collection: many slices.
const ELEMENTS: usize = 60_000;
/// Far away: the year 2100.
const DEADLINE_MS: &str = "4102444800123";
/// How often a kill is tried until it comes in the middle of a save.
const TRIES: usize = 20;
const NAMES: [&str; 12] = [
    "text",
    "number",
    "later",
    "long",
    "list",
    "large list",
    "set",
    "integers",
    "large set",
    "hash",
    "large hash",
    "large sorted",
];

fn part(node: &Node) -> PathBuf {
    node.file("dump.rdb.part")
}

fn with_debug(options: NodeOptions) -> NodeOptions {
    options.switch("--debug-commands")
}

/// A value of each type, short and long.
fn fill_types(client: &mut Client) {
    let long = "x".repeat(3 << 20);
    for words in [
        &["SET", "text", "value"][..],
        &["SET", "number", "-70000"],
        &["SET", "later", "v", "PXAT", DEADLINE_MS],
        &["SET", "long", &long],
        &["SET", "gone", "v", "PX", "1"],
        &["RPUSH", "list", "a", "b", "3"],
        &["SADD", "set", "x", "y"],
        &["SADD", "integers", "1", "70000", "-5"],
        &["HSET", "hash", "f", "v", "g", "2"],
        &["ZADD", "sorted", "1.5", "a", "-inf", "b"],
    ] {
        assert!(!matches!(client.request(words), Value::Error(_)), "{words:?}");
    }
    for (command, name) in
        [("RPUSH", "large list"), ("SADD", "large set"), ("HSET", "large hash"), ("ZADD", "large sorted")]
    {
        for from in (0..ELEMENTS).step_by(500) {
            let mut words = vec![command.to_owned(), name.to_owned()];
            for number in from..from + 500 {
                match command {
                    "ZADD" => words.push(format!("{}.5", number % 977)),
                    "HSET" => words.push(format!("field:{number}")),
                    _ => {}
                }
                words.push(format!("element:{number}"));
            }
            let words: Vec<&str> = words.iter().map(String::as_str).collect();
            client.request(&words);
        }
    }
}

fn await_save(client: &mut Client) {
    eventually("the save ends", || (info(client, "rdb_bgsave_in_progress") == "0").then_some(()));
}

/// Saves in the background while another client writes.
fn save_under_load(node: &Node, client: &mut Client) {
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let _stops = StopWhenDropped(&stop);
        scope.spawn(|| {
            let mut client = node.client();
            for round in 0_u64.. {
                if stop.load(Ordering::Relaxed) {
                    return;
                }
                let key = format!("load:{}", round % 1000);
                assert_eq!(client.request(&["SET", &key, &round.to_string()]), ok());
                client.request(&["RPUSH", "load list", &round.to_string()]);
            }
        });
        eventually("the load runs", || (number(client, &["LLEN", "load list"]) > 100).then_some(()));
        assert_eq!(client.request(&["BGSAVE"]), Value::Simple("Background saving started".into()));
        assert_eq!(error(client, &["BGSAVE"]), "ERR Background save already in progress");
        assert_eq!(error(client, &["SAVE"]), "ERR Background save already in progress");
        await_save(client);
    });
    assert_eq!(info(client, "rdb_last_bgsave_status"), "ok");
    assert!(number(client, &["LASTSAVE"]) >= info(client, "rdb_last_save_time").parse().expect("a number"));
}

/// All that a key has, in an order of its own.
fn content(client: &mut Client, name: &str) -> (Option<String>, Vec<String>) {
    let kind = match client.request(&["TYPE", name]) {
        Value::Simple(kind) => kind.to_string(),
        other => panic!("{other:?}"),
    };
    let words: &[&str] = match kind.as_str() {
        "string" => &["GET", name],
        "list" => &["LRANGE", name, "0", "-1"],
        "set" => &["SMEMBERS", name],
        "hash" => &["HGETALL", name],
        "zset" => &["ZRANGE", name, "0", "-1", "WITHSCORES"],
        other => panic!("{name} is a {other}"),
    };
    let mut content: Vec<String> = match client.request(words) {
        Value::Array(elements) => elements.iter().map(|element| text(element).expect("a text")).collect(),
        value => vec![text(&value).expect("a text")],
    };
    if kind == "hash" {
        content = content.chunks(2).map(|pair| pair.join("=")).collect();
    }
    if kind == "hash" || kind == "set" {
        content.sort();
    }
    let deadline = match client.request(&["PEXPIRETIME", name]) {
        Value::Integer(deadline) => (deadline > 0).then(|| deadline.to_string()),
        other => panic!("{other:?}"),
    };
    (deadline, content)
}

/// What was pushed to a list one after the other is there up to some moment.
fn assert_is_a_beginning(list: &[String]) {
    for (at, item) in list.iter().enumerate() {
        assert_eq!(*item, at.to_string());
    }
}

/// A redis-server that has loaded a file, and its address.
struct Redis {
    _server: RedisServer,
    address: String,
}

impl Redis {
    fn with_file(file: &PathBuf) -> Option<Redis> {
        let started = RedisServer::listening(|[port]| {
            let folder = tempfile::tempdir().expect("a temporary folder");
            std::fs::copy(file, folder.path().join("dump.rdb")).expect("the file is copied");
            RedisServer::start(folder, &["--port", port, "--bind", "127.0.0.1", "--dbfilename", "dump.rdb"])
        });
        if started.is_none() {
            eprintln!("no redis-server, so none loads the file");
        }
        let (server, [port]) = started?;
        Some(Redis { _server: server, address: format!("127.0.0.1:{port}") })
    }

    fn client(&self) -> Client {
        let mut client = Client::connect(&self.address);
        eventually("it has loaded", || {
            (client.request(&["PING"]) == Value::Simple("PONG".into())).then_some(())
        });
        client
    }
}

#[test]
fn what_is_saved_under_load_is_loaded() {
    let node = Node::start(&with_debug(durable("everysec")));
    let mut client = node.client();
    fill_types(&mut client);
    fill(&mut client);
    save_under_load(&node, &mut client);

    let other = Node::start(&with_debug(NodeOptions::default()));
    let file = node.file("dump.rdb");
    let output = other.run(&["import", &file.display().to_string()]);
    assert!(output.status.success(), "{output:?}");
    let mut loaded = other.client();
    let digests = [&["DEBUG", "DIGEST-VALUE", "sorted"][..], &NAMES].concat();
    assert_eq!(loaded.request(&digests), client.request(&digests));
    let keys = number(&mut loaded, &["DBSIZE"]);
    let certain = (KEYS + NAMES.len() + 1) as i64;
    assert!((certain..=certain + 1001).contains(&keys), "{keys} keys");
    assert_eq!(loaded.request(&["EXISTS", "gone"]), Value::Integer(0));
    assert_is_a_beginning(&content(&mut loaded, "load list").1);

    let Some(redis) = Redis::with_file(&file) else { return };
    let mut loaded = redis.client();
    assert_eq!(number(&mut loaded, &["DBSIZE"]), keys);
    for name in ["sorted"].iter().chain(&NAMES) {
        assert!(content(&mut loaded, name) == content(&mut client, name), "{name} differs");
    }
    assert_is_a_beginning(&content(&mut loaded, "load list").1);
}

#[test]
fn a_save_that_ends_early_leaves_the_former_file() {
    let mut node = Node::start(&durable("everysec"));
    let mut client = node.client();
    client.request(&["SET", "a", "1"]);
    assert_eq!(client.request(&["SAVE"]), ok());
    let former = std::fs::read(node.file("dump.rdb")).expect("SAVE has written it");
    fill(&mut client);
    for is_killed in [true, false] {
        let mut tries = 0..TRIES;
        loop {
            assert!(tries.next().is_some(), "every save had ended");
            node.client().send(&["BGSAVE"]);
            eventually("the save begins", || part(&node).exists().then_some(()));
            if is_killed {
                node.kill()
            } else {
                assert!(node.stop().success())
            }
            let is_former = std::fs::read(node.file("dump.rdb")).expect("it is there") == former;
            let leaves_part = part(&node).exists();
            node.restart();
            if is_former {
                assert_eq!(leaves_part, is_killed);
                break;
            }
            std::fs::write(node.file("dump.rdb"), &former).expect("it is written");
        }
        eventually("what is left is removed", || (!part(&node).exists()).then_some(()));
    }
    assert_eq!(node.client().request(&["SAVE"]), ok());
    assert!(std::fs::read(node.file("dump.rdb")).expect("it is there").len() > former.len());
}

#[test]
fn a_save_that_fails_is_told_and_the_node_goes_on() {
    let node = Node::start(&NodeOptions::default());
    let mut client = node.client();
    client.request(&["SET", "a", "1"]);
    let in_the_way = node.file("dump.rdb");
    std::fs::create_dir_all(in_the_way.join("folder")).expect("it is made");
    assert_eq!(client.request(&["BGSAVE"]), Value::Simple("Background saving started".into()));
    await_save(&mut client);
    assert_eq!(info(&mut client, "rdb_last_bgsave_status"), "err");
    let refused = error(&mut client, &["SAVE"]);
    assert!(refused.starts_with("ERR the save failed: ") && refused.contains("dump.rdb"), "{refused}");
    assert!(!part(&node).exists());
    eventually("it is logged", || node.log().contains("the save failed").then_some(()));
    assert_eq!(info(&mut client, "rdb_saves"), "0");
    assert_eq!(client.request(&["SET", "a", "2"]), ok());
    std::fs::remove_dir_all(&in_the_way).expect("it is removed");
    assert_eq!(client.request(&["SAVE"]), ok());
    assert_eq!(info(&mut client, "rdb_last_bgsave_status"), "ok");
    assert_eq!(info(&mut client, "rdb_saves"), "1");
    for (parameter, value) in [("dbfilename", "dump.rdb"), ("dir", &*node.folder().display().to_string())] {
        let Value::Array(pair) = client.request(&["CONFIG", "GET", parameter]) else { panic!("no pair") };
        assert_eq!(text(&pair[1]).as_deref(), Some(value));
        assert!(error(&mut client, &["CONFIG", "SET", parameter, "/tmp"]).contains("protected config"));
    }
}
