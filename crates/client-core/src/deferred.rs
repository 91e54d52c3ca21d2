//! The two requests of a double read wait until the others of a round have their connections, and leave with
//! those.
//!
//! Sent like other requests, each half would take an idle connection, and with it a write and a read at both
//! ends. Those cost more than all the rest of a small read. A busy client writes to both nodes in most rounds
//! anyway. So the halves are placed last, and go where something is already written. They join reads only,
//! and never earlier output: a write's wait, or an earlier request's, should not delay a read of another key.

use crate::config::{WRITTEN_AMONG, WRITTEN_TOGETHER};
use crate::connection::{Awaited, Connection, Role};
use crate::index::{ConnectionIndex, NodeIndex};
use crate::links::Links;
use crate::operation::{Class, Operations};
use sidle_types::MonotonicUs;

/// A request that leaves with others of its round.
#[derive(Debug)]
pub(crate) struct DeferredRequest {
    pub(crate) to: NodeIndex,
    pub(crate) awaited: Awaited,
    pub(crate) asked_at: MonotonicUs,
}

impl DeferredRequest {
    /// Its connection: one with a few reads and nothing before them; else any that is ready.
    pub(crate) fn connection(&self, links: &mut Links, operations: &Operations) -> Option<ConnectionIndex> {
        let mut written = links.dirty.iter().rev().take(WRITTEN_AMONG);
        let found = written.find(|&&index| {
            let connection = &links.connections[index as usize];
            connection.node == self.to && takes_more_reads(connection, operations)
        });
        found.copied().or_else(|| links.choose(self.asked_at, self.to))
    }
}

fn takes_more_reads(connection: &Connection, operations: &Operations) -> bool {
    let is_read = |awaited: &Awaited| {
        let is_own = !matches!(awaited.role, Role::Answer | Role::Source);
        !is_own && operations[awaited.place].class == Class::Get
    };
    connection.is_ready()
        && connection.untaken == connection.awaited.len()
        && (1..WRITTEN_TOGETHER).contains(&connection.untaken)
        && connection.awaited.iter().all(is_read)
}
