//! A node that reads its log answers already, and says so.

use super::durable;
use super::support::{Client, Node, bulk, eventually};
use super::{number, text};
use sidle_resp::Value;

pub(crate) const KEYS: usize = 400_000;
/// How often a start is tried until it is met while it reads: a busy machine may come too late.
const TRIES: usize = 20;

/// Writes so many keys.
pub(crate) fn fill(client: &mut Client) {
    let value = "v".repeat(40);
    for first in (0..KEYS).step_by(1000) {
        let keys: Vec<String> = (first..first + 1000).map(|number| format!("{{{first}}}{number}")).collect();
        let mut words = vec!["MSET"];
        keys.iter().for_each(|key| words.extend([key.as_str(), value.as_str()]));
        assert_eq!(client.request(&words), Value::Simple("OK".into()));
    }
}

/// Fields of INFO.
fn fields(client: &mut Client) -> impl Fn(&str) -> Option<String> + use<> {
    let all = text(&client.request(&["INFO", "persistence"])).expect("a text");
    move |field| all.lines().find_map(|line| line.strip_prefix(&format!("{field}:")).map(str::to_owned))
}

/// Starts the node again, and meets it while it reads its log.
fn met_while_it_reads(node: &mut Node) -> Client {
    for _ in 0..TRIES {
        node.restart_unready();
        let mut client = node.client();
        if fields(&mut client)("loading").as_deref() == Some("1") {
            return client;
        }
        node.kill();
    }
    panic!("it had always read its log before it could be asked");
}

#[test]
fn a_node_answers_while_it_reads_its_log_and_loses_nothing_when_it_ends_meanwhile() {
    let mut node = Node::start(&durable("everysec"));
    fill(&mut node.client());
    node.kill();
    let mut client = met_while_it_reads(&mut node);
    // How much there is to read is known a moment after it begins.
    let field = eventually("it has begun, or is over", || {
        let field = fields(&mut client);
        let is_known = field("loading_total_bytes").as_deref() != Some("0");
        (is_known || field("loading").as_deref() != Some("1")).then_some(field)
    });
    if field("loading").as_deref() == Some("1") {
        assert!(field("loading_total_bytes").is_some_and(|bytes| bytes.parse::<u64>().unwrap() > 20_000_000));
        for name in
            ["loading_start_time", "loading_loaded_bytes", "loading_loaded_perc", "loading_eta_seconds"]
        {
            assert!(field(name).is_some(), "{name}");
        }
    }
    let loading = Value::Error("LOADING Redis is loading the dataset in memory".into());
    for words in [&["PING"][..], &["GET", "{0}0"], &["SET", "{0}0", "other"], &["DBSIZE"], &["FLUSHALL"]] {
        let reply = client.request(words);
        // Reading may end at any moment, but for these it was met early.
        assert_eq!(reply, loading, "{words:?}");
    }
    for words in [&["CONFIG", "GET", "dir"][..], &["CLIENT", "ID"], &["COMMAND", "COUNT"], &["SELECT", "0"]] {
        assert!(!matches!(client.request(words), Value::Error(_)), "{words:?}");
    }
    node.kill();
    drop(met_while_it_reads(&mut node));
    assert!(node.stop().success(), "it ends without having read all");
    let mut client = met_while_it_reads(&mut node);
    assert_eq!(client.try_request(&["SHUTDOWN"]), None);
    assert!(node.wait().success());
    node.restart();
    let mut client = node.client();
    assert_eq!(number(&mut client, &["DBSIZE"]), KEYS as i64);
    assert_eq!(client.request(&["GET", "{0}0"]), bulk(&"v".repeat(40)));
    assert_eq!(fields(&mut client)("loading").as_deref(), Some("0"));
    assert_eq!(fields(&mut client)("loading_total_bytes"), None);
}
