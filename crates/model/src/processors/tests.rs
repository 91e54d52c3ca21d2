use super::*;
use std::collections::BTreeSet;

const QUOTA: Quota = Quota { budget_ns: 1_000_000, period_ns: 2_500_000, first_ns: 2_500_000 };

/// This many cores, and a group with this many threads on them.
fn cores(cores: usize, quota: Option<Quota>, threads: usize) -> (Processors, PoolId, Vec<ThreadId>) {
    let mut processors = Processors::default();
    let pool = processors.add_pool(cores);
    let group = processors.add_group(pool, quota);
    let threads = (0..threads).map(|_| processors.add_thread(group, 1)).collect();
    (processors, pool, threads)
}

/// The next thread to run, and whether it slept.
fn took(processors: &mut Processors, pool: PoolId, now_ns: u64) -> Option<(ThreadId, bool)> {
    processors.take(pool, now_ns).map(|(id, pause)| (id, pause.of_thread))
}

/// Runs the next thread on one core for one turn; returns its number and the turn's end.
fn turn(
    processors: &mut Processors,
    pool: PoolId,
    now_ns: u64,
    cost: impl Fn(ThreadId) -> u64,
) -> Option<(ThreadId, u64)> {
    let (id, _) = processors.take(pool, now_ns)?;
    processors.charge(id, cost(id));
    processors.done(id, now_ns + cost(id), true);
    Some((id, now_ns + cost(id)))
}

/// Runs busy threads for this long, in turns of this length.
fn run(processors: &mut Processors, pool: PoolId, for_ns: u64, cost_ns: u64) {
    let mut ends: BTreeSet<(u64, ThreadId)> = BTreeSet::new();
    let mut now_ns = 0;
    while now_ns < for_ns {
        while let Some((id, _)) = processors.take(pool, now_ns) {
            processors.charge(id, cost_ns);
            ends.insert((now_ns + cost_ns, id));
        }
        let release_ns = processors.next_change(pool).unwrap_or(u64::MAX);
        match ends.first().copied() {
            Some((end_ns, id)) if end_ns <= release_ns => {
                ends.pop_first();
                now_ns = end_ns;
                processors.done(id, now_ns, true);
            }
            _ => now_ns = release_ns,
        }
    }
}

#[test]
fn threads_share_a_core_by_what_they_have_used() {
    let (mut processors, pool, threads) = cores(1, None, 2);
    let (a, b) = (threads[0], threads[1]);
    processors.wake(a, None, 0);
    processors.wake(b, None, 0);
    let mut now_ns = 0;
    while now_ns < 1_000_000_000 {
        let cost = |id| if id == a { 10_000 } else { 30_000 };
        now_ns = turn(&mut processors, pool, now_ns, cost).expect("both always have more to do").1;
    }
    let part = processors.used_ns(a) as f64 / now_ns as f64;
    assert!((0.49..0.51).contains(&part), "{part} of a core");
    assert_eq!(processors.used_by_group_ns(0), now_ns);
}

#[test]
fn a_thread_keeps_its_core_until_a_tick_finds_its_slice_used_up() {
    let (mut processors, pool, threads) = cores(1, None, 2);
    processors.wake(threads[0], None, 0);
    processors.wake(threads[1], None, 0);
    let (mut ran, mut now_ns) = (Vec::new(), 0);
    while now_ns < 3 * TICK_NS {
        let (id, end_ns) = turn(&mut processors, pool, now_ns, |_| 10_000).expect("both have more to do");
        if ran.last().is_none_or(|&(last, _)| last != id) {
            ran.push((id, now_ns));
        }
        now_ns = end_ns;
    }
    let [a, b] = [threads[0], threads[1]];
    assert_eq!(ran, [(a, 0), (b, TICK_NS), (a, 2 * TICK_NS)]);
}

