//! A slot split between nodes, for clients that know whole slots only: the shown owner serves all of it.

use crate::common::*;
use sidle_node::testing::{ClientKey, ClusterSetup, FORWARDED_BYTES, LATENCY_US};
use sidle_node::{PATIENCE_US, REACH_US, UNKNOWN};
use sidle_resp::Value;

/// The upper half of the slot of `{tag}` is node 1's; `below` and `above` are two keys of each half.
struct Split {
    scene: Scene,
    below: Vec<String>,
    above: Vec<String>,
}

impl Split {
    fn new() -> Split {
        Split::of(Scene::new())
    }

    fn of(mut scene: Scene) -> Split {
        let (below, above) = keys_of_both_halves(2);
        scene.fill(below.iter().chain(&above).cloned());
        let id = scene.start(&halves_of_the_slot().1, 1);
        scene.finish(id);
        Split { scene, below, above }
    }

    /// Fills in `$a` and `$b`, keys of the lower half, `$x` and `$y`, of the upper.
    fn words(&self, request: &str) -> String {
        let named =
            [("$a", &self.below[0]), ("$b", &self.below[1]), ("$x", &self.above[0]), ("$y", &self.above[1])];
        named.iter().fold(request.to_owned(), |request, (name, key)| request.replace(name, key))
    }

    fn ask(&mut self, node: usize, request: &str) -> Value {
        let request = self.words(request);
        self.scene.ask(node, &request)
    }

    fn send(&mut self, request: &str) {
        let (to, request) = (self.scene.to[0], self.words(request));
        self.scene.cluster.send(to, &request);
    }

    fn reply(&mut self) -> Value {
        let to = self.scene.to[0];
        self.scene.cluster.reply(to)
    }

    fn old(&self, name: &str) -> Value {
        bulk(&self.words(&format!("old-{name}")))
    }

    /// Pending work of the other node's workers, and of this node's.
    fn in_hand(&self) -> Vec<(&'static str, usize)> {
        let nodes = self.scene.cluster.nodes.iter();
        nodes.flat_map(|node| node.workers.iter().flat_map(|worker| worker.in_hand())).collect()
    }
}

fn is_unknown(reply: &Value) -> bool {
    matches!(reply, Value::Error(text) if text.starts_with(UNKNOWN))
}

fn is_down(reply: &Value) -> bool {
    matches!(reply, Value::Error(text) if text.starts_with("CLUSTERDOWN "))
}

#[test]
fn the_shown_owner_serves_single_keys_of_the_other_half() {
    let mut split = Split::new();
    assert_eq!(split.ask(0, "GET $x"), split.old("$x"));
    assert_eq!(split.ask(0, "SET $x 5"), ok());
    assert_eq!(split.ask(0, "INCR $x"), int(6));
    assert_eq!(split.ask(1, "GET $x"), bulk("6"), "the owner has it");
    assert_eq!(split.ask(0, "INCR $y"), error("ERR value is not an integer or out of range"));
    assert_eq!(split.ask(0, "GETDEL $y"), split.old("$y"));
    assert_eq!(split.ask(0, "GET $y"), Value::Null);
    assert_eq!(split.ask(1, "GET $a"), moved("{tag}", 0), "nobody else forwards");
}

#[test]
fn commands_over_keys_of_both_halves_are_split_and_merged_in_order() {
    let mut split = Split::new();
    let old: Vec<Value> = ["$x", "$a", "$y", "$b"].map(|name| split.old(name)).into();
    assert_eq!(split.ask(0, "MGET $x $a $y $b"), Value::Array(old));
    assert_eq!(split.ask(0, "MSET $a 1 $x 2 $y 3 $a 4"), ok());
    let expected = [bulk("2"), bulk("4"), Value::Null, bulk("3")].into();
    assert_eq!(split.ask(0, "MGET $x $a {tag}none $y"), Value::Array(expected));
    assert_eq!(split.ask(0, "EXISTS $a $x $x {tag}none"), int(3));
    assert_eq!(split.ask(0, "TOUCH $a $x"), int(2));
    assert_eq!(split.ask(0, "DEL $a $x {tag}none"), int(2));
    assert_eq!(split.ask(0, "UNLINK $b $y $x"), int(2));
    assert_eq!(split.ask(0, "EXISTS $a $b $x $y"), int(0));
}

fn is_too_long(reply: &Value) -> bool {
    matches!(reply, Value::Error(text) if text.starts_with("ERR the reply has more than"))
}

