//! Connections that wait for something other than their socket.

use sidle_node::Ticket;
use std::collections::BTreeMap;
use std::task::Waker;

/// A connection's number, as in CLIENT ID.
pub(super) type ConnectionId = u64;

/// The wakers of a worker's waiting connections. At most four entries a connection.
#[derive(Debug, Default)]
pub(super) struct Waits {
    parked: BTreeMap<Ticket, Waker>,
    /// The connections that get a push when the range table changes.
    aware: BTreeMap<ConnectionId, Waker>,
    /// Those of them, or others, that get a push when cuts gave something.
    subscribed: BTreeMap<ConnectionId, Waker>,
    /// The connections that are shown every command of the node.
    monitors: BTreeMap<ConnectionId, Waker>,
}

impl Waits {
    /// Records who runs a parked command.
    pub(super) fn park(&mut self, ticket: Ticket, waker: Waker) {
        self.parked.insert(ticket, waker);
    }

    /// Whether the ticket has not been woken yet.
    pub(super) fn is_parked(&self, ticket: Ticket) -> bool {
        self.parked.contains_key(&ticket)
    }

    /// Has a connection woken with the ticket; false if that was woken already: its command goes on.
    pub(super) fn is_woken_later(&mut self, ticket: Ticket, waker: &Waker) -> bool {
        let parked = self.parked.get_mut(&ticket);
        parked.map(|parked| *parked = waker.clone()).is_some()
    }

    /// Forgets a ticket.
    pub(super) fn unpark(&mut self, ticket: Ticket) {
        self.parked.remove(&ticket);
    }

    /// Lets a parked command run again.
    pub(super) fn wake(&mut self, ticket: Ticket) {
        if let Some(waker) = self.parked.remove(&ticket) {
            waker.wake();
        }
    }

    /// Records a connection that gets pushes.
    pub(super) fn add_aware(&mut self, connection: ConnectionId, waker: Waker) {
        self.aware.insert(connection, waker);
    }

    /// Records a connection that gets pushes of what cuts gave.
    pub(super) fn add_subscribed(&mut self, connection: ConnectionId, waker: Waker) {
        self.subscribed.insert(connection, waker);
    }

    /// Forgets a connection that got such pushes.
    pub(super) fn remove_subscribed(&mut self, connection: ConnectionId) {
        self.subscribed.remove(&connection);
    }

    /// Gives every connection with such pushes its turn.
    pub(super) fn wake_subscribed(&self) {
        self.subscribed.values().for_each(Waker::wake_by_ref);
    }

    /// Records a connection that is shown every command.
    pub(super) fn add_monitor(&mut self, connection: ConnectionId, waker: Waker) {
        self.monitors.insert(connection, waker);
    }

    /// Forgets a connection that was shown every command.
    pub(super) fn remove_monitor(&mut self, connection: ConnectionId) {
        self.monitors.remove(&connection);
    }

    /// Gives every connection that is shown commands its turn.
    pub(super) fn wake_monitors(&self) {
        self.monitors.values().for_each(Waker::wake_by_ref);
    }

    /// Forgets a connection.
    pub(super) fn remove_aware(&mut self, connection: ConnectionId) {
        self.aware.remove(&connection);
    }

    /// Gives every connection with pushes its turn.
    pub(super) fn wake_aware(&self) {
        self.aware.values().for_each(Waker::wake_by_ref);
    }
}
