//! Real nodes, real clients of every kind, and ranges that move to and fro under them. Every operation is
//! recorded, and the linearizability checker judges.
//!
//! Aware clients, clients that know only slots, and connections that follow MOVED share a few keys, some of
//! them within one slot that is split. Meanwhile half of the slots, and the upper part of that slot, cycle
//! through the nodes. Keys with a time to live have a history and a rule of their own (`deadlines`).

#![allow(clippy::disallowed_methods)] // tests run processes and read clocks

mod clients;
mod deadlines;
mod movers;
mod recording;
#[path = "../support/mod.rs"]
mod support;

use clients::{Plain, on_runtime};
use recording::{Recorder, Run};
use sidle_client::Awareness;
use sidle_history::{CheckOptions, Operation, Outcome, Writer, check};
use sidle_types::Slot;
use std::path::PathBuf;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};
use support::{PATIENCE, TestCluster};

/// Operations that a run must see.
const LEAST_OPERATIONS: u64 = 10_000;
/// Redirections, forwarded requests, double reads and source values that it must see.
const LEAST_MET: u64 = 20;
/// How long a run lasts at least.
const LEAST_TIME: Duration = Duration::from_secs(4);
/// Records that are never read, so that a migration takes a while: in all slots, and in the split slot.
const FILLING: usize = 30_000;
const TAGGED_FILLING: usize = 10_000;

/// A hash tag whose slot lies outside the moving half.
fn tag() -> String {
    let tags = (0..).map(|number| format!("{{t{number}}}"));
    let mut upper = tags.filter(|tag| Slot::of_key(tag.as_bytes()).number() > movers::HALF);
    upper.next().expect("half of all tags")
}

/// How many requests a node has forwarded to others.
fn forwarded_requests(cluster: &TestCluster, node: usize) -> u64 {
    let reply = cluster.client(node).request(&["INFO", "stats"]);
    let text = String::from_utf8_lossy(reply.as_bytes().expect("INFO is a text")).into_owned();
    let line = text.lines().find_map(|line| line.strip_prefix("forwarded_requests:"));
    line.expect("it is counted").trim().parse().expect("a number")
}

/// Writes a history to a file that outlives the test; returns its path.
fn keep(name: &str, operations: &[Operation]) -> PathBuf {
    let path =
        PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(format!("{name}-{}.jsonl", std::process::id()));
    let file = std::fs::File::create(&path).expect("the folder for tests' files can be written to");
    let mut writer = Writer::new(std::io::BufWriter::new(file));
    operations.iter().for_each(|operation| writer.write(operation).expect("there is room on the disk"));
    writer.finish().expect("there is room on the disk");
    path
}

fn judge(name: &str, history: &[Operation]) {
    let report = check(history, CheckOptions::default());
    if !report.is_linearizable() {
        let path = keep(name, history);
        panic!("{report}\nTo look at it again: sidle check-history {}", path.display());
    }
    let unanswered = history.iter().filter(|operation| operation.outcome != Outcome::Ok).count();
    assert!(
        unanswered * 100 < history.len(),
        "hardly anything was wrong, but {unanswered} were not answered"
    );
}

/// Who moves ranges how often, and what goes wrong meanwhile.
struct Story {
    name: &'static str,
    nodes: usize,
    seed: u64,
    faults: Faults,
    /// Migrations take turns with these.
    protocols: &'static [&'static str],
    /// Migrations of each of the two ranges.
    least_migrations: u64,
}

impl Story {
    /// Whether aware clients ask both ends: by hand-off each key has one owner.
    fn reads_both(&self) -> bool {
        !self.protocols.iter().any(|protocol| protocol.starts_with("handoff"))
    }
}

/// The failures made on purpose.
#[derive(Clone, Copy, PartialEq)]
enum Faults {
    /// Nothing.
    None,
    /// Nodes are paused for a moment, and plain connections break with a request under way.
    Some,
}

