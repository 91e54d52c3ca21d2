//! Who has a processor: threads take turns on cores, those of a group within its quota.
//!
//! A turn is what a thread does between two looks at its queues; it is never interrupted. A thread that has more to do keeps
//! its core for a stint of some turns; then, of the threads that wait, the one with the least processor time behind it is
//! next, as in the kernel's fair scheduler. A thread that slept has no claim on what it did not use meanwhile.
//!
//! A quota is enforced as the kernel does: it gives a group its budget in every period, and looks at what was used when a
//! thread falls asleep, or else once a tick. What was used too much by then is owed, and the group stands still until later
//! budgets have paid for it.

use std::collections::BTreeSet;

/// How long a thread keeps its core while others wait. Kernels differ, and let those that wake up in sooner: about what threads
/// of a busy node and its clients get on one machine.
const STINT_NS: u64 = 100_000;
/// The kernel's timer tick, at its usual 250 a second.
const TICK_NS: u64 = 4_000_000;

/// A share of a processor for all threads of a group together.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Quota {
    /// Processor time in each period.
    pub(crate) budget_ns: u64,
    /// The period.
    pub(crate) period_ns: u64,
}

/// A thread, by number.
pub(crate) type ThreadId = usize;
/// A number of cores that the threads of some groups share.
pub(crate) type PoolId = usize;
/// Threads with a quota in common.
pub(crate) type GroupId = usize;

#[derive(Debug)]
struct Pool {
    idle_cores: usize,
    /// Who goes on with its stint.
    going_on: Vec<ThreadId>,
    waiting: BTreeSet<(u64, ThreadId)>,
    /// What the thread that began its stint last had behind it.
    least_ns: u64,
    groups: Vec<GroupId>,
}

#[derive(Debug)]
struct Group {
    pool: PoolId,
    account: Option<Account>,
    /// Threads that would wait for a core if the group did not stand still.
    standing: Vec<ThreadId>,
    used_ns: u64,
}

