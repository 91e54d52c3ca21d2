//! Whole modelled runs, small: every protocol, samples, quotas, and determinism.

use sidle_bench::load::PROBES_PER_S;
use sidle_bench::report::Report;
use sidle_migration::{Copies, PROTOCOLS};
use sidle_model::machines::Machines;
use sidle_model::{Costs, ModelError, Plan, run};
use sidle_types::MigrationPolicy;
use sidle_workload::{Distribution, Workload};

const COSTS: Costs = Costs {
    poll_ns: 500,
    sleep_ns: 2_000,
    wake_ns: 0,
    core_sleep_ns: 0,
    wake_core_ns: 0,
    core_latency_ns: 0,
    read_ns: 900,
    write_ns: 5_000,
    copy_ns_per_kib: 150,
    get_ns: 600,
    set_ns: 800,
    shared_ns: 0,
    ask_get_ns: 900,
    ask_set_ns: 1_100,
    pack_ns_per_kib: 700,
    pick_ns_per_kib: 2_000,
    replay_ns_per_kib: 1_000,
    message_ns: 1_000,
    control_ns: 20_000,
    commit_ns: 200_000,
    bulk_resume_ns: 3_000,
    release_ns: 10_000,
    noise_thousandths: 0,
};

fn plan(protocol: &str) -> Plan {
    Plan {
        machines: Machines::two_cores(1.0, 1.0),
        costs: COSTS,
        protocol: protocol.to_owned(),
        policy: MigrationPolicy::Adaptive,
        records: 20_000,
        sample: 20_000,
        key_bytes: 30,
        value_bytes: 100,
        workload: Workload::with_write_ratio(10.0),
        distribution: Distribution::Zipf(0.99),
        clients: 16,
        rate: None,
        tracking: true,
        before_ns: 200_000_000,
        after_ns: 200_000_000,
        seed: 3,
    }
}

fn report(plan: &Plan) -> Report {
    let report = run(plan, |_| true).expect("the run ends well");
    assert_eq!((report.wrong_values, report.errors.len()), (0, 0), "{:?}", report.errors);
    report
}

/// Operations per second during the move.
fn during(plan: &Plan) -> f64 {
    report(plan).throughput.during.expect("data moved")
}

#[test]
fn every_protocol_moves_half_of_the_records_under_load() {
    for protocol in PROTOCOLS {
        let report = report(&plan(protocol.name));
        let moved = report.records_moved.expect("counted");
        assert!((9_000..=11_000).contains(&moved), "{}: {moved} records moved", protocol.name);
        let before = report.throughput.before.expect("there was a load");
        assert!(before > 10_000.0, "{}: {before} operations a second", protocol.name);
        assert!(report.latency_us.during.reads.is_some(), "{}: reads went on", protocol.name);
        assert!(report.modelled.is_some());
        let (seconds, relief_ms) =
            (report.seconds.expect("it moved"), report.relief_ms.expect("it was reached"));
        assert!(relief_ms < 1000.0 * seconds + 50.0, "{}: {relief_ms} ms of {seconds} s", protocol.name);
        let times = report.cuts.map(|cuts| (cuts.number > 1, cuts.p50_ms > 0.0, cuts.p50_ms <= cuts.p999_ms));
        let expected = matches!(protocol.copies, Copies::BeforeCuts(_)).then_some((true, true, true));
        assert_eq!(times, expected, "{}: {:?}", protocol.name, report.cuts);
        // The demonstration checks the time every 25 ms, and its margins are multiples of that.
        let delay_ms = report.migration.expect("data moved").from_ms - 200.0;
        assert!((0.0..1.0).contains(&delay_ms), "{}: it began {delay_ms} ms behind schedule", protocol.name);
    }
}

/// What clients access most goes first: half of the moving load leaves the source long before half of the
/// records do.
#[test]
fn hot_keys_given_first_relieve_the_source_sooner() {
    let [first, last] = ["handoff", "handoff,hot-first=off"].map(|protocol| {
        let report =
            report(&Plan { records: 200_000, sample: 200_000, before_ns: 2_000_000_000, ..plan(protocol) });
        (report.relief_ms.expect("it was reached"), report.latency_us.during.reads.expect("there was a load"))
    });
    assert!(first.0 < 0.5 * last.0, "{} ms, and {} ms in order", first.0, last.0);
    assert!(first.1.p99 < 1.5 * last.1.p99, "{} us, and {} us in order", first.1.p99, last.1.p99);
}

