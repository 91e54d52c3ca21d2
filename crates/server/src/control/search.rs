//! Looking for the coordinator, from a node that does not run it, for as long as the process lives.
//!
//! Any address may be old, and whoever answers there may hang, be a node that sends elsewhere, or have no
//! idea. So each address gets a little time to answer, and then the next one is tried. What is waited for
//! stands in the log.
//!
//! Every member's address is among them, so that the search also finds out which members can be reached: all
//! that a node knows of the others' health without the coordinator.

use super::links::{Events, converse_with_coordinator};
use super::outbox::Outboxes;
use crate::join::Search;
use crate::repeated::Repeated;
use sidle_cluster::HostPort;
use std::cell::Cell;
use std::collections::{BTreeSet, VecDeque};
use std::time::Duration;
use tokio::sync::watch;
use tokio::time::{Instant, sleep_until};

/// The first pause before all addresses are tried again, and the longest.
const BACKOFF_FIRST: Duration = Duration::from_millis(50);
const BACKOFF_LAST: Duration = Duration::from_secs(2);
/// How long a node may take until it has proven itself, and a coordinator for its first word. A node that
/// asks to join, or shows a sign of life, is answered at once.
pub(super) const FIRST_WORD_TIMEOUT: Duration = Duration::from_secs(3);
/// How long it may be silent after that: longer than a node that was refused waits before it asks again.
const SILENCE_TIMEOUT: Duration = Duration::from_secs(10);
/// How many addresses that others named are tried before all are tried again.
const DETOURS_MAX: usize = 16;

/// How a conversation ended that was to be one with the coordinator.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Ended {
    /// The coordinator spoke, and the connection broke later, or it fell silent.
    Lost(String),
    /// The node there named another address.
    Elsewhere(String),
    /// Nobody there spoke as a coordinator.
    Unanswered(String),
}

/// When the other end of a conversation spoke last.
#[derive(Debug)]
pub(super) struct Heard {
    begun: Instant,
    at: Cell<Option<Instant>>,
}

impl Heard {
    /// Nothing yet.
    pub(super) fn nothing() -> Heard {
        Heard { begun: Instant::now(), at: Cell::new(None) }
    }

    /// It spoke now.
    pub(super) fn word(&self) {
        self.at.set(Some(Instant::now()));
    }

    /// Whether it ever spoke.
    pub(super) fn anything(&self) -> bool {
        self.at.get().is_some()
    }

    /// Waits until it has been silent for too long.
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

/// Keeps up the conversation with the coordinator: tries the addresses in turn, with growing pauses, for
/// ever. `called`: where a coordinator says that it is.
pub(super) async fn follow_coordinator(
    mut search: Search,
    mut called: watch::Receiver<Option<HostPort>>,
    events: Events,
    outboxes: Outboxes,
) {
    let mut pause = BACKOFF_FIRST;
    let mut complaints = Repeated::default();
    loop {
        let call = called.borrow_and_update().clone();
        if one_round(&mut search, call, &mut called, &mut complaints, &events, &outboxes).await {
            pause = BACKOFF_FIRST;
            complaints.forget();
        }
        // A call of the coordinator ends the pause, and so does the end of the node.
        if let Ok(Err(_)) = tokio::time::timeout(pause, called.changed()).await {
            return;
        }
        pause = (pause * 2).min(BACKOFF_LAST);
    }
}

/// Tries every address once, until the coordinator is found and lost again; whether it was.
async fn one_round(
    search: &mut Search,
    call: Option<HostPort>,
    called: &mut watch::Receiver<Option<HostPort>>,
    complaints: &mut Repeated,
    events: &Events,
    outboxes: &Outboxes,
) -> bool {
    let mut left: VecDeque<String> = call.iter().map(HostPort::to_string).collect();
    left.extend(search.addresses().await);
    let mut tried = BTreeSet::new();
    let mut detours = 0;
    while let Some(address) = left.pop_front() {
        if !tried.insert(address.clone()) {
            continue;
        }
        match converse_with_coordinator(&address, &search.door, events, outboxes).await {
            Ok(Ended::Lost(why)) => {
                search.is_found();
                tracing::warn!("lost the coordinator at {address}: {why}; looking for it");
                return true;
            }
            Ok(Ended::Elsewhere(there)) if detours < DETOURS_MAX => {
                detours += 1;
                left.push_front(there);
            }
            Ok(Ended::Elsewhere(_)) => {}
            Ok(Ended::Unanswered(why)) => complain(complaints, &address, &why),
            Err(error) => complain(complaints, &address, &error.to_string()),
        }
        if called.has_changed().unwrap_or(false) {
            left.extend(called.borrow_and_update().as_ref().map(HostPort::to_string));
        }
    }
    false
}

fn complain(complaints: &mut Repeated, address: &str, why: &str) {
    let text = format!("looking for the coordinator at {address}: {why}; trying on");
    if let Some(text) = complaints.due(&text, std::time::Instant::now()) {
        tracing::warn!("{text}");
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
