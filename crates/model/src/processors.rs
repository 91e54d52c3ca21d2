//! Who has a processor: threads take turns on cores, those of a group within its quota.
//!
//! A turn is what a thread does between two looks at its queues; it is never interrupted. A thread that has more to do keeps
//! its core for a stint of some turns; then, of the threads that wait there, the one with the least processor time behind it is
//! next, as in the kernel's fair scheduler. A thread that slept, or whose group stood still, has no claim on what it did not use
//! meanwhile.
//!
//! Each core has a queue of its own. A thread wakes up on the core that it was on last if that is idle, else on the first idle
//! one, else in the queue of its last. An idle core takes a thread that waits elsewhere, unless that ran a moment ago. The
//! kernel does so by and large; left out are who woke whom, loads, and groups' claims on a core against each other.
//!
//! A quota is enforced as the kernel does ([`quota`](crate::quota)): what a thread has used counts when somebody looks. That is
//! when the core turns to another thread or none, when a thread of the group joins or leaves the core's queue, when the thread
//! asks for its processor time, and at the core's tick. A thread that nobody looks at overruns. A thread that wakes up on a core
//! where its group stands still stands there, though other cores may be idle: whoever chooses a core does not look at quotas.

use crate::quota::{Bandwidth, Quota};

/// How long a thread keeps its core while others wait. Kernels differ, and let those that wake up in sooner: about what threads
/// of a busy node and its clients get on one machine.
const STINT_NS: u64 = 100_000;
/// The kernel's timer tick, at its usual 250 a second; that of all cores at once.
const TICK_NS: u64 = 4_000_000;
/// Another core does not take a thread that has run less long ago: `migration_cost_ns`, what moving a warm cache is put at.
const WARM_NS: u64 = 500_000;

/// A thread, by number.
pub(crate) type ThreadId = usize;
/// A number of cores that the threads of some groups share.
pub(crate) type PoolId = usize;
/// Threads with a quota in common.
pub(crate) type GroupId = usize;

#[derive(Debug, Default)]
struct Core {
    /// Who has it, in a turn or between two turns of a stint.
    current: Option<ThreadId>,
    is_in_turn: bool,
    /// When the present turn began.
    turn_ns: u64,
    /// Up to when what its thread used has counted.
    counted_ns: u64,
    /// Somebody looked, and its thread's group has nothing left here.
    is_overdrawn: bool,
    /// Who waits here, those included whose group stands still here.
    waiting: Vec<ThreadId>,
    /// What the thread that began its stint last had behind it.
    least_ns: u64,
}

#[derive(Debug)]
struct Pool {
    cores: Vec<Core>,
    groups: Vec<GroupId>,
}

#[derive(Debug)]
struct Group {
    pool: PoolId,
    bandwidth: Option<Bandwidth>,
    used_ns: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Asleep,
    Waiting,
    Running,
}

#[derive(Debug)]
struct Thread {
    group: GroupId,
    state: State,
    /// Where it is, or was last.
    core: usize,
    /// Something came while it ran.
    is_woken: bool,
    /// Whether its next turn is the first since it slept.
    has_slept: bool,
    /// Its claim on its core: the less, the sooner.
    behind_ns: u64,
    /// What it has used of its stint.
    stint_ns: u64,
    /// When its last turn ended.
    ran_ns: u64,
    used_ns: u64,
}

/// All cores and the threads on them.
#[derive(Debug, Default)]
pub(crate) struct Processors {
    pools: Vec<Pool>,
    groups: Vec<Group>,
    threads: Vec<Thread>,
}

impl Processors {
    /// So many cores.
    pub(crate) fn add_pool(&mut self, cores: usize) -> PoolId {
        let cores = (0..cores).map(|_| Core::default()).collect();
        self.pools.push(Pool { cores, groups: Vec::new() });
        self.pools.len() - 1
    }

    /// How many numbers of cores there are.
    pub(crate) fn pools(&self) -> usize {
        self.pools.len()
    }

    /// A group of threads on these cores.
    pub(crate) fn add_group(&mut self, pool: PoolId, quota: Option<Quota>) -> GroupId {
        let bandwidth = quota.map(|quota| Bandwidth::new(quota, self.pools[pool].cores.len()));
        self.groups.push(Group { pool, bandwidth, used_ns: 0 });
        self.pools[pool].groups.push(self.groups.len() - 1);
        self.groups.len() - 1
    }