#[test]
fn a_thread_that_wakes_up_with_less_behind_it_is_next_and_one_with_more_waits() {
    let (mut processors, pool, threads) = cores(1, None, 2);
    let (busy, sleeper) = (threads[0], threads[1]);
    processors.wake(busy, None, 0);
    processors.wake(sleeper, None, 0);
    let mut now_ns = 0;
    while now_ns < TICK_NS {
        now_ns = turn(&mut processors, pool, now_ns, |_| 10_000).expect("both have more").1;
    }
    let (id, _) = processors.take(pool, now_ns).expect("both have more");
    assert_eq!(id, sleeper);
    processors.done(sleeper, now_ns, false);
    let mut wakes_up_and_works = |cost_ns| {
        assert_eq!(took(&mut processors, pool, now_ns), Some((busy, false)));
        processors.charge(busy, 10_000);
        processors.wake(sleeper, None, now_ns + 5_000);
        now_ns += 10_000;
        processors.done(busy, now_ns, true);
        let (next, _) = processors.take(pool, now_ns).expect("both have something to do");
        if next == sleeper {
            processors.charge(sleeper, cost_ns);
            now_ns += cost_ns;
            processors.done(sleeper, now_ns, false);
        }
        next
    };
    assert_eq!(wakes_up_and_works(100_000), sleeper, "it waited for a tick");
    assert_eq!(wakes_up_and_works(3_000_000), sleeper, "most of its credit is left");
    assert_eq!(wakes_up_and_works(1_000_000), sleeper, "a quarter is left");
    assert_eq!(wakes_up_and_works(0), busy, "now it has used as much as the other");
}

#[test]
fn groups_share_cores() {
    let mut processors = Processors::default();
    let pool = processors.add_pool(1);
    let groups = [processors.add_group(pool, None), processors.add_group(pool, None)];
    let [a, b] = groups.map(|group| processors.add_thread(group, 1));
    processors.wake(a, None, 0);
    processors.wake(b, None, 0);
    assert_eq!(took(&mut processors, pool, 0), Some((a, true)));
    assert_eq!(processors.take(pool, 0), None, "there is one core");
    assert_eq!((processors.pool_of(a), processors.pool_of(b)), (pool, pool));
}

#[test]
fn a_sleeper_has_no_claim_on_the_past() {
    let (mut processors, pool, threads) = cores(1, None, 2);
    let (busy, sleeper) = (threads[0], threads[1]);
    processors.wake(busy, None, 0);
    let mut now_ns = 0;
    while now_ns < 5 * TICK_NS {
        now_ns = turn(&mut processors, pool, now_ns, |_| 10_000).expect("it has more").1;
    }
    processors.wake(sleeper, None, now_ns);
    let (begun_ns, mut sleeper_ran_ns) = (now_ns, 0);
    while now_ns < begun_ns + 4 * TICK_NS {
        let (id, end_ns) = turn(&mut processors, pool, now_ns, |_| 10_000).expect("both have more");
        sleeper_ran_ns += if id == sleeper { end_ns - now_ns } else { 0 };
        now_ns = end_ns;
    }
    assert!(
        sleeper_ran_ns.abs_diff(2 * TICK_NS) <= 10_000,
        "{sleeper_ran_ns} ns, though the other has had 5 ticks more"
    );
}

#[test]
fn a_thread_wakes_up_on_its_last_core_if_idle_or_else_on_another_idle_one() {
    let (mut processors, pool, threads) = cores(2, None, 4);
    let [a, b, c, _] = [threads[0], threads[1], threads[2], threads[3]];
    processors.wake(b, None, 0);
    processors.wake(c, None, 0);
    let on = |processors: &Processors, id: ThreadId| processors.threads[id].core;
    assert_eq!((on(&processors, b), on(&processors, c)), (1, 0));
    processors.take(pool, 0);
    processors.take(pool, 0);
    processors.wake(a, None, 0);
    assert_eq!((on(&processors, a), processors.take(pool, 0)), (0, None), "all are busy, so it waits");
    processors.done(b, 10, false);
    processors.wake(b, None, 10);
    processors.take(pool, 10);
    processors.done(c, 20, false);
    assert_eq!(took(&mut processors, pool, 20), Some((a, true)));
    processors.wake(c, None, 20);
    processors.done(b, 30, false);
    assert_eq!(processors.take(pool, 30), None, "it ran just now, so it waits for the core that it was on");
    assert_eq!(processors.take(pool, 30 + WARM_NS), None, "and now that core sleeps, and looks at ticks");
    assert_eq!(took(&mut processors, pool, 20 + TICK_NS), Some((c, true)));
    assert_eq!(on(&processors, c), 1);
}

#[test]
fn a_group_without_budget_is_throttled_and_leaves_its_core() {
    let mut processors = Processors::default();
    let pool = processors.add_pool(1);
    let [limited, free] = [processors.add_group(pool, Some(QUOTA)), processors.add_group(pool, None)];
    let [limited, free] = [limited, free].map(|group| processors.add_thread(group, 1));
    processors.wake(limited, None, 0);
    processors.wake(free, None, 0);
    run(&mut processors, pool, 1_000_000_000, 50_000);
    let [limited, free] = [limited, free].map(|id| processors.used_ns(id) as f64 / 1e9);
    assert!((0.35..0.405).contains(&limited), "{limited} of a core");
    assert!((limited + free - 1.0).abs() < 0.001, "{limited} and {free} of a core");
}

