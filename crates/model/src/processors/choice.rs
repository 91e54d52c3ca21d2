//! The core on which a thread wakes up: roughly as in Linux 6.18.
//!
//! It compares the thread's last core with the waker's. If neither is idle it searches for an idle one, over
//! fewer cores the busier they all are. On two cores that are busy for more than three fifths of the time it
//! does not search.
//!
//! A waker of many threads does not attract them to its core: a node and several client threads that wake
//! each other stay where they are.

use super::{PoolId, Processors, ThreadId};

/// The count of a thread's different wakees is halved after this.
const FLIPS_HALVE_NS: u64 = 1_000_000_000;
/// Cores are taken as this much busier than they are: `imbalance_pct` of cores that share a cache.
const IMBALANCE: f64 = 1.17;

/// The waker of a thread, and the kind of wake-up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Waker {
    pub(crate) thread: ThreadId,
    /// The system expects the waker to sleep soon, as after a write to a socket.
    pub(crate) is_sync: bool,
}

/// How often a thread recently woke a different one than the last time.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Flips {
    last: Option<ThreadId>,
    count: u64,
    halved_ns: u64,
}

impl Flips {
    fn wakes(&mut self, id: ThreadId, now_ns: u64) {
        if now_ns > self.halved_ns + FLIPS_HALVE_NS {
            (self.count, self.halved_ns) = (self.count / 2, now_ns);
        }
        self.count += u64::from(self.last.replace(id) != Some(id));
    }

    /// Whether one of the two wakes too many threads for the other to follow it. Every thread counts as
    /// waking as many as there are cores: it is interrupted by wake-ups of the system's own.
    fn is_wide(self, other: Flips, cores: usize) -> bool {
        let (few, many) = (self.count.min(other.count), self.count.max(other.count));
        many >= few.max(cores as u64) * cores as u64
    }
}

/// How many of the cores are searched for an idle one when `busy` were busy recently.
fn scanned(busy: f64, cores: usize) -> usize {
    let weighed = busy / cores as f64 * IMBALANCE;
    ((1.0 - weighed * weighed).max(0.0) * cores as f64) as usize
}

impl Processors {
    /// The core that a thread wakes up on.
    pub(super) fn chosen_core(&mut self, id: ThreadId, by: Option<Waker>, now_ns: u64) -> usize {
        let (pool, last) = (self.pool_of(id), self.threads[id].core);
        let recent = std::mem::replace(&mut self.threads[id].recent_core, last);
        let cores = self.pools[pool].cores.len();
        // A timer interrupts the thread that runs where it was set, and that thread counts as the waker.
        let interrupted = || self.pools[pool].cores[last].current;
        let current = by.map_or_else(interrupted, |by| Some(by.thread));
        let is_wide = current.is_some_and(|current| {
            self.threads[current].flips.wakes(id, now_ns);
            self.threads[current].flips.is_wide(self.threads[id].flips, cores)
        });
        let is_idle = |core: &usize| self.is_idle(pool, *core);
        let by = by.filter(|by| self.pool_of(by.thread) == pool && !is_wide);
        let target = by.map_or(last, |by| self.affine_core(pool, by, last));
        let scanned = scanned(self.pools[pool].busy.level(), cores);
        let others = (1..=scanned).map(|step| (target + step) % cores);
        [target, last, recent].into_iter().chain(others).find(is_idle).unwrap_or(target)
    }

    /// The waker's core, or the one that the thread was on last.
    fn affine_core(&self, pool: PoolId, by: Waker, last: usize) -> usize {
        let wakers = self.threads[by.thread].core;
        let here = self.runnable(pool, wakers).saturating_sub(usize::from(by.is_sync));
        let is_alone = by.is_sync && here == 0;
        let is_less_busy = || !self.is_idle(pool, last) && here < self.runnable(pool, last);
        if is_alone || is_less_busy() { wakers } else { last }
    }

