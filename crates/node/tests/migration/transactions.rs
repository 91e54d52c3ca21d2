//! MULTI, EXEC and WATCH while their keys move.

use crate::common::*;
use sidle_node::testing::{ClientKey, TestCluster};
use sidle_resp::Value;
use sidle_types::MigrationId;

const EVERYTHING: &str = "SLOTS 0-16383";
const ACCOUNTS: usize = 6;
const BALANCE: i64 = 100;

pub(crate) fn queued() -> Value {
    Value::Simple("QUEUED".into())
}

fn aborted() -> Value {
    error("EXECABORT Transaction discarded because of previous errors.")
}

/// Queues these commands at a node, without EXEC.
pub(crate) fn queue(scene: &mut Scene, node: usize, requests: &[&str]) {
    assert_eq!(scene.ask(node, "MULTI"), ok());
    for request in requests {
        assert_eq!(scene.ask(node, request), queued(), "{request}");
    }
}

/// Starts the move of everything over a connection of its own.
fn start_over(scene: &mut Scene, operator: ClientKey, to: usize) -> MigrationId {
    let protocol = scene.protocol.name;
    let start = format!("SIDLE.MIGRATE START {EVERYTHING} TO 127.0.0.1:{} PROTOCOL {protocol}", 7001 + to);
    match scene.cluster.ask(operator, &start) {
        Value::Integer(id) => MigrationId(id as u64),
        other => panic!("the migration is refused: {other:?}"),
    }
}

fn number(value: &Value) -> i64 {
    String::from_utf8_lossy(value.as_bytes().expect("a number")).parse().expect("a number")
}

#[test]
fn an_exec_waits_for_all_of_its_keys_and_runs_once() {
    for_every_protocol(|mut scene| {
        scene.ask(0, "MSET {k}a 10 {k}b old");
        let id = scene.start_and_hold(EVERYTHING, 1);
        let to = scene.to[1];
        for request in ["MULTI", "INCR {k}a", "GET {k}b", "SET {k}c new", "EXISTS {k}a {k}b {k}c", "EXEC"] {
            scene.cluster.send(to, request);
        }
        scene.cluster.run_for(20_000);
        scene.cluster.network.release();
        let mut replies = Vec::new();
        scene.cluster.run_until("EXEC is answered", |cluster| {
            replies.extend(std::iter::from_fn(|| cluster.client(to).receive()));
            replies.len() == 6
        });
        let done = Value::Array(vec![int(11), bulk("old"), ok(), int(3)]);
        match replies.pop() {
            Some(reply) if reply == done => {}
            // The source kept them when they were queued.
            Some(reply) if reply == aborted() => {
                queue(&mut scene, 0, &["INCR {k}a", "GET {k}b", "SET {k}c new", "EXISTS {k}a {k}b {k}c"]);
                assert_eq!(scene.ask(0, "EXEC"), done, "wherever its keys are by now");
            }
            other => panic!("{other:?}"),
        }
        scene.finish(id);
        assert_eq!(
            scene.ask(1, "MGET {k}a {k}b {k}c"),
            Value::Array(vec![bulk("11"), bulk("old"), bulk("new")])
        );
    });
}

#[test]
fn what_was_queued_before_the_move_is_done_at_the_new_owner() {
    for_every_protocol(|mut scene| {
        scene.ask(0, "SET {k}a 10");
        queue(&mut scene, 0, &["INCR {k}a", "SET {k}b 1"]);
        let other = scene.cluster.connect(0, 1);
        let id = start_over(&mut scene, other, 1);
        scene.finish(id);
        assert_eq!(scene.ask(0, "EXEC"), Value::Array(vec![int(11), ok()]));
        assert_eq!(scene.ask(0, "EXEC"), error("ERR EXEC without MULTI"), "it is over");
        assert_eq!(scene.ask(1, "MGET {k}a {k}b"), Value::Array(vec![bulk("11"), bulk("1")]));
        assert_eq!(scene.ask(0, "MULTI"), ok());
        assert_eq!(scene.ask(0, "GET {k}a"), moved("{k}a", 1), "at once");
        assert_eq!(scene.ask(0, "EXEC"), aborted());
        assert_eq!(scene.ask(0, "WATCH {k}a"), moved("{k}a", 1));
    });
}

