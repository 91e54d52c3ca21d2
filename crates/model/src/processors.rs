//! Scheduling: threads share cores, those of a group within its quota.
//!
//! A turn is a thread's work between two checks of its queues; it is never interrupted. A thread with more
//! work keeps its core, turn by turn. It loses the core when a thread with a better claim wakes up there
//! ([`claims`]), or when a tick or another wake-up there finds its slice used up.
//!
//! Each core has its own queue; [`choice`] picks the core where a thread wakes up. A core without work pulls
//! a waiting thread from another core unless that ran a moment ago. It tries at once, and then, asleep, at
//! ticks. A sleeping core takes a while to wake up.
//!
//! A quota is enforced as in the kernel ([`quota`](crate::quota)): use is accounted only at certain points.
//! These are: the core's tick, the core switches threads or goes idle, a thread of the group joins or leaves
//! its queue, or the thread asks for its processor time. Between them a thread can overrun. A thread that
//! wakes up on a core where its group is throttled waits there, even if other cores are idle: the choice of a
//! core ignores quotas.

mod average;
mod choice;
mod claims;

use crate::quota::{Bandwidth, Quota};
use average::Average;
use choice::Flips;
pub(crate) use choice::Waker;
use claims::Claim;
use std::collections::BTreeMap;

/// A slice on a machine of one core: `base_slice_ns`. Each doubling of the cores adds as much.
const SLICE_NS: u64 = 700_000;
/// More cores add nothing.
const SLICED_CORES: usize = 8;
/// The kernel's timer tick, at its usual 250 a second; on all cores at once.
const TICK_NS: u64 = 4_000_000;
/// Another core does not pull a thread that ran less long ago: `migration_cost_ns`, the assumed cost of
/// moving a warm cache.
const WARM_NS: u64 = 500_000;
/// A core without work falls asleep after this.
const DOZE_NS: u64 = 5_000;
/// A core counts as shared for this long after another thread ran there.
const SHARED_NS: u64 = 1_000_000;

/// A thread, by number.
pub(crate) type ThreadId = usize;
/// A number of cores shared by the threads of some groups.
pub(crate) type PoolId = usize;
/// Threads with a common quota.
pub(crate) type GroupId = usize;

/// What preceded a thread's turn.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Pause {
    /// The thread slept.
    pub(crate) of_thread: bool,
    /// The core was idle.
    pub(crate) of_core: bool,
    /// Another thread ran on the core a moment ago.
    pub(crate) is_shared: bool,
}

/// What a wake-up woke.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Woken {
    /// The thread was awake.
    Nobody,
    /// A thread, on a core that was in use.
    Thread,
    /// A thread and its core.
    ThreadAndCore,
}

#[derive(Debug, Default)]
struct Core {
    /// The thread that has it, in a turn or between two turns.
    current: Option<ThreadId>,
    is_in_turn: bool,
    /// When it was last in use.
    used_ns: Option<u64>,
    /// The thread that has it or had it last, and until when another had it.
    user: Option<ThreadId>,
    other_ns: Option<u64>,
    /// When it will be awake, if it was woken.
    awake_ns: Option<u64>,
    /// When the current turn began, and its cost.
    turn_ns: u64,
    cost_ns: u64,
    /// Until when its thread's use is accounted.
    counted_ns: u64,
    /// The use was accounted, and its thread's group has nothing left here.
    is_overdrawn: bool,
    /// Another thread's turn is next.
    is_wanted: bool,
    /// The threads that wait here, those of throttled groups included.
    waiting: Vec<ThreadId>,
    /// The claims of the groups that have been here, until when they are advanced, and the last one's virtual
    /// time.
    claims: BTreeMap<GroupId, Claim>,
    claims_ns: u64,
    last_ns: u64,
}

