//! One node that owns everything: batches, sessions, the cluster as clients see it.

use sidle_cluster::{Tablet, TabletMap};
use sidle_node::testing::{SoloNode, Waits, node_info, parts};
use sidle_node::{BATCH_REQUESTS, RangeTable, SERVE_REQUESTS, Shown, Worker, WorkerIndex, connect};
use sidle_resp::Value;
use sidle_types::{CommitNumber, MapEpoch, MonotonicUs, PositionRange, Slot, TabletEpoch};
use std::sync::Arc;

fn bulk(text: &str) -> Value {
    Value::Bulk(text.as_bytes().to_vec())
}

fn ok() -> Value {
    Value::Simple("OK".into())
}

#[test]
fn serve_runs_more_requests_than_a_batch_in_order() {
    let mut node = SoloNode::new();
    let mut client = node.connect();
    let count = BATCH_REQUESTS * 2 + 3;
    for index in 0..count {
        client.send(&[b"SET", format!("key{index}").as_bytes(), format!("value{index}").as_bytes()]);
        client.send(&[b"get", format!("key{index}").as_bytes()]);
    }
    while client.serve(&mut node.worker, node.now) {}
    for index in 0..count {
        assert_eq!(client.receive(), Some(ok()));
        assert_eq!(client.receive(), Some(bulk(&format!("value{index}"))));
    }
    assert_eq!(client.receive(), None);
}

#[test]
fn serve_is_the_same_however_the_input_is_cut() {
    let whole = b"*3\r\n$3\r\nSET\r\n$1\r\na\r\n$5\r\nhello\r\n\r\nPING\r\n*2\r\n$3\r\nGET\r\n$1\r\na\r\n*1\r\n$4\r\nPING\r\n";
    let pong = || Value::Simple("PONG".into());
    for cut in 0..whole.len() {
        let mut node = SoloNode::new();
        let mut client = node.connect();
        client.send_raw(&whole[..cut]);
        while client.serve(&mut node.worker, node.now) {}
        client.send_raw(&whole[cut..]);
        while client.serve(&mut node.worker, node.now) {}
        let replies: Vec<Value> = std::iter::from_fn(|| client.receive()).collect();
        assert_eq!(replies, [ok(), pong(), bulk("hello"), pong()], "cut at {cut}");
    }
}

#[test]
fn serve_lets_others_have_their_turn() {
    let mut node = SoloNode::new();
    let mut client = node.connect();
    for _ in 0..SERVE_REQUESTS * 2 {
        client.send(&[b"PING"]);
    }
    assert!(client.serve(&mut node.worker, node.now));
    let first = std::iter::from_fn(|| client.receive()).count();
    assert!((SERVE_REQUESTS..SERVE_REQUESTS + BATCH_REQUESTS).contains(&first), "{first}");
}

#[test]
fn serve_answers_what_came_before_a_broken_request() {
    let mut node = SoloNode::new();
    let mut client = node.connect();
    client.send(&[b"PING"]);
    client.send_raw(b"*1\r\n:1\r\n");
    client.serve(&mut node.worker, node.now);
    assert_eq!(client.receive(), Some(Value::Simple("PONG".into())));
    let error = Value::Error("ERR Protocol error: expected '$', got ':'".into());
    assert_eq!(client.receive(), Some(error));
    assert!(matches!(client.waits, Waits::Closed));
}

#[test]
fn nothing_runs_before_authentication() {
    let mut node = SoloNode::new();
    let mut operator = node.connect();
    assert_eq!(node.ask(&mut operator, "CONFIG SET requirepass secret"), Value::Simple("OK".into()));
    let mut client = node.connect();
    let refused = Value::Error("NOAUTH Authentication required.".into());
    assert_eq!(node.ask(&mut client, "GET a"), refused);
    // Redis names an unknown command before it requires the password.
    let Value::Error(unknown) = node.ask(&mut client, "NOSUCHCOMMAND") else { panic!("not an error") };
    assert!(unknown.starts_with("ERR unknown command 'NOSUCHCOMMAND'"));
}