#[test]
fn a_reply_that_is_too_long_ends_no_other_clients_request() {
    let mut split = Split::new();
    let limit = |split: &Split, node: usize, bytes: u64| {
        split.scene.cluster.nodes[node].parts.shared.config.set_own_output_bytes(bytes);
    };
    let value = "v".repeat(4_000);
    assert_eq!(split.ask(0, &format!("SET $x {value}")), ok());
    limit(&split, 1, 1_000);
    let other = split.scene.cluster.connect(0, 0);
    let request = split.words("GET $y");
    split.send("GET $x");
    split.scene.cluster.send(other, &request);
    let reply = split.reply();
    assert!(is_too_long(&reply), "{reply:?}");
    assert_eq!(split.scene.cluster.reply(other), split.old("$y"), "over the same connection");
    let reply = split.ask(0, "MGET $a $x");
    assert!(is_too_long(&reply), "{reply:?}");
    limit(&split, 1, 0);
    assert_eq!(split.ask(0, "GET $x"), bulk(&value));
    limit(&split, 0, 1_000);
    for request in ["GET $x", "MGET $a $x"] {
        let client = split.scene.cluster.connect(0, 0);
        let request = split.words(request);
        split.scene.cluster.send(client, &request);
        let reply = split.scene.cluster.reply(client);
        assert!(is_too_long(&reply), "{reply:?}");
    }
}

#[test]
fn a_reply_is_in_the_clients_version_of_the_protocol() {
    let mut split = Split::new();
    let raw = split.scene.cluster.connect_raw(0, 0);
    let request = split.words("MGET {tag}none $x\r\nGET {tag}none\r\nGET {tag}none2\r\n");
    for (greeting, null) in [("", "$-1\r\n"), ("HELLO 3\r\n", "_\r\n")] {
        split.scene.cluster.client(raw).send_raw(greeting.as_bytes());
        split.scene.cluster.run_for(1_000);
        split.scene.cluster.client(raw).take_output();
        split.scene.cluster.client(raw).send_raw(request.as_bytes());
        split.scene.cluster.run_for(10_000);
        let output = String::from_utf8(split.scene.cluster.client(raw).take_output()).expect("text");
        let old = split.words("old-$x");
        assert_eq!(output, format!("*2\r\n{null}${}\r\n{old}\r\n{null}{null}", old.len()));
    }
}

#[test]
fn a_pipeline_is_answered_in_order_and_a_reply_that_is_off_stays_off() {
    let mut split = Split::new();
    for request in ["SET $x 1", "GET $a", "CLIENT REPLY SKIP", "INCR $x", "INCR $x", "MGET $a $x", "PING"] {
        split.send(request);
    }
    let a = split.old("$a");
    for expected in [ok(), a.clone(), int(3), Value::Array(vec![a, bulk("3")]), Value::Simple("PONG".into())]
    {
        assert_eq!(split.reply(), expected);
    }
}

#[test]
fn msetnx_over_both_halves_sets_all_or_nothing() {
    let mut split = Split::new();
    for present in ["$a", "$x"] {
        assert_eq!(split.ask(0, "DEL $a $b $x $y"), int(if present == "$a" { 4 } else { 1 }));
        assert_eq!(split.ask(0, &format!("SET {present} 0")), ok());
        assert_eq!(split.ask(0, "MSETNX $a 1 $x 2 $y 3"), int(0), "{present} is there");
        assert_eq!(split.ask(0, "EXISTS $a $b $x $y"), int(1));
    }
    assert_eq!(split.ask(0, "DEL $x"), int(1));
    assert_eq!(split.ask(0, "SET $a 0 PX 1"), ok());
    split.scene.cluster.run_for(5_000);
    assert_eq!(split.ask(0, "MSETNX $a 1 $x 2 $y 3"), int(1), "what has expired is absent");
    assert_eq!(split.ask(0, "MGET $a $x $y"), Value::Array(vec![bulk("1"), bulk("2"), bulk("3")]));
    assert_eq!(split.in_hand(), []);
}

/// A command over both halves whose part at the other node has been made, while this node's has not.
fn half_way(request: &str) -> Split {
    let mut split = Split::new();
    // The connection stands.
    split.ask(0, "GET $x");
    split.send(request);
    split.scene.cluster.run_for(LATENCY_US + LATENCY_US / 2);
    split
}

/// Sends each request to the first node, half of them to its other worker, and lets them be served.
fn meanwhile(split: &mut Split, requests: &[&str]) -> Vec<ClientKey> {
    let clients: Vec<ClientKey> =
        (0..requests.len()).map(|index| split.scene.cluster.connect(0, index % 2)).collect();
    for (&client, request) in clients.iter().zip(requests) {
        let request = split.words(request);
        split.scene.cluster.send(client, &request);
    }
    split.scene.cluster.settle();
    clients
}

