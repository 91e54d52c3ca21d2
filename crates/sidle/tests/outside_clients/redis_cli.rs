//! `redis-cli -c` reads and writes across a move and inside a split slot; its cluster commands find nothing
//! wrong.

use crate::support::{Node, StopWhenDropped, TestCluster, eventually};
use crate::{Program, Running, errors_sent, fill, move_under_load, text, upper_half};
use std::collections::{BTreeMap, BTreeSet};
use std::io::{BufRead, BufReader, Write};
use std::process::{ChildStdin, ChildStdout, Stdio};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};

fn redis_cli() -> Option<Program> {
    Program::find("SIDLE_TEST_REDIS_CLI", "redis-cli", &["--version"])
}

/// A redis-cli that is fed one line after the other.
struct Session {
    _process: Running,
    input: ChildStdin,
    output: BufReader<ChildStdout>,
}

impl Session {
    fn start(program: &Program, node: &Node) -> Session {
        let mut command = program.command(node);
        command.arg("-c").stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut process = command.spawn().expect("it started before");
        let input = process.stdin.take().expect("standard input is piped");
        let output = BufReader::new(process.stdout.take().expect("standard output is piped"));
        Session { _process: Running(process), input, output }
    }

    /// Types a line and reads the line of its answer; nil is an empty one.
    fn ask(&mut self, line: &str) -> String {
        writeln!(self.input, "{line}").expect("redis-cli reads");
        loop {
            let mut answer = String::new();
            self.output.read_line(&mut answer).expect("redis-cli answers");
            assert!(answer.ends_with('\n'), "redis-cli ended at {line}");
            answer.pop();
            // It reports every redirection that it follows.
            if !answer.starts_with("-> Redirected to slot [") {
                return answer;
            }
        }
    }

    fn expect(&mut self, line: &str, answer: &str) {
        assert_eq!(self.ask(line), answer, "{line}");
    }
}

/// Makes every kind of access to keys of this form, again and again, until stopped.
fn work(session: &mut Session, form: impl Fn(u64) -> String, stop: &AtomicBool, answers: &AtomicU64) {
    /// How many keys each kind of access has.
    const KEYS: u64 = 50;
    let mut values: BTreeMap<String, String> = BTreeMap::new();
    for turn in 0.. {
        if stop.load(Relaxed) {
            break;
        }
        let name = |kind: &str| format!("{kind}:{}", form(turn % KEYS));
        let round = turn / KEYS;
        session.expect(&format!("INCR {}", name("counter")), &(round + 1).to_string());

        let key = name("string");
        session.expect(&format!("GET {key}"), values.get(&key).map_or("", String::as_str));
        let value = format!("value-{turn}");
        session.expect(&format!("SET {key} {value}"), "OK");
        values.insert(key, value);

        let key = name("appended");
        let value = values.entry(key.clone()).or_default();
        value.push_str("ab");
        session.expect(&format!("APPEND {key} ab"), &value.len().to_string());
        session.expect(&format!("GET {key}"), value);

        // Set in one round, given a deadline in the next, removed in the third.
        let key = name("fleeting");
        match round % 3 {
            0 => session.expect(&format!("SET {key} here NX"), "OK"),
            1 => session.expect(&format!("EXPIRE {key} 1000"), "1"),
            _ => {
                let left: i64 = session.ask(&format!("TTL {key}")).parse().expect("a number");
                assert!((900..=1000).contains(&left), "{key} has {left} s left");
                session.expect(&format!("DEL {key}"), "1");
                session.expect(&format!("EXISTS {key}"), "0");
            }
        }
        answers.fetch_add(1, Relaxed);
    }
    for (key, value) in values {
        session.expect(&format!("GET {key}"), &value);
    }
}

#[test]
fn redis_cli_finds_every_value_while_slots_move() {
    let Some(program) = redis_cli() else { return };
    let cluster = TestCluster::start(2);
    fill(&mut cluster.client(0));
    let (stop, answers) = (AtomicBool::new(false), AtomicU64::new(0));
    std::thread::scope(|scope| {
        let mut session = Session::start(&program, &cluster.nodes[0]);
        let (stop, answers) = (&stop, &answers);
        let stopping = StopWhenDropped(stop);
        let worker = scope.spawn(move || work(&mut session, |n| n.to_string(), stop, answers));
        for (range, target) in [("0-8191", 1), ("8192-16383", 1), ("4000-12000", 0)] {
            move_under_load(&cluster, "--slots", range, target, || answers.load(Relaxed));
        }
        drop(stopping);
        worker.join().expect("redis-cli sees no error and no wrong value");
    });
    assert!(errors_sent(&cluster.nodes[0], "MOVED") > 0, "redis-cli was never sent on");
}

