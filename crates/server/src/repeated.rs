//! Repeated log messages: logged at once the first time, then every now and then with how often
//! they occurred meanwhile.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

/// The interval between two logs of the same text.
const LOG_AGAIN: Duration = Duration::from_secs(30);
/// How many different texts are remembered.
const TEXTS_MAX: usize = 256;

/// What was logged, by its text.
#[derive(Debug, Default)]
pub(crate) struct Repeated {
    logged: BTreeMap<String, Logged>,
}

#[derive(Debug)]
struct Logged {
    at: Instant,
    since: u64,
}

impl Repeated {
    /// The text to log now, if it is time for it.
    pub(crate) fn due(&mut self, text: &str, now: Instant) -> Option<String> {
        if let Some(logged) = self.logged.get_mut(text) {
            logged.since += 1;
            if now.duration_since(logged.at) < LOG_AGAIN {
                return None;
            }
            let seconds = now.duration_since(logged.at).as_secs();
            let times = std::mem::take(&mut logged.since);
            logged.at = now;
            return Some(format!("{text} (tried {times} times in {seconds} s)"));
        }
        if self.logged.len() >= TEXTS_MAX {
            self.logged.clear();
        }
        self.logged.insert(text.to_owned(), Logged { at: now, since: 0 });
        Some(text.to_owned())
    }

    /// Makes the next text a new one.
    pub(crate) fn forget(&mut self) {
        self.logged.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_same_is_logged_once_in_a_while_with_its_count() {
        let mut repeated = Repeated::default();
        let start = Instant::now();
        let logged: Vec<String> =
            (0..=31).filter_map(|n| repeated.due("no", start + Duration::from_secs(2 * n))).collect();
        assert_eq!(logged, ["no", "no (tried 15 times in 30 s)", "no (tried 15 times in 30 s)"]);
        assert_eq!(repeated.due("another", start).as_deref(), Some("another"), "each for itself");
        repeated.forget();
        assert_eq!(repeated.due("no", start).as_deref(), Some("no"));
    }

    #[test]
    fn what_is_remembered_is_bounded() {
        let mut repeated = Repeated::default();
        for number in 0..10 * TEXTS_MAX {
            assert!(repeated.due(&number.to_string(), Instant::now()).is_some());
        }
        assert!(repeated.logged.len() <= TEXTS_MAX);
    }
}