impl Core {
    /// The total weight of a group's threads that run or wait here.
    fn weight_of(&self, group: GroupId, threads: &[Thread]) -> u64 {
        let here = self.waiting.iter().chain(&self.current).map(|&id| &threads[id]);
        here.filter(|thread| thread.group == group).map(|thread| thread.weight).sum()
    }

    /// How much of its thread's turn is left.
    fn rest_ns(&self, now_ns: u64) -> u64 {
        if self.is_in_turn { self.cost_ns.saturating_sub(now_ns - self.turn_ns) } else { 0 }
    }
}

#[derive(Debug)]
struct Pool {
    cores: Vec<Core>,
    groups: Vec<GroupId>,
    /// How many cores are in use.
    busy: Average,
}

#[derive(Debug)]
struct Group {
    pool: PoolId,
    bandwidth: Option<Bandwidth>,
    used_ns: u64,
}

impl Group {
    fn is_stopped(&self, core: usize) -> bool {
        self.bandwidth.as_ref().is_some_and(|bandwidth| bandwidth.is_stopped(core))
    }
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
    /// Its core, current or last.
    core: usize,
    /// Its core before it last woke up.
    recent_core: usize,
    /// The threads that it wakes.
    flips: Flips,
    /// A message arrived while it ran.
    is_woken: bool,
    /// Whether its next turn is the first since it slept.
    has_slept: bool,
    /// Its virtual time on its core, among those of its group.
    behind_ns: u64,
    /// How far it was below the group's mean virtual time when it fell asleep.
    credit_ns: u64,
    /// The divisor of its processor time.
    weight: u64,
    /// The used part of its slice.
    sliced_ns: u64,
    /// When it joined its core's queue.
    joined_ns: u64,
    /// When its last turn ended.
    ran_ns: u64,
    used_ns: u64,
}

impl Thread {
    /// Its virtual time while this much of its turn, which is charged at its beginning, is left.
    fn behind_before(&self, rest_ns: u64) -> u64 {
        self.behind_ns - rest_ns / self.weight
    }
}

/// All cores and the threads on them.
#[derive(Debug, Default)]
pub(crate) struct Processors {
    /// How long a core takes to wake up.
    core_latency_ns: u64,
    /// How long before time 0 the last tick was.
    since_tick_ns: u64,
    pools: Vec<Pool>,
    groups: Vec<Group>,
    threads: Vec<Thread>,
}

impl Processors {
    /// An empty set. `core_latency_ns`: how long a sleeping core takes to wake up. `phase`: the elapsed
    /// fraction of a tick at time 0.
    pub(crate) fn new(core_latency_ns: u64, phase: f64) -> Processors {
        let since_tick_ns = (phase * TICK_NS as f64) as u64;
        Processors { core_latency_ns, since_tick_ns, ..Processors::default() }
    }

    /// The number of ticks so far.
    fn ticks(&self, now_ns: u64) -> u64 {
        (now_ns + self.since_tick_ns) / TICK_NS
    }

    /// When the last tick was; time 0 if there was none.
    fn last_tick_ns(&self, now_ns: u64) -> u64 {
        (self.ticks(now_ns) * TICK_NS).saturating_sub(self.since_tick_ns)
    }

    /// Adds this many cores.
    pub(crate) fn add_pool(&mut self, cores: usize) -> PoolId {
        let cores = (0..cores).map(|_| Core::default()).collect();
        self.pools.push(Pool { cores, groups: Vec::new(), busy: Average::default() });
        self.pools.len() - 1
    }

    /// How many pools there are.
    pub(crate) fn pools(&self) -> usize {
        self.pools.len()
    }

    /// Adds a group of threads on these cores.
    pub(crate) fn add_group(&mut self, pool: PoolId, quota: Option<Quota>) -> GroupId {
        let bandwidth = quota.map(|quota| Bandwidth::new(quota, self.pools[pool].cores.len()));
        self.groups.push(Group { pool, bandwidth, used_ns: 0 });
        self.pools[pool].groups.push(self.groups.len() - 1);
        self.groups.len() - 1
    }

