//! Transactions over several nodes, prepared before their keys move and decided behind that.

use crate::common::*;
use sidle_migration::SOURCE_DRIVEN;
use sidle_node::testing::{ClientKey, LATENCY_US, Part, TestCluster};
use sidle_resp::Value;
use sidle_txn::TransactionId;
use sidle_types::Slot;

const EVERYTHING: &str = "SLOTS 0-16383";
/// As in [`Part`].
const LIST: &[&str] = &["a", "b"];

fn decide(key: &str, decision: &str) -> String {
    format!("SIDLE.TX DECIDE {key} {} {decision}", TransactionId(1))
}

impl Scene {
    fn prepare(&mut self, node: usize, part: &Part<'_>) -> Value {
        let words = part.words();
        let words: Vec<&[u8]> = words.iter().map(Vec::as_slice).collect();
        self.cluster.send_words(self.to[node], &words);
        self.cluster.reply(self.to[node])
    }

    /// Another connection's request, which is not answered for now.
    fn waits(&mut self, node: usize, request: &str) -> ClientKey {
        let client = self.cluster.connect(node, 0);
        self.cluster.send(client, request);
        self.cluster.run_for(20 * LATENCY_US);
        assert_eq!(self.cluster.reply_now(client), None, "{request} waits");
        client
    }
}

/// Votes given at the source hold at the target, for reads and for writes without a look.
pub(crate) fn votes_move_with_their_keys() {
    for_every_protocol(|mut scene| {
        scene.fill(["a", "b", "c"].map(str::to_owned));
        let commands = [(Some("$5\r\nold-b\r\n"), "GET b"), (None, "APPEND a +")];
        let part = Part { commands: &commands, list: LIST, ..Part::default() };
        assert_eq!(scene.prepare(0, &part), Value::Array(vec![int(6)]));
        let id = scene.start_and_hold(EVERYTHING, 1);
        let serves = serves_while_it_fills(&scene.protocol);
        if serves {
            let read = scene.waits(1, "GET a");
            let write = scene.waits(1, "SET b new");
            assert_eq!(scene.ask(1, "SET c new"), ok(), "another key");
            assert_eq!(scene.ask(1, &decide("a", "COMMIT")), ok());
            assert_eq!(scene.cluster.reply(read), bulk("old-a+"));
            assert_eq!(scene.ask(1, &decide("b", "COMMIT")), ok());
            assert_eq!(scene.cluster.reply(write), ok());
        }
        scene.finish(id);
        if !serves {
            scene.waits(1, "GET a");
            scene.waits(1, "SET b new");
            assert_eq!(scene.ask(1, &decide("a", "COMMIT")), ok());
            assert_eq!(scene.ask(1, &decide("b", "COMMIT")), ok());
        }
        assert_eq!(scene.ask(1, "GET a"), bulk("old-a+"));
        assert_eq!(scene.ask(1, "GET b"), bulk("new"));
        assert_eq!(scene.ask(1, "DBSIZE"), int(3));
    });
}

/// A flush waits for votes, and no key votes meanwhile; what has become of transactions stays.
pub(crate) fn flush_of_a_key_that_has_voted() {
    for_every_protocol(|mut scene| {
        scene.fill(["a", "b", "c"].map(str::to_owned));
        let commands = [(None, "APPEND a +")];
        let part = Part { commands: &commands, list: LIST, ..Part::default() };
        assert_eq!(scene.prepare(0, &part), Value::Array(vec![int(6)]));
        let id = scene.start_and_hold(EVERYTHING, 1);
        if !serves_while_it_fills(&scene.protocol) && !copies_ahead(&scene.protocol) {
            scene.finish(id);
        }
        let owner = usize::from(!copies_ahead(&scene.protocol) || scene.state(id) == "done");
        let flush = scene.waits(owner, "FLUSHALL");
        let commands = [(None, "APPEND b +")];
        let other = Part { id: 2, commands: &commands, first: "b", list: &["b", "z"], ..Part::default() };
        let reply = scene.prepare(owner, &other);
        assert!(matches!(&reply, Value::Error(text) if text.starts_with("SIDLELOCKED ")), "{reply:?}");
        assert_eq!(scene.ask(owner, &decide("a", "COMMIT")), ok());
        assert_eq!(scene.cluster.reply(flush), ok());
        for key in ["a", "b", "c"] {
            assert_eq!(scene.ask(owner, &format!("GET {key}")), Value::Null);
        }
        assert!(matches!(scene.prepare(owner, &other), Value::Array(_)), "the flush has ended");
        scene.finish(id);
        let known = scene.ask(1, &format!("SIDLE.TX RESOLVE a {}", TransactionId(1)));
        assert!(matches!(known, Value::Bulk(_)), "its outcome stays: {known:?}");
        assert_eq!(scene.ask(1, "DBSIZE"), int(0));
    });
}

