//! kill -9 under load: everything that was acknowledged is there, and nothing is half there.

use super::support::{Client, Node, NodeOptions, TestCluster, bulk, eventually};
use super::{durable, files, info, number, text};
use sidle_resp::Value;
use sidle_types::Slot;
use std::sync::Mutex;
use std::time::{Duration, Instant};

pub(crate) const WRITERS: usize = 6;
const ROUNDS: usize = 4;

/// What one writer has done, each round one more: `acknowledged` rounds for certain, and maybe one more.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Progress {
    pub(crate) acknowledged: u64,
}

/// So many requests of a round are one transaction, and come first.
pub(crate) const TRANSACTION: usize = 5;

/// The requests of a writer's next round: each leaves something that tells the round.
pub(crate) fn round(writer: usize, round: u64) -> Vec<Vec<String>> {
    let line = |words: &[&str]| words.iter().map(|word| (*word).to_owned()).collect::<Vec<String>>();
    let (n, tag) = (round.to_string(), format!("{{{writer}}}"));
    let key = |name: &str| format!("{tag}{name}");
    let mut lines = vec![
        line(&["MULTI"]),
        line(&["SET", &key("a"), &n]),
        line(&["HSET", &key("hash"), &format!("field {n}"), &n]),
        line(&["SET", &key("b"), &n]),
        line(&["EXEC"]),
        line(&["MSET", &key("x"), &n, &key("y"), &n]),
        line(&["RPUSH", &key("list"), &n]),
        line(&["ZADD", &key("zset"), &n, &format!("member {n}")]),
        line(&["APPEND", &key("text"), &format!("{n:>8}")]),
        line(&["SET", &key(&format!("gone {n}")), &n]),
        line(&["DEL", &key(&format!("gone {n}"))]),
        line(&[
            "RENAME",
            &key(if round.is_multiple_of(2) { "here" } else { "there" }),
            &key(if round.is_multiple_of(2) { "there" } else { "here" }),
        ]),
    ];
    if round > 1 {
        lines.push(line(&["LPOP", &key("list")]));
    }
    lines
}

/// Runs rounds until the node is gone.
pub(crate) fn write(address: &str, writer: usize, progress: &Mutex<[Progress; WRITERS]>) {
    let mut client = Client::connect(address);
    loop {
        let next = progress.lock().expect("no writer panics")[writer].acknowledged + 1;
        for words in round(writer, next) {
            let words: Vec<&str> = words.iter().map(String::as_str).collect();
            match client.try_request(&words) {
                Some(Value::Error(error)) => panic!("{words:?}: {error}"),
                Some(_) => {}
                None => return,
            }
        }
        progress.lock().expect("no writer panics")[writer].acknowledged = next;
    }
}

/// A writer's data are those after `acknowledged` rounds, with some more requests of the next one at most.
/// Returns how many rounds are whole now, once the rest of a begun one was made up for.
pub(crate) fn check(client: &mut Client, writer: usize, acknowledged: u64) {
    let key = |name: &str| format!("{{{writer}}}{name}");
    let get = |client: &mut Client, name: &str| {
        text(&client.request(&["GET", &key(name)])).map_or(0, |text| text.parse::<u64>().expect("a number"))
    };
    let (a, b) = (get(client, "a"), get(client, "b"));
    assert_eq!(a, b, "an EXEC is whole");
    assert!((acknowledged..=acknowledged + 1).contains(&a), "{a} after {acknowledged}");
    let (x, y) = (get(client, "x"), get(client, "y"));
    assert_eq!(x, y, "an MSET is whole");
    assert!((acknowledged..=a).contains(&x), "{x} after {acknowledged}, with {a} begun");
    assert_eq!(number(client, &["HLEN", &key("hash")]) as u64, a);
    for field in [1, a / 2, a].into_iter().filter(|field| *field > 0) {
        let found = client.request(&["HGET", &key("hash"), &format!("field {field}")]);
        assert_eq!(found, bulk(&field.to_string()));
    }
    let (list, popped) = (number(client, &["LLEN", &key("list")]) as u64, acknowledged.saturating_sub(1));
    assert!(list + popped >= acknowledged && list + popped <= acknowledged + 1, "{list} of {acknowledged}");
    let members = number(client, &["ZCARD", &key("zset")]) as u64;
    assert!((acknowledged..=acknowledged + 1).contains(&members));
    let last = client.request(&["ZSCORE", &key("zset"), &format!("member {members}")]);
    assert_eq!(last, bulk(&members.to_string()));
    let length = number(client, &["STRLEN", &key("text")]) as u64;
    assert!((acknowledged * 8..=(acknowledged + 1) * 8).contains(&length) && length.is_multiple_of(8));
    for round in acknowledged.saturating_sub(20)..=acknowledged {
        assert_eq!(number(client, &["EXISTS", &key(&format!("gone {round}"))]), 0, "it was deleted");
    }
    assert_eq!(number(client, &["EXISTS", &key("here"), &key("there")]), 1, "it has one name");
}