    /// A thread of a group, asleep.
    pub(crate) fn add_thread(&mut self, group: GroupId) -> ThreadId {
        let id = self.threads.len();
        self.threads.push(Thread {
            group,
            state: State::Asleep,
            core: id % self.pools[self.groups[group].pool].cores.len(),
            is_woken: false,
            has_slept: true,
            behind_ns: 0,
            stint_ns: 0,
            ran_ns: 0,
            used_ns: 0,
        });
        id
    }

    /// Something came for a thread.
    pub(crate) fn wake(&mut self, id: ThreadId, now_ns: u64) {
        match self.threads[id].state {
            State::Asleep => {
                let pool = self.pool_of(id);
                self.advance(pool, now_ns);
                let last = self.threads[id].core;
                let idle = (0..self.pools[pool].cores.len()).find(|&core| self.is_idle(pool, core));
                let core = if self.is_idle(pool, last) { last } else { idle.unwrap_or(last) };
                let thread = &mut self.threads[id];
                (thread.state, thread.has_slept) = (State::Waiting, true);
                self.join(id, core, now_ns);
            }
            State::Waiting => {}
            State::Running => self.threads[id].is_woken = true,
        }
    }

    /// A thread comes to a core's queue.
    fn join(&mut self, id: ThreadId, core: usize, now_ns: u64) {
        let (pool, group) = (self.pool_of(id), self.threads[id].group);
        let is_current = self.has_current(pool, core, group);
        if is_current {
            self.count(pool, core, now_ns);
        } else if let Some(bandwidth) = &mut self.groups[group].bandwidth {
            let is_first =
                !self.pools[pool].cores[core].waiting.iter().any(|&id| self.threads[id].group == group);
            if is_first && !bandwidth.spend(core, 0) {
                bandwidth.stop(core);
            }
        }
        let cores = &mut self.pools[pool].cores;
        let thread = &mut self.threads[id];
        let ahead_ns = thread.behind_ns.saturating_sub(cores[thread.core].least_ns);
        (thread.core, thread.stint_ns) = (core, 0);
        thread.behind_ns = cores[core].least_ns + ahead_ns;
        cores[core].waiting.push(id);
    }

    /// The next thread to run on these cores, if one of them has nothing to do; and whether it slept before.
    pub(crate) fn take(&mut self, pool: PoolId, now_ns: u64) -> Option<(ThreadId, bool)> {
        self.advance(pool, now_ns);
        let cores = 0..self.pools[pool].cores.len();
        let (core, id) = (cores.clone().find_map(|core| Some((core, self.next_of(pool, core)?))))
            .or_else(|| cores.clone().find_map(|core| Some((core, self.pull(pool, core, now_ns)?))))?;
        let core = &mut self.pools[pool].cores[core];
        let thread = &mut self.threads[id];
        if core.current != Some(id) {
            core.waiting.retain(|&waiting| waiting != id);
            core.least_ns = core.least_ns.max(thread.behind_ns);
            thread.behind_ns = core.least_ns;
            (core.current, core.counted_ns, core.is_overdrawn) = (Some(id), now_ns, false);
        }
        (core.is_in_turn, core.turn_ns) = (true, now_ns);
        thread.state = State::Running;
        thread.is_woken = false;
        Some((id, std::mem::take(&mut thread.has_slept)))
    }

    /// Who has the next turn on a core: who goes on with a stint, or the first of its queue that may run.
    fn next_of(&self, pool: PoolId, core: usize) -> Option<ThreadId> {
        let Core { current, is_in_turn, .. } = self.pools[pool].cores[core];
        match current {
            Some(_) if is_in_turn => None,
            Some(id) => Some(id),
            None => self.first_of(pool, core, |_| true),
        }
    }

    /// The first of a core's queue that may run there, of those that are wanted.
    fn first_of(&self, pool: PoolId, core: usize, is_wanted: impl Fn(ThreadId) -> bool) -> Option<ThreadId> {
        let Core { waiting, least_ns, .. } = &self.pools[pool].cores[core];
        let may_run = waiting.iter().copied().filter(|&id| !self.stands(id, core) && is_wanted(id));
        may_run.min_by_key(|&id| (self.threads[id].behind_ns.max(*least_ns), id))
    }

