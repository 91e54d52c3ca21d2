//! CLIENT PAUSE: which commands wait, how long, and that none of them has run before.

use sidle_node::testing::{ClientKey, ClusterSetup, TestCluster};
use sidle_resp::Value;

fn ok() -> Value {
    Value::Simple("OK".into())
}

fn queued() -> Value {
    Value::Simple("QUEUED".into())
}

fn bulk(text: &str) -> Value {
    Value::Bulk(text.as_bytes().to_vec())
}

/// One node with three workers. The operator's connection is at the first one, the others' are at the others.
struct Scene {
    cluster: TestCluster,
    operator: ClientKey,
    one: ClientKey,
    two: ClientKey,
}

impl Scene {
    fn new() -> Scene {
        let mut cluster = TestCluster::new(ClusterSetup { nodes: 1, workers: 3, ..ClusterSetup::default() });
        let [operator, one, two] = [0, 1, 2].map(|worker| cluster.connect(0, worker));
        Scene { cluster, operator, one, two }
    }

    fn operate(&mut self, request: &str) -> Value {
        self.cluster.ask(self.operator, request)
    }

    fn pause(&mut self, words: &str) {
        assert_eq!(self.operate(&format!("CLIENT PAUSE {words}")), ok());
    }

    fn unpause(&mut self) {
        assert_eq!(self.operate("CLIENT UNPAUSE"), ok());
        self.cluster.settle();
    }

    fn send(&mut self, client: ClientKey, request: &str) {
        self.cluster.send(client, request);
        self.cluster.settle();
    }

    /// Sends a request over a new connection, and tells whether it waits. The connection ends.
    fn waits(&mut self, request: &str) -> bool {
        let client = self.cluster.connect(0, 1);
        self.send(client, request);
        let waits = self.cluster.reply_now(client).is_none();
        self.cluster.disconnect(client);
        waits
    }

    fn info(&mut self, name: &str) -> String {
        let Value::Bulk(info) = self.operate("INFO clients") else { panic!("no text") };
        let info = String::from_utf8(info).expect("a text");
        let line = info.lines().find_map(|line| line.strip_prefix(&format!("{name}:")).map(str::to_owned));
        line.unwrap_or_else(|| panic!("no {name}"))
    }
}

#[test]
fn writes_wait_and_reads_do_not() {
    let mut scene = Scene::new();
    scene.operate("SET a 1");
    scene.pause("10000 WRITE");
    for (request, waits) in [
        ("SET a 2", true),
        ("DEL a", true),
        ("GETEX a", true),
        ("SORT a", true),
        ("BLPOP a 0", true),
        ("FLUSHALL", true),
        ("RESTORE a 0 x", true),
        ("GET a", false),
        ("MGET a b", false),
        ("PING", false),
        ("MULTI", false),
        ("EXEC", false),
        ("INFO", false),
        ("CONFIG GET port", false),
        ("SET a", false),
        ("NOSUCH", false),
    ] {
        assert_eq!(scene.waits(request), waits, "{request}");
    }
    assert_eq!(scene.info("blocked_clients"), "0", "those that left are forgotten");
    scene.unpause();
    assert_eq!(scene.operate("GET a"), bulk("1"), "nothing of those that left has run");
    assert!(!scene.waits("SET a 2"));
}

#[test]
fn everything_waits_but_the_way_to_its_end() {
    let mut scene = Scene::new();
    scene.pause("10000");
    for (request, waits) in [
        ("PING", true),
        ("GET a", true),
        ("MULTI", true),
        ("CLIENT LIST", true),
        ("CLIENT PAUSE 1", true),
        ("GET", false),
        ("NOSUCH", false),
        ("AUTH x", false),
        ("HELLO 3", false),
        ("RESET", false),
        ("CLIENT UNPAUSE", false),
        ("PING", false),
    ] {
        assert_eq!(scene.waits(request), waits, "{request}");
    }
}

#[test]
fn what_waited_runs_in_order_when_the_pause_ends() {
    let mut scene = Scene::new();
    scene.pause("10000 WRITE");
    let writers: Vec<ClientKey> = (0..5).map(|_| scene.cluster.connect(0, 1)).collect();
    for (number, &writer) in writers.iter().enumerate() {
        scene.send(writer, &format!("RPUSH list {number}"));
    }
    let (one, two) = (scene.one, scene.two);
    scene.send(two, "SET other 1");
    assert_eq!(scene.info("blocked_clients"), "6");
    assert_eq!(scene.cluster.ask(one, "EXISTS list other"), Value::Integer(0));
    scene.unpause();
    for (number, &writer) in writers.iter().enumerate() {
        assert_eq!(scene.cluster.reply_now(writer), Some(Value::Integer(number as i64 + 1)));
    }
    assert_eq!(scene.cluster.reply_now(two), Some(ok()));
    assert_eq!(scene.info("blocked_clients"), "0");
}

