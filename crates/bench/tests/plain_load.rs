//! The load generator against an outside server, as a plain client. Skipped without a `redis-server`.

#![allow(clippy::unwrap_used, clippy::disallowed_methods)]

use sidle_bench::control::Control;
use sidle_bench::load::{
    ClientKind, HistoryFile, Pacing, Plan, World, load_records, read_back, run_workload,
};
use sidle_bench::node_process::{NodeProcess, free_port};
use sidle_history::{CheckOptions, check, read};
use sidle_workload::{Distribution, KeyFormat, ValueFormat};
use std::ops::ControlFlow;
use std::path::Path;
use std::sync::atomic::AtomicBool;

const RECORDS: u64 = 2_000;

fn redis(folder: &Path) -> Option<NodeProcess> {
    let program = Path::new("/usr/bin/redis-server");
    if !program.exists() {
        eprintln!("skipped: there is no {}", program.display());
        return None;
    }
    let port = free_port().unwrap();
    let arguments = ["--port", &port.to_string(), "--save", "", "--dir", &folder.display().to_string()];
    let arguments: Vec<String> = arguments.iter().map(ToString::to_string).collect();
    let log = folder.join("redis.log");
    Some(NodeProcess::start("redis-server", program, &arguments, port, &log).unwrap())
}

fn plan(node: &NodeProcess, pacing: Pacing) -> Plan {
    Plan {
        seeds: vec![node.address().parse().unwrap()],
        password: None,
        client: ClientKind::Plain,
        records: RECORDS,
        keys: KeyFormat::new(30, RECORDS).unwrap(),
        values: ValueFormat::new(100).unwrap(),
        workload: "a".parse().unwrap(),
        distribution: Distribution::Zipf(0.99),
        clients: 3,
        outstanding: 8,
        tracking: true,
        separate_clients: pacing == Pacing::Batches,
        threads: 2,
        pacing,
        seed: 7,
        moving: None,
    }
}

#[test]
fn closed_loop_reads_back_all_that_it_wrote() {
    let folder = tempfile::tempdir().unwrap();
    let Some(node) = redis(folder.path()) else { return };
    let stop = AtomicBool::new(false);
    let path = folder.path().join("history.jsonl");
    let history = HistoryFile::create(&path).unwrap();
    let world = World::new(plan(&node, Pacing::Closed), &stop, Some(history));

    let loaded = load_records(&world, |_| {}).unwrap();
    assert_eq!((loaded.writes, loaded.errors.len()), (RECORDS, 0), "{loaded:?}");
    let measured = run_workload(&world, None, |tick, _| match tick.elapsed_ns > 500_000_000 {
        true => ControlFlow::Break(()),
        false => ControlFlow::Continue(()),
    })
    .unwrap();
    assert!(measured.totals.reads > 0 && measured.totals.writes > 0);
    assert_eq!(
        (measured.totals.wrong_values(), measured.totals.errors.len()),
        (0, 0),
        "{:?}",
        measured.totals
    );
    assert!((3..=6).contains(&measured.timeline.len()));
    let back = read_back(&world, |_| {}).unwrap();
    assert_eq!((back.reads, back.wrong_values()), (RECORDS, 0), "{back:?}");

    let operations = RECORDS * 2 + measured.totals.reads + measured.totals.writes;
    world.history.unwrap().finish().unwrap();
    let file = std::io::BufReader::new(std::fs::File::open(path).unwrap());
    let history: Vec<_> = read(file).collect::<Result<_, _>>().unwrap();
    assert_eq!(history.len() as u64, operations);
    let report = check(&history, CheckOptions::default());
    assert!(report.is_linearizable(), "{report}");
}

#[test]
fn open_loop_keeps_its_rate() {
    let folder = tempfile::tempdir().unwrap();
    let Some(node) = redis(folder.path()) else { return };
    let stop = AtomicBool::new(false);
    let world = World::new(plan(&node, Pacing::Open(2_000.0)), &stop, None);
    load_records(&world, |_| {}).unwrap();
    let measured = run_workload(&world, None, |tick, _| match tick.elapsed_ns > 1_000_000_000 {
        true => ControlFlow::Break(()),
        false => ControlFlow::Continue(()),
    })
    .unwrap();
    let operations = measured.totals.reads + measured.totals.writes;
    // Late is fine on a busy machine; more than requested never is.
    assert!((100..=2_200).contains(&operations), "{operations}");
    assert_eq!(measured.totals.wrong_values(), 0);
}

