//! The links between nodes and the coordinator, as CLUSTER INFO, NODES and LINKS show them.
//!
//! A member has one, with the coordinator's node; that one has one with each member. Their driver opens a
//! [`PeerLink`] for each and counts its messages.

use sidle_types::{NodeId, WallMs};
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// All links of a node, and how many messages they carried.
#[derive(Debug, Default)]
pub struct Peers {
    sent: AtomicU64,
    received: AtomicU64,
    last_number: AtomicU64,
    open: Mutex<BTreeMap<u64, Arc<Record>>>,
}

#[derive(Debug)]
struct Record {
    /// The member that opened the link; `None`: this node did, to reach the coordinator.
    opened_by: Option<NodeId>,
    opened_at: WallMs,
    /// 0: nothing yet.
    received_at_ms: AtomicU64,
    waiting_bytes: Arc<AtomicUsize>,
}

/// One link, until it is dropped.
#[derive(Debug)]
pub struct PeerLink {
    number: u64,
    record: Arc<Record>,
    peers: Arc<Peers>,
}

/// What is shown of one link.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ShownLink {
    pub(crate) node: NodeId,
    /// Whether this node opened it.
    pub(crate) is_outgoing: bool,
    pub(crate) opened_at: WallMs,
    /// When the other end's last message arrived.
    pub(crate) received_at: WallMs,
    /// Bytes that wait to be sent.
    pub(crate) waiting_bytes: usize,
}

impl Peers {
    /// Opens a link. `opened_by`: the member that opened it, or `None` if this node did, to reach the
    /// coordinator. `waiting_bytes`: its unsent bytes.
    pub fn open(
        self: &Arc<Peers>,
        opened_by: Option<NodeId>,
        now: WallMs,
        waiting_bytes: Arc<AtomicUsize>,
    ) -> PeerLink {
        let number = self.last_number.fetch_add(1, Relaxed);
        let received_at_ms = AtomicU64::new(0);
        let record = Arc::new(Record { opened_by, opened_at: now, received_at_ms, waiting_bytes });
        self.links().insert(number, Arc::clone(&record));
        PeerLink { number, record, peers: Arc::clone(self) }
    }

    /// Counts a message sent to another node.
    pub fn count_sent(&self) {
        self.sent.fetch_add(1, Relaxed);
    }

    /// Counts a message received from another node.
    pub fn count_received(&self) {
        self.received.fetch_add(1, Relaxed);
    }

    /// How many messages were sent and received.
    pub(crate) fn messages(&self) -> [u64; 2] {
        [&self.sent, &self.received].map(|count| count.load(Relaxed))
    }

    /// The links whose other end has sent a message. `coordinator`: the node that runs it, if known.
    pub(crate) fn shown(&self, coordinator: Option<NodeId>) -> Vec<ShownLink> {
        let shown = |record: &Arc<Record>| {
            let received_at = record.received_at_ms.load(Relaxed);
            Some(ShownLink {
                node: record.opened_by.or(coordinator).filter(|_| received_at > 0)?,
                is_outgoing: record.opened_by.is_none(),
                opened_at: record.opened_at,
                received_at: WallMs(received_at),
                waiting_bytes: record.waiting_bytes.load(Relaxed),
            })
        };
        self.links().values().filter_map(shown).collect()
    }

    fn links(&self) -> MutexGuard<'_, BTreeMap<u64, Arc<Record>>> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl PeerLink {
    /// Received a valid message from the other end.
    pub fn heard(&self, now: WallMs) {
        self.record.received_at_ms.store(now.0.max(1), Relaxed);
    }
}

impl Drop for PeerLink {
    fn drop(&mut self) {
        self.peers.links().remove(&self.number);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_link_is_shown_from_its_first_message_to_its_end() {
        let peers = Arc::new(Peers::default());
        let [member, coordinator] = [1, 2].map(|number| NodeId::from_bytes([number; 20]));
        let waiting = Arc::new(AtomicUsize::new(7));
        let from = peers.open(Some(member), WallMs(10), Arc::clone(&waiting));
        let to = peers.open(None, WallMs(20), Arc::default());
        assert_eq!(peers.shown(Some(coordinator)), []);
        from.heard(WallMs(30));
        to.heard(WallMs(40));
        let shown = peers.shown(Some(coordinator));
        let facts = |link: &ShownLink| (link.node, link.is_outgoing, link.opened_at.0, link.received_at.0);
        assert_eq!(
            shown.iter().map(facts).collect::<Vec<_>>(),
            [(member, false, 10, 30), (coordinator, true, 20, 40)]
        );
        assert_eq!(shown[0].waiting_bytes, 7);
        assert_eq!(peers.shown(None).len(), 1, "its owner is not known yet");
        drop(from);
        assert_eq!(peers.shown(Some(coordinator)).len(), 1);
        drop(to);
        assert_eq!(peers.shown(Some(coordinator)), []);
        peers.count_sent();
        assert_eq!(peers.messages(), [1, 0]);
    }
}
