//! What happens in a model, and what a turn of a thread brings about.

use crate::links::Class;
use crate::processors::{PoolId, ThreadId};
use sidle_client_core::ConnectionId;
use sidle_cluster::{ToCoordinator, ToNode};
use sidle_node::{Link, MoverReport};
use sidle_types::MigrationId;
use sidle_wire::Lane;

/// Something that happens.
#[derive(Debug)]
pub(crate) enum Event {
    /// A thread's turn is over.
    Done(ThreadId),
    /// A group's quota gives it processor time again, on these cores.
    Release(PoolId),
    /// A thread wanted to be woken now.
    Wake(ThreadId),
    /// Something arrived for a thread.
    Arrival { to: ThreadId, from: ThreadId, arrival: Arrival },
    /// A node's control hears its coordinator.
    ToNode(usize, ToNode),
    /// The coordinator hears a node.
    ToCoordinator(ToCoordinator),
    /// A node's control has to do something now.
    Control(usize),
    /// The coordinator has to do something now.
    Coordinator,
    /// The course of the load goes on.
    Tick,
}

/// What arrives for a thread.
#[derive(Debug)]
pub(crate) enum Arrival {
    /// At a worker: a client connects; `connection` is the client's name for it.
    Client { client: ThreadId, connection: ConnectionId },
    /// At a worker: bytes over the connection with this number.
    Requests { connection: usize, bytes: Vec<u8> },
    /// At a client: the connection stands, to this worker, which calls it by this number.
    Connected { connection: ConnectionId, worker: ThreadId, number: usize },
    /// At a client: bytes over a connection.
    Replies { connection: ConnectionId, bytes: Vec<u8> },
    /// At a mover: a lane that it asked for is open.
    Lane { migration: MigrationId, lane: Lane, link: Link },
    /// At a mover: a frame.
    Frame { link: Link, bytes: Vec<u8>, class: Class },
}

/// What a turn brings about when it is over.
#[derive(Debug)]
pub(crate) enum Output {
    /// Bytes leave for another thread; `bytes` as the link sees them.
    Send { to: ThreadId, arrival: Arrival, class: Class, bytes: u64 },
    /// Another thread of the same machine is woken.
    Wake(ThreadId),
    /// A thread wants to be woken then.
    WakeAt(ThreadId, u64),
    /// A mover tells its node's control.
    Report(MigrationId, MoverReport),
    /// A worker took the new range table.
    TableTaken,
}

/// What a turn took and brought.
#[derive(Debug, Default)]
pub(crate) struct Turn {
    /// Processor time.
    pub(crate) cost_ns: u64,
    /// What leaves when it is over.
    pub(crate) outputs: Vec<Output>,
    /// Whether the thread has something to do at once.
    pub(crate) has_more: bool,
}

impl Turn {
    /// Sends something small.
    pub(crate) fn send(&mut self, to: ThreadId, arrival: Arrival, bytes: usize) {
        self.outputs.push(Output::Send { to, arrival, class: Class::Small, bytes: bytes as u64 });
    }
}
