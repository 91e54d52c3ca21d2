//! A mover's part of its thread's processor time.
//!
//! Ownership: a mover, which reads the thread's clock when required.

/// The processor time that a mover has used.
#[derive(Debug)]
pub struct OwnTime {
    /// The time of its turns, if it shares the thread.
    turns: Option<Turns>,
}

#[derive(Debug, Default)]
struct Turns {
    used_us: u64,
    /// The thread's time at the start of the current turn.
    since_us: Option<u64>,
}

impl OwnTime {
    /// All that the thread uses.
    pub fn of_thread() -> OwnTime {
        OwnTime { turns: None }
    }

    /// What the thread uses between the start and the end of a turn.
    pub fn of_turns() -> OwnTime {
        OwnTime { turns: Some(Turns::default()) }
    }

    /// Whether the mover shares the thread.
    pub fn is_of_turns(&self) -> bool {
        self.turns.is_some()
    }

    /// A turn starts. `thread_us` is called only if turns count.
    pub fn begin(&mut self, thread_us: impl Fn() -> u64) {
        if let Some(turns) = &mut self.turns {
            turns.since_us = Some(thread_us());
        }
    }

    /// The turn ends.
    pub fn end(&mut self, thread_us: impl Fn() -> u64) {
        if let Some(turns) = &mut self.turns
            && let Some(since_us) = turns.since_us.take()
        {
            turns.used_us += thread_us().saturating_sub(since_us);
        }
    }

    /// The time used so far, in microseconds.
    pub fn used_us(&self, thread_us: impl Fn() -> u64) -> u64 {
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
    fn a_dedicated_thread_counts_whole() {
        let mut time = OwnTime::of_thread();
        time.begin(|| 5);
        time.end(|| 7);
        assert_eq!(time.used_us(|| 100), 100);
    }

    #[test]
    fn a_shared_thread_counts_turns_only() {
        let mut time = OwnTime::of_turns();
        assert_eq!(time.used_us(|| 50), 0);
        time.begin(|| 100);
        assert_eq!(time.used_us(|| 103), 3);
        time.end(|| 110);
        assert_eq!(time.used_us(|| 500), 10, "time after the turn does not count");
        time.end(|| 600);
        time.begin(|| 700);
        time.end(|| 701);
        assert_eq!(time.used_us(|| 900), 11);
    }
}