#[test]
fn redis_cli_finds_every_value_inside_a_slot_that_is_split() {
    let Some(program) = redis_cli() else { return };
    let cluster = TestCluster::start(2);
    const SLOT_OF_FOO: u64 = 12182;
    let (stop, answers) = (AtomicBool::new(false), AtomicU64::new(0));
    std::thread::scope(|scope| {
        let mut session = Session::start(&program, &cluster.nodes[0]);
        let (stop, answers) = (&stop, &answers);
        let stopping = StopWhenDropped(stop);
        let worker = scope.spawn(move || work(&mut session, |n| format!("{{foo}}:{n}"), stop, answers));
        eventually("keys of every kind", || (answers.load(Relaxed) > 100).then_some(()));
        for target in [1, 0, 1] {
            let range = upper_half(SLOT_OF_FOO);
            move_under_load(&cluster, "--positions", &range, target, || answers.load(Relaxed));
            let before = answers.load(Relaxed);
            eventually("every key's turn", || (answers.load(Relaxed) > before + 100).then_some(()));
        }
        drop(stopping);
        worker.join().expect("redis-cli sees no error and no wrong value");
    });
    for code in ["ASK", "MOVED", "CROSSSLOT"] {
        assert_eq!(errors_sent(&cluster.nodes[0], code), 0, "{code}: the shown owner serves a split slot");
    }
}

#[test]
fn cluster_commands_find_nothing_wrong() {
    let Some(program) = redis_cli() else { return };
    let cluster = TestCluster::start(3);
    fill(&mut cluster.client(0));
    let check = |node: &Node| {
        let address = node.address();
        let output = program.run(node, &["--cluster", "check", &address]);
        let printed = text(&output.stdout);
        let agreed = "[OK] All nodes agree about slots configuration.";
        let covered = "[OK] All 16384 slots covered.";
        (output.status.success() && printed.contains(agreed) && printed.contains(covered)).then_some(())
    };
    for (unit, range, target) in [
        ("--slots", "0-8191".to_owned(), 1),
        ("--slots", "16000".to_owned(), 2),
        ("--positions", upper_half(9), 2),
    ] {
        let id = cluster.start_migration_of(unit, &range, target);
        // The nodes receive a new map one after the other.
        for node in &cluster.nodes {
            eventually("redis-cli --cluster check finds nothing wrong", || check(node));
        }
        assert_eq!(cluster.wait_for_migration(id)["state"], "done");
        for node in &cluster.nodes {
            eventually("redis-cli --cluster check finds nothing wrong", || check(node));
        }
    }
    let address = cluster.nodes[1].address();
    let printed = text(&program.run(&cluster.nodes[1], &["--cluster", "info", &address]).stdout);
    assert!(printed.contains("[OK] 60000 keys in 3 masters."), "{printed}");
    for (node, slots) in cluster.nodes.iter().zip([8191, 8192, 1]) {
        let shown = printed.lines().find(|line| line.starts_with(&node.address()));
        assert!(shown.is_some_and(|line| line.contains(&format!("| {slots} slots |"))), "{printed}");
    }
}

#[test]
fn cluster_nodes_are_the_same_wherever_they_are_asked_for() {
    let Some(program) = redis_cli() else { return };
    let cluster = TestCluster::start(3);
    let id = cluster.start_migration("5-8191", 1);
    assert_eq!(cluster.wait_for_migration(id)["state"], "done");
    // The "myself" line and the times of the last ping are each node's own.
    let table = |node: &Node| -> Vec<Vec<String>> {
        let printed = text(&program.run(node, &["CLUSTER", "NODES"]).stdout);
        assert_eq!(printed.matches("myself,").count(), 1, "{printed}");
        let lines = printed.lines().filter(|line| !line.is_empty());
        lines
            .map(|line| line.replace("myself,", "").split(' ').map(str::to_owned).collect::<Vec<_>>())
            .map(|words| [&words[..4], &words[6..]].concat())
            .collect()
    };
    eventually("the nodes tell the same", || {
        let tables: Vec<_> = cluster.nodes.iter().map(table).collect();
        tables.iter().all(|table| *table == tables[0]).then_some(())
    });
}

#[test]
fn scan_finds_every_key_before_during_and_after_a_move() {
    let Some(program) = redis_cli() else { return };
    let cluster = TestCluster::start(2);
    fill(&mut cluster.client(0));
    let all: BTreeSet<String> = (0..60_000).map(|n| format!("filler:{n}")).collect();
    let scan = |index: usize| -> Vec<String> {
        let output = program.run(&cluster.nodes[index], &["--scan", "--pattern", "filler:*"]);
        assert!(output.status.success(), "{output:?}");
        text(&output.stdout).lines().map(str::to_owned).collect()
    };
    let before = scan(0);
    assert_eq!(before.len(), all.len(), "no key is listed twice where nothing moves");
    assert!(BTreeSet::from_iter(before) == all);
    let id = cluster.start_migration("0-16383", 1);
    eventually("the target owns the keys", || {
        let state = cluster.migration(id)?["state"].clone();
        (state == "running" || state == "done").then_some(())
    });
    let during = eventually("the target lists keys", || Some(scan(1)).filter(|keys| !keys.is_empty()));
    assert!(BTreeSet::from_iter(during) == all, "a scan at the target waits for what has not arrived");
    assert_eq!(cluster.wait_for_migration(id)["state"], "done");
    let after = scan(1);
    assert_eq!(after.len(), all.len());
    assert!(BTreeSet::from_iter(after) == all);
    assert_eq!(scan(0), Vec::<String>::new());
}