#[test]
fn a_pause_ends_by_its_time_without_another_event() {
    let mut scene = Scene::new();
    let one = scene.one;
    scene.pause("100 ALL");
    scene.send(one, "SET a 1");
    scene.cluster.run_for(90_000);
    assert_eq!(scene.cluster.reply_now(one), None);
    scene.cluster.run_for(20_000);
    assert_eq!(scene.cluster.reply_now(one), Some(ok()));
    assert_eq!(scene.info("paused_reason"), "none");
}

#[test]
fn the_later_end_and_the_wider_kind_count() {
    let mut scene = Scene::new();
    let one = scene.one;
    scene.pause("1000 WRITE");
    scene.pause("100 WRITE");
    scene.send(one, "SET a 1");
    scene.cluster.run_for(500_000);
    assert_eq!(scene.cluster.reply_now(one), None);
    scene.pause("2000 WRITE");
    scene.cluster.run_for(1_000_000);
    assert_eq!(scene.cluster.reply_now(one), None, "it was extended while it waited");
    scene.pause("10 ALL");
    assert!(scene.waits("GET a"), "it is for everything now");
    scene.cluster.run_for(900_000);
    assert!(scene.waits("GET a"), "and keeps its end");
    scene.cluster.run_for(200_000);
    assert_eq!(scene.cluster.reply_now(one), Some(ok()));
}

#[test]
fn info_and_client_list_tell_of_it() {
    let mut scene = Scene::new();
    let told = |scene: &mut Scene| {
        ["paused_reason", "paused_actions", "paused_timeout_milliseconds"].map(|name| scene.info(name))
    };
    assert_eq!(told(&mut scene), ["none", "none", "0"]);
    scene.pause("500 WRITE");
    assert_eq!(told(&mut scene), ["client_pause", "write", "500"]);
    let one = scene.one;
    scene.send(one, "SET a 1");
    let flags = |scene: &mut Scene| {
        let Value::Bulk(list) = scene.operate("CLIENT LIST") else { panic!("no text") };
        let list = String::from_utf8(list).expect("a text");
        list.lines().map(|line| line.contains(" flags=b ")).collect::<Vec<_>>()
    };
    assert_eq!(flags(&mut scene), [false, true, false]);
    assert_eq!(scene.operate("CLIENT UNBLOCK 2"), Value::Integer(0), "it waits for no key");
    scene.unpause();
    assert_eq!(flags(&mut scene), [false; 3]);
    // It replies, and everything waits from then on.
    scene.pause("500 ALL");
    assert!(scene.waits("INFO clients"));
}

#[test]
fn transactions_with_writes_wait() {
    let mut scene = Scene::new();
    let (one, two) = (scene.one, scene.two);
    for (client, request, reply) in [(one, "MULTI", ok()), (one, "SET a 1", queued()), (two, "MULTI", ok())] {
        assert_eq!(scene.cluster.ask(client, request), reply);
    }
    scene.pause("10000 WRITE");
    // One that only reads runs.
    assert_eq!(scene.cluster.ask(two, "GET a"), queued());
    assert_eq!(scene.cluster.ask(two, "EXEC"), Value::Array(vec![Value::Null]));
    // What would be queued waits, too.
    assert_eq!(scene.cluster.ask(two, "MULTI"), ok());
    scene.send(two, "SET b 1");
    scene.send(one, "EXEC");
    assert_eq!((scene.cluster.reply_now(one), scene.cluster.reply_now(two)), (None, None));
    scene.unpause();
    assert_eq!(scene.cluster.reply_now(one), Some(Value::Array(vec![ok()])));
    assert_eq!(scene.cluster.reply_now(two), Some(queued()));
    assert_eq!(scene.cluster.ask(two, "EXEC"), Value::Array(vec![ok()]));
}

#[test]
fn in_a_transaction_it_begins_at_the_end() {
    let mut scene = Scene::new();
    scene.operate("MULTI");
    for request in ["SET a 1", "CLIENT PAUSE 10000 WRITE", "SET b 1"] {
        assert_eq!(scene.operate(request), queued());
    }
    assert_eq!(scene.operate("EXEC"), Value::Array(vec![ok(); 3]));
    assert!(scene.waits("SET c 1"));
    assert_eq!(scene.operate("EXISTS a b c"), Value::Integer(2));
}