/// The move goes on at each moment of an EXEC: it is done once, and its client never learns of it.
#[test]
fn an_exec_in_the_middle_of_a_move_is_done_once() {
    for_every_protocol(|scene| {
        let protocol = scene.protocol;
        for after_us in [0, 300, 1_000, 3_000, 10_000, 50_000] {
            let mut scene = Scene { protocol, ..Scene::new() };
            scene.fill(keys("{k}", 50));
            scene.ask(0, "SET {k}a 10");
            let clients = [0, 1].map(|worker| scene.cluster.connect(0, worker));
            for client in clients {
                assert_eq!(scene.cluster.ask(client, "MULTI"), ok());
                for request in ["INCR {k}a", "APPEND {k}7 +"] {
                    assert_eq!(scene.cluster.ask(client, request), queued());
                }
            }
            let other = scene.cluster.connect(0, 1);
            let id = start_over(&mut scene, other, 1);
            scene.cluster.run_for(after_us);
            clients.iter().for_each(|&client| scene.cluster.send(client, "EXEC"));
            let mut counts: Vec<i64> = Vec::new();
            for client in clients {
                match scene.cluster.reply(client) {
                    Value::Array(replies) => match replies[..] {
                        [Value::Integer(count), Value::Integer(_)] => counts.push(count),
                        _ => panic!("{after_us}: {replies:?}"),
                    },
                    other => panic!("{after_us}: {other:?}"),
                }
            }
            counts.sort_unstable();
            assert_eq!(counts, [11, 12], "{after_us}");
            scene.finish(id);
            assert_eq!(scene.ask(1, "MGET {k}a {k}7"), Value::Array(vec![bulk("12"), bulk("old-{k}7++")]));
        }
    });
}

/// A key is watched at its owner, and moves before EXEC: that depends on whether the key has changed, here or
/// there.
#[test]
fn a_watch_is_judged_where_its_key_has_gone() {
    for_every_protocol(|scene| {
        let protocol = scene.protocol;
        for changes in [false, true] {
            let mut scene = Scene { protocol, ..Scene::new() };
            scene.fill(keys("{k}", 50));
            scene.ask(0, "SET {k}a 10");
            let client = scene.cluster.connect(0, 1);
            assert_eq!(scene.cluster.ask(client, "WATCH {k}a {k}none"), ok());
            assert_eq!(scene.cluster.ask(client, "MULTI"), ok());
            assert_eq!(scene.cluster.ask(client, "SET {k}a 11"), queued());
            let id = scene.start_and_hold(EVERYTHING, 1);
            if changes {
                assert_eq!(scene.client("SET {k}a 10"), ok());
            }
            scene.cluster.send(client, "EXEC");
            scene.cluster.run_for(20_000);
            scene.cluster.network.release();
            let is_nil = match scene.cluster.reply(client) {
                Value::Null => true,
                Value::Array(replies) if replies == [ok()] => false,
                other => panic!("{other:?}"),
            };
            // What the source keeps while it gives has another owner in the map: it counts as changed (O2).
            assert!(is_nil == changes || is_nil && by_cuts(&protocol), "changed: {changes}, nil: {is_nil}");
            scene.finish(id);
            assert_eq!(scene.ask(1, "GET {k}a"), bulk(if is_nil { "10" } else { "11" }));
        }
    });
}