#[test]
fn nobody_sees_half_of_an_mset_over_both_halves() {
    let mut split = half_way("MSET $a new $x new");
    assert_eq!(split.ask(1, "GET $x"), bulk("new"), "its owner shows it already");
    let others = ["GET $a", "GET $x", "MGET $a $b", "MGET $a $x", "APPEND $a er", "MSETNX $a 1 $b 1"];
    let clients = meanwhile(&mut split, &others);
    for (&client, request) in clients.iter().zip(others) {
        assert_eq!(split.scene.cluster.client(client).receive(), None, "F8: {request} ran");
    }
    let other = meanwhile(&mut split, &["GET $b"])[0];
    assert_eq!(split.scene.cluster.client(other).receive(), Some(split.old("$b")), "other keys are served");
    assert_eq!(split.reply(), ok());
    let (b, new) = (split.old("$b"), bulk("new"));
    let news = [new.clone(), new.clone(), Value::Array(vec![new.clone(), b])];
    for (&client, expected) in clients.iter().zip(news) {
        assert_eq!(split.scene.cluster.reply(client), expected);
    }
    // This one came before or behind the APPEND.
    let Value::Array(seen) = split.scene.cluster.reply(clients[3]) else { panic!("no values") };
    assert!(seen == [new.clone(), new.clone()] || seen == [bulk("newer"), new], "{seen:?}");
    assert_eq!(split.scene.cluster.reply(clients[4]), int(5));
    assert_eq!(split.scene.cluster.reply(clients[5]), int(0));
    assert_eq!(split.in_hand(), []);
}

#[test]
fn nothing_changes_under_an_mget_over_both_halves() {
    let mut split = half_way("MGET $a $x");
    let clients = meanwhile(&mut split, &["GET $a", "SET $a new", "MGET $a $b", "DEL $a $b"]);
    let is_answered =
        |split: &mut Split, index: usize| split.scene.cluster.client(clients[index]).receive().is_some();
    assert!(is_answered(&mut split, 0) && is_answered(&mut split, 2), "reads are no harm");
    assert!(!is_answered(&mut split, 1) && !is_answered(&mut split, 3), "F8");
    assert_eq!(split.reply(), Value::Array(vec![split.old("$a"), split.old("$x")]));
    assert_eq!(split.scene.cluster.reply(clients[1]), ok());
    assert_eq!(split.scene.cluster.reply(clients[3]), int(2));
    assert_eq!(split.in_hand(), []);
}

/// H1: a command of its own node's keys is not passed over for ever.
#[test]
fn who_waits_for_a_hold_goes_before_those_that_come_later() {
    let mut split = half_way("MGET $a $x");
    let writer = meanwhile(&mut split, &["SET $a new"])[0];
    let reader = meanwhile(&mut split, &["MGET $a $x"])[0];
    assert_eq!(split.reply(), Value::Array(vec![split.old("$a"), split.old("$x")]));
    split.scene.cluster.settle();
    assert_eq!(split.scene.cluster.client(writer).receive(), Some(ok()), "H1: a later reader overtook it");
    assert_eq!(split.scene.cluster.reply(reader), Value::Array(vec![bulk("new"), split.old("$x")]));
    assert_eq!(split.in_hand(), []);
}

#[test]
fn a_transaction_that_waited_for_a_hold_leaves_none() {
    // PING cannot be part of a transaction over nodes: that one is refused.
    for requests in [&["SET $a of-exec", "SET $x of-exec"][..], &["SET $a of-exec", "SET $x of-exec", "PING"]]
    {
        let mut split = half_way("MSET $a new $x new");
        let client = meanwhile(&mut split, &["MULTI"])[0];
        for request in requests.iter().chain(&["EXEC"]) {
            let request = split.words(request);
            split.scene.cluster.send(client, &request);
        }
        split.scene.cluster.settle();
        assert_eq!(split.reply(), ok());
        let replies: Vec<Value> =
            (0..requests.len() + 2).map(|_| split.scene.cluster.reply(client)).collect();
        match (requests.len(), replies.last().expect("there are some")) {
            (2, Value::Array(done)) => assert_eq!(done[..], [ok(), ok()]),
            (3, Value::Error(text)) => assert!(text.starts_with("SIDLESPLIT "), "{text}"),
            (_, other) => panic!("{other:?}"),
        }
        split.scene.cluster.run_for(100_000);
        assert_eq!(split.in_hand(), [], "its place among the holds outlived it");
        assert_eq!(split.ask(0, "SET $a free"), ok());
    }
}