    /// An idle core takes a thread that waits elsewhere. The thread may find that its group has nothing left here.
    fn pull(&mut self, pool: PoolId, core: usize, now_ns: u64) -> Option<ThreadId> {
        if !self.is_idle(pool, core) {
            return None;
        }
        for other in 0..self.pools[pool].cores.len() {
            let is_wanted =
                |id: ThreadId| !self.stands(id, core) && self.threads[id].ran_ns + WARM_NS <= now_ns;
            if other != core
                && let Some(id) = self.first_of(pool, other, is_wanted)
            {
                self.pools[pool].cores[other].waiting.retain(|&waiting| waiting != id);
                self.leave(pool, other, self.threads[id].group, now_ns);
                self.join(id, core, now_ns);
                return self.first_of(pool, core, |_| true);
            }
        }
        None
    }

    /// A thread of a group has left a core's queue.
    fn leave(&mut self, pool: PoolId, core: usize, group: GroupId, now_ns: u64) {
        let is_there = self.has_current(pool, core, group);
        if is_there {
            self.count(pool, core, now_ns);
        }
        let waiting = &self.pools[pool].cores[core].waiting;
        let is_last = !is_there && !waiting.iter().any(|&id| self.threads[id].group == group);
        if let Some(bandwidth) = &mut self.groups[group].bandwidth
            && is_last
        {
            bandwidth.leave(core, now_ns);
        }
    }

    fn has_current(&self, pool: PoolId, core: usize, group: GroupId) -> bool {
        self.pools[pool].cores[core].current.is_some_and(|id| self.threads[id].group == group)
    }

    fn is_idle(&self, pool: PoolId, core: usize) -> bool {
        self.pools[pool].cores[core].current.is_none() && self.first_of(pool, core, |_| true).is_none()
    }

    /// Whether a thread's group stands still on a core.
    fn stands(&self, id: ThreadId, core: usize) -> bool {
        self.groups[self.threads[id].group].bandwidth.as_ref().is_some_and(|it| it.is_stopped(core))
    }

    /// Begins the periods of quotas that were due.
    fn advance(&mut self, pool: PoolId, now_ns: u64) {
        for &group in &self.pools[pool].groups {
            if let Some(bandwidth) = &mut self.groups[group].bandwidth {
                bandwidth.advance(now_ns);
            }
        }
    }

    /// Somebody looks at a core: what its thread has used counts.
    fn count(&mut self, pool: PoolId, core: usize, now_ns: u64) {
        let place = &mut self.pools[pool].cores[core];
        let Some(id) = place.current else { return };
        let used_ns = now_ns - std::mem::replace(&mut place.counted_ns, now_ns);
        if let Some(bandwidth) = &mut self.groups[self.threads[id].group].bandwidth {
            place.is_overdrawn = !bandwidth.spend(core, used_ns);
        }
    }

    /// When a group that stands still on one of these cores may go on, the first of those.
    pub(crate) fn next_release(&self, pool: PoolId) -> Option<u64> {
        let groups = self.pools[pool].groups.iter();
        groups.filter_map(|&group| self.groups[group].bandwidth.as_ref()?.next_ns()).min()
    }

    /// A thread's turn takes so much processor time.
    pub(crate) fn charge(&mut self, id: ThreadId, cost_ns: u64) {
        let thread = &mut self.threads[id];
        thread.behind_ns += cost_ns;
        thread.used_ns += cost_ns;
        thread.stint_ns += cost_ns;
        self.groups[thread.group].used_ns += cost_ns;
    }

    /// A thread that has a core asks for its processor time.
    pub(crate) fn look(&mut self, id: ThreadId, now_ns: u64) {
        let pool = self.pool_of(id);
        self.advance(pool, now_ns);
        self.count(pool, self.threads[id].core, now_ns);
    }

