//! Several sessions, aware and unaware, at random while ranges move there and back, and links break and are
//! slow. The linearizability checker judges their histories. One seed draws everything.
//!
//! The injected faults at the end prove the judge: each history with the fault fails, and the same seed
//! without it passes.

mod bare;
mod draw;
mod library;
mod nemesis;
mod split;

use crate::common::{Scene, keys};
use bare::BareSession;
use draw::Draw;
use library::LibrarySession;
use nemesis::Nemesis;
use sidle_client_core::{Awareness, Counters};
use sidle_history::{CheckOptions, Datum, Op, Operation, Outcome, Report, check};
use sidle_migration::PROTOCOLS;
use sidle_node::testing::{ClusterSetup, TestCluster};
use sidle_resp::Value;
use sidle_types::Fault;

/// Sessions driven by hand, every other one aware.
const HAND_SESSIONS: u64 = 3;
/// Sessions of the client library, the first ones aware.
const LIBRARY_SESSIONS: u64 = 3;
const UNAWARE_LIBRARY_SESSIONS: u64 = 1;
/// The most connections to each node of a library session; each seed has sessions with one and with more.
const MAX_CONNECTIONS_PER_NODE: usize = 3;
/// Operations of each session.
const OPERATIONS: u64 = 100;

/// Seeds without faults.
const GOOD_SEEDS: u64 = 200;
/// Seeds without faults of each protocol.
const SEEDS_OF_EACH: u64 = 80;
/// The judge has to find a fault within so many seeds.
const SEEDS_UNTIL_SEEN: u64 = 100;

/// The result of one seed.
#[derive(Debug, PartialEq)]
struct Run {
    report: Report,
    /// The final map epoch: it grows twice with every migration.
    epoch: u64,
    /// Of the library's aware sessions.
    clients: Vec<Counters>,
}

fn run(seed: u64) -> Run {
    run_by("fulva", seed)
}

fn run_by(protocol: &'static str, seed: u64) -> Run {
    let mut draw = Draw::new(seed);
    let mut cluster = TestCluster::new(ClusterSetup::default());
    let mut by_hand: Vec<BareSession> =
        (0..HAND_SESSIONS).map(|number| BareSession::new(&mut cluster, number, OPERATIONS)).collect();
    let library = |index: u64| {
        let is_aware = index < LIBRARY_SESSIONS - UNAWARE_LIBRARY_SESSIONS;
        let awareness = if is_aware { Awareness::Sidle } else { Awareness::Plain };
        let connections = 1 + (seed + index) as usize % MAX_CONNECTIONS_PER_NODE;
        LibrarySession::new(HAND_SESSIONS + index, OPERATIONS, awareness, connections)
    };
    let mut libraries: Vec<LibrarySession> = (0..LIBRARY_SESSIONS).map(library).collect();
    let mut nemesis = Nemesis::new(&mut cluster, protocol);
    let mut history = Vec::new();
    let limit_us = cluster.now().mono.0 + 60_000_000;
    while !by_hand.iter().all(BareSession::is_over) || !libraries.iter().all(LibrarySession::is_over) {
        assert!(cluster.now().mono.0 < limit_us, "seed {seed}: some operation never ends");
        // Requests first: they are there before any node's message of the same instant is handled.
        by_hand.iter_mut().for_each(|session| session.step_requests(&mut cluster, &mut draw));
        libraries.iter_mut().for_each(|session| session.step_requests(&mut cluster, &mut draw, &mut history));
        cluster.settle();
        by_hand.iter_mut().for_each(|session| history.extend(session.step_replies(&mut cluster, &mut draw)));
        libraries.iter_mut().for_each(|session| session.step_replies(&mut cluster, &mut draw, &mut history));
        nemesis.step(&mut cluster, &mut draw);
        let wakes = by_hand.iter().filter_map(BareSession::wake_us);
        let wakes = wakes.chain(libraries.iter_mut().filter_map(LibrarySession::wake_us));
        let next_us = wakes.chain([nemesis.next_us]).min().expect("the nemesis always changes");
        cluster.advance(next_us);
    }
    let epoch = cluster.nodes[0].workers[0].ranges().map().epoch().0;
    let aware = &libraries[..(LIBRARY_SESSIONS - UNAWARE_LIBRARY_SESSIONS) as usize];
    let clients = aware.iter().map(LibrarySession::counters).collect();
    Run { report: check(&history, CheckOptions::default()), epoch, clients }
}