/// Clients receive the map without the move from any worker that has it; otherwise they would go on using
/// tracked state.
#[test]
fn clients_learn_that_a_move_is_over() {
    for seed in 1..=6 {
        let mut plan =
            Plan { seed, clients: 64, before_ns: 500_000_000, after_ns: 500_000_000, ..plan("fulva") };
        plan.machines = Machines::two_cores(0.4, 0.4);
        let report = report(&plan);
        let learnt = report.single_target_reads.expect("clients of Sidle count them");
        let reads_of = |phase: Option<f64>, seconds: f64| phase.expect("there was a load") * seconds;
        let during = reads_of(report.throughput.during, report.seconds.expect("it moved"));
        let after = reads_of(report.throughput.after, 0.5);
        let reads = format!(
            "seed {seed}: {learnt} reads used what was learnt, of {during} operations in the move and {after} after"
        );
        assert!((learnt as f64) < during + 0.05 * after, "{reads}");
    }
}

/// Clients check their timers and counters every millisecond without input: two load threads, and the prober,
/// even while nodes are throttled.
#[test]
fn clients_check_their_timers_while_nodes_are_throttled() {
    for seed in 1..=4 {
        let [short, long] = [700, 700_000].map(|pack_ns_per_kib| {
            let costs = Costs { pack_ns_per_kib, poll_ns: 100_000, ..COSTS };
            let report = report(&Plan { costs, seed, ..plan("stop-and-copy") });
            let clients_s = report.cpu_seconds.clients.expect("modelled clients' is known");
            (report.seconds.expect("it moved"), clients_s)
        });
        let (longer_s, used_s) = (long.0 - short.0, long.1 - short.1);
        assert!(longer_s > 0.5, "seed {seed}: it took {longer_s} s more");
        let looks = used_s / 0.000_1 / (longer_s * 1000.0);
        assert!((1.8..3.5).contains(&looks), "seed {seed}: {looks} checks a millisecond");
    }
}

/// Operations of one round start at one instant, as in the load generator, and wait for each other to be
/// sent. If only sending takes time, each of two takes the time of both.
#[test]
fn operations_of_a_round_have_one_instant() {
    let asking_ns = 1_000_000;
    let mut plan = Plan {
        costs: Costs { ask_get_ns: asking_ns, ..COSTS },
        workload: Workload::with_write_ratio(0.0),
        clients: 2,
        ..plan("fulva")
    };
    plan.machines.shared_cores = None;
    plan.machines.clients.workers = 1;
    let reads = report(&plan).latency_us.before.reads.expect("there was a load");
    assert!(reads.p50 > 1.9 * asking_ns as f64 / 1000.0, "{} us", reads.p50);
}

#[test]
fn the_same_seed_gives_the_same_report() {
    assert_eq!(report(&plan("fulva")), report(&plan("fulva")));
    let other = report(&Plan { seed: 4, ..plan("fulva") });
    assert_ne!(report(&plan("fulva")).timeline, other.timeline);
}

/// Costs determine the load's rate: one worker with 10 us per request gives 100,000 answers a second. The
/// prober's do not count as the load's.
#[test]
fn throughput_follows_from_the_costs() {
    let costs = Costs { poll_ns: 0, sleep_ns: 0, read_ns: 2_000, write_ns: 7_000, get_ns: 1_000, ..COSTS };
    let mut plan =
        Plan { costs, workload: Workload::with_write_ratio(0.0), tracking: false, ..plan("fulva") };
    plan.machines.shared_cores = None;
    plan.machines.clients.workers = 8;
    plan.machines.clients.cores = 8;
    plan.machines.source.quota = None;
    let before = report(&plan).throughput.before.expect("there was a load");
    assert!((before + PROBES_PER_S - 100_000.0).abs() < 3_000.0, "{before} operations a second");
    plan.machines.source.quota = Machines::two_cores(0.4, 1.0).source.quota;
    let part = report(&plan).throughput.before.expect("there was a load");
    // What the pool holds at a period's end is lost, so it is a little less; and the prober takes its part.
    assert!(
        (36_000.0 - PROBES_PER_S..=40_500.0).contains(&part),
        "{part} operations a second on 0.4 of a processor"
    );
}

/// A move that sleeps between batches pays for each resumption, one that works through does not: so
/// calibration can distinguish the two.
#[test]
fn resuming_bulk_work_costs_a_move_that_sleeps() {
    let slowdown = |protocol: &str| {
        let [none, much] = [0, 500_000].map(|bulk_resume_ns| {
            let mut plan = Plan {
                costs: Costs { bulk_resume_ns, ..COSTS },
                records: 100_000,
                sample: 100_000,
                ..plan(protocol)
            };
            plan.machines = Machines::two_cores(0.4, 0.4);
            report(&plan).seconds.expect("it moved")
        });
        much / none
    };
    let (in_pieces, in_one_go) = (slowdown("fulva"), slowdown("stop-and-copy"));
    let (more_in_pieces, more_in_one_go) = (in_pieces - 1.0, in_one_go - 1.0);
    assert!(
        more_in_pieces > 10.0 * more_in_one_go,
        "{in_pieces} times as long in pieces, {in_one_go} in one go"
    );
}

