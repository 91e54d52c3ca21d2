//! What happens in a model, and what a turn of a thread brings about.

use crate::links::Class;
use crate::processors::{PoolId, ThreadId};
use sidle_client_core::ConnectionId;
use sidle_cluster::ToCoordinator;
use sidle_node::{ControlInput, ControlReply, ControlRequest, Link, MoverCommand};
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
    /// At the operator: bytes over its only connection.
    Answer(Vec<u8>),
    /// At a mover: a lane that it asked for is open.
    Lane { migration: MigrationId, lane: Lane, link: Link },
    /// At a mover: a frame.
    Frame { link: Link, bytes: Vec<u8>, class: Class },
    /// At a control thread.
    Control(Box<ControlMail>),
}

/// What comes for a control thread.
#[derive(Debug)]
pub(crate) enum ControlMail {
    /// For the node's control.
    Input(ControlInput),
    /// From a worker: what a client asks over the connection with this number.
    Question { worker: ThreadId, connection: usize, request: ControlRequest },
    /// For the coordinator, whose seat is with this thread.
    ToCoordinator(ToCoordinator),
}

/// What a turn brings about when it is over.
#[derive(Debug)]
pub(crate) enum Output {
    /// Bytes leave for another thread; `bytes` as the link sees them.
    Send { to: ThreadId, arrival: Arrival, class: Class, bytes: u64 },
    /// Another thread of the same machine is woken.
    Wake(ThreadId),
    /// A worker is woken to take a new range table, and to tell when it has.
    AwaitTable(ThreadId),
    /// A thread wants to be woken then.
    WakeAt(ThreadId, u64),
    /// A thread tells its node's control thread.
    Tell(ControlMail),
    /// A control thread tells a mover.
    Command(ThreadId, MoverCommand),
    /// A control thread answers a question that came over a worker's connection with this number.
    Answer { worker: ThreadId, connection: usize, reply: ControlReply },
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