/// Only what the first round needs is there.
pub(crate) fn begin_anew(nodes: &[Node], node_of: impl Fn(usize) -> usize) {
    let mut clients: Vec<Client> = nodes.iter().map(Node::client).collect();
    for client in &mut clients {
        assert_eq!(client.request(&["FLUSHALL"]), Value::Simple("OK".into()));
    }
    for writer in 0..WRITERS {
        let client = &mut clients[node_of(writer)];
        let value = "v".repeat(100 + 300_000 * (writer % 2));
        assert_eq!(
            client.request(&["SET", &format!("{{{writer}}}there"), &value]),
            Value::Simple("OK".into())
        );
    }
}

fn survives_kills(options: &NodeOptions) {
    survive_kills(&mut [Node::start(options)], |_| 0);
}

/// All nodes are killed under load, again and again. `node_of`: where a writer's keys are.
fn survive_kills(nodes: &mut [Node], node_of: impl Fn(usize) -> usize) {
    for _ in 0..ROUNDS {
        begin_anew(nodes, &node_of);
        let progress = Mutex::new([Progress::default(); WRITERS]);
        let addresses: Vec<String> = nodes.iter().map(Node::address).collect();
        std::thread::scope(|scope| {
            for writer in 0..WRITERS {
                let (address, progress) = (&addresses[node_of(writer)], &progress);
                scope.spawn(move || write(address, writer, progress));
            }
            std::thread::sleep(Duration::from_millis(1500));
            nodes.iter_mut().for_each(Node::kill);
        });
        // The coordinator's first.
        nodes.iter_mut().for_each(Node::restart);
        let progress = *progress.lock().expect("no writer panicked");
        for (writer, Progress { acknowledged }) in progress.into_iter().enumerate() {
            assert!(acknowledged > 0, "writer {writer} did nothing");
            check(&mut nodes[node_of(writer)].client(), writer, acknowledged);
        }
    }
}

#[test]
fn what_was_acknowledged_survives_kills_synced_each_second() {
    survives_kills(&durable("everysec"));
}

#[test]
fn what_was_acknowledged_survives_kills_synced_always() {
    survives_kills(&durable("always"));
}

/// Files of 1 MiB, cleaned from 3 MiB on. The settings are in a file, which is to stay.
fn cleaned_often() -> (tempfile::NamedTempFile, NodeOptions) {
    let config = tempfile::NamedTempFile::new().expect("a temporary file");
    std::fs::write(
        config.path(),
        "[durability]\nmode = \"disk\"\nfile = \"1mb\"\nclean_above = \"3mb\"\nclean_percent = 150\n",
    )
    .expect("it is written");
    let path = config.path().to_str().expect("a plain name").to_owned();
    (config, durable("everysec").flag("--config", &path))
}

/// The log is cleaned many times meanwhile.
#[test]
fn what_was_acknowledged_survives_kills_while_files_go() {
    let (_config, options) = cleaned_often();
    survives_kills(&options);
}

/// Two nodes, each with half of the slots, which have moved twice.
#[test]
fn what_was_acknowledged_survives_kills_of_a_whole_cluster() {
    let mut cluster = TestCluster::start_with(2, &durable("everysec"));
    for (slots, target) in [("0-16383", 1), ("8192-16383", 0)] {
        let id = cluster.start_migration(slots, target);
        assert_eq!(cluster.wait_for_migration(id)["state"], "done");
    }
    let is_of_the_lower_half = |writer: usize| Slot::of_key(writer.to_string().as_bytes()).number() < 8192;
    survive_kills(&mut cluster.nodes, |writer| usize::from(is_of_the_lower_half(writer)));
}