/// Of what cannot be one change over nodes the client learns where its keys are, as ever.
#[test]
fn what_cannot_follow_its_keys_is_redirected() {
    for_every_protocol(|mut scene| {
        let at_once = [("PING", "{k}a"), ("SET other 1", "other")];
        for (number, (request, first)) in at_once.into_iter().enumerate() {
            let client = scene.cluster.connect(0, 0);
            let (from, to) = (number % 2, (number + 1) % 2);
            let client = if from == 0 { client } else { scene.cluster.connect(from, 0) };
            assert_eq!(scene.cluster.ask(client, "MULTI"), ok());
            for request in ["SET {k}a 1", request] {
                assert_eq!(scene.cluster.ask(client, request), queued());
            }
            let other = scene.cluster.connect(from, 1);
            let id = start_over(&mut scene, other, to);
            scene.finish(id);
            let reply = scene.cluster.ask(client, "EXEC");
            assert!(reply == moved("{k}a", to) || reply == moved(first, to), "{request}: {reply:?}");
            assert_eq!(scene.ask(to, "EXISTS {k}a"), int(0));
        }
    });
}

/// The range is another node's for a while. There the key changes, or does not: this node cannot know.
pub(crate) fn watch_of_a_range_that_goes_and_comes_back() {
    let mut scene = Scene::new();
    watch_over_a_hand_over(&mut scene);
}

/// Nothing removes the value before EXEC.
pub(crate) fn watch_of_a_value_that_ends() {
    let mut scene = Scene::new();
    assert_eq!(scene.ask(0, "SET {k}a 1 PX 50"), ok());
    assert_eq!(scene.ask(0, "WATCH {k}a"), ok());
    scene.cluster.run_for(60_000);
    queue(&mut scene, 0, &["SET {k}a 2"]);
    assert_eq!(scene.ask(0, "EXEC"), Value::Null, "O1: it has ended");
    assert_eq!(scene.ask(0, "GET {k}a"), Value::Null);
}

fn watch_over_a_hand_over(scene: &mut Scene) {
    // It has no value here, of which the end of the migration could clear anything.
    assert_eq!(scene.ask(0, "WATCH {k}a"), ok());
    for (from, to) in [(0, 1), (1, 0)] {
        let other = scene.cluster.connect(from, 1);
        let id = start_over(scene, other, to);
        scene.finish(id);
        if to == 1 {
            assert_eq!(scene.ask(1, "SET {k}a 2"), ok());
        }
    }
    queue(scene, 0, &["SET {k}a 3"]);
    assert_eq!(scene.ask(0, "EXEC"), Value::Null, "O2: it was changed elsewhere");
    assert_eq!(scene.ask(0, "GET {k}a"), bulk("2"));
}

#[test]
fn a_watch_does_not_outlive_a_hand_over() {
    for_every_protocol(|mut scene| watch_over_a_hand_over(&mut scene));
}

#[test]
fn what_a_migration_brings_touches_no_watched_key() {
    for_protocols_that(
        |protocol| freezes_first(protocol) && serves_while_it_fills(protocol),
        2,
        |mut scene| {
            scene.fill(keys("{k}", 50));
            let id = scene.start_and_hold(EVERYTHING, 1);
            let to = scene.to[1];
            scene.cluster.send(to, "WATCH {k}7 {k}none");
            scene.cluster.network.release();
            assert_eq!(scene.cluster.reply(to), ok());
            scene.finish(id);
            queue(&mut scene, 1, &["GET {k}7"]);
            assert_eq!(scene.ask(1, "EXEC"), Value::Array(vec![bulk("old-{k}7")]));
        },
    );
}

