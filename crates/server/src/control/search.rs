//! The search for the coordinator, from a node that does not run it, for as long as the process runs.
//!
//! Any address may be old, and its node may hang, redirect elsewhere, or not know the
//! coordinator. So each address gets a little time to answer; then the next one is tried. The log
//! shows what is waited for.
//!
//! Every member's address is included, so the search also finds out which members are reachable. That is
//! all that a node knows of the others' health without the coordinator.

use super::candidate::Announced;
use super::heard::Ended;
use super::links::{BusEvent, Events, converse_with_coordinator};
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

/// What a node learns of the coordinator without looking for it.
pub(super) struct Signs {
    /// The address that a coordinator announces by a call.
    pub(super) called: watch::Receiver<Option<HostPort>>,
    /// The leader, where nodes campaign.
    pub(super) leader: watch::Receiver<Option<Announced>>,
    /// Whether the coordinator is on this node.
    pub(super) leads: watch::Receiver<bool>,
}

impl Signs {
    /// The addresses to try first.
    fn named(&mut self) -> VecDeque<String> {
        let leader = self.leader.borrow_and_update().as_ref().map(|leader| leader.bus_addr.to_string());
        let called = self.called.borrow_and_update().as_ref().map(HostPort::to_string);
        leader.into_iter().chain(called).collect()
    }

    /// Waits for a new sign. An error at the node's end.
    async fn changed(&mut self) -> Result<(), watch::error::RecvError> {
        tokio::select! {
            changed = self.called.changed() => changed,
            changed = self.leader.changed() => changed,
        }
    }

    /// Waits until a new leader is seen elsewhere than at this address, or this node leads.
    async fn leader_elsewhere(&self, address: &str) {
        let (mut leader, mut leads) = (self.leader.clone(), self.leads.clone());
        let seen_elsewhere = async {
            while leader.changed().await.is_ok() {
                let at = leader.borrow_and_update().as_ref().map(|leader| leader.bus_addr.to_string());
                if at.is_some_and(|at| at != address) {
                    return;
                }
            }
        };
        tokio::select! {
            () = seen_elsewhere => {}
            _ = leads.wait_for(|leads| *leads) => {}
        }
    }
}

/// Keeps up the conversation with the coordinator: tries the addresses in turn, with growing pauses,
/// forever. It rests while the coordinator is on this node.
pub(super) async fn follow_coordinator(
    mut search: Search,
    mut signs: Signs,
    events: Events,
    outboxes: Outboxes,
) {
    let mut pause = BACKOFF_FIRST;
    let mut complaints = Repeated::default();
    let joins_by_leader = search.join.is_empty();
    loop {
        if signs.leads.wait_for(|leads| !leads).await.is_err() {
            return;
        }
        if joins_by_leader && !search.door.is_certain() {
            let leader = signs.leader.borrow().as_ref().map(|leader| leader.client_addr.to_string());
            search.join = leader.unwrap_or_default();
        }
        if one_round(&mut search, &mut signs, &mut complaints, &events, &outboxes).await {
            pause = BACKOFF_FIRST;
            complaints.forget();
        }
        // A sign of the coordinator ends the pause, and so does the node's end.
        if let Ok(Err(_)) = tokio::time::timeout(pause, signs.changed()).await {
            return;
        }
        pause = (pause * 2).min(BACKOFF_LAST);
    }
}

/// Tries every address once, until the coordinator is found and lost again; returns whether it was.
async fn one_round(
    search: &mut Search,
    signs: &mut Signs,
    complaints: &mut Repeated,
    events: &Events,
    outboxes: &Outboxes,
) -> bool {
    let mut left = signs.named();
    left.extend(search.addresses().await);
    let mut tried = BTreeSet::new();
    let mut detours = 0;
    while let Some(address) = left.pop_front() {
        if !tried.insert(address.clone()) {
            continue;
        }
        let conversation = converse_with_coordinator(&address, &search.door, events, outboxes);
        let ended = tokio::select! {
            ended = conversation => ended,
            () = signs.leader_elsewhere(&address) => {
                // It may have been one with the leader before.
                events.send_small(BusEvent::CoordinatorLost).await;
                return true;
            }
        };
        match ended {
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
        if signs.called.has_changed().unwrap_or(false) {
            left.extend(signs.called.borrow_and_update().as_ref().map(HostPort::to_string));
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