/// A mover that wakes for a record requested by name does not pay for that. Where bulk work is rare, waiting
/// clients do not notice it.
#[test]
fn records_requested_by_name_do_not_pay_for_resuming_bulk_work() {
    let [none, much] = [0, 500_000].map(|bulk_resume_ns| {
        let plan = Plan {
            costs: Costs { bulk_resume_ns, ..COSTS },
            policy: MigrationPolicy::Rate { bytes_per_s: 2 << 20 },
            clients: 4,
            ..plan("zephyr")
        };
        let latencies = report(&plan).mean_latency_by_node_us.expect("data moved").during;
        latencies.target.reads.expect("the target served").mean
    });
    assert!(much < 1.3 * none, "{much} us for reads at the target, and {none} us");
}

/// The source releases what it has moved, beside its load, after the move.
#[test]
fn releasing_records_costs_the_source_after_the_move() {
    let after = |release_ns| {
        let mut plan = Plan {
            costs: Costs { release_ns, ..COSTS },
            before_ns: 300_000_000,
            after_ns: 300_000_000,
            ..plan("fulva")
        };
        (plan.records, plan.sample) = (100_000, 100_000);
        plan.machines = Machines::two_cores(0.4, 0.4);
        report(&plan).throughput.after.expect("there was a load")
    };
    let (cheap, dear) = (after(0), after(500_000));
    assert!(dear < 0.9 * cheap, "{dear} operations a second for {cheap}");
}

/// Requests for the move and its progress go to busy nodes: the work of their control threads counts in the
/// nodes' quotas.
#[test]
fn control_threads_use_the_nodes_quota() {
    let seconds = |control_ns, share| {
        let mut plan = Plan { costs: Costs { control_ns, ..COSTS }, ..plan("stop-and-copy") };
        plan.machines = Machines::two_cores(share, share);
        report(&plan).seconds.expect("it moved")
    };
    let slower = |share| seconds(5_000_000, share) - seconds(0, share);
    let (alone, in_turns) = (slower(1.0), slower(0.2));
    // More than ten messages lie between the request to move and the answer that it is over.
    assert!(alone > 0.05, "{alone} s more for five milliseconds a message");
    assert!(in_turns > 2.0 * alone, "{in_turns} s more on a fifth of a processor, {alone} on a whole one");
}

/// The coordinator acts on a decision once it is stored: each move waits for those of its start, its switch
/// and its end.
#[test]
fn a_move_waits_for_the_coordinator_to_store_its_decisions() {
    let seconds = |commit_ns| {
        let plan = Plan { costs: Costs { commit_ns, ..COSTS }, ..plan("stop-and-copy") };
        report(&plan).seconds.expect("it moved")
    };
    let slower = seconds(50_000_000) - seconds(0);
    assert!((0.15..0.4).contains(&slower), "{slower} s more for 50 ms a decision");
}

/// A move ends when the requesting thread takes the answer, not at the next tick.
#[test]
fn a_move_is_over_when_the_answer_arrives() {
    let report = report(&plan("fulva"));
    let ns = (report.seconds.expect("it moved") * 1e9) as u64;
    assert!(!ns.is_multiple_of(5_000_000), "{ns} ns: checked every 5 ms");
}

/// Records requested by name bypass the pull: each passes the source's mover by itself.
#[test]
fn finding_records_by_name_costs_the_source() {
    let [cheap, dear] = [0, 5_000_000].map(|pick_ns_per_kib| {
        during(&Plan { costs: Costs { pick_ns_per_kib, ..COSTS }, ..plan("rocksteady") })
    });
    assert!(dear < 0.9 * cheap, "{dear} operations a second for {cheap}");
}

/// And the target's, where they arrive before the pull's.
#[test]
fn replaying_records_requested_by_name_costs_the_target() {
    let [cheap, dear] = [0, 5_000_000].map(|replay_ns_per_kib| {
        let mut plan = Plan {
            costs: Costs { replay_ns_per_kib, ..COSTS },
            // The pull brings hardly anything.
            policy: MigrationPolicy::Rate { bytes_per_s: 10_000 },
            records: 500,
            sample: 500,
            ..plan("rocksteady")
        };
        plan.machines.shared_cores = None;
        during(&plan)
    });
    assert!(dear < 0.9 * cheap, "{dear} operations a second for {cheap}");
}