/// A part of one key, which appends to it.
fn voted(scene: &mut Scene) {
    scene.fill(["a".to_owned()]);
    let commands = [(None, "APPEND a +")];
    let part = Part { commands: &commands, list: LIST, ..Part::default() };
    assert_eq!(scene.prepare(0, &part), Value::Array(vec![int(6)]));
}

/// A key whose value is another one than the transaction has read does not vote for it.
pub(crate) fn part_whose_read_has_changed() {
    let mut scene = Scene::new();
    scene.fill(["a".to_owned()]);
    assert_eq!(scene.ask(0, "SET a other"), ok());
    let commands = [(Some("$5\r\nold-a\r\n"), "GET a"), (None, "APPEND a +")];
    let reply = scene.prepare(0, &Part { commands: &commands, list: LIST, ..Part::default() });
    assert!(matches!(&reply, Value::Error(text) if text.starts_with("SIDLECHANGED ")), "{reply:?}");
}

/// The decision wakes who waits for the key, with nothing else going on.
pub(crate) fn read_that_waits_for_a_decision() {
    let mut scene = Scene::new();
    voted(&mut scene);
    let read = scene.waits(0, "GET a");
    assert_eq!(scene.ask(0, &decide("a", "COMMIT")), ok());
    scene.cluster.run_for(20 * LATENCY_US);
    assert_eq!(scene.cluster.reply_now(read), Some(bulk("old-a+")), "P3");
}

/// The source serves while it copies: what a decision writes there is copied again.
pub(crate) fn decision_while_it_is_copied() {
    let mut scene = Scene { protocol: SOURCE_DRIVEN, ..Scene::new() };
    voted(&mut scene);
    let id = scene.copy_and_hold(EVERYTHING, 1);
    assert_eq!(scene.ask(0, &decide("a", "COMMIT")), ok());
    scene.finish(id);
    assert_eq!(scene.ask(1, "GET a"), bulk("old-a+"), "M11");
}

/// X3: what a key has refused at the source it refuses at the target.
#[test]
fn refusals_move_with_their_keys() {
    for_every_protocol(|mut scene| {
        scene.fill(["a".to_owned()]);
        let resolve = format!("SIDLE.TX RESOLVE a {}", TransactionId(1));
        assert_eq!(scene.ask(0, &resolve), Value::Null);
        let id = scene.start_and_hold(EVERYTHING, 1);
        if !serves_while_it_fills(&scene.protocol) {
            scene.finish(id);
        }
        let commands = [(None, "APPEND a +")];
        let part = Part { commands: &commands, list: &["a"], marks: 1, ..Part::default() };
        let reply = scene.prepare(1, &part);
        assert!(matches!(&reply, Value::Error(text) if text.starts_with("SIDLEREFUSED ")), "{reply:?}");
        scene.cluster.network.release();
        assert_eq!(scene.ask(1, "GET a"), bulk("old-a"));
    });
}

/// What the last cut owes: its locks are in the cut.
#[test]
fn votes_are_in_the_cut_that_gives_the_rest() {
    let mut scene = Scene::new();
    scene.fill(["a", "b", "c"].map(str::to_owned));
    let commands = [(None, "APPEND a +"), (None, "GET b")];
    let part = Part { commands: &commands, list: LIST, ..Part::default() };
    assert_eq!(scene.prepare(0, &part), Value::Array(vec![int(6), bulk("old-b")]));
    scene.cluster.network.hold_bulk = true;
    let id = scene.start_by("handoff,uncovered=target", EVERYTHING, 1);
    scene.cluster.run_until("all is given", |cluster| {
        cluster.nodes[1].workers[0].ranges().import(id).is_some_and(|view| view.gave_all())
    });
    let write = scene.waits(1, "SET b new");
    let read = scene.waits(1, "GET a");
    assert_eq!(scene.ask(1, &decide("a", "COMMIT")), ok());
    assert_eq!(scene.ask(1, &decide("b", "ABORT")), ok());
    assert_eq!(scene.cluster.reply(read), bulk("old-a+"));
    assert_eq!(scene.cluster.reply(write), ok());
    scene.finish(id);
    assert_eq!(scene.ask(1, "MGET a b c"), Value::Array(vec![bulk("old-a+"), bulk("new"), bulk("old-c")]));
    assert_eq!(scene.ask(1, "DBSIZE"), int(3));
}