#[test]
fn commands_do_not_wait_in_turn_for_a_node_that_is_silent() {
    let mut split = Split::new();
    split.ask(0, "GET $x");
    split.scene.cluster.network.hold_forwarded = true;
    let began_us = split.scene.cluster.now().mono.0;
    let requests = ["MSET $a 1 $x 1", "MSET $a 2 $x 2", "MGET $a $x", "SET $a 3", "MSET $a 4 $x 4", "GET $a"];
    let clients = meanwhile(&mut split, &requests);
    let replies: Vec<Value> = clients.iter().map(|&client| split.scene.cluster.reply(client)).collect();
    let took_us = split.scene.cluster.now().mono.0 - began_us;
    assert!(took_us < REACH_US + 1_000_000, "they waited for {took_us} us");
    assert!(
        is_unknown(&replies[0]) && replies[1..3].iter().all(is_down) && is_down(&replies[4]),
        "{replies:?}"
    );
    assert_eq!((&replies[3], &replies[5]), (&ok(), &bulk("3")));
    let client = meanwhile(&mut split, &["MSET $a 5 $x 5"])[0];
    let reply = split.scene.cluster.client(client).receive();
    assert!(reply.as_ref().is_some_and(is_down), "at once: {reply:?}");
    split.scene.cluster.network.release();
    split.scene.cluster.run_for(1_000_000);
    assert_eq!(split.ask(0, "MSET $a 6 $x 6"), ok(), "it has answered");
    assert_eq!(split.ask(0, "MGET $a $x"), Value::Array(vec![bulk("6"), bulk("6")]));
    assert_eq!(split.in_hand(), []);
}

#[test]
fn nothing_is_begun_elsewhere_without_memory_for_the_own_part() {
    let memory_bytes = vec![8 << 20, 64 << 20, 64 << 20];
    let mut split = Split::of(Scene::of(ClusterSetup { memory_bytes, ..ClusterSetup::default() }));
    let filler = "f".repeat(100_000);
    let is_full = |reply: &Value| matches!(reply, Value::Error(text) if text.starts_with("OOM "));
    assert!((0..200).any(|n| is_full(&split.ask(0, &format!("SET filler{n} {filler}")))), "it is never full");
    let large = "v".repeat(500_000);
    assert_eq!(split.ask(0, "DEL $a $x"), int(2));
    for name in ["MSETNX", "MSET"] {
        let reply = split.ask(0, &format!("{name} $a {large} $x 1"));
        assert!(is_full(&reply), "{name}: {reply:?}");
        assert_eq!(
            split.ask(0, "MGET $a $x $y"),
            Value::Array(vec![Value::Null, Value::Null, split.old("$y")])
        );
    }
    assert_eq!(split.in_hand(), []);
}

#[test]
fn a_change_goes_on_when_its_client_leaves_half_way() {
    let mut split = Split::new();
    split.ask(0, "GET $x");
    let held = |split: &Split| split.scene.cluster.nodes[0].parts.shared.clients.memory_bytes();
    let before = held(&split);
    let client = split.scene.cluster.connect(0, 1);
    let request = split.words("MSET $a new $x new");
    split.scene.cluster.send(client, &request);
    split.scene.cluster.run_for(LATENCY_US + LATENCY_US / 2);
    split.scene.cluster.disconnect(client);
    assert_ne!(split.in_hand(), []);
    assert_eq!(split.ask(0, "MGET $a $x"), Value::Array(vec![bulk("new"), bulk("new")]));
    assert_eq!(split.in_hand(), []);
    assert_eq!(held(&split), before, "what nobody holds counts for nobody");
    // Before it was sent it leaves no trace.
    split.scene.cluster.network.cut_forwarding();
    split.scene.cluster.network.cut();
    let client = split.scene.cluster.connect(0, 1);
    let request = split.words("MSET $a newer $x newer");
    split.scene.cluster.send(client, &request);
    split.scene.cluster.run_for(1_000);
    split.scene.cluster.disconnect(client);
    assert_eq!(split.in_hand(), []);
    assert_eq!(split.ask(0, "GET $a"), bulk("new"));
}