/// The waker of a core pays for it, and a thread that waits for that core is delayed.
#[test]
fn waking_cores_costs_throughput_where_cores_sleep() {
    let before = |wake_core_ns, core_latency_ns| {
        let costs = Costs { wake_core_ns, core_latency_ns, ..COSTS };
        let mut plan = Plan { costs, clients: 1, ..plan("fulva") };
        plan.machines.shared_cores = None;
        report(&plan).throughput.before.expect("there was a load")
    };
    let (none, waker, latency) = (before(0, 0), before(30_000, 0), before(0, 30_000));
    assert!(waker < 0.9 * none && latency < 0.9 * none, "{none} operations a second, {waker} and {latency}");
}

/// A record that represents ten takes ten times as long to move, and no protocol notices.
#[test]
fn a_sample_moves_as_long_as_all_records() {
    let mut all = plan("fulva");
    all.machines.source.workers = 1;
    all.records = 200_000;
    all.sample = 200_000;
    all.clients = 1;
    let whole = report(&all);
    let sampled = report(&Plan { sample: 20_000, ..all });
    let stored = sampled.modelled.as_ref().expect("it is modelled").stored_records;
    assert!((20_000..26_000).contains(&stored), "{stored} records are there");
    let [whole, sampled] = [whole, sampled].map(|report| report.seconds.expect("it moved"));
    assert!((sampled / whole - 1.0).abs() < 0.2, "{sampled} s for {whole} s");
}

/// If the only record does not move, there is nothing to probe.
#[test]
fn a_single_record_can_be_modelled() {
    let is_probed = |key_bytes| {
        let plan =
            Plan { records: 1, sample: 1, key_bytes, distribution: Distribution::Uniform, ..plan("fulva") };
        report(&plan).longest_gap_ms.reads > Some(0.0)
    };
    let probed = (20..28).filter(|&key_bytes| is_probed(key_bytes)).count();
    assert!((1..8).contains(&probed), "{probed} of 8 records were in the half that moves");
}

#[test]
fn invalid_plans_are_refused() {
    let refused = |plan: Plan| run(&plan, |_| true).expect_err("it must be refused").to_string();
    assert!(refused(plan("teleport")).contains("there is no migration protocol 'teleport'"));
    assert!(refused(Plan { clients: 0, ..plan("fulva") }).contains("clients"));
    let mut wrong = plan("fulva");
    wrong.machines.source.movers = 0;
    assert!(refused(wrong).contains("source: 0 movers"));
    let interrupted = run(&plan("fulva"), |_| false).expect_err("it was stopped");
    assert!(matches!(interrupted, ModelError::Interrupted));
}

/// On a noisy machine the worst of many windows is below their mean under any load.
#[test]
fn noisy_machines_change_their_pace() {
    let worst = |noise_thousandths, noisy| {
        let mut plan =
            Plan { costs: Costs { noise_thousandths, ..COSTS }, before_ns: 1_000_000_000, ..plan("fulva") };
        plan.machines.noisy = noisy;
        let report = report(&plan);
        let before = &report.timeline[..report.migration.expect("data moved").from_ms as usize / 100];
        let windows = || before.iter().map(|point| point.operations as f64);
        windows().fold(f64::MAX, f64::min) * before.len() as f64 / windows().sum::<f64>()
    };
    assert!(worst(150, true) < 0.9, "{}", worst(150, true));
    for (noise_thousandths, noisy) in [(0, true), (150, false)] {
        let worst = worst(noise_thousandths, noisy);
        assert!(worst > 0.95, "{worst}");
    }
}

/// Before the move one worker and two clients share two cores, afterwards two workers and the clients do:
/// more turns follow another thread's.
#[test]
fn workers_on_shared_cores_pay_for_it() {
    let [free, dear] = [0, 3_000].map(|shared_ns| {
        let mut plan = Plan { costs: Costs { shared_ns, ..COSTS }, clients: 64, ..plan("stop-and-copy") };
        plan.machines = Machines::two_cores(0.4, 0.4);
        report(&plan).throughput
    });
    let [before, after] = [dear.before.zip(free.before), dear.after.zip(free.after)]
        .map(|both| both.map(|(dear, free)| dear / free).expect("there was a load"));
    assert!(before > 0.9 && after < before - 0.05, "{before} {after}");
}

/// An open loop makes as many operations whatever is answered, and latency counts from when one was due.
#[test]
fn an_open_loop_keeps_its_rate_and_counts_delays() {
    let [quiet, saturated] =
        [10_000.0, 1_000_000.0].map(|rate| report(&Plan { rate: Some(rate), ..plan("fulva") }));
    assert_eq!((quiet.load.kind.as_str(), quiet.load.rate), ("open", Some(10_000.0)));
    let before = quiet.throughput.before.expect("there was a load");
    assert!((9_500.0..10_500.0).contains(&before), "{before} operations a second");
    let p50 = |report: &Report| report.latency_us.before.reads.expect("there was a load").p50;
    assert!(p50(&saturated) > 100.0 * p50(&quiet), "{} us, and {} us", p50(&saturated), p50(&quiet));
}
