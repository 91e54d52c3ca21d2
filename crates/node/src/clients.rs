//! The list of connected clients, for CLIENT LIST and INFO.
//!
//! A worker touches only its own connections' records; the list's lock is taken when a client comes, goes or asks
//! for the list.

use crate::table::CommandId;
use sidle_types::WallMs;
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU16, AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// What others may learn of a connection.
#[derive(Debug)]
pub struct ClientRecord {
    /// Never given twice by a node.
    pub id: u64,
    /// The client's address.
    pub address: String,
    /// The node's address that it connected to.
    pub local_address: String,
    /// When it connected.
    pub connected_at: WallMs,
    last_active_ms: AtomicU64,
    last_command: AtomicU16,
    details: Mutex<ClientDetails>,
}

/// What a client says of itself.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ClientDetails {
    /// CLIENT SETNAME.
    pub name: String,
    /// CLIENT SETINFO LIB-NAME.
    pub library: String,
    /// CLIENT SETINFO LIB-VER.
    pub library_version: String,
    /// Whether it speaks RESP3.
    pub resp3: bool,
    /// READONLY.
    pub readonly: bool,
    /// CLIENT NO-EVICT.
    pub no_evict: bool,
    /// CLIENT NO-TOUCH.
    pub no_touch: bool,
}

impl ClientRecord {
    fn new(id: u64, address: String, local_address: String, now: WallMs) -> ClientRecord {
        ClientRecord {
            id,
            address,
            local_address,
            connected_at: now,
            last_active_ms: AtomicU64::new(now.0),
            last_command: AtomicU16::new(u16::MAX),
            details: Mutex::default(),
        }
    }

    /// Notes that the client sent a command.
    #[inline]
    pub fn touch(&self, now: WallMs, command: CommandId) {
        self.last_active_ms.store(now.0, Relaxed);
        self.last_command.store(command.0, Relaxed);
    }

    /// When the client last sent a command.
    pub fn last_active(&self) -> WallMs {
        WallMs(self.last_active_ms.load(Relaxed))
    }

    /// The last command that it sent.
    pub fn last_command(&self) -> Option<CommandId> {
        match self.last_command.load(Relaxed) {
            u16::MAX => None,
            id => Some(CommandId(id)),
        }
    }

    /// What the client said of itself; to be held for a moment only.
    pub fn details(&self) -> MutexGuard<'_, ClientDetails> {
        // A panic cannot leave the details half-written: every change is one assignment.
        self.details.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// All connections of a node.
#[derive(Debug, Default)]
pub struct Clients {
    next_id: AtomicU64,
    connected: Mutex<BTreeMap<u64, Arc<ClientRecord>>>,
}

impl Clients {
    /// Enters a connection, until the registration is dropped.
    pub fn register(self: &Arc<Self>, address: String, local_address: String, now: WallMs) -> Registration {
        let id = self.next_id.fetch_add(1, Relaxed) + 1;
        let record = Arc::new(ClientRecord::new(id, address, local_address, now));
        self.connected().insert(record.id, Arc::clone(&record));
        Registration { record, clients: Arc::clone(self) }
    }

    /// A connection of another node of the cluster, which is no client: in no list, and not counted.
    pub fn unlisted(self: &Arc<Self>, address: String, now: WallMs) -> Registration {
        let record = Arc::new(ClientRecord::new(0, address, String::new(), now));
        Registration { record, clients: Arc::clone(self) }
    }

    /// Every connection, by id.
    pub fn list(&self) -> Vec<Arc<ClientRecord>> {
        self.connected().values().cloned().collect()
    }

    /// How many connections there are.
    pub fn len(&self) -> usize {
        self.connected().len()
    }

    /// Whether nobody is connected.
    pub fn is_empty(&self) -> bool {
        self.connected().is_empty()
    }

    /// How many connections there ever were.
    pub fn total(&self) -> u64 {
        self.next_id.load(Relaxed)
    }

    fn connected(&self) -> MutexGuard<'_, BTreeMap<u64, Arc<ClientRecord>>> {
        self.connected.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A connection's place in the list; leaves it on drop.
#[derive(Debug)]
pub struct Registration {
    record: Arc<ClientRecord>,
    clients: Arc<Clients>,
}

impl std::ops::Deref for Registration {
    type Target = ClientRecord;

    fn deref(&self) -> &ClientRecord {
        &self.record
    }
}

impl Drop for Registration {
    fn drop(&mut self) {
        self.clients.connected().remove(&self.record.id);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn register_lists_until_dropped() {
        let clients = Arc::new(Clients::default());
        let first = clients.register("a:1".into(), "b:2".into(), WallMs(5));
        let second = clients.register("a:3".into(), "b:2".into(), WallMs(6));
        assert_eq!(clients.list().iter().map(|client| client.id).collect::<Vec<_>>(), [1, 2]);
        drop(first);
        assert_eq!(clients.len(), 1);
        assert_eq!(clients.total(), 2);
        drop(second);
        assert!(clients.is_empty());
        let third = clients.register("a:4".into(), "b:2".into(), WallMs(7));
        drop(clients.unlisted("node:1".into(), WallMs(8)));
        assert_eq!(
            (clients.len(), clients.total()),
            (1, 3),
            "nodes are no clients, and take none out of the list"
        );
        drop(third);
    }
}