/// D4: the source's part of a change is made before its range freezes.
#[test]
fn a_range_freezes_when_what_holds_its_keys_has_ended() {
    for_every_protocol(|scene| {
        let mut split = Split::of(scene);
        split.ask(0, "GET $x");
        split.scene.cluster.network.hold_forwarded = true;
        let writer = meanwhile(&mut split, &["MSET $a new $x new"])[0];
        let id = split.scene.start(&halves_of_the_slot().0, 1);
        split.scene.cluster.run_for(300_000);
        split.scene.cluster.network.release();
        assert_eq!(split.scene.cluster.reply(writer), ok());
        split.scene.finish(id);
        assert_eq!(split.ask(1, "MGET $a $x"), Value::Array(vec![bulk("new"), bulk("new")]));
        assert_eq!(split.in_hand(), []);
    });
}

#[test]
fn what_three_owners_cannot_do_at_once_is_refused_with_the_reason() {
    let mut split = among_three();
    let Value::Error(text) = split.ask(0, "MSETNX $a 1 $x 2 $y 3") else { panic!("it ran") };
    assert!(text.starts_with("SIDLESPLIT MSETNX cannot be carried out by several nodes"), "{text}");
    assert!(text.contains("sidle migrate --slots 8338"), "{text}");
    assert!(matches!(split.ask(0, "MSETNX $x 1 $y 2"), Value::Error(_)), "the last one decides");
    assert_eq!(split.ask(0, "DEL $x"), int(1));
    assert_eq!(split.ask(0, "MSETNX $x 1 {tag}none 2"), int(1));
}

#[test]
fn a_value_goes_to_another_key_of_the_same_owner() {
    let mut split = Split::new();
    assert_eq!(split.ask(0, "RENAME $x $y"), ok());
    assert_eq!(split.ask(0, "MGET $x $y"), Value::Array(vec![Value::Null, split.old("$x")]));
    assert_eq!(split.ask(0, "COPY $y $x"), int(1));
    assert_eq!(split.ask(0, "RENAMENX $x $y"), int(0));
    assert_eq!(split.ask(0, "RENAME {tag}none $y"), error("ERR no such key"));
    for request in ["RENAME $a $x", "RENAMENX $x $b", "COPY $a $x REPLACE", "LCS $a $x"] {
        let Value::Error(text) = split.ask(0, request) else { panic!("{request} ran") };
        assert!(text.contains("cannot be carried out by several nodes"), "{request}: {text}");
    }
    assert_eq!(split.ask(0, "MGET $a $x"), Value::Array(vec![split.old("$a"), split.old("$x")]));
}

#[test]
fn a_key_without_its_value_is_refused_before_any_part_runs() {
    let mut split = Split::new();
    for (name, words) in [
        ("mset", "MSET $x 1 $a"),
        ("mset", "MSET $a 1 $x"),
        ("mset", "MSET $a 1 $x 2 $y"),
        ("mset", "MSET $x 1 $y"),
        ("msetnx", "MSETNX $a 1 $x"),
    ] {
        let refused = error(&format!("ERR wrong number of arguments for '{name}' command"));
        assert_eq!(split.ask(0, words), refused, "{words}");
    }
    let old = Value::Array(["$a", "$x", "$y"].map(|key| split.old(key)).to_vec());
    assert_eq!(split.ask(0, "MGET $a $x $y"), old, "nothing has changed");
}

#[test]
fn another_owner_redirects_several_keys_to_the_shown_one() {
    let mut split = Split::new();
    assert_eq!(split.ask(1, "MGET $a $x"), moved("{tag}", 0));
    assert_eq!(split.ask(1, "MGET $x $y"), Value::Array(vec![split.old("$x"), split.old("$y")]));
    let crossed = error("CROSSSLOT Keys in request don't hash to the same slot");
    assert_eq!(split.ask(1, "MGET $x other"), crossed, "these are keys of two slots indeed");
    for words in ["BLPOP $a $x 1", "BLMOVE $a $x LEFT LEFT 1"] {
        let told = format!("{:?}", split.ask(0, words));
        assert!(told.contains("SIDLESPLIT BL") && told.contains("is split between nodes"), "{words}: {told}");
    }
}

