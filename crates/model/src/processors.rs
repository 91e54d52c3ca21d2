//! Who has a processor: threads take turns on cores, those of a group within its quota.
//!
//! A turn is what a thread does between two looks at its queues; it is never interrupted. A thread that has
//! more to do keeps its core, turn by turn, until one wakes up there that comes before it ([`claims`]), or
//! until it is noticed, at a tick or when another wakes up there, that its slice is used up.
//!
//! Each core has a queue of its own; in which one a thread wakes up is a matter of its own ([`choice`]). A
//! core looks for a thread that waits elsewhere and did not run a moment ago at the instant at which it has
//! nobody left to run, and then, asleep, at ticks. A core that sleeps takes a while to wake up.
//!
//! A quota is enforced as the kernel does ([`quota`](crate::quota)): what a thread has used counts when
//! somebody looks. That is when the core turns to another thread or none, when a thread of the group joins or
//! leaves the core's queue, when the thread asks for its processor time, and at the core's tick. A thread
//! that nobody looks at overruns. A thread that wakes up on a core where its group stands still stands there,
//! though other cores may be idle: whoever chooses a core does not look at quotas.

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
/// The kernel's timer tick, at its usual 250 a second; that of all cores at once.
const TICK_NS: u64 = 4_000_000;
/// Another core does not take a thread that has run less long ago: `migration_cost_ns`, what moving a warm
/// cache is put at.
const WARM_NS: u64 = 500_000;
/// A core that finds nobody to run is asleep after this.
const DOZE_NS: u64 = 5_000;
/// What a core's caches hold of a thread is as old as this at most while another thread takes turns with it
/// there.
const SHARED_NS: u64 = 1_000_000;

/// A thread, by number.
pub(crate) type ThreadId = usize;
/// A number of cores that the threads of some groups share.
pub(crate) type PoolId = usize;
/// Threads with a quota in common.
pub(crate) type GroupId = usize;

/// What was before a thread's turn.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Pause {
    /// The thread slept.
    pub(crate) of_thread: bool,
    /// Nobody had its core.
    pub(crate) of_core: bool,
    /// Another thread had its core a moment ago.
    pub(crate) is_shared: bool,
}

/// Whom somebody woke.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Woken {
    /// The thread was awake.
    Nobody,
    /// A thread, on a core that was in use.
    Thread,
    /// A thread, and the core that it is to run on.
    ThreadAndCore,
}

#[derive(Debug, Default)]
struct Core {
    /// Who has it, in a turn or between two turns.
    current: Option<ThreadId>,
    is_in_turn: bool,
    /// When somebody had it last.
    used_ns: Option<u64>,
    /// Who has it or had it last, and until when somebody else had it.
    user: Option<ThreadId>,
    other_ns: Option<u64>,
    /// When it will be awake, if somebody woke it.
    awake_ns: Option<u64>,
    /// When the present turn began, and what it takes.
    turn_ns: u64,
    cost_ns: u64,
    /// Up to when what its thread used has counted.
    counted_ns: u64,
    /// Somebody looked, and its thread's group has nothing left here.
    is_overdrawn: bool,
    /// It is another one's turn after this.
    is_wanted: bool,
    /// Who waits here, those included whose group stands still here.
    waiting: Vec<ThreadId>,
    /// The claims of the groups that have been here, up to when time has passed for them, and what the last
    /// one had behind it.
    claims: BTreeMap<GroupId, Claim>,
    claims_ns: u64,
    last_ns: u64,
}

impl Core {
    /// What the threads of a group weigh together that run or wait here.
    fn weight_of(&self, group: GroupId, threads: &[Thread]) -> u64 {
        let here = self.waiting.iter().chain(&self.current).map(|&id| &threads[id]);
        here.filter(|thread| thread.group == group).map(|thread| thread.weight).sum()
    }

    /// How much of its thread's turn is still to come.
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
    /// Where it is, or was last.
    core: usize,
    /// Where it was before it last woke up.
    recent_core: usize,
    /// Whom it wakes.
    flips: Flips,
    /// Something came while it ran.
    is_woken: bool,
    /// Whether its next turn is the first since it slept.
    has_slept: bool,
    /// Its claim on its core, among those of its group.
    behind_ns: u64,
    /// By how much it had less behind it than the mean of those when it fell asleep.
    credit_ns: u64,
    /// What its processor time is divided by.
    weight: u64,
    /// What it has used of its slice.
    sliced_ns: u64,
    /// When it came to its core's queue.
    joined_ns: u64,
    /// When its last turn ended.
    ran_ns: u64,
    used_ns: u64,
}