/// Part of a slot is another node's: a transaction over both parts is one change.
#[test]
fn keys_of_two_nodes_in_one_slot_are_changed_together() {
    let mut scene = Scene::new();
    let (here, there, upper) = pair_in_one_slot();
    scene.ask(0, &format!("MSET {here} 1 {there} 2"));
    let id = scene.start(&upper, 1);
    scene.finish(id);
    for (keys, counts) in [(vec![&here, &there], vec![2, 3]), (vec![&there], vec![4])] {
        assert_eq!(scene.ask(0, "MULTI"), ok());
        for key in keys {
            assert_eq!(scene.ask(0, &format!("INCR {key}")), queued());
        }
        assert_eq!(scene.ask(0, "EXEC"), Value::Array(counts.into_iter().map(int).collect()));
        assert_eq!(scene.ask(0, "EXEC"), error("ERR EXEC without MULTI"));
    }
    let watch = scene.ask(0, &format!("WATCH {there}"));
    assert!(matches!(&watch, Value::Error(text) if text.starts_with("SIDLESPLIT WATCH ")), "{watch:?}");
    assert_eq!(scene.ask(0, &format!("MGET {here} {there}")), Value::Array(vec![bulk("2"), bulk("4")]));
    queue(&mut scene, 0, &[&format!("INCR {here}")]);
    assert_eq!(scene.ask(0, "EXEC"), Value::Array(vec![int(3)]));
    queue(&mut scene, 0, &[&format!("SET {here} 9"), &format!("RENAME {here} {there}")]);
    let reply = scene.ask(0, "EXEC");
    assert!(matches!(&reply, Value::Error(text) if text.starts_with("SIDLESPLIT EXEC ")), "{reply:?}");
    assert_eq!(scene.ask(0, &format!("GET {here}")), bulk("3"), "nothing of it was done");
    assert_eq!(scene.ask(0, "MULTI"), ok());
    assert_eq!(scene.ask(0, &format!("GET {there}")), queued());
    assert_eq!(scene.ask(0, "GET elsewhere"), queued());
    assert_eq!(scene.ask(0, "EXEC"), error("CROSSSLOT Keys in request don't hash to the same slot"));
}

/// What a client wants to be done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Work {
    /// Adds one to a counter that it has read and watches.
    Count,
    /// Moves an amount from one account to another.
    Transfer,
    /// Adds all accounts up, in a transaction or by MGET.
    SumUp { by_exec: bool },
}

/// A client with a connection to each node, which follows redirections.
struct Actor {
    work: Work,
    to: [ClientKey; 2],
    /// Where it believes the keys to be.
    at: usize,
    /// Replies to what it has sent.
    wanted: usize,
    replies: Vec<Value>,
    /// What it read.
    read: Option<i64>,
    done: usize,
    lost: usize,
}

fn account(number: usize) -> String {
    format!("{{bank}}{}", number % ACCOUNTS)
}

impl Actor {
    fn send(&mut self, cluster: &mut TestCluster, requests: Vec<String>) {
        self.wanted = requests.len();
        requests.iter().for_each(|request| cluster.send(self.to[self.at], request));
    }

    fn next(&mut self, cluster: &mut TestCluster) {
        let all = |requests: Vec<String>| [vec!["MULTI".into()], requests, vec!["EXEC".into()]].concat();
        let requests = match (self.work, self.read) {
            (Work::Count, None) => vec!["UNWATCH".into(), "WATCH {bank}n".into(), "GET {bank}n".into()],
            (Work::Count, Some(read)) => all(vec![format!("SET {{bank}}n {}", read + 1)]),
            (Work::Transfer, _) => {
                let (from, to) = (account(self.done), account(self.done * 3 + 1));
                all(vec![format!("DECRBY {from} 3"), format!("INCRBY {to} 3")])
            }
            (Work::SumUp { by_exec: true }, _) => {
                all((0..ACCOUNTS).map(|n| format!("GET {}", account(n))).collect())
            }
            (Work::SumUp { by_exec: false }, _) => {
                vec![format!("MGET {}", (0..ACCOUNTS).map(account).collect::<Vec<_>>().join(" "))]
            }
        };
        self.send(cluster, requests);
    }