#[test]
fn node_before_joining_serves_nothing() {
    let info = node_info(1);
    let parts = parts(&info, 1, 64 << 20);
    let (mut ports, _) = connect(1, 1);
    let mut node = SoloNode::new();
    node.worker = Worker::new(&parts, WorkerIndex(0), ports.remove(0), 1);
    node.parts = parts;
    let mut client = node.connect();
    let down = Value::Error("CLUSTERDOWN Hash slot not served".into());
    assert_eq!(node.ask(&mut client, "GET a"), down);
    assert_eq!(node.ask(&mut client, "FLUSHALL"), down, "nobody knows what there is to flush");
    let Value::Bulk(info) = node.ask(&mut client, "CLUSTER INFO") else { panic!("no text") };
    assert!(info.starts_with(b"cluster_state:fail\r\ncluster_slots_assigned:0\r\ncluster_slots_ok:0\r\n"));
    // It shows itself, and claims no slots.
    let id = node.parts.shared.process.node;
    let line = format!("{id} 127.0.0.1:7001@17001 myself,master - 0 0 0 connected\n");
    assert_eq!(node.ask(&mut client, "CLUSTER NODES"), bulk(&line));
    assert_eq!(node.ask(&mut client, "CLUSTER SLOTS"), Value::Array(vec![]));
    let Value::Array(shards) = node.ask(&mut client, "CLUSTER SHARDS") else { panic!("no array") };
    let Value::Array(shard) = &shards[0] else { panic!("no pairs") };
    assert_eq!((shards.len(), &shard[1]), (1, &Value::Array(vec![])));
    let Value::Error(refused) = node.ask(&mut client, "SIDLE.MAP") else { panic!("it has no map") };
    assert!(refused.starts_with("CLUSTERDOWN "), "{refused}");
}

#[test]
fn node_that_remembers_a_map_shows_the_owners_and_serves_nothing() {
    let info = node_info(1);
    let slots = |first, last| {
        let slot = |number| Slot::new(number).expect("a slot");
        PositionRange::of_slots(slot(first), slot(last)).expect("in order")
    };
    let tablet = |range, number| Tablet { range, owner: node_info(number).id, epoch: TabletEpoch(1) };
    let tablets = vec![tablet(slots(0, 8191), 1), tablet(slots(8192, 16383), 2)];
    let map = TabletMap::new(MapEpoch(9), vec![node_info(1), node_info(2)], tablets, Vec::new());
    let parts = parts(&info, 1, 64 << 20);
    let table = RangeTable::remembered(info, &map.expect("a sound map"));
    let _no_worker_yet = parts.published.publish(Arc::new(table));
    let (mut ports, _) = connect(1, 1);
    let mut node = SoloNode::new();
    node.worker = Worker::new(&parts, WorkerIndex(0), ports.remove(0), 1);
    node.parts = parts;
    let mut client = node.connect();
    // bar is in slot 5061, foo in slot 12182.
    let down = Value::Error("CLUSTERDOWN Hash slot not served".into());
    assert_eq!(node.ask(&mut client, "GET bar"), down, "it may be another's by now");
    assert_eq!(node.ask(&mut client, "SET bar 1"), down);
    assert_eq!(node.ask(&mut client, "GET foo"), Value::Error("MOVED 12182 127.0.0.1:7002".into()));
    let Value::Array(runs) = node.ask(&mut client, "CLUSTER SLOTS") else { panic!("no array") };
    assert_eq!(runs.len(), 2);
    let Value::Bulk(info) = node.ask(&mut client, "CLUSTER INFO") else { panic!("no text") };
    let info = String::from_utf8(info).expect("text");
    for line in ["state:fail", "slots_assigned:16384", "slots_ok:8192", "slots_pfail:8192", "known_nodes:2"] {
        assert!(info.contains(&format!("cluster_{line}\r\n")), "{line} in {info}");
    }
    assert_eq!(node.ask(&mut client, "DBSIZE"), Value::Integer(0));
}