/// A core's excess, debt and payments cancel out in the long run.
#[test]
fn a_share_is_kept_in_the_long_run() {
    for (threads, cost_ns) in [(1, 10_000), (2, 10_000), (3, 10_000), (2, 170_000), (3, 430_000)] {
        let (mut processors, pool, ids) = cores(2, Some(QUOTA), threads);
        for id in ids {
            processors.wake(id, None, 0);
        }
        run(&mut processors, pool, 10_000_000_000, cost_ns);
        let part = processors.used_by_group_ns(0) as f64 / 1e10;
        assert!((part / 0.4 - 1.0).abs() < 0.01, "{threads} threads: {part} of a core");
    }
}

/// No other thread wants the core, so use is accounted once a tick.
#[test]
fn a_thread_alone_uses_too_much_until_a_tick_and_pays_for_it() {
    let (mut processors, pool, threads) = cores(1, Some(QUOTA), 1);
    processors.wake(threads[0], None, 0);
    let mut now_ns = 0;
    while let Some((_, end_ns)) = turn(&mut processors, pool, now_ns, |_| 10_000) {
        now_ns = end_ns;
    }
    assert_eq!(now_ns, TICK_NS, "the pool gave it 1 ms at first and 1 at the tick, but it had used 4");
    assert_eq!(processors.next_change(pool), Some(5_000_000));
    assert_eq!(processors.take(pool, 5_000_000), None, "1 ms is left to pay");
    assert_eq!(processors.take(pool, 7_500_000), None, "the debt is paid, and nothing is left");
    assert_eq!(took(&mut processors, pool, 10_000_000), Some((threads[0], false)));
}

#[test]
fn ticks_follow_the_drawn_phase() {
    for phase in [0.0, 0.25, 0.9] {
        let mut processors = Processors::new(0, phase);
        let pool = processors.add_pool(1);
        let group = processors.add_group(pool, Some(QUOTA));
        let thread = processors.add_thread(group, 1);
        processors.wake(thread, None, 0);
        let mut now_ns = 0;
        while let Some((_, end_ns)) = turn(&mut processors, pool, now_ns, |_| 10_000) {
            now_ns = end_ns;
        }
        let first_ns = ((1.0 - phase) * TICK_NS as f64) as u64;
        // Accounting before the budget is used up stops no thread.
        let stopped_ns = if first_ns < QUOTA.budget_ns { first_ns + TICK_NS } else { first_ns };
        assert!(now_ns.abs_diff(stopped_ns) <= 10_000, "at {now_ns}, {phase} of a tick's time after one");
    }
}

/// Between two ticks more periods begin than the pool can hold. (On a machine a busy loop gets 0.7 of its
/// core this way.)
#[test]
fn a_thread_alone_with_a_whole_processor_does_not_get_it() {
    let quota = Quota { budget_ns: 2_500_000, ..QUOTA };
    let (mut processors, pool, threads) = cores(1, Some(quota), 1);
    processors.wake(threads[0], None, 0);
    run(&mut processors, pool, 1_000_000_000, 10_000);
    let part = processors.used_ns(threads[0]) as f64 / 1e9;
    assert!((0.75..0.8).contains(&part), "{part} of a core");
}

#[test]
fn a_thread_that_asks_for_its_processor_time_is_accounted() {
    let (mut processors, pool, threads) = cores(1, Some(QUOTA), 1);
    processors.wake(threads[0], None, 0);
    let mut now_ns = 0;
    while processors.take(pool, now_ns).is_some() {
        now_ns += 10_000;
        processors.look(threads[0], now_ns);
        processors.done(threads[0], now_ns, true);
    }
    assert_eq!(now_ns, QUOTA.budget_ns);
}

/// Accounting happens when a thread of the group joins the core, and the running one is stopped before the
/// next tick.
#[test]
fn a_wake_up_beside_a_running_thread_of_the_group_accounts_its_use() {
    let (mut processors, pool, threads) = cores(1, Some(Quota { budget_ns: 300_000, ..QUOTA }), 2);
    let (a, b) = (threads[0], threads[1]);
    processors.wake(a, None, 0);
    processors.take(pool, 0);
    processors.charge(a, 510_000);
    processors.wake(b, None, 500_000);
    processors.done(a, 510_000, true);
    assert_eq!(processors.take(pool, 510_000), None);
    assert_eq!(processors.next_change(pool), Some(2_500_000));
    assert_eq!(processors.take(pool, 2_500_000).map(|(id, _)| id), Some(b), "the second has used less");
}