#[test]
fn histories_are_linearizable() {
    let (mut epochs, mut answered) = (0, 0);
    let mut sum = Counters::default();
    for seed in 0..GOOD_SEEDS {
        let run = run(seed);
        assert!(run.report.is_linearizable(), "seed {seed}:\n{}", run.report);
        epochs += run.epoch;
        answered += run.report.operations - run.report.unknown - run.report.refused;
        for client in run.clients {
            sum.double_reads += client.double_reads;
            sum.single_target_reads += client.single_target_reads;
            sum.source_values += client.source_values;
            sum.progress_reports += client.progress_reports;
            sum.failures += client.failures;
        }
    }
    assert!(epochs > 2_000, "hardly anything moved: {epochs} changes of the map");
    assert!(answered > 80_000, "hardly anything was answered: {answered}");
    let floors =
        [sum.double_reads, sum.single_target_reads, sum.source_values, sum.progress_reports, sum.failures];
    assert!(floors.iter().all(|&count| count > 100), "hardly anything was met: {sum:?}");
}

/// Whether the judge finds a fault within a few seeds; without it, the same seed must pass.
fn is_seen(fault: Fault, run: impl Fn(u64) -> Report) -> bool {
    let in_effect = fault.put_back();
    let failing = (0..SEEDS_UNTIL_SEEN).find(|&seed| run(seed).failed_keys > 0);
    drop(in_effect);
    failing.is_some_and(|seed| run(seed).is_linearizable())
}

#[test]
fn the_judge_sees_increments_that_start_at_zero() {
    assert!(is_seen(Fault::IncrementsStartAtZero, |seed| run(seed).report));
}

#[test]
fn the_judge_sees_parked_commands_that_run_twice() {
    assert!(is_seen(Fault::ParkedCommandRunsTwice, |seed| run(seed).report));
}

#[test]
fn the_judge_sees_a_source_that_lets_go_too_early() {
    assert!(is_seen(Fault::SourceReleasesAtFin, |seed| run(seed).report));
}

#[test]
fn the_judge_sees_lost_writes_sent_again() {
    assert!(is_seen(Fault::LostWriteSentAgain, |seed| run(seed).report));
}

#[test]
fn the_judge_sees_missing_tombstones() {
    assert!(is_seen(Fault::NoTombstones, |seed| run(seed).report));
}

#[test]
fn the_judge_sees_replay_that_overwrites() {
    assert!(is_seen(Fault::ReplayOverwrites, |seed| run(seed).report));
}

/// The history of reads of existing keys, at every single instant while everything arrives. Random sessions
/// seldom read at the very instant between progress and replay.
fn reads_while_all_arrives() -> Report {
    let mut scene = Scene::new();
    let record = |op, key: &str, arg: Datum, result, now_us: u64| Operation {
        result,
        return_ns: Some(now_us * 1000 + 999),
        outcome: Outcome::Ok,
        ..Operation::begun(0, op, key, arg, now_us * 1000)
    };
    let keys = keys("key", 40);
    scene.fill(keys.clone());
    let written = scene.cluster.now().mono.0;
    let write =
        |key: &String| record(Op::Set, key, format!("old-{key}").as_str().into(), "OK".into(), written);
    let mut history: Vec<Operation> = keys.iter().map(write).collect();
    let reader = scene.cluster.connect_aware(1, 0);
    let id = scene.start_and_hold("SLOTS 0-16383", 1);
    scene.cluster.network.release();
    for _ in 0..100 {
        // Time has jumped to the next delivery, which is not handled yet: the requests come first.
        scene.cluster.advance(u64::MAX);
        keys.iter().for_each(|key| scene.cluster.send(reader, &format!("GET {key}")));
        scene.cluster.settle();
        for key in &keys {
            let reply = scene.cluster.client(reader).receive().expect("reads are answered at once");
            if !matches!(&reply, Value::Simple(text) if text.starts_with("EMPTY ")) {
                let now_us = scene.cluster.now().mono.0;
                history.push(record(Op::Get, key, Datum::Null, draw::datum(reply), now_us));
            }
        }
    }
    scene.finish(id);
    check(&history, CheckOptions::default())
}

#[test]
fn the_judge_sees_progress_before_replay() {
    let good = reads_while_all_arrives();
    assert!(good.is_linearizable(), "M7: {good}");
    assert!(good.operations > 1_000, "hardly any read was answered: {good}");
    let _in_effect = Fault::ProgressBeforeReplay.put_back();
    assert!(reads_while_all_arrives().failed_keys > 0, "the fault is not injected, or not found");
}

#[test]
fn the_judge_sees_source_values_without_the_targets_answer() {
    assert!(is_seen(Fault::SourceValueWithoutTargetAnswer, |seed| run(seed).report));
}

#[test]
fn histories_are_linearizable_by_every_protocol() {
    for protocol in PROTOCOLS {
        let mut migrations = 0;
        for seed in 0..SEEDS_OF_EACH {
            let run = run_by(protocol.name, seed);
            assert!(run.report.is_linearizable(), "{}, seed {seed}: {}", protocol.name, run.report);
            migrations += run.epoch / 2;
        }
        assert!(migrations > SEEDS_OF_EACH, "{migrations} migrations by {}", protocol.name);
    }
}

#[test]
fn a_seed_draws_everything() {
    assert_eq!(run(3), run(3));
}
