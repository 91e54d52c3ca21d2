//! What a node takes over from a dead one is served once it has everything, and nobody else can any more.

use sidle_cluster::TabletMap;
use sidle_log_copies::{Found, LEASE_US};
use sidle_log_files::FileSet;
use sidle_node::testing::{SoloNode, TestClient};
use sidle_node::{Backups, CopyFiles, RangeTable};
use sidle_resp::Value;
use sidle_types::{LogId, MapEpoch, MonotonicUs, PositionRange};
use sidle_wire::Place;
use std::io;
use std::sync::Arc;

/// Publishes a table of the node's map in which everything is being taken over, or nothing is any more.
fn publish(node: &mut SoloNode, takes_over: bool) {
    let table = node.parts.published.table();
    let map = table.map();
    let mut json = serde_json::to_value(&**map).expect("a map");
    let owner = json["tablets"][0].clone();
    json["epoch"] = (map.epoch().0 + 1).into();
    json["takeovers"] = serde_json::json!([]);
    if takes_over {
        json["takeovers"] = serde_json::json!([{
            "range": owner["range"], "owner": owner["owner"], "epoch": owner["epoch"],
            "from": "b".repeat(40), "log": serde_json::to_value(LogId([7; 16])).expect("a name"), "log_epoch": 3,
            "backups": [],
        }]);
    }
    let map: TabletMap = serde_json::from_value(json).expect("a sound map");
    assert_eq!(map.epoch(), MapEpoch(table.map().epoch().0 + 1));
    let _ticket =
        node.parts.published.publish(Arc::new(RangeTable::new(table.node(), Arc::new(map), &[], &[])));
    node.worker.turn();
}

fn serve(node: &mut SoloNode, client: &mut TestClient) -> Option<Value> {
    while let Some(ticket) = node.worker.poll_woken() {
        client.wake(ticket);
    }
    client.serve(&mut node.worker, node.now);
    client.receive()
}

pub(crate) fn read_of_what_is_being_taken_over() {
    let mut node = SoloNode::new();
    let mut client = node.connect();
    publish(&mut node, true);
    client.send(&[b"GET", b"key"]);
    assert_eq!(serve(&mut node, &mut client), None, "R5: it is not known yet");
    let mut other = node.connect();
    other.send(&[b"FLUSHALL"]);
    let refused = serve(&mut node, &mut other);
    assert!(matches!(&refused, Some(Value::Error(text)) if text.starts_with("CLUSTERDOWN")), "{refused:?}");
    publish(&mut node, false);
    assert_eq!(serve(&mut node, &mut client), Some(Value::Null));
}

/// What cannot be read for now is waited for by nobody.
#[test]
fn requests_do_not_wait_for_a_takeover_that_fails() {
    let mut node = SoloNode::new();
    let mut client = node.connect();
    publish(&mut node, true);
    client.send(&[b"GET", b"key"]);
    assert_eq!(serve(&mut node, &mut client), None);
    let table = node.parts.published.table();
    let again = RangeTable::new(table.node(), Arc::clone(table.map()), &[], &[]);
    let again = again.without_waiting_for(&[PositionRange::ALL]);
    let _ticket = node.parts.published.publish(Arc::new(again));
    node.worker.turn();
    let refused = serve(&mut node, &mut client);
    assert!(matches!(&refused, Some(Value::Error(text)) if text.starts_with("CLUSTERDOWN")), "{refused:?}");
    for words in [&[&b"SCAN"[..], b"0"][..], &[b"KEYS", b"*"], &[b"DBSIZE"]] {
        client.send(words);
        let refused = serve(&mut node, &mut client);
        let is_refused = matches!(&refused, Some(Value::Error(text)) if text.starts_with("CLUSTERDOWN"));
        assert!(is_refused, "what is there is not known: {refused:?}");
    }
    publish(&mut node, false);
    client.send(&[b"GET", b"key"]);
    assert_eq!(serve(&mut node, &mut client), Some(Value::Null));
}

struct Whole;

impl CopyFiles for Whole {
    fn find(&mut self, log: LogId) -> io::Result<(u64, Option<Found>)> {
        let files = FileSet { log, first: 1, last: 1 };
        Ok((2, Some(Found { files, last: (64, 0) })))
    }

    fn size(&mut self, _: LogId) -> io::Result<u64> {
        Ok(64)
    }

    fn read(&mut self, _: LogId, _: Place, _: usize) -> io::Result<(Vec<u8>, bool)> {
        Err(io::ErrorKind::Unsupported.into())
    }
}

pub(crate) fn fence_of_a_copy_that_may_have_promised() {
    let (log, now) = (LogId([7; 16]), MonotonicUs(1_000));
    let mut backups = Backups::new(1, 0);
    assert!(backups.fence(now, log, 5, &mut Whole));
    assert_eq!(backups.is_fenced(log, 5), None, "that is not on the disk yet");
    while backups.step().is_some() {
        backups.done(now, log, &mut Whole);
    }
    let promised_until = backups.is_fenced(log, 5).expect("it is on the disk");
    assert!(promised_until >= now.plus_us(LEASE_US), "Y10: an earlier process may have promised just now");
    assert_eq!(backups.is_fenced(log, 6), None);
}

#[test]
fn what_is_being_taken_over_waits_and_a_fence_waits_for_promises() {
    read_of_what_is_being_taken_over();
    fence_of_a_copy_that_may_have_promised();
}