#[test]
fn a_slot_is_served_while_its_parts_move() {
    for_every_protocol(|mut scene| {
        let (below, above) = keys_of_both_halves(2);
        scene.fill(below.iter().chain(&above).cloned());
        let id = scene.start_and_hold(&halves_of_the_slot().1, 1);
        let mut split = Split { scene, below, above };
        split.send("MGET $a $x");
        split.scene.cluster.run_for(20_000);
        // If nothing serves the half meanwhile, the command waits.
        split.scene.cluster.network.release();
        let old = Value::Array(vec![split.old("$a"), split.old("$x")]);
        assert_eq!(split.reply(), old);
        assert_eq!(split.ask(0, "MSET $a 1 $x 2 $y 3"), ok());
        split.scene.finish(id);
        assert_eq!(split.ask(0, "MGET $a $x $y"), Value::Array(vec![bulk("1"), bulk("2"), bulk("3")]));
        let id = split.scene.start_and_hold(&halves_of_the_slot().0, 1);
        assert!(split.scene.client(&split.words("GET $a")) == bulk("1"));
        split.scene.finish(id);
        assert_eq!(split.ask(0, "MGET $a $x"), moved("{tag}", 1), "the first position has moved");
        assert_eq!(split.ask(1, "MGET $a $x"), Value::Array(vec![bulk("1"), bulk("2")]));
        assert_eq!(split.in_hand(), []);
    });
}

/// `$y` is the third node's.
fn among_three() -> Split {
    let scene = Scene::of(ClusterSetup { nodes: 3, ..ClusterSetup::default() });
    let mut split = Split::of(scene);
    let y = position(&split.above[1]);
    let request = format!("SIDLE.MIGRATE START POSITIONS {y}-{y} TO 127.0.0.1:7003");
    assert!(matches!(split.ask(0, &request), Value::Integer(_)));
    split.scene.cluster.run_for(2_000_000);
    split
}

#[test]
fn three_owners_serve_one_command() {
    let mut split = among_three();
    assert_eq!(split.ask(0, "MSET $a 1 $x 2 $y 3"), ok());
    assert_eq!(split.ask(2, "GET $y"), bulk("3"), "it is the third node's");
    assert_eq!(split.ask(0, "MGET $y $x $a"), Value::Array(vec![bulk("3"), bulk("2"), bulk("1")]));
    assert_eq!(split.ask(0, "DEL $y $x $a"), int(3));
}

#[test]
fn an_unreachable_owner_is_reported_and_nothing_hangs() {
    let mut split = Split::new();
    split.scene.cluster.network.cut();
    for request in ["GET $x", "SET $x 1", "MSET $a 1 $x 2"] {
        let before_us = split.scene.cluster.now().mono.0;
        let reply = split.ask(0, request);
        assert!(is_down(&reply), "{request}: {reply:?}");
        let took_us = split.scene.cluster.now().mono.0 - before_us;
        assert!(took_us <= REACH_US + 1_000_000, "{request} took {took_us} us");
    }
    assert_eq!(split.ask(0, "GET $a"), split.old("$a"), "what is here is served, and nothing was written");
    split.scene.cluster.network.is_cut = false;
    split.scene.cluster.run_for(1_000_000);
    assert_eq!(split.ask(0, "GET $x"), split.old("$x"));
}

#[test]
fn a_read_goes_out_again_and_a_write_is_reported_when_the_connection_breaks() {
    let mut split = Split::new();
    assert_eq!(split.ask(0, "SET $x 1"), ok());
    for request in ["GET $x", "MGET $a $x", "INCR $x", "MSET $a 7 $x 8"] {
        // Continues to read, so that there is a connection to break.
        split.ask(0, "GET $x");
        split.send(request);
        split.scene.cluster.run_for(LATENCY_US + LATENCY_US / 2);
        split.scene.cluster.network.cut_forwarding();
        let reply = split.reply();
        match request.contains("GET") {
            true => assert!(!matches!(reply, Value::Error(_)), "{request}: {reply:?}"),
            false => assert!(is_unknown(&reply), "{request}: {reply:?}"),
        }
    }
    assert_eq!(split.ask(0, "GET $x"), bulk("8"));
    assert_eq!(split.ask(0, "GET $a"), split.old("$a"), "this node's part comes last");
}

#[test]
fn a_silent_node_is_waited_for_only_so_long() {
    let mut split = Split::new();
    assert_eq!(split.ask(0, "GET $x"), split.old("$x"));
    split.scene.cluster.network.hold_forwarded = true;
    for (request, is_expected) in [("SET $x 1", is_unknown as fn(&Value) -> bool), ("GET $x", is_down)] {
        let before_us = split.scene.cluster.now().mono.0;
        let reply = split.ask(0, request);
        assert!(is_expected(&reply), "{request}: {reply:?}");
        let took_us = split.scene.cluster.now().mono.0 - before_us;
        assert!(took_us <= PATIENCE_US + 1_000_000, "{request} took {took_us} us");
    }
}