    /// Takes in what arrived, and goes on when all of it has.
    fn step(&mut self, cluster: &mut TestCluster) {
        while let Some(reply) = cluster.client(self.to[self.at]).receive() {
            self.replies.push(reply);
        }
        if self.replies.len() < self.wanted {
            return;
        }
        let replies = std::mem::take(&mut self.replies);
        let is_error = |start: &str| {
            replies.iter().any(|reply| matches!(reply, Value::Error(text) if text.starts_with(start)))
        };
        if is_error("MOVED") || is_error("EXECABORT") || is_error("SIDLESPLIT") || is_error("CROSSSLOT") {
            self.at = 1 - self.at;
            self.read = None;
            return self.next(cluster);
        }
        match (self.work, replies.last()) {
            (_, None) => {}
            (Work::Count, Some(value)) if self.read.is_none() => {
                self.read = Some(if *value == Value::Null { 0 } else { number(value) });
            }
            (Work::Count, Some(reply)) => {
                self.read = None;
                match reply {
                    Value::Null => self.lost += 1,
                    Value::Array(elements) if *elements == [ok()] => self.done += 1,
                    other => panic!("{other:?}"),
                }
            }
            (Work::SumUp { .. }, Some(Value::Array(values))) => {
                assert_eq!(values.iter().map(number).sum::<i64>(), ACCOUNTS as i64 * BALANCE, "{values:?}");
                self.done += 1;
            }
            (Work::Transfer, Some(Value::Array(values))) if values.len() == 2 => self.done += 1,
            (work, Some(reply)) => panic!("{work:?}: {reply:?}"),
        }
        self.next(cluster);
    }
}

/// Clients count, transfer and add up while all slots move there and back, twice.
fn work_while_it_moves(scene: &mut Scene) {
    scene.fill(keys("filler", 300));
    for number in 0..ACCOUNTS {
        scene.ask(0, &format!("SET {} {BALANCE}", account(number)));
    }
    let works = [Work::Count, Work::Transfer, Work::SumUp { by_exec: true }, Work::SumUp { by_exec: false }];
    let actor = |work, worker, cluster: &mut TestCluster| Actor {
        work,
        to: [cluster.connect(0, worker), cluster.connect(1, worker)],
        at: 0,
        wanted: 0,
        replies: Vec::new(),
        read: None,
        done: 0,
        lost: 0,
    };
    let cluster = &mut scene.cluster;
    let mut actors: Vec<Actor> =
        works.into_iter().flat_map(|work| [0, 1].map(|worker| actor(work, worker, cluster))).collect();
    let (mut tick, mut rounds_during) = (0, 0);
    for (from, to) in [(0, 1), (1, 0), (0, 1), (1, 0)] {
        let operator = scene.cluster.connect(from, 0);
        let id = start_over(scene, operator, to);
        let mut rounds_after = 0;
        scene.cluster.run_until("it is over", |cluster| {
            for _ in 0..5 {
                tick += 1;
                // Each has its own pace.
                let in_turn = actors.iter_mut().enumerate().filter(|(index, _)| tick % (index + 2) != 0);
                in_turn.for_each(|(_, actor)| actor.step(cluster));
                cluster.settle();
            }
            let is_over = cluster.nodes.iter().all(|node| {
                let table = node.workers[0].ranges();
                table.map().migration(id).is_none() && table.import(id).is_none()
            });
            rounds_after += usize::from(is_over);
            rounds_during += usize::from(!is_over);
            rounds_after > 20
        });
    }
    assert!(rounds_during > 20, "it was over at once: {rounds_during}");
    let done: Vec<_> = actors.iter().map(|actor| (actor.work, actor.done, actor.lost)).collect();
    assert!(done.iter().all(|(_, done, _)| *done > 10), "somebody got nowhere: {done:?}");
    let counted: usize =
        actors.iter().filter(|actor| actor.work == Work::Count).map(|actor| actor.done).sum();
    // Increments whose reply has not been read yet may have been made.
    let value = number(&scene.ask(0, "GET {bank}n")) as usize;
    assert!((counted..=counted + 2).contains(&value), "{value} for {counted}");
    assert!(actors.iter().any(|actor| actor.lost > 0), "nobody was in another's way");
}

#[test]
fn nothing_is_lost_while_it_moves() {
    for_every_protocol(|mut scene| work_while_it_moves(&mut scene));
}