/// What is left of a quota.
#[derive(Debug)]
struct Account {
    quota: Quota,
    period: u64,
    left_ns: i64,
    tick: u64,
    /// Until when the group stands still.
    stands_until_ns: Option<u64>,
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
    /// Something came while it ran.
    is_woken: bool,
    /// Whether its next turn is the first since it slept.
    has_slept: bool,
    /// Its claim: the less, the sooner.
    behind_ns: u64,
    /// What it has used of its stint.
    stint_ns: u64,
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
        self.pools.push(Pool {
            idle_cores: cores,
            going_on: Vec::new(),
            waiting: BTreeSet::new(),
            least_ns: 0,
            groups: Vec::new(),
        });
        self.pools.len() - 1
    }

    /// How many numbers of cores there are.
    pub(crate) fn pools(&self) -> usize {
        self.pools.len()
    }

    /// A group of threads on these cores.
    pub(crate) fn add_group(&mut self, pool: PoolId, quota: Option<Quota>) -> GroupId {
        let account = quota.map(|quota| Account {
            quota,
            period: 0,
            left_ns: quota.budget_ns as i64,
            tick: 0,
            stands_until_ns: None,
        });
        self.groups.push(Group { pool, account, standing: Vec::new(), used_ns: 0 });
        self.pools[pool].groups.push(self.groups.len() - 1);
        self.groups.len() - 1
    }

    /// A thread of a group, asleep.
    pub(crate) fn add_thread(&mut self, group: GroupId) -> ThreadId {
        self.threads.push(Thread {
            group,
            state: State::Asleep,
            is_woken: false,
            has_slept: true,
            behind_ns: 0,
            stint_ns: 0,
            used_ns: 0,
        });
        self.threads.len() - 1
    }

    /// Something came for a thread.
    pub(crate) fn wake(&mut self, id: ThreadId) {
        let thread = &mut self.threads[id];
        match thread.state {
            State::Asleep => {
                thread.has_slept = true;
                let pool = self.groups[thread.group].pool;
                thread.behind_ns = thread.behind_ns.max(self.pools[pool].least_ns);
                self.wait(id);
            }
            State::Waiting => {}
            State::Running => thread.is_woken = true,
        }
    }

    /// A thread wants a core.
    fn wait(&mut self, id: ThreadId) {
        let thread = &mut self.threads[id];
        (thread.state, thread.stint_ns) = (State::Waiting, 0);
        let group = &mut self.groups[thread.group];
        if group.stands() {
            group.standing.push(id);
        } else {
            self.pools[group.pool].waiting.insert((thread.behind_ns, id));
        }
    }

    /// The next thread to run on these cores, if one of them is idle; and whether it slept before.
    pub(crate) fn take(&mut self, pool: PoolId, now_ns: u64) -> Option<(ThreadId, bool)> {
        self.release(pool, now_ns);
        let pool = &mut self.pools[pool];
        if pool.idle_cores == 0 {
            return None;
        }
        let id = loop {
            let id = match pool.going_on.pop() {
                Some(id) => id,
                None => {
                    let (behind_ns, id) = pool.waiting.pop_first()?;
                    pool.least_ns = pool.least_ns.max(behind_ns);
                    id
                }
            };
            let group = &mut self.groups[self.threads[id].group];
            if !group.stands() {
                break id;
            }
            group.standing.push(id);
        };
        pool.idle_cores -= 1;
        let thread = &mut self.threads[id];
        thread.state = State::Running;
        thread.is_woken = false;
        Some((id, std::mem::take(&mut thread.has_slept)))
    }

    /// Lets groups go on whose time has come.
    fn release(&mut self, pool: PoolId, now_ns: u64) {
        for index in 0..self.pools[pool].groups.len() {
            let group = &mut self.groups[self.pools[pool].groups[index]];
            let Some(account) = &mut group.account else { continue };
            if account.stands_until_ns.is_some_and(|until_ns| until_ns <= now_ns) {
                account.stands_until_ns = None;
                for id in std::mem::take(&mut group.standing) {
                    self.pools[pool].waiting.insert((self.threads[id].behind_ns, id));
                }
            }
        }
    }

    /// When a group that stands still goes on, the first of those on these cores.
    pub(crate) fn next_release(&self, pool: PoolId) -> Option<u64> {
        let accounts =
            self.pools[pool].groups.iter().filter_map(|&group| self.groups[group].account.as_ref());
        accounts.filter_map(|account| account.stands_until_ns).min()
    }

    /// A thread's turn takes so much processor time.
    pub(crate) fn charge(&mut self, id: ThreadId, cost_ns: u64) {
        let thread = &mut self.threads[id];
        thread.behind_ns += cost_ns;
        thread.used_ns += cost_ns;
        thread.stint_ns += cost_ns;
        self.groups[thread.group].used_ns += cost_ns;
    }

    /// A turn that was charged so much is over. `has_more`: the thread has something to do at once.
    pub(crate) fn done(&mut self, id: ThreadId, now_ns: u64, cost_ns: u64, has_more: bool) {
        let thread = &mut self.threads[id];
        let group = &mut self.groups[thread.group];
        let pool = &mut self.pools[group.pool];
        pool.idle_cores += 1;
        thread.state = State::Asleep;
        let has_more = has_more || thread.is_woken;
        let goes_on = has_more && (thread.stint_ns < STINT_NS || pool.waiting.is_empty());
        if let Some(account) = &mut group.account {
            account.spend(now_ns, cost_ns, !has_more);
        }
        if goes_on && !group.stands() {
            thread.state = State::Waiting;
            pool.going_on.push(id);
        } else if has_more {
            self.wait(id);
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

impl Group {
    fn stands(&self) -> bool {
        self.account.as_ref().is_some_and(|account| account.stands_until_ns.is_some())
    }
}

impl Account {
    /// So much was used up to now. `is_looked_at`: a thread falls asleep, so that the kernel looks.
    fn spend(&mut self, now_ns: u64, cost_ns: u64, is_looked_at: bool) {
        let Quota { budget_ns, period_ns } = self.quota;
        let period = now_ns / period_ns;
        // A core may have been granted its turn's beginning before another one's end.
        let periods = period.saturating_sub(self.period);
        self.period = self.period.max(period);
        self.left_ns = self.left_ns.saturating_add_unsigned(periods * budget_ns).min(budget_ns as i64);
        self.left_ns -= cost_ns as i64;
        let tick = now_ns / TICK_NS;
        let is_ticked = tick > std::mem::replace(&mut self.tick, tick);
        if self.left_ns <= 0 && (is_looked_at || is_ticked) {
            let missing = self.left_ns.unsigned_abs() / budget_ns + 1;
            self.stands_until_ns = Some((self.period + missing) * period_ns);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// One core, and a group with so many threads on it.
    fn one_core(quota: Option<Quota>, threads: usize) -> (Processors, PoolId, Vec<ThreadId>) {
        let mut processors = Processors::default();
        let pool = processors.add_pool(1);
        let group = processors.add_group(pool, quota);
        let threads = (0..threads).map(|_| processors.add_thread(group)).collect();
        (processors, pool, threads)
    }

    /// Runs whoever is next for one turn of its length; who it was, and when it is over.
    fn turn(
        processors: &mut Processors,
        pool: PoolId,
        now_ns: u64,
        cost: impl Fn(ThreadId) -> u64,
    ) -> Option<(ThreadId, u64)> {
        let (id, _) = processors.take(pool, now_ns)?;
        processors.charge(id, cost(id));
        processors.done(id, now_ns + cost(id), cost(id), true);
        Some((id, now_ns + cost(id)))
    }

    #[test]
    fn threads_share_a_core_by_what_they_have_used() {
        let (mut processors, pool, threads) = one_core(None, 2);
        let (a, b) = (threads[0], threads[1]);
        processors.wake(a);
        processors.wake(b);
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
        let (mut processors, pool, threads) = one_core(None, 2);
        let (a, b) = (threads[0], threads[1]);
        processors.wake(a);
        processors.wake(b);
        let mut ran = Vec::new();
        for step in 0..8 {
            ran.push(turn(&mut processors, pool, step, |_| STINT_NS / 4).expect("both have more to do").0);
        }
        assert_eq!(ran, [a, a, a, a, b, b, b, b]);
    }

    #[test]
    fn groups_share_cores() {
        let mut processors = Processors::default();
        let pool = processors.add_pool(1);
        let groups = [processors.add_group(pool, None), processors.add_group(pool, None)];
        let [a, b] = groups.map(|group| processors.add_thread(group));
        processors.wake(a);
        processors.wake(b);
        assert_eq!(processors.take(pool, 0), Some((a, true)));
        assert_eq!(processors.take(pool, 0), None, "there is one core");
        assert_eq!((processors.pool_of(a), processors.pool_of(b)), (pool, pool));
    }

    #[test]
    fn who_slept_has_no_claim_on_the_past() {
        let (mut processors, pool, threads) = one_core(None, 2);
        let (busy, late) = (threads[0], threads[1]);
        processors.wake(busy);
        for _ in 0..10 {
            turn(&mut processors, pool, 0, |_| STINT_NS).expect("it has more");
        }
        processors.wake(late);
        let mut turns = 0;
        while turn(&mut processors, pool, 0, |_| STINT_NS).expect("both have more").0 == late {
            turns += 1;
        }
        assert!(turns <= 2, "it took {turns} turns in a row");
    }

    #[test]
    fn a_group_that_used_its_budget_up_stands_still_and_leaves_its_core() {
        let mut processors = Processors::default();
        let pool = processors.add_pool(1);
        let quota = Quota { budget_ns: 400_000, period_ns: 1_000_000 };
        let [limited, free] = [processors.add_group(pool, Some(quota)), processors.add_group(pool, None)];
        let [limited, free] = [limited, free].map(|group| processors.add_thread(group));
        processors.wake(limited);
        processors.wake(free);
        let (mut now_ns, mut used_ns) = (0, [0; 2]);
        while now_ns < 1_000_000_000 {
            let (id, end_ns) = turn(&mut processors, pool, now_ns, |_| 50_000).expect("one always can");
            used_ns[id] += end_ns - now_ns;
            now_ns = end_ns;
        }
        let part = used_ns[limited] as f64 / now_ns as f64;
        assert!((0.39..0.41).contains(&part), "{part} of a core");
        assert_eq!(used_ns[free], now_ns - used_ns[limited]);
    }

    /// Nobody else wants the core, so the kernel looks once a tick.
    #[test]
    fn a_thread_alone_uses_too_much_until_a_tick_and_pays_for_it() {
        let quota = Quota { budget_ns: 1_000_000, period_ns: 2_500_000 };
        let (mut processors, pool, threads) = one_core(Some(quota), 1);
        let thread = threads[0];
        processors.wake(thread);
        let (mut now_ns, mut longest_ns) = (0, 0);
        while now_ns < 1_000_000_000 {
            if let Some((_, end_ns)) = turn(&mut processors, pool, now_ns, |_| 10_000) {
                now_ns = end_ns;
                continue;
            }
            let until_ns = processors.next_release(pool).expect("it stands still");
            longest_ns = longest_ns.max(until_ns - now_ns);
            now_ns = until_ns;
        }
        let part = processors.used_ns(thread) as f64 / now_ns as f64;
        assert!((0.39..0.41).contains(&part), "{part} of a core");
        assert!((5_000_000..10_000_000).contains(&longest_ns), "it stands for {longest_ns} ns");
    }

    /// The kernel looks, and whoever waits for a core already does not get one either.
    #[test]
    fn a_thread_that_falls_asleep_over_budget_stops_its_group() {
        let quota = Quota { budget_ns: 400_000, period_ns: 1_000_000 };
        let (mut processors, pool, threads) = one_core(Some(quota), 2);
        let (a, b) = (threads[0], threads[1]);
        processors.wake(a);
        processors.wake(b);
        assert_eq!(processors.take(pool, 0), Some((a, true)));
        processors.charge(a, 450_000);
        processors.done(a, 450_000, 450_000, false);
        assert_eq!(processors.take(pool, 450_000), None);
        assert_eq!(processors.next_release(pool), Some(1_000_000));
        assert_eq!(processors.take(pool, 999_999), None);
        assert_eq!(processors.take(pool, 1_000_000), Some((b, true)));
    }

    #[test]
    fn what_comes_while_a_thread_runs_gives_it_another_turn() {
        let (mut processors, pool, threads) = one_core(None, 1);
        let thread = threads[0];
        processors.wake(thread);
        assert_eq!(processors.take(pool, 0), Some((thread, true)));
        processors.wake(thread);
        processors.done(thread, 1, 1, false);
        assert_eq!(processors.take(pool, 1), Some((thread, false)));
        processors.done(thread, 2, 1, false);
        assert_eq!(processors.take(pool, 2), None);
    }
}
