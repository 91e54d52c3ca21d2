//! What of a thread's processor time is the mover's.

use crate::clock::thread_cpu_us;

/// The processor time that a mover has used.
#[derive(Debug)]
pub(super) struct OwnTime {
    /// What its turns so far took, where the thread is not its alone.
    turns: Option<Turns>,
}

#[derive(Debug, Default)]
struct Turns {
    used_us: u64,
    /// The thread's time when the present turn began.
    since_us: Option<u64>,
}

impl OwnTime {
    /// All that the thread uses.
    pub(super) fn of_thread() -> OwnTime {
        OwnTime { turns: None }
    }

    /// What the thread uses between the beginning and the end of a turn.
    pub(super) fn of_turns() -> OwnTime {
        OwnTime { turns: Some(Turns::default()) }
    }

    /// Whether the thread does other work too.
    pub(super) fn is_of_turns(&self) -> bool {
        self.turns.is_some()
    }

    /// A turn begins.
    pub(super) fn begin(&mut self) {
        self.begin_at(thread_cpu_us);
    }

    /// The turn ends.
    pub(super) fn end(&mut self) {
        self.end_at(thread_cpu_us);
    }

    /// How much it is so far, in microseconds.
    pub(super) fn used_us(&self) -> u64 {
        self.used_us_at(thread_cpu_us)
    }

    fn begin_at(&mut self, thread_us: impl Fn() -> u64) {
        if let Some(turns) = &mut self.turns {
            turns.since_us = Some(thread_us());
        }
    }

    fn end_at(&mut self, thread_us: impl Fn() -> u64) {
        if let Some(turns) = &mut self.turns
            && let Some(since_us) = turns.since_us.take()
        {
            turns.used_us += thread_us().saturating_sub(since_us);
        }
    }

    fn used_us_at(&self, thread_us: impl Fn() -> u64) -> u64 {
        match &self.turns {
            None => thread_us(),
            Some(turns) => {
                let present_us = turns.since_us.map_or(0, |since_us| thread_us().saturating_sub(since_us));
                turns.used_us + present_us
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thread_of_its_own_is_all_its() {
        let mut time = OwnTime::of_thread();
        time.begin_at(|| 5);
        time.end_at(|| 7);
        assert_eq!(time.used_us_at(|| 100), 100);
    }

    #[test]
    fn of_a_shared_thread_only_its_turns_are() {
        let mut time = OwnTime::of_turns();
        assert_eq!(time.used_us_at(|| 50), 0);
        time.begin_at(|| 100);
        assert_eq!(time.used_us_at(|| 103), 3);
        time.end_at(|| 110);
        assert_eq!(time.used_us_at(|| 500), 10, "what came after the turn is somebody else's");
        time.end_at(|| 600);
        time.begin_at(|| 700);
        time.end_at(|| 701);
        assert_eq!(time.used_us_at(|| 900), 11);
    }
}
