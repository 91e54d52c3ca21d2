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