    /// A turn is over. `has_more`: the thread has something to do at once.
    pub(crate) fn done(&mut self, id: ThreadId, now_ns: u64, has_more: bool) {
        let (pool, group, core) = (self.pool_of(id), self.threads[id].group, self.threads[id].core);
        self.advance(pool, now_ns);
        let thread = &mut self.threads[id];
        thread.ran_ns = now_ns;
        let has_more = has_more || thread.is_woken;
        let is_stint_over = thread.stint_ns >= STINT_NS;
        let place = &mut self.pools[pool].cores[core];
        place.is_in_turn = false;
        if now_ns / TICK_NS > place.turn_ns / TICK_NS {
            self.count(pool, core, now_ns);
        }
        let is_overdrawn = self.pools[pool].cores[core].is_overdrawn;
        let is_over = is_overdrawn || is_stint_over && self.first_of(pool, core, |_| true).is_some();
        if has_more && !is_over {
            self.threads[id].state = State::Waiting;
            return;
        }
        self.count(pool, core, now_ns);
        self.pools[pool].cores[core].current = None;
        if has_more {
            self.pools[pool].cores[core].waiting.push(id);
            let thread = &mut self.threads[id];
            (thread.state, thread.stint_ns) = (State::Waiting, 0);
        } else {
            self.threads[id].state = State::Asleep;
            self.leave(pool, core, group, now_ns);
        }
        if let Some(bandwidth) = &mut self.groups[group].bandwidth {
            bandwidth.stop(core);
        }
    }

    /// The cores of a thread.
    pub(crate) fn pool_of(&self, id: ThreadId) -> PoolId {
        self.groups[self.threads[id].group].pool
    }

    /// Processor time that a thread has used.
    pub(crate) fn used_ns(&self, id: ThreadId) -> u64 {
        self.threads[id].used_ns
    }

