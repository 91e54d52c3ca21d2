//! The coordinator's calls to silent members: they may be looking for it at its
//! old address.
//!
//! A call is a connection with one frame: the coordinator's address. The member then opens a
//! conversation there as with any coordinator, and learns in that to whom it belongs.

use crate::bus;
use crate::door::Door;
use crate::thread::start_task;
use sidle_cluster::{HostPort, NodeInfo};
use sidle_types::{MonotonicUs, NodeId};
use std::collections::BTreeMap;
use std::sync::Arc;

/// How long after a call to a member the next one is made.
const AGAIN_US: u64 = 5_000_000;
/// How many calls may be under way.
pub(crate) const UNDER_WAY_MAX: usize = 8;

/// Present and past calls.
#[derive(Debug)]
pub(super) struct Calls {
    /// This coordinator's address.
    from: HostPort,
    /// Opens connections to members.
    door: Door,
    /// When each silent member was called last.
    called_at: BTreeMap<NodeId, MonotonicUs>,
    /// Held by each call under way.
    under_way: Arc<()>,
}

impl Calls {
    /// No calls yet, of the coordinator at this bus address.
    pub(super) fn from(address: HostPort, door: Door) -> Calls {
        Calls { from: address, door, called_at: BTreeMap::new(), under_way: Arc::new(()) }
    }

    /// Calls each of these members whose turn it is.
    pub(super) fn call<'m>(&mut self, now: MonotonicUs, silent: impl Iterator<Item = &'m NodeInfo>) {
        let mut called_at = BTreeMap::new();
        for node in silent {
            let before = self.called_at.get(&node.id).copied();
            let is_due = before.is_none_or(|at| now >= at.plus_us(AGAIN_US));
            if is_due && Arc::strong_count(&self.under_way) <= UNDER_WAY_MAX {
                called_at.insert(node.id, now);
                self.start(node.bus_addr.to_string());
            } else {
                called_at.extend(before.map(|at| (node.id, at)));
            }
        }
        self.called_at = called_at;
    }

    fn start(&self, address: String) {
        let (from, door, under_way) = (self.from.clone(), self.door.clone(), Arc::clone(&self.under_way));
        start_task("a call to a member", async move {
            let called = match door.connect(&address).await {
                Ok(stream) => bus::send_away(stream, Some(from)).await.map_err(Into::into),
                Err(error) => Err(error),
            };
            if let Err(error) = called {
                tracing::debug!("the member at {address} cannot be called: {error}");
            }
            drop(under_way);
        });
    }
}
