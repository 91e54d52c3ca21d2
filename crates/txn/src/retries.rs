//! When to ask again what was not answered.

use sidle_types::MonotonicUs;

/// The first pause.
const FIRST_US: u64 = 5_000;
/// The longest.
const LONGEST_US: u64 = 1_000_000;

/// Pauses that grow.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Retries {
    pause_us: u64,
    at: Option<MonotonicUs>,
}

impl Retries {
    pub(crate) const fn new() -> Retries {
        Retries { pause_us: FIRST_US, at: None }
    }

    /// Something was not answered.
    pub(crate) fn note(&mut self, now: MonotonicUs) {
        if self.at.is_none() {
            self.at = Some(now.plus_us(self.pause_us));
            self.pause_us = (2 * self.pause_us).min(LONGEST_US);
        }
    }

    /// When to ask again, if anything is to be asked again.
    pub(crate) const fn at(&self) -> Option<MonotonicUs> {
        self.at
    }

    /// Whether it is time; then the pause is over.
    pub(crate) fn is_over(&mut self, now: MonotonicUs) -> bool {
        let is_over = self.at.is_some_and(|at| at <= now);
        if is_over {
            self.at = None;
        }
        is_over
    }
}