    /// Adds a sleeping thread to a group. `weight`: its share of a core in multiples of a normal thread's.
    pub(crate) fn add_thread(&mut self, group: GroupId, weight: u64) -> ThreadId {
        let id = self.threads.len();
        let core = id % self.pools[self.groups[group].pool].cores.len();
        self.threads.push(Thread {
            group,
            state: State::Asleep,
            core,
            recent_core: core,
            flips: Flips::default(),
            is_woken: false,
            has_slept: true,
            behind_ns: 0,
            credit_ns: 0,
            weight,
            sliced_ns: 0,
            joined_ns: 0,
            ran_ns: 0,
            used_ns: 0,
        });
        id
    }

    /// A message from `by` arrived for a thread. Returns what it woke.
    pub(crate) fn wake(&mut self, id: ThreadId, by: Option<Waker>, now_ns: u64) -> Woken {
        match self.threads[id].state {
            State::Asleep => {
                let pool = self.pool_of(id);
                self.advance(pool, now_ns);
                let core = self.chosen_core(id, by, now_ns);
                let thread = &mut self.threads[id];
                (thread.state, thread.has_slept) = (State::Waiting, true);
                let is_core_asleep = self.is_asleep(pool, core, now_ns);
                self.join(id, core, now_ns);
                if is_core_asleep { Woken::ThreadAndCore } else { Woken::Thread }
            }
            State::Waiting => Woken::Nobody,
            State::Running => {
                self.threads[id].is_woken = true;
                Woken::Nobody
            }
        }
    }

