//! One node and the one connection to it.

use crate::operation::{Operation, Place};
use sidle_cluster::HostPort;
use sidle_resp::{ReplyLimits, ReplyParser, RequestWriter};
use sidle_types::{MigrationId, MonotonicUs};
use std::collections::VecDeque;

/// A node's index among those that the client knows; it stays as long as the client.
pub(crate) type NodeIndex = u16;

/// Names one connection to one node; a node's next connection has another name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ConnectionId {
    pub(crate) node: NodeIndex,
    pub(crate) life: u32,
}

impl ConnectionId {
    /// The node's number, small and the same for all connections to it: an array index for a driver, since there is one
    /// connection to a node at a time.
    pub fn node(self) -> usize {
        usize::from(self.node)
    }
}

/// What an answer that a connection owes is for. Answers come in the order of the requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Role {
    /// HELLO.
    Hello,
    /// CLIENT CAPA sidle.
    Capability,
    /// SIDLE.MAP or CLUSTER SLOTS.
    Map,
    /// ASKING, before a redirected request.
    Asking,
    /// An operation's request to the owner.
    Answer,
    /// The same, to be sent with ASKING before it.
    AskedAnswer,
    /// A double read's request to the source.
    Source,
}

/// An answer that a connection owes, or a request that waits for the connection.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Awaited {
    pub(crate) place: Place,
    pub(crate) attempt: u32,
    pub(crate) role: Role,
}

impl Awaited {
    /// One that belongs to no operation.
    const fn own(role: Role) -> Awaited {
        Awaited { place: 0, attempt: 0, role }
    }
}

/// How far the connection has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Phase {
    /// Nobody wanted one yet.
    Idle,
    /// The last one failed; the next may be tried from then on.
    Resting { until: MonotonicUs },
    /// The driver was asked to connect.
    Connecting { since: MonotonicUs },
    /// Connected; HELLO is under way.
    Greeting { since: MonotonicUs },
    /// Takes requests.
    Ready,
}

/// One node and the one connection to it.
#[derive(Debug)]
pub(crate) struct Node {
    pub(crate) address: HostPort,
    pub(crate) phase: Phase,
    pub(crate) life: u32,
    /// Connections that failed since the last that got ready.
    pub(crate) failures: u32,
    pub(crate) parser: ReplyParser,
    /// Requests that the driver has not taken yet.
    pub(crate) out: Vec<u8>,
    /// How many of `awaited`, the last ones, belong to those.
    pub(crate) untaken: usize,
    pub(crate) awaited: VecDeque<Awaited>,
    /// Requests that wait for the connection to get ready.
    pub(crate) parked: Vec<Awaited>,
    /// Whether the node stands in the list of those with output.
    pub(crate) is_dirty: bool,
    pub(crate) heard_at: MonotonicUs,
}

impl Node {
    pub(crate) fn new(address: HostPort) -> Node {
        Node {
            address,
            phase: Phase::Idle,
            life: 0,
            failures: 0,
            parser: ReplyParser::new(ReplyLimits::default()),
            out: Vec::new(),
            untaken: 0,
            awaited: VecDeque::new(),
            parked: Vec::new(),
            is_dirty: false,
            heard_at: MonotonicUs(0),
        }
    }

    pub(crate) fn is_ready(&self) -> bool {
        self.phase == Phase::Ready
    }

    /// Appends a request of the client's own.
    pub(crate) fn write_own(&mut self, role: Role, args: &[&[u8]]) {
        RequestWriter::new(&mut self.out).request(args);
        self.await_answer(Awaited::own(role));
    }

    /// Appends an operation's request.
    #[inline]
    pub(crate) fn write(&mut self, operation: &Operation, awaited: Awaited) {
        let role = match awaited.role {
            Role::AskedAnswer => {
                self.write_own(Role::Asking, &[b"ASKING"]);
                Role::Answer
            }
            role => role,
        };
        self.out.extend_from_slice(&operation.request);
        self.await_answer(Awaited { role, ..awaited });
    }

    /// Appends a double read's request to the source.
    pub(crate) fn write_frozen_read(
        &mut self,
        operation: &Operation,
        migration: MigrationId,
        awaited: Awaited,
    ) {
        let key = &operation.request[operation.key.start as usize..operation.key.end as usize];
        let mut digits = [0; 20];
        let id = decimal(migration.0, &mut digits);
        RequestWriter::new(&mut self.out).request(&[b"SIDLE.FROZEN", id, b"GET", key]);
        self.await_answer(awaited);
    }

    #[inline]
    fn await_answer(&mut self, awaited: Awaited) {
        self.awaited.push_back(awaited);
        self.untaken += 1;
    }
}

fn decimal(mut number: u64, digits: &mut [u8; 20]) -> &[u8] {
    let mut at = digits.len();
    loop {
        at -= 1;
        digits[at] = b'0' + (number % 10) as u8;
        number /= 10;
        if number == 0 {
            return &digits[at..];
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn decimal_prints_every_length() {
        for number in [0, 7, 10, 12_345, u64::MAX] {
            assert_eq!(decimal(number, &mut [0; 20]), number.to_string().as_bytes());
        }
    }
}
