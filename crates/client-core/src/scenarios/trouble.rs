//! Broken connections, missing answers.

use super::*;

#[test]
fn a_cut_connection_leaves_writes_unknown_and_reads_retried() {
    let mut script = Script::new(still(1, 1));
    script.write(1, &["SET", "k", "v"]);
    script.get(2, "k");
    let key = Destination::Key(HashedKey::new(b"k"));
    script.core.submit(script.now, 3, Class::Read, key, &[b"STRLEN", b"k"]).unwrap();
    script.settle();
    // Accepted, but unsent when the connection is cut: it had no effect.
    script.core.submit(script.now, 4, Class::Write, key, &[b"INCR", b"k"]).unwrap();
    script.cut(script.line_to(1));
    assert_eq!(script.ended(), ended(1, "ConnectionLost Unknown"));
    script.pass(10_000);
    let mut asked = script.asked(1);
    asked.sort_unstable();
    assert_eq!(asked, ["GET k", "INCR k", "STRLEN k"]);
}

#[test]
fn timeouts_report_the_effect() {
    let mut script = Script::new(still(1, 1));
    script.write(1, &["SET", "k", "v"]);
    script.get(2, "k");
    script.down.insert(1);
    script.pass(Config::OPERATION_TIMEOUT_US);
    let mut outcomes = script.ended();
    outcomes.sort_unstable();
    assert_eq!(outcomes, [(1, "TimedOut Unknown".to_owned()), (2, "TimedOut None".to_owned())]);
    // The node had been silent since: its connection was given up, and new requests never leave.
    script.write(3, &["SET", "k", "v"]);
    script.pass(Config::OPERATION_TIMEOUT_US);
    assert_eq!(script.ended(), ended(3, "TimedOut None"));
    script.down.clear();
    script.pass(1_000_000);
    script.write(4, &["SET", "k", "v"]);
    script.answer(1, "+OK\r\n");
    assert_eq!(script.ended(), ended(4, "OK"));
}

#[test]
fn a_late_answer_to_a_timed_out_operation_belongs_to_nobody() {
    let mut script = Script::new(still(1, 1));
    script.get(1, "slow");
    script.pass(Config::OPERATION_TIMEOUT_US / 2);
    script.get(2, "next");
    script.push(1, ">2\r\n+sidle-map\r\n:1\r\n");
    script.pass(Config::OPERATION_TIMEOUT_US / 2);
    assert_eq!(script.ended(), ended(1, "TimedOut None"));
    script.get(3, "third");
    script.answer(1, &bulk("slow"));
    script.answer(1, &bulk("next"));
    script.answer(1, &bulk("third"));
    assert_eq!(script.ended(), [(2, "next".to_owned()), (3, "third".to_owned())]);
}

#[test]
fn an_owner_that_is_gone_is_looked_for_in_a_newer_map() {
    let mut script = Script::new(map(1, 2, &[(0, 1, 1), (1, 2, 1)], vec![]));
    script.get(1, "warm up both");
    script.answer(2, "_\r\n");
    script.ended();
    script.map = still(2, 1);
    script.down.insert(2);
    script.cut(script.line_to(2));
    script.get(2, "k");
    script.pass(50_000);
    assert_eq!(script.asked(1), ["GET k"]);
}

#[test]
fn garbage_closes_the_connection_and_the_read_goes_on() {
    let mut script = Script::new(still(1, 1));
    script.get(1, "k");
    script.answer(1, "nonsense\r\n");
    script.pass(10_000);
    assert_eq!(script.asked(1), ["GET k"]);
    script.answer(1, &bulk("v"));
    assert_eq!(script.ended(), ended(1, "v"));
    script.push(1, "+unasked\r\n");
    script.pass(10_000);
    script.get(2, "k");
    script.answer(1, &bulk("v"));
    assert_eq!(script.ended(), ended(2, "v"));
}

#[test]
fn more_than_the_limit_is_refused() {
    let mut script = Script::with(still(1, 1), |config| config.max_outstanding = 2);
    script.get(1, "a");
    script.get(2, "b");
    assert!(script.core.get(script.now, 3, HashedKey::new(b"c")).is_err());
    script.answer(1, "_\r\n");
    script.get(3, "c");
    assert_eq!(script.core.outstanding(), 2);
}

fn submit_once(script: &mut Script, token: u64, may_have_run: bool) {
    let key = Destination::Key(HashedKey::new(b"k"));
    let class = Class::Once { may_have_run };
    script.core.submit(script.now, token, class, key, &[b"SIDLE.ONCE", b"k"]).unwrap();
    script.settle();
}

/// What an earlier attempt did is told by the node that looks, and not by one that refuses before.
#[test]
fn what_runs_once_is_sent_again_and_may_have_run_until_a_node_has_looked() {
    let mut script = Script::new(still(1, 1));
    submit_once(&mut script, 1, false);
    assert_eq!(script.asked(1), ["SIDLE.ONCE k"]);
    script.cut(script.line_to(1));
    script.pass(10_000);
    assert_eq!(script.asked(1), ["SIDLE.ONCE k"]);
    script.answer(1, "-NOREPLICAS Not enough good replicas to write.\r\n");
    script.pass(10_000);
    assert_eq!(script.asked(1), ["SIDLE.ONCE k"]);
    script.answer(1, ":1\r\n");
    assert_eq!(script.ended(), ended(1, "Integer(1)"));
    // The first attempt of an operation is refused at once.
    submit_once(&mut script, 2, false);
    script.answer(1, "-NOREPLICAS Not enough good replicas to write.\r\n");
    assert_eq!(script.ended(), ended(2, "-NOREPLICAS Not enough good replicas to write."));
    // A node that asked another one lost its answer.
    submit_once(&mut script, 5, false);
    script.answer(1, "-SIDLEUNKNOWN node 2 did not answer\r\n");
    script.pass(10_000);
    assert_eq!(script.asked(1), ["SIDLE.ONCE k"]);
    script.answer(1, ":5\r\n");
    assert_eq!(script.ended(), ended(5, "Integer(5)"));
    // Nobody knows it any more: to send it again would not help.
    submit_once(&mut script, 6, true);
    script.answer(1, "-SIDLELATE issued long ago\r\n");
    assert_eq!(script.ended(), ended(6, "-SIDLELATE issued long ago"));
    // Lost, and then nobody answers in time, or only refuses.
    for (token, may_have_run) in [(3, false), (4, true)] {
        submit_once(&mut script, token, may_have_run);
        if !may_have_run {
            script.cut(script.line_to(1));
            script.pass(10_000);
        }
        assert!(!script.asked(1).is_empty());
        script.answer(1, "-LOADING Redis is loading the dataset in memory\r\n");
        script.pass(Config::OPERATION_TIMEOUT_US);
        assert_eq!(script.ended(), ended(token, "TimedOut Unknown"));
        script.pass(1_000_000);
        script.asked(1);
    }
}
