//! Nodes that move data on the serving threads: nothing is lost, and no other threads do it.

#![allow(clippy::unwrap_used, clippy::disallowed_methods)]

use sidle_bench::control::{Control, started_migration};
use sidle_bench::load::{ClientKind, Pacing, Plan, World, load_records, read_back};
use sidle_bench::node_process::{NodeProcess, free_port};
use sidle_workload::{Distribution, KeyFormat, ValueFormat, Workload};
use std::path::Path;
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};

const RECORDS: u64 = 20_000;

fn start(folder: &Path, name: &str, flags: &[&str]) -> NodeProcess {
    let (home, port) = (folder.join(name), free_port().unwrap());
    let bus = free_port().unwrap().to_string();
    let port_flag = port.to_string();
    let own =
        ["server", "--stop-with-stdin", "--durability", "none", "--port", &port_flag, "--bus-port", &bus]
            .map(str::to_owned);
    let arguments: Vec<String> = own
        .into_iter()
        .chain(["--dir".to_owned(), home.to_str().unwrap().to_owned()])
        .chain(flags.iter().map(|flag| (*flag).to_owned()))
        .collect();
    let program = Path::new(env!("CARGO_BIN_EXE_sidle-lab"));
    NodeProcess::start(name, program, &arguments, port, &folder.join(format!("{name}.log"))).unwrap()
}

/// The names of a node's threads.
fn threads(node: &NodeProcess) -> Vec<String> {
    let tasks = std::fs::read_dir(format!("/proc/{}/task", node.pid())).unwrap();
    let names = tasks.filter_map(|task| std::fs::read_to_string(task.ok()?.path().join("comm")).ok());
    names.map(|name| name.trim().to_owned()).collect()
}

/// Waits until the node has a thread of this name: a thread names itself.
fn wait_for_thread(node: &NodeProcess, name: &str) {
    let started = Instant::now();
    while !threads(node).contains(&name.to_owned()) {
        assert!(started.elapsed().as_secs() < 30, "there is no {name}: {:?}", threads(node));
        std::thread::sleep(Duration::from_millis(10));
    }
}

fn wait_until_joined(first: &NodeProcess) {
    let started = Instant::now();
    let mut control = Control::connect(&first.address(), None).unwrap();
    while control.status().unwrap().nodes.len() < 2 {
        assert!(started.elapsed().as_secs() < 30, "the second node has not joined");
        std::thread::sleep(Duration::from_millis(10));
    }
}

fn migrate(from: &NodeProcess, to: &NodeProcess) {
    let mut control = Control::connect(&from.address(), None).unwrap();
    let answer = control.call(&["SIDLE.MIGRATE", "START", "SLOTS", "0-8191", "TO", &to.address()]).unwrap();
    let id = started_migration(&answer).unwrap();
    let started = Instant::now();
    loop {
        let status = control.await_end(id, Duration::from_secs(5)).unwrap();
        match status.state.as_str() {
            "done" => return,
            "queued" | "preparing" | "running" if started.elapsed().as_secs() < 60 => {}
            _ => panic!("the move has not ended well: {status:?}"),
        }
    }
}

fn plan(node: &NodeProcess) -> Plan {
    Plan {
        seeds: vec![node.address().parse().unwrap()],
        password: None,
        client: ClientKind::Sidle,
        records: RECORDS,
        keys: KeyFormat::new(30, RECORDS).unwrap(),
        values: ValueFormat::new(100).unwrap(),
        workload: Workload::with_write_ratio(0.0),
        distribution: Distribution::Uniform,
        clients: 4,
        outstanding: 1,
        separate_clients: false,
        tracking: true,
        threads: 1,
        pacing: Pacing::Closed,
        seed: 1,
        moving: None,
    }
}

#[test]
fn migrations_run_on_the_workers_threads_and_lose_nothing() {
    let folder = tempfile::tempdir().unwrap();
    // Two movers beside one worker at one node, beside a worker each at the other.
    let first = start(folder.path(), "first", &["--movers-on-workers", "--movers", "2", "--workers", "1"]);
    let address = first.address();
    let flags = ["--movers-on-workers", "--movers", "2", "--workers", "2", "--join", &address];
    let second = start(folder.path(), "second", &flags);
    wait_until_joined(&first);
    let stop = AtomicBool::new(false);
    let world = World::new(plan(&first), &stop, None);
    assert_eq!(load_records(&world, |_| {}).unwrap().writes, RECORDS);
    for (from, to) in [(&first, &second), (&second, &first), (&first, &second)] {
        migrate(from, to);
    }
    let back = read_back(&world, |_| {}).unwrap();
    assert_eq!((back.reads, back.wrong_values()), (RECORDS, 0));
    for node in [&first, &second] {
        wait_for_thread(node, "worker-0");
        assert!(!threads(node).iter().any(|name| name.starts_with("mover")), "{:?}", threads(node));
    }
    wait_for_thread(&start(folder.path(), "usual", &[]), "mover-0");
}