    /// How many threads run or could run on a core.
    fn runnable(&self, pool: PoolId, core: usize) -> usize {
        let place = &self.pools[pool].cores[core];
        let waiting = place.waiting.iter().filter(|&&id| !self.stands(id, core)).count();
        waiting + usize::from(place.current.is_some())
    }
}

#[cfg(test)]
mod tests {
    use super::super::average::Average;
    use super::*;

    #[test]
    fn fewer_cores_are_searched_the_busier_they_are() {
        assert_eq!([0.0, 0.3, 0.6, 0.8, 0.9].map(|part| scanned(part * 8.0, 8)), [8, 7, 4, 0, 0]);
    }

    #[test]
    fn a_waker_of_many_is_wide_until_it_decays() {
        let (mut node, mut client) = (Flips::default(), Flips::default());
        (0..40).for_each(|_| client.wakes(7, 0));
        (0..40).for_each(|_| node.wakes(7, 0));
        assert!(!node.is_wide(client, 2), "both wake one");
        (0..40).for_each(|turn| node.wakes(turn % 2, 0));
        assert!(node.is_wide(client, 2) && client.is_wide(node, 2));
        assert!(!node.is_wide(client, 8), "of more cores many is more");
        (0..30).for_each(|turn| client.wakes(turn % 2, 0));
        assert!(!node.is_wide(client, 2), "both wake many");
        (1..4).for_each(|seconds| client.wakes(1, seconds * 2 * FLIPS_HALVE_NS));
        assert!(node.is_wide(client, 2), "it was long ago");
    }

    /// Two cores and three threads: the first runs on the first core and wakes the third, which was there as
    /// well.
    fn woken_on(level: f64, is_sync: bool) -> usize {
        let mut processors = Processors::default();
        let pool = processors.add_pool(2);
        let group = processors.add_group(pool, None);
        let [waker, _, sleeper] = [0, 1, 2].map(|_| processors.add_thread(group, 1));
        processors.wake(waker, None, 0);
        processors.take(pool, 0);
        processors.pools[pool].busy = Average::of(level * 2.0);
        processors.wake(sleeper, Some(Waker { thread: waker, is_sync }), 1_000);
        processors.threads[sleeper].core
    }

    #[test]
    fn a_woken_thread_stays_beside_its_waker_while_cores_are_busy() {
        assert_eq!(woken_on(0.4, true), 1, "it gets the idle core");
        assert_eq!(woken_on(0.7, true), 0, "no search for it");
    }

    #[test]
    fn a_socket_wake_up_pulls_to_a_lone_waker_that_is_not_wide() {
        for (is_sync, others_woken, core) in [(true, 0, 1), (false, 0, 0), (true, 40, 0)] {
            let mut processors = Processors::default();
            let pool = processors.add_pool(2);
            let group = processors.add_group(pool, None);
            let [other, waker, sleeper] = [0, 1, 2].map(|_| processors.add_thread(group, 1));
            for id in [other, waker] {
                processors.wake(id, None, 0);
                processors.take(pool, 0);
            }
            processors.pools[pool].busy = Average::of(2.0);
            (0..others_woken).for_each(|turn| processors.threads[waker].flips.wakes(turn % 2, 0));
            processors.wake(sleeper, Some(Waker { thread: waker, is_sync }), 1_000);
            let woken = format!("sync: {is_sync}, others woken: {others_woken}");
            assert_eq!(processors.threads[sleeper].core, core, "{woken}");
        }
    }

    #[test]
    fn the_thread_that_a_timer_interrupts_counts_as_the_waker() {
        let mut processors = Processors::default();
        let pool = processors.add_pool(1);
        let group = processors.add_group(pool, None);
        let [runs, sleeper] = [0, 1].map(|_| processors.add_thread(group, 1));
        processors.wake(runs, None, 0);
        processors.take(pool, 0);
        processors.wake(sleeper, None, 1_000);
        let counts = [runs, sleeper].map(|id| processors.threads[id].flips.count);
        assert_eq!(counts, [1, 0]);
    }
}