fn run(story: &Story) {
    let &Story { name, nodes, seed, faults, .. } = story;
    let cluster = TestCluster::start(nodes);
    let tag = tag();
    cluster.fill(FILLING, (&tag, TAGGED_FILLING));
    let addresses: Vec<String> = cluster.nodes.iter().map(|node| node.address()).collect();
    let run = Run::new(&tag, seed);
    let deadlines = deadlines::Keys::new(&tag);
    let (history, with_deadlines) = std::thread::scope(|scope| {
        let mut lanes = Vec::new();
        let (run, deadlines, addresses) = (&run, &deadlines, &addresses);
        // Whatever fails, the others must not run forever.
        let guard = run.stop_when_dropped();
        lanes.push(scope.spawn(move || {
            on_runtime(run, addresses, &[Awareness::Sidle, Awareness::Sidle, Awareness::Plain])
        }));
        for number in 0..2 {
            lanes.push(scope.spawn(move || {
                let mut recorder = Recorder::new(run, 100 + number);
                let mut plain = Plain::new(&addresses[number as usize]);
                while let Some(asked) = recorder.next() {
                    let reply = match faults == Faults::Some && recorder.draws_one_in(100) {
                        true => plain.request_and_leave(&asked.words),
                        false => plain.request(run, &asked.words),
                    };
                    recorder.answered(asked, reply);
                }
                recorder.history
            }));
        }
        let timed = [
            scope.spawn(move || deadlines::write_and_read(run, deadlines, addresses)),
            scope.spawn(move || deadlines::read_aware(run, deadlines, addresses)),
        ];
        let movers = movers::ranges(&tag).map(|range| {
            let cluster = &cluster;
            scope.spawn(move || movers::go_round(run, cluster, range, story.protocols))
        });
        if faults == Faults::Some {
            let cluster = &cluster;
            scope.spawn(move || movers::pause_nodes(run, cluster));
        }
        let began = Instant::now();
        while began.elapsed() < LEAST_TIME || !run.has_enough(story.least_migrations, LEAST_OPERATIONS) {
            assert!(began.elapsed() < 2 * PATIENCE, "too little happens: {run:?}");
            let is_broken = lanes.iter().any(|lane| lane.is_finished())
                || movers.iter().any(|mover| mover.is_finished())
                || timed.iter().any(|lane| lane.is_finished());
            assert!(!is_broken, "a lane ended early: see what it said above");
            std::thread::sleep(Duration::from_millis(20));
        }
        drop(guard);
        movers.into_iter().for_each(|mover| mover.join().expect("migrations go well"));
        let history: Vec<Operation> =
            lanes.into_iter().flat_map(|lane| lane.join().expect("operations go well")).collect();
        let with_deadlines: Vec<Operation> =
            timed.into_iter().flat_map(|lane| lane.join().expect("operations go well")).collect();
        (history, with_deadlines)
    });
    let of_both = [&run.double_reads, &run.source_values].into_iter().filter(|_| story.reads_both());
    for met in [&run.moved].into_iter().chain(of_both) {
        assert!(met.load(Ordering::Relaxed) >= LEAST_MET, "hardly anything was met: {run:?}");
    }
    // The split slot is served by its shown owner.
    assert_eq!(run.asked.load(Ordering::Relaxed), 0, "connections that did not opt in were sent elsewhere");
    let forwarded: u64 = (0..nodes).map(|node| forwarded_requests(&cluster, node)).sum();
    assert!(forwarded >= LEAST_MET, "{forwarded} requests were forwarded");
    judge(name, &history);
    if let Err(why) = deadlines::judge(&with_deadlines) {
        let path = keep(&format!("{name}-deadlines"), &with_deadlines);
        panic!("{why}\nAll that happened to keys with a time to live: {}", path.display());
    }
    assert!(with_deadlines.len() > 1_000, "hardly any key had a time to live");
}

#[test]
fn two_nodes_migrate_there_and_back_under_load() {
    run(&Story {
        name: "two-nodes",
        nodes: 2,
        seed: 1,
        faults: Faults::None,
        protocols: &["fulva"],
        least_migrations: 6,
    });
}

#[test]
fn three_nodes_migrate_round_and_round_under_load() {
    run(&Story {
        name: "three-nodes",
        nodes: 3,
        seed: 2,
        faults: Faults::None,
        protocols: &["fulva"],
        least_migrations: 6,
    });
}

#[test]
fn nodes_stand_still_and_connections_break_under_load() {
    run(&Story {
        name: "faults",
        nodes: 2,
        seed: 3,
        faults: Faults::Some,
        protocols: &["fulva"],
        least_migrations: 6,
    });
}

/// Fifty moves, twenty-five of each range.
#[test]
fn ranges_are_handed_off_there_and_back_fifty_times() {
    run(&Story {
        name: "handoff",
        nodes: 2,
        seed: 4,
        faults: Faults::None,
        protocols: &["handoff"],
        least_migrations: 25,
    });
}

#[test]
fn nodes_stand_still_and_connections_break_while_ranges_are_handed_off() {
    run(&Story {
        name: "handoff-faults",
        nodes: 2,
        seed: 5,
        faults: Faults::Some,
        protocols: &["handoff", "handoff,uncovered=target", "handoff,uncovered=load"],
        least_migrations: 6,
    });
}