#[test]
fn cluster_commands_show_one_owner_of_everything() {
    let mut node = SoloNode::new();
    let mut client = node.connect();
    let id = node.parts.shared.process.node.to_string();
    assert_eq!(node.ask(&mut client, "CLUSTER MYID"), bulk(&id));
    assert_eq!(node.ask(&mut client, "CLUSTER KEYSLOT foo"), Value::Integer(12182));
    let nodes = format!("{id} 127.0.0.1:7001@17001 myself,master - 0 0 1 connected 0-16383\n");
    assert_eq!(node.ask(&mut client, "CLUSTER NODES"), bulk(&nodes));
    let own = Value::Array(vec![bulk("127.0.0.1"), Value::Integer(7001), bulk(&id), Value::Array(vec![])]);
    let slots = Value::Array(vec![Value::Integer(0), Value::Integer(16383), own]);
    assert_eq!(node.ask(&mut client, "CLUSTER SLOTS"), Value::Array(vec![slots]));
    node.ask(&mut client, "SET foo 1");
    node.ask(&mut client, "SET {foo}2 1");
    assert_eq!(node.ask(&mut client, "CLUSTER COUNTKEYSINSLOT 12182"), Value::Integer(2));
    assert_eq!(
        node.ask(&mut client, "CLUSTER GETKEYSINSLOT 12182 1").clone(),
        match node.ask(&mut client, "CLUSTER GETKEYSINSLOT 12182 10") {
            Value::Array(keys) => Value::Array(keys[..1].to_vec()),
            other => other,
        }
    );
    let refused = node.ask(&mut client, "CLUSTER SETSLOT 1 NODE x");
    assert!(matches!(refused, Value::Error(text) if text.contains("SIDLE.MIGRATE")));
}

/// A node's messages to the coordinator are short, whatever a client requests.
#[test]
fn a_protocol_with_a_name_without_end_is_refused() {
    let mut node = SoloNode::new();
    let mut client = node.connect();
    let name = "x".repeat(1 << 20);
    let refused = node.ask(&mut client, &format!("SIDLE.MIGRATE START SLOTS 0-5 TO h:1 PROTOCOL {name}"));
    assert!(matches!(&refused, Value::Error(text) if text.contains("at most 1024 bytes")), "{refused:?}");
}

#[test]
fn every_container_has_help() {
    let mut node = SoloNode::new();
    let mut client = node.connect();
    let containers =
        ["CLIENT", "CLUSTER", "CONFIG", "LATENCY", "MEMORY", "OBJECT", "SIDLE.MIGRATE", "SLOWLOG"];
    for container in containers {
        let reply = node.ask(&mut client, &format!("{container} HELP"));
        let Value::Array(lines) = reply else { panic!("{container}: {reply:?}") };
        assert_eq!(lines.last(), Some(&Value::Simple("    Prints this help.".into())), "{container}");
    }
    let refused = node.ask(&mut client, "CLUSTER ADDSLOTS 1");
    let Value::Error(text) = refused else { panic!("{refused:?}") };
    assert!(text.contains("SIDLE.MIGRATE HELP"), "{text}");
}

#[test]
fn sidle_map_is_the_map_in_json() {
    let mut node = SoloNode::new();
    let mut client = node.connect();
    let Value::Bulk(json) = node.ask(&mut client, "SIDLE.MAP") else { panic!("no text") };
    let map: sidle_cluster::TabletMap = serde_json::from_slice(&json).expect("a map");
    assert_eq!(&map, &**node.worker.ranges().map());
}

#[test]
fn sidle_map_is_written_for_what_its_reader_reads() {
    let mut node = SoloNode::new();
    let mut client = node.connect();
    node.ask(&mut client, "HELLO 3");
    for (words, shows_versions) in
        [("other", true), ("sidle", false), ("sidle sidle-4 sidle-9", true), ("sidle sidle-x sidle4", false)]
    {
        assert_eq!(node.ask(&mut client, &format!("CLIENT CAPA {words}")), Value::Simple("OK".into()));
        let Value::Bulk(json) = node.ask(&mut client, "SIDLE.MAP") else { panic!("no text") };
        let map: serde_json::Value = serde_json::from_slice(&json).expect("JSON");
        assert_eq!(map.get("version").is_some(), shows_versions, "{words}: {map}");
    }
    node.ask(&mut client, "RESET");
    let Value::Bulk(json) = node.ask(&mut client, "SIDLE.MAP") else { panic!("no text") };
    assert!(String::from_utf8_lossy(&json).contains("\"version\":4"));
}

#[test]
fn sidle_frozen_needs_a_running_migration() {
    let mut node = SoloNode::new();
    let mut client = node.connect();
    let over = Value::Error("SIDLEDONE migration 7 is over, ask the owner".into());
    assert_eq!(node.ask(&mut client, "SIDLE.FROZEN 7 GET a"), over);
    assert!(matches!(node.ask(&mut client, "SIDLE.FROZEN x GET a"), Value::Error(_)));
}