    /// Processor time that all threads of a group have used.
    pub(crate) fn used_by_group_ns(&self, group: GroupId) -> u64 {
        self.groups[group].used_ns
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    const QUOTA: Quota = Quota { budget_ns: 1_000_000, period_ns: 2_500_000, first_ns: 2_500_000 };

    /// So many cores, and a group with so many threads on them.
    fn cores(cores: usize, quota: Option<Quota>, threads: usize) -> (Processors, PoolId, Vec<ThreadId>) {
        let mut processors = Processors::default();
        let pool = processors.add_pool(cores);
        let group = processors.add_group(pool, quota);
        let threads = (0..threads).map(|_| processors.add_thread(group)).collect();
        (processors, pool, threads)
    }

    /// Runs whoever is next on one core for one turn of its length; who it was, and when it is over.
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

    /// Lets threads that always have more to do run for so long, in turns of this length.
    fn run(processors: &mut Processors, pool: PoolId, for_ns: u64, cost_ns: u64) {
        let mut ends: BTreeSet<(u64, ThreadId)> = BTreeSet::new();
        let mut now_ns = 0;
        while now_ns < for_ns {
            while let Some((id, _)) = processors.take(pool, now_ns) {
                processors.charge(id, cost_ns);
                ends.insert((now_ns + cost_ns, id));
            }
            let release_ns = processors.next_release(pool).unwrap_or(u64::MAX);
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
        processors.wake(a, 0);
        processors.wake(b, 0);
        let (mut ran, mut now_ns) = (Vec::new(), 0);
        for _ in 0..8 {
            let cost = |id| if id == a { STINT_NS } else { 3 * STINT_NS };
            let (id, end_ns) =
                turn(&mut processors, pool, now_ns, cost).expect("both always have more to do");
            ran.push(id);
            now_ns = end_ns;
        }
        assert_eq!(ran.iter().filter(|&&id| id == a).count(), 6, "{ran:?}");
        assert_eq!((processors.used_ns(a), processors.used_ns(b)), (6 * STINT_NS, 6 * STINT_NS));
        assert_eq!(processors.used_by_group_ns(0), now_ns);
    }

    #[test]
    fn a_thread_keeps_its_core_for_a_stint() {
        let (mut processors, pool, threads) = cores(1, None, 2);
        let (a, b) = (threads[0], threads[1]);
        processors.wake(a, 0);
        processors.wake(b, 0);
        let (mut ran, mut now_ns) = (Vec::new(), 0);
        for _ in 0..8 {
            let (id, end_ns) =
                turn(&mut processors, pool, now_ns, |_| STINT_NS / 4).expect("both have more to do");
            ran.push(id);
            now_ns = end_ns;
        }
        assert_eq!(ran, [a, a, a, a, b, b, b, b]);
    }

    #[test]
    fn groups_share_cores() {
        let mut processors = Processors::default();
        let pool = processors.add_pool(1);
        let groups = [processors.add_group(pool, None), processors.add_group(pool, None)];
        let [a, b] = groups.map(|group| processors.add_thread(group));
        processors.wake(a, 0);
        processors.wake(b, 0);
        assert_eq!(processors.take(pool, 0), Some((a, true)));
        assert_eq!(processors.take(pool, 0), None, "there is one core");
        assert_eq!((processors.pool_of(a), processors.pool_of(b)), (pool, pool));
    }

    #[test]
    fn who_slept_has_no_claim_on_the_past() {
        let (mut processors, pool, threads) = cores(1, None, 2);
        let (busy, late) = (threads[0], threads[1]);
        processors.wake(busy, 0);
        let mut now_ns = 0;
        for _ in 0..10 {
            now_ns = turn(&mut processors, pool, now_ns, |_| STINT_NS).expect("it has more").1;
        }
        processors.wake(late, now_ns);
        let mut turns = 0;
        while let Some((id, end_ns)) = turn(&mut processors, pool, now_ns, |_| STINT_NS)
            && id == late
        {
            (turns, now_ns) = (turns + 1, end_ns);
        }
        assert!(turns <= 2, "it took {turns} turns in a row");
    }

    #[test]
    fn a_thread_wakes_up_where_it_was_if_that_is_idle_and_else_on_another_idle_core() {
        let (mut processors, pool, threads) = cores(2, None, 4);
        let [a, b, c, _] = [threads[0], threads[1], threads[2], threads[3]];
        processors.wake(b, 0);
        processors.wake(c, 0);
        let on = |processors: &Processors, id: ThreadId| processors.threads[id].core;
        assert_eq!((on(&processors, b), on(&processors, c)), (1, 0));
        processors.take(pool, 0);
        processors.take(pool, 0);
        processors.wake(a, 0);
        assert_eq!((on(&processors, a), processors.take(pool, 0)), (0, None), "all are busy, so it waits");
        processors.done(b, 10, false);
        processors.wake(b, 10);
        processors.take(pool, 10);
        processors.done(c, 20, false);
        assert_eq!(processors.take(pool, 20), Some((a, true)));
        processors.wake(c, 20);
        processors.done(b, 30, false);
        assert_eq!(
            processors.take(pool, 30),
            None,
            "it ran just now, so it waits for the core that it was on"
        );
        assert_eq!(processors.take(pool, 20 + WARM_NS), Some((c, true)));
        assert_eq!(on(&processors, c), 1);
    }

    #[test]
    fn a_group_that_used_its_budget_up_stands_still_and_leaves_its_core() {
        let mut processors = Processors::default();
        let pool = processors.add_pool(1);
        let [limited, free] = [processors.add_group(pool, Some(QUOTA)), processors.add_group(pool, None)];
        let [limited, free] = [limited, free].map(|group| processors.add_thread(group));
        processors.wake(limited, 0);
        processors.wake(free, 0);
        run(&mut processors, pool, 1_000_000_000, 50_000);
        let [limited, free] = [limited, free].map(|id| processors.used_ns(id) as f64 / 1e9);
        assert!(
            (limited - 0.4).abs() < 0.005 && (free - 0.6).abs() < 0.005,
            "{limited} and {free} of a core"
        );
    }

    /// What a core has too much, what it owes and what it is paid cancel out in the long run.
    #[test]
    fn a_share_is_kept_in_the_long_run() {
        for (threads, cost_ns) in [(1, 10_000), (2, 10_000), (3, 10_000), (2, 170_000), (3, 430_000)] {
            let (mut processors, pool, ids) = cores(2, Some(QUOTA), threads);
            for id in ids {
                processors.wake(id, 0);
            }
            run(&mut processors, pool, 10_000_000_000, cost_ns);
            let part = processors.used_by_group_ns(0) as f64 / 1e10;
            assert!((part / 0.4 - 1.0).abs() < 0.01, "{threads} threads: {part} of a core");
        }
    }

    /// Nobody else wants the core, so the kernel looks once a tick.
    #[test]
    fn a_thread_alone_uses_too_much_until_a_tick_and_pays_for_it() {
        let (mut processors, pool, threads) = cores(1, Some(QUOTA), 1);
        processors.wake(threads[0], 0);
        let mut now_ns = 0;
        while let Some((_, end_ns)) = turn(&mut processors, pool, now_ns, |_| 10_000) {
            now_ns = end_ns;
        }
        assert_eq!(now_ns, TICK_NS, "the pool gave it 1 ms at first and 1 at the tick, but it had used 4");
        assert_eq!(processors.next_release(pool), Some(5_000_000));
        assert_eq!(processors.take(pool, 5_000_000), None, "1 ms is left to pay");
        assert_eq!(processors.take(pool, 7_500_000), None, "it is even, and has nothing");
        assert_eq!(processors.take(pool, 10_000_000), Some((threads[0], false)));
    }

    /// Between two ticks more periods begin than the pool can hold. (On a machine a busy loop gets 0.7 of its core this way.)
    #[test]
    fn a_thread_alone_with_a_whole_processor_does_not_get_it() {
        let quota = Quota { budget_ns: 2_500_000, ..QUOTA };
        let (mut processors, pool, threads) = cores(1, Some(quota), 1);
        processors.wake(threads[0], 0);
        run(&mut processors, pool, 1_000_000_000, 10_000);
        let part = processors.used_ns(threads[0]) as f64 / 1e9;
        assert!((0.75..0.8).contains(&part), "{part} of a core");
    }

    #[test]
    fn a_thread_that_asks_for_its_processor_time_is_looked_at() {
        let (mut processors, pool, threads) = cores(1, Some(QUOTA), 1);
        processors.wake(threads[0], 0);
        let mut now_ns = 0;
        while processors.take(pool, now_ns).is_some() {
            now_ns += 10_000;
            processors.look(threads[0], now_ns);
            processors.done(threads[0], now_ns, true);
        }
        assert_eq!(now_ns, QUOTA.budget_ns);
    }

    /// The core counts when a thread of the group joins it, and the one that runs is stopped though no tick has come.
    #[test]
    fn a_thread_of_the_group_that_wakes_up_beside_one_that_runs_makes_the_core_count() {
        let (mut processors, pool, threads) = cores(1, Some(QUOTA), 2);
        let (a, b) = (threads[0], threads[1]);
        processors.wake(a, 0);
        processors.take(pool, 0);
        processors.charge(a, 1_510_000);
        processors.wake(b, 1_500_000);
        processors.done(a, 1_510_000, true);
        assert_eq!(processors.take(pool, 1_510_000), None);
        assert_eq!(processors.next_release(pool), Some(2_500_000));
        assert_eq!(processors.take(pool, 2_500_000).map(|(id, _)| id), Some(b), "the second has used less");
    }

    /// Debts are a core's own: the group runs on elsewhere, and who wakes up on the core that owes stands beside an idle one.
    #[test]
    fn a_thread_stands_on_a_core_that_owes_while_its_group_runs_on_another() {
        let (mut processors, pool, threads) = cores(2, Some(QUOTA), 2);
        let (a, b) = (threads[0], threads[1]);
        processors.wake(a, 0);
        processors.take(pool, 0);
        processors.wake(b, 2_600_000);
        processors.take(pool, 2_600_000);
        processors.done(b, 2_700_000, false);
        processors.done(a, 3_900_000, false);
        processors.wake(b, 3_900_000);
        processors.wake(a, 3_900_000);
        assert_eq!(processors.take(pool, 3_900_000), Some((b, true)), "its core has 0.9 ms left");
        assert_eq!(processors.take(pool, 3_900_000), None, "this core owes 2.9 ms");
        processors.done(b, 3_950_000, false);
        assert_eq!(processors.take(pool, 3_950_000), None, "and nobody takes the thread to the idle core");
    }

    #[test]
    fn what_comes_while_a_thread_runs_gives_it_another_turn() {
        let (mut processors, pool, threads) = cores(1, None, 1);
        let thread = threads[0];
        processors.wake(thread, 0);
        assert_eq!(processors.take(pool, 0), Some((thread, true)));
        processors.wake(thread, 0);
        processors.done(thread, 1, false);
        assert_eq!(processors.take(pool, 1), Some((thread, false)));
        processors.done(thread, 2, false);
        assert_eq!(processors.take(pool, 2), None);
    }
}
