//! One connection: its unsent requests, and its outstanding answers.

use crate::index::{ConnectionIndex, NodeIndex};
use crate::operation::{Operation, Place};
use sidle_resp::{ReplyLimits, ReplyParser, RequestWriter};
use sidle_types::{MigrationId, MonotonicUs};
use std::collections::VecDeque;

/// Names one connection; the one that replaces it when it is lost has another name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ConnectionId {
    pub(crate) index: ConnectionIndex,
    pub(crate) generation: u32,
}

impl ConnectionId {
    /// A small number, dense from 0, unique among present connections: an array index for a driver.
    #[inline]
    pub fn index(self) -> usize {
        self.index as usize
    }
}

/// The purpose of an outstanding answer. Answers arrive in the order of the requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Role {
    /// HELLO.
    Hello,
    /// CLIENT CAPA sidle.
    Capability,
    /// CLIENT CAPA sidle-given on a connection that is ready.
    Subscription,
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

/// An outstanding answer, or a request that waits for the connection.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Awaited {
    pub(crate) place: Place,
    pub(crate) attempt: u32,
    pub(crate) role: Role,
}

impl Awaited {
    /// One without an operation.
    const fn own(role: Role) -> Awaited {
        Awaited { place: 0, attempt: 0, role }
    }
}

/// The state of the connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Phase {
    /// There is none.
    Closed,
    /// The driver is to connect.
    Connecting { since: MonotonicUs },
    /// Connected; HELLO is in flight.
    Greeting { since: MonotonicUs },
    /// Takes requests.
    Ready,
}

/// One of the connections to a node. Its place outlasts it: after each loss it is reopened there.
#[derive(Debug)]
pub(crate) struct Connection {
    pub(crate) node: NodeIndex,
    pub(crate) phase: Phase,
    pub(crate) generation: u32,
    pub(crate) parser: ReplyParser,
    /// Requests that the driver has not taken yet.
    pub(crate) out: Vec<u8>,
    /// The last of `awaited` that belong to those.
    pub(crate) untaken: usize,
    pub(crate) awaited: VecDeque<Awaited>,
    /// Whether it is in the list of those with output.
    pub(crate) is_dirty: bool,
    /// Whether it is in its node's list of idle ones.
    pub(crate) is_listed: bool,
    pub(crate) received_at: MonotonicUs,
}

impl Connection {
    pub(crate) fn new(node: NodeIndex) -> Connection {
        Connection {
            node,
            phase: Phase::Closed,
            generation: 0,
            parser: ReplyParser::new(ReplyLimits::default()),
            out: Vec::new(),
            untaken: 0,
            awaited: VecDeque::new(),
            is_dirty: false,
            is_listed: false,
            received_at: MonotonicUs(0),
        }
    }

    /// Whether it takes requests and has no outstanding answer.
    #[inline]
    pub(crate) fn is_idle(&self) -> bool {
        self.is_ready() && self.awaited.is_empty()
    }

    #[inline]
    pub(crate) fn is_ready(&self) -> bool {
        self.phase == Phase::Ready
    }

    /// When the driver was asked to connect, or the node to greet, if that is not over.
    pub(crate) fn began(&self) -> Option<MonotonicUs> {
        match self.phase {
            Phase::Connecting { since } | Phase::Greeting { since } => Some(since),
            Phase::Closed | Phase::Ready => None,
        }
    }

    /// Clears the lost connection. Returns its outstanding answers, those of taken requests first, and how
    /// many those are.
    pub(crate) fn close(&mut self) -> (VecDeque<Awaited>, usize) {
        self.generation = self.generation.wrapping_add(1);
        self.phase = Phase::Closed;
        self.parser = ReplyParser::new(ReplyLimits::default());
        self.out.clear();
        let awaited = std::mem::take(&mut self.awaited);
        let taken = awaited.len() - std::mem::take(&mut self.untaken);
        (awaited, taken)
    }

    /// Appends one of the client's own requests.
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