#[test]
fn an_owner_that_restarts_is_found_again() {
    let mut split = Split::new();
    split.ask(0, "GET $x");
    split.scene.cluster.restart(1);
    split.scene.to[1] = split.scene.cluster.connect(1, 0);
    split.scene.cluster.run_for(2_000_000);
    assert_eq!(split.ask(0, "GET $x"), Value::Null, "it has lost its data");
    assert_eq!(split.ask(0, "MSET $a 1 $x 2"), ok());
    assert_eq!(split.ask(0, "MGET $a $x"), Value::Array(vec![bulk("1"), bulk("2")]));
}

#[test]
fn a_client_that_leaves_takes_its_request_along() {
    let mut split = Split::new();
    split.scene.cluster.network.hold_forwarded = true;
    let client = split.scene.cluster.connect(0, 0);
    let request = split.words("MGET $a $x");
    split.scene.cluster.send(client, &request);
    split.scene.cluster.run_for(1_000);
    assert_ne!(split.in_hand(), []);
    split.scene.cluster.disconnect(client);
    assert_eq!(split.in_hand(), []);
    split.scene.cluster.network.release();
    assert_eq!(split.ask(0, "GET $x"), split.old("$x"), "its answer is nobody else's");
}

#[test]
fn connections_that_nobody_uses_are_closed() {
    let mut split = Split::new();
    split.ask(0, "GET $x");
    split.scene.cluster.run_for(15_000_000);
    assert_eq!(split.scene.cluster.network.forwarding_connections(), 0);
    assert_eq!(split.ask(0, "GET $x"), split.old("$x"));
    assert_eq!(split.scene.cluster.network.forwarding_connections(), 1);
}

/// The slot's lower half is node 0's, and `$x` of the upper half node 1's. `$y` is awaited: it is moving
/// there from node 2 and does not arrive.
fn split_with_a_key_under_way() -> Split {
    let scene = Scene::of(ClusterSetup { nodes: 3, ..ClusterSetup::default() });
    let mut split = Split::of(scene);
    let y = position(&split.above[1]);
    let id = split.scene.start(&format!("POSITIONS {y}-{y}"), 2);
    split.scene.finish(id);
    split.scene.start_and_hold(&format!("POSITIONS {y}-{y}"), 1);
    split.scene.cluster.network.hold_priority = true;
    split
}

#[test]
fn a_request_that_waits_for_a_key_holds_up_no_other() {
    let mut split = split_with_a_key_under_way();
    let others: Vec<_> = (0..3).map(|_| split.scene.cluster.connect(0, 0)).collect();
    split.send("GET $y");
    split.scene.cluster.run_for(1_000);
    for (number, &other) in others.iter().enumerate() {
        let before_us = split.scene.cluster.now().mono.0;
        let request = split.words(&format!("SET $x {number}"));
        assert_eq!(split.scene.cluster.ask(other, &request), ok());
        let took_us = split.scene.cluster.now().mono.0 - before_us;
        assert!(took_us < 10_000, "it waited for a key that it does not need: {took_us} us");
    }
    split.scene.cluster.network.release();
    assert_eq!(split.reply(), split.old("$y"), "the pull goes on meanwhile");
    split.scene.cluster.run_for(2_000_000);
    assert_eq!(split.in_hand(), []);
    assert_eq!(split.scene.cluster.network.forwarding_connections(), 1, "one connection suffices");
}

#[test]
fn a_request_whose_patience_ends_takes_no_other_along() {
    let mut split = split_with_a_key_under_way();
    let (writer, busy) = (split.scene.cluster.connect(0, 0), split.scene.cluster.connect(0, 0));
    split.send("GET $y");
    let append = split.words("APPEND $y !");
    split.scene.cluster.send(writer, &append);
    for _ in 0..40 {
        split.scene.cluster.run_for(1_000_000);
        let request = split.words("EXPIRE $x 1000");
        let reply = split.scene.cluster.ask(busy, &request);
        assert!(!matches!(reply, Value::Error(_)), "{request}: {reply:?}");
    }
    let reply = split.reply();
    assert!(is_down(&reply), "{reply:?}");
    let reply = split.scene.cluster.reply(writer);
    assert!(is_unknown(&reply), "{reply:?}");
    split.scene.cluster.network.release();
    split.scene.cluster.run_for(2_000_000);
    assert_eq!(split.ask(0, "GET $x"), split.old("$x"));
    assert_eq!(split.in_hand(), []);
}

