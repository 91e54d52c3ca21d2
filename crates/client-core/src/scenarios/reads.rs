//! Reads of a moving range: every order of answers, and the knowledge from them.

use super::*;

/// A node's step in a double read.
enum Step {
    Target(&'static str),
    Source(&'static str),
    CutTarget,
    CutSource,
}
use Step::{CutSource, CutTarget, Source, Target};

/// A double read under every order of answers: what ends it, or nothing if it continues.
#[test]
fn double_read_table() {
    const VALUE: &str = "$3\r\nold\r\n";
    const NEW: &str = "$3\r\nnew\r\n";
    for (name, steps, outcome) in [
        ("source first, then empty", &[Source(VALUE), Target(EMPTY)][..], Some("old")),
        ("empty, then source", &[Target(EMPTY), Source(VALUE)], Some("old")),
        ("absent at the source", &[Source("_\r\n"), Target(EMPTY)], Some("null")),
        ("empty, then absent at the source", &[Target(EMPTY), Source("_\r\n")], Some("null")),
        ("target value first", &[Target(NEW)], Some("new")),
        ("target value after the source's", &[Source(VALUE), Target(NEW)], Some("new")),
        ("absent at the target", &[Source(VALUE), Target("_\r\n")], Some("null")),
        ("empty string is a value", &[Source(VALUE), Target("$0\r\n\r\n")], Some("")),
        ("the value EMPTY is a value", &[Source(VALUE), Target("$5\r\nEMPTY\r\n")], Some("EMPTY")),
        ("source alone is not enough", &[Source(VALUE)], None),
        ("empty alone is not enough", &[Target(EMPTY)], None),
        ("done, then the target's value", &[Source(DONE), Target(NEW)], Some("new")),
        ("empty and done", &[Target(EMPTY), Source(DONE)], None),
        ("done and empty", &[Source(DONE), Target(EMPTY)], None),
        ("empty and not frozen", &[Target(EMPTY), Source(NOT_FROZEN)], None),
        ("not frozen and empty", &[Source(NOT_FROZEN), Target(EMPTY)], None),
        ("empty, source cut", &[Target(EMPTY), CutSource], None),
        ("source cut, target value", &[CutSource, Target(NEW)], Some("new")),
        ("source cut, empty", &[CutSource, Target(EMPTY)], None),
        ("source value, target cut", &[Source(VALUE), CutTarget], None),
        ("empty of this migration", &[Source(VALUE), Target("+EMPTY 1\r\n")], Some("old")),
        ("empty of another migration", &[Source(VALUE), Target("+EMPTY 3\r\n")], None),
        ("error of the target", &[Source(VALUE), Target("-ERR no\r\n")], Some("-ERR no")),
        ("error of the source", &[Source("-ERR no\r\n"), Target(EMPTY)], None),
        ("moved", &[Source(VALUE), Target("-MOVED 1 10.0.0.2:7000\r\n")], None),
        ("loading", &[Source(VALUE), Target("-LOADING\r\n")], None),
    ] {
        let mut script = Script::new(moving());
        script.get(1, "k");
        assert_eq!(script.asked(2), ["GET k"]);
        assert_eq!(script.asked(1), ["SIDLE.FROZEN 1 GET k"]);
        for step in steps {
            match *step {
                Target(reply) => script.answer(2, reply),
                Source(reply) => script.answer(1, reply),
                CutTarget => script.cut(script.line_to(2)),
                CutSource => script.cut(script.line_to(1)),
            }
        }
        let expected: Vec<_> = outcome.iter().map(|outcome| (1, outcome.to_string())).collect();
        assert_eq!(script.ended(), expected, "{name}");
        assert_eq!(script.core.outstanding(), usize::from(outcome.is_none()), "{name}");
    }
}

/// After any sequence, another attempt ends a double read.
#[test]
fn every_undecided_read_ends_with_the_next_attempt() {
    for steps in [
        [Target(EMPTY), Source(DONE)],
        [Target(EMPTY), Source(NOT_FROZEN)],
        [Target(EMPTY), CutSource],
        [Source("$3\r\nold\r\n"), CutTarget],
        [Source("$3\r\nold\r\n"), Target("-MOVED 1 10.0.0.2:7000\r\n")],
        [Source("$3\r\nold\r\n"), Target("-LOADING\r\n")],
        [Source("$3\r\nold\r\n"), Target("+EMPTY 3\r\n")],
    ] {
        let mut script = Script::new(moving());
        script.get(1, "k");
        // From now on the migration is over.
        script.map = still(3, 2);
        for step in steps {
            match step {
                Target(reply) => script.answer(2, reply),
                Source(reply) => script.answer(1, reply),
                CutTarget => script.cut(script.line_to(2)),
                CutSource => script.cut(script.line_to(1)),
            }
        }
        script.pass(100_000);
        while !script.asked(2).is_empty() {
            script.answer(2, &bulk("new"));
        }
        assert_eq!(script.ended(), ended(1, "new"));
        assert!(script.core.counters().retries > 0);
    }
}

#[test]
fn answers_of_an_attempt_given_up_do_not_count() {
    let mut script = Script::new(moving());
    script.get(1, "k");
    script.answer(2, "-MOVED 1 10.0.0.2:7000\r\n");
    // The first attempt's source value arrives after the second attempt's "not here yet".
    script.answer(2, EMPTY);
    script.answer(1, &bulk("stale"));
    assert!(script.ended().is_empty());
    script.pass(50_000);
    script.answer(2, EMPTY);
    script.answer(1, &bulk("old"));
    assert_eq!(script.ended(), ended(1, "old"));
}

#[test]
fn what_the_target_answered_is_read_there_alone() {
    let mut script = Script::new(moving());
    script.get(1, "k");
    script.answer(2, &bulk("v"));
    script.answer(1, &bulk("v"));
    script.write(2, &["SET", "w", "1"]);
    assert_eq!(script.asked(2), ["SET w 1"]);
    script.answer(2, "+OK\r\n");
    script.write(3, &["SET", "full", "1"]);
    script.answer(2, "-OOM command not allowed\r\n");
    for (key, is_single) in [("k", true), ("w", true), ("full", false), ("other", false)] {
        script.get(4, key);
        assert_eq!(script.asked(1).is_empty(), is_single, "{key}");
        script.answer(2, &bulk("v"));
        if !is_single {
            script.answer(1, &bulk("v"));
        }
    }
    let counters = script.core.counters();
    assert_eq!((counters.double_reads, counters.single_target_reads), (3, 2));
    assert!(script.core.sph_bytes() > 0);
}

#[test]
fn nothing_is_remembered_where_the_source_answers_no_reads() {
    let mut record = running(1, range(0, u64::MAX), 1, 2, 2);
    record.frozen_reads = false;
    let mut script = Script::new(map(2, 2, &[(0, 2, 2)], vec![record]));
    script.get(1, "k");
    script.answer(2, &bulk("v"));
    script.write(2, &["SET", "w", "1"]);
    script.answer(2, "+OK\r\n");
    assert!(script.asked(1).is_empty());
    assert_eq!(script.core.sph_bytes(), 0);
}

/// The node of each answer, beside the outcomes.
#[derive(Default)]
struct Answerers(Vec<(Token, usize)>);

impl crate::Completions for Answerers {
    fn answered_by(&mut self, token: Token, node: usize) {
        self.0.push((token, node));
    }

    fn completed(&mut self, token: Token, _: Outcome<'_>) {
        assert_eq!(self.0.last().map(|&(answered, _)| answered), Some(token), "reported first");
    }
}

#[test]
fn the_node_whose_answer_was_taken_is_reported() {
    let mut script = Script::new(moving());
    let mut answerers = Answerers::default();
    let mut answer = |script: &mut Script, node: u8, reply: &str| {
        let index = script.line_to(node);
        let line = script.lines.get_mut(&index).unwrap();
        line.asked.pop_front().unwrap();
        script.core.received(script.now, line.connection, reply.as_bytes(), &mut answerers);
    };
    // The target's value; the source's, which arrived first; the source's, which arrived last.
    let orders = [[(2, bulk("v")), (1, bulk("old"))], [(1, bulk("old")), (2, EMPTY.to_owned())]];
    let last = [(2, EMPTY.to_owned()), (1, bulk("old"))];
    for (token, answers) in orders.iter().chain([&last]).enumerate() {
        script.get(token as Token, &format!("key{token}"));
        script.settle();
        for (node, reply) in answers {
            answer(&mut script, *node, reply);
        }
    }
    let nodes: Vec<&str> = script.core.nodes().map(|address| address.host()).collect();
    let hosts: Vec<(Token, &str)> = answerers.0.iter().map(|&(token, node)| (token, nodes[node])).collect();
    let (source, target) = (address(1), address(2));
    assert_eq!(hosts, [(0, target.host()), (1, source.host()), (2, source.host())]);
}

#[test]
fn without_tracking_every_read_asks_both() {
    let mut script = Script::with(moving(), |config| config.tracking = false);
    for token in 1..=3 {
        script.get(token, "k");
        assert_eq!(script.asked(1).len(), 1, "the knowledge is not used");
        script.answer(2, &bulk("v"));
        script.answer(1, &bulk("v"));
    }
    let counters = script.core.counters();
    assert_eq!((counters.double_reads, counters.single_target_reads), (3, 0));
    assert_eq!(script.ended().len(), 3);
}

#[test]
fn a_wrong_entry_costs_a_second_trip_and_nothing_else() {
    let mut script = Script::new(moving());
    script.get(1, "k");
    script.answer(2, &bulk("v"));
    script.answer(1, &bulk("v"));
    script.get(2, "k");
    assert!(script.asked(1).is_empty());
    // As if the target had another key of the same position, and not this one.
    script.answer(2, EMPTY);
    assert_eq!(script.asked(1), ["SIDLE.FROZEN 1 GET k"]);
    script.answer(1, &bulk("old"));
    assert_eq!(script.ended(), [(1, "v".to_owned()), (2, "old".to_owned())]);
    assert_eq!(script.core.counters().single_source_reads, 1);
}

#[test]
fn progress_saves_the_second_request() {
    let mut script = Script::new(moving());
    let attribute = |text: &str| format!("|1\r\n+sidle-progress\r\n*2\r\n:1\r\n{}", bulk(text));
    script.write(1, &["SET", "x", "1"]);
    script.answer(2, &(attribute("0x8000000000000000") + "+OK\r\n"));
    for (token, key) in (2..).zip(["a", "b", "c", "d", "e", "f"]) {
        script.get(token, key);
        let has_arrived = Position::of_key(key.as_bytes()) < Position(1 << 63);
        assert_eq!(script.asked(1).is_empty(), has_arrived, "{key}");
        script.answer(2, &bulk("v"));
        if !has_arrived {
            script.answer(1, &bulk("v"));
        }
    }
    script.write(8, &["SET", "x", "1"]);
    script.answer(2, &(attribute("done") + "+OK\r\n"));
    script.get(9, "anything");
    assert!(script.asked(1).is_empty());
    script.answer(2, &bulk("v"));
    assert_eq!(script.core.counters().progress_reports, 2);
}

#[test]
fn progress_of_an_unknown_migration_or_shape_is_ignored() {
    let mut script = Script::new(moving());
    for attribute in [
        "|1\r\n+sidle-progress\r\n*2\r\n:9\r\n+done\r\n",
        "|1\r\n+sidle-progress\r\n*3\r\n:1\r\n+done\r\n+done\r\n",
        "|1\r\n+sidle-progress\r\n*2\r\n:1\r\n:5\r\n",
        "|1\r\n+sidle-progress\r\n*2\r\n:1\r\n+nonsense\r\n",
        "|1\r\n+sidle-progress\r\n*1\r\n:1\r\n",
        "|1\r\n+sidle-progress\r\n+done\r\n",
        "|1\r\n+key-popularity\r\n:1\r\n",
    ] {
        script.write(1, &["SET", "x", "1"]);
        script.answer(2, &format!("{attribute}+OK\r\n"));
        script.get(2, "y");
        assert_eq!(script.asked(1).len(), 1, "{attribute:?}");
        script.answer(1, &bulk("v"));
        script.answer(2, EMPTY);
    }
}

#[test]
fn bytes_beyond_one_request_and_reply_are_counted() {
    let mut script = Script::new(moving());
    script.write(0, &["SET", "w", "1"]);
    script.answer(2, "+OK\r\n");
    let before = script.core.counters();
    script.get(1, "k");
    script.answer(1, &bulk("old"));
    script.answer(2, EMPTY);
    let after = script.core.counters();
    let frozen = "*4\r\n$12\r\nSIDLE.FROZEN\r\n$1\r\n1\r\n$3\r\nGET\r\n$1\r\nk\r\n".len() as u64;
    assert_eq!(after.extra_request_bytes - before.extra_request_bytes, frozen);
    assert_eq!(after.extra_reply_bytes - before.extra_reply_bytes, EMPTY.len() as u64);
    script.get(2, "k");
    script.answer(1, &bulk("old"));
    script.answer(2, &bulk("new"));
    let last = script.core.counters();
    assert_eq!(last.extra_reply_bytes - after.extra_reply_bytes, bulk("old").len() as u64);
}
