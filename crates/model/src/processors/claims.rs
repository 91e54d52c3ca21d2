//! Which thread has a core next: groups' claims against each other, and threads' within their group.
//!
//! As in the kernel's fair scheduler with groups: on each core a group with threads there competes as one,
//! and its threads share its turns by their own claims. A claim is a virtual time: processor time by weight.
//! The lowest is next. A leaver (a thread that sleeps, a group without threads or throttled) keeps its
//! distance from the mean of those there. It gets the same distance from the mean where it joins next, and no
//! claim on what others used meanwhile.
//!
//! A group's weight on a core is its threads' weight there, divided by that on all cores. Here their present
//! or recent weight counts, whichever is more; elsewhere the recent one. So a group with one busy thread
//! weighs more on that core than one that is busy everywhere. Beside its own heavy thread elsewhere, hardly
//! any weight is left.

use super::average::Average;
use super::{GroupId, PoolId, Processors, TICK_NS, ThreadId};

/// The weight of a group on one core only, and the least weight.
const WEIGHT: u64 = 1024;
const LEAST_WEIGHT: u64 = 2;
/// The most unused share that is carried along.
const CREDIT_NS: u64 = TICK_NS;

/// A group's claim on a core.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Claim {
    /// Whether a thread of it runs here, or waits and may run.
    is_here: bool,
    behind_ns: u64,
    credit_ns: u64,
    weight: u64,
    /// The weight of its threads here, over the time it is not throttled.
    load: Average,
    clock_ns: u64,
    /// The virtual time of the last of its threads here.
    pub(super) last_ns: u64,
}

impl Claim {
    /// Its virtual time while this much of its thread's turn, which is charged at its beginning, is left.
    fn behind_before(&self, rest_ns: u64) -> u64 {
        self.behind_ns - by_weight(rest_ns, self.weight).min(self.behind_ns)
    }
}

/// The claimants on a core.
#[derive(Clone, Copy, Debug)]
struct Others {
    /// Their mean virtual time, or the last one's.
    mean_ns: u64,
    weight: u64,
}

impl Others {
    /// Of these claims and weights; `last_ns` counts if there are none.
    fn of(claims: impl Iterator<Item = (u64, u64)>, last_ns: u64) -> Others {
        let (mut sum, mut total) = (0u128, 0);
        for (behind_ns, weight) in claims {
            (sum, total) = (sum + u128::from(behind_ns) * u128::from(weight), total + weight);
        }
        let mean_ns = sum.checked_div(u128::from(total)).map_or(last_ns, |mean| mean as u64);
        Others { mean_ns, weight: total }
    }

    /// The virtual time of a newcomer. `ahead_ns`: how far it was above the mean where it left.
    fn place_ns(self, weight: u64, ahead_ns: u64, credit_ns: u64) -> u64 {
        // Scaled so that its own weight, once counted in, leaves it that far from the mean.
        let credit_ns = credit_ns + (credit_ns * weight).checked_div(self.weight).unwrap_or(0);
        // An excess is forgotten as others catch up.
        let ahead_ns = if credit_ns > 0 { 0 } else { ahead_ns };
        (self.mean_ns + ahead_ns).saturating_sub(credit_ns)
    }
}

/// Processor time divided by a group's weight.
fn by_weight(time_ns: u64, weight: u64) -> u64 {
    time_ns * WEIGHT / weight.max(LEAST_WEIGHT)
}

/// The unused share that is carried along.
fn credit_ns(mean_ns: u64, behind_ns: u64) -> u64 {
    mean_ns.saturating_sub(behind_ns).min(CREDIT_NS)
}

impl Processors {
    /// Advances the claims on a core to this time.
    pub(super) fn advance_claims(&mut self, pool: PoolId, core: usize, now_ns: u64) {
        let place = &mut self.pools[pool].cores[core];
        let passed_ns = now_ns - std::mem::replace(&mut place.claims_ns, now_ns);
        if passed_ns > 0 {
            let mut claims = std::mem::take(&mut place.claims);
            for (&group, claim) in
                claims.iter_mut().filter(|(group, _)| !self.groups[**group].is_stopped(core))
            {
                claim.clock_ns += passed_ns;
                claim.load.advance(place.weight_of(group, &self.threads), claim.clock_ns);
            }
            place.claims = claims;
        }
        // A throttled group may resume.
        for index in 0..self.pools[pool].cores[core].waiting.len() {
            let id = self.pools[pool].cores[core].waiting[index];
            if !self.stands(id, core) {
                self.enter(pool, core, self.threads[id].group, now_ns);
            }
        }
    }