#[test]
fn a_request_that_the_owner_cannot_take_is_refused_alone() {
    let mut split = Split::new();
    let others: Vec<_> = (0..3).map(|_| split.scene.cluster.connect(0, 0)).collect();
    let long = "v".repeat(FORWARDED_BYTES + 1);
    for round in 0..3 {
        split.send(&format!("SET $x {long}"));
        split.scene.cluster.settle();
        for &other in &others {
            let request = split.words(&format!("SET $y {round}"));
            split.scene.cluster.send(other, &request);
        }
        let Value::Error(text) = split.reply() else { panic!("it is taken") };
        assert!(text.contains("is more than the server can take"), "{text}");
        for &other in &others {
            assert_eq!(split.scene.cluster.reply(other), ok());
        }
    }
    assert_eq!(split.ask(0, "GET $x"), split.old("$x"), "it had no effect");
    assert_eq!(split.ask(0, "GET $y"), bulk("2"));
    assert_eq!(split.scene.cluster.network.forwarding_connections(), 1);
}

/// The slot's lower half is node 0's and `$x` node 1's, which answers; `$y` is node 2's, which waits for it.
fn split_of_which_a_part_waits() -> Split {
    let scene = Scene::of(ClusterSetup { nodes: 3, ..ClusterSetup::default() });
    let mut split = Split::of(scene);
    assert_eq!(split.ask(0, &format!("SET $x {}", "v".repeat(10_000))), ok());
    let y = position(&split.above[1]);
    split.scene.start_and_hold(&format!("POSITIONS {y}-{y}"), 2);
    split.scene.cluster.network.hold_priority = true;
    split
}

#[test]
fn what_a_command_has_collected_is_counted_as_its_clients_memory_and_given_back() {
    let mut split = split_of_which_a_part_waits();
    let clients = split.scene.cluster.nodes[0].parts.shared.clients.clone();
    let request = split.words("MGET $x $x $x $a $y");
    let bare = clients.memory_bytes();
    let waiting: Vec<_> = (0..4).map(|_| split.scene.cluster.connect(0, 0)).collect();
    for &client in &waiting {
        split.scene.cluster.send(client, &request);
    }
    split.scene.cluster.run_for(10_000);
    for &client in &waiting {
        let held = split.scene.cluster.client(client).session().client.memory_bytes();
        assert!(held > 30_000, "the client of three values of 10,000 bytes holds {held} bytes");
    }
    assert!(clients.memory_bytes() > bare + 4 * 30_000);
    let Value::Bulk(list) = split.ask(0, "CLIENT LIST") else { panic!("no list") };
    let list = String::from_utf8(list).expect("text");
    assert_eq!(list.matches(" oll=1 omem=30").count(), 4, "{list}");
    let evicted = clients.evict(clients.memory_bytes() - 1);
    assert!(evicted[0].held_bytes() > 30_000, "the total bound ends the largest");
    split.scene.cluster.disconnect(waiting[0]);
    split.scene.cluster.network.release();
    for &client in &waiting[1..] {
        assert!(matches!(split.scene.cluster.reply(client), Value::Array(items) if items.len() == 5));
    }
    split.scene.cluster.settle();
    for &client in &waiting[1..] {
        assert_eq!(split.scene.cluster.client(client).session().client.collected_bytes(), 0);
        split.scene.cluster.disconnect(client);
    }
    assert_eq!(clients.memory_bytes(), bare);
    assert_eq!(split.in_hand(), []);
}

#[test]
fn a_command_ends_when_what_it_has_collected_passes_what_a_reply_may_have() {
    let mut split = split_of_which_a_part_waits();
    split.scene.cluster.nodes[0].parts.shared.config.set_own_output_bytes(25_000);
    let quiet = split.scene.cluster.connect(0, 0);
    for request in ["CLIENT REPLY OFF", "MGET $x $x $x $y", "CLIENT REPLY ON"] {
        let request = split.words(request);
        split.scene.cluster.send(quiet, &request);
    }
    split.send("MGET $x $x $x $y");
    let before_us = split.scene.cluster.now().mono.0;
    let reply = split.reply();
    assert!(is_too_long(&reply), "{reply:?}");
    assert!(split.scene.cluster.now().mono.0 - before_us < 10_000, "it waited for the other part");
    assert_eq!(split.scene.cluster.reply(quiet), ok(), "without a reply none is too long");
    let client = split.scene.cluster.connect(0, 0);
    let request = split.words("MGET $x $x $a $b");
    split.scene.cluster.send(client, &request);
    assert!(matches!(split.scene.cluster.reply(client), Value::Array(_)), "others are served");
    split.scene.cluster.run_for(1_000_000);
    assert!(split.in_hand().iter().all(|(what, _)| *what != "commands that wait for other nodes"));
}
