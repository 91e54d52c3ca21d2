//! `redis-benchmark --cluster` goes on, without an error, while slots move to and fro.

use crate::support::{PATIENCE, TestCluster};
use crate::{Program, Running, fill};
use std::fs::File;
use std::time::Instant;

/// How many requests of each kind the first attempt makes; each further one makes four times as many.
const FIRST_REQUESTS: u64 = 100_000;

#[test]
fn redis_benchmark_sees_no_error_while_slots_move() {
    let Some(benchmark) = Program::find("SIDLE_TEST_REDIS_BENCHMARK", "redis-benchmark", &["--version"])
    else {
        return;
    };
    let cluster = TestCluster::start(2);
    fill(&mut cluster.client(0));
    // It gives up on a node without slots when it starts: each node keeps some throughout.
    let id = cluster.start_migration("0-8191", 1);
    assert_eq!(cluster.wait_for_migration(id)["state"], "done");
    let mut requests = FIRST_REQUESTS;
    // The machine's speed shows only afterwards: repeat until the moves fit into the run.
    let begun = Instant::now();
    while !benchmark_outlasts_moves(&benchmark, &cluster, requests) {
        assert!(begun.elapsed() < PATIENCE, "redis-benchmark ends too soon");
        requests *= 4;
    }
}

/// Runs it while slots move; returns whether it was still running when they had moved.
fn benchmark_outlasts_moves(benchmark: &Program, cluster: &TestCluster, requests: u64) -> bool {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let path = folder.path().join("output");
    let output = File::create(&path).expect("the folder is new");
    let process = benchmark
        .command(&cluster.nodes[0])
        .args(["--cluster", "--csv", "-t", "set,get,incr,mset", "-c", "8", "-r", "10000"])
        .args(["-n", &requests.to_string()])
        .stdout(output.try_clone().expect("a file can be shared"))
        .stderr(output)
        .spawn()
        .expect("it started before");
    let mut running = Running(process);
    for target in [1, 0] {
        let id = cluster.start_migration("8192-12287", target);
        assert_eq!(cluster.wait_for_migration(id)["state"], "done");
    }
    let outlasted = running.0.try_wait().expect("a child can be asked").is_none();
    let status = running.0.wait().expect("a child can be waited for");
    let printed = std::fs::read_to_string(&path).expect("it prints text");
    assert!(status.success(), "{status}\n{printed}");
    for line in printed.lines() {
        assert!(!line.to_lowercase().contains("err"), "{printed}");
    }
    for test in ["SET", "GET", "INCR", "MSET (10 keys)"] {
        assert!(printed.contains(&format!("\"{test}\",")), "no result of {test}: {printed}");
    }
    outlasted
}