#[test]
fn flushall_clears_everything_in_slices() {
    let mut node = SoloNode::new();
    let mut client = node.connect();
    for index in 0..10_000 {
        client.send(&[b"SET", format!("key{index}").as_bytes(), b"value"]);
    }
    while client.serve(&mut node.worker, node.now) {}
    while client.receive().is_some() {}
    client.send(&[b"FLUSHALL"]);
    client.send(&[b"DBSIZE"]);
    let mut turns = 0;
    while client.serve(&mut node.worker, node.now) || !matches!(client.waits, Waits::No) {
        turns += 1;
        node.worker.turn();
        while let Some(ticket) = node.worker.poll_woken() {
            client.wake(ticket);
        }
    }
    assert!(turns > 1, "one slice must not clear everything");
    assert_eq!(client.receive(), Some(ok()));
    assert_eq!(client.receive(), Some(Value::Integer(0)));
    assert!(node.parts.store.is_empty());
}

#[test]
fn expire_removes_what_is_past_its_deadline() {
    let mut node = SoloNode::new();
    let mut client = node.connect();
    for index in 0..100 {
        client.send(&[b"SET", format!("short{index}").as_bytes(), b"v", b"PX", b"10"]);
        client.send(&[b"SET", format!("long{index}").as_bytes(), b"v", b"PX", b"100000"]);
    }
    while client.serve(&mut node.worker, node.now) {}
    assert_eq!(node.parts.store.len(), 200);
    node.now.wall.0 += 11;
    for _ in 0..200 {
        node.worker.expire(node.now, 20);
    }
    assert_eq!(node.parts.store.len(), 100);
}

/// Foreseen requests are only loaded: many connections' requests, invalid ones included, get their usual
/// answers.
#[test]
fn serve_answers_the_same_what_was_foreseen() {
    let requests: Vec<Vec<u8>> = (0..200)
        .map(|number: usize| match number % 5 {
            0 => format!("*3\r\n$3\r\nSET\r\n$2\r\nk{}\r\n$2\r\nab\r\n", number % 7).into_bytes(),
            1 => format!("*2\r\n$3\r\nGET\r\n$2\r\nk{}\r\n", number % 9).into_bytes(),
            2 => b"*2\r\n$6\r\nAPPEND\r\n$2\r\nk1\r\n".to_vec(),
            3 => b"*2\r\n$3\r\nGET\r\n$9\r\nk".to_vec(),
            _ => b"*2\r\n$3\r\nGET\r\n$-2\r\n".to_vec(),
        })
        .collect();
    let answers = |foreseen: bool| -> Vec<Option<Value>> {
        let mut node = SoloNode::new();
        let mut clients: Vec<_> = requests.iter().map(|_| node.connect()).collect();
        for (client, request) in clients.iter_mut().zip(&requests) {
            client.send_raw(request);
            if foreseen {
                node.worker.foresee(request);
            }
        }
        clients
            .iter_mut()
            .map(|client| {
                client.serve(&mut node.worker, node.now);
                client.receive()
            })
            .collect()
    };
    let plain = answers(false);
    assert!(plain.contains(&Some(bulk("ab"))) && plain.contains(&None), "{plain:?}");
    assert_eq!(answers(true), plain);
}

/// What a reply shows decides whether it waits for the node's lease; a refused write shows nothing.
#[test]
fn replies_need_the_lease_where_they_show_something_of_the_data() {
    let mut node = SoloNode::durable();
    let mut client = node.connect();
    let mut is_answered = |node: &mut SoloNode, request: &str| {
        node.ask(&mut client, request);
        let shown = node.worker.take_shown();
        // As if the commit was safe.
        node.worker.may_send(Shown { commit: CommitNumber(0), ..shown }, || MonotonicUs(1))
    };
    node.parts.shared.durability.lease.set(MonotonicUs(0));
    for request in
        ["PING", "INFO", "CLIENT LIST", "CONFIG GET maxmemory", "CLUSTER SLOTS", "SLOWLOG GET", "NOTHING"]
    {
        assert!(is_answered(&mut node, request), "{request}");
    }
    for request in
        ["GET k", "SET k v", "DBSIZE", "CLUSTER COUNTKEYSINSLOT 1", "WAIT 0 0", "MULTI", "PING", "EXEC"]
    {
        assert_eq!(is_answered(&mut node, request), request == "PING", "{request}");
    }
    node.parts.shared.durability.set_failure(Some("the disk is full"));
    assert!(is_answered(&mut node, "SET k v"), "it has done nothing");
    assert!(!is_answered(&mut node, "GET k"));
}