#[test]
fn blocked_clients_wait_on_while_those_who_would_serve_them_do() {
    let mut scene = Scene::new();
    let (one, two) = (scene.one, scene.two);
    scene.send(one, "BLPOP list 5");
    scene.pause("1000 WRITE");
    scene.send(two, "RPUSH list x");
    scene.cluster.run_for(500_000);
    assert_eq!((scene.cluster.reply_now(one), scene.cluster.reply_now(two)), (None, None));
    scene.cluster.run_for(600_000);
    assert_eq!(scene.cluster.reply_now(two), Some(Value::Integer(1)));
    assert_eq!(scene.cluster.reply_now(one), Some(Value::Array(vec![bulk("list"), bulk("x")])));
    // Its time passes all the same.
    scene.send(one, "BLPOP list 0.1");
    scene.pause("1000 ALL");
    scene.cluster.run_for(200_000);
    assert_eq!(scene.cluster.reply_now(one), Some(Value::Null));
}

#[test]
fn expired_keys_are_gone_for_readers_and_are_not_removed() {
    let mut scene = Scene::new();
    scene.operate("SET a 1 PX 100");
    scene.pause("10000 WRITE");
    scene.cluster.run_for(200_000);
    assert_eq!(scene.operate("GET a"), Value::Null);
    let expire = |scene: &mut Scene| {
        let now = scene.cluster.now();
        let workers = &mut scene.cluster.nodes[0].workers;
        workers.iter_mut().map(|worker| worker.expire(now, 1_000).removed).sum::<usize>()
    };
    assert_eq!(expire(&mut scene), 0);
    scene.unpause();
    assert_eq!(expire(&mut scene), 1);
}

/// A1: the reply says that nothing paused runs any more, on any worker.
#[test]
fn it_is_answered_when_all_workers_have_seen_it() {
    let mut scene = Scene::new();
    scene.cluster.nodes[0].held_workers = vec![2];
    let operator = scene.operator;
    scene.send(operator, "CLIENT PAUSE 10000 WRITE");
    assert_eq!(scene.cluster.reply_now(operator), None);
    assert!(scene.waits("SET a 1"), "it holds at once where it is known");
    scene.cluster.nodes[0].held_workers.clear();
    scene.cluster.settle();
    assert_eq!(scene.cluster.reply_now(operator), Some(ok()));
}

#[test]
fn a_command_behind_one_that_waits_waits_too() {
    let mut scene = Scene::new();
    let one = scene.one;
    scene.pause("10000 WRITE");
    for request in ["GET a", "SET a 1", "GET a"] {
        scene.cluster.send(one, request);
    }
    scene.cluster.settle();
    assert_eq!(scene.cluster.reply_now(one), Some(Value::Null));
    assert_eq!(scene.cluster.reply_now(one), None);
    scene.unpause();
    assert_eq!(scene.cluster.reply_now(one), Some(ok()));
    assert_eq!(scene.cluster.reply_now(one), Some(bulk("1")));
}

#[test]
fn a_skipped_reply_is_skipped_once_though_its_command_waits() {
    let mut scene = Scene::new();
    let one = scene.one;
    scene.send(one, "CLIENT REPLY SKIP");
    scene.pause("10000 WRITE");
    scene.send(one, "SET a 1");
    scene.pause("20000 WRITE");
    scene.unpause();
    assert_eq!(scene.cluster.reply_now(one), None);
    assert_eq!(scene.cluster.ask(one, "GET a"), bulk("1"));
}

#[test]
fn monitors_are_not_paused_and_see_nothing_of_what_waits() {
    let mut scene = Scene::new();
    let (one, two) = (scene.one, scene.two);
    assert_eq!(scene.cluster.ask(two, "MONITOR"), ok());
    scene.pause("10000 ALL");
    scene.send(one, "SET a 1");
    scene.send(two, "PING");
    assert_eq!(scene.cluster.reply_now(two), Some(Value::Simple("PONG".into())));
    let mut lines = 0;
    while let Some(Value::Simple(line)) = scene.cluster.reply_now(two) {
        assert!(line.ends_with(r#""PING""#), "{line}");
        lines += 1;
    }
    assert_eq!(lines, 1);
    scene.unpause();
    let Some(Value::Simple(line)) = scene.cluster.reply_now(two) else { panic!("no line") };
    assert!(line.ends_with(r#""SET" "a" "1""#), "{line}");
}