impl Thread {
    /// What it has behind it while so much of its turn, which is charged at its beginning, is still to come.
    fn behind_before(&self, rest_ns: u64) -> u64 {
        self.behind_ns - rest_ns / self.weight
    }
}

/// All cores and the threads on them.
#[derive(Debug, Default)]
pub(crate) struct Processors {
    /// How long a core takes to wake up.
    core_latency_ns: u64,
    /// How long before time 0 a tick was.
    since_tick_ns: u64,
    pools: Vec<Pool>,
    groups: Vec<Group>,
    threads: Vec<Thread>,
}

impl Processors {
    /// None yet. `core_latency_ns`: how long a core that sleeps takes to wake up. `phase`: which part of a
    /// tick's time has passed at time 0.
    pub(crate) fn new(core_latency_ns: u64, phase: f64) -> Processors {
        let since_tick_ns = (phase * TICK_NS as f64) as u64;
        Processors { core_latency_ns, since_tick_ns, ..Processors::default() }
    }

    /// How many ticks there were.
    fn ticks(&self, now_ns: u64) -> u64 {
        (now_ns + self.since_tick_ns) / TICK_NS
    }

    /// When the last tick was; time 0 if that was before.
    fn last_tick_ns(&self, now_ns: u64) -> u64 {
        (self.ticks(now_ns) * TICK_NS).saturating_sub(self.since_tick_ns)
    }

    /// So many cores.
    pub(crate) fn add_pool(&mut self, cores: usize) -> PoolId {
        let cores = (0..cores).map(|_| Core::default()).collect();
        self.pools.push(Pool { cores, groups: Vec::new(), busy: Average::default() });
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

    /// A thread of a group, asleep. `weight`: how many others' share of a core is its.
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

    /// Something came for a thread, from this one. Whom that woke.
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

    /// How long a thread keeps its core while others wait, if anybody looks.
    fn slice_ns(&self, pool: PoolId) -> u64 {
        SLICE_NS * u64::from(1 + self.pools[pool].cores.len().min(SLICED_CORES).ilog2())
    }

    /// The next thread to run on these cores, if one of them has nothing to do; and what it did before.
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

    /// Who has the next turn on a core, if that is awake; else it begins to wake up.
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

    /// Who has the next turn on a core: who keeps it, or the first of its queue that may run.
    fn next_of(&self, pool: PoolId, core: usize) -> Option<ThreadId> {
        let Core { current, is_in_turn, .. } = self.pools[pool].cores[core];
        match current {
            Some(_) if is_in_turn => None,
            Some(id) => Some(id),
            None => self.first_of(pool, core, |_| true),
        }
    }

    /// An idle core takes a thread that waits elsewhere. The thread may find that its group has nothing left
    /// here.
    fn pull(&mut self, pool: PoolId, core: usize, now_ns: u64) -> Option<ThreadId> {
        if !self.is_idle(pool, core) {
            return None;
        }
        // A core looks at the instant at which it finds nobody to run, and then at ticks.
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

    /// Whether a core sleeps: from when it finds nobody to run. It does so at an instant; what wakes it then
    /// finds it awake.
    fn is_asleep(&self, pool: PoolId, core: usize, now_ns: u64) -> bool {
        let place = &self.pools[pool].cores[core];
        place.current.is_none() && place.used_ns.is_none_or(|used_ns| used_ns + DOZE_NS < now_ns)
    }

    fn is_idle(&self, pool: PoolId, core: usize) -> bool {
        self.pools[pool].cores[core].current.is_none() && self.first_of(pool, core, |_| true).is_none()
    }

    /// Whether a thread's group stands still on a core.
    fn stands(&self, id: ThreadId, core: usize) -> bool {
        self.groups[self.threads[id].group].is_stopped(core)
    }

    /// Begins the periods of quotas that were due.
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

    /// Somebody looks at a core: what its thread has used counts.
    fn count(&mut self, pool: PoolId, core: usize, now_ns: u64) {
        let place = &mut self.pools[pool].cores[core];
        let Some(id) = place.current else { return };
        let used_ns = now_ns - std::mem::replace(&mut place.counted_ns, now_ns);
        if let Some(bandwidth) = &mut self.groups[self.threads[id].group].bandwidth {
            place.is_overdrawn = !bandwidth.spend(core, used_ns);
        }
    }

    /// When a group that stands still on one of these cores may go on, or a core is awake, the first of
    /// those.
    pub(crate) fn next_change(&self, pool: PoolId) -> Option<u64> {
        let Pool { cores, groups, .. } = &self.pools[pool];
        let groups = groups.iter().filter_map(|&group| self.groups[group].bandwidth.as_ref()?.next_ns());
        groups.chain(cores.iter().filter_map(|core| core.awake_ns)).min()
    }

    /// A thread's turn takes so much processor time.
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