/// What was given out of turn is not given again with the rest, also where a vote is left at the source.
#[test]
fn a_vote_that_was_given_out_of_turn_stays_given() {
    let mut scene = Scene::new();
    scene.fill(["a", "b", "c"].map(str::to_owned));
    let commands = [(None, "APPEND a +")];
    let part = Part { commands: &commands, list: LIST, ..Part::default() };
    assert_eq!(scene.prepare(0, &part), Value::Array(vec![int(6)]));
    scene.cluster.network.hold_bulk = true;
    let id = scene.start_by("handoff,uncovered=load,out-of-turn=1", EVERYTHING, 1);
    let import = |cluster: &TestCluster| cluster.nodes[1].workers[0].ranges().import(id).cloned();
    scene.cluster.run_until("it is given bit by bit", |cluster| import(cluster).is_some());
    let read = scene.waits(1, "GET a");
    let other = scene.cluster.connect(1, 0);
    scene.cluster.send(other, "GET b");
    scene.cluster.run_until("all is given", |cluster| import(cluster).is_some_and(|view| view.gave_all()));
    assert_eq!(scene.cluster.reply(other), bulk("old-b"));
    assert_eq!(scene.ask(1, &decide("a", "COMMIT")), ok());
    assert_eq!(scene.cluster.reply(read), bulk("old-a+"));
    scene.finish(id);
    assert_eq!(scene.ask(1, "MGET a b c"), Value::Array(["old-a+", "old-b", "old-c"].map(bulk).to_vec()));
}

/// A read of the frozen value at the source would show what a transaction has replaced elsewhere.
#[test]
fn a_frozen_source_does_not_show_a_locked_key() {
    for_protocols_that(serves_while_it_fills, 2, |mut scene| {
        scene.fill(["a".to_owned()]);
        let commands = [(None, "APPEND a +")];
        assert!(matches!(
            scene.prepare(0, &Part { commands: &commands, list: LIST, ..Part::default() }),
            Value::Array(_)
        ));
        let id = scene.start_and_hold(EVERYTHING, 1);
        let reply = scene.ask(0, &format!("SIDLE.FROZEN {id} GET a"));
        assert!(matches!(&reply, Value::Error(_)), "{reply:?}");
        scene.finish(id);
    });
}

/// X9: a client dies behind its votes. All keys have voted: that is the decision.
#[test]
fn nodes_commit_what_all_keys_have_voted_for() {
    let mut scene = Scene::new();
    let [here, there] = keys_at_both_ends(&mut scene);
    for (node, key) in [(0, &here), (1, &there)] {
        let commands = [(None, &*format!("APPEND {key} +"))];
        let list: &[&str] = if node == 0 { &[&here, &there] } else { &[] };
        let part = Part { first: &here, list, commands: &commands, ..Part::default() };
        assert_eq!(scene.prepare(node, &part), Value::Array(vec![int(1)]));
    }
    let read = scene.waits(1, &format!("GET {there}"));
    scene.cluster.run_for(3_000_000);
    assert_eq!(scene.cluster.reply_now(read), Some(bulk("+")));
    assert_eq!(scene.ask(0, &format!("GET {here}")), bulk("+"));
    scene.cluster.run_for(2_000_000);
    assert!(scene.cluster.nodes.iter().all(|node| node.workers[0].helped() == 0), "they are settled");
}

/// The same before all have voted: those that have not refuse.
#[test]
fn nodes_abort_what_not_all_keys_have_voted_for() {
    let mut scene = Scene::new();
    let [here, there] = keys_at_both_ends(&mut scene);
    let commands = [(None, &*format!("APPEND {there} +"))];
    let part = Part { first: &here, list: &[], commands: &commands, ..Part::default() };
    assert_eq!(scene.prepare(1, &part), Value::Array(vec![int(1)]));
    let read = scene.waits(1, &format!("GET {there}"));
    scene.cluster.run_for(3_000_000);
    assert_eq!(scene.cluster.reply_now(read), Some(Value::Null));
    let commands = [(None, &*format!("APPEND {here} +"))];
    let part = Part { first: &here, list: &[&here, &there], commands: &commands, ..Part::default() };
    let late = scene.prepare(0, &part);
    assert!(matches!(&late, Value::Error(text) if text.starts_with("SIDLEREFUSED ")), "X3: {late:?}");
}

/// A key of each node, the upper half of the slots being the second one's.
fn keys_at_both_ends(scene: &mut Scene) -> [String; 2] {
    let id = scene.start("SLOTS 8192-16383", 1);
    scene.finish(id);
    let at = |is_upper: bool| {
        let is_there = |key: &String| (Slot::of_key(key.as_bytes()).number() >= 8192) == is_upper;
        keys("key", 100).into_iter().find(is_there).expect("a hundred keys are in both halves")
    };
    [at(false), at(true)]
}
