//! The search for the coordinator, from a node that does not run it, for as long as the process runs.
//!
//! Any address may be old, and its node may hang, redirect elsewhere, or not know the
//! coordinator. So each address gets a little time to answer; then the next one is tried. The log
//! shows what is waited for.
//!
//! Every member's address is included, so the search also finds out which members are reachable. That is
//! all that a node knows of the others' health without the coordinator.

use super::heard::Ended;
use super::links::{Events, converse_with_coordinator};
use super::outbox::Outboxes;
use crate::join::Search;
use crate::repeated::Repeated;
use sidle_cluster::HostPort;
use std::collections::{BTreeSet, VecDeque};
use std::time::Duration;
use tokio::sync::watch;

/// The first pause before all addresses are tried again, and the longest.
const BACKOFF_FIRST: Duration = Duration::from_millis(50);
const BACKOFF_LAST: Duration = Duration::from_secs(2);
/// How many addresses named by other nodes are tried before all are tried again.
const DETOURS_MAX: usize = 16;

/// Keeps up the conversation with the coordinator: tries the addresses in turn, with growing pauses,
/// forever. `called`: the address that a coordinator announces.
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
        // A call of the coordinator ends the pause, and so does the node's end.
        if let Ok(Err(_)) = tokio::time::timeout(pause, called.changed()).await {
            return;
        }
        pause = (pause * 2).min(BACKOFF_LAST);
    }
}

/// Tries every address once, until the coordinator is found and lost again; returns whether it was.
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