    /// A thread joins a core's queue.
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
        self.place(id, core, now_ns);
        let slice_ns = self.slice_ns(pool);
        let thread = &mut self.threads[id];
        (thread.core, thread.joined_ns, thread.sliced_ns) = (core, now_ns, 0);
        self.pools[pool].cores[core].waiting.push(id);
        if self.stands(id, core) {
            return;
        }
        self.enter(pool, core, group, now_ns);
        let place = &self.pools[pool].cores[core];
        if let Some(current) = place.current {
            let is_sliced = self.threads[current].sliced_ns >= slice_ns + place.rest_ns(now_ns);
            let is_wanted = is_sliced || self.is_before(id, current, now_ns);
            self.pools[pool].cores[core].is_wanted |= is_wanted;
        }
    }

    /// How long a thread keeps its core while others wait, if it is checked.
    fn slice_ns(&self, pool: PoolId) -> u64 {
        SLICE_NS * u64::from(1 + self.pools[pool].cores.len().min(SLICED_CORES).ilog2())
    }

    /// The next thread to run on these cores, if one of them is idle; and what preceded its turn.
    pub(crate) fn take(&mut self, pool: PoolId, now_ns: u64) -> Option<(ThreadId, Pause)> {
        self.advance(pool, now_ns);
        let cores = 0..self.pools[pool].cores.len();
        let ready = cores.clone().find_map(|core| Some((core, self.ready_on(pool, core, now_ns)?)));
        let pulled = || cores.clone().find_map(|core| Some((core, self.pull(pool, core, now_ns)?)));
        let (core, id) = ready.or_else(pulled)?;
        let core = &mut self.pools[pool].cores[core];
        let of_core = core.awake_ns.take().is_some();
        let thread = &mut self.threads[id];
        if core.current != Some(id) {
            core.waiting.retain(|&waiting| waiting != id);
            (core.current, core.counted_ns) = (Some(id), now_ns);
            (core.is_overdrawn, core.is_wanted) = (false, false);
        }
        (core.is_in_turn, core.turn_ns, core.cost_ns) = (true, now_ns, 0);
        if core.user.replace(id).is_some_and(|user| user != id) {
            core.other_ns = core.used_ns;
        }
        let is_shared = core.other_ns.is_some_and(|other_ns| now_ns <= other_ns + SHARED_NS);
        thread.state = State::Running;
        thread.is_woken = false;
        Some((id, Pause { of_thread: std::mem::take(&mut thread.has_slept), of_core, is_shared }))
    }

    /// The thread with the next turn on a core, if the core is awake; otherwise wakes it.
    fn ready_on(&mut self, pool: PoolId, core: usize, now_ns: u64) -> Option<ThreadId> {
        let next = self.next_of(pool, core);
        let is_asleep = self.is_asleep(pool, core, now_ns);
        let place = &mut self.pools[pool].cores[core];
        if next.is_none() {
            place.awake_ns = None;
        } else if is_asleep && *place.awake_ns.get_or_insert(now_ns + self.core_latency_ns) > now_ns {
            return None;
        }
        next
    }

    /// The thread with the next turn on a core: its keeper, or the first of its queue that may run.
    fn next_of(&self, pool: PoolId, core: usize) -> Option<ThreadId> {
        let Core { current, is_in_turn, .. } = self.pools[pool].cores[core];
        match current {
            Some(_) if is_in_turn => None,
            Some(id) => Some(id),
            None => self.first_of(pool, core, |_| true),
        }
    }

    /// An idle core pulls a thread that waits elsewhere. Its group may turn out to have nothing left here.
    fn pull(&mut self, pool: PoolId, core: usize, now_ns: u64) -> Option<ThreadId> {
        if !self.is_idle(pool, core) {
            return None;
        }
        // A core tries when it finds no thread to run, and then at ticks.
        let used_ns = self.pools[pool].cores[core].used_ns;
        let looked_ns = if used_ns == Some(now_ns) { now_ns } else { self.last_tick_ns(now_ns) };
        if used_ns.is_some_and(|used_ns| used_ns > looked_ns) {
            return None;
        }
        for other in 0..self.pools[pool].cores.len() {
            let is_wanted = |id: ThreadId| {
                let thread = &self.threads[id];
                thread.joined_ns <= looked_ns
                    && thread.ran_ns + WARM_NS <= looked_ns
                    && !self.stands(id, core)
            };
            if other != core
                && let Some(id) = self.first_of(pool, other, is_wanted)
            {
                self.pools[pool].cores[other].waiting.retain(|&waiting| waiting != id);
                self.leave(pool, other, self.threads[id].group, now_ns);
                self.join(id, core, now_ns);
                return self.ready_on(pool, core, now_ns);
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
        if is_last {
            self.exit(pool, core, group, now_ns);
        }
        if let Some(bandwidth) = &mut self.groups[group].bandwidth
            && is_last
        {
            bandwidth.leave(core, now_ns);
        }
    }

    fn has_current(&self, pool: PoolId, core: usize, group: GroupId) -> bool {
        self.pools[pool].cores[core].current.is_some_and(|id| self.threads[id].group == group)
    }

    /// Whether a core sleeps: from when it finds no thread to run. An event at that very instant finds it
    /// awake.
    fn is_asleep(&self, pool: PoolId, core: usize, now_ns: u64) -> bool {
        let place = &self.pools[pool].cores[core];
        place.current.is_none() && place.used_ns.is_none_or(|used_ns| used_ns + DOZE_NS < now_ns)
    }

    fn is_idle(&self, pool: PoolId, core: usize) -> bool {
        self.pools[pool].cores[core].current.is_none() && self.first_of(pool, core, |_| true).is_none()
    }

    /// Whether a thread's group is throttled on a core.
    fn stands(&self, id: ThreadId, core: usize) -> bool {
        self.groups[self.threads[id].group].is_stopped(core)
    }

    /// Starts the periods of quotas that are due.
    fn advance(&mut self, pool: PoolId, now_ns: u64) {
        let Pool { cores, busy: average, .. } = &mut self.pools[pool];
        let busy = cores.iter().filter(|core| core.current.is_some()).count();
        average.advance(busy as u64, now_ns);
        for &group in &self.pools[pool].groups {
            if let Some(bandwidth) = &mut self.groups[group].bandwidth {
                bandwidth.advance(now_ns);
            }
        }
        for core in 0..self.pools[pool].cores.len() {
            self.advance_claims(pool, core, now_ns);
        }
    }

    /// Accounts the use of a core's thread.
    fn count(&mut self, pool: PoolId, core: usize, now_ns: u64) {
        let place = &mut self.pools[pool].cores[core];
        let Some(id) = place.current else { return };
        let used_ns = now_ns - std::mem::replace(&mut place.counted_ns, now_ns);
        if let Some(bandwidth) = &mut self.groups[self.threads[id].group].bandwidth {
            place.is_overdrawn = !bandwidth.spend(core, used_ns);
        }
    }

    /// When a throttled group on these cores may resume or a core is awake, whichever is first.
    pub(crate) fn next_change(&self, pool: PoolId) -> Option<u64> {
        let Pool { cores, groups, .. } = &self.pools[pool];
        let groups = groups.iter().filter_map(|&group| self.groups[group].bandwidth.as_ref()?.next_ns());
        groups.chain(cores.iter().filter_map(|core| core.awake_ns)).min()
    }

    /// Charges a thread's turn with processor time.
    pub(crate) fn charge(&mut self, id: ThreadId, cost_ns: u64) {
        let thread = &mut self.threads[id];
        thread.behind_ns += cost_ns / thread.weight;
        thread.used_ns += cost_ns;
        thread.sliced_ns += cost_ns;
        let group = &mut self.groups[thread.group];
        group.used_ns += cost_ns;
        let (pool, core, group) = (group.pool, thread.core, thread.group);
        self.pools[pool].cores[core].cost_ns = cost_ns;
        self.charge_claim(pool, core, group, cost_ns);
    }

    /// A running thread asks for its processor time.
    pub(crate) fn look(&mut self, id: ThreadId, now_ns: u64) {
        let pool = self.pool_of(id);
        self.advance(pool, now_ns);
        self.count(pool, self.threads[id].core, now_ns);
    }

    /// A turn is over. `has_more`: the thread has more work at once.
    pub(crate) fn done(&mut self, id: ThreadId, now_ns: u64, has_more: bool) {
        let (pool, group, core) = (self.pool_of(id), self.threads[id].group, self.threads[id].core);
        self.advance(pool, now_ns);
        let thread = &mut self.threads[id];
        thread.ran_ns = now_ns;
        let has_more = has_more || thread.is_woken;
        let is_sliced = thread.sliced_ns >= self.slice_ns(pool);
        let is_ticked = self.ticks(now_ns) > self.ticks(self.pools[pool].cores[core].turn_ns);
        let place = &mut self.pools[pool].cores[core];
        place.is_in_turn = false;
        if is_ticked {
            place.is_wanted |= is_sliced;
            self.count(pool, core, now_ns);
        }
        let Core { is_overdrawn, is_wanted, .. } = self.pools[pool].cores[core];
        if has_more && !is_overdrawn && !(is_wanted && self.first_of(pool, core, |_| true).is_some()) {
            self.threads[id].state = State::Waiting;
            return;
        }
        self.count(pool, core, now_ns);
        let credit_ns = self.credit_of(id, core, now_ns);
        let (thread, place) = (&mut self.threads[id], &mut self.pools[pool].cores[core]);
        (place.current, place.used_ns) = (None, Some(now_ns));
        place.claims.entry(group).or_default().last_ns = thread.behind_ns;
        if has_more {
            (thread.state, thread.sliced_ns, thread.joined_ns) = (State::Waiting, 0, now_ns);
            place.waiting.push(id);
        } else {
            (thread.state, thread.credit_ns) = (State::Asleep, credit_ns);
            self.leave(pool, core, group, now_ns);
        }
        if self.groups[group].bandwidth.as_mut().is_some_and(|bandwidth| bandwidth.stop(core)) {
            self.exit(pool, core, group, now_ns);
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
mod tests;
