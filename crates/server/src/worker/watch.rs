//! All connections of a worker, watched from outside: those that must end are woken to do so.
//!
//! An idle connection is a future that nobody polls. Whatever must happen to it without its client
//! (its time is over, an operator closes it, memory is short) starts here.

use super::waits::ConnectionId;
use sidle_node::{ClientRecord, Clients, Ending};
use sidle_types::{MonotonicUs, WallMs};
use std::collections::BTreeMap;
use std::ops::Bound;
use std::sync::Arc;
use std::task::Waker;

/// Each tick checks one in this many connections, so that all of them are checked within a second or so.
const TICKS_A_ROUND: usize = 10;
/// At least this many are checked.
const LEAST_A_TICK: usize = 64;

/// A watched connection.
#[derive(Debug)]
struct Watched {
    record: Arc<ClientRecord>,
    waker: Waker,
}

/// The connections of one worker.
#[derive(Debug, Default)]
pub(super) struct Watch {
    connections: BTreeMap<ConnectionId, Watched>,
    /// The connections that owe something, with their deadlines.
    deadlines: BTreeMap<ConnectionId, MonotonicUs>,
    /// The connection checked last.
    last_seen: ConnectionId,
}

impl Watch {
    /// Enters a connection.
    pub(super) fn enter(&mut self, connection: ConnectionId, record: Arc<ClientRecord>, waker: Waker) {
        self.connections.insert(connection, Watched { record, waker });
    }

    /// Forgets a connection.
    pub(super) fn leave(&mut self, connection: ConnectionId) {
        self.connections.remove(&connection);
        self.deadlines.remove(&connection);
    }

    /// Sets a connection's deadline for what it owes; `None`: it owes nothing.
    pub(super) fn set_deadline(&mut self, connection: ConnectionId, deadline: Option<MonotonicUs>) {
        match deadline {
            Some(deadline) => self.deadlines.insert(connection, deadline),
            None => self.deadlines.remove(&connection),
        };
    }

    /// Wakes the connections that are to end.
    pub(super) fn wake_ending(&self) {
        let ending = self.connections.values().filter(|watched| watched.record.ending().is_some());
        ending.for_each(|watched| watched.waker.wake_by_ref());
    }

    /// Call it a few times a second: marks those to end whose time is over, and some of those that were
    /// silent for too long. They are woken with the next [`wake_ending`](Self::wake_ending).
    pub(super) fn tick(
        &mut self,
        clients: &Clients,
        now: MonotonicUs,
        wall: WallMs,
        idle_seconds: Option<u64>,
    ) {
        for (connection, _) in self.deadlines.iter().filter(|(_, deadline)| **deadline <= now) {
            if let Some(watched) = self.connections.get(connection) {
                clients.end(&watched.record, Ending::Overdue);
            }
        }
        let Some(idle_seconds) = idle_seconds else { return };
        let count = (self.connections.len() / TICKS_A_ROUND).max(LEAST_A_TICK);
        let behind = (Bound::Excluded(self.last_seen), Bound::Unbounded);
        let mut last_seen = 0;
        for (index, (connection, watched)) in self.connections.range(behind).enumerate() {
            if index == count {
                break;
            }
            last_seen = *connection;
            let silent_ms = wall.0.saturating_sub(watched.record.last_active().0);
            if silent_ms > idle_seconds * 1000 {
                clients.end(&watched.record, Ending::Idle);
            }
        }
        // 0, which is no connection's number, once the round is over.
        self.last_seen = if last_seen == self.connections.keys().next_back().copied().unwrap_or(0) {
            0
        } else {
            last_seen
        };
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use sidle_node::Registration;

    fn watched(clients: &Arc<Clients>, watch: &mut Watch, count: usize) -> Vec<Registration> {
        let enter = |_| {
            let client = clients.register("a:1".into(), "b:2".into(), WallMs(1_000));
            watch.enter(client.id, client.record(), Waker::noop().clone());
            client
        };
        (0..count).map(enter).collect()
    }

    #[test]
    fn tick_ends_the_overdue_and_no_others() {
        let (clients, mut watch) = (Arc::new(Clients::default()), Watch::default());
        let held = watched(&clients, &mut watch, 3);
        watch.set_deadline(held[0].id, Some(MonotonicUs(50)));
        watch.set_deadline(held[1].id, Some(MonotonicUs(50)));
        watch.set_deadline(held[1].id, None);
        watch.set_deadline(held[2].id, Some(MonotonicUs(51)));
        watch.tick(&clients, MonotonicUs(50), WallMs(1_000), None);
        let endings: Vec<_> = held.iter().map(|client| client.ending()).collect();
        assert_eq!(endings, [Some(Ending::Overdue), None, None]);
        watch.leave(held[2].id);
        watch.tick(&clients, MonotonicUs(100), WallMs(1_000), None);
        assert_eq!(held[2].ending(), None);
    }

    #[test]
    fn ticks_come_round_to_every_silent_connection() {
        let (clients, mut watch) = (Arc::new(Clients::default()), Watch::default());
        let held = watched(&clients, &mut watch, 1_000);
        held[500].seen(WallMs(9_000));
        let ended = |held: &[Registration]| held.iter().filter(|client| client.ending().is_some()).count();
        watch.tick(&clients, MonotonicUs(0), WallMs(11_000), Some(10));
        assert_eq!(ended(&held), 0, "ten seconds are not more than ten seconds");
        for tick in 1..=TICKS_A_ROUND {
            watch.tick(&clients, MonotonicUs(0), WallMs(11_001), Some(10));
            let most = (tick + 1) * 100;
            assert!(ended(&held) <= most, "{} after {tick} ticks", ended(&held));
        }
        watch.tick(&clients, MonotonicUs(0), WallMs(11_001), Some(10));
        assert_eq!(ended(&held), 999);
        assert_eq!(held[500].ending(), None);
    }
}