/// Debts belong to a core: the group runs on elsewhere, and a thread that wakes up on the indebted core waits
/// beside an idle one.
#[test]
fn a_thread_is_throttled_on_an_indebted_core_while_its_group_runs_on_another() {
    let (mut processors, pool, threads) = cores(2, Some(QUOTA), 2);
    let (a, b) = (threads[0], threads[1]);
    processors.wake(a, None, 0);
    processors.take(pool, 0);
    processors.wake(b, None, 2_600_000);
    processors.take(pool, 2_600_000);
    processors.done(b, 2_700_000, false);
    processors.done(a, 3_900_000, false);
    processors.wake(b, None, 3_900_000);
    processors.wake(a, None, 3_900_000);
    assert_eq!(took(&mut processors, pool, 3_900_000), Some((b, true)), "its core has 0.9 ms left");
    assert_eq!(processors.take(pool, 3_900_000), None, "this core owes 2.9 ms");
    processors.done(b, 3_950_000, false);
    assert_eq!(processors.take(pool, 3_950_000), None, "and the idle core does not pull the thread");
}

#[test]
fn a_message_to_a_running_thread_gives_it_another_turn() {
    let (mut processors, pool, threads) = cores(1, None, 1);
    let thread = threads[0];
    processors.wake(thread, None, 0);
    assert_eq!(took(&mut processors, pool, 0), Some((thread, true)));
    processors.wake(thread, None, 0);
    processors.done(thread, 1, false);
    assert_eq!(took(&mut processors, pool, 1), Some((thread, false)));
    processors.done(thread, 2, false);
    assert_eq!(processors.take(pool, 2), None);
}

#[test]
fn an_idle_core_pulls_no_thread_of_a_group_throttled_there() {
    // More than a slice, so that both cores get some of it.
    let quota = Quota { budget_ns: 6_000_000, period_ns: 10_000_000, first_ns: 10_000_000 };
    for (quota, taken) in [(None, true), (Some(quota), false)] {
        let mut processors = Processors::default();
        let pool = processors.add_pool(2);
        let [one, other] = [quota, None].map(|quota| processors.add_group(pool, quota));
        let [a, busy] = [one, other].map(|group| processors.add_thread(group, 1));
        let _elsewhere = processors.add_thread(other, 1);
        let waits = processors.add_thread(one, 1);
        processors.wake(a, None, 0);
        processors.wake(busy, None, 0);
        assert!(processors.take(pool, 0).is_some() && processors.take(pool, 0).is_some());
        processors.charge(a, 5_500_000);
        processors.charge(busy, 8_000_000);
        // Both cores are busy, so it waits on its last one, with `busy`.
        processors.wake(waits, None, 500_000);
        processors.done(a, 5_500_000, false);
        let next = processors.take(pool, 5_500_000).map(|(id, _)| id);
        assert_eq!(next, taken.then_some(waits), "with {quota:?}");
        if !taken {
            assert_eq!(processors.next_change(pool), Some(10_000_000));
            processors.done(busy, 8_000_000, false);
            assert_eq!(took(&mut processors, pool, 8_000_000), Some((waits, true)), "its group may run here");
        }
    }
}

#[test]
fn an_idle_core_pulls_a_waiting_thread_before_it_falls_asleep() {
    let (mut processors, pool, threads) = cores(2, None, 3);
    let [a, b, c] = [threads[0], threads[1], threads[2]];
    processors.wake(a, None, 0);
    processors.wake(b, None, 0);
    assert!(processors.take(pool, 0).is_some() && processors.take(pool, 0).is_some());
    processors.wake(c, None, 10);
    processors.done(b, WARM_NS, false);
    assert_eq!(took(&mut processors, pool, WARM_NS), Some((c, true)));
    assert_eq!((processors.threads[a].core, processors.threads[c].core), (0, 1));
}

