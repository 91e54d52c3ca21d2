//! What a conversation has received from the coordinator, and how it ended.

use std::cell::Cell;
use std::time::Duration;
use tokio::time::{Instant, sleep_until};

/// The time for a node to prove itself, and for a coordinator to send its first message. A node that
/// asks to join, or sends a heartbeat, is answered at once.
pub(super) const FIRST_WORD_TIMEOUT: Duration = Duration::from_secs(3);
/// How long it may be silent after that: longer than a refused node waits before it asks again.
const SILENCE_TIMEOUT: Duration = Duration::from_secs(10);

/// How a conversation with an expected coordinator ended.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Ended {
    /// The coordinator sent something; later the connection broke, or it fell silent.
    Lost(String),
    /// The node there named another address.
    Elsewhere(String),
    /// The node there did not answer as a coordinator.
    Unanswered(String),
}

/// When the other end of a conversation last sent.
#[derive(Debug)]
pub(super) struct Heard {
    begun: Instant,
    at: Cell<Option<Instant>>,
}

impl Heard {
    /// Nothing received yet.
    pub(super) fn nothing() -> Heard {
        Heard { begun: Instant::now(), at: Cell::new(None) }
    }

    /// Something was received now.
    pub(super) fn word(&self) {
        self.at.set(Some(Instant::now()));
    }

    /// Whether anything was ever received.
    pub(super) fn anything(&self) -> bool {
        self.at.get().is_some()
    }

    /// Waits until nothing has been received for too long.
    pub(super) async fn silence(&self) {
        loop {
            let until = self.at.get().map_or(self.begun + FIRST_WORD_TIMEOUT, |at| at + SILENCE_TIMEOUT);
            if Instant::now() >= until {
                return;
            }
            sleep_until(until).await;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn silence_begins_earlier_before_the_first_word() {
        let begun = Instant::now();
        let heard = Heard::nothing();
        heard.silence().await;
        assert!(!heard.anything() && begun.elapsed() < FIRST_WORD_TIMEOUT + Duration::from_millis(10));
        heard.word();
        let begun = Instant::now();
        heard.silence().await;
        assert!(heard.anything() && begun.elapsed() >= SILENCE_TIMEOUT);
    }
}
