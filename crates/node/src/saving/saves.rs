//! Which save was asked for, runs, and has ended. Commands ask, and the server's thread saves.

use sidle_types::WallMs;
use std::collections::BTreeMap;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

/// How many failures are remembered for those who still wait for their save.
const FAILURES: usize = 16;

/// The saves of a node. One runs at a time; they are numbered from 1 on.
#[derive(Debug, Default)]
pub struct Saves {
    state: Mutex<State>,
    asked: Condvar,
}

#[derive(Debug, Default)]
struct State {
    /// The last save that was asked for.
    wanted: u64,
    /// The last save that has ended: `wanted`, or the one before.
    ended: u64,
    began_at: WallMs,
    /// When the last successful one ended.
    saved_at: Option<WallMs>,
    /// How long the last one took.
    took_ms: Option<u64>,
    succeeded: u64,
    /// Why saves failed, by number.
    failures: BTreeMap<u64, String>,
    /// No more saves: the node ends.
    is_over: bool,
}

/// What INFO shows of saves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct SavesShown {
    /// For so long one runs.
    pub(crate) runs_ms: Option<u64>,
    /// When the last successful one ended.
    pub(crate) saved_at: Option<WallMs>,
    /// How long the last one took.
    pub(crate) took_ms: Option<u64>,
    /// Whether the last one that ended failed.
    pub(crate) last_failed: bool,
    /// How many succeeded.
    pub(crate) succeeded: u64,
}

impl State {
    fn runs(&self) -> bool {
        self.wanted != self.ended
    }
}

impl Saves {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A save is to begin: its number. None while one runs.
    pub(crate) fn ask(&self, now: WallMs) -> Option<u64> {
        let mut state = self.state();
        if state.runs() {
            return None;
        }
        state.wanted += 1;
        state.began_at = now;
        self.asked.notify_all();
        Some(state.wanted)
    }

    /// How the save of this number ended; none while it runs.
    pub(crate) fn outcome(&self, number: u64) -> Option<Result<(), String>> {
        let state = self.state();
        (number <= state.ended).then(|| state.failures.get(&number).cloned().map_or(Ok(()), Err))
    }

    /// What INFO shows.
    pub(crate) fn shown(&self, now: WallMs) -> SavesShown {
        let state = self.state();
        SavesShown {
            runs_ms: state.runs().then(|| now.0.saturating_sub(state.began_at.0)),
            saved_at: state.saved_at,
            took_ms: state.took_ms,
            last_failed: state.failures.contains_key(&state.ended),
            succeeded: state.succeeded,
        }
    }

    /// Waits until a save is asked for, which then runs. False: there will be none, the node ends.
    pub fn await_next(&self) -> bool {
        let idle = |state: &mut State| !state.runs() && !state.is_over;
        let state = self.asked.wait_while(self.state(), idle).unwrap_or_else(PoisonError::into_inner);
        !state.is_over
    }

    /// The save that runs has ended.
    ///
    /// # Panics
    /// If none runs.
    pub fn end(&self, outcome: Result<(), String>, now: WallMs) {
        let mut state = self.state();
        assert!(state.runs(), "a save ends once, and was asked for");
        state.ended = state.wanted;
        state.took_ms = Some(now.0.saturating_sub(state.began_at.0));
        match outcome {
            Ok(()) => {
                state.saved_at = Some(now);
                state.succeeded += 1;
            }
            Err(why) => {
                let number = state.ended;
                state.failures.insert(number, why);
                if state.failures.len() > FAILURES {
                    state.failures.pop_first();
                }
            }
        }
    }

    /// The node ends: the save that runs is to be given up.
    pub fn stop(&self) {
        self.state().is_over = true;
        self.asked.notify_all();
    }

    /// Whether the node ends.
    pub fn is_over(&self) -> bool {
        self.state().is_over
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: WallMs = WallMs(1000);

    fn failed() -> Result<(), String> {
        Err("full".to_owned())
    }

    #[test]
    fn one_save_runs_at_a_time() {
        let saves = Saves::default();
        assert_eq!(saves.ask(SECOND), Some(1));
        assert_eq!(saves.ask(SECOND), None);
        assert_eq!(saves.outcome(1), None);
        assert!(saves.await_next());
        let runs = saves.shown(WallMs(3500));
        assert_eq!((runs.runs_ms, runs.saved_at, runs.took_ms), (Some(2500), None, None));
        saves.end(Ok(()), WallMs(5000));
        assert_eq!(saves.outcome(1), Some(Ok(())));
        let shown = SavesShown {
            runs_ms: None,
            saved_at: Some(WallMs(5000)),
            took_ms: Some(4000),
            last_failed: false,
            succeeded: 1,
        };
        assert_eq!(saves.shown(WallMs(9000)), shown);
        assert_eq!(saves.ask(WallMs(9000)), Some(2));
    }

    #[test]
    fn a_failure_is_told_to_who_waits_for_it_and_leaves_the_last_success() {
        let saves = Saves::default();
        for (number, outcome) in [(1, Ok(())), (2, failed()), (3, Ok(()))] {
            assert_eq!(saves.ask(SECOND), Some(number));
            saves.end(outcome.clone(), WallMs(1000 * number));
            assert_eq!(saves.shown(SECOND).last_failed, outcome.is_err());
            assert_eq!(saves.outcome(number), Some(outcome));
        }
        // Another one has ended since.
        assert_eq!(saves.outcome(2), Some(failed()));
        assert_eq!((saves.shown(SECOND).saved_at, saves.shown(SECOND).succeeded), (Some(WallMs(3000)), 2));
        for number in 4..4 + 2 * FAILURES as u64 {
            assert_eq!(saves.ask(SECOND), Some(number));
            saves.end(failed(), WallMs(9000));
        }
        assert_eq!(saves.state().failures.len(), FAILURES);
        assert_eq!(saves.shown(SECOND).saved_at, Some(WallMs(3000)));
    }

    #[test]
    fn a_node_that_ends_saves_no_more() {
        let saves = Saves::default();
        assert_eq!(saves.ask(SECOND), Some(1));
        saves.stop();
        assert!(saves.is_over() && !saves.await_next());
    }

    #[test]
    #[should_panic(expected = "a save ends once")]
    fn a_save_that_nobody_asked_for_does_not_end() {
        Saves::default().end(Ok(()), SECOND);
    }
}
