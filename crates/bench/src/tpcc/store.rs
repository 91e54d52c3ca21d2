//! What all threads of a run share.

use super::TpccOptions;
use crate::transactions::Day;
use crate::words::counted;
use std::sync::Mutex;

/// What the auditor has seen.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Audits {
    /// How often it looked.
    pub(super) count: u64,
    /// How often a warehouse had not taken what its districts have.
    pub(super) wrong: u64,
    /// How often it could not look.
    pub(super) failed: u64,
}

/// The database, and the run.
#[derive(Debug)]
pub(super) struct Store {
    pub(super) day: Day,
    pub(super) options: TpccOptions,
    audits: Mutex<Audits>,
}

impl Store {
    pub(super) fn new(options: TpccOptions, node: &str) -> Store {
        Store { day: Day::new(node), options, audits: Mutex::default() }
    }

    pub(super) fn audits(&self) -> Audits {
        *self.audits.lock().expect("nobody panics with the audits")
    }

    /// Notes an audit; whether the condition held, unless it could not be seen.
    pub(super) fn note_audit(&self, held: Option<bool>) {
        let mut audits = self.audits.lock().expect("nobody panics with the audits");
        match held {
            Some(held) => {
                audits.count += 1;
                audits.wrong += u64::from(!held);
            }
            None => audits.failed += 1,
        }
    }

    /// How often the condition held.
    pub(super) fn audits_in_words(&self) -> String {
        let Audits { count, wrong, .. } = self.audits();
        match wrong {
            0 => format!("sums right {}", counted(count, "time")),
            wrong => format!("sums WRONG {} of {count}", counted(wrong, "time")),
        }
    }
}
