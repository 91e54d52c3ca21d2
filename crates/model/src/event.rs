//! Events of a model, and the outputs of a thread's turn.

use crate::links::Class;
use crate::processors::{PoolId, ThreadId};
use sidle_client_core::ConnectionId;
use sidle_cluster::ToCoordinator;
use sidle_node::{ControlInput, ControlReply, ControlRequest, Link, MoverCommand};
use sidle_types::MigrationId;
use sidle_wire::Lane;

#[derive(Debug)]
pub(crate) enum Event {
    /// A thread's turn is over.
    Done(ThreadId),
    /// A group's quota gives it processor time again, on these cores.
    Release(PoolId),
    /// The alarm of a thread is due.
    Wake(ThreadId),
    /// A message arrived for a thread.
    Arrival { to: ThreadId, from: ThreadId, arrival: Arrival },
    /// The course of the load continues.
    Tick,
}

/// A message for a thread.
#[derive(Debug)]
pub(crate) enum Arrival {
    /// At a worker: a client connects; `connection` is the client's number.
    Client { client: ThreadId, connection: ConnectionId },
    /// At a worker: bytes over the connection with this number.
    Requests { connection: usize, bytes: Vec<u8> },
    /// At a client: the connection to this worker is open; `number` is the worker's number for it.
    Connected { connection: ConnectionId, worker: ThreadId, number: usize },
    /// At a client: bytes over a connection.
    Replies { connection: ConnectionId, bytes: Vec<u8> },
    /// At the operator: bytes over its only connection.
    Answer(Vec<u8>),
    /// At a mover: a lane that it requested is open.
    Lane { migration: MigrationId, lane: Lane, link: Link },
    /// At a mover: a frame.
    Frame { link: Link, bytes: Vec<u8>, class: Class },
    /// At a control thread.
    Control(Box<ControlMail>),
}

/// Input of a control thread.
#[derive(Debug)]
pub(crate) enum ControlMail {
    /// For the node's control.
    Input(ControlInput),
    /// From a worker: a client's request over the connection with this number.
    Question { worker: ThreadId, connection: usize, request: ControlRequest },
    /// For the coordinator in this thread.
    ToCoordinator(ToCoordinator),
}

/// An output of a turn, effective at its end.
#[derive(Debug)]
pub(crate) enum Output {
    /// Bytes leave for another thread; `bytes` is their size on the link.
    Send { to: ThreadId, arrival: Arrival, class: Class, bytes: u64 },
    /// Another thread of the same machine is woken.
    Wake(ThreadId),
    /// Wakes a worker to take a new range table and notify when it has.
    AwaitTable(ThreadId),
    /// A thread sets its alarm.
    WakeAt(ThreadId, u64),
    /// A thread notifies its node's control thread.
    Notify(ControlMail),
    /// A control thread commands a mover.
    Command(ThreadId, MoverCommand),
    /// A control thread replies to a request from a worker's connection with this number.
    Answer { worker: ThreadId, connection: usize, reply: ControlReply },
}

/// The cost and the outputs of a turn.
#[derive(Debug, Default)]
pub(crate) struct Turn {
    /// Processor time.
    pub(crate) cost_ns: u64,
    /// Outputs at its end.
    pub(crate) outputs: Vec<Output>,
    /// Whether the thread has more work at once.
    pub(crate) has_more: bool,
}

impl Turn {
    /// Sends a small message.
    pub(crate) fn send(&mut self, to: ThreadId, arrival: Arrival, bytes: usize) {
        self.outputs.push(Output::Send { to, arrival, class: Class::Small, bytes: bytes as u64 });
    }
}