    /// A group's weight on a core.
    fn weight_of(&self, pool: PoolId, core: usize, group: GroupId) -> u64 {
        let cores = &self.pools[pool].cores;
        let recent = |core: usize| cores[core].claims.get(&group).map_or(0.0, |claim| claim.load.level());
        let here = (cores[core].weight_of(group, &self.threads) as f64).max(recent(core));
        let elsewhere: f64 = (0..cores.len()).filter(|&other| other != core).map(recent).sum();
        let part = if elsewhere > 0.0 { here / (here + elsewhere) } else { 1.0 };
        ((WEIGHT as f64 * part) as u64).max(LEAST_WEIGHT)
    }

    /// A group has a runnable thread on a core: it gets a claim there, if it has none.
    pub(super) fn enter(&mut self, pool: PoolId, core: usize, group: GroupId, now_ns: u64) {
        if self.pools[pool].cores[core].claims.get(&group).is_some_and(|claim| claim.is_here) {
            return;
        }
        let (others, weight) = (self.groups_on(pool, core, now_ns), self.weight_of(pool, core, group));
        let claim = self.pools[pool].cores[core].claims.entry(group).or_default();
        let ahead_ns = claim.behind_ns.saturating_sub(others.mean_ns);
        (claim.is_here, claim.weight) = (true, weight);
        claim.behind_ns = others.place_ns(weight, ahead_ns, std::mem::take(&mut claim.credit_ns));
    }

    /// A group has no runnable thread left on a core, or is throttled there.
    pub(super) fn exit(&mut self, pool: PoolId, core: usize, group: GroupId, now_ns: u64) {
        let mean_ns = self.groups_on(pool, core, now_ns).mean_ns;
        let place = &mut self.pools[pool].cores[core];
        if let Some(claim) = place.claims.get_mut(&group).filter(|claim| claim.is_here) {
            (claim.is_here, claim.credit_ns) = (false, credit_ns(mean_ns, claim.behind_ns));
            place.last_ns = claim.behind_ns;
        }
    }

    /// Places a thread among those of its group on a core.
    pub(super) fn place(&mut self, id: ThreadId, core: usize, now_ns: u64) {
        let left = self.group_on(id, self.threads[id].core, now_ns);
        let others = self.group_on(id, core, now_ns);
        let thread = &mut self.threads[id];
        let ahead_ns = thread.behind_ns.saturating_sub(left.mean_ns);
        thread.behind_ns = others.place_ns(thread.weight, ahead_ns, std::mem::take(&mut thread.credit_ns));
    }

    /// The credit of a thread that leaves a core now.
    pub(super) fn credit_of(&self, id: ThreadId, core: usize, now_ns: u64) -> u64 {
        credit_ns(self.group_on(id, core, now_ns).mean_ns, self.threads[id].behind_ns)
    }

    /// A turn of this length begins.
    pub(super) fn charge_claim(&mut self, pool: PoolId, core: usize, group: GroupId, cost_ns: u64) {
        let weight = self.weight_of(pool, core, group);
        let claim = self.pools[pool].cores[core].claims.entry(group).or_default();
        claim.weight = weight;
        claim.behind_ns += by_weight(cost_ns, weight);
    }

    /// The first of the wanted threads that wait on a core.
    pub(super) fn first_of(
        &self,
        pool: PoolId,
        core: usize,
        is_wanted: impl Fn(ThreadId) -> bool,
    ) -> Option<ThreadId> {
        let place = &self.pools[pool].cores[core];
        let may_run = place.waiting.iter().copied().filter(|&id| !self.stands(id, core) && is_wanted(id));
        may_run.min_by_key(|&id| {
            let thread = &self.threads[id];
            let group = place.claims.get(&thread.group).map(|claim| claim.behind_ns);
            (group, thread.group, thread.behind_ns, id)
        })
    }

