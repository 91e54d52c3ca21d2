//! On which core a thread wakes up: by and large what Linux 6.18 does.
//!
//! It compares the core that the thread was on with that of whoever wakes it, and where neither is idle it
//! looks for an idle one, at fewer cores the busier they all are. On two cores that are busy for more than
//! three fifths of the time it looks at none.
//!
//! Whoever wakes many has no company on its core: a node and several client threads that wake each other stay
//! where they are.

use super::{PoolId, Processors, ThreadId};

/// What is known of whom a thread wakes is halved after this.
const FLIPS_HALVE_NS: u64 = 1_000_000_000;
/// Cores are taken to be so much busier than they are: `imbalance_pct` of cores that share a cache.
const IMBALANCE: f64 = 1.17;

/// Who wakes a thread, and how.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Waker {
    pub(crate) thread: ThreadId,
    /// The system takes it to be about to sleep: so when it wrote to a socket.
    pub(crate) is_sync: bool,
}

/// How often a thread woke another one than the last time, lately.
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

    /// Whether one of the two wakes so many threads that the other does not belong to it. Every thread is
    /// taken to wake so many as there are cores: it is interrupted by what wakes the system's own.
    fn is_wide(self, other: Flips, cores: usize) -> bool {
        let (few, many) = (self.count.min(other.count), self.count.max(other.count));
        many >= few.max(cores as u64) * cores as u64
    }
}

/// How many of so many cores are looked at for an idle one, where so many were busy lately.
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
        // A timer interrupts whoever runs where it was set, and that one is taken to have woken its thread.
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
    fn the_busier_cores_are_the_fewer_are_looked_at() {
        assert_eq!([0.0, 0.3, 0.6, 0.8, 0.9].map(|part| scanned(part * 8.0, 8)), [8, 7, 4, 0, 0]);
    }

    #[test]
    fn who_wakes_many_is_wide_until_long_ago() {
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

    /// Two cores and three threads, of which the first runs on the first core and wakes the third, which was
    /// there as well.
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
    fn who_is_woken_stays_beside_its_waker_while_cores_are_busy() {
        assert_eq!(woken_on(0.4, true), 1, "it is given the idle core");
        assert_eq!(woken_on(0.7, true), 0, "nobody looks for it");
    }

    #[test]
    fn who_is_woken_over_a_socket_comes_to_a_waker_that_is_alone_and_does_not_wake_many() {
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
            let woken = format!("said that it sleeps soon: {is_sync}, others woken: {others_woken}");
            assert_eq!(processors.threads[sleeper].core, core, "{woken}");
        }
    }

    #[test]
    fn whoever_a_timer_interrupts_is_taken_to_have_woken_its_thread() {
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
