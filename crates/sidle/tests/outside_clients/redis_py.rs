//! redis-py's cluster client and its plain one, in RESP2 and in RESP3. The work, and the checks of every
//! answer, are in `redis_py_program.py`.

use crate::support::{Node, TestCluster, eventually};
use crate::{Program, Running, errors_sent, fill, move_under_load, text, upper_half};
use serde_json::Value as Json;
use std::io::{BufRead, BufReader, Read, Write};
use std::process::{ChildStdin, ChildStdout, Command, Stdio};

fn python() -> Option<Program> {
    Program::find("SIDLE_TEST_PYTHON", "python3", &["-c", "import redis.cluster"])
}

/// The program at work.
struct AtWork {
    process: Running,
    input: ChildStdin,
    output: BufReader<ChildStdout>,
}

impl AtWork {
    fn start(python: &Program, kind: &str, node: &Node, protocol: &str) -> AtWork {
        let address = node.address();
        let (host, port) = address.rsplit_once(':').expect("host:port");
        let script = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/outside_clients/redis_py_program.py");
        let mut process = Command::new(&python.path)
            .args(["-u", script, kind, host, port, protocol])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("it started before");
        let input = process.stdin.take().expect("standard input is piped");
        let output = BufReader::new(process.stdout.take().expect("standard output is piped"));
        AtWork { process: Running(process), input, output }
    }

    fn ask(&mut self, word: &str) -> String {
        let mut answer = String::new();
        if writeln!(self.input, "{word}").is_ok() {
            self.output.read_line(&mut answer).expect("Python prints text");
        }
        if answer.is_empty() {
            let mut complaints = Vec::new();
            let errors = self.process.0.stderr.as_mut().expect("standard error is piped");
            errors.read_to_end(&mut complaints).expect("a pipe can be read");
            panic!("redis-py met an error or a wrong answer:\n{}", text(&complaints));
        }
        answer
    }

    /// How many answers it has checked so far.
    fn answers(&mut self) -> u64 {
        self.ask("count").trim().parse().expect("a number")
    }

    /// Waits until it has made some progress.
    fn get_on(&mut self) {
        let before = self.answers();
        eventually("redis-py gets on", || (self.answers() > before + 2_000).then_some(()));
    }

    /// Lets it check every key once more, and checks its summary.
    fn finish(mut self) {
        let summary: Json = serde_json::from_str(&self.ask("stop")).expect("the summary is JSON");
        assert_eq!(summary["increments"], summary["counted"], "{summary}");
        assert!(summary["expired"].as_u64() > Some(0), "{summary}");
        let status = self.process.0.wait().expect("a child can be waited for");
        assert!(status.success(), "{status}");
    }
}

/// Whole slots and half a slot move to and fro, under the cluster client.
fn cluster_client_works_through_moves(protocol: &str) {
    let Some(python) = python() else { return };
    let cluster = TestCluster::start(3);
    fill(&mut cluster.client(0));
    let mut at_work = AtWork::start(&python, "cluster", &cluster.nodes[0], protocol);
    at_work.get_on();
    let half = upper_half(12182);
    for (unit, range, target) in [
        ("--slots", "0-8191", 1),
        ("--slots", "8192-16383", 2),
        ("--slots", "4000-8191", 0),
        ("--positions", half.as_str(), 1),
        ("--positions", half.as_str(), 2),
    ] {
        move_under_load(&cluster, unit, range, target, || at_work.answers());
        at_work.get_on();
    }
    at_work.finish();
    assert!(errors_sent(&cluster.nodes[0], "MOVED") > 0, "redis-py was never sent on");
    for node in &cluster.nodes {
        assert_eq!(
            errors_sent(node, "ASK") + errors_sent(node, "CROSSSLOT"),
            0,
            "a split slot is served whole"
        );
    }
}

#[test]
fn cluster_client_works_through_moves_in_resp2() {
    cluster_client_works_through_moves("2");
}

#[test]
fn cluster_client_works_through_moves_in_resp3() {
    cluster_client_works_through_moves("3");
}

#[test]
fn plain_client_names_keys_of_any_slots_at_a_single_owner() {
    let Some(python) = python() else { return };
    let cluster = TestCluster::start(1);
    for protocol in ["2", "3"] {
        let mut at_work = AtWork::start(&python, "plain", &cluster.nodes[0], protocol);
        at_work.get_on();
        at_work.finish();
        let flushed = cluster.client(0).request(&["FLUSHALL"]);
        assert_eq!(flushed, sidle_resp::Value::Simple("OK".into()));
    }
}
