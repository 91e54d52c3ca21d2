//! Who has a processor: threads take turns on the cores of their group, within its quota.
//!
//! A turn is what a thread does between two looks at its queues; it is never interrupted, but stands still while the group's quota
//! is used up. Of the threads that wait, the one with the least processor time behind it is next, as in the kernel's fair
//! scheduler. A thread that slept has no claim on what it did not use meanwhile.

use std::collections::BTreeSet;

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

#[derive(Debug)]
struct Group {
    idle_cores: usize,
    quota: Option<Quota>,
    period: u64,
    left_ns: u64,
    waiting: BTreeSet<(u64, ThreadId)>,
    used_ns: u64,
    /// What the thread that ran last had behind it.
    least_ns: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Asleep,
    Waiting,
    Running,
}

#[derive(Debug)]
struct Thread {
    group: usize,
    state: State,
    /// Something came while it ran.
    is_woken: bool,
    /// Whether its next turn is the first since it slept.
    has_slept: bool,
    /// Its claim: the less, the sooner.
    behind_ns: u64,
    used_ns: u64,
}

/// All cores and the threads on them.
#[derive(Debug, Default)]
pub(crate) struct Processors {
    groups: Vec<Group>,
    threads: Vec<Thread>,
}

impl Processors {
    /// A group with so many cores.
    pub(crate) fn add_group(&mut self, cores: usize, quota: Option<Quota>) -> usize {
        let left_ns = quota.map_or(0, |quota| quota.budget_ns);
        self.groups.push(Group {
            idle_cores: cores,
            quota,
            period: 0,
            left_ns,
            waiting: BTreeSet::new(),
            used_ns: 0,
            least_ns: 0,
        });
        self.groups.len() - 1
    }

    /// A thread of a group, asleep.
    pub(crate) fn add_thread(&mut self, group: usize) -> ThreadId {
        let state = State::Asleep;
        self.threads.push(Thread {
            group,
            state,
            is_woken: false,
            has_slept: true,
            behind_ns: 0,
            used_ns: 0,
        });
        self.threads.len() - 1
    }

    /// Something came for a thread.
    pub(crate) fn wake(&mut self, id: ThreadId) {
        let thread = &mut self.threads[id];
        match thread.state {
            State::Asleep => {
                let group = &mut self.groups[thread.group];
                thread.state = State::Waiting;
                thread.has_slept = true;
                thread.behind_ns = thread.behind_ns.max(group.least_ns);
                group.waiting.insert((thread.behind_ns, id));
            }
            State::Waiting => {}
            State::Running => thread.is_woken = true,
        }
    }

    /// The next thread of a group to run, if a core is idle; and whether it slept before.
    pub(crate) fn take(&mut self, group: usize) -> Option<(ThreadId, bool)> {
        let group = &mut self.groups[group];
        if group.idle_cores == 0 {
            return None;
        }
        let (behind_ns, id) = group.waiting.pop_first()?;
        group.idle_cores -= 1;
        group.least_ns = group.least_ns.max(behind_ns);
        let thread = &mut self.threads[id];
        thread.state = State::Running;
        thread.is_woken = false;
        Some((id, std::mem::take(&mut thread.has_slept)))
    }

    /// The turn of a thread that began at `start_ns` took so much processor time: when it is over.
    pub(crate) fn charge(&mut self, id: ThreadId, start_ns: u64, cost_ns: u64) -> u64 {
        let thread = &mut self.threads[id];
        thread.behind_ns += cost_ns;
        thread.used_ns += cost_ns;
        let group = &mut self.groups[thread.group];
        group.used_ns += cost_ns;
        group.pass(start_ns, cost_ns)
    }

    /// The turn is over. `has_more`: it has something to do at once.
    pub(crate) fn done(&mut self, id: ThreadId, has_more: bool) {
        let thread = &mut self.threads[id];
        let group = &mut self.groups[thread.group];
        group.idle_cores += 1;
        thread.state = State::Asleep;
        if has_more || thread.is_woken {
            thread.state = State::Waiting;
            group.waiting.insert((thread.behind_ns, id));
        }
    }

    /// The group of a thread.
    pub(crate) fn group_of(&self, id: ThreadId) -> usize {
        self.threads[id].group
    }