#[test]
fn values_of_somebody_else_are_noticed() {
    let folder = tempfile::tempdir().unwrap();
    let Some(node) = redis(folder.path()) else { return };
    let stop = AtomicBool::new(false);
    let world = World::new(plan(&node, Pacing::Closed), &stop, None);
    load_records(&world, |_| {}).unwrap();
    let mut control = Control::connect(&node.address(), None).unwrap();
    let key = |record| String::from_utf8(world.plan.keys.key(record)).unwrap();
    control.call(&["SET", &key(5), "torn"]).unwrap();
    control.call(&["DEL", &key(6)]).unwrap();
    control.call(&["COPY", &key(8), &key(7), "REPLACE"]).unwrap();
    let back = read_back(&world, |_| {}).unwrap();
    let wrong: Vec<(&str, u64)> = back.wrong.iter().map(|(kind, &count)| (kind.as_str(), count)).collect();
    assert_eq!(wrong, [("missing", 1), ("other_record", 1), ("torn", 1)]);
    assert_eq!(back.samples.len(), 3);
}

#[test]
fn what_could_not_be_read_back_is_asked_for_again() {
    let folder = tempfile::tempdir().unwrap();
    let Some(node) = redis(folder.path()) else { return };
    let stop = AtomicBool::new(false);
    let world = World::new(plan(&node, Pacing::Closed), &stop, None);
    load_records(&world, |_| {}).unwrap();
    let mut control = Control::connect(&node.address(), None).unwrap();
    let key = |record| String::from_utf8(world.plan.keys.key(record)).unwrap();
    let [healed, lasting] = [5, 6].map(key);
    // Anything but a string gets an error.
    for key in [&healed, &lasting] {
        control.call(&["RENAME", key, &format!("{key} kept")]).unwrap();
        control.call(&["LPUSH", key, "in the way"]).unwrap();
    }
    // The first connections are refused, which is a trouble.
    control.call(&["CONFIG", "SET", "requirepass", "for a moment"]).unwrap();
    let back = std::thread::scope(|scope| {
        scope.spawn(|| {
            let until_refused = |control: &mut Control, code: &str, times: u64| {
                let is_line =
                    |line: &str| line.strip_prefix(&format!("errorstat_{code}:count="))?.parse().ok();
                while control.text(&["INFO", "errorstats"]).unwrap().lines().find_map(is_line) < Some(times) {
                    std::thread::sleep(std::time::Duration::from_millis(10));
                }
            };
            until_refused(&mut control, "NOAUTH", 1);
            control.call(&["CONFIG", "SET", "requirepass", ""]).unwrap();
            until_refused(&mut control, "WRONGTYPE", 2);
            control.call(&["RENAME", &format!("{healed} kept"), &healed]).unwrap();
        });
        read_back(&world, |_| {}).unwrap()
    });
    assert_eq!((back.reads, back.wrong_values()), (RECORDS - 1, 0), "{back:?}");
    let errors: Vec<_> = back.errors.iter().collect();
    assert_eq!(errors, [(&"WRONGTYPE".to_owned(), &1)], "what was answered after all is no error");
    assert_eq!(back.missed, [6]);
    assert!(back.troubles.is_empty(), "nor is it a trouble: {:?}", back.troubles);
}

#[test]
fn a_server_that_goes_away_leaves_writes_unknown_not_lost() {
    let folder = tempfile::tempdir().unwrap();
    let Some(node) = redis(folder.path()) else { return };
    let stop = AtomicBool::new(false);
    let path = folder.path().join("history.jsonl");
    let history = HistoryFile::create(&path).unwrap();
    let world = World::new(plan(&node, Pacing::Closed), &stop, Some(history));
    load_records(&world, |_| {}).unwrap();
    let mut node = Some(node);
    let measured = run_workload(&world, None, |tick, _| {
        if tick.elapsed_ns > 200_000_000 {
            node = None;
        }
        match tick.elapsed_ns > 400_000_000 {
            true => ControlFlow::Break(()),
            false => ControlFlow::Continue(()),
        }
    })
    .unwrap();
    assert!(measured.totals.errors.values().sum::<u64>() > 0, "{:?}", measured.totals);
    assert_eq!(measured.totals.wrong_values(), 0);
    world.history.unwrap().finish().unwrap();
    let file = std::io::BufReader::new(std::fs::File::open(path).unwrap());
    let history: Vec<_> = read(file).collect::<Result<_, _>>().unwrap();
    let report = check(&history, CheckOptions::default());
    assert!(report.unknown > 0 && report.is_linearizable(), "{report}");
}
