//! The two requests of a double read gather until the others of a round have their connections, and leave
//! with those.
//!
//! Sent like any other request, each half would take an idle connection, and with it a write and a read at
//! both ends, which cost more than all the rest of a small read. A busy client writes to both nodes in most
//! rounds anyway. So the halves are placed last, and go where something is written already. They go with
//! reads alone, and never behind what was written earlier: what a write waits for, or an earlier request,
//! should not delay a read of another key.

use crate::config::{WRITTEN_AMONG, WRITTEN_TOGETHER};
use crate::connection::{Awaited, Connection, Role};
use crate::core::Core;
use crate::index::{ConnectionIndex, NodeIndex};
use crate::operation::{Class, Place};
use sidle_types::MonotonicUs;

/// A request that leaves with others of its round.
#[derive(Debug)]
pub(crate) struct DeferredRequest {
    to: NodeIndex,
    awaited: Awaited,
    asked_at: MonotonicUs,
}

impl Core {
    /// Sends a request of the present attempt with others of this round.
    pub(crate) fn defer(&mut self, now: MonotonicUs, place: Place, to: NodeIndex, role: Role) {
        let awaited = Awaited { place, attempt: self.operations[place].attempt, role };
        self.deferred.push(DeferredRequest { to, awaited, asked_at: now });
    }

    /// Gives every request that has deferred its connection: one that reads are written to anyway, or else
    /// any.
    #[inline]
    pub(crate) fn place_deferred(&mut self) {
        if !self.deferred.is_empty() {
            self.place_all_deferred();
        }
    }

    fn place_all_deferred(&mut self) {
        let mut deferred = std::mem::take(&mut self.deferred);
        for DeferredRequest { to, awaited, asked_at } in deferred.drain(..) {
            if self.is_current(awaited) {
                let connection = self.written_to(to).or_else(|| self.choose(asked_at, to));
                self.write_or_park(asked_at, connection, to, awaited);
            }
        }
        self.deferred = deferred;
    }

    /// A connection to this node that a few reads are written to, with nothing before them.
    fn written_to(&self, to: NodeIndex) -> Option<ConnectionIndex> {
        let mut written = self.dirty.iter().rev().take(WRITTEN_AMONG);
        let found = written.find(|&&index| {
            let connection = &self.connections[index as usize];
            connection.node == to && self.takes_more_reads(connection)
        });
        found.copied()
    }

    fn takes_more_reads(&self, connection: &Connection) -> bool {
        let is_read = |awaited: &Awaited| {
            let is_own = !matches!(awaited.role, Role::Answer | Role::Source);
            !is_own && self.operations[awaited.place].class == Class::Get
        };
        connection.is_ready()
            && connection.untaken == connection.awaited.len()
            && (1..WRITTEN_TOGETHER).contains(&connection.untaken)
            && connection.awaited.iter().all(is_read)
    }
}