/// However long the core has slept: until the tick a thread stays beside the busy one.
#[test]
fn a_sleeping_core_pulls_a_waiting_thread_at_a_tick() {
    let idle_ns = 50 * TICK_NS + 100_000;
    // Between the two ticks in which the core fell asleep, and between the next two.
    for (come_ns, taken_ns) in [(idle_ns + 20_000, 51 * TICK_NS), (idle_ns + TICK_NS + 20_000, 52 * TICK_NS)]
    {
        let (mut processors, pool, threads) = cores(2, None, 3);
        let [a, b, c] = [threads[0], threads[1], threads[2]];
        processors.wake(a, None, 0);
        processors.wake(b, None, 0);
        assert!(processors.take(pool, 0).is_some() && processors.take(pool, 0).is_some());
        processors.done(b, idle_ns, false);
        assert_eq!(processors.take(pool, idle_ns), None);
        processors.wake(c, None, come_ns);
        assert_eq!(processors.threads[c].core, 0, "cores that busy are not searched");
        assert_eq!(processors.take(pool, come_ns), None);
        assert_eq!(processors.take(pool, taken_ns - 1), None);
        assert_eq!(took(&mut processors, pool, taken_ns), Some((c, true)));
        assert_eq!(processors.threads[c].core, 1);
    }
}

#[test]
fn a_core_that_sleeps_is_woken_and_takes_its_time() {
    const LATENCY_NS: u64 = 20_000;
    let mut processors = Processors::new(LATENCY_NS, 0.0);
    let pool = processors.add_pool(1);
    let group = processors.add_group(pool, None);
    let [a, b] = [0, 1].map(|_| processors.add_thread(group, 1));
    assert_eq!(processors.wake(a, None, 0), Woken::ThreadAndCore);
    assert_eq!(processors.wake(a, None, 0), Woken::Nobody);
    assert_eq!(processors.take(pool, 0), None);
    assert_eq!(processors.next_change(pool), Some(LATENCY_NS));
    let both = Pause { of_thread: true, of_core: true, is_shared: false };
    assert_eq!(processors.take(pool, LATENCY_NS), Some((a, both)));
    assert_eq!(processors.next_change(pool), None);
    assert_eq!(processors.wake(b, None, 30_000), Woken::Thread);
    processors.done(a, 30_000, false);
    let thread = Pause { of_thread: true, of_core: false, is_shared: true };
    assert_eq!(processors.take(pool, 30_000), Some((b, thread)));
    processors.done(b, 40_000, false);
    assert_eq!(processors.wake(a, None, 40_000 + DOZE_NS), Woken::Thread, "it has not begun to sleep");
    assert_eq!(processors.take(pool, 40_000 + DOZE_NS), Some((a, thread)));
    processors.done(a, 50_000, false);
    assert_eq!(processors.wake(a, None, 50_001 + DOZE_NS), Woken::ThreadAndCore);
}

#[test]
fn a_heavy_thread_has_its_share_of_a_core() {
    let mut processors = Processors::default();
    let pool = processors.add_pool(1);
    let group = processors.add_group(pool, None);
    let [light, heavy] = [1, 3].map(|weight| processors.add_thread(group, weight));
    processors.wake(light, None, 0);
    processors.wake(heavy, None, 0);
    run(&mut processors, pool, 1_000_000_000, 10_000);
    let part = processors.used_ns(heavy) as f64 / 1e9;
    assert!((0.7..0.8).contains(&part), "{part} of a core");
}

/// What counts of an unfinished turn is the part used so far, and of a heavy thread its weight's part of
/// that.
#[test]
fn a_newcomer_beside_a_heavy_thread_counts_only_the_used_part_of_its_turn() {
    let mut processors = Processors::default();
    let pool = processors.add_pool(1);
    let group = processors.add_group(pool, None);
    let [heavy, light] = [28, 1].map(|weight| processors.add_thread(group, weight));
    processors.wake(heavy, None, 0);
    processors.take(pool, 0);
    processors.charge(heavy, 28_000);
    processors.wake(light, None, 14_000);
    assert_eq!(processors.threads[light].behind_ns, 500);
}

#[test]
fn a_core_is_shared_for_a_while_after_another_thread_had_it() {
    let mut processors = Processors::new(0, 0.0);
    let pool = processors.add_pool(1);
    let group = processors.add_group(pool, None);
    let [a, b] = [0, 1].map(|_| processors.add_thread(group, 1));
    let mut turn = |id, now_ns| {
        processors.wake(id, None, now_ns);
        let (taken, pause) = processors.take(pool, now_ns).expect("it is the only one");
        assert_eq!(taken, id);
        processors.done(id, now_ns + 10_000, false);
        pause.is_shared
    };
    assert!(!turn(a, 0) && !turn(a, 20_000), "it was alone");
    assert!(turn(b, 40_000) && turn(a, 60_000) && turn(a, 70_000 + SHARED_NS - 20_000));
    assert!(!turn(a, 90_000 + SHARED_NS), "it had the core to itself since");
}