    /// Processor time that a thread has used.
    pub(crate) fn used_ns(&self, id: ThreadId) -> u64 {
        self.threads[id].used_ns
    }

    /// Processor time that all threads of a group have used.
    pub(crate) fn used_by_group_ns(&self, group: usize) -> u64 {
        self.groups[group].used_ns
    }
}

impl Group {
    /// When work of so much processor time is done that begins then, in view of the quota.
    fn pass(&mut self, start_ns: u64, mut cost_ns: u64) -> u64 {
        let Some(Quota { budget_ns, period_ns }) = self.quota else { return start_ns + cost_ns };
        let mut now_ns = start_ns;
        loop {
            let period = now_ns / period_ns;
            if period > self.period {
                (self.period, self.left_ns) = (period, budget_ns);
            }
            // Another thread of the group may have used up the time of a later period.
            now_ns = now_ns.max(self.period * period_ns);
            if cost_ns <= self.left_ns {
                self.left_ns -= cost_ns;
                return now_ns + cost_ns;
            }
            cost_ns -= std::mem::take(&mut self.left_ns);
            now_ns = (self.period + 1) * period_ns;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn threads_share_a_core_by_what_they_have_used() {
        let mut processors = Processors::default();
        let group = processors.add_group(1, None);
        let [a, b] = [processors.add_thread(group), processors.add_thread(group)];
        processors.wake(a);
        processors.wake(b);
        let mut ran = Vec::new();
        let mut now_ns = 0;
        for _ in 0..8 {
            let (thread, _) = processors.take(group).expect("both always have more to do");
            assert_eq!(processors.take(group), None, "there is one core");
            ran.push(thread);
            now_ns = processors.charge(thread, now_ns, if thread == a { 10 } else { 30 });
            processors.done(thread, true);
        }
        assert_eq!(ran.iter().filter(|&&thread| thread == a).count(), 6, "{ran:?}");
        assert_eq!((processors.used_ns(a), processors.used_ns(b)), (60, 60));
        assert_eq!(processors.used_by_group_ns(group), now_ns);
    }

    #[test]
    fn who_slept_has_no_claim_on_the_past() {
        let mut processors = Processors::default();
        let group = processors.add_group(1, None);
        let [busy, late] = [processors.add_thread(group), processors.add_thread(group)];
        processors.wake(busy);
        for _ in 0..10 {
            let (thread, _) = processors.take(group).expect("it has more");
            processors.charge(thread, 0, 100);
            processors.done(thread, true);
        }
        processors.wake(late);
        let mut turns = 0;
        while let Some((thread, has_slept)) = processors.take(group).filter(|(thread, _)| *thread == late) {
            assert_eq!(has_slept, turns == 0);
            turns += 1;
            processors.charge(thread, 0, 100);
            processors.done(thread, true);
        }
        assert!(turns <= 2, "it took {turns} turns in a row");
    }

    #[test]
    fn work_stands_still_while_the_quota_is_used_up() {
        let mut processors = Processors::default();
        let quota = Quota { budget_ns: 400, period_ns: 1000 };
        let group = processors.add_group(2, Some(quota));
        let thread = processors.add_thread(group);
        assert_eq!(processors.charge(thread, 0, 300), 300);
        assert_eq!(processors.charge(thread, 300, 300), 1200, "100 now, 200 in the next period");
        assert_eq!(processors.charge(thread, 1200, 1000), 3400, "200 in this period, then 400 and 400");
        assert_eq!(processors.charge(thread, 9_500, 100), 9_600, "nothing is saved up");
        assert_eq!(processors.charge(thread, 9_600, 400), 10_100);
    }

    #[test]
    fn what_comes_while_a_thread_runs_gives_it_another_turn() {
        let mut processors = Processors::default();
        let group = processors.add_group(1, None);
        let thread = processors.add_thread(group);
        processors.wake(thread);
        assert_eq!(processors.take(group), Some((thread, true)));
        processors.wake(thread);
        processors.done(thread, false);
        assert_eq!(processors.take(group), Some((thread, false)));
        processors.done(thread, false);
        assert_eq!(processors.take(group), None);
    }
}