    /// Whether a thread that waits on a core precedes the one that runs there.
    pub(super) fn is_before(&self, id: ThreadId, runs: ThreadId, now_ns: u64) -> bool {
        let place = &self.pools[self.pool_of(id)].cores[self.threads[id].core];
        let rest_ns = place.rest_ns(now_ns);
        let [own, other] = [id, runs].map(|id| &self.threads[id]);
        if own.group == other.group {
            return own.behind_ns < other.behind_before(rest_ns);
        }
        let [own, other] = [own.group, other.group].map(|group| place.claims.get(&group));
        own.zip(other).is_some_and(|(own, other)| own.behind_ns < other.behind_before(rest_ns))
    }

    /// The groups with a claim on a core.
    fn groups_on(&self, pool: PoolId, core: usize, now_ns: u64) -> Others {
        let place = &self.pools[pool].cores[core];
        let runs = place.current.map(|id| self.threads[id].group);
        let here = place.claims.iter().filter(|(_, claim)| claim.is_here);
        let claims = here.map(|(&group, claim)| {
            let rest_ns = if runs == Some(group) { place.rest_ns(now_ns) } else { 0 };
            (claim.behind_before(rest_ns), claim.weight)
        });
        Others::of(claims, place.last_ns)
    }

    /// The threads of a thread's group that run or wait on a core, itself included.
    fn group_on(&self, id: ThreadId, core: usize, now_ns: u64) -> Others {
        let group = self.threads[id].group;
        let place = &self.pools[self.pool_of(id)].cores[core];
        let waiting = place.waiting.iter().map(|&id| (&self.threads[id], 0));
        let runs = place.current.iter().map(|&id| (&self.threads[id], place.rest_ns(now_ns)));
        let own = waiting.chain(runs).filter(|(thread, _)| thread.group == group);
        let claims = own.map(|(thread, rest_ns)| (thread.behind_before(rest_ns), thread.weight));
        Others::of(claims, place.claims.get(&group).map_or(0, |claim| claim.last_ns))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::quota::Quota;

    /// Cores shared by groups with these numbers of threads.
    fn shared(cores: usize, threads: &[usize]) -> (Processors, PoolId, Vec<Vec<ThreadId>>) {
        let mut processors = Processors::default();
        let pool = processors.add_pool(cores);
        let mut groups = Vec::new();
        for &threads in threads {
            let group = processors.add_group(pool, None);
            groups.push((0..threads).map(|_| processors.add_thread(group, 1)).collect());
        }
        (processors, pool, groups)
    }

    /// Runs busy threads on one core for this long.
    fn run(processors: &mut Processors, pool: PoolId, now_ns: &mut u64, for_ns: u64) {
        let end_ns = *now_ns + for_ns;
        while *now_ns < end_ns {
            let (id, _) = processors.take(pool, *now_ns).expect("they are always busy");
            processors.charge(id, 10_000);
            *now_ns += 10_000;
            processors.done(id, *now_ns, true);
        }
    }

    #[test]
    fn groups_share_a_core_evenly_for_any_number_of_threads() {
        let (mut processors, pool, groups) = shared(1, &[1, 3]);
        groups.iter().flatten().for_each(|&id| {
            processors.wake(id, None, 0);
        });
        run(&mut processors, pool, &mut 0, 1_000_000_000);
        let [a, b] = [0, 1].map(|group| processors.used_by_group_ns(group));
        assert!((0.98..1.02).contains(&(a as f64 / b as f64)), "{a} and {b} ns");
        let of_b = groups[1].iter().map(|&id| processors.used_ns(id) as f64 / b as f64);
        assert!(of_b.clone().all(|part| (0.31..0.36).contains(&part)), "{:?}", of_b.collect::<Vec<_>>());
    }

    #[test]
    fn a_group_with_threads_elsewhere_weighs_less() {
        let (mut processors, pool, groups) = shared(2, &[1, 2]);
        let weights = |processors: &Processors| {
            [
                processors.weight_of(pool, 0, 0),
                processors.weight_of(pool, 0, 1),
                processors.weight_of(pool, 1, 1),
            ]
        };
        // Threads begin on cores by turns: 0 on the first, 1 on the second, 2 on the first.
        groups.iter().flatten().for_each(|&id| {
            processors.wake(id, None, 0);
        });
        for now_ms in 0..500 {
            processors.advance(pool, now_ms * 1_000_000);
        }
        let [alone, half, other_half] = weights(&processors);
        assert_eq!(alone, WEIGHT);
        assert!(
            [half, other_half].iter().all(|&weight| (505..=520).contains(&weight)),
            "{half}, {other_half}"
        );
    }

    #[test]
    fn a_waiter_keeps_its_credit_beside_one_and_beside_many() {
        for others in [1, 3] {
            let here = Others::of((0..others).map(|_| (10_000_000, 1)), 0);
            let place_ns = here.place_ns(1, 0, 600_000);
            let all = Others::of((0..others).map(|_| (10_000_000, 1)).chain([(place_ns, 1)]), 0);
            assert_eq!(all.mean_ns - place_ns, 600_000, "beside {others}");
        }
        assert_eq!(Others::of(std::iter::empty(), 5_000_000).place_ns(1, 0, 600_000), 4_400_000, "alone");
        assert_eq!(credit_ns(10 * CREDIT_NS, 0), CREDIT_NS, "at most this");
    }

    #[test]
    fn a_group_weighs_where_its_heavy_thread_was_recently() {
        let (mut processors, pool, groups) = shared(2, &[2]);
        let heavy = processors.add_thread(0, 30);
        // One on each core, and the heavy one on the first.
        groups[0].iter().chain([&heavy]).for_each(|&id| {
            processors.wake(id, None, 0);
        });
        for now_ms in 1..500 {
            processors.advance(pool, now_ms * 1_000_000);
        }
        processors.pools[pool].cores[0].waiting.retain(|&id| id != heavy);
        let part = processors.weight_of(pool, 0, 0) as f64 / WEIGHT as f64;
        assert!((0.96..0.98).contains(&part), "{part}, 31 by 32");
    }

    #[test]
    fn a_throttled_group_keeps_its_load() {
        let (mut processors, pool, groups) = shared(1, &[1]);
        let quota = Quota { budget_ns: 1_000_000, period_ns: 2_500_000, first_ns: 2_500_000 };
        let limited = processors.add_group(pool, Some(quota));
        let id = processors.add_thread(limited, 1);
        processors.wake(id, None, 0);
        let load = |processors: &Processors| processors.pools[pool].cores[0].claims[&limited].load.level();
        // It runs for a tick, which exceeds its budget, and so is throttled.
        processors.take(pool, 0).expect("it may run");
        processors.charge(id, 5_000_000);
        processors.done(id, 5_000_000, false);
        let before = load(&processors);
        processors.wake(groups[0][0], None, 5_000_000);
        processors.advance(pool, 6_000_000);
        assert!(processors.stands(id, 0) && before > 0.0);
        assert_eq!(load(&processors), before, "its load does not decay meanwhile");
    }

    #[test]
    fn a_group_that_wakes_up_beside_one_that_used_more_is_next() {
        let (mut processors, pool, groups) = shared(1, &[2, 1]);
        let other = groups[1][0];
        groups.iter().flatten().for_each(|&id| {
            processors.wake(id, None, 0);
        });
        // The other has used as much as both of the first group.
        let mut now_ns = 0;
        run(&mut processors, pool, &mut now_ns, 40 * TICK_NS);
        let mut next = |processors: &mut Processors, sleeps: bool| {
            let (id, _) = processors.take(pool, now_ns).expect("there is always a busy thread");
            processors.charge(id, 10_000);
            if sleeps && id != other {
                processors.wake(other, None, now_ns + 5_000);
            }
            now_ns += 10_000;
            processors.done(id, now_ns, !(sleeps && id == other));
            id
        };
        while next(&mut processors, false) != other {}
        while next(&mut processors, true) != other {}
        for turn in 0..20 {
            assert_ne!(next(&mut processors, true), other, "it sleeps, turn {turn}");
            assert_eq!(next(&mut processors, true), other, "its group has used less, turn {turn}");
        }
    }
}