#[test]
fn deadlines_deletions_and_flushes_survive_a_kill_and_a_stop() {
    let mut node = Node::start(&durable("always"));
    let mut client = node.client();
    for words in [
        &["SET", "kept", "1"][..],
        &["SET", "soon", "1", "PX", "300"],
        &["SET", "later", "1", "EX", "10000"],
        &["SET", "overwritten", "old"],
        &["SET", "overwritten", "1", "PX", "300"],
        &["SET", "removed", "1"],
        &["DEL", "removed"],
    ] {
        client.request(words);
    }
    std::thread::sleep(Duration::from_millis(400));
    for ends in [Node::kill as fn(&mut Node), |node| assert!(node.stop().success())] {
        ends(&mut node);
        node.restart();
        client = node.client();
        assert_eq!(
            client.request(&["MGET", "kept", "soon", "overwritten", "removed"]),
            Value::Array(vec![bulk("1"), Value::Null, Value::Null, Value::Null])
        );
        assert!((9_900_000..=10_000_000).contains(&number(&mut client, &["PTTL", "later"])));
        assert_eq!(info(&mut client, "aof_enabled"), "1");
    }
    assert_eq!(client.request(&["FLUSHALL"]), Value::Simple("OK".into()));
    client.request(&["SET", "new", "1"]);
    node.kill();
    node.restart();
    assert_eq!(number(&mut node.client(), &["DBSIZE"]), 1);
}

/// With 1 MiB files, cleaned from 3 MiB on, and little that is live, few files are left of many.
#[test]
fn the_log_takes_no_more_than_it_is_told() {
    let (_config, options) = cleaned_often();
    let mut node = Node::start(&options);
    let mut client = node.client();
    client.request(&["SET", "cold", "never written again"]);
    let value = "v".repeat(50_000);
    for number in 0..1000 {
        client.request(&["SET", &format!("key {}", number % 10), &value]);
    }
    let deadline = Instant::now() + Duration::from_secs(20);
    while files(&node).len() > 6 {
        assert!(Instant::now() < deadline, "{} files", files(&node).len());
        client.request(&["SET", "key 0", &value]);
        std::thread::sleep(Duration::from_millis(20));
    }
    assert!(!files(&node)[0].ends_with("000000000001.log"), "the first has gone");
    node.kill();
    node.restart();
    let mut client = node.client();
    assert_eq!(client.request(&["GET", "cold"]), bulk("never written again"));
    assert_eq!(number(&mut client, &["DBSIZE"]), 11);
    assert_eq!(client.request(&["GET", "key 9"]), bulk(&value));
}

/// What a kill leaves twice in the log goes with its file: kills do not make the log grow, nor keep it busy.
#[test]
fn kills_while_files_go_leave_nothing_twice_for_good() {
    let (_config, options) = cleaned_often();
    let mut node = Node::start(&options);
    let value = "v".repeat(1000);
    let mut client = node.client();
    for number in 0..1000 {
        client.request(&["SET", &format!("static {number}"), &value]);
    }
    for round in 0..25 {
        // Until the next file is being cleaned, and a little further each time.
        let overwrites = 0..900 + 40 * round;
        let requests: Vec<Vec<String>> = overwrites
            .map(|number| vec!["SET".to_owned(), format!("key {}", number % 10), value.clone()])
            .collect();
        requests.chunks(50).for_each(|requests| drop(client.pipeline(requests)));
        node.kill();
        node.restart();
        client = node.client();
    }
    // Each second some files go whose removal is synced by then.
    eventually("few files are left", || (files(&node).len() <= 8).then_some(()));
    let written = |node: &Node| {
        let last = files(node).pop().expect("it has files");
        (std::fs::metadata(&last).expect("it is there").len(), last)
    };
    let mut last = written(&node);
    eventually("nothing is written any more", || {
        std::thread::sleep(Duration::from_millis(1_500));
        std::mem::replace(&mut last, written(&node)).eq(&last).then_some(())
    });
    assert!(files(&node).len() <= 8, "{} MB of 1", files(&node).len());
    assert_eq!(number(&mut client, &["DBSIZE"]), 1010);
}
